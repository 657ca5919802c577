//! Reads results in every form that has one meaning: servers write one block for a list, a number for a text, or their
//! data without an envelope.

use rmcp::model::{CustomResult, ServerResult};
use serde_json::{Map, Value, json};

use crate::{Block, ToolAnswer};
use base::effect::Effect;

/// A result as JSON.
pub(super) fn value_of(answer: ServerResult) -> Value {
    match answer {
        ServerResult::CustomResult(CustomResult(result)) => result,
        other => serde_json::to_value(&other).unwrap_or_default(),
    }
}

/// A tool's answer. `null` as its structured content is a value only where the revision `has_null`.
pub(super) fn tool(result: Value, has_null: bool) -> ToolAnswer {
    let mut result = match result {
        Value::Object(result) => result,
        Value::String(_) => return ToolAnswer { content: blocks(result, &mut None), ..ToolAnswer::default() },
        data => return ToolAnswer { structured: Some(data).filter(|data| !data.is_null()), ..ToolAnswer::default() },
    };
    let is_error = result.shift_remove("isError").unwrap_or_default();
    let meta = result.shift_remove("_meta").and_then(meta);
    let mut structured = result.shift_remove("structuredContent").filter(|value| has_null || !value.is_null());
    let content = match (result.shift_remove("content"), result.shift_remove("toolResult")) {
        (Some(content), _) => blocks(content, &mut structured),
        // SDKs of 2024 put the result into a field.
        (None, Some(inner)) => {
            let answer = tool(inner, has_null);
            return ToolAnswer { failed: answer.failed.or_else(|| failed(&is_error, &answer)), ..answer };
        }
        (None, None) => {
            _ = result.shift_remove("resultType");
            if structured.is_none() && !result.is_empty() {
                structured = Some(Value::Object(result));
            }
            Vec::new()
        }
    };
    let answer = ToolAnswer { content, structured, meta, ..ToolAnswer::default() };
    ToolAnswer { failed: failed(&is_error, &answer), ..answer }
}

/// Metadata of an answer without what one hop tells the next.
fn meta(meta: Value) -> Option<Value> {
    let Value::Object(mut meta) = meta else { return None };
    meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
    (!meta.is_empty()).then_some(Value::Object(meta))
}

/// The effect of a call that failed, by the `isError` of its answer.
fn failed(is_error: &Value, answer: &ToolAnswer) -> Option<Effect> {
    let word = is_error.as_str().map(|word| word.trim().to_ascii_lowercase());
    match (is_error, word.as_deref()) {
        (Value::Null | Value::Bool(false), _) | (_, Some("" | "0" | "false" | "no")) => None,
        (Value::Bool(true), _) | (_, Some("true")) => Some(Effect::of_tool_error(&said(answer))),
        (Value::Number(number), _) if number.as_f64() == Some(0.0) => None,
        // It failed, but not in the words of the protocol: they prove nothing.
        _ => Some(Effect::Unknown),
    }
}

/// Everything that an answer says of an error, wherever it stands.
pub(super) fn said(answer: &ToolAnswer) -> String {
    let structured = answer.structured.iter().map(Value::to_string);
    let blocks = answer.content.iter().map(|block| match block {
        Block::Text(text) => text.clone(),
        Block::Other(value) | Block::Unknown(value) => {
            value.pointer("/resource/text").cloned().map_or_else(String::new, text)
        }
    });
    blocks.chain(structured).collect()
}

/// Content as a list, as one block, or as plain data, which is the structured content if there is no other.
fn blocks(content: Value, structured: &mut Option<Value>) -> Vec<Block> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(items) => items.into_iter().filter(|item| !item.is_null()).map(block).collect(),
        Value::Object(data) if structured.is_none() && !data.contains_key("type") && !data.contains_key("text") => {
            *structured = Some(Value::Object(data));
            Vec::new()
        }
        one => vec![block(one)],
    }
}

/// One block. What no revision knows stays as it is.
fn block(value: Value) -> Block {
    let mut block = match value {
        Value::Object(block) => block,
        other => return Block::Text(text(other)),
    };
    let is_text = |key: &str| block.get(key).is_some_and(Value::is_string);
    // A field that is filled where it lacks.
    let (key, value): (_, Value) = match block.get("type").and_then(Value::as_str) {
        Some("text") | None if block.contains_key("text") => return Block::Text(text(block["text"].take())),
        Some("image" | "audio") if is_text("data") => ("mimeType", "application/octet-stream".into()),
        Some("resource_link") if is_text("uri") => ("name", block["uri"].clone()),
        Some("resource") if block.get("resource").is_some_and(|resource| resource["uri"].is_string()) => {
            block["resource"] = contents(block["resource"].take(), "");
            return Block::Other(Value::Object(block));
        }
        _ => return Block::Unknown(Value::Object(block)),
    };
    if !is_text(key) {
        block.insert(key.to_owned(), value);
    }
    Block::Other(Value::Object(block))
}

/// The contents of a resource: text or binary data, at `uri` unless they say another one.
fn contents(value: Value, uri: &str) -> Value {
    let is_text = |key: &str| value.get(key).is_some_and(Value::is_string);
    let (has_uri, has_data) = (is_text("uri"), is_text("text") || is_text("blob"));
    let said = (!has_data).then(|| text(value.get("text").unwrap_or(&value).clone()));
    let mut contents = if let Value::Object(contents) = value { contents } else { Map::new() };
    contents.extend(said.map(|said| ("text".to_owned(), said.into())));
    if !has_uri {
        contents.insert("uri".to_owned(), uri.into());
    }
    Value::Object(contents)
}

fn text(value: Value) -> String {
    if let Value::String(text) = value { text } else { value.to_string() }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        one => vec![one],
    }
}

/// The contents of the resource `uri`; without any, the result as it came.
pub(super) fn resource(mut result: Value, uri: &str) -> Result<Value, Value> {
    let Some(all) = taken(&mut result, "contents") else { return Err(result) };
    result["contents"] = list(all).into_iter().map(|one| contents(one, uri)).collect();
    Ok(result)
}

/// The messages of a prompt, each of one block; without any, the result as it came.
pub(super) fn prompt(mut result: Value) -> Result<Value, Value> {
    let Some(messages) = taken(&mut result, "messages") else { return Err(result) };
    let whole = |message: Value| {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
        let content = message.get("content").cloned().unwrap_or(message);
        let as_message = move |content| {
            let content = match block(content) {
                Block::Text(text) => json!({ "type": "text", "text": text }),
                Block::Other(value) => value,
                Block::Unknown(value) => json!({ "type": "text", "text": value.to_string() }),
            };
            json!({ "role": role, "content": content })
        };
        list(content).into_iter().map(as_message)
    };
    result["messages"] = list(messages).into_iter().flat_map(whole).collect();
    Ok(result)
}

fn taken(value: &mut Value, key: &str) -> Option<Value> {
    value.get_mut(key).filter(|value| !value.is_null()).map(Value::take)
}

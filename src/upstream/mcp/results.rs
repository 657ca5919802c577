//! Reads results in every form that has one meaning: servers write one block for a list, a number for a text, or their
//! data without an envelope.

use serde_json::{Map, Value, json};

use crate::effect::Effect;
use crate::upstream::{Block, ToolAnswer};

/// A tool's answer. `null` as its structured content is a value only where the revision `has_null`.
pub(super) fn tool(result: Value, has_null: bool) -> ToolAnswer {
    let mut result = match result {
        Value::Object(result) => result,
        Value::String(_) => return ToolAnswer { content: blocks(result, &mut None), ..ToolAnswer::default() },
        data => return ToolAnswer { structured: Some(data).filter(|data| !data.is_null()), ..ToolAnswer::default() },
    };
    let is_error = result.shift_remove("isError").unwrap_or_default();
    let mut structured = result.shift_remove("structuredContent").filter(|value| has_null || !value.is_null());
    let content = match result.shift_remove("content") {
        Some(content) => blocks(content, &mut structured),
        None => {
            ["resultType", "_meta"].iter().for_each(|key| _ = result.shift_remove(*key));
            if structured.is_none() && !result.is_empty() {
                structured = Some(Value::Object(result));
            }
            Vec::new()
        }
    };
    let mut answer = ToolAnswer { content, structured, ..ToolAnswer::default() };
    answer.failed = match &is_error {
        Value::Bool(true) => Some(Effect::of_tool_error(&said(&answer))),
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if ["", "0", "false", "no"].contains(&&*text.trim().to_ascii_lowercase()) => None,
        Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Some(Effect::of_tool_error(&said(&answer))),
        Value::Number(number) if number.as_f64() == Some(0.0) => None,
        // It failed, but not in the words of the protocol: they prove nothing.
        _ => Some(Effect::Unknown),
    };
    answer
}

/// Everything that an answer says of an error, wherever it stands.
pub(super) fn said(answer: &ToolAnswer) -> String {
    let structured = answer.structured.iter().map(Value::to_string);
    let blocks = answer.content.iter().map(|block| match block {
        Block::Text(text) => text.clone(),
        Block::Other(value) | Block::Unknown(value) => value.pointer("/resource/text").map_or_else(String::new, text),
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
        other => return Block::Text(text(&other)),
    };
    let is_text = |block: &Map<String, Value>, key: &str| block.get(key).is_some_and(Value::is_string);
    let or_insert = |block: &mut Map<String, Value>, key: &str, value: Value| {
        if !is_text(block, key) {
            block.insert(key.to_owned(), value);
        }
    };
    match block.get("type").and_then(Value::as_str) {
        Some("text") | None if block.contains_key("text") => Block::Text(text(&block["text"])),
        Some("image" | "audio") if is_text(&block, "data") => {
            or_insert(&mut block, "mimeType", "application/octet-stream".into());
            Block::Other(Value::Object(block))
        }
        Some("resource_link") if is_text(&block, "uri") => {
            let name = block["uri"].clone();
            or_insert(&mut block, "name", name);
            Block::Other(Value::Object(block))
        }
        Some("resource") if block.get("resource").is_some_and(|resource| resource["uri"].is_string()) => {
            let is_whole = |key: &str| block["resource"][key].is_string();
            if !is_whole("text") && !is_whole("blob") {
                block["resource"]["text"] = text(&block["resource"]["text"]).into();
            }
            Block::Other(Value::Object(block))
        }
        _ => Block::Unknown(Value::Object(block)),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        one => vec![one],
    }
}

/// The contents of the resource `uri`; without any, the result as it came.
pub(super) fn resource(mut result: Value, uri: &str) -> Result<Value, Value> {
    let Some(contents) = taken(&mut result, "contents") else { return Err(result) };
    let whole = |content: Value| {
        let is_whole = |key: &str| content.get(key).is_some_and(Value::is_string);
        match (is_whole("uri"), is_whole("text") || is_whole("blob")) {
            (true, true) => content,
            (_, is_readable) => {
                let mut made = content.as_object().cloned().unwrap_or_default();
                if !is_readable {
                    made.insert("text".to_owned(), text(content.get("text").unwrap_or(&content)).into());
                }
                made.insert("uri".to_owned(), content.get("uri").and_then(Value::as_str).unwrap_or(uri).into());
                Value::Object(made)
            }
        }
    };
    result["contents"] = list(contents).into_iter().map(whole).collect();
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

//! Normalises servers' answers for scripts.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::attachments::{Attachments, base64_of, bytes_of};
use base::error::{Effect, Error, ErrorCode, Result};
use base::json;
use base::memory;
use base::text::head;
use config::Limits;
use redact::Surface;
use upstream::{Answer, Block, ToolAnswer};

/// Bytes that a text block counts for beside its text where the client gets it as a block.
const EACH: usize = 32;
/// Most characters of a tool's own error.
const MAX_ERROR: usize = 4000;

/// Source of an answer, and the store of its binary content.
pub(super) struct Origin<'a> {
    /// The server's identifier.
    pub(super) server: &'a str,
    /// The tool, for messages.
    pub(super) tool: &'a str,
    /// Limits on answers.
    pub(super) limits: &'a Limits,
    /// Content of the execution.
    pub(super) attachments: &'a Attachments,
    /// True if the answer is wanted as it came too.
    pub(super) is_whole: bool,
}

/// Normalises a tool's answer. `isError` raises. Structured content wins. A single text that is a JSON object or array
/// is parsed; any other text stays text. Other blocks become handles; several blocks become a list. Handles beside
/// structured content, which repeats only the texts, are under its key `_content`.
///
/// If it is wanted as it came too, the value is a pair with that: nothing of either passes redaction and hooks unseen.
///
/// Returns its size in bytes beside it.
pub(super) fn tool_answer(answer: ToolAnswer, origin: &Origin<'_>) -> (usize, Result<Value>) {
    let (bytes, fits) = size(&answer, origin);
    let effect = answer.failed.unwrap_or(Effect::Done);
    (bytes, fits.map_err(|error| error.with_effect(effect)).and_then(|()| value(answer, origin)))
}

/// Drops empty structured content beside a text: without an output schema it stands for none.
pub(super) fn without_empty(answer: &mut ToolAnswer) {
    if answer.content.iter().any(|block| matches!(block, Block::Text(text) if !text.is_empty())) {
        answer.structured.take_if(|value| value.as_object().is_some_and(Map::is_empty));
    }
}

fn value(answer: ToolAnswer, origin: &Origin<'_>) -> Result<Value> {
    let Origin { server, tool, attachments, .. } = *origin;
    if let Some(effect) = answer.failed {
        return Err(tool_error(tool, answer).with_effect(effect));
    }
    let ToolAnswer { content, structured, meta, .. } = answer;
    let mut whole = origin.is_whole.then(Vec::new);
    let mut values = Vec::new();
    for block in content {
        let value = match block {
            Block::Text(text) => {
                whole.iter_mut().for_each(|whole| whole.push(json!({ "type": "text", "text": text })));
                if structured.is_none() {
                    values.push(parsed(text));
                }
                continue;
            }
            Block::Other(block) => attachments.keep(server, block),
            Block::Unknown(block) => attachments.unknown(tool, block),
        };
        whole.iter_mut().for_each(|whole| whole.push(value.clone()));
        values.push(value);
    }
    let whole = whole.map(|content| as_it_came(content, structured.clone(), meta));
    let value = match (structured, values.len()) {
        (Some(structured), _) => beside(structured, values),
        (None, 0) => Value::Null,
        (None, 1) => values.swap_remove(0),
        (None, _) => Value::Array(values),
    };
    Ok(match whole {
        Some(whole) => Value::Array(vec![value, whole]),
        None => value,
    })
}

/// A result of `tools/call`, with handles in place of what is binary.
fn as_it_came(content: Vec<Value>, structured: Option<Value>, meta: Option<Value>) -> Value {
    let mut whole = Map::new();
    whole.insert("content".to_owned(), content.into());
    whole.extend(structured.map(|structured| ("structuredContent".to_owned(), structured)));
    whole.extend(meta.map(|meta| ("_meta".to_owned(), meta)));
    Value::Object(whole)
}

/// Adds the handles that came beside structured content.
fn beside(mut structured: Value, handles: Vec<Value>) -> Value {
    const KEY: &str = "_content";
    match &mut structured {
        _ if handles.is_empty() => structured,
        Value::Object(object) if !object.contains_key(KEY) => {
            object.insert(KEY.to_owned(), Value::Array(handles));
            structured
        }
        _ => json!({ "value": structured, KEY: handles }),
    }
}

/// Memory of the values made from texts of an answer.
pub(super) fn tree_bytes(answer: &Answer) -> usize {
    let Answer::Tool(answer) = answer else { return 0 };
    if answer.structured.is_some() || answer.failed.is_some() {
        return 0;
    }
    let texts = answer.content.iter().filter_map(|block| match block {
        Block::Text(text) if json::is_composed(text) => json::measure(text.as_bytes()).ok().map(|found| (text, found)),
        _ => None,
    });
    // Text that only looks like JSON stays text.
    let becomes_values = |text: &str, found: &json::Measure| {
        let is_small = found.tree_bytes <= memory::SMALL;
        is_small || (found.depth <= json::MAX_DEPTH && serde_json::from_str::<IgnoredAny>(text).is_ok())
    };
    let texts = texts.filter(|(text, found)| becomes_values(text, found));
    texts.map(|(_, found)| found.tree_bytes).sum()
}

/// A resource or prompt unchanged, and its size.
pub(super) fn raw_answer(value: Value, limits: &Limits) -> (usize, Result<Value>) {
    let size = json::written(&value);
    let fits = size <= limits.answer_bytes;
    (size, if fits { Ok(value) } else { Err(too_large("the answer", size, limits.answer_bytes)) })
}

/// A resource or prompt with handles in place of binary content.
pub(super) fn with_handles(mut value: Value, origin: &Origin<'_>) -> Result<Value> {
    for content in list(&mut value, "contents") {
        if content.get("blob").is_some() {
            let block = json!({ "type": "resource", "resource": content.take() });
            check_binary(&block, origin)?;
            let mut held = origin.attachments.keep(origin.server, block);
            *content = held.get_mut("resource").map(Value::take).unwrap_or_default();
            if let (Value::Object(content), Some(handle)) = (content, held.get("handle")) {
                content.insert("handle".to_owned(), handle.clone());
            }
        }
    }
    for content in list(&mut value, "messages").filter_map(|message| message.get_mut("content")) {
        if content.get("type").and_then(Value::as_str) != Some("text") {
            check_binary(content, origin)?;
            *content = origin.attachments.keep(origin.server, content.take());
        }
    }
    Ok(value)
}

fn list<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Size of an answer in bytes, checked against the limit.
fn size(answer: &ToolAnswer, origin: &Origin<'_>) -> (usize, Result<()>) {
    let Origin { tool, limits, .. } = *origin;
    let (mut text, mut media, mut fits) = (0, 0, Ok(()));
    for block in &answer.content {
        match block {
            Block::Text(content) => text += content.len() + if origin.is_whole { EACH } else { 0 },
            Block::Unknown(block) => text += json::written(block),
            Block::Other(block) => match binary(block) {
                Some((kind, bytes)) => {
                    media += bytes;
                    if bytes > limits.binary_bytes {
                        fits = Err(too_large(&format!("an {kind} of {tool}"), bytes, limits.binary_bytes));
                    }
                }
                None => text += json::written(block),
            },
        }
    }
    // Most servers repeat the content as text, so the structured form is measured only where it stands alone.
    if text == 0 {
        text = answer.structured.as_ref().map_or(0, json::written);
    } else if origin.is_whole {
        text = text.max(answer.structured.as_ref().map_or(0, json::written));
    }
    if origin.is_whole {
        text += answer.meta.as_ref().map_or(0, json::written);
    }
    if fits.is_ok() && text > limits.answer_bytes {
        fits = Err(too_large(&format!("the answer of {tool}"), text, limits.answer_bytes));
    }
    (text + media, fits)
}

fn check_binary(block: &Value, origin: &Origin<'_>) -> Result<()> {
    match binary(block) {
        Some((kind, bytes)) if bytes > origin.limits.binary_bytes => {
            Err(too_large(&format!("an {kind} of {}", origin.tool), bytes, origin.limits.binary_bytes))
        }
        _ => Ok(()),
    }
}

/// Kind and size of a block's binary content.
fn binary(block: &Value) -> Option<(&str, usize)> {
    let data = base64_of(block)?;
    let kind = block.get("type").and_then(Value::as_str).filter(|kind| *kind != "resource");
    Some((kind.unwrap_or("embedded resource"), bytes_of(data)))
}

fn too_large(what: &str, size: usize, limit: usize) -> Error {
    Error::new(ErrorCode::BudgetExceeded, format!("{what} has {size} bytes, over the limit of {limit}"))
        .hint("ask for less: a filter, a page size or fewer fields")
}

fn tool_error(tool: &str, answer: ToolAnswer) -> Error {
    let texts: Vec<String> = answer
        .content
        .into_iter()
        .map(|block| match block {
            Block::Text(text) => text,
            Block::Other(block) | Block::Unknown(block) => match (binary(&block), block.pointer("/resource/text")) {
                (Some((kind, bytes)), _) => format!("({kind}, {bytes} bytes)"),
                (None, Some(Value::String(text))) => text.clone(),
                (None, _) => block.to_string(),
            },
        })
        .collect();
    let mut said = texts.join("\n");
    if said.trim().is_empty()
        && let Some(structured) = &answer.structured
    {
        said = json::words(structured).map_or_else(|| structured.to_string(), str::to_owned);
    }
    // Redacted before the cut: half a secret would not be recognised.
    let said = redact::text(Surface::ToolError, said.trim());
    let cut = head(&said, MAX_ERROR);
    let message = match cut {
        "" => format!("{tool} failed without saying why"),
        cut => format!("{tool}: {cut}"),
    };
    let mut error = Error::new(ErrorCode::ToolError, message);
    (error.hint, error.data) = (answer.refusal, answer.structured.map(Box::new));
    error
}

/// Parses JSON objects and arrays. Numbers, booleans and quoted strings stay text: `"007"` or `"1e5"` would silently
/// change their meaning. So does JSON with keys that would be interpreted.
fn parsed(text: String) -> Value {
    if !json::is_composed(&text) {
        return Value::String(text);
    }
    match json::parse(text.as_bytes(), usize::MAX) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text),
    }
}

//! The answers of servers, in the form that scripts work with.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::config::Limits;
use crate::discovery::head;
use crate::error::{Error, ErrorCode, Result};
use crate::upstream::{Block, ToolAnswer};

/// Characters of a tool's own error that are passed on.
const MAX_ERROR: usize = 4000;

/// Binary content of one execution. Scripts hold handles (`{"type": "image", "handle": "blob:1", …}`); what is
/// still in the final value goes to the client as real content.
#[derive(Default)]
pub struct Attachments(Mutex<Vec<Attachment>>);

/// An image or a sound.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// `image` or `audio`.
    pub kind: &'static str,
    /// Media type.
    pub mime_type: String,
    /// Base64.
    pub data: String,
}

impl Attachments {
    fn add(&self, attachment: Attachment) -> Value {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = json!({
            "type": attachment.kind,
            "mimeType": attachment.mime_type,
            "bytes": attachment.data.len() / 4 * 3,
            "handle": format!("blob:{}", all.len() + 1),
        });
        all.push(attachment);
        handle
    }

    /// The attachments whose handles occur in `value`, in order of occurrence, each once.
    #[must_use]
    pub fn mentioned(&self, value: &Value) -> Vec<Attachment> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        if !all.is_empty() {
            collect(value, &mut found);
        }
        found.iter().filter_map(|number| all.get(number.checked_sub(1)?).cloned()).collect()
    }
}

fn collect(value: &Value, found: &mut Vec<usize>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(object) => {
            let handle = object.get("handle").and_then(Value::as_str).and_then(|text| text.strip_prefix("blob:"));
            match handle.and_then(|number| number.parse().ok()) {
                Some(number) if !found.contains(&number) => found.push(number),
                _ => object.values().for_each(|item| collect(item, found)),
            }
        }
        _ => {}
    }
}

/// `isError` raises, structured content wins, one text that is a JSON object or array is parsed, any other text
/// stays text, binary blocks become handles; several blocks become a list.
pub(super) fn tool_answer(tool: &str, answer: ToolAnswer, limits: &Limits, attachments: &Attachments) -> Result<Value> {
    check_size(tool, &answer, limits)?;
    if answer.is_error {
        return Err(tool_error(tool, answer));
    }
    if let Some(structured) = answer.structured {
        return Ok(structured);
    }
    let mut values: Vec<Value> = answer.content.into_iter().map(|block| block_value(block, attachments)).collect();
    Ok(match values.len() {
        0 => Value::Null,
        1 => values.swap_remove(0),
        _ => Value::Array(values),
    })
}

/// A resource or prompt, as the server sent it.
pub(super) fn raw_answer(value: Value, limits: &Limits) -> Result<Value> {
    let size = value.to_string().len();
    if size > limits.answer_bytes { Err(too_large("the answer", size, limits.answer_bytes)) } else { Ok(value) }
}

fn check_size(tool: &str, answer: &ToolAnswer, limits: &Limits) -> Result<()> {
    let mut text = 0;
    for block in &answer.content {
        match block {
            Block::Text(content) => text += content.len(),
            Block::Other(value) => text += value.to_string().len(),
            Block::Binary { data, kind, .. } if data.len() / 4 * 3 > limits.binary_bytes => {
                return Err(too_large(&format!("an {kind} of {tool}"), data.len() / 4 * 3, limits.binary_bytes));
            }
            Block::Binary { .. } => {}
        }
    }
    // Most servers send the same content as text too, so the structured form is measured only where it stands alone.
    if text == 0 {
        text = answer.structured.as_ref().map_or(0, |value| value.to_string().len());
    }
    if text > limits.answer_bytes {
        Err(too_large(&format!("the answer of {tool}"), text, limits.answer_bytes))
    } else {
        Ok(())
    }
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
            Block::Binary { kind, mime_type, .. } => format!("({kind}, {mime_type})"),
            Block::Other(value) => value.to_string(),
        })
        .collect();
    let said = texts.join("\n");
    let cut = head(said.trim(), MAX_ERROR);
    let error = match cut.is_empty() {
        true => Error::new(ErrorCode::ToolError, format!("{tool} failed without saying why")),
        false => Error::new(ErrorCode::ToolError, format!("{tool}: {cut}")),
    };
    let error = match answer.refusal {
        Some(refusal) => error.hint(refusal),
        None => error,
    };
    match answer.structured {
        Some(data) => error.data(data),
        None => error,
    }
}

fn block_value(block: Block, attachments: &Attachments) -> Value {
    match block {
        Block::Text(text) => parsed(text),
        Block::Binary { kind, mime_type, data } => attachments.add(Attachment { kind, mime_type, data }),
        Block::Other(value) => value,
    }
}

/// Numbers, booleans and quoted strings stay text: `"007"` or `"1e5"` would silently change their meaning.
fn parsed(text: String) -> Value {
    if !text.trim_start().starts_with(['{', '[']) {
        return Value::String(text);
    }
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text),
    }
}

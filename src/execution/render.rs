//! An execution as the agent reads it.

use std::fmt::Write as _;

use serde_json::Value;

use super::Execution;
use crate::broker::CallRecord;
use crate::discovery::head;
use crate::session::Session;

/// Bytes a token stands for on average, when a budget in tokens is applied without a tokenizer.
const BYTES_PER_TOKEN: usize = 4;
/// Bytes of a stored result that are shown at once.
const PREVIEW: usize = 600;
/// Lines of calls that a failure shows.
const MAX_CALLS: usize = 10;
/// How many of them are the first calls; the others are the last.
const SHOWN_FIRST: usize = 3;
/// Keys of an object that a shape names.
const MAX_KEYS: usize = 20;

/// Appends text from outside, with what would move a terminal's cursor or turn the direction of reading escaped.
pub(crate) fn push_visible(text: &mut String, line: &str) {
    for c in line.chars() {
        match c {
            '\t' | '\n' => text.push(c),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.extend(c.escape_unicode());
            }
            c if c.is_control() => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
}

impl Execution {
    /// The answer's text: the value as compact JSON, or the failure with the calls that completed before it; then
    /// captured output and notes. What is over `budget` tokens is stored in `session` and pointed at.
    #[must_use]
    pub fn render(&self, session: &Session, budget: usize) -> String {
        let budget = budget * BYTES_PER_TOKEN;
        let mut text = match (&self.value, &self.error) {
            (Some(value), _) => fit_value(value.get(), session, budget),
            (None, Some(failed)) => failed.describe() + &self.completed(),
            (None, None) => String::new(),
        };
        if !self.output.is_empty() {
            let _ = write!(text, "\n--- output\n{}", fit_text(self.output.trim_end(), session, budget));
        }
        for note in &self.notes {
            let _ = write!(text, "\nnote: {note}");
        }
        text
    }

    /// The ledger: side effects that happened although the script failed.
    fn completed(&self) -> String {
        if self.calls.is_empty() {
            return String::new();
        }
        let line = |position: usize, call: &CallRecord| {
            let CallRecord { server, tool, args, outcome, ms, .. } = call;
            format!("  {}. {server}.{tool}({args}) → {outcome} ({ms:.0} ms)", position + 1)
        };
        let mut lines: Vec<String> = self.calls.iter().enumerate().map(|(n, call)| line(n, call)).collect();
        if lines.len() > MAX_CALLS {
            // The middle is only counted: where it began and where it ended says more.
            let middle = SHOWN_FIRST..lines.len() - (MAX_CALLS - SHOWN_FIRST - 1);
            let ok = self.calls[middle.clone()].iter().filter(|call| call.outcome == "ok").count();
            let counted = format!("  … {} more, {ok} of them ok", middle.len());
            lines.splice(middle, [counted]);
        }
        format!("\ncalls made:\n{}", lines.join("\n"))
    }
}

fn fit_value(json: &str, session: &Session, budget: usize) -> String {
    if json.len() <= budget {
        return json.to_owned();
    }
    match serde_json::from_str::<Value>(json) {
        // A long text is kept as text, so that its own lines can be read.
        Ok(Value::String(text)) => stored("text", &text, session),
        Ok(value) => {
            let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_owned());
            stored(&shape(&value), &pretty, session)
        }
        Err(_) => stored("text", json, session),
    }
}

fn fit_text(text: &str, session: &Session, budget: usize) -> String {
    if text.len() <= budget { text.to_owned() } else { stored("output", text, session) }
}

fn stored(shape: &str, text: &str, session: &Session) -> String {
    let path = session.store_result(text.to_owned());
    let lines = text.lines().count();
    format!(
        "too large for an answer, stored as {path}: {shape}, {} bytes, {lines} lines\n{}…\nread on: cat(\"{path}\", lines=\"1-200\"), or return less",
        text.len(),
        head(text, PREVIEW)
    )
}

/// What a value is made of, one level deep.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(items) => match items.first() {
            Some(first) => format!("array of {} items, the first: {}", items.len(), shape_of_item(first)),
            None => "empty array".to_owned(),
        },
        other => shape_of_item(other),
    }
}

fn shape_of_item(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let keys: Vec<&str> = object.keys().take(MAX_KEYS).map(String::as_str).collect();
            let more = if object.len() > MAX_KEYS { ", …" } else { "" };
            format!("object {{{}{more}}}", keys.join(", "))
        }
        Value::Array(items) => format!("array of {} items", items.len()),
        Value::String(text) => format!("text of {} bytes", text.len()),
        Value::Number(_) => "number".to_owned(),
        Value::Bool(_) => "boolean".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

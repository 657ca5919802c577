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
            (Some(value), _) => self.fit_value(value.get(), session, budget),
            (None, Some(failed)) => failed.describe() + &self.completed(),
            (None, None) => String::new(),
        };
        if !self.output.is_empty() {
            let _ = write!(text, "\n--- output\n{}", self.fit_text(self.output.trim_end(), session, budget));
        }
        for note in &self.notes {
            let _ = write!(text, "\nnote: {note}");
        }
        if self.dry_run {
            let _ = write!(text, "\n{}", self.fit_text(&self.plan(), session, budget));
        }
        text
    }

    /// Every call of a dry run in order, with what would come of it.
    #[must_use]
    pub fn plan(&self) -> String {
        let planned = self.calls.iter().filter(|call| call.outcome == "planned").count();
        let mut plan = format!("--- dry run: {planned} of {} calls not made", self.calls.len());
        for (call, number) in self.calls.iter().zip(1..) {
            let CallRecord { server, tool, args, outcome, verdict, .. } = call;
            let _ = write!(plan, "\n{number}. {server}.{tool}({args}) → {verdict}; {outcome}");
        }
        plan
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

impl Execution {
    fn fit_value(&self, json: &str, session: &Session, budget: usize) -> String {
        if json.len() <= budget {
            return json.to_owned();
        }
        match serde_json::from_str::<Value>(json) {
            // A long text is kept as text, so that its own lines can be read.
            Ok(Value::String(text)) => self.stored("text", text, false, session),
            Ok(value) => {
                let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_owned());
                self.stored(&shape(&value), pretty, true, session)
            }
            Err(_) => self.stored("text", json.to_owned(), false, session),
        }
    }

    fn fit_text(&self, text: &str, session: &Session, budget: usize) -> String {
        match text.len() <= budget {
            true => text.to_owned(),
            false => self.stored("output", text.to_owned(), false, session),
        }
    }

    fn stored(&self, shape: &str, text: String, is_json: bool, session: &Session) -> String {
        let (lines, bytes, preview) = (text.lines().count(), text.len(), head(&text, PREVIEW).to_owned());
        let path = session.results.store(self.run, text, is_json, self.labels.clone());
        format!(
            "too large for an answer, stored as {path}: {shape}, {bytes} bytes, {lines} lines\n{preview}…\n\
             read on: cat(\"{path}\", lines=\"1-200\"), or forge.results.get(\"{path}\") in a script (Starlark: \
             results.get), or return less"
        )
    }
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

//! Parts of an answer to the agent: shown unchanged, or too large and stored, with a pointer in their place.

use std::borrow::Cow;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use wire::Json;

use base::error::Result;
use base::json;
use base::task;
use base::text::{counted, head};
use config::Config;
use redact::Redaction;

/// Beginnings of lines that follow a value.
const MARKS: [&str; 3] = ["--- ", "note: ", "too large for an answer"];
/// Part of its budget that the first lines of a larger text take.
const OPENING: usize = 4;
/// Lines behind them that are offered to be read on.
const FURTHER: usize = 200;
/// Most bytes of a stored result in its preview.
const PREVIEW: usize = 600;
/// Most keys of an object in a shape.
const MAX_KEYS: usize = 20;
/// Most bytes of such a key.
const MAX_KEY: usize = 100;

/// Settings of answers to agents.
#[derive(Debug, Clone, Copy)]
pub struct Answers {
    /// Redaction of values, errors and files.
    pub redaction: redact::Results,
    /// True if redacted values get placeholders, which calls may use.
    pub placeholders: bool,
    /// True if answers of runs with calls are examined for findings.
    pub findings: bool,
    /// Tokens of a text; a larger value or output is stored.
    pub result_tokens: usize,
}

impl Default for Answers {
    fn default() -> Self {
        let result_tokens = config::Limits::default().result_tokens;
        Self { redaction: redact::Results::default(), placeholders: false, findings: false, result_tokens }
    }
}

impl Answers {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        let &Config { redaction, placeholders, answer_findings, .. } = config;
        Self { redaction, placeholders, findings: answer_findings, result_tokens: config.sandbox.limits.result_tokens }
    }
}

/// A part of an answer.
pub enum Part {
    /// Shown unchanged.
    Text(String),
    /// Over the budget.
    Large(Large),
}

/// A part that is over the budget.
pub struct Large {
    /// Its shape, in a few words.
    shape: String,
    /// The whole text.
    pub text: String,
    /// True if it is JSON.
    pub is_json: bool,
}

/// A value as JSON, in a part of its own if it is over the budget in bytes.
pub fn fit_value(json: &str, budget: usize) -> Part {
    let text = |text: String| Part::Large(Large { shape: "text".to_owned(), text, is_json: false });
    if json.len() <= budget {
        return Part::Text(plain_text(json).unwrap_or_else(|| json.to_owned()));
    }
    if json::measure(json.as_bytes()).is_ok_and(|found| found.depth > json::MAX_DEPTH) {
        return text(json.to_owned());
    }
    // A long text is kept as text, so that its own lines can be read.
    if json.starts_with('"')
        && let Ok(long) = serde_json::from_str::<String>(json)
    {
        return text(long);
    }
    let shape = shape(json, true).unwrap_or_default();
    Part::Large(Large { shape, text: json::laid_out(json), is_json: true })
}

/// The text that `json` quotes, unless it could be taken for another value or for the rest of the answer, or has
/// characters that only quotes show.
fn plain_text(json: &str) -> Option<String> {
    let text = json.starts_with('"').then(|| serde_json::from_str::<String>(json).ok()).flatten()?;
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    let is_marked = text.lines().any(|line| MARKS.iter().any(|mark| line.starts_with(mark)));
    let is_hidden = text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    let has_margin = text.trim().len() < text.trim_end_matches('\n').len();
    (!text.is_empty() && !is_json && !is_marked && !is_hidden && !has_margin).then_some(text)
}

/// A text, in a part of its own if it is over the budget in bytes; `shape` names it.
pub fn fit_text(text: &str, shape: &str, budget: usize) -> Part {
    match text.len() <= budget {
        true => Part::Text(text.to_owned()),
        false => Part::Large(Large { shape: shape.to_owned(), text: text.to_owned(), is_json: false }),
    }
}

/// A stored text, or if it is over the budget in bytes, its shape and first lines, and how to read on.
pub fn opening(text: &str, path: &str, budget: usize) -> String {
    if text.len() <= budget {
        return text.to_owned();
    }
    let shape = if path.ends_with(".json") { shape(text, true).ok() } else { None };
    let mut shown = shape.map(|shape| format!("{shape}\n")).unwrap_or_default();
    let (mut lines, room) = (0, budget / OPENING);
    for line in text.lines() {
        if shown.len() + line.len() > room {
            break;
        }
        shown.push_str(line);
        shown.push('\n');
        lines += 1;
    }
    let (all, bytes) = (text.lines().count(), text.len());
    let how = format!("forge.results.get(\"{path}\") in a script (Starlark: results.get)");
    if lines == 0 {
        shown.push_str(head(text, room));
        shown.push_str(&format!("\n… cut in line 1 of {all} ({bytes} bytes); the rest: {how}"));
        return shown;
    }
    let (from, to) = (lines + 1, lines + FURTHER);
    shown.push_str(&format!(
        "… {lines} of {all} lines ({bytes} bytes); read on: cat(\"{path}\", lines=\"{from}-{to}\"), or {how}"
    ));
    shown
}

impl Large {
    /// Text in its place: shape and size, beginning, and how to read the rest where it was `stored`.
    pub fn pointer(&self) -> impl FnOnce(&Result<String>) -> String + use<> {
        let Self { shape, text, .. } = self;
        let (shape, lines, bytes) = (shape.clone(), counted(text.lines().count(), "line"), text.len());
        let preview = head(text, PREVIEW).to_owned();
        move |stored| match stored {
            Ok(path) => format!(
                "too large for an answer, stored as {path}: {shape}, {bytes} bytes, {lines}\n{preview}…\n\
                 read on: cat(\"{path}\", lines=\"1-200\"), or forge.results.get(\"{path}\") in a script (Starlark: \
                 results.get), or return less"
            ),
            Err(error) => format!(
                "too large for an answer, and not stored: {}: {shape}, {bytes} bytes, {lines}\n{preview}…\n\
                 fix: {}",
                error.message,
                error.hint.as_deref().unwrap_or_default()
            ),
        }
    }
}

/// Shape of a value, one level deep, without parsing it into values; of a whole one also that of its first item.
fn shape(json: &str, is_whole: bool) -> serde_json::Result<String> {
    Ok(match json.trim_start().bytes().next() {
        Some(b'[' | b'{') => {
            return serde_json::Deserializer::from_str(json).deserialize_any(Shape { is_whole });
        }
        Some(b'"') => format!("text of {} bytes", serde_json::from_str::<Cow<'_, str>>(json)?.len()),
        Some(b't' | b'f') => "boolean".to_owned(),
        Some(b'n') => "null".to_owned(),
        _ => "number".to_owned(),
    })
}

/// Describes an array or an object.
struct Shape {
    is_whole: bool,
}

impl<'de> Visitor<'de> for Shape {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        let first = items.next_element::<&RawValue>()?;
        let mut count = usize::from(first.is_some());
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(match first {
            None if self.is_whole => "empty array".to_owned(),
            Some(first) if self.is_whole => {
                let item = shape(first.get(), false).map_err(A::Error::custom)?;
                format!("array of {count} items, the first: {item}")
            }
            _ => format!("array of {count} items"),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<String, A::Error> {
        let mut keys: Vec<String> = Vec::new();
        let mut more = "";
        while let Some((key, _)) = entries.next_entry::<Cow<'de, str>, IgnoredAny>()? {
            match keys.len() < MAX_KEYS {
                true => keys.push(head(&key, MAX_KEY).to_owned()),
                false => more = ", …",
            }
        }
        Ok(format!("object {{{}{more}}}", keys.join(", ")))
    }
}

/// Redacts the value for the agent. The script had it unredacted, since it may have to pass it on.
pub fn clean(value: Json, redaction: Redaction<'_>) -> Json {
    match task::work_on(value.get().len(), || redact::json_text(redaction, value.get())) {
        Cow::Borrowed(_) => value,
        Cow::Owned(text) => {
            let as_text = |text: String| serde_json::value::to_raw_value(&text).unwrap_or_default();
            serde_json::value::RawValue::from_string(text.clone()).unwrap_or_else(|_| as_text(text))
        }
    }
}

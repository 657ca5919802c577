//! Renders an execution for the agent.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Execution, Failed, Waiting};
use crate::broker::CallRecord;
use crate::error::Result;
use crate::json;
use crate::outcome::Outcome;
use crate::text::{BYTES_PER_TOKEN, head};

/// Beginnings of lines that follow a value.
const MARKS: [&str; 3] = ["--- ", "note: ", "too large for an answer"];
/// Most bytes of a stored result in its preview.
const PREVIEW: usize = 600;
/// Most calls waiting for approval that an answer names.
const MAX_WAITING: usize = 10;
/// Most keys of an object in a shape.
const MAX_KEYS: usize = 20;
/// Most bytes of such a key.
const MAX_KEY: usize = 100;
/// The key under which `serde_json` passes a number. Objects from outside never have it.
const NUMBER: &str = "$serde_json::private::Number";

/// A part of an answer.
pub(super) enum Part {
    /// Shown unchanged.
    Text(String),
    /// Over the budget.
    Large(Large),
}

/// A part that is over the budget.
pub(super) struct Large {
    /// Its shape, in a few words.
    shape: String,
    /// The whole text.
    pub(super) text: String,
    /// True if it is JSON.
    pub(super) is_json: bool,
}

impl Execution {
    /// Parts of the answer's text: the value as compact JSON, or the failure with the calls that completed before it;
    /// then captured output and notes. The budget in tokens applies to each part.
    pub(super) fn parts(&self, budget: usize) -> Vec<Part> {
        let budget = budget * BYTES_PER_TOKEN;
        let mut parts = vec![match (&self.value, &self.error) {
            (Some(value), _) => fit_value(value.get(), budget),
            (None, Some(failed)) => Part::Text(failed.describe()),
            (None, None) => Part::Text(String::new()),
        }];
        // Of a script that was not run, every refused call is among its mistakes.
        if let Some(failed) = self.error.as_ref().filter(|failed| !failed.is_unrun) {
            parts.extend(self.ledger(failed, budget));
        }
        if !self.output.is_empty() {
            parts.push(Part::Text("\n--- output\n".to_owned()));
            parts.push(fit_text(self.output.trim_end(), "output", budget));
        }
        parts.extend(self.notes.iter().map(|note| Part::Text(format!("\nnote: {note}"))));
        parts.extend(self.resume.iter().map(|run| {
            Part::Text(match self.waits.as_slice() {
                [] => format!(
                    "\nresume: execute(resume=\"{run}\", code=…) repeats no call that was made; \
                     fresh=[\"server.tool\"] names tools to call again"
                ),
                waits => format!("{}execute(resume=\"{run}\")", waiting(waits)),
            })
        }));
        if self.dry_run {
            parts.push(Part::Text("\n".to_owned()));
            parts.push(fit_text(&self.dry_calls(), "output", budget));
        }
        parts
    }

    /// What the script may do by its text, and calls of a dry run in order, with their outcome.
    #[must_use]
    pub fn dry_calls(&self) -> String {
        let not_made = self.calls.iter().filter(|call| !call.sent).count();
        let counted = match (self.calls.len(), not_made) {
            (0, _) => "no calls".to_owned(),
            (1, 0) => "1 call, made".to_owned(),
            (1, _) => "1 call, not made".to_owned(),
            (all, 0) => format!("{all} calls, all made"),
            (all, none) if all == none => format!("{all} calls, none made"),
            (all, some) => format!("{all} calls, {some} not made"),
        };
        let mut plan = self.plan.as_ref().map(|plan| format!("--- plan\n{plan}\n")).unwrap_or_default();
        let _ = write!(plan, "--- dry run: {counted}");
        for (call, number) in self.calls.iter().zip(1..) {
            let CallRecord { server, tool, args, outcome, verdict, .. } = call;
            let _ = write!(plan, "\n{number}. {server}.{tool}({args}) → {verdict}; {outcome}");
        }
        plan
    }

    /// Calls before a failure, counted; those that may have written and those that failed are listed, however many.
    fn ledger(&self, failed: &Failed, budget: usize) -> Vec<Part> {
        let is_shown = |call: &CallRecord| failed.call.as_ref().is_some_and(|shown| shown.call == call.call);
        if self.calls.iter().all(|call| is_shown(call) && !may_have_written(call)) {
            return Vec::new();
        }
        let count = |is: fn(&CallRecord) -> bool| self.calls.iter().filter(|call| is(call)).count();
        let ok = count(|call| call.outcome == Outcome::Ok);
        let mut text = format!("\ncalls: {}", self.calls.len());
        match ok == self.calls.len() {
            true => text.push_str(", all ok"),
            false => {
                let running = count(|call| call.outcome == Outcome::Running);
                let planned = count(|call| call.outcome == Outcome::Planned);
                let failed = self.calls.len() - ok - running - planned;
                let all = [(ok, "ok"), (planned, "planned"), (failed, "failed"), (running, "without an answer")];
                for (number, what) in all {
                    if number > 0 {
                        let _ = write!(text, ", {number} {what}");
                    }
                }
            }
        }
        let mut join = "; ";
        for (number, what) in
            [(count(|call| call.sent && !call.is_write), "read"), (count(may_have_written), "may have written")]
        {
            if number > 0 {
                let _ = write!(text, "{join}{number} {what}");
                join = ", ";
            }
        }
        let matters = |call: &CallRecord| (may_have_written(call) || call.outcome != Outcome::Ok) && !is_shown(call);
        let line = |(call, number): (&CallRecord, usize)| {
            let CallRecord { server, tool, args, outcome, .. } = call;
            format!("\n  {number}. {server}.{tool}({args}) → {outcome}")
        };
        let list: String = self.calls.iter().zip(1..).filter(|(call, _)| matters(call)).map(line).collect();
        if !list.is_empty() {
            text.push(':');
        }
        if list.len() > budget {
            text.push('\n');
        }
        vec![Part::Text(text), fit_text(&list, "calls", budget)]
    }
}

/// Lines for calls that wait for approval, up to what is done about them then.
pub(crate) fn waiting(waits: &[Waiting]) -> String {
    let mut text = String::new();
    for Waiting { approval, call, until } in waits.iter().take(MAX_WAITING) {
        let _ = write!(text, "\nwaits: approval {approval} of {call}, until {until}");
    }
    if waits.len() > MAX_WAITING {
        let _ = write!(text, "\nwaits: {} more, see `forgefs approvals list`", waits.len() - MAX_WAITING);
    }
    match waits {
        [one] => {
            let _ = write!(text, "\nafter `forgefs approvals allow {}`: ", one.approval);
        }
        _ => text.push_str("\nafter `forgefs approvals allow ID` for each: "),
    }
    text
}

/// True for a call that was sent to a tool not annotated as read-only.
fn may_have_written(call: &CallRecord) -> bool {
    call.sent && call.is_write
}

fn fit_value(json: &str, budget: usize) -> Part {
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

fn fit_text(text: &str, shape: &str, budget: usize) -> Part {
    match text.len() <= budget {
        true => Part::Text(text.to_owned()),
        false => Part::Large(Large { shape: shape.to_owned(), text: text.to_owned(), is_json: false }),
    }
}

impl Large {
    /// Text in its place: shape and size, beginning, and how to read the rest where it was `stored`.
    pub(super) fn pointer(&self) -> impl FnOnce(&Result<String>) -> String + use<> {
        let Self { shape, text, .. } = self;
        let (shape, lines, bytes) = (shape.clone(), text.lines().count(), text.len());
        let preview = head(text, PREVIEW).to_owned();
        move |stored| match stored {
            Ok(path) => format!(
                "too large for an answer, stored as {path}: {shape}, {bytes} bytes, {lines} lines\n{preview}…\n\
                 read on: cat(\"{path}\", lines=\"1-200\"), or forge.results.get(\"{path}\") in a script (Starlark: \
                 results.get), or return less"
            ),
            Err(error) => format!(
                "too large for an answer, and not stored: {}: {shape}, {bytes} bytes, {lines} lines\n{preview}…\n\
                 fix: {}",
                error.message,
                error.hint.as_deref().unwrap_or_default()
            ),
        }
    }
}

/// Shape of a value, one level deep, without parsing it into values.
fn shape(json: &str, is_whole: bool) -> serde_json::Result<String> {
    serde_json::Deserializer::from_str(json).deserialize_any(Shape { is_whole })
}

/// Describes a value, and the first item of a whole one.
struct Shape {
    is_whole: bool,
}

impl<'de> Visitor<'de> for Shape {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
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
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            if key == NUMBER && keys.is_empty() {
                entries.next_value::<IgnoredAny>()?;
                return Ok("number".to_owned());
            }
            entries.next_value::<IgnoredAny>()?;
            match keys.len() < MAX_KEYS {
                true => keys.push(head(&key, MAX_KEY).to_owned()),
                false => more = ", …",
            }
        }
        Ok(format!("object {{{}{more}}}", keys.join(", ")))
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(format!("text of {} bytes", text.len()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<String, E> {
        Ok("boolean".to_owned())
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }
}

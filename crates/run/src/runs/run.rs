//! One run as it can be read: state, output so far, value or error.

use std::collections::HashMap;

use base::time::rfc3339;
use serde::{Serialize, Serializer};
use wire::{Json, Language, Op};

use super::since;
use crate::calls;
use crate::parts::{Part, clean, fit_text, fit_value};
use base::error::{ErrorCode, Result};
use base::labels::Labels;
use base::memory;
use base::outcome::Outcome;
use base::task;
use base::text::{BYTES_PER_TOKEN, counted, head};
use redact::Redaction;
use state::audit::CallRecord;
use state::journal::{self, Answered, Line, Reader, Sent};

/// Most lines of output that are shown with a run.
const TAIL: usize = 40;

/// State of a run in a word for scripts.
pub fn state_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Running => "running",
        Outcome::Ok => "ok",
        Outcome::Failed(ErrorCode::Cancelled) => "cancelled",
        Outcome::Unfinished => "died",
        _ => "failed",
    }
}

/// One run. Serialised, it is the object that scripts get.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Language of its script.
    pub language: Language,
    /// Begin, in Unix milliseconds.
    #[serde(rename = "began", serialize_with = "as_time")]
    pub at_ms: u64,
    /// Its outcome: `Running` while it goes on, `Unfinished` if its gateway ended before it did.
    #[serde(serialize_with = "as_word")]
    pub state: Outcome,
    /// Time from its begin to its end, or to now; `None` where the end is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// Calls so far.
    pub calls: usize,
    /// Calls of a run that has ended, in order.
    #[serde(skip)]
    pub ledger: Vec<CallRecord>,
    /// Its last progress report, while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Captured output.
    pub output: String,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// The error in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Servers whose data it has.
    pub labels: Labels,
    /// Run that continues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Memory for what its journal has of it.
    #[serde(skip)]
    pub(super) room: Option<memory::Reservation>,
}

impl Run {
    /// The run that a journal is of.
    ///
    /// # Errors
    /// `INTERNAL` when it is damaged.
    pub(super) fn read(found: journal::Run, mut reader: Reader) -> Result<Self> {
        let journal::Run { head, file } = found;
        let mut run = Self {
            id: file.id,
            language: head.language,
            at_ms: head.at_ms,
            state: if file.is_running { Outcome::Running } else { Outcome::Unfinished },
            elapsed_ms: file.is_running.then(|| since(head.at_ms)),
            calls: 0,
            ledger: Vec::new(),
            progress: None,
            output: String::new(),
            value: None,
            error: None,
            labels: Labels::new(),
            next: file.next,
            room: None,
        };
        // Calls without an answer, by number: their places in the ledger.
        let mut open = HashMap::new();
        task::work_on(reader.bytes(), || {
            while let Some(line) = reader.next_line()? {
                match line {
                    Line::Begun(_) | Line::Task { .. } | Line::Waits(_) | Line::Asks(_) | Line::Heard { .. } => {}
                    Line::Sent(sent) => {
                        open.insert(sent.op, run.ledger.len());
                        run.ledger.push(sent_call(sent));
                    }
                    Line::Answered(answered) => {
                        note_answer(&mut run.ledger, open.remove(&answered.op), &answered);
                        run.labels.extend(answered.labels);
                    }
                    Line::Ended(end) => {
                        run.state = end.outcome;
                        run.elapsed_ms = Some(end.at_ms.saturating_sub(head.at_ms));
                        run.labels.extend(end.labels);
                        (run.value, run.output) = (end.value, end.output);
                        run.error = end.explained.or(end.error);
                    }
                }
            }
            run.calls = run.ledger.len();
            run.room = reader.take_room();
            Ok(run)
        })
    }

    /// Redacts all that servers had a part in: `value` for the value, `text` for the rest.
    #[must_use]
    pub fn redacted(self, value: Redaction<'_>, text: Redaction<'_>) -> Self {
        let size = self.output.len();
        let clear = |words: String| redact::text(text, &words).into_owned();
        Self {
            value: self.value.map(|json| clean(json, value)),
            error: self.error.map(clear),
            progress: self.progress.map(clear),
            output: task::work_on(size, || clear(self.output)),
            ledger: self.ledger.into_iter().map(|call| calls::redacted(call, text)).collect(),
            ..self
        }
    }

    /// Parts of its text behind the state, each of about `budget` tokens at most, or stored. Of its output the last
    /// lines, or those behind the ones that were `seen` while it went on.
    pub fn parts(&self, budget: usize, seen: Option<usize>) -> Vec<Part> {
        let budget = budget * BYTES_PER_TOKEN;
        let mut parts = Vec::new();
        parts.extend(self.value.as_ref().map(|value| fit_value(value.get(), budget)));
        parts.extend(self.error.as_ref().map(|error| fit_text(error, "error", budget)));
        let has_failed = !matches!(self.state, Outcome::Running | Outcome::Ok);
        let ledger = if has_failed { calls::ledger(&self.ledger, None, budget) } else { None };
        let text = |text| vec![Part::Text(text)];
        let output = self.last_output(budget, seen);
        for further in [ledger.map(Vec::from), self.advice().map(text), output.map(text)].into_iter().flatten() {
            if !parts.is_empty() {
                parts.push(Part::Text("\n".to_owned()));
            }
            parts.extend(further);
        }
        parts
    }

    /// The last lines of its output within a budget in bytes, and how to read the ones before.
    fn last_output(&self, budget: usize, seen: Option<usize>) -> Option<String> {
        let (id, text) = (&self.id, self.output.trim_end());
        if text.is_empty() {
            return None;
        }
        let seen = seen.filter(|seen| *seen > 0 && self.state == Outcome::Running);
        let lines: Vec<&str> = text.lines().collect();
        let (mut from, mut bytes) = (lines.len(), 0);
        let first = seen.unwrap_or(0).max(lines.len().saturating_sub(TAIL));
        while from > first && (from == lines.len() || bytes + lines[from - 1].len() < budget) {
            from -= 1;
            bytes += lines[from].len() + 1;
        }
        let so_far = if self.state == Outcome::Running { " so far" } else { "" };
        let mut said = match seen {
            Some(seen) if seen >= lines.len() => {
                return Some(format!("--- no output since the last look ({seen} lines)"));
            }
            Some(_) => "--- output since the last look".to_owned(),
            None => format!("--- output{so_far}"),
        };
        if from > seen.unwrap_or(0) {
            said.push_str(&format!(
                ", the last lines of {}; {from} before: cat(\"/runs/{id}\", lines=\"1-{from}\")",
                lines.len()
            ));
        }
        let last = lines[from..].join("\n");
        let shown = head(&last, budget);
        said.push_str(&format!("\n{shown}"));
        if shown.len() < last.len() {
            let whole = last.len();
            said.push_str(&format!("\n… cut: {whole} bytes, as `output` of forge.runs.get(\"{id}\") in a script"));
        }
        Some(said)
    }

    /// State, time and calls in one line, with the last progress report in the next.
    pub(super) fn headline(&self) -> String {
        let Self { id, at_ms, calls, .. } = self;
        let seconds = self.elapsed_ms.unwrap_or_default() / 1000;
        let state = match &self.state {
            Outcome::Running => format!("running for {seconds} s"),
            Outcome::Ok => format!("ok after {seconds} s"),
            Outcome::Failed(ErrorCode::Cancelled) => format!("cancelled after {seconds} s"),
            Outcome::Unfinished => "died: its gateway ended before it did".to_owned(),
            failed => format!("failed after {seconds} s ({failed})"),
        };
        let progress = self.progress.as_ref().map(|progress| format!("\nprogress: {progress}")).unwrap_or_default();
        format!("run {id}: {state}, {}, began {}{progress}", counted(*calls, "call"), rfc3339(*at_ms))
    }

    /// The next step, if there is one.
    fn advice(&self) -> Option<String> {
        let Self { id, .. } = self;
        match (self.state, &self.next) {
            (Outcome::Ok, _) if self.value.is_none() => {
                Some("note: the value is too large for the journal; return less".to_owned())
            }
            (_, Some(next)) => Some(format!("note: run {next} continues it")),
            (Outcome::Running, None) => Some(format!("note: forge.runs.cancel(\"{id}\") in a script ends it")),
            (Outcome::Ok, None) => None,
            (_, None) => Some(calls::resume_line(id)),
        }
    }

    /// The run as scripts see it.
    pub fn to_json(&self) -> Json {
        // All of it is text, numbers and JSON.
        task::work_on(self.output.len(), || serde_json::value::to_raw_value(self)).unwrap_or_default()
    }
}

fn as_time<S: Serializer>(at_ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at_ms))
}

fn as_word<S: Serializer>(state: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state_name(*state))
}

/// A call that went out, as its journal has it, without an answer.
fn sent_call(sent: Sent) -> CallRecord {
    let asked = asked_call(sent.ask.as_ref());
    let (server, tool, args) = asked.unwrap_or_else(|| (sent.server, sent.tool, String::new()));
    let (call, is_write, is_sealed, outcome) = (sent.op, !sent.reads, sent.sealed, Outcome::Running);
    CallRecord { call, server, tool, args, sent: true, is_write, is_sealed, outcome, ..CallRecord::default() }
}

/// Notes an answer to the call at a place. One that did not go out was refused, or answered by an earlier run.
fn note_answer(ledger: &mut Vec<CallRecord>, sent: Option<usize>, answered: &Answered) {
    let outcome = match &answered.answer {
        Some(wire::Outcome::Err(error)) => Outcome::Failed(error.code),
        _ => Outcome::Ok,
    };
    if let Some(sent) = sent.and_then(|place| ledger.get_mut(place)) {
        (sent.outcome, sent.is_undone) = (outcome, answered.no_effect);
    } else if let Some((server, tool, args)) = asked_call(answered.ask.as_ref()) {
        ledger.push(CallRecord { call: answered.op, server, tool, args, outcome, ..CallRecord::default() });
    }
}

/// Server, tool (or what is read) and arguments of a call, as the script wrote them.
fn asked_call(ask: Option<&Json>) -> Option<(String, String, String)> {
    match serde_json::from_str(ask?.get()).ok()? {
        Op::Tool { server, tool, args } => Some((server, tool, calls::preview(args.get()))),
        Op::ReadResource { server, uri } => Some((server, uri, String::new())),
        Op::Prompt { server, name, args } => Some((server, name, calls::preview(args.get()))),
        _ => None,
    }
}

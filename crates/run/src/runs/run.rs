//! One run as it can be read: state, output so far, value or error.

use base::time::rfc3339;
use serde::Serialize;
use wire::{Json, Language};

use super::since;
use crate::parts::{Part, clean, fit_text, fit_value};
use base::error::{ErrorCode, Result};
use base::labels::Labels;
use base::memory;
use base::outcome::Outcome;
use base::task;
use base::text::{BYTES_PER_TOKEN, counted};
use redact::Redaction;
use state::journal::{self, Line, Reader};

/// One run.
#[derive(Debug)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Language of its script.
    pub language: Language,
    /// Begin, in Unix milliseconds.
    pub at_ms: u64,
    /// Its outcome: `Running` while it goes on, `Unfinished` if its gateway ended before it did.
    pub state: Outcome,
    /// Time from its begin to its end, or to now; `None` where the end is not known.
    pub elapsed_ms: Option<u64>,
    /// Calls so far.
    pub calls: usize,
    /// Its last progress report, while it is running.
    pub progress: Option<String>,
    /// Captured output.
    pub output: String,
    /// Its value.
    pub value: Option<Json>,
    /// The error in its place.
    pub error: Option<String>,
    /// Servers whose data it has.
    pub labels: Labels,
    /// Run that continues it.
    pub next: Option<String>,
    /// Memory for what its journal has of it.
    pub(super) room: Option<memory::Reservation>,
}

impl Run {
    /// The run that a journal is of.
    ///
    /// # Errors
    /// `INTERNAL` when it is damaged.
    pub(super) fn read(found: journal::Run, mut reader: Reader) -> Result<Self> {
        let journal::Run { head, file } = found;
        let size = usize::try_from(file.bytes).unwrap_or(usize::MAX);
        let mut run = Self {
            id: file.id,
            language: head.language,
            at_ms: head.at_ms,
            state: if file.is_running { Outcome::Running } else { Outcome::Unfinished },
            elapsed_ms: file.is_running.then(|| since(head.at_ms)),
            calls: 0,
            progress: None,
            output: String::new(),
            value: None,
            error: None,
            labels: Labels::new(),
            next: file.next,
            room: None,
        };
        task::work_on(size, || {
            while let Some(line) = reader.next_line()? {
                match line {
                    Line::Begun(_) | Line::Waits(_) | Line::Asks(_) | Line::Heard(_) => {}
                    Line::Sent(_) => run.calls += 1,
                    Line::Answered(answered) => {
                        run.calls += usize::from(answered.from.is_some());
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
            run.room = reader.into_room();
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
            ..self
        }
    }

    /// Parts of its text behind the state, each of about `budget` tokens at most, or stored.
    pub fn parts(&self, budget: usize) -> Vec<Part> {
        let budget = budget * BYTES_PER_TOKEN;
        let mut parts = Vec::new();
        parts.extend(self.value.as_ref().map(|value| fit_value(value.get(), budget)));
        parts.extend(self.error.as_ref().map(|error| fit_text(error, "error", budget)));
        if !self.output.is_empty() {
            let so_far = if self.state == Outcome::Running { " so far" } else { "" };
            let line_end = if parts.is_empty() { "" } else { "\n" };
            parts.push(Part::Text(format!("{line_end}--- output{so_far}\n")));
            parts.push(fit_text(self.output.trim_end(), "output", budget));
        }
        let line_end = if parts.is_empty() { "" } else { "\n" };
        parts.extend(self.advice().map(|advice| Part::Text(format!("{line_end}{advice}"))));
        parts
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

    /// Its state in a word for scripts.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            Outcome::Running => "running",
            Outcome::Ok => "ok",
            Outcome::Failed(ErrorCode::Cancelled) => "cancelled",
            Outcome::Unfinished => "died",
            _ => "failed",
        }
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
            (_, None) => Some(format!("resume: execute(resume=\"{id}\", code=…) repeats no call that was made")),
        }
    }

    /// The run as scripts see it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let shown = Shown {
            id: &self.id,
            language: self.language,
            began: rfc3339(self.at_ms),
            state: self.state_name(),
            elapsed_ms: self.elapsed_ms,
            calls: self.calls,
            progress: self.progress.as_deref(),
            output: &self.output,
            value: self.value.as_ref(),
            error: self.error.as_deref(),
            labels: &self.labels,
            next: self.next.as_deref(),
        };
        // All of it is text, numbers and JSON.
        task::work_on(self.output.len(), || serde_json::value::to_raw_value(&shown)).unwrap_or_default()
    }
}

/// A run for scripts.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    language: Language,
    began: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
    calls: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a str>,
    output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

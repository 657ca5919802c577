//! What one execution called, and how much it may still call.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use serde::Serialize;

use super::millis;
use super::policy::Asked;
use crate::config::Amount;
use crate::error::{Error, ErrorCode, Result, code_name};
use crate::labels::Labels;
use crate::redact::{self, Surface};
use crate::telemetry::CallId;
use crate::text::head;

/// The outcome of a call that has none yet.
const RUNNING: &str = "running";
/// The outcome of a call that a dry run did not make.
pub(super) const PLANNED: &str = "planned";
/// Characters of the arguments that records and errors show.
const PREVIEW: usize = 200;
/// Bytes of the arguments that are looked at for that.
const MAX_LOOKED_AT: usize = 64 << 10;
/// Characters of a name that nothing here has.
const MAX_NAME: usize = 100;
/// Records of a run beyond the calls that it may make: what was refused costs nothing, but not without end.
const MAX_REFUSED: usize = 100;

/// One call of a script.
#[derive(Debug, Clone, Serialize)]
pub struct CallRecord {
    /// The script's own number of the call.
    #[serde(skip)]
    pub call: u64,
    /// When it was made.
    #[serde(skip)]
    pub began: SystemTime,
    /// Whether it was sent.
    #[serde(skip)]
    pub sent: bool,
    /// What it is called in traces.
    #[serde(skip)]
    pub id: Option<CallId>,
    /// Its method; `None` if it was wrong in itself.
    #[serde(skip)]
    pub method: Option<&'static str>,
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier, or the operation for resources and prompts.
    pub tool: String,
    /// The arguments, redacted and cut.
    pub args: String,
    /// Whole digest of the arguments in canonical form, of their text where they are not valid.
    pub args_hash: String,
    /// Bytes of the arguments, as JSON.
    pub args_bytes: usize,
    /// Bytes of text and binary content that came back.
    pub answer_bytes: usize,
    /// What it cost.
    #[serde(skip_serializing_if = "Amount::is_zero")]
    pub cost: Amount,
    /// The servers whose data the execution held when the call was made, sorted.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Why it was made or not: `allowed`, `approved …`, `would be asked: …` in a dry run, `denied: …` by the policy or
    /// the user, `refused: …` for any other reason.
    pub verdict: String,
    /// `ok`, an error code, `planned` in a dry run, or `running` when the script ended first.
    pub outcome: String,
    /// Time from dispatch to answer, in milliseconds.
    pub ms: f64,
}

/// The calls of one execution in the order they were made.
pub struct Ledger {
    calls: Mutex<Vec<(CallRecord, Instant)>>,
    charged: AtomicU32,
    discovered: AtomicU32,
    max_calls: u32,
    max_discovery: u32,
}

impl Ledger {
    pub(super) fn new(max_calls: u32, max_discovery: u32) -> Self {
        Self {
            calls: Mutex::default(),
            charged: AtomicU32::new(0),
            discovered: AtomicU32::new(0),
            max_calls,
            max_discovery,
        }
    }

    /// The records so far.
    #[must_use]
    pub fn records(&self) -> Vec<CallRecord> {
        self.calls.lock().iter().map(|(record, _)| record.clone()).collect()
    }

    /// One record.
    pub(super) fn record(&self, record: usize) -> Option<CallRecord> {
        self.calls.lock().get(record).map(|(record, _)| record.clone())
    }

    /// How many calls have ended.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.calls.lock().iter().filter(|(record, _)| record.outcome != RUNNING).count()
    }

    pub(super) fn charge_call(&self) -> Result<()> {
        let limit = self.max_calls;
        charge(&self.charged, limit, || format!("a run may make {limit} calls and this one has made them"))
    }

    /// Takes back [`Ledger::charge_call`] for a call that is not made.
    pub(super) fn give_back_call(&self) {
        self.charged.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn charge_discovery(&self) -> Result<()> {
        let limit = self.max_discovery;
        charge(&self.discovered, limit, || format!("a run may make {limit} requests besides tool calls"))
    }

    /// Opens a record; the number is for [`Ledger::decided`] and [`Ledger::close`].
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when the run tries without end; its last record says so.
    pub(super) fn open(&self, attempt: Attempt, labels: Labels) -> Result<usize> {
        let limit = self.max_calls as usize + MAX_REFUSED;
        let Attempt { call, method, server, tool, args, args_hash, args_bytes } = attempt;
        let mut record = CallRecord {
            call,
            began: SystemTime::now(),
            sent: false,
            id: None,
            method,
            server,
            tool,
            args,
            args_hash,
            args_bytes,
            answer_bytes: 0,
            cost: Amount::ZERO,
            labels,
            verdict: String::new(),
            outcome: RUNNING.to_owned(),
            ms: 0.0,
        };
        let mut calls = self.calls.lock();
        if calls.len() < limit {
            calls.push((record, Instant::now()));
            return Ok(calls.len() - 1);
        }
        let error = Error::new(ErrorCode::BudgetExceeded, format!("a run may try {limit} calls and this one has"));
        if calls.len() == limit {
            record.outcome = code_name(error.code);
            record.verdict = format!("refused: {}; what follows is not on record", error.message);
            calls.push((record, Instant::now()));
        }
        Err(error)
    }

    /// Notes why a call is made or not.
    pub(super) fn decided(&self, record: usize, verdict: String) {
        if let Some((record, _)) = self.calls.lock().get_mut(record) {
            record.verdict = verdict;
        }
    }

    /// Notes that a call is sent, and what it is called in traces.
    pub(super) fn sent(&self, record: usize, id: Option<CallId>) {
        if let Some((record, _)) = self.calls.lock().get_mut(record) {
            (record.sent, record.id) = (true, id);
        }
    }

    /// Whether a call was sent.
    pub(super) fn is_sent(&self, record: usize) -> bool {
        self.calls.lock().get(record).is_some_and(|(record, _)| record.sent)
    }

    /// Notes what a call costs.
    pub(super) fn paid(&self, record: usize, cost: Amount) {
        if let Some((record, _)) = self.calls.lock().get_mut(record) {
            record.cost = cost;
        }
    }

    /// Notes how much came back.
    pub(super) fn received(&self, record: usize, bytes: usize) {
        if let Some((record, _)) = self.calls.lock().get_mut(record) {
            record.answer_bytes = bytes;
        }
    }

    /// Notes how a call ended.
    pub(super) fn close(&self, record: usize, outcome: String) {
        if let Some((record, started)) = self.calls.lock().get_mut(record) {
            record.ms = millis(*started);
            record.outcome = outcome;
        }
    }
}

/// A call that is tried, as records show it.
pub(super) struct Attempt {
    call: u64,
    method: Option<&'static str>,
    server: String,
    tool: String,
    args: String,
    args_hash: String,
    args_bytes: usize,
}

impl Attempt {
    /// One whose names and arguments are good.
    pub(super) fn new(call: u64, asked: &Asked<'_>) -> Self {
        let args = asked.operation.arguments();
        let attempt = Self::written(call, asked.entry.ident.clone(), asked.what().into_owned(), &args);
        let attempt = match asked.written {
            Some(written) => Self { args: preview(written), ..attempt },
            None => attempt,
        };
        Self { method: Some(asked.operation.method()), ..attempt }
    }

    /// One that is wrong in itself, as the script wrote it.
    pub(super) fn invalid(call: u64, server: &str, tool: &str, args: &str) -> Self {
        let name = |name: &str| redact::text(Surface::Log, head(name, MAX_NAME)).into_owned();
        Self::written(call, name(server), name(tool), args)
    }

    fn written(call: u64, server: String, tool: String, args: &str) -> Self {
        Self {
            call,
            method: None,
            server,
            tool,
            args: preview(args),
            args_hash: stubgen::digest(args),
            args_bytes: args.len(),
        }
    }
}

fn charge(counter: &AtomicU32, limit: u32, message: impl Fn() -> String) -> Result<()> {
    // Saturating, so that a script that catches the error and goes on cannot wrap the counter around.
    let charged = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1));
    match charged {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(ErrorCode::BudgetExceeded, message())),
    }
}

fn preview(canonical: &str) -> String {
    // Longer than any secret, so that none is cut in half before it is found.
    let redacted = redact::text(Surface::Log, head(canonical, MAX_LOOKED_AT));
    let cut = head(&redacted, PREVIEW);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}

//! What one execution called, and how much it may still call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use stubgen::ToolStub;

use super::millis;
use crate::discovery::head;
use crate::error::{Error, ErrorCode, Result, code_name};
use crate::redact::{self, Surface};
use crate::upstream::Operation;

/// The outcome of a call that has none yet.
const RUNNING: &str = "running";
/// Characters of the arguments that records and errors show.
const PREVIEW: usize = 200;

/// One call of a script.
#[derive(Debug, Clone, Serialize)]
pub struct CallRecord {
    /// The script's own number of the call.
    #[serde(skip)]
    pub call: u64,
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier, or the operation for resources and prompts.
    pub tool: String,
    /// The arguments, redacted and cut.
    pub args: String,
    /// Digest of the arguments in canonical form.
    pub args_hash: String,
    /// `ok`, an error code, or `running` when the script ended first.
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
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().map(|(record, _)| record.clone()).collect()
    }

    /// How many calls have ended.
    #[must_use]
    pub fn closed(&self) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|(record, _)| record.outcome != RUNNING).count()
    }

    pub(super) fn charge_call(&self) -> Result<()> {
        let limit = self.max_calls;
        charge(&self.charged, limit, || format!("a run may make {limit} calls and this one has made them"))
    }

    pub(super) fn charge_discovery(&self) -> Result<()> {
        let limit = self.max_discovery;
        charge(&self.discovered, limit, || format!("a run may make {limit} requests besides tool calls"))
    }

    /// Opens a record; the number is for [`Ledger::close`].
    pub(super) fn open(&self, call: u64, server: &str, stub: Option<&ToolStub>, operation: &Operation) -> usize {
        let (tool, args) = match operation {
            Operation::Tool { name, arguments, .. } => {
                (stub.map_or_else(|| name.clone(), |stub| stub.ident.clone()), Value::Object(arguments.clone()))
            }
            Operation::Resource { uri } => ("read_resource".to_owned(), Value::String(uri.clone())),
            Operation::Prompt { name, arguments } => (format!("prompt {name}"), Value::Object(arguments.clone())),
            Operation::Complete { params, .. } => ("complete".to_owned(), Value::Object(params.clone())),
            Operation::List => ("list".to_owned(), Value::Null),
        };
        let canonical = stubgen::canonical_json(&args);
        let record = CallRecord {
            call,
            server: server.to_owned(),
            tool,
            args: preview(&canonical),
            args_hash: stubgen::short_digest(&canonical),
            outcome: RUNNING.to_owned(),
            ms: 0.0,
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((record, Instant::now()));
        calls.len() - 1
    }

    pub(super) fn close<T>(&self, record: usize, outcome: &Result<T>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((record, started)) = calls.get_mut(record) {
            record.ms = millis(*started);
            record.outcome = match outcome {
                Ok(_) => "ok".to_owned(),
                Err(error) => code_name(error.code),
            };
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
    let redacted = redact::text(Surface::Log, canonical);
    let cut = head(&redacted, PREVIEW);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}

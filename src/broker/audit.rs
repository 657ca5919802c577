//! One record an execution: what ran, what it called, and what its author had read before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use wire::Language;

use super::{Broker, CallRecord, millis};

/// An execution under way; [`Audit::finish`] logs it. Dropping it without finishing logs it as cancelled.
pub struct Audit {
    broker: Arc<Broker>,
    started: Instant,
    language: Language,
    code_hash: String,
    finished: bool,
}

/// The record, one JSON line on the log's `forgefs::audit` target.
#[derive(Debug, Serialize)]
pub struct Record {
    /// `javascript` or `starlark`.
    pub language: Language,
    /// Digest of the script.
    pub code_hash: String,
    /// `ok`, an error code, or `CANCELLED`.
    pub outcome: String,
    /// Duration in milliseconds.
    pub ms: f64,
    /// Every call, in order.
    pub calls: Vec<CallRecord>,
    /// The stubs that the session had read, with their digests.
    pub read: BTreeMap<String, String>,
}

impl Audit {
    /// Begins the record of a script.
    #[must_use]
    pub fn begin(broker: Arc<Broker>, language: Language, code: &str) -> Self {
        let code_hash = stubgen::digest(code);
        Self { broker, started: Instant::now(), language, code_hash, finished: false }
    }

    /// Completes and logs the record.
    pub fn finish(mut self, outcome: &str) -> Record {
        self.finished = true;
        self.log(outcome)
    }

    fn log(&self, outcome: &str) -> Record {
        let record = Record {
            language: self.language,
            code_hash: self.code_hash.clone(),
            outcome: outcome.to_owned(),
            ms: millis(self.started),
            calls: self.broker.ledger.records(),
            read: self.broker.session.reads(),
        };
        let line = serde_json::to_string(&record).unwrap_or_else(|error| format!("record not written: {error}"));
        tracing::info!(target: "forgefs::audit", "{line}");
        record
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if !self.finished {
            self.log("CANCELLED");
        }
    }
}

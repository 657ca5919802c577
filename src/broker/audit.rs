//! One record an execution: what ran, what it called, and what its author had read before. A request that is no
//! script but reaches a server has one too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use wire::{EngineInfo, Language, Layer};

use super::{Broker, CallRecord, millis};

/// An execution under way; [`Audit::finish`] logs it. Dropping it without finishing logs it as cancelled.
pub struct Audit {
    broker: Arc<Broker>,
    started: Instant,
    subject: Subject,
    ran_in: Option<(EngineInfo, Arc<[Layer]>)>,
    finished: bool,
}

/// What a record is about.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Subject {
    /// A script.
    Script {
        /// `javascript` or `starlark`.
        language: Language,
        /// Digest of the script.
        code_hash: String,
    },
    /// A request of the client's own; recorded only when it called a server.
    Request {
        /// Such as `cat` or `prompts/get`.
        request: &'static str,
    },
}

impl Subject {
    /// A script, by its digest.
    #[must_use]
    pub fn script(language: Language, code: &str) -> Self {
        Self::Script { language, code_hash: stubgen::digest(code) }
    }
}

/// The record, one JSON line on the log's `forgefs::audit` target.
#[derive(Debug, Serialize)]
pub struct Record {
    /// What ran.
    #[serde(flatten)]
    pub subject: Subject,
    /// `ok`, an error code, or `CANCELLED`.
    pub outcome: String,
    /// Duration in milliseconds.
    pub ms: f64,
    /// The engine that ran it, with its version; absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The layers of the process sandbox that held.
    pub confined: Vec<String>,
    /// The layers that did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfined: Vec<String>,
    /// Every call, in order.
    pub calls: Vec<CallRecord>,
    /// The stubs that the session had read, with their digests.
    pub read: BTreeMap<String, String>,
}

impl Audit {
    /// Begins the record of a script or a request.
    #[must_use]
    pub fn begin(broker: Arc<Broker>, subject: Subject) -> Self {
        Self { broker, started: Instant::now(), subject, ran_in: None, finished: false }
    }

    /// Notes where the script ran.
    pub fn ran_in(&mut self, engine: &Option<EngineInfo>, confinement: &Arc<[Layer]>) {
        self.ran_in = engine.clone().map(|engine| (engine, Arc::clone(confinement)));
    }

    /// Completes and logs the record.
    pub fn finish(mut self, outcome: &str) -> Record {
        self.finished = true;
        self.log(outcome)
    }

    fn log(&self, outcome: &str) -> Record {
        let layers = |held: bool| {
            let layers = self.ran_in.iter().flat_map(|(_, layers)| layers.iter());
            layers.filter(|layer| layer.active == held).map(|layer| layer.name.clone()).collect()
        };
        let record = Record {
            subject: self.subject.clone(),
            outcome: outcome.to_owned(),
            ms: millis(self.started),
            engine: self.ran_in.as_ref().map(|(engine, _)| engine.to_string()),
            confined: layers(true),
            unconfined: layers(false),
            calls: self.broker.ledger.records(),
            read: self.broker.session.reads(),
        };
        if matches!(self.subject, Subject::Request { .. }) && record.calls.is_empty() {
            return record;
        }
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

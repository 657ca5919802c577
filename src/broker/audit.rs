//! One record an execution: what ran, what it called, and what its author had read before.

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
    language: Language,
    code_hash: String,
    ran_in: Option<(EngineInfo, Arc<[Layer]>)>,
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
    /// Begins the record of a script.
    #[must_use]
    pub fn begin(broker: Arc<Broker>, language: Language, code: &str) -> Self {
        let code_hash = stubgen::digest(code);
        Self { broker, started: Instant::now(), language, code_hash, ran_in: None, finished: false }
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
            language: self.language,
            code_hash: self.code_hash.clone(),
            outcome: outcome.to_owned(),
            ms: millis(self.started),
            engine: self.ran_in.as_ref().map(|(engine, _)| engine.to_string()),
            confined: layers(true),
            unconfined: layers(false),
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

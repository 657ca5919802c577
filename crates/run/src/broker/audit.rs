//! Audit record of one execution: the script, its calls, and the stubs that the agent had read before. A request other
//! than a script has one too if it reaches a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use wire::{EngineInfo, Language, Layer, LayerName};

use super::board::Place;
use super::ledger::StashUse;
use super::record::preview;
use super::recorder::{Read, line, rfc3339};
use super::{Broker, CallRecord, millis};
use crate::sandbox::Report;
use crate::telemetry::{Ended, EndedCall};
use base::error::ErrorCode;
use base::outcome::Outcome;
use base::text::head;
use config::Amount;
use redact::Surface;
use state::audit::Entry;

/// Most bytes of a script in its record.
const PREVIEW: usize = 1000;

/// Audit of an execution; [`Audit::finish`] logs it. Dropped before that, it logs the execution as cancelled.
pub struct Audit {
    broker: Arc<Broker>,
    started: Instant,
    ran_in: Option<WorkerInfo>,
    finished: bool,
    _place: Place,
}

/// Worker of a run.
struct WorkerInfo {
    engine: EngineInfo,
    layers: Arc<[Layer]>,
    warm: bool,
}

/// Subject of a record.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Subject {
    /// A script.
    Script {
        /// `javascript` or `starlark`.
        language: Language,
        /// Digest of the script.
        code_hash: String,
        /// Beginning of the script, redacted.
        code: String,
        /// True for a dry run.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
    },
    /// A request of the client, recorded if it called a server or much was read since the last record.
    Request {
        /// Method or tool, such as `cat` or `prompts/get`.
        request: &'static str,
    },
}

impl Subject {
    /// A script, with its digest.
    #[must_use]
    pub(super) fn script(language: Language, code: &str, dry_run: bool) -> Self {
        // Redacted before the cut: half a secret would not be recognised.
        let shown = head(&redact::text(Surface::Log, code), PREVIEW).to_owned();
        Self::Script { language, code_hash: stubgen::digest(code), code: shown, dry_run }
    }
}

/// The record: one line of JSON.
#[derive(Debug, Serialize)]
struct Record {
    /// Identifier for `forgefs audit`.
    id: String,
    /// Start, UTC (RFC 3339).
    time: String,
    /// Session id.
    session: String,
    /// Trace id.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// Client name, as the client gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Client whose token it came with; absent for this machine's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// Its profile, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Arc<str>>,
    #[serde(flatten)]
    subject: Subject,
    /// Outcome.
    outcome: Outcome,
    /// Message of the error that ended it, redacted and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Duration in milliseconds.
    ms: f64,
    /// Engine and version; absent if no script ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    /// True if its worker was ready when it came, false if it was started for it; absent if no script ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    warm: Option<bool>,
    /// Sandbox layers in force.
    confined: Vec<LayerName>,
    /// Sandbox layers not in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unconfined: Vec<LayerName>,
    /// Cost of its calls.
    cost: Amount,
    /// Every call, in order.
    calls: Vec<CallRecord>,
    /// Operations of the stash, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stash: Vec<StashUse>,
    /// The stubs that the session has read since the last record of it.
    #[serde(flatten)]
    read: Read,
}

impl Audit {
    /// Begins the audit of an execution.
    #[must_use]
    pub fn begin(broker: Arc<Broker>) -> Self {
        let place = broker.context.board.enter(&broker);
        Self { broker, started: Instant::now(), ran_in: None, finished: false, _place: place }
    }

    /// Notes the worker of a run.
    pub fn ran_in(&mut self, report: &Report) {
        let layers = Arc::clone(&report.confinement);
        self.ran_in = report.engine.clone().map(|engine| WorkerInfo { engine, layers, warm: report.warm });
    }

    /// Completes and logs the record, with the message of the error that ended it; returns its calls.
    pub async fn finish(mut self, outcome: Outcome, error: Option<&str>) -> Vec<CallRecord> {
        // Everything awaited below completes even if this future is dropped.
        self.finished = true;
        let Some((record, entry)) = self.complete(outcome, error) else { return Vec::new() };
        if self.broker.recorder.log.write(entry).await.is_err() {
            self.broker.context.session.give_back_reads(record.read.read);
        }
        record.calls
    }

    /// The record and its log entry; `None` for a request without calls, unless its session has read so much that some
    /// of it would be forgotten before the next record.
    fn complete(&self, outcome: Outcome, error: Option<&str>) -> Option<(Record, Entry)> {
        let calls = self.broker.ledger.records();
        let is_request = matches!(self.broker.recorder.subject, Subject::Request { .. });
        if calls.is_empty() && is_request && !self.broker.context.session.is_record_due() {
            return None;
        }
        let layers = |held: bool| {
            let layers = self.ran_in.iter().flat_map(|ran| ran.layers.iter());
            layers.filter(|layer| layer.active == held).map(|layer| layer.name).collect()
        };
        self.tell(outcome, &calls);
        self.broker.context.board.ended(&calls);
        let session = &self.broker.context.session;
        let (mut read, objects) = Read::take(session);
        // The record of a run includes all new reads, and needs no other line.
        let before = std::mem::take(&mut *self.broker.recorder.read.lock());
        for (path, seen) in before {
            read.read.entry(path).or_insert(seen);
        }
        let record = Record {
            id: self.broker.recorder.id.clone(),
            time: rfc3339(self.broker.recorder.begun),
            session: session.id().to_owned(),
            trace: self.broker.trace.id(),
            client: session.client(),
            principal: session.principal().named().map(str::to_owned),
            profile: self.broker.context.profile.clone(),
            subject: self.broker.recorder.subject.clone(),
            outcome,
            error: error.map(|error| preview(&self.broker.without_restored(error))),
            ms: millis(self.started),
            engine: self.ran_in.as_ref().map(|ran| ran.engine.to_string()),
            warm: self.ran_in.as_ref().map(|ran| ran.warm),
            confined: layers(true),
            unconfined: layers(false),
            cost: calls.iter().fold(Amount::ZERO, |sum, call| sum.plus(call.cost)),
            calls,
            stash: self.broker.ledger.stash_uses(),
            read,
        };
        let entry = Entry { lines: line(&record), objects };
        Some((record, entry))
    }
}

impl Audit {
    /// Reports the execution to metrics and traces.
    fn tell(&self, outcome: Outcome, calls: &[CallRecord]) {
        let (what, language) = match &self.broker.recorder.subject {
            Subject::Script { language: Language::Javascript, .. } => ("execute", Some("javascript")),
            Subject::Script { language: Language::Starlark, .. } => ("execute", Some("starlark")),
            Subject::Request { request } => (*request, None),
        };
        let engine = self.ran_in.as_ref().map(|ran| ran.engine.engine.as_str());
        let is_known = |ident: &str| self.broker.context.catalog.servers().iter().any(|server| server.ident == ident);
        let ended = Ended {
            what,
            language,
            engine,
            outcome,
            session: self.broker.context.session.id(),
            client: &self.broker.context.session.principal().client,
            profile: self.broker.context.profile.as_deref(),
            began: self.broker.recorder.begun,
            took: self.started.elapsed(),
            // A planned call of a dry run is not a call.
            calls: calls
                .iter()
                .filter(|call| call.outcome != Outcome::Planned)
                .map(|call| EndedCall {
                    id: call.id,
                    server: is_known(&call.server).then_some(call.server.as_str()),
                    method: call.method,
                    target: if call.method == Some("tools/call") { &call.tool } else { "" },
                    outcome: call.outcome,
                    refused: !call.sent,
                    began: call.began,
                    took: Duration::from_secs_f64(call.ms.max(0.0) / 1000.0),
                    sent: call.args_bytes,
                    received: call.answer_bytes,
                    cost: call.cost,
                })
                .collect(),
        };
        self.broker.context.telemetry.ended(&ended, &self.broker.trace);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Some((record, entry)) = self.complete(Outcome::Failed(ErrorCode::Cancelled), None)
            && self.broker.recorder.log.write_now(&entry).is_err()
        {
            self.broker.context.session.give_back_reads(record.read.read);
        }
    }
}

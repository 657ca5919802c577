//! One record an execution: what ran, what it called, and what its author had read before. A request that is no
//! script but reaches a server has one too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use wire::{EngineInfo, Language, Layer};

use super::ledger::PLANNED;
use super::{Broker, CallRecord, millis};
use crate::audit;
use crate::config::Amount;
use crate::discovery::head;
use crate::redact::{self, Surface};
use crate::session::random_id;
use crate::telemetry::{Ended, EndedCall, Telemetry};

/// Bytes of a script that its record shows.
const PREVIEW: usize = 1000;

/// An execution under way; [`Audit::finish`] logs it. Dropping it without finishing logs it as cancelled.
pub struct Audit {
    broker: Arc<Broker>,
    log: Arc<audit::Log>,
    telemetry: Telemetry,
    begun: SystemTime,
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
        /// Its beginning, redacted.
        code: String,
        /// Whether it was a dry run.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
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
    pub fn script(language: Language, code: &str, dry_run: bool) -> Self {
        // Before it is cut: half a secret would not be known for one.
        let shown = head(&redact::text(Surface::Log, code), PREVIEW).to_owned();
        Self::Script { language, code_hash: stubgen::digest(code), code: shown, dry_run }
    }
}

/// The record, one JSON object in a line.
#[derive(Debug, Serialize)]
struct Record {
    /// What the command line finds it by.
    id: String,
    /// When it began, UTC (RFC 3339).
    time: String,
    /// The session that it belongs to.
    session: String,
    /// The trace that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// Who the client said it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// What ran.
    #[serde(flatten)]
    subject: Subject,
    /// `ok`, an error code, or `CANCELLED`.
    outcome: String,
    /// Duration in milliseconds.
    ms: f64,
    /// The engine that ran it, with its version; absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    /// The layers of the process sandbox that held.
    confined: Vec<String>,
    /// The layers that did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unconfined: Vec<String>,
    /// What its calls cost.
    #[serde(skip_serializing_if = "Amount::is_zero")]
    cost: Amount,
    /// Every call, in order.
    calls: Vec<CallRecord>,
    /// The stubs that the session had read.
    read: BTreeMap<String, Seen>,
}

/// A stub that was read before.
#[derive(Debug, Serialize)]
struct Seen {
    /// Digest of the tool's definition then.
    digest: String,
    /// Digest of the text, under which it is kept.
    object: String,
}

impl Audit {
    /// Begins the record of a script or a request.
    #[must_use]
    pub fn begin(broker: Arc<Broker>, log: Arc<audit::Log>, telemetry: Telemetry, subject: Subject) -> Self {
        let (begun, started) = (SystemTime::now(), Instant::now());
        Self { broker, log, telemetry, begun, started, subject, ran_in: None, finished: false }
    }

    /// Notes where the script ran.
    pub fn ran_in(&mut self, engine: &Option<EngineInfo>, confinement: &Arc<[Layer]>) {
        self.ran_in = engine.clone().map(|engine| (engine, Arc::clone(confinement)));
    }

    /// Completes and logs the record; returns the calls that are on it.
    pub fn finish(mut self, outcome: &str) -> Vec<CallRecord> {
        self.finished = true;
        self.log(outcome)
    }

    fn log(&self, outcome: &str) -> Vec<CallRecord> {
        let calls = self.broker.ledger.records();
        if calls.is_empty() && matches!(self.subject, Subject::Request { .. }) {
            return calls;
        }
        let layers = |held: bool| {
            let layers = self.ran_in.iter().flat_map(|(_, layers)| layers.iter());
            layers.filter(|layer| layer.active == held).map(|layer| layer.name.clone()).collect()
        };
        self.tell(outcome, &calls);
        let session = &self.broker.session;
        let (read, texts): (BTreeMap<_, _>, Vec<_>) = session
            .reads()
            .into_iter()
            .map(|(path, read)| {
                ((path, Seen { digest: read.digest, object: read.object.clone() }), (read.object, read.text))
            })
            .unzip();
        let record = Record {
            id: random_id(),
            time: humantime::format_rfc3339_millis(self.begun).to_string(),
            session: session.id().to_owned(),
            trace: self.broker.trace.id(),
            client: session.client(),
            subject: self.subject.clone(),
            outcome: outcome.to_owned(),
            ms: millis(self.started),
            engine: self.ran_in.as_ref().map(|(engine, _)| engine.to_string()),
            confined: layers(true),
            unconfined: layers(false),
            cost: self.broker.spent.spent(),
            calls,
            read,
        };
        for (object, text) in &texts {
            self.log.keep(object, text);
        }
        match serde_json::to_string(&record) {
            Ok(line) => self.log.write(&line),
            Err(error) => tracing::error!(%error, id = record.id, "an audit record has no JSON form"),
        }
        record.calls
    }
}

impl Audit {
    /// Tells metrics and traces of it.
    fn tell(&self, outcome: &str, calls: &[CallRecord]) {
        let (what, language) = match &self.subject {
            Subject::Script { language: Language::Javascript, .. } => ("execute", Some("javascript")),
            Subject::Script { language: Language::Starlark, .. } => ("execute", Some("starlark")),
            Subject::Request { request } => (*request, None),
        };
        // The worker says it, and could say anything.
        let engine = self.ran_in.as_ref().map(|(engine, _)| engine.engine.as_str());
        let engine =
            engine.map(|said| ["v8", "quickjs", "starlark"].into_iter().find(|e| *e == said).unwrap_or("other"));
        let is_known = |ident: &str| self.broker.catalog.servers().iter().any(|server| server.ident == ident);
        let ended = Ended {
            what,
            language,
            engine,
            outcome,
            session: self.broker.session.id(),
            began: self.begun,
            took: self.started.elapsed(),
            // What a dry run only planned was no call.
            calls: calls
                .iter()
                .filter(|call| call.outcome != PLANNED)
                .map(|call| EndedCall {
                    id: call.id,
                    server: is_known(&call.server).then_some(call.server.as_str()),
                    method: call.method,
                    target: if call.method == Some("tools/call") { &call.tool } else { "" },
                    outcome: &call.outcome,
                    refused: !call.sent,
                    began: call.began,
                    took: Duration::from_secs_f64(call.ms.max(0.0) / 1000.0),
                    sent: call.args_bytes,
                    received: call.answer_bytes,
                    cost: call.cost,
                })
                .collect(),
        };
        self.telemetry.ended(&ended, &self.broker.trace);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if !self.finished {
            self.log("CANCELLED");
        }
    }
}

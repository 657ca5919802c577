//! Audit record of one execution: the script, its calls, and the stubs that the agent had read before. A request other
//! than a script has one too if it reaches a server.

use std::sync::Arc;
use std::time::Instant;

use crate::calls::preview;
use base::time::{rfc3339_millis, unix_ms};
use wire::{EngineInfo, Language, Layer};

use super::board::Place;
use super::recorder::new_reads;
use super::{Broker, Evidence, millis};
use crate::sandbox::Report;
use crate::telemetry::{Ended, EndedCall};
use base::error::ErrorCode;
use base::outcome::Outcome;
use base::text::BYTES_PER_TOKEN;
use config::Amount;
use state::audit::{self, CallRecord, Description, Entry, Record};

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

impl Audit {
    /// Begins the audit of an execution.
    pub fn begin(broker: Arc<Broker>) -> Self {
        let place = broker.context.records.board.enter(&broker);
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
        if self.broker.run.recorder.log.write(entry).await.is_err() {
            self.broker.context.session.give_back_reads(record.read);
        }
        record.calls
    }

    /// The record and its log entry; `None` for a request without calls, unless its session has read so much that some
    /// of it would be forgotten before the next record.
    fn complete(&self, outcome: Outcome, error: Option<&str>) -> Option<(Record, Entry)> {
        let calls = self.broker.run.ledger.records();
        let is_request = self.broker.language.is_none();
        if calls.is_empty() && is_request && !self.broker.context.session.is_record_due() {
            return None;
        }
        let layers = |held: bool| {
            let layers = self.ran_in.iter().flat_map(|ran| ran.layers.iter());
            layers.filter(|layer| layer.active == held).map(|layer| layer.name.to_string()).collect()
        };
        self.tell(outcome, &calls);
        self.broker.context.records.board.ended(&calls);
        let session = &self.broker.context.session;
        let (mut reads, objects) = new_reads(session);
        // The record of a run includes all new reads, and needs no other line.
        let before = std::mem::take(&mut *self.broker.run.recorder.read.lock());
        for (path, seen) in before {
            reads.read.entry(path).or_insert(seen);
        }
        let no_journal = self.broker.evidence().is_some_and(Evidence::is_lost);
        let record = Record {
            id: self.broker.run.recorder.id.clone(),
            time: rfc3339_millis(unix_ms(self.broker.run.recorder.begun)),
            run: Description { no_journal, ..self.broker.run.recorder.run.clone() },
            outcome,
            error: error.map(|error| preview(&self.broker.without_restored(error))),
            ms: Some(millis(self.started)),
            engine: self.ran_in.as_ref().map(|ran| ran.engine.to_string()),
            warm: self.ran_in.as_ref().map(|ran| ran.warm),
            confined: layers(true),
            unconfined: layers(false),
            cost: calls.iter().fold(Amount::ZERO, |sum, call| sum.plus(call.cost)),
            plain_list: (!is_request)
                .then(|| (self.broker.context.catalog.definition_bytes() / BYTES_PER_TOKEN) as u64),
            calls,
            hooks: self.broker.run.ledger.hooks(),
            stash: self.broker.run.ledger.stash_uses(),
            read: reads.read,
            read_part: reads.read_part,
            read_count: reads.read_count,
        };
        let entry = Entry { lines: audit::line(&record), objects };
        Some((record, entry))
    }

    /// Reports the execution to metrics and traces.
    fn tell(&self, outcome: Outcome, calls: &[CallRecord]) {
        let engine = self.ran_in.as_ref().map(|ran| ran.engine.engine.as_str());
        let is_known = |ident: &str| self.broker.context.catalog.servers().iter().any(|server| server.ident == ident);
        let ended = Ended {
            what: self.broker.run.recorder.run.request.as_deref().unwrap_or("execute"),
            language: self.broker.language.map(Language::as_str),
            engine,
            outcome,
            session: self.broker.context.session.id(),
            client: &self.broker.context.session.principal().client,
            profile: self.broker.context.profile.as_deref(),
            began: self.broker.run.recorder.begun,
            took: self.started.elapsed(),
            // A planned call of a dry run is not a call.
            calls: calls
                .iter()
                .filter(|call| call.outcome != Outcome::Planned)
                .map(|record| EndedCall { record, server: is_known(&record.server).then_some(record.server.as_str()) })
                .collect(),
        };
        self.broker.context.records.telemetry.ended(&ended, &self.broker.run.trace);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Some((record, entry)) = self.complete(Outcome::Failed(ErrorCode::Cancelled), None)
            && self.broker.run.recorder.log.write_now(&entry).is_err()
        {
            self.broker.context.session.give_back_reads(record.read);
        }
    }
}

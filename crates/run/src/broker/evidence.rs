//! The journal of a run, written by the broker before the script hears of anything; and the past of a resumed run, from
//! which the same calls are answered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::time::{now_ms, rfc3339};
use parking_lot::Mutex;
use serde_json::{Value, json};
use wire::{Json, Op, Outcome};

use super::ledger::Call;
use super::policy::PendingCall;
use super::{Approver, Broker, is_repeatable};
use crate::runs::Live;
use crate::session::Consent;
use base::error::{Effect, Error, ErrorCode, Result};
use base::labels::Held;
use base::labels::Labels;
use base::task;
use redact::Surface;
use state::audit::Verdict;
use state::journal::{Answered, Doubt, End, Found, Past, RunOp, Sent, Subject, Taken, Waits, Writer};
use upstream::{Operation, TaskNote};

/// Key of the run, in the data of the error of a call that does not belong to it.
pub const PARTED: &str = "resumes";

/// Journal of one run.
#[derive(Debug)]
pub struct Evidence {
    /// `None` for a dry run, which leaves no evidence, and where none can be written.
    writer: Option<Arc<Writer>>,
    past: Option<Past>,
    /// Recorded calls at the start: of all runs, and of the first one.
    expected: (usize, usize),
    /// Requests of the script without an answer yet, by number.
    open: Mutex<HashMap<u64, Request>>,
    /// The script's clock, in Unix milliseconds. It never goes back.
    now_ms: AtomicU64,
    /// Calls that wait for approval, with their labels.
    waiting: Mutex<Vec<(Waits, String)>>,
    has_ended: AtomicBool,
    /// The run in the background, whose output its end has also when it is cancelled.
    live: Option<Arc<Live>>,
}

/// A request of the script.
#[derive(Debug, Default)]
struct Request {
    /// Its text, until a line has it.
    ask: Option<Json>,
    /// Effect of a failed call.
    effect: Option<Effect>,
    /// Call of the past that answers it, with the script's clock then.
    inherited: Option<(RunOp, u64)>,
}

/// Past of one call.
pub(super) enum Inherited {
    /// It was done, with this answer.
    Answer(Value),
    /// The server has made a task of it, which may have the answer.
    Task(Taken),
    /// It has to be made, in place of that earlier call if there is one.
    Nothing(Option<RunOp>),
}

impl Evidence {
    /// The journal of a run whose clock begins at `now_ms`, with the past that it continues.
    pub fn new(writer: Option<Arc<Writer>>, past: Option<Past>, now_ms: u64) -> Self {
        Self {
            writer,
            expected: past.as_ref().map_or((0, 0), |past| (past.calls(), past.first_calls())),
            past,
            open: Mutex::default(),
            now_ms: AtomicU64::new(now_ms),
            waiting: Mutex::default(),
            has_ended: AtomicBool::new(false),
            live: None,
        }
    }

    /// Note for the run: it has no journal, or how many recorded calls it used of the run that it continues.
    pub fn note(&self) -> Option<String> {
        if self.is_lost() {
            return Some("this run has no journal, since none can be written: it cannot be resumed".to_owned());
        }
        let past = self.past.as_ref()?;
        let (all, _) = self.expected;
        let used = all.saturating_sub(past.calls());
        let (run, then) = (&past.head.run, rfc3339(past.head.at_ms));
        Some(format!("continues {run} of {then}: {used} of {all} recorded calls used; see /runs/{run}"))
    }

    /// True if there should be a journal and none can be written.
    pub(super) fn is_lost(&self) -> bool {
        self.writer.is_none() && self.past.is_none()
    }

    /// Writes the end of a run that was given up, which held data of `labels`.
    pub fn cancelled(&self, labels: Labels) {
        let outcome = base::outcome::Outcome::Failed(ErrorCode::Cancelled);
        let output = self.live.as_ref().map(|live| live.output()).unwrap_or_default();
        let at_ms = now_ms();
        self.ended(End { at_ms, outcome, engine: None, value: None, error: None, explained: None, output, labels });
    }

    /// The script's clock, in Unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Gives calls back to the past, as if they had not been asked for.
    pub(super) fn give_back(&self, taken: Vec<Taken>) {
        if let Some(past) = &self.past {
            past.give_back(taken);
        }
    }

    /// Takes a request of the script.
    pub(super) fn asked(&self, op: u64, request: &Op) {
        // A request has come from JSON.
        if let Ok(ask) = serde_json::value::to_raw_value(request) {
            self.open.lock().entry(op).or_default().ask = Some(ask);
        }
    }

    /// True if an earlier run has waited for this already.
    pub(super) fn has_waited(&self, op: u64) -> bool {
        let open = self.open.lock();
        let ask = open.get(&op).and_then(|request| request.ask.as_ref());
        ask.zip(self.past.as_ref()).is_some_and(|(ask, past)| past.knows(ask.get()))
    }

    /// Writes an answer, and returns the script's clock with it.
    pub(super) fn answered(&self, op: u64, outcome: &Outcome, labels: Labels) -> u64 {
        let Request { ask, effect, inherited } = self.open.lock().remove(&op).unwrap_or_default();
        let (from, then) = inherited.unzip();
        let past = || self.past.as_ref()?.time_of(ask.as_ref()?.get());
        let now_ms = then.or_else(past).unwrap_or_else(now_ms);
        let now_ms = self.now_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms);
        if let Some(writer) = &self.writer {
            writer.answered(Answered {
                op,
                now_ms,
                ask,
                answer: Some(outcome),
                left_out: None,
                no_effect: effect == Some(Effect::Nothing),
                done: effect == Some(Effect::Done),
                labels,
                from,
            });
        }
        now_ms
    }

    /// Writes that a call waits for approval.
    pub(super) fn waits(&self, waits: Waits, label: String) {
        if let Some(writer) = &self.writer {
            writer.waits(waits.clone());
        }
        let mut waiting = self.waiting.lock();
        if waiting.iter().all(|(known, _)| known.approval != waits.approval) {
            waiting.push((waits, label));
        }
    }

    /// Calls that wait for approval, with their labels.
    pub fn waiting(&self) -> Vec<(Waits, String)> {
        self.waiting.lock().clone()
    }

    /// First run of the chain; `None` for a run that continues none.
    pub fn root(&self) -> Option<&str> {
        self.past.as_ref()?.chain.first().map(String::as_str)
    }

    /// Writes the end of the run; a second end is ignored.
    pub fn ended(&self, end: End) {
        let has_ended = self.has_ended.swap(true, Ordering::Relaxed);
        if let Some(writer) = self.writer.as_ref().filter(|_| !has_ended) {
            writer.ended(end);
        }
    }

    /// True if the run can be resumed.
    pub fn is_written(&self) -> bool {
        self.writer.is_some()
    }

    /// Calls that an earlier run may answer.
    pub fn expected(&self) -> usize {
        self.expected.0
    }
}

/// A run that was given up, as by its client.
impl Drop for Evidence {
    fn drop(&mut self) {
        self.cancelled(Labels::new());
    }
}

impl Broker {
    /// Writes what the run does to a journal from now on.
    pub fn keep_evidence(&self, mut evidence: Evidence) {
        evidence.live = self.context.live.clone();
        self.run.ledger.expect_inherited(evidence.expected());
        // One run has one journal.
        let _ = self.run.evidence.set(evidence);
    }

    /// Identifier of the run, in its records and its journal.
    pub fn id(&self) -> &str {
        &self.run.recorder.id
    }

    /// Its journal, if it has one.
    pub fn evidence(&self) -> Option<&Evidence> {
        self.run.evidence.get()
    }

    /// Writes that a call goes out; false if the run should have a journal and has none, `None` if it need not.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written.
    pub(super) fn write_sent(
        &self,
        call: &Call<'_>,
        asked: &PendingCall<'_>,
        again: Option<RunOp>,
    ) -> Result<Option<bool>> {
        let Some(evidence) = self.evidence() else { return Ok(None) };
        let Some(writer) = &evidence.writer else { return Ok(evidence.is_lost().then_some(false)) };
        let (op, args_hash) = call.key();
        let sent = Sent {
            op,
            at_ms: now_ms(),
            method: asked.operation.method().to_owned(),
            server: asked.entry.name.clone(),
            tool: asked.operation.name().into_owned(),
            origin: self.origin_of(asked),
            definition: definition(asked).to_owned(),
            args_hash,
            reads: asked.is_read(),
            sealed: asked.is_sealed(),
            again,
            ask: evidence.open.lock().get(&op).and_then(|request| request.ask.clone()),
        };
        match writer.sent(sent) {
            Ok(()) => {
                // The line of its answer needs it no more.
                evidence.open.lock().entry(op).or_default().ask = None;
                Ok(Some(true))
            }
            Err(error) if asked.is_read() => {
                tracing::warn!(%error, "a call that reads is made all the same");
                Ok(Some(false))
            }
            Err(error) => Err(error),
        }
    }

    fn origin_of(&self, asked: &PendingCall<'_>) -> String {
        self.context.router.origin(asked.entry, self.context.session.tenant()).to_string()
    }

    /// Makes the digest of calls that a question is about: of one operation, with these arguments and consents. An answer
    /// is for them alone.
    pub(super) fn about(
        &self,
        asked: &PendingCall<'_>,
        wanted: &[Consent],
        args_hashes: &[String],
    ) -> impl Fn() -> String + Send + Sync + use<> {
        let (server, tool) = (&asked.entry.name, asked.operation.name());
        let about = json!([server, self.origin_of(asked), tool, definition(asked), wanted, args_hashes]);
        move || stubgen::digest(stubgen::canonical_json(&about))
    }

    /// Notes the effect of a failed call.
    pub(super) fn ended_with(&self, op: u64, effect: Effect) {
        if let Some(evidence) = self.evidence() {
            evidence.open.lock().entry(op).or_default().effect = Some(effect);
        }
    }

    /// Refuses to go on with a script that does not belong to the run that it resumes, unless the operator consents.
    pub fn refuse_apart(&self, what: &str, run: &str) -> Result<()> {
        if self.run.is_dry || self.context.policy.approver == Approver::Operator {
            return Ok(());
        }
        let error = Error::new(ErrorCode::ApprovalDenied, format!("{what} of run {run}, which it resumes"));
        Err(error.data(json!({ PARTED: run })).hint(
            "run it without `resume` if it is another script; if it goes on with that run, make the recorded calls first, \
             or name tools to call again in `fresh`",
        ))
    }

    /// The answer of an earlier run to this call, under the rules of now.
    ///
    /// # Errors
    /// The code of the rule that refuses it; `MAYBE_DONE` when it is unknown whether it was done, and it may change
    /// something.
    pub(super) fn inherit(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, taint: &Held) -> Result<Inherited> {
        let Some((evidence, past)) = self.evidence().and_then(|evidence| Some((evidence, evidence.past.as_ref()?)))
        else {
            return Ok(Inherited::Nothing(None));
        };
        let Operation::Tool { name, .. } = asked.operation else { return Ok(Inherited::Nothing(None)) };
        let (op, args_hash) = call.key();
        let server = &asked.entry.name;
        // Journals of earlier versions have the digest of numbers as they were written.
        let written = stubgen::digest(asked.operation.arguments());
        let args_hash = if past.has(server, name, &written) { written } else { args_hash };
        let is_known = past.has(server, name, &args_hash);
        if !is_known {
            let is_free = asked.is_read() || asked.entry.is_scripts() || !past.is_edit;
            let all = evidence.expected.1;
            if !is_free && all > 0 && past.first_calls() == all {
                let what = format!("{} is not called: this script has used none of", asked.label());
                self.refuse_apart(&format!("{what} the {all} recorded calls"), &past.first.0)?;
            }
            return Ok(Inherited::Nothing(past.discarded(server, name, &args_hash)));
        }
        // Before it counts as asked for: a refused call is not.
        let rules = self.context.rules_now();
        self.decide(&rules, asked, taint)?;
        self.taint.enter(server)?;
        let subject = Subject { origin: self.origin_of(asked), definition: definition(asked).to_owned() };
        match past.take(&asked.entry.name, name, &args_hash, &subject) {
            Found::Nothing => Ok(Inherited::Nothing(None)),
            Found::Task(taken) if !self.run.is_dry => Ok(Inherited::Task(taken)),
            Found::Task(taken) => Err(maybe_done(asked, &taken, Doubt::Unanswered)),
            Found::Doubtful(taken, doubt) if doubt == Doubt::Fresh || asked.stub.is_some_and(is_repeatable) => {
                Ok(Inherited::Nothing(Some(taken.call.origin)))
            }
            Found::Doubtful(taken, doubt) => Err(maybe_done(asked, &taken, doubt)),
            Found::Done(taken, answer, now_ms) => {
                self.taint.receive(server);
                // Values that were configured since are kept from it as from any answer.
                let parse = || {
                    let value = serde_json::from_str::<Value>(answer.get())?;
                    Ok::<_, serde_json::Error>(redact::json(self.arriving(Surface::Script), value))
                };
                let Ok(value) = task::work_on(answer.get().len(), parse) else {
                    return Err(maybe_done(asked, &taken, Doubt::LeftOut));
                };
                let origin = taken.call.origin.clone();
                call.note(|record| {
                    record.verdict = Verdict::Inherited(origin.run.clone());
                    record.answer_bytes = answer.get().len();
                });
                if let Some(scope) = &self.scope {
                    scope.took([taken]);
                }
                evidence.open.lock().entry(op).or_default().inherited = Some((origin, now_ms));
                Ok(Inherited::Answer(value))
            }
        }
    }

    /// Writes the ids of tasks that a server makes of a call into the journal; `None` without one.
    pub(super) fn task_note(&self, op: u64) -> Option<TaskNote> {
        // The journal of a run that has ended is closed, while the connection may remember the call.
        let writer = Arc::downgrade(self.evidence()?.writer.as_ref()?);
        Some(Arc::new(move |id: &str| _ = writer.upgrade().map(|writer| writer.has_task(op, id))))
    }

    /// The task of an earlier call was asked in vain: the error of a call that may be done, or the call to be made again.
    pub(super) fn asked_in_vain(
        &self,
        call: &Call<'_>,
        asked: &PendingCall<'_>,
        task: &Taken,
    ) -> Result<Option<RunOp>> {
        let (op, _) = call.key();
        let again = RunOp { run: self.id().to_owned(), op };
        if asked.stub.is_some_and(is_repeatable) {
            return Ok(Some(again));
        }
        if let Some(past) = self.evidence().and_then(|evidence| evidence.past.as_ref()) {
            past.doubt(task, again);
        }
        Err(maybe_done(asked, task, Doubt::Unanswered))
    }
}

/// Whole digest of the definition of a tool or prompt; empty where there is none.
pub(super) fn definition<'a>(asked: &PendingCall<'a>) -> &'a str {
    match asked.operation {
        Operation::Tool { definition, .. } => definition,
        Operation::Prompt { definition, .. } => definition.as_deref().unwrap_or_default(),
        _ => "",
    }
}

fn maybe_done(asked: &PendingCall<'_>, earlier: &Taken, doubt: Doubt) -> Error {
    let (label, run, at) = (asked.label(), &earlier.call.origin.run, rfc3339(earlier.call.at_ms));
    let (was, rest) = match doubt {
        Doubt::Unanswered | Doubt::Fresh => ("sent", ", and no answer came: it may be done or not"),
        Doubt::LeftOut => ("done", "; its answer is not in the journal"),
        Doubt::Changed => ("done", ", and its definition, or the settings of its server, have changed since"),
    };
    let message = format!("{label} was {was} with these arguments by run {run} at {at}{rest}");
    Error::new(ErrorCode::MaybeDone, message).hint(
        "find out by a call that reads; then go on without this one, or catch this error and call again to repeat it",
    )
}

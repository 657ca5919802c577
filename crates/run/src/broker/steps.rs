//! The steps of a call that is resolved and validated: from its record to its answer.

use std::sync::Arc;

use serde_json::Value;

use super::consent::Approval;
use super::evidence::Inherited;
use super::ledger::Call;
use super::normalise::{self, Origin};
use super::policy::{self, Caller, PendingCall, Reason, Rules};
use super::recorder::no_record;
use super::scope::Scope;
use super::{Broker, record, sample, stale};
use base::error::{Effect, Error, ErrorCode, Result};
use base::labels::Held;
use base::memory;
use base::task;
use catalog::manifest::ServerEntry;
use config::{Amount, Required};
use redact::Surface;
use state::audit::{CallRecord, Verdict};
use state::journal::{RunOp, Taken};
use state::spending::Item;
use upstream::{Answer, Operation, Progress, Step, TraceContext};

/// An admitted call.
pub(super) struct Admitted {
    /// True if a reviewer or the user approved the tool with the catalog's definition.
    pub(super) is_vouched: bool,
    /// The last rules that decided about it.
    pub(super) rules: Arc<Rules>,
    /// Taint when it was dispatched.
    pub(super) taint: Held,
    /// Reasons for which the user was asked.
    pub(super) reasons: Vec<Reason>,
    /// Call of an earlier run in whose place it is made.
    pub(super) again: Option<RunOp>,
    /// Approval that it uses up.
    pub(super) approval: Option<Arc<str>>,
    /// The server's id of the task that it has made of the call in an earlier run, which is asked for the answer.
    pub(super) task: Option<String>,
}

impl Broker {
    /// Steps 3 to 7, for every kind of operation.
    pub(super) async fn dispatch(&self, number: u64, asked: PendingCall<'_>) -> Result<Value> {
        let asked = &PendingCall { from: self.scope.as_deref().map(Caller::Runs), ..asked };
        let taint = self.taint.now();
        let instance = self.context.router.scope(asked.entry, self.context.session.tenant(), asked.operation);
        let record =
            CallRecord { instance: instance.map(Into::into), ..record::of(number, asked, taint.labels.clone()) };
        let mut call = self.run.ledger.open(record)?;
        let answer = match self.inherit(&mut call, asked, &taint) {
            Err(error) => Err(call.refused(error)),
            Ok(Inherited::Answer(value)) => Ok(value),
            Ok(Inherited::Task(task)) => match Box::pin(self.ask_task(&mut call, asked, &taint, task)).await {
                Ok(Err(again)) => self.make(&mut call, asked, taint, again).await,
                Ok(Ok(value)) => Ok(value),
                Err(error) => Err(error),
            },
            Ok(Inherited::Nothing(again)) => self.make(&mut call, asked, taint, again).await,
        };
        let is_run = || asked.entry.is_scripts() && !call.record().is_inherited();
        let is_made = !self.run.is_dry && (call.is_sent() || is_run());
        if let (Some(stub), None, true) = (asked.stub, &self.scope, is_made && answer.is_ok()) {
            self.context.searching.called(&self.context.session.searches, asked.entry, stub);
        }
        if let (Some(stub), None, Ok(value)) = (asked.stub, &self.scope, &answer) {
            let bytes = call.record().answer_bytes;
            task::work_on(bytes, || self.run.looked.lock().look(asked.entry, stub, value));
        }
        call.close(&answer, |message| self.without_restored(message));
        if let Some(caller) = &self.context.caller {
            let said = if answer.is_ok() { "done" } else { "failed" };
            caller.progress(Step { done: self.run.ledger.closed(), message: format!("{}: {said}", asked.label()) });
        }
        answer
    }

    /// Decides about a call, and makes it in place of the earlier call `again`.
    async fn make(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        taint: Held,
        again: Option<RunOp>,
    ) -> Result<Value> {
        match self.admit(call, asked, taint).await {
            Err(error) => Err(call.refused(error)),
            Ok(admitted) if asked.entry.is_scripts() => {
                let answer = Box::pin(self.call_script(call, asked, &admitted)).await;
                self.hooks_about_answer(call, asked, answer).await
            }
            Ok(admitted) if self.run.is_dry && !(admitted.reasons.is_empty() && asked.is_read()) => {
                call.planned();
                self.taint.receive(&asked.entry.name);
                Ok(self.sample(asked))
            }
            Ok(admitted) => self.pay_and_send(call, asked, &Admitted { again, ..admitted }).await,
        }
    }

    /// Asks the task that a server has made of a call of an earlier run for its answer. It was admitted and paid then.
    /// `Err` within has the call that is to be made again, since the task is gone.
    async fn ask_task(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        taint: &Held,
        task: Taken,
    ) -> Result<Result<Value, Option<RunOp>>> {
        call.note(|record| record.verdict = Verdict::Inherited(task.call.origin.run.clone()));
        let mut operation = asked.operation.clone();
        if let Operation::Tool { repeatable, .. } = &mut operation {
            // A call that was not admitted now is not made in place of the task.
            *repeatable = false;
        }
        let asked = &PendingCall { operation: &operation, ..*asked };
        let (rules, again, id) = (self.context.rules_now(), Some(task.call.origin.clone()), task.call.task.clone());
        let (taint, reasons) = (taint.clone(), Vec::new());
        let admitted = Admitted { is_vouched: false, rules, taint, reasons, again, approval: None, task: id };
        let _slot = self.run.slots.acquire().await;
        match self.send(call, asked, &admitted).await {
            Err(error) if error.code == ErrorCode::MaybeDone => self.asked_in_vain(call, asked, &task).map(Err),
            // Not the task's own answer: the next call like it asks the task again.
            Err(error) if error.code != ErrorCode::ToolError => {
                if let Some(evidence) = self.evidence() {
                    evidence.give_back(vec![task]);
                }
                Err(error.with_effect(Effect::Unknown))
            }
            answer => {
                // A script that is called and fails gives it back.
                if let Some(scope) = &self.scope {
                    scope.took([task]);
                }
                answer.map(Ok)
            }
        }
    }

    /// Steps 4 and 5: decides about a call. `taint` is that of the execution when the call was dispatched.
    pub(super) async fn admit(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, taint: Held) -> Result<Admitted> {
        let rules = self.context.rules_now();
        let mut reasons = self.decide(&rules, asked, &taint)?;
        reasons.extend(self.hooks_about_call(call, asked).await?);
        let mut approval = None;
        let verdict = match reasons.is_empty() {
            true => Verdict::Allowed,
            false if self.run.is_dry => Verdict::WouldAsk(policy::all_of(&reasons)),
            false => {
                let consent = Box::pin(self.approve(call, asked, &reasons)).await?;
                if let Approval::Waited { id, .. } = &consent {
                    approval = Some(Arc::clone(id));
                }
                Verdict::Approved(consent.to_string())
            }
        };
        call.note(|record| record.verdict = verdict);
        // Only an admitted call puts the execution into its group; of concurrent calls to two groups only one can.
        self.taint.enter(&asked.entry.name)?;
        self.scope.as_deref().map_or(Ok(()), Scope::charge)?;
        call.charge()?;
        let is_vouched = (asked.stub.is_some() && asked.entry.is_pinned) || !reasons.is_empty();
        Ok(Admitted { is_vouched, rules, taint, reasons, again: None, approval, task: None })
    }

    /// Reasons to ask the user, by the rules that the execution began with and those in force now.
    pub(super) fn decide(&self, rules: &Arc<Rules>, asked: &PendingCall<'_>, taint: &Held) -> Result<Vec<Reason>> {
        let mut reasons = policy::decide(&self.context.policy.rules, asked, taint)?;
        if !Arc::ptr_eq(rules, &self.context.policy.rules) {
            let more = policy::decide_anew(rules, asked, taint)?;
            reasons.extend(more.into_iter().filter(|reason| !reasons.contains(reason)).collect::<Vec<_>>());
        }
        Ok(reasons)
    }

    /// Decides again just before the call is sent: approval, waiting for a slot and payment take time.
    pub(super) fn still_admitted(&self, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<()> {
        let rules = self.context.rules_now();
        if Arc::ptr_eq(&rules, &admitted.rules) {
            return Ok(());
        }
        let reasons = policy::decide_anew(&rules, asked, &admitted.taint)?;
        let changed = |message: String| {
            let hint = "the configuration has changed while this call waited: make it again";
            Err(Error::new(ErrorCode::ApprovalDenied, message).hint(hint))
        };
        if self.has_further_hooks(asked, &rules, &admitted.rules) {
            return changed(format!("there is a further hook, which {} has not passed", asked.label()));
        }
        match reasons.iter().find(|reason| !admitted.reasons.contains(reason)) {
            None => Ok(()),
            Some(reason) => changed(format!("{} now needs approval: {reason}", asked.label())),
        }
    }

    /// Waits for a slot, pays for a call and makes it. A refused call costs nothing.
    async fn pay_and_send(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<Value> {
        let label = asked.label();
        let item = Item {
            server: &asked.entry.name,
            tool: asked.stub.map(|stub| stub.name.as_str()),
            label: &label,
            free: matches!(asked.operation, Operation::Complete { .. }),
        };
        // First: a call that still waits when its script ends has paid nothing.
        let slot = self.run.slots.acquire().await;
        let paid = match self.context.spending.charge(item, &self.run.account).await {
            Ok(paid) => paid,
            Err(error) => return Err(call.refused(error)),
        };
        call.note(|record| record.cost = paid.cost);
        call.paid = Some(paid);
        let answer = self.send(call, asked, admitted).await;
        drop(slot);
        if let Some(paid) = call.paid.take()
            && answer.as_ref().is_err_and(|error| was_turned_away(error) || !paid.is_sent)
        {
            call.note(|record| record.cost = Amount::ZERO);
            paid.refund().await;
            self.give_back(call, admitted.approval.as_deref()).await;
        }
        match answer {
            Err(mut error) if error.code == ErrorCode::ToolChanged => {
                policy::changed(asked, admitted.is_vouched, &mut error);
                Err(call.refused(error))
            }
            answer => answer,
        }
    }

    /// Puts a call on record, and sends it if it is still admitted.
    async fn send(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<Value> {
        let ready = async {
            let logged = self.run.recorder.sent(&call.record(), &self.context.session).await?;
            self.still_admitted(asked, admitted)?;
            self.use_up(call, admitted.approval.as_deref()).await?;
            let records = [logged, self.write_sent(call, asked, admitted.again.clone())?];
            let is_lost = records.contains(&Some(false)) && !records.contains(&Some(true));
            match is_lost && !asked.is_read() && self.run.recorder.log.required() > Required::Nothing {
                true => Err(no_record()),
                false => Ok(()),
            }
        };
        if let Err(error) = ready.await {
            return Err(call.refused(error));
        }
        let task = admitted.task.as_deref();
        let answer = self.perform(call, asked, task).await.map_err(|error| asked.operation.warned(error));
        if let Err(error) = &answer {
            self.ended_with(call.key().0, error.effect);
            call.note(|record| record.is_undone = error.effect == Effect::Nothing);
        }
        answer
    }

    /// Makes a call, or asks `task` of an earlier one for the answer.
    async fn perform(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, task: Option<&str>) -> Result<Value> {
        let (id, told) = self.run.trace.call();
        call.note(|record| (record.sent, record.span) = (true, id));
        call.paid.iter_mut().for_each(|paid| paid.is_sent = true);
        let room = upstream::ReservedMemory::default();
        let answer = self.reported(call, asked, told, (&room, task)).await;
        // For any outcome: an error carries the server's words, and a lost call may have had an effect.
        self.taint.receive(&asked.entry.name);
        let answer =
            match answer.map_err(|error| self.redacted(unready(stale::explained(error, asked.stub), asked.entry))) {
                Ok(answer) => answer,
                Err(error) => return self.hooks_about_answer(call, asked, Err(error)).await,
            };
        let bytes = answer.text_bytes();
        // A text that is JSON becomes values too.
        let inside = task::work_on(bytes, || normalise::tree_bytes(&answer));
        if inside > memory::SMALL {
            room.hold(memory::ANSWERS.wait_for(inside).await.map_err(|full| no_room(asked, &full))?);
        }
        let (bytes, value) = task::work_on(bytes, || self.normalise(asked, answer));
        call.note(|record| record.answer_bytes = bytes);
        let value = self.hooks_about_answer(call, asked, value).await.map(|value| self.without_whole(asked, value));
        if let (Ok(value), Some(stub), Operation::Tool { arguments, .. }) = (&value, asked.stub, asked.operation) {
            task::work_on(bytes, || asked.entry.observed.learn(stub, arguments, value));
        }
        value
    }

    /// The answer to a planned call: by the tool's output schema, else by the observed shape.
    fn sample(&self, asked: &PendingCall<'_>) -> Value {
        let Some(stub) = asked.stub else { return Value::Null };
        let observed = asked.entry.observed.of(stub).and_then(|observed| observed.schema);
        match sample::of(stub.definition.tree().get("outputSchema").or(observed.as_ref())) {
            // Scripts take an empty text for a failure.
            Value::String(text) if text.is_empty() => "ok".into(),
            sample => sample,
        }
    }

    /// The answer as scripts see it, and its size in bytes.
    fn normalise(&self, asked: &PendingCall<'_>, answer: Answer) -> (usize, Result<Value>) {
        match answer {
            Answer::Tool(mut answer) => {
                if asked.stub.is_none_or(|stub| stub.definition.tree().get("outputSchema").is_none()) {
                    normalise::without_empty(&mut answer);
                }
                let tool = asked.label();
                let origin = Origin { is_whole: self.wants_whole(asked), ..self.origin(asked.entry, &tool) };
                let (bytes, value) = normalise::tool_answer(answer, &origin);
                let value = value.map_err(|error| self.redacted(stale::explained(error, asked.stub)));
                (bytes, value.map(|value| redact::json(self.arriving(Surface::Script), value)))
            }
            Answer::Raw(value) => {
                normalise::raw_answer(redact::json(self.arriving(Surface::Script), value), &self.context.limits)
            }
            Answer::Listing(_) => (0, Ok(Value::Null)),
        }
    }

    /// Makes the call and reports the server's progress to the client.
    async fn reported(
        &self,
        call: &Call<'_>,
        asked: &PendingCall<'_>,
        told: Option<TraceContext>,
        (room, task): (&upstream::ReservedMemory, Option<&str>),
    ) -> Result<Answer> {
        let &PendingCall { entry, operation, .. } = asked;
        let (tenant, (op, args_hash)) = (self.context.session.tenant(), call.key());
        let note = self.task_note(op);
        if let (Some(task), Some(note)) = (task, &note) {
            note(task);
        }
        let whole = |mut progress: Progress| {
            (progress.trace, progress.room) = (told.map(Arc::new), room.clone());
            progress.of_task(task.map(str::to_owned), note)
        };
        let Some(caller) = &self.context.caller else {
            return self.context.router.call(entry, tenant, operation, &whole(Progress::default())).await;
        };
        let mut progress = Progress::made_for(self.reachable(caller), &entry.ident, Arc::clone(&self.run.pause))
            .of_call(op, Arc::new(self.about(asked, &[], &[args_hash])));
        progress.relays = self.context.policy.rules.relays(&entry.name);
        let progress = whole(progress);
        let (mut reports, mut last) = (progress.watch(), String::new());
        let mut answer = std::pin::pin!(self.context.router.call(entry, tenant, operation, &progress));
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                // Words of a server that a script reads stay with it: `/runs` has the labels of its caller.
                Ok(()) = reports.changed(), if self.scope.is_none() => {
                    let said = reports.borrow_and_update().to_string();
                    // Signs of life have no news.
                    if said == last {
                        continue;
                    }
                    let message = self.outgoing(Surface::Error, &format!("{}: {said}", asked.label()));
                    last = said;
                    caller.progress(Step { done: self.run.ledger.closed(), message });
                }
            }
        }
    }

    /// Redacts secrets from a server's own error. Errors of libraries, transports and stderr also lose what describes
    /// the network behind the gateway.
    pub(super) fn redacted(&self, error: Error) -> Error {
        let surface = match error.code {
            ErrorCode::ToolError | ErrorCode::InvalidArgs => Surface::ToolError,
            _ => Surface::Error,
        };
        redact::error(self.arriving(surface), error)
    }

    pub(super) fn origin<'a>(&'a self, entry: &'a ServerEntry, tool: &'a str) -> Origin<'a> {
        Origin {
            server: &entry.ident,
            tool,
            limits: &self.context.limits,
            attachments: &self.attachments,
            is_whole: false,
        }
    }
}

pub(super) fn no_room(asked: &PendingCall<'_>, full: &memory::Full) -> Error {
    let message = format!("the answer of {} is too large: {full}", asked.label());
    Error::new(ErrorCode::BudgetExceeded, message).hint(full.hint()).with_effect(Effect::Done)
}

/// The error of a server that did not get ready, with its name and for agents, who configure nothing.
fn unready(error: Error, entry: &ServerEntry) -> Error {
    match error.code == ErrorCode::TransportDead && error.message.starts_with("it was not ready within") {
        true => error
            .context(&entry.ident)
            .hint("`ls /` shows its state: try again later, or tell the user to raise its `connect_timeout`"),
        false => error,
    }
}

/// True if a call with this error was not made: refused by the circuit breaker or the server, or because the tool has
/// changed.
fn was_turned_away(error: &Error) -> bool {
    const AWAY: [ErrorCode; 4] =
        [ErrorCode::CircuitOpen, ErrorCode::AuthRequired, ErrorCode::RateLimit, ErrorCode::ToolChanged];
    error.effect == Effect::Nothing && AWAY.contains(&error.code)
}

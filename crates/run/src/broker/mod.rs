//! The only path from a script to a server.
//!
//! One [`Broker`] serves one execution, for every language, entry point and degree of parallelism:
//!
//! 1. resolve the names, with suggestions; an unreviewed tool stops here;
//! 2. map and validate the arguments against the tool's schema;
//! 3. open the record, so that refused calls are on it too;
//! 4. ask the `policy`, then the hooks, and the user if a rule or a hook says so, before anything is counted or sent;
//! 5. charge the budgets, within the rate limits, and wait for a free slot;
//! 6. put the call on record, check whether the rules have changed meanwhile, and call the server through the router;
//! 7. add the server to the taint, normalise the answer, ask the hooks about it, learn its shape, redact errors, close the
//!    record.

mod apps;
mod arguments;
mod attachments;
mod audit;
mod board;
mod check;
mod consent;
mod context;
mod evidence;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hooked;
mod ledger;
mod nested;
mod normalise;
mod ops;
mod parked;
mod placeholders;
mod planned;
mod policy;
pub mod record;
mod recorder;
mod resources;
mod sample;
mod schema;
mod scope;
mod taint;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wire::Language;

use crate::session::Stash;
use crate::telemetry::Trace;
use base::error::{Effect, Error, ErrorCode, Result};
use base::json;
use base::labels::Labels;
use base::limits;
use base::memory;
use base::pause::Pause;
use base::task;
use catalog::manifest::{ServerEntry, ServerState};
use config::{Amount, Required};
use redact::{Mentions, Surface};
use state::DryRun;
use state::audit::{CallRecord, Verdict};
use state::journal::RunOp;
use state::spending::{Account, Item};
use stubgen::ToolStub;
use upstream::{Answer, Operation, Progress, Step, TraceContext};

pub use apps::{OF_PAGE, REQUEST as TOOL_REQUEST, Shown, address_pages};
pub use arguments::Validators;
pub use attachments::{Attachments, Settled, address, resource_uri};
pub use audit::Audit;
pub use board::{Board, RunSnapshot, Tally};
pub use check::{Judgement, Mistake, Plan, similar};
pub use consent::{Approval, Approver};
pub use context::{ExecutionContext, Policy, Records, Scripts, Workers};
pub use evidence::{Evidence, PARTED};
pub(crate) use ledger::ALL_MADE;
pub use ledger::Ledger;
pub use policy::is_read_only;
pub use policy::{Hindsight, Rules, RulesNow, Ruling};

use audit::Subject;
use base::labels::Held;
use consent::Consents;
use evidence::{EarlierTask, Inherited};
use ledger::Call;
use normalise::Origin;
use placeholders::{Placeholders, hidden};
use policy::{Caller, PendingCall, Reason, is_repeatable};
use recorder::{Recorder, no_record};
use scope::{Nesting, Scope};
use taint::Taint;

/// Most requests of one run other than calls; they are answered from memory.
const MAX_DISCOVERY: u32 = limits::DISCOVERY.max as u32;

/// Request of the gateway itself, which calls a tool to see its answer: a dry run, so that it makes no call that may write
/// or needs approval.
pub const PROBE: &str = "probe";

/// Memory that the values of arguments may take per byte of the argument limit. Records take about ten.
const BYTES_A_BYTE: usize = 32;
/// Further bytes that they may take, so that the smallest limit serves arguments of any kind.
const SMALL_ARGS: usize = 64 << 10;

/// An admitted call.
struct Admitted {
    /// True if it is only planned.
    is_planned: bool,
    /// True if a reviewer or the user approved the tool with the catalog's definition.
    is_vouched: bool,
    /// The last rules that decided about it.
    rules: Arc<Rules>,
    /// Taint when it was dispatched.
    taint: Held,
    /// Reasons for which the user was asked.
    reasons: Vec<Reason>,
    /// Call of an earlier run in whose place it is made.
    again: Option<RunOp>,
    /// Approval that it uses up.
    approval: Option<Arc<str>>,
    /// The server's id of the task that it has made of the call in an earlier run, which is asked for the answer.
    task: Option<String>,
}

/// Enforcement point of one script: that of the run, or one that it calls, which shares the run.
pub struct Broker {
    context: Arc<ExecutionContext>,
    run: Arc<Shared>,
    taint: Arc<Taint>,
    attachments: Arc<Attachments>,
    /// Language of the script, if there is one.
    language: Option<Language>,
    /// The script on whose behalf it calls, for one that a script has called.
    scope: Option<Scope>,
}

/// State that the brokers of one run share.
struct Shared {
    recorder: Recorder,
    evidence: OnceLock<Evidence>,
    slots: Semaphore,
    ledger: Ledger,
    consents: Consents,
    /// True for a dry run.
    is_dry: bool,
    stash: Stash,
    pause: Arc<Pause>,
    account: Account,
    trace: Trace,
    placeholders: Placeholders,
    nesting: Nesting,
    /// Cancelled by an operator who stops it.
    stop: CancellationToken,
}

impl Shared {
    fn new(context: &ExecutionContext, subject: Subject, placeholders: Placeholders, is_dry: bool) -> Self {
        let client_trace = context.caller.as_ref().and_then(|caller| caller.trace());
        let recorder = Recorder::new(Arc::clone(&context.records.audit), subject);
        let stash = &context.session.stash;
        Self {
            account: context.spending.account(&recorder.id, context.session.principal(), context.profile.as_deref()),
            recorder,
            evidence: OnceLock::new(),
            slots: Semaphore::new(context.limits.concurrency),
            ledger: Ledger::new(context.limits.calls, MAX_DISCOVERY),
            consents: Consents::default(),
            is_dry,
            stash: if is_dry { stash.within(Arc::new(DryRun::new(Arc::clone(stash.state())))) } else { stash.clone() },
            pause: Arc::default(),
            trace: Trace::begin(context.records.telemetry.traces.as_ref(), client_trace.as_ref()),
            placeholders,
            nesting: Nesting::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Broker {
    /// A broker for a script, which may use the placeholders that it mentions. Dry run: nothing is written. Calls of
    /// tools that may write, and calls that need approval, get a sample of the tool's output schema; writes to the
    /// stash are dropped.
    #[must_use]
    pub fn of_script(context: Arc<ExecutionContext>, language: Language, code: &str, is_dry: bool) -> Self {
        let placeholders = Placeholders::new(context.runs.answers.placeholders, || Mentions::of(code));
        let subject = Subject::script(language, code, is_dry);
        let held = context.session.held().unwrap_or_default();
        Self::new(Shared::new(&context, subject, placeholders, is_dry), context, Some(language), held)
    }

    /// A broker for a request other than a script, such as `cat`. It may use any placeholder: the agent wrote the
    /// arguments.
    #[must_use]
    pub fn of_request(context: Arc<ExecutionContext>, request: &'static str) -> Self {
        // A page is a server's: it has no placeholder restored.
        let restores = context.runs.answers.placeholders && request != apps::OF_PAGE;
        let placeholders = Placeholders::new(restores, Mentions::default);
        let held = Self::held_by(request, &context);
        let is_dry = request == PROBE;
        Self::new(Shared::new(&context, Subject::Request { request }, placeholders, is_dry), context, None, held)
    }

    fn new(run: Shared, context: Arc<ExecutionContext>, language: Option<Language>, held: Arc<Mutex<Held>>) -> Self {
        let taint = Arc::new(Taint::new(Arc::clone(&context.policy.rules), held));
        Self { run: Arc::new(run), taint, attachments: Arc::default(), language, scope: None, context }
    }

    /// Context of the execution.
    #[must_use]
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }

    /// Servers whose data it holds now.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.taint.now().labels
    }

    /// Calls so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.run.ledger
    }

    /// Binary content so far.
    #[must_use]
    pub fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Calls a tool and returns its normalised answer. `call` is the script's own number of the call.
    ///
    /// # Errors
    /// Any of the codes of the steps above.
    pub async fn call_tool(&self, call: u64, server: &str, tool: &str, args: &str) -> Result<Value> {
        self.call_found(call, (server, tool), self.context.catalog.tool(server, tool), args).await
    }

    /// Calls the tool that was `found` under these names.
    async fn call_found(
        &self,
        call: u64,
        (server, tool): (&str, &str),
        found: Result<(&ServerEntry, &ToolStub)>,
        args: &str,
    ) -> Result<Value> {
        let back = self
            .restore_placeholders(server, args)
            .map_err(|error| self.record_invalid(call, server, tool, args, error))?;
        let sent = back.as_ref().map_or(args, |back| &back.args);
        let fit = async {
            let _arriving = self.run.consents.arriving();
            let (entry, stub) = found?;
            policy::reviewed(entry, stub)?;
            let max_bytes = self.context.limits.args_bytes;
            let takes_text = |parameter: &str| arguments::takes_text(stub, parameter);
            let fill = || self.attachments.fill(sent, takes_text, max_bytes);
            // A script gets handles as they are, and gives them to tools.
            let filled = if entry.is_scripts() { None } else { task::work_on(sent.len(), fill)? };
            filled.as_deref().map_or(Ok(()), |filled| self.small_enough(filled))?;
            let sent = filled.as_deref().unwrap_or(sent);
            let (validators, catalog) = (&self.context.validators, &self.context.catalog);
            let arguments =
                arguments::fitting(validators, catalog, (entry, stub), sent, max_bytes, self.language).await?;
            Ok::<_, Error>((entry, stub, arguments, filled.is_some()))
        };
        let (entry, stub, arguments, is_filled) = match fit.await {
            Ok(fitting) => fitting,
            Err(refused)
                if matches!(refused.code, ErrorCode::AuthRequired | ErrorCode::TransportDead)
                    && self
                        .context
                        .catalog
                        .server(server)
                        .is_ok_and(|entry| entry.is_startable() && !entry.is_scripts()) =>
            {
                return Err(self.connect(call, server).await.err().unwrap_or(refused));
            }
            Err(error) => return Err(self.record_invalid(call, server, tool, args, hidden(&back, error))),
        };
        let (name, definition, repeatable) = (stub.name.clone(), stub.full_digest(), is_repeatable(stub));
        let operation = Operation::Tool { name, definition, arguments, repeatable };
        let written = (back.is_some() || is_filled).then_some(args);
        self.dispatch(call, &PendingCall { entry, stub: Some(stub), operation: &operation, written, from: self.from() })
            .await
    }

    /// The script on whose behalf it calls.
    fn from(&self) -> Option<Caller<'_>> {
        self.scope.as_ref().map(Caller::Runs)
    }

    /// Starts a server that could not be listed, or asks for the login that it wants. Its tools are there for the next
    /// script: this one has another catalog.
    async fn connect(&self, call: u64, server: &str) -> Result<()> {
        let entry = self.context.catalog.server(server)?;
        let from = self.from();
        self.dispatch(call, &PendingCall { entry, stub: None, operation: &Operation::Connect, written: None, from })
            .await?;
        let (code, done) = match entry.state {
            ServerState::NeedsLogin { .. } => {
                (ErrorCode::AuthRequired, format!("the login to {} is done", entry.ident))
            }
            _ => (ErrorCode::TransportDead, format!("{} is up now", entry.ident)),
        };
        let message = format!("{done}; its tools are there from the next script on");
        Err(Error::new(code, message).hint("run the script again"))
    }

    /// Checks the memory of the arguments' values before they are parsed.
    fn small_enough(&self, args: &str) -> Result<()> {
        let limit = self.context.limits.args_bytes;
        let (size, hint) = (args.len(), "send less, or raise `sandbox.limits.args` in the configuration");
        let wrong = |message| Err(Error::new(ErrorCode::InvalidArgs, message).hint(hint));
        if size > limit {
            return wrong(format!("the arguments have {size} bytes, over the limit of {limit}"));
        }
        match task::work_on(size, || json::measure(args.as_bytes())) {
            Err(private) => Err(Error::new(ErrorCode::InvalidArgs, format!("the arguments cannot be sent: {private}"))),
            Ok(found) if found.tree_bytes > limit.saturating_mul(BYTES_A_BYTE) + SMALL_ARGS => wrong(format!(
                "the arguments have {} values, which take {} KiB in memory, over the limit of {} KiB",
                found.values,
                found.tree_bytes >> 10,
                (limit * BYTES_A_BYTE + SMALL_ARGS) >> 10
            )),
            Ok(_) => Ok(()),
        }
    }

    /// Puts an invalid call on record.
    fn record_invalid(&self, call: u64, server: &str, what: &str, args: &str, error: Error) -> Error {
        let labels = self.taint.now().labels;
        let record = task::work_on(args.len(), || record::of_invalid(call, server, what, args, labels));
        match self.run.ledger.open(record) {
            Ok(mut call) => {
                let refused = Err::<Value, Error>(call.refused(error.clone()));
                call.close(&refused, |message| self.without_restored(message));
                error
            }
            Err(too_many) => too_many,
        }
    }

    /// Steps 3 to 7, for every kind of operation.
    async fn dispatch(&self, number: u64, asked: &PendingCall<'_>) -> Result<Value> {
        let taint = self.taint.now();
        let instance = self.context.router.scope(asked.entry, self.context.session.tenant(), asked.operation);
        let record =
            CallRecord { instance: instance.map(Into::into), ..record::of(number, asked, taint.labels.clone()) };
        let mut call = self.run.ledger.open(record)?;
        let mut is_run = false;
        let answer = match self.inherit(&mut call, asked, &taint) {
            Err(error) => Err(call.refused(error)),
            Ok(Inherited::Answer(value)) => Ok(value),
            Ok(Inherited::Task(task)) => match Box::pin(self.ask_task(&mut call, asked, &taint, &task)).await {
                Ok(Err(again)) => self.make(&mut call, asked, taint, again, &mut is_run).await,
                Ok(Ok(value)) => Ok(value),
                Err(error) => Err(error),
            },
            Ok(Inherited::Nothing(again)) => self.make(&mut call, asked, taint, again, &mut is_run).await,
        };
        let is_made = !self.run.is_dry && (call.is_sent() || is_run);
        if let (Some(stub), None, true) = (asked.stub, &self.scope, is_made && answer.is_ok()) {
            self.context.searching.called(&self.context.session.searches, asked.entry, stub);
        }
        call.close(&answer, |message| self.without_restored(message));
        if let Some(caller) = &self.context.caller {
            let said = if answer.is_ok() { "done" } else { "failed" };
            caller.progress(Step { done: self.run.ledger.closed(), message: format!("{}: {said}", asked.label()) });
        }
        answer
    }

    /// Decides about a call, and makes it in place of the earlier call `again`. `is_run` becomes true for a script.
    async fn make(
        &self,
        call: &mut Call<'_>,
        asked: &PendingCall<'_>,
        taint: Held,
        again: Option<RunOp>,
        is_run: &mut bool,
    ) -> Result<Value> {
        match self.admit(call, asked, taint).await {
            Err(error) => Err(call.refused(error)),
            Ok(admitted) if asked.entry.is_scripts() => {
                *is_run = true;
                let answer = Box::pin(self.call_script(call, asked, &admitted)).await;
                self.hooks_about_answer(call, asked, answer).await
            }
            Ok(admitted) if admitted.is_planned => {
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
        task: &EarlierTask,
    ) -> Result<Result<Value, Option<RunOp>>> {
        call.admitted(Verdict::Inherited(task.origin.run.clone()));
        let mut operation = asked.operation.clone();
        if let Operation::Tool { repeatable, .. } = &mut operation {
            // A call that was not admitted now is not made in place of the task.
            *repeatable = false;
        }
        let asked = &PendingCall { operation: &operation, ..*asked };
        let (rules, again, id) = (self.context.rules_now(), Some(task.origin.clone()), Some(task.id.clone()));
        let (taint, reasons) = (taint.clone(), Vec::new());
        let admitted =
            Admitted { is_planned: false, is_vouched: false, rules, taint, reasons, again, approval: None, task: id };
        let slot = self.run.slots.acquire().await;
        let answer = self.send(call, asked, &admitted).await;
        drop(slot);
        match answer {
            Err(error) if error.code == ErrorCode::MaybeDone => self.asked_in_vain(call, asked, task).map(Err),
            // Not the task's own answer: the next call like it asks the task again.
            Err(error) if error.code != ErrorCode::ToolError => {
                if let Some((past, taken)) = self.taken_task(call, asked, task) {
                    past.give_back(vec![taken]);
                }
                Err(error.with_effect(Effect::Unknown))
            }
            answer => {
                // A script that is called and fails gives it back.
                if let (Some(scope), Some((_, taken))) = (&self.scope, self.taken_task(call, asked, task)) {
                    scope.took([taken]);
                }
                answer.map(Ok)
            }
        }
    }

    /// Steps 4 and 5: decides about a call. `taint` is that of the execution when the call was dispatched.
    async fn admit(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, taint: Held) -> Result<Admitted> {
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
        call.admitted(verdict);
        // Only an admitted call puts the execution into its group; of concurrent calls to two groups only one can.
        self.taint.enter(&asked.entry.name)?;
        self.scope.as_ref().map_or(Ok(()), Scope::charge)?;
        call.charge()?;
        let is_planned = self.run.is_dry && !(reasons.is_empty() && asked.is_read());
        let is_vouched = (asked.stub.is_some() && asked.entry.is_pinned) || !reasons.is_empty();
        Ok(Admitted { is_planned, is_vouched, rules, taint, reasons, again: None, approval, task: None })
    }

    /// Reasons to ask the user, by the rules that the execution began with and those in force now.
    fn decide(&self, rules: &Arc<Rules>, asked: &PendingCall<'_>, taint: &Held) -> Result<Vec<Reason>> {
        let mut reasons = policy::decide(&self.context.policy.rules, asked, taint)?;
        if !Arc::ptr_eq(rules, &self.context.policy.rules) {
            let more = policy::decide_anew(rules, asked, taint)?;
            reasons.extend(more.into_iter().filter(|reason| !reasons.contains(reason)).collect::<Vec<_>>());
        }
        Ok(reasons)
    }

    /// Decides again just before the call is sent: approval, payment and waiting for a slot take time.
    fn still_admitted(&self, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<()> {
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

    /// Pays for a call and makes it. A refused call costs nothing.
    async fn pay_and_send(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<Value> {
        let label = asked.label();
        let item = Item {
            server: &asked.entry.name,
            tool: asked.stub.map(|stub| stub.name.as_str()),
            label: &label,
            free: matches!(asked.operation, Operation::Complete { .. }),
        };
        let cost = match self.context.spending.charge(item, &self.run.account).await {
            Ok(cost) => cost,
            Err(error) => return Err(call.refused(error)),
        };
        call.paid(cost);
        let slot = self.run.slots.acquire().await;
        let answer = self.send(call, asked, admitted).await;
        drop(slot);
        if answer.as_ref().is_err_and(|error| was_turned_away(error) || !call.is_sent()) {
            self.context.spending.refund(cost, &self.run.account).await;
            call.paid(Amount::ZERO);
            self.give_back(call, admitted.approval.as_deref()).await;
        }
        answer
    }

    /// Puts a call on record, and sends it if it is still admitted.
    async fn send(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, admitted: &Admitted) -> Result<Value> {
        let ready = async {
            let logged = self.run.recorder.sent(&call.record(), &self.context, self.run.trace.id()).await?;
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
            call.ended_with(error.effect);
        }
        match answer {
            Err(mut error) if error.code == ErrorCode::ToolChanged => {
                policy::changed(asked, admitted.is_vouched, &mut error);
                Err(call.refused(error))
            }
            answer => answer,
        }
    }

    /// Makes a call, or asks `task` of an earlier one for the answer.
    async fn perform(&self, call: &mut Call<'_>, asked: &PendingCall<'_>, task: Option<&str>) -> Result<Value> {
        let (id, told) = self.run.trace.call();
        call.sent(id);
        let room = upstream::ReservedMemory::default();
        let answer = self.reported(call, asked, told, (&room, task)).await;
        // For any outcome: an error carries the server's words, and a lost call may have had an effect.
        self.taint.receive(&asked.entry.name);
        let answer = match answer.map_err(|error| self.redacted(error)) {
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
        call.received(bytes);
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
            Answer::Tool(answer) => {
                let tool = asked.label();
                let origin = Origin { is_whole: self.wants_whole(asked), ..self.origin(asked.entry, &tool) };
                let (bytes, value) = normalise::tool_answer(answer, &origin);
                let value = value.map_err(|error| self.redacted(error));
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
        let whole =
            |progress: Progress| progress.traced(told).in_room(room.clone()).of_task(task.map(str::to_owned), note);
        let Some(caller) = &self.context.caller else {
            return self.context.router.call(entry, tenant, operation, &whole(Progress::default())).await;
        };
        let progress = Progress::made_for(self.reachable(caller), &entry.ident, Arc::clone(&self.run.pause))
            .relaying(self.context.policy.rules.relays(&entry.name))
            .of_call(op, Arc::new(self.about(asked, &[], &[args_hash])));
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
                    let message = format!("{}: {said}", asked.label());
                    last = said;
                    let writer = self.placeholder_writer();
                    let surface = Surface::Error.with_placeholders(writer.as_ref());
                    let message = redact::text(surface, &message).into_owned();
                    caller.progress(Step { done: self.run.ledger.closed(), message });
                }
            }
        }
    }

    /// Redacts secrets from a server's own error. Errors of libraries, transports and stderr also lose what describes
    /// the network behind the gateway.
    fn redacted(&self, error: Error) -> Error {
        let surface = match error.code {
            ErrorCode::ToolError | ErrorCode::InvalidArgs => Surface::ToolError,
            _ => Surface::Error,
        };
        redact::error(self.arriving(surface), error)
    }

    fn origin<'a>(&'a self, entry: &'a ServerEntry, tool: &'a str) -> Origin<'a> {
        Origin {
            server: &entry.ident,
            tool,
            limits: &self.context.limits,
            attachments: &self.attachments,
            is_whole: false,
        }
    }
}

fn no_room(asked: &PendingCall<'_>, full: &memory::Full) -> Error {
    let message = format!("the answer of {} is too large: {full}", asked.label());
    Error::new(ErrorCode::BudgetExceeded, message).hint(full.hint()).with_effect(Effect::Done)
}

/// True if a call with this error was not made: refused by the circuit breaker or the server, or because the tool has
/// changed.
fn was_turned_away(error: &Error) -> bool {
    const AWAY: [ErrorCode; 4] =
        [ErrorCode::CircuitOpen, ErrorCode::AuthRequired, ErrorCode::RateLimit, ErrorCode::ToolChanged];
    error.effect == Effect::Nothing && AWAY.contains(&error.code)
}

/// Milliseconds with microsecond resolution, as in the records.
fn millis(since: Instant) -> f64 {
    (since.elapsed().as_micros() as f64) / 1000.0
}

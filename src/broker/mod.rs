//! The only way from a script to a server.
//!
//! One [`Broker`] serves one execution, whichever language, entry point or degree of parallelism it comes from:
//!
//! 1. resolve the names, with suggestions; a tool that is not as reviewed goes no further;
//! 2. map and validate the arguments against the tool's schema;
//! 3. open the record, so that what is refused is on it too;
//! 4. ask the `policy`, and the user where that says so, before anything is counted or sent;
//! 5. charge the budgets, within the rates, and wait for a free slot;
//! 6. put the call on record, look whether the rules have changed meanwhile, and call the server through the router;
//! 7. note whose data the execution holds now, normalise the answer, redact what is shown of errors, close the record.

mod arguments;
mod attachments;
mod audit;
mod consent;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod ledger;
mod normalise;
mod ops;
mod placeholders;
mod policy;
mod recorder;
mod resources;
mod sample;
mod schema;
mod taint;

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use stubgen::ToolStub;
use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::config::{Amount, Limits};
use crate::error::{Error, ErrorCode, Result, code_name};
use crate::json;
use crate::labels::Labels;
use crate::limits;
use crate::manifest::ServerEntry;
use crate::memory;
use crate::pause::Pause;
use crate::redact::{self, Surface};
use crate::router::Router;
use crate::session::{Session, Stash};
use crate::spending::{Item, SpendCounter, Spending};
use crate::task;
use crate::telemetry::Trace;
use crate::upstream::{self, Answer, Caller, Operation, Progress, Step, TraceContext};

pub use arguments::Validators;
pub use attachments::{Attachments, Settled, address, resource_uri};
pub use audit::{Audit, Subject};
pub use consent::Approver;
pub use ledger::{CallRecord, Ledger};
pub use ops::call_error;
pub use policy::{Rules, RulesNow};
pub use recorder::Recorder;

use consent::Consents;
use ledger::{Attempt, PLANNED};
use normalise::Origin;
use placeholders::{Placeholders, hidden};
use policy::{Asked, Reason};
use taint::{Taint, TaintSnapshot};

/// Requests other than tool calls that one run may make; they are answered from memory.
const MAX_DISCOVERY: u32 = limits::DISCOVERY.max as u32;

/// Bytes of memory that values of arguments may take for each byte that arguments may have. Records take about ten.
const BYTES_A_BYTE: usize = 32;
/// Bytes that they may take besides, so that the smallest limit serves for arguments of any kind.
const SMALL_ARGS: usize = 64 << 10;

/// A call that may be made.
struct Admitted {
    /// Why.
    verdict: String,
    /// Whether it is only planned.
    is_planned: bool,
    /// Whether somebody has vouched for the tool as the catalog has it: a reviewer, or the user.
    is_vouched: bool,
    /// The last rules that it was decided by.
    rules: Arc<Rules>,
    /// What was held then.
    held: TaintSnapshot,
    /// What the user was asked because of.
    reasons: Vec<Reason>,
}

/// The boundary of one execution.
pub struct Broker {
    catalog: Arc<Catalog>,
    router: Arc<Router>,
    session: Arc<Session>,
    validators: Arc<Validators>,
    limits: Limits,
    rules: Arc<Rules>,
    /// The rules in force, where they can change.
    rules_now: Option<RulesNow>,
    recorder: Option<Arc<Recorder>>,
    slots: Semaphore,
    ledger: Ledger,
    taint: Taint,
    attachments: Attachments,
    caller: Option<Arc<dyn Caller>>,
    approver: Approver,
    consents: Consents,
    /// Whether writes are planned only.
    is_dry: bool,
    stash: Arc<Stash>,
    pause: Arc<Pause>,
    spending: Arc<Spending>,
    spent: SpendCounter,
    trace: Trace,
    placeholders: Placeholders,
}

impl Broker {
    /// A broker over one snapshot of the catalog.
    #[must_use]
    pub fn new(
        catalog: Arc<Catalog>,
        router: Arc<Router>,
        session: Arc<Session>,
        validators: Arc<Validators>,
        limits: Limits,
        spending: Arc<Spending>,
        rules: Arc<Rules>,
    ) -> Self {
        Self {
            slots: Semaphore::new(limits.concurrency),
            ledger: Ledger::new(limits.calls, MAX_DISCOVERY),
            taint: Taint::new(Arc::clone(&rules)),
            attachments: Attachments::default(),
            caller: None,
            approver: Approver::default(),
            consents: Consents::default(),
            is_dry: false,
            stash: Arc::clone(&session.stash),
            pause: Arc::default(),
            catalog,
            router,
            session,
            validators,
            limits,
            spending,
            trace: Trace::default(),
            spent: SpendCounter::default(),
            rules,
            rules_now: None,
            recorder: None,
            placeholders: Placeholders::default(),
        }
    }

    /// The same boundary, with the client that servers may reach while they work for it, and with who is asked for
    /// approvals.
    #[must_use]
    pub fn made_for(self, caller: Option<Arc<dyn Caller>>, approver: Approver) -> Self {
        Self { caller, approver, ..self }
    }

    /// The same boundary, whose calls are also decided by the rules that are in force when they are made.
    #[must_use]
    pub fn following(self, rules: RulesNow) -> Self {
        Self { rules_now: Some(rules), ..self }
    }

    /// The same boundary, whose calls are put on record before they are sent.
    #[must_use]
    pub fn recorded(self, recorder: Arc<Recorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// The same boundary, but nothing is written: calls of tools that may write, and those that the user would be
    /// asked about, are answered with a sample of their output schema, and what is put in the stash is forgotten.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { is_dry: true, stash: Arc::new(self.stash.fork()), ..self }
    }

    /// Whose data it holds now.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.taint.now().labels
    }

    /// The same boundary, at its place in a trace.
    #[must_use]
    pub fn traced(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// What was called so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The binary content that came back so far.
    #[must_use]
    pub fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Calls a tool and returns its normalised answer. `call` is the script's own number of the call.
    ///
    /// # Errors
    /// Any of the codes of the steps above.
    pub async fn call_tool(&self, call: u64, server: &str, tool: &str, args: &str) -> Result<Value> {
        let back = self
            .restore_placeholders(server, args)
            .map_err(|error| self.record_invalid(call, server, tool, args, error))?;
        let sent = back.as_ref().map_or(args, |back| &back.args);
        let fit = async {
            let (entry, stub) = self.catalog.tool(server, tool)?;
            policy::reviewed(entry, stub)?;
            let max_bytes = self.limits.args_bytes;
            let arguments = arguments::fitting(&self.validators, &self.catalog, (entry, stub), sent, max_bytes).await?;
            Ok::<_, Error>((entry, stub, arguments))
        };
        let (entry, stub, arguments) = match fit.await {
            Ok(fitting) => fitting,
            Err(refused) if refused.code == ErrorCode::AuthRequired => {
                return Err(self.first_login(call, server).await.err().unwrap_or(refused));
            }
            Err(error) => return Err(self.record_invalid(call, server, tool, args, hidden(&back, error))),
        };
        let (name, definition, repeatable) = (stub.name.clone(), stub.full_digest(), is_repeatable(stub));
        let operation = Operation::Tool { name, definition, arguments, repeatable };
        let written = back.is_some().then_some(args);
        self.dispatch(call, &Asked { entry, stub: Some(stub), operation: &operation, written }).await
    }

    /// A server that nobody has logged into yet has no tools that could be called. Asking for them asks for the login;
    /// they are there for the next script, this one has another catalog.
    async fn first_login(&self, call: u64, server: &str) -> Result<()> {
        let entry = self.catalog.server(server)?;
        self.dispatch(call, &Asked { entry, stub: None, operation: &Operation::List, written: None }).await?;
        let message = format!("the login to {} is done; its tools are there from the next script on", entry.ident);
        Err(Error::new(ErrorCode::AuthRequired, message).hint("run the script again"))
    }

    /// Checks what arguments take as values, before any are made of them.
    fn small_enough(&self, args: &str) -> Result<()> {
        let limit = self.limits.args_bytes;
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

    /// Puts a call on record whose names or arguments are wrong.
    fn record_invalid(&self, call: u64, server: &str, what: &str, args: &str, error: Error) -> Error {
        let attempt = task::work_on(args.len(), || Attempt::invalid(call, server, what, args));
        match self.ledger.open(attempt, self.taint.now().labels) {
            Ok(record) => {
                self.ledger.decided(record, policy::refusal(&error));
                self.ledger.close(record, code_name(error.code));
                error
            }
            Err(tired) => tired,
        }
    }

    /// Steps 3 to 7, the same for every kind of operation.
    async fn dispatch(&self, call: u64, asked: &Asked<'_>) -> Result<Value> {
        let held = self.taint.now();
        let record = self.ledger.open(Attempt::new(call, asked), held.labels.clone())?;
        let admitted = self.admit(asked, held).await;
        let verdict = admitted.as_ref().map_or_else(policy::refusal, |admitted| admitted.verdict.clone());
        self.ledger.decided(record, verdict);
        let (outcome, said) = match admitted {
            Err(error) => (Err(error), None),
            Ok(Admitted { is_planned: true, .. }) => {
                self.taint.receive(&asked.entry.name);
                let schema = asked.stub.and_then(|stub| stub.definition.get("outputSchema"));
                (Ok(sample::of(schema)), Some(PLANNED.to_owned()))
            }
            Ok(admitted) => (self.paid(record, asked, &admitted).await, None),
        };
        let code = || outcome.as_ref().map_or_else(|error| code_name(error.code), |_| "ok".to_owned());
        self.ledger.close(record, said.unwrap_or_else(code));
        if let Some(caller) = &self.caller {
            let said = if outcome.is_ok() { "done" } else { "failed" };
            caller.progress(Step { done: self.ledger.closed(), message: format!("{}: {said}", asked.label()) });
        }
        outcome
    }

    /// Steps 4 and 5: why the call may be made. `held` is what the execution held when it was dispatched.
    async fn admit(&self, asked: &Asked<'_>, held: TaintSnapshot) -> Result<Admitted> {
        let mut reasons = policy::decide(&self.rules, asked, &held)?;
        let rules = self.rules_in_force();
        if !Arc::ptr_eq(&rules, &self.rules) {
            let more = policy::decide_anew(&rules, asked, &held)?;
            reasons.extend(more.into_iter().filter(|reason| !reasons.contains(reason)).collect::<Vec<_>>());
        }
        let verdict = match reasons.is_empty() {
            true => "allowed".to_owned(),
            false if self.is_dry => {
                format!("would be asked: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
            false => self.approve(asked, &reasons).await?,
        };
        // Only a call that is made puts the execution into its group, and of several at once only one can.
        self.taint.enter(&asked.entry.name)?;
        self.ledger.charge_call()?;
        let is_planned = self.is_dry && !(reasons.is_empty() && asked.is_read());
        let is_vouched = (asked.stub.is_some() && asked.entry.is_pinned) || !reasons.is_empty();
        Ok(Admitted { verdict, is_planned, is_vouched, rules, held, reasons })
    }

    fn rules_in_force(&self) -> Arc<Rules> {
        self.rules_now.as_ref().map_or_else(|| Arc::clone(&self.rules), |now| now())
    }

    /// Decides again about a call that is about to be sent: asking, paying and waiting for a slot take their time.
    fn still_admitted(&self, asked: &Asked<'_>, admitted: &Admitted) -> Result<()> {
        let rules = self.rules_in_force();
        if Arc::ptr_eq(&rules, &admitted.rules) {
            return Ok(());
        }
        let reasons = policy::decide_anew(&rules, asked, &admitted.held)?;
        match reasons.iter().find(|reason| !admitted.reasons.contains(reason)) {
            None => Ok(()),
            Some(reason) => {
                let message = format!("{} now needs approval: {reason}", asked.label());
                let hint = "the configuration has changed while this call waited: make it again";
                Err(Error::new(ErrorCode::ApprovalDenied, message).hint(hint))
            }
        }
    }

    /// Pays for a call and makes it. What is refused on the way costs nothing.
    async fn paid(&self, record: usize, asked: &Asked<'_>, admitted: &Admitted) -> Result<Value> {
        let (label, session) = (asked.label(), self.session.spent());
        let item = Item {
            server: &asked.entry.name,
            tool: asked.stub.map(|stub| stub.name.as_str()),
            label: &label,
            free: matches!(asked.operation, Operation::Complete { .. }),
        };
        let refused = |error: Error| {
            self.ledger.give_back_call();
            self.ledger.decided(record, policy::refusal(&error));
            error
        };
        let cost = self.spending.charge(item, &self.spent, session).await.map_err(refused)?;
        self.ledger.paid(record, cost);
        let slot = self.slots.acquire().await;
        let may_be_sent = match self.put_on_record(record).await {
            Ok(()) => self.still_admitted(asked, admitted),
            Err(error) => Err(error),
        };
        let mut outcome = match may_be_sent {
            Ok(()) => self.perform(record, asked).await,
            Err(error) => Err(refused(error)),
        };
        drop(slot);
        if outcome.as_ref().is_err_and(|error| was_turned_away(error.code) || !self.ledger.is_sent(record)) {
            self.spending.refund(cost, &self.spent, session).await;
            self.ledger.paid(record, Amount::ZERO);
        }
        if let Err(error) = &mut outcome
            && error.code == ErrorCode::ToolChanged
        {
            policy::changed(asked, admitted.is_vouched, error);
            self.ledger.give_back_call();
            self.ledger.decided(record, policy::refusal(error));
        }
        outcome
    }

    /// Puts a call on record that is about to be sent.
    async fn put_on_record(&self, record: usize) -> Result<()> {
        match (&self.recorder, self.ledger.record(record)) {
            (Some(recorder), Some(call)) => recorder.sent(&call, &self.session, self.trace.id()).await,
            _ => Ok(()),
        }
    }

    async fn perform(&self, record: usize, asked: &Asked<'_>) -> Result<Value> {
        let (id, told) = self.trace.call();
        self.ledger.sent(record, id);
        let room = upstream::ReservedMemory::default();
        let answer = self.reported(asked, told, &room).await;
        // Whatever came of it: an error says what the server said, and a call that was lost may have an effect.
        self.taint.receive(&asked.entry.name);
        let answer = answer.map_err(|error| self.redacted(error))?;
        let bytes = answer.text_bytes();
        // A text that is JSON becomes values too.
        let inside = task::work_on(bytes, || normalise::tree_bytes(&answer));
        if inside > memory::SMALL {
            room.hold(memory::ANSWERS.wait_for(inside).await.map_err(|full| no_room(asked, &full))?);
        }
        let (bytes, value) = task::work_on(bytes, || self.normalise(asked, answer));
        self.ledger.received(record, bytes);
        value
    }

    /// An answer as scripts see it, and its size in bytes.
    fn normalise(&self, asked: &Asked<'_>, answer: Answer) -> (usize, Result<Value>) {
        match answer {
            Answer::Tool(answer) => {
                let tool = asked.label();
                let (bytes, value) = normalise::tool_answer(answer, &self.origin(asked.entry, &tool));
                let value = value.map_err(|error| self.redacted(error));
                (bytes, value.map(|value| redact::json(self.arriving(Surface::Script), value)))
            }
            Answer::Raw(value) => {
                normalise::raw_answer(redact::json(self.arriving(Surface::Script), value), &self.limits)
            }
            Answer::Listing(_) => (0, Ok(Value::Null)),
        }
    }

    /// The call itself, while the client hears what the server says of it.
    async fn reported(
        &self,
        asked: &Asked<'_>,
        told: Option<TraceContext>,
        room: &upstream::ReservedMemory,
    ) -> Result<Answer> {
        let &Asked { entry, operation, .. } = asked;
        let Some(caller) = &self.caller else {
            let progress = Progress::default().traced(told).in_room(room.clone());
            return self.router.call(entry, operation, &progress).await;
        };
        let progress = Progress::made_for(self.reachable(caller), &entry.ident, Arc::clone(&self.pause))
            .relaying(self.rules.relays(&entry.name))
            .traced(told)
            .in_room(room.clone());
        let mut reports = progress.watch();
        let mut answer = std::pin::pin!(self.router.call(entry, operation, &progress));
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                Ok(()) = reports.changed() => {
                    let said = reports.borrow_and_update().to_string();
                    let message = format!("{}: {said}", asked.label());
                    let message = redact::text(Surface::Error.with_placeholders(self.placeholder_writer().as_ref()), &message).into_owned();
                    caller.progress(Step { done: self.ledger.closed(), message });
                }
            }
        }
    }

    /// What a server says of a failed call is for the script, except for secrets; what libraries, transports and stderr
    /// say may tell of the network behind the gateway as well.
    fn redacted(&self, error: Error) -> Error {
        let surface = match error.code {
            ErrorCode::ToolError | ErrorCode::InvalidArgs => Surface::ToolError,
            _ => Surface::Error,
        };
        redact::error(self.arriving(surface), error)
    }

    fn origin<'a>(&'a self, entry: &'a ServerEntry, tool: &'a str) -> Origin<'a> {
        Origin { server: &entry.ident, tool, limits: &self.limits, attachments: &self.attachments }
    }
}

fn no_room(asked: &Asked<'_>, full: &memory::Full) -> Error {
    let message = format!("the answer of {} is too large: {full}", asked.label());
    Error::new(ErrorCode::BudgetExceeded, message).hint(full.hint())
}

/// Whether a call with this error was not made at all, by our breaker, by the server's own word, or because the tool is
/// another one now.
fn was_turned_away(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::CircuitOpen | ErrorCode::AuthRequired | ErrorCode::RateLimit | ErrorCode::ToolChanged)
}

/// Whether the server says that calling the tool twice does what calling it once does.
fn is_repeatable(stub: &ToolStub) -> bool {
    let says = |hint| stub.definition.pointer(&format!("/annotations/{hint}")).and_then(Value::as_bool) == Some(true);
    says("readOnlyHint") || says("idempotentHint")
}

/// Milliseconds with microsecond resolution, as the records show times.
fn millis(since: Instant) -> f64 {
    (since.elapsed().as_micros() as f64) / 1000.0
}

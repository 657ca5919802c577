//! The only way from a script to a server.
//!
//! One [`Broker`] serves one execution, whichever language, entry point or degree of parallelism it comes from:
//!
//! 1. resolve the names, with suggestions;
//! 2. map and validate the arguments against the tool's schema;
//! 3. open the record, so that what is refused is on it too;
//! 4. ask the `policy`, and the user where that says so, before anything is counted or sent;
//! 5. charge the budgets, within the rates, and wait for a free slot;
//! 6. call the server through the router;
//! 7. note whose data the execution holds now, normalise the answer, redact what is shown of errors, close the record.

mod arguments;
mod attachments;
mod audit;
mod consent;
mod labels;
mod ledger;
mod normalise;
mod offers;
mod ops;
mod policy;
mod sample;

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use stubgen::ToolStub;
use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::config::{Amount, Limits};
use crate::error::{Error, ErrorCode, Result, code_name};
use crate::manifest::ServerEntry;
use crate::pause::Pause;
use crate::redact::{self, Minting, PutBack, Surface};
use crate::router::Router;
use crate::session::{Labels, Session, Stash};
use crate::spending::{Item, Purse, Spending};
use crate::task;
use crate::telemetry::Trace;
use crate::upstream::{Answer, Caller, Operation, Progress, Step, TraceContext};

pub use arguments::Validators;
pub use attachments::{Attachments, Settled, resource_uri};
pub use audit::{Audit, Subject};
pub use consent::Approver;
pub use ledger::{CallRecord, Ledger};
pub use ops::call_error;
pub use policy::Rules;

use consent::Consents;
use labels::{Held, Holdings};
use ledger::{Attempt, PLANNED};
use normalise::Origin;
use policy::Asked;

/// Requests other than tool calls that one run may make; they are answered from memory.
const MAX_DISCOVERY: u32 = 500;

/// A call that may be made.
struct Admitted {
    /// Why.
    verdict: String,
    /// Whether it is only planned.
    is_planned: bool,
}

/// The boundary of one execution.
pub struct Broker {
    catalog: Arc<Catalog>,
    router: Arc<Router>,
    session: Arc<Session>,
    validators: Arc<Validators>,
    limits: Limits,
    rules: Arc<Rules>,
    slots: Semaphore,
    ledger: Ledger,
    holdings: Holdings,
    attachments: Attachments,
    caller: Option<Arc<dyn Caller>>,
    approver: Approver,
    consents: Consents,
    /// Whether writes are planned only.
    is_dry: bool,
    stash: Arc<Stash>,
    pause: Arc<Pause>,
    spending: Arc<Spending>,
    spent: Purse,
    trace: Trace,
    placeholders: bool,
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
            holdings: Holdings::new(Arc::clone(&rules)),
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
            spent: Purse::default(),
            rules,
            placeholders: false,
        }
    }

    /// The same boundary, with the client that servers may reach while they work for it, and with who is asked for
    /// approvals.
    #[must_use]
    pub fn made_for(self, caller: Option<Arc<dyn Caller>>, approver: Approver) -> Self {
        Self { caller, approver, ..self }
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
        self.holdings.now().labels
    }

    /// The same boundary, at its place in a trace.
    #[must_use]
    pub fn traced(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// The same boundary, where placeholders are put back or not.
    #[must_use]
    pub fn with_placeholders(self, placeholders: bool) -> Self {
        Self { placeholders, ..self }
    }

    /// Names for what is taken out of answers of this execution, where there are any.
    #[must_use]
    pub fn minting(&self) -> Option<Minting<'_>> {
        self.placeholders.then(|| self.session.minted().minting(self.holdings.now().labels))
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
        let back = self.put_back(args).map_err(|error| self.unfit(call, server, tool, args, error))?;
        let sent = back.as_ref().map_or(args, |back| &back.args);
        let fit = || {
            let (entry, stub) = self.catalog.tool(server, tool)?;
            let arguments = arguments::parse(stub, sent, self.limits.args_bytes)?;
            self.validators.check(entry, stub, &arguments)?;
            Ok::<_, Error>((entry, stub, arguments))
        };
        let (entry, stub, arguments) = match fit() {
            Ok(fitting) => fitting,
            Err(refused) if refused.code == ErrorCode::AuthRequired => {
                return Err(self.first_login(call, server).await.err().unwrap_or(refused));
            }
            Err(error) => return Err(self.unfit(call, server, tool, args, hidden(&back, error))),
        };
        let operation = Operation::Tool { name: stub.name.clone(), arguments, repeatable: is_repeatable(stub) };
        self.dispatch(call, &Asked { entry, stub: Some(stub), operation: &operation }, back.is_some().then_some(args))
            .await
    }

    /// A server that nobody has logged into yet has no tools that could be called. Asking for them asks for the login;
    /// they are there for the next script, this one has another catalog.
    async fn first_login(&self, call: u64, server: &str) -> Result<()> {
        let entry = self.catalog.server(server)?;
        self.dispatch(call, &Asked { entry, stub: None, operation: &Operation::List }, None).await?;
        let message = format!("the login to {} is done; its tools are there from the next script on", entry.ident);
        Err(Error::new(ErrorCode::AuthRequired, message).hint("run the script again"))
    }

    /// Arguments with values in place of placeholders, where there are any. Whose data they are, the execution holds
    /// from here on, so that the policy decides about it as about any other.
    fn put_back(&self, args: &str) -> Result<Option<PutBack>> {
        let back = if self.placeholders { self.session.minted().put_back(args)? } else { None };
        if let Some(back) = &back {
            self.holdings.take_in("a placeholder", &back.origins)?;
        }
        Ok(back)
    }

    /// Puts a call on record whose names or arguments are wrong.
    fn unfit(&self, call: u64, server: &str, what: &str, args: &str, error: Error) -> Error {
        match self.ledger.open(Attempt::unfit(call, server, what, args), self.holdings.now().labels) {
            Ok(record) => {
                self.ledger.decided(record, policy::refusal(&error));
                self.ledger.close(record, code_name(error.code));
                error
            }
            Err(tired) => tired,
        }
    }

    /// Steps 3 to 7, the same for every kind of operation. Records show the arguments as they are `written`, where that is
    /// not what is sent.
    async fn dispatch(&self, call: u64, asked: &Asked<'_>, written: Option<&str>) -> Result<Value> {
        let held = self.holdings.now();
        let record = self.ledger.open(Attempt::new(call, asked).written_as(written), held.labels.clone())?;
        let admitted = self.admit(asked, &held).await;
        let verdict = admitted.as_ref().map_or_else(policy::refusal, |admitted| admitted.verdict.clone());
        self.ledger.decided(record, verdict);
        let (outcome, said) = match admitted {
            Err(error) => (Err(error), None),
            Ok(Admitted { is_planned: true, .. }) => {
                self.holdings.receive(&asked.entry.name);
                let schema = asked.stub.and_then(|stub| stub.definition.get("outputSchema"));
                (Ok(sample::of(schema)), Some(PLANNED.to_owned()))
            }
            Ok(_) => (self.paid(record, asked).await, None),
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
    async fn admit(&self, asked: &Asked<'_>, held: &Held) -> Result<Admitted> {
        let reasons = policy::decide(&self.rules, asked, held)?;
        let verdict = match reasons.is_empty() {
            true => "allowed".to_owned(),
            false if self.is_dry => {
                format!("would be asked: {}", reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
            false => self.approve(asked, &reasons).await?,
        };
        // Only a call that is made puts the execution into its group, and of several at once only one can.
        self.holdings.enter(&asked.entry.name)?;
        self.ledger.charge_call()?;
        Ok(Admitted { verdict, is_planned: self.is_dry && !(reasons.is_empty() && asked.is_read()) })
    }

    /// Pays for a call and makes it. What is refused on the way costs nothing.
    async fn paid(&self, record: usize, asked: &Asked<'_>) -> Result<Value> {
        let (label, session) = (asked.label(), self.session.spent());
        let item = Item {
            server: &asked.entry.name,
            tool: asked.stub.map(|stub| stub.name.as_str()),
            label: &label,
            free: matches!(asked.operation, Operation::Complete { .. }),
        };
        let cost = match self.spending.charge(item, &self.spent, session).await {
            Ok(cost) => cost,
            Err(error) => {
                self.ledger.give_back_call();
                self.ledger.decided(record, policy::refusal(&error));
                return Err(error);
            }
        };
        self.ledger.paid(record, cost);
        let outcome = self.perform(record, asked).await;
        if outcome.as_ref().is_err_and(|error| was_turned_away(error.code)) {
            self.spending.refund(cost, &self.spent, session).await;
            self.ledger.paid(record, Amount::ZERO);
        }
        outcome
    }

    async fn perform(&self, record: usize, asked: &Asked<'_>) -> Result<Value> {
        let _slot = self.slots.acquire().await;
        let (id, told) = self.trace.call();
        self.ledger.sent(record, id);
        let answer = self.reported(asked, told).await;
        // Whatever came of it: an error says what the server said, and a call that was lost may have an effect.
        self.holdings.receive(&asked.entry.name);
        let answer = answer.map_err(redacted)?;
        let (bytes, value) = task::work_on(answer.text_bytes(), || self.normalise(asked, answer));
        self.ledger.received(record, bytes);
        value
    }

    /// An answer as scripts see it, and its size in bytes.
    fn normalise(&self, asked: &Asked<'_>, answer: Answer) -> (usize, Result<Value>) {
        match answer {
            Answer::Tool(answer) => {
                let tool = asked.label();
                let (bytes, value) = normalise::tool_answer(answer, &self.origin(asked.entry, &tool));
                (bytes, value.map_err(redacted).map(|value| redact::json(Surface::Script, value)))
            }
            Answer::Raw(value) => normalise::raw_answer(redact::json(Surface::Script, value), &self.limits),
            Answer::Listing(_) => (0, Ok(Value::Null)),
        }
    }

    /// The call itself, while the client hears what the server says of it.
    async fn reported(&self, asked: &Asked<'_>, told: Option<TraceContext>) -> Result<Answer> {
        let &Asked { entry, operation, .. } = asked;
        let Some(caller) = &self.caller else {
            return self.router.call(&entry.name, operation, &Progress::default().traced(told)).await;
        };
        let progress = Progress::made_for(Arc::clone(caller), &entry.ident, Arc::clone(&self.pause)).traced(told);
        let mut reports = progress.watch();
        let mut answer = std::pin::pin!(self.router.call(&entry.name, operation, &progress));
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                Ok(()) = reports.changed() => {
                    let said = reports.borrow_and_update().to_string();
                    let message = format!("{}: {said}", asked.label());
                    let message = redact::text(Surface::Error, &message).into_owned();
                    caller.progress(Step { done: self.ledger.closed(), message });
                }
            }
        }
    }

    fn origin<'a>(&'a self, entry: &'a ServerEntry, tool: &'a str) -> Origin<'a> {
        Origin { server: &entry.ident, tool, limits: &self.limits, attachments: &self.attachments }
    }
}

/// The error without what was put back into the arguments that it is about.
fn hidden(back: &Option<PutBack>, error: Error) -> Error {
    match back {
        Some(back) => back.hide(error),
        None => error,
    }
}

/// Whether a call with this error was not made at all, by our breaker or by the server's own word.
fn was_turned_away(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::CircuitOpen | ErrorCode::AuthRequired | ErrorCode::RateLimit)
}

/// Whether the server says that calling the tool twice does what calling it once does.
fn is_repeatable(stub: &ToolStub) -> bool {
    let says = |hint| stub.definition.pointer(&format!("/annotations/{hint}")).and_then(Value::as_bool) == Some(true);
    says("readOnlyHint") || says("idempotentHint")
}

/// What a server says of a failed call is for the script, except for secrets; what libraries, transports and stderr say
/// may tell of the network behind the gateway as well.
fn redacted(mut error: Error) -> Error {
    let surface = match error.code {
        ErrorCode::ToolError | ErrorCode::InvalidArgs => Surface::ToolError,
        _ => Surface::Error,
    };
    error.message = redact::text(surface, &error.message).into_owned();
    error.hint = error.hint.map(|hint| redact::text(surface, &hint).into_owned());
    error.data = error.data.map(|data| Box::new(redact::json(surface, *data)));
    error
}

/// Milliseconds with microsecond resolution, as the records show times.
fn millis(since: Instant) -> f64 {
    (since.elapsed().as_micros() as f64) / 1000.0
}

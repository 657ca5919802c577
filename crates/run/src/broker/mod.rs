//! The only path from a script to a server.
//!
//! One [`Broker`] serves one execution, for every language, entry point and degree of parallelism:
//!
//! 1. resolve the names, with suggestions; an unreviewed tool stops here;
//! 2. map and validate the arguments against the tool's schema;
//! 3. open the record, so that refused calls are on it too;
//! 4. ask the `policy`, then the hooks, and the user if a rule or a hook says so, before anything is counted or sent;
//! 5. wait for a free slot, and charge the budgets, within the rate limits;
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
mod misfit;
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
mod stale;
mod steps;
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
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::pause::Pause;
use base::task;
use catalog::manifest::{ServerEntry, ServerState};
use redact::Mentions;
use state::DryRun;
use state::audit::Description;
use state::spending::Account;
use stubgen::ToolStub;
use upstream::Operation;

pub use apps::{OF_PAGE, REQUEST as TOOL_REQUEST, Shown, address_pages};
pub use arguments::Validators;
pub use attachments::{Attachments, Settled, address, resource_uri};
pub use audit::Audit;
pub use board::{Board, RunSnapshot, Tally};
pub use check::{Judgement, Mistake, Plan, meant};
pub use consent::{Approval, Approver};
pub use context::{ExecutionContext, Policy, Records, Scripts, Workers};
pub use evidence::{Evidence, PARTED};
pub(crate) use ledger::ALL_MADE;
pub use ledger::Ledger;
pub use policy::is_read_only;
pub use policy::{Hindsight, Rules, RulesNow, Ruling};

use arguments::Given;
use base::labels::Held;
use check::Looked;
use consent::Consents;
use placeholders::hidden;
use policy::{PendingCall, is_repeatable};
use recorder::{Recorder, script};
use scope::{Nesting, Scope};
use taint::Taint;

/// Request of the gateway itself, which calls a tool to see its answer: a dry run, so that it makes no call that may write
/// or needs approval.
pub const PROBE: &str = "probe";

/// Enforcement point of one script: that of the run, or one that it calls, which shares the run.
pub struct Broker {
    context: Arc<ExecutionContext>,
    run: Arc<Shared>,
    taint: Arc<Taint>,
    attachments: Arc<Attachments>,
    /// Language of the script, if there is one.
    language: Option<Language>,
    /// The script on whose behalf it calls, for one that a script has called.
    scope: Option<Arc<Scope>>,
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
    /// Placeholders that it may use, if they are on.
    placeholders: Option<Mutex<Mentions>>,
    nesting: Nesting,
    /// Reads of the script's text, and what answers had of them.
    looked: Mutex<Looked>,
    /// Cancelled by an operator who stops it.
    stop: CancellationToken,
}

impl Shared {
    /// For a script or a request, which `run` has already.
    fn new(context: &ExecutionContext, run: Description, placeholders: Option<Mentions>, is_dry: bool) -> Self {
        let client_trace = context.caller.as_ref().and_then(|caller| caller.trace());
        let trace = Trace::begin(context.records.telemetry.traces.as_ref(), client_trace.as_ref());
        let session = &context.session;
        let run = Description {
            session: session.id().to_owned(),
            trace: trace.id(),
            client: session.client(),
            principal: session.principal().named().map(str::to_owned),
            profile: context.profile.clone(),
            file: context.file.clone(),
            config: context.records.config.clone(),
            ..run
        };
        let recorder = Recorder::new(Arc::clone(&context.records.audit), run);
        let stash = &session.stash;
        Self {
            account: Account::new(session.principal(), context.profile.as_deref()),
            recorder,
            evidence: OnceLock::new(),
            slots: Semaphore::new(context.limits.concurrency),
            ledger: Ledger::new(context.limits.calls),
            consents: Consents::default(),
            is_dry,
            stash: if is_dry { stash.within(Arc::new(DryRun::new(Arc::clone(stash.state())))) } else { stash.clone() },
            pause: Arc::default(),
            trace,
            placeholders: placeholders.map(Mutex::new),
            nesting: Nesting::new(),
            looked: Mutex::default(),
            stop: CancellationToken::new(),
        }
    }
}

impl Broker {
    /// A broker for a script, which may use the placeholders that it mentions. Dry run: nothing is written. Calls of
    /// tools that may write, and calls that need approval, get a sample of the tool's output schema; writes to the
    /// stash are dropped.
    pub fn of_script(context: Arc<ExecutionContext>, language: Language, code: &str, is_dry: bool) -> Self {
        let placeholders = context.runs.answers.placeholders.then(|| Mentions::of(code));
        let run = script(language, code, is_dry);
        let held = context.session.held().unwrap_or_default();
        Self::new(Shared::new(&context, run, placeholders, is_dry), context, Some(language), held)
    }

    /// A broker for a request other than a script, such as `cat`. It may use any placeholder: the agent wrote the
    /// arguments.
    pub fn of_request(context: Arc<ExecutionContext>, request: &'static str) -> Self {
        // A page is a server's: it has no placeholder restored.
        let restores = context.runs.answers.placeholders && request != apps::OF_PAGE;
        let placeholders = restores.then(Mentions::default);
        let held = Self::held_by(request, &context);
        let is_dry = request == PROBE;
        let run = Description { request: Some(request.to_owned()), ..Description::default() };
        Self::new(Shared::new(&context, run, placeholders, is_dry), context, None, held)
    }

    fn new(run: Shared, context: Arc<ExecutionContext>, language: Option<Language>, held: Arc<Mutex<Held>>) -> Self {
        let taint = Arc::new(Taint::new(Arc::clone(&context.policy.rules), held));
        Self { run: Arc::new(run), taint, attachments: Arc::default(), language, scope: None, context }
    }

    /// Context of the execution.
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }

    /// Servers whose data it holds now.
    pub fn labels(&self) -> Labels {
        self.taint.now().labels
    }

    /// Calls so far.
    pub fn ledger(&self) -> &Ledger {
        &self.run.ledger
    }

    /// Binary content so far.
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
            filled.as_deref().map_or(Ok(()), |filled| arguments::small_enough(filled, max_bytes))?;
            let sent = filled.as_deref().unwrap_or(sent);
            let given = Given::Whole(sent.to_owned());
            let arguments = arguments::fitting(&self.context, (entry, stub), given, self.language).await?;
            Ok::<_, Error>((entry, stub, arguments, filled.is_some()))
        };
        let is_out = |error: &Error| matches!(error.code, ErrorCode::AuthRequired | ErrorCode::TransportDead);
        let may_start = |entry: &ServerEntry| entry.is_startable() && !entry.is_scripts();
        let (entry, stub, arguments, is_filled) = match fit.await {
            Ok(fitting) => fitting,
            Err(refused) if is_out(&refused) && self.context.catalog.server(server).is_ok_and(may_start) => {
                return Err(self.connect(call, server).await.err().unwrap_or(refused));
            }
            Err(error) => return Err(self.record_invalid(call, server, tool, args, hidden(&back, error))),
        };
        let operation = policy::call_of(stub, arguments);
        let written = (back.is_some() || is_filled).then_some(args);
        self.dispatch(call, PendingCall { written, ..PendingCall::new(entry, Some(stub), &operation) }).await
    }

    /// Starts a server that could not be listed, or asks for the login that it wants. Its tools are there for the next
    /// script: this one has another catalog.
    async fn connect(&self, call: u64, server: &str) -> Result<()> {
        let entry = self.context.catalog.server(server)?;
        self.dispatch(call, PendingCall::new(entry, None, &Operation::Connect)).await?;
        let (code, done) = match entry.state {
            ServerState::NeedsLogin { .. } => {
                (ErrorCode::AuthRequired, format!("the login to {} is done", entry.ident))
            }
            _ => (ErrorCode::TransportDead, format!("{} is up now", entry.ident)),
        };
        let message = format!("{done}; its tools are there from the next script on");
        Err(Error::new(code, message).hint("run the script again"))
    }

    /// Puts an invalid call on record.
    fn record_invalid(&self, call: u64, server: &str, what: &str, args: &str, error: Error) -> Error {
        let labels = self.taint.now().labels;
        let mut record = task::work_on(args.len(), || record::of_invalid(call, server, what, args, labels));
        record.is_sealed = self.scope.as_ref().is_some_and(|scope| scope.locked().is_some());
        match self.run.ledger.open(record) {
            Ok(mut call) => {
                let refused = Err::<Value, Error>(call.refused(error.clone()));
                call.close(&refused, |message| self.without_restored(message));
                error
            }
            Err(too_many) => too_many,
        }
    }
}

/// Milliseconds with microsecond resolution, as in the records.
fn millis(since: Instant) -> f64 {
    (since.elapsed().as_micros() as f64) / 1000.0
}

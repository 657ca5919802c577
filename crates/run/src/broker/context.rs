//! Context of one execution.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use wire::{Language, Server};

use super::arguments::{self, Given};
use super::{Approver, Board, Rules, RulesNow, Validators};
use crate::approvals::Approvals;
use crate::proposals::Proposals;
use crate::router::Router;
use crate::runs::{Live, Runs};
use crate::sandbox::{Pool, Turn};
use crate::scripts::Callables;
use crate::searching::Searching;
use crate::session::Session;
use crate::telemetry::Telemetry;
use base::error::Result;
use base::text::head;
use catalog::Catalog;
use config::Limits;
use state::audit;
use state::spending::Spending;
use upstream::Caller;

/// Most bytes of the name of a script's file.
const NAME: usize = 200;

/// Snapshot that one execution or request runs against: a catalog that changes meanwhile does not change a running
/// script.
#[derive(Clone)]
pub struct ExecutionContext {
    /// Catalog that the script sees.
    pub catalog: Arc<Catalog>,
    /// Compiled schemas.
    pub validators: Arc<Validators>,
    /// Routes to the servers.
    pub router: Arc<Router>,
    /// Session that it belongs to.
    pub session: Arc<Session>,
    /// Name of the client's profile, if it has one.
    pub profile: Option<Arc<str>>,
    /// Client that servers may reach meanwhile, if any.
    pub caller: Option<Arc<dyn Caller>>,
    /// Limits of one execution.
    pub limits: Limits,
    /// Its policy.
    pub policy: Policy,
    /// Rate limits and budgets.
    pub spending: Arc<Spending>,
    /// Workers that run its scripts, and its turn for one.
    pub workers: Workers,
    /// Scripts that are tools.
    pub scripts: Scripts,
    /// Runs of its client, their journals, and settings of answers.
    pub runs: Runs,
    /// Settings of its client's searches.
    pub searching: Searching,
    /// Its own place among the runs in the background, if it goes on there.
    pub live: Option<Arc<Live>>,
    /// Audit log, board, metrics and traces.
    pub records: Records,
    /// Name of the script's file, if it is from one.
    pub file: Option<Arc<str>>,
}

/// Policy of one execution: a call must be allowed by the rules that it began with, and by those in force.
#[derive(Clone)]
pub struct Policy {
    /// Rules when the execution began.
    pub rules: Arc<Rules>,
    /// Rules in force when a call is made.
    pub now: RulesNow,
    /// Approves the calls that need it.
    pub approver: Approver,
    /// Approvals that wait.
    pub waiting: Option<Arc<Approvals>>,
}

/// Workers of one execution.
#[derive(Clone)]
pub struct Workers {
    /// Workers that scripts run in.
    pub pool: Arc<Pool>,
    /// Its turn among those who run scripts.
    pub turn: Turn,
}

/// Scripts that are tools, and those that may become some.
#[derive(Clone, Default)]
pub struct Scripts {
    /// Those that are tools, as they are now.
    pub now: Arc<ArcSwap<Callables>>,
    /// Those that agents propose, if they may.
    pub proposals: Option<Proposals>,
}

/// Records of executions.
#[derive(Clone)]
pub struct Records {
    /// The audit log.
    pub audit: Arc<audit::Log>,
    /// Executions under way.
    pub board: Arc<Board>,
    /// Metrics and traces.
    pub telemetry: Telemetry,
    /// Path of the configuration.
    pub config: Option<Arc<str>>,
}

impl ExecutionContext {
    /// With this source of consent.
    #[must_use]
    pub fn approved_by(self, approver: Approver) -> Self {
        Self { policy: Policy { approver, ..self.policy }, ..self }
    }

    /// For a script of a file of this name.
    #[must_use]
    pub fn of_file(self, name: Option<&str>) -> Self {
        Self { file: name.map(|name| head(name, NAME).into()), ..self }
    }

    /// Checks arguments of a recorded call against the definition that the tool has now.
    ///
    /// # Errors
    /// `INVALID_ARGS` when they do not fit, `SERVER_NOT_FOUND` or `TOOL_NOT_FOUND` when there is no such tool.
    pub async fn still_fits(&self, server: &str, tool: &str, args: &str, language: Language) -> Result<()> {
        let found = self.catalog.tool(server, tool)?;
        arguments::small_enough(args, self.limits.args_bytes)?;
        arguments::fitting(self, found, Given::Whole(args.to_owned()), Some(language)).await.map(drop)
    }

    /// Namespaces of a script.
    pub fn namespaces(&self) -> Vec<Server> {
        let servers = self.catalog.servers().iter();
        servers.map(|server| Server { ident: server.ident.clone(), name: server.name.clone() }).collect()
    }

    /// Limits of a run that may take answers to `inherited` calls from an earlier one.
    pub fn run_limits(&self, inherited: usize) -> wire::Limits {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        wire::Limits {
            cpu_ms: millis(self.limits.cpu),
            heap_bytes: self.limits.heap_bytes,
            output_bytes: self.limits.output_bytes as u64,
            // A value must fit a frame with all its escapes; one too large for the answer is stored.
            result_bytes: (wire::MAX_FRAME / 2) as u64,
            calls: self.limits.calls.saturating_add(u32::try_from(inherited).unwrap_or(u32::MAX)),
        }
    }

    /// Policy in force for the session's principal.
    pub(super) fn rules_now(&self) -> Arc<Rules> {
        (self.policy.now)(self.session.principal())
    }
}

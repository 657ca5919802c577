//! Context of one execution.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use wire::{Language, Server};

use super::{Approver, Board, Rules, RulesNow, Validators, arguments};
use crate::approvals::Approvals;
use crate::proposals::Proposals;
use crate::router::Router;
use crate::runs::{Live, Runs};
use crate::sandbox::{Pool, Turn};
use crate::scripts::Callables;
use crate::session::Session;
use crate::telemetry::Telemetry;
use base::error::Result;
use catalog::Catalog;
use config::Limits;
use state::audit;
use state::journal::Journals;
use state::spending::Spending;
use upstream::Caller;

/// Snapshot that one execution or request runs against: a catalog that changes meanwhile does not change a running
/// script.
#[derive(Clone)]
pub struct ExecutionContext {
    /// Catalog that the script sees.
    pub catalog: Arc<Catalog>,
    /// Routes to the servers.
    pub router: Arc<Router>,
    /// Session that it belongs to.
    pub session: Arc<Session>,
    /// Compiled schemas.
    pub validators: Arc<Validators>,
    /// Workers that scripts run in.
    pub pool: Arc<Pool>,
    /// Its turn among those who run scripts.
    pub turn: Turn,
    /// Scripts that are tools, as they are now.
    pub scripts: Arc<ArcSwap<Callables>>,
    /// Limits of one execution.
    pub limits: Limits,
    /// Rate limits and budgets.
    pub spending: Arc<Spending>,
    /// Journals of runs, unless they are off.
    pub journals: Option<Arc<Journals>>,
    /// Scripts that agents propose, if they may.
    pub proposals: Option<Proposals>,
    /// Runs of its client.
    pub runs: Runs,
    /// Its own place among the runs in the background, if it goes on there.
    pub live: Option<Arc<Live>>,
    /// Approvals that wait.
    pub waiting_approvals: Option<Arc<Approvals>>,
    /// Executions under way.
    pub board: Arc<Board>,
    /// Metrics and traces.
    pub telemetry: Telemetry,
    /// The audit log.
    pub audit: Arc<audit::Log>,
    /// Redaction of answers.
    pub redaction: redact::Results,
    /// True if redacted values get placeholders, which calls may use.
    pub placeholders: bool,
    /// True if answers of runs with calls are examined for findings.
    pub findings: bool,
    /// Client that servers may reach meanwhile, if any.
    pub caller: Option<Arc<dyn Caller>>,
    /// Name of the client's profile, if it has one.
    pub profile: Option<Arc<str>>,
    /// Policy when the execution began.
    pub rules: Arc<Rules>,
    /// Policy in force when a call is made.
    pub rules_now: RulesNow,
    /// Approves the calls that need it.
    pub approver: Approver,
}

impl ExecutionContext {
    /// Checks arguments of a recorded call against the definition that the tool has now.
    ///
    /// # Errors
    /// `INVALID_ARGS` when they do not fit, `SERVER_NOT_FOUND` or `TOOL_NOT_FOUND` when there is no such tool.
    pub async fn still_fits(&self, server: &str, tool: &str, args: &str, language: Language) -> Result<()> {
        let found = self.catalog.tool(server, tool)?;
        let (validators, most) = (&self.validators, self.limits.args_bytes);
        arguments::fitting(validators, &self.catalog, found, args, most, Some(language)).await.map(drop)
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
        (self.rules_now)(self.session.principal())
    }
}

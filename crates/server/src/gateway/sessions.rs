//! Sessions of clients: what each may look at, and the context of what it runs.

use std::sync::Arc;

use super::{Gateway, InForce};
use base::error::Result;
use base::principal::{LOCAL, Principal};
use catalog::Catalog;
use config::{Config, Environment};
use redact::{Outgoing as _, Surface};
use run::broker::{Approver, ExecutionContext, Policy, Records, Scripts, Workers};
use run::discovery::Discovery;
use run::execution::{Execution, Request};
use run::parts::Answers;
use run::proposals::Proposals;
use run::router::Tenant;
use run::runs::{Bounds, Runs};
use run::sandbox::Turn;
use run::searching::Searching;
use run::session::Session;
use run::telemetry::Telemetry;

/// Notice of an edit for clients that do not see every server.
const FOR_THE_OPERATOR: &str = "forge.toml was edited, and nothing of it is in force yet: it waits for the operator";

impl Gateway {
    /// Opens one of several sessions, with the gateway's own values of the variables that the configuration refers to.
    #[must_use]
    pub fn open_session(&self, principal: Principal) -> Arc<Session> {
        self.open(principal, None)
    }

    /// Opens a session of a client of the same user that has values of its own for these variables, which may choose
    /// the programs of servers. A variable without a value is unset: the gateway's own value is not used.
    #[must_use]
    pub fn open_attached(&self, principal: Principal, environment: Environment) -> Arc<Session> {
        self.open(principal, Some(environment))
    }

    /// Opens the only session of this gateway: no other shares its servers, so it needs no instances of its own.
    #[must_use]
    pub fn open_only_session(&self, principal: Principal) -> Arc<Session> {
        // Another than this machine's user may have logins of its own.
        if &*principal.client != LOCAL {
            return self.open(principal, None);
        }
        Arc::new(Session::new(principal, &self.state))
    }

    fn open(&self, principal: Principal, environment: Option<Environment>) -> Arc<Session> {
        let credentials = self.config().credentials_of(&principal.client);
        let tenant = Tenant::new(principal.clone(), credentials, environment, &self.fleet.instances);
        self.in_force.load().router.prepare(&tenant);
        Arc::new(Session::new(principal, &self.state).with_tenant(tenant))
    }

    /// Runs of a session's client.
    pub fn runs(&self, session: &Session) -> Runs {
        self.runs_of(&self.in_force.load(), session)
    }

    fn runs_of(&self, in_force: &InForce, session: &Session) -> Runs {
        Runs {
            background: Arc::clone(&self.background),
            journals: in_force.journals.clone(),
            client: Arc::clone(&session.principal().client),
            answers: Answers::of(&in_force.config),
        }
    }

    /// Most runs in the background: half of the places, and half of those for one of several clients.
    pub fn background_bounds(&self) -> Bounds {
        let config = self.config();
        let all = (config.sandbox.limits.runs / 2).max(1);
        Bounds { all, client: if config.has_several_clients() { all.div_ceil(2) } else { all } }
    }

    /// Number of runs in the background.
    pub fn background_runs(&self) -> usize {
        self.background.count()
    }

    /// Runs a script.
    pub async fn execute(&self, session: &Arc<Session>, request: Request) -> Execution {
        self.execution_context(session).execute(request).await
    }

    /// A snapshot for one execution.
    pub fn execution_context(&self, session: &Arc<Session>) -> ExecutionContext {
        let in_force = self.in_force.load_full();
        let InForce { config, router, pool, audit, spending, waiting_approvals, traces, .. } = &*in_force;
        let now = Arc::clone(&self.in_force);
        ExecutionContext {
            catalog: self.catalog_of(session.principal()),
            validators: Arc::clone(&self.validators),
            router: Arc::clone(router),
            session: Arc::clone(session),
            profile: in_force.profile(session.principal()).map(|(name, _)| name.into()),
            caller: None,
            limits: config.sandbox.limits.clone(),
            policy: Policy {
                rules: in_force.rules(session.principal()),
                now: Arc::new(move |principal| now.load().rules(principal)),
                approver: Approver::default(),
                waiting: waiting_approvals.clone(),
            },
            spending: Arc::clone(spending),
            workers: Workers { pool: Arc::clone(pool), turn: turn(config, session.principal()) },
            scripts: Scripts {
                now: Arc::clone(&self.shelf.now),
                proposals: config.scripts.proposed().filter(|_| config.scripts.proposals).map(Proposals::new),
            },
            runs: self.runs_of(&in_force, session),
            searching: searching(&in_force, session.principal()),
            live: None,
            file: None,
            records: Records {
                audit: Arc::clone(audit),
                board: Arc::clone(&self.board),
                telemetry: Telemetry { metrics: Arc::clone(&self.metrics), traces: traces.clone() },
                config: config.absolute_path().map(Into::into),
            },
        }
    }

    /// Lists a folder.
    ///
    /// # Errors
    /// See [`Discovery::ls`].
    pub async fn ls(&self, session: &Arc<Session>, path: &str, depth: Option<u32>) -> Result<String> {
        let catalog = self.catalog_of(session.principal());
        let discovery = self.discovery(&catalog, session);
        let listing = self.shown(discovery.ls(path, depth).await?);
        match self.notice.load_full().filter(|_| path.trim_matches('/').is_empty()) {
            // The notice names servers.
            Some(_) if discovery.catalog.is_narrowed() => Ok(format!("{listing}\nnote: {FOR_THE_OPERATOR}")),
            Some(notice) => Ok(format!("{listing}\nnote: {notice}")),
            None => Ok(listing),
        }
    }

    /// Reads files.
    ///
    /// # Errors
    /// See [`Broker::cat`](run::broker::Broker::cat).
    pub async fn cat(&self, session: &Arc<Session>, paths: &[String], lines: Option<&str>) -> Result<String> {
        self.execution_context(session).request("cat", async |broker| broker.cat(0, paths, lines).await).await
    }

    /// Searches the stubs.
    ///
    /// # Errors
    /// See [`Discovery::search`].
    pub async fn search(
        &self,
        session: &Arc<Session>,
        queries: &[String],
        limit: Option<u32>,
        path: Option<&str>,
    ) -> Result<String> {
        let catalog = self.catalog_of(session.principal());
        let discovery = self.discovery(&catalog, session);
        Ok(self.shown(discovery.search(queries, limit, path).await?))
    }

    /// Discovery of a session in a catalog.
    pub fn discovery<'a>(&self, catalog: &'a Arc<Catalog>, session: &'a Arc<Session>) -> Discovery<'a> {
        let (runs, searching) = (self.runs(session), self.searching(session.principal()));
        Discovery { catalog, session, lowered: None, runs, searching, sight: None }
    }

    /// Settings of a client's searches.
    pub fn searching(&self, principal: &Principal) -> Searching {
        searching(&self.in_force.load(), principal)
    }

    /// Redacts a listing: servers wrote its contents.
    fn shown(&self, listing: String) -> String {
        listing.redacted(Surface::Answer(self.in_force.load().config.redaction))
    }
}

fn searching(in_force: &InForce, principal: &Principal) -> Searching {
    let profile = || in_force.profile(principal).map_or("", |(name, _)| name).into();
    let learning = in_force.learning.clone().map(|learning| (learning, profile()));
    Searching { meaning: in_force.config.search.meaning, learning }
}

/// Turn of a session among those who run scripts. Where there are several clients, none gets more than half of the
/// places.
fn turn(config: &Config, principal: &Principal) -> Turn {
    let runs = config.sandbox.limits.runs;
    let most = if config.has_several_clients() { runs.div_ceil(2) } else { runs };
    Turn { party: principal.party(), most }
}

//! Wiring: configuration in, a running gateway out.

mod fleet;
mod in_force;
mod ready;
mod scripts;
mod sessions;
mod skills;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use base::error::{Error, ErrorCode, Result};
use base::kept;
use base::memory;
use base::panics;
use base::principal::Principal;
use base::task::Task;
use catalog::Catalog;
use catalog::manifest::{Phase, ServerEntry};
use config::{Amount, Config, Expose, Matcher, Patterns};
use fleet::Fleet;
use in_force::{InForce, WorkerCommand};
use run::approvals::Approvals;
use run::broker::{Board, Validators};
use run::hooks::Hooks;
use run::runs::Background;
use run::sandbox::Pool;
use run::scripts::Callables;
use run::telemetry::{Metrics, ServerState, Snapshot, Traces};
use scripts::{Follower, ScriptSet};
use state::State;
use state::journal::Journals;
use upstream::auth::Browsers;

pub use fleet::{Pins, Reloaded};

/// Longest time that an end waits for observed shapes to be saved.
const SAVING: Duration = Duration::from_secs(2);

/// Parts of a gateway.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// Files with tool lists, shown beside the configured servers but not connected.
    pub catalogs: Vec<PathBuf>,
    /// Executable of the worker; normally this one.
    pub worker: PathBuf,
    /// Its arguments.
    pub worker_args: Vec<std::ffi::OsString>,
}

/// A running gateway. Dropping it ends its servers and workers.
pub struct Gateway {
    in_force: Arc<ArcSwap<InForce>>,
    started: Instant,
    began: SystemTime,
    fleet: Fleet,
    validators: Arc<Validators>,
    /// Scripts that are tools.
    shelf: ScriptSet,
    /// State that outlives requests and reloads.
    state: Arc<dyn State>,
    workers: WorkerCommand,
    /// Keeps workers of the pool warm, once started.
    warming: ArcSwapOption<Task>,
    metrics: Arc<Metrics>,
    board: Arc<Board>,
    reloads: watch::Sender<Arc<Config>>,
    /// Runs in the background.
    background: Arc<Background>,
    /// Notice for listings of the root.
    notice: ArcSwapOption<String>,
    /// Variables that the file of the configuration in force refers to.
    variables: Mutex<BTreeSet<String>>,
    /// Follows the folder of skills.
    _following_skills: Task,
}

impl Gateway {
    /// Starts a gateway and returns at once: servers are connected, and workers started, in the background. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// When a file with tool lists cannot be read, or two servers have one name.
    pub fn start(options: Options) -> Result<Self> {
        let Options { config, catalogs, worker, worker_args } = options;
        let workers = WorkerCommand { exe: worker, args: worker_args };
        memory::configure(&config.memory, config.remote_clients());
        let traces = config.telemetry.as_ref().map(Traces::start).transpose()?;
        let state: Arc<dyn State> = state::open(&config)?;
        let (fleet, router) = Fleet::start(&config, &catalogs, Arc::clone(&state))?;
        let in_force = InForce::new((&state, &workers), config, router, traces, None);
        let reloads = watch::Sender::new(Arc::clone(&in_force.config));
        let (in_force, shelf) = (Arc::new(ArcSwap::from_pointee(in_force)), ScriptSet::default());
        let following_skills = skills::follow(Arc::clone(&in_force), Arc::clone(&shelf.now), fleet.shows_skills());
        let gateway = Self {
            in_force,
            started: Instant::now(),
            began: SystemTime::now(),
            fleet,
            validators: Arc::default(),
            shelf,
            state,
            workers,
            warming: ArcSwapOption::empty(),
            background: Arc::default(),
            notice: ArcSwapOption::empty(),
            variables: Mutex::default(),
            metrics: Arc::default(),
            board: Arc::default(),
            reloads,
            _following_skills: following_skills,
        };
        gateway.follow_scripts();
        Ok(gateway)
    }

    /// Loads the scripts of the configuration in force, and follows edits of them.
    fn follow_scripts(&self) {
        let in_force = self.in_force.load();
        let follower = Follower {
            pool: Arc::clone(&in_force.pool),
            max_bytes: in_force.config.sandbox.limits.code_bytes,
            catalog: Arc::clone(&self.fleet.catalog),
            phase: self.fleet.phase.clone(),
            known: self.fleet.known.clone(),
        };
        self.shelf.follow(&in_force.config.scripts, follower);
    }

    /// Switches to another configuration: changed servers are replaced, the others continue, and running scripts
    /// continue under the stricter of both. One reload at a time.
    ///
    /// # Errors
    /// When the configuration cannot come into force; nothing has changed then.
    pub fn reload(&self, config: Config, pins: Pins) -> Result<Reloaded> {
        let before = self.in_force.load_full();
        if before.config.state != config.state {
            let what = "[state] cannot change while the gateway runs";
            return Err(
                Error::new(ErrorCode::InvalidArgs, what).hint("restart it: sessions begin anew in another state")
            );
        }
        let prepared = self.fleet.prepare(&config, pins)?;
        let traces = match before.config.telemetry == config.telemetry {
            true => before.traces.clone(),
            false => config.telemetry.as_ref().map(Traces::start).transpose()?,
        };
        let (before_it, router) = (Some(&*before), Arc::clone(&before.router));
        let mut in_force = InForce::new((&self.state, &self.workers), config, router, traces, before_it);
        let config = Arc::clone(&in_force.config);
        // Infallible from here on, and quick: revoked clients are let in until it is in force.
        memory::configure(&config.memory, config.remote_clients());
        let (reloaded, router) = self.fleet.reload(&config, prepared);
        in_force.router = router;
        // With another token it is another client: its runs end.
        let is_client = |name: &str| before.config.is_same_client(&config, name);
        self.background.keep_only(is_client);
        self.fleet.instances.keep_clients(is_client);
        self.browsers().pages.set_public(config.http.public_url.clone());
        let is_same_pool = Arc::ptr_eq(&in_force.pool, &before.pool);
        self.in_force.store(Arc::new(in_force));
        self.follow_scripts();
        if !is_same_pool && self.warming.load().is_some() {
            self.warm_up();
        }
        self.reloads.send_replace(config);
        Ok(reloaded)
    }

    /// Lists every server again, without restarting it.
    pub fn relist(&self) {
        self.fleet.relist();
    }

    /// Reads the secrets of a server anew, and replaces its connections by some with the new values.
    ///
    /// # Errors
    /// There is no such server, it has no secret that is kept outside of the configuration, or a new connection failed: the
    /// old one stays.
    pub async fn rotate(&self, name: &str) -> Result<()> {
        let config = self.config();
        if config.servers.get(name).is_some_and(|server| server.enabled && !server.has_kept_secrets()) {
            let error = Error::new(
                ErrorCode::InvalidArgs,
                format!("`{name}` has no secret with `file`, `command` or `keyring`"),
            );
            return Err(error.hint("`forgefs reload` reads `env_files` again"));
        }
        self.restart(name).await
    }

    /// Replaces the connections of a server by new ones: a program is started anew.
    ///
    /// # Errors
    /// There is no such server, or it is off, or a new connection failed: the old one stays.
    pub async fn restart(&self, name: &str) -> Result<()> {
        let Some(rotations) = self.fleet.rotations(name) else {
            return Err(Error::new(ErrorCode::ServerNotFound, format!("the gateway has no server `{name}`")));
        };
        let rotated = futures::future::join_all(rotations.iter().map(|rotation| rotation.rotate())).await;
        rotated.into_iter().collect()
    }

    /// Shows a notice in listings of the root; `None` removes it.
    pub fn notice(&self, notice: Option<String>) {
        self.notice.store(notice.map(Arc::new));
    }

    /// Starts and maintains the warm workers, so that the first script does not wait for one.
    pub fn warm_up(&self) {
        let pool = self.pool();
        self.warming.store(Some(Arc::new(Task::spawn(async move { pool.keep_warm().await }))));
    }

    /// Saves the observed shapes of every server, for two seconds at most. Before the end: they are saved with a delay.
    pub async fn save_observed(&self) {
        let _ = tokio::time::timeout(SAVING, self.fleet.save_observed()).await;
    }

    /// State that outlives a request.
    pub fn state(&self) -> &Arc<dyn State> {
        &self.state
    }

    /// Start of the gateway.
    pub fn began(&self) -> SystemTime {
        self.began
    }

    /// Journals in force.
    pub fn journals(&self) -> Option<Arc<Journals>> {
        self.in_force.load().journals.clone()
    }

    /// Approvals in force that wait.
    pub fn waiting_approvals(&self) -> Option<Arc<Approvals>> {
        self.in_force.load().waiting_approvals.clone()
    }

    /// Costs of today and the budget, of all gateways that share the counter; `None` without a budget.
    pub fn today(&self) -> Option<(Amount, Amount)> {
        self.in_force.load().spending.today()
    }

    /// Variables that the file of the configuration in force refers to: a further one has to be confirmed.
    pub(crate) fn variables(&self) -> &Mutex<BTreeSet<String>> {
        &self.variables
    }

    /// Configuration in force.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.in_force.load().config)
    }

    /// True if a client with this catalog has skills, or there is a folder for them.
    pub fn serves_skills(&self, catalog: &Catalog) -> bool {
        !catalog.skills().skills.is_empty() || (self.config().skills.is_some() && !catalog.is_narrowed())
    }

    /// Hooks in force.
    pub fn hooks(&self) -> Hooks {
        self.in_force.load().rules.hooks().clone()
    }

    /// Current catalog of everything, for the operator. Clients get that of their profile.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.fleet.catalog.load().whole)
    }

    /// Current catalog of a client: what its profile has.
    pub fn catalog_of(&self, principal: &Principal) -> Arc<Catalog> {
        let in_force = self.in_force.load();
        let catalogs = self.fleet.catalog.load_full();
        match in_force.profile(principal) {
            Some((name, profile)) if !profile.shows_all() => {
                // One that was configured a moment ago has nothing yet.
                catalogs.of(name).unwrap_or_else(|| Arc::clone(&catalogs.nothing))
            }
            _ => Arc::clone(&catalogs.agents),
        }
    }

    /// Form in which a client's tools may be shown, and the tokens of definitions up to which `auto` is `direct`.
    pub fn exposed(&self, principal: &Principal) -> (Expose, Option<usize>) {
        let in_force = self.in_force.load();
        let profile = in_force.profile(principal).map(|(_, profile)| profile);
        let expose = in_force.config.exposed(&principal.client, principal.profile.as_deref());
        (expose, profile.and_then(|profile| profile.auto_tokens).map(|tokens| tokens as usize))
    }

    /// Tools that a client's profile shows beside the four, as `SERVER.TOOL`.
    pub fn directly(&self, principal: &Principal) -> Matcher {
        let in_force = self.in_force.load();
        in_force
            .profile(principal)
            .map(|(_, profile)| profile.direct.matcher())
            .unwrap_or_else(|| Patterns::default().matcher())
    }

    /// True if only scripts may call a tool.
    pub fn is_left_to_scripts(&self, server: &str, tool: &str) -> bool {
        self.in_force.load().rules.is_left_to_scripts(server, tool)
    }

    /// Name of a client's profile in force; `None` if it has none.
    pub fn profile_of(&self, principal: &Principal) -> Option<String> {
        self.in_force.load().profile(principal).map(|(name, _)| name.to_owned())
    }

    /// Notifies of each change of the catalog.
    pub fn changes(&self) -> watch::Receiver<Phase> {
        self.fleet.phase.clone()
    }

    /// Scripts that are tools, as they are now.
    pub fn scripts(&self) -> Arc<Callables> {
        self.shelf.now.load_full()
    }

    /// The sandbox.
    pub fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.in_force.load().pool)
    }

    /// Tells of each configuration that came into force.
    pub fn reloads(&self) -> watch::Receiver<Arc<Config>> {
        self.reloads.subscribe()
    }

    /// Counts a token that let no client in, by where it was sent.
    pub fn refused_token(&self, place: &'static str) {
        self.metrics.refused_token(place);
    }

    /// Metrics as text.
    pub fn metrics_text(&self) -> String {
        let instances = self.instances();
        let server = |entry: &Arc<ServerEntry>| ServerState {
            server: entry.ident.clone(),
            state: entry.state.word(),
            breaker: entry.breaker(),
            tools: entry.stubs.tools.len(),
            instances: instances.get(&entry.name).copied().unwrap_or_default(),
        };
        let now = Snapshot {
            pool: self.pool().metrics(),
            servers: self.catalog().servers().iter().map(server).collect(),
            day: self.in_force.load().spending.today(),
            redactions: redact::replaced(),
            sessions: self.fleet.instances.sessions(),
            panics: panics::count(),
            kept: kept::held(),
            results: memory::RESULTS.taken(),
            tasks: tokio::runtime::Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks()),
        };
        self.metrics.text(now).unwrap_or_default()
    }

    /// Number of open sessions.
    pub fn sessions(&self) -> usize {
        self.fleet.instances.sessions()
    }

    /// Executions under way.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Number of instances beside the first one, by server name.
    pub fn instances(&self) -> BTreeMap<String, usize> {
        self.fleet.instances.count()
    }

    /// Parts of the endpoint that logins of its clients to servers need.
    pub fn browsers(&self) -> &Browsers {
        self.fleet.instances.browsers()
    }
}

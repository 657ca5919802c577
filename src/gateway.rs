//! The only wiring: configuration in, a running gateway out.

mod fleet;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::audit;
use crate::broker::{Approver, Rules, Validators};
use crate::catalog::{Catalog, Phase};
use crate::config::{self, Config};
use crate::discovery::Discovery;
use crate::error::Result;
use crate::execution::{Execution, Request, Scene};
use crate::manifest::ServerEntry;
use crate::redact::{self, Outgoing as _, Surface};
use crate::sandbox::{Pool, PoolOptions};
use crate::session::Session;
use crate::spending::Spending;
use crate::task::Task;
use crate::telemetry::{Metrics, ServerState, Snapshot, Telemetry, Traces};
use fleet::Fleet;

pub use fleet::Reloaded;

/// What a gateway is made of.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// Files with tool lists, shown beside the configured servers but not connected.
    pub catalogs: Vec<PathBuf>,
    /// The executable that becomes a worker; normally this one.
    pub worker: PathBuf,
    /// Its arguments.
    pub worker_args: Vec<std::ffi::OsString>,
}

/// A running gateway. Dropping it ends its servers and workers.
pub struct Gateway {
    config: ArcSwap<Config>,
    started: Instant,
    fleet: Fleet,
    validators: Arc<Validators>,
    rules: ArcSwap<Rules>,
    workers: Workers,
    pool: ArcSwap<Pool>,
    /// Keeps workers of the pool warm, once that was asked for.
    warming: ArcSwapOption<Task>,
    audit: ArcSwap<audit::Log>,
    spending: ArcSwap<Spending>,
    metrics: Arc<Metrics>,
    metrics_wanted: watch::Sender<Option<config::Metrics>>,
    traces: ArcSwapOption<Traces>,
    /// What whoever looks at the root should know.
    notice: ArcSwapOption<String>,
}

/// What becomes a worker.
struct Workers {
    exe: PathBuf,
    args: Vec<std::ffi::OsString>,
}

impl Workers {
    fn pool(&self, sandbox: &config::Sandbox) -> Arc<Pool> {
        Pool::new(PoolOptions {
            exe: self.exe.clone(),
            args: self.args.clone(),
            warm: sandbox.workers,
            runs: sandbox.limits.runs,
            queue: sandbox.limits.queue,
            require: sandbox.require.clone(),
        })
    }
}

impl Gateway {
    /// Starts a gateway and returns at once: servers are connected, and workers started, in the background.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When a file with tool lists cannot be read, or two servers have one name.
    pub fn start(options: Options) -> Result<Self> {
        let Options { config, catalogs, worker, worker_args } = options;
        let workers = Workers { exe: worker, args: worker_args };
        Ok(Self {
            started: Instant::now(),
            fleet: Fleet::start(&config, &catalogs)?,
            validators: Arc::default(),
            rules: ArcSwap::from_pointee(Rules::new(&config)),
            pool: ArcSwap::new(workers.pool(&config.sandbox)),
            workers,
            warming: ArcSwapOption::empty(),
            notice: ArcSwapOption::empty(),
            audit: ArcSwap::new(audit::Log::open(&config.audit)),
            spending: ArcSwap::new(Spending::new(&config)),
            metrics: Arc::default(),
            metrics_wanted: watch::Sender::new(config.metrics.clone()),
            traces: ArcSwapOption::new(config.telemetry.as_ref().map(Traces::start).transpose()?),
            config: ArcSwap::from_pointee(config),
        })
    }

    /// Goes over to another configuration: servers that it changes are replaced, the others go on undisturbed, and
    /// scripts that run end as they began.
    ///
    /// # Errors
    /// When the configuration cannot be put into force; the old one stays then.
    pub fn reload(&self, config: Config) -> Result<Reloaded> {
        let reloaded = self.fleet.reload(&config)?;
        if self.workers_differ(&config) {
            self.pool.store(self.workers.pool(&config.sandbox));
            if self.warming.load().is_some() {
                self.warm_up();
            }
        }
        if self.config.load().audit != config.audit {
            self.audit.store(audit::Log::open(&config.audit));
        }
        if self.config.load().telemetry != config.telemetry {
            self.traces.store(config.telemetry.as_ref().map(Traces::start).transpose()?);
        }
        self.metrics_wanted.send_if_modified(|wanted| {
            let differs = *wanted != config.metrics;
            wanted.clone_from(&config.metrics);
            differs
        });
        self.spending.store(self.spending.load().reloaded(&config));
        self.rules.store(Arc::new(Rules::new(&config)));
        self.config.store(Arc::new(config));
        Ok(reloaded)
    }

    fn workers_differ(&self, config: &Config) -> bool {
        let of = |sandbox: &config::Sandbox| {
            (sandbox.workers, sandbox.limits.runs, sandbox.limits.queue, sandbox.require.clone())
        };
        of(&self.config.load().sandbox) != of(&config.sandbox)
    }

    /// Has every server listed again, without restarting it.
    pub fn relist(&self) {
        self.fleet.relist();
    }

    /// Shows a line to whoever lists the root; `None` takes it away.
    pub fn notice(&self, notice: Option<String>) {
        self.notice.store(notice.map(Arc::new));
    }

    /// Starts the workers that are kept warm, so that the first script does not wait for one, and looks after them.
    pub fn warm_up(&self) {
        let pool = self.pool();
        self.warming.store(Some(Arc::new(Task::spawn(async move { pool.keep_warm().await }))));
    }

    /// The configuration it runs on.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// The catalog as it is now.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.fleet.catalog().load_full()
    }

    /// Changes each time the catalog does.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Phase> {
        self.fleet.phase()
    }

    /// The sandbox.
    #[must_use]
    pub fn pool(&self) -> Arc<Pool> {
        self.pool.load_full()
    }

    /// Waits until every server is ready or has failed, `limit` at most; whether that is so.
    pub async fn settle(&self, limit: Duration) -> bool {
        self.reach(Phase::Settled, limit).await
    }

    /// Waits until the tools of every server are known, be it from its last start, for what is left of `limit` since
    /// the gateway was started.
    pub async fn usable_since_start(&self, limit: Duration) {
        self.reach(Phase::Usable, limit.saturating_sub(self.started.elapsed())).await;
    }

    async fn reach(&self, wanted: Phase, limit: Duration) -> bool {
        let mut phase = self.fleet.phase();
        let reached = *phase.borrow() >= wanted;
        reached || tokio::time::timeout(limit, phase.wait_for(|phase| *phase >= wanted)).await.is_ok_and(|p| p.is_ok())
    }

    /// Lists a folder.
    ///
    /// # Errors
    /// See [`Discovery::ls`].
    pub fn ls(&self, session: &Session, path: &str, depth: Option<u32>) -> Result<String> {
        let listing = self.shown(Discovery { catalog: &self.catalog(), session }.ls(path, depth)?);
        match self.notice.load_full().filter(|_| path.trim_matches('/').is_empty()) {
            Some(notice) => Ok(format!("{listing}\nnote: {notice}")),
            None => Ok(listing),
        }
    }

    /// Reads files.
    ///
    /// # Errors
    /// See [`Broker::cat`](crate::broker::Broker::cat).
    pub async fn cat(&self, session: &Arc<Session>, paths: &[String], lines: Option<&str>) -> Result<String> {
        self.scene(session).request("cat", async |broker| broker.cat(0, paths, lines).await).await
    }

    /// Searches the stubs.
    ///
    /// # Errors
    /// See [`Discovery::search`].
    pub fn search(
        &self,
        session: &Session,
        queries: &[String],
        limit: Option<u32>,
        path: Option<&str>,
    ) -> Result<String> {
        Ok(self.shown(Discovery { catalog: &self.catalog(), session }.search(queries, limit, path)?))
    }

    /// A listing as agents may read it: what is in it, servers have written.
    fn shown(&self, listing: String) -> String {
        listing.redacted(Surface::Answer(self.config.load().redaction))
    }

    /// Where its metrics are to be served, now and later.
    #[must_use]
    pub fn metrics_wanted(&self) -> watch::Receiver<Option<config::Metrics>> {
        self.metrics_wanted.subscribe()
    }

    /// Its metrics, as text.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let server = |entry: &Arc<ServerEntry>| ServerState {
            server: entry.ident.clone(),
            state: entry.state.word(),
            breaker: entry.breaker(),
            tools: entry.stubs.tools.len(),
        };
        let now = Snapshot {
            pool: self.pool().metrics(),
            servers: self.catalog().servers().iter().map(server).collect(),
            day: self.spending.load().today(),
            redactions: redact::replaced(),
        };
        self.metrics.text(now).unwrap_or_default()
    }

    /// Runs a script.
    pub async fn execute(&self, session: &Arc<Session>, request: Request) -> Execution {
        self.scene(session).execute(request).await
    }

    /// A snapshot for one execution.
    #[must_use]
    pub fn scene(&self, session: &Arc<Session>) -> Scene {
        Scene {
            catalog: self.catalog(),
            router: self.fleet.router(),
            session: Arc::clone(session),
            validators: Arc::clone(&self.validators),
            pool: self.pool(),
            limits: self.config.load().sandbox.limits.clone(),
            spending: self.spending.load_full(),
            telemetry: Telemetry { metrics: Arc::clone(&self.metrics), traces: self.traces.load_full() },
            audit: self.audit.load_full(),
            redaction: self.config.load().redaction,
            placeholders: self.config.load().placeholders,
            caller: None,
            rules: self.rules.load_full(),
            approver: Approver::default(),
        }
    }
}

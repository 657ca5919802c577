//! The only wiring: configuration in, a running gateway out.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::broker::Validators;
use crate::catalog::Catalog;
use crate::config::{self, Config};
use crate::discovery::Discovery;
use crate::error::{Error, ErrorCode, Result};
use crate::execution::{Execution, Request, Scene};
use crate::manifest::{Pin, ServerEntry, State, load_file};
use crate::router::Router;
use crate::sandbox::{Pool, PoolOptions};
use crate::session::Session;
use crate::upstream::{self, Answer, Connection, Listing, Offline, Operation, Progress, Upstream, Vitals};

/// Pause before a server that failed is listed again; doubled by each further failure up to [`MAX_RETRY`].
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest such pause.
const MAX_RETRY: Duration = Duration::from_secs(120);

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
    config: Config,
    started: Instant,
    catalog: Arc<ArcSwap<Catalog>>,
    /// Changes each time the catalog does; `true` once no server is being started any more.
    settled: watch::Receiver<bool>,
    router: Arc<Router>,
    validators: Arc<Validators>,
    pool: Arc<Pool>,
    /// The tasks that connect and rebuild; aborted on drop.
    _tasks: JoinSet<()>,
}

impl Gateway {
    /// Starts a gateway and returns at once: servers are connected, and workers started, in the background.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When a file with tool lists cannot be read, or two servers have one name.
    pub fn start(options: Options) -> Result<Self> {
        let Options { config, catalogs, worker, worker_args } = options;
        let pin = config.manifest.pin.as_deref().map(Pin::load).transpose()?.map(Arc::new);
        let sources = sources(&config, &catalogs)?;
        let names: Vec<&str> = sources.keys().map(String::as_str).collect();
        let idents = stubgen::assign_idents(&names);
        let mut entries = BTreeMap::new();
        let mut upstreams: HashMap<String, Arc<dyn Upstream>> = HashMap::new();
        let mut connecting = Vec::new();
        for ((name, source), ident) in sources.iter().zip(&idents) {
            let entry = match source {
                Source::Configured(server) if !server.enabled => {
                    ServerEntry::empty(name, ident, Some(server), State::Disabled)
                }
                Source::Configured(server) => {
                    let Connection { upstream, vitals } = upstream::build(name, server);
                    upstreams.insert(name.clone(), Arc::clone(&upstream));
                    connecting.push(Listed {
                        name: name.clone(),
                        ident: ident.clone(),
                        server: server.clone(),
                        upstream,
                        vitals: vitals.clone(),
                        pin: pin.clone(),
                    });
                    ServerEntry::empty(name, ident, Some(server), State::Connecting).with_vitals(vitals)
                }
                Source::File { tools, file } => {
                    upstreams.insert(name.clone(), Arc::new(Offline { file: file.clone() }));
                    let listing = Listing { tools: tools.clone(), ..Listing::default() };
                    ServerEntry::listed(name, ident, None, listing, State::Offline).pinned(pin.as_deref())
                }
            };
            entries.insert(ident.clone(), Arc::new(entry));
        }
        let catalog = Catalog::build(entries.values().cloned().collect())?;
        let (settled_to, settled) = watch::channel(!catalog.is_settling());
        let catalog = Arc::new(ArcSwap::from_pointee(catalog));
        let pool = Pool::new(PoolOptions {
            exe: worker,
            args: worker_args,
            warm: config.sandbox.workers,
            runs: config.sandbox.limits.runs,
            queue: config.sandbox.limits.queue,
            require: config.sandbox.require.clone(),
        });
        let mut tasks = JoinSet::new();
        let (changed, changes) = mpsc::unbounded_channel();
        tasks.spawn(rebuild(entries, changes, Arc::clone(&catalog), settled_to));
        for listed in connecting {
            tasks.spawn(keep_listed(listed, config.manifest.refresh, changed.clone()));
        }
        Ok(Self {
            config,
            started: Instant::now(),
            catalog,
            settled,
            router: Arc::new(Router::new(upstreams)),
            validators: Arc::default(),
            pool,
            _tasks: tasks,
        })
    }

    /// Starts the workers that are kept warm, so that the first script does not wait for one, and looks after them.
    pub fn warm_up(&mut self) {
        let pool = Arc::clone(&self.pool);
        self._tasks.spawn(async move { pool.keep_warm().await });
    }

    /// The configuration it runs on.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The catalog as it is now.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The sandbox.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits until every server is ready or has failed, `limit` at most; whether that is so.
    pub async fn settle(&self, limit: Duration) -> bool {
        let mut settled = self.settled.clone();
        let done = tokio::time::timeout(limit, settled.wait_for(|settled| *settled)).await.is_ok();
        done || *self.settled.borrow()
    }

    /// As [`Gateway::settle`], for what is left of `limit` since the gateway was started.
    pub async fn settle_since_start(&self, limit: Duration) {
        if !*self.settled.borrow() {
            self.settle(limit.saturating_sub(self.started.elapsed())).await;
        }
    }

    /// Lists a folder.
    ///
    /// # Errors
    /// See [`Discovery::ls`].
    pub fn ls(&self, session: &Session, path: &str, depth: Option<u32>) -> Result<String> {
        Discovery { catalog: &self.catalog.load(), session }.ls(path, depth)
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
        Discovery { catalog: &self.catalog.load(), session }.search(queries, limit, path)
    }

    /// Runs a script.
    pub async fn execute(&self, session: &Arc<Session>, request: Request) -> Execution {
        self.scene(session).execute(request).await
    }

    /// A snapshot for one execution.
    #[must_use]
    pub fn scene(&self, session: &Arc<Session>) -> Scene {
        Scene {
            catalog: self.catalog.load_full(),
            router: Arc::clone(&self.router),
            session: Arc::clone(session),
            validators: Arc::clone(&self.validators),
            pool: Arc::clone(&self.pool),
            limits: self.config.sandbox.limits.clone(),
        }
    }
}

/// Where a server's tools come from.
enum Source {
    Configured(config::Server),
    File { tools: Vec<serde_json::Value>, file: String },
}

fn sources(config: &Config, catalogs: &[PathBuf]) -> Result<BTreeMap<String, Source>> {
    let configured = config.servers.iter().map(|(name, server)| (name.clone(), Source::Configured(server.clone())));
    let mut sources: BTreeMap<String, Source> = configured.collect();
    for path in catalogs {
        for (name, tools) in load_file(path)? {
            let file = path.display().to_string();
            if sources.contains_key(&name) {
                return Err(Error::new(ErrorCode::InvalidArgs, format!("{file}: there is already a server `{name}`"))
                    .hint("rename the file, or leave out the other source"));
            }
            sources.insert(name, Source::File { tools, file });
        }
    }
    Ok(sources)
}

/// Keeps one server's entry current: lists it at the start, again after each `refresh`, and until it works with
/// growing pauses while it fails. What was listed last stays while a later listing fails.
async fn keep_listed(listed: Listed, refresh: Option<Duration>, changed: mpsc::UnboundedSender<ServerEntry>) {
    let mut pause = FIRST_RETRY;
    let mut last: Option<ServerEntry> = None;
    loop {
        let (entry, wait) = match listed.list().await {
            Ok(entry) => {
                pause = FIRST_RETRY;
                (entry, refresh)
            }
            Err(reason) => {
                tracing::warn!(server = listed.name, reason, "failed");
                let state = State::Failed { reason };
                let entry = match &last {
                    Some(last) => last.with_state(state),
                    None => ServerEntry::empty(&listed.name, &listed.ident, Some(&listed.server), state)
                        .with_vitals(listed.vitals.clone()),
                };
                let wait = pause;
                pause = (pause * 2).min(MAX_RETRY);
                (entry, Some(wait))
            }
        };
        let is_news = last.as_ref().is_none_or(|last| {
            last.state != entry.state
                || last.stubs.digest != entry.stubs.digest
                || last.offers.digest != entry.offers.digest
        });
        last = Some(entry.clone());
        if is_news && changed.send(entry).is_err() {
            return;
        }
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return,
        }
    }
}

/// A configured server, as far as listing it goes.
struct Listed {
    name: String,
    ident: String,
    server: config::Server,
    upstream: Arc<dyn Upstream>,
    vitals: Vitals,
    pin: Option<Arc<Pin>>,
}

impl Listed {
    /// Lists the server; the error is the reason, in one line.
    async fn list(&self) -> Result<ServerEntry, String> {
        let started = Instant::now();
        let listing = match self.upstream.call(&Operation::List, &Progress::default()).await {
            Ok(Answer::Listing(listing)) => listing,
            Ok(_) => return Err("it answered something else than a list".to_owned()),
            Err(Error { message, hint: Some(hint), .. }) => return Err(format!("{message} ({hint})")),
            Err(error) => return Err(error.message),
        };
        let (tools, ms) = (listing.tools.len(), started.elapsed().as_millis());
        tracing::info!(server = self.name, tools, protocol = listing.protocol, ms, "listed");
        let (name, ident, server) = (self.name.clone(), self.ident.clone(), self.server.clone());
        let state = State::Ready { protocol: listing.protocol.clone() };
        // Thousands of stubs take a while: not on a thread that serves requests.
        let (pin, vitals) = (self.pin.clone(), self.vitals.clone());
        let made = tokio::task::spawn_blocking(move || {
            ServerEntry::listed(&name, &ident, Some(&server), listing, state).pinned(pin.as_deref()).with_vitals(vitals)
        });
        made.await.map_err(|error| format!("its stubs could not be made: {error}"))
    }
}

/// Puts changed servers into the catalog, several at once when they come together. Readers never wait.
async fn rebuild(
    mut entries: BTreeMap<String, Arc<ServerEntry>>,
    mut changes: mpsc::UnboundedReceiver<ServerEntry>,
    catalog: Arc<ArcSwap<Catalog>>,
    settled: watch::Sender<bool>,
) {
    while let Some(first) = changes.recv().await {
        let mut changed = Some(first);
        while let Some(entry) = changed {
            entries.insert(entry.ident.clone(), Arc::new(entry));
            changed = changes.try_recv().ok();
        }
        let servers: Vec<_> = entries.values().cloned().collect();
        match tokio::task::spawn_blocking(move || Catalog::build(servers)).await {
            Ok(Ok(built)) => {
                let done = !built.is_settling();
                catalog.store(Arc::new(built));
                settled.send_replace(done);
            }
            Ok(Err(error)) => tracing::error!(%error, "the catalog keeps its last state"),
            Err(error) => tracing::error!(%error, "the catalog keeps its last state"),
        }
    }
}

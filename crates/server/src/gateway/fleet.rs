//! The servers of a gateway, started and replaced by configuration, and the catalog of their lists.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::skills;
use base::error::{Error, ErrorCode, Result};
use base::memory;
use base::task::{self, Task};
use catalog::manifest::{
    Cache, FirstUse, Observed, Phase, Pin, RefreshedServer, Refresher, ServerEntry, ServerState, load_file,
};
use catalog::skills::Skills;
use catalog::{Catalogs, Views};
use config::{Config, Manifest};
use run::router::{Blueprint, Instances, Route, Router};
use run::scripts::SERVER;
use state::State;
use upstream::auth::Account;
use upstream::{Connection, Event, EventSender, Listing, Offline, Rotation, Upstream};

/// The servers. Dropping it ends them.
pub(super) struct Fleet {
    /// Tool lists from files, by server name: the tools, and the file.
    files: BTreeMap<String, (Vec<Value>, String)>,
    running: Mutex<Running>,
    state: Arc<dyn State>,
    /// Instances beside the first of each server.
    pub(super) instances: Arc<Instances>,
    pub(super) catalog: Arc<ArcSwap<Catalogs>>,
    /// Notifies of each change of the catalog.
    pub(super) phase: watch::Receiver<Phase>,
    /// Entries of the servers, from which the catalog is built.
    pub(super) known: watch::Sender<Entries>,
    _rebuilding: Option<Task>,
}

/// Servers started for the configuration.
struct Running {
    servers: BTreeMap<String, Server>,
    manifest: config::Manifest,
    profiles: BTreeMap<String, config::Profile>,
    reviewed: Prepared,
    /// Permits of servers that are started or listed at once.
    starts: Arc<Semaphore>,
    /// Number of the last started server.
    last: u64,
}

/// Permits of servers that are started or listed at once.
fn starts(manifest: &config::Manifest) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(manifest.startup_concurrency))
}

/// One configured server.
struct Server {
    config: config::Server,
    ident: String,
    instance: u64,
    observed: Observed,
    /// `None` for one that is off.
    live: Option<Live>,
}

/// Connection and tasks of an enabled server.
struct Live {
    upstream: Arc<dyn Upstream>,
    event_sender: EventSender,
    blueprint: Arc<Blueprint>,
    rotation: Rotation,
    _tasks: [Task; 2],
}

/// Effect of a reload, by server name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Servers that were added.
    pub added: Vec<String>,
    /// Servers restarted with another configuration.
    pub changed: Vec<String>,
    /// Servers that were removed.
    pub removed: Vec<String>,
}

/// The fallible part of a reload, done before anything changes: what lists are compared with.
#[derive(Default)]
pub(super) struct Prepared {
    pin: Option<Arc<Pin>>,
    first_use: Option<FirstUse>,
}

/// Handling of reviewed stubs in a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pins {
    /// Keep those in memory.
    Keep,
    /// Read them again: their folder may have changed.
    Read,
}

impl Fleet {
    /// Reads the files, and starts the servers of `config` in the background; returns the router to them.
    ///
    /// # Errors
    /// When a file cannot be read, or two servers have one name.
    pub(super) fn start(config: &Config, catalogs: &[PathBuf], state: Arc<dyn State>) -> Result<(Self, Arc<Router>)> {
        let mut files = BTreeMap::new();
        for path in catalogs {
            for (name, tools) in load_file(path)? {
                let file = path.display().to_string();
                if files.contains_key(&name) || config.servers.contains_key(&name) {
                    return Err(taken(&file, &name));
                }
                files.insert(name, (tools, file));
            }
        }
        let catalog = Arc::new(ArcSwap::from_pointee(Catalogs::empty()));
        let (tell_phase, phase) = watch::channel(Phase::Starting);
        let (known, mut news) = watch::channel(Entries::default());
        let running = Running {
            servers: BTreeMap::new(),
            manifest: config.manifest.clone(),
            profiles: BTreeMap::new(),
            reviewed: Prepared::default(),
            starts: starts(&config.manifest),
            last: 0,
        };
        let mut fleet = Self {
            files,
            running: Mutex::new(running),
            instances: Instances::new(Arc::clone(&state)),
            state,
            catalog: Arc::clone(&catalog),
            phase,
            known,
            _rebuilding: None,
        };
        fleet.shows_skills()(skills::read(config.skills.as_deref()));
        let (_, router) = fleet.reload(config, fleet.prepare(config, Pins::Read)?);
        let built = news.borrow_and_update().built_on(&catalog.load_full())()?;
        catalog.store(Arc::new(built));
        tell_phase.send_replace(catalog.load().whole.phase());
        fleet._rebuilding = Some(Task::spawn(rebuild(news, catalog, tell_phase)));
        Ok((fleet, router))
    }

    /// Does the fallible part of a reload.
    ///
    /// # Errors
    /// When two servers have one name, or the reviewed stubs cannot be read.
    pub(super) fn prepare(&self, config: &Config, pins: Pins) -> Result<Prepared> {
        if let Some((name, (_, file))) = self.files.iter().find(|(name, _)| config.servers.contains_key(*name)) {
            return Err(taken(file, name));
        }
        if let Some((_, file)) = self.files.get(SERVER).filter(|_| config.scripts.path.is_some()) {
            return Err(taken(file, SERVER));
        }
        let running = self.running.lock();
        let pin = match &config.manifest.pin {
            pin if pins == Pins::Keep
                && *pin == running.manifest.pin
                && config.manifest.accepts_text == running.manifest.accepts_text =>
            {
                running.reviewed.pin.clone()
            }
            Some(folder) => Some(Arc::new(Pin::load(folder)?.accepting_text(config.manifest.accepts_text))),
            None => None,
        };
        Ok(Prepared { pin, first_use: FirstUse::new(config, &self.state)? })
    }

    /// Starts, replaces and removes servers by `config`, and returns the router to them. Unchanged servers continue.
    pub(super) fn reload(&self, config: &Config, prepared: Prepared) -> (Reloaded, Arc<Router>) {
        let mut reloaded = Reloaded::default();
        // At once: news of servers waits meanwhile.
        self.known.send_modify(|known| reloaded = self.change(known, config, prepared));
        let running = self.running.lock();
        self.instances.keep(running.servers.values().map(|server| server.instance).collect());
        (reloaded, Arc::new(self.route(&running, config)))
    }

    /// Replaces the skills of the catalog.
    pub(super) fn shows_skills(&self) -> impl Fn(Skills) + Send + Sync + 'static {
        let known = self.known.clone();
        move |skills| {
            known.send_if_modified(|known| {
                let differs = known.1.digest() != skills.digest() || known.1.calls != skills.calls;
                if differs {
                    known.1 = Arc::new(skills);
                }
                differs
            });
        }
    }

    /// Lists every server again.
    pub(super) fn relist(&self) {
        for live in self.running.lock().servers.values().flat_map(|server| &server.live) {
            live.event_sender.tell(Event::Changed);
        }
    }

    /// Connections of a server; `None` if it is not running.
    pub(super) fn rotations(&self, name: &str) -> Option<Vec<Rotation>> {
        let first = self.running.lock().servers.get(name)?.live.as_ref()?.rotation.clone();
        Some([vec![first], self.instances.rotations(name)].concat())
    }

    /// Saves the observed shapes of every server.
    pub(super) async fn save_observed(&self) {
        let observed: Vec<Observed> =
            self.running.lock().servers.values().map(|server| server.observed.clone()).collect();
        futures::future::join_all(observed.iter().map(Observed::save)).await;
    }

    fn change(&self, known: &mut Entries, config: &Config, reviewed: Prepared) -> Reloaded {
        let mut names: Vec<&str> = self.files.keys().chain(config.servers.keys()).map(String::as_str).collect();
        // Its identifier is taken.
        names.extend(config.scripts.path.iter().map(|_| SERVER));
        names.sort_unstable();
        let idents: HashMap<&str, String> = names.iter().copied().zip(stubgen::assign_idents(&names)).collect();
        let mut running = self.running.lock();
        let all = running.manifest != config.manifest || running.reviewed.pin != reviewed.pin;
        running.manifest = config.manifest.clone();
        known.view(config, &running.profiles);
        running.profiles.clone_from(&config.profiles);
        running.reviewed = reviewed;
        if all {
            running.starts = starts(&config.manifest);
        }
        // At once, so that waiting for the servers is waiting for the scripts too.
        if config.scripts.path.is_some() && !known.0.contains_key(SERVER) {
            known.start(0, ServerEntry::empty(SERVER, SERVER, None, ServerState::Connecting));
        }
        let mut reloaded = Reloaded::default();
        let stays = |name: &String, server: &Server| {
            !all && config.servers.get(name) == Some(&server.config) && idents.get(name.as_str()) == Some(&server.ident)
        };
        for (name, server) in running.servers.extract_if(.., |name, server| !stays(name, server)) {
            known.remove(&server.ident);
            tokio::spawn(async move { server.observed.save().await });
            let list = if config.servers.contains_key(&name) { &mut reloaded.changed } else { &mut reloaded.removed };
            list.push(name);
        }
        for name in names {
            let ident = &idents[name];
            if let Some((tools, _)) = self.files.get(name) {
                let listing = Listing { tools: tools.clone(), ..Listing::default() };
                let entry = ServerEntry::listed(name, ident, None, listing, ServerState::Offline);
                known.start(0, entry.pinned(running.reviewed.pin.as_deref()));
            } else if let Some(config) = config.servers.get(name).filter(|_| !running.servers.contains_key(name)) {
                if !reloaded.changed.iter().any(|changed| changed == name) {
                    reloaded.added.push(name.to_owned());
                }
                running.last += 1;
                let (server, entry) = self.start_server(name, ident, config, &running);
                known.start(running.last, entry);
                running.servers.insert(name.to_owned(), server);
            }
        }
        reloaded
    }

    fn start_server(
        &self,
        name: &str,
        ident: &str,
        config: &config::Server,
        running: &Running,
    ) -> (Server, ServerEntry) {
        let (config, ident, instance) = (config.clone(), ident.to_owned(), running.last);
        if !config.enabled {
            let entry = ServerEntry::empty(name, &ident, Some(&config), ServerState::Disabled);
            return (Server { config, ident, instance, observed: Observed::default(), live: None }, entry);
        }
        let Manifest { refresh, cache, observe, .. } = &running.manifest;
        let (refresh, cache) = (*refresh, Cache::new(cache.clone()));
        let file = cache.shapes(name, &config).map(Arc::from);
        let observed = if *observe { Observed::new(Arc::clone(&self.state), file) } else { Observed::default() };
        let account = Account::of(name, &config, &self.state);
        let Connection { upstream, health, events, event_sender, rotation } =
            upstream::build(name, &config, account.clone(), refresh);
        let blueprint = Blueprint { server: config.clone(), account: account.clone(), refresh };
        let source = RefreshedServer {
            name: name.to_owned(),
            ident: ident.clone(),
            instance,
            server: config.clone(),
            account,
            health,
            pin: running.reviewed.pin.clone(),
            first_use: running.reviewed.first_use.clone(),
            cache,
            observed: observed.clone(),
        };
        let catalog = self.phase.clone();
        let refresher = Refresher {
            source: Arc::new(source),
            upstream: Arc::clone(&upstream),
            events,
            refresh,
            starts: Arc::clone(&running.starts),
            catalog,
        };
        let entry = refresher.first_entry();
        let known = self.known.clone();
        let refreshing = Task::spawn(refresher.run(move |entry| {
            known.send_if_modified(|known| known.renew(instance, entry));
        }));
        let tasks = [refreshing, Task::spawn(observed.clone().keep())];
        let live = Live { upstream, event_sender, blueprint: Arc::new(blueprint), rotation, _tasks: tasks };
        (Server { config, ident, instance, observed, live: Some(live) }, entry)
    }

    fn route(&self, running: &Running, config: &Config) -> Router {
        let offline = self.files.iter().map(|(name, (_, file))| {
            (name.clone(), Route { instance: 0, upstream: Arc::new(Offline { file: file.clone() }), blueprint: None })
        });
        let live = running.servers.iter().filter_map(|(name, server)| {
            let Live { upstream, blueprint, .. } = server.live.as_ref()?;
            let (upstream, blueprint) = (Arc::clone(upstream), Some(Arc::clone(blueprint)));
            Some((name.clone(), Route { instance: server.instance, upstream, blueprint }))
        });
        Router::new(offline.chain(live).collect(), config.references.clone())
    }
}

fn taken(file: &str, name: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{file}: there is already a server `{name}`"))
        .hint("rename the file, or leave out the other source")
}

/// The last entry of each server by identifier, with the number of the server. Servers are numbered in order of start,
/// so that a late entry of a replaced one is not taken for its successor's. The skills, and the views of profiles.
#[derive(Default)]
pub(super) struct Entries(BTreeMap<String, (u64, Arc<ServerEntry>)>, Arc<Skills>, Views);

impl Entries {
    /// Adds a started server, a tool list from a file, or the scripts that are tools.
    pub(super) fn start(&mut self, number: u64, entry: ServerEntry) {
        self.0.insert(entry.ident.clone(), (number, Arc::new(entry)));
    }

    /// Updates an entry; false if the server was replaced.
    fn renew(&mut self, number: u64, entry: ServerEntry) -> bool {
        let known = self.0.get_mut(&entry.ident).filter(|(known, _)| *known == number);
        known.map(|known| known.1 = Arc::new(entry)).is_some()
    }

    /// Removes the server with this identifier.
    pub(super) fn remove(&mut self, ident: &str) {
        self.0.remove(ident);
    }

    /// Builds the catalogs of all this after `last`.
    fn built_on(&self, last: &Arc<Catalogs>) -> impl FnOnce() -> Result<Catalogs> + Send + 'static {
        let servers = self.0.values().map(|(_, entry)| Arc::clone(entry)).collect();
        let (skills, views, last) = (Arc::clone(&self.1), self.2.clone(), Arc::clone(last));
        move || last.rebuilt(servers, skills, &views)
    }

    /// Replaces the views by those of the profiles of `config` that hide something.
    fn view(&mut self, config: &Config, before: &BTreeMap<String, config::Profile>) {
        let hiding = config.profiles.iter().filter(|(_, profile)| !profile.shows_all());
        let view = |(name, profile): (&String, &config::Profile)| {
            let known =
                self.2.get(name).filter(|_| before.get(name).is_some_and(|before| before.has_same_view(profile)));
            (name.clone(), known.cloned().unwrap_or_else(|| Arc::new(config::View::of(profile))))
        };
        self.2 = hiding.map(view).collect();
    }
}

/// Rebuilds the catalog from the latest entries. Readers never wait.
async fn rebuild(mut known: watch::Receiver<Entries>, catalog: Arc<ArcSwap<Catalogs>>, phase: watch::Sender<Phase>) {
    while known.changed().await.is_ok() {
        let build = known.borrow_and_update().built_on(&catalog.load_full());
        match task::apart(build).await {
            Ok(built) => {
                let reached = built.whole.phase();
                catalog.store(Arc::new(built));
                phase.send_replace(reached);
                // While servers start, the next one comes soon.
                if reached >= Phase::Usable && known.has_changed().is_ok_and(|has_changed| !has_changed) {
                    tokio::task::spawn_blocking(memory::give_back);
                }
            }
            Err(error) => tracing::error!(%error, "the catalog keeps its last state"),
        }
    }
}

//! Scripts that are tools: loaded, followed while they are edited, and shown in the catalog as the server `scripts`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::fleet::Entries;
use super::trace::Trace;
use base::error::Error;
use base::task::Task;
use catalog::manifest::{Phase, ServerEntry, ServerState};
use catalog::{Catalog, Catalogs};
use run::sandbox::Pool;
use run::scripts::{Callables, Listed, SERVER, Scripts};
use upstream::Listing;

/// How often the folder and the lock are looked at; a change is taken once it has been stable for as long.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at files that keep changing, after which they are read nonetheless.
const RESTLESS: u32 = 3;

/// The scripts of a gateway.
#[derive(Default)]
pub(super) struct ScriptSet {
    pub(super) now: Arc<ArcSwap<Callables>>,
    following: Mutex<Option<Followed>>,
}

struct Followed {
    config: config::Scripts,
    pool: Arc<Pool>,
    _task: Task,
}

/// Parts of the gateway that following needs.
pub(super) struct Follower {
    pub(super) pool: Arc<Pool>,
    pub(super) max_bytes: usize,
    pub(super) catalog: Arc<ArcSwap<Catalogs>>,
    pub(super) phase: watch::Receiver<Phase>,
    /// Entries of the servers, from which the catalog is built.
    pub(super) known: watch::Sender<Entries>,
}

impl Follower {
    /// Puts the entry of the server into the catalog, or takes it away.
    fn show(&self, entry: Option<ServerEntry>) {
        self.known.send_modify(|known| match entry {
            Some(entry) => known.start(0, entry),
            None => known.remove(SERVER),
        });
    }
}

impl ScriptSet {
    /// Follows the scripts of a configuration from now on.
    pub(super) fn follow(&self, config: &config::Scripts, follower: Follower) {
        let mut following = self.following.lock();
        if config.path.is_none() {
            if following.take().is_some() {
                self.now.store(Arc::default());
                follower.show(None);
            }
            return;
        }
        let is_same = |followed: &Followed| followed.config == *config && Arc::ptr_eq(&followed.pool, &follower.pool);
        if following.as_ref().is_some_and(is_same) {
            return;
        }
        // Scripts reviewed under other settings are not called while these are read.
        *following = None;
        self.now.store(Arc::default());
        follower.show(Some(entry(&Callables::default(), ServerState::Connecting)));
        let (config, pool, now) = (config.clone(), Arc::clone(&follower.pool), Arc::clone(&self.now));
        let task = Task::spawn(keep_up(config.clone(), now, follower));
        *following = Some(Followed { config, pool, _task: task });
    }
}

/// Loads the scripts, and again after each edit of them or their lock.
async fn keep_up(config: config::Scripts, now: Arc<ArcSwap<Callables>>, mut follower: Follower) {
    let paths: Vec<PathBuf> = config.path.iter().chain([&config.lock]).cloned().collect();
    loop {
        let trace = Trace::of(paths.clone(), true).await;
        let read = Scripts::read(&config, follower.max_bytes).await;
        let loaded = match &read {
            Ok(read) => {
                let ready = read.ready(&config, &follower.pool, follower.max_bytes).await;
                for (name, reason) in ready.held() {
                    tracing::warn!(script = name, reason, "a script is not callable");
                }
                Ok((read, ready))
            }
            Err(error) => {
                tracing::error!(%error, "no script is callable");
                Err(error)
            }
        };
        let mut shown: Option<Vec<(String, String)>> = None;
        let (mut seen, mut restless) = (trace.clone(), 0);
        loop {
            let judged = loaded.as_ref().map(|(read, ready)| {
                let catalog = Arc::clone(&follower.catalog.load().whole);
                ready.without(|source| read.why_held(&config, source, |server, tool| listed(&catalog, server, tool)))
            });
            let held = judged.as_ref().map(|scripts| scripts.held().map(owned).collect()).unwrap_or_default();
            if shown.as_ref() != Some(&held) {
                publish(judged, &now, &follower);
                shown = Some(held);
            }
            tokio::select! {
                _ = follower.phase.changed() => {}
                () = tokio::time::sleep(LOOK) => {
                    let here = Trace::of(paths.clone(), true).await;
                    let is_at_rest = here == seen;
                    seen = here;
                    // Continual writing there puts off no review.
                    restless = if is_at_rest { 0 } else { restless + 1 };
                    if seen != trace && (is_at_rest || restless >= RESTLESS) {
                        break;
                    }
                }
            }
        }
    }
}

fn owned((name, reason): (&str, &str)) -> (String, String) {
    (name.to_owned(), reason.to_owned())
}

fn publish(judged: Result<Callables, &&Error>, now: &ArcSwap<Callables>, follower: &Follower) {
    let (scripts, state) = match judged {
        Ok(scripts) => (scripts, ServerState::Ready { protocol: String::new() }),
        Err(error) => (Callables::default(), ServerState::Failed { reason: error.to_string() }),
    };
    follower.show(Some(entry(&scripts, state)));
    now.store(Arc::new(scripts));
}

/// The server `scripts` in the catalog.
fn entry(scripts: &Callables, state: ServerState) -> ServerEntry {
    let held = scripts.held().map(|(name, _)| json!({ "name": name }));
    let tools = scripts.iter().map(|script| script.definition.clone()).chain(held).collect();
    let listing = Listing { tools, misfits: scripts.held().map(owned).collect(), ..Listing::default() };
    ServerEntry::listed(SERVER, SERVER, None, listing, state)
}

/// A tool as the catalog has it.
fn listed(catalog: &Catalog, server: &str, tool: &str) -> Listed {
    let Some(entry) = catalog.servers().iter().find(|entry| entry.name == server) else { return Listed::Gone };
    // Of a server that has no tools now nothing is known.
    if entry.stubs.tools.is_empty() {
        return Listed::Unknown;
    }
    let found = entry.stubs.tools.iter().find(|stub| stub.name == tool);
    found.map_or(Listed::Gone, |stub| Listed::Is(stub.full_digest()))
}

//! Scripts that are tools: loaded, followed while they are edited, and shown in the catalog as the server `scripts`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::config;
use crate::error::Error;
use crate::manifest::{Phase, Quarantined, ServerEntry, ServerState};
use crate::sandbox::Pool;
use crate::scripts::{Callables, Locked, SERVER, Trace};
use crate::task::Task;
use crate::upstream::Listing;

/// How often the folder and the lock are looked at; a change is taken once it has been stable for as long.
const LOOK: Duration = Duration::from_secs(1);

/// The scripts of a gateway.
pub(super) struct Shelf {
    pub(super) now: Arc<ArcSwap<Callables>>,
    following: Mutex<Option<Followed>>,
}

struct Followed {
    config: config::Scripts,
    pool: Arc<Pool>,
    _task: Task,
}

/// What following needs of the gateway.
pub(super) struct Follower {
    pub(super) pool: Arc<Pool>,
    pub(super) max_bytes: usize,
    pub(super) catalog: Arc<ArcSwap<Catalog>>,
    pub(super) phase: watch::Receiver<Phase>,
    /// Puts the entry of the server into the catalog.
    pub(super) show: Box<dyn Fn(Option<ServerEntry>) + Send + Sync>,
}

impl Shelf {
    pub(super) fn new() -> Self {
        Self { now: Arc::default(), following: Mutex::default() }
    }

    /// Follows the scripts of a configuration from now on.
    pub(super) fn follow(&self, config: Option<&config::Scripts>, follower: Follower) {
        let mut following = self.following.lock();
        let Some(config) = config else {
            if following.take().is_some() {
                self.now.store(Arc::default());
                (follower.show)(None);
            }
            return;
        };
        let is_same = |followed: &Followed| followed.config == *config && Arc::ptr_eq(&followed.pool, &follower.pool);
        if following.as_ref().is_some_and(is_same) {
            return;
        }
        // What was reviewed under other settings is not called while these are read.
        *following = None;
        self.now.store(Arc::default());
        (follower.show)(Some(entry(&Callables::default(), ServerState::Connecting)));
        let (config, pool, now) = (config.clone(), Arc::clone(&follower.pool), Arc::clone(&self.now));
        let task = Task::spawn(keep_up(config.clone(), now, follower));
        *following = Some(Followed { config, pool, _task: task });
    }
}

/// Loads the scripts, and again after each edit of them or their lock.
async fn keep_up(config: config::Scripts, now: Arc<ArcSwap<Callables>>, mut follower: Follower) {
    loop {
        let trace = traced(&config).await;
        let loaded = Callables::load(&config, &follower.pool, follower.max_bytes).await;
        match &loaded {
            Ok(scripts) => {
                for (name, reason) in scripts.held() {
                    tracing::warn!(script = name, reason, "a script is not callable");
                }
            }
            Err(error) => tracing::error!(%error, "no script is callable"),
        }
        let mut shown: Option<Vec<(String, String)>> = None;
        let mut seen = trace.clone();
        loop {
            let judged = loaded.as_ref().map(|scripts| scripts.without(|locked| below(locked, &follower.catalog.load())));
            let held = judged.as_ref().map(|scripts| scripts.held().map(owned).collect()).unwrap_or_default();
            if shown.as_ref() != Some(&held) {
                publish(judged, &now, &follower);
                shown = Some(held);
            }
            tokio::select! {
                _ = follower.phase.changed() => {}
                () = tokio::time::sleep(LOOK) => {
                    let here = traced(&config).await;
                    let is_at_rest = here == seen;
                    seen = here;
                    if is_at_rest && seen != trace {
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

async fn traced(config: &config::Scripts) -> Trace {
    let (folder, lock) = (config.path.clone(), config.lock.clone());
    tokio::task::spawn_blocking(move || Trace::of(&folder, &lock)).await.unwrap_or_default()
}

fn publish(judged: Result<Callables, &Error>, now: &ArcSwap<Callables>, follower: &Follower) {
    let (scripts, state) = match judged {
        Ok(scripts) => (scripts, ServerState::Ready { protocol: String::new() }),
        Err(error) => (Callables::default(), ServerState::Failed { reason: error.to_string() }),
    };
    (follower.show)(Some(entry(&scripts, state)));
    now.store(Arc::new(scripts));
}

/// The server `scripts` in the catalog.
fn entry(scripts: &Callables, state: ServerState) -> ServerEntry {
    let held = scripts.held().map(|(name, _)| json!({ "name": name }));
    let tools = scripts.iter().map(|script| script.definition.clone()).chain(held).collect();
    let listing = Listing { tools, ..Listing::default() };
    let entry = ServerEntry::listed(SERVER, SERVER, None, listing, state);
    let reasons: BTreeMap<&str, &str> = scripts.held().collect();
    let quarantine = entry.stubs.tools.iter().filter_map(|tool| {
        let reason = (*reasons.get(tool.name.as_str())?).to_owned();
        Some((tool.ident.clone(), Quarantined { reason, is_reviewed: false }))
    });
    let quarantine = quarantine.collect();
    ServerEntry { quarantine: Arc::new(quarantine), ..entry }
}

/// The first tool of a lock that is known now as another one than was reviewed.
fn below(locked: &Locked, catalog: &Catalog) -> Option<String> {
    locked.calls.iter().filter(|call| call.server != SERVER).find_map(|call| {
        let entry = catalog.servers().iter().find(|entry| entry.name == call.server)?;
        // Of a server that has no tools now nothing is known.
        if entry.stubs.tools.is_empty() {
            return None;
        }
        let label = || format!("{}.{}", call.server, call.tool);
        match entry.stubs.tools.iter().find(|tool| tool.name == call.tool) {
            None => Some(format!("{}, which it calls, is gone", label())),
            Some(tool) if tool.full_digest() != call.definition => {
                Some(format!("{}, which it calls, is not what was reviewed", label()))
            }
            Some(_) => None,
        }
    })
}

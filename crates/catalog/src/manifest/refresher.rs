//! Refreshes one server's entry: at start, on `list_changed`, when its list expires, and after a failure with growing
//! delays.

use std::future::pending;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::cache::digest;
use super::{Cache, FirstUse, Observed, Phase, Pin, ServerEntry, ServerState};
use crate::findings::Later;
use base::error::{Error, ErrorCode};
use base::panics;
use base::task::{self, Task};
use config::Start;
use upstream::auth::Account;
use upstream::{Answer, Event, EventReceiver, Health, Listing, Operation, Progress, Upstream};

/// Delay before the retry after a failure; each further failure doubles it, up to [`MAX_RETRY`] of the server's
/// `max_reconnect_backoff`.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest retry delay in units of that which calls see.
const MAX_RETRY: u32 = 4;
/// Debounce time of changes, which come in bursts.
const SETTLE: Duration = Duration::from_millis(300);
/// Pause after a list that was announced as changed and is not; each further one doubles it, up to [`MAX_CALM`].
const FIRST_CALM: Duration = Duration::from_secs(1);
/// Longest of these pauses.
const MAX_CALM: Duration = Duration::from_secs(120);
/// Longest time that a server with known tools delays its start until they are in the catalog.
const MAX_INDEXING: Duration = Duration::from_millis(250);
/// Head start of a server with known tools over the next one of these.
const HEAD_START: Duration = Duration::from_millis(250);
/// Least `ttlMs` that is honoured; a server that sends 0 wants a request each time.
const LEAST_TTL: Duration = Duration::from_secs(60);

/// Lists one server repeatedly.
pub struct Refresher {
    /// Makes entries of its listings.
    pub source: Arc<RefreshedServer>,
    /// Its stack.
    pub upstream: Arc<dyn Upstream>,
    /// Events of its connections.
    pub events: EventReceiver,
    /// Interval of refreshes without another reason.
    pub refresh: Option<Duration>,
    /// Permits of servers that are started or listed at once.
    pub starts: Arc<Semaphore>,
    /// Phase of the catalog.
    pub catalog: watch::Receiver<Phase>,
}

/// A configured server, as its entry needs it.
pub struct RefreshedServer {
    /// Name in the configuration.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Instance of this name.
    pub instance: u64,
    /// Its configuration.
    pub server: config::Server,
    /// Its login.
    pub account: Option<Arc<Account>>,
    /// Health.
    pub health: Health,
    /// Reviewed stubs that its tools must match.
    pub pin: Option<Arc<Pin>>,
    /// Records of what it listed first, which its tools must match.
    pub first_use: Option<FirstUse>,
    /// Cache of its last listing.
    pub cache: Cache,
    /// Observed shapes.
    pub observed: Observed,
}

impl RefreshedServer {
    fn entry(&self, listing: Listing, state: ServerState) -> ServerEntry {
        let listed = ServerEntry::listed(&self.name, &self.ident, Some(&self.server), listing, state);
        let (instance, health, observed) = (self.instance, self.health.clone(), self.observed.clone());
        ServerEntry { instance, health, observed, ..listed.pinned(self.pin.as_deref()) }
    }

    /// Compares an entry with what was listed first.
    async fn compared(&self, entry: ServerEntry) -> ServerEntry {
        match &self.first_use {
            Some(first_use) => first_use.pinned(entry).await,
            None => entry,
        }
    }
}

/// Servers with known tools that are in their head start: one for each processor, since the first requests need these too,
/// and a call starts its server itself.
static UNHURRIED: LazyLock<Semaphore> = LazyLock::new(one_a_processor);
/// Kept lists that are read: more at once would take more threads and memory for their trees, and no less time.
static LOADING: LazyLock<Semaphore> = LazyLock::new(one_a_processor);

fn one_a_processor() -> Semaphore {
    Semaphore::new(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Time until a new list is examined for findings: nothing waits for them, and the first requests need the processors.
const UNTIL_EXAMINED: Duration = Duration::from_secs(1);
/// Held while a list is examined: a server that changes its list all the time keeps one processor busy at most.
static EXAMINING: Semaphore = Semaphore::const_new(1);

/// Makes findings in the background, and returns the memory that lists took once there is no further one. Aborting it in
/// time leaves out a list that was replaced.
async fn examine(findings: Arc<Later>) {
    tokio::time::sleep(UNTIL_EXAMINED).await;
    if let Ok(permit) = EXAMINING.acquire().await {
        let examined = move || {
            findings.get();
            drop(permit);
            // A permit goes to the next that waits, if one does.
            if let Ok(_last) = EXAMINING.try_acquire() {
                base::memory::give_back();
            }
        };
        _ = tokio::task::spawn_blocking(examined).await;
    }
}

impl Refresher {
    /// The first entry, without I/O.
    #[must_use]
    pub fn first_entry(&self) -> ServerEntry {
        self.source.entry(Listing::default(), ServerState::Connecting)
    }

    /// Passes each new entry after the first to `changed`. A panic is a failure like others: the server is listed again
    /// after a delay.
    pub async fn run(mut self, changed: impl Fn(ServerEntry)) {
        while panics::caught(self.keep(&changed)).await.is_err() {
            tokio::time::sleep(FIRST_RETRY).await;
        }
    }

    async fn keep(&mut self, changed: &impl Fn(ServerEntry)) {
        let mut pause = FIRST_RETRY;
        let mut wait = Some(Duration::ZERO);
        let mut examination = None;
        let (mut told, mut calm) = (Told { is_due: false, not_before: Instant::now() }, Duration::ZERO);
        // Before the first tools are shown.
        self.source.observed.save().await;
        let (mut last, mut known, mut reading) = (self.first_entry(), None, 0);
        if let Some((kept, digest)) = self.kept().await {
            (last, known) = (kept, Some(digest));
            examination = Some(Task::spawn(examine(Arc::clone(&last.findings))));
            changed(last.clone());
            match last.state {
                ServerState::Resting => wait = None,
                // The first requests need the index and no server; starting servers would take every processor.
                _ => self.indexed().await,
            }
        }
        loop {
            match self.next_reason(wait, &mut told, &last.state, reading).await {
                Reason::List => {}
                Reason::IdleStopped => {
                    last = last.with_state(ServerState::Resting);
                    wait = None;
                    changed(last.clone());
                    continue;
                }
                Reason::Ended => return,
            }
            let was_told = std::mem::take(&mut told.is_due);
            // The operator may have accepted what was held back.
            let is_accepted_later = self.source.first_use.is_some() && last.holds_back();
            let entry = match self.list(known.clone().filter(|_| !is_accepted_later)).await {
                Ok(Listed { number, ttl, state, news }) => {
                    reading = number;
                    pause = FIRST_RETRY;
                    wait = self.refresh.or(ttl);
                    match news {
                        Some((entry, digest)) => {
                            known = digest;
                            entry
                        }
                        None => last.with_state(state),
                    }
                }
                Err(state) => {
                    tracing::warn!(server = self.source.name, "{}", state.describe());
                    // What it listed before does not stand for it.
                    let source = Arc::clone(&self.source);
                    let forget = move || source.cache.set_listed(&source.name, &source.server, UNIX_EPOCH);
                    _ = tokio::task::spawn_blocking(forget).await;
                    // Without reconnection only a login can change this.
                    wait = self.source.server.reconnect.then_some(pause);
                    pause = (pause * 2).min(self.source.server.max_reconnect_backoff * MAX_RETRY);
                    last.with_state(state)
                }
            };
            // The reading just taken is not news; a change or another reading meanwhile is.
            while let Ok(event) = self.events.try_recv() {
                match event {
                    Event::Changed => told.is_due = true,
                    Event::Connected(number) if number > reading => wait = Some(wait.unwrap_or(SETTLE).min(SETTLE)),
                    Event::Connected(_) | Event::IdleStopped => {}
                }
            }
            let is_news = last.state != entry.state
                || last.stubs.digest != entry.stubs.digest
                || last.quarantine != entry.quarantine
                || last.held != entry.held
                || last.unmatched != entry.unmatched
                || last.offers.digest != entry.offers.digest
                || last.is_partial != entry.is_partial;
            if was_told || is_news {
                calm = if is_news { Duration::ZERO } else { (calm * 2).clamp(FIRST_CALM, MAX_CALM) };
                told.not_before = Instant::now() + calm;
            }
            last = entry.clone();
            if is_news {
                drop(examination.replace(Task::spawn(examine(Arc::clone(&entry.findings)))));
                changed(entry);
            }
        }
    }

    /// Waits until the catalog has the known tools of every server.
    async fn indexed(&mut self) {
        let usable = self.catalog.wait_for(|phase| *phase >= Phase::Usable);
        // Times out if a server has no known tools.
        let _ = tokio::time::timeout(MAX_INDEXING, usable).await;
    }

    /// Waits for the next reason to act; `reading` is the last one taken.
    async fn next_reason(
        &mut self,
        wait: Option<Duration>,
        told: &mut Told,
        state: &ServerState,
        reading: u64,
    ) -> Reason {
        let account = match state {
            ServerState::NeedsLogin { .. } => self.source.account.clone(),
            _ => None,
        };
        // A login in another process takes effect at once.
        let login = async {
            match account {
                Some(account) => account.changed().await,
                None => pending().await,
            }
        };
        let mut until = wait.map(|wait| Instant::now() + wait);
        let mut login = pin!(login);
        loop {
            if told.is_due {
                let at = told.not_before.max(Instant::now() + SETTLE);
                until = Some(until.map_or(at, |until| until.min(at)));
            }
            let stale = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = stale => return Reason::List,
                () = &mut login => return Reason::List,
                event = self.events.recv() => match event {
                    Some(Event::IdleStopped) => return Reason::IdleStopped,
                    // It waits to be taken: callers know another one.
                    Some(Event::Connected(number)) if number > reading => return Reason::List,
                    Some(Event::Connected(_)) => {}
                    Some(Event::Changed) => told.is_due = true,
                    None => return Reason::Ended,
                },
            }
        }
    }

    /// Lists the server, whose known list has the digest `known`; the error is its new state.
    async fn list(&self, known: Option<String>) -> Result<Listed, ServerState> {
        let failed = |reason| ServerState::Failed { reason };
        // Never closed. A call does not wait for it: it starts its server itself, and the list is then at hand.
        let unhurried = if known.is_some() { UNHURRIED.acquire().await.ok() } else { None };
        let _turn = self.starts.acquire().await;
        let (started, progress) = (Instant::now(), Progress::default());
        let mut answer = self.upstream.call(&Operation::List, &progress);
        let soon = tokio::time::timeout(HEAD_START, &mut answer).await;
        drop(unhurried);
        let answer = match soon {
            Ok(answer) => answer,
            Err(_) => answer.await,
        };
        let listing = match answer {
            Ok(Answer::Listing(listing)) => listing,
            Ok(_) => return Err(failed("it answered something else than a list".to_owned())),
            Err(Error { code: ErrorCode::AuthRequired, data: Some(data), .. }) if data["login"].is_string() => {
                return Err(ServerState::NeedsLogin { command: data["login"].as_str().unwrap_or_default().to_owned() });
            }
            Err(Error { message, hint: Some(hint), .. }) => return Err(failed(format!("{message} ({hint})"))),
            Err(error) => return Err(failed(error.message)),
        };
        let (tools, ms) = (listing.tools.len(), started.elapsed().as_millis());
        tracing::info!(server = self.source.name, tools, protocol = listing.protocol, ms, "listed");
        let ttl = listing.ttl_ms.map(|ms| Duration::from_millis(ms).max(LEAST_TTL));
        // A server that announces changes needs no polling.
        let ttl = if listing.tells_changes { None } else { ttl };
        let state = ServerState::Ready { protocol: listing.protocol.clone() };
        let (source, ready, number) = (Arc::clone(&self.source), state.clone(), listing.reading);
        // Thousands of stubs take a while: off the threads that serve requests.
        let made = task::apart(move || {
            // Changes to come are news in any case.
            let digest = digest(&listing).filter(|_| !listing.is_partial);
            if digest.is_some() && digest == known {
                source.cache.set_listed(&source.name, &source.server, SystemTime::now());
                return Ok(None);
            }
            if let Some(digest) = &digest {
                source.cache.store(&source.name, &source.server, &listing, digest);
            }
            Ok(Some((source.entry(listing, ready), digest)))
        });
        let news = made.await.map_err(|error| failed(format!("its stubs could not be made: {}", error.message)))?;
        let news = match news {
            Some((entry, digest)) => Some((self.source.compared(entry).await, digest)),
            None => None,
        };
        Ok(Listed { number, ttl, state, news })
    }

    /// The cached listing and its digest.
    async fn kept(&self) -> Option<(ServerEntry, String)> {
        let source = Arc::clone(&self.source);
        // Never closed.
        let turn = LOADING.acquire().await;
        let made = tokio::task::spawn_blocking(move || {
            let (listing, digest) = source.cache.load(&source.name, &source.server)?;
            source.health.revision.set(listing.offered.clone());
            let is_lazy = source.server.start == Start::Lazy;
            Some((source.entry(listing, if is_lazy { ServerState::Resting } else { ServerState::Connecting }), digest))
        });
        let made = made.await;
        drop(turn);
        let (entry, digest) = made.ok().flatten()?;
        Some((self.source.compared(entry).await, digest))
    }
}

/// Result of listing a server.
struct Listed {
    /// Number of the reading.
    number: u64,
    /// Validity that the server states.
    ttl: Option<Duration>,
    state: ServerState,
    /// The new entry and its digest; `None` if the list is unchanged.
    news: Option<(ServerEntry, Option<String>)>,
}

/// Announcements of a changed list.
struct Told {
    /// One is to be followed.
    is_due: bool,
    /// Not before this.
    not_before: Instant,
}

/// Reason to act.
enum Reason {
    List,
    IdleStopped,
    Ended,
}

#[cfg(test)]
mod tests;

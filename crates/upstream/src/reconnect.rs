//! Connects on first use and reconnects after a failure. Every connection lists its tools before the first operation;
//! an operation goes out only if its tool, resource or prompt is listed there as the caller knows it.

mod lists;
mod rotate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::events::{Event, EventSender};
use super::reading::{Reading, changed};
use super::{Answer, Listing, Operation, Progress, Upstream};
use crate::link::{Connect, Link, Rounds};
use crate::overridden::Overrides;
use base::error::{Error, ErrorCode, Result};
use base::task::Task;
use config::Override;
use state::LoginVersion;

pub use rotate::Rotation;

/// Delay after the first failed attempt; each further failure doubles it, up to [`ConnectionSettings::max_backoff`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Timeout of the liveness probe of a connection in doubt.
const PROBE: Duration = Duration::from_secs(5);

/// An upstream that replaces a dead connection. A call in flight when the connection dies, or that a failing server answers, is
/// retried once, if it cannot have reached the server or if a second execution does no harm.
pub(super) struct Reconnect {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Box<dyn Connect>,
    overrides: Arc<Overrides>,
    settings: ConnectionSettings,
    events: EventSender,
    state: Mutex<LinkState>,
    /// Number of the last reading.
    readings: AtomicU64,
    /// A list read for a call, until the refresher takes it.
    untaken: Mutex<Option<(Arc<Reading>, Listing)>>,
    /// A call was abandoned before its answer. The server may be slow, or may have lost this session, as an HTTP server
    /// does on restart.
    doubt: AtomicBool,
    usage: Mutex<Usage>,
    /// Closes the idle connection.
    idle_stop: Mutex<Option<Task>>,
}

/// Connection settings of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionSettings {
    /// Time for start, handshake and the first list together.
    pub(super) connect: Duration,
    /// Time for each later list.
    pub(super) list: Duration,
    /// Validity of a list of a server without sessions; `None` uses the server's `ttlMs`.
    pub(super) refresh: Option<Duration>,
    /// Idle time after which the connection is closed; `None` keeps it open.
    pub(super) idle_stop: Option<Duration>,
    /// False connects once only: what fails or ends stays so.
    pub(super) reconnect: bool,
    /// Longest delay between attempts.
    pub(super) max_backoff: Duration,
}

/// Calls in flight, or the time since the last one ended.
struct Usage {
    calls: usize,
    since: Instant,
}

/// A connection with the list read on it.
#[derive(Clone)]
struct Live {
    link: Arc<dyn Link>,
    reading: Arc<Reading>,
}

/// Receives the outcome of an attempt to connect.
type Outcome = watch::Receiver<Option<Result<Live>>>;

/// State of the connection.
enum LinkState {
    Never,
    /// Connecting, probing a connection in doubt, or listing again. The attempt outlives its callers, so that a slow
    /// start does not begin again with every call.
    Connecting {
        made: Outcome,
        task: AbortHandle,
        pause: Duration,
    },
    Live(Live),
    /// The last attempt failed, or the only connection ended; the error stands until `retry_at`, if ever.
    Failed {
        error: Error,
        pause: Duration,
        retry_at: Option<Instant>,
        /// Login version of the attempt.
        version: Option<LoginVersion>,
        /// The connection, if only the list failed.
        link: Option<Arc<dyn Link>>,
    },
}

/// Starting point of an attempt.
struct Basis {
    link: Option<Arc<dyn Link>>,
    /// The last reading on that connection.
    last: Option<Arc<Reading>>,
    /// The connection must pass a liveness probe first.
    in_doubt: bool,
    /// That reading is no longer valid.
    is_stale: bool,
    /// The caller wants the list itself.
    is_wanted: bool,
    /// A new connection may be made.
    may_connect: bool,
}

impl Basis {
    /// A connection that nothing is known of yet.
    fn new_connection() -> Self {
        Self { link: None, last: None, in_doubt: false, is_stale: true, is_wanted: false, may_connect: true }
    }
}

/// Error of an attempt, and the connection if only the list failed.
type Failure = (Error, Option<Arc<dyn Link>>);

impl Reconnect {
    pub(super) fn new(
        connector: Box<dyn Connect>,
        overrides: &BTreeMap<String, Override>,
        settings: ConnectionSettings,
        events: EventSender,
    ) -> Self {
        let usage = Mutex::new(Usage { calls: 0, since: Instant::now() });
        let shared = Shared {
            connector,
            overrides: Arc::new(Overrides::new(overrides)),
            settings,
            events,
            state: Mutex::new(LinkState::Never),
            readings: AtomicU64::new(0),
            untaken: Mutex::default(),
            doubt: AtomicBool::new(false),
            usage,
            idle_stop: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Replaces its connection by one with secrets that are read anew.
    pub(super) fn rotation(&self) -> Rotation {
        Rotation(Arc::downgrade(&self.shared))
    }
}

/// A live connection, or an attempt to wait for.
enum Found {
    Live(Live),
    Attempt(Outcome),
}

impl Shared {
    /// The live connection. Callers share an attempt that is under way.
    async fn live(self: &Arc<Self>, operation: &Operation) -> Result<Live> {
        let mut made = match self.live_or_attempt(operation)? {
            Found::Live(live) => return Ok(live),
            Found::Attempt(made) => made,
        };
        match made.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(made)) => made.clone(),
            _ => Err(Error::new(ErrorCode::TransportDead, "the attempt to connect was given up")),
        }
    }

    /// Replaces a connection by `next`, unless another has replaced it meanwhile.
    fn discard(&self, link: &Arc<dyn Link>, next: LinkState) {
        let mut state = self.state.lock();
        if matches!(&*state, LinkState::Live(live) if Arc::ptr_eq(&live.link, link)) {
            *state = next;
        }
    }

    /// State after a connection ended with `error`.
    fn ended(&self, error: &Error) -> LinkState {
        if self.settings.reconnect {
            return LinkState::Never;
        }
        let (error, version) = (last(error), self.connector.version());
        LinkState::Failed { error, pause: FIRST_PAUSE, retry_at: None, version, link: None }
    }

    /// The connection if it is healthy and its list valid, else the attempt under way, or a new one.
    fn live_or_attempt(self: &Arc<Self>, operation: &Operation) -> Result<Found> {
        let mut state = self.state.lock();
        let is_wanted = matches!(operation, Operation::List);
        let mut basis = Basis { is_wanted, ..Basis::new_connection() };
        let pause = match &*state {
            LinkState::Connecting { made, .. } => return Ok(Found::Attempt(made.clone())),
            LinkState::Live(live) if !live.link.is_closed() => {
                let in_doubt = self.doubt.swap(false, Ordering::Relaxed);
                let (reading, changes) = (&live.reading, live.link.changes());
                if reading.is_current(changes, operation) && !in_doubt {
                    return Ok(Found::Live(live.clone()));
                }
                // Other callers may wait for the same attempt.
                let is_current = reading.is_current(changes, &Operation::List);
                // A list proves as well as a probe that the server answers.
                let is_stateless = live.link.is_stateless();
                (basis.in_doubt, basis.is_stale) = (in_doubt && !is_stateless, !is_current || is_stateless);
                (basis.link, basis.last) = (Some(Arc::clone(&live.link)), Some(Arc::clone(&live.reading)));
                basis.may_connect = self.settings.reconnect;
                FIRST_PAUSE
            }
            LinkState::Failed { error, retry_at, version, .. }
                if retry_at.is_none_or(|at| Instant::now() < at) && *version == self.connector.version() =>
            {
                return Err(error.clone());
            }
            LinkState::Failed { pause, link, .. } => {
                basis.link = link.clone().filter(|link| !link.is_closed());
                basis.in_doubt = self.doubt.swap(false, Ordering::Relaxed);
                (*pause * 2).min(self.settings.max_backoff)
            }
            LinkState::Live(_) => {
                basis.may_connect = self.settings.reconnect;
                FIRST_PAUSE
            }
            LinkState::Never => FIRST_PAUSE,
        };
        let (tell, made) = watch::channel(None);
        let shared = Arc::clone(self);
        let task = tokio::spawn(async move {
            let version = shared.connector.version();
            let before = basis.link.clone();
            let attempt = shared.attempt(basis).await;
            shared.settle(&attempt, version);
            if let Ok(live) = &attempt
                && before.is_none_or(|before| !Arc::ptr_eq(&before, &live.link))
            {
                shared.watch_usage(&live.link);
            }
            tell.send_replace(Some(attempt.map_err(|(error, _)| error)));
        });
        *state = LinkState::Connecting { made: made.clone(), task: task.abort_handle(), pause };
        Ok(Found::Attempt(made))
    }

    /// Makes the connection of `basis` live, or a new one, and reads the list on it.
    async fn attempt(&self, basis: Basis) -> Result<Live, Failure> {
        if let Some(link) = &basis.link
            && (!basis.in_doubt || self.answers(&**link).await)
        {
            if let Some(last) = basis.last.as_ref().filter(|_| !basis.is_stale) {
                return Ok(Live { link: Arc::clone(link), reading: Arc::clone(last) });
            }
            match self.read(&**link, &basis, self.settings.list).await {
                // It was dead already: only a new one can serve.
                Err(error) if error.code == ErrorCode::TransportDead => {}
                Err(error) => return Err((error, Some(Arc::clone(link)))),
                Ok(reading) => return Ok(Live { link: Arc::clone(link), reading }),
            }
        }
        if !basis.may_connect {
            return Err((Error::new(ErrorCode::TransportDead, "the connection has ended"), None));
        }
        self.connected(basis).await
    }

    /// Makes a connection and reads the list on it.
    async fn connected(&self, basis: Basis) -> Result<Live, Failure> {
        let connected = async {
            let link: Arc<dyn Link> = self.connector.connect().await.map(Arc::from).map_err(|error| (error, None))?;
            match self.read(&*link, &Basis { last: None, ..basis }, self.settings.connect).await {
                Ok(reading) => Ok(Live { link, reading }),
                Err(error) if error.code == ErrorCode::TransportDead => Err((error, None)),
                Err(error) => Err((error, Some(link))),
            }
        };
        let limit = self.settings.connect;
        match tokio::time::timeout(limit, connected).await {
            Ok(connected) => connected,
            Err(_) => {
                let error = Error::new(ErrorCode::TransportDead, format!("it was not ready within {limit:?}"))
                    .hint("raise `connect_timeout`, or start the server by hand to see what it waits for");
                Err((self.connector.with_last_words(error).await, None))
            }
        }
    }

    async fn answers(&self, link: &dyn Link) -> bool {
        tokio::time::timeout(PROBE, link.answers()).await == Ok(true)
    }

    /// Closes `link` after the configured idle time. Replaces the watch of an earlier connection.
    fn watch_usage(self: &Arc<Self>, link: &Arc<dyn Link>) {
        let Some(after) = self.settings.idle_stop else { return };
        let (shared, link) = (Arc::downgrade(self), Arc::downgrade(link));
        let idle_stop = Task::spawn(async move {
            let mut wait = after;
            loop {
                tokio::time::sleep(wait).await;
                let (Some(shared), Some(link)) = (shared.upgrade(), link.upgrade()) else { return };
                let idle = match &*shared.usage.lock() {
                    Usage { calls: 0, since } => since.elapsed(),
                    _ => Duration::ZERO,
                };
                if idle >= after {
                    shared.discard(&link, LinkState::Never);
                    shared.events.tell(Event::IdleStopped);
                    return;
                }
                wait = after - idle;
            }
        });
        *self.idle_stop.lock() = Some(idle_stop);
    }

    fn settle(&self, attempt: &Result<Live, Failure>, version: Option<LoginVersion>) {
        let mut state = self.state.lock();
        let pause = if let LinkState::Connecting { pause, .. } = &*state { *pause } else { FIRST_PAUSE };
        *state = match attempt {
            Ok(live) => LinkState::Live(live.clone()),
            Err((error, link)) => {
                // Half of it is jitter, so that servers that failed together do not retry together.
                let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                let is_last = link.is_none() && !self.settings.reconnect;
                let error = if is_last { last(error) } else { error.clone() };
                let retry_at = (!is_last).then(|| Instant::now() + wait);
                LinkState::Failed { error, pause, retry_at, version, link: link.clone() }
            }
        };
    }
}

impl Drop for Reconnect {
    fn drop(&mut self) {
        if let LinkState::Connecting { task, .. } = &*self.shared.state.lock() {
            task.abort();
        }
    }
}

#[async_trait]
impl Upstream for Reconnect {
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        let shared = &self.shared;
        let is_list = matches!(operation, Operation::List);
        let mut repeated = None;
        shared.usage.lock().calls += 1;
        let _in_use = scopeguard::guard((), |()| {
            let mut usage = shared.usage.lock();
            (usage.calls, usage.since) = (usage.calls - 1, Instant::now());
        });
        loop {
            if is_list && let Some(listing) = shared.take() {
                return Ok(Answer::Listing(Listing { was_at_hand: true, ..listing }));
            }
            let mut live = shared.live(operation).await.map_err(Error::without_effect)?;
            let is_of_tools = matches!(operation, Operation::Tool { .. } | Operation::List | Operation::Connect);
            if live.reading.is_partial && !is_of_tools {
                live.link.listed().await;
                live = shared.live(operation).await.map_err(Error::without_effect)?;
            }
            let Live { link, reading } = live;
            if matches!(operation, Operation::Connect) {
                return Ok(Answer::Listing(Listing::default()));
            }
            // It may just have been read.
            if is_list && let Some(listing) = shared.take() {
                return Ok(Answer::Listing(listing));
            }
            reading.check(operation).map_err(|why| changed("not called", &why).without_effect())?;
            let asked = is_list.then(|| shared.ask(&*link));
            // Where the call is dropped before its answer.
            let unanswered = scopeguard::guard((), |()| shared.doubt.store(true, Ordering::Relaxed));
            let same = Same { upstream: shared, link: &link, operation };
            let answer = match is_list {
                true => link.list(progress).await.map(Answer::Listing),
                false => shared.overrides.call(&*link, &reading.taken, operation, progress, &same).await,
            };
            ScopeGuard::into_inner(unanswered);
            let error = match (answer, asked) {
                (Ok(Answer::Listing(listing)), Some(asked)) => {
                    return shared.renew(asked, &link, listing).await.map(Answer::Listing);
                }
                (Ok(answer), _) => return Ok(answer),
                (Err(error), _) => operation.warned(error),
            };
            match error.code {
                ErrorCode::TransportDead => shared.discard(&link, shared.ended(&error)),
                // The task did not outlive the connection: its error says more.
                ErrorCode::MaybeDone => return Err(repeated.unwrap_or(error)),
                _ if error.is_transient => {}
                _ => return Err(error),
            }
            // The task of a call is asked, which does nothing again.
            if repeated.is_some() || (error.is_doubtful && progress.task().is_none()) {
                return Err(error);
            }
            repeated = Some(error);
        }
    }
}

/// Admits later rounds of an operation on the connection of the first one, while its list is unchanged.
struct Same<'a> {
    upstream: &'a Arc<Shared>,
    link: &'a Arc<dyn Link>,
    operation: &'a Operation,
}

#[async_trait]
impl Rounds for Same<'_> {
    async fn go_on(&self) -> Result<()> {
        let live = self.upstream.live(self.operation).await?;
        // One that was replaced is open as long as calls are on it.
        if !Arc::ptr_eq(&live.link, self.link) && self.link.is_closed() {
            return Err(Error::new(ErrorCode::TransportDead, "the connection ended between two rounds of the call"));
        }
        live.reading.check(self.operation).map_err(|why| changed("stopped after its first round", &why))
    }
}

/// The error of a server that is not connected again.
fn last(error: &Error) -> Error {
    error.clone().hint("its `reconnect` is false: restart the gateway to connect again")
}

//! Connects on first use and again after a connection died.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::events::{Event, Teller};
use super::{Answer, Operation, Progress, Upstream};
use crate::auth::Version;
use crate::error::{Error, ErrorCode, Result};

/// Pause after the first failed attempt; doubled by each further one up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection in doubt may take to show that it is alive.
const PROBE: Duration = Duration::from_secs(5);

/// Makes connections.
#[async_trait]
pub(super) trait Connect: Send + Sync + 'static {
    /// What it makes.
    type Link: Link;

    /// Tells logins apart: with another one, an attempt that failed is made again at once.
    fn version(&self) -> Option<Version> {
        None
    }

    /// Starts or reaches the server, and agrees with it on the protocol.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` with the reason.
    async fn connect(&self) -> Result<Self::Link>;
}

/// One connection.
#[async_trait]
pub(super) trait Link: Send + Sync + 'static {
    /// Performs one operation.
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer, Fault>;

    /// It has ended, so that only a new one can serve the next call.
    fn is_closed(&self) -> bool;

    /// Asks the server for any answer.
    async fn answers(&self) -> bool;
}

/// Why a connection did not answer.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: Error,
    /// Whether the server can have begun to carry the operation out.
    pub(super) delivered: bool,
}

impl Fault {
    /// The server cannot have seen the operation.
    pub(super) fn unsent(error: Error) -> Self {
        Self { error, delivered: false }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, delivered: true }
    }
}

/// An upstream that replaces its connection when it is dead. A call that was under way when the connection died is
/// repeated once if it cannot have reached the server, or if carrying it out twice does no harm.
pub(super) struct Reconnect<C: Connect> {
    shared: Arc<Shared<C>>,
}

struct Shared<C: Connect> {
    connector: C,
    connect_timeout: Duration,
    state: Mutex<State<C::Link>>,
    /// A call was given up before it was answered: the server may be slow, or may have lost this session, as a
    /// server over HTTP does when it is restarted.
    doubt: AtomicBool,
    /// When nobody uses it for so long, the connection is ended.
    rest: Option<Rest>,
    usage: Mutex<Usage>,
}

/// When a connection is ended that nobody uses, and who is told.
struct Rest {
    after: Duration,
    events: Teller,
}

/// Whether the connection is being used, and since when it is not.
struct Usage {
    calls: usize,
    since: Instant,
}

/// Where the outcome of an attempt to connect appears.
type Outcome<L> = watch::Receiver<Option<Result<Arc<L>>>>;

/// What is known about the connection.
enum State<L> {
    Never,
    /// An attempt, or a check of a connection in doubt, is under way. It goes on when those who wait for it give up, so that a slow start is not begun
    /// again by every call.
    Connecting {
        made: Outcome<L>,
        task: AbortHandle,
        pause: Duration,
    },
    Live(Arc<L>),
    /// The last attempt failed; until `retry_at` the same answer is given without a new one.
    Failed {
        error: Error,
        pause: Duration,
        retry_at: Instant,
        /// The login it was made with.
        version: Option<Version>,
    },
}

impl<C: Connect> Reconnect<C> {
    pub(super) fn new(connector: C, connect_timeout: Duration) -> Self {
        let (state, doubt) = (Mutex::new(State::Never), AtomicBool::new(false));
        let usage = Mutex::new(Usage { calls: 0, since: Instant::now() });
        Self { shared: Arc::new(Shared { connector, connect_timeout, state, doubt, rest: None, usage }) }
    }

    /// The same, ending connections that nobody used for so long; `None` keeps them.
    pub(super) fn resting(mut self, after: Option<Duration>, events: Teller) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.rest = after.map(|after| Rest { after, events });
        }
        self
    }

    /// The live connection. Callers that come while one is being made or checked wait for that.
    async fn link(&self) -> Result<Arc<C::Link>> {
        let mut made = match self.shared.link_or_attempt()? {
            Found::Link(link) => return Ok(link),
            Found::Attempt(made) => made,
        };
        match made.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(made)) => made.clone(),
            _ => Err(Error::new(ErrorCode::TransportDead, "the attempt to connect was given up")),
        }
    }
}

/// What a call can go on with.
enum Found<L> {
    Link(Arc<L>),
    Attempt(Outcome<L>),
}

impl<C: Connect> Shared<C> {
    fn state(&self) -> MutexGuard<'_, State<C::Link>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a connection that failed, unless it has been replaced meanwhile.
    fn discard(&self, failed: &Arc<C::Link>) {
        let mut state = self.state();
        if matches!(&*state, State::Live(link) if Arc::ptr_eq(link, failed)) {
            *state = State::Never;
        }
    }

    /// The connection if it is good, else the attempt that is under way, or a new one. A connection in doubt is
    /// checked first.
    fn link_or_attempt(self: &Arc<Self>) -> Result<Found<C::Link>> {
        let mut state = self.state();
        let mut doubtful = None;
        let pause = match &*state {
            State::Connecting { made, .. } => return Ok(Found::Attempt(made.clone())),
            State::Live(link) if !link.is_closed() => {
                if !self.doubt.swap(false, Ordering::Relaxed) {
                    return Ok(Found::Link(Arc::clone(link)));
                }
                doubtful = Some(Arc::clone(link));
                FIRST_PAUSE
            }
            State::Failed { error, retry_at, version, .. }
                if Instant::now() < *retry_at && *version == self.connector.version() =>
            {
                return Err(error.clone());
            }
            State::Failed { pause, .. } => (*pause * 2).min(MAX_PAUSE),
            State::Never | State::Live(_) => FIRST_PAUSE,
        };
        let (tell, made) = watch::channel(None);
        let shared = Arc::clone(self);
        // A task of the runtime, also because the kernel ties a child to the thread that started it: `process.rs`.
        let task = tokio::spawn(async move {
            let version = shared.connector.version();
            let connected = match doubtful {
                Some(link) if shared.answers(&link).await => Ok(link),
                _ => shared.connect().await,
            };
            shared.settle(&connected, version);
            if let Ok(link) = &connected {
                shared.watch_usage(link);
            }
            tell.send_replace(Some(connected));
        });
        *state = State::Connecting { made: made.clone(), task: task.abort_handle(), pause };
        Ok(Found::Attempt(made))
    }

    async fn answers(&self, link: &C::Link) -> bool {
        tokio::time::timeout(PROBE, link.answers()).await == Ok(true)
    }

    /// Notes that a call uses the connection, for as long as the value lives.
    fn enter(self: &Arc<Self>) -> Using<C> {
        self.usage().calls += 1;
        Using(Arc::clone(self))
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends `link` once nobody has used it for as long as is configured.
    fn watch_usage(self: &Arc<Self>, link: &Arc<C::Link>) {
        let Some(after) = self.rest.as_ref().map(|rest| rest.after) else { return };
        let (shared, link) = (Arc::downgrade(self), Arc::downgrade(link));
        tokio::spawn(async move {
            let mut wait = after;
            loop {
                tokio::time::sleep(wait).await;
                let (Some(shared), Some(link)) = (shared.upgrade(), link.upgrade()) else { return };
                let idle = match &*shared.usage() {
                    Usage { calls: 0, since } => since.elapsed(),
                    _ => Duration::ZERO,
                };
                if idle >= after {
                    shared.discard(&link);
                    shared.rest.iter().for_each(|rest| rest.events.tell(Event::Rested));
                    return;
                }
                wait = after - idle;
            }
        });
    }

    async fn connect(&self) -> Result<Arc<C::Link>> {
        let limit = self.connect_timeout;
        match tokio::time::timeout(limit, self.connector.connect()).await {
            Ok(connected) => connected.map(Arc::new),
            Err(_) => Err(Error::new(ErrorCode::TransportDead, format!("it was not ready within {limit:?}"))
                .hint("raise `connect_timeout`, or start the server by hand to see what it waits for")),
        }
    }

    fn settle(&self, connected: &Result<Arc<C::Link>>, version: Option<Version>) {
        let mut state = self.state();
        let pause = if let State::Connecting { pause, .. } = &*state { *pause } else { FIRST_PAUSE };
        *state = match connected {
            Ok(link) => State::Live(Arc::clone(link)),
            Err(error) => {
                // Half of it by chance, so that servers that went down together do not come back together.
                let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                State::Failed { error: error.clone(), pause, retry_at: Instant::now() + wait, version }
            }
        };
    }
}

/// A call that is under way.
struct Using<C: Connect>(Arc<Shared<C>>);

impl<C: Connect> Drop for Using<C> {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.calls -= 1;
        usage.since = Instant::now();
    }
}

impl<C: Connect> Drop for Reconnect<C> {
    fn drop(&mut self) {
        if let State::Connecting { task, .. } = &*self.shared.state() {
            task.abort();
        }
    }
}

/// Leaves the connection in doubt when the call is dropped before it was answered.
struct Unanswered<'a> {
    doubt: &'a AtomicBool,
    answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.doubt.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl<C: Connect> Upstream for Reconnect<C> {
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        let mut repeated = false;
        let _using = self.shared.enter();
        loop {
            let link = self.link().await?;
            let mut call = Unanswered { doubt: &self.shared.doubt, answered: false };
            let answer = link.call(operation, progress).await;
            call.answered = true;
            let Fault { error, delivered } = match answer {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if error.code != ErrorCode::TransportDead {
                return Err(error);
            }
            self.shared.discard(&link);
            if repeated || (delivered && !operation.is_repeatable()) {
                return Err(if delivered && !operation.is_repeatable() { unknown_outcome(error) } else { error });
            }
            repeated = true;
        }
    }
}

/// The error of a call that may have been carried out.
fn unknown_outcome(error: Error) -> Error {
    let advice = "it may have been carried out all the same, so look before calling again";
    let hint = error.hint.as_ref().map_or_else(|| advice.to_owned(), |hint| format!("{advice}; {hint}"));
    error.hint(hint)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicU32;

    use serde_json::Map;

    use super::*;
    use crate::upstream::ToolAnswer;

    /// What happens to a call.
    #[derive(Clone, Copy)]
    enum Call {
        Answered,
        NotSent,
        Lost,
        Hangs,
    }

    /// A server by plan: how long each attempt to connect takes and whether it succeeds, and the fate of each call.
    #[derive(Default)]
    struct Plan {
        connects: Mutex<VecDeque<(u64, bool)>>,
        calls: Mutex<VecDeque<Call>>,
        is_mute: AtomicBool,
        connected: AtomicU32,
        called: AtomicU32,
    }

    #[async_trait]
    impl Connect for Arc<Plan> {
        type Link = Self;

        async fn connect(&self) -> Result<Self> {
            self.connected.fetch_add(1, Ordering::Relaxed);
            let next = self.connects.lock().expect("not poisoned").pop_front();
            let (seconds, succeeds) = next.unwrap_or((0, true));
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            if succeeds { Ok(Self::clone(self)) } else { Err(Error::new(ErrorCode::TransportDead, "refused")) }
        }
    }

    #[async_trait]
    impl Link for Arc<Plan> {
        async fn call(&self, _: &Operation, _: &Progress) -> Result<Answer, Fault> {
            self.called.fetch_add(1, Ordering::Relaxed);
            let next = self.calls.lock().expect("not poisoned").pop_front();
            let lost = Error::new(ErrorCode::TransportDead, "lost");
            match next.unwrap_or(Call::Answered) {
                Call::Answered => Ok(Answer::Tool(ToolAnswer::default())),
                Call::NotSent => Err(Fault::unsent(lost)),
                Call::Lost => Err(lost.into()),
                Call::Hangs => std::future::pending().await,
            }
        }

        fn is_closed(&self) -> bool {
            false
        }

        async fn answers(&self) -> bool {
            !self.is_mute.load(Ordering::Relaxed)
        }
    }

    fn plan(connects: &[(u64, bool)], calls: &[Call]) -> (Arc<Plan>, Reconnect<Arc<Plan>>) {
        let plan = Arc::new(Plan {
            connects: Mutex::new(connects.iter().copied().collect()),
            calls: Mutex::new(calls.iter().copied().collect()),
            ..Plan::default()
        });
        (Arc::clone(&plan), Reconnect::new(plan, Duration::from_secs(20)))
    }

    fn counts(plan: &Plan) -> (u32, u32) {
        (plan.connected.load(Ordering::Relaxed), plan.called.load(Ordering::Relaxed))
    }

    fn tool(repeatable: bool) -> Operation {
        Operation::Tool { name: "t".to_owned(), arguments: Map::new(), repeatable }
    }

    async fn call(upstream: &Reconnect<Arc<Plan>>, repeatable: bool) -> Result<(), Error> {
        upstream.call(&tool(repeatable), &Progress::default()).await.map(drop)
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_cannot_do_harm_twice_is_repeated_and_only_once() {
        use Call::{Answered, Lost, NotSent};
        // Calls' fates, whether the tool is repeatable, whether it succeeds, how often the server is called.
        let cases: [(&[Call], bool, bool, u32); 7] = [
            (&[Answered], false, true, 1),
            (&[NotSent, Answered], false, true, 2),
            (&[Lost, Answered], false, false, 1),
            (&[Lost, Answered], true, true, 2),
            (&[NotSent, NotSent, Answered], false, false, 2),
            (&[Lost, Lost, Answered], true, false, 2),
            (&[NotSent, Lost, Answered], false, false, 2),
        ];
        for (number, (calls, repeatable, succeeds, called)) in cases.into_iter().enumerate() {
            let (plan, upstream) = plan(&[], calls);
            let result = call(&upstream, repeatable).await;
            assert_eq!((result.is_ok(), counts(&plan).1), (succeeds, called), "case {number}: {result:?}");
            let warns = result.is_err_and(|error| error.hint.is_some_and(|hint| hint.contains("carried out")));
            let unknown = !succeeds && !repeatable && calls.contains_lost();
            assert_eq!(warns, unknown, "case {number}");
        }
    }

    trait ContainsLost {
        fn contains_lost(&self) -> bool;
    }

    impl ContainsLost for &[Call] {
        fn contains_lost(&self) -> bool {
            self.iter().any(|call| matches!(call, Call::Lost))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_attempts_are_spaced_out_with_growing_pauses() {
        let (plan, upstream) = plan(&[(0, false); 12], &[]);
        let started = Instant::now();
        let mut attempts = Vec::new();
        while attempts.len() < 10 {
            assert!(call(&upstream, false).await.is_err());
            if counts(&plan).0 as usize > attempts.len() {
                attempts.push(started.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let pauses: Vec<_> = attempts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        for (number, pause) in pauses.iter().enumerate() {
            let full = (0.5 * f64::from(1 << number)).min(30.0);
            assert!((full / 2.0..=full + 0.1).contains(pause), "pause {number} of {pauses:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_goes_on_when_its_callers_give_up() {
        let (plan, upstream) = plan(&[(10, true)], &[]);
        for _ in 0..3 {
            assert!(tokio::time::timeout(Duration::from_secs(3), call(&upstream, false)).await.is_err());
        }
        assert!(call(&upstream, false).await.is_ok());
        assert_eq!(counts(&plan), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_come_together_share_one_attempt() {
        let (plan, upstream) = plan(&[(5, true)], &[]);
        let all = futures::future::join_all((0..8).map(|_| call(&upstream, false))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(counts(&plan), (1, 8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_never_ready_meets_the_connect_timeout() {
        let (_, upstream) = plan(&[(3_600, true)], &[]);
        let started = Instant::now();
        let error = call(&upstream, false).await.expect_err("never ready");
        assert_eq!(error.message, "it was not ready within 20s");
        assert_eq!(started.elapsed().as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_doubt_is_kept_if_it_answers_and_replaced_if_not() {
        for (mute, connected) in [(false, 1), (true, 2)] {
            let (plan, upstream) = plan(&[], &[Call::Hangs]);
            plan.is_mute.store(mute, Ordering::Relaxed);
            assert!(tokio::time::timeout(Duration::from_secs(1), call(&upstream, false)).await.is_err());
            assert!(call(&upstream, false).await.is_ok());
            assert_eq!(counts(&plan), (connected, 2), "mute: {mute}");
        }
    }
}

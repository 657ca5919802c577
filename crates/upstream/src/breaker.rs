//! Circuit breaker: fails fast while a server keeps failing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{Answer, Operation, Progress, Upstream};
use base::error::{Error, ErrorCode, Result};
use config::Breaker as Rule;

/// Longest time that the breaker stays open before a probe.
const MAX_PAUSE: Duration = Duration::from_secs(120);

/// An upstream behind a circuit breaker. Consecutive faults open it; after a pause one call goes through as a probe and
/// closes it or opens it again.
pub(super) struct Breaker<U> {
    name: String,
    inner: U,
    rule: Rule,
    health: Arc<CallHealth>,
}

impl<U> Breaker<U> {
    pub(super) fn new(name: &str, inner: U, rule: Rule, health: Arc<CallHealth>) -> Self {
        Self { name: name.to_owned(), inner, rule, health }
    }
}

#[async_trait]
impl<U: Upstream> Upstream for Breaker<U> {
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        // Lists run at the gateway's own pace and tell whether the server is back: a list is neither held up nor
        // counted, but it closes the breaker. Only calls count as consecutive faults, whatever was listed between them.
        let listing = matches!(operation, Operation::List);
        let mut attempt = if listing { self.health.watch_only() } else { self.health.admit(&self.name)? };
        let answer = self.inner.call(operation, progress).await;
        match &answer {
            Ok(Answer::Listing(listing)) if listing.was_at_hand => {}
            Err(error) if error.behaviour().fault => {
                if !listing {
                    attempt.failed(error, self.rule);
                }
            }
            _ if listing => attempt.listed(),
            _ => attempt.succeeded(),
        }
        answer
    }
}

/// Health of a server, for its breaker and for listings.
#[derive(Debug, Default)]
pub struct CallHealth(Mutex<Circuit>);

#[derive(Debug, Default)]
struct Circuit {
    state: CircuitState,
    /// Faults since the last success.
    faults: u32,
    /// The last fault, and when it was noticed.
    last: Option<(String, Instant)>,
    /// Last duration of the open state.
    pause: Duration,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CircuitState {
    #[default]
    Closed,
    /// Refuses calls until then.
    Open(Instant),
    /// Half-open: one probe is under way.
    Probing,
}

impl CallHealth {
    /// The problem in one line; `None` while there is none.
    pub fn complaint(&self) -> Option<String> {
        let circuit = self.0.lock();
        let (last, _) = circuit.last.as_ref()?;
        Some(match circuit.state {
            CircuitState::Closed if circuit.faults == 1 => format!("its last call failed: {last}"),
            CircuitState::Closed => format!("its last {} calls failed: {last}", circuit.faults),
            CircuitState::Open(until) => {
                let seconds = until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
                let wait = if seconds > 0.0 { format!("for {seconds}s") } else { "until the next call".to_owned() };
                format!("circuit breaker open {wait} after {} faults in a row: {last}", circuit.faults)
            }
            CircuitState::Probing => format!("being tried again after {} faults in a row: {last}", circuit.faults),
        })
    }

    /// The state of the breaker in one word.
    pub fn state(&self) -> &'static str {
        match self.0.lock().state {
            CircuitState::Closed => "closed",
            CircuitState::Open(_) => "open",
            CircuitState::Probing => "probing",
        }
    }

    /// Lets a call through, as the probe when one is due.
    fn admit(&self, name: &str) -> Result<Attempt<'_>> {
        let mut circuit = self.0.lock();
        let now = Instant::now();
        let is_probe = match circuit.state {
            CircuitState::Closed => false,
            CircuitState::Open(until) if now >= until => {
                circuit.state = CircuitState::Probing;
                true
            }
            CircuitState::Open(_) | CircuitState::Probing => return Err(circuit.refusal(name, now)),
        };
        Ok(Attempt { health: self, began: now, is_probe })
    }

    /// Lets a call through in any state.
    fn watch_only(&self) -> Attempt<'_> {
        Attempt { health: self, began: Instant::now(), is_probe: false }
    }
}

impl Circuit {
    fn refusal(&self, name: &str, now: Instant) -> Error {
        let last = self.last.as_ref().map_or("", |(last, _)| last.as_str());
        let (wait, when) = match self.state {
            CircuitState::Open(until) => {
                let wait = until.saturating_duration_since(now);
                (wait, format!("it is tried again in {:.1}s", wait.as_secs_f64()))
            }
            CircuitState::Closed | CircuitState::Probing => {
                (Duration::ZERO, "another call is trying it now".to_owned())
            }
        };
        let message = format!("{name} failed {} times in a row, the last time with {last}; {when}", self.faults);
        Error::new(ErrorCode::CircuitOpen, message)
            .hint("do something else first; `ls /` shows the server's state")
            .data(json!({ "retry_after_secs": wait.as_secs_f64() }))
            .without_effect()
    }
}

/// One admitted call.
struct Attempt<'a> {
    health: &'a CallHealth,
    began: Instant,
    is_probe: bool,
}

impl Attempt<'_> {
    fn succeeded(&mut self) {
        self.is_probe = false;
        *self.health.0.lock() = Circuit::default();
    }

    /// Closes the breaker if the list began after the last fault. The next fault still counts on from the faults
    /// before.
    fn listed(&self) {
        let mut circuit = self.health.0.lock();
        if circuit.last.as_ref().is_none_or(|(_, noticed)| self.began >= *noticed) {
            circuit.state = CircuitState::Closed;
            circuit.last = None;
        }
    }

    fn failed(&mut self, error: &Error, rule: Rule) {
        let was_probe = std::mem::take(&mut self.is_probe);
        let mut circuit = self.health.0.lock();
        let now = Instant::now();
        // Concurrent calls fail together when the server dies: that is one fault.
        let is_news = circuit.last.as_ref().is_none_or(|(_, noticed)| self.began >= *noticed);
        if is_news {
            circuit.faults += 1;
            circuit.last = Some((error.to_string(), now));
        }
        if was_probe || (circuit.state == CircuitState::Closed && circuit.faults >= rule.faults) {
            circuit.pause = if was_probe { (circuit.pause * 2).min(MAX_PAUSE) } else { rule.pause };
            circuit.state = CircuitState::Open(now + circuit.pause);
        }
    }
}

impl Drop for Attempt<'_> {
    /// An abandoned probe proves nothing: the next call is the probe.
    fn drop(&mut self) {
        if self.is_probe {
            self.health.0.lock().state = CircuitState::Open(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::{Listing, ToolAnswer};

    /// Answers, or fails with a code, after a second.
    #[derive(Default)]
    struct Server {
        fails: Mutex<Option<ErrorCode>>,
        calls: AtomicU32,
        was_at_hand: AtomicBool,
    }

    #[async_trait]
    impl Upstream for Arc<Server> {
        async fn call(&self, operation: &Operation, _: &Progress) -> Result<Answer> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let fails = *self.fails.lock();
            match (fails, operation) {
                (Some(code), _) => Err(Error::new(code, "no")),
                (None, Operation::List) => {
                    let was_at_hand = self.was_at_hand.load(Ordering::Relaxed);
                    Ok(Answer::Listing(Listing { was_at_hand, ..Listing::default() }))
                }
                (None, _) => Ok(Answer::Tool(ToolAnswer::default())),
            }
        }
    }

    impl Server {
        fn set(&self, fails: Option<ErrorCode>) {
            *self.fails.lock() = fails;
        }

        fn calls(&self) -> u32 {
            self.calls.load(Ordering::Relaxed)
        }
    }

    fn broken() -> (Arc<Server>, Breaker<Arc<Server>>) {
        let server = Arc::new(Server::default());
        server.set(Some(ErrorCode::TransportDead));
        let rule = Rule { faults: 3, pause: Duration::from_secs(10) };
        (Arc::clone(&server), Breaker::new("web", server, rule, Arc::default()))
    }

    async fn code(breaker: &Breaker<Arc<Server>>) -> Option<ErrorCode> {
        let operation = Operation::Resource { uri: "x:".to_owned(), definition: None };
        breaker.call(&operation, &Progress::default()).await.err().map(|error| error.code)
    }

    async fn open() -> (Arc<Server>, Breaker<Arc<Server>>) {
        let (server, breaker) = broken();
        for _ in 0..3 {
            assert_eq!(code(&breaker).await, Some(ErrorCode::TransportDead));
        }
        (server, breaker)
    }

    #[tokio::test(start_paused = true)]
    async fn faults_in_a_row_open_it_and_the_refusal_says_until_when() {
        let (server, breaker) = open().await;
        let error =
            breaker.call(&Operation::Resource { uri: String::new(), definition: None }, &Progress::default()).await;
        let error = error.expect_err("it is open");
        assert_eq!((error.code, server.calls()), (ErrorCode::CircuitOpen, 3));
        assert!(error.message.contains("TRANSPORT_DEAD: no") && error.message.contains("in 10.0s"), "{error}");
        assert_eq!(error.data.as_deref(), Some(&json!({"retry_after_secs": 10.0})));
        assert!(breaker.health.complaint().is_some_and(|words| words.contains("circuit breaker open for 10s")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_answered_is_no_fault() {
        let (server, breaker) = broken();
        for fails in [ErrorCode::InvalidArgs, ErrorCode::RateLimit, ErrorCode::UpstreamError, ErrorCode::ToolError] {
            for _ in 0..3 {
                server.set(Some(fails));
                assert_eq!(code(&breaker).await, Some(fails));
            }
        }
        // An answer between faults restarts the count.
        for fails in [ErrorCode::Timeout, ErrorCode::Timeout, ErrorCode::ToolError, ErrorCode::Timeout] {
            server.set(Some(fails));
            assert_eq!(code(&breaker).await, Some(fails));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_is_let_through_and_closes_it() {
        let (server, breaker) = open().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        server.set(None);
        let (first, second, third) = tokio::join!(code(&breaker), code(&breaker), code(&breaker));
        let open = Some(ErrorCode::CircuitOpen);
        assert_eq!((first, second, third, server.calls()), (None, open, open, 4));
        assert_eq!((code(&breaker).await, breaker.health.complaint()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_probe_doubles_the_pause() {
        let (server, breaker) = open().await;
        for (pause, calls) in [(10, 4), (20, 5), (40, 6), (80, 7), (120, 8), (120, 9)] {
            tokio::time::sleep(Duration::from_millis(pause * 1000 - 10)).await;
            assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen), "before {pause}s");
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!((code(&breaker).await, server.calls()), (Some(ErrorCode::TransportDead), calls));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_probe_gives_its_slot_back() {
        let (server, breaker) = open().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        server.set(None);
        let given_up = tokio::time::timeout(Duration::from_millis(500), code(&breaker)).await;
        assert!(given_up.is_err());
        assert_eq!((code(&breaker).await, server.calls()), (None, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_together_are_one_fault() {
        let (_, breaker) = broken();
        let together = futures::future::join_all((0..8).map(|_| code(&breaker))).await;
        assert_eq!(together, vec![Some(ErrorCode::TransportDead); 8]);
        assert_eq!(code(&breaker).await, Some(ErrorCode::TransportDead));
        assert_eq!(code(&breaker).await, Some(ErrorCode::TransportDead));
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_never_held_up_and_closes_it() {
        let (server, breaker) = open().await;
        let list = || async { breaker.call(&Operation::List, &Progress::default()).await.is_ok() };
        assert!(!list().await);
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
        server.set(None);
        // One that was read before proves nothing.
        server.was_at_hand.store(true, Ordering::Relaxed);
        assert!(list().await);
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
        server.was_at_hand.store(false, Ordering::Relaxed);
        assert!(list().await);
        assert_eq!((code(&breaker).await, breaker.health.complaint()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lists_and_fails_its_calls_is_left_alone() {
        let (server, breaker) = broken();
        let list = async || {
            server.set(None);
            assert!(breaker.call(&Operation::List, &Progress::default()).await.is_ok());
            server.set(Some(ErrorCode::TransportDead));
        };
        for _ in 0..3 {
            list().await;
            assert_eq!(breaker.health.complaint(), None);
            assert_eq!(code(&breaker).await, Some(ErrorCode::TransportDead));
        }
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
        // After the next list, one call tries again.
        list().await;
        assert_eq!(code(&breaker).await, Some(ErrorCode::TransportDead));
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_was_asked_for_before_the_last_fault_says_nothing() {
        let (server, breaker) = open().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let list = async {
            // The server answers after the probe has failed.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let progress = Progress::default();
            let answer = breaker.call(&Operation::List, &progress);
            let (answer, ()) = tokio::join!(answer, async {
                tokio::time::sleep(Duration::from_millis(700)).await;
                server.set(None);
            });
            answer.is_ok()
        };
        let (probe, listed) = tokio::join!(code(&breaker), list);
        assert_eq!((probe, listed), (Some(ErrorCode::TransportDead), true));
        assert_eq!(code(&breaker).await, Some(ErrorCode::CircuitOpen));
    }
}

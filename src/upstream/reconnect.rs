//! Connects on first use and again after a connection died.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::mcp::{Client, Connector};
use super::{Answer, Operation, Upstream};
use crate::error::{Error, ErrorCode, Result};

/// Pause after the first failed attempt; doubled by each further one up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection in doubt may take to list its tools.
const PROBE: Duration = Duration::from_secs(5);

/// An upstream that replaces its connection when it is dead. A call that was under way when the connection died
/// is not repeated, since the server may have carried it out.
pub(super) struct Reconnect {
    connector: Connector,
    connect_timeout: Duration,
    state: Mutex<State>,
    /// A call was given up before it was answered: the server may be slow, or may have lost this session, as a
    /// server over HTTP does when it is restarted.
    doubt: AtomicBool,
}

/// What is known about the connection.
enum State {
    Never,
    Live(Arc<Client>),
    /// The last attempt failed; until `retry_at` the same answer is given without a new one.
    Failed {
        error: Error,
        pause: Duration,
        retry_at: Instant,
    },
}

impl Reconnect {
    pub(super) fn new(connector: Connector, connect_timeout: Duration) -> Self {
        Self { connector, connect_timeout, state: Mutex::new(State::Never), doubt: AtomicBool::new(false) }
    }

    /// The live client. Callers that come while a connection is being made wait for that one.
    async fn client(&self) -> Result<Arc<Client>> {
        let mut state = self.state.lock().await;
        let pause = match &*state {
            State::Live(client) if !client.is_closed() && self.is_trusted(client).await => {
                return Ok(Arc::clone(client));
            }
            State::Failed { error, retry_at, .. } if Instant::now() < *retry_at => return Err(error.clone()),
            State::Failed { pause, .. } => (*pause * 2).min(MAX_PAUSE),
            State::Never | State::Live(_) => FIRST_PAUSE,
        };
        let connected =
            tokio::time::timeout(self.connect_timeout, self.connector.connect()).await.unwrap_or_else(|_| {
                let limit = self.connect_timeout;
                Err(Error::new(ErrorCode::TransportDead, format!("it was not ready within {limit:?}"))
                    .hint("raise `connect_timeout`, or start the server by hand to see what it waits for"))
            });
        match connected {
            Ok(client) => {
                let client = Arc::new(client);
                *state = State::Live(Arc::clone(&client));
                Ok(client)
            }
            Err(error) => {
                *state = State::Failed { error: error.clone(), pause, retry_at: Instant::now() + pause };
                Err(error)
            }
        }
    }
}

impl Reconnect {
    /// Whether a connection is good, or has proved to be if it was in doubt.
    async fn is_trusted(&self, client: &Client) -> bool {
        if !self.doubt.swap(false, Ordering::Relaxed) {
            return true;
        }
        matches!(tokio::time::timeout(PROBE, client.call(&Operation::List)).await, Ok(Ok(_)))
    }

    /// Forgets a connection that failed, unless it has been replaced meanwhile.
    async fn discard(&self, failed: &Arc<Client>) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Live(client) if Arc::ptr_eq(client, failed)) {
            *state = State::Never;
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
impl Upstream for Reconnect {
    async fn call(&self, operation: &Operation) -> Result<Answer> {
        let client = self.client().await?;
        let mut call = Unanswered { doubt: &self.doubt, answered: false };
        let answer = client.call(operation).await;
        call.answered = true;
        if answer.as_ref().is_err_and(|error| error.code == ErrorCode::TransportDead) {
            self.discard(&client).await;
        }
        answer
    }
}

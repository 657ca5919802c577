//! Connects on first use and again after a connection died.

use std::sync::Arc;
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

/// An upstream that replaces its connection when it is dead. A call that was under way when the connection died
/// is not repeated, since the server may have carried it out.
pub(super) struct Reconnect {
    connector: Connector,
    connect_timeout: Duration,
    state: Mutex<State>,
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
        Self { connector, connect_timeout, state: Mutex::new(State::Never) }
    }

    /// The live client. Callers that come while a connection is being made wait for that one.
    async fn client(&self) -> Result<Arc<Client>> {
        let mut state = self.state.lock().await;
        let pause = match &*state {
            State::Live(client) if !client.is_closed() => return Ok(Arc::clone(client)),
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

#[async_trait]
impl Upstream for Reconnect {
    async fn call(&self, operation: &Operation) -> Result<Answer> {
        self.client().await?.call(operation).await
    }
}

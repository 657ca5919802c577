//! Connections as reconnection uses them: how one is made, and what it does.

use async_trait::async_trait;

use crate::events::Changes;
use crate::{Answer, Listing, Operation, Progress};
use base::error::{Error, Result};
use state::LoginVersion;

/// Connects to a server.
#[async_trait]
pub(crate) trait Connect: Send + Sync + 'static {
    /// Version of the login. A new version retries a failed attempt at once.
    fn version(&self) -> Option<LoginVersion> {
        None
    }

    /// Starts or reaches the server and performs the handshake.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` with the reason.
    async fn connect(&self) -> Result<Box<dyn Link>>;

    /// Adds the last words of a process to the error of its start.
    async fn with_last_words(&self, error: Error) -> Error {
        error
    }
}

/// One connection.
#[async_trait]
pub(crate) trait Link: Send + Sync + 'static {
    /// Reads the lists.
    async fn list(&self, progress: &Progress) -> Result<Listing>;

    /// Performs one other operation. If it takes several requests, asks `rounds` before each later one.
    async fn call(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<Answer>;

    /// True once the connection has ended: only a new one can serve the next call.
    fn is_closed(&self) -> bool;

    /// Liveness probe: true if the server gives any answer.
    async fn answers(&self) -> bool;

    /// True if each request may reach another server, so that only a validated list stands for a connection.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Waits for lists beside the tools that the last reading went on without.
    async fn listed(&self) {}

    /// List changes announced by the server so far.
    fn changes(&self) -> Changes {
        Changes::default()
    }
}

/// Admission of the later requests of one operation.
#[async_trait]
pub(crate) trait Rounds: Send + Sync {
    /// Admits the next request.
    ///
    /// # Errors
    /// The definition differs from the one that the first request was compared with.
    async fn go_on(&self) -> Result<()>;
}

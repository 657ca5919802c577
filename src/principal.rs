//! Who asks.

use std::sync::Arc;

use crate::random;

/// Who asks: policy, budgets, audit, metrics and state take it from here. A session belongs to a client, a client has a
/// profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The client that the gateway authenticated; `local` on stdio and for the command line. What a client says of
    /// itself is [`Session::client`](crate::session::Session::client).
    pub client: Arc<str>,
    /// The profile of that client.
    pub profile: Arc<str>,
    /// Its session.
    pub session: Arc<str>,
}

impl Principal {
    /// A new session of the client `local`.
    #[must_use]
    pub fn local() -> Self {
        Self { client: "local".into(), profile: "default".into(), session: random::id().into() }
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::local()
    }
}

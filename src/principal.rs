//! Principal of a request.

use std::sync::Arc;

use crate::random;

/// Principal of a request: policy, budgets, audit, metrics and state take it from here. A session belongs to a client,
/// a client has a profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// Client authenticated by the gateway; `local` on stdio and for the command line. For the client's own name see
    /// [`Session::client`](crate::session::Session::client).
    pub client: Arc<str>,
    /// Profile of that client.
    pub profile: Arc<str>,
    /// Session of that client.
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

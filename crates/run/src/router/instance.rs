//! One instance of a server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::tenant::Own;
use base::error::{Error, ErrorCode, Result};
use base::task::Task;
use config::Scope;
use upstream::{Answer, Operation, Progress, Rotation, Upstream};

/// One instance: a connection with everything around it.
pub(super) struct Instance {
    pub(super) number: u64,
    pub(super) server: String,
    /// Number of the server.
    pub(super) of: u64,
    pub(super) scope: Scope,
    pub(super) own: Option<Arc<Own>>,
    /// Client that it was started for, and the digest of its credentials.
    pub(super) client: Arc<str>,
    pub(super) credentials: Option<Arc<str>>,
    /// Time that it outlives the last session that may use it.
    pub(super) linger: Duration,
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) rotation: Rotation,
    pub(super) users: Mutex<Users>,
    pub(super) _watch: Task,
}

/// Open sessions that have used an instance.
#[derive(Default)]
pub(super) struct Users {
    pub(super) sessions: HashSet<Arc<str>>,
    /// Since when no session may use it.
    pub(super) none_since: Option<Instant>,
}

impl Instance {
    /// Performs an operation.
    pub(super) async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer> {
        self.upstream.call(operation, progress).await.map_err(|error| self.explained(error))
    }

    /// Says of an error about a definition that the catalog shows another instance.
    fn explained(&self, mut error: Error) -> Error {
        if error.code == ErrorCode::ToolChanged {
            let whose = match (&self.scope, &self.own) {
                (Scope::Session(_), _) => "this session's own",
                (Scope::Client(_), _) => "this client's own",
                (Scope::All, _) => "an instance with this client's values of variables, not the common",
            };
            let name = &self.server;
            error.message.push_str(&format!("; the call went to {whose} instance of `{name}`, whose list differs"));
        }
        error
    }

    /// True if it is the instance for these.
    pub(super) fn is(&self, of: u64, scope: &Scope, own: Option<&Arc<Own>>, credentials: Option<&Arc<str>>) -> bool {
        let is_same = match (&self.own, own) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.server == other.server,
            _ => false,
        };
        let is_same = is_same && self.credentials.as_ref() == credentials;
        self.of == of && self.scope == *scope && is_same
    }

    /// True if an open session may use it.
    pub(super) fn is_wanted(&self, sessions: &HashMap<Arc<str>, Arc<str>>) -> bool {
        match &self.scope {
            Scope::Session(session) => sessions.contains_key(session),
            Scope::Client(client) => sessions.values().any(|other| other == client),
            Scope::All => !self.users.lock().sessions.is_empty(),
        }
    }
}

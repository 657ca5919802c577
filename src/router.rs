//! Server name → upstream. Only the broker calls it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorCode, Result};
use crate::manifest::ServerEntry;
use crate::upstream::{Answer, Operation, Progress, Upstream};

/// Connections of a gateway, by configured server name.
#[derive(Default)]
pub struct Router {
    upstreams: HashMap<String, Route>,
}

/// Route to one server.
pub struct Route {
    /// Its instance: see [`ServerEntry::instance`].
    pub instance: u64,
    /// Performs operations.
    pub upstream: Arc<dyn Upstream>,
}

impl Router {
    /// A router over `upstreams`.
    #[must_use]
    pub fn new(upstreams: HashMap<String, Route>) -> Self {
        Self { upstreams }
    }

    /// Performs `operation` on `server` as the catalog resolved it, with reports on `progress`.
    ///
    /// # Errors
    /// The upstream's error; `SERVER_NOT_FOUND` for an unknown name; `TRANSPORT_DEAD` for a server that was replaced
    /// since the catalog was built, since its name may now be another program.
    pub async fn call(&self, server: &ServerEntry, operation: &Operation, progress: &Progress) -> Result<Answer> {
        let name = &server.name;
        match self.upstreams.get(name) {
            Some(route) if route.instance == server.instance => route.upstream.call(operation, progress).await,
            Some(_) => {
                let what = format!("not called: server `{name}` is being replaced, since its configuration changed");
                Err(Error::new(ErrorCode::TransportDead, what).hint("run the script again"))
            }
            None => Err(Error::new(ErrorCode::ServerNotFound, format!("server `{name}` is not connected"))),
        }
    }
}

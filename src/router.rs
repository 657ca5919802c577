//! Server name → upstream. Only the broker calls it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorCode, Result};
use crate::upstream::{Answer, Operation, Progress, Upstream};

/// The connections of a gateway, by configured server name.
#[derive(Default)]
pub struct Router {
    upstreams: HashMap<String, Arc<dyn Upstream>>,
}

impl Router {
    /// A router over `upstreams`.
    #[must_use]
    pub fn new(upstreams: HashMap<String, Arc<dyn Upstream>>) -> Self {
        Self { upstreams }
    }

    /// Performs `operation` on `server`, a name that the catalog resolved; `progress` hears of it meanwhile.
    ///
    /// # Errors
    /// What the upstream says; `SERVER_NOT_FOUND` for a name that no upstream has.
    pub async fn call(&self, server: &str, operation: &Operation, progress: &Progress) -> Result<Answer> {
        match self.upstreams.get(server) {
            Some(upstream) => upstream.call(operation, progress).await,
            None => Err(Error::new(ErrorCode::ServerNotFound, format!("server `{server}` is not connected"))),
        }
    }
}

//! A session as the router sees it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Instances, Router};
use base::error::{Error, ErrorCode, Result};
use base::principal::Principal;
use config::{Environment, References};
use redact::secret::{self, Lease};

/// A session as the router sees it: who uses instances of servers, with which values of variables. Dropping it ends the
/// instances that only this session uses.
pub struct Tenant {
    pub(super) principal: Principal,
    /// Digest of the client's credentials: with others it is another client, with other logins.
    pub(super) credentials: Option<Arc<str>>,
    /// Values of the client; `None` for the gateway's own.
    environment: Option<Environment>,
    pub(super) instances: Arc<Instances>,
    resolved: Mutex<Resolved>,
}

/// Servers with the client's values.
#[derive(Default)]
struct Resolved {
    /// The references that were resolved.
    references: Option<Arc<References>>,
    servers: HashMap<String, Result<Option<Arc<Own>>>>,
}

/// A server with the values of a client.
pub(super) struct Own {
    pub(super) server: config::Server,
    /// Redacts these values.
    _lease: Lease,
}

impl Tenant {
    /// A session that uses `instances`. Without an environment it has the gateway's values of variables.
    pub fn new(
        principal: Principal,
        credentials: Option<Arc<str>>,
        environment: Option<Environment>,
        instances: &Arc<Instances>,
    ) -> Self {
        instances.enter(&principal);
        Self { principal, credentials, environment, instances: Arc::clone(instances), resolved: Mutex::default() }
    }

    /// The server `name` with the client's values; `None` if they are the gateway's.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` if the client has no value for a variable, or one that makes no valid server.
    pub(super) fn own(&self, name: &str, router: &Router) -> Result<Option<Arc<Own>>> {
        self.resolve(router);
        self.resolved.lock().servers.get(name).cloned().unwrap_or(Ok(None))
    }

    /// Resolves the servers that refer to variables, once for each configuration.
    pub(super) fn resolve(&self, router: &Router) {
        let Some(environment) = &self.environment else { return };
        let mut resolved = self.resolved.lock();
        let references = &router.references;
        if resolved.references.as_ref().is_some_and(|known| Arc::ptr_eq(known, references)) {
            return;
        }
        let known = |name: &String| Some((name.clone(), router.upstreams.get(name)?.blueprint.as_ref()?));
        let servers = references.servers().filter_map(known).map(|(name, blueprint)| {
            let own = with_values(references, &name, &blueprint.server, environment);
            (name, own)
        });
        let servers = servers.collect();
        *resolved = Resolved { references: Some(Arc::clone(references)), servers };
    }
}

fn with_values(
    references: &References,
    name: &str,
    server: &config::Server,
    environment: &Environment,
) -> Result<Option<Arc<Own>>> {
    let (resolved, lease) = secret::leased(|| references.resolve(name, server, environment))?;
    let server = resolved.map_err(|error| {
        let what = format!("not called: server `{name}` with the environment of this client: {}", error.message);
        let hint = error.hint.unwrap_or_else(|| format!("correct the variable that `{}` refers to", error.key));
        Error::new(ErrorCode::TransportDead, what).hint(format!("{hint}; then connect the client again"))
    })?;
    Ok(server.map(|server| Arc::new(Own { server, _lease: lease })))
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.instances.leave(&self.principal.session);
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("principal", &self.principal).finish_non_exhaustive()
    }
}

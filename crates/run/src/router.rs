//! Server name and session → upstream. Only the broker calls it.

mod instance;
mod instances;
mod tenant;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, ErrorCode, Result};
use catalog::manifest::{ServerEntry, origin_of};
use config::{References, Scope};
use instance::Instance;
use upstream::auth::Account;
use upstream::{Answer, Operation, Progress, Upstream};

pub use instances::Instances;
pub use tenant::Tenant;

/// Connections of a gateway, by configured server name.
#[derive(Default)]
pub struct Router {
    upstreams: HashMap<String, Route>,
    references: Arc<References>,
}

/// Route to one server.
pub struct Route {
    /// Its instance: see [`ServerEntry::instance`].
    pub instance: u64,
    /// Performs operations on the instance that gave the catalog its lists.
    pub upstream: Arc<dyn Upstream>,
    /// Settings of further instances; `None` for a server that is not connected.
    pub blueprint: Option<Arc<Blueprint>>,
}

/// Settings of a server's instances.
pub struct Blueprint {
    /// The server's configuration.
    pub server: config::Server,
    /// Its login.
    pub account: Option<Arc<Account>>,
    /// Longest time that a list stays valid for servers without sessions.
    pub refresh: Option<Duration>,
}

impl Router {
    /// A router over `upstreams`, whose servers refer to variables as `references` has them.
    pub fn new(upstreams: HashMap<String, Route>, references: References) -> Self {
        Self { upstreams, references: Arc::new(references) }
    }

    /// Performs `operation` on `server` as the catalog resolved it, with reports on `progress`, on the instance of the
    /// session's `tenant`. Without one, and for lists, it is the instance that gave the catalog its lists.
    ///
    /// # Errors
    /// The upstream's error; `SERVER_NOT_FOUND` for an unknown name; `TRANSPORT_DEAD` for a server that was replaced
    /// since the catalog was built, since its name may now be another program, and for one that refers to a variable
    /// that this client does not have; `LIMIT_EXCEEDED` for an instance over the bounds.
    pub async fn call(
        &self,
        server: &ServerEntry,
        tenant: Option<&Tenant>,
        operation: &Operation,
        progress: &Progress,
    ) -> Result<Answer> {
        let route = self.route(server)?;
        match self.instance(&server.name, route, choosing(tenant, operation))? {
            Some(instance) => instance.call(operation, progress).await,
            None => route.upstream.call(operation, progress).await,
        }
    }

    /// Sharing scope of the instance that serves a session's operation, in one word; `None` for the one that gave the
    /// catalog its lists.
    pub fn scope(&self, server: &ServerEntry, tenant: Option<&Tenant>, operation: &Operation) -> Option<&'static str> {
        let route = self.route(server).ok()?;
        let (tenant, blueprint) = (choosing(tenant, operation)?, route.blueprint.as_ref()?);
        let scope = blueprint.server.share.scope(&tenant.principal);
        let has_own = tenant.own(&server.name, self).is_ok_and(|own| own.is_some());
        match scope {
            Scope::Session(_) => Some("session"),
            Scope::Client(_) => Some("client"),
            Scope::All => has_own.then_some("environment"),
        }
    }

    /// Origin of the instance that serves a session: that of the server, unless the client has values of its own.
    pub fn origin(&self, server: &ServerEntry, tenant: Option<&Tenant>) -> Arc<str> {
        let own = tenant.and_then(|tenant| tenant.own(&server.name, self).ok().flatten());
        own.map_or_else(|| Arc::clone(&server.origin), |own| origin_of(&own.server).into())
    }

    /// Resolves the references of every server with the values of `tenant`, so that they are redacted from now on.
    pub fn prepare(&self, tenant: &Tenant) {
        tenant.resolve(self);
    }

    fn route(&self, server: &ServerEntry) -> Result<&Route> {
        let name = &server.name;
        match self.upstreams.get(name) {
            Some(route) if route.instance == server.instance => Ok(route),
            Some(_) => Err(replaced(name)),
            None => {
                Err(Error::new(ErrorCode::ServerNotFound, format!("server `{name}` is not connected")).without_effect())
            }
        }
    }

    /// The instance of a tenant; `None` if it is the one that gave the catalog its lists.
    fn instance(&self, name: &str, route: &Route, tenant: Option<&Tenant>) -> Result<Option<Arc<Instance>>> {
        let (Some(tenant), Some(blueprint)) = (tenant, &route.blueprint) else { return Ok(None) };
        let own = tenant.own(name, self)?;
        let scope = blueprint.server.share.scope(&tenant.principal);
        if scope == Scope::All && own.is_none() {
            return Ok(None);
        }
        tenant.instances.find_or_start(name, route.instance, blueprint, scope, own, tenant).map(Some)
    }
}

/// The tenant, for operations that are served by its instance: lists are of the first one, as the catalog is.
fn choosing<'t>(tenant: Option<&'t Tenant>, operation: &Operation) -> Option<&'t Tenant> {
    tenant.filter(|_| !matches!(operation, Operation::List | Operation::Connect))
}

/// The error of a call to a server that was replaced.
fn replaced(name: &str) -> Error {
    let what = format!("not called: server `{name}` is being replaced, since its configuration changed");
    Error::new(ErrorCode::TransportDead, what).hint("run the script again").without_effect()
}

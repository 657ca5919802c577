//! Logins to MCP servers on HTTP: OAuth 2.1 as in the MCP authorization specification.
//!
//! A person logs in with `forgefs auth login`, which keeps a [`Record`] in the state; every running gateway reads and
//! renews it there, one process at a time. A program (`type = "client_credentials"`) gets its tokens itself and keeps
//! them in memory. rmcp implements the protocol; this module decides storage, renewal, and refusals.

mod answers;
mod assertion;
mod client;
mod device;
mod discovery;
mod exchange;
mod explain;
mod held;
mod invitation;
mod login;
mod pages;
mod record;
mod redirect;
mod revocation;
mod seal;
mod standing;
mod store;
mod tokens;
mod trust;
mod vouched;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};
use rmcp::transport::streamable_http_client::{InsufficientScopeError, StreamableHttpError};
use tokio::time::Instant;
use url::Url;

use base::error::{Error, ErrorCode, Result};
use base::principal::LOCAL;
use config::secrets;
use config::{Credential, Grant, OAuth, Transport};
use redact::secret::list_token as hide;
use state::{LoginVersion, State};

pub use client::Documents;
pub use device::DeviceLogin;
pub use discovery::well_known;
use discovery::{is_document, reads_documents};
pub use exchange::CallerTokens;
use exchange::Exchange;
pub use explain::{error, login_command, needs_login, needs_login_by, needs_scope};
use held::Held;
pub use invitation::{Invitation, Invitations};
pub use login::Login;
pub use pages::{NoPage, Pages, Shown};
pub use record::Record;
pub use redirect::Listener;
pub use standing::{Standing, account, described, kept};
use store::Store;
pub use store::{Forgotten, encrypt, forget_of_clients};
use vouched::Vouched;

/// Name under which logins at the identity provider are kept.
const IDENTITY: &str = "@identity";

/// The login of one server in this process: that of the gateway, or a client's own. With `type = "enterprise"` it is the
/// login at the identity provider.
pub struct Account {
    server: String,
    /// Client whose login it is; none for that of the gateway.
    client: Option<Arc<str>>,
    /// Digest of that client's credentials.
    credentials: Option<Arc<str>>,
    /// Pages for its browser; without, the browser is on this machine.
    pages: Option<Arc<Pages>>,
    /// Address for which the login is.
    url: Url,
    means: Means,
    oauth: OAuth,
    store: Option<Arc<Store>>,
    /// One renewal of a stored login at a time.
    renewal: tokio::sync::Mutex<()>,
    /// A fresh token that the server has not accepted yet, and its time.
    renewed: Mutex<Option<(String, Instant)>>,
}

/// A client, as its logins are kept: with other credentials it is another one.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a> {
    /// Its name.
    pub client: &'a Arc<str>,
    /// Digest of its credentials, if it has an entry of its own.
    pub credentials: Option<&'a Arc<str>>,
}

impl Person<'_> {
    /// Text that no other has.
    pub fn name(&self) -> Arc<str> {
        format!("{}\n{}", self.client, self.credentials.map_or("", |digest| digest)).into()
    }
}

/// Parts of the endpoint that logins of its clients need.
#[derive(Default)]
pub struct Browsers {
    /// Pages at which a person logs in.
    pub pages: Arc<Pages>,
    /// Access tokens with which clients call.
    pub tokens: Arc<CallerTokens>,
}

/// Way to a token of the server.
enum Means {
    /// The login has it.
    Login,
    /// This program gets it with its own secret or key.
    Program(tokio::sync::Mutex<Option<Held>>),
    /// The client's own token is exchanged for it.
    Exchange(Exchange),
    /// The login at the identity provider vouches for it.
    Vouched(Box<Vouched>),
}

impl Account {
    /// The store for a login by a person.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a server that logs in with its secret, or without a folder.
    fn for_person(&self) -> Result<Arc<Store>> {
        if !self.is_of_person() {
            let message = format!("{} logs in by itself, with what the configuration has", self.server);
            return Err(Error::new(ErrorCode::InvalidArgs, message).hint("`forgefs doctor` shows whether that works"));
        }
        self.store.clone().ok_or_else(|| {
            Error::new(ErrorCode::InvalidArgs, "there is no folder to keep logins in").hint("set HOME or XDG_DATA_HOME")
        })
    }

    /// The login of a server; `None` without one: not on HTTP, with credentials in its headers, or on plain HTTP, where
    /// tokens must not travel.
    pub fn of(name: &str, server: &config::Server, state: &Arc<dyn State>) -> Option<Arc<Self>> {
        Self::new(name, server, state, None, None)
    }

    /// The login with which a server serves a client: its own where the configuration says so, else that of the gateway,
    /// which is also that of this machine's user. A browser elsewhere is led through `pages`.
    pub fn for_client(
        name: &str,
        server: &config::Server,
        state: &Arc<dyn State>,
        person: Person<'_>,
        browsers: Option<&Browsers>,
    ) -> Option<Arc<Self>> {
        let is_own = server.login() != config::Login::Gateway && &**person.client != LOCAL;
        Self::new(name, server, state, is_own.then_some(person), browsers.filter(|_| is_own))
    }

    fn new(
        name: &str,
        server: &config::Server,
        state: &Arc<dyn State>,
        person: Option<Person<'_>>,
        browsers: Option<&Browsers>,
    ) -> Option<Arc<Self>> {
        let oauth = server.auth.as_deref()?;
        let of_server = match &server.transport {
            Transport::Http { url, .. } | Transport::OpenApi { base_url: Some(url), .. } => Url::parse(url).ok()?,
            Transport::Stdio { .. } | Transport::OpenApi { base_url: None, .. } => return None,
        };
        // One login at the identity provider is for all servers.
        let (filed, url, login) = match &oauth.identity {
            Some(identity) => (IDENTITY, identity.url.clone(), &identity.oauth),
            None => (name, of_server.clone(), oauth),
        };
        let means = match oauth.grant {
            Grant::Login => Means::Login,
            Grant::ClientCredentials => Means::Program(tokio::sync::Mutex::default()),
            Grant::Exchange => {
                let tokens = browsers.map_or_else(Arc::default, |browsers| Arc::clone(&browsers.tokens));
                Means::Exchange(Exchange::new(person.map(|person| person.name()), tokens))
            }
            Grant::Enterprise => {
                Means::Vouched(Box::new(Vouched::new(of_server, oauth.clone(), Arc::clone(oauth.identity.as_ref()?))))
            }
        };
        let store = |folder: &PathBuf| {
            Arc::new(Store::new(Arc::clone(state), folder, (filed, &url), (person, login.sealing.as_ref())))
        };
        let store = login.store.as_ref().map(store);
        Some(Arc::new(Self {
            server: name.to_owned(),
            client: person.map(|person| Arc::clone(person.client)),
            credentials: person.and_then(|person| person.credentials.cloned()),
            pages: browsers.map(|browsers| Arc::clone(&browsers.pages)),
            means,
            oauth: OAuth { login: oauth.login, ..login.clone() },
            url,
            store,
            renewal: tokio::sync::Mutex::default(),
            renewed: Mutex::default(),
        }))
    }

    /// Name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// True if calls of this client may use it: none uses a login of another, or of the gateway where each has its own.
    pub fn is_of(&self, client: &str) -> bool {
        match &self.client {
            Some(own) => **own == *client,
            None => self.oauth.login == config::Login::Gateway || client == LOCAL,
        }
    }

    /// Client whose login it is; `None` for that of the gateway.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Clients with a login of their own at this server.
    ///
    /// # Errors
    /// The logins cannot be read.
    pub async fn clients(&self, state: &Arc<dyn State>) -> Result<Vec<Arc<str>>> {
        match &self.oauth.store {
            Some(folder) => {
                store::clients(state, folder, (self.filed(), &self.url), self.oauth.sealing.as_deref()).await
            }
            None => Ok(Vec::new()),
        }
    }

    /// Name under which the login is kept: of the server, or one for all servers of the identity provider.
    fn filed(&self) -> &str {
        if self.oauth.is_provider { IDENTITY } else { &self.server }
    }

    /// Scopes of a new login: those configured, or requested by the server, and `more`; with any, those of an earlier login
    /// stay.
    async fn scopes(&self, manager: &AuthorizationManager, store: &Store, more: &[String]) -> Vec<String> {
        let usual: &[&str] = if self.oauth.is_provider { &["openid"] } else { &[] };
        let mut scopes = self.oauth.scopes.clone();
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(usual).await;
        }
        // Scopes of a server are none of the identity provider's login.
        if !more.is_empty() && !self.oauth.is_provider {
            let granted = store.load().await.ok().flatten().map(|record| record.credentials.granted_scopes);
            scopes.extend(granted.unwrap_or_default());
            scopes.extend(more.iter().cloned());
        }
        let mut known = BTreeSet::new();
        scopes.retain(|scope| known.insert(scope.clone()));
        scopes
    }

    /// Checks that a new login is the client's own account, where that can be told.
    ///
    /// # Errors
    /// It is another person's.
    fn check(&self, record: &Record) -> Result<(), AuthError> {
        match &self.means {
            Means::Vouched(vouched) => {
                vouched.check_subject(self.client(), record).map_err(AuthError::AuthorizationFailed)
            }
            _ => Ok(()),
        }
    }

    /// The error of a token without a scope: another login gives none where the identity provider decides.
    pub(crate) fn lacks_scope(&self, wanted: InsufficientScopeError) -> StreamableHttpError<reqwest::Error> {
        match &self.means {
            Means::Vouched(_) => {
                let scope = wanted.required_scope.unwrap_or_default();
                AuthError::TokenExchangeFailed(format!(
                    "the server wants the scope {scope}, and there is no token with it"
                ))
                .into()
            }
            _ => StreamableHttpError::InsufficientScope(wanted),
        }
    }

    /// True if a person logs in for it, and not this program with what the configuration has.
    pub(crate) fn is_of_person(&self) -> bool {
        match &self.means {
            Means::Login => true,
            Means::Vouched(vouched) => vouched.is_of_person(),
            Means::Program(_) | Means::Exchange(_) => false,
        }
    }

    /// Configured port of the redirect.
    pub fn redirect_port(&self) -> Option<u16> {
        self.oauth.redirect_port
    }

    /// The stored login.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn record(&self) -> Result<Option<Record>> {
        self.stored().await.map_err(|failed| error(&self.server, &failed))
    }

    /// Notes that the server accepted the token.
    pub fn accepted(&self) {
        *self.renewed.lock() = None;
    }

    /// Waits until the stored login changes by a login, a logout or a renewal.
    pub async fn changed(&self) {
        match &self.store {
            Some(store) => store.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Version of the stored login.
    pub fn version(&self) -> Option<LoginVersion> {
        self.store.as_ref().and_then(|store| store.version())
    }

    /// Deletes the login, after revoking it at the authorization server if possible. `None` if there was none, else
    /// whether it was revoked.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub async fn logout(&self) -> Result<Option<bool>> {
        let failed = |failed: AuthError| error(&self.server, &failed);
        let Some(store) = &self.store else { return Ok(None) };
        let _lock = store.lock().await.map_err(failed)?;
        let Some(record) = store.load().await.map_err(failed)? else { return Ok(None) };
        let revoked = revocation::revoke(&self.url, &self.oauth, &record).await;
        store.clear().await.map_err(failed)?;
        Ok(Some(revoked))
    }

    async fn stored(&self) -> Result<Option<Record>, AuthError> {
        let stored = match &self.store {
            Some(store) => store.load().await?,
            None => None,
        };
        // Of another client at the identity provider it is no proof for this one.
        let is_ours = |record: &Record| {
            !self.oauth.is_provider || self.oauth.client_id.as_deref() == Some(&record.credentials.client_id)
        };
        Ok(stored.filter(is_ours))
    }
}

/// Client secret of a login: the configured one, if it is the same client.
async fn client_secret(oauth: &OAuth, record: &Record) -> Result<Option<String>, AuthError> {
    let is_ours = oauth.client_id.as_deref() == Some(&record.credentials.client_id);
    let configured = if is_ours { configured_secret(oauth).await? } else { None };
    Ok(configured.or_else(|| record.client_secret.clone()))
}

/// The configured client secret.
async fn configured_secret(oauth: &OAuth) -> Result<Option<String>, AuthError> {
    match &oauth.client_secret {
        Some(secret) => exposed(secret).await.map(Some),
        None => Ok(None),
    }
}

/// The configured client with its secret, if the authorization server takes it.
async fn configured_client(
    oauth: &OAuth,
    metadata: &AuthorizationMetadata,
) -> Result<Option<(String, Option<String>)>, AuthError> {
    match oauth.client_id.clone().filter(|id| !is_document(id) || reads_documents(metadata)) {
        Some(id) => Ok(Some((id, configured_secret(oauth).await?))),
        None => Ok(None),
    }
}

/// The value of a configured client secret.
async fn exposed(client_secret: &Credential) -> Result<String, AuthError> {
    let value = secrets::value(client_secret).await;
    value.map(|value| value.expose().to_owned()).map_err(|error| {
        let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        AuthError::CredentialStoreError(format!("{}{hint}", error.message))
    })
}

//! Authentication to an HTTP server: `[servers.<name>.auth]`.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use super::credential::{self, Credential};
use super::error::ConfigError;
use super::identity::Identity;
use super::key::{Key, own_folder};
use super::oauth::scopes;
use super::raw::{RawAuth, RawCredential};
use super::state::Sealing;
use super::words::{Words, words};
use super::{Config, Transport};
use base::address::is_private;

/// Way to a token of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grant {
    /// Login by a person with `forgefs auth login`, if the server asks for it.
    #[default]
    Login,
    /// Client credentials of this program.
    ClientCredentials,
    /// The caller's access token, exchanged for one of the server. Lists, and this machine's user, have client credentials.
    Exchange,
    /// A login at the identity provider of `[identity]`, which vouches for the person at the server's authorization
    /// server (the MCP extension "enterprise-managed authorization", ID-JAG).
    Enterprise,
}

/// Value of `type`; `none` is no authentication, and an exchange has a table in place of a word.
impl Words for Option<Grant> {
    fn words() -> Vec<(&'static str, Self)> {
        let enterprise = ("enterprise", Some(Grant::Enterprise));
        let client = ("client_credentials", Some(Grant::ClientCredentials));
        vec![("oauth", Some(Grant::Login)), client, enterprise, ("none", None)]
    }
}

/// Owner of the login that a call uses. Lists, and calls of this machine's user, use the gateway's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Login {
    /// One for all.
    #[default]
    Gateway,
    /// Each client its own.
    Client,
    /// Each person their own: the subject of an access token, or a client with a token of its own.
    User,
}

words!(Login: "gateway" = Gateway, "client" = Client, "user" = User);

/// Authentication to a server: settings beyond its metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuth {
    /// Way to a token.
    pub grant: Grant,
    /// Owner of the login that a call uses.
    pub login: Login,
    /// Scopes to request; empty leaves them to the server.
    pub scopes: Vec<String>,
    /// Client id, or the https address of a client metadata document. Without one, a client is registered.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Credential>,
    /// Private key with which the client proves itself in place of a secret (`private_key_jwt`, RFC 7523).
    pub private_key: Option<Credential>,
    /// Name of that key at the authorization server.
    pub key_id: Option<String>,
    /// Port of this machine for the redirect; any free one by default.
    pub redirect_port: Option<u16>,
    /// True if the authorization server may be on a private network.
    pub private_network: bool,
    /// Issuer of logins, whatever the server names.
    pub issuer: Option<String>,
    /// Token endpoint for client credentials, in place of discovery.
    pub token_url: Option<String>,
    /// Audience of an exchanged token.
    pub audience: Option<String>,
    /// Resource of an exchanged token.
    pub resource: Option<String>,
    /// Login at the identity provider, for `type = "enterprise"`.
    pub identity: Option<Arc<Identity>>,
    /// True for a login at an identity provider, which names its own endpoints: no MCP server names them.
    pub is_provider: bool,
    /// Folder of stored logins.
    pub store: Option<PathBuf>,
    /// Keys that encrypt them.
    pub sealing: Option<Arc<Sealing>>,
}

impl OAuth {
    /// True if the client has an id, and a secret or a private key.
    pub fn proves_itself(&self) -> bool {
        self.client_id.is_some() && (self.client_secret.is_some() || self.private_key.is_some())
    }

    /// Its credentials, those of the login at the identity provider included.
    pub(super) fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let identity = self.identity.as_deref();
        let theirs = identity.into_iter().flat_map(|identity| {
            let oauth = &identity.oauth;
            [&oauth.client_secret, &oauth.private_key, &identity.id_token]
        });
        [&self.client_secret, &self.private_key].into_iter().chain(theirs).flatten()
    }
}

/// Resolves the authentication of a server. Without a table a person may log in, unless the server is not on HTTP, has
/// credentials in `headers`, or is on plain HTTP beyond this machine.
pub(super) fn auth(
    key: &Key<'_>,
    raw: Option<RawAuth>,
    transport: &Transport,
) -> Result<Option<Box<OAuth>>, ConfigError> {
    let (url, headers) = match transport {
        Transport::Http { url, headers, .. } => (url, headers),
        Transport::OpenApi { .. } if raw.is_none() => return Ok(None),
        Transport::OpenApi { base_url: Some(url), headers, .. } => (url, headers),
        Transport::OpenApi { .. } => {
            let error = key.at_key("needs `base_url`");
            return Err(error.with_hint("the document must not decide where tokens go"));
        }
        Transport::Stdio { .. } => {
            return match raw {
                None => Ok(None),
                Some(_) => Err(key
                    .at_key("not a key of a stdio server")
                    .with_hint("a server that is started here takes its credentials from `env`")),
            };
        }
    };
    let private = Url::parse(url).is_ok_and(|url| is_private(&url));
    let has_header = headers.contains_key("authorization");
    let Some(raw) = raw else {
        let login = || Box::new(OAuth { store: logins(key), ..OAuth::default() });
        return Ok((private && !has_header).then(login));
    };
    let oauth = match raw.exchange {
        Some(_) => Some(exchange(key, raw)?),
        None => table(key, raw)?,
    };
    let Some(oauth) = oauth else { return Ok(None) };
    let fault = |message: &str, hint: &str| Err(key.at_key(message).with_hint(hint));
    let is_api = matches!(transport, Transport::OpenApi { .. });
    match oauth.grant {
        Grant::Login | Grant::Enterprise if is_api => {
            fault("an API takes `type = \"client_credentials\"` alone", "a token of another kind belongs in `headers`")
        }
        _ if is_api && oauth.token_url.is_none() => {
            fault("`token_url` is missing", "the address where the API gives tokens; its documentation names it")
        }
        _ if has_header => fault("there is an Authorization header already", "keep one of the two"),
        _ if !private && !key.is_open(url) => fault("plain HTTP carries no tokens", "use an https URL"),
        _ => Ok(Some(Box::new(oauth))),
    }
}

/// Resolves `exchange`, whose keys stand in place of those of the table around it.
fn exchange(key: &Key<'_>, raw: RawAuth) -> Result<OAuth, ConfigError> {
    #[rustfmt::skip]
    let RawAuth {
        kind, login, exchange, scopes: wanted, client_id, client_secret, private_key, key_id, redirect_port,
        private_network, issuer, token_url,
    } = raw;
    for (name, is_set) in [
        ("type", kind.is_some()),
        ("login", login.is_some()),
        ("scopes", wanted.is_some()),
        ("client_id", client_id.is_some()),
        ("client_secret", client_secret.is_some()),
        ("private_key", private_key.is_some()),
        ("key_id", key_id.is_some()),
        ("redirect_port", redirect_port.is_some()),
        ("issuer", issuer.is_some()),
        ("token_url", token_url.is_some()),
    ] {
        if is_set {
            let error = key.key(name).at_value("has no use beside `exchange`");
            return Err(
                error.with_hint("there is no login: put the keys of the token endpoint's client into `exchange`")
            );
        }
    }
    let (key, raw) = (key.key("exchange"), exchange.unwrap_or_default());
    let audience = key.given("audience", raw.audience, Key::filled)?;
    let resource = key.given("resource", raw.resource, Key::filled)?;
    let token_url = key.given("token_endpoint", raw.token_endpoint, Key::filled)?;
    if token_url.is_none() || audience.is_none() && resource.is_none() {
        let error = key.at_key("needs `token_endpoint`, and `audience` or `resource`");
        return Err(error.with_hint("the provider's token endpoint, and its name for the server"));
    }
    let client = client(&key, (raw.client_id, raw.client_secret, raw.private_key, raw.key_id))?;
    if !client.proves_itself() {
        return Err(key.at_key(NEEDS_CLIENT));
    }
    if token_url.as_deref().is_some_and(is_open) {
        return Err(key.key("token_endpoint").at_value(NO_HTTPS));
    }
    let (scopes, private_network) = (scopes(&key.key("scopes"), raw.scopes)?, private_network.unwrap_or(false));
    let grant = Grant::Exchange;
    Ok(OAuth { grant, login: Login::User, scopes, private_network, token_url, audience, resource, ..client })
}

/// Resolves the client at an authorization server: its id, and a secret or a private key with its id.
pub(super) fn client(
    key: &Key<'_>,
    (id, secret, private, key_id): (Option<String>, Option<RawCredential>, Option<RawCredential>, Option<String>),
) -> Result<OAuth, ConfigError> {
    let oauth = OAuth {
        client_id: key.given("client_id", id, Key::filled)?,
        client_secret: key.given("client_secret", secret, credential::one)?,
        private_key: key.given("private_key", private, credential::one)?,
        key_id: key.given("key_id", key_id, Key::filled)?,
        ..OAuth::default()
    };
    let fault = |message: &str| Err(key.at_key(message));
    match (&oauth.client_id, &oauth.client_secret, &oauth.private_key, &oauth.key_id) {
        (None, Some(_), ..) => fault("`client_secret` without `client_id`"),
        (None, _, Some(_), _) => fault("`private_key` without `client_id`"),
        (_, _, None, Some(_)) => fault("`key_id` without `private_key`"),
        _ => Ok(oauth),
    }
}

const NEEDS_CLIENT: &str = "needs `client_id`, and `client_secret` or `private_key`";
pub(super) const NO_HTTPS: &str = "not an https URL";

/// True for an address to which no token may go.
fn is_open(url: &str) -> bool {
    !Url::parse(url).is_ok_and(|url| is_private(&url))
}

/// Checks that each client is one person where a server wants the login of each: runs and results are of a client.
pub(super) fn check(key: &Key<'_>, config: &Config) -> Result<(), ConfigError> {
    check_subjects(key, config)?;
    let many =
        |(_, client): &(&String, &super::Client)| !client.claims().is_empty() && !client.claims().contains_key("sub");
    let Some((client, _)) = config.clients.iter().find(many) else { return Ok(()) };
    match config.servers.iter().find(|(_, server)| server.login() == Login::User) {
        None => Ok(()),
        Some((name, server)) => {
            let at = if server.exchanges() { "exchange" } else { "login" };
            let message = format!("several people can be the client `{client}`, whose claims name no `sub`");
            let key = key.key(name).key("auth").key(at);
            Err(key.at_value(message).with_hint("name `sub` there, or let them in by a row of [[http.oauth.map]]"))
        }
    }
}

/// Checks that `match_subject` can tell whose login one is.
fn check_subjects(key: &Key<'_>, config: &Config) -> Result<(), ConfigError> {
    let matching = |(_, server): &(&String, &super::Server)| {
        let identity = server.auth.as_ref().and_then(|oauth| oauth.identity.as_ref());
        server.login() != Login::Gateway && identity.is_some_and(|identity| identity.match_subject)
    };
    let Some((name, server)) = config.servers.iter().find(matching) else { return Ok(()) };
    let ours = server.auth.as_ref().and_then(|oauth| oauth.identity.as_ref()).map(|identity| identity.url.as_str());
    let theirs = config.http.oauth.as_ref().map(|oauth| oauth.issuer.trim_end_matches('/'));
    let key = key.key(name).key("auth").key("login");
    if theirs != ours.map(|issuer| issuer.trim_end_matches('/')) {
        let error = key.at_value("`match_subject` needs the issuer of [identity] in [http.oauth] too");
        return Err(error.with_hint("subjects of another issuer are other names; remove `match_subject`"));
    }
    match config.clients.iter().find(|(_, client)| !client.claims().is_empty()) {
        None => Ok(()),
        Some((client, _)) => {
            let error =
                key.at_value(format!("`match_subject` cannot tell whose login that of the client `{client}` is"));
            Err(error.with_hint("let people in by rows of [[http.oauth.map]], not by claims of [clients]"))
        }
    }
}

/// Folder of stored logins.
pub(super) fn logins(key: &Key<'_>) -> Option<PathBuf> {
    own_folder(key.env?, "XDG_DATA_HOME", ".local/share").map(|folder| folder.join("auth"))
}

/// Resolves the table; `None` for `type = "none"`.
fn table(key: &Key<'_>, raw: RawAuth) -> Result<Option<OAuth>, ConfigError> {
    let grant = key.key("type").word(raw.kind)?.unwrap_or(Some(Grant::Login));
    let scopes = scopes(&key.key("scopes"), raw.scopes)?;
    let client = client(key, (raw.client_id, raw.client_secret, raw.private_key, raw.key_id))?;
    let redirect_port = port(&key.key("redirect_port"), raw.redirect_port)?;
    if grant == Some(Grant::ClientCredentials) && !client.proves_itself() {
        return Err(key.at_key(NEEDS_CLIENT));
    }
    if grant == Some(Grant::Enterprise) && (client.client_id.is_none() || redirect_port.is_some()) {
        let error = key.at_key("needs `client_id`, and no `redirect_port`");
        return Err(error
            .with_hint("the gateway's client at the server's authorization server; the login is that of [identity]"));
    }
    let issuer = key.given("issuer", raw.issuer, Key::filled)?;
    if issuer.as_deref().is_some_and(is_open) {
        let error = key.key("issuer").at_value(NO_HTTPS);
        return Err(error.with_hint("the `issuer` that the authorization server says of itself"));
    }
    let token_url = key.given("token_url", raw.token_url, Key::filled)?;
    if token_url.as_deref().is_some_and(is_open) {
        return Err(key.key("token_url").at_value(NO_HTTPS));
    }
    if token_url.is_some() && grant != Some(Grant::ClientCredentials) {
        let error = key.key("token_url").at_value("is for `type = \"client_credentials\"`");
        return Err(error.with_hint("a person logs in where the server says"));
    }
    let login = key.key("login").word(raw.login)?.unwrap_or_default();
    if login != Login::Gateway && !matches!(grant, Some(Grant::Login | Grant::Enterprise)) {
        let error = key.key("login").at_value("is for `type = \"oauth\"` and \"enterprise\"");
        return Err(error.with_hint("a program has one login, with its own secret"));
    }
    let private_network = raw.private_network.unwrap_or(false);
    let store = logins(key);
    let with =
        |grant| OAuth { grant, login, scopes, redirect_port, private_network, issuer, token_url, store, ..client };
    Ok(grant.map(with))
}

pub(super) fn port(key: &Key<'_>, port: Option<i64>) -> Result<Option<u16>, ConfigError> {
    let checked = |port| u16::try_from(port).ok().filter(|port| *port > 0);
    match port.map(checked) {
        Some(None) => Err(key.at_value("not a port: a number from 1 to 65535")),
        port => Ok(port.flatten()),
    }
}

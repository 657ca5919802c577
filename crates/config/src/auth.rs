//! Authentication to an HTTP server: `[servers.<name>.auth]`.

use std::path::PathBuf;
use std::sync::Arc;

use url::Url;

use super::credential::{self, Credential};
use super::error::ConfigError;
use super::key::{Key, own_folder};
use super::oauth::scopes;
use super::raw::RawAuth;
use super::state::Sealing;
use super::words::words;
use super::{Config, Transport};
use base::address::is_private;

/// Authentication to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Auth {
    /// None: the server needs none, or the credentials are in `headers` or `env`.
    None,
    /// Login by a person with `forgefs auth login`, if the server asks for it.
    Login(Box<OAuth>),
    /// Client credentials of this program.
    ClientCredentials(Box<OAuth>),
    /// The caller's access token, exchanged for one of the server. Lists, and this machine's user, have client credentials.
    Exchange(Box<OAuth>),
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

/// Settings of a login beyond the server's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuth {
    /// Owner of the login that a call uses.
    pub login: Login,
    /// Scopes to request; empty leaves them to the server.
    pub scopes: Vec<String>,
    /// Client id, or the https address of a client metadata document. Without one, a client is registered.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Credential>,
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
    /// Folder of stored logins.
    pub store: Option<PathBuf>,
    /// Keys that encrypt them.
    pub sealing: Option<Arc<Sealing>>,
}

impl Auth {
    /// Owner of the login that a call uses.
    #[must_use]
    pub fn login(&self) -> Login {
        self.oauth().map_or(Login::Gateway, |oauth| oauth.login)
    }

    /// Settings of its login, if it has one.
    #[must_use]
    pub fn oauth(&self) -> Option<&OAuth> {
        match self {
            Self::Login(oauth) | Self::ClientCredentials(oauth) | Self::Exchange(oauth) => Some(oauth),
            Self::None => None,
        }
    }

    pub(super) fn oauth_mut(&mut self) -> Option<&mut OAuth> {
        match self {
            Self::Login(oauth) | Self::ClientCredentials(oauth) | Self::Exchange(oauth) => Some(oauth),
            Self::None => None,
        }
    }
}

/// Value of `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OAuth,
    ClientCredentials,
    /// Without a word: by the table `exchange`.
    Exchange,
    None,
}

words!(Kind: "oauth" = OAuth, "client_credentials" = ClientCredentials, "none" = None);

/// Resolves the authentication of a server. Without a table a person may log in, unless the server is not on HTTP, has
/// credentials in `headers`, or is on plain HTTP beyond this machine.
pub(super) fn auth(key: &Key<'_>, raw: Option<RawAuth>, transport: &Transport) -> Result<Auth, ConfigError> {
    let (url, headers) = match transport {
        Transport::Http { url, headers, .. } => (url, headers),
        Transport::OpenApi { .. } if raw.is_none() => return Ok(Auth::None),
        Transport::OpenApi { base_url: Some(url), headers, .. } => (url, headers),
        Transport::OpenApi { .. } => {
            let error = key.at_key("needs `base_url`");
            return Err(error.with_hint("the document must not decide where tokens go"));
        }
        Transport::Stdio { .. } => {
            return match raw {
                None => Ok(Auth::None),
                Some(_) => Err(key
                    .at_key("not a key of a stdio server")
                    .with_hint("a server that is started here takes its credentials from `env`")),
            };
        }
    };
    let private = Url::parse(url).is_ok_and(|url| is_private(&url));
    let has_header = headers.contains_key("authorization");
    let Some(raw) = raw else {
        let store = logins(key);
        return Ok(match has_header || !private {
            true => Auth::None,
            false => Auth::Login(Box::new(OAuth { store, ..OAuth::default() })),
        });
    };
    let (kind, oauth) = match raw.exchange {
        Some(_) => (Kind::Exchange, exchange(key, raw)?),
        None => table(key, raw)?,
    };
    let fault = |message: &str, hint: &str| Err(key.at_key(message).with_hint(hint));
    let is_api = matches!(transport, Transport::OpenApi { .. });
    match kind {
        Kind::None => Ok(Auth::None),
        Kind::OAuth if is_api => {
            fault("an API takes `type = \"client_credentials\"` alone", "a token of another kind belongs in `headers`")
        }
        _ if is_api && oauth.token_url.is_none() => {
            fault("`token_url` is missing", "the address where the API gives tokens; its documentation names it")
        }
        _ if has_header => fault("there is an Authorization header already", "keep one of the two"),
        _ if !private && !key.is_open(url) => fault("plain HTTP carries no tokens", "use an https URL"),
        Kind::OAuth => Ok(Auth::Login(Box::new(oauth))),
        Kind::ClientCredentials => Ok(Auth::ClientCredentials(Box::new(oauth))),
        Kind::Exchange => Ok(Auth::Exchange(Box::new(oauth))),
    }
}

/// Resolves `exchange`, whose keys stand in place of those of the table around it.
fn exchange(key: &Key<'_>, raw: RawAuth) -> Result<OAuth, ConfigError> {
    #[rustfmt::skip]
    let RawAuth {
        kind, login, exchange, scopes: wanted, client_id, client_secret, redirect_port, private_network, issuer, token_url,
    } = raw;
    for (name, is_set) in [
        ("type", kind.is_some()),
        ("login", login.is_some()),
        ("scopes", wanted.is_some()),
        ("client_id", client_id.is_some()),
        ("client_secret", client_secret.is_some()),
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
    let filled = |name: &str, text: Option<String>| text.map(|text| key.key(name).filled(text)).transpose();
    let (audience, resource) = (filled("audience", raw.audience)?, filled("resource", raw.resource)?);
    let token_url = filled("token_endpoint", raw.token_endpoint)?;
    if token_url.is_none() || audience.is_none() && resource.is_none() {
        let error = key.at_key("needs `token_endpoint`, and `audience` or `resource`");
        return Err(error.with_hint("the provider's token endpoint, and its name for the server"));
    }
    let client_id = filled("client_id", raw.client_id)?;
    let secret = |secret| credential::one(&key.key("client_secret"), secret);
    let client_secret = raw.client_secret.map(secret).transpose()?;
    if client_id.is_none() || client_secret.is_none() {
        return Err(key.at_key(NEEDS_CLIENT));
    }
    if token_url.as_deref().is_some_and(is_open) {
        return Err(key.key("token_endpoint").at_value(NO_HTTPS));
    }
    let (scopes, private_network) = (scopes(&key.key("scopes"), raw.scopes)?, private_network.unwrap_or(false));
    let (login, usual) = (Login::User, OAuth::default());
    Ok(OAuth { login, scopes, client_id, client_secret, private_network, token_url, audience, resource, ..usual })
}

const NEEDS_CLIENT: &str = "needs `client_id` and `client_secret`";
const NO_HTTPS: &str = "not an https URL";

/// True for an address to which no token may go.
fn is_open(url: &str) -> bool {
    !Url::parse(url).is_ok_and(|url| is_private(&url))
}

/// Checks that each client is one person where a server wants the login of each: runs and results are of a client.
pub(super) fn check(key: &Key<'_>, config: &Config) -> Result<(), ConfigError> {
    let many =
        |(_, client): &(&String, &super::Client)| !client.claims().is_empty() && !client.claims().contains_key("sub");
    let Some((client, _)) = config.clients.iter().find(many) else { return Ok(()) };
    match config.servers.iter().find(|(_, server)| server.auth.login() == Login::User) {
        None => Ok(()),
        Some((name, server)) => {
            let at = if matches!(server.auth, Auth::Exchange(_)) { "exchange" } else { "login" };
            let message = format!("several people can be the client `{client}`, whose claims name no `sub`");
            let key = key.key(name).key("auth").key(at);
            Err(key.at_value(message).with_hint("name `sub` there, or let them in by a row of [[http.oauth.map]]"))
        }
    }
}

/// Folder of stored logins.
fn logins(key: &Key<'_>) -> Option<PathBuf> {
    own_folder(key.env?, "XDG_DATA_HOME", ".local/share").map(|folder| folder.join("auth"))
}

fn table(key: &Key<'_>, raw: RawAuth) -> Result<(Kind, OAuth), ConfigError> {
    let filled = |name: &str, text: Option<String>| text.map(|text| key.key(name).filled(text)).transpose();
    let kind = key.key("type").word(raw.kind)?.unwrap_or(Kind::OAuth);
    let scopes = scopes(&key.key("scopes"), raw.scopes)?;
    let client_id = filled("client_id", raw.client_id)?;
    let secret_key = key.key("client_secret");
    let client_secret = raw.client_secret.map(|secret| credential::one(&secret_key, secret)).transpose()?;
    let port = |port| u16::try_from(port).ok().filter(|port| *port > 0);
    let redirect_port = raw.redirect_port.and_then(port);
    if raw.redirect_port.is_some() && redirect_port.is_none() {
        return Err(key.key("redirect_port").at_value("not a port: a number from 1 to 65535"));
    }
    let fault = |message: &str| Err(key.at_key(message));
    match (kind, &client_id, &client_secret) {
        (Kind::ClientCredentials, None, _) | (Kind::ClientCredentials, _, None) => {
            return fault(NEEDS_CLIENT);
        }
        (_, None, Some(_)) => return fault("`client_secret` without `client_id`"),
        _ => {}
    }
    let issuer = filled("issuer", raw.issuer)?;
    if issuer.as_deref().is_some_and(is_open) {
        let error = key.key("issuer").at_value(NO_HTTPS);
        return Err(error.with_hint("the `issuer` that the authorization server says of itself"));
    }
    let token_url = filled("token_url", raw.token_url)?;
    if token_url.as_deref().is_some_and(is_open) {
        return Err(key.key("token_url").at_value(NO_HTTPS));
    }
    if token_url.is_some() && kind != Kind::ClientCredentials {
        let error = key.key("token_url").at_value("is for `type = \"client_credentials\"`");
        return Err(error.with_hint("a person logs in where the server says"));
    }
    let login = key.key("login").word(raw.login)?.unwrap_or_default();
    if login != Login::Gateway && kind != Kind::OAuth {
        let error = key.key("login").at_value("is for `type = \"oauth\"`");
        return Err(error.with_hint("a program has one login, with its own secret"));
    }
    let private_network = raw.private_network.unwrap_or(false);
    let store = logins(key);
    let oauth = OAuth {
        login,
        scopes,
        client_id,
        client_secret,
        redirect_port,
        private_network,
        issuer,
        token_url,
        store,
        ..OAuth::default()
    };
    Ok((kind, oauth))
}

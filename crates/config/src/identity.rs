//! The identity provider of a company: `[identity]`.

use std::sync::Arc;

use url::Url;

use super::auth::{Grant, Login, NO_HTTPS, OAuth, client, logins, port};
use super::credential::{self, Credential};
use super::error::ConfigError;
use super::key::Key;
use super::oauth::{is_bare, scopes};
use super::raw::RawIdentity;
use base::address::is_private;

/// The `[identity]` table: the identity provider of a company, and the login there.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Issuer.
    pub url: Url,
    /// ID token of the one person whose gateway this is, in place of a login.
    pub id_token: Option<Credential>,
    /// True if a login must be of the subject of the client's access tokens, where both are of this issuer.
    pub match_subject: bool,
    /// Client and scopes of the login.
    pub oauth: OAuth,
}

impl Identity {
    /// Attaches it to a server that needs it.
    pub(super) fn attach(this: Option<&Arc<Self>>, key: &Key<'_>, oauth: &mut OAuth) -> Result<(), ConfigError> {
        if oauth.grant != Grant::Enterprise {
            return Ok(());
        }
        let Some(identity) = this else {
            let error = key.key("auth").key("type").at_value("needs the table [identity]");
            return Err(error.with_hint("name the identity provider there: `issuer` and `client_id`"));
        };
        if identity.id_token.is_some() && oauth.login != Login::Gateway {
            let error = key.key("auth").key("login").at_value("`id_token` of [identity] is that of one person");
            return Err(error.with_hint("remove `id_token`: each person logs in"));
        }
        oauth.identity = Some(Arc::clone(identity));
        Ok(())
    }
}

/// Resolves `[identity]`.
pub(super) fn identity(key: &Key<'_>, raw: RawIdentity) -> Result<Identity, ConfigError> {
    #[rustfmt::skip]
    let RawIdentity {
        issuer, client_id, client_secret, private_key, key_id, scopes: wanted, id_token, match_subject, redirect_port,
        private_network,
    } = raw;
    let client = client(key, (client_id, client_secret, private_key, key_id))?;
    let Some(issuer) = issuer.filter(|_| client.client_id.is_some()) else {
        let error = key.at_key("needs `issuer` and `client_id`");
        return Err(error.with_hint("the identity provider's URL, and the gateway's client there"));
    };
    let issuer = key.key("issuer").filled(issuer)?;
    let Some(url) = Url::parse(&issuer).ok().filter(|url| is_private(url) && is_bare(url)) else {
        return Err(key.key("issuer").at_value(NO_HTTPS));
    };
    let scopes = scopes(&key.key("scopes"), wanted)?;
    if !scopes.is_empty() && !scopes.iter().any(|scope| scope == "openid") {
        let error = key.key("scopes").at_value("has no `openid`");
        return Err(error.with_hint("without it there is no ID token, by which the provider vouches for a person"));
    }
    Ok(Identity {
        url,
        id_token: key.given("id_token", id_token, credential::one)?,
        match_subject: match_subject.unwrap_or(false),
        oauth: OAuth {
            issuer: Some(issuer),
            scopes,
            redirect_port: port(&key.key("redirect_port"), redirect_port)?,
            private_network: private_network.unwrap_or(false),
            store: logins(key),
            is_provider: true,
            ..client
        },
    })
}

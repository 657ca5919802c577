//! Authentication to an HTTP server: `[servers.<name>.auth]`.

use url::Url;

use super::credential::{self, Credential, RawCredential};
use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::RawAuth;
use super::values::Values;
use super::{Auth, OAuth, Transport};
use base::address::is_private;
use redact::secret::Secret;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OAuth,
    ClientCredentials,
    None,
}

/// Values of `type`.
pub(super) const KINDS: &[(&str, Kind)] =
    &[("oauth", Kind::OAuth), ("client_credentials", Kind::ClientCredentials), ("none", Kind::None)];

/// Resolves the authentication of a server. Without a table a person may log in, unless the server is not on HTTP, has
/// credentials in `headers`, or is on plain HTTP beyond this machine.
pub(super) fn auth(
    values: &Values<'_>,
    server: &KeyPath,
    raw: Option<RawAuth>,
    transport: &Transport,
) -> Result<Auth, ConfigError> {
    let key = &server.key("auth");
    let (url, headers) = match transport {
        Transport::Http { url, headers, .. } => (url, headers),
        Transport::OpenApi { .. } if raw.is_none() => return Ok(Auth::None),
        Transport::OpenApi { base_url: Some(url), headers, .. } => (url, headers),
        Transport::OpenApi { .. } => {
            let error = values.document.at_key(key, "needs `base_url`");
            return Err(error.with_hint("the document must not decide where tokens go"));
        }
        Transport::Stdio { .. } => {
            return match raw {
                None => Ok(Auth::None),
                Some(_) => Err(values
                    .document
                    .at_key(key, "not a key of a stdio server")
                    .with_hint("a server that is started here takes its credentials from `env`")),
            };
        }
    };
    let private = Url::parse(url).is_ok_and(|url| is_private(&url));
    let has_header = headers.contains_key("authorization");
    let Some(raw) = raw else {
        let store = values.own_folder("XDG_DATA_HOME", ".local/share").map(|folder| folder.join("auth"));
        return Ok(match has_header || !private {
            true => Auth::None,
            false => Auth::Login(Box::new(OAuth { store, ..OAuth::default() })),
        });
    };
    let (kind, oauth) = table(values, key, raw)?;
    let fault = |message: &str, hint: &str| Err(values.document.at_key(key, message).with_hint(hint));
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
        _ if !private && !values.is_open(url) => fault("plain HTTP carries no tokens", "use an https URL"),
        Kind::OAuth => Ok(Auth::Login(Box::new(oauth))),
        Kind::ClientCredentials => Ok(Auth::ClientCredentials(Box::new(oauth))),
    }
}

fn table(values: &Values<'_>, key: &KeyPath, raw: RawAuth) -> Result<(Kind, OAuth), ConfigError> {
    let kind = values.word(&key.key("type"), raw.kind, KINDS)?.unwrap_or(Kind::OAuth);
    let mut scopes = Vec::new();
    for (index, scope) in raw.scopes.unwrap_or_default().into_iter().enumerate() {
        let key = key.key("scopes").index(index);
        let scope = values.filled(&key, scope)?.text;
        // RFC 6749, section 3.3.
        if scope.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\')) {
            return Err(values.document.at_value(&key, "not a scope: one word without quotes and spaces"));
        }
        scopes.push(scope);
    }
    let client_id = raw.client_id.map(|id| values.filled(&key.key("client_id"), id)).transpose()?.map(|id| id.text);
    let client_secret = match raw.client_secret {
        Some(RawCredential::Text(secret)) => {
            let secret = values.filled(&key.key("client_secret"), secret)?.text;
            Some(Credential::Given(if values.env.is_some() { Secret::new(secret) } else { Secret::unlisted("") }))
        }
        Some(RawCredential::Table(raw)) => {
            Some(Credential::Kept(credential::source(values, &key.key("client_secret"), raw, false)?))
        }
        None => None,
    };
    let port = |port| u16::try_from(port).ok().filter(|port| *port > 0);
    let redirect_port = raw.redirect_port.and_then(port);
    if raw.redirect_port.is_some() && redirect_port.is_none() {
        return Err(values.document.at_value(&key.key("redirect_port"), "not a port: a number from 1 to 65535"));
    }
    let fault = |message: &str| Err(values.document.at_key(key, message));
    match (kind, &client_id, &client_secret) {
        (Kind::ClientCredentials, None, _) | (Kind::ClientCredentials, _, None) => {
            return fault("`type = \"client_credentials\"` needs `client_id` and `client_secret`");
        }
        (_, None, Some(_)) => return fault("`client_secret` without `client_id`"),
        _ => {}
    }
    let issuer =
        raw.issuer.map(|issuer| values.filled(&key.key("issuer"), issuer)).transpose()?.map(|issuer| issuer.text);
    if issuer.as_ref().is_some_and(|issuer| !Url::parse(issuer).is_ok_and(|url| is_private(&url))) {
        let error = values.document.at_value(&key.key("issuer"), "not an https URL");
        return Err(error.with_hint("the `issuer` that the authorization server says of itself"));
    }
    let token_key = key.key("token_url");
    let token_url = raw.token_url.map(|url| values.filled(&token_key, url)).transpose()?.map(|url| url.text);
    if token_url.as_ref().is_some_and(|url| !Url::parse(url).is_ok_and(|url| is_private(&url))) {
        return Err(values.document.at_value(&token_key, "not an https URL"));
    }
    if token_url.is_some() && kind != Kind::ClientCredentials {
        let error = values.document.at_value(&token_key, "is for `type = \"client_credentials\"`");
        return Err(error.with_hint("a person logs in where the server says"));
    }
    let private_network = raw.private_network.unwrap_or(false);
    let store = values.own_folder("XDG_DATA_HOME", ".local/share").map(|folder| folder.join("auth"));
    Ok((kind, OAuth { scopes, client_id, client_secret, redirect_port, private_network, issuer, token_url, store }))
}

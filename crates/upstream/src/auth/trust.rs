//! Authorization servers that get codes, tokens, secrets and proofs: which are trusted with them.

use rmcp::transport::auth::{AuthError, AuthorizationMetadata};
use url::Url;

use super::client::Client;
use super::discovery::{documents, is_document};
use super::record::Record;
use base::address::is_private;
use config::OAuth;

/// Checks the issuer against `auth.issuer` and the earlier login. For a client with a configured secret and neither of
/// them, it must be the MCP server's own origin: a hostile server could name any other to get the secret. So for one that
/// proves itself by a key, or brings an identity assertion.
pub(super) fn check_issuer(
    url: &Url,
    oauth: &OAuth,
    metadata: &AuthorizationMetadata,
    earlier: Option<&Record>,
) -> Result<(), AuthError> {
    let refuse = |why: String| Err(AuthError::AuthorizationFailed(why));
    let named = metadata.issuer.as_deref().unwrap_or_default();
    if let Some(pinned) = &oauth.issuer
        && !is_same(pinned, named)
    {
        return refuse(format!(
            "the server names another authorization server than the configured `auth.issuer`: {named} in place of \
             {pinned}; nothing was sent there"
        ));
    }
    if let Some(record) = earlier {
        let then = record.issuer().unwrap_or_default();
        return match is_same(then, named) {
            true => Ok(()),
            false => refuse(format!(
                "the server names another authorization server than the one that the login is from: {named} in place \
                 of {then}; nothing was sent there, and only a new login by a person changes it"
            )),
        };
    }
    let (own, issuer) = (url.origin(), if named.is_empty() { &metadata.token_endpoint } else { named });
    let is_own = Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == own);
    let proof = match (&oauth.client_secret, &oauth.private_key, &oauth.identity) {
        (Some(_), ..) => "`client_secret`",
        (_, Some(_), _) => "a proof of `private_key`",
        (.., Some(_)) => "what the identity provider says of people",
        _ => return Ok(()),
    };
    if oauth.issuer.is_none() && !is_own {
        return refuse(format!(
            "the server names the authorization server {issuer}, and {proof} would go there; if that is right, \
             set `auth.issuer = {issuer:?}` for this server"
        ));
    }
    Ok(())
}

/// Checks that the issuer itself names the token endpoint. If the endpoint is elsewhere, the MCP server's metadata
/// could have borrowed another issuer's name.
pub(super) async fn confirm(client: &Client, metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
    let token = &metadata.token_endpoint;
    let issuer = metadata.issuer.as_deref().unwrap_or_default();
    let Ok(url) = Url::parse(issuer) else {
        return Err(AuthError::AuthorizationFailed("its authorization server does not say its issuer".to_owned()));
    };
    if Url::parse(token).is_ok_and(|token| token.origin() == url.origin()) {
        return Ok(());
    }
    if documents(client, &url, issuer, |document| document.token_endpoint == *token).await.is_some() {
        return Ok(());
    }
    let why = format!("its token endpoint {token} is not one that the authorization server {issuer} itself names");
    Err(AuthError::AuthorizationFailed(why))
}

/// Issuers are equal if their text is, but for a trailing slash.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Checks the endpoints that get codes, tokens and secrets.
pub(super) fn check_endpoints(client: &Client, metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
    let endpoints = [
        ("authorization", Some(&metadata.authorization_endpoint)),
        ("token", Some(&metadata.token_endpoint)),
        ("registration", metadata.registration_endpoint.as_ref()),
    ];
    let mut named = endpoints.into_iter().filter_map(|(what, endpoint)| Some((what, endpoint?)));
    named.try_for_each(|(what, endpoint)| check_endpoint(client, &format!("{what} endpoint"), endpoint))
}

/// Checks one endpoint, which is `what`.
pub(super) fn check_endpoint(client: &Client, what: &str, endpoint: &str) -> Result<(), AuthError> {
    let wrong = match Url::parse(endpoint).ok().filter(is_private) {
        Some(url) if client.allows(&url) => return Ok(()),
        Some(_) => "is at an address not allowed to it",
        None => "is not https, so no login may go there",
    };
    Err(AuthError::AuthorizationFailed(format!("its {what} {endpoint} {wrong}")))
}

/// Checks PKCE. The specification refuses servers that do not announce it. A provider with a manually registered client
/// is not hostile, and some large ones do not announce what they support.
pub(super) fn check_pkce(metadata: &AuthorizationMetadata, oauth: &OAuth) -> Result<(), AuthError> {
    let by_hand = oauth.client_id.as_deref().is_some_and(|id| !is_document(id));
    match &metadata.code_challenge_methods_supported {
        Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
        None if by_hand => Ok(()),
        Some(_) | None => Err(AuthError::PkceUnsupported),
    }
}

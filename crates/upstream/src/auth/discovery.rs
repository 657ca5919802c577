//! Finds the authorization server of an MCP server, and refuses untrusted ones.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution,
    AuthorizationMetadataSource, OAuthClientConfig, OAuthHttpRedirectPolicy,
};
use serde_json::json;
use url::Url;

use super::assertion;
use super::client::Client;
use super::record::Record;
use super::trust::{check_endpoints, check_issuer, check_pkce, confirm, is_same};
use base::address::is_private;
use config::OAuth;

/// Total timeout of discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);
/// Timeout of the server's challenge.
const CHALLENGE_LIMIT: Duration = Duration::from_secs(10);

/// The authorization server of an MCP server, discovered.
pub(super) struct Found {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    /// Client that found it, and knows its issuer.
    pub(super) client: Arc<Client>,
    /// The server as tokens name it.
    pub(super) resource: Url,
}

/// A manager with the authorization server of the MCP server at `url`: that of an `earlier` login, or the one that the server
/// names, within the configuration.
///
/// # Errors
/// None was found within [`DISCOVERY_LIMIT`], or it is not trusted with a login.
pub(super) async fn manager(url: &Url, oauth: &OAuth, earlier: Option<&Record>) -> Result<Found, AuthError> {
    if !is_private(url) {
        let why = format!("{url} is plain HTTP, over which no token may travel; use https");
        return Err(AuthError::AuthorizationFailed(why));
    }
    assertion::check(oauth).await?;
    let found = tokio::time::timeout(DISCOVERY_LIMIT, found(url, oauth, earlier)).await;
    found.unwrap_or_else(|_| {
        let why = format!("its authorization server was not found within {} s", DISCOVERY_LIMIT.as_secs());
        Err(AuthError::AuthorizationFailed(why))
    })
}

async fn found(url: &Url, oauth: &OAuth, earlier: Option<&Record>) -> Result<Found, AuthError> {
    let client = Arc::new(Client::new(url, oauth)?);
    if oauth.is_provider {
        return provider(client, url, oauth, earlier).await;
    }
    let challenge = tokio::time::timeout(CHALLENGE_LIMIT, challenge(&client, url)).await.ok().flatten();
    let mut resource = url.clone();
    let mut resolved = resolve(&client, url, false, challenge.as_deref()).await;
    let is_of_resource = |(_, found): &Resolved| found.source == AuthorizationMetadataSource::ProtectedResourceMetadata;
    if let Some(named) = client.named()
        && !resolved.as_ref().is_ok_and(is_of_resource)
    {
        tracing::info!("the server at {url} names itself {named}: the login is for that name");
        resource = named.clone();
        resolved = resolve(&client, named, false, challenge.as_deref()).await;
    }
    if oauth.private_network
        && oauth.private_key.is_none()
        && !resolved.as_ref().is_ok_and(|(_, found)| found.source.is_discovered())
    {
        resolved = resolve(&client, &resource, true, challenge.as_deref()).await;
    }
    let (mut manager, resolution) = resolved?;
    let metadata = resolution.metadata;
    check_endpoints(&client, &metadata)?;
    let is_guessed = resolution.source == AuthorizationMetadataSource::LegacyEndpointFallback;
    // Where a provider vouches there is no code to protect.
    if !is_guessed && oauth.identity.is_none() {
        check_pkce(&metadata, oauth)?;
    }
    check_issuer(url, oauth, &metadata, earlier)?;
    if !is_guessed {
        confirm(&client, &metadata).await?;
    }
    client.is_at(metadata.issuer.as_deref());
    manager.set_metadata(metadata.clone());
    Ok(Found { manager, metadata, client, resource })
}

/// An identity provider, which is its own authorization server.
async fn provider(client: Arc<Client>, url: &Url, oauth: &OAuth, earlier: Option<&Record>) -> Result<Found, AuthError> {
    let named = oauth.issuer.as_deref().unwrap_or(url.as_str());
    let Some(metadata) = documents(&client, url, named, |_| true).await else {
        let why = format!("the identity provider {named} publishes no metadata of this name");
        return Err(AuthError::AuthorizationFailed(why));
    };
    check_endpoints(&client, &metadata)?;
    check_pkce(&metadata, oauth)?;
    check_issuer(url, oauth, &metadata, earlier)?;
    client.is_at(metadata.issuer.as_deref());
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url.clone(), Arc::clone(&client) as _).await?;
    manager.set_metadata(metadata.clone());
    Ok(Found { manager, metadata, client, resource: url.clone() })
}

/// The first document of an issuer in which it names itself so, and that is the wanted one.
pub(super) async fn documents(
    client: &Client,
    url: &Url,
    issuer: &str,
    is_wanted: impl Fn(&AuthorizationMetadata) -> bool,
) -> Option<AuthorizationMetadata> {
    for place in well_known(url) {
        let body = client.get(place).await;
        let document = body.and_then(|body| serde_json::from_slice::<AuthorizationMetadata>(&body).ok());
        let is_own = |document: &AuthorizationMetadata| {
            document.issuer.as_deref().is_some_and(|own| is_same(own, issuer)) && is_wanted(document)
        };
        if document.as_ref().is_some_and(is_own) {
            return document;
        }
    }
    None
}

type Resolved = (AuthorizationManager, AuthorizationMetadataResolution);

/// rmcp refuses private addresses itself (though not names), unless it gets a client of its own, `with_private`: only
/// its answers are not made readable.
async fn resolve(
    client: &Arc<Client>,
    url: &Url,
    with_private: bool,
    challenge: Option<&str>,
) -> Result<Resolved, AuthError> {
    let manager = match with_private {
        true => {
            let mut manager = AuthorizationManager::new_allowing_private_addresses(url.clone()).await?;
            manager.with_client(client.inner())?;
            manager
        }
        false => AuthorizationManager::new_with_oauth_http_client(url.clone(), Arc::clone(client) as _).await?,
    };
    let resolution = manager.resolve_metadata_from_challenge(challenge).await?;
    Ok((manager, resolution))
}

/// A manager for the client and the authorization server of an earlier login.
///
/// # Errors
/// As [`manager`]; and when the MCP server now names another authorization server, which must get neither the refresh
/// token nor the secret.
pub(super) async fn manager_of_record(
    url: &Url,
    oauth: &OAuth,
    record: &Record,
    client_secret: Option<String>,
) -> Result<AuthorizationManager, AuthError> {
    let mut manager = manager(url, oauth, Some(record)).await?.manager;
    let mut client = OAuthClientConfig::new(&record.credentials.client_id, &record.redirect_uri);
    if let Some(secret) = client_secret {
        client = client.with_client_secret(secret);
    }
    manager.configure_client(client)?;
    Ok(manager)
}

/// A manager for client credentials at a token endpoint that the operator named. Nothing is asked of the server.
///
/// # Errors
/// The endpoint is not one.
pub(super) async fn manager_at(url: &Url, oauth: &OAuth, token_url: &str) -> Result<AuthorizationManager, AuthError> {
    assertion::check(oauth).await?;
    let endpoint = Url::parse(token_url).map_err(|error| AuthError::AuthorizationFailed(error.to_string()))?;
    let client = Arc::new(Client::new(&endpoint, oauth)?);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url.clone(), client as _).await?;
    let mut metadata = AuthorizationMetadata::default();
    // Of the authorization endpoint only the form counts here.
    (metadata.authorization_endpoint, metadata.token_endpoint) = (token_url.to_owned(), token_url.to_owned());
    manager.set_metadata(metadata);
    Ok(manager)
}

/// Metadata URLs of an issuer (RFC 8414, OpenID Connect Discovery).
pub fn well_known(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_matches('/');
    let places = match path {
        "" => {
            vec!["/.well-known/oauth-authorization-server".to_owned(), "/.well-known/openid-configuration".to_owned()]
        }
        path => vec![
            format!("/.well-known/oauth-authorization-server/{path}"),
            format!("/.well-known/openid-configuration/{path}"),
            format!("/{path}/.well-known/openid-configuration"),
        ],
    };
    let at = |place: String| {
        let mut url = issuer.clone();
        url.set_path(&place);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    places.into_iter().map(at).collect()
}

/// The server's challenge to a message without a token: it may name scopes and the metadata URL. rmcp asks with GET
/// alone, which many servers do not challenge. `None` without a challenge.
async fn challenge(client: &Client, url: &Url) -> Option<String> {
    let (version, method) = ("2026-07-28", "server/discover");
    let message = json!({"jsonrpc": "2.0", "id": "login", "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "forgefs", "version": env!("CARGO_PKG_VERSION")},
    }}});
    let mut request = reqwest::Request::new(reqwest::Method::POST, url.clone());
    for (name, value) in [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
        ("mcp-method", method),
    ] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    *request.body_mut() = Some(message.to_string().into());
    let answer = client.send(request, OAuthHttpRedirectPolicy::Stop).await.ok()?;
    if answer.status() != reqwest::StatusCode::UNAUTHORIZED {
        return None;
    }
    let challenges = answer.headers().get_all(reqwest::header::WWW_AUTHENTICATE);
    let mut challenges = challenges.iter().filter_map(|challenge| challenge.to_str().ok());
    let is_bearer = |challenge: &&str| challenge.get(..7).is_some_and(|kind| kind.eq_ignore_ascii_case("bearer "));
    challenges.find(is_bearer).map(str::to_owned)
}

/// True if a client id is the URL of a client metadata document.
pub(super) fn is_document(client_id: &str) -> bool {
    Url::parse(client_id).is_ok_and(|url| url.scheme() == "https" && url.path() != "/" && url.has_host())
}

/// True if the authorization server supports client metadata documents.
pub(super) fn reads_documents(metadata: &AuthorizationMetadata) -> bool {
    let supported = metadata.additional_fields.get("client_id_metadata_document_supported");
    supported.and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// True if the authorization server wants a client's secret in the form of a request, not in its header.
pub(super) fn wants_secret_in_form(metadata: &AuthorizationMetadata) -> bool {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let has =
        |wanted: &str| methods.and_then(|all| all.as_array()).is_some_and(|all| all.iter().any(|one| one == wanted));
    has("client_secret_post") && !has("client_secret_basic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_both_specifications_put_it() {
        let of = |issuer: &str| -> Vec<String> {
            well_known(&Url::parse(issuer).expect("a URL")).into_iter().map(String::from).collect()
        };
        assert_eq!(
            of("https://id.example.com/realms/team/"),
            [
                "https://id.example.com/.well-known/oauth-authorization-server/realms/team",
                "https://id.example.com/.well-known/openid-configuration/realms/team",
                "https://id.example.com/realms/team/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            of("https://id.example.com/"),
            [
                "https://id.example.com/.well-known/oauth-authorization-server",
                "https://id.example.com/.well-known/openid-configuration"
            ]
        );
    }
}

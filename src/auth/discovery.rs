//! Finding the authorization server of an MCP server, and refusing those that must not be trusted.

use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, OAuthClientConfig,
};
use serde_json::json;
use url::Url;

use super::record::Record;
use crate::config::{OAuth, is_private};

/// How long revoking a token may take: a courtesy that nobody waits for.
const REVOKE_LIMIT: Duration = Duration::from_secs(10);
/// How long the server may take to say what it demands.
const CHALLENGE_LIMIT: Duration = Duration::from_secs(10);

/// A manager that knows the authorization server of the MCP server at `url`, and how it was found.
///
/// # Errors
/// None was found, or it cannot be trusted with a login.
pub(super) async fn manager(
    url: &Url,
    oauth: &OAuth,
) -> Result<(AuthorizationManager, AuthorizationMetadata), AuthError> {
    if !is_private(url) {
        let why = format!("{url} is plain HTTP, over which no token may travel; use https");
        return Err(AuthError::AuthorizationFailed(why));
    }
    let mut manager = match oauth.private_network {
        true => AuthorizationManager::new_allowing_private_addresses(url.clone()).await?,
        false => AuthorizationManager::new(url.clone()).await?,
    };
    let challenge = challenge(url).await;
    let resolution = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
    let metadata = resolution.metadata;
    check_endpoints(&metadata)?;
    if resolution.source != AuthorizationMetadataSource::LegacyEndpointFallback {
        check_pkce(&metadata, oauth)?;
    }
    manager.set_metadata(metadata.clone());
    Ok((manager, metadata))
}

/// A manager for the client and the authorization server of an earlier login.
///
/// # Errors
/// As [`manager`]; and `AuthorizationServerMismatch` when the MCP server now names another authorization server: the
/// refresh token must not go there.
pub(super) async fn manager_of_record(
    url: &Url,
    oauth: &OAuth,
    record: &Record,
    client_secret: Option<String>,
) -> Result<AuthorizationManager, AuthError> {
    let (mut manager, metadata) = manager(url, oauth).await?;
    let then = record.credentials.issuer.as_deref().unwrap_or_default();
    let now = metadata.issuer.as_deref().unwrap_or_default();
    if then != now {
        return Err(AuthError::AuthorizationServerMismatch {
            expected_issuer: then.to_owned(),
            received_issuer: now.to_owned(),
        });
    }
    let mut client = OAuthClientConfig::new(&record.credentials.client_id, &record.redirect_uri);
    if let Some(secret) = client_secret {
        client = client.with_client_secret(secret);
    }
    manager.configure_client(client)?;
    Ok(manager)
}

/// What the server demands of a message without a token: it may name the scopes, and where it describes itself.
/// rmcp asks with GET alone, to which many servers do not answer so. `None` if the server says nothing of the kind.
async fn challenge(url: &Url) -> Option<String> {
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(CHALLENGE_LIMIT).build();
    let (version, method) = ("2026-07-28", "server/discover");
    let message = json!({"jsonrpc": "2.0", "id": "login", "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "forgefs", "version": env!("CARGO_PKG_VERSION")},
    }}});
    let request = client.ok()?.post(url.clone()).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", version).header("mcp-method", method);
    let answer = request.body(message.to_string()).send().await.ok()?;
    if answer.status() != reqwest::StatusCode::UNAUTHORIZED {
        return None;
    }
    let challenges = answer.headers().get_all(reqwest::header::WWW_AUTHENTICATE);
    let mut challenges = challenges.iter().filter_map(|challenge| challenge.to_str().ok());
    let is_bearer = |challenge: &&str| challenge.get(..7).is_some_and(|kind| kind.eq_ignore_ascii_case("bearer "));
    challenges.find(is_bearer).map(str::to_owned)
}

/// Codes, tokens and secrets travel to these addresses.
fn check_endpoints(metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
    let endpoints = [
        ("authorization", Some(&metadata.authorization_endpoint)),
        ("token", Some(&metadata.token_endpoint)),
        ("registration", metadata.registration_endpoint.as_ref()),
    ];
    for (what, endpoint) in endpoints {
        if let Some(endpoint) = endpoint
            && !Url::parse(endpoint).is_ok_and(|url| is_private(&url))
        {
            let why = format!("its {what} endpoint {endpoint} is not https, so no login may go there");
            return Err(AuthError::AuthorizationFailed(why));
        }
    }
    Ok(())
}

/// The specification wants servers without a word on PKCE refused. A provider at which somebody registered this
/// client by hand is known not to be hostile, and some large ones keep silent about what they support.
fn check_pkce(metadata: &AuthorizationMetadata, oauth: &OAuth) -> Result<(), AuthError> {
    let by_hand = oauth.client_id.as_deref().is_some_and(|id| !is_document(id));
    match &metadata.code_challenge_methods_supported {
        Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
        None if by_hand => Ok(()),
        Some(_) | None => Err(AuthError::PkceUnsupported),
    }
}

/// Whether a client ID is the address of a document that describes the client.
pub(super) fn is_document(client_id: &str) -> bool {
    Url::parse(client_id).is_ok_and(|url| url.scheme() == "https" && url.path() != "/" && url.has_host())
}

/// Whether the authorization server reads such documents.
pub(super) fn reads_documents(metadata: &AuthorizationMetadata) -> bool {
    let supported = metadata.additional_fields.get("client_id_metadata_document_supported");
    supported.and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// Where tokens are revoked, if that is a place to send one to.
pub(super) fn revocation_endpoint(metadata: &AuthorizationMetadata) -> Option<String> {
    let endpoint = metadata.additional_fields.get("revocation_endpoint")?.as_str()?;
    Url::parse(endpoint).is_ok_and(|url| is_private(&url)).then(|| endpoint.to_owned())
}

/// Revokes a login (RFC 7009); whether the authorization server agreed.
pub(super) async fn revoke(record: &Record, client_secret: Option<String>) -> bool {
    let (Some(endpoint), Some((token, kind))) = (&record.revocation_endpoint, record.revocable()) else { return false };
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(REVOKE_LIMIT).build();
    let Ok(client) = client else { return false };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token).append_pair("token_type_hint", kind);
    form.append_pair("client_id", &record.credentials.client_id);
    if let Some(secret) = &client_secret {
        form.append_pair("client_secret", secret);
    }
    let request = client.post(endpoint).header("content-type", "application/x-www-form-urlencoded").body(form.finish());
    match request.send().await {
        Ok(response) => response.status().is_success(),
        Err(error) => {
            tracing::debug!(%error, "the token was not revoked");
            false
        }
    }
}

//! Revocation of a login at its authorization server (RFC 7009).

use std::time::Duration;

use rmcp::transport::auth::AuthorizationMetadata;
use url::Url;

use super::client::{Client, FORM};
use super::client_secret;
use super::record::Record;
use base::address::is_private;
use config::OAuth;

/// Timeout of a revocation, which is a courtesy.
const REVOKE_LIMIT: Duration = Duration::from_secs(10);

/// Revocation endpoint, if a token may be sent there.
pub(super) fn revocation_endpoint(metadata: &AuthorizationMetadata) -> Option<String> {
    let endpoint = metadata.additional_fields.get("revocation_endpoint")?.as_str()?;
    Url::parse(endpoint).is_ok_and(|url| is_private(&url)).then(|| endpoint.to_owned())
}

/// Revokes a login; true if the authorization server confirmed.
pub(super) async fn revoke(url: &Url, oauth: &OAuth, record: &Record) -> bool {
    let (Some(endpoint), Some((token, kind))) = (&record.revocation_endpoint, record.revocable()) else { return false };
    let fields = [("token", token), ("token_type_hint", kind), ("client_id", &record.credentials.client_id)];
    let secret = client_secret(oauth, record).await.ok().flatten();
    let fields = fields.into_iter().chain(secret.as_deref().map(|secret| ("client_secret", secret)));
    let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let answer = tokio::time::timeout(REVOKE_LIMIT, async {
        let endpoint = Url::parse(endpoint).ok().filter(is_private).ok_or("it is not https")?;
        let client = Client::new(url, oauth)?;
        client.is_at(record.issuer());
        client.post(endpoint, FORM, form).await
    });
    match answer.await {
        Ok(Ok(answer)) => answer.status().is_success(),
        Ok(Err(error)) => {
            tracing::warn!(%error, server = record.server, "the token was not revoked");
            false
        }
        Err(_) => false,
    }
}

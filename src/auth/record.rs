//! What a login leaves: tokens, and what renewing and revoking them takes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oauth2::TokenResponse as _;
use rmcp::transport::auth::StoredCredentials;
use serde::{Deserialize, Serialize};

/// A token that expires within this time is renewed before it is used.
const MARGIN: Duration = Duration::from_secs(30);

/// A stored login.
#[derive(Clone, Serialize, Deserialize)]
pub struct Record {
    /// Name of the server, for whoever looks at the file.
    pub(super) server: String,
    /// The server's URL: the tokens are for it alone.
    pub(super) url: String,
    /// The secret that came with dynamic registration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) client_secret: Option<String>,
    /// Where the authorization server sent the browser.
    pub(super) redirect_uri: String,
    /// Where tokens are revoked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) revocation_endpoint: Option<String>,
    /// Client, tokens, scopes and issuer, in rmcp's form.
    pub(super) credentials: StoredCredentials,
}

impl Record {
    /// The scopes that were granted.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.credentials.granted_scopes
    }

    /// Who issued the tokens.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.credentials.issuer.as_deref()
    }

    /// How long the access token lasts; `None` if nobody said. Zero when it has expired.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        remaining(&self.credentials)
    }

    /// Whether it can be renewed without a person.
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        is_renewable(&self.credentials)
    }

    /// Puts everything secret in it on the list of what is redacted.
    pub(super) fn list_secrets(&self) {
        self.client_secret.iter().for_each(|secret| super::hide(secret));
        list_secrets(&self.credentials);
    }

    /// The refresh token, else the access token: what to revoke.
    pub(super) fn revocable(&self) -> Option<(&str, &'static str)> {
        let response = self.credentials.token_response.as_ref()?;
        Some(match response.refresh_token() {
            Some(token) => (token.secret(), "refresh_token"),
            None => (response.access_token().secret(), "access_token"),
        })
    }
}

/// The access token.
pub(super) fn access(credentials: &StoredCredentials) -> Option<&str> {
    credentials.token_response.as_ref().map(|response| response.access_token().secret().as_str())
}

/// Whether the access token can be used without being renewed first.
pub(super) fn lasts(credentials: &StoredCredentials) -> bool {
    remaining(credentials).is_none_or(|remaining| remaining > MARGIN.min(lifetime(credentials) / 4))
}

/// Whether there is a refresh token.
pub(super) fn is_renewable(credentials: &StoredCredentials) -> bool {
    credentials.token_response.as_ref().is_some_and(|response| response.refresh_token().is_some())
}

/// Lists access, refresh and identity token for redaction.
pub(super) fn list_secrets(credentials: &StoredCredentials) {
    let Some(response) = &credentials.token_response else { return };
    super::hide(response.access_token().secret());
    response.refresh_token().iter().for_each(|token| super::hide(token.secret()));
    let identity = response.extra_fields().0.get("id_token").and_then(serde_json::Value::as_str);
    identity.iter().for_each(|token| super::hide(token));
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn lifetime(credentials: &StoredCredentials) -> Duration {
    credentials.token_response.as_ref().and_then(|response| response.expires_in()).unwrap_or_default()
}

fn remaining(credentials: &StoredCredentials) -> Option<Duration> {
    let lifetime = credentials.token_response.as_ref()?.expires_in()?;
    let age = now().saturating_sub(credentials.token_received_at?);
    Some(lifetime.saturating_sub(Duration::from_secs(age)))
}

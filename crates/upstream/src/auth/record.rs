//! Stored login: tokens, and the data for renewal and revocation.

use base::time::now_secs;
use std::sync::Arc;
use std::time::Duration;

use super::Person;
use config::OAuth;
use oauth2::TokenResponse as _;
use rmcp::transport::auth::StoredCredentials;
use serde::{Deserialize, Serialize};

/// A token that expires within this time is renewed before use.
const MARGIN: Duration = Duration::from_secs(30);

/// A stored login.
#[derive(Clone, Serialize, Deserialize)]
pub struct Record {
    /// Server name, for people who read the file.
    pub(super) server: String,
    /// Client whose login it is; none for that of the gateway.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) client: Option<Arc<str>>,
    /// Digest of the client's credentials.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) credentials_of_client: Option<Arc<str>>,
    /// The server's URL, for which alone the tokens are.
    pub(super) url: String,
    /// Secret from dynamic registration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) client_secret: Option<String>,
    /// Redirect URI of the login.
    pub(super) redirect_uri: String,
    /// Name of this login, which renewals keep.
    #[serde(default)]
    pub(super) id: String,
    /// Revocation endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) revocation_endpoint: Option<String>,
    /// The server's own name for itself, which the tokens are for, where a slash at the end tells it from `url`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) named: Option<String>,
    /// Client, tokens, scopes and issuer, in rmcp's form.
    pub(super) credentials: StoredCredentials,
}

impl Record {
    /// The client, with its credentials: see [`Person::name`].
    pub(super) fn person(&self) -> Option<Arc<str>> {
        let (client, credentials) = (self.client.as_ref()?, self.credentials_of_client.as_ref());
        Some(Person { client, credentials }.name())
    }

    /// Settings of this login in a server's configuration: one at an identity provider is for several servers. `None` if
    /// it is none of this server.
    pub(super) fn settings<'s>(&self, name: &str, server: &'s config::Server) -> Option<&'s OAuth> {
        let oauth = server.auth.oauth()?;
        match &oauth.identity {
            Some(identity) => (identity.url.as_str() == self.url).then_some(&identity.oauth),
            None => (self.server == name).then_some(oauth),
        }
    }

    /// Granted scopes.
    pub fn scopes(&self) -> &[String] {
        &self.credentials.granted_scopes
    }

    /// Issuer of the tokens.
    pub fn issuer(&self) -> Option<&str> {
        self.credentials.issuer.as_deref()
    }

    /// The name that the server has for itself, where it differs from its configured address.
    pub fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// Lifetime of the access token, of a login at the identity provider of the ID token; `None` if unknown, zero when it has expired.
    pub fn lasts(&self) -> Option<Duration> {
        if self.server == super::IDENTITY {
            return super::vouched::lasts(self);
        }
        remaining(&self.credentials)
    }

    /// True if it can be renewed without a person.
    pub fn is_renewable(&self) -> bool {
        is_renewable(&self.credentials)
    }

    /// Lists all its secrets for redaction.
    pub(super) fn list_secrets(&self) {
        self.client_secret.iter().for_each(|secret| super::hide(secret));
        list_secrets(&self.credentials);
    }

    /// The refresh token, else the access token, for revocation.
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

/// True if the access token is usable without renewal.
pub(super) fn lasts(credentials: &StoredCredentials) -> bool {
    remaining(credentials).is_none_or(|remaining| remaining > MARGIN.min(lifetime(credentials) / 4))
}

/// True if there is a refresh token.
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

fn lifetime(credentials: &StoredCredentials) -> Duration {
    credentials.token_response.as_ref().and_then(|response| response.expires_in()).unwrap_or_default()
}

fn remaining(credentials: &StoredCredentials) -> Option<Duration> {
    let lifetime = credentials.token_response.as_ref()?.expires_in()?;
    let age = now_secs().saturating_sub(credentials.token_received_at?);
    Some(lifetime.saturating_sub(Duration::from_secs(age)))
}

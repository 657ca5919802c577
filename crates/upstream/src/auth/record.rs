//! Stored login: tokens, and the data for renewal and revocation.

use base::time::now_secs;
use std::sync::Arc;
use std::time::Duration;

use super::held::MARGIN;
use super::revocation::revocation_endpoint;
use super::{Account, Person, hide};
use base::random;
use config::OAuth;
use oauth2::TokenResponse as _;
use rmcp::transport::auth::{AuthorizationMetadata, OAuthTokenResponse, StoredCredentials};
use serde::{Deserialize, Serialize};
use url::Url;

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
    /// A login of this account that begins, without tokens: at the server `resource`, by the client of this id and secret.
    pub(super) fn begun(
        account: &Account,
        metadata: &AuthorizationMetadata,
        resource: &Url,
        redirect_uri: &str,
        (id, secret): (String, Option<String>),
    ) -> Self {
        Self {
            server: account.filed().to_owned(),
            client: account.client.clone(),
            credentials_of_client: account.credentials.clone(),
            url: account.url.to_string(),
            client_secret: secret.filter(|_| account.oauth.client_secret.is_none()),
            redirect_uri: redirect_uri.to_owned(),
            id: random::id(),
            revocation_endpoint: revocation_endpoint(metadata),
            named: (*resource != account.url).then(|| resource.to_string()),
            credentials: StoredCredentials::new(id, None, Vec::new(), None),
        }
    }

    /// The client, with its credentials: see [`Person::name`].
    pub(super) fn person(&self) -> Option<Arc<str>> {
        let (client, credentials) = (self.client.as_ref()?, self.credentials_of_client.as_ref());
        Some(Person { client, credentials }.name())
    }

    /// Settings of this login in a server's configuration: one at an identity provider is for several servers. `None` if
    /// it is none of this server.
    pub(super) fn settings<'s>(&self, name: &str, server: &'s config::Server) -> Option<&'s OAuth> {
        let oauth = server.auth.as_deref()?;
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
        if self.server == super::IDENTITY { super::vouched::lasts(self) } else { self.remaining() }
    }

    /// True if it can be renewed without a person.
    pub fn is_renewable(&self) -> bool {
        self.tokens().is_some_and(|tokens| tokens.refresh_token().is_some())
    }

    /// Lists all its secrets for redaction.
    pub(super) fn list_secrets(&self) {
        self.client_secret.iter().for_each(|secret| hide(secret));
        self.tokens().into_iter().for_each(list_tokens);
    }

    /// The refresh token, else the access token, for revocation.
    pub(super) fn revocable(&self) -> Option<(&str, &'static str)> {
        let tokens = self.tokens()?;
        Some(match tokens.refresh_token() {
            Some(token) => (token.secret(), "refresh_token"),
            None => (tokens.access_token().secret(), "access_token"),
        })
    }

    /// The answer of the authorization server.
    pub(super) fn tokens(&self) -> Option<&OAuthTokenResponse> {
        self.credentials.token_response.as_ref()
    }

    /// The access token.
    pub(super) fn access(&self) -> Option<&str> {
        self.tokens().map(|tokens| tokens.access_token().secret().as_str())
    }

    /// True if the access token is usable without renewal.
    pub(super) fn is_fresh(&self) -> bool {
        let lifetime = self.tokens().and_then(|tokens| tokens.expires_in()).unwrap_or_default();
        self.remaining().is_none_or(|remaining| remaining > MARGIN.min(lifetime / 4))
    }

    fn remaining(&self) -> Option<Duration> {
        let age = now_secs().saturating_sub(self.credentials.token_received_at?);
        Some(self.tokens()?.expires_in()?.saturating_sub(Duration::from_secs(age)))
    }
}

/// Lists access, refresh and identity token for redaction.
pub(super) fn list_tokens(tokens: &OAuthTokenResponse) {
    hide(tokens.access_token().secret());
    tokens.refresh_token().iter().for_each(|token| hide(token.secret()));
    let identity = tokens.extra_fields().0.get("id_token").and_then(serde_json::Value::as_str);
    identity.iter().for_each(|token| hide(token));
}

//! A person's login: a URL for a browser, and its redirect.

use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use url::Url;

use super::discovery::{self, Found};
use super::explain::{error, refused};
use super::record::Record;
use super::store::{Keep, Store};
use super::{Account, configured_client, hide};
use base::error::Result;

/// A login that waits for the browser.
pub struct Login {
    account: Arc<Account>,
    store: Arc<Store>,
    manager: AuthorizationManager,
    record: Record,
    url: String,
    state: String,
    issuer: Option<String>,
}

impl Login {
    /// Finds the authorization server, registers this client and prepares the request. `more` are scopes beside those
    /// configured, or requested by the server; with any, those of an earlier login stay.
    ///
    /// # Errors
    /// The servers' error or missing feature, with a fix.
    pub async fn begin(account: &Arc<Account>, redirect_uri: &str, more: &[String]) -> Result<Self> {
        let store = account.for_person()?;
        let begun = Self::prepare(account, store, redirect_uri, more).await;
        begun.map_err(|failed| error(&account.server, &failed))
    }

    async fn prepare(
        account: &Arc<Account>,
        store: Arc<Store>,
        redirect_uri: &str,
        more: &[String],
    ) -> Result<Self, AuthError> {
        let Found { mut manager, metadata, resource, .. } =
            discovery::manager(&account.url, &account.oauth, None).await?;
        let scopes = account.scopes(&manager, &store, more).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = client(account, &mut manager, &metadata, redirect_uri, &scopes).await?;
        let identity = (client.client_id.clone(), client.client_secret.clone());
        let record = Record::begun(account, &metadata, &resource, &client.redirect_uri, identity);
        manager.configure_client(client)?;
        let mut url = manager.get_authorization_url(&scopes).await?;
        if account.oauth.is_provider {
            url = without_resource(&url)?;
        }
        let state = parameter(&url, "state").unwrap_or_default();
        Ok(Self { account: Arc::clone(account), store, manager, record, url, state, issuer: metadata.issuer })
    }

    /// URL for a browser.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Mark of its requests.
    pub(super) fn state(&self) -> &str {
        &self.state
    }

    /// Recognises the addresses of a browser's requests that belong to this login.
    pub fn is_mine(&self) -> impl Fn(&str) -> bool + Clone + Send + Sync + use<> {
        let state = self.state.clone();
        move |address| parameter(&full(address), "state").is_some_and(|found| found == state)
    }

    /// Parses the redirect, exchanges its code for tokens and stores them.
    ///
    /// # Errors
    /// The login was refused, the redirect belongs to another login or comes from another authorization server, or the
    /// exchange failed.
    pub async fn finish(mut self, address: &str) -> Result<Record> {
        let server = self.account.server.clone();
        let address = full(address);
        if !self.is_mine()(&address) {
            let why = "the address belongs to another login: its `state` is not the one that was sent";
            return Err(refused(&server, why));
        }
        if let Some(said) = parameter(&address, "error") {
            let description =
                parameter(&address, "error_description").map_or(String::new(), |text| format!(": {text}"));
            return Err(refused(&server, &format!("the authorization server said {said}{description}")));
        }
        let failed = |failed: AuthError| error(&server, &failed);
        let callback = AuthorizationCallback::from_redirect_url(&address).map_err(failed)?;
        hide(&callback.code);
        let _lock = self.store.lock().await.map_err(failed)?;
        self.manager.set_credential_store(Keep::new(
            Arc::clone(&self.store),
            self.record.clone(),
            Some(Arc::clone(&self.account)),
        ));
        // Both texts are one address: a host with and without its slash.
        let ours = self.issuer.as_deref().and_then(|ours| Url::parse(ours).ok());
        let is_ours = |said: &str| ours.is_some() && Url::parse(said).ok() == ours;
        let issuer = if callback.issuer.as_deref().is_some_and(is_ours) { self.issuer } else { callback.issuer };
        let exchange =
            self.manager.exchange_code_for_token_with_issuer(&callback.code, &callback.csrf_token, issuer.as_deref());
        exchange.await.map_err(failed)?;
        let stored = self.store.load().await.map_err(failed)?;
        stored.ok_or_else(|| refused(&server, "the tokens were not stored"))
    }
}

/// The client to log in as: the configured one, the client metadata document, or one registered now.
async fn client(
    account: &Account,
    manager: &mut AuthorizationManager,
    metadata: &AuthorizationMetadata,
    redirect_uri: &str,
    scopes: &[&str],
) -> Result<OAuthClientConfig, AuthError> {
    if let Some((id, secret)) = configured_client(&account.oauth, metadata).await? {
        let mut client = OAuthClientConfig::new(id, redirect_uri);
        client.client_secret = secret;
        return Ok(client);
    }
    let (mut redirect_uri, named) = (redirect_uri, redirect_uri.replace("//127.0.0.1:", "//localhost:"));
    let mut registered = manager.register_client("ForgeFS", redirect_uri, scopes).await;
    if let Err(AuthError::RegistrationFailed(why)) = &registered
        && why.starts_with("HTTP 4")
        && why.to_ascii_lowercase().contains("redirect")
        && redirect_uri != named
    {
        // Some take this machine by its name alone.
        redirect_uri = &named;
        registered = manager.register_client("ForgeFS", redirect_uri, scopes).await;
    }
    if let Err(AuthError::RegistrationFailed(why)) = &registered
        && why.starts_with("HTTP 4")
        && !scopes.is_empty()
    {
        // Some refuse scopes here and want them in the request for the login alone.
        registered = manager.register_client("ForgeFS", redirect_uri, &[]).await;
    }
    let client = registered?;
    client.client_secret.iter().for_each(|secret| hide(secret));
    Ok(client)
}

/// The address of a login at an identity provider, where some refuse the `resource` of MCP.
fn without_resource(address: &str) -> Result<String, AuthError> {
    let mut url = Url::parse(address).map_err(|error| AuthError::InternalError(error.to_string()))?;
    let others: Vec<_> = url.query_pairs().into_owned().filter(|(key, _)| key != "resource").collect();
    url.query_pairs_mut().clear().extend_pairs(others);
    Ok(url.into())
}

/// A query parameter of a URL.
fn parameter(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Completes a pasted address: whole, or only the part after the `?`.
fn full(address: &str) -> String {
    let address = address.trim().trim_matches(['"', '\'', '<', '>']);
    match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://127.0.0.1/?{}", address.rsplit('?').next().unwrap_or_default()),
    }
}

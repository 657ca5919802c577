//! Tokens of an account: the one in use, its renewal, and a program's own.

use std::sync::Arc;
use std::time::Duration;

use oauth2::TokenResponse as _;
use rmcp::transport::auth::{AuthError, ClientCredentialsConfig};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::discovery;
use super::held::{Held, until};
use super::record::list_tokens;
use super::store::Keep;
use super::{Account, Means, client_secret, configured_secret};

/// Delay before the retry when the server refused a fresh token: it does not want such tokens.
const REFUSED_AT_ONCE: Duration = Duration::from_secs(30);

impl Account {
    /// The current token, renewed if it is about to expire. `None` without a login: the request goes out without a
    /// token, and the server decides whether it needs one.
    ///
    /// # Errors
    /// There is a login, and its renewal failed for a temporary reason.
    pub async fn token(self: &Arc<Self>) -> Result<Option<String>, AuthError> {
        let held = match &self.means {
            Means::Exchange(exchange) => return exchange.token(&self.url, &self.oauth, None).await.map(Some),
            Means::Login => {
                let Some(record) = self.stored().await? else { return Ok(None) };
                return match record.access().map(str::to_owned) {
                    Some(token) if !record.is_fresh() => self.renew(Some(token)).await,
                    token => Ok(token),
                };
            }
            Means::Vouched(vouched) => vouched.held(self).await?,
            Means::Program(held) => Held::good(&*held.lock().await, None, None),
        };
        match held {
            Some(token) => Ok(Some(token)),
            None => self.renew(None).await,
        }
    }

    /// Renews an expired or refused token; `None` when only a new login helps.
    ///
    /// # Errors
    /// As [`Account::token`].
    pub async fn renew(self: &Arc<Self>, refused: Option<String>) -> Result<Option<String>, AuthError> {
        if let (Some((last, at)), Some(refused)) = (self.renewed.lock().clone(), &refused)
            && last == *refused
            && at.elapsed() < REFUSED_AT_ONCE
        {
            return Ok(None);
        }
        let account = Arc::clone(self);
        // A task of its own: a cancelled caller must not lose a refresh token that was already exchanged.
        let task = tokio::spawn(async move {
            let refused = refused.as_deref();
            let token = match &account.means {
                Means::Exchange(exchange) => Some(exchange.token(&account.url, &account.oauth, refused).await?),
                Means::Vouched(vouched) => vouched.token(&account, refused).await?,
                Means::Login => account.refresh(refused).await?,
                Means::Program(held) => Some(account.obtain(held, refused).await?),
            };
            *account.renewed.lock() = token.clone().map(|token| (token, Instant::now()));
            Ok(token)
        });
        task.await.unwrap_or_else(|error| Err(AuthError::InternalError(error.to_string())))
    }

    /// Another token with the scopes that the server asks for, where no person has to log in for them.
    pub async fn widened(self: &Arc<Self>, scopes: Option<&str>) -> Option<String> {
        let (Means::Vouched(_), Some(scopes)) = (&self.means, scopes.map(str::to_owned)) else { return None };
        let account = Arc::clone(self);
        // A task of its own, as in `renew`.
        let task = tokio::spawn(async move {
            let Means::Vouched(vouched) = &account.means else { return None };
            let wider = vouched.widened(&account, &scopes).await;
            wider.inspect_err(|error| tracing::info!(server = account.server, %error, "no wider scopes")).ok().flatten()
        });
        task.await.ok().flatten()
    }

    /// Exchanges the refresh token, unless another process has done so since `refused` was current.
    pub(super) async fn refresh(&self, refused: Option<&str>) -> Result<Option<String>, AuthError> {
        let _one_here = self.renewal.lock().await;
        let Some(store) = &self.store else { return Ok(None) };
        let _one_anywhere = store.lock().await?;
        let Some(record) = store.load().await? else { return Ok(None) };
        let Some(current) = record.access().map(str::to_owned) else { return Ok(None) };
        if Some(current.as_str()) != refused && record.is_fresh() {
            return Ok(Some(current));
        }
        if !record.is_renewable() {
            return Ok(None);
        }
        let secret = client_secret(&self.oauth, &record).await?;
        let mut manager = discovery::manager_of_record(&self.url, &self.oauth, &record, secret).await?;
        manager.set_credential_store(Keep::new(Arc::clone(store), record, None));
        match manager.refresh_token().await {
            Ok(_) => Ok(store.load().await?.and_then(|record| record.access().map(str::to_owned))),
            Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gets a token with the client's own secret, unless another call has done so since `refused` was current.
    async fn obtain(&self, held: &Mutex<Option<Held>>, refused: Option<&str>) -> Result<String, AuthError> {
        let mut held = held.lock().await;
        if let Some(token) = Held::good(&held, None, refused) {
            return Ok(token);
        }
        let Some(client_id) = self.oauth.client_id.as_ref().filter(|_| self.oauth.proves_itself()) else {
            return Err(AuthError::ClientCredentialsError("the client has no secret and no key".to_owned()));
        };
        // In place of none, the assertion of a key is sent.
        let client_secret = configured_secret(&self.oauth).await?.unwrap_or_default();
        let (mut manager, resource) = match &self.oauth.token_url {
            Some(token_url) => (discovery::manager_at(&self.url, &self.oauth, token_url).await?, self.url.clone()),
            None => {
                let found = discovery::manager(&self.url, &self.oauth, None).await?;
                (found.manager, found.resource)
            }
        };
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: client_id.clone(),
            client_secret,
            scopes: self.oauth.scopes.clone(),
            resource: Some(resource.into()),
        };
        if self.oauth.private_key.is_none() {
            manager.validate_client_credentials_metadata(&config)?;
        }
        manager.configure_client_credentials(&config)?;
        let response = manager.exchange_client_credentials(&config).await?;
        list_tokens(&response);
        let token = response.access_token().secret().clone();
        // One that says no end is good until it is refused.
        let until = response.expires_in().map(|lasts| until(Some(lasts)));
        *held = Some(Held { token: token.clone(), until, of: None });
        Ok(token)
    }
}

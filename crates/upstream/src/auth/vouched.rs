//! Enterprise-managed authorization, an extension of MCP: the identity provider of a company, where the person is logged
//! in, vouches for them at the server's authorization server (ID-JAG), which gives the token. rmcp makes both exchanges
//! and checks that the assertion is for this server and this client.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oauth2::{ClientSecret, RefreshToken, TokenResponse as _};
use parking_lot::Mutex;
use rmcp::transport::auth::enterprise::{
    EmaAuthorizationServer, EmaClientAuthentication, EmaError, EmaExchangeRequest, EmaExchangeStage,
};
use rmcp::transport::auth::{AuthError, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::client::Client;
use super::discovery::{self, Found, Issuer, wants_secret_in_form};
use super::exchange::{said, until};
use super::record::Record;
use super::{Account, exposed, hide};
use base::time::now_secs;
use config::{Identity, OAuth};
use state::LoginVersion;

/// Time before its end at which an ID token is not used any more.
const MARGIN: u64 = 30;
/// Most scopes that a server may ask for.
const MOST_SCOPES: usize = 30;

/// Tokens of one server, for which the login of an account at the identity provider vouches.
pub(super) struct Vouched {
    server: Url,
    /// Client at the server's authorization server.
    oauth: OAuth,
    identity: Arc<Identity>,
    held: tokio::sync::Mutex<Option<Held>>,
    /// Scopes that the server asked for beside those that it names.
    more: Mutex<BTreeSet<String>>,
}

/// Token of the server.
struct Held {
    token: String,
    until: Instant,
    /// The login that vouched for it.
    of: Option<LoginVersion>,
}

impl Held {
    fn good(held: &Option<Self>, account: &Account, refused: Option<&str>) -> Option<String> {
        let held = held.as_ref().filter(|held| {
            held.of == account.version() && Some(held.token.as_str()) != refused && held.until > Instant::now()
        })?;
        hide(&held.token);
        Some(held.token.clone())
    }
}

/// Proof of the person's login.
enum Subject {
    IdToken(String),
    Refresh(RefreshToken),
}

impl Vouched {
    pub(super) fn new(server: Url, oauth: OAuth, identity: Arc<Identity>) -> Self {
        Self { server, oauth, identity, held: tokio::sync::Mutex::default(), more: Mutex::default() }
    }

    /// True if a person logs in; else the configuration has an ID token.
    pub(super) fn is_of_person(&self) -> bool {
        self.identity.id_token.is_none()
    }

    /// Notes scopes that the server asks for; true if they are new, and the operator has left scopes to the server. The
    /// identity provider decides whether the person gets them.
    pub(super) fn widens(&self, scopes: &str) -> bool {
        let mut more = self.more.lock();
        let new: Vec<&str> = scopes.split_whitespace().filter(|scope| !more.contains(*scope)).collect();
        let is_allowed = self.oauth.scopes.is_empty() && !new.is_empty() && more.len() + new.len() <= MOST_SCOPES;
        more.extend(new.into_iter().filter(|_| is_allowed).map(str::to_owned));
        is_allowed
    }

    /// The server's token, if it is still good, and not the `refused` one.
    pub(super) async fn held(&self, account: &Account, refused: Option<&str>) -> Option<String> {
        Held::good(&*self.held.lock().await, account, refused)
    }

    /// The server's token; another one if that in use was `refused`. `None` if the person has to log in.
    ///
    /// # Errors
    /// The identity provider or the server's authorization server refuses, in its words, or cannot be reached.
    pub(super) async fn token(&self, account: &Account, refused: Option<&str>) -> Result<Option<String>, AuthError> {
        let mut held = self.held.lock().await;
        if let Some(token) = Held::good(&held, account, refused) {
            return Ok(Some(token));
        }
        *held = None;
        let Some(subject) = self.subject(account).await? else { return Ok(None) };
        *held = Some(self.obtain(account, &subject).await?);
        Ok(held.as_ref().map(|held| held.token.clone()))
    }

    async fn obtain(&self, account: &Account, subject: &Subject) -> Result<Held, AuthError> {
        let of = account.version();
        let provider = discovery::manager(&self.identity.url, &self.identity.oauth, Issuer::Named).await?;
        let server = discovery::manager(&self.server, &self.oauth, Issuer::Named).await?;
        let [there, here] =
            [registered(&provider, &self.identity.oauth).await?, registered(&server, &self.oauth).await?];
        let resource = server.resource.as_str();
        let mut scopes = self.oauth.scopes.clone();
        if scopes.is_empty() {
            scopes = server.manager.select_initial_scopes(&[]).await;
            // For refresh tokens, which the login at the identity provider has.
            scopes.retain(|scope| scope != "offline_access");
            scopes.extend(self.more.lock().iter().cloned());
            scopes.sort();
            scopes.dedup();
        }
        let request = match subject {
            Subject::IdToken(token) => EmaExchangeRequest::new_with_id_token(there, here, resource, token),
            Subject::Refresh(token) => EmaExchangeRequest::new(there, here, resource, token),
        };
        let (provider, server) = (Heard::new(&provider.client), Heard::new(&server.client));
        let request = request.with_scopes(scopes);
        let vouched = request.exchange_id_jag(&provider).await.map_err(|failed| self.told(&failed, &provider))?;
        hide(vouched.assertion().secret());
        let found = vouched.exchange(&server).await.map_err(|failed| self.told(&failed, &server))?;
        let token = found.access_token.secret().clone();
        hide(&token);
        Ok(Held { token, until: until(found.expires_in), of })
    }

    /// Proof that the person is logged in, renewed where that is possible.
    async fn subject(&self, account: &Account) -> Result<Option<Subject>, AuthError> {
        if let Some(token) = &self.identity.id_token {
            return Ok(Some(Subject::IdToken(exposed(token).await?)));
        }
        let Some(mut record) = account.stored().await? else { return Ok(None) };
        if id_token(&record).is_none() {
            let Some(access) = super::record::access(&record.credentials).map(str::to_owned) else { return Ok(None) };
            if account.refresh(Some(&access)).await?.is_none() {
                return Ok(None);
            }
            let Some(renewed) = account.stored().await? else { return Ok(None) };
            record = renewed;
        }
        let refresh = || {
            let response = record.credentials.token_response.as_ref()?;
            response.refresh_token().cloned().map(Subject::Refresh)
        };
        Ok(id_token(&record).map(Subject::IdToken).or_else(refresh))
    }

    /// Checks that a login at the identity provider is the account of the client, where the client's own tokens say it.
    ///
    /// # Errors
    /// It is another person's.
    pub(super) fn check_subject(&self, client: Option<&str>, record: &Record) -> Result<(), String> {
        let matches = |client: &&str| self.identity.match_subject && config::is_of_token(client);
        let Some(client) = client.filter(matches) else { return Ok(()) };
        let subject = token(record).and_then(claims).and_then(|claims| claims["sub"].as_str().map(str::to_owned));
        let issuer = self.identity.oauth.issuer.as_deref().unwrap_or_default();
        match subject.is_some_and(|subject| config::client_of_token(issuer, &subject) == client) {
            true => Ok(()),
            false => Err(format!("the account is not that of `{client}`, whose login it would be")),
        }
    }

    /// An error of the exchange, with the words of the one that refused.
    fn told(&self, failed: &EmaError, heard: &Heard<'_>) -> AuthError {
        let words = heard.words.lock().clone();
        match failed {
            EmaError::RequestFailed(stage) => {
                let at = match stage {
                    EmaExchangeStage::IdentityProvider => self.identity.url.as_str(),
                    _ => "the server's authorization server",
                };
                AuthError::TokenRefreshFailed(format!("{at} does not answer"))
            }
            _ if words.is_empty() => AuthError::AuthorizationFailed(format!("{failed}")),
            _ => AuthError::AuthorizationFailed(words),
        }
    }
}

/// The ID token of a login, if it is still good.
fn id_token(record: &Record) -> Option<String> {
    let token = token(record)?;
    let expires = claims(token)?["exp"].as_f64()?;
    (expires > (now_secs() + MARGIN) as f64).then(|| token.to_owned())
}

fn token(record: &Record) -> Option<&str> {
    record.credentials.token_response.as_ref()?.extra_fields().0.get("id_token")?.as_str()
}

/// Claims of a token that came from the provider itself; its signature is for those who get it.
fn claims(token: &str) -> Option<Value> {
    let body = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&body).ok()
}

/// An authorization server with the client that is registered there. A client with a key proves itself in [`Client`].
async fn registered(found: &Found, oauth: &OAuth) -> Result<EmaAuthorizationServer, AuthError> {
    let issuer = found.metadata.issuer.clone().unwrap_or_default();
    let id = oauth.client_id.clone().unwrap_or_default();
    let server = EmaAuthorizationServer::new(issuer, found.metadata.token_endpoint.clone(), id);
    let Some(secret) = &oauth.client_secret else { return Ok(server) };
    let secret = ClientSecret::new(exposed(secret).await?);
    Ok(server.with_client_authentication(match wants_secret_in_form(&found.metadata) {
        true => EmaClientAuthentication::ClientSecretPost(secret),
        false => EmaClientAuthentication::ClientSecretBasic(secret),
    }))
}

/// Keeps the words of a refusal, which rmcp drops.
struct Heard<'a> {
    client: &'a Client,
    words: Mutex<String>,
}

impl<'a> Heard<'a> {
    fn new(client: &'a Client) -> Self {
        Self { client, words: Mutex::default() }
    }
}

impl OAuthHttpClient for Heard<'_> {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let place = request.request.uri().to_string();
            let answer = self.client.execute(request).await?;
            if !answer.status().is_success() {
                *self.words.lock() = format!("{place} answers {}{}", answer.status(), said(answer.body()));
            }
            Ok(answer)
        })
    }
}

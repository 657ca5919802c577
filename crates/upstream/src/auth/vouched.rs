//! Enterprise-managed authorization, an extension of MCP: the identity provider of a company, where the person is logged
//! in, vouches for them at the server's authorization server (ID-JAG), which gives the token. rmcp makes both exchanges
//! and checks that the assertion is for this server and this client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oauth2::{ClientSecret, RefreshToken, TokenResponse as _};
use parking_lot::Mutex;
use rmcp::transport::auth::enterprise::{
    EmaAuthorizationServer, EmaClientAuthentication, EmaError, EmaExchangeRequest, EmaExchangeStage,
};
use rmcp::transport::auth::{AuthError, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;
use url::Url;

use super::client::Client;
use super::discovery::{self, Found, wants_secret_in_form};
use super::exchange::said;
use super::held::{Held, MARGIN, until};
use super::record::Record;
use super::{Account, configured_secret, exposed, hide};
use base::time::now_secs;
use config::{Identity, OAuth};

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

/// Proof of the person's login.
#[derive(Clone)]
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

    /// Gets a token with the scopes that the server asks for, if the operator has left scopes to the server. The identity
    /// provider decides whether the person gets them. Where there is none, the token in use stays.
    ///
    /// # Errors
    /// As [`Vouched::token`].
    pub(super) async fn widened(&self, account: &Account, scopes: &str) -> Result<Option<String>, AuthError> {
        let mut all = self.more.lock().clone();
        let before = all.len();
        all.extend(scopes.split_whitespace().map(str::to_owned));
        if !self.oauth.scopes.is_empty() || all.len() == before || all.len() > MOST_SCOPES {
            return Ok(None);
        }
        let mut held = self.held.lock().await;
        let Some((of, subject)) = self.subject(account).await? else { return Ok(None) };
        let wider = self.obtain(of, &subject, &all).await?;
        let token = wider.token.clone();
        (*held, *self.more.lock()) = (Some(wider), all);
        Ok(Some(token))
    }

    /// The server's token, if it is still good.
    pub(super) async fn held(&self, account: &Account) -> Result<Option<String>, AuthError> {
        let of = self.login(account).await?.map(|record| record.id);
        Ok(Held::good(&*self.held.lock().await, of.as_deref(), None).filter(|_| of.is_some() || !self.is_of_person()))
    }

    /// The login, if it is one of the account.
    async fn login(&self, account: &Account) -> Result<Option<Record>, AuthError> {
        match self.is_of_person() {
            true => Ok(account.stored().await?.filter(|record| self.check_subject(account.client(), record).is_ok())),
            false => Ok(None),
        }
    }

    /// The server's token; another one if that in use was `refused`. `None` if the person has to log in.
    ///
    /// # Errors
    /// The identity provider or the server's authorization server refuses, in its words, or cannot be reached.
    pub(super) async fn token(&self, account: &Account, refused: Option<&str>) -> Result<Option<String>, AuthError> {
        let mut held = self.held.lock().await;
        let of = self.login(account).await?.map(|record| record.id);
        if let Some(token) = Held::good(&held, of.as_deref(), refused) {
            return Ok(Some(token));
        }
        *held = None;
        let Some((of, subject)) = self.subject(account).await? else { return Ok(None) };
        let more = self.more.lock().clone();
        *held = Some(self.obtain(of, &subject, &more).await?);
        Ok(held.as_ref().map(|held| held.token.clone()))
    }

    /// Has the identity provider vouch for the person, and gets the server's token with these scopes beside the usual ones.
    async fn obtain(&self, of: Option<String>, subject: &Subject, more: &BTreeSet<String>) -> Result<Held, AuthError> {
        let provider = discovery::manager(&self.identity.url, &self.identity.oauth, None).await?;
        let server = discovery::manager(&self.server, &self.oauth, None).await?;
        let [there, here] =
            [registered(&provider, &self.identity.oauth).await?, registered(&server, &self.oauth).await?];
        let resource = server.resource.as_str();
        let mut scopes = self.oauth.scopes.clone();
        if scopes.is_empty() {
            scopes = server.manager.select_initial_scopes(&[]).await;
            // For refresh tokens, which the login at the identity provider has.
            scopes.retain(|scope| scope != "offline_access");
            scopes.extend(more.iter().cloned());
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
        Ok(Held { token, until: Some(until(found.expires_in)), of: of.map(Arc::from) })
    }

    /// Proof that the person is logged in, renewed where that is possible, with the login that it is of.
    async fn subject(&self, account: &Account) -> Result<Option<(Option<String>, Subject)>, AuthError> {
        if let Some(token) = &self.identity.id_token {
            return Ok(Some((None, Subject::IdToken(exposed(token).await?))));
        }
        let Some(mut record) = self.login(account).await? else { return Ok(None) };
        if id_token(&record).is_none() {
            let Some(access) = record.access() else { return Ok(None) };
            if account.refresh(Some(access)).await?.is_none() {
                return Ok(None);
            }
            let Some(renewed) = self.login(account).await? else { return Ok(None) };
            record = renewed;
        }
        let refresh = || record.tokens()?.refresh_token().cloned().map(Subject::Refresh);
        let proof = id_token(&record).map(Subject::IdToken).or_else(refresh);
        Ok(proof.map(|proof| (Some(record.id), proof)))
    }

    /// Checks that a login at the identity provider is the account of the client, where the client's own tokens say it.
    ///
    /// # Errors
    /// It is another person's.
    pub(super) fn check_subject(&self, client: Option<&str>, record: &Record) -> Result<(), String> {
        let matches = |client: &&str| self.identity.match_subject && config::is_of_token(client);
        let Some(client) = client.filter(matches) else { return Ok(()) };
        let subject = token(record).and_then(claims).and_then(|claims| claims["sub"].as_str().map(str::to_owned));
        let issuer = self.identity.oauth.issuer.as_deref().unwrap_or_default().trim_end_matches('/');
        // The endpoint may name the same issuer with a slash at the end.
        let is_its = |subject: &String| {
            [issuer.to_owned(), format!("{issuer}/")].iter().any(|of| config::client_of_token(of, subject) == client)
        };
        match subject.as_ref().is_some_and(is_its) {
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
            EmaError::OAuthRejected { status: 429 | 500.., .. }
            | EmaError::OAuthRejected { code: "server_error" | "temporarily_unavailable", .. } => {
                AuthError::TokenRefreshFailed(words)
            }
            // Another login may help.
            EmaError::InvalidGrant(EmaExchangeStage::IdentityProvider)
            | EmaError::InsufficientUserAuthentication(EmaExchangeStage::IdentityProvider) => {
                AuthError::AuthorizationFailed(words)
            }
            _ if words.is_empty() => AuthError::TokenExchangeFailed(failed.to_string()),
            _ => AuthError::TokenExchangeFailed(words),
        }
    }
}

/// The ID token of a login, if it is still good.
fn id_token(record: &Record) -> Option<String> {
    (lasts(record)? > MARGIN).then(|| token(record).map(str::to_owned)).flatten()
}

/// Lifetime of the ID token of a login; zero when it has expired, `None` without one.
pub(super) fn lasts(record: &Record) -> Option<Duration> {
    let expires = claims(token(record)?)?["exp"].as_f64()?;
    Duration::try_from_secs_f64((expires - now_secs() as f64).max(0.0)).ok()
}

fn token(record: &Record) -> Option<&str> {
    record.tokens()?.extra_fields().0.get("id_token")?.as_str()
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
    let Some(secret) = configured_secret(oauth).await?.map(ClientSecret::new) else { return Ok(server) };
    Ok(server.with_client_authentication(match wants_secret_in_form(&found.metadata) {
        true => EmaClientAuthentication::ClientSecretPost(secret),
        false => EmaClientAuthentication::ClientSecretBasic(secret),
    }))
}

/// Takes out a refresh token, which some give and rmcp refuses: the login at the identity provider renews.
fn without_refresh_token(body: &mut Vec<u8>) {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { return };
    if let Some(token) = fields.shift_remove("refresh_token") {
        token.as_str().into_iter().for_each(hide);
        *body = Value::Object(fields).to_string().into_bytes();
    }
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
            let mut answer = self.client.execute(request).await?;
            if answer.status().is_success() {
                without_refresh_token(answer.body_mut());
            } else {
                *self.words.lock() = format!("{place} answers {}{}", answer.status(), said(answer.body()));
            }
            Ok(answer)
        })
    }
}

//! Token exchange (RFC 8693): the access token with which a client calls the endpoint becomes one for a server. The
//! client's own token goes to the token endpoint of the configuration alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::AuthError;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Duration, Instant};
use url::{Url, form_urlencoded};

use super::client::{Client, FORM};
use super::held::{Held, until};
use super::{Person, configured_secret, hide};
use base::error::chain;
use base::limits;
use config::OAuth;

pub(super) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const CLIENT_CREDENTIALS: &str = "client_credentials";
const NO_TOKEN: &str = "its answer has no bearer token of the server's own";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Access tokens with which clients call the endpoint now: the newest of each.
#[derive(Default)]
pub struct CallerTokens(Mutex<HashMap<Arc<str>, CallerToken>>);

/// A token, with the end of its time.
type CallerToken = (Arc<str>, Instant);

/// Exchange of one client's tokens for those of one server; of the gateway's own credentials for lists.
pub(super) struct Exchange {
    /// The client: see [`Person::name`](super::Person::name).
    person: Option<Arc<str>>,
    callers: Arc<CallerTokens>,
    held: tokio::sync::Mutex<Option<Held>>,
}

impl CallerTokens {
    /// Notes the token of a client, which was verified and is valid until then.
    pub fn note(&self, person: Person<'_>, token: &str, until: Instant) {
        let client = &*person.name();
        let mut all = self.0.lock();
        if all.get(client).is_some_and(|(known, _)| **known == *token) {
            return;
        }
        let now = Instant::now();
        all.retain(|_, (_, until)| *until > now);
        if all.len() >= limits::CALLER_TOKENS.max
            && let Some(first) = all.iter().min_by_key(|(_, (_, until))| *until).map(|(client, _)| Arc::clone(client))
        {
            all.remove(&first);
        }
        all.insert(client.into(), (token.into(), until));
    }

    fn of(&self, client: &str) -> Option<CallerToken> {
        self.0.lock().get(client).filter(|(_, until)| *until > Instant::now()).cloned()
    }
}

/// Answer of a token endpoint.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: Option<String>,
    issued_token_type: Option<String>,
    expires_in: Option<u64>,
}

impl Exchange {
    pub(super) fn new(person: Option<Arc<str>>, callers: Arc<CallerTokens>) -> Self {
        Self { person, callers, held: tokio::sync::Mutex::default() }
    }

    /// The server's token; another one if that in use was `refused`, or is of another token of the caller.
    ///
    /// # Errors
    /// The client has no valid token now, or the provider gives none for it.
    pub(super) async fn token(&self, url: &Url, oauth: &OAuth, refused: Option<&str>) -> Result<String, AuthError> {
        let subject = match &self.person {
            None => None,
            Some(person) => Some(self.callers.of(person).ok_or_else(|| {
                let name = person.split('\n').next().unwrap_or_default();
                AuthError::TokenExchangeFailed(format!(
                    "`{name}` has no valid access token at this gateway now, and a token of [clients] cannot be exchanged"
                ))
            })?),
        };
        let (subject, subject_until) = subject.unzip();
        let mut held = self.held.lock().await;
        if let Some(token) = Held::good(&held, subject.as_deref(), refused) {
            return Ok(token);
        }
        *held = None;
        // A provider may quote it.
        subject.iter().for_each(|subject| hide(subject));
        let found = exchanged(url, oauth, subject.as_deref()).await.map_err(AuthError::TokenExchangeFailed)?;
        hide(&found.access_token);
        // A client that may no longer call has nothing left to use.
        let until = subject_until.into_iter().chain([until(found.expires_in.map(Duration::from_secs))]).min();
        *held = Some(Held { token: found.access_token.clone(), until, of: subject });
        Ok(found.access_token)
    }
}

/// Asks the token endpoint for the scopes of `oauth`, as its client; the error has the provider's words.
async fn exchanged(url: &Url, oauth: &OAuth, subject: Option<&str>) -> Result<Granted, String> {
    let endpoint = oauth.token_url.as_deref().and_then(|endpoint| Url::parse(endpoint).ok());
    let endpoint = endpoint.ok_or("`token_endpoint` is not set")?;
    let client = Client::new(url, oauth).map_err(|error| error.to_string())?;
    let secret = configured_secret(oauth).await.map_err(|error| error.to_string())?;
    let scopes = oauth.scopes.join(" ");
    let fields = [
        ("grant_type", Some(subject.map_or(CLIENT_CREDENTIALS, |_| EXCHANGE))),
        ("subject_token", subject),
        ("subject_token_type", subject.map(|_| ACCESS_TOKEN)),
        ("requested_token_type", subject.map(|_| ACCESS_TOKEN)),
        ("audience", oauth.audience.as_deref()),
        ("resource", oauth.resource.as_deref()),
        ("client_id", oauth.client_id.as_deref()),
        ("client_secret", secret.as_deref()),
        ("scope", Some(&*scopes).filter(|scopes| !scopes.is_empty())),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    let answer = client.post(endpoint, FORM, form).await.map_err(|error| chain(&*error))?;
    let answer = client.read(answer, true).await.map_err(|error| chain(&*error))?;
    if !answer.status().is_success() {
        return Err(format!("the provider answers {}{}", answer.status(), said(answer.body())));
    }
    let found: Granted = serde_json::from_slice(answer.body()).map_err(|_| NO_TOKEN)?;
    let is_bearer = found.token_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let is_usable = !found.access_token.is_empty() && found.access_token.bytes().all(|byte| byte.is_ascii_graphic());
    let kind = found.issued_token_type.as_deref().unwrap_or(ACCESS_TOKEN);
    let is_access = kind == ACCESS_TOKEN || kind == "urn:ietf:params:oauth:token-type:jwt";
    // A provider that gives the same token back has exchanged nothing.
    let is_own = Some(found.access_token.as_str()) != subject;
    if is_usable && is_bearer && is_access && is_own { Ok(found) } else { Err(NO_TOKEN.to_owned()) }
}

/// The provider's words about a refusal.
pub(super) fn said(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let words = ["error", "error_description"].map(|key| body.get(key).and_then(Value::as_str).unwrap_or_default());
    // Whole: it is redacted before it is cut.
    words.into_iter().filter(|words| !words.is_empty()).fold(String::new(), |said, words| said + ": " + words)
}

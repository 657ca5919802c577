//! Token exchange (RFC 8693): the access token with which a client calls the endpoint becomes one for a server. The
//! client's own token goes to the token endpoint of the configuration alone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use rmcp::transport::auth::{AuthError, OAuthHttpRedirectPolicy};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Duration, Instant};
use url::{Url, form_urlencoded};

use super::client::Client;
use super::{exposed, hide};
use base::error::chain;
use base::limits;
use base::text;
use config::OAuth;

/// Time before its end at which a token is renewed.
const MARGIN: Duration = Duration::from_secs(30);
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Access tokens with which clients call the endpoint now: the newest of each.
#[derive(Default)]
pub struct CallerTokens(Mutex<HashMap<Arc<str>, CallerToken>>);

/// A token, with the end of its time.
type CallerToken = (Arc<str>, Instant);

/// Exchange of one client's tokens for those of one server.
pub(super) struct Exchange {
    client: Arc<str>,
    callers: Arc<CallerTokens>,
    /// Token of the server, with the time until which it is used.
    held: tokio::sync::Mutex<Option<(String, Instant)>>,
}

impl CallerTokens {
    /// Notes the token of a client, which was verified and is valid until then.
    pub fn note(&self, client: &str, token: &str, until: Instant) {
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

#[derive(Deserialize)]
struct Exchanged {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<u64>,
}

impl Exchange {
    pub(super) fn new(client: &Arc<str>, callers: &Arc<CallerTokens>) -> Self {
        Self { client: Arc::clone(client), callers: Arc::clone(callers), held: tokio::sync::Mutex::default() }
    }

    /// The server's token; another one if that in use was `refused`.
    ///
    /// # Errors
    /// The client has no valid token now, or the provider gives none for it.
    pub(super) async fn token(&self, url: &Url, oauth: &OAuth, refused: Option<&str>) -> Result<String, AuthError> {
        let mut held = self.held.lock().await;
        if let Some((token, until)) = &*held
            && Some(token.as_str()) != refused
            && *until > Instant::now()
        {
            hide(token);
            return Ok(token.clone());
        }
        *held = None;
        let Some((subject, subject_until)) = self.callers.of(&self.client) else {
            let why = format!("`{}` has no valid access token at this gateway now", self.client);
            return Err(AuthError::TokenExchangeFailed(why));
        };
        // A provider may quote it.
        hide(&subject);
        let found = exchanged(url, oauth, &subject).await.map_err(AuthError::TokenExchangeFailed)?;
        hide(&found.access_token);
        let lasts = found.expires_in.map(Duration::from_secs);
        let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts.saturating_sub(MARGIN.min(lasts / 4))));
        // A client that may no longer call has nothing left to use.
        let until = until.map_or(subject_until, |until| until.min(subject_until));
        *held = Some((found.access_token.clone(), until));
        Ok(found.access_token)
    }
}

/// Asks the token endpoint; the error has the provider's words.
async fn exchanged(url: &Url, oauth: &OAuth, subject: &str) -> Result<Exchanged, String> {
    let endpoint = oauth.token_url.as_deref().and_then(|endpoint| Url::parse(endpoint).ok());
    let (Some(endpoint), Some(id), Some(secret)) = (endpoint, &oauth.client_id, &oauth.client_secret) else {
        return Err("`token_endpoint`, `client_id` and `client_secret` are not set".to_owned());
    };
    let secret = exposed(secret).await.map_err(|error| error.to_string())?;
    let request = request(endpoint, oauth, (id, &secret), subject);
    let client = Client::new(url, oauth).map_err(|error| error.to_string())?;
    let answer = client.send(request, OAuthHttpRedirectPolicy::Stop).await.map_err(|error| chain(&*error))?;
    let answer = client.read(answer, true).await.map_err(|error| chain(&*error))?;
    if !answer.status().is_success() {
        return Err(format!("the provider answers {}{}", answer.status(), said(answer.body())));
    }
    let found: Exchanged = serde_json::from_slice(answer.body()).map_err(|_| "its answer has no token".to_owned())?;
    let is_bearer = found.token_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    // A provider that gives the same token back has exchanged nothing.
    match found.access_token.is_empty() || !is_bearer || found.access_token == subject {
        true => Err("its answer has no bearer token of the server's own".to_owned()),
        false => Ok(found),
    }
}

fn request(endpoint: Url, oauth: &OAuth, (id, secret): (&str, &str), subject: &str) -> Request {
    let scopes = oauth.scopes.join(" ");
    let fields = [
        ("grant_type", Some("urn:ietf:params:oauth:grant-type:token-exchange")),
        ("subject_token", Some(subject)),
        ("subject_token_type", Some(ACCESS_TOKEN)),
        ("requested_token_type", Some(ACCESS_TOKEN)),
        ("client_id", Some(id)),
        ("client_secret", Some(secret)),
        ("audience", oauth.audience.as_deref()),
        ("resource", oauth.resource.as_deref()),
        ("scope", Some(&*scopes).filter(|scopes| !scopes.is_empty())),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    let mut request = Request::new(Method::POST, endpoint);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    *request.body_mut() = Some(form.into());
    request
}

/// The provider's words.
fn said(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let words = ["error", "error_description"].map(|key| body.get(key).and_then(Value::as_str).unwrap_or_default());
    let words = words.map(|words| text::brief(words).into_owned());
    words.into_iter().filter(|words| !words.is_empty()).fold(String::new(), |said, words| said + ": " + &words)
}

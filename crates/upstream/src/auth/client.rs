//! HTTP client of logins. An MCP server names the addresses, so they are restricted to those such a server may use, and
//! requests are limited in number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::auth::{
    AuthError, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use tower::BoxError;
use tower::filter::FilterLayer;
use url::{Url, form_urlencoded};

use super::answers::{Answer, readable};
use super::assertion;
use super::exchange::EXCHANGE;
use base::address::{Reach, refusal};
use base::error::chain;
use base::http::body;
use base::limits;
use config::OAuth;

/// Most requests of one login: some six for the MCP server, four for each of four authorization servers, and the
/// tokens.
const MAX_REQUESTS: usize = limits::LOGIN_REQUESTS.max;
/// Most bytes of a response.
const MAX_ANSWER: usize = limits::LOGIN_ANSWER.max;
/// Most redirects of one request.
const MAX_REDIRECTS: usize = limits::REDIRECTS.max;
/// Type of requests for tokens.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";
/// Timeout of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Timeout of a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The client that the module describes.
pub(super) struct Client {
    stops: reqwest::Client,
    follows: reqwest::Client,
    reach: Reach,
    made: Arc<AtomicUsize>,
    url: Url,
    oauth: OAuth,
    /// Issuer of the authorization server, once it is known to be the right one.
    issuer: OnceLock<String>,
    /// The MCP server's own name in its documents, where only a slash at the end tells it from the configured one.
    named: OnceLock<Url>,
}

impl Client {
    /// A client for one login at the MCP server at `url`.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub(super) fn new(url: &Url, oauth: &OAuth) -> Result<Self, AuthError> {
        let reach = Reach::of_server(url, oauth.private_network);
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let counted = FilterLayer::new(move |connection| match count.fetch_add(1, Ordering::Relaxed) < MAX_REQUESTS {
            true => Ok(connection),
            false => Err(too_many()),
        });
        let client = |policy| {
            let builder = base::http::client(url, reach.clone(), policy);
            let builder = builder.timeout(REQUEST_LIMIT).connect_timeout(CONNECT_LIMIT);
            // One connection per request, so that all requests are counted.
            let builder = builder.pool_max_idle_per_host(0).connector_layer(counted.clone());
            builder.build().map_err(|error| AuthError::InternalError(error.to_string()))
        };
        let allowed = reach.clone();
        let follow = move |attempt: Attempt<'_>| {
            let from_tls = attempt.previous().last().is_some_and(|from| from.scheme() == "https");
            if !allowed.allows(attempt.url()) || (from_tls && attempt.url().scheme() != "https") {
                let what = attempt.url().to_string();
                return attempt.error(refusal(&what));
            }
            if attempt.previous().len() > MAX_REDIRECTS { attempt.stop() } else { attempt.follow() }
        };
        let (stops, follows) = (client(Policy::none())?, client(Policy::custom(follow))?);
        let (issuer, named) = (OnceLock::new(), OnceLock::new());
        Ok(Self { stops, follows, reach, made, url: url.clone(), oauth: oauth.clone(), issuer, named })
    }

    /// Sends a request; its body is still to be read.
    ///
    /// # Errors
    /// The address is not allowed, there were too many requests, or there is no response.
    pub(super) async fn send(
        &self,
        request: reqwest::Request,
        redirects: OAuthHttpRedirectPolicy,
    ) -> Result<reqwest::Response, OAuthHttpClientError> {
        if !self.reach.allows(request.url()) {
            return Err(refusal(request.url().as_str()).into());
        }
        let request = self.completed(request).await?;
        let client = match redirects {
            OAuthHttpRedirectPolicy::Follow => &self.follows,
            _ => &self.stops,
        };
        let place = request.url().clone();
        client.execute(request).await.map_err(|error| {
            if self.made.load(Ordering::Relaxed) > MAX_REQUESTS {
                return too_many();
            }
            // rmcp drops the reason.
            tracing::warn!(error = chain(&error), %place, "a request of a login failed");
            error.into()
        })
    }

    /// Posts a body of this type; the body of the answer is still to be read.
    ///
    /// # Errors
    /// As of [`Client::send`].
    pub(super) async fn post(
        &self,
        url: Url,
        kind: &'static str,
        body: String,
    ) -> Result<reqwest::Response, OAuthHttpClientError> {
        let mut request = reqwest::Request::new(reqwest::Method::POST, url);
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        *request.body_mut() = Some(body.into());
        self.send(request, OAuthHttpRedirectPolicy::Stop).await
    }

    /// Notes the issuer of the authorization server, for which the client's assertions are from now on.
    pub(super) fn is_at(&self, issuer: Option<&str>) {
        issuer.into_iter().for_each(|issuer| {
            let _known = self.issuer.set(issuer.to_owned());
        });
    }

    /// A request as this client sends it: with its assertion, and to an identity provider without the `resource` of MCP,
    /// which some refuse, but where an identity assertion is asked for.
    async fn completed(&self, mut request: reqwest::Request) -> Result<reqwest::Request, OAuthHttpClientError> {
        let Some(form) = request.body().and_then(reqwest::Body::as_bytes).filter(|_| is_form(request.headers())) else {
            return Ok(request);
        };
        let mut form = form.to_vec();
        if self.oauth.is_provider && !form_urlencoded::parse(&form).any(|(_, value)| value == EXCHANGE) {
            let others = form_urlencoded::parse(&form).filter(|(name, _)| name != "resource");
            form = form_urlencoded::Serializer::new(String::new()).extend_pairs(others).finish().into_bytes();
        }
        let issuer = self.issuer.get().or(self.oauth.issuer.as_ref());
        let audience = issuer.map_or(request.url().as_str(), String::as_str);
        if let Some(signed) = assertion::signed(&form, &self.oauth, audience).await? {
            form = signed;
            request.headers_mut().remove(http::header::AUTHORIZATION);
        }
        *request.body_mut() = Some(form.into());
        Ok(request)
    }

    /// The same client without redirects, for callers that need reqwest's own type.
    pub(super) fn inner(&self) -> reqwest::Client {
        self.stops.clone()
    }

    /// True if a URL may be requested, as far as it can be decided without DNS.
    pub(super) fn allows(&self, url: &Url) -> bool {
        self.reach.allows(url)
    }

    /// Body of a successful `GET`.
    pub(super) async fn get(&self, url: Url) -> Option<Vec<u8>> {
        let request = reqwest::Request::new(reqwest::Method::GET, url);
        let answer = self.send(request, OAuthHttpRedirectPolicy::Stop).await.ok();
        let answer = answer.filter(|answer| answer.status().is_success())?;
        self.read(answer, false).await.ok().map(http::Response::into_body)
    }

    /// The MCP server's own name, if it is known and differs by a slash at the end.
    pub(super) fn named(&self) -> Option<&Url> {
        self.named.get()
    }

    /// A readable answer; `is_grant` for one to a request for tokens or codes.
    pub(super) async fn read(
        &self,
        answer: reqwest::Response,
        is_grant: bool,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let mut response = http::Response::new(Vec::new());
        *response.headers_mut() = answer.headers().clone();
        // oauth2 reads no other type than JSON, which the body is by now.
        response.headers_mut().remove(CONTENT_TYPE);
        let status = answer.status();
        let too_long = || format!("the answer is longer than {MAX_ANSWER} bytes");
        let body = body(answer, MAX_ANSWER).await?.ok_or_else(too_long)?;
        let Answer { status, body, resource } = readable(status, body, is_grant, self.oauth.identity.is_some());
        (*response.status_mut(), *response.body_mut()) = (status, body);
        if let Some(named) = resource.and_then(|resource| Url::parse(&resource).ok())
            && named != self.url
            && named.as_str().trim_end_matches('/') == self.url.as_str().trim_end_matches('/')
        {
            let _known = self.named.set(named);
        }
        Ok(response)
    }
}

/// Documents of an authorization server: its metadata and its keys. The client's limits hold, redirects are not followed.
pub struct Documents(Client);

impl Documents {
    /// Documents of the server at `url`, and of the addresses that it names: none on this machine or on a private network,
    /// unless its own URL is there or `private_network` allows them.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn of(url: &Url, private_network: bool) -> Result<Self, String> {
        let oauth = OAuth { private_network, ..OAuth::default() };
        Client::new(url, &oauth).map(Self).map_err(|error| error.to_string())
    }

    /// Gets a document.
    ///
    /// # Errors
    /// Says why there is none.
    pub async fn get(&self, url: Url) -> Result<Vec<u8>, String> {
        if !self.0.allows(&url) {
            return Err(refusal(url.as_str()).to_string());
        }
        let answer = self.0.stops.get(url).send().await.map_err(|error| chain(&error.without_url()))?;
        match answer.status() {
            status if status.is_redirection() => Err(format!("answers {status}, and redirects are not followed")),
            status if !status.is_success() => Err(format!("answers {status}")),
            _ => self.0.read(answer, false).await.map(http::Response::into_body).map_err(|error| error.to_string()),
        }
    }
}

fn is_form(headers: &http::HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(FORM.as_bytes()))
}

/// Error of a request over the limit.
pub(super) fn too_many() -> BoxError {
    format!("{MAX_REQUESTS} requests is the limit of a login, which was sent from one address to the next").into()
}

impl OAuthHttpClient for Client {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let redirects = request.redirect_policy;
            let request = reqwest::Request::try_from(request.request)?;
            let is_grant = is_form(request.headers());
            let answer = self.send(request, redirects).await?;
            self.read(answer, is_grant).await
        })
    }
}

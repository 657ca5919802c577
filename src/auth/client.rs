//! The HTTP client of logins: what an MCP server names is asked for at addresses that such a server may send us to, a
//! bounded number of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::auth::{
    AuthError, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::Url;

use crate::address::{Reach, refusal};
use crate::config::{OAuth, is_loopback};
use crate::error::chain;

/// Requests of one login: some six for the MCP server, four for each of four authorization servers, and the tokens.
const MAX_REQUESTS: usize = 32;
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Redirects of one request that are followed.
const MAX_REDIRECTS: usize = 5;
/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// See the module's own words.
pub(super) struct Client {
    stops: reqwest::Client,
    follows: reqwest::Client,
    reach: Reach,
    made: AtomicUsize,
}

impl Client {
    /// A client for one login at the MCP server at `url`.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub(super) fn new(url: &Url, oauth: &OAuth) -> Result<Self, AuthError> {
        let reach = Reach::of_server(url, oauth.private_network);
        let client = |policy| {
            let builder = reqwest::Client::builder().dns_resolver(Arc::new(reach.clone())).redirect(policy);
            let builder = builder.timeout(REQUEST_LIMIT).connect_timeout(CONNECT_LIMIT);
            let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
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
        Ok(Self { stops, follows, reach, made: AtomicUsize::new(0) })
    }

    /// The answer to a request, its body still to be read.
    ///
    /// # Errors
    /// The address is not allowed, there were too many requests, or there is no answer.
    pub(super) async fn send(
        &self,
        request: reqwest::Request,
        redirects: OAuthHttpRedirectPolicy,
    ) -> Result<reqwest::Response, OAuthHttpClientError> {
        if !self.reach.allows(request.url()) {
            return Err(refusal(request.url().as_str()).into());
        }
        if self.made.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            let what = "the search was given up: it is sent from one address to the next";
            return Err(format!("{what}, and {MAX_REQUESTS} requests is the limit of a login").into());
        }
        let client = match redirects {
            OAuthHttpRedirectPolicy::Follow => &self.follows,
            _ => &self.stops,
        };
        let place = request.url().clone();
        client.execute(request).await.map_err(|error| {
            // rmcp does not pass on why.
            tracing::warn!(error = chain(&error), %place, "a request of a login failed");
            error.into()
        })
    }

    /// Whether a URL may be asked for, as far as can be said without looking up its name.
    pub(super) fn allows(&self, url: &Url) -> bool {
        self.reach.allows(url)
    }

    /// The body of the answer to a `GET`, if that is a success.
    pub(super) async fn get(&self, url: Url) -> Option<Vec<u8>> {
        let request = reqwest::Request::new(reqwest::Method::GET, url);
        let answer = self.send(request, OAuthHttpRedirectPolicy::Stop).await.ok()?;
        if answer.status().is_success() { body(answer).await.ok() } else { None }
    }
}

async fn body(answer: reqwest::Response) -> Result<Vec<u8>, OAuthHttpClientError> {
    let mut body = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part?;
        if body.len() + part.len() > MAX_ANSWER {
            return Err(format!("the answer is longer than {MAX_ANSWER} bytes").into());
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

impl OAuthHttpClient for Client {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let redirects = request.redirect_policy;
            let answer = self.send(reqwest::Request::try_from(request.request)?, redirects).await?;
            let mut response = http::Response::builder().status(answer.status()).version(answer.version());
            for (name, value) in answer.headers() {
                response = response.header(name, value);
            }
            Ok(response.body(body(answer).await?)?)
        })
    }
}

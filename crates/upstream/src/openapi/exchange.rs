//! Sends requests with the configured credentials, and reads bounded answers.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use url::Url;

use crate::mcp::authorized::Authorization;
use crate::mcp::failure::HttpError;
use crate::mcp::http::client;
use crate::mcp::http_client::patiently;
use crate::mcp::http_post;
use crate::mcp::refusal::{Refusal, beginning, header};
use crate::mcp::sent_headers::Values;
use crate::openapi::spec::Request;
use base::address::Reach;
use base::error::Result;

/// Sends requests to one origin.
pub(super) struct Exchange {
    client: reqwest::Client,
    pub(super) authorization: Authorization,
    /// Of a call.
    timeout: Duration,
}

/// An answer within its limits.
pub(super) struct Answered {
    pub(super) status: u16,
    /// `Content-Type`; empty without one.
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
    /// The body has more than was read.
    pub(super) is_cut: bool,
}

impl Exchange {
    pub(super) fn new(base: &Url, reach: Reach, authorization: Authorization, timeout: Duration) -> Result<Self> {
        Ok(Self { client: client(base.as_str(), reach)?, authorization, timeout })
    }

    /// Sends a request whose answer has at most `most` bytes, again with newer credentials after a 401, and again after a 429
    /// that says when.
    pub(super) async fn send(&self, request: &Request, most: usize) -> Result<Answered, HttpError> {
        let send = |token: Option<String>, values: &Values| {
            let request = self.with(request, values);
            async move { patiently(self.timeout, || self.once(&request, token.as_deref(), most)).await }
        };
        self.authorization.send(send).await
    }

    /// The same without credentials.
    pub(super) async fn send_bare(&self, request: &Request, most: usize) -> Result<Answered, HttpError> {
        patiently(self.timeout, || self.once(request, None, most)).await
    }

    /// The request with configured headers and query.
    fn with(&self, request: &Request, values: &Values) -> Request {
        let mut request = request.clone();
        request.headers.extend(values.headers.clone());
        let query = values.query.values();
        if !query.is_empty() {
            request.url.query_pairs_mut().extend_pairs(query.iter().map(|(name, value)| (name, value.expose())));
        }
        request
    }

    async fn once(&self, request: &Request, token: Option<&str>, most: usize) -> Result<Answered, HttpError> {
        let mut made =
            self.client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(token) = token {
            made = made.bearer_auth(token);
        }
        if let Some(body) = &request.body {
            made = made.body(body.clone());
        }
        // An address holds the credentials of the query.
        let response = made.send().await.map_err(|error| HttpError::Client(error.without_url()))?;
        let code = response.status();
        let is_moved = code.is_redirection() && code != StatusCode::NOT_MODIFIED;
        // Headers about the server, not about the request.
        if is_moved || matches!(code.as_u16(), 401 | 429 | 502..=504) {
            return Err(Refusal::read(response, false).await.into());
        }
        let kind = header(&response, CONTENT_TYPE).unwrap_or_default();
        if code.is_success() {
            let body = http_post::rest(Vec::new(), response, most).await.map_err(without_url)?;
            return Ok(Answered { status: code.as_u16(), kind, body, is_cut: false });
        }
        let (body, is_cut) = beginning(response).await;
        Ok(Answered { status: code.as_u16(), kind, body, is_cut })
    }
}

fn without_url(error: HttpError) -> HttpError {
    match error {
        HttpError::Client(error) => HttpError::Client(error.without_url()),
        error => error,
    }
}

//! Sends the token of a login with every request to a server, and renews it when the server refuses it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::failure::{HttpError, http_status};
use crate::auth::{Account, Grant, Version};
use crate::config;

/// The login that requests to one server are made with.
#[derive(Clone)]
pub(super) struct Authorization {
    /// `None` for a server that is not logged into; what it refuses then is told as it is.
    account: Option<Arc<Account>>,
}

impl Authorization {
    /// That of a server.
    pub(super) fn of(name: &str, server: &config::Server) -> Self {
        Self { account: Account::of(name, server) }
    }

    /// Tells logins apart.
    pub(super) fn version(&self) -> Option<Version> {
        self.account.as_ref().and_then(|account| account.version())
    }

    /// A client that makes requests with it.
    pub(super) fn client<C>(self, inner: C) -> Authorized<C> {
        Authorized { inner, authorization: self }
    }

    /// Makes a request with the current token; once more with a new one if the server refuses it.
    pub(super) async fn with_token<T, F>(&self, request: impl Fn(Option<String>) -> F) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(account) = &self.account else {
            return request(None).await.map_err(|error| match error {
                // There is no login to ask for.
                StreamableHttpError::AuthRequired(_) => refused(401),
                StreamableHttpError::InsufficientScope(_) => refused(403),
                error => error,
            });
        };
        let token = account.token().await?;
        let challenge = match told(account, request(token.clone()).await) {
            Err(StreamableHttpError::AuthRequired(challenge)) => challenge,
            answer => return answer,
        };
        let Some(token) = token else { return Err(StreamableHttpError::AuthRequired(challenge)) };
        match account.renew(Some(token.clone())).await? {
            Some(renewed) if renewed != token => told(account, request(Some(renewed)).await),
            _ if account.grant() == Grant::Program => {
                let why = "the server refuses the token that was made for it".to_owned();
                Err(AuthError::ClientCredentialsError(why).into())
            }
            _ => Err(StreamableHttpError::AuthRequired(challenge)),
        }
    }
}

/// What the server said of the token. Not every server that refuses one also says how it wants to be authorized.
fn told<T>(account: &Account, answer: Result<T, HttpError>) -> Result<T, HttpError> {
    match answer {
        Ok(answer) => {
            account.accepted();
            Ok(answer)
        }
        Err(StreamableHttpError::UnexpectedServerResponse(what)) if http_status(&what) == Some(401) => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new())))
        }
        Err(error) => Err(error),
    }
}

fn refused(status: u16) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into())
}

/// An HTTP client that sends the token of a login with every request.
#[derive(Clone)]
pub(super) struct Authorized<C> {
    inner: C,
    authorization: Authorization,
}

impl<C> StreamableHttpClient for Authorized<C>
where
    C: StreamableHttpClient<Error = reqwest::Error> + Sync,
{
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request =
            |token| self.inner.post_message(uri.clone(), message.clone(), session_id.clone(), token, headers.clone());
        self.authorization.with_token(request).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = |token| {
            let (uri, message, session_id) = (uri.clone(), message.clone(), session_id.clone());
            self.inner.post_message_with_max_sse_event_size(uri, message, session_id, token, headers.clone(), limit)
        };
        self.authorization.with_token(request).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let request = |token| self.inner.delete_session(uri.clone(), session_id.clone(), token, headers.clone());
        self.authorization.with_token(request).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let request = |token| {
            self.inner.get_stream(uri.clone(), session_id.clone(), last_event_id.clone(), token, headers.clone())
        };
        self.authorization.with_token(request).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limit: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let request = |token| {
            let (uri, session_id, last) = (uri.clone(), session_id.clone(), last_event_id.clone());
            self.inner.get_stream_with_max_sse_event_size(uri, session_id, last, token, headers.clone(), limit)
        };
        self.authorization.with_token(request).await
    }
}

//! Sends the token of a login with every request to a server, and renews it when the server refuses it.

use std::future::Future;
use std::sync::Arc;

use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};

use super::failure::{HttpError, http_status};
use super::http_client::{Events, Headers, HttpClient};
use crate::auth::{Account, Grant};
use crate::state::LoginVersion;

/// The login for requests to one server.
#[derive(Clone)]
pub(super) struct Authorization {
    /// `None` without a login; the server's refusal is then passed on as it is.
    pub(super) account: Option<Arc<Account>>,
}

impl Authorization {
    /// Version of the login.
    pub(super) fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    /// A client that sends its token.
    pub(super) fn client(self, inner: HttpClient) -> Authorized {
        Authorized { inner, authorization: self }
    }

    /// Makes a request with the current token, and once more with a new one if the server refuses it.
    pub(super) async fn with_token<T, F>(&self, request: impl Fn(Option<String>) -> F) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(account) = &self.account else {
            return request(None).await.map_err(|error| match error {
                // No login to ask for.
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

/// Reads the server's verdict on the token. Not every server that refuses one says which authorization it wants.
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

/// An HTTP client that sends the token of a login with every request. It leaves the trait's other methods, with rmcp's
/// limits for events, at their default.
#[derive(Clone)]
pub(super) struct Authorized {
    inner: HttpClient,
    authorization: Authorization,
}

impl StreamableHttpClient for Authorized {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = |token| self.inner.post(uri.clone(), message.clone(), session.clone(), token, headers.clone());
        self.authorization.with_token(request).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let request = |token| self.inner.delete(uri.clone(), session.clone(), token, headers.clone());
        self.authorization.with_token(request).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let request =
            |token| self.inner.events(uri.clone(), session.clone(), last_event.clone(), token, headers.clone());
        self.authorization.with_token(request).await
    }
}

//! Sends configured headers and the token of a login with every request to a server, and renews them when the server
//! refuses them.

use std::future::Future;
use std::sync::Arc;

use reqwest::StatusCode;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpError};

use super::failure::HttpError;
use super::refusal::{Refusal, refusal};
use super::sent_headers::{SentHeaders, Values};
use crate::auth::Account;

/// Headers and login for the requests of one connection.
#[derive(Clone)]
pub(crate) struct Authorization {
    pub headers: Arc<SentHeaders>,
    /// `None` without a login; the server's refusal is then passed on as it is.
    pub account: Option<Arc<Account>>,
}

impl Authorization {
    /// Makes a request with the values in use, and once more with other values if the server refuses them. A refusal comes
    /// before the server acts, so that nothing happens twice.
    pub(crate) async fn send<T, F>(&self, request: impl Fn(Option<String>, &Values) -> F) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let values = self.headers.now();
        let refused = match self.with_token(|token| request(token, &values)).await {
            Err(error) if is_refused(&error) => error,
            answer => return answer,
        };
        match self.headers.renewed(&values).await {
            Some(values) => self.with_token(|token| request(token, &values)).await,
            None => Err(refused),
        }
    }

    /// Makes a request with the current token, and once more with a new one if the server refuses it.
    async fn with_token<T, F>(&self, request: impl Fn(Option<String>) -> F) -> Result<T, HttpError>
    where
        F: Future<Output = Result<T, HttpError>>,
    {
        let Some(account) = &self.account else {
            return request(None).await.map_err(|error| match error {
                // No login to ask for.
                StreamableHttpError::AuthRequired(_) => Refusal::bare(StatusCode::UNAUTHORIZED).into(),
                StreamableHttpError::InsufficientScope(_) => Refusal::bare(StatusCode::FORBIDDEN).into(),
                error => error,
            });
        };
        let token = account.token().await?;
        let challenge = match told(account, request(token.clone()).await) {
            Err(StreamableHttpError::AuthRequired(challenge)) => challenge,
            Err(StreamableHttpError::InsufficientScope(wanted)) => {
                return match account.widened(wanted.required_scope.as_deref()).await {
                    Some(wider) => told(account, request(Some(wider)).await),
                    None => Err(account.lacks_scope(wanted)),
                };
            }
            answer => return answer,
        };
        let Some(token) = token else { return Err(StreamableHttpError::AuthRequired(challenge)) };
        match account.renew(Some(token.clone())).await? {
            Some(renewed) if renewed != token => told(account, request(Some(renewed)).await),
            _ if !account.is_of_person() => {
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
        Err(error) => Err(match refusal(&error).filter(|refusal| refusal.wants_credentials()) {
            Some(refusal) => StreamableHttpError::AuthRequired(AuthRequiredError::new(refusal.to_string())),
            None => error,
        }),
    }
}

/// True if the server wants other credentials.
fn is_refused(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        error => refusal(error).is_some_and(Refusal::wants_credentials),
    }
}

//! Posts one message over Streamable HTTP, as rmcp's own client does, except that a body is measured before it becomes
//! values: rmcp makes values of up to 16 MiB of JSON, several times.

use std::sync::Arc;

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError, StreamableHttpPostResponse,
};

use super::failure::{HttpError, too_much, unreadable};
use super::http_client::{Headers, is_same};
use super::lines::MAX_MESSAGE;
use super::message::{self, Parsed};
use super::sse::{self, scope};
use crate::error::Effect;
use crate::limits;
use crate::task;

/// Header with the session id.
const SESSION: &str = "Mcp-Session-Id";
/// Headers that the transport sets itself.
const RESERVED: [&str; 3] = ["accept", SESSION, "Last-Event-Id"];
/// Bytes of a `Retry-After`.
const MAX_RETRY_AFTER: usize = limits::RETRY_AFTER.max;
/// Most bytes read of a refusal.
const MAX_REFUSAL: usize = limits::REFUSAL.max;

/// Posts a message. The response is one answer or an event stream.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub(super) async fn post(
    client: &Client,
    uri: &str,
    message: &ClientJsonRpcMessage,
    session: Option<Arc<str>>,
    token: Option<String>,
    headers: Headers,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let mut request = client.post(uri).header(ACCEPT, "text/event-stream, application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    for (name, value) in headers {
        if RESERVED.iter().any(|reserved| name.as_str().eq_ignore_ascii_case(reserved)) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.header(name, value);
    }
    if let Some(session) = &session {
        request = request.header(SESSION, &**session);
    }
    let response = request.json(message).send().await.map_err(StreamableHttpError::Client)?;
    let status = response.status();
    let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if !status.is_success() {
        return refused(response, message, session.is_some()).await;
    }
    if !wants_answer && response.content_length() == Some(0) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let now = header(&response, HeaderName::from_static("mcp-session-id"));
    match header(&response, CONTENT_TYPE) {
        Some(kind) if kind.starts_with("text/event-stream") => {
            Ok(StreamableHttpPostResponse::Sse(sse::events(response).boxed(), now))
        }
        Some(kind) if kind.starts_with("application/json") => {
            let body = body(response, MAX_MESSAGE).await?;
            let parsed = task::work_on(body.len(), || message::parse(&body)).into_iter().next();
            let answer = match message {
                ClientJsonRpcMessage::Request(request) => Some(answer(parsed, &request.id)),
                _ => match parsed {
                    Some(Parsed::Message(message)) => Some(*message),
                    _ => None,
                },
            };
            Ok(match answer {
                Some(answer) => StreamableHttpPostResponse::Json(answer, now),
                None => StreamableHttpPostResponse::Accepted,
            })
        }
        kind => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

/// The body as the answer to the request `id`.
fn answer(parsed: Option<Parsed>, id: &RequestId) -> ServerJsonRpcMessage {
    let error = |error: ErrorData, id: &RequestId| ServerJsonRpcMessage::error(error, Some(id.clone()));
    match parsed {
        Some(Parsed::Message(message)) => *message,
        Some(Parsed::Answer(of, why)) => error(why, &of),
        Some(Parsed::Broken(why)) => error(why, id),
        Some(Parsed::Large(why)) => error(too_much(why), id),
        Some(Parsed::Other(_)) | None => error(unreadable("it is no message"), id),
    }
}

/// Reads a response whose status is not a success.
async fn refused(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let status = response.status();
    let challenge = header(&response, WWW_AUTHENTICATE);
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = scope(&challenge);
            return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)));
        }
        (StatusCode::NOT_FOUND, _) if in_session => return Err(StreamableHttpError::SessionExpired),
        _ => {}
    }
    let is_json = header(&response, CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let is_late = status == StatusCode::TOO_MANY_REQUESTS;
    let after = header(&response, RETRY_AFTER).filter(|when| when.len() <= MAX_RETRY_AFTER);
    let told = (is_late || status.is_server_error()).then(|| HttpStatusError::new(status.as_u16(), after));
    let told = match told {
        Some(told) if is_late || !is_json => return Err(told.into()),
        told => told,
    };
    let now = header(&response, HeaderName::from_static("mcp-session-id"));
    let text = match body(response, MAX_REFUSAL).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(error @ StreamableHttpError::ResponseBodyTooLarge { .. }) => return Err(told.map_or(error, Into::into)),
        Err(_) => "<failed to read response body>".to_owned(),
    };
    let error = match message::parse(text.as_bytes()).into_iter().next() {
        Some(Parsed::Message(message)) => match *message {
            ServerJsonRpcMessage::Error(error) => Some(error),
            _ => None,
        },
        _ => None,
    };
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && status.is_client_error()
        && !is_auth
    {
        // A server that refuses discovery may omit the request's id.
        let words = || ErrorData::invalid_request(format!("server/discover rejected with HTTP {status}: {text}"), None);
        let error = error.map_or_else(words, |error| error.error);
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    if let Some(mut error) = error.filter(|_| !is_auth && is_json) {
        let is_own = |of: &RequestId| matches!(message, ClientJsonRpcMessage::Request(own) if is_same(of, &own.id));
        let about = error.error.message.to_ascii_lowercase();
        // Servers modelled on the official examples report an expired session only in words.
        if in_session && status.is_client_error() && !error.id.as_ref().is_some_and(is_own) && about.contains("session")
        {
            return Err(StreamableHttpError::SessionExpired);
        }
        // Words that prove that nothing was done prove it only with a status that does.
        if Effect::of_status(status.as_u16()) != Effect::Nothing {
            error.error.code = rmcp::model::ErrorCode::INTERNAL_ERROR;
        }
        return Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), now));
    }
    match told {
        Some(told) => Err(told.into()),
        None => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into())),
    }
}

fn header(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Reads the body, at most `limit` bytes.
pub(in crate::upstream) async fn body(response: Response, limit: usize) -> Result<Vec<u8>, HttpError> {
    let too_large = || StreamableHttpError::ResponseBodyTooLarge { max_size: limit };
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let (mut chunks, mut body) = (response.bytes_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(StreamableHttpError::Client)?;
        if chunk.len() > limit - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

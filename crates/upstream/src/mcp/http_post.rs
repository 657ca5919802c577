//! Requests of Streamable HTTP, as rmcp's own client makes them, except that a body is measured before it becomes values
//! (rmcp makes values of up to 16 MiB of JSON, several times) and that odd responses are read where their meaning is plain.

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};

use super::event_stream::events;
use super::failure::{HttpError, is_about_session, too_much, unreadable};
use super::http_client::{Events, Target, is_same};
use super::inbox::{PassedOver, readable};
use super::lines::MAX_MESSAGE;
use super::message::{self, Parsed};
use super::pending::Pending;
use super::refusal::{Refusal, challenge, header, is_unknown_session, status};
use super::sse::stream;
use crate::openapi::spec::{essence, is_json};
use base::error::Effect;
use base::http;
use base::lines::trim;
use base::task;

/// Header with the session id.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Header with the id of the last event that came.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Media type of event streams.
pub(super) const EVENTS: &str = "text/event-stream";

/// Posts a message. The response is one answer or an event stream; that to anything but a request means nothing. `over`
/// takes what is no message of a stream.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub(super) async fn post(
    client: &Client,
    target: &Target,
    message: &ClientJsonRpcMessage,
    over: &PassedOver,
) -> Result<StreamableHttpPostResponse, HttpError> {
    // In the order of other clients: some servers compare the text.
    let request = headed(client.post(&*target.uri), target).header(ACCEPT, "application/json, text/event-stream");
    let mut response = request.json(message).send().await.map_err(StreamableHttpError::Client)?;
    let status = response.status();
    if !status.is_success() {
        return refused(response, message, target.session.is_some()).await;
    }
    let now = header(&response, SESSION);
    if let (false, Some(now)) = (is_handshake(message), now.as_deref().filter(|now| !now.is_empty())) {
        *target.latest.lock() = Some(now.into());
    }
    let kind = header(&response, CONTENT_TYPE);
    let form = essence(kind.as_deref().unwrap_or_default());
    let ClientJsonRpcMessage::Request(request) = message else { return Ok(StreamableHttpPostResponse::Accepted) };
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
        && (!is_json(&form) || response.content_length() == Some(0))
    {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if form == EVENTS {
        let events = readable(events(response), Some(request.id.clone()), over.clone());
        return Ok(StreamableHttpPostResponse::Sse(events, now));
    }
    // Another type may be a wrong one: what looks like JSON can be nothing else.
    let begun = response.chunk().await.map_err(StreamableHttpError::Client)?.unwrap_or_default();
    if !is_json(&form) && !looks_like_json(&begun) {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let body = rest(begun.into(), response, MAX_MESSAGE).await?;
    let pending = Pending::of(&request.id);
    let parsed = task::work_on(body.len(), || message::chosen(message::parse(&body, &pending), &request.id));
    Ok(StreamableHttpPostResponse::Json(answer(parsed, &request.id, &body), now))
}

fn is_handshake(message: &ClientJsonRpcMessage) -> bool {
    use ClientRequest::{DiscoverRequest, InitializeRequest};
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, InitializeRequest(_) | DiscoverRequest(_))
}

/// Opens the stream that a server sends on of its own accord, or goes on with one after the event `last`.
///
/// # Errors
/// As of [`stream`]; `ServerDoesNotSupportSse` if there is none, now or ever.
pub(super) async fn listen(
    client: &Client,
    target: &Target,
    last: Option<String>,
    over: &PassedOver,
) -> Result<Events, HttpError> {
    let request = headed(client.get(&*target.uri), target);
    let request = last.iter().fold(request, |request, last| request.header(LAST_EVENT, last));
    match stream(request, None).await {
        Ok(response) => Ok(readable(events(response), None, over.clone())),
        Err(error)
            if target.session.is_none() && last.is_none()
                || status(&error).is_some_and(|status| is_final(status, last.is_some())) =>
        {
            Err(StreamableHttpError::ServerDoesNotSupportSse)
        }
        Err(error) => Err(error),
    }
}

/// True for a refusal of a stream that will not change: a server that has forgotten one will not remember it later. Others may
/// be about the moment, as is a conflict with the stream before, whose end the server has not seen.
fn is_final(status: u16, resumes: bool) -> bool {
    status == 405 || resumes && matches!(status, 400..=499) && !matches!(status, 401 | 408 | 409 | 425 | 429)
}

/// A request with the headers, the token and the session of a target. The configuration names no header that is ours.
fn headed(request: RequestBuilder, Target { session, token, headers, .. }: &Target) -> RequestBuilder {
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let request = token.iter().fold(request, |request, token| request.bearer_auth(token));
    session.iter().fold(request, |request, session| request.header(SESSION, &**session))
}

/// The body as the answer to the request `id`.
fn answer(parsed: Option<Parsed>, id: &RequestId, body: &[u8]) -> ServerJsonRpcMessage {
    let error = match parsed {
        Some(Parsed::Message(message)) => return *message,
        Some(Parsed::Broken(error)) => error,
        Some(Parsed::Large(why)) => too_much(why),
        Some(Parsed::Other(_)) | None => unreadable("no message", body),
    };
    ServerJsonRpcMessage::error(error, Some(id.clone()))
}

/// Reads a response whose status is not a success.
async fn refused(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    if let Some(challenge) = challenge(&response) {
        return Err(challenge);
    }
    let (now, refusal) = (header(&response, SESSION), Refusal::read(response, in_session).await);
    let status = refusal.status;
    let error = message::refusal(refusal.words.as_bytes());
    let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let may_hide = !is_auth && status != StatusCode::TOO_MANY_REQUESTS;
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && status.is_client_error()
        && may_hide
    {
        // A server that refuses discovery may omit the request's id.
        let words = || ErrorData::invalid_request(format!("server/discover was refused: {refusal}"), None);
        let error = error.map_or_else(words, |error| error.error);
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    if let Some(mut error) = error.filter(|_| may_hide) {
        let is_own = |of: &RequestId| matches!(message, ClientJsonRpcMessage::Request(own) if is_same(of, &own.id));
        // An error of the request itself may speak of another session than ours.
        let is_lost = refusal.is_about_session
            && (status == StatusCode::NOT_FOUND
                || !error.id.as_ref().is_some_and(is_own)
                || is_about_session(&error.error))
            // The next call begins another one.
            || in_session && status.is_server_error() && is_unknown_session(&error.error.message);
        if !is_lost {
            // Words that prove that nothing was done prove it only with a status that does.
            if Effect::of_status(status.as_u16()) != Effect::Nothing {
                error.error.code = rmcp::model::ErrorCode::INTERNAL_ERROR;
                error.error.message = format!("{} (HTTP {status})", error.error.message).into();
            }
            return Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), now));
        }
    }
    Err(refusal.into())
}

/// True for the beginning of an object or an array.
fn looks_like_json(first: &[u8]) -> bool {
    matches!(trim(first).first(), Some(b'{' | b'['))
}

/// Reads the rest of a body of at most `limit` bytes.
pub(crate) async fn rest(begun: Vec<u8>, response: Response, limit: usize) -> Result<Vec<u8>, HttpError> {
    let body = http::rest(begun, response, limit).await.map_err(StreamableHttpError::Client)?;
    body.ok_or(StreamableHttpError::ResponseBodyTooLarge { max_size: limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_given_up_after_a_refusal_that_stays() {
        for (status, anew, resumed) in [
            (405, true, true),
            (404, false, true),
            (400, false, true),
            (410, false, true),
            (401, false, false),
            (408, false, false),
            (409, false, false),
            (425, false, false),
            (429, false, false),
            (503, false, false),
        ] {
            assert_eq!((is_final(status, false), is_final(status, true)), (anew, resumed), "{status}");
        }
    }
}

//! The HTTP client under rmcp's transport. It retries after a 429, and answers every request that the server answered
//! outside the protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde::de::IgnoredAny;
use sse_stream::Sse;

use super::failure::{HttpError, http_status, oversized, unreadable};
use super::http_post;
use super::lines::MAX_MESSAGE;
use super::message::{self, Parsed};
use super::sse;
use crate::{json, memory, task};

/// Longest total wait of a request for 429 responses.
const MAX_PATIENCE: Duration = Duration::from_secs(10);
/// Most retries of a request after 429 responses.
const MAX_REPEATS: u32 = 3;

/// The HTTP client that the module describes.
#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    /// True while requests are part of a session.
    in_session: Arc<AtomicBool>,
}

pub(in crate::upstream) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

impl HttpClient {
    pub(super) fn new(client: reqwest::Client, in_session: Arc<AtomicBool>) -> Self {
        Self { client, in_session }
    }

    pub(super) async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        if session.is_some() {
            self.in_session.store(true, Ordering::Release);
        }
        let post = || http_post::post(&self.client, &uri, &message, session.clone(), token.clone(), headers.clone());
        match (&message, patiently(post).await) {
            (ClientJsonRpcMessage::Request(request), Ok(answer)) => belonging(answer, &request.id, session.is_some()),
            (_, answer) => answer,
        }
    }

    pub(super) async fn delete(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.client.delete_session(uri, session, token, headers).await
    }

    pub(super) async fn events(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let resumes = last_event.is_some();
        match self.client.get_stream(uri, session, last_event, token, headers).await {
            // A server that has forgotten the stream will not remember it later.
            Err(error) if resumes && is_refusal(&error) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            stream => stream.map(|events| readable(events, None)),
        }
    }
}

/// Makes a request, and again after a 429 that says when, within [`MAX_PATIENCE`].
pub(in crate::upstream) async fn patiently<T, F>(request: impl Fn() -> F) -> Result<T, HttpError>
where
    F: Future<Output = Result<T, HttpError>>,
{
    let (mut waited, mut repeats) = (Duration::ZERO, 0);
    loop {
        let answer = request().await;
        match answer.as_ref().err().and_then(patience) {
            Some(wait) if repeats < MAX_REPEATS && waited + wait <= MAX_PATIENCE => {
                tokio::time::sleep(wait).await;
                waited += wait;
                repeats += 1;
            }
            _ => return answer,
        }
    }
}

/// The wait that the server asks for before a retry. It did not act on the request.
fn patience(error: &HttpError) -> Option<Duration> {
    match error {
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            retry_after(status.retry_after.as_deref()?, SystemTime::now())
        }
        _ => None,
    }
}

/// Parses a `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

fn is_refusal(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::Client(error) => error.status().is_some_and(|status| status.is_client_error()),
        StreamableHttpError::UnexpectedServerResponse(what) => matches!(http_status(what), Some(400..=499)),
        _ => false,
    }
}

/// Turns a response into the answer to the request `id`.
fn belonging(
    answer: StreamableHttpPostResponse,
    id: &RequestId,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let replaced = |error: ErrorData, session| {
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id.clone())), session))
    };
    match answer {
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session)
            if error.id.as_ref().is_none_or(|of| !is_same(of, id)) =>
        {
            // It may be about our session, which is no proof: the status would be 400 then.
            if in_session && error.error.message.to_ascii_lowercase().contains("session") {
                return Err(StreamableHttpError::UnexpectedServerResponse(error.error.message));
            }
            replaced(error.error, session)
        }
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Response(response), session)
            if !is_same(&response.id, id) =>
        {
            replaced(unreadable("it has the number of another request"), session)
        }
        StreamableHttpPostResponse::Sse(events, session) => {
            Ok(StreamableHttpPostResponse::Sse(readable(events, Some(id.clone())), session))
        }
        answer => Ok(answer),
    }
}

/// Compares ids. Some servers write our numbers as strings.
pub(super) fn is_same(of: &RequestId, id: &RequestId) -> bool {
    of == id || of.to_string() == id.to_string()
}

/// Replaces events that are unreadable or too large by errors. Events of a post belong to the request `id`.
fn readable(events: Events, id: Option<RequestId>) -> Events {
    let checked = events.map(move |event| match event {
        Err(error) if is_too_large(&error) && id.is_some() => Ok(in_place(oversized(MAX_MESSAGE), id.clone())),
        Ok(event) => {
            Ok(match event.data.as_deref().map(|data| task::work_on(data.len(), || looked_at(&event, data))) {
                Some(Look::Error(error, of)) => in_place(error, of.or_else(|| id.clone())),
                Some(Look::Message(data)) => Sse { data: Some(data), ..event },
                Some(Look::Nothing) => Sse { data: None, ..event },
                Some(Look::Fine) | None => event,
            })
        }
        error => error,
    });
    checked.boxed()
}

fn is_too_large(error: &SseError) -> bool {
    let words = error.to_string();
    words.contains(sse::TOO_LARGE) || words.contains("exceeded the maximum size")
}

/// An event with this error as the answer to a request; without a request, an empty event.
fn in_place(error: ErrorData, id: Option<RequestId>) -> Sse {
    let message = id.map(|id| ServerJsonRpcMessage::error(error, Some(id)));
    Sse { data: message.and_then(|message| serde_json::to_string(&message).ok()), ..Sse::default() }
}

/// Result of inspecting an event.
enum Look {
    Fine,
    /// Replaces the data of the event.
    Message(String),
    Error(ErrorData, Option<RequestId>),
    Nothing,
}

/// Inspects an event. Only small events go to rmcp, which makes values of them.
fn looked_at(event: &Sse, data: &str) -> Look {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    if data.trim().is_empty() {
        return Look::Fine;
    }
    if !is_message {
        return if data.len() > memory::SMALL { Look::Nothing } else { Look::Fine };
    }
    match json::measure(data.as_bytes()) {
        Ok(found) if found.tree_bytes <= memory::SMALL => {
            return match serde_json::from_str::<IgnoredAny>(data) {
                Ok(_) => Look::Fine,
                Err(error) => Look::Error(unreadable(error), None),
            };
        }
        _ => {}
    }
    match message::parse(data.as_bytes()).into_iter().next() {
        Some(Parsed::Message(message)) => serde_json::to_string(&message).map_or(Look::Nothing, Look::Message),
        Some(Parsed::Answer(id, error)) => Look::Error(error, Some(id)),
        Some(Parsed::Broken(error)) => Look::Error(error, None),
        Some(Parsed::Other(_) | Parsed::Large(_)) | None => Look::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:07 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }
}

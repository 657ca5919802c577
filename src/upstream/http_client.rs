//! The HTTP client under rmcp's transport. It waits where a server asks for patience, and leaves no request without an
//! answer that the server did answer, only not as the protocol says.

use std::collections::HashMap;
use std::sync::Arc;
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
use super::lines::MAX_MESSAGE;

/// Longest time that a request waits altogether because the server answered 429.
const MAX_PATIENCE: Duration = Duration::from_secs(10);
/// Times that it is sent again for that reason.
const MAX_REPEATS: u32 = 3;

/// See the module's own words.
#[derive(Clone)]
pub(super) struct HttpClient(reqwest::Client);

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

impl HttpClient {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self(client)
    }

    pub(super) async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let (mut waited, mut repeats) = (Duration::ZERO, 0);
        loop {
            let (uri, session, token, headers) = (uri.clone(), session.clone(), token.clone(), headers.clone());
            let in_session = session.is_some();
            let answer = self.0.post_message(uri, message.clone(), session, token, headers).await;
            match answer.as_ref().err().and_then(patience) {
                Some(wait) if repeats < MAX_REPEATS && waited + wait <= MAX_PATIENCE => {
                    tokio::time::sleep(wait).await;
                    waited += wait;
                    repeats += 1;
                }
                _ => {
                    return match (&message, answer) {
                        (ClientJsonRpcMessage::Request(request), Ok(answer)) => {
                            belonging(answer, &request.id, in_session)
                        }
                        (_, answer) => answer,
                    };
                }
            }
        }
    }

    pub(super) async fn delete(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, token, headers).await
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
        match self.0.get_stream(uri, session, last_event, token, headers).await {
            // A server that does not know the stream any more will not know it later either.
            Err(error) if resumes && is_refusal(&error) => Err(StreamableHttpError::ServerDoesNotSupportSse),
            stream => stream,
        }
    }
}

/// How long the server asks to wait before the same request, which it did not look at.
fn patience(error: &HttpError) -> Option<Duration> {
    match error {
        StreamableHttpError::HttpStatus(status) if status.status == 429 => {
            retry_after(status.retry_after.as_deref()?, SystemTime::now())
        }
        _ => None,
    }
}

/// The time in a `Retry-After`: seconds, or a date.
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

/// What was answered to the request `id`, as an answer to it.
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
            // Servers made after the official examples know no better way to say that a session is gone.
            if in_session && error.error.message.to_ascii_lowercase().contains("session") {
                return Err(StreamableHttpError::SessionExpired);
            }
            replaced(error.error, session)
        }
        StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Response(response), session)
            if !is_same(&response.id, id) =>
        {
            replaced(unreadable("it has the number of another request"), session)
        }
        StreamableHttpPostResponse::Sse(events, session) => {
            Ok(StreamableHttpPostResponse::Sse(readable(events, id.clone()), session))
        }
        answer => Ok(answer),
    }
}

/// Some servers write our numbers as strings.
fn is_same(of: &RequestId, id: &RequestId) -> bool {
    of == id || of.to_string() == id.to_string()
}

/// The same events, with an error in place of one that nobody could read.
fn readable(events: Events, id: RequestId) -> Events {
    let in_place = move |error: ErrorData| {
        let message = ServerJsonRpcMessage::error(error, Some(id.clone()));
        Sse { data: serde_json::to_string(&message).ok(), ..Sse::default() }
    };
    let checked = events.map(move |event| match event {
        Err(error) if error.to_string().contains("exceeded the maximum size") => Ok(in_place(oversized(MAX_MESSAGE))),
        Ok(event) => match why_unreadable(&event) {
            Some(error) => Ok(in_place(unreadable(error))),
            None => Ok(event),
        },
        error => error,
    });
    checked.boxed()
}

fn why_unreadable(event: &Sse) -> Option<serde_json::Error> {
    let data = event.data.as_deref().filter(|data| !data.trim().is_empty())?;
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    serde_json::from_str::<IgnoredAny>(data).err().filter(|_| is_message)
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

//! The HTTP client under rmcp's transport. It retries after a 429, and answers every request that the server answered
//! outside the protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientResult, JsonRpcError, RequestId, ServerJsonRpcMessage, ServerRequest};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::{Instant, timeout};

use super::authorized::Authorization;
use super::connection::{MAX_REFUSALS, not_yet};
use super::failure::{HttpError, is_about_session, unreadable};
use super::handshake::{Handshake, Revision};
use super::http_post;
use super::inbox::{PassedOver, is_answer};
use super::refusal::{is_needless, refusal};
use super::sent_headers::Values;
use base::task::Task;

/// Longest total wait of a request for 429 responses.
const MAX_PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for the answer to `server/discover`: some servers keep silent about what they do not know.
const PROBE: Duration = Duration::from_secs(10);
/// Session that rmcp is told of in place of none: it opens the stream of a server in a session only. It is never sent.
const NO_SESSION: &str = "no session";
/// Least time between two such streams: a server that ends one at once has none.
const BRIEF: Duration = Duration::from_secs(10);
/// Most retries of a request after 429 responses.
const MAX_REPEATS: u32 = 3;

/// Place of a request, and what goes there beside its message.
pub(super) struct Target {
    pub(super) uri: Arc<str>,
    pub(super) session: Option<Arc<str>>,
    /// Takes the session of the response.
    pub(super) latest: Latest,
    pub(super) token: Option<String>,
    pub(super) headers: Headers,
}

/// The HTTP client that the module describes.
#[derive(Clone)]
pub(super) struct HttpClient {
    pub(super) client: reqwest::Client,
    pub(super) authorization: Authorization,
    /// True while requests are part of a session.
    pub(super) in_session: Arc<AtomicBool>,
    pub(super) passed_over: PassedOver,
    /// Of a call.
    pub(super) timeout: Duration,
    pub(super) revision: Revision,
    pub(super) latest: Latest,
    /// When the last stream outside a session was opened.
    pub(super) listened: Arc<Mutex<Option<Instant>>>,
}

/// The session that a response named last, after that of the handshake.
pub(super) type Latest = Arc<Mutex<Option<Arc<str>>>>;
pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

impl HttpClient {
    /// A target in the session that a response named last, else in that of the handshake.
    fn target(&self, uri: &Arc<str>, session: &Option<Arc<str>>, token: Option<String>, headers: Headers) -> Target {
        let session = session.clone().filter(|session| **session != *NO_SESSION);
        let session = self.latest.lock().clone().or(session);
        Target { uri: Arc::clone(uri), session, latest: Arc::clone(&self.latest), token, headers }
    }

    /// Posts a message. A handshake is made again as often as the server refuses a revision.
    async fn post(&self, to: Target, message: ClientJsonRpcMessage) -> Result<StreamableHttpPostResponse, HttpError> {
        if to.session.is_some() {
            self.in_session.store(true, Ordering::Release);
        }
        let Some(mut handshake) = Handshake::begin(&message, &self.revision) else {
            return self.once(&to, &message).await;
        };
        loop {
            let answer = async {
                match self.once(&to, &handshake.offer()).await {
                    Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                        match self.first_answer(&to, &session, events).await {
                            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                            None => Err(StreamableHttpError::UnexpectedEndOfStream),
                        }
                    }
                    answer => answer,
                }
            };
            let read = match handshake.is_initialize() {
                true => answer.await,
                false => timeout(PROBE, answer).await.unwrap_or_else(|_| {
                    self.revision.set_initialize(true);
                    Err(StreamableHttpError::UnexpectedEndOfStream)
                }),
            };
            match read {
                Ok(StreamableHttpPostResponse::Json(answer, session)) => {
                    if let Some(answer) = handshake.read(answer) {
                        let session = session.or_else(|| handshake.is_initialize().then(|| NO_SESSION.to_owned()));
                        return Ok(StreamableHttpPostResponse::Json(answer, session));
                    }
                }
                Err(error) if refusal(&error).is_some_and(|refusal| handshake.is_refused(None, &refusal.words)) => {}
                other => return other,
            }
        }
    }

    /// The first answer in events. The server may ask before it, and wait for the reply.
    async fn first_answer(
        &self,
        to: &Target,
        session: &Option<String>,
        mut events: Events,
    ) -> Option<ServerJsonRpcMessage> {
        let mut replies = Vec::new();
        while let Some(Ok(event)) = events.next().await {
            match event.data.and_then(|data| serde_json::from_str(&data).ok()) {
                Some(ServerJsonRpcMessage::Request(asked)) if replies.len() < MAX_REFUSALS => {
                    let reply = match asked.request {
                        ServerRequest::PingRequest(_) => {
                            ClientJsonRpcMessage::response(ClientResult::empty(()), asked.id)
                        }
                        _ => ClientJsonRpcMessage::error(not_yet(), Some(asked.id)),
                    };
                    let to =
                        self.target(&to.uri, &session.as_deref().map(Into::into), to.token.clone(), to.headers.clone());
                    let client = self.clone();
                    // Not awaited: the server may read nothing while it asks.
                    replies.push(Task::spawn(async move {
                        let _ = http_post::post(&client.client, &to, &reply, &client.passed_over).await;
                    }));
                }
                Some(answer) if is_answer(&answer) => return Some(answer),
                _ => {}
            }
        }
        None
    }

    async fn once(&self, to: &Target, message: &ClientJsonRpcMessage) -> Result<StreamableHttpPostResponse, HttpError> {
        match (message, patiently(self.timeout, || http_post::post(&self.client, to, message, &self.passed_over)).await)
        {
            (ClientJsonRpcMessage::Request(request), Ok(answer)) => {
                belonging(answer, &request.id, to.session.is_some())
            }
            (_, answer) => answer,
        }
    }
}

/// Turns a response into the answer to the request `id`.
fn belonging(
    answer: StreamableHttpPostResponse,
    id: &RequestId,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let StreamableHttpPostResponse::Json(message, session) = answer else { return Ok(answer) };
    let message = match message {
        ServerJsonRpcMessage::Error(JsonRpcError { error, id: of, .. })
            if !of.as_ref().is_some_and(|of| is_same(of, id)) =>
        {
            // It may be about our session, which is no proof: the status would be 400 then, or the code says so.
            if in_session && error.message.to_ascii_lowercase().contains("session") && !is_about_session(&error) {
                return Err(StreamableHttpError::UnexpectedServerResponse(error.message));
            }
            ServerJsonRpcMessage::error(error, Some(id.clone()))
        }
        ServerJsonRpcMessage::Response(response) if is_same(&response.id, id) => {
            ServerJsonRpcMessage::Response(response)
        }
        ServerJsonRpcMessage::Error(error) => ServerJsonRpcMessage::Error(error),
        // The body has ended, and without a session no other answer comes.
        other if !in_session || is_answer(&other) => {
            let why = if is_answer(&other) { "it has the number of another request" } else { "no answer" };
            let came = serde_json::to_vec(&other).unwrap_or_default();
            ServerJsonRpcMessage::error(unreadable(why, &came), Some(id.clone()))
        }
        // The answer may come on the session's own stream.
        other => other,
    };
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// Sends the configured headers and the token of the login with every request. The trait's other methods, with rmcp's limits for
/// events, stay at their default.
impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = |token, own: &Values| {
            self.post(self.target(&uri, &session, token, both(&headers, &own.headers)), message.clone())
        };
        match self.authorization.send(request).await {
            Err(error) if is_needless(&message, &error) => Ok(StreamableHttpPostResponse::Accepted),
            answer => answer,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let request = |token, own: &Values| {
            let target = self.target(&uri, &Some(session.clone()), token, both(&headers, &own.headers));
            async move {
                match target.session {
                    Some(session) => {
                        self.client.delete_session(target.uri, session, target.token, target.headers).await
                    }
                    None => Ok(()),
                }
            }
        };
        self.authorization.send(request).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let request = |token, own: &Values| {
            let target = self.target(&uri, &session, token, both(&headers, &own.headers));
            let last = last_event.clone();
            let now = (target.session.is_none() && last.is_none()).then(Instant::now);
            let is_brief = now.is_some_and(|now| {
                self.listened.lock().replace(now).is_some_and(|before| now.duration_since(before) < BRIEF)
            });
            async move {
                if is_brief {
                    return Err(StreamableHttpError::ServerDoesNotSupportSse);
                }
                http_post::listen(&self.client, &target, last, &self.passed_over).await
            }
        };
        self.authorization.send(request).await
    }
}

/// Headers of the transport and the configured ones.
fn both(headers: &Headers, own: &HeaderMap) -> Headers {
    headers.iter().chain(own).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Makes a request, and again after a 429 that says when, within [`MAX_PATIENCE`] and before the `limit` of a call.
pub(crate) async fn patiently<T, F>(limit: Duration, request: impl Fn() -> F) -> Result<T, HttpError>
where
    F: Future<Output = Result<T, HttpError>>,
{
    let (began, mut waited, mut repeats) = (Instant::now(), Duration::ZERO, 0);
    loop {
        let answer = request().await;
        let most = MAX_PATIENCE.saturating_sub(waited);
        match answer.as_ref().err().and_then(patience) {
            Some(wait) if repeats < MAX_REPEATS && wait <= most && began.elapsed() + wait < limit => {
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
    let refusal = refusal(error).filter(|refusal| refusal.status == StatusCode::TOO_MANY_REQUESTS)?;
    retry_after(refusal.retry_after.as_deref()?, SystemTime::now())
}

/// Parses a `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// Compares ids. Some servers write our numbers as strings.
pub(super) fn is_same(of: &RequestId, id: &RequestId) -> bool {
    of == id || of.to_string() == id.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::refusal::Refusal;

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_too_long_ends_the_waiting() {
        for (limit, left) in [(Duration::MAX, 0), (Duration::from_secs(2), 0), (Duration::from_secs(1), 1)] {
            let said = parking_lot::Mutex::new(vec!["18446744073709551615", "1"]);
            let answer = patiently(limit, || async {
                let retry_after = said.lock().pop().map(str::to_owned);
                let refusal = Refusal { retry_after, ..Refusal::bare(StatusCode::TOO_MANY_REQUESTS) };
                Err::<(), _>(HttpError::from(refusal))
            });
            assert!(answer.await.is_err());
            assert_eq!(said.lock().len(), left, "{limit:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:07 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }
}

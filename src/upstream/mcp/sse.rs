//! MCP servers over HTTP+SSE, the transport of 2024-11-05: a long-lived event stream whose first event names the
//! address for posts.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
};
use sse_stream::{Sse, SseStream};
use tokio::sync::mpsc;
use url::Url;

use super::authorized::Authorization;
use super::failure::HttpError;
use super::http;
use super::http_client::Headers;
use super::lines::MAX_MESSAGE;
use super::message::{self, Parsed};
use crate::error::Result;
use crate::limits;
use crate::task::{self, Task};

/// Messages of a server in the queue.
const QUEUE: usize = 16;
/// Most bytes of a refusal that an error repeats.
const MAX_REFUSAL: usize = 300;
/// Most other events before the one that names the address.
const MAX_PRELUDE: usize = limits::PRELUDE.max;

/// Posts messages to a server, and reads its events.
pub(super) struct SseTransport {
    client: reqwest::Client,
    authorization: Authorization,
    endpoint: Url,
    received: mpsc::Receiver<ServerJsonRpcMessage>,
    ended: Arc<AtomicBool>,
    reading: Option<Task>,
}

impl SseTransport {
    /// Opens the stream at `url`, with the headers and the token of `authorization`, and waits for the address.
    ///
    /// # Errors
    /// A failed connection, or the server's refusal.
    pub(super) async fn connect(url: &str, authorization: Authorization) -> Result<Result<Self, HttpError>> {
        Ok(Self::open(http::client(url)?, url, authorization).await)
    }

    async fn open(client: reqwest::Client, url: &str, authorization: Authorization) -> Result<Self, HttpError> {
        let get = |token, own: &Headers| {
            let request = client.get(url).headers(map(own)).header(ACCEPT, "text/event-stream");
            sent(request, token)
        };
        let response = authorization.send(get).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        if !kind.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let base = response.url().clone();
        let mut events = Box::pin(events(response));
        let endpoint = endpoint(&mut events, &base).await?;
        let (tell, received) = mpsc::channel(QUEUE);
        let ended = Arc::new(AtomicBool::new(false));
        let reading = Some(Task::spawn(read(events, tell, Arc::clone(&ended))));
        Ok(Self { client, authorization, endpoint, received, ended, reading })
    }

    /// Becomes true when the stream ends, before every request has seen it.
    pub(super) fn ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ended)
    }
}

/// Error that ends the stream of an event over the limit.
pub(super) const TOO_LARGE: &str = "an event is too large";

pub(super) type Event = Result<Sse, sse_stream::Error>;

/// Events of a response, each within the size limit of a message.
pub(super) fn events(response: Response) -> impl Stream<Item = Event> + Send + 'static {
    let size = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&size);
    let bounded = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(std::io::Error::other)?;
        let size = counted.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if size > MAX_MESSAGE { Err(std::io::Error::other(TOO_LARGE)) } else { Ok(bytes) }
    });
    SseStream::from_bytes_stream(bounded).inspect(move |_| size.store(0, Ordering::Relaxed))
}

/// Reads the address for posts. It must have the same origin, since our headers go there.
async fn endpoint(events: &mut (impl Stream<Item = Event> + Unpin), base: &Url) -> Result<Url, HttpError> {
    let wrong = |what: String| StreamableHttpError::UnexpectedServerResponse(what.into());
    for _ in 0..MAX_PRELUDE {
        let event = events.next().await.ok_or(StreamableHttpError::UnexpectedEndOfStream)??;
        let Some(address) = event.data.filter(|_| event.event.as_deref() == Some("endpoint")) else { continue };
        if address.len() > limits::ENDPOINT.max {
            let (bytes, most) = (address.len(), limits::ENDPOINT.max);
            return Err(wrong(format!("an address of {bytes} bytes, over the limit of {most}")));
        }
        let endpoint = base.join(address.trim()).map_err(|error| wrong(format!("the address `{address}`: {error}")))?;
        if endpoint.origin() != base.origin() {
            return Err(wrong(format!("an address on another origin, {}", endpoint.origin().ascii_serialization())));
        }
        return Ok(endpoint);
    }
    Err(wrong("events, but no address to post to".to_owned()))
}

/// Forwards messages until the stream ends or the receiver is gone.
async fn read(
    mut events: impl Stream<Item = Event> + Unpin,
    tell: mpsc::Sender<ServerJsonRpcMessage>,
    ended: Arc<AtomicBool>,
) {
    while let Some(event) = events.next().await {
        let data = match event {
            Ok(Sse { event, data: Some(data), .. }) if matches!(event.as_deref(), None | Some("" | "message")) => data,
            Ok(_) => continue,
            Err(error) => {
                tracing::debug!(%error, "the stream failed");
                break;
            }
        };
        for parsed in task::work_on(data.len(), || message::parse(data.as_bytes())) {
            let message = match parsed {
                Parsed::Message(message) => *message,
                Parsed::Answer(id, error) => ServerJsonRpcMessage::error(error, Some(id)),
                Parsed::Broken(error) => {
                    tracing::debug!(error = %error.message, "an event is not MCP");
                    continue;
                }
                Parsed::Other(_) => continue,
                Parsed::Large(what) => {
                    tracing::warn!("an event is left out: {what}");
                    continue;
                }
            };
            if tell.send(message).await.is_err() {
                return ended.store(true, Ordering::Release);
            }
        }
    }
    ended.store(true, Ordering::Release);
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let (client, endpoint) = (self.client.clone(), self.endpoint.clone());
        let authorization = self.authorization.clone();
        async move {
            let post =
                |token, own: &Headers| sent(client.post(endpoint.clone()).headers(map(own)).json(&message), token);
            authorization.send(post).await.map(drop)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.reading.take();
        Ok(())
    }
}

fn map(headers: &Headers) -> HeaderMap {
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Sends a request with this token; a refusal is an error.
async fn sent(request: RequestBuilder, token: Option<String>) -> Result<Response, HttpError> {
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    accepted(request.send().await.map_err(StreamableHttpError::Client)?).await
}

/// Passes a successful response; a refusal is an error.
async fn accepted(response: Response) -> Result<Response, HttpError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    match status {
        StatusCode::UNAUTHORIZED => {
            let challenge = header(reqwest::header::WWW_AUTHENTICATE).unwrap_or_default();
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
        StatusCode::FORBIDDEN => {
            if let Some(challenge) = header(reqwest::header::WWW_AUTHENTICATE) {
                let scope = scope(&challenge);
                return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)));
            }
        }
        StatusCode::TOO_MANY_REQUESTS => {
            return Err(HttpStatusError::new(status.as_u16(), header(RETRY_AFTER)).into());
        }
        _ if status.is_server_error() => return Err(HttpStatusError::new(status.as_u16(), None).into()),
        _ => {}
    }
    let is_post = response.url().query().is_some() && status == StatusCode::NOT_FOUND;
    let mut body = response.bytes_stream();
    let mut words = Vec::new();
    while words.len() < MAX_REFUSAL
        && let Some(Ok(bytes)) = body.next().await
    {
        words.extend_from_slice(&bytes);
    }
    words.truncate(MAX_REFUSAL);
    let words = String::from_utf8_lossy(&words);
    // Streams are sessions here: this is how a server reports that it does not know the stream.
    if is_post && words.to_ascii_lowercase().contains("session") {
        return Err(StreamableHttpError::SessionExpired);
    }
    Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {words}").into()))
}

/// The scope of a challenge (RFC 6750, section 3).
pub(super) fn scope(challenge: &str) -> Option<String> {
    let (_, value) = challenge.split_once("scope=")?;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', ' ']).next(),
    };
    scope.map(str::to_owned)
}

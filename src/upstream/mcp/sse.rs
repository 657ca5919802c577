//! MCP servers over HTTP+SSE, the transport of 2024-11-05: a long-lived event stream whose first event names the
//! address for posts.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{RequestBuilder, Response};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use sse_stream::{Sse, SseStream};
use tokio::sync::mpsc;
use url::Url;

use super::authorized::Authorization;
use super::failure::HttpError;
use super::http;
use super::http_client::{Events, Headers};
use super::http_post::EVENTS;
use super::lines::MAX_MESSAGE;
use super::pending::Pending;
use super::refusal::{Refusal, challenge, header};
use super::stream_messages::{PassedOver, readable};
use crate::error::Result;
use crate::limits;
use crate::openapi::essence;
use crate::task::{self, Task};

/// Messages of a server in the queue.
const QUEUE: usize = 16;
/// Most other events before the one that names the address.
const MAX_PRELUDE: usize = limits::PRELUDE.max;

/// Posts messages to a server, and reads its events.
pub(super) struct SseTransport {
    client: reqwest::Client,
    authorization: Authorization,
    endpoint: Url,
    pending: Pending,
    received: mpsc::Receiver<ServerJsonRpcMessage>,
    ended: Arc<AtomicBool>,
    reading: Option<Task>,
}

impl SseTransport {
    /// Opens the stream at `url`, with the headers and the token of `authorization`, and waits for the address.
    ///
    /// # Errors
    /// A failed connection, or the server's refusal.
    pub(super) async fn connect(
        url: &str,
        authorization: Authorization,
        passed_over: PassedOver,
    ) -> Result<Result<Self, HttpError>> {
        Ok(Self::open(http::client(url)?, url, authorization, passed_over).await)
    }

    async fn open(
        client: reqwest::Client,
        url: &str,
        authorization: Authorization,
        passed_over: PassedOver,
    ) -> Result<Self, HttpError> {
        let get = |token, own: &Headers| {
            let request = client.get(url).headers(map(own)).header(ACCEPT, "text/event-stream");
            sent(request, token, false)
        };
        let response = authorization.send(get).await?;
        let kind = header(&response, CONTENT_TYPE);
        if kind.as_deref().is_none_or(|kind| essence(kind) != EVENTS) {
            return Err(StreamableHttpError::UnexpectedContentType(kind));
        }
        let base = response.url().clone();
        let mut events = events(response);
        let endpoint = endpoint(&mut events, &base, &passed_over).await?;
        let pending = Pending::default();
        let events = readable(events, None, Some(pending.clone()), passed_over);
        let (tell, received) = mpsc::channel(QUEUE);
        let ended = Arc::new(AtomicBool::new(false));
        let reading = Some(Task::spawn(read(events, tell, Arc::clone(&ended))));
        Ok(Self { client, authorization, endpoint, pending, received, ended, reading })
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
pub(super) fn events(response: Response) -> Events {
    let size = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&size);
    let bounded = response.bytes_stream().map(move |bytes| {
        let bytes = bytes.map_err(std::io::Error::other)?;
        let size = counted.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if size > MAX_MESSAGE { Err(std::io::Error::other(TOO_LARGE)) } else { Ok(bytes) }
    });
    SseStream::from_bytes_stream(bounded).inspect(move |_| size.store(0, Ordering::Relaxed)).boxed()
}

/// Reads the address for posts. It must have the same origin, since our headers go there.
async fn endpoint(events: &mut Events, base: &Url, passed_over: &PassedOver) -> Result<Url, HttpError> {
    let wrong = |what: String| StreamableHttpError::UnexpectedServerResponse(what.into());
    for _ in 0..MAX_PRELUDE {
        let event = events.next().await.ok_or(StreamableHttpError::UnexpectedEndOfStream)??;
        let Some(address) = event.data else { continue };
        if event.event.as_deref() != Some("endpoint") {
            passed_over.keep(&address);
            continue;
        }
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
async fn read(mut events: Events, tell: mpsc::Sender<ServerJsonRpcMessage>, ended: Arc<AtomicBool>) {
    while let Some(event) = events.next().await {
        let Ok(event) = event.inspect_err(|error| tracing::debug!(%error, "the stream failed")) else { break };
        let data = event.data.unwrap_or_default();
        let message = task::work_on(data.len(), || serde_json::from_str(&data));
        if let Ok(message) = message
            && tell.send(message).await.is_err()
        {
            break;
        }
    }
    ended.store(true, Ordering::Release);
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        self.pending.sent(&message);
        let (client, endpoint) = (self.client.clone(), self.endpoint.clone());
        let authorization = self.authorization.clone();
        async move {
            let post = |token, own: &Headers| {
                sent(client.post(endpoint.clone()).headers(map(own)).json(&message), token, true)
            };
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
async fn sent(request: RequestBuilder, token: Option<String>, in_session: bool) -> Result<Response, HttpError> {
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    let response = request.send().await.map_err(StreamableHttpError::Client)?;
    if response.status().is_success() {
        return Ok(response);
    }
    Err(match challenge(&response) {
        Some(challenge) => challenge,
        // Streams are sessions here.
        None if in_session => Refusal::read(response).await.in_session().into(),
        None => Refusal::read(response).await.into(),
    })
}

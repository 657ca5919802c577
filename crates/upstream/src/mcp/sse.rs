//! MCP servers over HTTP+SSE, the transport of 2024-11-05: a long-lived event stream whose first event names the
//! address for posts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt as _, stream};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use sse_stream::{Sse, SseStream};
use url::Url;

use super::authorized::Authorization;
use super::connection::{Connection, Outgoing};
use super::failure::HttpError;
use super::handshake::Revision;
use super::http_client::Events;
use super::http_post::EVENTS;
use super::inbox::{Inbox, PassedOver};
use super::lines::MAX_MESSAGE;
use super::pending::Pending;
use super::refusal::{Refusal, challenge, header};
use super::sent_headers::Values;
use crate::openapi::spec::essence;
use base::limits;

/// Most other events before the one that names the address.
const MAX_PRELUDE: usize = limits::PRELUDE.max;

/// Opens the stream at `url`, with the headers and the token of `authorization`, and waits for the address. Handshakes offer
/// `revision` first.
///
/// # Errors
/// A failed connection, or the server's refusal.
pub(super) async fn connect(
    client: reqwest::Client,
    url: &str,
    authorization: Authorization,
    mut over: PassedOver,
    revision: &Revision,
) -> Result<Connection<Posts>, HttpError> {
    let get = |token, own: &Values| {
        let request = client.get(url).headers(own.headers.clone()).header(ACCEPT, "text/event-stream");
        sent(request, token, false)
    };
    let response = authorization.send(get).await?;
    let kind = header(&response, CONTENT_TYPE);
    if kind.as_deref().is_none_or(|kind| essence(kind) != EVENTS) {
        return Err(StreamableHttpError::UnexpectedContentType(kind));
    }
    let base = response.url().clone();
    let mut events = events(response);
    let endpoint = endpoint(&mut events, &base, &mut over).await?;
    let pending = Pending::default();
    let messages = messages(events, Inbox::of_connection(pending.clone(), over));
    Ok(Connection::new(Posts { client, authorization, endpoint }, pending, messages, revision))
}

/// Messages of each event, until the stream ends or fails. One that fails is closed: what the server says on it is lost.
fn messages(events: Events, inbox: Inbox) -> impl Stream<Item = Vec<ServerJsonRpcMessage>> {
    stream::unfold(Some((events, inbox)), |open| async {
        let (mut events, mut inbox) = open?;
        Some(match events.next().await? {
            Ok(event) => (inbox.event(&event), Some((events, inbox))),
            Err(error) => (inbox.failed(&error), None),
        })
    })
}

/// Posts messages to the address of a stream.
pub(super) struct Posts {
    client: reqwest::Client,
    authorization: Authorization,
    endpoint: Url,
}

impl Outgoing for Posts {
    type Error = HttpError;

    fn send(&self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let Self { client, authorization, endpoint } = self;
        let (client, authorization, endpoint) = (client.clone(), authorization.clone(), endpoint.clone());
        async move {
            let post = |token, own: &Values| {
                sent(client.post(endpoint.clone()).headers(own.headers.clone()).json(&message), token, true)
            };
            authorization.send(post).await.map(drop)
        }
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
async fn endpoint(events: &mut Events, base: &Url, over: &mut PassedOver) -> Result<Url, HttpError> {
    let wrong = |what: String| StreamableHttpError::UnexpectedServerResponse(what.into());
    for _ in 0..MAX_PRELUDE {
        let event = events.next().await.ok_or(StreamableHttpError::UnexpectedEndOfStream)??;
        let Some(address) = event.data else { continue };
        if event.event.as_deref() != Some("endpoint") {
            over.keep("not MCP", address.as_bytes());
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

/// Sends a request with this token; a refusal is an error.
async fn sent(request: RequestBuilder, token: Option<String>, in_session: bool) -> Result<Response, HttpError> {
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    let response = request.send().await.map_err(StreamableHttpError::Client)?;
    match challenge(&response) {
        _ if response.status().is_success() => Ok(response),
        Some(challenge) => Err(challenge),
        // Streams are sessions here.
        None => Err(Refusal::read(response, in_session).await.into()),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientRequest, PingRequest, RequestId};

    use super::*;
    use crate::stderr::Stderr;

    /// Ids and error codes of the messages in a stream of events, while these requests are pending.
    async fn read(waiting: &[i64], text: String) -> Vec<(i64, i64)> {
        let (pending, over) = (Pending::default(), PassedOver::new("x", "stream", Stderr::default()));
        for id in waiting {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            pending.sent(&ClientJsonRpcMessage::request(ping, RequestId::Number(*id)));
        }
        // One event after the other; the server goes on listening.
        let parts: Vec<_> = text.split_inclusive("\n\n").map(|part| Ok::<_, std::io::Error>(part.to_owned())).collect();
        let body = stream::iter(parts).chain(stream::pending());
        let events = events(http::Response::new(reqwest::Body::wrap_stream(body)).into());
        let found = messages(events, Inbox::of_connection(pending, over)).concat().await;
        let found = found.iter().map(|message| serde_json::to_value(message).expect("it is JSON"));
        found
            .map(|message| (message["id"].as_i64().unwrap_or(0), message["error"]["code"].as_i64().unwrap_or(0)))
            .collect()
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_ends_the_stream_and_fails_the_only_request() {
        let answer =
            |id: i64, text: &str| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{text}\"}}\n\n");
        // A line without a colon ends the stream too.
        let both = answer(1, "") + &answer(2, "") + "keepalive\n\n" + &answer(3, "");
        assert_eq!(read(&[1, 2, 3], both).await, [(1, 0), (2, 0)]);
        let long = answer(1, &"x".repeat(MAX_MESSAGE));
        assert_eq!(read(&[1], long.clone()).await, [(1, -32049)]);
        assert_eq!(read(&[1, 2], long).await, [], "it may be the answer of either");
    }
}

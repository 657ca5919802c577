//! MCP servers over HTTP+SSE, the transport of 2024-11-05: a long-lived event stream whose first event names the
//! address for posts.

use futures::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use url::Url;

use super::authorized::Authorization;
use super::connection::{Connection, Outgoing};
use super::event_stream::{ENDLESS, Event, Received, events};
use super::failure::HttpError;
use super::handshake::Revision;
use super::http_post::EVENTS;
use super::inbox::{Inbox, PassedOver, is_answer};
use super::pending::Pending;
use super::refusal::{Refusal, challenge, header, is_needless};
use super::sent_headers::Values;
use crate::openapi::spec::essence;
use base::limits;
use base::lines::{Line, trim};

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
    let get = |token, own: &Values| stream(client.get(url).headers(own.headers.clone()), token);
    let response = authorization.send(get).await?;
    let base = response.url().clone();
    let mut events = events(response);
    let endpoint = endpoint(&mut events, &base, &mut over).await?;
    let pending = Pending::default();
    let messages = messages(events, Inbox::of_connection(pending.clone(), over));
    Ok(Connection::new(Posts { client, authorization, endpoint }, pending, messages, revision))
}

/// Messages of each event, until the stream ends or fails.
fn messages(events: Received, mut inbox: Inbox) -> impl Stream<Item = Vec<ServerJsonRpcMessage>> {
    let mut is_answered = false;
    events.map(move |event| {
        let messages = match event {
            Ok(Event { fields, data }) => inbox.event(fields.event.as_deref(), data),
            // The event itself may have named its request.
            Err(error) if error.kind() == ENDLESS && !is_answered => inbox.endless().into_iter().collect(),
            Err(error) => {
                tracing::debug!(%error, "the stream failed");
                Vec::new()
            }
        };
        is_answered = messages.iter().any(is_answer);
        messages
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
            match authorization.send(post).await {
                Err(error) if !is_needless(&message, &error) => Err(error),
                _ => Ok(()),
            }
        }
    }
}

/// Reads the address for posts. It must have the same origin, since our headers go there.
async fn endpoint(events: &mut Received, base: &Url, over: &mut PassedOver) -> Result<Url, HttpError> {
    let wrong = |what: String| StreamableHttpError::UnexpectedServerResponse(what.into());
    for _ in 0..MAX_PRELUDE {
        let event = events.next().await.ok_or(StreamableHttpError::UnexpectedEndOfStream)?;
        let Event { fields, data } = event.map_err(StreamableHttpError::Io)?;
        let (bytes, address) = match &data {
            Line::Whole(data) => (trim(data).len(), trim(data)),
            Line::Skipped { head, bytes, .. } => (*bytes, &**head),
        };
        if fields.event.as_deref() != Some("endpoint") {
            over.keep("not MCP", address);
            continue;
        }
        if bytes > limits::ENDPOINT.max {
            let most = limits::ENDPOINT.max;
            return Err(wrong(format!("an address of {bytes} bytes, over the limit of {most}")));
        }
        let address = String::from_utf8_lossy(address);
        let endpoint = base.join(&address).map_err(|error| wrong(format!("the address `{address}`: {error}")))?;
        if endpoint.origin() != base.origin() {
            return Err(wrong(format!("an address on another origin, {}", endpoint.origin().ascii_serialization())));
        }
        return Ok(endpoint);
    }
    Err(wrong("events, but no address to post to".to_owned()))
}

/// Asks for a stream with this token.
///
/// # Errors
/// The server's refusal, or an answer of another type.
pub(super) async fn stream(request: RequestBuilder, token: Option<String>) -> Result<Response, HttpError> {
    let response = sent(request.header(ACCEPT, EVENTS), token, false).await?;
    let kind = header(&response, CONTENT_TYPE);
    match kind.as_deref().is_some_and(|kind| essence(kind) == EVENTS) {
        true => Ok(response),
        false => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
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
    use futures::{FutureExt as _, stream};
    use rmcp::model::{ClientRequest, PingRequest, RequestId};

    use super::*;
    use crate::mcp::inbox::readable;
    use crate::mcp::lines::MAX_MESSAGE;
    use crate::stderr::Stderr;

    fn over() -> PassedOver {
        PassedOver::new("x", "stream", Stderr::default())
    }

    fn received(parts: impl Stream<Item = String> + Send + 'static) -> Received {
        let body = reqwest::Body::wrap_stream(parts.map(Ok::<_, std::io::Error>));
        events(http::Response::new(body).into())
    }

    /// Ids and error codes of the messages in a stream of events, while these requests are pending.
    async fn read(waiting: &[i64], events: Received) -> Vec<(i64, i64)> {
        let pending = Pending::default();
        for id in waiting {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            pending.sent(&ClientJsonRpcMessage::request(ping, RequestId::Number(*id)));
        }
        let found = messages(events, Inbox::of_connection(pending, over())).concat().await;
        let found = found.iter().map(|message| serde_json::to_value(message).expect("it is JSON"));
        found
            .map(|message| (message["id"].as_i64().unwrap_or(0), message["error"]["code"].as_i64().unwrap_or(0)))
            .collect()
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_fails_the_request_that_it_answers_and_the_stream_goes_on() {
        let long = "x".repeat(MAX_MESSAGE);
        for (waiting, begins, ends, fails) in [
            (vec![1, 2], "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", "\"}", Some(1)),
            (vec![1, 2], "{\"result\":\"", "\",\"jsonrpc\":\"2.0\",\"id\":2}", Some(2)),
            (vec![1, 2], "{\"result\":\"", "\",\"jsonrpc\":\"2.0\"}", None),
            (vec![1], "{\"result\":\"", "\",\"jsonrpc\":\"2.0\"}", Some(1)),
            (vec![1], "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", "\"}]", Some(1)),
            (
                vec![1],
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"",
                "\"}}",
                None,
            ),
            (vec![1], "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\",\"params\":{\"x\":\"", "\"}}", None),
        ] {
            let after = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}";
            let parts = [format!("data: {begins}{long}{ends}\n\n"), format!("data: {after}\n\n")];
            let found = read(&waiting, received(stream::iter(parts))).await;
            let failed = fails.map(|id| (id, -32049));
            assert_eq!(found, failed.into_iter().chain([(9, 0)]).collect::<Vec<_>>(), "{begins} {waiting:?}");
        }
    }

    #[tokio::test]
    async fn an_event_without_end_fails_the_request_that_it_may_answer_and_is_not_read_again() {
        let endless = |head: &str| {
            let more = stream::repeat("x".repeat(1 << 20));
            received(stream::iter([head.to_owned()]).chain(more))
        };
        for (waiting, head, fails) in [
            (vec![1], "data: ", Some(1)),
            (vec![1, 2], "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"", Some(2)),
            (vec![1, 2], "data: ", None),
        ] {
            let failed: Vec<_> = fails.map(|id| (id, -32049)).into_iter().collect();
            assert_eq!(read(&waiting, endless(head)).await, failed, "{head} {waiting:?}");
        }
        for (owed, answers) in [(Some(RequestId::Number(7)), 1), (None, 0)] {
            let mut events = readable(endless("id: 1\ndata: "), owed, over());
            let found = events.by_ref().take(1 + answers).collect::<Vec<_>>().await;
            let told = found.iter().flatten().filter_map(|event| event.data.as_deref());
            assert_eq!(told.filter(|text| text.contains("-32049")).count(), answers, "{found:?}");
            assert!(events.next().now_or_never().is_none(), "a stream that ends would be resumed");
        }
    }
}

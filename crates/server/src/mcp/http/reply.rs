//! Answers over HTTP that are not rmcp's.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode as RpcCode, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::admission::Held;
use super::sessions::HttpClient;
pub(super) use crate::console::{Reply, ReplyBody};
use base::error::Error;
use base::task::Task;
use base::turns;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Code of refusals.
const REFUSED: RpcCode = RpcCode(-32000);
/// Headers of answers that a page may read beside those that it always may.
const EXPOSED: &str = "mcp-session-id, www-authenticate, retry-after";
/// Bytes that a part of a stream counts for beside its text.
const FRAME: usize = 256;
/// Seconds after which a refused client may try again.
const AGAIN: HeaderValue = HeaderValue::from_static("1");

fn reply(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(header::RETRY_AFTER, AGAIN);
    }
    reply
}

/// A plain text.
pub(super) fn text(status: StatusCode, text: &'static str) -> Reply {
    reply(status, PLAIN, text)
}

/// Metrics.
pub(super) fn metrics(text: String) -> Reply {
    reply(StatusCode::OK, METRICS, text)
}

/// A JSON-RPC error.
pub(super) fn error(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Reply {
    let message: ServerJsonRpcMessage = JsonRpcMessage::error(error, id);
    reply(status, JSON, serde_json::to_vec(&message).unwrap_or_default())
}

/// A refusal: what was wrong, and what to do.
pub(super) fn refused(status: StatusCode, id: Option<RequestId>, what: &str, fix: &str) -> Reply {
    error(status, id, ErrorData::new(REFUSED, what.to_owned(), Some(json!({ "suggestedFix": fix }))))
}

/// An answer behind which the connection is closed.
pub(super) fn closing(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// The answer after a panic.
pub(super) fn defect(error: &Error) -> Reply {
    refused(StatusCode::INTERNAL_SERVER_ERROR, None, &error.message, error.suggested_fix())
}

/// A request without a valid token, with the challenge that the specification asks for.
pub(super) fn unauthorized(challenge: &'static str, what: &str) -> Reply {
    let fix = "send `Authorization: Bearer TOKEN`; `forgefs clients add NAME` makes a token";
    challenged(StatusCode::UNAUTHORIZED, HeaderValue::from_static(challenge), what, fix)
}

/// A refusal with a challenge.
pub(super) fn challenged(status: StatusCode, challenge: HeaderValue, what: &str, fix: &str) -> Reply {
    let mut reply = refused(status, None, what, fix);
    reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    reply
}

/// A JSON document.
pub(super) fn json(status: StatusCode, document: &Value) -> Reply {
    reply(status, JSON, document.to_string())
}

/// Headers that a page of an allowed origin may send.
pub(super) fn preflight() -> Reply {
    let mut reply = reply(StatusCode::NO_CONTENT, PLAIN, "");
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // Of the specification, and what browsers do not send unasked.
    let allowed = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, \
                   mcp-name";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

/// Lets a page of an allowed origin read an answer.
pub(super) fn readable_by(mut reply: Reply, origin: HeaderValue) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    reply
}

/// Keeps `held` until the answer was read or its reader is gone.
pub(super) fn holding<H: Send + Sync + 'static>(reply: Reply, held: H) -> Reply {
    // There are no errors: the closure is there for what it owns.
    let holding = move |never| {
        let _held = &held;
        never
    };
    reply.map(|body| body.map_err(holding).boxed())
}

/// Counts what is not written of an answer among what the client has not read. A stream waits for no reader: it is taken
/// as it comes, in turns with those of other clients, and one that is far over what a client may leave unread is cut off,
/// as is every one at `until`.
pub(super) fn counted(reply: Reply, client: &HttpClient, until: Option<Instant>) -> Reply {
    let (unread, party) = (client.admission.unread.clone(), Arc::clone(&client.name));
    reply.map(|mut body| {
        if let Some(whole) = body.size_hint().exact().and_then(|_| body.frame().now_or_never()) {
            let data = whole.and_then(Result::ok).and_then(|frame| frame.into_data().ok()).unwrap_or_default();
            let held = unread.keep(data.len());
            return Full::new(Bytes::from_owner(Unwritten { data, _held: held })).boxed();
        }
        let (tell, mut told) = mpsc::unbounded_channel();
        let taking = turns::taking(party, async move {
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                let Ok(held) = unread.keep_late(data.len() + FRAME) else { return };
                let data = Bytes::from_owner(Unwritten { data, _held: held });
                if tell.send(Ok(Frame::data(data))).is_err() {
                    return;
                }
            }
        });
        let taking = Task::spawn(taking);
        let mut end = until.map(|end| Box::pin(tokio::time::sleep_until(end)));
        StreamBody::new(futures::stream::poll_fn(move |context| {
            let _taking = &taking;
            match end.as_mut().map(|end| end.as_mut().poll(context)) {
                Some(Poll::Ready(())) => Poll::Ready(None),
                _ => told.poll_recv(context),
            }
        }))
        .boxed()
    })
}

/// A part of an answer, counted until hyper has written it.
struct Unwritten {
    data: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

//! A request over HTTP that was admitted: its body, its message, and the revision of its client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, RequestId};

use super::super::admission::{Admission, Held};
use super::super::message::{self, Read};
use super::refusals::not_admitted;
use super::reply::{self, Reply};
use base::error::{Error, ErrorCode};
use base::lines::trim;
use base::{limits, meter, random, task};

/// Time for the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// Delay after which a client may reconnect a broken stream.
pub(super) const RETRY: Duration = Duration::from_secs(3);
/// First revision whose clients know an event without data.
const PRIMED: &str = "2025-11-25";
/// First revision without sessions.
const MODERN: &str = "2026-07-28";
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// An admitted request, in flight until its answer was read or its reader is gone; one that a session's transport has
/// taken, until that has answered it. Ids of 2026-07-28 are not the client's own: its other windows use the same ones.
pub(super) struct InFlight {
    pub(super) admission: Admission,
    pub(super) id: RequestId,
    pub(super) taken: Arc<AtomicBool>,
}

impl InFlight {
    pub(super) fn new(admission: Admission, message: &ClientJsonRpcMessage, held: Held) -> Result<Self, Error> {
        let id = RequestId::String(random::token().into());
        admission.admit_as(&id, message, held)?;
        Ok(Self { admission, id, taken: Arc::default() })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.taken.load(Ordering::Acquire) {
            self.admission.end(&self.id);
        }
    }
}

/// The body of a request, with its bytes held. What is too large is not read.
pub(super) async fn received(mut body: Incoming, admission: &Admission) -> Result<(Vec<u8>, Held), Reply> {
    let mut held = admission.bytes.hold(0).map_err(|error| not_admitted(&error, None))?;
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let broken = |_| reply::refused(StatusCode::BAD_REQUEST, None, "the body broke off", "send it again");
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            let size = bytes.len() + data.len();
            if size > limits::CLIENT_MESSAGE.max {
                let error = limits::CLIENT_MESSAGE.exceeded(ErrorCode::LimitExceeded, size);
                return Err(reply::error(StatusCode::PAYLOAD_TOO_LARGE, None, message::refusal(&error)));
            }
            held.grow(size).map_err(|error| not_admitted(&error, None))?;
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY, reading).await {
        Ok(read) => read?,
        Err(_) => {
            let what = format!("the body took over {BODY:?}");
            return Err(reply::refused(StatusCode::REQUEST_TIMEOUT, None, &what, "send it at once"));
        }
    }
    Ok((bytes, held))
}

/// The message in a body, and the body. A long one is parsed elsewhere.
pub(super) async fn parsed(body: Vec<u8>, held: Held) -> Result<(Read, Bytes), Reply> {
    let body = Bytes::from(body);
    if body.len() <= task::LONG {
        return Ok((message::read(trim(&body), held), body));
    }
    let shared = body.clone();
    match meter::apart(move || message::read(trim(&shared), held)).await {
        Ok(read) => Ok((read, body)),
        Err(stopped) => Err(not_admitted(&stopped.error("read a message of the client"), None)),
    }
}

/// True for a message of 2026-07-28 or later, as its body says, else its header.
pub(super) fn is_modern(message: &ClientJsonRpcMessage, headers: &HeaderMap) -> bool {
    let in_body = match message {
        JsonRpcMessage::Request(request) => request.request.get_meta().protocol_version(),
        _ => None,
    };
    let in_header = || headers.get(REVISION).and_then(|revision| revision.to_str().ok());
    match in_body {
        Some(revision) => revision.as_str() >= MODERN,
        None => in_header().is_some_and(|revision| revision >= MODERN),
    }
}

/// The revision that an `initialize` names.
pub(super) fn initialized_revision(message: &ClientJsonRpcMessage) -> Option<String> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::InitializeRequest(initialize) = &request.request else { return None };
    Some(initialize.params.protocol_version.as_str().to_owned())
}

/// Delay for clients of the revision that an `initialize` names.
pub(super) fn retry(initialize: &ClientJsonRpcMessage) -> Option<Duration> {
    initialized_revision(initialize).is_none_or(|revision| revision.as_str() >= PRIMED).then_some(RETRY)
}

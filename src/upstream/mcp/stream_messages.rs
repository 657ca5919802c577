//! Messages of an event stream, one in an event. Whatever else comes is passed over, and kept with what the server says.

use futures::{StreamExt as _, stream};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use super::failure::{ended, oversized};
use super::http_client::Events;
use super::lines::{MAX_MESSAGE, id_at_head};
use super::message::{self, Parsed};
use super::pending::Pending;
use super::sse::{Event, TOO_LARGE};
use crate::task;
use crate::text::head;
use crate::upstream::stderr::Stderr;

/// Most bytes of one thing that is kept.
const KEPT: usize = 300;

/// Where things that are no messages are kept, for `/server/stderr`.
#[derive(Clone)]
pub(super) struct PassedOver {
    pub(super) name: String,
    pub(super) stderr: Stderr,
}

impl PassedOver {
    /// Keeps what came in the stream.
    pub(super) fn keep(&self, what: &str) {
        if !what.trim().is_empty() {
            self.stderr.said(&self.name, &format!("(stream, not MCP) {}", head(what, KEPT)));
        }
    }
}

/// The events with a message each, as rmcp reads them. Events of a post belong to the request `id`: an answer that cannot be
/// used, or none at all, is replaced by an error.
/// `pending` are the requests that are answered in it, if they are known.
pub(super) fn readable(
    events: Events,
    id: Option<RequestId>,
    pending: Option<Pending>,
    passed_over: PassedOver,
) -> Events {
    let mut reading =
        Reading { id, pending, passed_over, can_resume: false, is_settled: false, broken: None, last: None };
    let events = events.map(Some).chain(stream::iter([None]));
    events.flat_map(move |event| stream::iter(reading.next(event))).boxed()
}

/// The first answer in readable events.
pub(super) async fn first_answer(mut events: Events) -> Option<ServerJsonRpcMessage> {
    while let Some(Ok(event)) = events.next().await {
        if let Some(answer @ (ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))) =
            event.data.and_then(|data| serde_json::from_str(&data).ok())
        {
            return Some(answer);
        }
    }
    None
}

struct Reading {
    id: Option<RequestId>,
    pending: Option<Pending>,
    passed_over: PassedOver,
    /// An event had an id: rmcp resumes the stream after its end.
    can_resume: bool,
    /// The request has an answer, or the stream an error.
    is_settled: bool,
    /// The error of the last message that is no JSON: it may have been the answer.
    broken: Option<ErrorData>,
    /// The last thing that was passed over.
    last: Option<String>,
}

impl Reading {
    /// Reads an event, or the end.
    fn next(&mut self, event: Option<Event>) -> Vec<Event> {
        let mut event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                self.is_settled = true;
                return vec![match self.in_place(oversized(MAX_MESSAGE)).filter(|_| is_too_large(&error)) {
                    Some(data) => Ok(Sse { data: Some(data), ..Sse::default() }),
                    None => Err(error),
                }];
            }
            None if self.is_settled || self.can_resume => return Vec::new(),
            None => {
                let error = self.broken.take().unwrap_or_else(|| ended(self.last.as_deref()));
                let data = self.in_place(error);
                return data.map(|data| Ok(Sse { data: Some(data), ..Sse::default() })).into_iter().collect();
            }
        };
        self.can_resume |= event.id.as_ref().is_some_and(|id| !id.is_empty());
        let data = event.data.take().filter(|data| !data.trim().is_empty());
        let mut messages = match data {
            Some(data) if matches!(event.event.as_deref(), None | Some("" | "message")) => self.messages(data),
            Some(data) => {
                let kind = event.event.as_deref().unwrap_or_default();
                self.pass(&format!("event {}: {}", head(kind, KEPT), head(&data, KEPT)));
                Vec::new()
            }
            None => Vec::new(),
        };
        // The last one has the id: what follows it is not lost.
        let last = Ok(Sse { data: messages.pop(), event: None, ..event });
        let earlier = messages.into_iter().map(|data| Ok(Sse { data: Some(data), ..Sse::default() }));
        earlier.chain([last]).collect()
    }

    /// The messages of an event.
    fn messages(&mut self, data: String) -> Vec<String> {
        // The usual one goes on as it came.
        if let Some(message) = task::work_on(data.len(), || message::small(data.as_bytes())) {
            return if self.takes(&message, &data) { vec![data] } else { Vec::new() };
        }
        let (data, mut messages) = (data.as_str(), Vec::new());
        let pending = self.pending.clone().unwrap_or_default();
        for parsed in task::work_on(data.len(), || message::parse(data.as_bytes(), &pending)) {
            let message = match parsed {
                Parsed::Message(message) => *message,
                Parsed::Answer(of, error) => ServerJsonRpcMessage::error(error, Some(of)),
                Parsed::Broken(error) => match id_at_head(data.as_bytes()).filter(|of| pending.has(of)) {
                    Some(of) => ServerJsonRpcMessage::error(error, Some(of)),
                    None => {
                        self.pass(data);
                        self.broken = Some(error);
                        continue;
                    }
                },
                Parsed::Other(text) => {
                    self.pass(&text);
                    continue;
                }
                Parsed::Large(what) => {
                    self.passed_over.stderr.note(what);
                    continue;
                }
            };
            if self.takes(&message, data) {
                messages.extend(serde_json::to_string(&message).ok());
            }
        }
        messages
    }

    /// Notes a message that came as `data`; false if it is passed over, an answer to no request of a session's stream.
    fn takes(&mut self, message: &ServerJsonRpcMessage, data: &str) -> bool {
        let is_awaited = match (message::answered(message), &self.pending) {
            (Some(of), Some(pending)) => pending.remove(of) || self.id.is_some(),
            _ => true,
        };
        if is_awaited {
            self.is_settled |= matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_));
        } else {
            self.pass(data);
        }
        is_awaited
    }

    /// Keeps something once, although it may come every few seconds.
    fn pass(&mut self, what: &str) {
        let what = head(what, KEPT);
        if self.last.as_deref() != Some(what) {
            self.passed_over.keep(what);
            self.last = Some(what.to_owned());
        }
    }

    /// An error as the answer to the request.
    fn in_place(&self, error: ErrorData) -> Option<String> {
        let id = self.id.clone()?;
        serde_json::to_string(&ServerJsonRpcMessage::error(error, Some(id))).ok()
    }
}

fn is_too_large(error: &SseError) -> bool {
    [TOO_LARGE, "exceeded the maximum size"].iter().any(|words| error.to_string().contains(words))
}

//! Messages in what a server sends on a connection: lines of a process, or events of a stream. Anything else is passed
//! over, and kept in the server's stderr.

use std::io;

use futures::{StreamExt as _, stream};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use super::event_stream::{ENDLESS, Event, Received};
use super::failure::{ended, oversized};
use super::http_client::Events;
use super::lines::{MAX_MESSAGE, id};
use super::message::{self, Parsed};
use super::pending::Pending;
use crate::stderr::Stderr;
use base::lines::{Kind, Line, kind_of, number_at_end, number_at_head, trim};
use base::task;
use base::text::head;

/// Most bytes of one thing that is kept.
const KEPT: usize = 300;

/// Keeps what is no message, for `/server/stderr`.
#[derive(Clone)]
pub(super) struct PassedOver {
    name: String,
    /// Source in one word: `stdout` or `stream`.
    source: &'static str,
    stderr: Stderr,
    /// The last thing, which is kept once although it may come every few seconds.
    last: Option<String>,
}

impl PassedOver {
    pub(super) fn new(name: &str, source: &'static str, stderr: Stderr) -> Self {
        Self { name: name.to_owned(), source, stderr, last: None }
    }

    /// Keeps the beginning of `text`, and `why` it is passed over.
    pub(super) fn keep(&mut self, why: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(2 * KEPT)]);
        let text = head(text.trim(), KEPT);
        if !text.is_empty() && self.last.as_deref() != Some(text) {
            self.stderr.said(&self.name, &format!("({}, {why}) {text}", self.source));
            self.last = Some(text.to_owned());
        }
    }
}

/// Reads the texts of one connection or stream.
pub(super) struct Inbox {
    /// Requests that are answered in it.
    pending: Pending,
    over: PassedOver,
    /// Answers to requests of other streams may come too.
    is_shared: bool,
    /// The error of the last text that is no JSON: it may have been the answer.
    broken: Option<ErrorData>,
}

impl Inbox {
    /// All answers to the requests of a connection come here.
    pub(super) fn of_connection(pending: Pending, over: PassedOver) -> Self {
        Self { pending, over, is_shared: false, broken: None }
    }

    /// Messages of an event of this kind. Events of other kinds have none.
    pub(super) fn event(&mut self, kind: Option<&str>, data: Line) -> Vec<ServerJsonRpcMessage> {
        match (kind, data) {
            (None | Some("" | "message"), data) => return self.line(data),
            (Some(kind), Line::Whole(data)) if !trim(&data).is_empty() => {
                let data = String::from_utf8_lossy(trim(&data[..data.len().min(KEPT)]));
                self.over.keep("not MCP", format!("event {}: {data}", head(kind, KEPT)).as_bytes());
            }
            _ => {}
        }
        Vec::new()
    }

    /// Messages of a line, or of the data of an event.
    pub(super) fn line(&mut self, line: Line) -> Vec<ServerJsonRpcMessage> {
        match line {
            Line::Whole(text) => self.messages(&text),
            Line::Skipped { head, tail, bytes } => self.skipped(&head, &tail, bytes).into_iter().collect(),
        }
    }

    /// The error of the request that a line over the limit answers: without a readable number, the only request.
    fn skipped(&mut self, head: &[u8], tail: &[u8], bytes: usize) -> Option<ServerJsonRpcMessage> {
        let source = self.over.source;
        let what = if source == "stdout" { "line" } else { "message" };
        let note = format!("a {what} of {bytes} bytes on {source} was skipped, over the limit of {MAX_MESSAGE}");
        self.over.stderr.note(note);
        let found = id(number_at_head(head).or_else(|| number_at_end(tail)));
        let of = match (kind_of(head, tail)?, found) {
            (Kind::Question, _) => None,
            (Kind::Answer, Some(id)) => Some(id).filter(|id| self.is_shared || self.pending.has(id)),
            (Kind::Answer, None) => self.pending.only(),
        }?;
        let error = ServerJsonRpcMessage::error(oversized(MAX_MESSAGE), Some(of));
        self.message(Parsed::Message(Box::new(error)), head)
    }

    /// The error of the only request, for which an event without end may have been the answer.
    pub(super) fn endless(&self) -> Option<ServerJsonRpcMessage> {
        let of = self.pending.only().filter(|of| self.pending.remove(of))?;
        Some(ServerJsonRpcMessage::error(oversized(MAX_MESSAGE), Some(of)))
    }

    /// Messages of a text, several of a batch.
    fn messages(&mut self, text: &[u8]) -> Vec<ServerJsonRpcMessage> {
        let text = trim(text);
        if text.is_empty() {
            return Vec::new();
        }
        self.over.stderr.heard();
        let all = task::work_on(text.len(), || message::parse(text, &self.pending));
        all.into_iter().filter_map(|parsed| self.message(parsed, text)).collect()
    }

    /// The message that was parsed, unless it is passed over.
    fn message(&mut self, parsed: Parsed, text: &[u8]) -> Option<ServerJsonRpcMessage> {
        match parsed {
            Parsed::Message(message) if self.is_awaited(&message) => return Some(*message),
            Parsed::Message(_) => self.over.keep("an answer to no request", text),
            Parsed::Other(text) => self.over.keep("not MCP", text.as_bytes()),
            Parsed::Broken(error) => {
                self.over.keep("not MCP", text);
                self.broken = Some(error);
            }
            Parsed::Large(what) => self.over.stderr.note(what),
        }
        None
    }

    /// Notes an answer. Requests and notifications are always awaited.
    fn is_awaited(&self, message: &ServerJsonRpcMessage) -> bool {
        let is_own = message::answered(message).is_some_and(|of| self.pending.remove(of));
        is_own || self.is_shared || !is_answer(message)
    }
}

/// True for a result or an error.
pub(super) fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
}

/// The events with a message each, as rmcp reads them. Events of a post owe the answer to its request: one that cannot be
/// used, or none at all, is replaced by an error.
pub(super) fn readable(events: Received, owed: Option<RequestId>, over: PassedOver) -> Events {
    let pending = owed.as_ref().map(Pending::of).unwrap_or_default();
    let inbox = Inbox { is_shared: true, ..Inbox::of_connection(pending, over) };
    let mut reading = Reading { inbox, owed, can_resume: false };
    let events = events.map(Some).chain(stream::iter([None]));
    let read = events.flat_map(move |event| {
        let is_endless = matches!(&event, Some(Err(error)) if error.kind() == ENDLESS);
        // rmcp would resume a stream that ends, and get the same event.
        stream::iter(reading.next(event)).chain(stream::pending().take(usize::from(is_endless)))
    });
    read.boxed()
}

struct Reading {
    inbox: Inbox,
    /// The request without an answer so far.
    owed: Option<RequestId>,
    /// An event had an id: rmcp resumes the stream after its end.
    can_resume: bool,
}

impl Reading {
    /// Reads an event, or the end.
    fn next(&mut self, event: Option<io::Result<Event>>) -> Vec<Result<Sse, SseError>> {
        match event {
            Some(Ok(event)) => self.messages(event),
            Some(Err(error)) if error.kind() == ENDLESS => {
                self.owed.take().map(|owed| in_place(oversized(MAX_MESSAGE), owed)).into_iter().collect()
            }
            Some(Err(error)) => {
                self.owed = None;
                vec![Err(SseError::Body(error.into()))]
            }
            None => {
                let owed = self.owed.take().filter(|_| !self.can_resume);
                let error = self.inbox.broken.take().unwrap_or_else(|| ended(self.inbox.over.last.as_deref()));
                owed.map(|owed| in_place(error, owed)).into_iter().collect()
            }
        }
    }

    fn messages(&mut self, Event { fields, data }: Event) -> Vec<Result<Sse, SseError>> {
        self.can_resume |= fields.id.as_ref().is_some_and(|id| !id.is_empty());
        let mut messages = self.inbox.event(fields.event.as_deref(), data);
        if messages.iter().any(is_answer) {
            self.owed = None;
        }
        // The last one has the id: what follows it is not lost.
        let last = Sse { data: messages.pop().as_ref().and_then(written), event: None, ..fields };
        let earlier = messages.iter().map(|message| Sse { data: written(message), ..Sse::default() });
        earlier.chain([last]).map(Ok).collect()
    }
}

fn written(message: &ServerJsonRpcMessage) -> Option<String> {
    serde_json::to_string(message).ok()
}

/// An error as the answer to a request.
fn in_place(error: ErrorData, owed: RequestId) -> Result<Sse, SseError> {
    Ok(Sse { data: written(&ServerJsonRpcMessage::error(error, Some(owed))), ..Sse::default() })
}

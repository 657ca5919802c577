//! Parses lines of a server's stdout into messages. An invalid line is never lost: if it answers a request, the request
//! fails; otherwise it is kept with the server's stderr.

use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::failure::oversized;
use super::message::{self, Parsed};
use super::pending::Pending;
use crate::limits;
use crate::lines::{Line, Lines, number_at_end, number_at_head, trim};
use crate::task;
use crate::upstream::stderr::Stderr;

/// Most bytes of one message. A longer one is skipped while it is read, so it never takes twice this memory.
pub(super) const MAX_MESSAGE: usize = limits::MESSAGE_OF_SERVER.max;
/// Most bytes of an invalid line that are kept.
const KEPT_JUNK: usize = 300;

/// Reads messages from a server's stdout.
pub(super) struct Messages<R> {
    read: R,
    inbox: Inbox,
}

impl<R: AsyncBufRead + Unpin> Messages<R> {
    pub(super) fn new(read: R, name: &str, pending: Pending, stderr: Stderr) -> Self {
        Self { read, inbox: Inbox { name: name.to_owned(), source: "stdout", pending, stderr } }
    }

    /// Messages of the next line that has any, several for a batch; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Vec<ServerJsonRpcMessage>> {
        loop {
            let messages = match read_line(&mut self.read, MAX_MESSAGE).await? {
                Line::Whole(line) => self.inbox.messages(trim(&line)),
                Line::Skipped { head, tail, bytes } => self.inbox.skipped(&head, &tail, bytes),
            };
            if !messages.is_empty() {
                return Some(messages);
            }
        }
    }
}

/// Makes messages of what a server sends on a connection. What is none, or answers no request, is kept with its stderr.
pub(super) struct Inbox {
    pub(super) name: String,
    /// Where it comes from, for the log.
    pub(super) source: &'static str,
    pub(super) pending: Pending,
    pub(super) stderr: Stderr,
}

impl Inbox {
    /// Messages of a line or an event.
    pub(super) fn messages(&self, text: &[u8]) -> Vec<ServerJsonRpcMessage> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut messages = Vec::new();
        for parsed in task::work_on(text.len(), || message::parse(text, &self.pending)) {
            match parsed {
                Parsed::Message(message) => match (message::answered(&message), &*message) {
                    (Some(id), _) if self.pending.remove(id) => messages.push(*message),
                    (None, ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_)) => {
                        messages.push(*message);
                    }
                    _ => self.junk("an answer to no request", text),
                },
                Parsed::Answer(id, error) if self.pending.remove(&id) => messages.push(in_place(error, id)),
                Parsed::Answer(..) => self.junk("an answer to no request", text),
                Parsed::Broken(error) => match id_at_head(text).filter(|id| self.pending.remove(id)) {
                    Some(id) => messages.push(in_place(error, id)),
                    None => self.junk("not MCP", text),
                },
                Parsed::Other(text) => self.junk("not MCP", text.as_bytes()),
                Parsed::Large(what) => self.stderr.note(what),
            }
        }
        messages
    }

    fn skipped(&self, head: &[u8], tail: &[u8], bytes: usize) -> Vec<ServerJsonRpcMessage> {
        self.stderr.note(format!("a line of {bytes} bytes on stdout was skipped, over the limit of {MAX_MESSAGE}"));
        let found = id(number_at_head(head).or_else(|| number_at_end(tail)));
        match found.filter(|id| self.pending.has(id)).or_else(|| self.pending.only()) {
            Some(id) => {
                self.pending.remove(&id);
                vec![in_place(oversized(MAX_MESSAGE), id)]
            }
            None => {
                tracing::warn!(server = self.name, bytes, "a line that is too long was skipped");
                Vec::new()
            }
        }
    }

    fn junk(&self, what: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(KEPT_JUNK)]);
        self.stderr.said(&self.name, &format!("({}, {what}) {text}", self.source));
    }
}

fn in_place(error: ErrorData, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(error, Some(id))
}

/// Id of the request that the beginning of an answer belongs to.
pub(super) fn id_at_head(text: &[u8]) -> Option<RequestId> {
    id(number_at_head(text))
}

fn id(found: Option<&[u8]>) -> Option<RequestId> {
    message::id(&serde_json::from_slice(found?).ok()?)
}

/// Reads the next line; `None` at the end.
async fn read_line(read: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Option<Line> {
    let mut lines = Lines::new(limit);
    loop {
        let available = read.fill_buf().await.ok().filter(|available| !available.is_empty())?;
        let (used, line) = lines.take(available);
        read.consume(used);
        if line.is_some() {
            return line;
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientJsonRpcMessage, ClientRequest, PingRequest};
    use serde_json::Value;

    use super::*;

    /// Parses `text` while the requests 1 and 2 are pending: messages as JSON, and the part kept with stderr.
    async fn read(text: &[u8]) -> (Vec<Value>, String) {
        let (pending, stderr) = (Pending::default(), Stderr::default());
        let ping = |id| {
            ClientJsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(id))
        };
        [1, 2].into_iter().for_each(|id| pending.sent(&ping(id)));
        let mut messages = Messages::new(text, "x", pending, stderr.clone());
        let mut found = Vec::new();
        while let Some(several) = messages.next().await {
            found.extend(several.iter().map(|message| serde_json::to_value(message).expect("it is JSON")));
        }
        (found, stderr.text())
    }

    /// Id and error code of each message.
    async fn errors(text: &str) -> Vec<(i64, i64)> {
        let of = |message: &Value| Some((message["id"].as_i64()?, message["error"]["code"].as_i64().unwrap_or(0)));
        read(text.as_bytes()).await.0.iter().filter_map(of).collect()
    }

    #[tokio::test]
    async fn junk_is_kept_and_messages_come_through() {
        let text = "Welcome!\n\n{\"level\":\"info\"}\n[1,2]\n7\n\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n{\"jsonrpc\"";
        let (found, stderr) = read(text.as_bytes()).await;
        assert_eq!(found.len(), 1, "{found:?}");
        for words in ["Welcome!", "{\"level\":\"info\"}", "(stdout, not MCP) 7"] {
            assert!(stderr.contains(words), "no {words} in {stderr}");
        }
        let (_, stderr) = read(b"\xff\xfe binary\n").await;
        assert!(stderr.contains("binary"), "{stderr}");
    }

    #[tokio::test]
    async fn a_broken_answer_fails_its_request_and_only_that() {
        assert_eq!(errors("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\": [garbage\n").await, [(2, -32049)]);
        assert_eq!(errors("{\"id\":1,\"result\":7}\n").await, [(1, 0)], "the version is missing, and nothing else");
        assert_eq!(errors("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":garbage\n").await, []);
        assert_eq!(errors("{\"id\":1,\"level\":\"info\"}\n").await, []);
    }

    #[tokio::test]
    async fn a_batch_is_read_item_by_item() {
        let batch = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]\n";
        assert_eq!(errors(batch).await, [(1, 0), (2, 0)]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_fails_its_request_wherever_its_number_stands() {
        let long = "x".repeat(MAX_MESSAGE);
        for text in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"{long}\"}}\n"),
            format!("{{ \"id\": 2, \"result\":\"{long}\"}}\n"),
            format!("{{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":2}}\n"),
            format!("{{\"result\":\"{long}\",\"id\":\"2\",\"jsonrpc\":\"2.0\"}}\r\n"),
        ] {
            let after = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
            assert_eq!(errors(&format!("{text}{after}")).await, [(2, -32049), (1, 0)], "{}", &text[..40]);
        }
        let inner = format!("{{\"result\":{{\"text\":\"{long}\",\"id\":2}}}}\n");
        assert_eq!(errors(&inner).await, []);
    }
}

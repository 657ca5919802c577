//! Lines of a server's stdout → messages. A line that is no message is not lost in silence: where it is the answer to a
//! request, the request fails, and else it is kept with the server's stderr.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex::bytes::Regex;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::failure::oversized;
use super::message::{self, Parsed};
use super::stderr::Stderr;
use crate::task;

/// Most bytes of one message. What is longer is skipped while it is read, so it never takes this much memory twice.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// Bytes at both ends of a skipped line in which the number of the request is looked for.
const ENDS: usize = 512;
/// Bytes of junk that are kept.
const KEPT_JUNK: usize = 300;

/// Requests that were sent and not answered yet.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<HashSet<RequestId>>>);

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: RequestId) {
        self.lock().insert(id);
    }

    pub(super) fn remove(&self, id: &RequestId) -> bool {
        self.lock().remove(id)
    }

    /// The one request that a line without a readable number can only belong to.
    fn only(&self) -> Option<RequestId> {
        let pending = self.lock();
        let mut ids = pending.iter();
        ids.next().filter(|_| pending.len() == 1).cloned()
    }
}

/// Reads messages from the stdout of a server.
pub(super) struct Messages<R> {
    read: R,
    name: String,
    pending: Pending,
    stderr: Stderr,
}

impl<R: AsyncBufRead + Unpin> Messages<R> {
    pub(super) fn new(read: R, name: &str, pending: Pending, stderr: Stderr) -> Self {
        Self { read, name: name.to_owned(), pending, stderr }
    }

    /// The messages of the next line that has some; `None` at the end. A batch gives several.
    pub(super) async fn next(&mut self) -> Option<Vec<ServerJsonRpcMessage>> {
        loop {
            let messages = match read_line(&mut self.read, MAX_MESSAGE).await? {
                Line::Whole(line) => self.parse(trim(&line)),
                Line::Skipped { head, tail, bytes } => self.skipped(&head, &tail, bytes),
            };
            for message in &messages {
                match message {
                    ServerJsonRpcMessage::Response(response) => drop(self.pending.remove(&response.id)),
                    ServerJsonRpcMessage::Error(error) => {
                        if let Some(id) = &error.id {
                            self.pending.remove(id);
                        }
                    }
                    _ => {}
                }
            }
            if !messages.is_empty() {
                return Some(messages);
            }
        }
    }

    fn parse(&self, line: &[u8]) -> Vec<ServerJsonRpcMessage> {
        if line.is_empty() {
            return Vec::new();
        }
        let mut messages = Vec::new();
        for parsed in task::work_on(line.len(), || message::parse(line)) {
            match parsed {
                Parsed::Message(message) => messages.push(*message),
                Parsed::Answer(id, error) if self.pending.lock().contains(&id) => messages.push(in_place(error, id)),
                Parsed::Broken(error) => match number(&HEAD, line).filter(|id| self.pending.lock().contains(id)) {
                    Some(id) => messages.push(in_place(error, id)),
                    None => self.junk(line),
                },
                Parsed::Answer(..) => self.junk(line),
                Parsed::Other(text) => self.junk(text.as_bytes()),
                Parsed::Large(what) => self.stderr.note(what),
            }
        }
        // What nobody waits for is not held until somebody looks at it.
        messages.retain(|message| match message {
            ServerJsonRpcMessage::Response(answer) if message::is_large(answer) => {
                self.pending.lock().contains(&answer.id)
            }
            _ => true,
        });
        messages
    }

    fn skipped(&self, head: &[u8], tail: &[u8], bytes: usize) -> Vec<ServerJsonRpcMessage> {
        self.stderr.note(format!("a line of {bytes} bytes on stdout was skipped, over the limit of {MAX_MESSAGE}"));
        let id = number(&HEAD, head).or_else(|| number(&TAIL, tail));
        match id.filter(|id| self.pending.lock().contains(id)).or_else(|| self.pending.only()) {
            Some(id) => vec![in_place(oversized(MAX_MESSAGE), id)],
            None => {
                tracing::warn!(server = self.name, bytes, "a line that is too long was skipped");
                Vec::new()
            }
        }
    }

    fn junk(&self, line: &[u8]) {
        let line = &line[..line.len().min(KEPT_JUNK)];
        self.stderr.said(&self.name, &format!("(stdout, not MCP) {}", String::from_utf8_lossy(line)));
    }
}

fn in_place(error: ErrorData, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(error, Some(id))
}

/// Where a message that begins with its number has it, in any usual order of keys.
static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]{1,100}")\s*,"#).ok()
});

/// Where a message that ends with its number has it. The last brace of a line is that of the whole message.
static TAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#",\s*"id"\s*:\s*(\d+|"[^"\\]{1,100}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$"#).ok()
});

fn number(pattern: &Option<Regex>, text: &[u8]) -> Option<RequestId> {
    let found = pattern.as_ref()?.captures(text)?.get(1)?;
    message::id(&serde_json::from_slice(found.as_bytes()).ok()?)
}

fn trim(line: &[u8]) -> &[u8] {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii()
}

enum Line {
    Whole(Vec<u8>),
    /// It was too long: both its ends, and how long it was.
    Skipped {
        head: Vec<u8>,
        tail: Vec<u8>,
        bytes: usize,
    },
}

/// The next line; `None` at the end, also in the middle of a line, since a message ends with its line.
async fn read_line(read: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Option<Line> {
    let (mut line, mut bytes, mut skipping) = (Vec::new(), 0, None::<Vec<u8>>);
    loop {
        let available = read.fill_buf().await.ok().filter(|available| !available.is_empty())?;
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = &available[..end.unwrap_or(available.len())];
        bytes += taken.len();
        if skipping.is_none() && bytes > limit {
            line.truncate(ENDS);
            let room = ENDS - line.len();
            line.extend_from_slice(&taken[..taken.len().min(room)]);
            line.shrink_to_fit();
            skipping = Some(Vec::new());
        }
        match &mut skipping {
            None => line.extend_from_slice(taken),
            Some(tail) => {
                tail.extend_from_slice(&taken[taken.len().saturating_sub(ENDS)..]);
                let surplus = tail.len().saturating_sub(ENDS);
                tail.drain(..surplus);
            }
        }
        let used = taken.len() + usize::from(end.is_some());
        read.consume(used);
        if end.is_some() {
            return Some(match skipping {
                None => Line::Whole(line),
                Some(tail) => Line::Skipped { head: line, tail, bytes },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What becomes of `text` while the requests 1 and 2 are pending: messages as JSON, and what stderr keeps.
    async fn read(text: &[u8]) -> (Vec<Value>, String) {
        let (pending, stderr) = (Pending::default(), Stderr::default());
        [1, 2].into_iter().for_each(|id| pending.insert(RequestId::Number(id)));
        let mut messages = Messages::new(text, "x", pending, stderr.clone());
        let mut found = Vec::new();
        while let Some(several) = messages.next().await {
            found.extend(several.iter().map(|message| serde_json::to_value(message).expect("it is JSON")));
        }
        (found, stderr.text())
    }

    /// The number and the code of the error of each message.
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
        assert_eq!(errors("{\"id\":1,\"result\":7}\n").await, [(1, -32049)]);
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

    #[tokio::test]
    async fn lines_are_cut_at_the_limit_exactly() {
        for (length, whole) in [(10, true), (11, false)] {
            let text = format!("{}\nnext\n", "a".repeat(length));
            let mut read = tokio::io::BufReader::with_capacity(3, text.as_bytes());
            let line = read_line(&mut read, 10).await.expect("a line");
            assert_eq!(matches!(line, Line::Whole(_)), whole);
            assert!(matches!(read_line(&mut read, 10).await, Some(Line::Whole(line)) if line == b"next"));
            assert!(read_line(&mut read, 10).await.is_none());
        }
    }
}

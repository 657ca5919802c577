//! Bounded reader of JSON lines from another process, a client or a server.

use std::io::{self, BufRead};
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Bytes at both ends of a line that are searched for its request id.
const ENDS: usize = 512;

/// A complete line.
pub enum Line {
    /// A line of at most the limit, without its end.
    Whole(Vec<u8>),
    /// Over the limit: its beginning, its end and its length.
    Skipped {
        /// Its first bytes.
        head: Vec<u8>,
        /// Its last bytes.
        tail: Vec<u8>,
        /// Length in bytes.
        bytes: usize,
    },
}

/// Reads lines of at most `limit` bytes until the input ends, or until `take` returns `None`.
///
/// # Errors
/// When the input cannot be read.
pub fn read(mut input: impl BufRead, limit: usize, mut take: impl FnMut(Line) -> Option<()>) -> io::Result<()> {
    let mut lines = Lines::new(limit);
    loop {
        let read = match input.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let (used, line) = lines.take(read);
        input.consume(used);
        if line.is_some_and(|line| take(line).is_none()) {
            return Ok(());
        }
    }
}

/// Reads the next line of at most `limit` bytes; `None` at the end, and when the input cannot be read.
pub async fn next(read: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Option<Line> {
    try_next(read, limit).await.ok().flatten()
}

/// Reads the next line of at most `limit` bytes; `None` at the end. Nothing is read beyond it.
///
/// # Errors
/// When the input cannot be read.
pub async fn try_next(read: &mut (impl AsyncBufRead + Unpin), limit: usize) -> io::Result<Option<Line>> {
    let mut lines = Lines::new(limit);
    loop {
        let available = read.fill_buf().await?;
        if available.is_empty() {
            return Ok(None);
        }
        let (used, line) = lines.take(available);
        read.consume(used);
        if line.is_some() {
            return Ok(line);
        }
    }
}

/// Assembles lines from chunks. A line over the limit is skipped while it is read.
pub struct Lines {
    limit: usize,
    line: Vec<u8>,
    bytes: usize,
    skipping: Option<Vec<u8>>,
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), bytes: 0, skipping: None }
    }

    /// Bytes of the line so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the bytes of a chunk that belong to this line: their number, and the line if it ends there. An unfinished
    /// line at the end of the input is dropped: a message ends with its line.
    pub fn take(&mut self, read: &[u8]) -> (usize, Option<Line>) {
        let end = read.iter().position(|byte| *byte == b'\n');
        let taken = &read[..end.unwrap_or(read.len())];
        self.bytes += taken.len();
        if self.skipping.is_none() && self.bytes > self.limit {
            self.line.truncate(ENDS);
            let room = ENDS - self.line.len();
            self.line.extend_from_slice(&taken[..taken.len().min(room)]);
            self.line.shrink_to_fit();
            self.skipping = Some(Vec::new());
        }
        match &mut self.skipping {
            None => self.line.extend_from_slice(taken),
            Some(tail) => {
                tail.extend_from_slice(&taken[taken.len().saturating_sub(ENDS)..]);
                let surplus = tail.len().saturating_sub(ENDS);
                tail.drain(..surplus);
            }
        }
        let used = taken.len() + usize::from(end.is_some());
        (used, end.map(|_| self.ended()))
    }

    fn ended(&mut self) -> Line {
        let (line, bytes) = (std::mem::take(&mut self.line), std::mem::take(&mut self.bytes));
        match self.skipping.take() {
            None => Line::Whole(line),
            Some(tail) => Line::Skipped { head: line, tail, bytes },
        }
    }
}

/// A line without the whitespace around its message.
pub fn trim(line: &[u8]) -> &[u8] {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii()
}

/// Request id of a message as JSON, at the head of its line, in any usual order of keys.
pub fn number_at_head(line: &[u8]) -> Option<&[u8]> {
    static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]{1,100}")\s*,"#).ok()
    });
    number(HEAD.as_ref()?.captures(&line[..line.len().min(ENDS)]))
}

/// Like [`number_at_head`], at the end of a line. The last brace of a line is that of the whole message.
pub fn number_at_end(line: &[u8]) -> Option<&[u8]> {
    static TAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#",\s*"id"\s*:\s*(\d+|"[^"\\]{1,100}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$"#).ok()
    });
    number(TAIL.as_ref()?.captures(&line[line.len().saturating_sub(ENDS)..]))
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request or a notification. Its number, if any, is one of its sender.
    Question,
    /// A result or an error. Its number is one of its receiver.
    Answer,
}

/// Tells the kind of a message by the beginning and the end of its line; `None` if it may be no message. A batch, whose
/// messages may be of both kinds, counts as an answer.
pub fn kind_of(head: &[u8], tail: &[u8]) -> Option<Kind> {
    static KEYS: LazyLock<Option<[Regex; 4]>> = LazyLock::new(|| {
        let flat = r#"(?:"[^"\\]*"|[^"\\,\[\]{}]+)"#;
        let [asks, answers, of_message, asks_last] = [
            r#""method"\s*:\s*""#.to_owned(),
            r#""(?:result|error|content|structuredContent|isError)"\s*:"#.to_owned(),
            r#""(?:jsonrpc|id|content|structuredContent|isError)"\s*:"#.to_owned(),
            format!(r#""method"\s*:\s*"[^"\\]*"\s*(?:,\s*"(?:jsonrpc|id)"\s*:\s*{flat}\s*)*\}}\s*$"#),
        ]
        .map(|pattern| Regex::new(&pattern).ok());
        Some([asks?, answers?, of_message?, asks_last?])
    });
    let [asks, answers, of_message, asks_last] = KEYS.as_ref()?;
    let (head, tail) = (&head[..head.len().min(ENDS)], &tail[tail.len().saturating_sub(ENDS)..]);
    let at = |key: &Regex| key.find(head).map(|found| found.start());
    let is_first = at(asks).is_some_and(|method| at(answers).is_none_or(|answer| method < answer));
    let has_result = head.windows(RESULT.len()).any(|window| window == RESULT);
    if !trim(head).starts_with(b"[") && (is_first || !has_result && asks_last.is_match(tail)) {
        return Some(Kind::Question);
    }
    (of_message.is_match(head) || of_message.is_match(tail)).then_some(Kind::Answer)
}

const RESULT: &[u8] = b"\"result\"";

fn number(found: Option<Captures<'_>>) -> Option<&[u8]> {
    Some(found?.get(1)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_limit_exactly() {
        for (length, whole) in [(10, true), (11, false)] {
            let text = format!("{}\nnext\nrest", "a".repeat(length));
            for piece in [1, 3, 100] {
                let (mut lines, mut found) = (Lines::new(10), Vec::new());
                for mut read in text.as_bytes().chunks(piece) {
                    while !read.is_empty() {
                        let (used, line) = lines.take(read);
                        found.extend(line);
                        read = &read[used..];
                    }
                }
                assert_eq!(found.len(), 2, "what is not ended is no line");
                assert_eq!(matches!(&found[0], Line::Whole(_)), whole);
                assert!(matches!(&found[0], Line::Whole(_)) || matches!(&found[0], Line::Skipped { bytes: 11, .. }));
                assert!(matches!(&found[1], Line::Whole(line) if line == b"next"));
            }
        }
    }

    #[test]
    fn numbers_are_found_at_both_ends() {
        for (line, head, end) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x""#, Some("7"), None),
            (r#"{ "id" : "a-1" , "method":"x""#, Some("\"a-1\""), None),
            (r#"{"method":"x","params":{"id":3},"jsonrpc":"2.0","id":8}"#, None, Some("8")),
            (r#"{"params":{"id":3}}"#, None, None),
        ] {
            let text = |found: Option<&[u8]>| found.map(|id| String::from_utf8_lossy(id).into_owned());
            assert_eq!(text(number_at_head(line.as_bytes())).as_deref(), head, "{line}");
            assert_eq!(text(number_at_end(line.as_bytes())).as_deref(), end, "{line}");
        }
    }

    #[test]
    fn questions_are_told_from_answers() {
        for (kind, lines) in [
            (
                Some(Kind::Question),
                vec![
                    r#"{"jsonrpc":"2.0","id":7,"method":"x","result""#,
                    r#"{"jsonrpc":"2.0","id":12,"_meta":{"a":1},"params":{bad},"method":"ping"}"#,
                    r#"{"x":{bad},"method":"ping","jsonrpc":"2.0","id":16}"#,
                    r#"{"params":{"error":1},"method":"x" , "id" : "a" }"#,
                ],
            ),
            (
                Some(Kind::Answer),
                vec![
                    r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x""#,
                    r#"{"id": "a-1" , "jsonrpc":"2.0", "error":{"#,
                    r#"{"jsonrpc":"2.0","id":1,"method":null,"params":null,"result":"#,
                    r#"[{"method":"x","jsonrpc":"2.0"},{"id":1,"result":"#,
                    r#"{"_meta":{},"jsonrpc":"2.0","id":1,"result":"#,
                    r#"{"type":"response","jsonrpc":"2.0","id":1,"result":"#,
                    r#"{"isError":false,"content":["#,
                    r#"{"structuredContent":{"method":"GET"},"#,
                    r#"{"result":{"text":"method"},"jsonrpc":"2.0"}"#,
                    "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":",
                ],
            ),
            (None, vec![r#"{"level":"error","message":"#, r#"{"level":"info","result":"#, r#"xxx"#, ""]),
        ] {
            lines.iter().for_each(|line| assert_eq!(kind_of(line.as_bytes(), line.as_bytes()), kind, "{line}"));
        }
    }
}

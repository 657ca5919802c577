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

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request or a notification. Its number, if any, is one of its sender.
    Question,
    /// A result or an error. Its number is one of its receiver.
    Answer,
}

/// Kind of a message, by the first key at the head of its line beside version and number; of a batch, that of its first
/// message. `None` for another key, or what is no message.
pub fn kind_at_head(line: &[u8]) -> Option<Kind> {
    static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let envelope = r#"(?:"(?:jsonrpc|id)"\s*:\s*(?:"[^"\\]*"|[^",\[\]{}]+)\s*,\s*)*"#;
        let first = r#"(?:"(method|params)"|"(?:result|error|content)")\s*:"#;
        Regex::new(&format!(r"^\s*\[?\s*\{{\s*{envelope}{first}")).ok()
    });
    let found = HEAD.as_ref()?.captures(&line[..line.len().min(ENDS)])?;
    Some(if found.get(1).is_some() { Kind::Question } else { Kind::Answer })
}

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
    fn the_first_key_tells_questions_from_answers() {
        for (kind, lines) in [
            (
                Some(Kind::Question),
                [
                    r#"{"jsonrpc":"2.0","id":7,"method":"x","result"#,
                    r#"{ "params" : {"result":1}"#,
                    r#"[{"method":"x""#,
                ],
            ),
            (
                Some(Kind::Answer),
                [
                    r#"{"result":{"method":"x""#,
                    r#"{"id": "a-1" , "jsonrpc":"2.0", "error":{"#,
                    r#"[ {"jsonrpc":"2.0","id":null,"result":"#,
                ],
            ),
            (None, [r#"{"level":"info","result":"#, r#"{"id":{"method":1},"result":"#, r#""method": 1, "result": 2"#]),
        ] {
            lines.iter().for_each(|line| assert_eq!(kind_at_head(line.as_bytes()), kind, "{line}"));
        }
    }
}

//! Server-sent events, read as browsers read them: an unknown or malformed field is passed over, and a comment counts for
//! nothing. The data of an event is a line, bounded as a line of a process is.

use std::io;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use reqwest::Response;
use sse_stream::Sse;

use super::lines::MAX_MESSAGE;
use base::lines::{Line, Lines, trim};

/// Kind of the failure of a stream whose event goes on.
pub(super) const ENDLESS: io::ErrorKind = io::ErrorKind::FileTooLarge;
/// Most bytes of an event that is skipped. One that goes on ends the stream.
const MAX_SKIPPED: usize = 4 * MAX_MESSAGE;
/// Most bytes of a field beside the data. An id goes back in a header.
const MAX_FIELD: usize = 16 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An event of a server.
pub(super) struct Event {
    /// Kind, id and time to retry.
    pub(super) fields: Sse,
    /// Its data, with spaces for line breaks.
    pub(super) data: Line,
}

/// The events of a stream, until it fails. An event without end is one over the limit, and a failure of the kind [`ENDLESS`].
pub(super) type Received = BoxStream<'static, io::Result<Event>>;

/// The events of a response, which is dropped when they end.
pub(super) fn events(response: Response) -> Received {
    let reader = Reader {
        fields: Sse::default(),
        data: Lines::new(MAX_MESSAGE),
        line: Vec::new(),
        is_data: false,
        is_first: true,
        after_return: false,
    };
    let read = stream::unfold(Some((response, reader)), |left| async {
        let (mut response, mut reader) = left?;
        let found = reader.take(response.chunk().await.transpose()?);
        let goes_on = found.last().is_none_or(Result::is_ok);
        Some((stream::iter(found), goes_on.then_some((response, reader))))
    });
    read.flatten().boxed()
}

/// Assembles events from chunks.
struct Reader {
    fields: Sse,
    data: Lines,
    /// The line so far, unless it is data.
    line: Vec<u8>,
    is_data: bool,
    /// In the first line, before which a byte order mark counts for nothing.
    is_first: bool,
    /// The last byte was a carriage return, which a line feed may follow.
    after_return: bool,
}

impl Reader {
    /// Takes a chunk: the events that end in it.
    fn take(&mut self, chunk: reqwest::Result<Bytes>) -> Vec<io::Result<Event>> {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return vec![Err(io::Error::other(error))],
        };
        let mut found = Vec::new();
        for part in chunk.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let is_return = part.last() == Some(&b'\r');
            if std::mem::replace(&mut self.after_return, is_return) && part == b"\n" {
                continue;
            }
            match part.split_last() {
                Some((b'\n' | b'\r', text)) => {
                    self.extend(text);
                    found.extend(self.end_line().map(Ok));
                }
                _ => self.extend(part),
            }
        }
        if self.data.bytes() > MAX_SKIPPED {
            found.extend(self.end_event().map(Ok));
            found.push(Err(io::Error::new(ENDLESS, "an event does not end")));
        }
        found
    }

    fn extend(&mut self, text: &[u8]) {
        if self.is_data {
            self.data.take(text);
            return;
        }
        self.line.extend_from_slice(text);
        if self.is_first && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
            self.is_first = false;
        }
        if let Some(data) = self.line.strip_prefix(b"data:") {
            self.data.take(data);
            self.is_data = true;
            self.line.clear();
        }
        self.line.truncate(MAX_FIELD + 1);
    }

    /// Ends a line; an empty one ends the event, if there is anything in it.
    fn end_line(&mut self) -> Option<Event> {
        self.is_first = false;
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_data) {
            self.data.take(b" ");
            return None;
        }
        if !line.is_empty() {
            self.field(&line);
            return None;
        }
        self.end_event()
    }

    fn end_event(&mut self) -> Option<Event> {
        let (fields, (_, data)) = (std::mem::take(&mut self.fields), self.data.take(b"\n"));
        let event = Event { fields, data: data? };
        let is_empty = matches!(&event.data, Line::Whole(data) if trim(data).is_empty());
        Some(event).filter(|event| !is_empty || event.fields != Sse::default())
    }

    fn field(&mut self, line: &[u8]) {
        let (is_long, line) = (line.len() > MAX_FIELD, String::from_utf8_lossy(line));
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            // Its beginning tells that the data is no message.
            "event" => self.fields.event = Some(value.to_owned()),
            _ if is_long => {}
            "id" if !value.contains('\0') => self.fields.id = Some(value.to_owned()),
            "retry" => self.fields.retry = value.trim().parse().ok().or(self.fields.retry),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, id, time to retry and data of each event; the data of one over the limit is its length.
    async fn parsed(text: &[u8], piece: usize) -> Vec<String> {
        let chunks: Vec<_> = text.chunks(piece).map(|chunk| Ok::<_, io::Error>(chunk.to_owned())).collect();
        let body = reqwest::Body::wrap_stream(stream::iter(chunks));
        let events = events(http::Response::new(body).into()).collect::<Vec<_>>().await;
        let told = |Event { fields: Sse { event, id, retry, .. }, data }| {
            let data = match data {
                Line::Whole(data) => String::from_utf8_lossy(trim(&data)).into_owned(),
                Line::Skipped { bytes, .. } => format!("{bytes} bytes"),
            };
            let of = [event, id, retry.map(|retry: u64| retry.to_string())].map(Option::unwrap_or_default);
            format!("{}|{data}", of.join("|"))
        };
        events.into_iter().map(|event| told(event.expect("the stream goes on"))).collect()
    }

    #[tokio::test]
    async fn events_are_read_as_browsers_read_them() {
        for (text, events) in [
            ("event: a\nid: 1\nretry: 5\ndata: x\n\n", vec!["a|1|5|x"]),
            ("data:x\ndata: y\n\ndata: z\n\n", vec!["|||x  y", "|||z"]),
            ("data: x\r\n\r\ndata: y\r\rdata: z\n\r\n", vec!["|||x", "|||y", "|||z"]),
            ("\u{feff}data: x\n\n", vec!["|||x"]),
            ("\u{feff}event: a\ndata: x\n\n", vec!["a|||x"]),
            ("\u{feff}\u{feff}data: x\n\ndata: y\n\n", vec!["|||y"]),
            ("data: x\n\n\u{feff}data: y\n\n", vec!["|||x"]),
            ("\n\u{feff}data: x\n\n", vec![]),
            (": ping\n\n:\n\n\n\ndata: x\n\n", vec!["|||x"]),
            ("x-more: 1\nheartbeat\nDATA: y\n data: y\ndata: x\n\n", vec!["|||x"]),
            ("event: a\nevent: b\nid: 1\nid: 2\ndata: x\n\n", vec!["b|2||x"]),
            ("retry: 7\nretry: soon\nid: a\0b\ndata\ndata: x\n\n", vec!["||7|x"]),
            ("id: 1\n\ndata: x\n\n", vec!["|1||", "|||x"]),
            ("data: x\n\ndata: y\n", vec!["|||x"]),
        ] {
            for piece in [1, 2, 1000] {
                assert_eq!(parsed(text.as_bytes(), piece).await, events, "{text:?} in pieces of {piece}");
            }
        }
        assert_eq!(parsed(b"data: caf\xe9\n\nevent: \xe9\ndata: x\n\n", 4).await, ["|||caf\u{fffd}", "\u{fffd}|||x"]);
    }

    #[tokio::test]
    async fn comments_count_for_nothing_and_an_event_over_the_limit_is_skipped() {
        let kind = "k".repeat(MAX_FIELD);
        let cut = &kind["event: ".len() - 1..];
        assert_eq!(parsed(format!("event: {kind}\ndata: x\n\n").as_bytes(), 1 << 10).await, [format!("{cut}|||x")]);
        let comments = format!(": {}\n", "x".repeat(1 << 20)).repeat(17);
        assert_eq!(parsed(format!("data: x\n{comments}data: y\n\n").as_bytes(), 1 << 16).await, ["|||x  y"]);
        let half = "x".repeat(MAX_MESSAGE / 2);
        let long = format!("id: 1\ndata: {half}\ndata: {half}\n\nid: {half}\ndata: y\n\n");
        // With the spaces before and after each line.
        let bytes = MAX_MESSAGE + 4;
        assert_eq!(parsed(long.as_bytes(), 1 << 16).await, [format!("|1||{bytes} bytes"), "|||y".to_owned()]);
    }
}

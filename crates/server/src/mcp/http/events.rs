//! Events of one session's streams, so that a client can resume one after a broken connection.
//!
//! Their ids mean something within the session alone: another session's store does not know them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{EventStore, EventStoreError, EventStream, ServerSseMessage};
use tokio::sync::watch;

use super::super::stdio::length;
use base::json;
use base::kept::{self, Tracked};
use base::limits;
use base::task;

/// Time that the events of a finished stream are kept.
const KEEP: Duration = Duration::from_secs(5 * 60);
/// Most streams of a session; one more drops the oldest. Requests that were cancelled have no answer, and end nothing.
const STREAMS: usize = 256;
/// End of the name that rmcp gives a session's own stream.
const RMCP_COMMON: &str = ":common";
/// End of the ids of its events.
const COMMON: &str = "-c";
/// Bytes that each event counts for beside its text.
const EVENT: usize = 256;

/// Events of one session's streams.
#[derive(Default)]
pub(super) struct Events {
    /// Beginning of their ids: those of another replica have another one.
    prefix: String,
    streams: Arc<Mutex<Streams>>,
}

#[derive(Default)]
struct Streams {
    streams: BTreeMap<u64, Stream>,
    next: u64,
    bytes: usize,
}

#[derive(Default)]
struct Stream {
    /// The name that rmcp gives it.
    name: String,
    /// Number of the first kept event.
    first: u64,
    events: VecDeque<(ServerSseMessage, usize, Tracked)>,
    /// Set once the answer of its request is among the events: nothing follows.
    done: Option<Instant>,
    /// Tells of each new event.
    news: watch::Sender<()>,
}

impl Streams {
    /// The first stream that is so.
    fn find(&self, is_it: impl Fn(&Stream) -> bool) -> Option<u64> {
        self.streams.iter().find(|(_, stream)| is_it(stream)).map(|(number, _)| *number)
    }

    fn stream(&mut self, name: &str) -> u64 {
        if let Some(number) = self.find(|stream| stream.name == name) {
            return number;
        }
        let number = self.next;
        self.next += 1;
        self.streams.insert(number, Stream { name: name.to_owned(), ..Stream::default() });
        number
    }

    /// The stream of the event `last`, and the numbers of that stream and of the next event.
    fn after(&self, last: &str) -> Result<(u64, u64, &Stream), &'static str> {
        let (number, index) = last
            .split_once('-')
            .and_then(|(number, index)| Some((number.parse::<u64>().ok()?, index.parse::<u64>().ok()?)))
            .filter(|(number, _)| *number < self.next)
            .ok_or("this session gave no event such an id")?;
        let stream = self.streams.get(&number).ok_or("the events of that stream are no longer kept")?;
        let end = stream.first + stream.events.len() as u64;
        match index < end && index + 1 >= stream.first {
            true => Ok((number, index + 1, stream)),
            false if index < end => Err("the events after this one are no longer kept"),
            false => Err("this session gave no event such an id"),
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(stream) = self.streams.remove(&number) {
            self.bytes -= stream.events.iter().map(|(_, bytes, _)| bytes).sum::<usize>();
        }
    }

    /// Drops the events of streams that ended long ago.
    fn tidy(&mut self) {
        while let Some(old) = self.find(|stream| stream.done.is_some_and(|done| done.elapsed() > KEEP)) {
            self.forget(old);
        }
    }

    /// Drops what is over the bounds of this session and of all: whole finished streams first, then the oldest events of
    /// the stream with most.
    fn make_room(&mut self) {
        self.tidy();
        while self.streams.len() > STREAMS {
            let ended = self.find(|stream| stream.done.is_some());
            let Some(oldest) = ended.or_else(|| self.streams.keys().next().copied()) else { break };
            self.forget(oldest);
        }
        while self.bytes > limits::EVENTS.max || kept::EVENTS.is_full() {
            if let Some(number) = self.find(|stream| stream.done.is_some()) {
                self.forget(number);
                continue;
            }
            let fullest = self.streams.values_mut().max_by_key(|stream| stream.events.len());
            let Some((stream, (_, bytes, _))) =
                fullest.and_then(|stream| stream.events.pop_front().map(|event| (stream, event)))
            else {
                return;
            };
            stream.first += 1;
            self.bytes -= bytes;
        }
    }
}

/// Bytes of a message as JSON.
fn size(message: &ServerJsonRpcMessage) -> usize {
    task::work_on(length(message), || json::written(message))
}

impl Events {
    /// No events yet; their ids will begin with `prefix`.
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, streams: Arc::default() }
    }

    /// True for an event of the session's own stream at another replica: what followed it there is lost, and what follows
    /// it here is that of a new stream.
    pub(super) fn is_elsewhere(&self, last: &str) -> bool {
        !last.starts_with(&self.prefix) && last.ends_with(COMMON)
    }

    /// The id without what every id here begins with.
    fn own<'a>(&self, last: &'a str) -> Result<&'a str, &'static str> {
        let own = last.strip_prefix(&self.prefix).ok_or("its replica is gone, and the events with it")?;
        Ok(own.strip_suffix(COMMON).unwrap_or(own))
    }

    /// Drops the events of streams that ended long ago.
    pub(super) fn tidy(&self) {
        self.streams.lock().tidy();
    }

    /// Checks that a stream can be resumed after the event `last`.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(super) fn check(&self, last: &str) -> Result<(), &'static str> {
        self.streams.lock().after(self.own(last)?).map(drop)
    }
}

#[async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream: &str, event: &ServerSseMessage) -> Result<String, EventStoreError> {
        let mut streams = self.streams.lock();
        let number = streams.stream(stream);
        let bytes = EVENT + event.message.as_deref().map_or(0, size);
        let Some(stream) = streams.streams.get_mut(&number) else { return Err("a stream was lost".into()) };
        let common = if stream.name.ends_with(RMCP_COMMON) { COMMON } else { "" };
        let id = format!("{}{number}-{}{common}", self.prefix, stream.first + stream.events.len() as u64);
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        let is_answer = matches!(
            event.message.as_deref(),
            Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
        );
        stream.done = is_answer.then(Instant::now);
        stream.events.push_back((event, bytes, kept::EVENTS.count(bytes)));
        stream.news.send_replace(());
        streams.bytes += bytes;
        streams.make_room();
        Ok(id)
    }

    async fn replay_events_after(&self, last: &str) -> Result<EventStream, EventStoreError> {
        let streams = self.streams.lock();
        let (number, next, stream) = streams.after(self.own(last)?)?;
        let reader = Reader { streams: Arc::clone(&self.streams), number, next, news: stream.news.subscribe() };
        Ok(Box::pin(futures::stream::unfold(reader, Reader::next)))
    }
}

/// A reader of one stream: the events that it missed, then those to come.
struct Reader {
    streams: Arc<Mutex<Streams>>,
    number: u64,
    next: u64,
    news: watch::Receiver<()>,
}

impl Reader {
    /// The next event; `None` after the last one, or when it missed one that is no longer kept.
    async fn next(mut self) -> Option<(ServerSseMessage, Self)> {
        loop {
            self.news.borrow_and_update();
            if let Some(event) = self.read()? {
                self.next += 1;
                return Some((event, self));
            }
            self.news.changed().await.ok()?;
        }
    }

    fn read(&self) -> Option<Option<ServerSseMessage>> {
        let streams = self.streams.lock();
        let stream = streams.streams.get(&self.number)?;
        let at = usize::try_from(self.next.checked_sub(stream.first)?).ok()?;
        match stream.events.get(at) {
            Some((event, ..)) => Some(Some(event.clone())),
            None if stream.done.is_some() => None,
            None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use serde_json::json;

    use super::*;

    fn notice(text: &str) -> ServerSseMessage {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": text}});
        ServerSseMessage::from_message(serde_json::from_value(message).expect("a notification"))
    }

    fn answer(text: &str) -> ServerSseMessage {
        let message = json!({"jsonrpc": "2.0", "id": 1,
            "result": {"content": [{"type": "text", "text": text}]}});
        ServerSseMessage::from_message(serde_json::from_value(message).expect("an answer"))
    }

    #[tokio::test]
    async fn a_stream_is_resumed_after_any_of_its_events_and_ends_with_its_answer() {
        let events = Events::default();
        let mut ids = Vec::new();
        for (stream, event) in [("a", notice("1")), ("b", notice("other")), ("a", notice("2"))] {
            ids.push(events.store_event(stream, &event).await.expect("room"));
        }
        assert_eq!(ids, ["0-0", "1-0", "0-1"]);
        let mut resumed = events.replay_events_after("0-0").await.expect("it is known");
        let id = |event: Option<ServerSseMessage>| event.and_then(|event| event.event_id);
        assert_eq!(id(resumed.next().await).as_deref(), Some("0-1"), "not the other stream's");
        assert!(resumed.next().now_or_never().is_none(), "it waits");
        events.store_event("a", &answer("done")).await.expect("room");
        assert_eq!(id(resumed.next().await).as_deref(), Some("0-2"));
        assert!(resumed.next().await.is_none(), "nothing follows an answer");
        for last in ["", "0", "0-9", "7-0", "x-1", "0--1", "18446744073709551615-18446744073709551614"] {
            assert!(events.replay_events_after(last).await.is_err(), "{last}");
        }
    }

    #[tokio::test]
    async fn the_events_of_a_session_are_bounded() {
        let events = Events::default();
        let text = "x".repeat(limits::EVENTS.max / 4);
        for number in 0..9 {
            events.store_event(&format!("s{number}"), &answer(&text)).await.expect("room");
            events.store_event("live", &notice("n")).await.expect("room");
            assert!(events.streams.lock().bytes <= limits::EVENTS.max, "after {number}");
        }
        assert!(events.replay_events_after("0-0").await.is_err(), "the oldest answer is gone");
        assert!(events.replay_events_after("1-0").await.is_ok(), "a stream that goes on is not");
        for _ in 0..2 * limits::EVENTS.max / EVENT {
            events.store_event("live", &notice("n")).await.expect("room");
        }
        let streams = events.streams.lock();
        assert!(streams.bytes <= limits::EVENTS.max);
        assert_eq!(
            streams.bytes,
            streams.streams.values().flat_map(|s| &s.events).map(|(_, bytes, _)| bytes).sum::<usize>()
        );
    }
}

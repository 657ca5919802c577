//! Admission control of one client. Requests over a limit are refused before any work.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId};
use tokio::sync::watch;

use base::error::{Error, ErrorCode};
use base::limits::{self, Limit};

/// Multiple of [`limits::UNREAD`] that answers may have: those of requests that were in flight when it was reached.
const IN_FLIGHT: usize = 4;

/// Use of one kind by a client, in all its sessions, and the most that it may have.
#[derive(Clone)]
pub(super) struct Counter {
    all: watch::Sender<usize>,
    limit: &'static Limit,
}

/// A part of a counter, until dropped.
pub(super) struct Held {
    size: usize,
    of: Counter,
}

impl Counter {
    pub(super) fn new(limit: &'static Limit) -> Self {
        Self { all: watch::Sender::default(), limit }
    }

    /// Holds `size`.
    ///
    /// # Errors
    /// `BUSY` when the client has too much.
    pub(super) fn hold(&self, size: usize) -> Result<Held, Error> {
        let mut held = self.keep(0);
        held.grow(size).map(|()| held)
    }

    /// Counts `size` of what is there already, also over the limit.
    pub(super) fn keep(&self, size: usize) -> Held {
        self.all.send_if_modified(|all| {
            *all += size;
            size > 0
        });
        Held { size, of: self.clone() }
    }

    /// As [`Counter::keep`], up to a multiple of the limit: for what is made before the limit is known to be reached.
    ///
    /// # Errors
    /// `BUSY` over that.
    pub(super) fn keep_late(&self, size: usize) -> Result<Held, Error> {
        let all = self.all.borrow().saturating_add(size);
        if all > self.limit.max * IN_FLIGHT { Err(busy(self.limit, all)) } else { Ok(self.keep(size)) }
    }

    /// Checks that there is no more than the limit.
    ///
    /// # Errors
    /// `BUSY` when there is.
    pub(super) fn check(&self) -> Result<(), Error> {
        let all = *self.all.borrow();
        if all <= self.limit.max { Ok(()) } else { Err(busy(self.limit, all)) }
    }

    /// Waits until there is no more than the limit.
    pub(super) async fn room(&self) {
        // The sender is ours: this cannot fail.
        let _ = self.all.subscribe().wait_for(|all| *all <= self.limit.max).await;
    }
}

impl Held {
    /// Grows to at least `size`.
    ///
    /// # Errors
    /// `BUSY` when the client has too much.
    pub(super) fn grow(&mut self, size: usize) -> Result<(), Error> {
        let (more, limit) = (size.saturating_sub(self.size), self.of.limit);
        let mut sum = 0;
        self.of.all.send_if_modified(|all| {
            sum = all.saturating_add(more);
            let fits = sum <= limit.max;
            *all = if fits { sum } else { *all };
            fits && more > 0
        });
        if sum > limit.max {
            return Err(busy(limit, sum));
        }
        self.size += more;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.all.send_modify(|all| *all -= self.size);
    }
}

/// Requests of a session in flight, and what its client has in all its sessions.
#[derive(Clone)]
pub(super) struct Admission {
    requests: Arc<Mutex<HashMap<RequestId, UnderWay>>>,
    /// Bytes of requests in flight.
    pub(super) bytes: Counter,
    streams: Counter,
    /// URIs that it subscribes to.
    pub(super) uris: Counter,
    /// Bytes of answers that are not written yet.
    pub(super) unread: Counter,
}

/// A request in flight.
struct UnderWay {
    _held: Held,
    /// The stream and its URIs, if it is a stream of changes.
    stream: Option<[Held; 2]>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            requests: Arc::default(),
            bytes: Counter::new(&limits::UNDER_WAY),
            streams: Counter::new(&limits::STREAMS),
            uris: Counter::new(&limits::SUBSCRIBED),
            unread: Counter::new(&limits::UNREAD),
        }
    }
}

impl Admission {
    /// Admission of another session of the same client.
    pub(super) fn of_session(&self) -> Self {
        Self { requests: Arc::default(), ..self.clone() }
    }

    /// Requests in flight, streams of changes included.
    pub(super) fn count(&self) -> usize {
        self.requests.lock().len()
    }

    /// Requests in flight that will be answered.
    pub(super) fn unanswered(&self) -> usize {
        self.requests.lock().values().filter(|request| request.stream.is_none()).count()
    }

    /// Admits a message: a request is in flight until it is answered or cancelled. Returns the bytes of any other, to be
    /// held until it is delivered.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(super) fn admit(&self, message: &ClientJsonRpcMessage, held: Held) -> Result<Option<Held>, Error> {
        match message {
            JsonRpcMessage::Request(request) => self.begin(&request.id, &request.request, held).map(|()| None),
            JsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // There will be no answer.
                    self.end(id);
                }
                Ok(Some(held))
            }
            _ => Ok(Some(held)),
        }
    }

    /// Admits a message that is known by another id than its own.
    ///
    /// # Errors
    /// As [`Admission::admit`].
    pub(super) fn admit_as(&self, id: &RequestId, message: &ClientJsonRpcMessage, held: Held) -> Result<(), Error> {
        match message {
            JsonRpcMessage::Request(request) => self.begin(id, &request.request, held),
            _ => Ok(()),
        }
    }

    fn begin(&self, id: &RequestId, request: &ClientRequest, held: Held) -> Result<(), Error> {
        let mut requests = self.requests.lock();
        if requests.contains_key(id) {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("a request with the id {id} is under way"))
                .hint("give each request an id of its own"));
        }
        if requests.len() >= limits::REQUESTS.max {
            return Err(busy(&limits::REQUESTS, requests.len() + 1));
        }
        let mut stream = None;
        if let ClientRequest::SubscriptionsListenRequest(listen) = request {
            let subscribed = listen.params.notifications.resource_subscriptions.as_deref().unwrap_or_default();
            subscribed.iter().try_for_each(|uri| limits::SUBSCRIBED_URI.check(uri.len()))?;
            stream = Some([self.streams.hold(1)?, self.uris.hold(subscribed.len())?]);
        }
        requests.insert(id.clone(), UnderWay { _held: held, stream });
        Ok(())
    }

    /// Ends a request.
    pub(super) fn end(&self, id: &RequestId) {
        self.requests.lock().remove(id);
    }
}

fn busy(limit: &Limit, size: usize) -> Error {
    limit.exceeded(ErrorCode::Busy, size).hint(
        "read the answers that there are, and send it again once some more are there; docs/limits.md has the limits",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_until_a_request_is_answered() {
        let (admission, max) = (Admission::default(), limits::UNDER_WAY.max);
        let ping: ClientJsonRpcMessage =
            serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).expect("a request");
        let held = admission.bytes.hold(max - 10).expect("there is room");
        assert!(admission.bytes.hold(11).is_err() && admission.bytes.hold(10).is_ok());
        assert!(admission.admit(&ping, held).is_ok_and(|held| held.is_none()), "it is the only one");
        let again = admission.bytes.hold(0).expect("nothing");
        assert!(admission.admit(&ping, again).map(drop).expect_err("twice").message.contains("the id 1 is under way"));
        let error = admission.bytes.hold(11).map(drop).expect_err("the first is under way");
        assert_eq!(error.message, format!("bytes under way: {} bytes, over the limit of {max} bytes", max + 1));
        admission.end(&RequestId::Number(1));
        assert!(admission.bytes.hold(max).is_ok());
        assert_eq!(*admission.bytes.all.borrow(), 0);
    }

    #[test]
    fn a_client_that_leaves_its_answers_unread_is_refused_in_all_its_sessions() {
        let (admission, max) = (Admission::default(), limits::UNREAD.max);
        let session = admission.of_session();
        let unread = admission.unread.keep(max);
        session.unread.check().expect("no more than it may");
        let more = session.unread.keep_late(1).expect("an answer to a request that was in flight");
        let refused = admission.unread.check().expect_err("one more");
        assert_eq!(refused.message, format!("unread answers: {} bytes, over the limit of {max} bytes", max + 1));
        assert!(session.unread.keep_late(max * IN_FLIGHT).is_err(), "whatever was in flight");
        drop(more);
        assert!(session.unread.check().is_ok());
        drop(unread);
        assert_eq!(*admission.unread.all.borrow(), 0);
    }
}

//! Admission control of one client. Requests over a limit are refused before any work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId};

use crate::error::{Error, ErrorCode};
use crate::limits::{self, Limit};

/// Requests of a client in flight.
#[derive(Clone, Default)]
pub(super) struct Admission {
    requests: Arc<Mutex<HashMap<RequestId, UnderWay>>>,
    bytes: Arc<AtomicUsize>,
}

/// A request in flight.
struct UnderWay {
    _held: HeldBytes,
    /// Subscribed URIs, if it is a stream of changes.
    uris: Option<usize>,
}

/// Bytes held for a client until dropped.
pub(super) struct HeldBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl HeldBytes {
    /// Grows to at least `bytes`.
    ///
    /// # Errors
    /// `BUSY` when the client has too many in flight.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.bytes);
        let within = |all: usize| all.checked_add(more).filter(|sum| *sum <= limits::UNDER_WAY.max);
        match self.all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => self.bytes += more,
            Err(all) => return Err(busy(&limits::UNDER_WAY, all.saturating_add(more))),
        }
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Admission {
    /// Admission of another session of the same client: both share its bytes.
    pub(super) fn sharing_bytes(&self) -> Self {
        Self { requests: Arc::default(), bytes: Arc::clone(&self.bytes) }
    }

    /// Requests in flight, streams of changes included.
    pub(super) fn count(&self) -> usize {
        self.requests.lock().len()
    }

    /// Requests in flight that will be answered.
    pub(super) fn unanswered(&self) -> usize {
        self.requests.lock().values().filter(|request| request.uris.is_none()).count()
    }

    /// Holds `bytes`.
    ///
    /// # Errors
    /// As [`HeldBytes::grow`].
    pub(super) fn hold(&self, bytes: usize) -> Result<HeldBytes, Error> {
        let mut held = HeldBytes { bytes: 0, all: Arc::clone(&self.bytes) };
        held.grow(bytes).map(|()| held)
    }

    /// Admits a message: a request is in flight until it is answered or cancelled. Returns the bytes of any other, to be
    /// held until it is delivered.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(super) fn admit(&self, message: &ClientJsonRpcMessage, held: HeldBytes) -> Result<Option<HeldBytes>, Error> {
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
    pub(super) fn admit_as(
        &self,
        id: &RequestId,
        message: &ClientJsonRpcMessage,
        held: HeldBytes,
    ) -> Result<(), Error> {
        match message {
            JsonRpcMessage::Request(request) => self.begin(id, &request.request, held),
            _ => Ok(()),
        }
    }

    fn begin(&self, id: &RequestId, request: &ClientRequest, held: HeldBytes) -> Result<(), Error> {
        let mut requests = self.requests.lock();
        if requests.contains_key(id) {
            return Err(Error::new(ErrorCode::InvalidArgs, format!("a request with the id {id} is under way"))
                .hint("give each request an id of its own"));
        }
        let within = |limit: &Limit, size: usize| if size <= limit.max { Ok(()) } else { Err(busy(limit, size)) };
        within(&limits::REQUESTS, requests.len() + 1)?;
        let mut uris = None;
        if let ClientRequest::SubscriptionsListenRequest(listen) = request {
            let streams = || requests.values().filter_map(|request| request.uris);
            let subscribed = listen.params.notifications.resource_subscriptions.as_deref().unwrap_or_default();
            within(&limits::STREAMS, streams().count() + 1)?;
            within(&limits::SUBSCRIBED, streams().sum::<usize>() + subscribed.len())?;
            subscribed.iter().try_for_each(|uri| limits::SUBSCRIBED_URI.check(uri.len()))?;
            uris = Some(subscribed.len());
        }
        requests.insert(id.clone(), UnderWay { _held: held, uris });
        Ok(())
    }

    /// True if no request waits for its answer; a stream of changes has none.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.lock().values().all(|request| request.uris.is_some())
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
        let held = admission.hold(max - 10).expect("there is room");
        assert!(admission.hold(11).is_err() && admission.hold(10).is_ok());
        assert!(admission.admit(&ping, held).is_ok_and(|held| held.is_none()), "it is the only one");
        let again = admission.hold(0).expect("nothing");
        assert!(admission.admit(&ping, again).map(drop).expect_err("twice").message.contains("the id 1 is under way"));
        let error = admission.hold(11).map(drop).expect_err("the first is under way");
        assert_eq!(error.message, format!("bytes under way: {} bytes, over the limit of {max} bytes", max + 1));
        admission.end(&RequestId::Number(1));
        assert!(admission.hold(max).is_ok());
        assert_eq!(admission.bytes.load(Ordering::Relaxed), 0);
    }
}

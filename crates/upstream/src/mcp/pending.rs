//! Requests that wait for an answer, to tell whose answer it is that names none.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId};

/// Requests without an answer.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    requests: HashSet<RequestId>,
    /// One was given up. Its answer may come yet, and must not be taken for that of another.
    has_given_up: bool,
}

impl Pending {
    /// This request alone.
    pub(super) fn of(id: &RequestId) -> Self {
        let pending = Self::default();
        pending.0.lock().requests.insert(id.clone());
        pending
    }

    /// Notes a message that is sent: a request waits, and a cancelled one waits no more.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let requests = &mut self.0.lock().requests;
                if let ClientRequest::InitializeRequest(_) = &request.request {
                    // It takes the place of the discovery.
                    requests.clear();
                }
                requests.insert(request.id.clone());
            }
            ClientJsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                    && self.remove(id)
                {
                    self.0.lock().has_given_up = true;
                }
            }
            _ => {}
        }
    }

    pub(super) fn remove(&self, id: &RequestId) -> bool {
        self.0.lock().requests.remove(id)
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.0.lock().requests.contains(id)
    }

    /// The only request, which an answer without a readable id must belong to.
    pub(super) fn only(&self) -> Option<RequestId> {
        let waiting = self.0.lock();
        let mut ids = waiting.requests.iter();
        ids.next().filter(|_| waiting.requests.len() == 1 && !waiting.has_given_up).cloned()
    }
}

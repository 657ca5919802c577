//! Requests that wait for an answer, to tell whose answer it is that names none.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId};

/// Requests without an answer.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// Each with the number of notifications before it.
    requests: HashMap<RequestId, usize>,
    /// One was given up. Its answer may come yet, and must not be taken for that of another.
    has_given_up: bool,
    /// Notifications that were sent.
    notices: usize,
    /// Those of them that no answer can be about: one was, or a request after them is answered.
    past_notices: usize,
    /// A result without an id was read. Servers that never write one hardly answer notifications.
    is_nameless: bool,
}

impl Pending {
    /// This request alone.
    pub(super) fn of(id: &RequestId) -> Self {
        let pending = Self::default();
        pending.0.lock().requests.insert(id.clone(), 0);
        pending
    }

    /// Notes a message that is sent: a request waits, and a cancelled one waits no more.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let waiting = &mut *self.0.lock();
                if let ClientRequest::InitializeRequest(_) = &request.request {
                    // It takes the place of the discovery.
                    waiting.requests.clear();
                }
                waiting.requests.insert(request.id.clone(), waiting.notices);
            }
            ClientJsonRpcMessage::Notification(notice) => {
                let waiting = &mut *self.0.lock();
                waiting.notices += 1;
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                    && waiting.requests.remove(id).is_some()
                {
                    waiting.has_given_up = true;
                }
            }
            _ => {}
        }
    }

    /// Notes the answer to a request; false if it is not waiting.
    pub(super) fn remove(&self, id: &RequestId) -> bool {
        let waiting = &mut *self.0.lock();
        let notices = waiting.requests.remove(id);
        waiting.past_notices = waiting.past_notices.max(notices.unwrap_or_default());
        notices.is_some()
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.0.lock().requests.contains_key(id)
    }

    /// The only request, which an answer without a readable id must belong to.
    pub(super) fn only(&self) -> Option<RequestId> {
        let waiting = self.0.lock();
        let mut ids = waiting.requests.keys();
        ids.next().filter(|_| waiting.requests.len() == 1 && !waiting.has_given_up).cloned()
    }

    /// The request of an answer that names none: the only one, unless the answer may be that to a notification.
    pub(super) fn guess(&self, is_result: bool) -> Option<RequestId> {
        let only = self.only();
        let waiting = &mut *self.0.lock();
        if waiting.past_notices < waiting.notices && !waiting.is_nameless {
            waiting.past_notices += 1;
            return None;
        }
        waiting.is_nameless |= is_result && only.is_some();
        only
    }
}

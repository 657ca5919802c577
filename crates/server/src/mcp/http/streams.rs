//! Streams of a session: they have the log entries of their request.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Poll;

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{OriginatingRequestId, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::{EventStream, ServerSseMessage};
use tokio::sync::mpsc;

use super::super::admission::Admission;
use super::super::message::answered_id;
use super::moved::Mark;

/// Log entries of a request that wait for its stream; further ones go on the session's `GET` stream.
const ASIDE: usize = 64;
/// The stream of one request: its log entries, then what `events` has.
pub(super) fn answering(
    events: impl Stream<Item = ServerSseMessage> + Send + Sync + Unpin + 'static,
    mut aside: Option<Aside>,
) -> EventStream {
    let mut events = events.fuse();
    Box::pin(futures::stream::poll_fn(move |context| {
        if let Some(Poll::Ready(Some(entry))) = aside.as_mut().map(|aside| aside.entries.poll_recv(context)) {
            return Poll::Ready(Some(ServerSseMessage::from_message(entry)));
        }
        events.poll_next_unpin(context)
    }))
}

/// Receivers of log entries by request.
pub(super) type Asides = Arc<Mutex<HashMap<RequestId, mpsc::Sender<ServerJsonRpcMessage>>>>;

/// Log entries of one request on its own stream: rmcp would send them on the session's `GET` stream. They are not kept
/// for a resumed stream.
pub(super) struct Aside {
    asides: Asides,
    id: RequestId,
    entries: mpsc::Receiver<ServerJsonRpcMessage>,
}

impl Aside {
    pub(super) fn open(asides: &Asides, id: RequestId) -> Self {
        let (tell, entries) = mpsc::channel(ASIDE);
        asides.lock().insert(id.clone(), tell);
        Self { asides: Arc::clone(asides), id, entries }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.asides.lock().remove(&self.id);
    }
}

/// A session's transport: a request is in flight until its answer was sent, its log entries go on its stream, and the
/// gateway's own requests are marked.
pub(super) struct Counted<T> {
    pub(super) inner: T,
    pub(super) admission: Admission,
    pub(super) asides: Asides,
    pub(super) mark: Mark,
}

impl<T> Counted<T> {
    /// The receiver of a log entry.
    fn aside(&self, message: &ServerJsonRpcMessage) -> Option<mpsc::Sender<ServerJsonRpcMessage>> {
        let JsonRpcMessage::Notification(notice) = message else { return None };
        let ServerNotification::LoggingMessageNotification(entry) = &notice.notification else { return None };
        let about = entry.extensions.get::<OriginatingRequestId>()?;
        self.asides.lock().get(&about.0).cloned()
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Counted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = answered_id(&message);
        let admission = self.admission.clone();
        let message = self.mark.sent(message);
        let message = match self.aside(&message) {
            Some(aside) => aside.try_send(message).map_or_else(|unsent| Some(unsent.into_inner()), |()| None),
            None => Some(message),
        };
        let sending = message.map(|message| self.inner.send(message));
        async move {
            let Some(sending) = sending else { return Ok(()) };
            let sent = sending.await;
            if let Some(id) = &answered {
                admission.end(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.inner.receive().await.map(|message| self.mark.received(message))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

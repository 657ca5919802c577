//! A connection on which all messages of a server come in one stream: the lines of a process, or the events of HTTP+SSE.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage, ServerRequest};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use super::handshake::{Handshake, Revision};
use super::message::answered;
use super::pending::Pending;
use base::task::Task;

/// Messages of a server in the queue.
const QUEUE: usize = 16;
/// Most requests of a server that are refused before its handshake is over.
pub(super) const MAX_REFUSALS: usize = 16;
/// Time for the handshake before such a refusal: most servers wait for none, and some die of it.
const PATIENCE: Duration = Duration::from_millis(200);

/// The way to the server.
pub(super) trait Outgoing: Send + 'static {
    type Error: std::error::Error + Send + Sync + 'static;

    /// Sends a message.
    fn send(&self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static;
}

/// A transport for such a connection. Dropping it ends the connection.
pub(super) struct Connection<O> {
    outgoing: O,
    pending: Pending,
    received: mpsc::Receiver<ServerJsonRpcMessage>,
    ended: Arc<AtomicBool>,
    /// Aborted on drop: a process that the server left behind may keep its stdout open.
    _reading: Task,
    revision: Revision,
    handshake: Option<Handshake>,
    /// A handshake is under way.
    begun: Arc<AtomicBool>,
    refusals: Vec<Task>,
}

impl<O: Outgoing> Connection<O> {
    /// `pending` are the requests that `messages` answer. Handshakes offer `revision` first.
    pub(super) fn new(
        outgoing: O,
        pending: Pending,
        messages: impl Stream<Item = Vec<ServerJsonRpcMessage>> + Send + 'static,
        revision: &Revision,
    ) -> Self {
        let (tell, received) = mpsc::channel(QUEUE);
        let ended = Arc::new(AtomicBool::new(false));
        let reading = Task::spawn(read(messages, tell, Arc::clone(&ended)));
        let (revision, begun, refusals) = (revision.clone(), Arc::default(), Vec::new());
        Self { outgoing, pending, received, ended, _reading: reading, revision, handshake: None, begun, refusals }
    }

    /// Becomes true when the server's messages end, before every request has seen it.
    pub(super) fn ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ended)
    }

    fn forward(&self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), O::Error>> + Send + 'static {
        self.pending.sent(&message);
        self.outgoing.send(message)
    }

    /// Refuses a request of the server if the handshake does not end soon. Not awaited: the server may read nothing while it
    /// asks. A refusal that it does not take ends nothing.
    fn refuse(&mut self, id: RequestId) {
        if self.refusals.len() < MAX_REFUSALS {
            let sent = self.forward(ClientJsonRpcMessage::error(not_yet(), Some(id)));
            let begun = Arc::clone(&self.begun);
            self.refusals.push(Task::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                if begun.load(Ordering::Acquire) {
                    let _ = sent.await;
                }
            }));
        }
    }
}

/// The refusal of a request of the server before its handshake is over.
pub(super) fn not_yet() -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the handshake is not over", None)
}

/// Forwards messages until they end or the receiver is gone.
async fn read(
    messages: impl Stream<Item = Vec<ServerJsonRpcMessage>>,
    tell: mpsc::Sender<ServerJsonRpcMessage>,
    ended: Arc<AtomicBool>,
) {
    let mut messages = pin!(messages);
    'connected: while let Some(several) = messages.next().await {
        for message in several {
            if tell.send(message).await.is_err() {
                break 'connected;
            }
        }
    }
    ended.store(true, Ordering::Release);
}

impl<O: Outgoing> Transport<RoleClient> for Connection<O> {
    type Error = O::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), O::Error>> + Send + 'static {
        let begun = Handshake::begin(&message, &self.revision);
        if self.handshake.is_some() && begun.is_some() {
            // `server/discover` has no answer.
            self.revision.set_initialize(true);
        }
        let message = begun.as_ref().map_or(message, |handshake| handshake.offer());
        self.begun.fetch_or(begun.is_some(), Ordering::Release);
        self.handshake = begun.or(self.handshake.take());
        self.forward(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.received.recv().await?;
            let Some(handshake) = &mut self.handshake else { return Some(message) };
            if handshake.is_answer(&message) {
                if let Some(answer) = handshake.read(message) {
                    self.handshake = None;
                    self.begun.store(false, Ordering::Release);
                    return Some(answer);
                }
                let offer = handshake.offer();
                self.forward(offer).await.ok()?;
            } else if let ServerJsonRpcMessage::Request(asked) = &message
                && !matches!(asked.request, ServerRequest::PingRequest(_))
            {
                // Until the handshake is over rmcp answers nothing but a ping, and the server may wait.
                self.refuse(asked.id.clone());
            } else if answered(&message).is_none() {
                return Some(message);
            } else {
                // It answers a discovery that was given up, as servers do that take long to start.
                self.revision.set_initialize(false);
            }
        }
    }

    /// The drop that follows ends the connection.
    async fn close(&mut self) -> Result<(), O::Error> {
        Ok(())
    }
}

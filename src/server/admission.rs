//! How much one client may have under way. What is beyond is refused before any work on it; a client that does not
//! read its refusals is not read from either.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode as RpcCode, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::json;

use crate::error::{Error, ErrorCode, code_name};
use crate::limits;

/// A transport that lets only so many requests in.
pub(super) struct Admission<T> {
    inner: T,
    under_way: UnderWay,
    /// A refusal on its way out. Nothing is read until it is written.
    refusing: Option<BoxFuture<'static, ()>>,
}

/// The requests that have no answer yet, with how many URIs those that are streams of changes subscribe to.
type UnderWay = Arc<Mutex<HashMap<RequestId, Option<usize>>>>;

impl<T> Admission<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, under_way: UnderWay::default(), refusing: None }
    }

    /// Notes a request, unless there are too many.
    fn admit(&self, id: &RequestId, request: &ClientRequest) -> Result<(), Error> {
        let mut under_way = lock(&self.under_way);
        let busy = |limit: &limits::Limit, size: usize| match size <= limit.max {
            true => Ok(()),
            false => Err(limit.exceeded(ErrorCode::Busy, size)),
        };
        busy(&limits::REQUESTS, under_way.len() + 1)?;
        let mut stream = None;
        if let ClientRequest::SubscriptionsListenRequest(listen) = request {
            let uris = listen.params.notifications.resource_subscriptions.as_deref().unwrap_or_default();
            busy(&limits::STREAMS, under_way.values().flatten().count() + 1)?;
            busy(&limits::SUBSCRIBED, under_way.values().flatten().sum::<usize>() + uris.len())?;
            uris.iter().try_for_each(|uri| limits::SUBSCRIBED_URI.check(uri.len()))?;
            stream = Some(uris.len());
        }
        under_way.insert(id.clone(), stream);
        Ok(())
    }
}

fn lock(under_way: &UnderWay) -> MutexGuard<'_, HashMap<RequestId, Option<usize>>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The request that a message to the client answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}

fn refusal(error: &Error) -> ErrorData {
    const SERVER_ERROR: RpcCode = RpcCode(-32000);
    let data = json!({"code": code_name(error.code), "suggestedFix": error.suggested_fix()});
    let code = if error.code == ErrorCode::Busy { SERVER_ERROR } else { RpcCode::INVALID_PARAMS };
    ErrorData::new(code, error.message.clone(), Some(data))
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Admission<T> {
    type Error = T::Error;

    /// A request is under way until its answer has been written.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = answered(&message);
        let (sending, under_way) = (self.inner.send(message), Arc::clone(&self.under_way));
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                lock(&under_way).remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // This future may be dropped at any await; the refusal then goes on where it was.
            if let Some(refusing) = &mut self.refusing {
                refusing.await;
                self.refusing = None;
            }
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Request(request) => {
                    if let Err(error) = self.admit(&request.id, &request.request) {
                        let refusal = JsonRpcMessage::error(refusal(&error), Some(request.id.clone()));
                        let sending = self.inner.send(refusal);
                        self.refusing = Some(Box::pin(async move { drop(sending.await) }));
                        continue;
                    }
                }
                // There will be no answer.
                JsonRpcMessage::Notification(notice) => {
                    if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        lock(&self.under_way).remove(id);
                    }
                }
                _ => {}
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

//! Sessions as rmcp's service sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionError,
};
use rmcp::transport::streamable_http_server::session::{EventStream, RestoreOutcome, ServerSseMessage, SessionId};
use tokio_util::sync::CancellationToken;

use super::super::message::request_id;
use super::edge::Begun;
use super::events::Events;
use super::sessions::{HttpClient, HttpSession, Sessions};
use super::streams::{Aside, Counted, answering};

/// Time between `Mcp-Session-Id` and `initialize` reaching the session.
const INITIALIZE: Duration = Duration::from_secs(30);

/// Sessions as rmcp sees them for one request: those of its client.
pub(super) struct OwnSessions {
    pub(super) all: Arc<Sessions>,
    pub(super) client: Arc<HttpClient>,
    /// The session that begins, if the request is one that begins a session.
    pub(super) begun: Option<Begun>,
    /// Ends a new session.
    pub(super) ended: CancellationToken,
    /// Delay for clients that know the event before the first (revision 2025-11-25).
    pub(super) retry: Option<Duration>,
    /// True once a session has taken the request.
    pub(super) taken: Arc<AtomicBool>,
}

impl OwnSessions {
    fn own(&self, id: &SessionId) -> Result<Arc<HttpSession>, LocalSessionManagerError> {
        self.all
            .session(id, &self.client)
            .ok_or_else(|| LocalSessionManagerError::SessionNotFound(SessionId::clone(id)))
    }
}

type Found<T> = Result<T, LocalSessionManagerError>;

impl SessionManager for OwnSessions {
    type Error = LocalSessionManagerError;
    type Transport = Counted<<LocalSessionManager as SessionManager>::Transport>;

    async fn create_session(&self) -> Found<(SessionId, Self::Transport)> {
        let none = || SessionError::Io(std::io::Error::other("no session begins with this request"));
        let Begun { id, keeping } = self.begun.clone().ok_or_else(none)?;
        let events = Arc::new(Events::new(self.all.mark.prefix()));
        let mut local = LocalSessionManager::default().with_event_store(Arc::<Events>::clone(&events));
        // Idle sessions end by `Sessions::end_unused`: rmcp would also end one whose request takes long.
        local.session_config.keep_alive = None;
        local.session_config.init_timeout = Some(INITIALIZE);
        local.session_config.sse_retry = self.retry;
        // rmcp would give it an id of its own.
        let RestoreOutcome::Restored(transport) = local.restore_session(SessionId::clone(&id)).await? else {
            return Err(none().into());
        };
        let events = (events, self.all.mark);
        let session = Arc::new(HttpSession::new(&self.client, self.ended.clone(), local, events, keeping.clone()));
        let counted = session.counted(transport);
        let many = |_| SessionError::Io(std::io::Error::other("too many sessions at once"));
        self.all.insert(&id, session).map_err(many)?;
        if let Some(keeping) = keeping {
            let (all, ended, id) = (Arc::clone(&self.all), self.ended.clone(), SessionId::clone(&id));
            tokio::spawn(async move {
                tokio::select! {
                    () = keeping.ended_elsewhere() => all.end(&id),
                    () = ended.cancelled() => {}
                }
            });
        }
        Ok((id, counted))
    }

    async fn initialize_session(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Found<ServerJsonRpcMessage> {
        self.own(id)?.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Found<bool> {
        Ok(self.own(id).is_ok())
    }

    async fn close_session(&self, id: &SessionId) -> Found<()> {
        if self.own(id).is_ok() {
            self.all.end(id);
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Found<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.own(id)?;
        let aside = request_id(&message).map(|id| Aside::open(&session.asides, id));
        let events = session.local.create_stream(id, message).await?;
        self.taken.store(true, Ordering::Release);
        Ok(answering(events, aside))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Found<()> {
        self.own(id)?.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Found<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.own(id)?;
        let stream: EventStream = Box::pin(session.local.create_standalone_stream(id).await?);
        Ok(stream)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Found<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.own(id)?;
        let stream: EventStream = match session.is_new_to(&last) {
            true => Box::pin(session.local.create_standalone_stream(id).await?),
            false => Box::pin(session.local.resume(id, last).await?),
        };
        Ok(stream)
    }
}

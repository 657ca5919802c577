//! Sessions over HTTP: of the older revisions one per `Mcp-Session-Id`, of 2026-07-28 one per client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::{OriginatingRequestId, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionError,
};
use rmcp::transport::streamable_http_server::session::{EventStream, ServerSseMessage, SessionId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::admission::Admission;
use super::super::{ForgeServer, SessionHandler};
use super::events::Events;
use crate::config::{self, Http};
use crate::error::{Error, ErrorCode};
use crate::gateway::Gateway;
use crate::limits;
use crate::principal::{LOCAL, Principal};
use crate::task::Task;

/// Time between `Mcp-Session-Id` and `initialize` reaching the session.
const INITIALIZE: Duration = Duration::from_secs(30);

/// The event id of rmcp's first event on a `GET` stream, before any of the session's own.
const FIRST_EVENT: &str = "0";

/// Log entries of a request that wait for its stream; further ones go on the session's `GET` stream.
const ASIDE: usize = 64;
/// Events that a reader may be behind.
const BEHIND: usize = 64;
/// Time after which a session ends whose client is gone with a request in flight, and does not come back for it.
const ABANDONED: Duration = Duration::from_secs(120);

/// Sessions of a gateway.
pub(super) struct Sessions {
    gateway: Arc<Gateway>,
    /// Ends everything.
    ended: CancellationToken,
    sessions: Mutex<HashMap<SessionId, Arc<HttpSession>>>,
    clients: Mutex<HashMap<Arc<str>, Arc<HttpClient>>>,
}

/// One client: its load, and its session of 2026-07-28.
pub(super) struct HttpClient {
    pub(super) name: Arc<str>,
    /// Its token; none where none is asked for.
    token: Option<config::Client>,
    /// Ends everything of it.
    pub(super) ended: CancellationToken,
    /// Bytes in flight of all its sessions, and requests of 2026-07-28.
    pub(super) admission: Admission,
    stateless: OnceLock<Arc<ForgeServer>>,
    usage: Arc<Usage>,
}

/// A session of the older revisions.
pub(super) struct HttpSession {
    client: Arc<HttpClient>,
    /// Ends its worker and its streams.
    pub(super) ended: CancellationToken,
    local: LocalSessionManager,
    events: Arc<Events>,
    pub(super) admission: Admission,
    /// Open `GET` streams.
    streams: Arc<AtomicUsize>,
    /// Log entries of the requests whose streams are open.
    asides: Asides,
    usage: Arc<Usage>,
}

/// Requests and streams that hold something, and the time since the last one ended.
pub(super) struct Usage {
    holds: AtomicUsize,
    since: Mutex<Instant>,
}

impl Default for Usage {
    fn default() -> Self {
        Self { holds: AtomicUsize::new(0), since: Mutex::new(Instant::now()) }
    }
}

impl Usage {
    /// Time without use; `None` while in use.
    fn idle(&self) -> Option<Duration> {
        (self.holds.load(Ordering::Acquire) == 0).then(|| self.since.lock().elapsed())
    }
}

/// Keeps a session or a client from ending as unused, until dropped.
pub(super) struct Hold(Arc<Usage>);

impl Hold {
    fn on(usage: &Arc<Usage>) -> Self {
        usage.holds.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(usage))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.0.since.lock() = Instant::now();
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An open `GET` stream, until dropped.
pub(super) struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reason why a client gets no further session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The client has as many as it may.
    Client(usize),
    /// The gateway has.
    Gateway(usize),
}

impl HttpClient {
    pub(super) fn hold(&self) -> Hold {
        Hold::on(&self.usage)
    }

    /// The server of its requests of 2026-07-28, which have no session of their own.
    pub(super) fn stateless(&self, gateway: &Arc<Gateway>) -> Arc<ForgeServer> {
        Arc::clone(self.stateless.get_or_init(|| new_server(gateway, &self.name)))
    }
}

impl HttpSession {
    pub(super) fn hold(&self) -> Hold {
        Hold::on(&self.usage)
    }

    /// Opens one more `GET` stream.
    ///
    /// # Errors
    /// `BUSY` when it has too many.
    pub(super) fn open_stream(&self) -> Result<OpenStream, Error> {
        let open = OpenStream(Arc::clone(&self.streams));
        let number = self.streams.fetch_add(1, Ordering::AcqRel) + 1;
        if number > limits::GET_STREAMS.max {
            return Err(limits::GET_STREAMS.exceeded(ErrorCode::Busy, number));
        }
        Ok(open)
    }

    /// True if it is unused for `limit`, or its client left a request in flight long ago.
    fn is_idle(&self, limit: Duration) -> bool {
        let limit = if self.admission.count() == 0 { limit } else { ABANDONED };
        self.usage.idle().is_some_and(|idle| idle >= limit)
    }
}

/// A server with a session of its own for a client.
pub(super) fn new_server(gateway: &Arc<Gateway>, client: &str) -> Arc<ForgeServer> {
    let session = gateway.open_session(Principal::of(client));
    Arc::new(ForgeServer::new(SessionHandler { session, gateway: Arc::clone(gateway) }))
}

impl Sessions {
    /// No sessions yet. `ended` ends all of them.
    pub(super) fn new(gateway: Arc<Gateway>, ended: CancellationToken) -> Arc<Self> {
        Arc::new(Self { gateway, ended, sessions: Mutex::default(), clients: Mutex::default() })
    }

    /// The client with this name. With another token it is another client.
    pub(super) fn client(&self, name: &str) -> Arc<HttpClient> {
        let token = self.gateway.config().clients.get(name).cloned();
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(name).filter(|client| client.token == token && !client.ended.is_cancelled()) {
            return Arc::clone(client);
        }
        if let Some(before) = clients.remove(name) {
            before.ended.cancel();
        }
        let name: Arc<str> = name.into();
        let client = HttpClient {
            name: Arc::clone(&name),
            token,
            ended: self.ended.child_token(),
            admission: Admission::default(),
            stateless: OnceLock::new(),
            usage: Arc::default(),
        };
        Arc::clone(clients.entry(name).or_insert(Arc::new(client)))
    }

    /// The session with this id, if it is the client's: an id is no right.
    pub(super) fn session(&self, id: &str, client: &HttpClient) -> Option<Arc<HttpSession>> {
        self.sessions.lock().get(id).filter(|session| std::ptr::eq(&*session.client, client)).cloned()
    }

    /// Requests in flight that will be answered.
    pub(super) fn requests(&self) -> usize {
        let sessions: usize = self.sessions.lock().values().map(|session| session.admission.unanswered()).sum();
        let clients: usize = self.clients.lock().values().map(|client| client.admission.unanswered()).sum();
        sessions + clients
    }

    /// Makes sure that a client may have one more session. Where it has as many as it may, its longest unused one ends:
    /// clients that crash never end theirs.
    pub(super) fn make_room(&self, client: &HttpClient, settings: &Http) -> Result<(), Full> {
        let unused = {
            let sessions = self.sessions.lock();
            let own: Vec<_> = sessions.iter().filter(|(_, session)| session.client.name == client.name).collect();
            let full = match () {
                () if own.len() >= settings.max_client_sessions => Full::Client(settings.max_client_sessions),
                () if sessions.len() >= settings.max_sessions => Full::Gateway(settings.max_sessions),
                () => return Ok(()),
            };
            let unused = own.into_iter().filter(|(_, session)| session.is_idle(Duration::ZERO));
            let oldest = unused.max_by_key(|(_, session)| session.usage.idle());
            oldest.map(|(id, _)| SessionId::clone(id)).ok_or(full)?
        };
        self.end(&unused);
        Ok(())
    }

    /// Ends a session: its worker and its streams are dropped, whatever they wait for.
    fn end(&self, id: &SessionId) {
        let session = self.sessions.lock().remove(id);
        if let Some(session) = session {
            session.ended.cancel();
        }
    }

    /// Ends the sessions that are unused for too long, and those of clients that are gone from the configuration.
    fn end_unused(&self, settings: &Http, is_client: impl Fn(&HttpClient) -> bool) {
        let over = |session: &HttpSession| session.is_idle(settings.idle) || !is_client(&session.client);
        let ended: Vec<SessionId> = {
            let sessions = self.sessions.lock();
            sessions.values().for_each(|session| session.events.tidy());
            sessions.iter().filter(|(_, session)| over(session)).map(|(id, _)| SessionId::clone(id)).collect()
        };
        ended.iter().for_each(|id| self.end(id));
        let is_over = |client: &Arc<HttpClient>| {
            let is_idle =
                client.admission.count() == 0 && client.usage.idle().is_some_and(|idle| idle >= settings.idle);
            // Its sessions hold it too.
            !is_client(client) || Arc::strong_count(client) == 1 && is_idle
        };
        let over = self.clients.lock().extract_if(|_, client| is_over(client)).collect::<Vec<_>>();
        over.iter().for_each(|(_, client)| client.ended.cancel());
    }
}

/// Sessions as rmcp sees them for one request: those of its client.
pub(super) struct OwnSessions {
    pub(super) all: Arc<Sessions>,
    pub(super) client: Arc<HttpClient>,
    /// Ends a new session.
    pub(super) ended: CancellationToken,
    /// Delay for clients that know the event before the first (revision 2025-11-25).
    pub(super) retry: Option<Duration>,
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
        let settings = &self.all.gateway.config().http;
        // Several may have been let in at once.
        if self.all.sessions.lock().len() > settings.max_sessions + settings.max_client_sessions {
            return Err(SessionError::Io(std::io::Error::other("too many sessions")).into());
        }
        let events = Arc::new(Events::default());
        let mut local = LocalSessionManager::default().with_event_store(Arc::<Events>::clone(&events));
        // Idle sessions end by `Sessions::end_unused`: rmcp would also end one whose request takes long.
        local.session_config.keep_alive = None;
        local.session_config.init_timeout = Some(INITIALIZE);
        local.session_config.sse_retry = self.retry;
        let (id, transport) = local.create_session().await?;
        let session = Arc::new(HttpSession {
            client: Arc::clone(&self.client),
            ended: self.ended.clone(),
            local,
            events,
            admission: self.client.admission.sharing_bytes(),
            streams: Arc::default(),
            asides: Arc::default(),
            usage: Arc::default(),
        });
        let (admission, asides) = (session.admission.clone(), Arc::clone(&session.asides));
        self.all.sessions.lock().insert(SessionId::clone(&id), session);
        Ok((id, Counted { inner: transport, admission, asides }))
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
        let mut aside = match &message {
            JsonRpcMessage::Request(request) => Some(Aside::open(&session.asides, request.id.clone())),
            _ => None,
        };
        let mut answers = pumped(session.local.create_stream(id, message).await?).fuse();
        let stream: EventStream = Box::pin(futures::stream::poll_fn(move |context| {
            if let Some(Poll::Ready(Some(entry))) = aside.as_mut().map(|aside| aside.entries.poll_recv(context)) {
                return Poll::Ready(Some(ServerSseMessage::from_message(entry)));
            }
            answers.poll_next_unpin(context)
        }));
        Ok(stream)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Found<()> {
        self.own(id)?.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Found<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.own(id)?;
        Ok(pumped(session.local.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Found<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let session = self.own(id)?;
        let stream: EventStream = match last.as_str() {
            // It saw nothing of the session's own yet.
            FIRST_EVENT => pumped(session.local.create_standalone_stream(id).await?),
            _ => Box::pin(session.local.resume(id, last).await?),
        };
        Ok(stream)
    }
}

/// A stream whose events never wait for its reader: the session's worker serves all its streams in turn. One that falls
/// behind is cut off, and its reader can resume it.
fn pumped(mut events: impl Stream<Item = ServerSseMessage> + Send + Unpin + 'static) -> EventStream {
    let (tell, mut told) = mpsc::channel(BEHIND);
    let pump = Task::spawn(async move {
        while let Some(event) = events.next().await {
            if tell.try_send(event).is_err() {
                return;
            }
        }
    });
    Box::pin(futures::stream::poll_fn(move |context| {
        let _pump = &pump;
        told.poll_recv(context)
    }))
}

/// Receivers of log entries by request.
type Asides = Arc<Mutex<HashMap<RequestId, mpsc::Sender<ServerJsonRpcMessage>>>>;

/// Log entries of one request on its own stream: rmcp would send them on the session's `GET` stream. They are not kept
/// for a resumed stream.
struct Aside {
    asides: Asides,
    id: RequestId,
    entries: mpsc::Receiver<ServerJsonRpcMessage>,
}

impl Aside {
    fn open(asides: &Asides, id: RequestId) -> Self {
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

/// A session's transport: a request is in flight until its answer was sent, and its log entries go on its stream.
pub(super) struct Counted<T> {
    inner: T,
    admission: Admission,
    asides: Asides,
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
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let admission = self.admission.clone();
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
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Ends unused sessions for as long as the sessions live.
pub(super) async fn look_after(sessions: Weak<Sessions>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let config = sessions.gateway.config();
        let is_client = |client: &HttpClient| match config.needs_token {
            true => client.token.is_some() && config.clients.get(&*client.name) == client.token.as_ref(),
            false => *client.name == *LOCAL,
        };
        sessions.end_unused(&config.http, is_client);
    }
}

//! Sessions of the older revisions that move between replicas: the setup requests of a session (`initialize`, its log level,
//! its subscriptions) are in the state that they share, and the replica that gets its next request makes them again to a
//! session of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, InitializedNotification, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::serve_server_with_ct;
use rmcp::transport::TransportAdapterIdentity;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::SessionId;
use scopeguard::ScopeGuard;
use serde_json::json;

use super::edge::{Begun, Edge};
use super::incoming::retry;
use super::own_sessions::OwnSessions;
use super::refusals::{no_room, unavailable};
use super::reply::Reply;
use super::sessions::{HttpClient, HttpSession, new_server};
use crate::gateway::Gateway;
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::limits;
use base::random;
use base::task;
use state::{Collection, Entry, Kind, New, Room, State};

/// Interval at which what is kept of a session is renewed while it lives: half its time to live in the store.
const RENEWAL: Duration = Duration::from_secs(60 * 60);
/// Interval of attempts to keep one while the state is away.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for a session to begin again.
const BEGIN: Duration = Duration::from_secs(30);
/// Name of the entry of `initialize`, without which a session is none.
const INITIALIZE: &str = "initialize";

/// Setup requests of a session, in the state that replicas share.
#[derive(Clone)]
pub(super) struct Setup {
    state: Arc<dyn State>,
    collection: Collection,
}

impl Setup {
    /// Replicated setup of the session `id`; `None` where no other process could go on with it. Another client finds
    /// nothing by the same id.
    pub(super) fn of(gateway: &Gateway, client: &HttpClient, id: &str) -> Option<Self> {
        let state = Arc::clone(gateway.state());
        // An id that no replica gives is looked for nowhere.
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let collection = Collection { kind: Kind::Setup, client: client.identity().into(), session: id.into() };
        (state.is_shared() && is_id).then_some(Self { state, collection })
    }

    /// Keeps a message if another replica needs it.
    ///
    /// # Errors
    /// When the state is away.
    async fn keep(&self, message: &ClientJsonRpcMessage) -> Result<()> {
        let JsonRpcMessage::Request(request) = message else { return Ok(()) };
        let subscription = |uri: &str| format!("subscribed {}", stubgen::digest(uri));
        let (name, params) = match &request.request {
            ClientRequest::InitializeRequest(initialize) => (INITIALIZE.to_owned(), json!(initialize.params)),
            ClientRequest::SetLevelRequest(level) => ("level".to_owned(), json!(level.params)),
            ClientRequest::SubscribeRequest(subscribe) => {
                let uri = &subscribe.params.uri;
                // It is refused.
                if limits::SUBSCRIBED_URI.check(uri.len()).is_err() {
                    return Ok(());
                }
                (subscription(uri), json!({"uri": uri}))
            }
            ClientRequest::UnsubscribeRequest(unsubscribe) => {
                let kept = self.state.entries(&self.collection, &subscription(&unsubscribe.params.uri)).await?;
                return self.remove(&kept).await.map(drop);
            }
            _ => return Ok(()),
        };
        let value = json!({"jsonrpc": "2.0", "id": name, "method": request.request.method(), "params": params});
        let (labels, replaces) = (Labels::default(), Vec::new());
        let new = New { name, value: value.to_string(), labels, ttl: None, replaces, room: Room::SETUP };
        self.state.insert(&self.collection, new).await
    }

    /// The requests, `initialize` first; `None` if there is no such session.
    async fn found(&self) -> Result<Option<Vec<ClientJsonRpcMessage>>> {
        let mut kept = self.state.listed(&self.collection).await?;
        let Some(first) = kept.iter().position(|entry| &*entry.name == INITIALIZE) else { return Ok(None) };
        kept[..=first].rotate_right(1);
        let damaged = |_| Error::new(ErrorCode::Internal, "what is kept of this session is damaged");
        let parsed = || kept.iter().map(|entry| serde_json::from_str(&entry.value).map_err(damaged)).collect();
        let parsed: Result<_> = task::work_on(kept.iter().map(|entry| entry.bytes).sum(), parsed);
        parsed.map(Some)
    }

    /// Ends the session at every replica; false if it is not kept.
    ///
    /// # Errors
    /// When the state is away.
    pub(super) async fn end(&self) -> Result<bool> {
        let was_kept = self.forget().await?;
        if was_kept {
            self.state.want(&self.name()).await?;
        }
        Ok(was_kept)
    }

    /// Name by which replicas that have the session are told to end it.
    fn name(&self) -> String {
        format!("session {}", self.collection.session)
    }

    /// Forgets the session; false if it is not kept.
    ///
    /// # Errors
    /// When the state is away.
    async fn forget(&self) -> Result<bool> {
        self.remove(&self.state.listed(&self.collection).await?).await
    }

    /// Removes requests; false if there are none.
    async fn remove(&self, kept: &[Entry]) -> Result<bool> {
        let ids: Vec<u64> = kept.iter().map(|entry| entry.id).collect();
        if !ids.is_empty() {
            self.state.remove(&self.collection, &ids).await?;
        }
        Ok(!ids.is_empty())
    }
}

/// Setup requests of a session of this replica, kept for others.
pub(super) struct Keeping {
    setup: Setup,
    initialize: ClientJsonRpcMessage,
    is_kept: AtomicBool,
    since: Mutex<Instant>,
}

impl Keeping {
    /// Nothing is kept yet, unless it `is_kept`.
    pub(super) fn new(setup: Setup, initialize: ClientJsonRpcMessage, is_kept: bool) -> Self {
        Self { setup, initialize, is_kept: AtomicBool::new(is_kept), since: Mutex::new(Instant::now()) }
    }

    /// Keeps `initialize`, or renews it; false when the state is away. Then the session goes on here, and later messages
    /// try again.
    pub(super) async fn begin(&self) -> bool {
        *self.since.lock() = Instant::now();
        let kept = self.setup.keep(&self.initialize).await;
        if let Err(error) = &kept {
            tracing::warn!(%error, "a session cannot move to another replica yet");
        }
        self.is_kept.store(kept.is_ok(), Ordering::Release);
        kept.is_ok()
    }

    /// True if it is to be renewed now.
    pub(super) fn is_old(&self) -> bool {
        self.since.lock().elapsed() >= RENEWAL
    }

    /// Waits until the client ends the session at another replica.
    pub(super) async fn ended_elsewhere(&self) {
        self.setup.state.wanted(&self.setup.name()).await;
    }

    /// Forgets the session, which ended here for good.
    pub(super) async fn forget(&self) {
        if let Err(error) = self.setup.forget().await {
            tracing::warn!(%error, "a session that ended stays in the store for a while");
        }
    }

    /// Keeps a message of the session if another replica needs it.
    ///
    /// # Errors
    /// When the state is away: the message is not to be followed either.
    pub(super) async fn keep(self: &Arc<Self>, message: &ClientJsonRpcMessage) -> Result<()> {
        if !self.is_kept.load(Ordering::Acquire) && self.since.lock().elapsed() >= AGAIN {
            let keeping = Arc::clone(self);
            tokio::spawn(async move { keeping.begin().await });
        }
        self.setup.keep(message).await
    }
}

/// Sessions that begin again, each at most once at a time. The lock of one is there as long as it does.
#[derive(Default)]
pub(super) struct Moving(Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>);

impl Moving {
    /// True if a session begins again: what the map of sessions has of it is not whole yet.
    fn has(&self, id: &str) -> bool {
        self.0.lock().get(id).is_some_and(|alone| alone.strong_count() > 0)
    }

    fn of(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock();
        all.retain(|_, alone| alone.strong_count() > 0);
        let known = all.get(id).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let alone = Arc::default();
            all.insert(SessionId::clone(id), Arc::downgrade(&alone));
            alone
        })
    }
}

impl Edge {
    /// The session with this id, if there is one and it is the client's; also one that another replica served until now.
    ///
    /// # Errors
    /// The answer, when the state is away or there is no room for one more session.
    pub(super) async fn session(
        &self,
        id: Option<&str>,
        client: &Arc<HttpClient>,
        asks: Option<&RequestId>,
    ) -> std::result::Result<Option<Arc<HttpSession>>, Reply> {
        let Some(id) = id else { return Ok(None) };
        // In this order: one that begins again is among those that move before it is a session.
        if let Some(session) = self.sessions.session(id, client).filter(|_| !self.sessions.moving.has(id)) {
            return Ok(Some(session));
        }
        let Some(setup) = Setup::of(&self.gateway, client, id) else { return Ok(None) };
        let id: SessionId = id.into();
        let moving = self.sessions.moving.of(&id);
        let _alone = moving.lock().await;
        if let Some(session) = self.sessions.session(&id, client) {
            return Ok(Some(session));
        }
        let unavailable = |error: &Error| unavailable(error, asks.cloned());
        let Some(said) = setup.found().await.map_err(|error| unavailable(&error))? else { return Ok(None) };
        let config = self.gateway.config();
        self.sessions.make_room(client, &config.http).map_err(|full| no_room(full, asks.cloned()))?;
        // Also where the client gives this request up.
        let unfinished = scopeguard::guard((), |()| self.sessions.end(&id));
        match tokio::time::timeout(BEGIN, self.begin_again(&id, client, (setup, said))).await {
            Ok(Ok(())) => {
                ScopeGuard::into_inner(unfinished);
                Ok(self.sessions.session(&id, client))
            }
            failed => {
                let why = match failed {
                    Ok(Err(why)) => why,
                    _ => format!("it took over {BEGIN:?}"),
                };
                let what = format!("this session cannot go on at this replica: {why}");
                Err(unavailable(&Error::new(ErrorCode::Internal, what).hint("try again in a moment")))
            }
        }
    }

    /// Begins a session again with what its client said.
    async fn begin_again(
        &self,
        id: &SessionId,
        client: &Arc<HttpClient>,
        (setup, said): (Setup, Vec<ClientJsonRpcMessage>),
    ) -> std::result::Result<(), String> {
        let mut said = said.into_iter();
        let initialize = said.next().ok_or("nothing is known of it")?;
        let ended = client.ended.child_token();
        let keeping = Keeping::new(setup, initialize.clone(), true);
        let begun = Begun { id: SessionId::clone(id), keeping: Some(Arc::new(keeping)) };
        let own = self.own(client, Some(begun), retry(&initialize), ended.clone());
        let (_, transport) = own.create_session().await.map_err(|error| error.to_string())?;
        let server = new_server(&self.gateway, client, || client.session(id));
        let (all, ended_id) = (Arc::clone(&self.sessions), SessionId::clone(id));
        tokio::spawn(async move {
            let stop = ended.clone();
            let served = serve_server_with_ct::<_, _, _, TransportAdapterIdentity>(server, transport, stop).await;
            if let Ok(served) = served {
                let _ = served.waiting().await;
            }
            all.end_served(&ended_id, &ended);
        });
        let failed = |error: <OwnSessions as SessionManager>::Error| error.to_string();
        own.initialize_session(id, initialize).await.map_err(failed)?;
        let initialized = ClientNotification::InitializedNotification(InitializedNotification::default());
        own.accept_message(id, ClientJsonRpcMessage::notification(initialized)).await.map_err(failed)?;
        for message in said {
            let mut answer = std::pin::pin!(own.create_stream(id, message).await.map_err(failed)?);
            while answer.next().await.is_some() {}
        }
        tracing::info!(client = &*client.name, "a session goes on that another replica served");
        Ok(())
    }
}

/// Names the replica in what a session's clients send back: numbers of its requests, and ids of its events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark(u32);

/// Bits of a marked number that are the session's own; the whole stays below 2^53, which JSON clients keep.
const OWN_BITS: u32 = 32;
/// Values of a mark.
const MARKS: u32 = 1 << 20;

impl Mark {
    /// A new one; none where there are no replicas.
    pub(super) fn new(gateway: &Gateway) -> Self {
        if gateway.state().is_shared() { Self(random::number() % (MARKS - 1) + 1) } else { Self(0) }
    }

    /// The id of a request of this replica, as its client sees it.
    pub(super) fn marked(self, id: RequestId) -> RequestId {
        match id {
            RequestId::Number(number) if self.0 != 0 => RequestId::Number(i64::from(self.0) << OWN_BITS | number),
            id => id,
        }
    }

    /// The id of a request of this replica; `None` for one of another.
    pub(super) fn unmarked(self, id: &RequestId) -> Option<RequestId> {
        match id {
            RequestId::Number(number) if self.0 != 0 => {
                (number >> OWN_BITS == i64::from(self.0)).then(|| RequestId::Number(number & ((1 << OWN_BITS) - 1)))
            }
            id => Some(id.clone()),
        }
    }

    /// A message of the gateway as its client gets it.
    pub(super) fn sent(self, mut message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        match &mut message {
            JsonRpcMessage::Request(request) => request.id = self.marked(request.id.clone()),
            JsonRpcMessage::Notification(notice) => {
                if let ServerNotification::CancelledNotification(cancelled) = &mut notice.notification {
                    cancelled.params.request_id = cancelled.params.request_id.take().map(|id| self.marked(id));
                }
            }
            _ => {}
        }
        message
    }

    /// A client's message as the gateway sent its request.
    pub(super) fn received(self, mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            _ => None,
        };
        if let Some(id) = id
            && let Some(own) = self.unmarked(id)
        {
            *id = own;
        }
        message
    }

    /// Beginning of ids of events.
    pub(super) fn prefix(self) -> String {
        if self.0 == 0 { String::new() } else { format!("{:05x}.", self.0) }
    }
}

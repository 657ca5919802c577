//! Sessions over HTTP: of the older revisions one per `Mcp-Session-Id`, of 2026-07-28 one per client.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::admission::{Admission, Counter, Held};
use super::super::{ForgeServer, SessionHandler};
use super::events::Events;
use super::moved::{Keeping, Mark, Moving};
use super::streams::{Asides, Counted};
use super::who::{Grant, Who};
use crate::console::Console;
use crate::gateway::Gateway;
use base::error::Error;
use base::limits;
use base::principal::Principal;
use config::{Expose, Http};

/// The event id of rmcp's first event on a `GET` stream, before any of the session's own.
const FIRST_EVENT: &str = "0";
/// Interval of the search for unused sessions.
const LOOK: Duration = Duration::from_secs(5);
/// Time after which a session ends whose client is gone with a request in flight, and does not come back for it.
const ABANDONED: Duration = Duration::from_secs(120);

/// Sessions of a gateway.
pub(super) struct Sessions {
    gateway: Arc<Gateway>,
    /// Ends everything.
    ended: CancellationToken,
    sessions: Mutex<HashMap<SessionId, Arc<HttpSession>>>,
    /// Mark of the replica's own requests and events.
    pub(super) mark: Mark,
    /// Sessions of other replicas that begin again here.
    pub(super) moving: Moving,
    clients: Mutex<HashMap<OfProfile, Arc<HttpClient>>>,
    /// Cloned for each answer of a session until it is read: a session's transport is done with it before.
    pub(super) answers: Arc<()>,
}

/// Name of a client, and the profile that its access token gives it: a client whose tokens differ in it is two.
/// One that asks for its tools in another form is another one too.
type OfProfile = (Arc<str>, Option<String>, Option<Expose>);

/// One client: its load, and its session of 2026-07-28.
pub(super) struct HttpClient {
    pub(super) name: Arc<str>,
    /// Profile that its access token gives it.
    profile: Option<String>,
    /// Form that it asks for its tools to be shown in.
    asked: Option<Expose>,
    /// Credential that let it in.
    grant: Grant,
    /// Ends everything of it.
    pub(super) ended: CancellationToken,
    /// Bytes in flight of all its sessions, and requests of 2026-07-28.
    pub(super) admission: Admission,
    stateless: OnceLock<Arc<ForgeServer>>,
    used: Used,
}

/// A session of the older revisions.
pub(super) struct HttpSession {
    client: Arc<HttpClient>,
    /// Ends its worker and its streams.
    pub(super) ended: CancellationToken,
    pub(super) local: LocalSessionManager,
    events: Arc<Events>,
    pub(super) mark: Mark,
    /// Its setup requests for other replicas; `None` where there are none.
    pub(super) keeping: Option<Arc<Keeping>>,
    pub(super) admission: Admission,
    /// Open `GET` streams.
    streams: Counter,
    /// Log entries of the requests whose streams are open.
    pub(super) asides: Asides,
    used: Used,
}

/// End of the last [`Hold`]. As long as there is one, it has this too.
type Used = Arc<Mutex<Instant>>;

/// Keeps a session or a client from ending as unused, until dropped.
pub(super) struct Hold(Used);

impl Drop for Hold {
    fn drop(&mut self) {
        *self.0.lock() = Instant::now();
    }
}

fn used_now() -> Used {
    Arc::new(Mutex::new(Instant::now()))
}

/// Time without use; `None` while in use.
fn idle(used: &Used) -> Option<Duration> {
    (Arc::strong_count(used) == 1).then(|| used.lock().elapsed())
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
    /// Digest that identifies its session `id` at every replica.
    pub(super) fn session(&self, id: &str) -> String {
        stubgen::digest(format!("{} {id}", self.identity()))
    }

    /// Digest that identifies this client at every replica.
    pub(super) fn identity(&self) -> String {
        let asked = self.asked.map(|asked| format!("{asked:?}"));
        let of = json!([&*self.name, self.profile, asked, self.grant.identity()]);
        stubgen::digest(stubgen::canonical_json(&of))
    }

    pub(super) fn hold(&self) -> Hold {
        Hold(Arc::clone(&self.used))
    }

    /// The server of its requests of 2026-07-28, which have no session of their own.
    pub(super) fn stateless(&self, gateway: &Arc<Gateway>) -> Arc<ForgeServer> {
        Arc::clone(self.stateless.get_or_init(|| new_server(gateway, self, || self.identity())))
    }
}

impl HttpSession {
    /// A session of `client`.
    pub(super) fn new(
        client: &Arc<HttpClient>,
        ended: CancellationToken,
        local: LocalSessionManager,
        (events, mark): (Arc<Events>, Mark),
        keeping: Option<Arc<Keeping>>,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            ended,
            local,
            events,
            mark,
            keeping,
            admission: client.admission.of_session(),
            streams: Counter::new(&limits::GET_STREAMS),
            asides: Arc::default(),
            used: used_now(),
        }
    }

    /// Its transport, which counts its requests.
    pub(super) fn counted<T>(&self, inner: T) -> Counted<T> {
        Counted { inner, admission: self.admission.clone(), asides: Arc::clone(&self.asides), mark: self.mark }
    }

    pub(super) fn hold(&self) -> Hold {
        Hold(Arc::clone(&self.used))
    }

    /// Opens one more `GET` stream.
    ///
    /// # Errors
    /// `BUSY` when it has too many, or its client has left too much unread.
    pub(super) fn open_stream(&self) -> Result<Held, Error> {
        self.admission.unread.check()?;
        self.streams.hold(1)
    }

    /// Checks that one of its streams can be resumed after the event `last`. Without this check rmcp answers with an empty
    /// stream, after which the official clients ask again for as long as they run.
    ///
    /// # Errors
    /// Says why it cannot.
    pub(super) fn can_resume(&self, last: &str) -> Result<(), &'static str> {
        if self.is_new_to(last) { Ok(()) } else { self.events.check(last) }
    }

    /// True unless a message answers a request of another replica.
    pub(super) fn asked(&self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Response(response) => self.mark.unmarked(&response.id).is_some(),
            JsonRpcMessage::Error(error) => error.id.as_ref().is_none_or(|id| self.mark.unmarked(id).is_some()),
            _ => true,
        }
    }

    /// True if a stream after the event `last` is a new one: nothing of this session's own was before it.
    pub(super) fn is_new_to(&self, last: &str) -> bool {
        last == FIRST_EVENT || self.events.is_elsewhere(last)
    }

    /// True if it is unused for `limit`, or its client left a request in flight long ago.
    fn is_idle(&self, limit: Duration) -> bool {
        let limit = if self.admission.count() == 0 { limit } else { ABANDONED };
        idle(&self.used).is_some_and(|idle| idle >= limit)
    }
}

/// A server with a session for a client, which is the same one, by the digest `session`, at every replica.
pub(super) fn new_server(
    gateway: &Arc<Gateway>,
    client: &HttpClient,
    session: impl FnOnce() -> String,
) -> Arc<ForgeServer> {
    let mut principal = Principal::of(&client.name);
    principal.profile = client.profile.as_deref().map(Into::into);
    if gateway.state().is_shared() {
        principal.session = session().into();
    }
    let session = gateway.open_session(principal);
    let handler = SessionHandler { session, gateway: Arc::clone(gateway), asked: client.asked };
    Arc::new(ForgeServer::new(handler, &client.admission))
}

impl Sessions {
    /// No sessions yet. `ended` ends all of them.
    pub(super) fn new(gateway: Arc<Gateway>, ended: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            mark: Mark::new(&gateway),
            gateway,
            ended,
            sessions: Mutex::default(),
            moving: Moving::default(),
            clients: Mutex::default(),
            answers: Arc::default(),
        })
    }

    /// The client that asks. With another token of `[clients]`, or another issuer, it is another client; with another
    /// access token it is the same.
    pub(super) fn client(&self, who: &Who, asked: Option<Expose>) -> Arc<HttpClient> {
        let name: Arc<str> = who.client.as_str().into();
        let key = (Arc::clone(&name), who.profile.clone(), asked);
        let mut clients = self.clients.lock();
        if let Some(client) =
            clients.get(&key).filter(|client| client.grant.is(&who.grant) && !client.ended.is_cancelled())
        {
            return Arc::clone(client);
        }
        // In each form and profile it is one client, with one load.
        let admission = clients.values().find(|client| client.name == name).map(|client| client.admission.of_session());
        if let Some(before) = clients.remove(&key) {
            before.ended.cancel();
        }
        let client = HttpClient {
            name,
            profile: who.profile.clone(),
            asked,
            grant: who.grant.clone(),
            ended: self.ended.child_token(),
            admission: admission.unwrap_or_default(),
            stateless: OnceLock::new(),
            used: used_now(),
        };
        Arc::clone(clients.entry(key).or_insert(Arc::new(client)))
    }

    /// The session with this id, if it is the client's: an id is no right.
    pub(super) fn session(&self, id: &str, client: &HttpClient) -> Option<Arc<HttpSession>> {
        self.sessions.lock().get(id).filter(|session| std::ptr::eq(&*session.client, client)).cloned()
    }

    /// Requests in flight that will be answered, and answers that are not read.
    pub(super) fn requests(&self) -> usize {
        let sessions: usize = self.sessions.lock().values().map(|session| session.admission.unanswered()).sum();
        let clients: usize = self.clients.lock().values().map(|client| client.admission.unanswered()).sum();
        (sessions + clients).max(Arc::strong_count(&self.answers) - 1)
    }

    /// Makes sure that a client may have one more session. Where it has as many as it may, its longest unused one ends:
    /// clients that crash never end theirs.
    pub(super) fn make_room(&self, client: &HttpClient, settings: &Http) -> Result<(), Full> {
        let unused = {
            let sessions = self.sessions.lock();
            let Err(full) = has_place(&sessions, client, settings) else { return Ok(()) };
            let own = sessions.iter().filter(|(_, session)| session.client.name == client.name);
            let unused = own.filter(|(_, session)| session.is_idle(Duration::ZERO));
            let oldest = unused.max_by_key(|(_, session)| idle(&session.used));
            oldest.map(|(id, _)| SessionId::clone(id)).ok_or(full)?
        };
        let keeping = self.sessions.lock().get(&unused).and_then(|session| session.keeping.clone());
        self.end(&unused);
        if let Some(keeping) = keeping {
            // It would fill the store otherwise.
            tokio::spawn(async move { keeping.forget().await });
        }
        Ok(())
    }

    /// Setup requests of sessions that are to be renewed.
    fn old(&self) -> Vec<Arc<Keeping>> {
        let sessions = self.sessions.lock();
        sessions.values().filter_map(|session| session.keeping.clone()).filter(|keeping| keeping.is_old()).collect()
    }

    /// Checks that a client may have one more session.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn has_place(&self, client: &HttpClient, settings: &Http) -> Result<(), Full> {
        has_place(&self.sessions.lock(), client, settings)
    }

    /// Adds a session, unless others that came at the same time have the last places.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn insert(&self, id: &SessionId, session: Arc<HttpSession>) -> Result<(), Full> {
        let config = self.gateway.config();
        let mut sessions = self.sessions.lock();
        has_place(&sessions, &session.client, &config.http)?;
        sessions.insert(SessionId::clone(id), session);
        Ok(())
    }

    /// Ends a session: its worker and its streams are dropped, whatever they wait for.
    pub(super) fn end(&self, id: &SessionId) {
        let session = self.sessions.lock().remove(id);
        if let Some(session) = session {
            session.ended.cancel();
        }
    }

    /// Ends a session that is no longer served, but none that has begun under its id since it was ended.
    pub(super) fn end_served(&self, id: &SessionId, ended: &CancellationToken) {
        let is_ended = self.sessions.lock().get(id).map(|session| session.ended.is_cancelled());
        if is_ended == Some(ended.is_cancelled()) {
            self.end(id);
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
            let is_idle = client.admission.count() == 0 && idle(&client.used).is_some_and(|idle| idle >= settings.idle);
            // Its sessions hold it too.
            !is_client(client) || Arc::strong_count(client) == 1 && is_idle
        };
        let over = self.clients.lock().extract_if(|_, client| is_over(client)).collect::<Vec<_>>();
        over.iter().for_each(|(_, client)| client.ended.cancel());
    }
}

/// Checks that a client may have one more session.
fn has_place(
    sessions: &HashMap<SessionId, Arc<HttpSession>>,
    client: &HttpClient,
    settings: &Http,
) -> Result<(), Full> {
    let own = sessions.values().filter(|session| session.client.name == client.name).count();
    match () {
        () if own >= settings.max_client_sessions => Err(Full::Client(settings.max_client_sessions)),
        () if sessions.len() >= settings.max_sessions => Err(Full::Gateway(settings.max_sessions)),
        () => Ok(()),
    }
}

/// Ends unused sessions for as long as the sessions live, and those of the console that are over.
pub(super) async fn look_after(sessions: Weak<Sessions>, console: Weak<Console>) {
    let Some(mut reloads) = sessions.upgrade().map(|sessions| sessions.gateway.reloads()) else { return };
    loop {
        // Who is gone from the configuration ends at once.
        let _ = tokio::time::timeout(LOOK, reloads.changed()).await;
        let Some(sessions) = sessions.upgrade() else { return };
        console.upgrade().inspect(|console| console.end_over());
        let config = sessions.gateway.config();
        let is_client = |client: &HttpClient| client.grant.holds(&config, &client.name);
        sessions.end_unused(&config.http, is_client);
        for keeping in sessions.old() {
            if !keeping.begin().await {
                break;
            }
        }
    }
}

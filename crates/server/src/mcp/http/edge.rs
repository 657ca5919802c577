//! One request over HTTP: who asks, may they, and is it of a bearable size? What passes goes to rmcp's service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName};
use hyper::{Method, Request, StatusCode};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::super::ForgeServer;
use super::super::admission::Held;
use super::super::caller::Until;
use super::super::message::{self, Read, request_id};
use super::console;
use super::incoming::{InFlight, RETRY, initialized_revision, is_modern, parsed, received, retry};
use super::logins;
use super::moved::{Keeping, Setup};
use super::oauth::{self, Issuers};
use super::own_sessions::OwnSessions;
use super::refusals::{no_room, not_admitted, not_asked_here, unavailable};
use super::reply::{self, Reply, ReplyBody};
use super::sessions::{HttpClient, HttpSession, Sessions, new_server};
use super::who;
use crate::console::Console;
use crate::gateway::Gateway;
use base::error::{Error, ErrorCode};
use base::limits;
use base::listener::{Answers, Connection};
use base::panics;
use base::random;
use base::task;
use catalog::manifest::Phase;
use config::{Config, Expose, Server};
use upstream::auth::Person;

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The endpoint.
pub(super) struct Edge {
    pub(super) gateway: Arc<Gateway>,
    pub(super) sessions: Arc<Sessions>,
    /// Settings of rmcp's service. Its checks of `Host` and `Origin` are off: they stand here, for every path.
    pub(super) settings: StreamableHttpServerConfig,
    /// The issuer of access tokens.
    pub(super) issuers: Issuers,
    /// The console, for the people of `[console]`.
    pub(super) console: Arc<Console>,
}

/// A session that begins.
#[derive(Clone)]
pub(super) struct Begun {
    pub(super) id: SessionId,
    /// Its setup requests for other replicas; `None` where there are none.
    pub(super) keeping: Option<Arc<Keeping>>,
}

impl Answers for Edge {
    type Body = ReplyBody;

    async fn answer(&self, request: Request<Incoming>, from: &Connection) -> Reply {
        let origin = request.headers().get(header::ORIGIN).cloned();
        // No other page may read what is for a person.
        let is_page = Console::has(request.uri().path()) || request.uri().path().starts_with(logins::PATH);
        let answered = self.routed(&self.gateway.config(), request, from).await.unwrap_or_else(|refused| *refused);
        match origin.filter(|_| !is_page) {
            Some(origin) => reply::readable_by(answered, origin),
            None => answered,
        }
    }
}

impl Edge {
    async fn routed(
        &self,
        config: &Config,
        mut request: Request<Incoming>,
        from: &Connection,
    ) -> Result<Reply, Box<Reply>> {
        let path = request.uri().path();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match path {
            "/healthz" if is_read => return Ok(reply::text(StatusCode::OK, "ok\n")),
            "/readyz" if is_read => return Ok(self.readiness(from)),
            // A browser asks so before it sends; names were checked.
            "/mcp" if request.method() == Method::OPTIONS => return Ok(reply::preflight()),
            "/mcp" => {}
            "/metrics" if config.http.metrics && is_read => {}
            // Before a client has a token it asks whose tokens are taken.
            _ if !config.console.is_empty() && Console::has(path) => {
                who::encrypted(config, from)?;
                return Ok(console::answered(&self.console, request, from).await);
            }
            _ if path.starts_with(logins::PATH) => {
                who::encrypted(config, from)?;
                return Ok(logins::answered(&self.gateway.browsers().pages, &request));
            }
            _ if path.starts_with(oauth::WELL_KNOWN) => return Ok(document(config, request.method(), path)),
            _ => return Ok(reply::text(StatusCode::NOT_FOUND, "MCP is at /mcp\n")),
        }
        let (headers, query) = (request.headers(), request.uri().query());
        let who = who::client(config, &self.issuers, headers, query, from).await?;
        let exchanges = || config.servers.values().any(Server::exchanges);
        if let Some(until) = who.until.filter(|_| exchanges())
            && let Some(token) = who::single_token(headers, query)?
        {
            let (client, credentials) = (who.client.as_str().into(), config.credentials_of(&who.client));
            let person = Person { client: &client, credentials: credentials.as_ref() };
            self.gateway.browsers().tokens.note(person, token, until);
        }
        let most = most_connections(config, from.connections(|name| name != who.client));
        if !from.enter(&who.client, most) {
            let what = format!("this client has {most} connections");
            let fix = "use fewer connections, or raise `http.max_connections`";
            return Ok(reply::closing(reply::refused(StatusCode::TOO_MANY_REQUESTS, None, &what, fix)));
        }
        let asked = self.asked(&who, query)?;
        let (client, until) = (self.sessions.client(&who, asked), who.until);
        let is_metrics = path == "/metrics";
        until.map(|end| request.extensions_mut().insert(Until(end)));
        let answered = match client.admission.unread.check() {
            // An end frees what is unread.
            Err(error) if *request.method() != Method::DELETE => return Ok(not_admitted(&error, None)),
            _ if is_metrics => self.metrics(&who),
            _ if from.is_ending() => {
                let (what, fix) = ("the gateway ends", "connect again in a moment");
                return Ok(reply::refused(StatusCode::SERVICE_UNAVAILABLE, None, what, fix));
            }
            _ => self.answered(config, request, Arc::clone(&client)).await,
        };
        Ok(reply::counted(answered, &client, until))
    }

    fn metrics(&self, who: &who::Who) -> Reply {
        if self.gateway.catalog_of(&who.principal()).is_narrowed() {
            let what = "metrics name servers that this client does not have";
            let fix = "use a client without a profile, or `metrics.listen`";
            return reply::refused(StatusCode::FORBIDDEN, None, what, fix);
        }
        reply::metrics(self.gateway.metrics_text())
    }

    /// Form in which the client asks for its tools, by `?expose=` of the address.
    fn asked(&self, who: &who::Who, query: Option<&str>) -> Result<Option<Expose>, Box<Reply>> {
        let mut asked = None;
        for (_, word) in
            url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).filter(|(key, _)| key == "expose")
        {
            let (allowed, _) = self.gateway.exposed(&who.principal());
            let fault = |what: String| {
                let fix = format!("this client may have `{}`, or leave it out", allowed.word());
                Err(Box::new(reply::refused(StatusCode::BAD_REQUEST, None, &what, &fix)))
            };
            let Some(expose) = Expose::named(&word) else {
                return fault(format!("`?expose={}` is no form: code, direct, hybrid, auto", base::text::brief(&word)));
            };
            if crate::mcp::narrowed(allowed, Some(expose)).is_err() || asked.is_some_and(|asked| asked != expose) {
                return fault(format!("`?expose={word}` is not within what the profile allows"));
            }
            asked = Some(expose);
        }
        Ok(asked)
    }

    /// Answers a request of a client.
    async fn answered(&self, config: &Config, request: Request<Incoming>, client: Arc<HttpClient>) -> Reply {
        match *request.method() {
            Method::POST => self.post(config, request, client).await.unwrap_or_else(|refused| refused),
            Method::GET => self.stream(request, client).await.unwrap_or_else(|refused| refused),
            Method::DELETE => self.end(request, &client).await,
            _ => self.pass(request.map(|_| Full::default()), &client).await,
        }
    }

    /// Ends a session, at every replica.
    async fn end(&self, request: Request<Incoming>, client: &Arc<HttpClient>) -> Reply {
        if let Some(id) = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()) {
            // First of all it must not begin again.
            let was_kept = match Setup::of(&self.gateway, client, id) {
                Some(setup) => setup.end().await,
                None => Ok(false),
            };
            let is_here = self.sessions.session(id, client).is_some();
            match was_kept {
                Err(error) => return unavailable(&error, None),
                Ok(true) if !is_here => return reply::text(StatusCode::NO_CONTENT, ""),
                Ok(false) if !is_here => return reply::text(StatusCode::NOT_FOUND, "Not Found: Session not found"),
                Ok(_) => {}
            }
        }
        let answered = self.pass(request.map(|_| Full::default()), client).await;
        // rmcp says that it will end; it has, and clients warn of the difference.
        let has_ended = answered.status() == StatusCode::ACCEPTED;
        if has_ended { reply::text(StatusCode::NO_CONTENT, "") } else { answered }
    }

    fn readiness(&self, from: &Connection) -> Reply {
        let is_usable = *self.gateway.changes().borrow() >= Phase::Usable;
        match (from.is_ending(), is_usable) {
            (true, _) => reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n"),
            (false, false) => reply::text(StatusCode::SERVICE_UNAVAILABLE, "servers are starting\n"),
            (false, true) => reply::text(StatusCode::OK, "ready\n"),
        }
    }

    /// A message of a client; `Err` has a refusal, as in the functions that it calls.
    async fn post(&self, config: &Config, request: Request<Incoming>, client: Arc<HttpClient>) -> Result<Reply, Reply> {
        let session_id =
            request.headers().get(SESSION_ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let (parts, body) = request.into_parts();
        // All sessions of a client share its bytes.
        let (body, held) = received(body, &client.admission).await?;
        let (read, body) = parsed(body, held).await?;
        let (message, held, body) = match read {
            Read::Message(message, held, false) => (message, held, body),
            Read::Message(message, held, true) => {
                let body = serde_json::to_vec(&message).map_or(body, Bytes::from);
                (message, held, body)
            }
            Read::Refused(id, error) => return Err(reply::error(StatusCode::BAD_REQUEST, id, error)),
            Read::Nothing => {
                let (what, fix) = ("not a JSON-RPC message", "send one, as JSON");
                return Err(reply::refused(StatusCode::BAD_REQUEST, None, what, fix));
            }
        };
        let begins = initialized_revision(&message).is_some();
        // Sessions are of the older revisions: rmcp looks for none, whatever the header says.
        let of = session_id.as_deref().filter(|_| !begins && !is_modern(&message, &parts.headers));
        let session = self.session(of, &client, request_id(&message).as_ref()).await?;
        let admission = session.as_ref().map_or(&client.admission, |session| &session.admission).clone();
        let (size, asked) = (body.len(), request_id(&message));
        let request = Request::from_parts(parts, Full::new(body));
        let refused = |error: &Error| not_admitted(error, asked.clone());
        match (begins, session) {
            (true, _) if session_id.is_some() => {
                let what = "this session is initialized already";
                let fix = "end it by DELETE, or send `initialize` without Mcp-Session-Id for another session";
                Err(reply::refused(StatusCode::BAD_REQUEST, asked, what, fix))
            }
            // It is kept as long as the session.
            (true, _) if size > limits::INITIALIZE.max => {
                let error = limits::INITIALIZE.exceeded(ErrorCode::LimitExceeded, size);
                Err(reply::error(StatusCode::PAYLOAD_TOO_LARGE, asked, message::refusal(&error)))
            }
            (true, _) => {
                self.sessions.make_room(&client, &config.http).map_err(|full| no_room(full, asked.clone()))?;
                let (answered, hold) = (self.begin(request, &client, *message).await, client.hold());
                // Others that came at the same time may have taken the last places.
                let is_late = answered.status() == StatusCode::INTERNAL_SERVER_ERROR;
                match self.sessions.has_place(&client, &config.http) {
                    Err(full) if is_late => Err(no_room(full, asked)),
                    _ => Ok(reply::holding(answered, hold)),
                }
            }
            (false, Some(session)) if !session.asked(&message) => Err(not_admitted(&not_asked_here(), None)),
            (false, Some(session)) => {
                let held = admission.admit(&message, held).map_err(|error| refused(&error))?;
                let in_flight = asked.map(|id| InFlight { admission, id, taken: Arc::default() });
                Ok(self.in_session(request, &client, &session, &message, (held, in_flight)).await)
            }
            (false, None) => {
                let in_flight = InFlight::new(admission, &message, held).map_err(|error| refused(&error))?;
                let hold = client.hold();
                Ok(reply::holding(self.pass(request, &client).await, (in_flight, hold)))
            }
        }
    }

    /// An admitted message of a session. It reaches the session even if the connection breaks meanwhile: it is in flight
    /// until the session's transport has sent its answer.
    async fn in_session(
        &self,
        request: Request<Full<Bytes>>,
        client: &Arc<HttpClient>,
        session: &Arc<HttpSession>,
        message: &ClientJsonRpcMessage,
        (held, in_flight): (Option<Held>, Option<InFlight>),
    ) -> Reply {
        let (hold, answer) = (session.hold(), Arc::clone(&self.sessions.answers));
        if let Some(keeping) = &session.keeping
            && let Err(error) = keeping.keep(message).await
        {
            return unavailable(&error, request_id(message));
        }
        let mut own = self.own(client, None, Some(RETRY), session.ended.child_token());
        if let Some(in_flight) = &in_flight {
            own.taken = Arc::clone(&in_flight.taken);
        }
        let service = self.service(own);
        let passing = tokio::spawn(async move {
            let answered = handled(&service, request).await;
            drop(held);
            (answered, in_flight)
        });
        match passing.await {
            // Not every request in a session is answered by it: rmcp decides.
            Ok((answered, in_flight)) => reply::holding(of_session(answered, session), (hold, in_flight, answer)),
            Err(_) => reply::defect(&panics::defect()),
        }
    }

    /// A stream of a session's notifications.
    async fn stream(&self, request: Request<Incoming>, client: Arc<HttpClient>) -> Result<Reply, Reply> {
        let id = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(session) = self.session(id, &client, None).await? else {
            return Ok(self.pass(request.map(|_| Full::default()), &client).await);
        };
        let last = request.headers().get(LAST_EVENT).map(|last| String::from_utf8_lossy(last.as_bytes()));
        if let Some(Err(why)) = last.map(|last| session.can_resume(&last)) {
            let fix = "repeat the request whose answer was not read, or open a stream without Last-Event-ID";
            let what = format!("the stream cannot be resumed: {why}");
            return Err(reply::refused(StatusCode::BAD_REQUEST, None, &what, fix));
        }
        let open = session.open_stream().map_err(|error| not_admitted(&error, None))?;
        let service = self.service(self.own(&client, None, Some(RETRY), session.ended.child_token()));
        let answered = handled(&service, request.map(|_| Full::default())).await;
        Ok(reply::holding(of_session(answered, &session), (open, session.hold())))
    }

    /// Begins a session.
    async fn begin(
        &self,
        request: Request<Full<Bytes>>,
        client: &Arc<HttpClient>,
        initialize: ClientJsonRpcMessage,
    ) -> Reply {
        let id: SessionId = random::token().into();
        let retry = retry(&initialize);
        let setup = Setup::of(&self.gateway, client, &id);
        let keeping = setup.map(|setup| Arc::new(Keeping::new(setup, initialize, false)));
        let begun = Begun { id, keeping: keeping.clone() };
        let service = self.service(self.own(client, Some(begun), retry, client.ended.child_token()));
        let answered = handled(&service, request).await;
        if let Some(keeping) = keeping.filter(|_| answered.status().is_success()) {
            keeping.begin().await;
        }
        answered
    }

    /// Has rmcp answer a request whose body was read.
    async fn pass(&self, request: Request<Full<Bytes>>, client: &Arc<HttpClient>) -> Reply {
        handled(&self.service(self.own(client, None, Some(RETRY), client.ended.child_token())), request).await
    }

    /// A client's sessions as rmcp sees them for one request. `begun` is the session that begins with it; `ended` ends that,
    /// or the request.
    pub(super) fn own(
        &self,
        client: &Arc<HttpClient>,
        begun: Option<Begun>,
        retry: Option<Duration>,
        ended: CancellationToken,
    ) -> OwnSessions {
        let (all, client) = (Arc::clone(&self.sessions), Arc::clone(client));
        OwnSessions { all, client, begun, ended, retry, taken: Arc::default() }
    }

    /// rmcp's service for one request of a client.
    fn service(&self, own: OwnSessions) -> Service {
        let (gateway, of) = (Arc::clone(&self.gateway), Arc::clone(&own.client));
        let new = own.begun.as_ref().map(|begun| SessionId::clone(&begun.id));
        let factory = move || {
            Ok(match &new {
                Some(id) => new_server(&gateway, &of, || of.session(id)),
                None => of.stateless(&gateway),
            })
        };
        let settings = self.settings.clone().with_sse_retry(own.retry).with_cancellation_token(own.ended.clone());
        StreamableHttpService::new(factory, Arc::new(own), settings)
    }
}

/// Most connections of a client: three quarters of all, and half of what other clients leave, so that none takes the
/// last. An eighth is for probes, and for clients that are not known yet.
fn most_connections(config: &Config, others: usize) -> usize {
    let all = config.http.max_connections;
    let left = (all - all / 8).saturating_sub(others);
    (if others == 0 { left * 3 / 4 } else { left / 2 }).max(usize::from(left > 0))
}

/// The metadata of the endpoint, for clients that have no token yet.
fn document(config: &Config, method: &Method, path: &str) -> Reply {
    match config.http.oauth.as_ref().filter(|settings| oauth::is_document(settings, path)) {
        Some(_) if method == Method::OPTIONS => reply::preflight(),
        Some(settings) if matches!(*method, Method::GET | Method::HEAD) => oauth::document(settings),
        _ => reply::text(StatusCode::NOT_FOUND, "MCP is at /mcp\n"),
    }
}

type Service = StreamableHttpService<Arc<ForgeServer>, OwnSessions>;

/// rmcp parses the body again: a long one on another thread than the tasks of others.
async fn handled(service: &Service, request: Request<Full<Bytes>>) -> Reply {
    let bytes = request.body().size_hint().lower();
    let mut answering = std::pin::pin!(service.handle(request));
    std::future::poll_fn(|context| {
        task::work_on(usize::try_from(bytes).unwrap_or(usize::MAX), || answering.as_mut().poll(context))
    })
    .await
}

/// An answer in a session; rmcp has no words for one that ended meanwhile.
fn of_session(answered: Reply, session: &HttpSession) -> Reply {
    match answered.status() == StatusCode::INTERNAL_SERVER_ERROR && session.ended.is_cancelled() {
        true => reply::text(StatusCode::NOT_FOUND, "Not Found: Session not found"),
        false => answered,
    }
}

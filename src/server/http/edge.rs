//! One request over HTTP: who asks, may they, and is it of a bearable size? What passes goes to rmcp's service.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::super::ForgeServer;
use super::super::admission::{Admission, HeldBytes};
use super::super::message::{self, Read};
use super::reply::{self, Reply};
use super::sessions::{Full as FullOf, HttpClient, HttpSession, OwnSessions, Sessions, new_server};
use crate::config::Config;
use crate::error::{Error, ErrorCode};
use crate::gateway::Gateway;
use crate::limits;
use crate::lines::trim;
use crate::listener::{host_name, is_own_name};
use crate::manifest::Phase;
use crate::meter;
use crate::panics;
use crate::principal::LOCAL;
use crate::random;
use crate::task;
use crate::text;

/// Time for the body of a request.
const BODY: Duration = Duration::from_secs(60);
/// Delay after which a client may reconnect a broken stream.
const RETRY: Duration = Duration::from_secs(3);
/// Most bytes of a name in an error.
const NAME: usize = 200;
/// First revision whose clients know an event without data.
const PRIMED: &str = "2025-11-25";
/// Headers by which a proxy passes on who asks.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The endpoint.
pub(super) struct Edge {
    pub(super) gateway: Arc<Gateway>,
    pub(super) sessions: Arc<Sessions>,
    /// Settings of rmcp's service. Its checks of `Host` and `Origin` are off: they stand here, for every path.
    pub(super) settings: StreamableHttpServerConfig,
    /// True once the gateway ends.
    pub(super) draining: AtomicBool,
    /// True if the connections are encrypted here.
    pub(super) is_tls: bool,
}

/// What a connection tells of its requests.
#[derive(Clone)]
pub(super) struct Connection {
    /// Address of the peer.
    pub(super) peer: IpAddr,
    /// Set by the first accepted request.
    pub(super) is_known: Arc<AtomicBool>,
}

impl Edge {
    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>, from: Connection) -> Reply {
        let config = self.gateway.config();
        let origin = request.headers().get(header::ORIGIN).cloned();
        if let Err(refused) = check_names(&config, request.headers(), request.uri().host()) {
            return refused;
        }
        let answered = self.routed(&config, request, from).await;
        match origin {
            Some(origin) => reply::readable_by(answered, origin),
            None => answered,
        }
    }

    async fn routed(&self, config: &Config, request: Request<Incoming>, from: Connection) -> Reply {
        let path = request.uri().path();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match path {
            "/healthz" if is_read => return reply::text(StatusCode::OK, "ok\n"),
            "/readyz" if is_read => return self.readiness(),
            // A browser asks so before it sends; names were checked.
            "/mcp" if request.method() == Method::OPTIONS => return reply::preflight(),
            "/mcp" => {}
            "/metrics" if config.http.metrics && is_read => {}
            _ => return reply::text(StatusCode::NOT_FOUND, "MCP is at /mcp\n"),
        }
        let client = match self.client(config, request.headers(), from.peer) {
            Ok(client) => client,
            Err(refused) => return refused,
        };
        from.is_known.store(true, Ordering::Release);
        if path == "/metrics" {
            return reply::metrics(self.gateway.metrics_text());
        }
        if self.draining.load(Ordering::Acquire) {
            let (what, fix) = ("the gateway ends", "connect again in a moment");
            return reply::refused(StatusCode::SERVICE_UNAVAILABLE, None, what, fix);
        }
        let client = self.sessions.client(&client);
        match *request.method() {
            Method::POST => self.post(config, request, client).await,
            Method::GET => self.stream(request, client).await,
            Method::DELETE => {
                let answered = self.pass(request.map(|_| Full::default()), &client, None).await;
                // rmcp says that it will end; it has, and clients warn of the difference.
                let has_ended = answered.status() == StatusCode::ACCEPTED;
                if has_ended { reply::text(StatusCode::NO_CONTENT, "") } else { answered }
            }
            _ => self.pass(request.map(|_| Full::default()), &client, None).await,
        }
    }

    fn readiness(&self) -> Reply {
        let is_usable = *self.gateway.changes().borrow() >= Phase::Usable;
        match (self.draining.load(Ordering::Acquire), is_usable) {
            (true, _) => reply::text(StatusCode::SERVICE_UNAVAILABLE, "ending\n"),
            (false, false) => reply::text(StatusCode::SERVICE_UNAVAILABLE, "servers are starting\n"),
            (false, true) => reply::text(StatusCode::OK, "ready\n"),
        }
    }

    /// The client that asks.
    fn client(&self, config: &Config, headers: &HeaderMap, peer: IpAddr) -> Result<String, Reply> {
        let is_proxy = config.http.trusted_proxies.iter().any(|net| net.contains(&peer));
        if !self.is_tls && !is_proxy && !peer.is_loopback() {
            let fix = "use https, or the address of the proxy in front";
            return Err(reply::refused(StatusCode::FORBIDDEN, None, "plain HTTP is for trusted proxies alone", fix));
        }
        if config.clients.is_empty() {
            let is_forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
            return match peer.is_loopback() && !is_forwarded {
                true => Ok(LOCAL.to_owned()),
                false => {
                    let what = "without [clients] in forge.toml only this machine is served";
                    Err(reply::refused(StatusCode::FORBIDDEN, None, what, "`forgefs clients add NAME` makes a token"))
                }
            };
        }
        let Some(token) = headers.get(header::AUTHORIZATION).map(bearer) else {
            return Err(reply::unauthorized("Bearer realm=\"forgefs\"", "a token is needed"));
        };
        // Each is compared, so that the time tells nothing of which one it is.
        let found = token.and_then(|token| {
            let matching = config.clients.iter().filter(|(_, client)| client.has(token));
            matching.map(|(name, _)| name.clone()).last()
        });
        let wrong =
            || reply::unauthorized("Bearer realm=\"forgefs\", error=\"invalid_token\"", "no client has this token");
        found.ok_or_else(wrong)
    }

    /// A message of a client.
    async fn post(&self, config: &Config, request: Request<Incoming>, client: Arc<HttpClient>) -> Reply {
        let session_id =
            request.headers().get(SESSION_ID).map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let session = session_id.as_deref().and_then(|id| self.sessions.session(id, &client));
        let admission = session.as_ref().map_or(&client.admission, |session| &session.admission).clone();
        let (parts, body) = request.into_parts();
        let (body, held) = match received(body, &admission).await {
            Ok(received) => received,
            Err(refused) => return refused,
        };
        let (read, body) = match parsed(body, held).await {
            Ok(parsed) => parsed,
            Err(refused) => return refused,
        };
        let (message, held) = match read {
            Read::Message(message, held) => (message, held),
            Read::Refused(id, error) => return reply::error(StatusCode::BAD_REQUEST, id, error),
            Read::Nothing => {
                return reply::refused(StatusCode::BAD_REQUEST, None, "not a JSON-RPC message", "send one, as JSON");
            }
        };
        let request = Request::from_parts(parts, Full::new(body));
        match (initialized_revision(&message), session) {
            (Some(_), _) if session_id.is_some() => {
                let what = "this session is initialized already";
                let fix = "end it by DELETE, or send `initialize` without Mcp-Session-Id for another session";
                reply::refused(StatusCode::BAD_REQUEST, request_id(&message), what, fix)
            }
            (Some(revision), _) => match self.sessions.make_room(&client, &config.http).await {
                Ok(()) => reply::holding(self.pass(request, &client, Some(revision)).await, client.hold()),
                Err(full) => no_room(full, request_id(&message)),
            },
            (None, Some(session)) => match admission.admit(&message, held) {
                Ok(()) => self.in_session(request, &client, &session, request_id(&message)).await,
                Err(error) => not_admitted(&error, request_id(&message)),
            },
            (None, None) => match InFlight::new(admission, &message, held) {
                Ok(in_flight) => {
                    let hold = client.hold();
                    reply::holding(self.pass(request, &client, None).await, (in_flight, hold))
                }
                Err(error) => not_admitted(&error, request_id(&message)),
            },
        }
    }

    /// An admitted message of a session. It reaches the session even if the connection breaks meanwhile: it is in flight
    /// until the session's transport has sent its answer.
    async fn in_session(
        &self,
        request: Request<Full<Bytes>>,
        client: &Arc<HttpClient>,
        session: &Arc<HttpSession>,
        id: Option<RequestId>,
    ) -> Reply {
        let (hold, admission) = (session.hold(), session.admission.clone());
        let service = self.service(client, None);
        let passing = tokio::spawn(async move {
            let answered = handled(&service, request).await;
            if let Some(id) = id.filter(|_| !answered.status().is_success()) {
                admission.end(&id);
            }
            answered
        });
        match passing.await {
            Ok(answered) => reply::holding(answered, hold),
            Err(_) => reply::defect(&panics::defect()),
        }
    }

    /// A stream of a session's notifications.
    async fn stream(&self, request: Request<Incoming>, client: Arc<HttpClient>) -> Reply {
        let id = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(session) = id.and_then(|id| self.sessions.session(id, &client)) else {
            return self.pass(request.map(|_| Full::default()), &client, None).await;
        };
        let open = match session.open_stream() {
            Ok(open) => open,
            Err(error) => return not_admitted(&error, None),
        };
        let answered = self.pass(request.map(|_| Full::default()), &client, None).await;
        reply::holding(answered, (open, session.hold()))
    }

    /// Has rmcp answer a request whose body was read. `revision` is that of a new session.
    async fn pass(&self, request: Request<Full<Bytes>>, client: &Arc<HttpClient>, revision: Option<String>) -> Reply {
        handled(&self.service(client, revision), request).await
    }

    /// rmcp's service for one request of a client. `revision` is that of a new session.
    fn service(&self, client: &Arc<HttpClient>, revision: Option<String>) -> Service {
        let is_new = revision.is_some();
        let retry = revision.is_none_or(|revision| revision.as_str() >= PRIMED).then_some(RETRY);
        let (gateway, of) = (Arc::clone(&self.gateway), Arc::clone(client));
        let factory = move || Ok(if is_new { new_server(&gateway, &of.name) } else { of.stateless(&gateway) });
        let own = OwnSessions { all: Arc::clone(&self.sessions), client: Arc::clone(client), retry };
        StreamableHttpService::new(factory, Arc::new(own), self.settings.clone().with_sse_retry(retry))
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

/// A request of 2026-07-28, in flight until its answer was read or its reader is gone. Its id is the client's own, and
/// other windows of the client use the same ones.
struct InFlight {
    admission: Admission,
    id: RequestId,
}

impl InFlight {
    fn new(admission: Admission, message: &ClientJsonRpcMessage, held: HeldBytes) -> Result<Self, Error> {
        let id = RequestId::String(random::token().into());
        admission.admit_as(&id, message, held)?;
        Ok(Self { admission, id })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.admission.end(&self.id);
    }
}

/// The body of a request, with its bytes held. What is too large is not read.
async fn received(mut body: Incoming, admission: &Admission) -> Result<(Vec<u8>, HeldBytes), Reply> {
    let mut held = admission.hold(0).map_err(|error| not_admitted(&error, None))?;
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let broken = |_| reply::refused(StatusCode::BAD_REQUEST, None, "the body broke off", "send it again");
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            let size = bytes.len() + data.len();
            if size > limits::CLIENT_MESSAGE.max {
                let error = limits::CLIENT_MESSAGE.exceeded(ErrorCode::LimitExceeded, size);
                return Err(reply::error(StatusCode::PAYLOAD_TOO_LARGE, None, message::refusal(&error)));
            }
            held.grow(size).map_err(|error| not_admitted(&error, None))?;
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY, reading).await {
        Ok(read) => read?,
        Err(_) => {
            let what = format!("the body took over {BODY:?}");
            return Err(reply::refused(StatusCode::REQUEST_TIMEOUT, None, &what, "send it at once"));
        }
    }
    Ok((bytes, held))
}

/// The message in a body, and the body. A long one is parsed elsewhere.
async fn parsed(body: Vec<u8>, held: HeldBytes) -> Result<(Read, Bytes), Reply> {
    let body = Bytes::from(body);
    if body.len() <= task::LONG {
        return Ok((message::read(trim(&body), held), body));
    }
    let shared = body.clone();
    match meter::apart(move || message::read(trim(&shared), held)).await {
        Ok(read) => Ok((read, body)),
        Err(stopped) => Err(not_admitted(&stopped.error("read a message of the client"), None)),
    }
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// The revision that an `initialize` names.
fn initialized_revision(message: &ClientJsonRpcMessage) -> Option<String> {
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(initialize) => {
                Some(initialize.params.protocol_version.as_str().to_owned())
            }
            _ => None,
        },
        _ => None,
    }
}

fn not_admitted(error: &Error, id: Option<RequestId>) -> Reply {
    let status = match error.code {
        ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    reply::error(status, id, message::refusal(error))
}

fn no_room(full: FullOf, id: Option<RequestId>) -> Reply {
    let (status, what, key) = match full {
        FullOf::Client(most) => (
            StatusCode::TOO_MANY_REQUESTS,
            format!("this client has {most} sessions in use"),
            "http.max_client_sessions",
        ),
        FullOf::Gateway(most) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the gateway has {most} sessions"), "http.max_sessions")
        }
    };
    reply::refused(status, id, &what, &format!("end sessions that are not needed by DELETE, or raise `{key}`"))
}

/// The token of `Authorization: Bearer`.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Checks the names by which a request was sent. DNS rebinding: a web page whose name resolves to this machine must not
/// reach it, so a name has to be configured; addresses and `localhost` cannot be rebound. A page of another origin must
/// be configured too.
fn check_names(config: &Config, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Reply> {
    let forbidden = |what: &str, key: &str, value: &str| {
        let what = format!("{what} `{}` is not allowed", text::head(value, NAME));
        Err(reply::refused(StatusCode::FORBIDDEN, None, &what, &format!("add it to `http.{key}` in forge.toml")))
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => String::from_utf8_lossy(host.as_bytes()),
        (None, None) => authority.unwrap_or_default().into(),
        (_, Some(_)) => return Err(reply::refused(StatusCode::BAD_REQUEST, None, "two Host headers", "send one")),
    };
    let name = host_name(&host).to_ascii_lowercase();
    if !(is_own_name(&name) || config.http.allowed_hosts.contains(&name)) {
        return forbidden("the name", "allowed_hosts", &name);
    }
    let mut origins = headers.get_all(header::ORIGIN).iter().map(|origin| String::from_utf8_lossy(origin.as_bytes()));
    // A page of this very address: its name was checked.
    let is_same = |origin: &str| origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(&host));
    let is_allowed =
        |origin: &str| is_same(origin) || config.http.allowed_origins.iter().any(|allowed| allowed.as_str() == origin);
    match origins.find(|origin| !is_allowed(origin)) {
        Some(origin) => forbidden("the origin", "allowed_origins", &origin),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_name_or_origin_is_refused() {
        let mut config = Config::empty();
        config.http.allowed_hosts = vec!["forge.example".to_owned()];
        config.http.allowed_origins = vec!["https://app.example".to_owned()];
        for (host, origin, is_allowed) in [
            ("127.0.0.1:7333", None, true),
            ("localhost", None, true),
            ("LOCALHOST:7333", None, true),
            ("[::1]:7333", None, true),
            ("10.1.2.3", None, true),
            ("forge.example:443", None, true),
            ("Forge.Example", Some("https://app.example"), true),
            ("evil.example", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("", None, false),
            ("127.0.0.1", Some("https://evil.example"), false),
            ("127.0.0.1:7333", Some("http://127.0.0.1:7333"), true),
            ("127.0.0.1", Some("http://127.0.0.1:7333"), false),
            ("127.0.0.1:7333", Some("http://127.0.0.1:6274"), false),
            ("evil.example", Some("http://evil.example"), false),
            ("127.0.0.1", Some("null"), false),
            ("127.0.0.1", Some("https://app.example.evil"), false),
            ("127.0.0.1", Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).expect("a value"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("a value"));
            }
            assert_eq!(check_names(&config, &headers, None).is_ok(), is_allowed, "{host} {origin:?}");
        }
        assert!(check_names(&config, &HeaderMap::new(), None).is_err(), "no name at all");
    }

    #[test]
    fn a_token_is_read_from_its_header() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("abc", None),
        ] {
            assert_eq!(bearer(&HeaderValue::from_static(value)), token, "{value}");
        }
    }
}

//! The rmcp client. Only this folder names rmcp's client types.

pub(super) mod authorized;
mod connection;
pub(super) mod failure;
mod handler;
mod handshake;
pub(super) mod http;
pub(super) mod http_client;
pub(super) mod http_post;
mod inbox;
mod lines;
mod listing;
mod message;
mod others;
mod pending;
pub(super) mod refusal;
pub(super) mod request;
mod results;
pub(crate) mod sent_headers;
mod sse;
mod stdio;
mod subscription;
mod tasks;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest, CompleteRequestParams, DiscoverRequest,
    DiscoverRequestParams, GetPromptRequest, GetPromptRequestParams, ListToolsRequest, PingRequest, ProtocolVersion,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, PeerRequestOptions, RoleClient, RunningService,
    ServiceError,
};
use serde_json::{Map, Value, json};

use self::authorized::Authorization;
use self::failure::{HttpError, excerpt, of_start};
use self::inbox::PassedOver;
use self::request::Round;
use self::sent_headers::SentHeaders;
use self::subscription::subscribe;
use self::tasks::TaskTools;
use super::events::{Changes, EventSender};
use super::reconnect::{Connect, Link, Rounds};
use super::stderr::Stderr;
use super::{Answer, Listing, Operation, Progress, Subject, ToolAnswer};
use crate::auth::Account;
use crate::confined::Examined;
use crate::program::Program;
use base::address::Reach;
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::task::{self, Task};
use base::text::head;
use config::secrets::{self, Resolved};
use config::{Confinement, HttpKind, Tasks, Transport};
use state::LoginVersion;

use handler::Handler;

pub use handshake::Revision;
pub use message::count_messages;

/// Most bytes of a server's words in place of an answer.
const MAX_WORDS: usize = 4000;

/// Confinement of a server's process on this machine, for `forgefs doctor`; `None` if it has none.
pub async fn examine(name: &str, server: &config::Server) -> Option<Result<Examined>> {
    let (Transport::Stdio { command, args, env, cwd }, Some(sandbox)) = (&server.transport, &server.sandbox) else {
        return None;
    };
    let env = match secrets::resolve(env).await {
        Ok(env) => env,
        Err(error) => return Some(Err(error)),
    };
    let (env, cwd, sandbox) = (env.values(), cwd.as_deref(), Some(sandbox));
    Some(Program { name, program: command, args, env, cwd, sandbox }.examine().await)
}

/// Connects to one server.
pub(super) struct Connector {
    name: String,
    transport: Transport,
    sandbox: Option<Confinement>,
    account: Option<Arc<Account>>,
    relays: config::Relays,
    patience: Duration,
    /// Calls that are tasks, and the timeout of those without progress.
    tasks: (Tasks, Duration),
    stderr: Stderr,
    revision: Revision,
    events: EventSender,
}

impl Connector {
    /// `account` is the server's login. Keeps a process's stderr, and what is no message of a stream, in `stderr`, and sends a
    /// connection's events to `events`. Handshakes offer `revision` first.
    pub(super) fn new(
        name: &str,
        server: &config::Server,
        account: Option<Arc<Account>>,
        stderr: Stderr,
        revision: Revision,
        events: EventSender,
    ) -> Self {
        let name = name.to_owned();
        let (transport, sandbox, relays) = (server.transport.clone(), server.sandbox.clone(), server.relays);
        // They count for the time to connect, and must leave some of it.
        let patience = listing::PATIENCE.min(server.connect_timeout / 2);
        let tasks = (server.tasks, server.timeout);
        Self { name, transport, sandbox, account, relays, patience, tasks, stderr, revision, events }
    }
}

#[async_trait]
impl Connect for Connector {
    fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    async fn connect(&self) -> Result<Box<dyn Link>> {
        match self.connected(&self.place().await?).await {
            Ok(client) => Ok(Box::new(Arc::new(client))),
            Err(failed) => Err(self.describe(failed).await),
        }
    }

    async fn with_last_words(&self, error: Error) -> Error {
        match self.transport {
            Transport::Stdio { .. } => self.stderr.with_last_words(error).await,
            Transport::Http { .. } | Transport::OpenApi { .. } => error,
        }
    }
}

impl Connector {
    /// Tries `server/discover`, then the handshake of the older revisions, and over HTTP the oldest transport
    /// (HTTP+SSE) if the address takes no messages.
    async fn connected(&self, place: &Place<'_>) -> Result<Client, Failed> {
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        match (self.attempt(auto, place).await, place) {
            (Err(Failed::Handshake(error)), Place::Http(HttpKind::Streamable, url, authorization))
                if takes_no_messages(&error) =>
            {
                // The first transport's error says more than the failure of the second.
                self.connect_sse(url, authorization).await.map_err(|_| Failed::Handshake(error))
            }
            // Some servers of the older revisions die of an unknown request: they get a second chance on a fresh
            // transport, with the handshake alone.
            (Err(Failed::Handshake(error)), Place::Process(..) | Place::Http(HttpKind::Streamable, ..))
                if !is_about_login(&error) =>
            {
                tracing::debug!(server = self.name, %error, "discovery failed, trying the handshake");
                self.attempt(ClientLifecycleMode::Initialize, place).await
            }
            (connected, _) => connected,
        }
    }

    /// Reads the credentials that the configuration names.
    async fn place(&self) -> Result<Place<'_>> {
        match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                Ok(Place::Process(command, args, cwd.as_deref(), Arc::new(secrets::resolve(env).await?)))
            }
            Transport::Http { kind, url, headers, .. } => {
                let headers = Arc::new(SentHeaders::read(headers, &BTreeMap::new()).await?);
                Ok(Place::Http(*kind, url, Authorization { headers, account: self.account.clone() }))
            }
            Transport::OpenApi { .. } => {
                Err(Error::new(ErrorCode::Internal, format!("{} is no server of MCP", self.name)))
            }
        }
    }

    async fn attempt(&self, lifecycle: ClientLifecycleMode, place: &Place<'_>) -> Result<Client, Failed> {
        match place {
            Place::Process(program, args, cwd, env) => {
                let (name, sandbox) = (&*self.name, self.sandbox.as_ref());
                let program = Program { name, program, args, env: env.values(), cwd: *cwd, sandbox };
                let transport = stdio::start(program, &self.stderr, &self.revision).await.map_err(Failed::Start)?;
                let ended = transport.ended();
                let service = self.handler().serve_with_lifecycle(transport, lifecycle).await?;
                Ok(Client { _env: Some(Arc::clone(env)), ..self.client(service, ended, None) })
            }
            Place::Http(HttpKind::Sse, url, authorization) => self.connect_sse(url, authorization).await,
            Place::Http(HttpKind::Streamable, url, authorization) => {
                let in_session = Arc::default();
                let (authorization, session) = (authorization.clone(), Arc::clone(&in_session));
                let transport = http::transport(url, authorization, session, self.passed_over(), &self.revision);
                let transport = transport.map_err(Failed::Start)?;
                let service = self.handler().serve_with_lifecycle(transport, lifecycle).await?;
                Ok(self.client(service, Arc::default(), Some(in_session)))
            }
        }
    }

    async fn connect_sse(&self, url: &str, authorization: &Authorization) -> Result<Client, Failed> {
        let client = http::client(url, Reach::configured()).map_err(Failed::Start)?;
        let transport = sse::connect(client, url, authorization.clone(), self.passed_over(), &self.revision).await;
        let transport = transport.map_err(Failed::Http)?;
        let ended = transport.ended();
        let service = self.handler().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await?;
        Ok(self.client(service, ended, None))
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver::new(&self.name, "stream", self.stderr.clone())
    }

    fn handler(&self) -> Handler {
        Handler::new(self.events.of_connection(), self.relays)
    }

    /// `in_session` becomes true once a Streamable HTTP server opens a session; until then each request stands alone.
    fn client(
        &self,
        service: RunningService<RoleClient, Handler>,
        ended: Arc<AtomicBool>,
        in_session: Option<Arc<AtomicBool>>,
    ) -> Client {
        let _subscription = subscribe(&self.name, service.peer(), &service.service().events);
        let (name, stderr, patience) = (self.name.clone(), self.stderr.clone(), self.patience);
        let (revision, others) = (self.revision.get(), Mutex::default());
        let tasks = TaskTools::new(self.tasks.0, self.tasks.1);
        Client {
            name,
            service,
            stderr,
            revision,
            ended,
            in_session,
            patience,
            others,
            tasks,
            _subscription,
            _env: None,
        }
    }

    async fn describe(&self, failed: Failed) -> Error {
        let error = match failed {
            Failed::Start(error) => return error,
            Failed::Http(error) => return failure::of_http(&self.name, &error),
            Failed::Handshake(error) => error,
        };
        let told =
            failure::http_of_start(&error).map(|http| (failure::wants_login(http), failure::of_http(&self.name, http)));
        let hint = match told {
            Some((true, told)) => return told,
            Some((false, told)) => told.hint,
            None => None,
        };
        let what = format!("{} did not start: {}", self.name, of_start(&error));
        let mut dead = Error::new(ErrorCode::TransportDead, what);
        dead.hint = hint;
        self.with_last_words(dead).await
    }
}

/// True if the server refuses posts at this address, as one that speaks the transport of 2024-11-05 does.
fn takes_no_messages(error: &ClientInitializeError) -> bool {
    matches!(failure::http_of_start(error).and_then(refusal::status), Some(400 | 404 | 405))
}

/// True if only a login helps: another handshake would get the same error, or one that hides it.
fn is_about_login(error: &ClientInitializeError) -> bool {
    error.is_authorization_required() || failure::http_of_start(error).is_some_and(failure::wants_login)
}

/// A server, with the credentials of one connection.
enum Place<'a> {
    /// Program, arguments, folder and environment of a process.
    Process(&'a str, &'a [String], Option<&'a Path>, Arc<Resolved>),
    /// Transport, address, headers and login.
    Http(HttpKind, &'a str, Authorization),
}

/// Reason why one attempt to connect failed.
enum Failed {
    /// The process or client could not be started.
    Start(Error),
    /// The server refused over HTTP.
    Http(HttpError),
    /// The handshake failed.
    Handshake(Box<ClientInitializeError>),
}

impl From<ClientInitializeError> for Failed {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}

/// A live connection.
pub(super) struct Client {
    name: String,
    service: RunningService<RoleClient, Handler>,
    stderr: Stderr,
    /// The revision that it accepted after it had refused a newer one.
    revision: Option<String>,
    /// The transport has ended, although not every request has seen it yet.
    ended: Arc<AtomicBool>,
    in_session: Option<Arc<AtomicBool>>,
    /// How long the lists besides the tools may take.
    patience: Duration,
    others: Mutex<others::Asked>,
    tasks: TaskTools,
    _subscription: Option<Task>,
    /// Keeps the secrets of a process redacted.
    _env: Option<Arc<Resolved>>,
}

impl Client {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn upstream(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorCode::UpstreamError, format!("{}: {what}", self.name))
    }

    pub(super) fn fault(&self, error: ServiceError) -> Error {
        match error {
            ServiceError::McpError(data) if self.is_in_session() && failure::is_about_session(&data) => {
                failure::of_lost_session(&self.name, &data.message)
            }
            error => failure::of_request(&self.name, error),
        }
    }

    /// True for a revision with a handshake, or while none is known.
    fn is_old(&self) -> bool {
        self.service.peer_info().is_none_or(|info| info.protocol_version.has_initialize())
    }

    fn is_in_session(&self) -> bool {
        self.in_session.as_ref().is_some_and(|in_session| in_session.load(Ordering::Acquire))
    }

    async fn perform(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<ServerResult> {
        let complete = match operation {
            Operation::Complete { subject, params, .. } => Some(complete_params(subject, params)?),
            _ => None,
        };
        let is_task = match operation {
            Operation::Tool { name, .. } => self.wants_task(name)?,
            _ => false,
        };
        self.request((operation, is_task), progress, rounds, |Round { responses, state }| match operation {
            // A revision without rounds.
            Operation::Tool { name, arguments, .. } if is_task => tasks::call(name, arguments),
            Operation::Tool { name, arguments, .. } => {
                let mut params = CallToolRequestParams::new(Cow::Owned(name.clone()));
                params.arguments = Some(arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Operation::Prompt { name, arguments, .. } => {
                let mut params = GetPromptRequestParams::new(name.clone());
                params.arguments = Some(arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Operation::Resource { uri, .. } => {
                let mut params = ReadResourceRequestParams::new(uri);
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Operation::Complete { .. } | Operation::List | Operation::Connect => match &complete {
                Some(params) => ClientRequest::CompleteRequest(CompleteRequest::new(params.clone())),
                None => ClientRequest::ListToolsRequest(ListToolsRequest::default()),
            },
        })
        .await
    }

    async fn answer_to(
        self: &Arc<Self>,
        operation: &Operation,
        progress: &Progress,
        rounds: &dyn Rounds,
    ) -> Result<Answer> {
        if matches!(operation, Operation::List | Operation::Connect) {
            // Four lists at once have a large future, which a call would carry along.
            return Box::pin(self.list(progress)).await.map(Answer::Listing);
        }
        let answer = self.perform(operation, progress, rounds).await.map_err(|error| match progress.refusal() {
            // The server's error seldom names why its question stayed unanswered.
            Some(refusal) => error.hint(refusal),
            None => error,
        })?;
        let result = match (operation, answer) {
            (Operation::Resource { .. }, whole @ ServerResult::ReadResourceResult(_))
            | (Operation::Prompt { .. }, whole @ ServerResult::GetPromptResult(_))
            | (Operation::Complete { .. }, whole @ ServerResult::CompleteResult(_)) => {
                return Ok(Answer::Raw(strip_protocol(serde_json::to_value(&whole).unwrap_or_default())));
            }
            (_, other) => results::value_of(other),
        };
        if let Operation::Tool { .. } = operation {
            return Ok(Answer::Tool(ToolAnswer {
                refusal: progress.refusal(),
                ..results::tool(result, !self.is_old())
            }));
        }
        task::work_on(usize::MAX, || {
            // Only for an answer that cannot be read.
            let came = |result: &Value| match json::words(result) {
                Some(words) => head(words, MAX_WORDS).to_owned(),
                None => format!("its answer is not MCP: {}", excerpt(result.to_string().as_bytes())),
            };
            let read = match operation {
                Operation::Resource { uri, .. } => results::resource(result, uri),
                Operation::Prompt { .. } => results::prompt(result),
                _ => Err(result),
            };
            read.map(strip_protocol).map(Answer::Raw).map_err(|result| self.upstream(came(&result)))
        })
    }
}

#[async_trait]
impl Link for Arc<Client> {
    async fn call(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<Answer> {
        match self.answer_to(operation, progress, rounds).await {
            Ok(answer) => Ok(answer),
            // Of a server that died.
            Err(error) if error.code == ErrorCode::TransportDead && self.ended.load(Ordering::Acquire) => {
                Err(self.stderr.with_last_words(error).await)
            }
            Err(error) => Err(error),
        }
    }

    fn is_closed(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.service.is_closed() || self.service.is_transport_closed()
    }

    fn is_stateless(&self) -> bool {
        self.in_session.is_some() && !self.is_in_session()
    }

    fn changes(&self) -> Changes {
        self.service.service().events.changes()
    }

    async fn listed(&self) {
        self.others_listed().await;
    }

    /// Pings the server: any answer will do, even a refusal.
    async fn answers(&self) -> bool {
        let request = match self.is_old() {
            true => ClientRequest::PingRequest(PingRequest::default()),
            false => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {})),
        };
        let Ok(sent) = self.service.send_request_with_option(request, PeerRequestOptions::no_options()).await else {
            return false;
        };
        matches!(sent.await_response().await, Ok(_) | Err(ServiceError::McpError(_)))
    }
}

fn complete_params(subject: &Subject, params: &Map<String, Value>) -> Result<CompleteRequestParams> {
    let reference = match subject {
        Subject::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
        Subject::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
    };
    let mut params = params.clone();
    params.insert("ref".to_owned(), reference);
    serde_json::from_value(Value::Object(params))
        .map_err(|error| Error::new(ErrorCode::InvalidArgs, "the completion request is not valid").caused_by(error))
}

/// Removes fields that belong to the protocol between gateway and server, not to the script.
fn strip_protocol(mut value: Value) -> Value {
    if let Value::Object(object) = &mut value {
        for key in ["resultType", "ttlMs", "cacheScope"] {
            object.shift_remove(key);
        }
    }
    value
}

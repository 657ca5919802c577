//! The rmcp client. Only this folder names rmcp's client types.

pub(super) mod authorized;
pub(super) mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handler;
mod handshake;
pub(super) mod http;
pub(super) mod http_client;
pub(super) mod http_post;
mod lines;
mod listing;
mod message;
mod others;
mod pending;
mod process;
pub(super) mod refusal;
pub(super) mod request;
mod results;
pub(super) mod sent_headers;
mod sse;
mod stdio;
mod stream_messages;
mod subscription;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, CompleteRequest, CompleteRequestParams,
    ContentBlock, CustomResult, DiscoverRequest, DiscoverRequestParams, GetPromptRequest, GetPromptRequestParams,
    ListToolsRequest, PingRequest, ProtocolVersion, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, PeerRequestOptions, RoleClient, RunningService,
    ServiceError,
};
use serde_json::{Map, Value, json};

use self::authorized::Authorization;
use self::failure::{HttpError, excerpt, of_start};
use self::handshake::Negotiated;
use self::request::Round;
use self::sent_headers::SentHeaders;
use self::sse::SseTransport;
use self::stream_messages::PassedOver;
use self::subscription::subscribe;
use super::events::{Changes, EventSender};
use super::reconnect::{Connect, Link, Rounds};
use super::stderr::Stderr;
use super::{Answer, Block, Listing, Operation, Progress, Subject, ToolAnswer};
use crate::auth::Account;
use crate::config::{self, Confinement, HttpKind, Transport};
use crate::confined::Examined;
use crate::error::{Effect, Error, ErrorCode, Result};
use crate::json;
use crate::secrets::{self, Resolved};
use crate::state::LoginVersion;
use crate::task::{self, Task};
use crate::text::head;

use handler::Handler;

pub use handshake::Revision;
pub use process::end_all;

/// Most bytes of a server's words in place of an answer.
const MAX_WORDS: usize = 4000;

/// Confinement of a server's process on this machine; `None` if it has none.
pub(super) async fn examine(name: &str, server: &config::Server) -> Option<Result<Examined>> {
    let (Transport::Stdio { command, args, env, cwd }, Some(sandbox)) = (&server.transport, &server.sandbox) else {
        return None;
    };
    let env = match secrets::resolve(env).await {
        Ok(env) => env,
        Err(error) => return Some(Err(error)),
    };
    let (env, cwd, sandbox) = (env.values(), cwd.as_deref(), Some(sandbox));
    Some(stdio::Program { name, program: command, args, env, cwd, sandbox }.examine().await)
}

/// Connects to one server.
pub(super) struct Connector {
    name: String,
    transport: Transport,
    sandbox: Option<Confinement>,
    account: Option<Arc<Account>>,
    relays: config::Relays,
    patience: Duration,
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
        Self { name, transport, sandbox, account, relays, patience, stderr, revision, events }
    }
}

#[async_trait]
impl Connect for Connector {
    type Link = Arc<Client>;

    fn version(&self) -> Option<LoginVersion> {
        self.account.as_ref().and_then(|account| account.version())
    }

    async fn connect(&self) -> Result<Arc<Client>> {
        self.connected().await.map(Arc::new)
    }
}

impl Connector {
    /// Tries `server/discover`, then the handshake of the older revisions, and over HTTP the oldest transport
    /// (HTTP+SSE) if the address takes no messages. The error includes the end of a process's stderr.
    async fn connected(&self) -> Result<Client> {
        let secrets = self.secrets().await?;
        if let (Transport::Http { kind: HttpKind::Sse, url, .. }, Secrets::Http(authorization)) =
            (&self.transport, &secrets)
        {
            return self.connect_sse(url, authorization).await.map_err(|failed| self.describe(failed));
        }
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        match self.attempt(auto, &secrets).await {
            Ok(client) => Ok(client),
            Err(Failed::Handshake(error)) if takes_no_messages(&error) => {
                let (Transport::Http { url, .. }, Secrets::Http(authorization)) = (&self.transport, &secrets) else {
                    return Err(self.describe(Failed::Handshake(error)));
                };
                // The first transport's error says more than the failure of the second.
                self.connect_sse(url, authorization).await.map_err(|_| self.describe(Failed::Handshake(error)))
            }
            // Some servers of the older revisions die of an unknown request: they get a second chance on a fresh
            // transport, with the handshake alone.
            Err(Failed::Handshake(error) | Failed::Process(error, _)) if !is_about_login(&error) => {
                tracing::debug!(server = self.name, %error, "discovery failed, trying the handshake");
                self.attempt(ClientLifecycleMode::Initialize, &secrets).await.map_err(|failed| self.describe(failed))
            }
            Err(failed) => Err(self.describe(failed)),
        }
    }

    /// Reads the credentials that the configuration names.
    async fn secrets(&self) -> Result<Secrets> {
        Ok(match &self.transport {
            Transport::Stdio { env, .. } => Secrets::Stdio(Arc::new(secrets::resolve(env).await?)),
            Transport::Http { headers, .. } | Transport::OpenApi { headers, .. } => {
                let headers = Arc::new(SentHeaders::read(headers, &BTreeMap::new()).await?);
                Secrets::Http(Authorization { headers, account: self.account.clone() })
            }
        })
    }

    async fn attempt(&self, lifecycle: ClientLifecycleMode, secrets: &Secrets) -> Result<Client, Failed> {
        match (&self.transport, secrets) {
            (Transport::Stdio { command, args, cwd, .. }, Secrets::Stdio(env)) => {
                let (name, cwd, sandbox) = (&*self.name, cwd.as_deref(), self.sandbox.as_ref());
                let program = stdio::Program { name, program: command, args, env: env.values(), cwd, sandbox };
                let transport = program.start(&self.stderr).await.map_err(Failed::Start)?;
                let ended = transport.ended();
                let transport = Negotiated::new(transport, &self.revision);
                match self.handler().serve_with_lifecycle(transport, lifecycle).await {
                    Ok(service) => Ok(Client { _env: Some(Arc::clone(env)), ..self.client(service, ended, None) }),
                    Err(error) => Err(Failed::Process(error, self.last_words().await)),
                }
            }
            (Transport::Http { kind: HttpKind::Sse, url, .. }, Secrets::Http(authorization)) => {
                self.connect_sse(url, authorization).await
            }
            (Transport::Http { kind: HttpKind::Streamable, url, .. }, Secrets::Http(authorization)) => {
                let in_session = Arc::default();
                let transport = http::transport(
                    url,
                    authorization.clone(),
                    Arc::clone(&in_session),
                    self.passed_over(),
                    &self.revision,
                );
                let transport = transport.map_err(Failed::Start)?;
                let service = self.handler().serve_with_lifecycle(transport, lifecycle).await;
                Ok(self.client(service.map_err(Failed::Handshake)?, Arc::default(), Some(in_session)))
            }
            (Transport::Stdio { .. } | Transport::Http { .. } | Transport::OpenApi { .. }, _) => {
                let what = format!("{} has the credentials of another transport", self.name);
                Err(Failed::Start(Error::new(ErrorCode::Internal, what)))
            }
        }
    }

    async fn connect_sse(&self, url: &str, authorization: &Authorization) -> Result<Client, Failed> {
        let transport = SseTransport::connect(url, authorization.clone(), self.passed_over()).await;
        let transport = transport.map_err(Failed::Start)?.map_err(Failed::Http)?;
        let ended = transport.ended();
        let transport = Negotiated::new(transport, &self.revision);
        let service = self.handler().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
        Ok(self.client(service.map_err(Failed::Handshake)?, ended, None))
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { name: self.name.clone(), stderr: self.stderr.clone() }
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
        Client { name, service, stderr, revision, ended, in_session, patience, others, _subscription, _env: None }
    }

    async fn last_words(&self) -> String {
        self.stderr.ended().await;
        self.stderr.last_lines(3)
    }

    fn describe(&self, failed: Failed) -> Error {
        let error = match failed {
            Failed::Start(error) => return error,
            Failed::Http(error) => return failure::of_http(&self.name, &error),
            Failed::Handshake(error) => match failure::http_of_start(&error) {
                Some(http) if failure::wants_login(http) => return failure::of_http(&self.name, http),
                _ => error,
            },
            Failed::Process(error, stderr) => {
                let dead =
                    Error::new(ErrorCode::TransportDead, format!("{} did not start: {}", self.name, of_start(&error)));
                return if stderr.is_empty() { dead } else { dead.hint(format!("its stderr ended with: {stderr}")) };
            }
        };
        let dead = Error::new(ErrorCode::TransportDead, format!("{} did not start: {}", self.name, of_start(&error)));
        match failure::http_of_start(&error).and_then(|http| failure::of_http(&self.name, http).hint) {
            Some(hint) => dead.hint(hint),
            None => dead,
        }
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

/// Credentials of one connection.
enum Secrets {
    /// The environment of a process.
    Stdio(Arc<Resolved>),
    /// Headers and login.
    Http(Authorization),
}

/// Reason why one attempt to connect failed.
enum Failed {
    /// The process or client could not be started.
    Start(Error),
    /// The server refused over HTTP.
    Http(HttpError),
    /// The handshake failed.
    Handshake(ClientInitializeError),
    /// The handshake with a process failed; with the end of its stderr.
    Process(ClientInitializeError, String),
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

    fn is_in_session(&self) -> bool {
        self.in_session.as_ref().is_some_and(|in_session| in_session.load(Ordering::Acquire))
    }

    /// Adds the last lines of stderr of a server that died.
    async fn with_last_words(&self, mut error: Error) -> Error {
        if error.code == ErrorCode::TransportDead && self.ended.load(Ordering::Acquire) {
            self.stderr.ended().await;
            let lines = self.stderr.last_lines(3);
            if !lines.is_empty() {
                error = error.hint(format!("its stderr ended with: {lines}"));
            }
        }
        error
    }

    async fn perform(&self, operation: &Operation, progress: &Progress, rounds: &dyn Rounds) -> Result<ServerResult> {
        let complete = match operation {
            Operation::Complete { subject, params, .. } => Some(complete_params(subject, params)?),
            _ => None,
        };
        self.request(progress, rounds, |Round { responses, state }| match operation {
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
}

impl Client {
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
        let refusal = progress.refusal();
        let has_null = self.service.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
        let result = match (operation, answer) {
            (Operation::Tool { .. }, ServerResult::CallToolResult(result)) => {
                return Ok(Answer::Tool(ToolAnswer { refusal, ..tool_answer(result, has_null) }));
            }
            (Operation::Resource { .. }, ServerResult::ReadResourceResult(result)) => return raw(&result),
            (Operation::Prompt { .. }, ServerResult::GetPromptResult(result)) => return raw(&result),
            (Operation::Complete { .. }, ServerResult::CompleteResult(result)) => return raw(&result),
            (_, ServerResult::CustomResult(CustomResult(result))) => result,
            (_, other) => serde_json::to_value(&other).unwrap_or_default(),
        };
        task::work_on(usize::MAX, || {
            // Only for an answer that cannot be read.
            let came = |result: &Value| match json::words(result) {
                Some(words) => head(words, MAX_WORDS).to_owned(),
                None => format!("its answer is not MCP: {}", excerpt(result.to_string().as_bytes())),
            };
            let read = match operation {
                Operation::Tool { .. } => {
                    return Ok(Answer::Tool(ToolAnswer { refusal, ..results::tool(result, has_null) }));
                }
                Operation::Resource { uri, .. } => results::resource(result, uri),
                Operation::Prompt { .. } => results::prompt(result),
                Operation::Complete { .. } | Operation::List | Operation::Connect => Err(result),
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
            Err(error) => Err(self.with_last_words(error).await),
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
        let has_ping = self.service.peer_info().is_none_or(|info| info.protocol_version.has_initialize());
        let request = match has_ping {
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
        .map_err(|error| Error::new(ErrorCode::InvalidArgs, format!("the completion request is not valid: {error}")))
}

fn raw(result: &impl serde::Serialize) -> Result<Answer> {
    let value = serde_json::to_value(result)
        .map_err(|error| Error::new(ErrorCode::UpstreamError, format!("the answer has no JSON form: {error}")))?;
    Ok(Answer::Raw(strip_protocol(value)))
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

/// An answer in the form of MCP.
fn tool_answer(result: CallToolResult, has_null: bool) -> ToolAnswer {
    let content = result.content.into_iter().map(block).collect();
    let structured = result.structured_content.filter(|value| has_null || !value.is_null());
    let answer = ToolAnswer { content, structured, ..ToolAnswer::default() };
    let failed = result.is_error.unwrap_or(false).then(|| Effect::of_tool_error(&results::said(&answer)));
    ToolAnswer { failed, ..answer }
}

fn block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => Block::Text(text.text),
        other => Block::Other(serde_json::to_value(&other).unwrap_or_else(|_| Value::Object(Map::new()))),
    }
}

//! The rmcp client: the only file, with its transports beside it, that knows rmcp's client types.

use std::borrow::Cow;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest, ContentBlock,
    GetPromptRequestParams, Implementation, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService, ServiceError,
};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value};

use super::stdio::StderrTail;
use super::{Answer, Block, Listing, Operation, ToolAnswer, Upstream, http, stdio};
use crate::config::{self, Transport};
use crate::error::{Error, ErrorCode, Result};

/// Pages of a tool list that are read before the server is taken for one that never ends it.
const MAX_PAGES: usize = 1000;

/// Makes live clients of one server.
pub(super) struct Connector {
    name: String,
    transport: Transport,
}

impl Connector {
    pub(super) fn new(name: &str, server: &config::Server) -> Self {
        Self { name: name.to_owned(), transport: server.transport.clone() }
    }

    /// Connects: `server/discover` first, the handshake of the older revisions if that finds nobody.
    ///
    /// # Errors
    /// `TRANSPORT_DEAD` with what the transport said, and for a process the end of its stderr.
    pub(super) async fn connect(&self) -> Result<Client> {
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        match self.attempt(auto).await {
            Ok(client) => Ok(client),
            // Some servers of the older revisions die of a request they do not know: they get a second chance
            // on a fresh transport with the handshake alone.
            Err(Failed::Handshake(error)) if !error.is_authorization_required() => {
                tracing::debug!(server = self.name, %error, "discovery failed, trying the handshake");
                self.attempt(ClientLifecycleMode::Initialize).await.map_err(|failed| self.describe(failed))
            }
            Err(failed) => Err(self.describe(failed)),
        }
    }

    async fn attempt(&self, lifecycle: ClientLifecycleMode) -> Result<Client, Failed> {
        match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                let (transport, stderr) =
                    stdio::spawn(&self.name, command, args, env, cwd.as_deref()).map_err(Failed::Start)?;
                match Handler.serve_with_lifecycle(transport, lifecycle).await {
                    Ok(service) => Ok(Client { name: self.name.clone(), service, stderr: Some(stderr) }),
                    Err(error) => Err(Failed::with_stderr(error, &stderr)),
                }
            }
            Transport::Http { url, headers } => {
                let transport = http::transport(url, headers).map_err(Failed::Start)?;
                let service = Handler.serve_with_lifecycle(transport, lifecycle).await;
                Ok(Client { name: self.name.clone(), service: service.map_err(Failed::Handshake)?, stderr: None })
            }
        }
    }

    fn describe(&self, failed: Failed) -> Error {
        let error = match failed {
            Failed::Start(error) => return error,
            Failed::Handshake(error) => error,
            Failed::Process(error, stderr) => {
                return Error::new(ErrorCode::TransportDead, format!("{} did not start: {}", self.name, brief(&error)))
                    .hint(format!("its stderr ended with: {stderr}"));
            }
        };
        let described = Error::new(ErrorCode::TransportDead, format!("{} did not start: {}", self.name, brief(&error)));
        if error.is_authorization_required() {
            return described.hint("the server wants a login; set an Authorization header in its `headers`");
        }
        described
    }
}

/// Why one attempt to connect failed.
enum Failed {
    /// Nothing was started.
    Start(Error),
    /// The server was there and did not agree.
    Handshake(ClientInitializeError),
    /// The same for a process that left something on stderr.
    Process(ClientInitializeError, String),
}

impl Failed {
    fn with_stderr(error: ClientInitializeError, stderr: &StderrTail) -> Self {
        match stderr.last_lines(3) {
            lines if lines.is_empty() => Self::Handshake(error),
            lines => Self::Process(error, lines),
        }
    }
}

/// The reason in one line, without rmcp's dumps of whole messages.
fn brief(error: &ClientInitializeError) -> String {
    let text = match error {
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection before the handshake".to_owned(),
        ClientInitializeError::JsonRpcError(data) => format!("it refused the handshake: {}", data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => brief(fallback),
        ClientInitializeError::TransportError { error, context } => format!("{context}: {}", chain(error)),
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}

/// An error with its sources, since the outermost seldom says what happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// What this client tells servers about itself.
struct Handler;

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("forgefs", env!("CARGO_PKG_VERSION")))
    }
}

/// A live connection.
pub(super) struct Client {
    name: String,
    service: RunningService<RoleClient, Handler>,
    stderr: Option<StderrTail>,
}

impl Client {
    /// The connection has ended, so that only a new one can serve the next call.
    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    async fn list(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        if let Some(info) = self.service.peer_info() {
            listing.protocol = info.protocol_version.to_string();
            listing.instructions.clone_from(&info.instructions);
            if info.capabilities.tools.is_none() {
                return Ok(listing);
            }
        }
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let (tools, next) = self.list_page(cursor.clone()).await?;
            listing.tools.extend(tools);
            if next.is_none() || next == cursor {
                return Ok(listing);
            }
            cursor = next;
        }
        Err(self.upstream(format!("its tool list has more than {MAX_PAGES} pages")))
    }

    /// One page as raw JSON: rmcp's own type refuses a whole list for one odd tool, so what it cannot read
    /// arrives as a custom result and is taken as it is.
    async fn list_page(&self, cursor: Option<String>) -> Result<(Vec<Value>, Option<String>)> {
        let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        let result = self.service.send_request(ClientRequest::ListToolsRequest(request)).await;
        match result.map_err(|error| self.service_error(error))? {
            ServerResult::ListToolsResult(page) => {
                let tools = page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect();
                Ok((tools, page.next_cursor))
            }
            ServerResult::CustomResult(custom) => match custom.0.get("tools") {
                Some(Value::Array(tools)) => {
                    let next = custom.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
                    Ok((tools.clone(), next))
                }
                _ => Err(self.upstream("it answered `tools/list` without a list of tools")),
            },
            _ => Err(self.upstream("it answered `tools/list` with something else")),
        }
    }

    fn upstream(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorCode::UpstreamError, format!("{}: {what}", self.name))
    }

    fn service_error(&self, error: ServiceError) -> Error {
        let name = &self.name;
        match error {
            ServiceError::McpError(data) => mcp_error(name, data),
            ServiceError::TransportClosed => {
                let dead =
                    Error::new(ErrorCode::TransportDead, format!("the connection to {name} ended during the call"));
                match self.stderr.as_ref().map(|tail| tail.last_lines(3)) {
                    Some(lines) if !lines.is_empty() => dead.hint(format!("its stderr ended with: {lines}")),
                    _ => dead,
                }
            }
            ServiceError::TransportSend(error) => {
                Error::new(ErrorCode::TransportDead, format!("could not send to {name}: {}", chain(&error)))
            }
            ServiceError::Timeout { timeout } => {
                Error::new(ErrorCode::Timeout, format!("{name} did not answer within {timeout:?}"))
            }
            ServiceError::Cancelled { .. } => {
                Error::new(ErrorCode::Cancelled, format!("the call to {name} was cancelled"))
            }
            other => self.upstream(other),
        }
    }
}

/// A JSON-RPC error of the server. `-32602` on a call is what servers send for bad arguments and unknown tools.
fn mcp_error(name: &str, data: ErrorData) -> Error {
    let error = Error::new(ErrorCode::UpstreamError, format!("{name}: {} (JSON-RPC {})", data.message, data.code.0));
    match data.data {
        Some(value) => error.data(value),
        None => error,
    }
}

#[async_trait]
impl Upstream for Client {
    async fn call(&self, operation: &Operation) -> Result<Answer> {
        let failed = |error| self.service_error(error);
        match operation {
            Operation::List => self.list().await.map(Answer::Listing),
            Operation::Tool { name, arguments } => {
                let params = CallToolRequestParams::new(Cow::Owned(name.clone())).with_arguments(arguments.clone());
                let result = self.service.call_tool(params).await.map_err(failed)?;
                Ok(Answer::Tool(tool_answer(result)))
            }
            Operation::Resource { uri } => {
                let result = self.service.read_resource(ReadResourceRequestParams::new(uri)).await.map_err(failed)?;
                raw(&result)
            }
            Operation::Prompt { name, arguments } => {
                let params = GetPromptRequestParams::new(name.clone()).with_arguments(arguments.clone());
                let result = self.service.get_prompt(params).await.map_err(failed)?;
                raw(&result)
            }
        }
    }
}

fn raw(result: &impl serde::Serialize) -> Result<Answer> {
    let value = serde_json::to_value(result)
        .map_err(|error| Error::new(ErrorCode::UpstreamError, format!("the answer has no JSON form: {error}")))?;
    Ok(Answer::Raw(strip_protocol(value)))
}

/// Leaves out what belongs to the protocol between gateway and server, not to the script.
fn strip_protocol(mut value: Value) -> Value {
    if let Value::Object(object) = &mut value {
        for key in ["resultType", "ttlMs", "cacheScope"] {
            object.shift_remove(key);
        }
    }
    value
}

fn tool_answer(result: CallToolResult) -> ToolAnswer {
    ToolAnswer {
        content: result.content.into_iter().map(block).collect(),
        structured: result.structured_content,
        is_error: result.is_error.unwrap_or(false),
    }
}

fn block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => Block::Text(text.text),
        ContentBlock::Image(image) => Block::Binary { kind: "image", mime_type: image.mime_type, data: image.data },
        ContentBlock::Audio(audio) => Block::Binary { kind: "audio", mime_type: audio.mime_type, data: audio.data },
        other => Block::Other(serde_json::to_value(&other).unwrap_or_else(|_| Value::Object(Map::new()))),
    }
}

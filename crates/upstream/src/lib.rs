//! Connections to MCP servers.
//!
//! One trait with one method; an operation is an enum, so that every wrapper is written once for tools,
//! resources and prompts alike. `build` composes the stack in one visible place.
//!
//! `mcp` is the client of MCP (`stdio`, `http`, `sse`), `openapi` that of APIs without MCP: both make connections (`link`), whose
//! tools `overridden` changes. `auth` logs in, `program` starts processes, `confined` with a sandbox. `hook` asks programs and
//! services that decide about calls.

pub mod auth;
mod breaker;
mod caller;
pub mod confined;
mod events;
pub mod hook;
mod invite;
mod link;
mod mcp;
pub mod openapi;
mod overridden;
mod process;
mod program;
mod progress;
mod reading;
mod reconnect;
mod stderr;
mod timeout;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auth::{Account, Invitations};
use base::error::{Effect, Error, ErrorCode, Result};
pub use base::memory::Listed;

pub use breaker::CallHealth;
pub use caller::{APPS, Ask, Caller, Level, LogEntry, PAGE_TYPE, Question, Speaker, Step, TraceContext};
pub use events::{Event, EventReceiver, EventSender, events};
pub use mcp::{Offer, Revision, count_messages, examine};
pub use process::end_all;
pub use progress::{Progress, Report, ReservedMemory, TaskNote};
pub use reading::{offer_bare, offer_digest};
pub use reconnect::Rotation;
pub use stderr::Stderr;

/// Beginning of the note of a listing that says why it has no tools.
pub const NO_TOOLS: &str = "no tools";

/// An MCP server, or a wrapper around one.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Performs one operation, and reports the server's progress on `progress`.
    ///
    /// # Errors
    /// `TIMEOUT`, `TRANSPORT_DEAD`, `CIRCUIT_OPEN`, `RATE_LIMIT`, `INVALID_ARGS`, `BUDGET_EXCEEDED` or
    /// `UPSTREAM_ERROR`. A tool that ran and failed is not an error here: its answer says so.
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer>;
}

/// An operation on a server.
#[derive(Debug, Clone)]
pub enum Operation {
    /// All pages of all lists, with the server's own description.
    List,
    /// Start, handshake and lists, for a call to a server that has not been listed yet.
    Connect,
    /// `tools/call`.
    Tool {
        /// Wire name.
        name: String,
        /// Full digest of the definition that the caller knows. If the server lists another one, nothing is sent.
        definition: String,
        /// Arguments by wire name.
        arguments: Map<String, Value>,
        /// The server annotated the tool as read-only or idempotent: a second call has no further effect.
        repeatable: bool,
    },
    /// `resources/read`.
    Resource {
        /// The URI.
        uri: String,
        /// Digest of the definition, if the caller knows one, as for a tool.
        definition: Option<String>,
    },
    /// `prompts/get`.
    Prompt {
        /// The prompt's name.
        name: String,
        /// Digest of the definition, if the caller knows one, as for a tool.
        definition: Option<String>,
        /// Arguments.
        arguments: Map<String, Value>,
    },
    /// `completion/complete`.
    Complete {
        /// The completed prompt or template.
        subject: Subject,
        /// Digest of the definition, if the caller knows one, as for a tool.
        definition: Option<String>,
        /// Parameters besides the reference: `argument` and `context`.
        params: Map<String, Value>,
    },
}

/// Subject of a completion.
#[derive(Debug, Clone)]
pub enum Subject {
    /// An argument of the prompt with this name.
    Prompt(String),
    /// A variable of this URI template.
    Template(String),
}

impl Operation {
    /// MCP method.
    pub fn method(&self) -> &'static str {
        match self {
            Self::List | Self::Connect => "tools/list",
            Self::Tool { .. } => "tools/call",
            Self::Resource { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
        }
    }

    /// Name of the tool or prompt, or the URI.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::List => "list".into(),
            Self::Connect => "connect".into(),
            Self::Tool { name, .. } => name.into(),
            Self::Resource { .. } => "read_resource".into(),
            Self::Prompt { name, .. } => format!("prompt {name}").into(),
            Self::Complete { .. } => "complete".into(),
        }
    }

    /// Parameters beside the name, as canonical JSON.
    pub fn arguments(&self) -> String {
        stubgen::canonical_json(&self.parameters())
    }

    /// The error of this operation, with a warning of repeating it where it may write and may be done.
    pub fn warned(&self, error: Error) -> Error {
        if self.is_repeatable() { error } else { error.of_write() }
    }

    /// Parameters beside the name.
    pub fn parameters(&self) -> Value {
        match self {
            Self::List | Self::Connect => Value::Null,
            Self::Tool { arguments, .. } | Self::Prompt { arguments, .. } => Value::Object(arguments.clone()),
            Self::Resource { uri, .. } => Value::String(uri.clone()),
            Self::Complete { params, .. } => Value::Object(params.clone()),
        }
    }

    /// True if a retry is safe when the outcome is unknown.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::List | Self::Connect | Self::Resource { .. } | Self::Prompt { .. } | Self::Complete { .. } => true,
            Self::Tool { repeatable, .. } => *repeatable,
        }
    }
}

/// A server's answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To [`Operation::List`].
    Listing(Listing),
    /// To [`Operation::Tool`].
    Tool(ToolAnswer),
    /// To every other operation: the result unchanged.
    Raw(Value),
}

impl Answer {
    /// Bytes of its texts; the structured content mostly repeats them.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Tool(answer) => {
                answer.content.iter().map(|block| if let Block::Text(text) = block { text.len() } else { 0 }).sum()
            }
            Self::Listing(_) | Self::Raw(_) => 0,
        }
    }
}

/// A server's description of itself, and its lists. Definitions are raw, in the server's order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// Negotiated protocol revision.
    pub protocol: String,
    /// The offer to begin the next handshake with, since the server refused more.
    #[serde(rename = "offer", skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offer>,
    /// The server's own instructions.
    pub instructions: Option<String>,
    /// Tools.
    pub tools: Vec<Value>,
    /// Resources.
    pub resources: Vec<Value>,
    /// Resource templates.
    pub templates: Vec<Value>,
    /// Prompts.
    pub prompts: Vec<Value>,
    /// Lists that failed, with the reason.
    pub notes: Vec<String>,
    /// Tools whose override does not fit, by the name that is shown, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub misfits: BTreeMap<String, String>,
    /// Milliseconds that the lists stay valid, if the server says so (`ttlMs` of 2026-07-28).
    pub ttl_ms: Option<u64>,
    /// True if the server sends `list_changed`.
    pub tells_changes: bool,
    /// Memory reserved for it among the lists of all servers.
    #[serde(skip)]
    pub room: Option<Arc<Listed>>,
    /// Number of the reading of this server's lists.
    #[serde(skip)]
    pub reading: u64,
    /// The lists beside the tools are late: those of before, or none.
    #[serde(skip)]
    pub is_partial: bool,
    /// Read before it was asked for: it does not prove that the server answers now.
    #[serde(skip)]
    pub was_at_hand: bool,
}

/// A tool's answer.
#[derive(Debug, Clone, Default)]
pub struct ToolAnswer {
    /// Content blocks.
    pub content: Vec<Block>,
    /// `structuredContent`, where the tool sent it.
    pub structured: Option<Value>,
    /// The tool ran and failed, with what became of the call.
    pub failed: Option<Effect>,
    /// Its `_meta`, without keys of the protocol's own.
    pub meta: Option<Value>,
    /// Advice about a failure, such as why a question of the server stayed unanswered.
    pub refusal: Option<String>,
}

/// A content block.
#[derive(Debug, Clone)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image, audio, a resource or a resource link, unchanged.
    Other(Value),
    /// A block of a kind that MCP does not have.
    Unknown(Value),
}

/// A configured server: its stack, its health and its events.
pub struct Connection {
    /// Performs operations.
    pub upstream: Arc<dyn Upstream>,
    /// Health for listings.
    pub health: Health,
    /// Events of its connections.
    pub events: EventReceiver,
    /// Sender of events, to request a new list.
    pub event_sender: EventSender,
    /// Reads its secrets anew.
    pub rotation: Rotation,
}

/// Current health of a server.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Outcome of its calls.
    pub health: Arc<CallHealth>,
    /// Stderr of a child process, or what is no message of a server over HTTP.
    pub stderr: Option<Stderr>,
    /// The offer that its next handshake begins with.
    pub revision: Revision,
}

/// Builds the stack of one server, outside in: invitation to log in, circuit breaker, timeout, reconnection. Reconnection
/// replaces a dead connection before the next call, changes tools by their overrides, and sends a call only if the connection
/// lists the definition that the caller knows. `account` is its login. `refresh` bounds how long a list stays valid for servers without
/// sessions.
pub fn build(
    name: &str,
    server: &config::Server,
    account: Option<Arc<Account>>,
    refresh: Option<Duration>,
) -> Connection {
    let ((event_sender, events), stderr, revision) = (events(), Stderr::default(), Revision::default());
    let mut health = Health { revision: revision.clone(), ..Health::default() };
    let connector: Box<dyn link::Connect> = match openapi::Connector::new(name, server, account.clone()) {
        Some(connector) => Box::new(connector),
        None => {
            health.stderr = Some(stderr.clone());
            let (name, server, events) = (name.to_owned(), server.clone(), event_sender.clone());
            Box::new(mcp::Connector { name, server, account: account.clone(), stderr, revision, events })
        }
    };
    let limits = timeout::Limits { call: server.timeout, most: server.max_timeout, connect: server.connect_timeout };
    let (connect, list, idle_stop) = (server.connect_timeout, server.timeout, server.idle_stop);
    let (reconnect, max_backoff) = (server.reconnect, server.max_reconnect_backoff);
    let settings = reconnect::ConnectionSettings { connect, list, refresh, idle_stop, reconnect, max_backoff };
    let client = reconnect::Reconnect::new(connector, &server.overrides, settings, event_sender.clone());
    let rotation = client.rotation();
    let timeout = timeout::Timeout::new(name, client, limits);
    let breaker = breaker::Breaker::new(name, timeout, server.breaker, Arc::clone(&health.health));
    let upstream: Arc<dyn Upstream> = match account.and_then(Invitations::new) {
        Some(logins) => Arc::new(invite::Invite { inner: breaker, logins }),
        None => Arc::new(breaker),
    };
    Connection { upstream, health, events, event_sender, rotation }
}

/// A server known only from a file: its list never changes and calls fail.
pub struct Offline {
    /// The file that described it.
    pub file: String,
}

#[async_trait]
impl Upstream for Offline {
    async fn call(&self, _: &Operation, _: &Progress) -> Result<Answer> {
        Err(Error::new(
            ErrorCode::TransportDead,
            format!("this server is known only from {}, not connected", self.file),
        )
        .hint("configure the server in forge.toml to call it"))
    }
}

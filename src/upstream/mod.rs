//! Connections to MCP servers.
//!
//! One trait with one method; an operation is an enum, so that every wrapper is written once for tools,
//! resources and prompts alike. [`build`] composes the stack in one visible place.

mod breaker;
mod caller;
mod events;
mod invite;
mod mcp;
mod progress;
mod reading;
mod reconnect;
mod stderr;
mod timeout;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auth::{Account, Invitations};
use crate::config;
use crate::error::{Error, ErrorCode, Result};
pub use crate::memory::Listed;

pub use breaker::CallHealth;
pub use caller::{Ask, Caller, Level, LogEntry, Question, Speaker, Step, TraceContext};
pub use events::{Event, EventReceiver, EventSender, events};
pub use mcp::end_all;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use mcp::fuzzing;
pub use progress::{Progress, Report, ReservedMemory};
pub use reading::offer_digest;
pub use stderr::Stderr;

/// An MCP server, or a wrapper around one.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Performs one operation, and reports on `progress` what the server says meanwhile.
    ///
    /// # Errors
    /// `TIMEOUT`, `TRANSPORT_DEAD`, `CIRCUIT_OPEN`, `RATE_LIMIT`, `INVALID_ARGS`, `BUDGET_EXCEEDED` or
    /// `UPSTREAM_ERROR`. A tool that ran and failed is not an error here: its answer says so.
    async fn call(&self, operation: &Operation, progress: &Progress) -> Result<Answer>;
}

/// What can be asked of a server.
#[derive(Debug, Clone)]
pub enum Operation {
    /// All pages of all its lists, with what the server says about itself.
    List,
    /// Start, handshake and lists, for a call to a server that has not been listed yet.
    Connect,
    /// `tools/call`.
    Tool {
        /// Wire name.
        name: String,
        /// The whole digest of its definition, as the caller knows it. Where the server lists another one, nothing is
        /// sent.
        definition: String,
        /// Arguments by wire name.
        arguments: Map<String, Value>,
        /// Calling it twice does what calling it once does: the server annotated it as read-only or idempotent.
        repeatable: bool,
    },
    /// `resources/read`.
    Resource {
        /// The URI.
        uri: String,
        /// The digest of its definition, where the caller knows one: as for a tool.
        definition: Option<String>,
    },
    /// `prompts/get`.
    Prompt {
        /// The prompt's name.
        name: String,
        /// The digest of its definition, where the caller knows one: as for a tool.
        definition: Option<String>,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// `completion/complete`.
    Complete {
        /// What is being filled in.
        subject: Subject,
        /// The digest of its definition, where the caller knows one: as for a tool.
        definition: Option<String>,
        /// The parameters besides the reference: `argument` and `context`.
        params: Map<String, Value>,
    },
}

/// What a completion is for.
#[derive(Debug, Clone)]
pub enum Subject {
    /// The arguments of the prompt with this name.
    Prompt(String),
    /// The variables of this URI template.
    Template(String),
}

impl Operation {
    /// The method that asks for it.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::List | Self::Connect => "tools/list",
            Self::Tool { .. } => "tools/call",
            Self::Resource { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
        }
    }

    /// A tool's name, or what else is asked for.
    #[must_use]
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

    /// What it says beside the name, as canonical JSON.
    #[must_use]
    pub fn arguments(&self) -> String {
        stubgen::canonical_json(&match self {
            Self::List | Self::Connect => Value::Null,
            Self::Tool { arguments, .. } | Self::Prompt { arguments, .. } => Value::Object(arguments.clone()),
            Self::Resource { uri, .. } => Value::String(uri.clone()),
            Self::Complete { params, .. } => Value::Object(params.clone()),
        })
    }

    /// Whether it may be performed again when nobody knows whether it was performed.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::List | Self::Connect | Self::Resource { .. } | Self::Prompt { .. } | Self::Complete { .. } => true,
            Self::Tool { repeatable, .. } => *repeatable,
        }
    }
}

/// What a server answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To [`Operation::List`].
    Listing(Listing),
    /// To [`Operation::Tool`].
    Tool(ToolAnswer),
    /// To every other operation: the result as it came.
    Raw(Value),
}

impl Answer {
    /// Bytes of its texts; what they say is mostly in its other parts once more.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Tool(answer) => {
                answer.content.iter().map(|block| if let Block::Text(text) = block { text.len() } else { 0 }).sum()
            }
            Self::Listing(_) | Self::Raw(_) => 0,
        }
    }
}

/// What a server says about itself, and what it offers. Definitions are raw, in the order they came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Listing {
    /// Negotiated protocol revision.
    pub protocol: String,
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
    /// What could not be listed, and why.
    pub notes: Vec<String>,
    /// How long the lists are good, in milliseconds, where the server says so (`ttlMs` of 2026-07-28).
    pub ttl_ms: Option<u64>,
    /// Whether the server says when one of its lists changes.
    pub tells_changes: bool,
    /// Its place among the lists of all servers.
    #[serde(skip)]
    pub room: Option<Arc<Listed>>,
    /// Its number among the lists that were read of this server.
    #[serde(skip)]
    pub reading: u64,
    /// It was read before it was asked for, so that it does not show that the server answers now.
    #[serde(skip)]
    pub was_at_hand: bool,
}

/// The answer of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolAnswer {
    /// The content blocks.
    pub content: Vec<Block>,
    /// `structuredContent`, where the tool sent it.
    pub structured: Option<Value>,
    /// The tool ran and failed.
    pub is_error: bool,
    /// Why a question that the server asked meanwhile was not answered.
    pub refusal: Option<String>,
}

/// A content block.
#[derive(Debug, Clone)]
pub enum Block {
    /// Text.
    Text(String),
    /// An image, a sound, a resource or a link to one, as it came.
    Other(Value),
}

/// A configured server: the stack to call it through, and how it fares.
pub struct Connection {
    /// What performs operations.
    pub upstream: Arc<dyn Upstream>,
    /// What listings show of it.
    pub health: Health,
    /// What it tells unasked.
    pub events: EventReceiver,
    /// The other end, for who wants it listed again.
    pub event_sender: EventSender,
}

/// How a server fares right now.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// How its calls went.
    pub health: Arc<CallHealth>,
    /// What it says on stderr, if it is a process of ours.
    pub stderr: Option<Stderr>,
}

/// Builds the stack of one server, outside in: who is not logged in is invited to; a server that keeps failing is left
/// alone for a while; a call is bounded in time whatever happens below; a dead connection is replaced before the next
/// call, and a call goes out only where what it calls is listed as the caller knows it. `refresh` bounds how long a reading of
/// the list stands for a connection, where requests have none.
#[must_use]
pub fn build(name: &str, server: &config::Server, refresh: Option<Duration>) -> Connection {
    let is_process = matches!(server.transport, config::Transport::Stdio { .. });
    let (health, stderr) = (Arc::default(), Stderr::default());
    let (event_sender, events) = events();
    let limits = timeout::Limits { call: server.timeout, most: server.max_timeout, connect: server.connect_timeout };
    let connector = mcp::Connector::new(name, server, stderr.clone(), event_sender.clone());
    let (connect, list, idle_stop) = (server.connect_timeout, server.timeout, server.idle_stop);
    let settings = reconnect::ConnectionSettings { connect, list, refresh, idle_stop };
    let client = reconnect::Reconnect::new(connector, settings, event_sender.clone());
    let timeout = timeout::Timeout::new(name, client, limits);
    let breaker = breaker::Breaker::new(name, timeout, server.breaker, Arc::clone(&health));
    let health = Health { health, stderr: is_process.then_some(stderr) };
    let upstream: Arc<dyn Upstream> = match Account::of(name, server).and_then(Invitations::new) {
        Some(logins) => Arc::new(invite::Invite::new(breaker, logins)),
        None => Arc::new(breaker),
    };
    Connection { upstream, health, events, event_sender }
}

/// A server known only from a file: it lists nothing new and cannot be called.
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

//! The client behind a call, as far as a server may reach it.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use base::error::Result;
use base::principal::Principal;
use state::journal::Writer;

/// The extension of MCP Apps among capabilities.
pub const APPS: &str = "io.modelcontextprotocol/ui";
/// Media type of the pages.
pub const PAGE_TYPE: &str = "text/html;profile=mcp-app";

/// The client that a call is made for.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Principal of the call.
    fn principal(&self) -> &Principal;

    /// Client capabilities that servers may use: `elicitation`, `sampling`, `roots`, and the extension of apps.
    fn abilities(&self) -> Value;

    /// True if the client shows pages of servers (MCP Apps).
    fn shows_apps(&self) -> bool {
        self.abilities().get("extensions").is_some_and(|extensions| extensions.get(APPS).is_some())
    }

    /// Asks the client a question and waits for the answer.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when the client cannot be asked, may not be asked this, or does not answer.
    async fn ask(&self, speaker: Speaker<'_>, question: Question) -> Result<Value>;

    /// Least severe log level that the client wants; `None` for no entries.
    fn log_level(&self) -> Option<Level>;

    /// Forwards a log entry of `server`.
    fn log(&self, server: &str, entry: LogEntry);

    /// Trace context of the client's request, if it has one.
    fn trace(&self) -> Option<TraceContext> {
        None
    }

    /// Time at which what lets the client in ends; `None` if that has no end of its own.
    fn until(&self) -> Option<Instant> {
        None
    }

    /// Reports progress of the client's request.
    fn progress(&self, step: Step);

    /// True if its answers are for the suspended work of this run.
    fn goes_on_with(&self, _run: &str) -> bool {
        false
    }

    /// Waits until the client has room for another answer.
    async fn room(&self) {}

    /// Counts an answer of about `bytes` that is being made among those that the client has not read, until dropped.
    fn answering(&self, _bytes: usize) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// Notes the journal of the run that asks from now on.
    fn begun(&self, _journal: &Arc<Writer>) {}
}

/// Trace context of a request, as `_meta` carries it (SEP-414).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub parent: String,
    /// `tracestate`.
    pub state: Option<String>,
}

/// The asking party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker<'a> {
    /// The gateway; its words are shown as they are.
    Gateway,
    /// The server with this identifier; the client sees its name, and its words marked as a server's.
    Server(&'a str),
}

/// A question of a server or of the gateway to the client.
#[derive(Debug, Clone)]
pub struct Question {
    /// Kind of question.
    pub ask: Ask,
    /// Parameters of the request.
    pub params: Value,
    /// The server's own name for the question, if it has one.
    pub name: Option<String>,
    /// Digest of the calls that it is about, since its words may not have all of them.
    pub about: String,
    /// The call that its server has put off with it, before doing anything.
    pub put_off: Option<u64>,
}

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// `elicitation/create`: something that the user knows or decides.
    Elicitation,
    /// `sampling/createMessage`: a completion of the client's model.
    Sampling,
    /// `roots/list`: the folders that the client works in.
    Roots,
}

impl Ask {
    /// MCP method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// Client capability that it needs: the first part of the method.
    pub fn ability(self) -> &'static str {
        self.method().split('/').next().unwrap_or_default()
    }
}

/// Severity of a log entry, least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the levels of RFC 5424")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// A log entry of a server.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Severity.
    pub level: Level,
    /// The part of the server that wrote it.
    pub logger: Option<String>,
    /// The message: text or any JSON.
    pub data: Value,
}

/// Progress of a request.
#[derive(Debug, Clone)]
pub struct Step {
    /// Calls that have ended.
    pub done: usize,
    /// Message for the user.
    pub message: String,
}

//! The client at the other side of the gateway, as far as a server may reach it through a call.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::principal::Principal;

/// Who a call is made for.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Who it is.
    fn principal(&self) -> &Principal;

    /// What the client can be asked for, as the MCP client capabilities `elicitation`, `sampling` and `roots`.
    fn abilities(&self) -> Value;

    /// Puts a question to the client and waits for what it says.
    ///
    /// # Errors
    /// `APPROVAL_DENIED` when the client cannot be asked, may not be asked this, or does not answer.
    async fn ask(&self, speaker: Speaker<'_>, question: Question) -> Result<Value>;

    /// The least severe level of the log entries that the client wants; `None` for no entries.
    fn log_level(&self) -> Option<Level>;

    /// Passes a log entry of `server` on.
    fn log(&self, server: &str, entry: LogEntry);

    /// The trace that its request belongs to, where it is part of one.
    fn trace(&self) -> Option<TraceContext> {
        None
    }

    /// Tells the client how far its request has come.
    fn progress(&self, step: Step);
}

/// The place of a request in a trace, as `_meta` carries it (SEP-414).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub parent: String,
    /// `tracestate`.
    pub state: Option<String>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker<'a> {
    /// The gateway; its words are shown as they are.
    Gateway,
    /// The server of this identifier; it is named, and its words are shown as a server's.
    Server(&'a str),
}

/// What a server, or the gateway, asks the client.
#[derive(Debug, Clone)]
pub struct Question {
    /// The kind.
    pub ask: Ask,
    /// The parameters of the request.
    pub params: Value,
    /// What the server calls the question, where it has a name for it.
    pub name: Option<String>,
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
    /// The method.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// The client capability that it needs.
    #[must_use]
    pub fn ability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// How severe a log entry is, least severe first.
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
    /// How severe.
    pub level: Level,
    /// The part of the server that wrote it.
    pub logger: Option<String>,
    /// Text or anything else.
    pub data: Value,
}

/// How far a request has come.
#[derive(Debug, Clone)]
pub struct Step {
    /// Calls that have ended.
    pub done: usize,
    /// What happened.
    pub message: String,
}

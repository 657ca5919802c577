//! Messages inside frames.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::IntoStaticStr;

use crate::{Check, Checked, Ready};

/// A JSON document kept as text, so that it is parsed once, where its content is needed.
pub type Json = Box<RawValue>;

/// Gateway to worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// Run a script in a fresh scope. Sent only to a worker that is not running one.
    Run(Box<Run>),
    /// The answer to a call.
    Reply(Reply),
    /// Are you there? Sent only to a worker that is not running a script; it answers [`FromWorker::Pong`] with the
    /// same number.
    Ping(u64),
    /// Parse a script. Sent only to a checker, one at a time.
    Check(Box<Check>),
}

/// Worker to gateway.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// First frame of a worker's life.
    Ready(Ready),
    /// A request of the script; several may be in flight.
    Call(Call),
    /// Captured output, sent as it is written so that it survives a kill.
    Output(Output),
    /// The script ended; the worker waits for its next [`Run`].
    Done(Box<Done>),
    /// The answer to [`ToWorker::Ping`].
    Pong(u64),
    /// The answer to [`ToWorker::Check`].
    Checked(Box<Checked>),
}

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Language {
    /// JavaScript; a checker strips TypeScript to it.
    Javascript,
    /// Starlark.
    Starlark,
}

impl Language {
    /// Name in `execute` and in the configuration.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One script to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Number of this run, higher than that of the worker's last one; every frame of the run carries it.
    pub run: u64,
    /// Which engine.
    pub language: Language,
    /// JavaScript: an ES module whose default export is the async function to call. Starlark: the script as written.
    pub code: String,
    /// Namespaces of the script, in order of identifier.
    pub servers: Vec<Server>,
    /// Limits the engine enforces. The gateway enforces its own beside them.
    pub limits: Limits,
    /// Seed of everything random. With the same code, seed, start and replies in the same order, a run does the same.
    pub seed: [u8; 32],
    /// Start of the run, in milliseconds since 1970. The script's clock stands still between replies.
    pub now_ms: u64,
    /// Arguments of a function script, a JSON object: the parameter of its function, or keyword arguments of `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
}

/// A namespace of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The identifier scripts use.
    pub ident: String,
    /// The server's name in the configuration.
    pub name: String,
}

/// Limits that the engine enforces on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time of the script's own thread, in milliseconds. Time spent waiting for tools does not count.
    pub cpu_ms: u64,
    /// Engine heap in bytes, buffers included.
    pub heap_bytes: u64,
    /// Captured output in bytes; more is dropped, with one note.
    pub output_bytes: u64,
    /// Size of the final value as JSON, in bytes.
    pub result_bytes: u64,
    /// Tool calls of a run. The gateway counts too; the worker stops early so that a loop cannot flood it.
    pub calls: u32,
}

/// A request of the script.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    /// The run it belongs to.
    pub run: u64,
    /// Number of the call in its run, chosen by the worker, counting up from 1.
    pub call: u64,
    /// The request.
    pub op: Op,
}

/// A script's request to the gateway. Names are as the script wrote them: the gateway resolves both the identifier and
/// the wire name.
#[derive(Debug, Serialize, Deserialize, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Op {
    /// Call a tool. `args` is a JSON object.
    Tool {
        /// Server identifier or name.
        server: String,
        /// Tool identifier or name, with or without its category (`issues.create_issue`).
        tool: String,
        /// The arguments, a JSON object.
        args: Json,
    },
    /// Read a resource of a server.
    ReadResource {
        /// Server identifier or name.
        server: String,
        /// The resource's URI.
        uri: String,
    },
    /// Get a prompt of a server.
    Prompt {
        /// Server identifier or name.
        server: String,
        /// The prompt's name.
        name: String,
        /// The arguments, a JSON object.
        args: Json,
    },
    /// List a folder of the virtual filesystem; answers a string.
    Ls {
        /// Folder, `/` for the root.
        path: String,
        /// Levels to list, 1 for the folder alone.
        depth: Option<u32>,
    },
    /// Read files of the virtual filesystem; answers a string.
    Cat {
        /// Files or globs.
        paths: Vec<String>,
        /// Line range such as `10-40`.
        lines: Option<String>,
    },
    /// Search the stubs; answers a string.
    Search {
        /// One query per step of the task.
        queries: Vec<String>,
        /// Hits per query.
        limit: Option<u32>,
        /// Folder to search in.
        path: Option<String>,
    },
    /// The servers with their state; answers a list of objects.
    Servers,
    /// Search as data; answers a list of `{server, tool, path, signature, summary}`.
    SearchTools {
        /// The query.
        query: String,
        /// Hits.
        limit: Option<u32>,
    },
    /// The raw definition of a tool; answers an object.
    ToolInfo {
        /// Server identifier or name.
        server: String,
        /// Tool identifier or name.
        tool: String,
    },
    /// Store a value for later runs of the session.
    StashPut {
        /// The key.
        key: String,
        /// Any JSON.
        value: Json,
        /// Seconds to keep it.
        ttl_secs: Option<u64>,
    },
    /// Read a stored value; `null` when absent.
    StashGet {
        /// The key.
        key: String,
    },
    /// Delete a stored value; answers whether there was one.
    StashDelete {
        /// The key.
        key: String,
    },
    /// The keys stored, sorted.
    StashKeys,
    /// Results of earlier runs that were too large to answer with; answers a list of `{path, bytes, lines, labels}`.
    ResultsList,
    /// Read one of them; answers its value, or a string if it is not JSON.
    ResultsGet {
        /// Its path.
        path: String,
    },
    /// Wait; answers `null` after that time. It is how a timer of a script runs, so that the order of timers and other
    /// replies is that of replies alone.
    Sleep {
        /// Milliseconds.
        ms: u32,
    },
    /// Runs of the client, oldest first; answers a list of objects.
    RunsList,
    /// Read one of them; answers an object.
    RunsGet {
        /// Its id.
        run: String,
    },
    /// End one that goes on in the background; answers whether it was running.
    RunsCancel {
        /// Its id.
        run: String,
    },
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The run it belongs to.
    pub run: u64,
    /// The call it answers.
    pub call: u64,
    /// Value or error.
    pub outcome: Outcome,
    /// Time of the answer, in milliseconds since 1970: the script's clock moves there when it gets the answer.
    pub now_ms: u64,
}

/// Outcome of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Outcome {
    /// The normalised result.
    Ok(Json),
    /// The error the script sees.
    Err(CallError),
}

/// An error as scripts see it: `ForgeError` in JavaScript, the `error` struct of `try_call` in Starlark.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallError {
    /// Error code.
    pub code: ErrorCode,
    /// Message for the script's author.
    pub message: String,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggested_fix: Option<String>,
    /// Structured data of the tool's own error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub data: Option<Json>,
}

impl CallError {
    /// An error without advice, not worth a second attempt.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, suggested_fix: None, data: None }
    }
}

/// Error codes. The gateway has the table of their behaviour (retryable, fault, fix).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// No such server.
    ServerNotFound,
    /// No such tool on that server.
    ToolNotFound,
    /// The arguments do not fit the tool's schema.
    InvalidArgs,
    /// The configuration denies the tool.
    ToolDenied,
    /// The server's definition of the tool differs from the caller's.
    ToolChanged,
    /// A group policy denies the call.
    GroupPolicyDenied,
    /// The user denied the call, or could not be asked.
    ApprovalDenied,
    /// The call waits until a person approves it.
    ApprovalWaits,
    /// The rate limit was exceeded.
    RateLimit,
    /// A budget is used up.
    BudgetExceeded,
    /// The circuit breaker is open after repeated failures of the server.
    CircuitOpen,
    /// A timeout was exceeded.
    Timeout,
    /// The server requires a login by a person, or one with more scopes.
    AuthRequired,
    /// The server cannot be reached.
    TransportDead,
    /// The server answered with a protocol error.
    UpstreamError,
    /// The tool itself reported an error.
    ToolError,
    /// An earlier run may have made the call.
    MaybeDone,
    /// The run was cancelled.
    Cancelled,
    /// The script is not valid in its language.
    SyntaxError,
    /// The script itself failed.
    ScriptError,
    /// The script met a limit of the sandbox.
    LimitExceeded,
    /// All workers are busy and the queue is full.
    Busy,
    /// A bug of ForgeFS.
    Internal,
}

/// Captured output.
#[derive(Debug, Serialize, Deserialize)]
pub struct Output {
    /// The run it belongs to.
    pub run: u64,
    /// Stream.
    pub stream: Stream,
    /// The text, without a final newline.
    pub text: String,
}

/// The kinds of captured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// `print`, `console.log`, `info`, `debug`.
    Out,
    /// `console.warn`, `error`.
    Err,
    /// `forge.progress`: a report that replaces the last one, and is no part of the output.
    Progress,
}

/// End of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// The run that ended.
    pub run: u64,
    /// The value as compact JSON, or the error.
    pub result: Result<Json, ScriptError>,
    /// Cost.
    pub stats: Stats,
}

/// Cost of a run inside the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// CPU time of the script, in microseconds.
    pub cpu_us: u64,
    /// Peak engine heap in bytes, if known.
    pub heap_bytes: u64,
}

/// Failure of a script.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptError {
    /// The class of failure.
    pub kind: ScriptErrorKind,
    /// Message.
    pub message: String,
    /// Line in the worker's code, from 1; 0 when unknown.
    pub line: u32,
    /// Column in that line, from 1; 0 when unknown.
    pub column: u32,
    /// Call stack, innermost first, one frame per line (`fn_name:line:column`).
    pub trace: Vec<String>,
    /// The call whose uncaught error is the cause, if so.
    pub call: Option<u64>,
    /// That call's error.
    pub error: Option<CallError>,
    /// The correction, where the worker knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl ScriptError {
    /// An error without a position.
    pub fn new(kind: ScriptErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, line: 0, column: 0, trace: Vec::new(), call: None, error: None, fix: None }
    }
}

/// Classes of script failure. All of them leave the worker usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptErrorKind {
    /// The code does not parse.
    Syntax,
    /// An uncaught error of the script.
    Script,
    /// The script ended itself: `fail`, or `throw` of an error that is not the engine's.
    Stopped,
    /// An uncaught error of a call.
    Call,
    /// CPU time used up.
    Cpu,
    /// Heap used up.
    Heap,
    /// Call stack too deep.
    Stack,
    /// The final value is too large.
    Result,
    /// Too many calls.
    Calls,
    /// The script waits for something that can never happen.
    Stalled,
    /// A bug of the worker.
    Internal,
}

impl ScriptErrorKind {
    /// Code of the error that a script of this failure ends with.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Syntax => ErrorCode::SyntaxError,
            Self::Script | Self::Stopped | Self::Call | Self::Stalled => ErrorCode::ScriptError,
            Self::Cpu | Self::Heap | Self::Stack | Self::Result => ErrorCode::LimitExceeded,
            Self::Calls => ErrorCode::BudgetExceeded,
            Self::Internal => ErrorCode::Internal,
        }
    }
}

//! Frames between the gateway and its sandbox workers, and the module that a script becomes.
//!
//! A frame is a little-endian `u32` byte count followed by that many bytes of JSON. The gateway sends
//! [`ToWorker`] on the worker's stdin and reads [`FromWorker`] from its stdout. Either side treats the
//! other's frames as untrusted: the length is checked before a byte is allocated, and JSON that crosses
//! into an engine stays text ([`Json`]) until that engine's own converter reads it.

mod check;
mod frame;
pub mod json;
mod message;
mod module;
pub mod numbers;
mod outline;
mod parts;
pub mod python;
mod ready;
mod signature;

pub use check::{Check, Checked, Facts, PARSING_MEMORY, Stripped, TOO_DEEP, ValueOf};
pub use frame::{FrameError, MAX_FRAME, encode, parse_len, read_frame};
pub use message::{
    Call, CallError, Done, ErrorCode, FromWorker, Json, Language, Limits, Op, Outcome, Output, Reply, Run, ScriptError,
    ScriptErrorKind, Server, Stats, Stream, ToWorker,
};
pub use module::{Module, line_lengths, position};
pub use outline::{
    Args, How, JAVASCRIPT_GLOBALS, JsonType, Known, MAX_CALLS, MAX_PATH, MAX_READS, Name, Outline, Place, Read, Site,
    Target, Used,
};
pub use parts::{Form, Literal, MAX_PARTS, Parts};
pub use ready::{EngineInfo, EngineName, Layer, LayerName, Ready};
pub use signature::{MAX_DOC, MAX_SCHEMA, MAX_TYPE_LEVELS, MAX_TYPES, SCHEMA_KEYWORDS, SIGNATURE_MEMORY, Signature};

/// Version of the frame protocol. Gateway and worker are one executable, so a mismatch means that the file was
/// replaced while the gateway ran; the gateway then refuses the worker.
pub const PROTOCOL: u32 = 1;

/// Requests of one run that reach no server (discovery, stash, results).
pub const MAX_LOCAL_OPS: u32 = 1000;

/// Timers of one run: [`Op::Sleep`].
pub const MAX_SLEEPS: u32 = 1000;

/// Progress reports of one run; further ones are dropped by the worker.
pub const MAX_REPORTS: u32 = 10_000;

/// Most bytes of a progress report; the rest is dropped by the worker.
pub const MAX_REPORT: usize = 300;

/// Calls of one run without a reply, timers aside. A worker takes replies before it sends more, so that a script may make as many at
/// once as it likes.
pub const MAX_IN_FLIGHT: usize = 1024;

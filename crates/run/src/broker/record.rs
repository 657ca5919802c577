//! Record of one call: request, verdict, outcome.

use std::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::consent::Approval;
use super::policy::{Caller, PendingCall};
use crate::telemetry::CallId;
use base::error::{Error, ErrorCode, code_name};
use base::labels::Labels;
use base::outcome::Outcome;
use base::text::head;
use config::Amount;
use redact::{Outgoing as _, Redaction, Surface};

/// Most characters of arguments in records and errors.
const PREVIEW: usize = 200;
/// Most bytes of arguments that this preview is made from.
const MAX_LOOKED_AT: usize = 64 << 10;
/// Most characters of an unknown name.
const MAX_NAME: usize = 100;

/// One call of a script.
#[derive(Debug, Clone, Serialize)]
pub struct CallRecord {
    /// Call number of the script.
    pub call: u64,
    /// Start of the call, UTC; serialised as RFC 3339.
    #[serde(rename = "time", serialize_with = "as_rfc3339")]
    pub began: SystemTime,
    /// True once it was sent.
    #[serde(skip)]
    pub sent: bool,
    /// True if the tool is not annotated as read-only.
    #[serde(skip)]
    pub is_write: bool,
    /// Its span.
    #[serde(skip)]
    pub id: Option<CallId>,
    /// MCP method; `None` for an invalid call.
    #[serde(skip)]
    pub method: Option<&'static str>,
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier, or the operation for resources and prompts.
    pub tool: String,
    /// Sharing scope of the server's instance, unless it is the first one: `session`, `client` or `environment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<&'static str>,
    /// The script that made it, if it is one that was called itself: `scripts.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Arguments, redacted and cut.
    pub args: String,
    /// Full digest of the arguments in canonical form, or of their text if invalid.
    pub args_hash: String,
    /// Bytes of the arguments as JSON.
    pub args_bytes: usize,
    /// Bytes of text and binary content in the answer.
    pub answer_bytes: usize,
    /// Cost.
    pub cost: Amount,
    /// The servers whose data the execution held when the call was made, sorted.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Servers whose data a script declared clean was made of, which its value does not count as.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub cleaned: Labels,
    /// Verdict.
    pub verdict: Verdict,
    /// Outcome.
    pub outcome: Outcome,
    /// Message of its error, redacted and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time from dispatch to answer, or to the end of the script, in milliseconds.
    pub ms: f64,
}

/// Decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// None: the script ended first.
    Undecided,
    /// No rule is against it.
    Allowed,
    /// The user or the operator consented.
    Approved(Approval),
    /// An earlier run made it, and answers it.
    Inherited(String),
    /// A dry run planned it instead of asking; with the reasons to ask.
    WouldAsk(String),
    /// Policy or the user refused it.
    Denied(String),
    /// Refused for any other reason.
    Refused(ErrorCode, String),
}

impl Verdict {
    /// Verdict on a call that `error` prevented.
    pub(super) fn refusal(error: &Error) -> Self {
        match error.code {
            ErrorCode::ToolDenied | ErrorCode::GroupPolicyDenied | ErrorCode::ApprovalDenied => {
                Self::Denied(error.message.clone())
            }
            code => Self::Refused(code, error.message.clone()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecided => Ok(()),
            Self::Allowed => f.write_str("allowed"),
            Self::Approved(how) => write!(f, "approved {how}"),
            Self::Inherited(run) => write!(f, "answered by run {run}"),
            Self::WouldAsk(why) => write!(f, "would be asked: {why}"),
            Self::Denied(why) => write!(f, "denied: {why}"),
            Self::Refused(code, why) => write!(f, "refused: {}: {why}", code_name(*code)),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl CallRecord {
    /// True if an earlier run answered it.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        matches!(self.verdict, Verdict::Inherited(_))
    }

    /// True if a resumed run need not make it again.
    #[must_use]
    pub fn is_evidence(&self) -> bool {
        self.sent || self.is_inherited()
    }

    /// The record as it may go there.
    #[must_use]
    pub fn redacted(self, redaction: Redaction<'_>) -> Self {
        Self { args: self.args.redacted(redaction), error: self.error.map(|error| error.redacted(redaction)), ..self }
    }

    /// Record of a call whose names and arguments are valid.
    pub(super) fn new(call: u64, asked: &PendingCall<'_>, labels: Labels) -> Self {
        let parameters = asked.operation.parameters();
        let args = stubgen::canonical_json(&parameters);
        let record = Self::written(call, asked.entry.ident.clone(), asked.what().into_owned(), &args, labels);
        let args = asked.written.map_or(record.args, preview);
        Self {
            args,
            args_hash: stubgen::digest(&stubgen::identity_json(&parameters)),
            method: Some(asked.operation.method()),
            is_write: !asked.is_read(),
            from: asked.from.and_then(Caller::scope).map(|scope| scope.label().to_owned()),
            ..record
        }
    }

    /// Record of an invalid call, as the script wrote it.
    pub(super) fn invalid(call: u64, server: &str, tool: &str, args: &str, labels: Labels) -> Self {
        let name = |name: &str| redact::text(Surface::Log, head(name, MAX_NAME)).into_owned();
        Self::written(call, name(server), name(tool), args, labels)
    }

    fn written(call: u64, server: String, tool: String, args: &str, labels: Labels) -> Self {
        Self {
            call,
            began: SystemTime::now(),
            sent: false,
            is_write: false,
            id: None,
            method: None,
            server,
            tool,
            instance: None,
            from: None,
            args: preview(args),
            args_hash: stubgen::digest(args),
            args_bytes: args.len(),
            answer_bytes: 0,
            cost: Amount::ZERO,
            labels,
            cleaned: Labels::new(),
            verdict: Verdict::Undecided,
            outcome: Outcome::Running,
            error: None,
            ms: 0.0,
        }
    }
}

fn as_rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

/// A text as records show it: redacted, and its beginning.
pub(super) fn preview(canonical: &str) -> String {
    // Longer than any secret, so that none is cut in half before it is found.
    let redacted = redact::text(Surface::Log, head(canonical, MAX_LOOKED_AT));
    let cut = head(&redacted, PREVIEW);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}

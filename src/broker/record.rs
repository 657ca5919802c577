//! Record of one call: what was asked, why it was made or not, what came of it.

use std::fmt;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::consent::Approval;
use super::policy::Asked;
use crate::config::Amount;
use crate::error::{Error, ErrorCode, code_name};
use crate::labels::Labels;
use crate::outcome::Outcome;
use crate::redact::{self, Surface};
use crate::telemetry::CallId;
use crate::text::head;

/// Characters of the arguments that records and errors show.
const PREVIEW: usize = 200;
/// Bytes of the arguments that are looked at for that.
const MAX_LOOKED_AT: usize = 64 << 10;
/// Characters of a name that nothing here has.
const MAX_NAME: usize = 100;

/// One call of a script.
#[derive(Debug, Clone, Serialize)]
pub struct CallRecord {
    /// The script's own number of the call.
    #[serde(skip)]
    pub call: u64,
    /// Start of the call.
    #[serde(skip)]
    pub began: SystemTime,
    /// Whether it was sent.
    #[serde(skip)]
    pub sent: bool,
    /// Its span.
    #[serde(skip)]
    pub id: Option<CallId>,
    /// Its method; `None` if it was wrong in itself.
    #[serde(skip)]
    pub method: Option<&'static str>,
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier, or the operation for resources and prompts.
    pub tool: String,
    /// The arguments, redacted and cut.
    pub args: String,
    /// Whole digest of the arguments in canonical form, of their text where they are not valid.
    pub args_hash: String,
    /// Bytes of the arguments, as JSON.
    pub args_bytes: usize,
    /// Bytes of text and binary content that came back.
    pub answer_bytes: usize,
    /// What it cost.
    pub cost: Amount,
    /// The servers whose data the execution held when the call was made, sorted.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Why it was made or not.
    pub verdict: Verdict,
    /// How it ended.
    pub outcome: Outcome,
    /// Time from dispatch to answer, or to the end of the script, in milliseconds.
    pub ms: f64,
}

/// Why a call is made or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided: the script ended first.
    Undecided,
    /// Nothing speaks against it.
    Allowed,
    /// The user, or whoever ran the command, consented.
    Approved(Approval),
    /// A dry run made it in place of asking; the reasons to ask.
    WouldAsk(String),
    /// Policy or the user said no.
    Denied(String),
    /// Anything else that kept it from being sent.
    Refused(ErrorCode, String),
}

impl Verdict {
    /// Verdict on a call that is not made because of `error`.
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
    /// Record of a call whose names and arguments are valid.
    pub(super) fn new(call: u64, asked: &Asked<'_>, labels: Labels) -> Self {
        let args = asked.operation.arguments();
        let record = Self::written(call, asked.entry.ident.clone(), asked.what().into_owned(), &args, labels);
        let args = asked.written.map_or(record.args, preview);
        Self { args, method: Some(asked.operation.method()), ..record }
    }

    /// Record of a call that is wrong in itself, as the script wrote it.
    pub(super) fn invalid(call: u64, server: &str, tool: &str, args: &str, labels: Labels) -> Self {
        let name = |name: &str| redact::text(Surface::Log, head(name, MAX_NAME)).into_owned();
        Self::written(call, name(server), name(tool), args, labels)
    }

    fn written(call: u64, server: String, tool: String, args: &str, labels: Labels) -> Self {
        Self {
            call,
            began: SystemTime::now(),
            sent: false,
            id: None,
            method: None,
            server,
            tool,
            args: preview(args),
            args_hash: stubgen::digest(args),
            args_bytes: args.len(),
            answer_bytes: 0,
            cost: Amount::ZERO,
            labels,
            verdict: Verdict::Undecided,
            outcome: Outcome::Running,
            ms: 0.0,
        }
    }
}

fn preview(canonical: &str) -> String {
    // Longer than any secret, so that none is cut in half before it is found.
    let redacted = redact::text(Surface::Log, head(canonical, MAX_LOOKED_AT));
    let cut = head(&redacted, PREVIEW);
    if cut.len() < redacted.len() { format!("{cut}…") } else { cut.to_owned() }
}

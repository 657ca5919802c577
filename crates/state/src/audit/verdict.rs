//! Decisions about calls, as records name them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::error::{Error, ErrorCode, code_name};
use base::outcome::Outcome;

/// Decision about a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Verdict {
    /// None: the script ended first.
    #[default]
    Undecided,
    /// No rule is against it.
    Allowed,
    /// The user or the operator consented; with source and scope.
    Approved(String),
    /// An earlier run made it, and answers it.
    Inherited(String),
    /// A dry run planned it instead of asking; with the reasons to ask.
    WouldAsk(String),
    /// Policy or the user refused it.
    Denied(String),
    /// Refused for any other reason.
    Refused(ErrorCode, String),
    /// Words of another version.
    Other(String),
}

const APPROVED: &str = "approved ";
const INHERITED: &str = "answered by run ";
const WOULD_ASK: &str = "would be asked: ";
const DENIED: &str = "denied: ";
const REFUSED: &str = "refused: ";
/// Before the id of an approval, at the end of who approved.
const APPROVAL: &str = "approval ";

impl Verdict {
    /// Verdict on a call that `error` prevented.
    pub fn refusal(error: &Error) -> Self {
        match error.code {
            ErrorCode::ToolDenied | ErrorCode::GroupPolicyDenied | ErrorCode::ApprovalDenied => {
                Self::Denied(error.message.clone())
            }
            code => Self::Refused(code, error.message.clone()),
        }
    }

    /// True if the call was not sent.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::Refused(..))
    }

    /// Id of the approval that a person gave while no run was there.
    pub fn approval(&self) -> Option<&str> {
        let (Self::Approved(words) | Self::Denied(words)) = self else { return None };
        let (_, id) = words.rsplit_once(APPROVAL)?;
        Some(id).filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    fn read(text: &str) -> Self {
        let behind = |begin: &str| text.strip_prefix(begin).map(str::to_owned);
        let refused = || {
            let (code, why) = text.strip_prefix(REFUSED)?.split_once(": ")?;
            match Outcome::named(code) {
                Outcome::Failed(code) => Some(Self::Refused(code, why.to_owned())),
                _ => None,
            }
        };
        match text {
            "" => Self::Undecided,
            "allowed" => Self::Allowed,
            _ => (behind(APPROVED).map(Self::Approved))
                .or_else(|| behind(INHERITED).map(Self::Inherited))
                .or_else(|| behind(WOULD_ASK).map(Self::WouldAsk))
                .or_else(|| behind(DENIED).map(Self::Denied))
                .or_else(refused)
                .unwrap_or_else(|| Self::Other(text.to_owned())),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecided => Ok(()),
            Self::Allowed => f.write_str("allowed"),
            Self::Approved(how) => write!(f, "{APPROVED}{how}"),
            Self::Inherited(run) => write!(f, "{INHERITED}{run}"),
            Self::WouldAsk(why) => write!(f, "{WOULD_ASK}{why}"),
            Self::Denied(why) => write!(f, "{DENIED}{why}"),
            Self::Refused(code, why) => write!(f, "{REFUSED}{}: {why}", code_name(*code)),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Verdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|text| Self::read(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_written() {
        let id = "0123456789ab";
        let verdicts = [
            (Verdict::Undecided, false, None),
            (Verdict::Allowed, false, None),
            (Verdict::Approved("by the user, once".to_owned()), false, None),
            (Verdict::Approved(format!("by ann at noon, approval {id}")), false, Some(id)),
            (Verdict::Inherited(id.to_owned()), false, None),
            (Verdict::WouldAsk("approval = true".to_owned()), false, None),
            (Verdict::Denied("by policy: denied: x".to_owned()), true, None),
            (Verdict::Refused(ErrorCode::RateLimit, "wait: 3 s".to_owned()), true, None),
            (Verdict::Other("of another version".to_owned()), false, None),
        ];
        for (verdict, is_refusal, approval) in verdicts {
            let written = serde_json::to_string(&verdict).expect("JSON");
            assert_eq!(serde_json::from_str::<Verdict>(&written).expect("a verdict"), verdict);
            assert_eq!((verdict.is_refusal(), verdict.approval()), (is_refusal, approval), "{written}");
        }
    }
}

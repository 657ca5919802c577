//! An approval as it is kept: the call that waits, the question about it, and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::scripts::SERVER;
use base::labels::Labels;
use base::time::{now_ms, rfc3339};

/// Version of the format. An approval of another version is not used.
pub const VERSION: u32 = 1;

/// A call that needs approval, and its decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// [`VERSION`].
    pub version: u32,
    /// Id: twelve hexadecimal digits.
    pub id: String,
    /// Who asks.
    pub asker: Asker,
    /// The call.
    pub call: Call,
    /// The tool in messages.
    pub label: String,
    /// Rules that want approval.
    pub reasons: Vec<String>,
    /// Servers whose data the run held.
    pub labels: Labels,
    /// Arguments as the script wrote them, redacted.
    pub arguments: Value,
    /// The question for people.
    pub question: String,
    /// Begin, in Unix milliseconds.
    pub at_ms: u64,
    /// Time until which it can be decided, in Unix milliseconds.
    pub until_ms: u64,
    /// Time in milliseconds that a decision to allow holds.
    pub holds_ms: u64,
    /// Result of telling people; `None` before, or if no one is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
    /// Decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The call that used it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Of a decision that covers further calls: the approval that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Of a decision for a plan: digest of the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

/// The run that asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asker {
    /// The client's name for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Session.
    pub session: String,
    /// Run: resuming it continues with the call.
    pub run: String,
}

/// Scope of an approval: this one call and no other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Client that the run belongs to.
    pub client: String,
    /// First run of the chain.
    pub chain: String,
    /// The server's name.
    pub server: String,
    /// Digest of its connection settings.
    pub origin: String,
    /// Wire name of the tool, or what is read.
    pub tool: String,
    /// Whole digest of its definition; empty where there is none.
    pub definition: String,
    /// Whole digest of the arguments that go out; empty for any.
    pub args_hash: String,
}

/// Result of telling people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// Error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A person's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// True if the call may be made.
    pub is_allowed: bool,
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// The person.
    pub by: String,
    /// Calls that it covers, or would if it were allowed.
    #[serde(default, skip_serializing_if = "Scope::is_once")]
    pub scope: Scope,
    /// Why, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Decision {
    /// A decision that is made now, without a reason.
    pub(super) fn now(is_allowed: bool, scope: Scope, by: &str) -> Self {
        Self { is_allowed, at_ms: now_ms(), by: by.to_owned(), scope, reason: None }
    }

    /// Calls that it covers.
    pub fn covers(&self) -> Scope {
        if self.is_allowed { self.scope } else { Scope::Once }
    }
}

/// Calls that a decision covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This call.
    #[default]
    Once,
    /// Every call of its tool in the run, for the same reasons.
    Run,
    /// The calls that the text of the run's script shows, as often as it shows them.
    Plan,
}

impl Scope {
    fn is_once(&self) -> bool {
        *self == Self::Once
    }
}

/// The call that used an approval up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// Its run.
    pub run: String,
    /// Number of the operation in it.
    pub op: u64,
}

/// State of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// No one has decided.
    Waits,
    /// A person allowed the call, which was not made yet.
    Allowed,
    /// A person denied it.
    Denied,
    /// It was allowed and made.
    Used,
    /// It was not decided in time, or not used in time.
    Expired,
}

impl Standing {
    /// The state in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Used => "used",
            Self::Expired => "expired",
        }
    }
}

impl Approval {
    /// State at a time in Unix milliseconds.
    pub fn standing(&self, now_ms: u64) -> Standing {
        match (&self.used, &self.decision) {
            (_, Some(decision)) if !decision.is_allowed => Standing::Denied,
            (Some(_), _) => Standing::Used,
            _ if now_ms > self.ends_ms() => Standing::Expired,
            (None, Some(_)) => Standing::Allowed,
            (None, None) => Standing::Waits,
        }
    }

    /// True if it allows its call to a run. A resumed run makes the call of a script again, for what its calls have
    /// answered before: each run of the chain may once.
    pub(super) fn allows(&self, run: &str, now_ms: u64) -> bool {
        match self.standing(now_ms) {
            Standing::Used => self.is_for_more(now_ms) && self.used.as_ref().is_some_and(|used| used.run != run),
            standing => standing == Standing::Allowed,
        }
    }

    /// True if it is used up by a run, and allows its call to further ones.
    pub(super) fn is_for_more(&self, now_ms: u64) -> bool {
        self.call.server == SERVER && self.standing(now_ms) == Standing::Used && now_ms <= self.ends_ms()
    }

    /// Time at which it expires: undecided, or allowed and not used.
    pub fn ends_ms(&self) -> u64 {
        match &self.decision {
            Some(decision) if decision.is_allowed => decision.at_ms.saturating_add(self.holds_ms),
            _ => self.until_ms,
        }
    }

    /// Object for other programs: hooks and `--json`.
    pub fn shape(&self, now_ms: u64) -> Value {
        let Self { id, asker, call, label, reasons, labels, arguments, question, told, decision, used, .. } = self;
        json!({
            "id": id,
            "state": self.standing(now_ms),
            "client": call.client,
            "client_name": asker.client_name,
            "session": asker.session,
            "run": asker.run,
            "server": call.server,
            "tool": call.tool,
            "call": label,
            "reasons": reasons,
            "labels": labels,
            "arguments": arguments,
            "question": question,
            "asked": rfc3339(self.at_ms),
            "until": rfc3339(self.ends_ms()),
            "told": told.as_ref().map(|told| json!({ "at": rfc3339(told.at_ms), "error": told.error })),
            "decision": decision.as_ref().map(|decision| {
                json!({
                    "allowed": decision.is_allowed,
                    "at": rfc3339(decision.at_ms),
                    "by": decision.by,
                    "scope": decision.covers(),
                    "reason": decision.reason,
                })
            }),
            "used": used.as_ref().map(|used| json!({ "at": rfc3339(used.at_ms), "run": used.run, "op": used.op })),
        })
    }
}

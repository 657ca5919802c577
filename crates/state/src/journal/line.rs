//! Lines of a journal: one JSON object each, of one key that names its kind.

use serde::{Deserialize, Serialize};
use wire::{Json, Language, Limits, Server};

use base::labels::Labels;
use base::outcome::Outcome;

/// Version of the format. A journal of another version is refused.
pub const VERSION: u32 = 2;

/// Number of the first operation of the scripts that a script calls. They are evidence for a resumed run; a replay has
/// the answer of the script that made them.
pub const NESTED: u64 = 1_000_000_000;

/// A line. `A` is the answer: owned when read, borrowed when written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "A: Deserialize<'de>"))]
pub enum Line<A = wire::Outcome> {
    /// The first line.
    Begun(Box<Head>),
    /// A call goes out; written before it does.
    Sent(Sent),
    /// The server has made a task of a call.
    Task {
        /// Number of the operation, from 1.
        op: u64,
        /// The server's id of the task.
        id: String,
    },
    /// A call waits for a person's approval; its answer to the script is an error.
    Waits(Waits),
    /// Questions go to the client; written before they do.
    Asks(Asks),
    /// Answers of the client came; written before anything hears of them.
    Heard {
        /// Name of the round.
        round: String,
    },
    /// A request of the script is answered; written before the script gets it. Their order is that of the answers.
    Answered(Answered<A>),
    /// The run ended.
    Ended(Box<End>),
}

/// Facts of a run at its beginning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// [`VERSION`].
    pub version: u32,
    /// ForgeFS that wrote it.
    pub forgefs: String,
    /// Id of the run, that of its audit record.
    pub run: String,
    /// Runs that it continues, each the continuation of the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Those at the end of `after` whose suspended work it goes on with: to its script they are one run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<String>,
    /// Begin, in Unix milliseconds.
    pub at_ms: u64,
    /// Client that the run belongs to.
    pub client: String,
    /// Its session.
    pub session: String,
    /// Language of the script.
    pub language: Language,
    /// The script.
    pub code: String,
    /// Text whose SHA-256 is the seed of the script's random numbers.
    pub seed: String,
    /// The script's clock at its begin, in Unix milliseconds.
    pub now_ms: u64,
    /// True if values were kept from the agent behind placeholders of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placeholders: bool,
    /// Namespaces of the script.
    #[serde(default)]
    pub servers: Vec<Server>,
    /// Limits of its engine.
    pub limits: Option<Limits>,
    /// Name of the script's file, if it is from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The gateway that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<RunBy>,
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBy {
    /// Id of its process.
    pub pid: u32,
    /// Path of its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// An operation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunOp {
    /// The run.
    pub run: String,
    /// Number of the operation in it.
    pub op: u64,
}

/// A call that goes out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// Number of the operation, from 1.
    pub op: u64,
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// MCP method.
    pub method: String,
    /// The server's name.
    pub server: String,
    /// Wire name of the tool, or what is read.
    pub tool: String,
    /// Digest of the connection settings of the server's instance, with a key of this installation.
    pub origin: String,
    /// Whole digest of its definition; empty where there is none.
    pub definition: String,
    /// Whole digest of the arguments that go out, in canonical form.
    pub args_hash: String,
    /// True if the tool is annotated as read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads: bool,
    /// True if a script with a lock made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// The call of an earlier run in whose place it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<RunOp>,
    /// The request as the script wrote it, unless an earlier line has it or it was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Json>,
}

/// A call that waits for a person's approval.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waits {
    /// Number of the operation, from 1.
    pub op: u64,
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// Id of the approval.
    pub approval: String,
    /// Why it is needed.
    pub reasons: Vec<String>,
    /// Time after which it cannot be decided, in Unix milliseconds.
    pub until_ms: u64,
}

/// Questions to the client that go out together, in place of the answer to its request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asks {
    /// Random name of the round.
    pub round: String,
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// The questions.
    pub questions: Vec<OpenQuestion>,
}

/// A question without an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Digest of its key in the client's answers, with the key of this installation.
    pub key: String,
    /// Digest of the question and of what it is about, likewise.
    pub question: String,
    /// The call that a server has put off with it, before doing anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_off: Option<u64>,
}

/// An answered request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de>"))]
pub struct Answered<A = wire::Outcome> {
    /// Number of the operation, from 1.
    pub op: u64,
    /// The script's clock from here on, in Unix milliseconds.
    pub now_ms: u64,
    /// The request as the script wrote it, unless an earlier line has it or it was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Json>,
    /// The answer that the script got; `None` where it was too large to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<A>,
    /// True for an error that tells that the call had no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_effect: bool,
    /// True for an error in place of the answer to a call that was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Bytes of an answer that is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// Servers whose data the run held then.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The call of an earlier run that the answer is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RunOp>,
}

/// End of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// Time, in Unix milliseconds.
    pub at_ms: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// Engine that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The value, if there is one that can be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// The error in its place, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error with its place and what to do, as the agent got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<String>,
    /// Captured output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Servers whose data the run held then.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

/// Outcome in the last line of a journal, of which `line` is the begin; `None` if the run has no end.
pub(super) fn outcome_of(line: &[u8]) -> Option<Outcome> {
    // As `End` is written: its time, then its outcome.
    let line = line.strip_prefix(br#"{"ended":{"at_ms":"#)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let outcome = line.get(digits..)?.strip_prefix(br#","outcome":""#)?;
    std::str::from_utf8(outcome.split(|byte| *byte == b'"').next()?).ok().map(Outcome::named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_an_end_has_its_outcome_and_no_other_line_has_one() {
        let end = |outcome: Outcome| End {
            at_ms: 1_800_000_000_000,
            outcome,
            engine: None,
            value: None,
            error: None,
            explained: None,
            output: "x".repeat(1000),
            labels: Labels::new(),
        };
        for outcome in [Outcome::Ok, Outcome::Failed(base::error::ErrorCode::ScriptError)] {
            let line = serde_json::to_string(&Line::<wire::Outcome>::Ended(Box::new(end(outcome)))).expect("JSON");
            assert_eq!(outcome_of(&line.as_bytes()[..256]), Some(outcome));
        }
        for other in ["", "{", "{\"ended\":{\"at_ms\":1", "{\"answered\":{\"at_ms\":1,\"outcome\":\"ok\"}}"] {
            assert_eq!(outcome_of(other.as_bytes()), None, "{other}");
        }
    }
}

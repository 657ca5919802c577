//! Lines of the log: the record of a run, and each of its calls on record before it was sent.
//!
//! One type is written and read. Reading is lenient: a line of another version lacks fields, or has others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::labels::Labels;
use base::outcome::Outcome;
use base::principal::LOCAL;
use base::time::{rfc3339_millis, unix_ms};
use config::Amount;

use super::hooks::HookRecord;
use super::verdict::Verdict;

/// Record of a run: one line, written at its end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Identifier for `forgefs audit`.
    pub id: String,
    /// Start, UTC (RFC 3339).
    pub time: String,
    /// The run, as it is known from its begin.
    #[serde(flatten)]
    pub run: Description,
    /// Outcome.
    pub outcome: Outcome,
    /// Message of the error that ended it, redacted and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Duration in milliseconds; absent without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// Engine and version; absent if no script ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// True if its worker was ready when it came, false if it was started for it; absent if no script ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<bool>,
    /// Sandbox layers in force.
    pub confined: Vec<String>,
    /// Sandbox layers not in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfined: Vec<String>,
    /// Cost of its calls.
    #[serde(deserialize_with = "amount")]
    pub cost: Amount,
    /// Tokens of the definitions of all tools that its client could call then, estimated; absent if it is no script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_list: Option<u64>,
    /// Every call, in order.
    pub calls: Vec<CallRecord>,
    /// Decisions of hooks about its script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// Operations of the stash, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stash: Vec<StashUse>,
    /// Stubs that the session has read since its last record, by path.
    pub read: BTreeMap<String, Read>,
    /// Number of the session's last record with reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_part: Option<u64>,
    /// Number of all reads of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_count: Option<u64>,
}

/// A run as it is known from its begin. Words and flags alone: serde reads no numbers in a flattened struct.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// Session id.
    pub session: String,
    /// Trace id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Client name, as the client gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Client whose token it came with; absent for this machine's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Its profile, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<str>>,
    /// `javascript` or `starlark`; absent for a request other than a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Digest of the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<String>,
    /// Beginning of the script, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Name of the script's file, if it is from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// Path of the configuration of its gateway; absent without a file, and in records of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Arc<str>>,
    /// True for a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// True if its journal could not be written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_journal: bool,
    /// Method or tool of a request, such as `cat` or `prompts/get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Record {
    /// Client that it is of.
    pub fn by(&self) -> &str {
        self.run.principal.as_deref().unwrap_or(LOCAL)
    }
}

/// One call of a script.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallRecord {
    /// Call number of the script; 0 in records of older versions.
    pub call: u64,
    /// Start of the call, UTC (RFC 3339).
    #[serde(rename = "time")]
    pub began: Time,
    /// True once it was sent.
    #[serde(skip)]
    pub sent: bool,
    /// True if the tool is not annotated as read-only.
    #[serde(skip)]
    pub is_write: bool,
    /// True if its error proves that nothing was done, as of a call that did not leave the gateway.
    #[serde(skip)]
    pub is_undone: bool,
    /// Id of its span.
    #[serde(skip)]
    pub span: Option<[u8; 8]>,
    /// MCP method; `None` for an invalid call.
    #[serde(skip)]
    pub method: Option<&'static str>,
    /// The server's identifier.
    pub server: String,
    /// The tool's identifier, or the operation for resources and prompts.
    pub tool: String,
    /// Sharing scope of the server's instance, unless it is the first one: `session`, `client` or `environment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<Cow<'static, str>>,
    /// The script that made it, if it is one that was called itself: `scripts.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// True if a script with a lock made it: its arguments may hold what its caller may not read.
    #[serde(skip)]
    pub is_sealed: bool,
    /// Arguments, redacted and cut.
    pub args: String,
    /// Full digest of the arguments in canonical form, or of their text if invalid.
    pub args_hash: String,
    /// Bytes of the arguments as JSON.
    pub args_bytes: usize,
    /// Bytes of text and binary content in the answer.
    pub answer_bytes: usize,
    /// Cost.
    #[serde(deserialize_with = "amount")]
    pub cost: Amount,
    /// The servers whose data the execution held when the call was made, sorted.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Servers whose data a script declared clean was made of, which its value does not count as.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub cleaned: Labels,
    /// Decisions of hooks about it and its answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// Verdict.
    pub verdict: Verdict,
    /// Outcome.
    pub outcome: Outcome,
    /// Message of its error, redacted and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time from dispatch to answer, or to the end of the script, in milliseconds; `None` where only its dispatch is on
    /// record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
}

impl CallRecord {
    /// The arguments for those who run the script.
    pub fn shown_args(&self) -> &str {
        if self.is_sealed { "…" } else { &self.args }
    }

    /// True if an earlier run answered it.
    pub fn is_inherited(&self) -> bool {
        matches!(self.verdict, Verdict::Inherited(_))
    }

    /// True if it was sent to a tool not annotated as read-only, and is not known to have done nothing.
    pub fn may_have_written(&self) -> bool {
        self.sent && self.is_write && !self.is_undone
    }

    /// True if a resumed run need not make it again.
    pub fn is_evidence(&self) -> bool {
        self.sent || self.is_inherited()
    }
}

/// One operation of the stash.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StashUse {
    /// `put`, `get` or `delete`.
    pub op: String,
    /// The key, redacted and cut.
    pub key: String,
    /// Bytes of the value that was put or found.
    pub bytes: usize,
}

/// A stub that was read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Read {
    /// Full digest of the tool's definition.
    pub digest: String,
    /// Digest of the text: its key in the store.
    pub object: String,
    /// The text.
    #[serde(skip)]
    pub text: Arc<str>,
}

/// Reads of a session: the stubs that no record has yet, and where the others are.
#[derive(Debug, Default, Serialize)]
pub struct Reads {
    /// Stubs by path.
    pub read: BTreeMap<String, Read>,
    /// Number of the session's last record with reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_part: Option<u64>,
    /// Number of all reads of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_count: Option<u64>,
}

/// Description of a run with its first call.
#[derive(Debug, Serialize)]
pub struct Begun {
    /// The run.
    #[serde(flatten)]
    pub run: Description,
    /// New reads of its session.
    #[serde(flatten)]
    pub reads: Reads,
}

/// The line of a call that is about to be sent, of the run with this id; its first one describes the run too.
pub fn sent(run: &str, call: &CallRecord, begun: Option<&Begun>) -> String {
    let CallRecord { call: number, server, tool, from, args, args_hash, args_bytes, hooks, verdict, .. } = call;
    line(&Sent {
        event: "sent",
        run,
        call: *number,
        time: Time(SystemTime::now()),
        server,
        tool,
        from: from.as_deref(),
        args,
        args_hash,
        args_bytes: *args_bytes,
        hooks,
        verdict,
        begun,
    })
}

#[derive(Serialize)]
struct Sent<'a> {
    event: &'static str,
    run: &'a str,
    call: u64,
    time: Time,
    server: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    args: &'a str,
    args_hash: &'a str,
    args_bytes: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    hooks: &'a [HookRecord],
    verdict: &'a Verdict,
    #[serde(flatten)]
    begun: Option<&'a Begun>,
}

/// Serialises an object as a line of the log.
pub fn line(object: &impl Serialize) -> String {
    let mut line = serde_json::to_string(object).unwrap_or_else(|error| {
        tracing::error!(%error, "an audit record has no JSON form");
        "{}".to_owned()
    });
    line.push('\n');
    line
}

/// A line of the log, as it is read.
#[derive(Debug)]
pub enum Line {
    /// A call that was sent, of the run with this id, and what its line says of the run.
    Sent(String, Box<Record>, Box<CallRecord>),
    /// The record of a run.
    Ended(Box<Record>),
}

impl Line {
    /// The record of a run that has ended.
    pub fn ended(&self) -> Option<&Record> {
        match self {
            Self::Sent(..) => None,
            Self::Ended(record) => Some(record),
        }
    }

    /// All that the line says of its run.
    pub fn record(&self) -> &Record {
        let (Self::Sent(_, record, _) | Self::Ended(record)) = self;
        record
    }

    /// Reads a line; `None` for what is no record, as half a record of a full disk is.
    pub fn read(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Event {
            run: String,
        }
        if !text.starts_with("{\"event\":") {
            let record: Option<Box<Record>> = serde_json::from_str(text).ok();
            return record.filter(|record| !record.id.is_empty()).map(Self::Ended);
        }
        let Event { run } = serde_json::from_str(text).ok().filter(|event: &Event| !event.run.is_empty())?;
        Some(Self::Sent(run, serde_json::from_str(text).ok()?, serde_json::from_str(text).ok()?))
    }
}

/// A time of the log, in UTC (RFC 3339); the Unix epoch for what is none.
#[derive(Debug, Clone, Copy)]
pub struct Time(pub SystemTime);

impl Default for Time {
    fn default() -> Self {
        Self(UNIX_EPOCH)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rfc3339_millis(unix_ms(self.0)))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Ok(humantime::parse_rfc3339_weak(&text).map(Self).unwrap_or_default())
    }
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
    let number = f64::deserialize(deserializer)?.max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an amount that was written")]
    Ok(Amount::from_micros((number * 1e6).round() as u64))
}

#[cfg(test)]
mod tests {
    use base::error::ErrorCode;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_one_of_another_version_as_far_as_it_goes() {
        let call = CallRecord {
            call: 2,
            began: Time(UNIX_EPOCH + std::time::Duration::from_millis(1_800_000_000_123)),
            server: "mail".to_owned(),
            cost: Amount::from_micros(250_000),
            ms: Some(12.5),
            ..CallRecord::default()
        };
        let run = Description { language: Some("starlark".to_owned()), dry_run: true, ..Description::default() };
        let record = Record {
            id: "ab".to_owned(),
            run,
            outcome: Outcome::Failed(ErrorCode::Timeout),
            ms: Some(0.25),
            cost: Amount::ONE,
            plain_list: Some(13_786),
            calls: vec![call],
            read_part: Some(3),
            ..Record::default()
        };
        let written = line(&record);
        let Some(Line::Ended(read)) = Line::read(&written) else { panic!("{written}") };
        assert_eq!(line(&read), written);
        let older = r#"{"id":"ab","outcome":"GONE_CODE","calls":[{"server":"s","new_key":1}],"more":{"x":[1.5]}}"#;
        let Some(Line::Ended(read)) = Line::read(older) else { panic!("{older}") };
        assert_eq!((read.outcome, read.calls[0].server.as_str()), (Outcome::Unknown, "s"));
    }

    #[test]
    fn the_line_of_a_sent_call_is_one_of_its_run() {
        let begun = Begun {
            run: Description { session: "s1".to_owned(), code: Some("x = 1".to_owned()), ..Description::default() },
            reads: Reads { read_count: Some(2), ..Reads::default() },
        };
        let call = CallRecord { call: 7, tool: "send".to_owned(), verdict: Verdict::Allowed, ..CallRecord::default() };
        let written = sent("ab", &call, Some(&begun));
        let Some(Line::Sent(run, record, read)) = Line::read(&written) else { panic!("{written}") };
        assert_eq!((run.as_str(), record.run.session.as_str(), record.read_count), ("ab", "s1", Some(2)));
        assert_eq!((read.call, read.tool.as_str(), &read.verdict, read.ms), (7, "send", &Verdict::Allowed, None));
        for broken in ["", "{", "{}", r#"{"event":"sent"}"#, r#"{"event":"sent","run":""}"#, "\"id\""] {
            assert!(Line::read(broken).is_none(), "{broken}");
        }
    }
}

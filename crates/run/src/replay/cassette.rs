//! A cassette: a recorded run as a file beside its script, for review and for tests without a server.

use base::time::{rfc3339_millis, unix_ms};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::{CallError, Json, Language, Limits, Outcome, Run, Server};

use super::tape::TapedAnswer;
use super::{Asked, Player, Tape, Taped};
use base::error::{Cause, Error, ErrorCode, Result};
use base::{json, limits};
use redact::{Outgoing as _, Results, Surface};

/// Version of the format.
const VERSION: u32 = 1;
/// Most memory of a cassette's values per byte that it may have.
const TREE: usize = 8;

/// A recorded run: what its script asked, what it heard, and what it made of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cassette {
    /// Version of the format.
    pub cassette: u32,
    /// Language of the script.
    pub language: Language,
    /// Text whose SHA-256 is the seed of its random numbers.
    pub seed: String,
    /// Its clock at its begin.
    pub clock: String,
    /// Redaction of everything here.
    pub redaction: Redacted,
    /// Limits of its engine.
    pub limits: Limits,
    /// Arguments of a script that is a function, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// Its namespaces.
    pub servers: Vec<Server>,
    /// Definitions of the tools that it called.
    pub tools: Vec<Tool>,
    /// Its requests, in the order of their answers.
    pub operations: Vec<Entry>,
    /// Its expected result.
    pub expected: Expected,
}

/// Redaction of a cassette.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redacted {
    /// Credentials.
    Secrets,
    /// Credentials and personal data.
    SecretsAndPii,
}

impl Redacted {
    /// Redaction of a cassette where answers are redacted like this: credentials are never in one.
    pub fn of(results: Results) -> Self {
        match results {
            Results::Off | Results::Secrets => Self::Secrets,
            Results::SecretsAndPii => Self::SecretsAndPii,
        }
    }

    fn results(self) -> Results {
        match self {
            Self::Secrets => Results::Secrets,
            Self::SecretsAndPii => Results::SecretsAndPii,
        }
    }

    /// Surface of requests, answers and values.
    pub fn surface(self) -> Surface {
        Surface::Answer(self.results())
    }
}

/// Definition of a called tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The server's name.
    pub server: String,
    /// Wire name of the tool.
    pub tool: String,
    /// Whole digest of its definition.
    pub definition: String,
}

/// One request with its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number in the script.
    pub op: u64,
    /// Its kind.
    pub request: String,
    /// Its fields.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub ask: Value,
    /// Milliseconds from the begin to its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Its value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

/// A value that is there, `null` too.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Result of a script.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Name of its outcome.
    pub outcome: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Engine whose words the error has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Captured output, by lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

impl Cassette {
    /// Reads a cassette.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is none of this version.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: Cause| {
            Error::new(ErrorCode::InvalidArgs, "the cassette cannot be read")
                .caused_by(why)
                .hint("`forgefs journal export RUN` writes one")
        };
        limits::CASSETTE.check(text.len())?;
        let room = limits::CASSETTE.max.saturating_mul(TREE);
        let cassette: Self = json::parse(text.as_bytes(), room).map_err(|unfit| wrong(unfit.into()))?;
        if cassette.cassette != VERSION {
            let what = format!("it has version {}, and this ForgeFS reads {VERSION}", cassette.cassette);
            return Err(wrong(what.into()));
        }
        if cassette.args.as_ref().is_some_and(|args| !args.get().trim_start().starts_with('{')) {
            return Err(wrong("`args` is no object".into()));
        }
        match cassette.operations.iter().find(|entry| entry.answer.is_some() && entry.error.is_some()) {
            Some(entry) => Err(wrong(format!("operation {} has both `answer` and `error`", entry.op).into())),
            None => Ok(cassette),
        }
    }

    /// The file: one item a line, the same bytes for the same run.
    pub fn text(&self) -> String {
        let compact = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n", json::laid_out(&compact))
    }

    /// The clock at its begin, in Unix milliseconds.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it is no time.
    fn now_ms(&self) -> Result<u64> {
        humantime::parse_rfc3339(&self.clock).map(unix_ms).map_err(|error| {
            let what = format!("the clock of the cassette, {:?}, is no time", self.clock);
            Error::new(ErrorCode::InvalidArgs, what).caused_by(error).hint("write it like 2026-01-31T12:00:00.000Z")
        })
    }

    /// A script on it, with limits of no more than `most`: its frame, with the code as it was written.
    ///
    /// # Errors
    /// `INVALID_ARGS` when its clock is no time.
    pub fn script(&self, language: Language, code: String, most: Limits) -> Result<Run> {
        let (servers, args, now_ms) = (self.servers.clone(), self.args.clone(), self.now_ms()?);
        let (limits, seed) = (bounded(Some(self.limits), most), stubgen::sha256(&self.seed));
        Ok(Run { run: 0, language, code, servers, limits, seed, now_ms, args })
    }

    /// Operations to be played.
    ///
    /// # Errors
    /// `INVALID_ARGS` when its clock is no time.
    pub fn tape(&self) -> Result<Tape> {
        let now_ms = self.now_ms()?;
        let mut tape = Tape { now_ms, ..Tape::default() };
        for (order, entry) in self.operations.iter().enumerate() {
            let outcome = match (&entry.answer, &entry.error) {
                (Some(answer), _) => Some(Outcome::Ok(answer.clone())),
                (None, Some(error)) => Some(Outcome::Err(error.clone())),
                (None, None) => None,
            };
            let now_ms = now_ms.saturating_add(entry.ms.unwrap_or_default());
            let answer = outcome.map(|outcome| TapedAnswer { order, now_ms, outcome: Ok(outcome) });
            let ask = if entry.ask.is_null() { serde_json::Map::new().into() } else { entry.ask.clone() };
            let asked = Asked { kind: entry.request.clone(), fields: ask };
            tape.operations.push(Taped { number: entry.op, asked, answer });
        }
        // The n-th of a kind is the n-th that the script asks for.
        tape.operations.sort_by_key(|operation| operation.number);
        Ok(tape)
    }

    /// Sets the operations: those of a played tape, as the script asked for them now.
    pub fn record(&mut self, played: &Tape, player: &Player) {
        let surface = self.redaction.surface();
        let mut entries = Vec::new();
        for (index, (asked, number)) in player.asked().into_iter().enumerate() {
            let taped = number.and_then(|number| played.operations.iter().find(|taped| taped.number == number));
            let given = taped.and_then(|taped| taped.answer.as_ref());
            let asked = asked.redacted(surface);
            let (mut answer, mut error) = (None, None);
            match given.map(|given| &given.outcome) {
                Some(Ok(Outcome::Ok(value))) => answer = Some(value.clone()),
                Some(Ok(Outcome::Err(failed))) => error = Some(failed.clone()),
                Some(Err(_)) | None => {}
            }
            let ms = given.map(|given| given.now_ms.saturating_sub(played.now_ms)).filter(|ms| *ms > 0);
            let entry = Entry { op: index as u64 + 1, request: asked.kind, ask: asked.fields, ms, answer, error };
            entries.push((given.map_or(usize::MAX, |given| given.order), entry));
        }
        entries.sort_by_key(|(order, _)| *order);
        self.operations = entries.into_iter().map(|(_, entry)| entry).collect();
    }
}

/// Limits of a replay: those of the record, if it has any, and no more than `most`.
pub fn bounded(limits: Option<Limits>, most: Limits) -> Limits {
    let limits = limits.unwrap_or(most);
    Limits {
        cpu_ms: limits.cpu_ms.min(most.cpu_ms),
        heap_bytes: limits.heap_bytes.min(most.heap_bytes),
        output_bytes: limits.output_bytes.min(most.output_bytes),
        result_bytes: limits.result_bytes.min(most.result_bytes),
        calls: limits.calls.min(most.calls),
    }
}

/// A cassette without operations, of a run that began so.
pub fn blank(language: Language, seed: String, now_ms: u64, results: Results) -> Cassette {
    let clock = rfc3339_millis(now_ms);
    let expected = Expected { outcome: String::new(), value: None, error: None, engine: None, output: Vec::new() };
    let limits = Limits { cpu_ms: 0, heap_bytes: 0, output_bytes: 0, result_bytes: 0, calls: 0 };
    Cassette {
        cassette: VERSION,
        language,
        seed,
        clock,
        redaction: Redacted::of(results),
        limits,
        args: None,
        servers: Vec::new(),
        tools: Vec::new(),
        operations: Vec::new(),
        expected,
    }
}

impl Expected {
    /// The result of a run, as a cassette shows it.
    #[must_use]
    pub fn redacted(self, redaction: Redacted) -> Self {
        let output = Surface::Output(redaction.results());
        Self {
            value: self.value.map(|value| value.redacted(redaction.surface())),
            error: self.error.map(|error| error.redacted(output)),
            // A private key has several lines.
            output: self.output.join("\n").redacted(output).lines().map(str::to_owned).collect(),
            ..self
        }
    }
}

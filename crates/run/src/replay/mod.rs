//! Runs a script again, on recorded answers alone: no server, no catalog, no network.

mod cassette;
mod player;
mod tape;
mod tested;

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};
use wire::{Json, Op};

use base::error::{Cause, Error, ErrorCode, Result};
use base::text::beginning;
use base::{json, limits};
use catalog::people;
use redact::{Redaction, Surface};

pub use cassette::{Cassette, Expected, Tool, blank, bounded};
pub use player::{Matching, Player};
pub use tape::{Tape, Taped};
pub use tested::{Difference, Tested};

/// Most bytes of one side of a difference.
const SHOWN: usize = 300;

/// A request of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its kind, such as `tool` or `search`.
    pub kind: String,
    /// Its fields.
    pub fields: Value,
}

impl Asked {
    /// The request in an operation.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it has too many values.
    pub fn of(op: &Op) -> Result<Self> {
        let unfit = |why: Cause| Error::new(ErrorCode::InvalidArgs, "a request is none").caused_by(why);
        let text = serde_json::to_string(op).map_err(|error| unfit(error.into()))?;
        let value = json::parse(text.as_bytes(), limits::JOURNAL_READ.max);
        let mut value: Value = value.map_err(|error| unfit(error.into()))?;
        let given = value.as_object_mut().and_then(|op| op.values_mut().next()?.as_object_mut());
        let mut fields = given.map(std::mem::take).unwrap_or_default();
        fields.retain(|_, value| !value.is_null());
        Ok(Self { kind: <&str>::from(op).to_owned(), fields: fields.into() })
    }

    /// A request that was too large for the journal.
    pub fn left_out() -> Self {
        Self { kind: "left_out".to_owned(), fields: Map::new().into() }
    }

    /// The same text for the same request.
    pub fn key(&self) -> String {
        format!("{} {}", self.kind, stubgen::identity_json(&self.fields))
    }

    /// The request as it is shown on `surface`.
    #[must_use]
    pub fn redacted<'w>(self, redaction: impl Into<Redaction<'w>>) -> Self {
        Self { fields: redact::json(redaction, self.fields), ..self }
    }

    /// Kind, server and tool: what redaction of arguments does not touch.
    fn subject(&self) -> (&str, Option<&Value>, Option<&Value>) {
        (&self.kind, self.fields.get("server"), self.fields.get("tool"))
    }

    /// Server and tool of a call, as the script names them.
    pub fn tool(&self) -> Option<(&str, &str)> {
        match self.kind.as_str() {
            "tool" => Some((self.fields.get("server")?.as_str()?, self.fields.get("tool")?.as_str()?)),
            _ => None,
        }
    }
}

/// For people: redacted, on one line, cut.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = Value::Null;
        let (name, rest) = match self.tool() {
            Some((server, tool)) => (format!("{server}.{tool}"), self.fields.get("args").unwrap_or(&nothing)),
            None if self.kind == "left_out" => ("a request too large for the journal".to_owned(), &self.fields),
            None => (self.kind.clone(), &self.fields),
        };
        let rest = redact::json(Surface::Log, rest.clone()).to_string();
        let rest = if rest == "{}" { Cow::Borrowed("") } else { beginning(&rest, SHOWN) };
        write!(f, "{}", people::line(format!("{name} {rest}").trim_end()))
    }
}

/// A text for people: redacted, on one line, cut.
pub fn shown(text: &str) -> String {
    people::line(&beginning(&redact::json_text(Surface::Log, text), SHOWN)).into_owned()
}

/// Where a run parted from its record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Parting {
    /// Another request was made than recorded.
    #[error("operation {number} differs\n  recorded: {recorded}\n  now:      {asked}")]
    Other {
        /// Number of the operation.
        number: u64,
        /// The record.
        recorded: Asked,
        /// The script's request now.
        asked: Asked,
    },
    /// A request has no recorded answer.
    #[error("operation {number} has no recorded answer: {asked}")]
    NotRecorded {
        /// Number of the operation.
        number: u64,
        /// The request.
        asked: Asked,
    },
    /// A recorded request was not made.
    #[error("recorded operation {number} was not asked for: {recorded}")]
    Missing {
        /// Number of the recorded operation.
        number: u64,
        /// The record.
        recorded: Asked,
    },
    /// The answer was too large for the journal.
    #[error("the answer of operation {number} is not in the journal, it was too large ({bytes} bytes): {recorded}")]
    LeftOut {
        /// Number of the recorded operation.
        number: u64,
        /// The record.
        recorded: Asked,
        /// Size of the answer.
        bytes: usize,
    },
    /// A request cannot be read.
    #[error("operation {number} cannot be read: {why}")]
    Unreadable {
        /// Number of the operation.
        number: u64,
        /// Why.
        why: String,
    },
    /// The record ends here, as the run did.
    #[error("the record ends here")]
    End,
}

/// A value as JSON text.
fn raw(value: &Value) -> Json {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

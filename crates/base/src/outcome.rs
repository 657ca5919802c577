//! Outcome of a call or an execution, as records, metrics and spans name it.

use std::borrow::Cow;
use std::fmt;

use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorCode, code_name};

/// Outcome of a call or an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// In flight: the script ended before the answer came.
    Running,
    /// With a value.
    Ok,
    /// Not made: the execution is a dry run.
    Planned,
    /// With this error.
    Failed(ErrorCode),
    /// A call without an answer on record, or a word of another version.
    #[default]
    Unknown,
    /// An execution without an end on record: it goes on, or its gateway was killed.
    Unfinished,
}

impl Outcome {
    /// Outcome of work with this result.
    pub fn of<T>(result: &Result<T, Error>) -> Self {
        result.as_ref().map_or_else(|error| Self::Failed(error.code), |_| Self::Ok)
    }

    /// Its name: `running`, `ok`, `planned`, `unknown`, `unfinished` or an error code.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Running => "running".into(),
            Self::Ok => "ok".into(),
            Self::Planned => "planned".into(),
            Self::Unknown => "unknown".into(),
            Self::Unfinished => "unfinished".into(),
            Self::Failed(code) => code_name(code).into(),
        }
    }

    /// The outcome of this name; [`Outcome::Unknown`] for any other word.
    pub fn named(name: &str) -> Self {
        let of_word = [Self::Running, Self::Ok, Self::Planned, Self::Unfinished];
        if let Some(outcome) = of_word.into_iter().find(|outcome| outcome.name() == name) {
            return outcome;
        }
        let code: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        ErrorCode::deserialize(code).map_or(Self::Unknown, Self::Failed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|name| Self::named(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CODES;

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let words = [Outcome::Running, Outcome::Ok, Outcome::Planned, Outcome::Unknown, Outcome::Unfinished];
        for outcome in CODES.map(Outcome::Failed).into_iter().chain(words) {
            let written = serde_json::to_string(&outcome).expect("JSON");
            assert_eq!(serde_json::from_str::<Outcome>(&written).expect("a word"), outcome, "{written}");
        }
        for other in ["", "OK", "of a later version"] {
            assert_eq!(Outcome::named(other), Outcome::Unknown);
        }
    }
}

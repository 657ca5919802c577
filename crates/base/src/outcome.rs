//! Outcome of a call or an execution, as records, metrics and spans name it.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::{Error, ErrorCode, code_name};

/// Outcome of a call or an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// In flight: the script ended before the answer came.
    Running,
    /// With a value.
    Ok,
    /// Not made: the execution is a dry run.
    Planned,
    /// With this error.
    Failed(ErrorCode),
}

impl Outcome {
    /// Outcome of work with this result.
    pub fn of<T>(result: &Result<T, Error>) -> Self {
        result.as_ref().map_or_else(|error| Self::Failed(error.code), |_| Self::Ok)
    }

    /// Its name: `running`, `ok`, `planned` or an error code.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Running => "running".into(),
            Self::Ok => "ok".into(),
            Self::Planned => "planned".into(),
            Self::Failed(code) => code_name(code).into(),
        }
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

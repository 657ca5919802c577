//! Input limits: one table for every field from a script, a client, a server or a file.
//!
//! A limit is checked where its field comes in, before any work on it. The operator's limits are in
//! `config::Limits`. `cargo xtask docs` writes docs/limits.md from the table.

#[cfg(any(test, feature = "fuzzing"))]
mod bounds;
mod fields;

use crate::error::{Error, ErrorCode, Result};
use crate::text;

#[cfg(any(test, feature = "fuzzing"))]
pub use bounds::*;
pub use fields::*;

/// Steps that seeking phrases in a text of a server may take: for each of its bytes, and besides.
pub const PHRASE_WORK: (usize, usize) = (4, 10_000);
/// Steps that checking arguments against a schema may take, as [`PHRASE_WORK`].
pub const SCHEMA_WORK: (usize, usize) = (100, 2_000_000);
/// Steps that making the sample of a dry run may take.
pub const SAMPLE_WORK: usize = 20_000;

/// Unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Items of the field's kind.
    Items,
    /// Levels of nesting.
    Levels,
    /// Seconds of waiting.
    Seconds,
}

impl Unit {
    /// Formats `1 level`, `64 items`.
    pub fn counted(self, count: usize) -> String {
        let unit = match self {
            Self::Bytes => "byte",
            Self::Items => "item",
            Self::Levels => "level",
            Self::Seconds => "second",
        };
        text::counted(count, unit)
    }
}

/// Limit of one field.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Field name in messages.
    pub field: &'static str,
    /// Maximum.
    pub max: usize,
    /// Unit of `max`.
    pub unit: Unit,
    /// Origin of the field.
    pub place: &'static str,
    /// Configuration key that raises it; `None` for a fixed limit.
    pub key: Option<&'static str>,
}

impl Limit {
    const fn new(field: &'static str, max: usize, unit: Unit, place: &'static str) -> Self {
        Self { field, max, unit, place, key: None }
    }

    const fn raised_by(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Checks the size of a field.
    ///
    /// # Errors
    /// `INVALID_ARGS` that names the field, its size, the limit and how to raise it.
    pub fn check(&self, size: usize) -> Result<()> {
        if size <= self.max { Ok(()) } else { Err(self.exceeded(ErrorCode::InvalidArgs, size)) }
    }

    /// The error for a field of this size, with another code than that of [`Limit::check`].
    pub fn exceeded(&self, code: ErrorCode, size: usize) -> Error {
        let Self { field, max, .. } = self;
        let counted = |count: usize| self.unit.counted(count);
        let hint = match self.key {
            Some(key) => format!("send less, or raise `{key}` in the configuration"),
            None => "send less; this limit is fixed (docs/limits.md)".to_owned(),
        };
        Error::new(code, format!("{field}: {}, over the limit of {}", counted(size), counted(*max))).hint(hint)
    }
}

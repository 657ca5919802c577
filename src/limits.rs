//! The edge: one table of limits for every field that a script, a client, a server or a file fills in.
//!
//! A limit here is checked where its field comes in, before any work on it. Limits that an operator sets are in
//! [`crate::config::Limits`]. `cargo xtask docs` writes docs/limits.md from the table.

mod bounds;
mod fields;

use crate::error::{Error, ErrorCode, Result};

pub use bounds::*;
pub use fields::*;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Things of the field's kind.
    Items,
    /// Levels of nesting.
    Levels,
}

impl Unit {
    /// `1 level`, `64 items`.
    fn counted(self, count: usize) -> String {
        let unit = match self {
            Self::Bytes => "byte",
            Self::Items => "item",
            Self::Levels => "level",
        };
        if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
    }
}

/// The most that one field may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The field, as messages name it.
    pub field: &'static str,
    /// The most that is accepted.
    pub max: usize,
    /// What `max` counts.
    pub unit: Unit,
    /// Where the field comes in.
    pub place: &'static str,
    /// The configuration key that raises it; `None` for a fixed limit.
    pub key: Option<&'static str>,
}

impl Limit {
    const fn new(field: &'static str, max: usize, unit: Unit, place: &'static str) -> Self {
        Self { field, max, unit, place, key: None }
    }

    /// Accepts a field of this size.
    ///
    /// # Errors
    /// `INVALID_ARGS` that names the field, its size, the limit and how to raise it.
    pub fn check(&self, size: usize) -> Result<()> {
        if size <= self.max { Ok(()) } else { Err(self.exceeded(ErrorCode::InvalidArgs, size)) }
    }

    /// The error for a field of this size, under another code than [`Limit::check`] gives.
    #[must_use]
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

/// The table as a page of the documentation.
#[must_use]
pub fn documentation() -> String {
    let mut page = include_str!("../templates/limits.md").to_owned();
    for Bound { work, counted, each, besides } in bounds::ALL {
        page.push_str(&format!("| {work} | {} | {each} | {besides} |\n", counted.name()));
    }
    page.push_str(include_str!("../templates/limits-fields.md"));
    for Limit { field, max, unit, place, key } in fields::ALL {
        let most = unit.counted(*max);
        let key = key.map_or_else(|| "fixed".to_owned(), |key| format!("`{key}`"));
        page.push_str(&format!("| {field} | {most} | {place} | {key} |\n"));
    }
    page
}

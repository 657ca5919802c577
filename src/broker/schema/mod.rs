//! JSON Schema against one value, in metered steps.
//!
//! The schema is a server's and the value a script's, and together they can ask for work without end. So the schema is
//! interpreted as it was listed, with nothing compiled: each keyword, property, item and byte that is looked at costs
//! steps, a `$ref` target meets a value once, nesting is bounded, and what is told of problems is bounded in number and
//! length. Drafts 4 to 2020-12; regular expressions and formats are the jsonschema library's, a keyword at a time.

mod apply;
mod assert;
mod form;
mod number;
mod pattern;
mod problems;
mod refs;
mod unevaluated;

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::Value;

use crate::limits::SCHEMA_LEVELS;
use crate::meter::{Meter, Stopped};

pub(super) use form::Dialect;
pub(super) use pattern::Patterns;
pub(super) use problems::{Problem, Problems};

use problems::{At, shown};
use refs::Index;

/// Schemas that may be applied inside each other. Each takes some kilobytes of the thread's stack.
pub(super) const MAX_LEVELS: usize = SCHEMA_LEVELS.max;
/// Answers that are kept of one check, of some 50 bytes each.
const MAX_KNOWN: usize = 100_000;

/// Why a check ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// Its steps are spent, or nobody waits for it.
    Stopped(Stopped),
    /// More than [`MAX_LEVELS`].
    TooDeep,
    /// The schema cannot be read: a reference leads nowhere, a pattern is none. The server decides then.
    Unreadable(String),
    /// So many problems that more say nothing new.
    Enough,
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

/// What is known of a `$ref` target and a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Fits,
    Fails,
    /// It fails, and its problems were told.
    Told,
}

/// One value against one schema.
pub(super) struct Check<'c> {
    root: &'c Value,
    draft: Draft,
    has_ids: bool,
    meter: &'c Meter,
    patterns: &'c Patterns,
    problems: Problems,
    /// Whether only the answer counts, not what is wrong.
    is_quiet: bool,
    levels: usize,
    /// Targets of references that are being applied, each with its value, by address.
    following: Vec<(usize, usize)>,
    /// The lowest place in `following` that an answer took for granted, to end a circle of references.
    assumed: usize,
    known: HashMap<(usize, usize), Known>,
    /// Whether addresses of values may be reused meanwhile, so that nothing is remembered by them.
    is_passing: bool,
    /// The resource (a schema with an `$id`) that references start from, and those it was entered through.
    base: &'c Value,
    scope: Vec<&'c Value>,
    index: Option<Index<'c>>,
    resolved: HashMap<usize, (&'c Value, &'c Value)>,
}

impl<'c> Check<'c> {
    pub(super) fn new(root: &'c Value, dialect: Dialect, meter: &'c Meter, patterns: &'c Patterns) -> Self {
        Self {
            root,
            draft: dialect.draft,
            has_ids: dialect.has_ids,
            meter,
            patterns,
            problems: Problems::default(),
            is_quiet: true,
            levels: 0,
            following: Vec::new(),
            assumed: usize::MAX,
            known: HashMap::new(),
            is_passing: false,
            base: root,
            scope: vec![root],
            index: None,
            resolved: HashMap::new(),
        }
    }

    /// Whether a part of the schema accepts the value.
    pub(super) fn accepts(&mut self, part: &'c Value, value: &Value) -> Result<bool, Halt> {
        self.quietly(|check| check.apply(part, value, &At::ROOT))
    }

    /// The problems there are already, and what is wrong with the value.
    pub(super) fn find(mut self, value: &Value, already: Problems) -> Result<Problems, Halt> {
        self.is_quiet = false;
        self.problems = already;
        match self.apply(self.root, value, &At::ROOT) {
            Ok(_) | Err(Halt::Enough) => Ok(self.problems),
            Err(halt) => Err(halt),
        }
    }

    fn quietly<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Halt>) -> Result<T, Halt> {
        let outer = std::mem::replace(&mut self.is_quiet, true);
        let done = work(self);
        self.is_quiet = outer;
        done
    }

    /// Notes a problem where they are wanted; the answer is that the value does not fit.
    fn fail(&mut self, at: &At<'_>, problem: impl FnOnce(&str) -> Problem) -> Result<bool, Halt> {
        if !self.is_quiet {
            self.problems.add(|| problem(&at.place()));
            if self.problems.are_enough() {
                return Err(Halt::Enough);
            }
        }
        Ok(false)
    }

    /// The same, with the text behind the place.
    fn wrong(&mut self, at: &At<'_>, text: impl FnOnce() -> String) -> Result<bool, Halt> {
        self.fail(at, |place| Problem::at(place, &text()))
    }

    fn spend(&self, steps: usize) -> Result<(), Halt> {
        Ok(self.meter.spend(steps as u64)?)
    }
}

/// The identity of a part of a schema or value, while both stay where they are.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

#[cfg(test)]
mod tests;

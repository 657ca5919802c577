//! Validates one value by JSON Schema, in metered steps.
//!
//! The schema is a server's and the value a script's; together they can demand endless work. So the schema is
//! interpreted, not compiled: each keyword, property, item and byte costs steps, a `$ref` target meets a value once,
//! nesting is bounded, and problems are bounded in number and length. Drafts 4 to 2020-12; regular expressions and
//! formats come from the jsonschema library, one keyword at a time.

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
use stubgen::At;

use base::limits::SCHEMA_LEVELS;
use base::meter::{Meter, Stopped};

pub(super) use form::Dialect;
pub(super) use pattern::Patterns;
pub(super) use problems::{Problem, Problems};

use problems::{place, shown};
use refs::Index;

/// Deepest nesting of applied schemas. Each level takes some kilobytes of the thread's stack.
pub(super) const MAX_LEVELS: usize = SCHEMA_LEVELS.max;
/// Most cached results of one check, of some 50 bytes each.
const MAX_KNOWN: usize = 100_000;

/// Reason why a check ended without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// Out of steps, or abandoned.
    Stopped(Stopped),
    /// Deeper than [`MAX_LEVELS`].
    TooDeep,
    /// Unreadable schema: a dangling reference or an invalid pattern. The server decides then.
    Unreadable(String),
    /// Enough problems: more would say nothing new.
    Enough,
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

/// Result for a `$ref` target and a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Fits,
    Fails,
    /// It fails, and its problems are listed.
    Told,
}

/// Validation of one value.
pub(super) struct Check<'c> {
    root: &'c Value,
    draft: Draft,
    has_ids: bool,
    meter: &'c Meter,
    patterns: &'c Patterns,
    problems: Problems,
    /// True if only the result counts, without problems.
    is_quiet: bool,
    levels: usize,
    /// Reference targets being applied, each with its value, by address.
    following: Vec<(usize, usize)>,
    /// Lowest position in `following` that a result assumed to pass, to break a cycle of references.
    assumed: usize,
    known: HashMap<(usize, usize), Known>,
    /// True while addresses of values may be reused, so that results are not cached.
    is_passing: bool,
    /// The resource (a schema with an `$id`) that references start from, and the resources around it.
    base: &'c Value,
    scope: Vec<&'c Value>,
    index: Option<Index<'c>>,
    resolved: HashMap<usize, (&'c Value, &'c Value)>,
    /// Evaluated properties or items of the value, by position, where a schema asks for the rest.
    seen: Option<Vec<bool>>,
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
            seen: None,
        }
    }

    /// True if a subschema accepts the value.
    pub(super) fn accepts(&mut self, part: &'c Value, value: &Value) -> Result<bool, Halt> {
        self.quietly(|check| check.apply(part, value, &At::ROOT))
    }

    /// Adds the value's problems to `already`.
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

    /// Notes a problem, if they are wanted; the value does not fit.
    fn fail(&mut self, at: &At<'_>, problem: impl FnOnce(&str) -> Problem) -> Result<bool, Halt> {
        if !self.is_quiet {
            self.problems.add(|| problem(&place(at)));
            if self.problems.are_enough() {
                return Err(Halt::Enough);
            }
        }
        Ok(false)
    }

    /// Like `fail`, with the text behind the place.
    fn wrong(&mut self, at: &At<'_>, text: impl FnOnce() -> String) -> Result<bool, Halt> {
        self.fail(at, |place| Problem::at(place, &text()))
    }

    /// True if each of the parts fits. The first that does not ends it where only the result counts.
    fn every<T>(
        &mut self,
        parts: impl IntoIterator<Item = T>,
        mut fits: impl FnMut(&mut Self, T) -> Result<bool, Halt>,
    ) -> Result<bool, Halt> {
        let mut all = true;
        for part in parts {
            all &= fits(self, part)?;
            if !all && self.is_quiet {
                break;
            }
        }
        Ok(all)
    }

    fn spend(&self, steps: usize) -> Result<(), Halt> {
        Ok(self.meter.spend(steps as u64)?)
    }
}

/// Identity of a part of a schema or value, while both stay in place.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

#[cfg(test)]
mod tests;

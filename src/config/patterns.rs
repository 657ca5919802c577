//! Lists of names and patterns of tools.

use globset::{Error, Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use super::document::KeyPath;
use super::error::ConfigError;
use super::values::Values;
use crate::limits;

const FORM: &str = "write a tool's name, or a pattern with `*`, `?`, `[…]` or `{…,…}`";

/// Tools by wire name: each entry is a name, or a pattern that names match as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns(Vec<String>);

/// Patterns made ready to be matched against many names.
#[derive(Debug)]
pub struct Matcher {
    names: Vec<String>,
    globs: GlobSet,
}

/// What holds for some tools of a server only, by their name or a pattern.
#[derive(Debug)]
pub struct PerTool<T>(Vec<Entry<T>>);

#[derive(Debug)]
struct Entry<T> {
    name: String,
    glob: Option<GlobMatcher>,
    value: T,
}

impl<T> PerTool<T> {
    /// Of names and patterns, as they are written.
    pub fn new<'a>(entries: impl IntoIterator<Item = (&'a str, T)>) -> Self {
        let entry = |(name, value): (&'a str, T)| Entry {
            name: name.to_owned(),
            glob: Glob::new(name).ok().map(|glob| glob.compile_matcher()),
            value,
        };
        Self(entries.into_iter().map(entry).collect())
    }

    /// Everything that holds for a tool, with what it is written under.
    pub fn all(&self, tool: &str) -> impl Iterator<Item = (&str, &T)> {
        let is_for =
            move |entry: &&Entry<T>| entry.name == tool || entry.glob.as_ref().is_some_and(|glob| glob.is_match(tool));
        self.0.iter().filter(is_for).map(|entry| (entry.name.as_str(), &entry.value))
    }

    /// What is written under a name or pattern.
    #[must_use]
    pub fn under(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }

    /// The one that counts for a tool: what is written under its full name, else the highest of all.
    #[must_use]
    pub fn one(&self, tool: &str) -> Option<&T>
    where
        T: Ord,
    {
        let named = self.0.iter().find(|entry| entry.name == tool);
        named.map(|entry| &entry.value).or_else(|| self.all(tool).map(|(_, value)| value).max())
    }
}

impl Patterns {
    /// Checks each entry.
    pub(super) fn parse(values: &Values<'_>, key: &KeyPath, raw: Vec<String>) -> Result<Self, ConfigError> {
        let mut entries = Vec::with_capacity(raw.len());
        for (index, entry) in raw.into_iter().enumerate() {
            let key = key.index(index);
            let entry = values.filled(&key, entry)?.text;
            if !is_usable(&entry) {
                return Err(values.document.at_value(&key, "not a usable pattern").with_hint(FORM));
            }
            entries.push(entry);
        }
        let patterns = Self(entries);
        match patterns.globs() {
            Ok(_) => Ok(patterns),
            Err(_) => Err(values.document.at_value(key, "these patterns are too large together").with_hint(FORM)),
        }
    }

    /// One entry that is written as a key.
    pub(super) fn key(values: &Values<'_>, key: &KeyPath, entry: String) -> Result<Self, ConfigError> {
        match is_usable(&entry) && !entry.trim().is_empty() {
            true => Ok(Self(vec![entry])),
            false => Err(values.document.at_key(key, "not a usable pattern").with_hint(FORM)),
        }
    }

    /// The entries as they were written.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// What matches names against all of them.
    #[must_use]
    pub fn matcher(&self) -> Matcher {
        // That they can be built was checked when they were read.
        Matcher { names: self.0.clone(), globs: self.globs().unwrap_or_default() }
    }

    fn globs(&self) -> Result<GlobSet, Error> {
        let globs = self.0.iter().filter_map(|entry| Glob::new(entry).ok());
        let set = globs.fold(GlobSetBuilder::new(), |mut set, glob| {
            set.add(glob);
            set
        });
        set.build()
    }
}

/// Whether it is a name or a pattern that can be matched. Nested alternatives are built recursively.
fn is_usable(entry: &str) -> bool {
    let braces = entry.matches('{').count();
    entry.len() <= limits::TOOL_PATTERN.max && braces <= limits::TOOL_PATTERN_BRACES.max && Glob::new(entry).is_ok()
}

impl Matcher {
    /// Whether an entry is this name or a pattern that it matches.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.names.iter().any(|entry| entry == name) || self.globs.is_match(name)
    }

    /// The entries that match none of these names.
    #[must_use]
    pub fn idle<'b>(&'b self, names: &[&str]) -> Vec<&'b str> {
        let mut used = vec![false; self.names.len()];
        for name in names {
            self.globs.matches(name).into_iter().for_each(|position| used[position] = true);
            self.names.iter().zip(&mut used).filter(|(entry, _)| entry == name).for_each(|(_, used)| *used = true);
        }
        self.names.iter().zip(used).filter(|(_, used)| !used).map(|(entry, _)| entry.as_str()).collect()
    }
}

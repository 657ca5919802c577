//! Lists of names and patterns of tools.

use globset::{Error, Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use super::error::ConfigError;
use super::key::Key;
use base::limits;

const FORM: &str = "write a tool's name, or a pattern with `*`, `?`, `[…]` or `{…,…}`";

/// Tools by wire name: each entry is a name, or a pattern for whole names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns(Vec<String>);

/// Compiled patterns.
#[derive(Debug)]
pub struct Matcher {
    names: Vec<String>,
    globs: GlobSet,
}

/// Settings for some tools of a server, by name or pattern.
#[derive(Debug)]
pub struct PerTool<T>(Vec<Entry<T>>);

#[derive(Debug)]
struct Entry<T> {
    name: String,
    glob: Option<GlobMatcher>,
    value: T,
}

impl<T> PerTool<T> {
    /// From names and patterns as written.
    pub fn new<'a>(entries: impl IntoIterator<Item = (&'a str, T)>) -> Self {
        let entry = |(name, value): (&'a str, T)| Entry {
            name: name.to_owned(),
            glob: Glob::new(name).ok().map(|glob| glob.compile_matcher()),
            value,
        };
        Self(entries.into_iter().map(entry).collect())
    }

    /// All settings for a tool, with their name or pattern.
    pub fn all(&self, tool: &str) -> impl Iterator<Item = (&str, &T)> {
        let is_for =
            move |entry: &&Entry<T>| entry.name == tool || entry.glob.as_ref().is_some_and(|glob| glob.is_match(tool));
        self.0.iter().filter(is_for).map(|entry| (entry.name.as_str(), &entry.value))
    }

    /// The setting for a tool: the one under its full name, else the highest of all that match.
    pub fn one(&self, tool: &str) -> Option<&T>
    where
        T: Ord,
    {
        let named = self.0.iter().find(|entry| entry.name == tool);
        named.map(|entry| &entry.value).or_else(|| self.all(tool).map(|(_, value)| value).max())
    }
}

impl Patterns {
    /// Parses each entry.
    pub(super) fn parse(key: &Key<'_>, raw: Vec<String>) -> Result<Self, ConfigError> {
        let entries = key.each(Some(raw), |key, entry| {
            let entry = key.filled(entry)?;
            match is_usable(&entry) {
                true => Ok(entry),
                false => Err(key.at_value("not a usable pattern").with_hint(FORM)),
            }
        })?;
        let patterns = Self(entries);
        match patterns.globs() {
            Ok(_) => Ok(patterns),
            Err(_) => Err(key.at_value("these patterns are too large together").with_hint(FORM)),
        }
    }

    /// Parses an entry that is written as a key.
    pub(super) fn key(key: &Key<'_>) -> Result<Self, ConfigError> {
        match is_usable(key.name()) && !key.name().trim().is_empty() {
            true => Ok(Self::name(key.name())),
            false => Err(key.at_key("not a usable pattern").with_hint(FORM)),
        }
    }

    /// One name, without characters of a pattern.
    pub(super) fn name(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// From usable entries.
    #[cfg(test)]
    pub(super) fn of(entries: &[&str]) -> Self {
        Self(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    /// Entries as written.
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// A matcher for all of them.
    pub fn matcher(&self) -> Matcher {
        // Checked when they were parsed.
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

/// True for a valid name or pattern. Nested alternatives are built recursively, so they are refused.
fn is_usable(entry: &str) -> bool {
    let braces = entry.matches('{').count();
    entry.len() <= limits::TOOL_PATTERN.max && braces <= limits::TOOL_PATTERN_BRACES.max && Glob::new(entry).is_ok()
}

impl Matcher {
    /// Matches the servers that entries such as `SERVER.TOOL` can be about: each text before a dot, since a server's name may
    /// have dots itself.
    pub(super) fn of_servers<'a>(entries: impl IntoIterator<Item = &'a String>) -> Self {
        let beginnings = |entry: &'a String| entry.match_indices('.').map(|(at, _)| entry[..at].to_owned());
        Patterns(entries.into_iter().flat_map(beginnings).collect()).matcher()
    }

    /// True if an entry is this name, or a pattern that matches it.
    pub fn is_match(&self, name: &str) -> bool {
        self.names.iter().any(|entry| entry == name) || self.globs.is_match(name)
    }

    /// Entries that match none of these names.
    pub fn idle<'b>(&'b self, names: &[&str]) -> Vec<&'b str> {
        let mut used = vec![false; self.names.len()];
        for name in names {
            self.globs.matches(name).into_iter().for_each(|position| used[position] = true);
            self.names.iter().zip(&mut used).filter(|(entry, _)| entry == name).for_each(|(_, used)| *used = true);
        }
        self.names.iter().zip(used).filter(|(_, used)| !used).map(|(entry, _)| entry.as_str()).collect()
    }
}

//! Lists of names and patterns of tools.

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::document::KeyPath;
use super::error::ConfigError;
use super::values::Values;

const FORM: &str = "write a tool's name, or a pattern with `*`, `?`, `[…]` or `{…,…}`";

/// Tools by wire name: each entry is a name, or a pattern that names match as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns(Vec<String>);

/// Patterns made ready to be matched against many names.
pub struct Matcher<'a> {
    names: &'a [String],
    globs: GlobSet,
}

impl Patterns {
    /// Checks each entry.
    pub(super) fn parse(values: &Values<'_>, key: &KeyPath, raw: Vec<String>) -> Result<Self, ConfigError> {
        let mut entries = Vec::with_capacity(raw.len());
        for (index, entry) in raw.into_iter().enumerate() {
            let key = key.index(index);
            let entry = values.filled(&key, entry)?.text;
            if Glob::new(&entry).is_err() {
                return Err(values.document.at_value(&key, "not a usable pattern").with_hint(FORM));
            }
            entries.push(entry);
        }
        Ok(Self(entries))
    }

    /// One entry that is written as a key.
    pub(super) fn key(values: &Values<'_>, key: &KeyPath, entry: String) -> Result<Self, ConfigError> {
        match Glob::new(&entry) {
            Ok(_) if !entry.trim().is_empty() => Ok(Self(vec![entry])),
            _ => Err(values.document.at_key(key, "not a usable pattern").with_hint(FORM)),
        }
    }

    /// The entries as they were written.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// What matches names against all of them.
    #[must_use]
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher { names: &self.0, globs: self.globs() }
    }

    fn globs(&self) -> GlobSet {
        let globs = self.0.iter().filter_map(|entry| Glob::new(entry).ok());
        let set = globs.fold(GlobSetBuilder::new(), |mut set, glob| {
            set.add(glob);
            set
        });
        // Each glob was checked; a set that is too large to build matches names only.
        set.build().unwrap_or_default()
    }
}

impl Matcher<'_> {
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

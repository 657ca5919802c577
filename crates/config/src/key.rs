//! Raw values → typed ones: expansion, ranges, words, paths. The only place that reads the environment.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Env;
use super::document::{Document, KeyPath};
use super::error::ConfigError;
use super::expand::{Expanded, Fault, expand, has_reference};
use super::raw::{DurationText, SizeText};
use super::spending::Amount;
use super::words::{Word, Words};
use super::{suggest, units};

/// A key of the file, with the context to resolve its value and to report a fault of it.
pub(super) struct Key<'a> {
    document: &'a Document<'a>,
    /// Environment for references; `None` in a disabled entry, whose values stay as written.
    pub(super) env: Option<Env<'a>>,
    /// Base of relative paths.
    pub(super) base: &'a Path,
    path: KeyPath,
}

/// ForgeFS's folder in the one that `variable` names: `~/<beside>` where it is unset, `%LOCALAPPDATA%` on Windows;
/// `None` for a user without a home. (XDG Base Directory Specification: a relative path counts as unset.)
pub(super) fn own_folder(env: Env<'_>, variable: &str, beside: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let windows = || if cfg!(windows) { absolute("LOCALAPPDATA") } else { None };
    let folder = absolute(variable).or_else(windows).or_else(|| Some(absolute("HOME")?.join(beside)))?;
    Some(folder.join("forgefs"))
}

impl<'a> Key<'a> {
    /// The whole file.
    pub(super) fn root(document: &'a Document<'a>, env: Env<'a>, base: &'a Path) -> Self {
        Self { document, env: Some(env), base, path: KeyPath::default() }
    }

    /// A key below this one.
    pub(super) fn key(&self, name: &str) -> Self {
        Self { path: self.path.key(name), ..*self }
    }

    /// An element of this array.
    pub(super) fn index(&self, index: usize) -> Self {
        Self { path: self.path.index(index), ..*self }
    }

    /// Its name in the table that it stands in.
    pub(super) fn name(&self) -> &str {
        self.path.last_name()
    }

    /// The path from the root of the file.
    pub(super) fn path_text(&self) -> String {
        self.path.to_string()
    }

    /// An error about its value, or about its nearest existing parent.
    pub(super) fn at_value(&self, message: impl Into<String>) -> ConfigError {
        self.document.at_value(&self.path, message)
    }

    /// An error about the key itself.
    pub(super) fn at_key(&self, message: impl Into<String>) -> ConfigError {
        self.document.at_key(&self.path, message)
    }

    /// Reads the value of a key below this one, if it is given.
    pub(super) fn given<R, T>(
        &self,
        name: &str,
        raw: Option<R>,
        read: impl FnOnce(&Self, R) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        raw.map(|raw| read(&self.key(name), raw)).transpose()
    }

    /// Reads the elements of a list.
    pub(super) fn each<R, T, C: FromIterator<T>>(
        &self,
        list: Option<Vec<R>>,
        mut read: impl FnMut(&Self, R) -> Result<T, ConfigError>,
    ) -> Result<C, ConfigError> {
        let list = list.into_iter().flatten().enumerate();
        list.map(|(index, raw)| read(&self.index(index), raw)).collect()
    }

    /// Reads the entries of a table.
    pub(super) fn entries<R, T>(
        &self,
        table: BTreeMap<String, R>,
        mut read: impl FnMut(&Self, R) -> Result<T, ConfigError>,
    ) -> Result<BTreeMap<String, T>, ConfigError> {
        let entry = |(name, raw): (String, R)| read(&self.key(&name), raw).map(|value| (name, value));
        table.into_iter().map(entry).collect()
    }

    /// Expands references in a text.
    pub(super) fn text(&self, text: String) -> Result<Expanded, ConfigError> {
        let Some(env) = self.env else { return Ok(Expanded::verbatim(text)) };
        let expanded = expand(&text, env).map_err(|fault| ConfigError {
            is_unset: matches!(fault, Fault::Unset(_)),
            ..self.at_value(fault.message()).with_hint(fault.hint())
        })?;
        match expanded.text.contains('\0') {
            true => Err(self.at_value("holds a NUL character")),
            false => Ok(expanded),
        }
    }

    /// A text with its references expanded.
    pub(super) fn expanded(&self, text: String) -> Result<String, ConfigError> {
        self.text(text).map(|expanded| expanded.text)
    }

    /// A text that must not be empty, with the values that it took from the environment.
    pub(super) fn filled_text(&self, text: String) -> Result<Expanded, ConfigError> {
        let expanded = self.text(text)?;
        match expanded.text.trim().is_empty() {
            true => Err(self.at_value("must not be empty")),
            false => Ok(expanded),
        }
    }

    /// A text that must not be empty.
    pub(super) fn filled(&self, text: String) -> Result<String, ConfigError> {
        self.filled_text(text).map(|expanded| expanded.text)
    }

    /// One of a few words; `None` without one, and if the entry is disabled and the word is not known yet.
    pub(super) fn word<T: Words>(&self, word: Option<Word<T>>) -> Result<Option<T>, ConfigError> {
        let Some(word) = word else { return Ok(None) };
        let word = self.expanded(word.text)?;
        if self.is_open(&word) {
            return Ok(None);
        }
        let words = T::words();
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<_> = words.iter().map(|(known, _)| *known).collect();
                Err(self.at_value("not a known value").with_hint(suggest::word_hint(&word, &words)))
            }
        }
    }

    /// Those of a list of words that are known.
    pub(super) fn word_list<T: Words>(&self, list: Option<Vec<Word<T>>>) -> Result<Vec<T>, ConfigError> {
        let words: Vec<Option<T>> = self.each(list, |key, word| key.word(Some(word)))?;
        Ok(words.into_iter().flatten().collect())
    }

    /// A path, resolved against the configuration file.
    pub(super) fn path(&self, text: String) -> Result<PathBuf, ConfigError> {
        let path = self.filled(text)?;
        self.no_tilde(&path)?;
        Ok(if self.is_open(&path) { PathBuf::from(path) } else { self.base.join(path) })
    }

    /// Refuses a leading `~`, which only a shell would expand.
    pub(super) fn no_tilde(&self, path: &str) -> Result<(), ConfigError> {
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
                Err(self.at_value("`~` is not expanded").with_hint(format!("write \"${{HOME}}{rest}\"")))
            }
            _ => Ok(()),
        }
    }

    /// ForgeFS's folder for state; see [`own_folder`].
    pub(super) fn state_folder(&self) -> Option<PathBuf> {
        super::state_folder(self.env?)
    }

    /// A duration within a range.
    pub(super) fn duration(
        &self,
        raw: Option<DurationText>,
        range: RangeInclusive<Duration>,
    ) -> Result<Option<Duration>, ConfigError> {
        let Some(DurationText::Text(text)) = raw else { return Ok(None) };
        let text = self.text(text)?.text;
        if self.is_open(&text) {
            return Ok(None);
        }
        let duration =
            units::duration(&text).ok_or_else(|| self.at_value("not a duration").with_hint(units::DURATION_FORM))?;
        let bounds = || (units::show_duration(*range.start()), units::show_duration(*range.end()));
        self.within(range.contains(&duration), duration.is_zero(), bounds)?;
        Ok(Some(duration))
    }

    /// A size in bytes within a range.
    pub(super) fn size<T: TryFrom<u64>>(
        &self,
        raw: Option<SizeText>,
        range: RangeInclusive<u64>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(SizeText::Text(text)) = raw else { return Ok(None) };
        let text = self.text(text)?.text;
        let bytes = units::size(&text).ok_or_else(|| self.at_value("not a size").with_hint(units::SIZE_FORM))?;
        let bounds = || (units::show_size(*range.start()), units::show_size(*range.end()));
        self.within(range.contains(&bytes), bytes == 0, bounds)?;
        T::try_from(bytes).map(Some).map_err(|_| self.at_value("too large for this machine"))
    }

    /// A whole number within a range.
    pub(super) fn count<T: TryFrom<u32>>(
        &self,
        raw: Option<i64>,
        range: RangeInclusive<u32>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(number) = raw else { return Ok(None) };
        let count = u32::try_from(number).ok().filter(|count| range.contains(count));
        let bounds = || (range.start().to_string(), range.end().to_string());
        self.within(count.is_some(), number == 0, bounds)?;
        Ok(count.and_then(|count| T::try_from(count).ok()))
    }

    /// An amount within a range.
    pub(super) fn amount(
        &self,
        raw: Option<f64>,
        range: RangeInclusive<Amount>,
    ) -> Result<Option<Amount>, ConfigError> {
        let Some(number) = raw else { return Ok(None) };
        let amount = Amount::read(number).filter(|amount| range.contains(amount));
        let bounds = || (range.start().to_string(), format!("{}, with six decimals at most", range.end()));
        self.within(amount.is_some(), number == 0.0, bounds)?;
        Ok(amount)
    }

    fn within(&self, inside: bool, zero: bool, bounds: impl Fn() -> (String, String)) -> Result<(), ConfigError> {
        if inside {
            return Ok(());
        }
        let (least, most) = bounds();
        let error = self.at_value(format!("must be from {least} to {most}"));
        Err(if zero { error.with_hint("zero does not mean unlimited; every limit has a largest value") } else { error })
    }

    /// True if the value is still open: it has references and its entry is disabled.
    pub(super) fn is_open(&self, text: &str) -> bool {
        self.env.is_none() && has_reference(text)
    }
}

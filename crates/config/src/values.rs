//! Raw values → typed ones: expansion, ranges, words, paths. The only place that reads the environment.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Env;
use super::document::{Document, KeyPath};
use super::error::ConfigError;
use super::expand::{Expanded, expand, has_reference};
use super::raw::{DurationText, Number, SizeText};
use super::spending::Amount;
use super::{suggest, units};

/// Context for resolving raw values.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    /// For positions of errors.
    pub(super) document: &'a Document<'a>,
    /// Environment for references; `None` in a disabled entry, whose values stay as written.
    pub(super) env: Option<Env<'a>>,
    /// Base of relative paths.
    pub(super) base: &'a Path,
}

/// See [`Values::own_folder`].
pub(super) fn own_folder(env: Env<'_>, variable: &str, beside: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let windows = || if cfg!(windows) { absolute("LOCALAPPDATA") } else { None };
    let folder = absolute(variable).or_else(windows).or_else(|| Some(absolute("HOME")?.join(beside)))?;
    Some(folder.join("forgefs"))
}

impl Values<'_> {
    /// Expands references in a text.
    pub(super) fn text(&self, key: &KeyPath, text: String) -> Result<Expanded, ConfigError> {
        let Some(env) = self.env else { return Ok(Expanded::verbatim(text)) };
        let expanded =
            expand(&text, env).map_err(|fault| self.document.at_value(key, fault.message()).with_hint(fault.hint()))?;
        match expanded.text.contains('\0') {
            true => Err(self.document.at_value(key, "holds a NUL character")),
            false => Ok(expanded),
        }
    }

    /// ForgeFS's folder in the one that `variable` names: `~/<beside>` where it is unset, `%LOCALAPPDATA%` on Windows;
    /// `None` for a user without a home. (XDG Base Directory Specification: a relative path counts as unset.)
    pub(super) fn own_folder(&self, variable: &str, beside: &str) -> Option<PathBuf> {
        own_folder(self.env?, variable, beside)
    }

    /// A text that must not be empty.
    pub(super) fn filled(&self, key: &KeyPath, text: String) -> Result<Expanded, ConfigError> {
        let expanded = self.text(key, text)?;
        match expanded.text.trim().is_empty() {
            true => Err(self.document.at_value(key, "must not be empty")),
            false => Ok(expanded),
        }
    }

    /// One of a few words; `None` without one, and if the entry is disabled and the word is not known yet.
    pub(super) fn word<T: Copy>(
        &self,
        key: &KeyPath,
        text: impl Into<Option<String>>,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = text.into() else { return Ok(None) };
        let word = self.text(key, text)?.text;
        if self.is_open(&word) {
            return Ok(None);
        }
        match words.iter().find(|(known, _)| *known == word) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let words: Vec<_> = words.iter().map(|(known, _)| *known).collect();
                let hint = suggest::word_hint(&word, &words);
                Err(self.document.at_value(key, "not a known value").with_hint(hint))
            }
        }
    }

    /// A path, resolved against the configuration file.
    pub(super) fn path(&self, key: &KeyPath, text: String) -> Result<PathBuf, ConfigError> {
        let path = self.filled(key, text)?.text;
        self.no_tilde(key, &path)?;
        Ok(if self.is_open(&path) { PathBuf::from(path) } else { self.base.join(path) })
    }

    /// Refuses a leading `~`, which only a shell would expand.
    pub(super) fn no_tilde(&self, key: &KeyPath, path: &str) -> Result<(), ConfigError> {
        match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
                Err(self.document.at_value(key, "`~` is not expanded").with_hint(format!("write \"${{HOME}}{rest}\"")))
            }
            _ => Ok(()),
        }
    }

    /// A duration within a range.
    pub(super) fn duration(
        &self,
        key: &KeyPath,
        raw: Option<DurationText>,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, ConfigError> {
        let Some(DurationText(text)) = raw else { return Ok(default) };
        let text = self.text(key, text)?.text;
        if self.is_open(&text) {
            return Ok(default);
        }
        let duration = units::duration(&text)
            .ok_or_else(|| self.document.at_value(key, "not a duration").with_hint(units::DURATION_FORM))?;
        let bounds = || (units::show_duration(*range.start()), units::show_duration(*range.end()));
        self.within(key, range.contains(&duration), duration.is_zero(), bounds)?;
        Ok(duration)
    }

    /// A size in bytes within a range.
    pub(super) fn size(
        &self,
        key: &KeyPath,
        raw: Option<SizeText>,
        default: usize,
        range: RangeInclusive<u64>,
    ) -> Result<usize, ConfigError> {
        let Some(SizeText(text)) = raw else { return Ok(default) };
        let text = self.text(key, text)?.text;
        let bytes =
            units::size(&text).ok_or_else(|| self.document.at_value(key, "not a size").with_hint(units::SIZE_FORM))?;
        let bounds = || (units::show_size(*range.start()), units::show_size(*range.end()));
        self.within(key, range.contains(&bytes), bytes == 0, bounds)?;
        usize::try_from(bytes).map_err(|_| self.document.at_value(key, "too large for this machine"))
    }

    /// A whole number within a range.
    pub(super) fn count(
        &self,
        key: &KeyPath,
        raw: Option<i64>,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, ConfigError> {
        let Some(number) = raw else { return Ok(default) };
        let count = u32::try_from(number).ok().filter(|count| range.contains(count));
        let bounds = || (range.start().to_string(), range.end().to_string());
        self.within(key, count.is_some(), number == 0, bounds)?;
        Ok(count.unwrap_or(default))
    }

    /// An amount within a range; `None` without one.
    pub(super) fn amount(
        &self,
        key: &KeyPath,
        raw: Option<Number>,
        range: RangeInclusive<Amount>,
    ) -> Result<Option<Amount>, ConfigError> {
        let Some(Number(number)) = raw else { return Ok(None) };
        let amount = Amount::read(number).filter(|amount| range.contains(amount));
        let bounds = || (range.start().to_string(), format!("{}, with six decimals at most", range.end()));
        self.within(key, amount.is_some(), number == 0.0, bounds)?;
        Ok(amount)
    }

    fn within(
        &self,
        key: &KeyPath,
        inside: bool,
        zero: bool,
        bounds: impl Fn() -> (String, String),
    ) -> Result<(), ConfigError> {
        if inside {
            return Ok(());
        }
        let (least, most) = bounds();
        let error = self.document.at_value(key, format!("must be from {least} to {most}"));
        Err(if zero { error.with_hint("zero does not mean unlimited; every limit has a largest value") } else { error })
    }

    /// True if the value is still open: it has references and its entry is disabled.
    pub(super) fn is_open(&self, text: &str) -> bool {
        self.env.is_none() && has_reference(text)
    }
}

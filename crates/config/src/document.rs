//! The parsed file, kept beside the raw types so that every error has a position and a key.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Position};
use super::suggest;

/// One file: its name, its text and its values with their positions.
pub(super) struct Document<'t> {
    file: &'t Path,
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Parses the text without a leading byte order mark.
    pub(super) fn parse(file: &'t Path, text: &'t str) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { file, text, root }),
            Err(error) => Err(ConfigError {
                file: file.to_owned(),
                position: error.span().map(|span| position(text, span.start)),
                key: String::new(),
                message: format!("not valid TOML: {}", error.message().replace('\n', "; ")),
                hint: text.trim_start().starts_with('{').then(|| {
                    "this looks like JSON; here a server is `[servers.<name>]` and `command = \"…\"`".to_owned()
                }),
                is_unset: false,
            }),
        }
    }

    /// Deserialises the document into its raw type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        T::deserialize(toml::de::Deserializer::from(self.root.clone())).map_err(|error| self.explain(&error))
    }

    /// An error about the value at `key`, or about its nearest existing parent.
    pub(super) fn at_value(&self, key: &KeyPath, message: impl Into<String>) -> ConfigError {
        self.error(key, self.find(key).map(|(_, value)| value.span().start), message.into())
    }

    /// An error about `key` itself.
    pub(super) fn at_key(&self, key: &KeyPath, message: impl Into<String>) -> ConfigError {
        self.error(key, self.find(key).map(|(key, _)| key.start), message.into())
    }

    fn error(&self, key: &KeyPath, offset: Option<usize>, message: String) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            position: offset.map(|offset| position(self.text, offset)),
            key: key.to_string(),
            message,
            hint: None,
            is_unset: false,
        }
    }

    /// Rewrites serde's message, which quotes the offending value: that may be a misplaced token.
    fn explain(&self, error: &toml::de::Error) -> ConfigError {
        let Some(span) = error.span() else {
            return self.error(&KeyPath::default(), None, "not a usable configuration".to_owned());
        };
        let key = self.key_at(&span);
        let message = error.message();
        let expected = message.rsplit_once(", expected ").map_or("something else", |(_, expected)| expected);
        if message.starts_with("unknown field") {
            let valid: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            let hint = suggest::key_hint(key.last_name(), &valid);
            return self.error(&key, Some(span.start), "unknown key".to_owned()).with_hint(hint);
        }
        let found = match self.find(&key).map(|(_, value)| value.get_ref()) {
            Some(DeValue::Integer(_)) if expected == "i64" => "one with too many digits",
            Some(value) => kind(value),
            None => "something else",
        };
        let expected = match expected {
            "a map" => "a table",
            "a sequence" => "an array of strings",
            "a boolean" => "`true` or `false`",
            "a string" => "a string in quotes",
            "i64" => "a whole number",
            "f64" => "a number",
            other => other,
        };
        self.error(&key, Some(span.start), format!("expected {expected}, found {found}"))
    }

    /// Position of a key, and its value.
    fn find(&self, key: &KeyPath) -> Option<(Range<usize>, &Spanned<DeValue<'t>>)> {
        let mut steps = key.0.iter();
        let Some(Step::Name(first)) = steps.next() else { return None };
        let mut found = entry(self.root.get_ref(), first)?;
        for step in steps {
            let (_, value) = found;
            found = match step {
                Step::Name(name) => entry(value.get_ref().as_table()?, name)?,
                Step::Index(index) => {
                    let item = value.get_ref().as_array()?.get(*index)?;
                    (item.span(), item)
                }
            };
        }
        Some(found)
    }

    /// The key at this span, or with its value at it.
    fn key_at(&self, span: &Range<usize>) -> KeyPath {
        let mut steps = in_table(self.root.get_ref(), span).unwrap_or_default();
        steps.reverse();
        KeyPath(steps)
    }
}

fn entry<'a, 't>(table: &'a DeTable<'t>, name: &str) -> Option<(Range<usize>, &'a Spanned<DeValue<'t>>)> {
    table.get_key_value(name).map(|(key, value)| (key.span(), value))
}

/// Steps to the span, the last one first; `None` if it is not below. The parser bounds the depth.
fn in_table(table: &DeTable<'_>, span: &Range<usize>) -> Option<Vec<Step>> {
    table.iter().find_map(|(key, value)| {
        let mut steps = if key.span() == *span { Vec::new() } else { in_value(value, span)? };
        steps.push(Step::Name(key.get_ref().clone().into_owned()));
        Some(steps)
    })
}

fn in_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<Vec<Step>> {
    match value.get_ref() {
        DeValue::Table(table) if value.span() != *span || is_header(table, span) => in_table(table, span),
        _ if value.span() == *span => Some(Vec::new()),
        DeValue::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let mut steps = in_value(item, span)?;
            steps.push(Step::Index(index));
            Some(steps)
        }),
        _ => None,
    }
}

/// `[a.b]` gives `a` and `b` the same position; the deeper one is meant.
fn is_header(table: &DeTable<'_>, span: &Range<usize>) -> bool {
    table.values().any(|inner| inner.span() == *span)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Line and column of a byte offset.
pub fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let count = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
    Position {
        line: count(before.bytes().filter(|&byte| byte == b'\n').count()),
        column: count(before[line_start..].chars().count()),
    }
}

/// Path of a value from the root of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone)]
enum Step {
    Name(String),
    Index(usize),
}

impl KeyPath {
    /// A top-level key.
    pub(super) fn root(name: &str) -> Self {
        Self::default().key(name)
    }

    /// A key below this one.
    pub(super) fn key(&self, name: &str) -> Self {
        self.then(Step::Name(name.to_owned()))
    }

    /// An element of this array.
    pub(super) fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Its last name; empty for an element of an array.
    pub(super) fn last_name(&self) -> &str {
        match self.0.last() {
            Some(Step::Name(name)) => name,
            _ => "",
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            match step {
                Step::Name(name) if is_bare(name) => write!(f, "{dot}{name}")?,
                Step::Name(name) => write!(f, "{dot}{name:?}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

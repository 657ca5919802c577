//! The only error of this folder: position, problem, and fix.

use std::fmt;
use std::path::{Path, PathBuf};

use base::text::{brief, head};

/// Bytes of a message that are shown.
const MAX_MESSAGE: usize = 4 << 10;

/// An invalid configuration. Never holds a value from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Position in the file; `None` when the file could not be read.
    pub position: Option<Position>,
    /// Dotted path of the key; empty when the error is not about one key.
    pub key: String,
    /// The problem.
    pub message: String,
    /// The fix.
    pub hint: Option<String>,
    /// True if the file may be valid in another environment: a variable is not set.
    pub is_unset: bool,
}

impl ConfigError {
    /// An error without a position in its file.
    pub(super) fn of_file(file: &Path, key: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            position: None,
            key: key.to_owned(),
            message: message.into(),
            hint: None,
            is_unset: false,
        }
    }

    /// Adds a fix.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A position in a text file, counted from one; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", brief(&self.key))?;
        }
        // A key may have any length, and messages name keys.
        let message = head(&self.message, MAX_MESSAGE);
        write!(f, ": {message}{}", if message.len() < self.message.len() { "…" } else { "" })?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

//! Result of `connect` for one client.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::clients::Client;

/// Outcome for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// Written, and servers were moved.
    Moved,
    /// Nothing to do.
    Same,
    /// Shown only, or declined.
    Left,
    Failed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Written | Self::Moved => "written",
            Self::Same => "unchanged",
            Self::Left => "shown",
            Self::Failed => "failed",
        }
    }
}

/// Outcome with its details.
pub(super) struct Report {
    pub(super) outcome: Outcome,
    /// The changes to the file, as unified diffs; empty without any.
    pub(super) difference: String,
    /// The file as it was.
    pub(super) backup: Option<PathBuf>,
    /// Reason why the file was not edited.
    pub(super) error: Option<String>,
    /// Text to merge into it by hand then.
    pub(super) paste: Option<String>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, difference: String::new(), backup: None, error: None, paste: None }
    }
}

impl Report {
    /// One element of `clients` in `docs/json.md`.
    pub(super) fn json(&self, client: &Client, path: &Path) -> Value {
        json!({
            "client": client.id,
            "name": client.name,
            "path": path.display().to_string(),
            "outcome": self.outcome.word(),
            "difference": Some(&self.difference).filter(|text| !text.is_empty()),
            "backup": self.backup.as_ref().map(|path| path.display().to_string()),
            "error": self.error,
            "paste": self.paste,
        })
    }
}

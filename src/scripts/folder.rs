//! The folder of scripts, each file read once: what is checked, hashed and run is the same text.

use std::path::PathBuf;
use std::sync::Arc;

use wire::Language;

/// One script as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Wire name of its tool: the path below the folder with `/`, without extension.
    pub name: String,
    /// Language by its extension. JavaScript may be TypeScript.
    pub language: Language,
    /// The file.
    pub path: PathBuf,
    /// Its text, without a byte order mark.
    pub code: Arc<str>,
    /// SHA-256 of the text, in hex.
    pub sha256: String,
}

/// Scripts of a folder, by name.
#[derive(Debug, Clone, Default)]
pub struct Folder {
    /// The scripts, sorted by wire name.
    pub scripts: Vec<Source>,
}

/// A folder that cannot be taken, with the place of the mistake.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct FolderError {
    /// Message with the path.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl Folder {
    /// The script with a wire name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Source> {
        self.scripts.iter().find(|script| script.name == name)
    }
}

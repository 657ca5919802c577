//! The configuration file to edit.

use std::path::{Path, PathBuf};

use crate::cli::{Failure, Global, Ui};
use config::{Config, ConfigError, Edit, SCHEMA_ADDRESS, process_env};

/// Note on an edit that widens rights.
pub(in crate::cli) const RELOAD: &str = "run `forgefs reload` to apply it to a running gateway";

/// First line of a new file.
const HEADER: &str = concat!(
    "# ForgeFS configuration. Every key: https://github.com/forgefs/forgefs/blob/main/docs/configuration.md\n\n",
    pins!()
);

/// A configuration file of a person.
pub(in crate::cli) struct Target {
    path: PathBuf,
}

impl Target {
    /// The file in force.
    pub(in crate::cli) fn existing(global: &Global) -> Result<Self, Failure> {
        let cwd = std::env::current_dir().unwrap_or_default();
        Ok(Self { path: cwd.join(global.file()?) })
    }

    /// The file in force, else that of the user, which need not exist.
    pub(in crate::cli) fn any(global: &Global) -> Self {
        let cwd = std::env::current_dir().unwrap_or_default();
        Self { path: cwd.join(Config::place(global.config.as_deref(), &process_env, &cwd)) }
    }

    /// Absolute path.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.path
    }

    /// The path for people.
    pub(in crate::cli) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// The present text; empty without a file.
    pub(in crate::cli) fn text(&self) -> Result<String, Failure> {
        Ok(config::editable(&self.path)?.unwrap_or_default())
    }

    /// Edits the file, and returns the backup of the old one, if there was one; `None` of `change` leaves it as it is. An
    /// edit that would make a valid configuration invalid is refused.
    pub(in crate::cli) fn edit(
        &self,
        change: impl Fn(&Edit<'_>) -> Result<Option<String>, ConfigError>,
    ) -> Result<Option<PathBuf>, Failure> {
        let new = format!("#:schema {SCHEMA_ADDRESS}\n{HEADER}");
        let written = config::edit_file(&self.path, &new, &process_env, change)?;
        Ok(written.and_then(|written| written.backup))
    }
}

/// Says where the old file is.
pub(in crate::cli) fn tell_backup(backup: Option<&Path>, ui: Ui) {
    if let Some(backup) = backup {
        ui.note(&format!("backup: {}", backup.display()));
    }
}

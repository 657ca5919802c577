//! The configuration file to edit.

use std::io;
use std::path::{Path, PathBuf};

use crate::cli::ui::Ui;
use crate::cli::{Failure, Global};
use base::files::Edited;
use base::limits;
use config::{Config, ConfigError, Edit, SCHEMA_ADDRESS, check_text, process_env};

/// Longest file.
const LONGEST: u64 = limits::CONFIGURATION.max as u64;
/// Most attempts on a file that other programs write.
const ATTEMPTS: usize = 20;

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
        match Config::find(global.config.as_deref(), &process_env, Path::new(""))? {
            Some(path) => Ok(Self { path: cwd.join(path) }),
            None => Err(Failure::unconfigured()),
        }
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
        let edited = Edited::read(&self.path, LONGEST).map_err(|error| self.unreadable(&error))?;
        self.text_of(&edited)
    }

    fn text_of(&self, edited: &Edited) -> Result<String, Failure> {
        Ok(check_text(&self.path, edited.content().unwrap_or_default().to_vec())?)
    }

    /// Edits the file, and returns the backup of the old one, if there was one; `None` of `change` leaves it as it is. An
    /// edit that would make a valid configuration invalid is refused.
    pub(in crate::cli) fn edit(
        &self,
        change: impl Fn(&Edit<'_>) -> Result<Option<String>, ConfigError>,
    ) -> Result<Option<PathBuf>, Failure> {
        for _ in 0..ATTEMPTS {
            let edited = Edited::read(&self.path, LONGEST).map_err(|error| self.unreadable(&error))?;
            let before = match edited.content() {
                Some(_) => self.text_of(&edited)?,
                None => format!("#:schema {SCHEMA_ADDRESS}\n{HEADER}"),
            };
            let Some(after) = change(&Edit::parse(&self.path, &before)?)? else { return Ok(None) };
            self.check(&before, &after)?;
            match edited.replace(after.as_bytes()) {
                Ok(backup) => {
                    // The last one is enough to go back, and what was removed is to be gone.
                    if let Some(backup) = &backup {
                        let _ = edited.forget_backups(backup);
                    }
                    return Ok(backup);
                }
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                Err(error) => {
                    return Err(Failure::usage(format!("cannot write {}: {error}", self.shown())));
                }
            }
        }
        let message = format!("{} is being changed by another program; nothing was written", self.shown());
        Err(Failure::usage(message).hint("try again"))
    }

    fn check(&self, before: &str, after: &str) -> Result<(), Failure> {
        let check = |text: &str| Config::parse(text, &self.path, &process_env).map(drop);
        match (check(before), check(after)) {
            (Ok(()), Err(error)) => Err(Failure::usage(format!("the edit would make the file invalid: {error}"))),
            _ => Ok(()),
        }
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        Failure::usage(format!("cannot read {}: {error}", self.shown()))
    }
}

/// Says where the old file is.
pub(in crate::cli) fn tell_backup(backup: Option<&Path>, ui: Ui) {
    if let Some(backup) = backup {
        ui.note(&format!("backup: {}", backup.display()));
    }
}

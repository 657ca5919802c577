//! Failures of commands.

use std::path::Path;

use serde::{Deserialize, Serialize};

use base::error::Error;
use config::{ConfigError, Unwritten};

/// Failure of a command, for people.
#[derive(Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) exit: u8,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit: 2, message: message.into(), hint: None }
    }

    /// There is no configuration.
    pub(super) fn unconfigured() -> Self {
        Self::usage("there is no forge.toml here or in ~/.config/forgefs".to_owned())
            .hint("`forgefs add` or `forgefs init` writes one, `forgefs demo` needs none")
    }

    /// A command line that clap refuses.
    pub(super) fn mistyped(error: &clap::Error) -> Self {
        let text = error.to_string();
        let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
        let failure = Self::usage(message.trim_start_matches("error: ").to_owned());
        let tip = rest.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        failure.hint(tip.unwrap_or("--help shows what is valid"))
    }

    /// An error of what the user typed or configured.
    pub(super) fn of_usage(error: Error) -> Self {
        Self::from(error).exit(2)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self { exit: 4, message: message.into(), hint: None }
    }

    /// A file or folder of the user's that cannot be read or written.
    pub(super) fn of_path(path: &Path, error: impl std::fmt::Display) -> Self {
        Self::usage(format!("{}: {error}", path.display()))
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// With a hint if there is one.
    pub(super) fn hinted(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn exit(self, exit: u8) -> Self {
        Self { exit, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let hint = Some(error.suggested_fix().to_owned());
        Self { exit: error.behaviour().exit, message: error.message, hint }
    }
}

impl From<Unwritten> for Failure {
    fn from(Unwritten { message, hint }: Unwritten) -> Self {
        Self { exit: 2, message, hint }
    }
}

impl From<ConfigError> for Failure {
    fn from(mut error: ConfigError) -> Self {
        let hint = error.hint.take();
        Self { exit: 2, message: error.to_string(), hint }
    }
}

//! `[daemon]`: one gateway for all clients of one configuration file.

use std::time::Duration;

use super::error::ConfigError;
use super::key::Key;
use super::raw::RawDaemon;
use super::units::{DAY, MINUTE, SECOND};
use super::words::words;

/// The `[daemon]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Daemon {
    /// True if `forgefs serve` on stdio attaches to the daemon, and starts it if needed.
    pub auto: bool,
    /// Time without clients after which the daemon ends.
    pub idle_exit: Duration,
}

impl Default for Daemon {
    fn default() -> Self {
        Self { auto: false, idle_exit: 10 * MINUTE }
    }
}

/// Start of the daemon, as `daemon.start` has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Never,
    Auto,
}

words!(Start: "never" = Never, "auto" = Auto);

pub(super) fn daemon(key: &Key<'_>, raw: RawDaemon) -> Result<Daemon, ConfigError> {
    let auto = key.key("start").word(raw.start)? == Some(Start::Auto);
    let idle_exit = key.key("idle_exit").duration(raw.idle_exit, SECOND..=30 * DAY)?;
    Ok(Daemon { auto, idle_exit: idle_exit.unwrap_or(Daemon::default().idle_exit) })
}

//! `[daemon]`: one gateway for all clients of one configuration file.

use std::time::Duration;

use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::RawDaemon;
use super::values::Values;

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
        Self { auto: false, idle_exit: Duration::from_secs(600) }
    }
}

/// Values of `daemon.start`.
pub(super) const STARTS: &[(&str, bool)] = &[("never", false), ("auto", true)];

pub(super) fn daemon(values: Values<'_>, raw: RawDaemon) -> Result<Daemon, ConfigError> {
    const LEAST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(30 * 24 * 3_600);
    let key = KeyPath::root("daemon");
    let usual = Daemon::default();
    let auto = values.word(&key.key("start"), raw.start, STARTS)?.unwrap_or(usual.auto);
    let idle_exit = values.duration(&key.key("idle_exit"), raw.idle_exit, usual.idle_exit, LEAST..=MOST)?;
    Ok(Daemon { auto, idle_exit })
}

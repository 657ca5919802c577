//! `[journal]`: evidence of runs on disk.

use std::path::PathBuf;
use std::time::Duration;

use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::RawJournal;
use super::values::Values;

/// The `[journal]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// State folder that the journals are kept in; `None` if none are written.
    pub folder: Option<PathBuf>,
    /// True if a script without a journal is not run.
    pub required: bool,
    /// Age at which a journal is removed, counted from its last change.
    pub keep: Duration,
    /// Bytes of all journals of a client; over it the oldest are removed.
    pub max_bytes: usize,
    /// True if each line is on disk before the run continues.
    pub fsync: bool,
}

impl Default for Journal {
    fn default() -> Self {
        let keep = Duration::from_secs(7 * 24 * 3_600);
        Self { folder: None, required: false, keep, max_bytes: 1 << 30, fsync: false }
    }
}

pub(super) fn journal(values: Values<'_>, raw: RawJournal) -> Result<Journal, ConfigError> {
    const LEAST: Duration = Duration::from_secs(60);
    const MOST: Duration = Duration::from_secs(3_650 * 24 * 3_600);
    const MIB: u64 = 1 << 20;
    let key = KeyPath::root("journal");
    let usual = Journal::default();
    let folder = values.own_folder("XDG_STATE_HOME", ".local/state").filter(|_| raw.on.unwrap_or(true));
    Ok(Journal {
        folder,
        required: raw.required.unwrap_or(usual.required),
        keep: values.duration(&key.key("keep"), raw.keep, usual.keep, LEAST..=MOST)?,
        max_bytes: values.size(&key.key("max_size"), raw.max_size, usual.max_bytes, MIB..=1024 * 1024 * MIB)?,
        fsync: raw.fsync.unwrap_or(usual.fsync),
    })
}

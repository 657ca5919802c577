//! `[journal]`: evidence of runs on disk.

use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::key::Key;
use super::raw::RawJournal;
use super::units::{DAY, GIB, MIB, MINUTE};

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
        Self { folder: None, required: false, keep: 7 * DAY, max_bytes: 1 << 30, fsync: false }
    }
}

pub(super) fn journal(key: &Key<'_>, raw: RawJournal) -> Result<Journal, ConfigError> {
    let usual = Journal::default();
    Ok(Journal {
        folder: key.state_folder().filter(|_| raw.on.unwrap_or(true)),
        required: raw.required.unwrap_or(usual.required),
        keep: key.key("keep").duration(raw.keep, MINUTE..=3_650 * DAY)?.unwrap_or(usual.keep),
        max_bytes: key.key("max_size").size(raw.max_size, MIB..=1024 * GIB)?.unwrap_or(usual.max_bytes),
        fsync: raw.fsync.unwrap_or(usual.fsync),
    })
}

//! `[audit]`: records of calls.

use std::path::PathBuf;

use super::error::ConfigError;
use super::key::Key;
use super::raw::RawAudit;
use super::units::{GIB, KIB};
use super::words::words;

/// The `[audit]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// Destination of records.
    pub to: AuditTo,
    /// The file, if records go to one.
    pub path: Option<PathBuf>,
    /// Bytes of the file before it is rotated.
    pub max_bytes: usize,
    /// Rotated files that are kept.
    pub keep: u32,
    /// True if each record is on disk before the answer is sent.
    pub fsync: bool,
    /// Calls that are refused when they cannot be put on record before they are sent.
    pub required: Required,
}

/// Calls that need a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Required {
    /// None.
    Nothing,
    /// Those that may write, in the audit log or in the journal of their run.
    Writes,
    /// All, in the audit log.
    Calls,
}

/// Destination of audit records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditTo {
    /// A file.
    File,
    /// The log on standard error, target `forgefs::audit`.
    Stderr,
    /// Nowhere.
    Off,
}

impl Default for Audit {
    fn default() -> Self {
        Self { to: AuditTo::Stderr, path: None, max_bytes: 64 << 20, keep: 5, fsync: false, required: Required::Writes }
    }
}

words!(AuditTo: "file" = File, "stderr" = Stderr, "off" = Off);

pub(super) fn audit(key: &Key<'_>, raw: RawAudit) -> Result<Audit, ConfigError> {
    let usual = Audit::default();
    // A configured destination makes records required; by default the log gets records that the file cannot take.
    let to = key.key("to").word(raw.to)?;
    let is_wanted = to == Some(AuditTo::File) || raw.path.is_some() && to != Some(AuditTo::Off);
    let path = match raw.path {
        Some(path) => Some(key.key("path").path(path)?),
        None => key.state_folder().map(|folder| folder.join("audit.jsonl")),
    };
    let usual_to = if path.is_some() { AuditTo::File } else { usual.to };
    Ok(Audit {
        to: to.unwrap_or(usual_to),
        path,
        max_bytes: key.key("max_size").size(raw.max_size, 64 * KIB..=4 * GIB)?.unwrap_or(usual.max_bytes),
        keep: key.key("keep").count(raw.keep, 1..=1000)?.unwrap_or(usual.keep),
        fsync: raw.fsync.unwrap_or(usual.fsync),
        required: match raw.required.or(is_wanted.then_some(true)) {
            Some(true) => Required::Calls,
            Some(false) => Required::Nothing,
            None => Required::Writes,
        },
    })
}

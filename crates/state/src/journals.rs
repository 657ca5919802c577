//! Journals of runs, as the state keeps them: in private files, or in the store.

pub(super) mod files;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use base::error::{Error, ErrorCode, Result};

/// Journals of runs: a part of the state.
#[async_trait]
pub trait JournalStore: Debug + Send + Sync {
    /// Begins a journal with its first line; its [`Journal`] holds it open for this process alone. With `after`, marks
    /// that journal as continued by this one. Atomic: of several that continue one journal, one begins.
    ///
    /// # Errors
    /// `BUSY` when `after` is still written, `INVALID_ARGS` when another continues it, `INTERNAL` when the journal
    /// cannot be written.
    async fn begin_journal(&self, begin: BeginJournal) -> Result<Arc<dyn Journal>>;

    /// Names of the folders of journals below one.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read.
    async fn journal_folders(&self, folder: &Path) -> Result<Vec<String>>;

    /// Ids of the journals in a folder, oldest first, each with its size and the time since its last line.
    ///
    /// # Errors
    /// `INTERNAL` when the folder cannot be read.
    async fn journal_ids(&self, folder: &Path) -> Result<Vec<(String, u64, Duration)>>;

    /// Key of the journals below a folder: random, made once, and never told.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read or written.
    async fn journal_key(&self, folder: &Path) -> Result<String>;

    /// One of them; `None` if there is none with this id.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read.
    async fn journal(&self, folder: &Path, id: &str) -> Result<Option<JournalFile>>;

    /// Lines of a journal, without half a line at its end; at most `max` bytes.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read, `BUDGET_EXCEEDED` when it is larger.
    async fn journal_lines(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>>;

    /// The last whole line of a journal, or as much of its begin as `max` bytes; empty if there is none.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read.
    async fn journal_end(&self, folder: &Path, id: &str, max: usize) -> Result<Vec<u8>>;

    /// Removes a journal that is not being written; false if there is none.
    ///
    /// # Errors
    /// `BUSY` while it is written, `INTERNAL` when it cannot be removed.
    async fn remove_journal(&self, folder: &Path, id: &str) -> Result<bool>;
}

/// A journal that is being written.
pub trait Journal: Debug + Send + Sync {
    /// Appends whole lines: when it returns, they survive the end of this process. What was appended before is there
    /// before it.
    ///
    /// # Errors
    /// When they cannot be written; then none of them is there.
    fn append(&self, lines: &[u8]) -> io::Result<()>;
}

/// Beginning of a journal.
#[derive(Debug)]
pub struct BeginJournal {
    /// Folder of the client's journals.
    pub folder: PathBuf,
    /// Id of the run.
    pub id: String,
    /// First line, without its end.
    pub first: String,
    /// Runs that it continues, each the continuation of the one before.
    pub after: Vec<String>,
    /// True if each line is on disk before [`Journal::append`] returns.
    pub fsync: bool,
}

/// A journal at rest, or being written.
#[derive(Debug, Clone)]
pub struct JournalFile {
    /// Id of the run.
    pub id: String,
    /// First line.
    pub first: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of its last line.
    pub changed: SystemTime,
    /// True while a process writes it.
    pub is_running: bool,
    /// Run that continues it.
    pub next: Option<String>,
}

/// The error of a run whose journal is being written.
pub(super) fn running(run: &str) -> Error {
    Error::new(ErrorCode::Busy, format!("run {run} is still running")).hint("wait for its end, or cancel it first")
}

/// The error of a run that two requests resume.
pub(super) fn taken(run: &str) -> Error {
    let what = format!("run {run} is being resumed by another request");
    Error::new(ErrorCode::Busy, what).hint("resume it again when that one has ended")
}

/// The error of a journal that has more than `max` bytes.
pub(super) fn too_long(run: &str, max: usize) -> Error {
    let what = format!("the journal of run {run} has over {} MiB, too many to be read at once", max >> 20);
    Error::new(ErrorCode::BudgetExceeded, what).hint("run the script anew")
}

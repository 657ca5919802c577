//! Journals of runs: evidence that is written before the run hears of it, and read again to resume and replay it.
//!
//! A journal has a first line with the script, one line for each call before it goes out, one for each task that a server
//! makes of a call, one for each answer before the script gets it, and one for the end. A call without an answer is
//! unknown: it may have been made or not.

mod chain;
mod line;
mod past;
mod reader;
mod recorded;
mod rounds;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::folders::JOURNAL_KEY;
use crate::{BeginJournal, JournalFile, State, kept_folder};
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use base::time::unix_ms;
use base::{limits, memory, task, text};
use config::Config;

pub use chain::Which;
pub use line::{Answered, Asks, End, Head, Line, NESTED, OpenQuestion, RunBy, RunOp, Sent, VERSION, Waits};
pub use past::{Doubt, EarlierCall, Found, Past, Subject, Taken};
pub use reader::Reader;
pub use recorded::{Given, Operation, Recorded};
pub use rounds::{Answers, Asking, Round, run_of};
pub use writer::Writer;

/// Interval at which old journals are removed.
const PRUNING: Duration = Duration::from_secs(600);
/// Bytes that a journal takes on disk beside its lines, at most.
const BLOCK: u64 = 4096;
/// Part of the size of all journals after which old ones are removed before.
const PART: u64 = 8;

/// Most bytes of a script's first line in a listing, far more than is shown: secrets in it are found whole.
const FIRST_LINE: usize = 16 << 10;
/// Newest journals of a client, and of all, among which runs under way are looked for.
const NEWEST: usize = 50;
const LOOKED_AT: usize = 400;
/// Kind of the folder that has the journals of a configuration.
const FOLDER: &str = "journals";

/// The journals of a configuration.
#[derive(Debug)]
pub struct Journals {
    state: Arc<dyn State>,
    /// Has a folder for each client.
    folder: PathBuf,
    /// The gateway that writes them.
    gateway: RunBy,
    keep: Duration,
    /// True if a script without a journal is not run.
    pub required: bool,
    max_bytes: u64,
    fsync: bool,
    /// See [`State::journal_key`].
    key: OnceCell<Arc<str>>,
    pruned: Mutex<Option<Instant>>,
    /// Bytes written since then.
    written: Arc<AtomicU64>,
}

/// A run in its journal.
#[derive(Debug)]
pub struct Run {
    /// First line.
    pub head: Head,
    /// The file.
    pub file: JournalFile,
}

/// A run in a listing, without its script.
#[derive(Debug)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Client that it belongs to.
    pub client: String,
    /// Language of its script; `None` where the first line of its journal is damaged.
    pub language: Option<wire::Language>,
    /// Begin, in Unix milliseconds.
    pub at_ms: u64,
    /// Beginning of the first line of its script.
    pub code: String,
    /// Servers that its script had.
    pub servers: Labels,
    /// Run that continues it.
    pub next: Option<String>,
    /// True while a process writes its journal.
    pub is_running: bool,
}

impl Journals {
    /// Journals of a configuration; `None` where none are written.
    pub fn new(config: &Config, state: &Arc<dyn State>) -> Option<Arc<Self>> {
        let folder = config.journal.folder.as_deref()?;
        Some(Arc::new(Self {
            state: Arc::clone(state),
            folder: kept_folder(folder, FOLDER, config),
            gateway: RunBy { pid: std::process::id(), config: config.absolute_path() },
            keep: config.journal.keep,
            required: config.journal.required,
            max_bytes: config.journal.max_bytes as u64,
            fsync: config.journal.fsync,
            key: OnceCell::new(),
            pruned: Mutex::default(),
            written: Arc::default(),
        }))
    }

    /// Age at which a journal is removed.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Begins the journal of a run of this gateway.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written, `BUSY` when another request continues the same run.
    pub async fn begin(&self, head: Head) -> Result<Arc<Writer>> {
        self.prune();
        let head = Head { gateway: Some(self.gateway.clone()), ..head };
        let key = self.key().await?;
        let first = serde_json::to_string(&Line::<wire::Outcome>::Begun(Box::new(head.clone()))).map_err(not_json)?;
        let Head { run, client, after, .. } = head;
        self.written.fetch_add(first.len() as u64 + BLOCK, Ordering::Relaxed);
        let (id, folder, parent) = (run.clone(), self.of(&client), after.last().cloned());
        let journal = self.state.begin_journal(BeginJournal { folder, id, first, after, fsync: self.fsync }).await?;
        let (kept, written) = (AtomicUsize::new(0), Arc::clone(&self.written));
        Ok(Arc::new(Writer { journal, run, client, parent, key, origins: Mutex::default(), kept, written }))
    }

    /// Key of this installation's digests.
    async fn key(&self) -> Result<Arc<str>> {
        let key = self.key.get_or_try_init(|| async { self.state.journal_key(&self.folder).await.map(Into::into) });
        key.await.cloned()
    }

    /// Checks that a journal can be begun.
    ///
    /// # Errors
    /// The file of the key, and `INTERNAL` when it cannot be used.
    pub async fn probe(&self) -> Result<(), (PathBuf, Error)> {
        self.key().await.map(drop).map_err(|error| (self.folder.join(JOURNAL_KEY), error))
    }

    /// Runs with a journal, oldest first; of one client, or of all. Of each client the newest.
    ///
    /// # Errors
    /// `INTERNAL` when the folder cannot be read.
    pub async fn list(&self, client: Option<&str>) -> Result<Vec<Listed>> {
        let mut runs = Vec::new();
        for owner in self.owners(client).await? {
            let folder = self.of(&owner);
            for (id, ..) in self.state.journal_ids(&folder).await?.iter().rev().take(limits::JOURNALS_LISTED.max) {
                let Some(file) = self.state.journal(&folder, id).await? else { continue };
                let (language, at_ms, code, servers) = match head(&file, &owner) {
                    Ok(Head { language, at_ms, code, servers, .. }) => {
                        let first = code.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
                        let servers = servers.into_iter().map(|server| server.name).collect();
                        (Some(language), at_ms, text::head(first, FIRST_LINE).to_owned(), servers)
                    }
                    Err(_) => (None, unix_ms(file.changed), String::new(), Labels::new()),
                };
                let (client, JournalFile { id, changed, is_running, next, .. }) = (owner.clone(), file);
                runs.push((changed, Listed { id, client, language, at_ms, code, servers, next, is_running }));
            }
        }
        runs.sort_by(|(a, first), (b, second)| (a, &first.id).cmp(&(b, &second.id)));
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// True for a run under this configuration.
    pub fn is_own(&self, head: &Head) -> bool {
        let config = head.gateway.as_ref().and_then(|gateway| gateway.config.as_ref());
        config.is_some() && config == self.gateway.config.as_ref()
    }

    /// Runs under way in all gateways of this configuration, or `everywhere` of this user, among the newest of each client.
    /// Unreadable folders and journals are left out.
    ///
    /// # Errors
    /// `INTERNAL` when the folder of all cannot be read.
    pub async fn running(&self, everywhere: bool) -> Result<Vec<Head>> {
        let mut folders = vec![self.folder.clone()];
        if let Some(state) = self.folder.parent().filter(|_| everywhere) {
            let names = self.state.journal_folders(state).await?.into_iter();
            let kept = names.filter(|name| name.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('-')));
            folders.extend(kept.map(|name| state.join(name)).filter(|folder| *folder != self.folder));
        }
        let (mut running, mut left) = (Vec::new(), LOOKED_AT);
        for folder in folders {
            for owner in self.state.journal_folders(&folder).await.unwrap_or_default() {
                let folder = folder.join(&owner);
                let ids = self.state.journal_ids(&folder).await.unwrap_or_default();
                for (id, ..) in ids.iter().rev().take(NEWEST.min(left)) {
                    left -= 1;
                    let file = self.state.journal(&folder, id).await.ok().flatten().filter(|file| file.is_running);
                    running.extend(file.and_then(|file| head(&file, &owner).ok()));
                }
            }
        }
        Ok(running)
    }

    /// One run; of one client, or of any.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is none: another client's run is not there.
    pub async fn find(&self, client: Option<&str>, id: &str) -> Result<Run> {
        for owner in self.owners(client).await? {
            if let Some(file) = self.state.journal(&self.of(&owner), id).await? {
                return Ok(Run { head: head(&file, &owner)?, file });
            }
        }
        let id = base::text::brief(id);
        Err(Error::new(ErrorCode::InvalidArgs, format!("there is no run `{id}` that can be resumed"))
            .hint("the answer of a run that failed names its id; journals are kept as long as `[journal] keep` says"))
    }

    /// Lines of a run, with memory for them.
    ///
    /// # Errors
    /// `INTERNAL` when they cannot be read, `BUDGET_EXCEEDED` when they are too many, or there is no memory for them.
    pub async fn read(&self, run: &Run) -> Result<Reader> {
        self.reader(&run.head.client, &run.file).await
    }

    async fn reader(&self, client: &str, JournalFile { id, bytes, .. }: &JournalFile) -> Result<Reader> {
        let room = room_for(*bytes).await?;
        let lines = self.state.journal_lines(&self.of(client), id, limits::JOURNAL_READ.max).await?;
        Ok(Reader::new(id, lines, room))
    }

    /// All that the journal of a run tells.
    ///
    /// # Errors
    /// As [`Journals::read`], and `INTERNAL` when it is damaged.
    pub async fn recorded(&self, run: &Run) -> Result<Recorded> {
        let reader = self.read(run).await?;
        task::work_on(reader.bytes(), || Recorded::read(reader))
    }

    /// Removes the journal of a client's run; false if it is gone already.
    ///
    /// # Errors
    /// `BUSY` while it is running, `INTERNAL` when it cannot be removed.
    pub async fn remove(&self, client: &str, run: &str) -> Result<bool> {
        self.state.remove_journal(&self.of(client), run).await
    }

    /// Folder of a client. Names of clients are names of files.
    fn of(&self, client: &str) -> PathBuf {
        self.folder.join(client)
    }

    async fn owners(&self, client: Option<&str>) -> Result<Vec<String>> {
        match client {
            Some(client) => Ok(vec![client.to_owned()]),
            None => self.state.journal_folders(&self.folder).await,
        }
    }

    fn prune(&self) {
        let now = Instant::now();
        let is_due = {
            let mut pruned = self.pruned.lock();
            let is_due = pruned.is_none_or(|last| now.duration_since(last) > PRUNING)
                || self.written.load(Ordering::Relaxed) > self.max_bytes / PART;
            if is_due {
                *pruned = Some(now);
                self.written.store(0, Ordering::Relaxed);
            }
            is_due
        };
        if !is_due {
            return;
        }
        let (state, folder, keep, max_bytes) =
            (Arc::clone(&self.state), self.folder.clone(), self.keep, self.max_bytes);
        // A run does not wait for it.
        tokio::spawn(async move {
            for owner in state.journal_folders(&folder).await.unwrap_or_default() {
                let pruned = pruned(&*state, &folder.join(owner), keep, max_bytes).await;
                pruned.unwrap_or_else(|error| tracing::warn!(%error, "old journals stay"));
            }
        });
    }
}

/// Removes journals of a folder that changed last before `keep`, and the oldest while all are over `max_bytes`; none that is
/// being written.
async fn pruned(state: &dyn State, folder: &Path, keep: Duration, max_bytes: u64) -> Result<()> {
    let journals = state.journal_ids(folder).await?;
    let mut all: u64 = journals.iter().map(|(_, bytes, _)| bytes).sum();
    for (id, bytes, age) in journals {
        if age <= keep && all <= max_bytes {
            break;
        }
        match state.remove_journal(folder, &id).await {
            Ok(_) => all -= bytes,
            Err(error) if error.code == ErrorCode::Busy => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The first line of a journal.
fn head(file: &JournalFile, owner: &str) -> Result<Head> {
    let damaged = || {
        Error::new(ErrorCode::Internal, format!("the journal of run {} has no first line of this version", file.id))
            .hint(format!(
                "what the run did is not known: look at what is done, then run a script for the rest; `forgefs runs delete {}` \
                 removes the journal",
                file.id
            ))
    };
    match serde_json::from_str::<Line>(&file.first) {
        Ok(Line::Begun(head)) if (head.version, &*head.run, &*head.client) == (VERSION, &*file.id, owner) => Ok(*head),
        _ => Err(damaged()),
    }
}

/// Memory for this many bytes of journals, until it is dropped; `None` for few.
async fn room_for(bytes: u64) -> Result<Option<memory::Reservation>> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    limits::JOURNAL_READ.check(size)?;
    if size <= memory::SMALL {
        return Ok(None);
    }
    let taken = memory::ANSWERS.wait_for(size).await;
    taken.map(Some).map_err(|full| {
        let message = format!("there is no memory for what the earlier runs did: {full}");
        Error::new(ErrorCode::BudgetExceeded, message).hint(full.hint())
    })
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorCode::Internal, "a journal's line has no JSON form").caused_by(error)
}

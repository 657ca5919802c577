//! State that outlives a request, behind one trait.
//!
//! Stash, results and approvals are [entries](Entry) in the [`Collection`]s of a session; budgets are [`Counter`]s; rate
//! limits are token buckets; logins and observed shapes are in one file per server. [`Embedded`] is the state of one
//! gateway process: memory, and a private file for state shared by several gateways. [`Shared`] is the state of all
//! replicas of a gateway, in a store. Every operation documents whether it is atomic. When the state is unavailable, an
//! operation fails without effect.
//!
//! `embedded` has the state of one process and `shared` that of replicas, with a Lua script per atomic change. `audit`
//! are the records, `journal` what runs can be resumed and replayed from, `spending` rates, prices and budgets,
//! `shapes` what results were seen to look like, `title` how runs are called.

mod approvals;
pub mod audit;
mod day;
mod dry_run;
mod embedded;
mod entries;
mod folders;
pub mod journal;
mod journals;
mod logins;
mod observed;
mod rates;
pub mod shapes;
mod shared;
pub mod spending;
mod title;

use std::any::Any;
use std::collections::HashSet;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::shapes::Shapes;
use base::error::Result;
use base::files;
use base::labels::Labels;
use base::limits;
use config::{Amount, Config, Limits, Rate};

pub use day::day_file;
pub use dry_run::DryRun;
pub use embedded::Embedded;
pub use folders::{id_of, is_id, kept_folder};
pub use journals::{BeginJournal, Journal, JournalFile, JournalStore};
pub use shared::Shared;
pub use title::title;

/// The state of a configuration: in its store, or in this process and its files.
///
/// # Errors
/// `INTERNAL` when the store's URL or certificates cannot be used.
pub fn open(config: &Config) -> Result<Arc<dyn State>> {
    Ok(match &config.state {
        Some(store) => Arc::new(Shared::new(store)?),
        None => Arc::new(Embedded::default()),
    })
}

/// Entries of collections: the part of the state that a dry run has in a version of its own.
#[async_trait]
pub trait Collections: Debug + Send + Sync {
    /// Entries of one name in a collection, oldest first.
    async fn entries(&self, of: &Collection, name: &str) -> Result<Vec<Entry>>;

    /// All entries of a collection, oldest first; their values may be left out.
    async fn listed(&self, of: &Collection) -> Result<Vec<Entry>>;

    /// Adds an entry in place of those with the same name and labels, and of those it lists. Atomic: concurrent inserts
    /// never exceed its [`Room`].
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when there is no room, or its client holds as much as it may.
    async fn insert(&self, into: &Collection, new: New) -> Result<()>;

    /// Removes entries.
    async fn remove(&self, from: &Collection, ids: &[u64]) -> Result<()>;
}

/// State that outlives a request.
#[async_trait]
pub trait State: Collections + JournalStore {
    /// Names and labels of the entries dropped last to make room, oldest first.
    async fn dropped(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>>;

    /// Number of the next execution of a collection's session, from 1. Atomic: none has the same.
    async fn number(&self, of: &Collection) -> Result<u64>;

    /// Adds `cost` to every counter, unless one would exceed its limit. Atomic: all counters change, or none.
    ///
    /// # Errors
    /// `INTERNAL` when a sum is unknown: an unknown rest is not spent.
    async fn spend(&self, cost: Amount, charges: &[Charge]) -> Result<Spent>;

    /// Refunds what was charged. Atomic for each counter.
    async fn refund(&self, cost: Amount, charges: &[Charge]);

    /// Sum of a counter, if known without waiting.
    fn known(&self, counter: &Counter) -> Option<Amount>;

    /// Takes a token from a bucket, or returns the time until there is one. Atomic. A bucket keeps its level when its
    /// rate changes.
    async fn admit(&self, bucket: &str, rate: Rate) -> Result<Result<(), Duration>>;

    /// Merges further shapes into those of a file, and returns all of them. Atomic.
    ///
    /// # Errors
    /// `INTERNAL` when the file cannot be read or written: nothing was merged.
    async fn observe(&self, file: &Path, more: Shapes) -> Result<Shapes>;

    /// The login kept in a file, as it was stored; `None` without one.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read, or others can.
    async fn login(&self, file: &Path) -> Result<Option<Vec<u8>>>;

    /// Names of the files of a folder of logins.
    ///
    /// # Errors
    /// `INTERNAL` when they cannot be read.
    async fn logins(&self, folder: &Path) -> Result<Vec<String>>;

    /// Version of a login, if known without waiting; `None` without one.
    fn login_version(&self, file: &Path) -> Option<LoginVersion>;

    /// Replaces a login; `None` removes it. Atomic.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written: the old one stays.
    async fn keep_login(&self, file: &Path, login: Option<Vec<u8>>) -> Result<()>;

    /// Waits until no other renews a login, and locks it until dropped.
    ///
    /// # Errors
    /// `INTERNAL` when it is not released in time.
    async fn lock_login(&self, file: &Path) -> Result<LoginLock>;

    /// A record of a folder, as it was stored; `None` if there is none with this id.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be read, or others can change it.
    async fn record(&self, kind: RecordKind, folder: &Path, id: &str) -> Result<Option<Vec<u8>>>;

    /// Ids of the approvals of a folder, in any order.
    ///
    /// # Errors
    /// `INTERNAL` when the folder cannot be read.
    async fn approvals(&self, folder: &Path) -> Result<Vec<String>>;

    /// Replaces the record `before` by `after`; `None` stands for no record. False, without effect, when another one is
    /// there. Atomic, and durable when it returns.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be written: the old one stays.
    async fn keep_record(
        &self,
        kind: RecordKind,
        folder: &Path,
        id: &str,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> Result<bool>;

    /// True if several replicas use it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Asks the replica at which a run waits for its client, or which has a session, to give it up; false where none can
    /// be asked.
    ///
    /// # Errors
    /// `INTERNAL` when the store is away.
    async fn want(&self, run: &str) -> Result<bool>;

    /// Waits until another replica wants a run, or the end of a session.
    async fn wanted(&self, run: &str);

    /// Takes tokens back at all replicas for good, by the hex of their SHA-256, and waits until each that serves refuses them;
    /// false where there are no others.
    ///
    /// # Errors
    /// `INTERNAL` when the store is away, `TIMEOUT` when a replica does not say so.
    async fn revoke(&self, tokens: &[String]) -> Result<bool>;

    /// Tokens taken back at any replica, as of the last look at the store. The first one is waited for.
    async fn revoked(&self) -> Revoked;

    /// Notes that these are refused here, for those who take one back.
    fn refuses(&self, _revoked: &Revoked) {}

    /// Drops the counter of a finished session, and the session's collections.
    fn end(&self, counter: &Counter);
}

/// Hex of the SHA-256 of tokens that were taken back.
pub type Revoked = Arc<HashSet<String>>;

/// Version of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginVersion {
    /// Of a file.
    File(files::Version),
    /// In the store.
    Stored(u64),
}

/// Lock of a login, held until dropped.
pub type LoginLock = Box<dyn Any + Send>;

/// Kind of a record in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// An approval.
    Approval,
    /// Record of a server's first list.
    FirstUse,
    /// What a profile has learned from use.
    Learned,
}

/// Entries of one kind in one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection {
    /// Kind.
    pub kind: Kind,
    /// Client of the session: results and the stash count as its memory.
    pub client: Arc<str>,
    /// Session.
    pub session: Arc<str>,
}

/// A kind of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Values that scripts keep for later ones.
    Stash,
    /// Results too large to answer with.
    Results,
    /// Approvals for the whole session.
    Approvals,
    /// Setup requests of a client; their list has the values.
    Setup,
}

/// Limits of one collection.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of their names and values.
    pub bytes: usize,
    /// Bytes that an entry counts for beside its own.
    pub overhead: usize,
    /// Most sets of labels. If set, the other limits hold for each set, so that free room reveals nothing about entries
    /// that the writer may not see.
    pub label_sets: Option<usize>,
    /// True if the oldest entries make room for a new one, which is refused otherwise.
    pub drops_oldest: bool,
}

impl Room {
    /// Of the results of a session.
    pub const RESULTS: Self = Self {
        entries: limits::RESULT_COUNT.max,
        bytes: limits::RESULTS.max,
        overhead: 0,
        label_sets: None,
        drops_oldest: true,
    };
    /// Of the approvals of a session.
    pub const APPROVALS: Self =
        Self { entries: limits::CONSENTS.max, bytes: limits::CONSENT_BYTES.max, overhead: 256, ..Self::RESULTS };

    /// Of the setup requests of a session: `initialize`, a log level and subscriptions.
    pub const SETUP: Self =
        Self { entries: limits::SUBSCRIBED.max + 2, bytes: limits::SETUP.max, drops_oldest: false, ..Self::RESULTS };

    /// Of the stash of a session.
    pub fn stash(limits: &Limits) -> Self {
        let (entries, bytes) = (limits.stash_entries, limits.stash_bytes);
        Self { entries, bytes, label_sets: Some(8), ..Self::SETUP }
    }
}

/// One entry.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Id in the collection.
    pub id: u64,
    /// Name; several entries may share it.
    pub name: Arc<str>,
    /// Value.
    pub value: Arc<str>,
    /// Bytes of the value.
    pub bytes: usize,
    /// Lines of the value.
    pub lines: usize,
    /// Servers whose data it contains.
    pub labels: Arc<Labels>,
}

/// A new entry.
#[derive(Debug, Clone)]
pub struct New {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Servers whose data it contains.
    pub labels: Labels,
    /// TTL; `None` keeps it for the session.
    pub ttl: Option<Duration>,
    /// Further entries that it replaces.
    pub replaces: Vec<u64>,
    /// Limits of the collection.
    pub room: Room,
}

/// A sum of costs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Of one session.
    Session(Arc<str>),
    /// Of a UTC day, over all gateways that share this file.
    Day(Arc<Path>),
}

/// A counter that a call is charged to.
#[derive(Debug, Clone)]
pub struct Charge {
    /// Counter.
    pub counter: Counter,
    /// Limit of the sum; `None` only counts.
    pub limit: Option<Amount>,
}

/// Result of [`State::spend`].
#[derive(Debug, PartialEq, Eq)]
pub enum Spent {
    /// Charged to every counter.
    Done,
    /// A counter has too little left, and none was changed.
    Refused {
        /// Position of its charge.
        charge: usize,
        /// Sum of that counter.
        spent: Amount,
        /// Start of its next period (RFC 3339), if it has one.
        renews: Option<String>,
    },
}

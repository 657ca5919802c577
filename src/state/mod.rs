//! Everything that outlives a request, behind one trait.
//!
//! Stash, results and approvals are [entries](Entry) in the [`Collection`]s of a session; budgets are [`Counter`]s; rates
//! are buckets. [`Embedded`] is the state of one gateway process: memory, and a private file for what all gateways of a
//! configuration share. Replicas need another implementation, which is why every operation is one round trip and says
//! whether it is atomic. When the state is away, an operation fails and what it was asked for is not done.

mod day;
mod dry_run;
mod embedded;
mod entries;
mod rates;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::config::{Amount, Rate};
use crate::error::Result;
use crate::labels::Labels;
use crate::limits;

pub(crate) use day::day_file;
pub use dry_run::DryRun;
pub use embedded::Embedded;

/// What outlives a request.
#[async_trait]
pub trait State: Debug + Send + Sync {
    /// The entries of a collection, oldest first; only those of one name, if one is given.
    async fn entries(&self, of: &Collection, name: Option<&str>) -> Result<Vec<Entry>>;

    /// Names and labels of the entries that were dropped last to make room, oldest first.
    async fn dropped(&self, of: &Collection) -> Result<Vec<(Arc<str>, Labels)>>;

    /// Adds an entry in place of one with the same name and labels, and of those that it names. Atomic: of several at
    /// once none exceeds the collection's [`Room`].
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED` when there is no room.
    async fn insert(&self, into: &Collection, new: New) -> Result<()>;

    /// Removes entries.
    async fn remove(&self, from: &Collection, ids: &[u64]) -> Result<()>;

    /// Adds `cost` to every counter, unless one would exceed its limit. Atomic: all counters are changed, or none.
    ///
    /// # Errors
    /// `INTERNAL` when a sum is not known: what is not known to be left is not spent.
    async fn spend(&self, cost: Amount, charges: &[Charge]) -> Result<Spent>;

    /// Takes back what was spent. Atomic for each counter.
    async fn refund(&self, cost: Amount, counters: &[Counter]);

    /// The sum of a counter as far as it is known without waiting.
    fn known(&self, counter: &Counter) -> Option<Amount>;

    /// Takes one from a bucket, or says how long it has to fill up. Atomic. A bucket whose rate has changed keeps its
    /// level.
    async fn admit(&self, bucket: &str, rate: Rate) -> Result<Result<(), Duration>>;

    /// Forgets the counter of a run or a session that has ended, and the collections of the session.
    fn end(&self, counter: &Counter);
}

/// The entries of one kind in one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection {
    /// Their kind.
    pub kind: Kind,
    /// The session.
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
}

/// Bounds of one collection.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Entries.
    pub entries: usize,
    /// Bytes of their names and values.
    pub bytes: usize,
    /// Bytes that an entry is taken for beside its own.
    pub overhead: usize,
    /// Sets of labels. Where this is given, the other bounds hold for each set, so that an entry's room says nothing of
    /// entries that its writer may not see.
    pub label_sets: Option<usize>,
    /// Whether the oldest entries make room for a new one, which is refused otherwise.
    pub drops_oldest: bool,
}

impl Kind {
    /// Its bounds.
    #[must_use]
    pub fn room(self) -> Room {
        match self {
            Self::Stash => Room {
                entries: limits::STASH_ENTRIES.max,
                bytes: limits::STASH.max,
                overhead: 0,
                label_sets: Some(8),
                drops_oldest: false,
            },
            Self::Results => Room {
                entries: limits::RESULT_COUNT.max,
                bytes: limits::RESULTS.max,
                overhead: 0,
                label_sets: None,
                drops_oldest: true,
            },
            Self::Approvals => Room {
                entries: limits::CONSENTS.max,
                bytes: limits::CONSENT_BYTES.max,
                overhead: 256,
                label_sets: None,
                drops_oldest: true,
            },
        }
    }
}

/// One entry.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number in the collection.
    pub id: u64,
    /// Its name; several entries may have the same.
    pub name: Arc<str>,
    /// Its value.
    pub value: Arc<str>,
    /// Lines of the value.
    pub lines: usize,
    /// The servers whose data it is made of.
    pub labels: Arc<Labels>,
}

/// An entry to be added.
#[derive(Debug, Clone, Default)]
pub struct New {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The servers whose data it is made of.
    pub labels: Labels,
    /// How long it is kept; as long as the session if this is not given.
    pub ttl: Option<Duration>,
    /// Entries that it replaces besides.
    pub replaces: Vec<u64>,
}

/// A sum of costs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Of one run.
    Run(Arc<str>),
    /// Of one session.
    Session(Arc<str>),
    /// Of a UTC day, over all gateways that share this file.
    Day(Arc<Path>),
}

/// A counter that a call is charged to.
#[derive(Debug, Clone)]
pub struct Charge {
    /// The counter.
    pub counter: Counter,
    /// The most that it may come to; `None` only counts.
    pub limit: Option<Amount>,
}

/// Result of [`State::spend`].
#[derive(Debug, PartialEq, Eq)]
pub enum Spent {
    /// Every counter has it.
    Done,
    /// A counter has no room, and none was changed.
    Refused {
        /// Position of its charge.
        charge: usize,
        /// Its sum.
        spent: Amount,
        /// When it begins anew (RFC 3339), if it does.
        renews: Option<String>,
    },
}

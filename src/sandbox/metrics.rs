//! What a pool has done since it was made, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A reading of a pool's counters and of what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Scripts that were given to a worker.
    pub runs: u64,
    /// Scripts that had to wait for a place.
    pub waited: u64,
    /// Scripts that were refused as BUSY.
    pub refused: u64,
    /// Worker processes that were started.
    pub started: u64,
    /// Workers that could not be started.
    pub failed_starts: u64,
    /// Workers replaced after their number of runs, at their age or for the memory they kept.
    pub recycled: u64,
    /// Workers replaced because their script met the end of its heap or CPU time, or because they were found dead,
    /// talking or silent while idle.
    pub discarded: u64,
    /// Workers killed for a deadline, a crash, or a breach of the protocol.
    pub killed: u64,
    /// Workers killed because whoever wanted the result went away.
    pub cancelled: u64,
    /// Workers that wait for a script now.
    pub idle: u64,
    /// Workers that run one now.
    pub busy: u64,
    /// Scripts that wait for a place now.
    pub waiting: u64,
}

/// The counters behind [`Metrics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) runs: Counter,
    pub(super) waited: Counter,
    pub(super) refused: Counter,
    pub(super) started: Counter,
    pub(super) failed_starts: Counter,
    pub(super) recycled: Counter,
    pub(super) discarded: Counter,
    pub(super) killed: Counter,
    pub(super) cancelled: Counter,
}

impl Counters {
    /// The counters, without what the pool holds now.
    pub(super) fn read(&self) -> Metrics {
        Metrics {
            runs: self.runs.get(),
            waited: self.waited.get(),
            refused: self.refused.get(),
            started: self.started.get(),
            failed_starts: self.failed_starts.get(),
            recycled: self.recycled.get(),
            discarded: self.discarded.get(),
            killed: self.killed.get(),
            cancelled: self.cancelled.get(),
            ..Metrics::default()
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! Metrics of a worker pool.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counters of a pool, and its current state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// Scripts given to a worker.
    pub runs: u64,
    /// Scripts that waited for a slot.
    pub waited: u64,
    /// Scripts refused as BUSY.
    pub refused: u64,
    /// Workers started.
    pub started: u64,
    /// Failed starts.
    pub failed_starts: u64,
    /// Workers replaced for their number of runs, their age or the memory they kept.
    pub recycled: u64,
    /// Workers replaced because their script met its heap or CPU limit, or because they were dead, talking or silent
    /// while idle.
    pub discarded: u64,
    /// Workers killed for a deadline, a crash, or a breach of the protocol.
    pub killed: u64,
    /// Workers killed because their request was cancelled.
    pub cancelled: u64,
    /// Idle workers now.
    pub idle: u64,
    /// Busy workers now.
    pub busy: u64,
    /// Checkers that wait for a script now.
    pub idle_checkers: u64,
    /// Checkers killed for a deadline, a crash, or a breach of the protocol.
    pub killed_checkers: u64,
    /// Scripts that wait for a place now.
    pub waiting: u64,
}

/// Counters behind [`Metrics`].
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
    /// Reads the counters, without the pool's current state.
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

/// A monotonic counter.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

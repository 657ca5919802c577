//! Metrics of a worker pool.

use parking_lot::Mutex;
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

/// The counters of [`Metrics`].
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Metrics>);

/// One of the counters.
pub(super) type Counter = fn(&mut Metrics) -> &mut u64;

impl Counters {
    pub(super) fn add(&self, counter: Counter) {
        *counter(&mut self.0.lock()) += 1;
    }

    /// Reads the counters, without the pool's current state.
    pub(super) fn read(&self) -> Metrics {
        *self.0.lock()
    }
}

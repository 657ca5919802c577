//! Processes of one kind, kept warm.

use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::metrics::{Counter, Counters};
use super::process::{Spec, Worker};
use base::error::Result;

/// A process that fails to start in less time is started again, once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Uses after which the memory of a process is looked at again.
const WEIGHED: u64 = 8;
/// How long an idle process may take to answer.
const PULSE: Duration = Duration::from_secs(10);

/// The idle processes of one kind. Dropping it kills them.
pub(super) struct Warm {
    spec: Spec,
    /// How many are kept idle.
    wanted: usize,
    /// How many may be idle when they come back.
    most: usize,
    /// In the order in which they came back. The first of the last [`Self::wanted`] is taken: it has had the most time to
    /// make its next scope, and those beyond need come to lie idle.
    idle: Mutex<VecDeque<Worker>>,
    /// Held while idle processes are made, so that two who miss one do not make two.
    refill: tokio::sync::Mutex<()>,
    pub(super) counters: Counters,
}

impl Warm {
    pub(super) fn new(spec: Spec, wanted: usize, most: usize) -> Arc<Self> {
        Arc::new(Self {
            spec,
            wanted,
            most: most.max(wanted),
            idle: Mutex::default(),
            refill: tokio::sync::Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Starts processes until as many are idle as are wanted.
    ///
    /// # Errors
    /// `INTERNAL` when one does not start.
    pub(super) async fn warm_up(&self) -> Result<()> {
        let _one_at_a_time = self.refill.lock().await;
        while self.idle.lock().len() < self.wanted {
            let worker = self.start().await?;
            self.put_back(worker);
        }
        Ok(())
    }

    /// The number of idle processes.
    pub(super) fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    /// An idle process, or a new one.
    ///
    /// # Errors
    /// `INTERNAL` when none starts.
    pub(super) async fn take(&self) -> Result<Worker> {
        match self.take_idle() {
            Some(worker) => Ok(worker),
            None => self.start_anew().await,
        }
    }

    /// The same for short work: while one process is being started, others may come back.
    ///
    /// # Errors
    /// `INTERNAL` when none starts.
    pub(super) async fn take_in_turn(&self) -> Result<Worker> {
        if let Some(worker) = self.take_idle() {
            return Ok(worker);
        }
        let _one_at_a_time = self.refill.lock().await;
        self.take().await
    }

    fn take_idle(&self) -> Option<Worker> {
        loop {
            let mut worker = self.longest_ready()?;
            // One that died, or spoke, while it waited is no reason to fail a script.
            if worker.is_sound() {
                worker.is_warm = true;
                return Some(worker);
            }
            self.counters.add(|all| &mut all.discarded);
        }
    }

    fn longest_ready(&self) -> Option<Worker> {
        let mut idle = self.idle.lock();
        let surplus = idle.len().saturating_sub(self.wanted.max(1));
        idle.remove(surplus)
    }

    /// A new process, in two attempts if the first one fails at once: it may have been killed.
    pub(super) async fn start_anew(&self) -> Result<Worker> {
        let begun = Instant::now();
        match self.start().await {
            Err(_) if begun.elapsed() < AT_ONCE => self.start().await,
            started => started,
        }
    }

    async fn start(&self) -> Result<Worker> {
        let started = Worker::start(&self.spec).await;
        self.counters.add(if started.is_ok() { |all| &mut all.started } else { |all| &mut all.failed_starts });
        started
    }

    pub(super) fn put_back(&self, worker: Worker) {
        let mut idle = self.idle.lock();
        if idle.len() < self.most {
            idle.push_back(worker);
        }
    }

    /// Works with a process and takes it back; `unfit` counts a reason for which it is ended in place of that. Dropping
    /// the future ends it in the middle of its work.
    pub(super) async fn work<T>(
        self: &Arc<Self>,
        mut worker: Worker,
        work: impl AsyncFnOnce(&mut Worker) -> T,
        unfit: impl FnOnce(&T) -> Option<Counter>,
    ) -> T {
        let unfinished = scopeguard::guard((), |()| {
            self.counters.add(|all| &mut all.cancelled);
            self.replace();
        });
        let done = work(&mut worker).await;
        ScopeGuard::into_inner(unfinished);
        let is_worn = self.is_old(&worker) || (worker.uses.is_multiple_of(WEIGHED) && self.is_fat(&worker));
        match unfit(&done).or_else(|| is_worn.then_some::<Counter>(|all| &mut all.recycled)) {
            None => self.put_back(worker),
            Some(counter) => {
                self.counters.add(counter);
                drop(worker);
                self.replace();
            }
        }
        done
    }

    /// Looks at each idle process once: the dead, the silent and the worn are let go, and those beyond need.
    pub(super) async fn check_up(&self) {
        let idle = self.idle();
        // More than are needed: those that were used last stay.
        self.idle.lock().drain(..idle.saturating_sub(self.wanted));
        for _ in 0..self.wanted {
            let Some(mut worker) = self.idle.lock().pop_front() else { return };
            if self.is_old(&worker) || self.is_fat(&worker) {
                self.counters.add(|all| &mut all.recycled);
            } else if !worker.is_sound() || !worker.answers(PULSE).await {
                self.counters.add(|all| &mut all.discarded);
            } else {
                self.put_back(worker);
            }
        }
    }

    fn is_old(&self, worker: &Worker) -> bool {
        worker.uses >= self.spec.wear.scripts || worker.born.elapsed() >= self.spec.wear.age
    }

    fn is_fat(&self, worker: &Worker) -> bool {
        worker.memory().saturating_sub(worker.first_memory) > self.spec.wear.growth
    }

    /// Starts a successor for a process that is gone, ahead of need.
    fn replace(self: &Arc<Self>) {
        // Without a runtime the gateway is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let warm = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = warm.warm_up().await {
                tracing::warn!(%error, "no new sandbox worker");
            }
        });
    }
}

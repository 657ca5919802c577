//! Warm workers, one run each at a time.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use wire::{Ready, Run, ScriptErrorKind, Stats};

use super::metrics::{Counter, Counters, Metrics};
use super::process::{Spec, Worker};
use super::{Captured, Failure, Host, Report};
use crate::error::{Error, ErrorCode, Result};
use crate::pause::Pause;

/// Runs of one worker before it is replaced.
const MAX_USES: u64 = 500;
/// Age at which a worker is replaced.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);
/// Memory that a worker may keep between runs beyond what it had when it was new, in bytes.
const MAX_GROWTH: u64 = 128 << 20;
/// How often idle workers are looked after.
const CHECKUP: Duration = Duration::from_secs(30);
/// A worker that fails to start in less time is started again, once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Runs that wait for a person without a place among the runs at once. Each keeps its worker.
const MAX_PARKED: usize = 32;
/// How long an idle worker may take to answer.
const PULSE: Duration = Duration::from_secs(10);

/// How a pool is set up.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The executable that becomes a worker.
    pub exe: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Workers kept warm.
    pub warm: usize,
    /// Runs at once.
    pub runs: usize,
    /// Runs that may wait.
    pub queue: usize,
    /// Layers of the process sandbox without which nothing runs, as [`wire::Layer::name`] has them.
    pub require: Vec<String>,
}

/// The workers of one gateway. Dropping it kills those that are idle.
pub struct Pool {
    spec: Spec,
    warm: usize,
    runs: usize,
    queue: usize,
    /// In the order in which they came back. The first of the last [`Self::warm`] is taken: it has had the most time to
    /// make its next scope, and those beyond need come to lie idle.
    idle: Mutex<VecDeque<Worker>>,
    /// Held while idle workers are made, so that two who miss one do not make two.
    refill: tokio::sync::Mutex<()>,
    places: Semaphore,
    parking: Semaphore,
    waiting: AtomicUsize,
    counters: Counters,
}

impl Pool {
    /// A pool without workers yet; they start on demand, or ahead of it by [`Pool::keep_warm`].
    #[must_use]
    pub fn new(options: PoolOptions) -> Arc<Self> {
        Arc::new(Self {
            spec: Spec { exe: options.exe, args: options.args, require: options.require },
            warm: options.warm,
            runs: options.runs,
            queue: options.queue,
            idle: Mutex::default(),
            refill: tokio::sync::Mutex::default(),
            places: Semaphore::new(options.runs),
            parking: Semaphore::new(MAX_PARKED),
            waiting: AtomicUsize::new(0),
            counters: Counters::default(),
        })
    }

    /// Starts workers until as many are idle as are to be kept warm.
    ///
    /// # Errors
    /// `INTERNAL` when a worker does not start.
    pub async fn warm_up(&self) -> Result<()> {
        let _one_at_a_time = self.refill.lock().await;
        while self.idle.lock().len() < self.warm {
            let worker = self.start().await?;
            self.put_back(worker);
        }
        Ok(())
    }

    /// Warms up, and looks after the idle workers for as long as it is polled: the dead, the silent and the old are
    /// replaced, and those beyond the number to be kept warm are let go.
    pub async fn keep_warm(&self) {
        loop {
            if let Err(error) = self.warm_up().await {
                tracing::warn!(%error, "no sandbox worker");
            }
            tokio::time::sleep(CHECKUP).await;
            self.check_up().await;
        }
    }

    /// What a worker of this pool can run and how it is confined.
    ///
    /// # Errors
    /// `INTERNAL` when no worker starts.
    pub async fn describe(&self) -> Result<Ready> {
        let worker = self.take().await?;
        let ready = worker.ready.clone();
        self.put_back(worker);
        Ok(ready)
    }

    /// What the pool has done so far and what it holds.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let count = |number: usize| number as u64;
        Metrics {
            idle: count(self.idle.lock().len()),
            busy: count(self.runs.saturating_sub(self.places.available_permits())),
            waiting: count(self.waiting.load(Ordering::Relaxed)),
            ..self.counters.read()
        }
    }

    /// Runs a script. Dropping the future kills the worker that runs it.
    pub async fn run(self: &Arc<Self>, run: Run, host: &dyn Host, wall: Duration) -> Report {
        let place = match self.place(wall).await {
            Ok(place) => place,
            Err(error) => return not_run(error),
        };
        self.counters.runs.add();
        let attempts = async {
            let report = self.attempt(&run, host, wall).await;
            if !report.begun && matches!(report.result, Err(Failure::Protocol(_))) {
                // The worker broke the protocol before it did anything for this script: what it said was meant for
                // the last one, or for any.
                return self.attempt(&run, host, wall).await;
            }
            report
        };
        self.in_place(place, host.pause(), attempts).await
    }

    /// Does `work` in a place that others may have while a person is being asked: who does not answer keeps nobody
    /// from running. The work goes on when there is an answer, and takes the next place that is free.
    async fn in_place<'a, T>(&'a self, place: SemaphorePermit<'a>, pause: &Pause, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let (mut place, mut parked) = (Some(place), None);
        loop {
            let parking = async {
                pause.until(true).await;
                self.parking.acquire().await.ok()
            };
            let back = async {
                pause.until(false).await;
                self.places.acquire().await.ok()
            };
            tokio::select! {
                biased;
                done = &mut work => return done,
                permit = parking, if parked.is_none() => (place, parked) = (None, permit),
                permit = back, if place.is_none() => (place, parked) = (permit, None),
            }
        }
    }

    /// Runs a script in one worker.
    async fn attempt(self: &Arc<Self>, run: &Run, host: &dyn Host, wall: Duration) -> Report {
        let worker = match self.take().await {
            Ok(worker) => worker,
            Err(error) => return not_run(error),
        };
        let mut taken = Taken { pool: self, worker: Some(worker) };
        let report = taken.run(run.clone(), host, wall).await;
        taken.give_back(&report);
        report
    }

    /// A place among the runs at once; waits in a bounded queue, no longer than a run may take.
    async fn place(&self, wait: Duration) -> Result<SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let busy = |what: String| {
            self.counters.refused.add();
            Error::new(ErrorCode::Busy, what)
        };
        let Some(_waiting) = Waiting::enter(&self.waiting, self.queue) else {
            let (runs, queue) = (self.runs, self.queue);
            return Err(busy(format!("all {runs} places for scripts are taken and {queue} wait already")));
        };
        self.counters.waited.add();
        match tokio::time::timeout(wait, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(Error::new(ErrorCode::Internal, "the sandbox is shut down")),
            Err(_) => Err(busy(format!("no place for a script became free within {wait:?}"))),
        }
    }

    async fn take(&self) -> Result<Worker> {
        loop {
            let Some(mut worker) = self.longest_ready() else { return self.start_anew().await };
            // One that died, or spoke, while it waited is no reason to fail a run.
            if worker.is_sound() {
                return Ok(worker);
            }
            self.counters.discarded.add();
        }
    }

    fn longest_ready(&self) -> Option<Worker> {
        let mut idle = self.idle.lock();
        let surplus = idle.len().saturating_sub(self.warm.max(1));
        idle.remove(surplus)
    }

    /// A new worker, in two attempts if the first one fails at once: somebody may have killed it.
    async fn start_anew(&self) -> Result<Worker> {
        let begun = Instant::now();
        match self.start().await {
            Err(_) if begun.elapsed() < AT_ONCE => self.start().await,
            started => started,
        }
    }

    async fn start(&self) -> Result<Worker> {
        let started = Worker::start(&self.spec).await;
        let counter = if started.is_ok() { &self.counters.started } else { &self.counters.failed_starts };
        counter.add();
        started
    }

    fn put_back(&self, worker: Worker) {
        let mut idle = self.idle.lock();
        if idle.len() < self.runs.max(self.warm) {
            idle.push_back(worker);
        }
    }

    /// Looks at each idle worker once.
    async fn check_up(&self) {
        let idle = self.idle.lock().len();
        // More than are needed: those that were used last stay.
        self.idle.lock().drain(..idle.saturating_sub(self.warm));
        for _ in 0..self.warm {
            let Some(mut worker) = self.idle.lock().pop_front() else { return };
            if is_worn(&worker) {
                self.counters.recycled.add();
            } else if !worker.is_sound() || !worker.answers(PULSE).await {
                self.counters.discarded.add();
            } else {
                self.put_back(worker);
            }
        }
    }

    /// Starts a successor for a worker that is gone, ahead of need.
    fn replace(self: &Arc<Self>) {
        // Without a runtime the gateway is ending.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let pool = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = pool.warm_up().await {
                tracing::warn!(%error, "no new sandbox worker");
            }
        });
    }
}

/// A worker that runs a script. Dropped before it is given back, it is killed in the middle of it.
struct Taken<'a> {
    pool: &'a Arc<Pool>,
    worker: Option<Worker>,
}

impl Taken<'_> {
    async fn run(&mut self, run: Run, host: &dyn Host, wall: Duration) -> Report {
        match &mut self.worker {
            Some(worker) => worker.run(run, host, wall).await,
            None => not_run(Error::new(ErrorCode::Internal, "the sandbox worker was given back already")),
        }
    }

    fn give_back(mut self, report: &Report) {
        let Some(worker) = self.worker.take() else { return };
        match self.why_not(&worker, report) {
            None => self.pool.put_back(worker),
            Some(counter) => {
                counter.add();
                drop(worker);
                self.pool.replace();
            }
        }
    }

    /// The counter of the reason for which the process may not run another script.
    fn why_not(&self, worker: &Worker, report: &Report) -> Option<&Counter> {
        let counters = &self.pool.counters;
        match &report.result {
            Ok(_) => is_worn(worker).then_some(&counters.recycled),
            Err(Failure::Script(error)) => match error.kind {
                // It has told so, but may have had to give itself up for it.
                ScriptErrorKind::Heap | ScriptErrorKind::Cpu | ScriptErrorKind::Internal => Some(&counters.discarded),
                _ => is_worn(worker).then_some(&counters.recycled),
            },
            Err(_) => Some(&counters.killed),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.counters.cancelled.add();
            drop(worker);
            self.pool.replace();
        }
    }
}

fn is_worn(worker: &Worker) -> bool {
    let grown = worker.memory().saturating_sub(worker.first_memory);
    worker.runs >= MAX_USES || worker.born.elapsed() >= MAX_AGE || grown > MAX_GROWTH
}

/// Counts those who wait, also when they give up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let entered = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1));
        entered.is_ok().then_some(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn not_run(error: Error) -> Report {
    Report {
        result: Err(Failure::NotRun(error)),
        output: Captured::default(),
        stats: Stats::default(),
        engine: None,
        begun: false,
        confinement: Arc::default(),
    }
}

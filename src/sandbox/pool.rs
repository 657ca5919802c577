//! Pool of warm workers, one run each at a time.

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
/// Most memory in bytes that a worker may keep between runs beyond its initial memory.
const MAX_GROWTH: u64 = 128 << 20;
/// Interval of health checks of idle workers.
const CHECKUP: Duration = Duration::from_secs(30);
/// A worker that fails to start in less time is started once more.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Most runs that wait for a person without a slot. Each keeps its worker.
const MAX_PARKED: usize = 32;
/// Timeout of a health check.
const PULSE: Duration = Duration::from_secs(10);

/// Options of a pool.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Executable of the worker.
    pub exe: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Warm workers.
    pub warm: usize,
    /// Concurrent runs.
    pub runs: usize,
    /// Runs in the queue.
    pub queue: usize,
    /// Sandbox layers without which nothing runs, as in [`wire::Layer::name`].
    pub require: Vec<String>,
}

/// Workers of one gateway. Dropping it kills the idle ones.
pub struct Pool {
    spec: Spec,
    warm: usize,
    runs: usize,
    queue: usize,
    /// In order of return. The first of the last [`Self::warm`] is taken: it has had the most time to prepare its next
    /// scope, and surplus workers become idle.
    idle: Mutex<VecDeque<Worker>>,
    /// Held while idle workers are started, so that concurrent callers do not both start one.
    refill: tokio::sync::Mutex<()>,
    places: Semaphore,
    parking: Semaphore,
    waiting: AtomicUsize,
    counters: Counters,
}

impl Pool {
    /// A pool without workers; they start on demand, or ahead of it by [`Pool::keep_warm`].
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

    /// Starts workers until enough are idle.
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

    /// Starts workers and checks the idle ones as long as it is polled: replaces dead, silent and old ones, and ends
    /// surplus ones.
    pub async fn keep_warm(&self) {
        loop {
            if let Err(error) = self.warm_up().await {
                tracing::warn!(%error, "no sandbox worker");
            }
            tokio::time::sleep(CHECKUP).await;
            self.check_up().await;
        }
    }

    /// Engines and confinement of a worker.
    ///
    /// # Errors
    /// `INTERNAL` when no worker starts.
    pub async fn describe(&self) -> Result<Ready> {
        let worker = self.take().await?;
        let ready = worker.ready.clone();
        self.put_back(worker);
        Ok(ready)
    }

    /// Counters and current state.
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

    /// Runs a script. Dropping the future kills its worker.
    pub async fn run(self: &Arc<Self>, run: Run, host: &dyn Host, wall: Duration) -> Report {
        let place = match self.place(wall).await {
            Ok(place) => place,
            Err(error) => return not_run(error),
        };
        self.counters.runs.add();
        let attempts = async {
            let report = self.attempt(&run, host, wall).await;
            if !report.begun && matches!(report.result, Err(Failure::Protocol(_))) {
                // The worker broke the protocol before it did anything for this script: its frame was meant for the
                // last run, or for any.
                return self.attempt(&run, host, wall).await;
            }
            report
        };
        self.in_place(place, host.pause(), attempts).await
    }

    /// Does `work` in a slot, and frees the slot while a person is asked, so that a slow answer blocks no other run.
    /// After the answer the work takes the next free slot.
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

    /// A slot for a run; waits in a bounded queue, no longer than a run may take.
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
            // A worker that died or spoke while idle must not fail a run.
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

    /// Starts a worker, in two attempts if the first fails at once: it may have been killed from outside.
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

    /// Checks each idle worker once.
    async fn check_up(&self) {
        let idle = self.idle.lock().len();
        // Surplus workers: those used last stay.
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

    /// Starts a successor for a lost worker, ahead of need.
    fn replace(self: &Arc<Self>) {
        // Without a runtime the gateway is shutting down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let pool = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = pool.warm_up().await {
                tracing::warn!(%error, "no new sandbox worker");
            }
        });
    }
}

/// A worker during a run. Dropped before it is given back, it is killed.
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

    /// Counter of the reason why the process may not run another script; `None` if it may.
    fn why_not(&self, worker: &Worker, report: &Report) -> Option<&Counter> {
        let counters = &self.pool.counters;
        match &report.result {
            Ok(_) => is_worn(worker).then_some(&counters.recycled),
            Err(Failure::Script(error)) => match error.kind {
                // The worker reported the limit, but may have had to give up its engine for it.
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

/// Counts waiting runs, also when they are cancelled.
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

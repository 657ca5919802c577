//! Warm workers, one run each at a time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use wire::{Ready, Run, ScriptErrorKind, Stats};

use super::process::{Spec, Worker};
use super::{Failure, Host, Report};
use crate::error::{Error, ErrorCode, Result};

/// Runs of one worker before it is replaced.
const MAX_USES: u64 = 500;

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
}

/// The workers of one gateway.
pub struct Pool {
    spec: Spec,
    warm: usize,
    queue: usize,
    idle: Mutex<Vec<Worker>>,
    places: Semaphore,
    waiting: AtomicUsize,
}

impl Pool {
    /// A pool without workers yet; they start on demand, or ahead of it by [`Pool::warm_up`].
    #[must_use]
    pub fn new(options: PoolOptions) -> Arc<Self> {
        Arc::new(Self {
            spec: Spec { exe: options.exe, args: options.args },
            warm: options.warm,
            queue: options.queue,
            idle: Mutex::default(),
            places: Semaphore::new(options.runs),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Starts workers until as many are idle as are to be kept warm.
    ///
    /// # Errors
    /// `INTERNAL` when a worker does not start.
    pub async fn warm_up(&self) -> Result<()> {
        while self.idle().len() < self.warm {
            let worker = Worker::start(&self.spec).await?;
            self.put_back(worker);
        }
        Ok(())
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

    /// Runs a script. Dropping the future kills the worker that runs it.
    pub async fn run(self: &Arc<Self>, run: Run, host: &dyn Host, wall: Duration) -> Report {
        let place = match self.place().await {
            Ok(place) => place,
            Err(error) => return not_run(error),
        };
        let mut worker = match self.take().await {
            Ok(worker) => worker,
            Err(error) => return not_run(error),
        };
        let report = worker.run(run, host, wall).await;
        if worker.runs < MAX_USES && leaves_worker_sound(&report) {
            self.put_back(worker);
        } else {
            drop(worker);
            self.replace();
        }
        drop(place);
        report
    }

    /// A place among the runs at once; waits in a bounded queue.
    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let _waiting = Waiting::enter(&self.waiting, self.queue)?;
        self.places.acquire().await.map_err(|_| Error::new(ErrorCode::Internal, "the sandbox is shut down"))
    }

    async fn take(&self) -> Result<Worker> {
        loop {
            let idle = self.idle().pop();
            let Some(mut worker) = idle else { return Worker::start(&self.spec).await };
            // One that died while it waited is no reason to fail a run.
            if worker.is_alive() {
                return Ok(worker);
            }
        }
    }

    fn put_back(&self, worker: Worker) {
        let mut idle = self.idle();
        if idle.len() < self.warm {
            idle.push(worker);
        }
    }

    /// Starts a successor for a worker that is gone, ahead of need.
    fn replace(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = pool.warm_up().await {
                tracing::warn!(%error, "no new sandbox worker");
            }
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the process may run another script. One that met the end of its heap or its CPU time has told so, but may
/// have had to give itself up for it.
fn leaves_worker_sound(report: &Report) -> bool {
    match &report.result {
        Ok(_) => true,
        Err(Failure::Script(error)) => {
            !matches!(error.kind, ScriptErrorKind::Heap | ScriptErrorKind::Cpu | ScriptErrorKind::Internal)
        }
        Err(_) => false,
    }
}

/// Counts those who wait, also when they give up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize, limit: usize) -> Result<Self> {
        let entered = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1));
        match entered {
            Ok(_) => Ok(Self(waiting)),
            Err(_) => {
                Err(Error::new(ErrorCode::Busy, format!("all sandbox workers are busy and {limit} runs wait already")))
            }
        }
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
        output: Vec::new(),
        output_dropped: 0,
        stats: Stats::default(),
        engine: None,
    }
}

//! Warm workers, one run each at a time, behind checkers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use wire::{Language, LayerName, Outline, Parts, Ready, Run, ScriptErrorKind, Signature, Stats};

use super::checkers::{Asked, Checkers};
use super::metrics::{Counter, Metrics};
use super::process::{Spec, Worker};
use super::script::{self, Script};
use super::warm::Warm;
use super::{Captured, Failure, Host, Report};
use base::error::{Error, ErrorCode, Result};
use base::pause::Pause;
use base::turns::{Place, Places, Turn};
use config::RecyclePolicy;

/// How often idle workers are looked after.
const CHECKUP: Duration = Duration::from_secs(30);
/// Runs that wait for a person without a place among the runs at once. Each keeps its worker.
const MAX_PARKED: usize = 32;
/// The argument that makes a worker a checker.
const CHECK: &str = "--check";

/// Options of a pool.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Executable of the worker.
    pub exe: PathBuf,
    /// Its arguments; with `--check` behind them it becomes a checker.
    pub args: Vec<OsString>,
    /// Warm workers.
    pub warm: usize,
    /// Concurrent runs.
    pub runs: usize,
    /// Wear at which a process is replaced.
    pub wear: RecyclePolicy,
    /// Runs of one client in the queue.
    pub queue: usize,
    /// Sandbox layers without which nothing runs.
    pub require: Vec<LayerName>,
}

/// A place for a run, or in the queue for one.
pub enum Entry {
    /// The place.
    Placed(Place),
    /// A turn in the queue.
    Queued(oneshot::Receiver<Place>),
}

/// The workers and checkers of one gateway. Dropping it kills those that are idle.
pub struct Pool {
    runs: usize,
    queue: usize,
    workers: Arc<Warm>,
    checkers: Checkers,
    places: Places,
    parking: Semaphore,
}

impl Pool {
    /// A pool without workers; they start on demand, or ahead of it by [`Pool::keep_warm`].
    pub fn new(options: PoolOptions) -> Arc<Self> {
        let PoolOptions { exe, args, warm, wear, runs, queue, require } = options;
        let checks = args.iter().cloned().chain([CHECK.into()]).collect();
        let spec = Spec { exe, args, require, wear };
        Arc::new(Self {
            runs,
            queue,
            checkers: Checkers::new(Spec { args: checks, ..spec.clone() }, runs),
            workers: Warm::new(spec, warm, runs),
            places: Places::new(runs),
            parking: Semaphore::new(MAX_PARKED),
        })
    }

    /// Keeps processes warm, and looks after the idle ones for as long as it is polled: the dead, the silent and the old
    /// are replaced, and those beyond the number to be kept warm are let go.
    pub async fn keep_warm(&self) {
        loop {
            let (workers, checkers) = tokio::join!(self.workers.warm_up(), self.checkers.warm.warm_up());
            if let Err(error) = workers.and(checkers) {
                tracing::warn!(%error, "no sandbox worker");
            }
            tokio::time::sleep(CHECKUP).await;
            tokio::join!(self.workers.check_up(), self.checkers.warm.check_up());
        }
    }

    /// Engines and confinement of a worker.
    ///
    /// # Errors
    /// `INTERNAL` when no worker starts.
    pub async fn describe(&self) -> Result<Ready> {
        let worker = self.workers.take().await?;
        let ready = worker.ready.clone();
        self.workers.put_back(worker);
        Ok(ready)
    }

    /// Counters and current state.
    pub fn metrics(&self) -> Metrics {
        let count = |number: usize| number as u64;
        Metrics {
            idle: count(self.workers.idle()),
            busy: count(self.places.busy()),
            idle_checkers: count(self.checkers.warm.idle()),
            killed_checkers: self.checkers.warm.counters.read().killed,
            waiting: count(self.places.waiting()),
            ..self.workers.counters.read()
        }
    }

    /// Makes a script ready for a worker: a checker parses it, strips its types and reads its calls.
    ///
    /// # Errors
    /// The script's first syntax error, or why it was not parsed.
    pub async fn prepare(&self, language: Language, code: &str, max_bytes: usize) -> Result<Script, Failure> {
        let asked = Asked { language, max_bytes, signature: false, parts: false };
        match (self.checkers.parse(asked, code).await.map(|(script, ..)| script), language) {
            // Starlark is parsed again where it runs: without a checker it runs unseen.
            (Err(failure), Language::Starlark) if !matches!(failure, Failure::Script(_)) => {
                tracing::debug!(?failure, "Starlark runs unseen");
                let outline = Outline { is_partial: true, ..Outline::default() };
                Script::starlark(code, outline).map_err(|why| Failure::Protocol(why.to_owned()))
            }
            (parsed, _) => parsed,
        }
    }

    /// Makes a function script ready for a worker, and reads its signature. Its arguments are given to the worker by
    /// [`Run::args`].
    ///
    /// # Errors
    /// The script's first syntax error, what keeps it from having a signature, or why it was not parsed.
    pub async fn prepare_function(
        &self,
        language: Language,
        code: &str,
        max_bytes: usize,
    ) -> Result<(Script, Signature), Failure> {
        let asked = Asked { language, max_bytes, signature: true, parts: false };
        let (script, signature, _) = self.checkers.parse(asked, code).await?;
        Ok((script, signature.ok_or_else(|| Failure::Protocol("the checker gave no signature".to_owned()))?))
    }

    /// Reads the parts of a script, from which a function is made. Their offsets are in the text that comes with them.
    ///
    /// # Errors
    /// The script's first syntax error, or why it was not parsed.
    pub async fn parts(
        &self,
        language: Language,
        code: &str,
        max_bytes: usize,
    ) -> Result<(String, Parts, Outline), Failure> {
        let asked = Asked { language, max_bytes, signature: false, parts: true };
        let (parsed, _, parts) = self.checkers.parse(asked, code).await?;
        let parts = parts.ok_or_else(|| Failure::Protocol("the checker gave no parts".to_owned()))?;
        Ok((script::without_marks(language, code).into_owned(), *parts, parsed.outline))
    }

    /// Runs a script. Dropping the future kills the worker that runs it.
    pub async fn run(&self, run: Run, host: &dyn Host, wall: Duration, turn: Turn) -> Report {
        let entered =
            async { self.within(self.enter(&turn)?, &turn, (host, wall), self.run_nested(&run, host, wall)).await };
        entered.await.unwrap_or_else(not_run)
    }

    /// Enters the queue for a place.
    ///
    /// # Errors
    /// `BUSY` when the client has too many in it.
    pub fn enter(&self, turn: &Turn) -> Result<Entry> {
        if let Some(place) = self.places.take(turn) {
            return Ok(Entry::Placed(place));
        }
        self.workers.counters.add(|all| &mut all.waited);
        let told = self.places.enter(turn, self.queue).ok_or_else(|| self.is_full())?;
        self.places.grant();
        Ok(Entry::Queued(told))
    }

    fn is_full(&self) -> Error {
        self.workers.counters.add(|all| &mut all.refused);
        let (runs, queue) = (self.runs, self.queue);
        Error::new(ErrorCode::Busy, format!("all {runs} places for scripts are taken, and {queue} of this client wait"))
    }

    /// Waits for the place of a run, no longer than `wait`.
    ///
    /// # Errors
    /// `BUSY` when it gets none.
    pub async fn place(&self, entry: Entry, wait: Duration) -> Result<Place> {
        let told = match entry {
            Entry::Placed(place) => return Ok(place),
            Entry::Queued(told) => told,
        };
        match tokio::time::timeout(wait, told).await {
            Ok(place) => place.map_err(|_| self.is_full()),
            Err(_) => {
                self.workers.counters.add(|all| &mut all.refused);
                let what = format!("no place for a script became free within {wait:?}");
                Err(Error::new(ErrorCode::Busy, what))
            }
        }
    }

    /// Does the work of a run in its place, for which it waits no longer than a run may take.
    ///
    /// # Errors
    /// `BUSY` when it gets none; then nothing of the work was done.
    pub async fn within<T>(
        &self,
        entry: Entry,
        turn: &Turn,
        (host, wait): (&dyn Host, Duration),
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let place = self.place(entry, wait).await?;
        Ok(self.in_place(place, turn, host.pause(), work).await)
    }

    /// Runs a script in a place that is taken, or for one that runs already, and waits for it in a place of its own. It
    /// runs in one worker, or in a second one if the first was of no use.
    pub async fn run_nested(&self, run: &Run, host: &dyn Host, wall: Duration) -> Report {
        self.workers.counters.add(|all| &mut all.runs);
        let report = self.attempt(run, host, wall).await;
        if !report.begun && matches!(report.result, Err(Failure::Protocol(_))) {
            // The worker broke the protocol before it did anything for this script: its frame was meant for the last
            // run, or for any.
            return self.attempt(run, host, wall).await;
        }
        report
    }

    /// Does `work` in a slot, and frees the slot while a person is asked, so that a slow answer blocks no other run.
    /// After the answer the work takes the next free slot.
    async fn in_place<T>(&self, place: Place, turn: &Turn, pause: &Pause, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        let (mut place, mut parked) = (Some(place), None);
        loop {
            let parking = async {
                pause.until(true).await;
                self.parking.acquire().await.ok()
            };
            let back = async {
                pause.until(false).await;
                self.places.wait(turn, usize::MAX).await
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
    async fn attempt(&self, run: &Run, host: &dyn Host, wall: Duration) -> Report {
        let worker = match self.workers.take().await {
            Ok(worker) => worker,
            Err(error) => return not_run(error),
        };
        let work = async |worker: &mut Worker| worker.run(run.clone(), host, wall).await;
        self.workers.work(worker, work, why_unfit).await
    }
}

/// The counter of the reason for which a worker may not run another script.
fn why_unfit(report: &Report) -> Option<Counter> {
    match &report.result {
        Ok(_) => None,
        Err(Failure::Script(error)) => match error.kind {
            // It has told so, but may have had to give itself up for it.
            ScriptErrorKind::Heap | ScriptErrorKind::Cpu | ScriptErrorKind::Internal => Some(|all| &mut all.discarded),
            _ => None,
        },
        Err(_) => Some(|all| &mut all.killed),
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
        warm: false,
    }
}

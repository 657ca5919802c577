//! One worker process: start, frames, kill.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base::time::now_ms;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::time::{Instant, MissedTickBehavior};
use wire::{
    Call, CallError, Check, Facts, FromWorker, Layer, LayerName, Outcome, Ready, Reply, Run, ScriptError, ToWorker,
};

use super::conversation::{Conversation, Step};
use super::pipes::{Frame, Incoming, Outgoing, last_words};
use super::{Answer, Failure, Host, Report};
use base::error::{Error, ErrorCode, Result};
use base::{random, spawner};
use config::RecyclePolicy;

/// Timeout for a worker's ready frame.
const READY: Duration = Duration::from_secs(20);
/// Interval of CPU time checks of a running worker.
const CPU_TICK: Duration = Duration::from_millis(100);
/// CPU time beyond the script's limit: for starting the engine and for the worker's own check.
const CPU_GRACE: Duration = Duration::from_secs(2);
/// Bytes of unread answers that stop the processing of calls. A script reads none while it computes.
const MAX_ANSWERS: usize = 16 << 20;

/// Start parameters of a worker.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// The executable.
    pub(super) exe: PathBuf,
    /// Arguments that make it a worker.
    pub(super) args: Vec<OsString>,
    /// Sandbox layers without which no worker is used.
    pub(super) require: Vec<LayerName>,
    /// Wear at which one is replaced.
    pub(super) wear: RecyclePolicy,
}

/// A worker waiting for a script. Dropping it kills the process.
pub(super) struct Worker {
    child: Box<dyn ChildWrapper>,
    to: Outgoing,
    from: Incoming,
    stderr: tokio::task::JoinHandle<String>,
    pub(super) ready: Ready,
    confinement: Arc<[Layer]>,
    /// True if it was idle before it was taken, false if it was started for its script.
    pub(super) is_warm: bool,
    pub(super) born: Instant,
    pub(super) uses: u64,
    /// Resident memory when it was ready; zero where the platform does not tell.
    pub(super) first_memory: u64,
    /// The number of the last script. They grow by unforeseeable steps, so that a worker which was broken into cannot
    /// answer a script that it has not been given yet.
    number: u64,
    pings: u64,
}

impl Worker {
    /// Starts a worker with an empty environment and waits until it is ready.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be started, is not a worker of this version, or is not confined as required.
    pub(super) async fn start(spec: &Spec) -> Result<Self> {
        let broken = |what: String| {
            Error::new(ErrorCode::Internal, format!("the sandbox worker {} {what}", spec.exe.display()))
                .hint("`forgefs doctor` shows what the sandbox needs")
        };
        let mut command = tokio::process::Command::new(&spec.exe);
        command.args(&spec.args).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let started = spawner::spawn(move || wrapped.spawn()).await;
        let mut child = started.map_err(|error| broken("does not start".to_owned()).caused_by(error))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(broken("has no pipes".to_owned()));
        };
        let (to, mut from) = (Outgoing::new(stdin), Incoming::new(stdout));
        let stderr = tokio::spawn(last_words(stderr));
        let ready = match tokio::time::timeout(READY, from.next()).await {
            Ok(Some(Ok(Frame { message: FromWorker::Ready(ready), .. }))) => ready,
            Ok(Some(Ok(_))) => return Err(broken("began with something else than Ready".to_owned())),
            Ok(Some(Err(error))) => return Err(broken(error)),
            Ok(None) => {
                let words = tokio::time::timeout(Duration::from_secs(1), stderr).await;
                let words = words.ok().and_then(|joined| joined.ok()).unwrap_or_default();
                return Err(broken(format!("ended before it was ready: {words}")));
            }
            Err(_) => return Err(broken(format!("was not ready within {READY:?}"))),
        };
        if ready.protocol != wire::PROTOCOL {
            return Err(broken(format!("speaks protocol {}, not {}", ready.protocol, wire::PROTOCOL)));
        }
        is_confined(&ready, &spec.require)?;
        let confinement = ready.confinement.clone().into();
        let born = Instant::now();
        let mut worker = Self {
            child,
            to,
            from,
            stderr,
            ready,
            confinement,
            born,
            is_warm: false,
            uses: 0,
            first_memory: 0,
            number: 0,
            pings: 0,
        };
        worker.first_memory = worker.memory();
        Ok(worker)
    }

    /// Runs one script. If the future is dropped, the worker must be dropped too, which kills it: it is in the middle
    /// of the script.
    pub(super) async fn run(&mut self, mut run: Run, host: &dyn Host, wall: Duration) -> Report {
        self.uses += 1;
        self.number += u64::from(random::number()) + 1;
        run.run = self.number;
        let engine = self.ready.engines.iter().find(|engine| engine.language == run.language).cloned();
        let cpu_limit = Duration::from_millis(run.limits.cpu_ms) + CPU_GRACE;
        let mut conversation = Conversation::new(run.run, &run.limits);
        let result = match wire::encode(&ToWorker::Run(Box::new(run))) {
            Ok(frame) => {
                self.to.push(frame);
                self.converse(&mut conversation, host, wall, cpu_limit).await
            }
            Err(error) => Err(Failure::Protocol(error.to_string())),
        };
        // Answers to calls that the script did not wait for.
        self.to.forget();
        let begun = !conversation.is_untouched;
        let (output, stats) = conversation.conclude();
        let confinement = Arc::clone(&self.confinement);
        Report { result, output, stats, engine, begun, confinement, warm: self.is_warm }
    }

    /// Has a checker parse one script. Dropping the future leaves it in the middle of it, as in [`Worker::run`].
    ///
    /// # Errors
    /// `Timeout`, `Crashed` or `Protocol`, which end the process.
    pub(super) async fn check(
        &mut self,
        mut check: Check,
        limit: Duration,
    ) -> Result<Result<Facts, ScriptError>, Failure> {
        self.uses += 1;
        self.number += u64::from(random::number()) + 1;
        check.check = self.number;
        let frame =
            wire::encode(&ToWorker::Check(Box::new(check))).map_err(|error| Failure::Protocol(error.to_string()))?;
        match tokio::time::timeout(limit, self.exchange(frame)).await {
            Ok(Some(Ok(Frame { message: FromWorker::Checked(checked), .. }))) if checked.check == self.number => {
                Ok(checked.result)
            }
            Ok(Some(Ok(_))) => Err(Failure::Protocol("no answer to this check".to_owned())),
            Ok(Some(Err(error))) => Err(Failure::Protocol(error)),
            Ok(None) => Err(Failure::Crashed(self.post_mortem().await)),
            Err(_) => Err(Failure::Timeout(limit)),
        }
    }

    /// Sends a frame and waits for the next one.
    async fn exchange(&mut self, frame: Vec<u8>) -> Option<Result<Frame, String>> {
        self.to.push(frame);
        // A closed pipe means that the worker has ended, which the other one tells next.
        let _ = self.to.flush().await;
        self.from.next().await
    }

    async fn converse(
        &mut self,
        conversation: &mut Conversation,
        host: &dyn Host,
        wall: Duration,
        cpu_limit: Duration,
    ) -> Result<wire::Json, Failure> {
        let deadline = tokio::time::sleep(wall);
        tokio::pin!(deadline);
        let mut pauses = host.pause().count();
        let cpu_start = self.cpu_time();
        let mut cpu_tick = tokio::time::interval(CPU_TICK);
        cpu_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut calls = FuturesUnordered::new();
        let mut is_heard = true;
        loop {
            tokio::select! {
                frame = self.from.next(), if conversation.has_room() => match frame {
                    Some(Ok(frame)) => match conversation.accept(frame)? {
                        Step::Call(call) => calls.push(answer(host, call)),
                        Step::Done(result) => return result.map_err(|error| Failure::Script(Box::new(error))),
                        Step::Wrote(from) => host.wrote(conversation.output_from(from)),
                        Step::Reported(text) => host.reported(&text),
                    },
                    Some(Err(error)) => return Err(Failure::Protocol(error)),
                    None => return Err(Failure::Crashed(self.post_mortem().await)),
                },
                Some(reply) = calls.next(), if self.to.waiting < MAX_ANSWERS => {
                    conversation.answered(reply.call);
                    self.to.push(encode(reply)?);
                }
                // A closed pipe means that the worker has ended, which the other one tells.
                written = self.to.write(), if is_heard && self.to.waiting > 0 => is_heard = written.is_ok(),
                () = &mut deadline => match pauses.more() {
                    Duration::ZERO => return Err(Failure::Timeout(wall)),
                    more => {
                        let later = deadline.deadline() + more;
                        deadline.as_mut().reset(later);
                    }
                },
                _ = cpu_tick.tick() => {
                    let used = self.cpu_time().saturating_sub(cpu_start);
                    if used > cpu_limit {
                        return Err(Failure::Cpu(cpu_limit - CPU_GRACE));
                    }
                }
            }
        }
    }

    /// True if the worker can get a script: its process lives, and it has sent nothing since its last run. An honest
    /// worker sends only during a run.
    pub(super) fn is_sound(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && self.from.is_silent()
    }

    /// True if its engine thread answers within `limit`.
    pub(super) async fn answers(&mut self, limit: Duration) -> bool {
        self.pings += 1;
        let Ok(frame) = wire::encode(&ToWorker::Ping(self.pings)) else { return false };
        match tokio::time::timeout(limit, self.exchange(frame)).await {
            Ok(Some(Ok(Frame { message: FromWorker::Pong(number), .. }))) => number == self.pings,
            _ => false,
        }
    }

    /// Resident memory in bytes; zero if the platform does not report it.
    pub(super) fn memory(&self) -> u64 {
        #[cfg(target_os = "linux")]
        if let Some(id) = self.child.id() {
            let statm = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
            let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
            let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
            let page = page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4096);
            return pages.unwrap_or_default().saturating_mul(page);
        }
        0
    }

    /// CPU time of the whole process so far; zero if the platform does not report it.
    fn cpu_time(&self) -> Duration {
        #[cfg(target_os = "linux")]
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid));
            if let Ok(time) = clock.and_then(nix::time::clock_gettime) {
                return Duration::from(time);
            }
        }
        Duration::ZERO
    }

    /// Explains the end of a worker that closed its stdout.
    async fn post_mortem(&mut self) -> String {
        let exit = tokio::time::timeout(Duration::from_secs(1), self.child.wait()).await;
        let how = match exit {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output".to_owned(),
        };
        let words = tokio::time::timeout(Duration::from_millis(500), &mut self.stderr).await;
        match words {
            Ok(Ok(words)) if !words.is_empty() => format!("{how}; its last words: {words}"),
            _ => how,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The whole group, in case the process has children.
        let _ = self.child.start_kill();
    }
}

/// Answers one call. A panic is a bug of the gateway that hostile arguments have found: it fails the call.
async fn answer(host: &dyn Host, call: Call) -> Reply {
    let answered = AssertUnwindSafe(host.call(call.call, call.op)).catch_unwind().await;
    let Answer { outcome, now_ms } = answered.unwrap_or_else(|_| {
        let error = CallError::new(ErrorCode::Internal, "the gateway failed at this call; its log says where");
        Answer { outcome: Outcome::Err(error), now_ms: now_ms() }
    });
    Reply { run: call.run, call: call.call, outcome, now_ms }
}

/// Encodes an answer. One too large for a frame becomes the call's error, and is no fault of the worker.
fn encode(reply: Reply) -> Result<Vec<u8>, Failure> {
    let (run, call, now_ms) = (reply.run, reply.call, reply.now_ms);
    let encoded = wire::encode(&ToWorker::Reply(reply)).or_else(|error| {
        let message = format!("the answer does not fit into the sandbox: {error}");
        let suggested_fix = Some("ask the tool for less at a time".to_owned());
        let error = CallError { suggested_fix, ..CallError::new(ErrorCode::LimitExceeded, message) };
        wire::encode(&ToWorker::Reply(Reply { run, call, outcome: Outcome::Err(error), now_ms }))
    });
    encoded.map_err(|error| Failure::Protocol(error.to_string()))
}

/// # Errors
/// `INTERNAL` when a required layer is not in force.
fn is_confined(ready: &Ready, require: &[LayerName]) -> Result<()> {
    let Some(missing) = Layer::missing(&ready.confinement, require) else { return Ok(()) };
    Err(Error::new(ErrorCode::Internal, missing)
        .hint("no script runs until it does; `forgefs doctor` shows every layer, `sandbox.require` names this one"))
}

//! One worker process: started, spoken to in frames, killed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use wire::{Call, FromWorker, Ready, Reply, Run, Stats, Stream, ToWorker};

use super::{Failure, Host, Report};
use crate::error::{Error, ErrorCode, Result};

/// How long a worker may take to say that it is ready.
const READY: Duration = Duration::from_secs(20);
/// How often the CPU time of a running worker is looked at.
const CPU_TICK: Duration = Duration::from_millis(100);
/// CPU time a worker may use beyond the script's limit: for starting the engine and for noticing by itself.
const CPU_GRACE: Duration = Duration::from_secs(2);
/// Frames of a worker that wait to be looked at.
const FRAME_QUEUE: usize = 64;
/// Frames of a run besides its calls: more is a flood.
const MAX_FRAMES: u64 = 100_000;
/// Calls of any kind that a run may have under way; more is a flood.
const MAX_IN_FLIGHT: usize = 1024;
/// Bytes of stderr that are kept for the post-mortem.
const LAST_WORDS: usize = 4000;
/// Bytes of it that an error shows.
const MAX_WORDS: usize = 300;

/// How a worker is started.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// The executable.
    pub(super) exe: PathBuf,
    /// Arguments that make it a worker.
    pub(super) args: Vec<OsString>,
}

/// A worker that waits for a script.
pub(super) struct Worker {
    child: Box<dyn ChildWrapper>,
    to: mpsc::UnboundedSender<Vec<u8>>,
    from: mpsc::Receiver<Result<FromWorker, String>>,
    stderr: tokio::task::JoinHandle<String>,
    pub(super) ready: Ready,
    pub(super) runs: u64,
}

impl Worker {
    /// Starts a worker with an empty environment and waits until it is ready.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot be started, or does not answer as a worker of this version.
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
        let mut child = wrapped.spawn().map_err(|error| broken(format!("does not start: {error}")))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(broken("has no pipes".to_owned()));
        };
        let (to, outgoing) = mpsc::unbounded_channel();
        let (incoming, mut from) = mpsc::channel(FRAME_QUEUE);
        tokio::spawn(write_frames(stdin, outgoing));
        tokio::spawn(read_frames(stdout, incoming));
        let stderr = tokio::spawn(last_words(stderr));
        let ready = match tokio::time::timeout(READY, from.recv()).await {
            Ok(Some(Ok(FromWorker::Ready(ready)))) if ready.protocol == wire::PROTOCOL => ready,
            Ok(Some(Ok(FromWorker::Ready(ready)))) => {
                return Err(broken(format!("speaks protocol {}, not {}", ready.protocol, wire::PROTOCOL)));
            }
            Ok(Some(Ok(_))) => return Err(broken("began with something else than Ready".to_owned())),
            Ok(Some(Err(error))) => return Err(broken(error)),
            Ok(None) => {
                let words = tokio::time::timeout(Duration::from_secs(1), stderr).await;
                let words = words.ok().and_then(|joined| joined.ok()).unwrap_or_default();
                return Err(broken(format!("ended before it was ready: {words}")));
            }
            Err(_) => return Err(broken(format!("was not ready within {READY:?}"))),
        };
        Ok(Self { child, to, from, stderr, ready, runs: 0 })
    }

    /// Runs one script. Dropping the future leaves the worker in the middle of it: it must then be dropped too,
    /// which kills it.
    pub(super) async fn run(&mut self, mut run: Run, host: &dyn Host, wall: Duration) -> Report {
        self.runs += 1;
        run.run = self.runs;
        let engine = self.ready.engines.iter().find(|engine| engine.language == run.language).cloned();
        let cpu_limit = Duration::from_millis(run.limits.cpu_ms) + CPU_GRACE;
        let mut conversation = Conversation {
            run: self.runs,
            last_call: 0,
            frames: 0,
            output: Vec::new(),
            output_room: usize::try_from(run.limits.output_bytes).unwrap_or(usize::MAX),
            output_dropped: 0,
            stats: Stats::default(),
        };
        let result = match wire::encode(&ToWorker::Run(Box::new(run))) {
            Ok(frame) => {
                let _ = self.to.send(frame);
                self.converse(&mut conversation, host, wall, cpu_limit).await
            }
            Err(error) => Err(Failure::Protocol(error.to_string())),
        };
        let Conversation { output, output_dropped, stats, .. } = conversation;
        Report { result, output, output_dropped, stats, engine }
    }

    async fn converse(
        &mut self,
        conversation: &mut Conversation,
        host: &dyn Host,
        wall: Duration,
        cpu_limit: Duration,
    ) -> Result<wire::Json, Failure> {
        let deadline = Instant::now() + wall;
        let cpu_start = self.cpu_time();
        let mut cpu_tick = tokio::time::interval(CPU_TICK);
        cpu_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut calls = FuturesUnordered::new();
        loop {
            tokio::select! {
                frame = self.from.recv() => match frame {
                    Some(Ok(frame)) => match conversation.accept(frame, calls.len())? {
                        Step::Call(call) => calls.push(answer(host, call)),
                        Step::Done(result) => return result.map_err(|error| Failure::Script(Box::new(error))),
                        Step::Nothing => {}
                    },
                    Some(Err(error)) => return Err(Failure::Protocol(error)),
                    None => return Err(Failure::Crashed(self.post_mortem().await)),
                },
                Some(reply) = calls.next() => {
                    let frame = wire::encode(&ToWorker::Reply(reply)).map_err(|e| Failure::Protocol(e.to_string()))?;
                    // A closed channel means that the worker is gone, which the reader reports next.
                    let _ = self.to.send(frame);
                }
                () = tokio::time::sleep_until(deadline) => return Err(Failure::Timeout(wall)),
                _ = cpu_tick.tick() => {
                    let used = self.cpu_time().saturating_sub(cpu_start);
                    if used > cpu_limit {
                        return Err(Failure::Cpu(cpu_limit - CPU_GRACE));
                    }
                }
            }
        }
    }

    /// Whether the process is still there.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && !self.from.is_closed()
    }

    /// CPU time of the whole process so far; zero where the platform does not tell.
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

    /// How a worker that closed its stdout ended.
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

async fn answer(host: &dyn Host, call: Call) -> Reply {
    Reply { run: call.run, call: call.call, outcome: host.call(call.call, call.op).await }
}

/// What has been said in one run. Everything here comes from the worker and is believed as little as possible.
struct Conversation {
    run: u64,
    last_call: u64,
    frames: u64,
    output: Vec<(Stream, String)>,
    output_room: usize,
    output_dropped: usize,
    stats: Stats,
}

enum Step {
    Call(Call),
    Done(std::result::Result<wire::Json, wire::ScriptError>),
    Nothing,
}

impl Conversation {
    fn accept(&mut self, frame: FromWorker, in_flight: usize) -> Result<Step, Failure> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(Failure::Protocol(format!("more than {MAX_FRAMES} frames in a run")));
        }
        let run = match &frame {
            FromWorker::Ready(_) => return Err(Failure::Protocol("Ready in the middle of a run".to_owned())),
            FromWorker::Call(call) => call.run,
            FromWorker::Output(output) => output.run,
            FromWorker::Done(done) => done.run,
        };
        if run != self.run {
            return Err(Failure::Protocol(format!("a frame of run {run} in run {}", self.run)));
        }
        match frame {
            FromWorker::Ready(_) => Ok(Step::Nothing),
            FromWorker::Call(call) if call.call != self.last_call + 1 => {
                Err(Failure::Protocol(format!("call {} after call {}", call.call, self.last_call)))
            }
            FromWorker::Call(_) if in_flight >= MAX_IN_FLIGHT => {
                Err(Failure::Protocol(format!("more than {MAX_IN_FLIGHT} calls at once")))
            }
            FromWorker::Call(call) => {
                self.last_call = call.call;
                Ok(Step::Call(call))
            }
            FromWorker::Output(output) => {
                self.keep(output.stream, output.text);
                Ok(Step::Nothing)
            }
            FromWorker::Done(done) => {
                self.stats = done.stats;
                Ok(Step::Done(done.result))
            }
        }
    }

    /// Keeps output within the limit; what is beyond is counted.
    fn keep(&mut self, stream: Stream, text: String) {
        let kept = crate::discovery::head(&text, self.output_room);
        self.output_room -= kept.len();
        self.output_dropped += text.len() - kept.len();
        if kept.len() == text.len() {
            self.output.push((stream, text));
        } else if !kept.is_empty() {
            self.output.push((stream, kept.to_owned()));
        }
    }
}

/// Writes frames one after the other, so that a worker that does not read never blocks the conversation.
async fn write_frames(mut stdin: ChildStdin, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stdin.write_all(&frame).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Reads frames until the stream ends or stops making sense.
async fn read_frames(mut stdout: ChildStdout, frames: mpsc::Sender<Result<FromWorker, String>>) {
    loop {
        let mut prefix = [0; 4];
        if stdout.read_exact(&mut prefix).await.is_err() {
            return;
        }
        let frame = match wire::parse_len(prefix) {
            Ok(len) => {
                let mut body = vec![0; len];
                if stdout.read_exact(&mut body).await.is_err() {
                    return;
                }
                serde_json::from_slice(&body).map_err(|error| format!("a frame is not a message: {error}"))
            }
            Err(error) => Err(error.to_string()),
        };
        let broken = frame.is_err();
        if frames.send(frame).await.is_err() || broken {
            return;
        }
    }
}

/// What a dying worker wrote to stderr, in a line.
async fn last_words(mut stderr: ChildStderr) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(read) = stderr.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        // The rest is read too, and dropped, so that a worker never blocks on its own complaint.
        let room = LAST_WORDS.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
    // The first lines name the cause; what follows is mostly addresses, which say nothing to whoever reads the error.
    let text = String::from_utf8_lossy(&kept);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    crate::discovery::head(&lines.join(" | "), MAX_WORDS).to_owned()
}

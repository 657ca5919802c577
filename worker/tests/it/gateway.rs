//! The gateway's end of a worker, with a small sample server.

// Benchmarks include this file by its path.
#[path = "shop.rs"]
mod shop;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use wire::{
    Call, CallError, Done, ErrorCode, FromWorker, Json, Language, Limits, Op, Outcome, Ready, Reply, Run, Server,
    Stream, ToWorker, encode, read_frame,
};

/// Longest wait for a frame; a worker that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(200);

/// Engines of this build, by the name in reports.
pub(crate) fn engines() -> Vec<Engine> {
    vec![
        #[cfg(feature = "quickjs")]
        Engine { name: "quickjs", language: Language::Javascript, args: &["--engine", "quickjs"] },
        #[cfg(feature = "v8")]
        Engine { name: "v8", language: Language::Javascript, args: &["--engine", "v8"] },
        Engine { name: "starlark", language: Language::Starlark, args: &[] },
    ]
}

/// An engine.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    pub(crate) args: &'static [&'static str],
}

/// The gateway's defaults, with less CPU time so that its tests are quick.
pub(crate) const LIMITS: Limits =
    Limits { cpu_ms: 2000, heap_bytes: 64 << 20, output_bytes: 64 << 10, result_bytes: 1 << 20, calls: 50 };

/// Seed of a run, unless a test has its own.
pub(crate) const SEED: [u8; 32] = [7; 32];
/// Start of a run, unless a test has its own.
pub(crate) const NOW_MS: u64 = 1_750_000_000_000;

/// A worker process.
pub(crate) struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<FromWorker>,
    pub(crate) ready: Ready,
    language: Language,
    runs: u64,
    stash: BTreeMap<String, Json>,
}

/// A run as the gateway saw it.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) calls: Vec<Value>,
    pub(crate) output: Vec<(Stream, String)>,
    pub(crate) done: Done,
    /// Most calls without an answer at once.
    pub(crate) most_open: usize,
}

/// Chooses which open calls are answered now, in order, each with its time.
pub(crate) trait Player {
    /// Longest wait for another frame before it chooses again.
    fn patience(&mut self) -> Duration;

    /// Numbers of calls of `open`, and the times of their answers.
    fn choose(&mut self, open: &[u64]) -> Vec<(u64, u64)>;
}

/// What the gateway learned of a run: calls and output as they came, and the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Played {
    pub(crate) said: Vec<String>,
    pub(crate) result: String,
    /// Kind of the error, and the code of its call.
    pub(crate) failure: Option<String>,
}

impl Worker {
    pub(crate) fn start(engine: Engine) -> Self {
        let exe = std::env::current_exe().expect("own path");
        let mut child = Command::new(exe)
            .arg("worker")
            .args(engine.args)
            .env_clear()
            // A machine elsewhere: no script may notice.
            .env("TZ", "JST-9")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("worker starts");
        let stdin = child.stdin.take();
        let mut stdout = child.stdout.take().expect("stdout");
        let (sender, frames) = channel();
        thread::spawn(move || {
            while let Ok(Some(frame)) = read_frame(&mut stdout) {
                if sender.send(frame).is_err() {
                    break;
                }
            }
        });
        let ready = match frames.recv_timeout(PATIENCE) {
            Ok(FromWorker::Ready(ready)) => ready,
            other => panic!("first frame is {other:?}"),
        };
        let stash = BTreeMap::new();
        Self { child, stdin, frames, ready, language: engine.language, runs: 0, stash }
    }

    /// Runs a script body, wrapped as the gateway would.
    pub(crate) fn run(&mut self, body: &str, limits: Limits) -> Transcript {
        self.run_code(self.module(body), limits).expect("the worker answers")
    }

    /// Resident memory of the process in bytes, if known.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let statistics = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).ok()?;
        Some(statistics.split_whitespace().nth(1)?.parse::<u64>().ok()? * 4096)
    }

    /// Open descriptors of the process; only root can read a worker's.
    pub(crate) fn descriptors(&self) -> Option<usize> {
        Some(std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?.count())
    }

    /// Language of this worker.
    pub(crate) fn language(&self) -> Language {
        self.language
    }

    /// Starts code unwrapped.
    pub(crate) fn start_code(&mut self, code: String) {
        self.send_run(code, LIMITS);
    }

    fn send_run(&mut self, code: String, limits: Limits) {
        self.send_seeded(code, limits, SEED);
    }

    fn send_seeded(&mut self, code: String, limits: Limits, seed: [u8; 32]) {
        self.runs += 1;
        let servers = ["github", "console", "my_server"]
            .map(|ident| Server { ident: ident.to_owned(), name: ident.replace("my_server", "my-server") })
            .to_vec();
        let run =
            Run { run: self.runs, language: self.language, code, servers, limits, seed, now_ms: NOW_MS, args: None };
        self.send(&ToWorker::Run(Box::new(run)));
    }

    /// Runs code unwrapped; `None` when the worker ended without an answer.
    pub(crate) fn run_code(&mut self, code: String, limits: Limits) -> Option<Transcript> {
        let mut most_open = 0;
        self.send_run(code, limits);
        let mut transcript = (Vec::new(), Vec::new());
        let mut delayed: Vec<(Instant, Reply)> = Vec::new();
        loop {
            delayed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
            while delayed.last().is_some_and(|(at, _)| *at <= Instant::now()) {
                let (_, reply) = delayed.pop()?;
                self.send(&ToWorker::Reply(reply));
            }
            let wait = delayed.last().map_or(PATIENCE, |(at, _)| at.saturating_duration_since(Instant::now()));
            match self.frames.recv_timeout(wait) {
                Ok(FromWorker::Call(call)) => {
                    // serde_json has private keys that it cannot read as a value.
                    let text = || serde_json::to_string(&call.op).expect("op");
                    transcript.0.push(serde_json::to_value(&call.op).unwrap_or_else(|_| Value::String(text())));
                    let (delay, reply) = self.answer(call);
                    delayed.push((Instant::now() + delay, reply));
                    most_open = most_open.max(delayed.len());
                }
                Ok(FromWorker::Output(output)) => transcript.1.push((output.stream, output.text)),
                Ok(FromWorker::Done(done)) => {
                    assert_eq!(done.run, self.runs);
                    let (calls, output) = transcript;
                    return Some(Transcript { calls, output, done: *done, most_open });
                }
                Ok(FromWorker::Ready(_) | FromWorker::Pong(_) | FromWorker::Checked(_)) => {
                    panic!("neither is asked for in a run")
                }
                Err(RecvTimeoutError::Timeout) if !delayed.is_empty() => {}
                Err(RecvTimeoutError::Timeout) => panic!("the worker hangs"),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Starts a script body and hands its calls to `play`, which answers them in its own order and its own time.
    pub(crate) fn play(&mut self, body: &str, limits: Limits, seed: [u8; 32], player: &mut impl Player) -> Played {
        let code = self.module(body);
        self.send_seeded(code, limits, seed);
        let mut said = Vec::new();
        let mut open: Vec<(u64, Outcome)> = Vec::new();
        loop {
            let patience = if open.is_empty() { PATIENCE } else { player.patience() };
            match self.frames.recv_timeout(patience) {
                Ok(FromWorker::Call(call)) => {
                    said.push(format!("{} {}", call.call, serde_json::to_string(&call.op).expect("op")));
                    let number = call.call;
                    let (_, reply) = self.answer(call);
                    open.push((number, reply.outcome));
                }
                Ok(FromWorker::Output(output)) => said.push(output.text),
                Ok(FromWorker::Done(done)) => {
                    let failure = done.result.as_ref().err().map(|error| match &error.error {
                        Some(call) => format!("{:?} {:?}", error.kind, call.code),
                        None => format!("{:?}", error.kind),
                    });
                    let result = done.result.map_or_else(|error| format!("{error:?}"), |json| json.get().to_owned());
                    return Played { said, result, failure };
                }
                Err(RecvTimeoutError::Timeout) if !open.is_empty() => {}
                other => panic!("{other:?}"),
            }
            let mut frames = Vec::new();
            for (call, now_ms) in player.choose(&open.iter().map(|(call, _)| *call).collect::<Vec<_>>()) {
                let position = open.iter().position(|(number, _)| *number == call).expect("an open call");
                let (_, outcome) = open.remove(position);
                let reply = ToWorker::Reply(Reply { run: self.runs, call, outcome, now_ms });
                frames.extend(wire::encode(&reply).expect("a frame"));
            }
            let _ = self.stdin.as_mut().expect("open").write_all(&frames);
        }
    }

    fn module(&self, body: &str) -> String {
        match self.language {
            Language::Javascript => format!("export default async () => {{\n{body}\n}}"),
            Language::Starlark => body.to_owned(),
        }
    }

    /// Collects the worker's calls without answering any.
    pub(crate) fn unanswered(&mut self) -> Vec<Call> {
        let mut calls = Vec::new();
        while let Ok(FromWorker::Call(call)) = self.frames.recv_timeout(Duration::from_secs(1)) {
            calls.push(call);
        }
        calls
    }

    /// Answers these calls and all that follow; returns the end of the run.
    pub(crate) fn answer_all(&mut self, mut calls: Vec<Call>) -> Done {
        loop {
            for call in calls.drain(..) {
                let (_, reply) = self.answer(call);
                self.send(&ToWorker::Reply(reply));
            }
            match self.frames.recv_timeout(PATIENCE) {
                Ok(FromWorker::Call(call)) => calls.push(call),
                Ok(FromWorker::Done(done)) => return *done,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends a frame; the next read notices a dead worker.
    pub(crate) fn send(&mut self, frame: &ToWorker) {
        let bytes = encode(frame).expect("it fits");
        let _ = self.stdin.as_mut().expect("open").write_all(&bytes);
    }

    /// Sends bytes that may not be a frame, and waits for the process to end.
    pub(crate) fn send_raw(mut self, bytes: &[u8]) -> ExitStatus {
        self.stdin.as_mut().expect("open").write_all(bytes).expect("stdin");
        self.child.wait().expect("wait")
    }

    /// Waits for the process to end after closing its stdin.
    pub(crate) fn close(mut self) -> ExitStatus {
        self.stdin = None;
        self.child.wait().expect("wait")
    }

    /// Waits for a process that ends on its own.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }

    /// Delay, and the answer. The clock is a second later with each call.
    fn answer(&mut self, call: Call) -> (Duration, Reply) {
        let (millis, outcome) = match call.op {
            Op::Tool { server, tool, args } => sample_tool(&server, &tool, &args),
            Op::StashPut { key, value, .. } => {
                self.stash.insert(key, value);
                (0, ok(Value::Null))
            }
            Op::StashGet { key } => {
                (0, Outcome::Ok(self.stash.get(&key).cloned().unwrap_or_else(|| raw(&Value::Null))))
            }
            Op::StashDelete { key } => (0, ok(json!(self.stash.remove(&key).is_some()))),
            Op::StashKeys => (0, ok(json!(self.stash.keys().collect::<Vec<_>>()))),
            Op::ResultsList => (0, ok(json!([{"path": "/results/1/1.json", "bytes": 7, "lines": 1, "labels": []}]))),
            Op::ResultsGet { path } => (0, ok(json!([path]))),
            Op::RunsList => (0, ok(json!([{"id": "0123456789ab", "state": "running"}]))),
            Op::RunsGet { run } => (0, ok(json!({"id": run, "state": "ok"}))),
            Op::RunsCancel { run } => (0, ok(json!(run == "0123456789ab"))),
            Op::Servers => (0, ok(json!([{"name": "github", "state": "ready"}]))),
            Op::Ls { path, .. } => (0, ok(json!(format!("listing of {path}")))),
            Op::Cat { paths, .. } => (0, ok(json!(format!("text of {}", paths.join(" and "))))),
            Op::Search { queries, .. } => (0, ok(json!(format!("hits for {}", queries.join(" and "))))),
            Op::SearchTools { query, .. } => (0, ok(json!([{"server": "github", "tool": query}]))),
            Op::ToolInfo { server, tool } => (0, ok(json!({"server": server, "name": tool}))),
            Op::Sleep { ms } => (u64::from(ms), ok(Value::Null)),
            Op::ReadResource { uri, .. } => (0, ok(json!({"uri": uri, "text": "content"}))),
            Op::Prompt { name, args, .. } => (0, ok(json!({"prompt": name, "args": args}))),
        };
        (
            Duration::from_millis(millis),
            Reply { run: call.run, call: call.call, outcome, now_ms: NOW_MS + 1000 * call.call },
        )
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Delay in milliseconds, and the answer.
fn sample_tool(server: &str, tool: &str, args: &RawValue) -> (u64, Outcome) {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(args.get()).expect("args are an object");
    let text = |key: &str| fields.get(key).map_or("", |value| value.get());
    match tool.rsplit('.').next().unwrap_or_default() {
        "echo" => (0, Outcome::Ok(args.to_owned())),
        "raw" => {
            let json: String = serde_json::from_str(text("json")).expect("text");
            (0, Outcome::Ok(RawValue::from_string(json).expect("json")))
        }
        "sleep" => (text("ms").parse().unwrap_or(0), Outcome::Ok(args.to_owned())),
        "big" => (0, ok(json!("x".repeat(text("bytes").parse().unwrap_or(0))))),
        "rows" => {
            let rows = 0..text("count").parse().unwrap_or(0);
            (
                0,
                ok(rows
                    .map(|n: u32| json!({"id": n, "name": format!("row {n}"), "tags": ["a", "b"], "open": true}))
                    .collect()),
            )
        }
        "fail" => (0, Outcome::Err(error(ErrorCode::ToolError, "the tool said no", Some(json!({"detail": [1, 2]}))))),
        name => {
            let args = serde_json::from_str(args.get()).unwrap_or_default();
            let outcome = match shop::answer(name, &args) {
                Some(Ok(value)) => ok(value),
                Some(Err(message)) => Outcome::Err(error(ErrorCode::ToolError, &message, None)),
                None => Outcome::Err(error(ErrorCode::ToolNotFound, &format!("no tool {tool} on {server}"), None)),
            };
            (0, outcome)
        }
    }
}

fn error(code: ErrorCode, message: &str, data: Option<Value>) -> CallError {
    let suggested_fix = (code == ErrorCode::ToolNotFound).then(|| "see ls(\"/github\")".to_owned());
    CallError { code, message: message.to_owned(), retryable: false, suggested_fix, data: data.map(|data| raw(&data)) }
}

fn ok(value: Value) -> Outcome {
    Outcome::Ok(raw(&value))
}

fn raw(value: &Value) -> Json {
    to_raw_value(value).expect("json")
}

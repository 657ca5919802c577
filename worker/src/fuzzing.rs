//! What fuzz/ drives, and its property tests: the real engines with a host in memory, and the checker.
//!
//! Built only for tests and with the feature `fuzzing`: engines are private to the worker, and their invariants stand
//! beside them. Each function takes any bytes and panics when an invariant does not hold.

mod checks;
mod converters;
mod scripts;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use wire::{
    CallError, ErrorCode, Json, Language, Limits, Op, Outcome, Reply, Run, ScriptError, ScriptErrorKind, Server, Stream,
};

use crate::engine::{Engine, Host, limit_call_error};
use crate::watchdog::{Interrupt, Watchdog};

pub use checks::{scripts, validator};
pub use converters::json_converters;
pub use scripts::starlark_host_calls;

/// Start of every run.
const NOW_MS: u64 = 1_750_000_000_000;

/// Small, so that scripts meet them.
const LIMITS: Limits =
    Limits { cpu_ms: 1000, heap_bytes: 32 << 20, output_bytes: 4 << 10, result_bytes: 64 << 10, calls: 20 };
/// Most requests of all kinds in a run.
const MAX_OPS: usize = 200;
/// Stack of the engine thread: a worker's, with room for a sanitizer's overhead per frame.
const STACK: usize = 64 << 22;
/// Factor by which the engine's account may miss heap: one native may double a value between two checks.
const HEAP_FACTOR: u64 = 3;

/// Result of a run.
struct Ran {
    result: Result<Json, ScriptError>,
    ops: usize,
    output: usize,
    heap_bytes: u64,
    took: Duration,
}

/// A script with its host's answers and their order.
struct Job {
    language: Language,
    code: String,
    answers: Answers,
    done: Sender<Ran>,
}

/// The host's answers to tool calls; it handles everything else itself.
enum Answers {
    /// Always this value.
    Json(Json),
    /// By the name of the tool; the bytes choose the next of the waiting answers.
    ByName(Vec<u8>),
}

/// Runs a script on the only engine thread of the process: engines stay on the thread that made them, and the watchdog
/// watches one thread.
fn run(language: Language, code: String, answers: Answers) -> Ran {
    static JOBS: Mutex<Option<Sender<Job>>> = Mutex::new(None);
    let (done, ended) = channel();
    let mut jobs = JOBS.lock();
    let to_engine = jobs.get_or_insert_with(start);
    let sent = to_engine.send(Job { language, code, answers, done });
    let ran = sent.map_err(|_| mpsc::RecvError).and_then(|()| ended.recv());
    ran.unwrap_or_else(|_| {
        *jobs = None;
        panic!("the engine panicked")
    })
}

fn start() -> Sender<Job> {
    let (sender, jobs) = channel();
    let thread = std::thread::Builder::new().name("engine".to_owned()).stack_size(STACK);
    thread.spawn(move || serve(&jobs)).expect("the engine thread starts");
    sender
}

fn serve(jobs: &Receiver<Job>) {
    let interrupt = Arc::new(Interrupt::default());
    let mut watchdog = Watchdog::start(Arc::clone(&interrupt)).expect("the watchdog starts");
    let mut starlark = crate::starlark::Starlark::new(Arc::clone(&interrupt));
    #[cfg(feature = "quickjs")]
    let mut javascript = crate::js::quickjs::QuickJs::new(interrupt).expect("QuickJS starts");
    while let Ok(Job { language, code, answers, done }) = jobs.recv() {
        let engine: &mut dyn Engine = match language {
            Language::Starlark => &mut starlark,
            #[cfg(feature = "quickjs")]
            Language::Javascript => &mut javascript,
            #[cfg(not(feature = "quickjs"))]
            Language::Javascript => panic!("this build has no QuickJS"),
        };
        engine.prepare();
        let servers = vec![Server { ident: "s".to_owned(), name: "s".to_owned() }];
        let run = Run { run: 1, language, code, servers, limits: LIMITS, seed: [7; 32], now_ms: NOW_MS, args: None };
        let host = Rc::new(RefCell::new(MemoryHost::new(answers)));
        let shared: Rc<RefCell<dyn Host>> = Rc::<RefCell<MemoryHost>>::clone(&host);
        let started = Instant::now();
        watchdog.arm(&run);
        let result = engine.run(&run, &shared);
        watchdog.disarm();
        let host = host.borrow();
        let heap_bytes = engine.heap_bytes();
        let ran = Ran { result, ops: host.ops, output: host.output, heap_bytes, took: started.elapsed() };
        let _ = done.send(ran);
    }
}

/// Compiles the static layer's output in QuickJS, without calling it.
#[cfg(feature = "quickjs")]
pub fn quickjs_compiles(code: &str) -> Result<(), String> {
    let uncalled = code.replacen("export default", "export default async () => 1; const script =", 1);
    match run(Language::Javascript, uncalled, Answers::ByName(Vec::new())).result {
        Err(error) if error.kind == ScriptErrorKind::Syntax => Err(error.message),
        _ => Ok(()),
    }
}

/// Checks invariants of every run.
fn check(ran: &Ran, code: &str) {
    assert!(ran.ops <= MAX_OPS, "{} requests", ran.ops);
    assert!(ran.heap_bytes <= LIMITS.heap_bytes * HEAP_FACTOR, "{} bytes of heap: {code}", ran.heap_bytes);
    match &ran.result {
        Ok(json) => assert!(json.get().len() as u64 <= LIMITS.result_bytes, "a result of {} bytes", json.get().len()),
        Err(error) => {
            assert!(error.kind != ScriptErrorKind::Internal, "{error:?}: {code}");
            assert!(error.message.len() <= 8 << 10, "a message of {} bytes: {code}", error.message.len());
            assert!(error.trace.len() <= 10, "{} frames", error.trace.len());
            assert!(error.line as usize <= code.split('\n').count(), "line {}: {code}", error.line);
        }
    }
}

/// The gateway's end, without a process in between.
struct MemoryHost {
    answers: Answers,
    at: usize,
    ops: usize,
    output: usize,
    waiting: VecDeque<Reply>,
    stash: BTreeMap<String, Json>,
}

impl MemoryHost {
    fn new(answers: Answers) -> Self {
        Self { answers, at: 0, ops: 0, output: 0, waiting: VecDeque::new(), stash: BTreeMap::new() }
    }

    fn choose(&mut self) -> usize {
        self.at += 1;
        match &self.answers {
            Answers::ByName(bytes) if !bytes.is_empty() => usize::from(bytes[self.at % bytes.len()]),
            _ => 0,
        }
    }

    fn answer(&mut self, op: Op) -> Outcome {
        match op {
            Op::StashPut { key, value, .. } => {
                self.stash.insert(key, value);
                Outcome::Ok(json("null"))
            }
            Op::StashGet { key } => Outcome::Ok(self.stash.get(&key).cloned().unwrap_or_else(|| json("null"))),
            Op::StashDelete { key } => Outcome::Ok(json(&self.stash.remove(&key).is_some().to_string())),
            Op::StashKeys => Outcome::Ok(json(&serde_json::json!(self.stash.keys().collect::<Vec<_>>()).to_string())),
            Op::Tool { tool, args, .. } => match &self.answers {
                Answers::Json(answer) => Outcome::Ok(answer.clone()),
                Answers::ByName(_) => by_name(&tool, args),
            },
            Op::Prompt { name, args, .. } => by_name(&name, args),
            _ => Outcome::Ok(json("\"text\"")),
        }
    }
}

/// Awkward values and errors.
fn by_name(tool: &str, args: Json) -> Outcome {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    Outcome::Ok(match tool.bytes().last() {
        Some(b'a') => json("[1, -0.0, 1e308, 12345678901234567890123, \"\\u0000\", {\"a\": null, \"\": true}]"),
        Some(b'b') => json("1e400"),
        Some(b'c') => json(&deep),
        Some(b'd') => {
            let data = Some(json("{\"code\": [1, 2]}"));
            let message = "no\u{0} {} %s".to_owned();
            let suggested_fix = Some("try {this}".to_owned());
            return Outcome::Err(CallError {
                code: ErrorCode::ToolError,
                message,
                retryable: true,
                suggested_fix,
                data,
            });
        }
        Some(b'e') => {
            let data = Some(json(&deep));
            return Outcome::Err(CallError { data, ..limit_call_error(String::new()) });
        }
        Some(b'f') => json("{\"$serde_json::private::Number\": \"x\"}"),
        _ => args,
    })
}

fn json(text: &str) -> Json {
    RawValue::from_string(text.to_owned()).expect("the text is JSON")
}

impl Host for MemoryHost {
    fn send(&mut self, op: Op) -> Result<u64, CallError> {
        if self.ops == MAX_OPS {
            return Err(limit_call_error("too many".to_owned()));
        }
        self.ops += 1;
        let call = self.ops as u64;
        let outcome = self.answer(op);
        self.waiting.push_back(Reply { run: 1, call, outcome, now_ms: NOW_MS + call });
        Ok(call)
    }

    fn recv(&mut self) -> Reply {
        let chosen = self.choose() % self.waiting.len().max(1);
        // The gateway would never answer: the run would hang until the wall clock ends it.
        self.waiting.remove(chosen).expect("the engine waits only for calls that it made")
    }

    fn output(&mut self, _stream: Stream, text: &str) {
        self.output += text.len();
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn calls_left(&self) -> u32 {
        u32::try_from(MAX_OPS.saturating_sub(self.ops)).unwrap_or(0)
    }
}

/// Bytes as decisions.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn next(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.next() % options.len()]
    }

    fn text(&mut self) -> String {
        let length = (self.next() % 12).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn json_keeps_its_value_through_every_engine(data in vec(any::<u8>(), 0..200)) {
            super::json_converters(&data);
        }

        #[test]
        fn any_bytes_as_a_script_are_refused_with_a_place_or_wrapped(data in vec(any::<u8>(), 0..200)) {
            super::validator(&data);
        }

        #[test]
        fn any_starlark_script_ends_within_its_limits(data in vec(any::<u8>(), 0..300)) {
            super::starlark_host_calls(&data);
        }
    }
    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn scripts_take_linear_memory(data in vec(any::<u8>(), 0..20)) {
            super::scripts(&data);
        }
    }
}

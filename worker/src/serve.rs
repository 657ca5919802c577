//! The process: its threads, and the loop over runs.
//!
//! The main thread waits for the gateway's end; a second one reads frames and runs the engines, on a stack of known
//! size; a third watches CPU time. Any of them can end the process, with the exit codes below: there is nothing to
//! clean up, and an engine in an endless loop cannot be asked.

use std::any::Any;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use parking_lot::Mutex;
use wire::{
    Call, CallError, Done, FrameError, FromWorker, Json, Language, Layer, MAX_FRAME, PROTOCOL, Ready, Run, ScriptError,
    ScriptErrorKind, Stats, Stream, ToWorker, encode,
};

use confine::worker::{self, DataLimit};

use crate::JsEngine;
use crate::engine::{Engine, Host, SharedHost, heap_error, invalid_call_error};
use crate::host::FrameHost;
use crate::inbox::{Inbox, take_stdin, wait_for_end};
use crate::watchdog::{Interrupt, Watchdog};
use crate::{check, last_words};

/// The worker could not start.
pub(crate) const EXIT_START: u8 = 2;
/// The gateway sent something other than a frame, or an unexpected one.
const EXIT_PROTOCOL: i32 = 3;
/// The gateway has closed its end of stdout.
const EXIT_WIRE: i32 = 4;
/// A bug; `Done` with kind `Internal` was sent if a run was active.
const EXIT_INTERNAL: i32 = 5;
/// A run used more memory or CPU than its engine could stop; `Done` says so.
pub(crate) const EXIT_LIMIT: i32 = 6;

/// Stack of the engine thread. Virtual: only used pages become resident.
const ENGINE_STACK: usize = 64 << 20;

/// Runs scripts until stdin ends, which ends the process.
pub(crate) fn run_scripts(js: JsEngine) -> anyhow::Result<Infallible> {
    let before = move |wire: &Wire| {
        last_words::arm(wire);
        #[cfg(feature = "v8")]
        if js == JsEngine::V8 {
            crate::js::v8::start_platform();
        }
    };
    serve("engine", ENGINE_STACK, before, move |wire, inbox, memory, mut layers| {
        let worker = Worker::new(js, wire, inbox, memory)?;
        layers.extend(worker::after_threads());
        Ok(worker.serve(layers))
    })
}

/// Checks scripts until stdin ends, which ends the process. It never has an engine.
pub(crate) fn check_scripts() -> anyhow::Result<Infallible> {
    serve(
        "checker",
        check::STACK,
        |_| {},
        |wire, inbox, memory, mut layers| {
            layers.extend(worker::after_threads());
            Ok(check::serve(&wire, &inbox, &memory, layers))
        },
    )
}

/// Takes the standard streams, confines the process, and does its work in a thread with a stack of known size; `before`
/// is done in the main one.
fn serve(
    name: &str,
    stack: usize,
    before: impl FnOnce(&Wire),
    work: impl FnOnce(Wire, Inbox, DataLimit, Vec<Layer>) -> anyhow::Result<Infallible> + Send + 'static,
) -> anyhow::Result<Infallible> {
    use_utc();
    let stdin = take_stdin().context("stdin")?;
    let wire = Wire::take_stdout().context("stdout")?;
    let memory = DataLimit::new();
    let layers = worker::before_threads();
    before(&wire);
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(stack);
    let started = thread.spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(|| work(wire, Inbox::new(stdin), memory, layers)));
        let reason = match ended {
            Ok(Err(error)) => format!("{error:#}"),
            Err(panic) => panic_text(panic.as_ref()),
        };
        complain(&reason);
        exit(EXIT_INTERNAL)
    });
    started.with_context(|| format!("{name} thread"))?;
    wait_for_end();
    exit(0)
}

/// Sets the time zone of the process, which engines ask for: a script's dates are the same on every machine.
#[expect(unsafe_code, reason = "the environment may be written while the process has one thread")]
fn use_utc() {
    unsafe { std::env::set_var("TZ", "UTC") }
}

/// Ends the process because the gateway broke the protocol.
pub(crate) fn protocol_error(what: &str) -> ! {
    complain(&format!("protocol error: {what}"));
    exit(EXIT_PROTOCOL)
}

/// The engine thread's part of the process.
struct Worker {
    wire: Wire,
    inbox: Inbox,
    javascript: Option<Box<dyn Engine>>,
    starlark: Box<dyn Engine>,
    watchdog: Watchdog,
    memory: DataLimit,
}

impl Worker {
    fn new(js: JsEngine, wire: Wire, inbox: Inbox, memory: DataLimit) -> anyhow::Result<Self> {
        let interrupt = Arc::new(Interrupt::default());
        let watchdog = Watchdog::start(Arc::clone(&interrupt)).context("watchdog")?;
        let mut javascript: Option<Box<dyn Engine>> = match js {
            #[cfg(feature = "quickjs")]
            JsEngine::QuickJs => Some(Box::new(crate::js::quickjs::QuickJs::new(Arc::clone(&interrupt))?)),
            #[cfg(feature = "v8")]
            JsEngine::V8 => Some(Box::new(crate::js::v8::V8::new(Arc::clone(&interrupt))?)),
            #[cfg(not(any(feature = "quickjs", feature = "v8")))]
            JsEngine::None => None,
        };
        let mut starlark: Box<dyn Engine> = Box::new(crate::starlark::Starlark::new(interrupt));
        for engine in javascript.iter_mut().chain([&mut starlark]) {
            engine.prepare();
        }
        Ok(Self { wire, inbox, javascript, starlark, watchdog, memory })
    }

    fn serve(mut self, confinement: Vec<Layer>) -> Infallible {
        let engines = self.javascript.iter().chain([&self.starlark]).map(|engine| engine.info()).collect();
        self.wire.send(&FromWorker::Ready(Ready { protocol: PROTOCOL, engines, confinement }));
        loop {
            match self.inbox.recv() {
                // Reply to a call that an earlier script did not await.
                ToWorker::Reply(_) => {}
                ToWorker::Run(run) => self.run(&run),
                ToWorker::Ping(number) => self.wire.send(&FromWorker::Pong(number)),
                ToWorker::Check(_) => protocol_error("a script to check where scripts run"),
            }
        }
    }

    fn run(&mut self, run: &Run) {
        let engine = match (run.language, &mut self.javascript) {
            (Language::Starlark, _) => &mut self.starlark,
            (Language::Javascript, Some(engine)) => engine,
            (Language::Javascript, None) => {
                let error = ScriptError::new(ScriptErrorKind::Internal, "this build has no JavaScript engine");
                return self.wire.done(run, Err(error), Stats::default());
            }
        };
        let host = Rc::new(RefCell::new(FrameHost::new(run.run, run.limits, self.wire.clone(), self.inbox.clone())));
        let shared: SharedHost = Rc::<RefCell<FrameHost>>::clone(&host);
        last_words::prepare(run);
        self.memory.set(run.limits.heap_bytes);
        self.watchdog.arm(run);
        let ended = catch_unwind(AssertUnwindSafe(|| engine.run(run, &shared)));
        // The gateway drops calls under way with the run: of one that met its limit, the ledger says how each ended.
        if matches!(&ended, Ok(Err(error)) if error.kind == ScriptErrorKind::Calls) {
            let mut host = host.borrow_mut();
            while host.in_flight() > 0 {
                host.recv();
            }
        }
        let stats = Stats { cpu_us: self.watchdog.disarm(), heap_bytes: engine.heap_bytes() };
        self.memory.lift();
        last_words::forget();
        let result = match ended {
            Ok(result) => result,
            // Starlark's arenas panic where other allocations abort.
            Err(panic) if panic_text(panic.as_ref()) == "out of memory" => {
                self.wire.done(run, Err(heap_error(run)), stats);
                exit(EXIT_LIMIT)
            }
            Err(panic) => {
                let text = format!("the worker failed: {}", panic_text(panic.as_ref()));
                self.wire.done(run, Err(ScriptError::new(ScriptErrorKind::Internal, text)), stats);
                exit(EXIT_INTERNAL)
            }
        };
        say_if_unawaited(&mut *host.borrow_mut(), result.is_ok());
        self.wire.done(run, result, stats);
        engine.prepare();
    }
}

/// Tells of calls without an answer. Those of a failed script may be awaited, by `Promise.all` that ends with the first
/// failure, and their outcome is on record.
fn say_if_unawaited(host: &mut dyn Host, is_ok: bool) {
    let text = match host.in_flight() {
        0 => return,
        _ if !is_ok => {
            "[the script failed before all of its calls were answered: `await` each, or all by `Promise.allSettled`]"
                .to_owned()
        }
        calls => {
            let (calls, were) =
                if calls == 1 { ("1 call".to_owned(), "was") } else { (format!("{calls} calls"), "were") };
            format!(
                "[{calls} {were} not awaited, so the outcome is unknown: `await` each; those of a list by \
                 `await Promise.all(items.map(async (x) => …))`, since `forEach` and `filter` do not wait]"
            )
        }
    };
    host.output(Stream::Err, &text);
}

/// The frame stream to the gateway.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Mutex<BufWriter<File>>>);

impl Wire {
    /// Takes stdout for frames and points the descriptor at stderr, so that nothing else can write there.
    fn take_stdout() -> io::Result<Self> {
        let own = nix::unistd::dup(io::stdout())?;
        nix::unistd::dup2_stdout(io::stderr())?;
        Ok(Self(Arc::new(Mutex::new(BufWriter::new(File::from(own))))))
    }

    /// Sends a frame. Without a gateway to read it the process ends.
    pub(crate) fn send(&self, frame: &FromWorker) {
        if let Err(error) = self.try_send(frame) {
            complain(&error.to_string());
            exit(EXIT_INTERNAL)
        }
    }

    /// Sends a frame, unless it is larger than a frame may be; its size in bytes.
    pub(crate) fn try_send(&self, frame: &FromWorker) -> Result<usize, FrameError> {
        let sent = self.write(frame);
        self.flush();
        sent
    }

    fn write(&self, frame: &FromWorker) -> Result<usize, FrameError> {
        let bytes = encode(frame)?;
        if self.0.lock().write_all(&bytes).is_err() {
            exit(EXIT_WIRE);
        }
        Ok(bytes.len())
    }

    /// Sends the calls that were made since the last frame of another kind.
    pub(crate) fn flush(&self) {
        if self.0.lock().flush().is_err() {
            exit(EXIT_WIRE);
        }
    }

    /// Makes a call unless it is larger than a frame; returns its size in bytes. Calls made together are sent together,
    /// when the script waits: the gateway asks about them in one question, and is woken once.
    pub(crate) fn send_call(&self, call: Call) -> Result<usize, CallError> {
        self.write(&FromWorker::Call(call)).map_err(|error| match error {
            FrameError::TooLarge(bytes) => invalid_call_error(format!(
                "the request is {bytes} bytes of JSON, over the limit of {MAX_FRAME}: send less at once"
            )),
            other => invalid_call_error(format!("the request cannot be sent: {other}")),
        })
    }

    fn done(&self, run: &Run, result: Result<Json, ScriptError>, stats: Stats) {
        self.send(&FromWorker::Done(Box::new(Done { run: run.run, result, stats })));
    }

    /// The descriptor, for the one message that must be sent without a lock or an allocation.
    pub(crate) fn raw_fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsRawFd;
        self.0.lock().get_ref().as_raw_fd()
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

fn complain(reason: &str) {
    // The gateway may have closed stderr; the exit code suffices.
    let _ = writeln!(io::stderr(), "forgefs worker: {reason}");
}

/// Ends the process without destructors of engines that other threads still use.
pub(crate) fn exit(code: i32) -> ! {
    if cfg!(feature = "fuzzing") {
        std::process::abort(); // A fuzzer keeps the input that did this.
    }
    #[expect(unsafe_code, reason = "_exit has no preconditions; std offers only exit, which runs exit handlers")]
    unsafe {
        nix::libc::_exit(code)
    }
}

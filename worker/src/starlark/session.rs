//! State shared by natives during one run.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::value::RawValue;
use starlark::ErrorKind;
use starlark::any::ProvidesStaticType;
use starlark::eval::Evaluator;
use starlark::values::{Heap, Value};
use wire::{CallError, ErrorCode, Json, Limits, Op, Outcome, Run, Stream};

use super::convert::{from_json, to_json};
use super::shape::shape_of;
use crate::engine::SharedHost;
use crate::watchdog::Interrupt;

/// Largest arguments of a call as JSON, in bytes. The gateway's own limit is smaller.
const MAX_ARGS: usize = 8 << 20;

/// Most functions whose answers are noted.
const MAX_ANSWERS: usize = 50;
/// Most bytes of an error's message in the note about failed items.
const MAX_FIRST: usize = 300;

/// One run, for natives.
#[derive(ProvidesStaticType)]
pub(super) struct Session {
    host: SharedHost,
    interrupt: Arc<Interrupt>,
    limits: Limits,
    /// Answers that arrived while another one was awaited.
    answers: RefCell<HashMap<u64, (Outcome, u64)>>,
    /// Clock of the run: it moves to the time of each answer that the script waited for.
    now_ms: Cell<u64>,
    /// Functions that made calls, as written, and the shape of the last answer of each: for errors.
    shapes: RefCell<Vec<(String, String)>>,
    /// Failed items of `parallel`, and the first of them in words.
    failed: Cell<usize>,
    first_failed: RefCell<String>,
    /// Send the next request without waiting: `parallel` waits for its answer.
    capture: Cell<bool>,
    /// Digest of the requests of a function, while one is watched; 0 for none.
    requests: Cell<Option<u64>>,
}

/// Error of a call, on its way out of the script.
#[derive(Debug, thiserror::Error)]
#[error("{}", error.message)]
pub(super) struct CallFailed {
    /// The call; `None` if a limit prevented it.
    pub(super) call: Option<u64>,
    pub(super) error: CallError,
}

impl CallFailed {
    pub(super) fn of(error: &starlark::Error) -> Option<&Self> {
        native(error)
    }

    /// True if a limit of the run prevented the call.
    pub(super) fn is_limit(&self) -> bool {
        self.call.is_none() && self.error.code == ErrorCode::LimitExceeded
    }
}

/// Not an error of the script: a call that was sent, and is awaited elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("call {0} is in flight")]
pub(super) struct Captured(u64);

impl Captured {
    pub(super) fn of(error: &starlark::Error) -> Option<u64> {
        native(error).map(|Self(call)| *call)
    }
}

pub(super) fn native<E: std::error::Error + Send + Sync + 'static>(error: &starlark::Error) -> Option<&E> {
    match error.kind() {
        ErrorKind::Native(error) | ErrorKind::Other(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Early end of a native.
pub(super) type Fallible<T> = Result<T, CallFailed>;

impl Session {
    pub(super) fn new(host: &SharedHost, interrupt: &Arc<Interrupt>, run: &Run) -> Self {
        Self {
            host: SharedHost::clone(host),
            interrupt: Arc::clone(interrupt),
            limits: run.limits,
            answers: RefCell::default(),
            now_ms: Cell::new(run.now_ms),
            shapes: RefCell::default(),
            failed: Cell::new(0),
            first_failed: RefCell::default(),
            capture: Cell::new(false),
            requests: Cell::new(None),
        }
    }

    /// The session of a running evaluation.
    pub(super) fn of<'a>(eval: &Evaluator<'_, 'a, '_>) -> anyhow::Result<&'a Self> {
        let extra = eval.extra.ok_or_else(|| anyhow::anyhow!("no script is running"))?;
        extra.downcast_ref::<Self>().ok_or_else(|| anyhow::anyhow!("no script is running"))
    }

    /// True if the script must end now: CPU time or heap are used up.
    pub(super) fn is_over(&self, heap: Heap<'_>) -> bool {
        self.is_cpu_used_up() || self.is_heap_used_up(heap.allocated_bytes())
    }

    /// Ends a native that goes on for long.
    pub(super) fn check(&self, heap: Heap<'_>) -> anyhow::Result<()> {
        if self.is_over(heap) { Err(anyhow::anyhow!("a limit of the run is used up")) } else { Ok(()) }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    pub(super) fn is_cpu_used_up(&self) -> bool {
        self.interrupt.is_raised()
    }

    pub(super) fn is_heap_used_up(&self, bytes: usize) -> bool {
        bytes as u64 > self.limits.heap_bytes
    }

    /// Most bytes of one value.
    pub(super) fn heap_bytes(&self) -> usize {
        usize::try_from(self.limits.heap_bytes).unwrap_or(usize::MAX)
    }

    /// Most bytes of captured output.
    pub(super) fn output_bytes(&self) -> usize {
        usize::try_from(self.limits.output_bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn calls_left(&self) -> u32 {
        self.host.borrow().calls_left()
    }

    pub(super) fn output(&self, stream: Stream, text: &str) {
        self.host.borrow_mut().output(stream, text);
    }

    /// Notes the answer of a call by its function as written.
    pub(super) fn answered(&self, form: &str, value: Value<'_>) {
        let mut shapes = self.shapes.borrow_mut();
        match shapes.iter().position(|(known, _)| known == form) {
            Some(position) => shapes[position].1 = shape_of(value),
            None if shapes.len() < MAX_ANSWERS => shapes.push((form.to_owned(), shape_of(value))),
            None => {}
        }
    }

    pub(super) fn shapes(&self) -> Vec<(String, String)> {
        self.shapes.take()
    }

    /// Notes failed items of `parallel`.
    pub(super) fn failed(&self, items: usize) {
        self.failed.set(self.failed.get().saturating_add(items));
    }

    /// Notes the first of them, unless there was one before.
    pub(super) fn failed_first<'v>(&self, index: i32, error: Value<'v>, heap: Heap<'v>) -> starlark::Result<()> {
        let mut first = self.first_failed.borrow_mut();
        if first.is_empty() {
            let text = |name| Ok::<_, starlark::Error>(error.get_attr(name, heap)?.and_then(|v| v.unpack_str()));
            let (code, message) = (text("code")?.unwrap_or_default(), text("message")?.unwrap_or_default());
            *first = format!("[{index}] {code}: {}", &message[..message.floor_char_boundary(MAX_FIRST)]);
        }
        Ok(())
    }

    /// Tells a script that took failed items for answers: `code` never reads an outcome's `ok` or `error`.
    pub(super) fn tell_unseen(&self, code: &str) {
        let failed = self.failed.get();
        if failed == 0 || code.contains(".ok") || code.contains(".error") {
            return;
        }
        let items = match failed {
            1 => "1 item failed and is None".to_owned(),
            failed => format!("{failed} items failed and are None"),
        };
        let text =
            format!("parallel: {items}; the script did not read `.errors`; first: {}", self.first_failed.borrow());
        self.output(Stream::Err, &text);
    }

    /// Begins to digest requests.
    pub(super) fn watch(&self) {
        self.requests.set(Some(0));
    }

    /// Digest of the requests since then; `None` without any.
    pub(super) fn watched(&self) -> Option<u64> {
        self.requests.take().filter(|digest| *digest != 0)
    }

    /// Tells of functions for `parallel` that made the same calls.
    pub(super) fn tell_alike(&self, functions: usize) {
        let text = format!(
            "parallel: {functions} functions made the same calls: a `lambda` in a loop sees the last value of the \
             loop's name; write `defer(server.tool, name = x)`, which keeps the value"
        );
        self.output(Stream::Err, &text);
    }

    pub(super) fn send(&self, op: Op) -> Fallible<u64> {
        if let Some(before) = self.requests.get() {
            let mut digest = DefaultHasher::new();
            (before, format!("{op:?}")).hash(&mut digest);
            self.requests.set(Some(digest.finish()));
        }
        self.host.borrow_mut().send(op).map_err(|error| CallFailed { call: None, error })
    }

    /// Waits for the answer to one call.
    pub(super) fn wait(&self, call: u64) -> Fallible<Json> {
        let outcome = loop {
            if let Some((outcome, now_ms)) = self.answers.borrow_mut().remove(&call) {
                self.now_ms.set(now_ms.max(self.now_ms.get()));
                break outcome;
            }
            self.receive();
        };
        match outcome {
            Outcome::Ok(json) => Ok(json),
            Outcome::Err(error) => Err(CallFailed { call: Some(call), error }),
        }
    }

    /// Waits until one of `calls` is answered; returns its number.
    pub(super) fn wait_any(&self, calls: &[u64]) -> u64 {
        loop {
            let answers = self.answers.borrow();
            if let Some(call) = calls.iter().find(|call| answers.contains_key(call)) {
                return *call;
            }
            drop(answers);
            self.receive();
        }
    }

    fn receive(&self) {
        let reply = self.host.borrow_mut().recv();
        self.answers.borrow_mut().insert(reply.call, (reply.outcome, reply.now_ms));
    }

    /// Makes the next request return [`Captured`] instead of its value.
    pub(super) fn capture(&self, on: bool) {
        self.capture.set(on);
    }

    /// Sends a request and waits for its value.
    pub(super) fn ask<'v>(&self, op: Op, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let call = self.send(op).map_err(starlark::Error::new_native)?;
        if self.capture.take() {
            return Err(starlark::Error::new_native(Captured(call)));
        }
        let json = self.wait(call).map_err(starlark::Error::new_native)?;
        Ok(self.read_json(json.get(), heap)?)
    }

    /// Parses a JSON text, as large as the heap allows.
    pub(super) fn read_json<'v>(&self, json: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        from_json(json, heap, self.heap_bytes())
    }
}

/// A value as the JSON of an argument.
pub(super) fn argument<'v>(value: Value<'v>, heap: Heap<'v>) -> anyhow::Result<Json> {
    Ok(RawValue::from_string(to_json(value, heap, MAX_ARGS)?)?)
}

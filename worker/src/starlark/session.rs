//! What natives share during one run.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use starlark::ErrorKind;
use starlark::any::ProvidesStaticType;
use starlark::eval::Evaluator;
use starlark::values::{Heap, Value};
use wire::{CallError, Json, Limits, Op, Outcome, Stream};

use super::convert::{from_json, to_json};
use crate::engine::SharedHost;
use crate::watchdog::Interrupt;

/// Largest arguments of a call as JSON, in bytes. The gateway has its own limit, which is smaller.
const MAX_ARGS: usize = 8 << 20;

/// One run, as natives see it.
#[derive(ProvidesStaticType)]
pub(super) struct Session {
    host: SharedHost,
    interrupt: Arc<Interrupt>,
    limits: Limits,
    /// Answers that came while another one was waited for.
    answers: RefCell<HashMap<u64, Outcome>>,
    /// The next request is sent only: `parallel` waits for its answer.
    capture: Cell<bool>,
}

/// The error of a call, on its way out of the script.
#[derive(Debug)]
pub(super) struct CallFailed {
    /// The call; none if a limit kept it from being made.
    pub(super) call: Option<u64>,
    pub(super) error: CallError,
}

impl fmt::Display for CallFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

impl std::error::Error for CallFailed {}

impl CallFailed {
    pub(super) fn of(error: &starlark::Error) -> Option<&Self> {
        native(error)
    }
}

/// Not an error of the script: a call that was sent and is not waited for here.
#[derive(Debug)]
pub(super) struct Captured(u64);

impl Captured {
    pub(super) fn of(error: &starlark::Error) -> Option<u64> {
        native(error).map(|Self(call)| *call)
    }
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} is in flight", self.0)
    }
}

impl std::error::Error for Captured {}

fn native<E: std::error::Error + Send + Sync + 'static>(error: &starlark::Error) -> Option<&E> {
    match error.kind() {
        ErrorKind::Native(error) | ErrorKind::Other(error) => error.downcast_ref(),
        _ => None,
    }
}

/// How natives end early.
pub(super) type Fallible<T> = Result<T, CallFailed>;

impl Session {
    pub(super) fn new(host: &SharedHost, interrupt: &Arc<Interrupt>, limits: Limits) -> Self {
        Self {
            host: SharedHost::clone(host),
            interrupt: Arc::clone(interrupt),
            limits,
            answers: RefCell::default(),
            capture: Cell::new(false),
        }
    }

    /// The session of a running evaluation.
    pub(super) fn of<'a>(eval: &Evaluator<'_, 'a, '_>) -> anyhow::Result<&'a Self> {
        let extra = eval.extra.ok_or_else(|| anyhow::anyhow!("no script is running"))?;
        extra.downcast_ref::<Self>().ok_or_else(|| anyhow::anyhow!("no script is running"))
    }

    /// Whether the script must end now: CPU time or heap are used up.
    pub(super) fn is_over(&self, heap: Heap<'_>) -> bool {
        self.is_cpu_used_up() || self.is_heap_used_up(heap.allocated_bytes())
    }

    pub(super) fn is_cpu_used_up(&self) -> bool {
        self.interrupt.is_raised()
    }

    pub(super) fn is_heap_used_up(&self, bytes: usize) -> bool {
        bytes as u64 > self.limits.heap_bytes
    }

    /// Bytes that one value may take.
    pub(super) fn heap_bytes(&self) -> usize {
        usize::try_from(self.limits.heap_bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn print(&self, text: &str) {
        self.host.borrow_mut().output(Stream::Out, text);
    }

    pub(super) fn send(&self, op: Op) -> Fallible<u64> {
        self.host.borrow_mut().send(op).map_err(|error| CallFailed { call: None, error })
    }

    /// Waits for the answer to one call.
    pub(super) fn wait(&self, call: u64) -> Fallible<Json> {
        let outcome = loop {
            if let Some(outcome) = self.answers.borrow_mut().remove(&call) {
                break outcome;
            }
            self.receive(None);
        };
        match outcome {
            Outcome::Ok(json) => Ok(json),
            Outcome::Err(error) => Err(CallFailed { call: Some(call), error }),
        }
    }

    /// Waits until one of `calls` is answered and says which.
    pub(super) fn wait_any(&self, calls: &[u64]) -> u64 {
        loop {
            let answers = self.answers.borrow();
            if let Some(call) = calls.iter().find(|call| answers.contains_key(call)) {
                return *call;
            }
            drop(answers);
            self.receive(None);
        }
    }

    fn receive(&self, deadline: Option<Instant>) {
        let reply = self.host.borrow_mut().recv(deadline);
        if let Some(reply) = reply {
            self.answers.borrow_mut().insert(reply.call, reply.outcome);
        }
    }

    /// Has the next request answer [`Captured`] instead of its value.
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

    /// The value of a JSON text, as large as the heap allows.
    pub(super) fn read_json<'v>(&self, json: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        from_json(json, heap, self.heap_bytes())
    }
}

/// A value as the JSON of an argument.
pub(super) fn argument<'v>(value: Value<'v>, heap: Heap<'v>) -> anyhow::Result<Json> {
    Ok(RawValue::from_string(to_json(value, heap, MAX_ARGS)?)?)
}

//! Interface between the worker's loop and its engines.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::value::RawValue;
use wire::{CallError, EngineInfo, ErrorCode, Json, Op, Reply, Run, ScriptError, ScriptErrorKind, Stream};

/// A language implementation. Every run gets a fresh scope.
pub(crate) trait Engine {
    /// Entry in `Ready`.
    fn info(&self) -> EngineInfo;

    /// Frees the last run's scope and prepares the next one in advance.
    fn prepare(&mut self);

    /// Runs one script to its end.
    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError>;

    /// Peak heap of the last run in bytes; 0 when unknown.
    fn heap_bytes(&self) -> u64;
}

/// The host for an engine's natives, which are made before the run that uses them.
pub(crate) type SharedHost = Rc<RefCell<dyn Host>>;

/// The gateway as a script sees it: calls and output.
pub(crate) trait Host {
    /// Sends a call and returns its number, or the limit that forbids it.
    fn send(&mut self, op: Op) -> Result<u64, CallError>;

    /// Waits for the next reply.
    fn recv(&mut self) -> Reply;

    /// Captures output.
    fn output(&mut self, stream: Stream, text: &str);

    /// Calls in flight, timers aside.
    fn in_flight(&self) -> usize;

    /// Calls of tools, resources and prompts that the run may still make.
    fn calls_left(&self) -> u32;
}

/// Error: the run's CPU time is used up.
pub(crate) fn cpu_error(run: &Run) -> ScriptError {
    let message = format!(
        "the script used more than its {} ms of CPU time (waiting for tools does not count): do less work in a run, or \
         check the loop's end condition",
        run.limits.cpu_ms
    );
    ScriptError::new(ScriptErrorKind::Cpu, message)
}

/// Error: the run's heap is used up.
pub(crate) fn heap_error(run: &Run) -> ScriptError {
    let message = format!(
        "the script used more than its {} MiB of memory: keep fewer values at once, or filter results before collecting \
         them",
        run.limits.heap_bytes >> 20
    );
    ScriptError::new(ScriptErrorKind::Heap, message)
}

/// Error: the script's call stack is too deep.
pub(crate) fn stack_error() -> ScriptError {
    ScriptError::new(ScriptErrorKind::Stack, "the call stack is too deep: is a recursion missing its end?")
}

#[cfg(any(feature = "quickjs", feature = "v8"))]
/// Error: the script waits for something that can never happen.
pub(crate) fn stalled_error() -> ScriptError {
    let message = "the script waits for a promise that nothing can settle: no call is in flight and no timer is set";
    ScriptError::new(ScriptErrorKind::Stalled, message)
}

/// Checks the size of a result and keeps it as text.
pub(crate) fn result_json(run: &Run, text: String) -> Result<Json, ScriptError> {
    if text.len() as u64 > run.limits.result_bytes {
        let message = format!(
            "the result is {} bytes of JSON, over the limit of {}: return a part or a summary, or keep it in the stash",
            text.len(),
            run.limits.result_bytes
        );
        return Err(ScriptError::new(ScriptErrorKind::Result, message));
    }
    RawValue::from_string(text).map_err(|error| ScriptError::new(ScriptErrorKind::Internal, format!("result: {error}")))
}

/// Error: a value of the script has no JSON form.
pub(crate) fn no_json_error(message: String) -> ScriptError {
    let fix = no_json_fix(&message);
    ScriptError { fix: Some(fix.to_owned()), ..ScriptError::new(ScriptErrorKind::Script, message) }
}

/// Advice for a value without a JSON form.
pub(crate) fn no_json_fix(message: &str) -> &'static str {
    let is_number = [" is NaN", " is Infinity", " is -Infinity", "nan has no", "inf has no"];
    if is_number.iter().any(|part| message.contains(part)) {
        "look at where the number is computed (arithmetic with undefined or text, a division by 0), or use null"
    } else if message.contains(" is a promise") {
        "`await` it; for each item of a list: `await Promise.all(items.map(async (x) => …))`"
    } else {
        "use plain values: objects, lists, text, numbers, booleans and null"
    }
}

/// Error of a script's invalid call.
pub(crate) fn invalid_call_error(message: String) -> CallError {
    CallError::new(ErrorCode::InvalidArgs, message)
}

/// Error of a script's call over a sandbox limit. It ends the run: no script catches it.
pub(crate) fn limit_call_error(message: String) -> CallError {
    let fix =
        "the calls before it were made: split the rest over several runs, or use a tool that does more in one call";
    let suggested_fix = Some(fix.to_owned());
    CallError { suggested_fix, ..CallError::new(ErrorCode::LimitExceeded, message) }
}

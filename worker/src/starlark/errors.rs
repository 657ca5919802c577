//! Converts errors of starlark-rust to a [`ScriptError`].

use starlark::codemap::FileSpan;
use starlark::values::Heap;
use starlark::{Error, ErrorKind};
use wire::{Run, ScriptError, ScriptErrorKind};

use super::python::Places;
use super::session::{CallFailed, Session, native};
use super::text::TooLong;
use crate::engine::{cpu_error, heap_error, stack_error};

/// The script's name in spans.
pub(super) const SCRIPT_NAME: &str = "script.star";
/// Frames kept of a traceback.
const MAX_FRAMES: usize = 10;
/// Longest message kept, in bytes: a script can fail with any text.
const MAX_MESSAGE: usize = 4096;

/// The error that ended an evaluation.
pub(super) fn run_error(run: &Run, error: &Error, places: &Places, session: &Session, heap: Heap<'_>) -> ScriptError {
    let mut script = script_error(error, places);
    if script.kind == ScriptErrorKind::Syntax {
        // A syntax error of a text that the script parsed, such as `int("x")`: its own code has been parsed before.
        script.kind = ScriptErrorKind::Script;
    }
    let limit = if session.is_cpu_used_up() {
        cpu_error(run)
    } else if session.is_heap_used_up(heap.allocated_bytes()) || native::<TooLong>(error).is_some() {
        let hint = "; values made in a function are freed only when it is left, so keep long loops short";
        let error = heap_error(run);
        ScriptError { message: format!("{}{hint}", error.message), ..error }
    } else {
        return script;
    };
    ScriptError { line: script.line, column: script.column, trace: script.trace, ..limit }
}

/// An error with its position.
pub(super) fn script_error(error: &Error, places: &Places) -> ScriptError {
    let (line, column) = error.span().map_or((0, 0), |span| places.place(span.span));
    let mut message = error.without_diagnostic().to_string();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    let failed = CallFailed::of(error);
    let kind = match (error.kind(), failed) {
        (_, Some(failed)) if failed.is_limit() => ScriptErrorKind::Calls,
        (_, Some(_)) => ScriptErrorKind::Call,
        (ErrorKind::Parser(_), None) => ScriptErrorKind::Syntax,
        (ErrorKind::StackOverflow(_), None) => ScriptErrorKind::Stack,
        (ErrorKind::Fail(_), None) => ScriptErrorKind::Stopped,
        (ErrorKind::Internal(_), None) => ScriptErrorKind::Internal,
        _ => ScriptErrorKind::Script,
    };
    let base = if kind == ScriptErrorKind::Stack { stack_error() } else { ScriptError::new(kind, message) };
    ScriptError {
        line,
        column,
        trace: trace(error, places),
        call: failed.and_then(|failed| failed.call),
        error: failed.map(|failed| failed.error.clone()),
        ..base
    }
}

/// Innermost first. A frame of starlark-rust has the function and its call site; ours has the function and its current
/// position.
fn trace(error: &Error, places: &Places) -> Vec<String> {
    let place = |span: &FileSpan| places.place(span.span);
    let mut reached = error.span().map(place);
    let mut frames = Vec::new();
    for frame in error.call_stack().frames.iter().rev() {
        let called_from = frame.location.as_ref().map(place);
        // Natives have no position.
        if let Some((line, column)) = reached
            && called_from != reached
        {
            frames.push(format!("{}:{line}:{column}", frame.name));
        }
        reached = called_from.or(reached);
    }
    if let Some((line, column)) = reached {
        frames.push(format!("<script>:{line}:{column}"));
    }
    frames.truncate(MAX_FRAMES);
    frames
}

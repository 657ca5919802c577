//! Converts the prelude's report of an error to a [`ScriptError`].

use serde::Deserialize;
use wire::{CallError, ErrorCode, Run, ScriptError, ScriptErrorKind};

use super::{PRELUDE_NAME, SCRIPT_NAME};
use crate::engine::{heap_error, no_json_fix, stack_error};
use crate::explain::{FailedScript, explain};

/// Frames kept of a stack.
const MAX_FRAMES: usize = 10;
/// Longest message kept, in bytes: a script can throw any text.
const MAX_MESSAGE: usize = 4096;
/// Longest function name kept in a frame, in bytes: scripts can write the stack's text.
const MAX_NAME: usize = 100;

/// Result of `describe` in the prelude.
#[derive(Deserialize)]
struct Report {
    kind: Kind,
    #[serde(default)]
    name: String,
    message: String,
    #[serde(default)]
    stack: String,
    call: Option<u64>,
    error: Option<CallError>,
    /// Functions that made calls, and the shape of the last answer of each.
    #[serde(default)]
    answers: Vec<(String, String)>,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Call,
    Script,
    /// The script threw it itself.
    Stopped,
    /// A value without JSON form.
    Result,
}

/// The error that ended a script.
pub(super) fn script_error(run: &Run, report: &str) -> ScriptError {
    let report: Report = match serde_json::from_str(report) {
        Ok(report) => report,
        Err(error) => {
            return ScriptError::new(ScriptErrorKind::Internal, format!("the error report is not readable: {error}"));
        }
    };
    let kind = match (report.kind, &report.error) {
        (Kind::Result, _) => ScriptErrorKind::Script,
        (Kind::Call, Some(error)) if report.call.is_none() && error.code == ErrorCode::LimitExceeded => {
            ScriptErrorKind::Calls
        }
        (Kind::Call, _) => ScriptErrorKind::Call,
        (Kind::Stopped, _) => ScriptErrorKind::Stopped,
        (Kind::Script, _) => engine_limit(&report),
    };
    let (line, column, trace) = position(&report.stack);
    let limit = match kind {
        ScriptErrorKind::Heap => Some(heap_error(run)),
        ScriptErrorKind::Stack => Some(stack_error()),
        _ => None,
    };
    if let Some(error) = limit {
        return ScriptError { line, column, trace, ..error };
    }
    let mut message = match (report.kind, report.name.as_str()) {
        (Kind::Script | Kind::Stopped, name) if !name.is_empty() => format!("{name}: {}", report.message),
        _ => report.message,
    };
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    let fix = (report.kind == Kind::Result).then(|| no_json_fix(&message).to_owned());
    let error = ScriptError { kind, message, line, column, trace, call: report.call, error: report.error, fix };
    explain(
        &FailedScript { code: &run.code, is_javascript: true, servers: &run.servers, answers: &report.answers },
        error,
    )
}

/// An unhandled rejection in a script that otherwise succeeded.
pub(super) fn unhandled_error(run: &Run, report: &str) -> ScriptError {
    let error = script_error(run, report);
    let message = format!("{} (in a promise that was not awaited)", error.message);
    ScriptError { message, ..error }
}

/// Limits that engines report as errors of the script.
fn engine_limit(report: &Report) -> ScriptErrorKind {
    match (report.name.as_str(), report.message.as_str()) {
        ("RangeError", "Maximum call stack size exceeded") => ScriptErrorKind::Stack,
        ("InternalError", "stack overflow") => ScriptErrorKind::Stack,
        ("InternalError", "out of memory") | ("RangeError", "Array buffer allocation failed") => ScriptErrorKind::Heap,
        _ => ScriptErrorKind::Script,
    }
}

/// Line and column of the innermost frame in the script, and the frames.
pub(super) fn position(stack: &str) -> (u32, u32, Vec<String>) {
    let frames: Vec<_> = stack.lines().filter_map(frame).take(MAX_FRAMES).collect();
    let (line, column) = frames.first().map_or((0, 0), |frame| (frame.line, frame.column));
    (line, column, frames.into_iter().map(|frame| format!("{}:{}:{}", frame.name, frame.line, frame.column)).collect())
}

struct Frame {
    name: String,
    line: u32,
    column: u32,
}

/// Parses `    at name (script.js:3:5)` or `    at script.js:3:5`.
fn frame(text: &str) -> Option<Frame> {
    let text = text.trim().strip_prefix("at ")?;
    if text.contains(PRELUDE_NAME) {
        return None;
    }
    let (name, place) = text.split_once(&format!("{SCRIPT_NAME}:"))?;
    let mut numbers = place.trim_end_matches(')').split(':').map(|number| number.parse().unwrap_or(0));
    let name = name.trim_end_matches('(').trim().trim_start_matches("async ").trim_start_matches("Module.");
    let name = if matches!(name, "" | "default" | "<anonymous>" | "<eval>") { "<script>" } else { name };
    let name = &name[..name.floor_char_boundary(MAX_NAME)];
    Some(Frame { name: name.to_owned(), line: numbers.next()?, column: numbers.next().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn frames_of_both_engines_are_read() {
        let v8 = "    at helper (script.js:3:5)\n    at async default (script.js:7:2)\n    at run (forge:prelude:1:1)";
        assert_eq!(position(v8), (3, 5, vec!["helper:3:5".to_owned(), "<script>:7:2".to_owned()]));
        assert_eq!(position("    at <anonymous> (script.js:2:9)\n"), (2, 9, vec!["<script>:2:9".to_owned()]));
        assert_eq!(position("    at script.js:2:9"), (2, 9, vec!["<script>:2:9".to_owned()]));
        assert_eq!(position(""), (0, 0, Vec::new()));
    }
}

//! Failure of a script, with everything that helps the next attempt.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use wire::{CallError, ErrorCode, ScriptError, ScriptErrorKind};

use crate::broker::{ALL_MADE, Broker, Evidence, Mistake, meant};
use crate::calls;
use crate::sandbox::{Failure, Script};
use base::error::{Behaviour, code_name};
use base::outcome::Outcome;
use base::text::{head, visible};
use redact::{Outgoing as _, Redaction, Results, Surface};
use state::audit::CallRecord;

/// Most frames of a trace.
const MAX_TRACE: usize = 8;
/// Most characters of the source line around the error.
const MAX_LINE: usize = 160;

/// Most bytes of a message.
const MAX_MESSAGE: usize = 4000;
/// Most bytes of the mistakes behind the first one.
const MAX_OTHERS: usize = 8 << 10;
/// Words of a worker about the limit of calls, behind their number.
const CALLS: &str = " calls of tools, resources and prompts";
/// Fix of a run that has made all calls that it may make.
const GOES_ON: &str = "resume it with the same code: recorded calls are answered for nothing, and it goes on with as many \
                       new ones; or make fewer, by a tool that lists or filters";
/// Most bytes of a suggestion.
const MAX_FIX: usize = 1000;

/// Reason why a script has no value.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// Error code.
    pub code: ErrorCode,
    /// Message, with the tool's own words.
    pub message: String,
    /// The limit that was met, where it was one: `cpu`, `heap`, `stack`, `result`, `wall` or `calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// The same script may succeed later.
    pub retryable: bool,
    /// Suggested fix.
    pub suggested_fix: String,
    /// Line of the script, from 1; 0 when unknown.
    pub line: u32,
    /// Column in that line, from 1; 0 when unknown.
    pub column: u32,
    /// The text of that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
    /// Call stack of more than one frame, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// The call that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRecord>,
    /// Structured data of the tool's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// True if the script was not run: `data.mistakes` has all that is wrong with it.
    #[serde(skip)]
    pub is_unrun: bool,
}

impl Failed {
    /// The failure of a run, or without `script` that of making it ready.
    pub(super) fn new(failure: Failure, code: &str, script: Option<&Script>, broker: &Broker) -> Self {
        match failure {
            Failure::Script(error) => Self::script(*error, code, script, broker),
            Failure::NotRun(error) => {
                let plain = Self::plain(error.code, error.message.clone(), Some(error.suggested_fix()));
                Self { data: error.data.map(|data| *data), ..plain }
            }
            Failure::Timeout(limit) => {
                let running: Vec<String> = broker
                    .ledger()
                    .records()
                    .into_iter()
                    .filter(|record| record.outcome == Outcome::Running)
                    .map(|record| format!("{}.{}({})", record.server, record.tool, record.shown_args()))
                    .collect();
                let waiting = match running.is_empty() {
                    true => String::new(),
                    false => format!("; still waiting for {}", running.join(", ")),
                };
                let message = format!("the script was stopped after {limit:?}{waiting}");
                let context = broker.context();
                let (wall, background) = (context.limits.wall, context.limits.background_wall);
                let mut fix = match limit < wall {
                    true => format!("ask for less, or raise `timeout_secs`: at most {}", wall.as_secs_f64()),
                    false => "ask for less: a longer run needs `sandbox.limits.wall` of the configuration".to_owned(),
                };
                if context.live.is_none() && limit < background {
                    let _ = write!(fix, "; `background: true` lets it run for {background:?}");
                }
                Self { limit: Some("wall"), ..Self::plain(ErrorCode::Timeout, message, Some(&fix)) }
            }
            Failure::Cpu(limit) => {
                let message = format!("the script used more than {limit:?} of CPU time");
                Self { limit: Some("cpu"), ..Self::plain(ErrorCode::LimitExceeded, message, None) }
            }
            Failure::Crashed(how) => Self::plain(
                ErrorCode::LimitExceeded,
                format!("the script brought its sandbox process down ({how})"),
                Some("most likely it needed more memory than it may have; handle less data at once"),
            ),
            Failure::Protocol(what) => Self::plain(
                ErrorCode::Internal,
                format!("the sandbox process was stopped, it broke the protocol: {what}"),
                None,
            ),
        }
    }

    fn plain(code: ErrorCode, message: String, fix: Option<&str>) -> Self {
        let behaviour = Behaviour::of(code);
        Self {
            code,
            message: visible(&redact::text(Surface::Output(Results::Secrets), &message)),
            limit: None,
            retryable: behaviour.retryable,
            suggested_fix: fix.unwrap_or(behaviour.fix).to_owned(),
            line: 0,
            column: 0,
            source_line: None,
            trace: Vec::new(),
            call: None,
            data: None,
            is_unrun: false,
        }
    }

    /// Explains an error of worker or parser. Without `script` the positions are already those of `source`.
    pub(super) fn script(error: ScriptError, source: &str, script: Option<&Script>, broker: &Broker) -> Self {
        let code = match (error.kind, &error.error) {
            (ScriptErrorKind::Call, Some(call)) => call.code,
            (kind, _) => kind.code(),
        };
        let meant = || meant(undefined_name(&error.message)?, script?.language, &broker.context().catalog);
        let is_written = broker.evidence().is_some_and(Evidence::is_written);
        // A server or the script itself may use the same words.
        let is_of_budget = |call: &CallError| call.code == ErrorCode::BudgetExceeded && call.message.contains(ALL_MADE);
        let has_made_all = error.kind == ScriptErrorKind::Calls || error.error.as_ref().is_some_and(is_of_budget);
        let fix = match &error.error {
            _ if has_made_all && is_written => Some(GOES_ON.to_owned()),
            Some(call) => call.suggested_fix.clone(),
            None => error.fix.clone().or_else(meant),
        };
        let (message, fix) = match error.kind {
            ScriptErrorKind::Calls => (own_calls(&error.message, broker).unwrap_or_else(|| error.message.clone()), fix),
            ScriptErrorKind::Stopped => {
                let own = error.message.strip_prefix("Error: ").or(error.message.strip_prefix("fail: "));
                let message = format!("the script stopped itself: {}", own.unwrap_or(&error.message));
                (message, Some("its own `throw` or `fail` ended it: look at the condition before that line".to_owned()))
            }
            _ => match of_sample(&error.message, broker) {
                Some(message) => (message, Some("in a real run the service answers".to_owned())),
                None => (error.message.clone(), fix),
            },
        };
        let wrote = broker.ledger().records().iter().any(|call| call.sent && call.is_write);
        let again = match is_written {
            true => "change the marked line and resume the run: it repeats no call that was made",
            false => "change the marked line; do not repeat the calls that may have written",
        };
        let fix = fix.or_else(|| (code == ErrorCode::ScriptError && wrote).then(|| again.to_owned()));
        let mut failed = Self::plain(code, message, fix.as_deref());
        failed.limit = limit_of(error.kind);
        failed.retryable = error.error.as_ref().map_or(failed.retryable, |call| call.retryable);
        // A worker's words about itself are bounded like all its words.
        failed.message = shortened(failed.message, MAX_MESSAGE);
        failed.suggested_fix = shortened(visible(&failed.suggested_fix), MAX_FIX);
        let place = |line, column| script.map_or((line, column), |script| script.original(line, column));
        (failed.line, failed.column) = place(error.line, error.column);
        if let Some(often) = often(broker).filter(|_| has_made_all) {
            let (line, then) = (failed.line, &failed.suggested_fix);
            failed.suggested_fix = format!("{often}: does the loop at line {line} end? If it does, {then}");
        }
        failed.source_line = source_line(source, failed.line, failed.column);
        let given = failed.source_line.as_deref().filter(|_| code == ErrorCode::InvalidArgs);
        if let Some((at, none)) = given.and_then(|line| of_no_value(&failed.message, line)) {
            failed.message.insert_str(at, &none);
        }
        if error.trace.len() > 1 {
            let frames = error.trace.iter().take(MAX_TRACE);
            failed.trace = frames.map(|frame| relocate(head(frame, MAX_LINE), &place)).collect();
        }
        if let Some(number) = error.call {
            failed.call = broker.ledger().records().into_iter().find(|record| record.call == number);
        }
        failed.data = error.error.and_then(|call| call.data).and_then(|data| serde_json::from_str(data.get()).ok());
        failed
    }

    /// The failure of a script that was not run for its mistakes, by place.
    pub(super) fn unrun(first: &Mistake, all: &[Mistake], source: &str, broker: &Broker) -> Self {
        let (line, column) = (first.line, first.column);
        let records = broker.ledger().records();
        Self {
            line,
            column,
            source_line: source_line(source, line, column),
            call: first.call.and_then(|number| records.into_iter().find(|record| record.call == number)),
            data: serde_json::to_value(all).ok().map(|mistakes| json!({ "mistakes": mistakes })),
            is_unrun: true,
            ..Self::plain(first.code, first.message.clone(), Some(&first.suggested_fix))
        }
    }

    /// Redacts all texts.
    pub(super) fn redacted(self, redaction: Redaction<'_>) -> Self {
        Self {
            message: self.message.redacted(redaction),
            suggested_fix: self.suggested_fix.redacted(redaction),
            source_line: self.source_line.map(|line| line.redacted(redaction)),
            trace: self.trace.into_iter().map(|frame| frame.redacted(redaction)).collect(),
            data: self.data.map(|data| data.redacted(redaction)),
            call: self.call.map(|call| calls::redacted(call, redaction)),
            ..self
        }
    }

    /// True if it tells a mistake of its line, or shows the answer that the mistake is about.
    pub(super) fn says(&self, mistake: &Mistake) -> bool {
        let is_shown = || mistake.message.contains(" so far: it was {") && self.message.contains("the answer of ");
        self.line == mistake.line && (self.message.starts_with(&mistake.message) || is_shown())
    }

    /// Message and place, in one line.
    pub(super) fn summary(&self) -> String {
        match self.line {
            0 => self.message.clone(),
            line => format!("line {line}, column {}: {}", self.column, self.message),
        }
    }

    /// The mistakes behind the first one, and that nothing ran.
    fn others(&self) -> String {
        let all = self.data.as_ref().and_then(|data| data.get("mistakes")?.as_array()).map_or(&[][..], Vec::as_slice);
        let rest: String = all.iter().skip(1).filter_map(mistake).collect();
        let rest = shortened(rest, MAX_OTHERS);
        match rest.is_empty() {
            true => "\nfound before the script ran: no call was made".to_owned(),
            false => format!("\nand {} more:{rest}\nfound before the script ran: no call was made", all.len() - 1),
        }
    }

    /// The exit code of the command line. A run that met its own wall clock is a script that failed: no server is to blame.
    pub fn exit(&self) -> u8 {
        match self.code {
            ErrorCode::Timeout if self.call.is_none() => Behaviour::of(ErrorCode::LimitExceeded).exit,
            code => Behaviour::of(code).exit,
        }
    }

    /// The failure as text: code and message first, then where, what was called, and what to do.
    pub fn describe(&self) -> String {
        let mut text = format!("{}: {}", code_name(self.code), self.message);
        if self.line > 0 {
            let _ = write!(text, "\n  at line {}, column {}", self.line, self.column);
        }
        if let Some(line) = &self.source_line {
            let caret = " ".repeat((self.column.saturating_sub(1) as usize).min(MAX_LINE));
            let gutter = self.line.to_string();
            let _ = write!(text, "\n  {gutter} | {line}\n  {} | {caret}^", " ".repeat(gutter.len()));
        }
        for frame in &self.trace {
            let _ = write!(text, "\n    in {frame}");
        }
        // A connection has no arguments, and is no call of the script.
        if let Some(call) = self.call.as_ref().filter(|call| call.args != "null") {
            let _ = write!(text, "\ncall: {}.{}({})", call.server, call.tool, call.shown_args());
        }
        if let Some(data) = self.data.as_ref().filter(|_| !self.is_unrun) {
            let data = data.to_string();
            let _ = write!(text, "\ndata: {}", head(&data, 1000));
        }
        let _ = write!(text, "\nfix: {}", self.suggested_fix);
        if self.is_unrun {
            text.push_str(&self.others());
        }
        text
    }
}

/// Text of a mistake, as `data.mistakes` has it.
fn mistake(mistake: &Value) -> Option<String> {
    let text = |key: &str| mistake.get(key)?.as_str();
    let (line, column) = (mistake.get("line")?, mistake.get("column")?);
    Some(format!(
        "\n  line {line}, column {column}: {}: {}\n    fix: {}",
        text("code")?,
        text("message")?,
        text("suggested_fix")?
    ))
}

/// The place in a message behind a missing argument that the line gives, and that its value is none.
fn of_no_value(message: &str, line: &str) -> Option<(usize, String)> {
    let (name, behind) = message.split_once("argument `")?.1.split_once("` is missing")?;
    let forms = [(":", "undefined"), ("=", "None"), (" =", "None")];
    let is_given = |form: &str| {
        let starts = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.'));
        line.match_indices(&format!("{name}{form}")).any(|(at, _)| starts(at))
    };
    let (_, value) = forms.into_iter().find(|(form, _)| !behind.starts_with(" in ") && is_given(form))?;
    Some((message.len() - behind.len(), format!("; `{name}` is {value} there")))
}

/// Cuts a long text and says how much is missing.
fn shortened(text: String, limit: usize) -> String {
    match head(&text, limit) {
        whole if whole.len() == text.len() => text,
        begin => format!("{begin}… ({} more bytes)", text.len() - begin.len()),
    }
}

fn limit_of(kind: ScriptErrorKind) -> Option<&'static str> {
    match kind {
        ScriptErrorKind::Cpu => Some("cpu"),
        ScriptErrorKind::Heap => Some("heap"),
        ScriptErrorKind::Stack => Some("stack"),
        ScriptErrorKind::Result => Some("result"),
        ScriptErrorKind::Calls => Some("calls"),
        ScriptErrorKind::Syntax
        | ScriptErrorKind::Script
        | ScriptErrorKind::Stopped
        | ScriptErrorKind::Call
        | ScriptErrorKind::Stalled
        | ScriptErrorKind::Internal => None,
    }
}

/// The message about the limit of calls in a run that continues another: the worker counts inherited calls too.
fn own_calls(message: &str, broker: &Broker) -> Option<String> {
    let records = broker.ledger().records();
    let (inherited, own): (Vec<_>, Vec<_>) = records.iter().partition(|call| call.is_inherited());
    if inherited.is_empty() || !message.contains(CALLS) {
        return None;
    }
    let (limit, made) = (broker.context().limits.calls, own.iter().filter(|call| call.sent).count());
    let answered = inherited.len();
    Some(format!("a run may make {limit}{CALLS}; this one has made {made}, earlier runs answered {answered} more"))
}

/// The message about the answer of a call that a dry run did not make.
fn of_sample(message: &str, broker: &Broker) -> Option<String> {
    let records = broker.ledger().records();
    records.iter().filter(|call| call.outcome == Outcome::Planned).find_map(|call| {
        let label = format!("{}.{}", call.server, call.tool);
        let said = message.replace(
            &format!("is the answer of {label}:"),
            &format!("is a sample, as a dry run does not call {label}:"),
        );
        (said != message).then_some(said)
    })
}

/// The tool of nearly all calls, and their number.
fn often(broker: &Broker) -> Option<String> {
    let records = broker.ledger().records();
    let mut counts = HashMap::new();
    records.iter().for_each(|call| *counts.entry((&call.server, &call.tool)).or_default() += 1);
    let ((server, tool), most) = counts.into_iter().max_by_key(|(_, count): &(_, usize)| *count)?;
    (most * 10 > records.len() * 9).then(|| format!("{server}.{tool} was called {most} times"))
}

/// A frame `name:line:column` with the position in the script as written.
fn relocate(frame: &str, place: &impl Fn(u32, u32) -> (u32, u32)) -> String {
    let mut parts = frame.rsplitn(3, ':');
    let column = parts.next().and_then(|part| part.parse().ok());
    let line = parts.next().and_then(|part| part.parse().ok());
    match (parts.next(), line, column) {
        (Some(name), Some(line), Some(column)) => {
            let (line, column) = place(line, column);
            format!("{name} (line {line}, column {column})")
        }
        _ => frame.to_owned(),
    }
}

fn source_line(source: &str, line: u32, column: u32) -> Option<String> {
    let text = source.lines().nth(line.checked_sub(1)? as usize)?;
    (column as usize <= MAX_LINE).then(|| text.chars().take(MAX_LINE).collect())
}

/// Extracts the name of `x is not defined` (V8), `'x' is not defined` (QuickJS) or ``Variable `x` not found``
/// (Starlark).
fn undefined_name(message: &str) -> Option<&str> {
    let before = message.split_once(" is not defined").map(|(before, _)| before);
    let name = match before {
        Some(before) => before.rsplit([' ', ':']).next()?,
        None => message.split_once("Variable `")?.1.split_once("` not found")?.0,
    };
    Some(name.trim_matches(['\'', '`', '"'])).filter(|name| !name.is_empty())
}

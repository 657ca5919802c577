//! The gateway's error type, and the table of each code's behaviour.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
pub use wire::ErrorCode;

pub use crate::effect::Effect;
use crate::text::head;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Cause of an error: an error of a library or the system, or a text.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure, worded for its reader. The hint is separate from the message, so that a terminal, an agent and a log can
/// each place it well.
#[derive(Debug, Clone)]
pub struct Error {
    /// Code, which decides the behaviour (see [`Behaviour::of`]).
    pub code: ErrorCode,
    /// Message: what failed, and where.
    pub message: String,
    /// Hint, more precise than the table's [`Behaviour::fix`].
    pub hint: Option<String>,
    /// Structured data of the other side.
    pub data: Option<Box<Value>>,
    /// Effect of the call, if one went out.
    pub effect: Effect,
    /// True if the call may write and may be done: it is not to be repeated without a look.
    pub is_doubtful: bool,
    /// True if the server failed and may recover (HTTP 5xx): a fault, and the same call may succeed later.
    pub is_transient: bool,
    /// Cause, which the message ends with.
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Most bytes of a message; a longer one is cut.
    const MAX_MESSAGE: usize = 64 << 10;

    /// An error without hint or data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (message, effect) = (Self::bounded(message.into()), Effect::Unknown);
        Self { code, message, hint: None, data: None, effect, is_doubtful: false, is_transient: false, cause: None }
    }

    fn bounded(message: String) -> String {
        match message.len() {
            0..=Self::MAX_MESSAGE => message,
            bytes => format!("{}… ({bytes} bytes in all)", head(&message, Self::MAX_MESSAGE)),
        }
    }

    /// Adds the cause, whose words follow the message: `message: cause`. One too long for a message is not kept.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        let message = format!("{}: {cause}", self.message);
        self.cause = (message.len() <= Self::MAX_MESSAGE).then(|| cause.into());
        self.message = Self::bounded(message);
        self
    }

    /// Adds before the message where it happened: `place: message`.
    #[must_use]
    pub fn context(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Rewrites message and hint, as redaction does. Drops the cause, whose words stay as they are.
    #[must_use]
    pub fn map_texts(self, rewrite: impl Fn(String) -> String) -> Self {
        Self { message: rewrite(self.message), hint: self.hint.map(rewrite), cause: None, ..self }
    }

    /// Replaces the code.
    #[must_use]
    pub fn with_code(self, code: ErrorCode) -> Self {
        Self { code, ..self }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds structured data of the other side.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }

    /// Notes the effect of the call.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Notes that the call had no effect.
    #[must_use]
    pub fn without_effect(self) -> Self {
        self.with_effect(Effect::Nothing)
    }

    /// Notes that the server failed, and not the call.
    #[must_use]
    pub fn of_failing_server(self) -> Self {
        Self { is_transient: true, ..self }
    }

    /// The error of a call that may write: warns of repeating it, unless nothing was done.
    #[must_use]
    pub fn of_write(mut self) -> Self {
        let warning = match self.effect {
            Effect::Nothing => return self,
            Effect::Done => "it was carried out: do not call again for its answer",
            Effect::Unknown => "it may have been carried out all the same, so look before calling again",
        };
        if !std::mem::replace(&mut self.is_doubtful, true) {
            self.hint = Some(self.hint.map_or_else(|| warning.to_owned(), |hint| format!("{warning}; {hint}")));
        }
        self
    }

    /// The behaviour of this error's code.
    pub fn behaviour(&self) -> Behaviour {
        match Behaviour::of(self.code) {
            row if self.is_transient => Behaviour { retryable: true, fault: true, fix: "try again later", ..row },
            row => row,
        }
    }

    /// The hint, else the table's fix for the code.
    pub fn suggested_fix(&self) -> &str {
        self.hint.as_deref().unwrap_or_else(|| self.behaviour().fix)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", code_name(self.code), self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Behaviour of a code: one row of the error table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// True if it counts against the server's health. A tool's own error and bad arguments do not.
    pub fault: bool,
    /// Usual fix.
    pub fix: &'static str,
    /// Meaning, for the documentation.
    pub means: &'static str,
    /// Exit code of the command line (1 script or check, 3 server, 4 internal).
    pub exit: u8,
}

/// Declares the behaviour of each code, and all codes in the order of the documentation: retryable, fault, exit code,
/// meaning, usual fix.
macro_rules! behaviours {
    ($($code:ident: $retryable:literal, $fault:literal, $exit:literal, $means:literal, $fix:literal;)*) => {
        impl Behaviour {
            /// The row of `code`.
            pub fn of(code: ErrorCode) -> Self {
                match code {
                    $(ErrorCode::$code => {
                        Self { retryable: $retryable, fault: $fault, fix: $fix, means: $means, exit: $exit }
                    })*
                }
            }
        }

        /// Every code, in the order of the documentation.
        pub const CODES: [ErrorCode; 23] = [$(ErrorCode::$code),*];
    };
}

behaviours! {
    ServerNotFound: false, false, 1, "no such server", "`ls /` lists the servers";
    ToolNotFound: false, false, 1, "no such tool", "`search` finds tools, `ls /<server>` lists them";
    InvalidArgs: false, false, 1, "arguments do not fit the schema, or a path, URI or name is wrong",
        "`cat` the tool's stub and fit the arguments to it";
    ToolDenied: false, false, 1, "the configuration denies the tool, or it is not as reviewed",
        "the configuration denies this tool; use another one";
    ToolChanged: true, false, 1,
        "the definition of the tool, resource or prompt has changed since it was listed; nothing was sent",
        "`cat` its stub again, and call it as it is now";
    GroupPolicyDenied: false, false, 1, "a group or a flow of the configuration forbids the call in this script",
        "do this part in a separate `execute`";
    ApprovalDenied: false, false, 1, "the user said no, or could not be asked", "ask the user before trying again";
    ApprovalWaits: false, false, 1,
        "no user could be asked; the call waits for `forgefs approvals allow`, with the id in `data`",
        "let the script end; once it is allowed, resume the run";
    RateLimit: true, false, 1,
        "the rate limit of the server or tool is used up; `data.retry_after_secs` says how long to wait",
        "wait before calling again, or make fewer calls";
    BudgetExceeded: false, false, 1, "a limit of the run or a budget is used up, or an answer is too large",
        "make fewer or smaller calls in one script";
    CircuitOpen: true, false, 3,
        "the server failed repeatedly, and its circuit breaker is open; `data.retry_after_secs` says how long",
        "the server keeps failing; try again later";
    Timeout: true, true, 3, "a call or the run took longer than its timeout",
        "ask for less, or raise `timeout` in the configuration";
    AuthRequired: false, false, 3, "the server requires a login, or one with more scopes",
        "ask the user to run `forgefs auth login <server>`";
    TransportDead: true, true, 3, "the server cannot be reached", "the next call connects to it again";
    // It answered, so it is alive: a circuit breaker would not help.
    UpstreamError: false, false, 3, "the server answered with a protocol error",
        "the server refused the request; read what it said";
    ToolError: false, false, 1, "the tool reported an error", "correct the call by what the tool said";
    MaybeDone: false, false, 1, "an earlier run sent this call, or its task is lost, and it is not known whether it was done",
        "find out with a call that only reads; calling again makes the call";
    Cancelled: true, false, 1, "the run was cancelled", "run it again";
    SyntaxError: false, false, 1, "the script is not valid in its language",
        "change the marked place and run it again: nothing of it ran";
    ScriptError: false, false, 1, "the script itself failed", "change the marked line";
    LimitExceeded: false, false, 1,
        "the script met a limit of the sandbox, or an input takes more work or memory than its limit",
        "do less in one script, or filter data earlier";
    Busy: true, false, 1, "no place for a script became free in time, or the client has too much under way or unread",
        "wait for a running script to end";
    Internal: false, true, 4, "a defect of ForgeFS, or a file of the gateway that cannot be read or written",
        "this is a defect of ForgeFS; please report it";
}

/// The code as scripts and answers spell it, such as `TOOL_NOT_FOUND`.
pub fn code_name(code: ErrorCode) -> String {
    match serde_json::to_value(code) {
        Ok(Value::String(name)) => name,
        _ => format!("{code:?}"),
    }
}

/// Suggestions for `wanted`: the most similar candidates, best first, at most three; none when nothing is close.
///
/// Jaro-Winkler over lower-cased names: it forgives swapped letters and favours a common beginning. The work is
/// bounded: texts too long for a name are not compared, and of very many candidates the later ones count only with the
/// same first letter.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    const CLOSE: f64 = 0.75;
    const LONGEST: usize = 128;
    // Pairs of characters, a nanosecond or two each.
    const PAIRS: usize = 1_000_000;
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let wanted = wanted.to_lowercase();
    let first = wanted.chars().next();
    let mut left = PAIRS;
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for name in candidates {
        let begins_alike = || name.chars().next().and_then(|c| c.to_lowercase().next()) == first;
        if name.len() > LONGEST || (left < PAIRS / 2 && !begins_alike()) {
            continue;
        }
        // Short names cost their setup.
        match left.checked_sub((wanted.len() * name.len()).max(64)) {
            Some(rest) => left = rest,
            None => break,
        }
        let lower = name.to_lowercase();
        let contained = wanted.len() > 2 && lower.contains(&wanted);
        let score = if contained { 0.9 } else { strsim::jaro_winkler(&wanted, &lower) };
        if score >= CLOSE {
            scored.push((score, name));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

/// `did you mean a, b or c?` for a list of names, `None` for an empty one.
pub fn did_you_mean(names: &[String]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let (last, rest) = quoted.split_last()?;
    Some(if rest.is_empty() {
        format!("did you mean {last}?")
    } else {
        format!("did you mean {} or {last}?", rest.join(", "))
    })
}

/// An error with its sources: the outermost seldom names the cause.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_compare_a_bounded_number_of_characters() {
        let many: Vec<String> = (0..200_000).map(|n| format!("{}{n}", "ab".repeat(50))).collect();
        let names = || many.iter().map(String::as_str);
        let began = std::time::Instant::now();
        let mut looked_at = 0;
        let found = nearest(&"ba".repeat(50), names().inspect(|_| looked_at += 1));
        assert!(looked_at < 200_000 || began.elapsed() < std::time::Duration::from_secs(20), "{looked_at}");
        assert!(found.len() <= 3);
        assert_eq!(nearest(&"ab".repeat(500_000), names()), Vec::<String>::new(), "no name is as long");
        // Among very many, a name with the same first letter is found at any position.
        let late = names().chain(["zebra_list"]);
        assert_eq!(nearest("zebra_lits", late), ["zebra_list"]);
        assert_eq!(nearest("ebra_list", ["tree", "zebra_list"]), ["zebra_list"], "a first letter that is missing");
    }

    #[test]
    fn a_cause_follows_the_message_and_is_the_source() {
        use std::error::Error as _;
        use std::io;

        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let inner = Error::new(ErrorCode::Busy, "wait");
        let long = "x".repeat(1_000_000);
        let cut = format!("log: {}… (1000005 bytes in all)", &long[..Error::MAX_MESSAGE - 5]);
        let rows: [(Cause, &str, bool); 5] = [
            (denied().into(), "log: permission denied", true),
            ("no disk".into(), "log: no disk", true),
            (inner.into(), "log: BUSY: wait", true),
            (long.clone().into(), &cut, false),
            (io::Error::other(long).into(), &cut, false),
        ];
        for (cause, message, is_kept) in rows {
            let words = cause.to_string();
            let error = Error::new(ErrorCode::Internal, "log").caused_by(cause).hint("look");
            assert_eq!(error.message, message);
            assert_eq!(error.to_string(), format!("INTERNAL: {message}"));
            for error in [error.clone(), error.clone().context("disk").with_code(ErrorCode::Busy)] {
                assert_eq!(error.source().map(ToString::to_string), is_kept.then(|| words.clone()), "{message}");
                assert_eq!(chain(&error), error.to_string(), "the cause stands there once");
            }
            let clean = error.map_texts(|text| text.replace("log", "file"));
            assert!(clean.source().is_none(), "a redacted error has no cause that is not");
            assert_eq!((clean.message, clean.hint), (message.replace("log", "file"), Some("look".to_owned())));
        }
        let error = Error::new(ErrorCode::Internal, "log").caused_by(denied());
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(
            source.map(io::Error::kind),
            Some(io::ErrorKind::PermissionDenied),
            "the error itself, not its words"
        );
        let error = Error::new(ErrorCode::Internal, "x: y").context("place");
        assert_eq!((error.message.as_str(), error.source().is_none()), ("place: x: y", true));
    }

    #[test]
    fn long_messages_are_cut() {
        let error = Error::new(ErrorCode::ToolError, "x".repeat(1_000_000));
        assert!(error.message.len() < 66_000 && error.message.ends_with("x… (1000000 bytes in all)"));
    }
}

//! `[hooks.<name>]`: programs and services of the operator's own that decide about calls, answers and scripts.

use std::collections::BTreeSet;
use std::time::Duration;

use super::confinement::confinement;
use super::error::ConfigError;
use super::key::Key;
use super::patterns::Patterns;
use super::raw::{Credentials, RawHook};
use super::server::check_name;
use super::transport::{HttpKind, Transport, address, environment, headers, words as command};
use super::units::{MILLI, MINUTE, SECOND};
use super::words::words;
use super::{Confinement, SCRIPTS_SERVER};

/// One `[hooks.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// A program that is started here, or the URL of a service.
    pub transport: Transport,
    /// Rights of its process; `None` does not confine it.
    pub sandbox: Option<Confinement>,
    /// Events that it decides about; at least one.
    pub on: BTreeSet<HookEvent>,
    /// Servers that it decides about; `None` means all.
    pub servers: Option<Patterns>,
    /// Timeout of a decision.
    pub timeout: Duration,
    /// True if a call goes on where the hook gives no decision.
    pub fails_open: bool,
    /// True if its decisions are recorded, and not followed.
    pub only_logs: bool,
}

/// An event that a hook decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// A call, before it is sent.
    Call,
    /// An answer, before anything else sees it.
    Answer,
    /// A script, before it runs.
    Script,
}

/// Result of a question that the hook does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fail {
    Deny,
    Allow,
}

/// Effect of a hook's decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Log,
}

words!(HookEvent: "call" = Call, "answer" = Answer, "script" = Script);
words!(Fail: "deny" = Deny, "allow" = Allow);
words!(Mode: "enforce" = Enforce, "log" = Log);

impl HookEvent {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Answer => "answer",
            Self::Script => "script",
        }
    }
}

/// Checks an entry; `servers` has the names of the configured servers.
pub(super) fn hook(key: &Key<'_>, raw: RawHook, servers: &[&str]) -> Result<Hook, ConfigError> {
    let RawHook { command, env, cwd, sandbox, url, headers, on, servers: about, timeout, fail, mode } = raw;
    check_name(key, "hook", &[])?;
    let not_its = |name: &str, with: &str| Err(key.key(name).at_key(format!("not a key of a hook with `{with}`")));
    let transport = match (command, url) {
        (Some(_), None) if headers.is_some() => return not_its("headers", "command"),
        (Some(words), None) => program(key, words, env, cwd)?,
        (None, Some(_)) if env.is_some() => return not_its("env", "url"),
        (None, Some(_)) if cwd.is_some() => return not_its("cwd", "url"),
        (None, Some(url)) => service(key, url, headers)?,
        (Some(_), Some(_)) => {
            return Err(key.at_key("both `command` and `url`: a hook is one of them").with_hint("keep one"));
        }
        (None, None) => {
            let hint = "give `command` for a program that is started here, or `url` for a service";
            return Err(key.at_key("neither `command` nor `url`").with_hint(hint));
        }
    };
    let events = key.key("on");
    let on: BTreeSet<HookEvent> = events.word_list(on)?.into_iter().collect();
    if on.is_empty() {
        let hint = "write `on = [\"call\"]`, or some of \"call\", \"answer\" and \"script\"";
        return Err(events.at_value("decides about nothing: `on` is empty").with_hint(hint));
    }
    Ok(Hook {
        sandbox: confinement(&key.key("sandbox"), sandbox, &transport)?,
        transport,
        on,
        servers: key.given("servers", about, |key, about| covered(key, about, servers))?,
        timeout: key.key("timeout").duration(timeout, 10 * MILLI..=5 * MINUTE)?.unwrap_or(2 * SECOND),
        fails_open: key.key("fail").word(fail)? == Some(Fail::Allow),
        only_logs: key.key("mode").word(mode)? == Some(Mode::Log),
    })
}

fn program(
    key: &Key<'_>,
    words: Vec<String>,
    env: Option<Credentials>,
    cwd: Option<String>,
) -> Result<Transport, ConfigError> {
    let mut words = command(&key.key("command"), words)?;
    let args = words.split_off(1);
    let cwd = key.given("cwd", cwd, Key::path)?;
    Ok(Transport::Stdio { command: words.remove(0), args, env: environment(&key.key("env"), env)?, cwd })
}

fn service(key: &Key<'_>, url: String, given: Option<Credentials>) -> Result<Transport, ConfigError> {
    let (url, is_private) = address(&key.key("url"), url)?;
    if !is_private {
        let error = key.key("url").at_value("plain http to another machine");
        return Err(error.with_hint("use https: what is posted has the arguments and answers of calls"));
    }
    let headers = headers(&key.key("headers"), given.unwrap_or_default(), is_private)?;
    Ok(Transport::Http { kind: HttpKind::Streamable, url, headers })
}

/// Patterns of servers. One that covers none is a guard that guards nothing.
fn covered(key: &Key<'_>, raw: Vec<String>, servers: &[&str]) -> Result<Patterns, ConfigError> {
    let patterns = Patterns::parse(key, raw)?;
    let known: Vec<&str> = servers.iter().copied().chain([SCRIPTS_SERVER]).collect();
    match patterns.matcher().idle(&known).first() {
        Some(idle) => Err(key
            .at_value(format!("`{idle}` is no configured server, and matches none"))
            .with_hint(super::suggest::word_hint(idle, &known))),
        None if patterns.entries().is_empty() => {
            Err(key.at_value("lists no server").with_hint("leave it out for all servers"))
        }
        None => Ok(patterns),
    }
}

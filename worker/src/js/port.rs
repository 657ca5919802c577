//! Host functions of the prelude.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use wire::{Op, Stream};

use crate::engine::{SharedHost, invalid_call_error};

/// The prelude's host functions: made with the realm, connected to a host during a run.
#[derive(Default)]
pub(super) struct Port {
    host: RefCell<Option<SharedHost>>,
    timers: RefCell<BTreeSet<(Instant, u32)>>,
    settled: RefCell<Option<Settled>>,
}

/// Outcome of the script's promise.
pub(super) enum Settled {
    /// With a value, as JSON.
    Done(String),
    /// With an error, as reported by the prelude.
    Failed(String),
}

impl Port {
    pub(super) fn connect(&self, host: &SharedHost) {
        *self.host.borrow_mut() = Some(SharedHost::clone(host));
    }

    /// `host.send(op)`: the call's number, or the [`CallError`] as JSON.
    pub(super) fn send(&self, op: &str) -> Result<u64, String> {
        let sent = match serde_json::from_str::<Op>(&without_lone_surrogates(op)) {
            Ok(op) => match &*self.host.borrow() {
                Some(host) => host.borrow_mut().send(op),
                None => Err(invalid_call_error("no script is running".to_owned())),
            },
            Err(error) => Err(invalid_call_error(format!("the request cannot be sent: {error}"))),
        };
        sent.map_err(|error| serde_json::to_string(&error).unwrap_or_else(|_| "{}".to_owned()))
    }

    /// `host.output(isError, text)`.
    pub(super) fn output(&self, is_error: bool, text: &str) {
        if let Some(host) = &*self.host.borrow() {
            host.borrow_mut().output(if is_error { Stream::Err } else { Stream::Out }, text);
        }
    }

    /// `host.timer(id, ms)`: sets a timer, or cancels it when `ms` is negative.
    pub(super) fn timer(&self, id: u32, ms: f64) {
        let mut timers = self.timers.borrow_mut();
        match Duration::try_from_secs_f64(ms / 1000.0) {
            Ok(delay) => drop(timers.insert((Instant::now() + delay, id))),
            Err(_) => timers.retain(|(_, set)| *set != id),
        }
    }

    /// `host.settle(ok, text)`.
    pub(super) fn settle(&self, ok: bool, text: String) {
        let text = without_lone_surrogates(&text).into_owned();
        // A limit of the run settles it before the script's promise does.
        self.settled.borrow_mut().get_or_insert(if ok { Settled::Done(text) } else { Settled::Failed(text) });
    }

    pub(super) fn take_settled(&self) -> Option<Settled> {
        self.settled.borrow_mut().take()
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().first().map(|(at, _)| *at)
    }

    /// Takes the timers that are due, earliest first.
    pub(super) fn due_timers(&self) -> Vec<u32> {
        let now = Instant::now();
        let mut timers = self.timers.borrow_mut();
        let later = timers.split_off(&(now, u32::MAX));
        std::mem::replace(&mut *timers, later).into_iter().map(|(_, id)| id).collect()
    }
}

/// Replaces escapes of lone surrogates: they have no UTF-8 form, and the gateway's parser refuses them.
/// `JSON.stringify` writes them for unpaired halves, and `JSON.rawJSON` passes on any text of a script.
fn without_lone_surrogates(json: &str) -> std::borrow::Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return json.into();
    }
    let mut clean = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let len = escape.chars().nth(1).map_or(1, |next| 1 + next.len_utf8());
        clean.push_str(&rest[..at]);
        if let Some(first) = surrogate(escape) {
            let paired = first < 0xdc00 && surrogate(&escape[6..]).is_some_and(|second| second >= 0xdc00);
            clean.push_str(if paired { &escape[..12] } else { "\\ufffd" });
            rest = &escape[if paired { 12 } else { 6 }..];
        } else {
            clean.push_str(&escape[..len]);
            rest = &escape[len..];
        }
    }
    clean.push_str(rest);
    clean.into()
}

/// The escaped surrogate at the start of a text.
fn surrogate(text: &str) -> Option<u16> {
    let unit = u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..=0xdfff).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::without_lone_surrogates;

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        assert_eq!(without_lone_surrogates(r#"["\ud800","a\\ud800"]"#), r#"["\ufffd","a\\ud800"]"#);
        assert_eq!(without_lone_surrogates(r#"["é\u0007\ud8"]"#), r#"["é\u0007\ud8"]"#);
        assert_eq!(
            without_lone_surrogates(r#""\uD83D\uDE00\uDE00\uD83D\u0041""#),
            r#""\uD83D\uDE00\ufffd\ufffd\u0041""#
        );
        assert_eq!(without_lone_surrogates(r#""\uD83D"#), r#""\ufffd"#);
    }
}

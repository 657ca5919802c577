//! Finds widening changes of hooks: one that decides less, and one that gets to see what it did not.

use std::collections::BTreeMap;

use super::Widened;
use super::server::{has_more, reached};
use crate::{Hook, Patterns};

pub(super) fn compare(now: &BTreeMap<String, Hook>, next: &BTreeMap<String, Hook>, widened: &mut Widened) {
    for (name, hook) in now {
        let key = format!("hooks.{name}");
        match next.get(name) {
            Some(next) => content(&key, hook, next, widened),
            None => widened.add(key, "removed", true),
        }
    }
    for (name, hook) in next.iter().filter(|(name, _)| !now.contains_key(*name)) {
        // It would be started, and gets arguments and answers.
        let is_known = now.values().any(|now| (&now.transport, &now.sandbox) == (&hook.transport, &hook.sandbox));
        widened.add(format!("hooks.{name}"), "a new program or address", !is_known);
    }
}

fn content(key: &str, now: &Hook, next: &Hook, widened: &mut Widened) {
    let Hook { transport, sandbox, on, servers, timeout, fails_open, only_logs } = now;
    reached(key, transport, &next.transport, widened);
    let leaves_out = |next: &Patterns| servers.as_ref().is_none_or(|now| has_more(now, next));
    let rows = [
        ("on", "shrunk", !on.is_subset(&next.on)),
        ("servers", "perhaps shrunk", next.servers.as_ref().is_some_and(leaves_out)),
        ("timeout", "lowered", next.fails_open && next.timeout < *timeout),
        ("fail", "open", next.fails_open && !fails_open),
        ("mode", "only logs", next.only_logs && !only_logs),
        ("sandbox", "changed", sandbox.is_some() && next.sandbox != *sandbox),
    ];
    widened.rows(key, &rows);
}

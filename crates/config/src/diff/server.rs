//! Finds widening changes of one server.

use std::collections::{BTreeMap, HashSet};

use super::Widened;
use crate::{Access, Approval, Breaker, Override, Patterns, Rate, Relay, Relays, Server, Tasks, ToolRule, Transport};

/// Compares an entry in force with its successor.
pub(super) fn compare(key: &str, now: &Server, next: &Server, widened: &mut Widened) {
    #[rustfmt::skip]
    let Server {
        transport, description: _, enabled, timeout, max_timeout, connect_timeout, reconnect,
        max_reconnect_backoff, breaker, categories: _, access,
        binding: _, start: _, idle_stop: _, share, auth, rate, cost, approval, relays, tasks, tools, overrides,
        sandbox, allow_unmatched,
    } = now;
    if !next.enabled {
        return;
    }
    if !enabled {
        return widened.add(key, "enabled", true);
    }
    reached(key, transport, &next.transport, widened);
    let Breaker { faults, pause } = breaker;
    let Relays { elicitation, sampling } = relays;
    let Access { allow, deny } = access;
    let is_opened = |now: Relay, next: Relay| now == Relay::Never && next == Relay::Ask;
    let rows = [
        ("timeout", "raised", next.timeout > *timeout),
        ("max_timeout", "raised", next.max_timeout > *max_timeout),
        ("connect_timeout", "raised", next.connect_timeout > *connect_timeout),
        ("reconnect", "turned on", next.reconnect && !reconnect),
        ("max_reconnect_backoff", "lowered", next.max_reconnect_backoff < *max_reconnect_backoff),
        ("breaker.faults", "raised", next.breaker.faults > *faults),
        ("breaker.pause", "lowered", next.breaker.pause < *pause),
        ("share", "with more clients", next.share > *share),
        ("auth", "changed", next.auth != *auth),
        ("rate", "raised", is_faster(*rate, next.rate)),
        ("cost", "lowered", next.cost < *cost),
        ("approval", "weaker", next.approval < *approval),
        ("allow_unmatched", "turned on", next.allow_unmatched && !allow_unmatched),
        ("elicitation", "passed on", is_opened(*elicitation, next.relays.elicitation)),
        ("sampling", "passed on", is_opened(*sampling, next.relays.sampling)),
        ("tasks", "turned on", *tasks == Tasks::Never && next.tasks == Tasks::Auto),
        ("allow", "widened", is_wider(allow.as_ref(), next.access.allow.as_ref())),
        ("deny", "shrunk", has_more(deny, &next.access.deny)),
    ];
    widened.rows(key, &rows);
    tool_rules(key, tools, &next.tools, widened);
    let plain = Override::default();
    for tool in overrides.keys().chain(next.overrides.keys().filter(|tool| !overrides.contains_key(*tool))) {
        let [now, next] = [overrides, &next.overrides].map(|all| all.get(tool).unwrap_or(&plain));
        widened.rows(&format!("{key}.tools.{tool}"), &now.widened_by(next));
    }
    match (sandbox, &next.sandbox) {
        (None, _) => {}
        (Some(_), None) => widened.add(format!("{key}.sandbox"), "removed", true),
        (Some(now), Some(next)) => widened.rows(&format!("{key}.sandbox"), &now.widened_by(next)),
    }
}

/// Program and address: any change counts as widening.
pub(super) fn reached(key: &str, now: &Transport, next: &Transport, widened: &mut Widened) {
    match (now, next) {
        (
            Transport::Stdio { command, args, env, cwd },
            Transport::Stdio { command: to_command, args: to_args, env: to_env, cwd: to_cwd },
        ) => {
            widened.add(format!("{key}.command"), "changed", to_command != command);
            widened.add(format!("{key}.args"), "changed", to_args != args);
            widened.add(format!("{key}.env"), "changed", to_env != env);
            widened.add(format!("{key}.cwd"), "changed", to_cwd != cwd);
        }
        (Transport::Http { kind, url, headers }, Transport::Http { kind: to_kind, url: to, headers: with })
            if kind == to_kind =>
        {
            widened.add(format!("{key}.url"), "changed", to != url);
            widened.add(format!("{key}.headers"), "changed", with != headers);
        }
        (
            Transport::OpenApi { document, base_url, headers, query },
            Transport::OpenApi { document: to_document, base_url: to, headers: with, query: and },
        ) => {
            widened.add(format!("{key}.openapi"), "changed", to_document != document);
            widened.add(format!("{key}.base_url"), "changed", to != base_url);
            widened.add(format!("{key}.headers"), "changed", with != headers);
            widened.add(format!("{key}.query"), "changed", and != query);
        }
        (Transport::Stdio { .. } | Transport::Http { .. } | Transport::OpenApi { .. }, _) => {
            widened.add(format!("{key}.transport"), "changed", true);
        }
    }
}

/// True if `one` has an entry that `other` does not have verbatim.
pub(super) fn has_more(one: &Patterns, other: &Patterns) -> bool {
    let known: HashSet<&String> = other.entries().iter().collect();
    one.entries().iter().any(|entry| !known.contains(entry))
}

/// True if `next` lets in more than `now`.
pub(super) fn is_wider(now: Option<&Patterns>, next: Option<&Patterns>) -> bool {
    now.is_some_and(|now| next.is_none_or(|next| has_more(next, now)))
}

/// True if `next` lets through more calls than `now`.
pub(super) fn is_faster(now: Option<Rate>, next: Option<Rate>) -> bool {
    let Some(Rate { calls, per, burst }) = now else { return false };
    next.is_none_or(|next| {
        let (before, after) = (u128::from(calls) * next.per.as_nanos(), u128::from(next.calls) * per.as_nanos());
        next.burst > burst || after > before
    })
}

/// Compares rules of single tools. A rule under a full name beats those under patterns, and any rule beats the server's
/// settings: only a change that is stricter in each order does not widen.
fn tool_rules(key: &str, now: &[ToolRule], next: &[ToolRule], widened: &mut Widened) {
    fn by_name(rules: &[ToolRule]) -> BTreeMap<&[String], &ToolRule> {
        rules.iter().map(|rule| (rule.tools.entries(), rule)).collect()
    }
    let (now, next, none) = (by_name(now), by_name(next), ToolRule::default());
    for name in now.keys().chain(next.keys().filter(|name| !now.contains_key(*name))) {
        let [now, next] = [&now, &next].map(|rules| rules.get(name).copied().unwrap_or(&none));
        let ToolRule { tools: _, rate, cost, approval, only_from } = now;
        let is_cheaper = match (cost, &next.cost) {
            (Some(now), Some(next)) => next < now,
            (now, next) => now != next,
        };
        let is_weaker = match (approval, &next.approval) {
            (Some(now), Some(next)) => next < now,
            (None, None | Some(Approval::Always)) => false,
            (None, Some(_)) | (Some(_), None) => true,
        };
        // Every rule for a tool counts, so that another one takes nothing away.
        let has_more =
            only_from.as_ref().is_some_and(|now| next.only_from.as_ref().is_none_or(|next| !next.is_subset(now)));
        let key = format!("{key}.tools.{}", name.join(","));
        widened.add(format!("{key}.only_from"), "with more callers", has_more);
        widened.add(format!("{key}.rate"), "raised", is_faster(*rate, next.rate));
        widened.add(format!("{key}.cost"), "perhaps lowered", is_cheaper);
        widened.add(format!("{key}.approval"), "perhaps weaker", is_weaker);
    }
}

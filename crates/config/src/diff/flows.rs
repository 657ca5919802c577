//! Finds new data flows in an edit: compares groups and flows by their effect on each pair of servers, not by their
//! text. A removed server still has data in stashes and results.

use std::collections::{BTreeMap, BTreeSet};

use super::Widened;
use crate::{Config, FlowAction, Isolation, Policy};

/// Most pairs of servers times flows that are compared; beyond, any change of groups and flows counts as widening.
const MAX_WORK: usize = 2_000_000;

pub(super) fn compare(now: &Config, next: &Config, widened: &mut Widened) {
    let from: BTreeSet<&str> = now.servers.keys().map(String::as_str).collect();
    let to = next.servers.iter().filter(|(name, server)| server.enabled && from.contains(name.as_str()));
    let to: Vec<&str> = to.map(|(name, _)| name.as_str()).collect();
    let flows = 1 + now.policy.flows.len() + next.policy.flows.len();
    if from.len().saturating_mul(to.len()).saturating_mul(flows) > MAX_WORK {
        return widened.add("groups, flows", "changed", true);
    }
    let (before, after) = (strict(&now.policy), strict(&next.policy));
    let apart = |groups: &BTreeMap<&str, &str>, one: &str, other: &str| matches!((groups.get(one), groups.get(other)), (Some(one), Some(other)) if one != other);
    for from in &from {
        for to in to.iter().filter(|to| *to != from) {
            let joined = apart(&before, from, to) && !apart(&after, from, to);
            widened.add(format!("groups: {from} and {to}"), "no longer apart", joined);
            let freed = action(&next.policy, from, to) < action(&now.policy, from, to);
            widened.add(format!("flows: {from} to {to}"), "freed", freed);
        }
    }
}

/// Strict group of each server in one.
fn strict(policy: &Policy) -> BTreeMap<&str, &str> {
    let groups = policy.groups.iter().filter(|(_, group)| group.isolation == Isolation::Strict);
    groups.flat_map(|(name, group)| group.servers.iter().map(|server| (server.as_str(), name.as_str()))).collect()
}

/// Strictest action of all flows from one server to another.
fn action(policy: &Policy, from: &str, to: &str) -> Option<FlowAction> {
    let flows = policy.flows.iter().filter(|flow| flow.from.covers(from) && flow.to.covers(to));
    flows.map(|flow| flow.action).max()
}

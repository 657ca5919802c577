//! What scripts may do through the scripts that they call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::examine::Examined;
use run::scripts::{LockedCall, SERVER};

/// Tools that a script reaches, directly and through others.
pub(super) struct Reach {
    /// Servers whose data it may get.
    pub(super) servers: BTreeSet<String>,
    /// Servers that it may write to.
    pub(super) written: BTreeSet<String>,
    /// Most calls of one run.
    pub(super) most: Option<u32>,
}

/// Adds to each script its calls of scripts, and what these reach. Scripts of a cycle, and those that call them, are left
/// as they are.
pub(super) fn complete(examined: &mut [Examined]) {
    let digests: BTreeMap<String, String> =
        examined.iter().map(|script| (script.source.name.clone(), script.source.sha256.clone())).collect();
    let mut done: BTreeMap<String, Reach> = BTreeMap::new();
    // Those first that call no script that is not done.
    loop {
        let before = done.len();
        for script in examined.iter_mut() {
            let is_ready = script.calls.iter().all(|(name, _)| done.contains_key(name));
            if is_ready && !done.contains_key(&script.source.name) {
                let reach = through(script, &digests, &done);
                done.insert(script.source.name.clone(), reach);
            }
        }
        if done.len() == before {
            return;
        }
    }
}

fn through(script: &mut Examined, digests: &BTreeMap<String, String>, done: &BTreeMap<String, Reach>) -> Reach {
    let mut reach = script.reach();
    let mut added: BTreeSet<LockedCall> = BTreeSet::new();
    for (name, repeats) in &script.calls {
        let (Some(below), Some(sha256)) = (done.get(name), digests.get(name)) else { continue };
        added.insert(LockedCall {
            server: SERVER.to_owned(),
            tool: name.clone(),
            definition: sha256.clone(),
            writes: !below.written.is_empty(),
        });
        reach.servers.extend(below.servers.iter().cloned());
        reach.written.extend(below.written.iter().cloned());
        reach.most = match (reach.most, below.most) {
            (Some(own), Some(most)) if !repeats => own.checked_add(most).and_then(|sum| sum.checked_add(1)),
            _ => None,
        };
    }
    // The order in which calls are made is the script's to choose: a text can look like another one.
    for from in &reach.servers {
        let others = reach.written.iter().filter(|to| *to != from);
        script.locked.flows.extend(others.map(|to| (from.clone(), to.clone())));
    }
    script.locked.calls.extend(added);
    script.locked.calls.sort();
    script.locked.most_calls = reach.most;
    reach
}

/// The shortest way of calls from a script back to itself, with it at both ends.
pub(super) fn way_back(edges: &BTreeMap<String, BTreeSet<String>>, script: &str) -> Option<Vec<String>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open: VecDeque<&str> = [script].into();
    while let Some(from) = open.pop_front() {
        for to in edges.get(from)? {
            if to == script {
                let mut way = vec![script.to_owned()];
                let mut at = from;
                while at != script {
                    way.push(at.to_owned());
                    at = before.get(at)?;
                }
                way.push(script.to_owned());
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(to.as_str()) {
                before.insert(to, from);
                open.push_back(to);
            }
        }
    }
    None
}

//! What differs between scripts and their lock.

use std::collections::{BTreeMap, BTreeSet};

use super::{Folder, Lock, Locked, LockedCall, SERVER, Source, in_file};

/// A tool as its server lists it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// The whole digest of its definition.
    Is(String),
    /// The server has no such tool, or is not configured.
    Gone,
    /// The list of the server is not known yet.
    Unknown,
}

/// The reason why a script is not what its lock says; `None` if it is. `listed` gives tools by the wire names of server
/// and tool.
pub fn reason(
    source: &Source,
    folder: &Folder,
    lock: Option<&Lock>,
    listed: impl Fn(&str, &str) -> Listed,
) -> Option<String> {
    let Some(locked) = lock.and_then(|lock| lock.scripts.get(&source.name)) else {
        return Some("it is not locked: `forgefs scripts lock`".to_owned());
    };
    if locked.sha256 != source.sha256 {
        return Some("the text differs from its lock: `forgefs scripts lock`".to_owned());
    }
    locked.calls.iter().find_map(|call| {
        let now = match call.server == SERVER {
            true => folder.get(&call.tool).map_or(Listed::Gone, |script| Listed::Is(script.sha256.clone())),
            false => listed(&call.server, &call.tool),
        };
        match now {
            Listed::Is(definition) if definition != call.definition => Some(another(call)),
            Listed::Gone => Some(format!("{call}, which it calls, is gone")),
            Listed::Is(_) | Listed::Unknown => None,
        }
    })
}

fn another(call: &LockedCall) -> String {
    let what = if call.server == SERVER { "text" } else { "definition" };
    format!("{call}, which it calls, has another {what}: `forgefs scripts lock`")
}

/// The differences between a lock and what is there now, by script. `None` names what is in one only.
pub fn differences(was: &Lock, now: &Lock) -> BTreeMap<String, Vec<String>> {
    let names: BTreeSet<&String> = was.scripts.keys().chain(now.scripts.keys()).collect();
    let found = names.into_iter().filter_map(|name| {
        let told = match (was.scripts.get(name), now.scripts.get(name)) {
            (Some(was), Some(now)) => of_script(was, now),
            (None, Some(now)) => new(now),
            (Some(_), None) => vec!["the script is gone".to_owned()],
            (None, None) => Vec::new(),
        };
        (!told.is_empty()).then(|| (name.clone(), told))
    });
    found.collect()
}

fn new(now: &Locked) -> Vec<String> {
    let rights =
        of_script(&Locked { sha256: now.sha256.clone(), most_calls: now.most_calls, ..Locked::default() }, now);
    [vec!["a new script".to_owned()], rights].concat()
}

fn of_script(was: &Locked, now: &Locked) -> Vec<String> {
    let mut told = Vec::new();
    if was.sha256 != now.sha256 {
        told.push("another text".to_owned());
    }
    let by_tool = |locked: &Locked| -> BTreeMap<(String, String), LockedCall> {
        locked.calls.iter().map(|call| ((call.server.clone(), call.tool.clone()), call.clone())).collect()
    };
    let (calls_then, calls_now) = (by_tool(was), by_tool(now));
    for (key, call) in &calls_now {
        match calls_then.get(key) {
            None => told.push(format!("may call {call}{}", if call.writes { ", which may write" } else { "" })),
            Some(before) => {
                if before.definition != call.definition {
                    told.push(another(call));
                }
                if before.writes != call.writes {
                    let word = if call.writes { "may write now" } else { "only reads now" };
                    told.push(format!("{call}, which it calls, {word}"));
                }
            }
        }
    }
    told.extend(
        calls_then
            .iter()
            .filter(|(key, _)| !calls_now.contains_key(*key))
            .map(|(_, call)| format!("no longer calls {call}")),
    );
    told.extend(now.flows.difference(&was.flows).map(|(from, to)| format!("data of {from} may reach {to}")));
    told.extend(was.flows.difference(&now.flows).map(|(from, to)| format!("data of {from} no longer reaches {to}")));
    told.extend(now.uses.difference(&was.uses).map(|used| format!("uses {}", in_file(used))));
    told.extend(was.uses.difference(&now.uses).map(|used| format!("no longer uses {}", in_file(used))));
    if was.most_calls != now.most_calls {
        told.push(match now.most_calls {
            Some(most) => format!("at most {most} calls of tools"),
            None => "nothing in the text bounds the number of calls".to_owned(),
        });
    }
    told
}

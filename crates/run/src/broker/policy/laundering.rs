//! No sequence of a script's acts gets a denied flow through. An independent model tracks the true origin of data and
//! knows nothing of labels.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use proptest::prelude::*;

use super::super::taint::Taint;
use super::*;
use crate::session::Session;
use base::labels::Labels;
use catalog::manifest::ServerState;
use config::Config;
use state::{Entry, Room};

const SERVERS: [&str; 4] = ["vault", "chat", "web", "notes"];

/// An act of a script. Calls may be concurrent; answers come in any order.
#[derive(Debug, Clone)]
enum Act {
    /// Calls a server with all data that the script holds.
    Call(usize),
    /// Delivers the answer of the oldest call in flight.
    Answer,
    /// Puts all held data into the stash.
    Put(usize),
    /// Reads an entry.
    Get(usize),
    /// Lists the entries.
    Keys,
    /// Starts the next execution and abandons calls in flight.
    Next,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..SERVERS.len()).prop_map(Act::Call),
        5 => Just(Act::Answer),
        2 => (0..3_usize).prop_map(Act::Put),
        2 => (0..3_usize).prop_map(Act::Get),
        1 => Just(Act::Keys),
        1 => Just(Act::Next),
    ]
}

/// Pairs of servers: from, to.
type Denied = &'static [(&'static str, &'static str)];
/// Servers by group.
type Groups = &'static [&'static [&'static str]];

/// Configurations, and the flows they deny.
const CONFIGS: [(&str, Denied, Groups); 4] = [
    ("[[flows]]\nfrom = \"vault\"\nto = \"chat\"\naction = \"deny\"\n", &[("vault", "chat")], &[]),
    (
        "[[flows]]\nfrom = \"vault\"\nto = \"*\"\naction = \"deny\"\n",
        &[("vault", "chat"), ("vault", "web"), ("vault", "notes")],
        &[],
    ),
    (
        "[groups.a]\nservers = [\"vault\"]\n[groups.b]\nservers = [\"chat\", \"notes\"]\n",
        &[],
        &[&["vault"], &["chat", "notes"]],
    ),
    (
        "[groups.a]\nservers = [\"vault\", \"web\"]\n[groups.b]\nservers = [\"chat\"]\n\
         [[flows]]\nfrom = \"web\"\nto = \"notes\"\naction = \"deny\"\n[[flows]]\nfrom = \"notes\"\nto = \"b\"\naction = \"deny\"\n",
        &[("web", "notes"), ("notes", "chat")],
        &[&["vault", "web"], &["chat"]],
    ),
];

/// True origin of a script's data: servers.
type Origin = BTreeSet<&'static str>;

/// One execution, with the broker's view and the true one.
struct Run {
    taint: Taint,
    held: Origin,
    called: Origin,
    under_way: Vec<&'static str>,
}

impl Run {
    fn new(rules: &Arc<Rules>) -> Self {
        let taint = Taint::new(Arc::clone(rules), Arc::default());
        Self { taint, held: Origin::new(), called: Origin::new(), under_way: Vec::new() }
    }
}

/// The result of an operation in memory, which completes at once.
fn now<T>(operation: impl Future<Output = T>) -> T {
    operation.now_or_never().expect("state in memory")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_sequence_lets_a_denied_flow_through(which in 0..CONFIGS.len(), acts in prop::collection::vec(act(), 1..60)) {
        let (flows, denied, groups) = CONFIGS[which];
        let servers = SERVERS.map(|name| format!("[servers.{name}]\ncommand = \"x\"\n")).concat();
        let config = Config::parse(&format!("{servers}{flows}"), Path::new("forge.toml"), &|_| None);
        let rules = Arc::new(Rules::new(&config.expect("a valid configuration"), None));
        let session = Session::default();
        let stash = &session.stash;
        // True origin of each entry; its value is its position here.
        let mut kept: Vec<Origin> = Vec::new();
        let mut run = Run::new(&rules);
        for act in acts {
            match act {
                Act::Call(server) => {
                    let server = SERVERS[server];
                    let entry = ServerEntry::empty(server, server, None, ServerState::Offline);
                    let operation = Operation::Resource { uri: "x://y".to_owned(), definition: None };
                    let asked = PendingCall::new(&entry, None, &operation);
                    let admitted = decide(&rules, &asked, &run.taint.now()).and_then(|_| run.taint.enter(server));
                    if admitted.is_ok() {
                        for from in &run.held {
                            prop_assert!(!denied.contains(&(*from, server)), "data of {from} reached {server}");
                        }
                        run.called.insert(server);
                        run.under_way.push(server);
                        let both = |group: &&&[&str]| group.iter().any(|server| run.called.contains(server));
                        prop_assert!(groups.iter().filter(both).count() < 2, "two strict groups: {:?}", run.called);
                    } else {
                        // Nothing is refused without a rule against it.
                        let labels = run.taint.now().labels;
                        let flows = labels.iter().any(|from| denied.contains(&(from.as_str(), server)));
                        prop_assert!(flows || !groups.is_empty(), "{server} was refused for nothing");
                    }
                }
                Act::Answer if !run.under_way.is_empty() => {
                    let server = run.under_way.remove(0);
                    run.taint.receive(server);
                    run.held.insert(server);
                }
                Act::Put(key) => {
                    let labels = run.taint.now().labels;
                    let may = |labels: &Labels| run.taint.may_take_in(labels);
                    let room = Room::stash(&config::Limits::default());
                    // With four servers there are more sets of labels than a stash takes.
                    if now(stash.put(key.to_string(), kept.len().to_string(), labels, None, room, may)).is_ok() {
                        kept.push(run.held.clone());
                    }
                }
                Act::Get(key) => {
                    let may = |labels: &Labels| run.taint.may_take_in(labels);
                    let found = now(stash.get(&key.to_string(), may)).expect("state");
                    let Some(Entry { value, labels, .. }) = found else { continue };
                    run.taint.take_in("it", &labels).expect("what may be read can be");
                    run.held.extend(&kept[value.parse::<usize>().expect("a number")]);
                }
                Act::Keys => {
                    // Seeing others' entries counts like reading them.
                    let before = run.taint.now().group;
                    let keys = now(stash.keys(|labels| run.taint.glimpse(labels))).expect("state");
                    prop_assert_eq!(run.taint.now().group, before);
                    for key in keys {
                        let may = |labels: &Labels| labels.is_subset(&run.taint.now().labels);
                        let found = now(stash.get(&key, may)).expect("state");
                        let Entry { value, .. } = found.expect("what is listed is there");
                        run.held.extend(&kept[value.parse::<usize>().expect("a number")]);
                    }
                }
                Act::Next => run = Run::new(&rules),
                Act::Answer => {}
            }
            let labels = run.taint.now().labels;
            prop_assert!(run.held.iter().all(|from| labels.contains(*from)), "{:?} is more than {labels:?}", run.held);
            let both = |group: &&&[&str]| group.iter().any(|server| run.held.contains(server));
            prop_assert!(groups.iter().filter(both).count() < 2, "data of two strict groups: {:?}", run.held);
        }
    }
}

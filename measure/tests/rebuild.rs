//! A catalog that reuses unchanged parts equals one built from scratch.
#![expect(clippy::expect_used, reason = "a test")]

use std::sync::Arc;

use forgefs::catalog::manifest::{ServerEntry, ServerState};
use forgefs::catalog::{Catalog, Found, Signals};
use forgefs::upstream::Listing;
use forgefs_measure::corpus::{Set, sets};
use serde_json::{Value, json};

fn listed(entry: &ServerEntry, tools: Vec<Value>) -> Arc<ServerEntry> {
    let listing = Listing { tools, ..Listing::default() };
    Arc::new(ServerEntry::listed(&entry.name, &entry.ident, None, listing, ServerState::Offline))
}

fn answers(catalog: &Catalog, set: &Set) -> Vec<Vec<String>> {
    let line = |(found, _): &(Found<'_>, Vec<usize>)| catalog.hit_line(found);
    let answer = |query: &String| {
        let found =
            catalog.find_all(std::slice::from_ref(query), 10, "/", &Signals::default()).expect("it can be searched");
        found.iter().map(line).collect()
    };
    set.questions.iter().map(|question| answer(&question.query)).collect()
}

#[test]
fn what_is_taken_over_changes_nothing() {
    let set = sets(None).expect("the sets can be read").remove(0);
    let first = Catalog::build(set.servers.clone());
    let mut servers = set.servers.clone();
    let mut tools: Vec<Value> =
        servers[2].stubs.tools.iter().skip(3).map(|tool| (*tool.definition.tree()).clone()).collect();
    tools.push(json!({"name": "open_issue_page", "description": "Opens the page of an issue in a zeppelin."}));
    servers[2] = listed(&servers[2], tools);
    let removed = servers.remove(4);
    // A changed state alone changes nothing that is searched.
    servers[0] = Arc::new(servers[0].with_state(ServerState::Connecting));

    // Before the first search there is no index to take over.
    let unsearched = first.rebuild(servers.clone(), Arc::default()).expect("it can be rebuilt");
    let before = answers(&first, &set);
    let rebuilt = first.rebuild(servers.clone(), Arc::default()).expect("it can be rebuilt");
    assert_eq!(answers(&unsearched, &set), answers(&rebuilt, &set));
    let anew = Catalog::build(servers.clone());
    assert_eq!(answers(&rebuilt, &set), answers(&anew, &set));
    assert_eq!(rebuilt.digest(), anew.digest());
    assert_eq!(rebuilt.ls("/", 3).expect("a listing"), anew.ls("/", 3).expect("a listing"));
    let found = rebuilt.find_all(&["zeppelin".to_owned()], 3, "/", &Signals::default()).expect("it can be searched");
    let hit = found.first().map(|(found, _)| rebuilt.hit_line(found)).expect("a hit");
    assert!(hit.contains("/open_issue_page.pyi"), "{hit}");

    let gone = format!("/{}/", removed.ident);
    assert!(!answers(&rebuilt, &set).iter().flatten().any(|line| line.starts_with(&gone)));
    let back = rebuilt.rebuild(set.servers.clone(), Arc::default()).expect("it can be rebuilt");
    assert_eq!(answers(&back, &set), before);
}

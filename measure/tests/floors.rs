//! Search may not get worse unnoticed: the questions of the repository, and those of the shared folder where it is
//! there, against the floors in `tests/fixtures/retrieval/floors.json`.
//!
//! `FORGEFS_WRITE_FLOORS=1 cargo nextest run -p forgefs-measure floors` writes the floors anew.
#![expect(clippy::expect_used, clippy::print_stderr, reason = "a test")]

use std::path::PathBuf;

use forgefs::catalog::Ranking;
use forgefs_measure::{corpus, eval};
use serde_json::{Map, Value};

#[test]
fn search_finds_at_least_what_it_found() {
    let shared = std::env::var_os("FORGEFS_SHARED").map(PathBuf::from).filter(|folder| folder.is_dir());
    if shared.is_none() {
        eprintln!("SKIPPED: the shared sets, since FORGEFS_SHARED names no folder");
    }
    let mut floors = Map::new();
    let known = eval::floors().expect("there are floors");
    let mut faults = Vec::new();
    for set in corpus::sets(shared.as_deref()).expect("the sets can be read") {
        assert!(set.questions.len() > 40, "{} has too few questions to tell", set.name);
        let scores = eval::evaluate(&set, &Ranking::default(), 1).expect("it can be searched");
        faults.extend(eval::below(&known, &set.name, &scores));
        floors.insert(set.name.clone(), eval::as_floors(&scores));
    }
    if std::env::var_os("FORGEFS_WRITE_FLOORS").is_some() {
        let text = serde_json::to_string_pretty(&Value::Object(floors)).expect("floors are JSON");
        std::fs::write(corpus::root().join("tests/fixtures/retrieval/floors.json"), text + "\n").expect("writable");
        return;
    }
    assert!(known["own"]["all"]["recall_at_5"].as_f64().is_some_and(|floor| floor > 0.5), "no floors: {known}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_worse_ranking_is_below_the_floors() {
    let sets = corpus::sets(None).expect("the sets can be read");
    let own = sets.first().expect("there is a set");
    let scores = eval::evaluate(own, &Ranking::plain(), 1).expect("it can be searched");
    let faults = eval::below(&eval::floors().expect("there are floors"), "own", &scores);
    assert!(!faults.is_empty(), "plain BM25 is as good: {scores:?}");
}

//! Regression test of search quality: the small query sets against `tests/fixtures/retrieval/floors.json`. The large
//! ones of the shared folder take minutes in a debug build on a busy machine: `cargo xtask eval`, which CI runs too,
//! compares all.
#![expect(clippy::expect_used, clippy::print_stderr, reason = "a test")]

use std::path::PathBuf;

use forgefs::catalog::Ranking;
use forgefs_measure::{corpus, eval};

/// Most queries of a set that is compared here.
const MAX_QUESTIONS: usize = 200;

#[test]
fn search_finds_at_least_what_it_found() {
    let shared = std::env::var_os("FORGEFS_SHARED").map(PathBuf::from).filter(|folder| folder.is_dir());
    if shared.is_none() {
        eprintln!("SKIPPED: the shared sets, since FORGEFS_SHARED names no folder");
    }
    let floors = eval::floors().expect("there are floors");
    assert!(floors["own"]["all"]["recall_at_5"].as_f64().is_some_and(|floor| floor > 0.5), "no floors: {floors}");
    let mut faults = Vec::new();
    let sets = corpus::sets(shared.as_deref()).expect("the sets can be read");
    for set in sets.iter().filter(|set| set.questions.len() <= MAX_QUESTIONS) {
        assert!(set.questions.len() > 40, "{} has too few questions to tell", set.name);
        let scores = eval::evaluate(set, &Ranking::default(), 1).expect("it can be searched");
        faults.extend(eval::below(&floors, &set.name, &scores));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_worse_ranking_is_below_the_floors() {
    let sets = corpus::sets(None).expect("the sets can be read");
    let own = sets.first().expect("there is a set");
    let scores = eval::evaluate(own, &eval::plain(), 1).expect("it can be searched");
    let faults = eval::below(&eval::floors().expect("there are floors"), "own", &scores);
    assert!(!faults.is_empty(), "plain BM25 is as good: {scores:?}");
}

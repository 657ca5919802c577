//! An index answers the same, to the last bit of a score, however it was reached and however it is divided.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::manifest::ServerState;
use upstream::Listing;

/// Small, so that few tools make many segments.
const SMALL: Runs = Runs { least: 12, most: 4 };
const VERBS: [&str; 6] = ["create", "list", "delete", "merge", "sendMessage", "get"];
const NOUNS: [&str; 9] = ["issue", "file2go", "invoice", "branch", "room", "HTTPServer", "weather", "note", "größe"];
const QUERIES: [&str; 9] = [
    "create an issue",
    "remove old invoices and tell the room",
    "isue",
    "mess",
    "list_issue",
    "server 3",
    "delete the file. Then send a note to everyone in the room about it!",
    "größe",
    "nothing of this kind",
];

/// Numbers that look random, always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn server(&mut self, number: usize) -> Arc<ServerEntry> {
        let size = [0, 1, 3, 5, 30][self.below(5)];
        let tools = (0..size).map(|_| self.tool()).collect();
        let resource = |number: usize| json!({"name": NOUNS[number], "uri": format!("file:///{number}")});
        let resources: Vec<Value> = (0..self.below(3)).map(resource).collect();
        let listing = Listing { tools, resources, ..Listing::default() };
        let name = format!("server {number:02}");
        Arc::new(ServerEntry::listed(&name, &format!("server_{number:02}"), None, listing, ServerState::Offline))
    }

    fn tool(&mut self) -> Value {
        let (verb, noun) = (VERBS[self.below(VERBS.len())], NOUNS[self.below(NOUNS.len())]);
        let about: Vec<&str> = (0..self.below(12)).map(|_| NOUNS[self.below(NOUNS.len())]).collect();
        let description = format!("{verb}s {}", about.join(" "));
        json!({"name": format!("{verb}_{noun}_{}", self.below(1_000)), "description": description})
    }
}

fn with<'a>(signals: &'a Signals, of_path: &'a dyn Fn(&str) -> Option<usize>) -> Among<'a> {
    Among { silent: &[], signals, of_path }
}

fn answers(index: &Index) -> Vec<String> {
    let answer = |query: &&str| {
        let ranked = index
            .search(query, 20, &with(&Signals::default(), &|_| None), |_| true, &Meter::new(u64::MAX))
            .unwrap_or_else(|_| panic!("{query}"));
        let hits: Vec<_> = ranked.hits.iter().map(|(id, score)| (*id, score.to_bits())).collect();
        format!("{query}: {hits:?} {}", ranked.is_weak)
    };
    QUERIES.iter().map(answer).collect()
}

#[test]
fn after_any_changes_an_index_equals_one_built_anew() {
    let mut dice = Dice(1);
    let (mut most, mut reused, mut changes) = (0, 0, 0);
    for _ in 0..2 {
        let mut servers: BTreeMap<usize, Arc<ServerEntry>> = BTreeMap::new();
        let mut index: Option<Index> = None;
        for step in 0..12 {
            // Mostly one server, at times many at once.
            for _ in 0..if step % 8 == 0 { 25 } else { 1 } {
                let number = dice.below(40);
                match dice.below(4) {
                    0 => drop(servers.remove(&number)),
                    _ => drop(servers.insert(number, dice.server(number))),
                }
            }
            let listed: Vec<_> = servers.values().cloned().collect();
            let build = |previous: Option<&Index>, runs| {
                Index::in_runs(&listed, &Skills::default(), previous, Ranking::default(), runs).expect("an index")
            };
            let next = build(index.as_ref(), SMALL);
            let expected = answers(&build(None, SMALL));
            assert_eq!(answers(&next), expected, "of {} servers", listed.len());
            if step % 4 == 0 {
                assert_eq!(answers(&build(None, RUNS)), expected, "undivided, of {} servers", listed.len());
            }
            let known = |segment: &&Arc<Segment>| {
                index.iter().flat_map(Index::segments).any(|known| Arc::ptr_eq(known, segment))
            };
            most = most.max(next.segments.len());
            reused += next.segments().filter(known).count();
            changes += next.segments.len();
            index = Some(next);
        }
    }
    assert!(most > 4 && most <= 9, "{most} segments");
    assert!(reused * 2 > changes, "{reused} of {changes} segments reused");
}

/// Sum of the words, the name, the meaning and the calls, times the boosts.
fn product(explained: &Explained) -> f32 {
    let sum: f32 = explained.words.iter().map(|word| word.gives).sum::<f32>();
    let sum = sum + explained.name + explained.meaning + explained.learned;
    explained.boosts.iter().fold(sum, |product, boost| product * boost.factor)
}

#[test]
fn an_explanation_adds_up_to_the_score() {
    let mut dice = Dice(7);
    let servers: Vec<Arc<ServerEntry>> = (0..20).map(|number| dice.server(number)).collect();
    let index = Index::in_runs(&servers, &Skills::default(), None, Ranking::default(), SMALL).expect("an index");
    let mut learned = Learned::default();
    let words = ["get", "weather", "note"].map(str::to_owned);
    (0..20).for_each(|_| learned.add(&words, "some/tool", 1));
    let signals = Signals { learned: Some(Arc::new(learned)), ..Signals::default() };
    let among = with(&signals, &|path| (path == "some/tool").then_some(3));
    let (mut explained_hits, mut meant, mut called) = (0, 0, 0);
    for query in ["create an issue", "isue", "server 3 invoices", "get weather note", "größe"] {
        let meter = Meter::new(u64::MAX);
        let ranked = index.search(query, 20, &among, |_| true, &meter).unwrap_or_else(|_| panic!("{query}"));
        let documents: Vec<usize> = ranked.hits.iter().map(|(id, _)| *id).collect();
        let all = index.explain(query, &documents, &among, &meter).unwrap_or_else(|_| panic!("{query}"));
        let best = all.iter().map(product).fold(0.0, f32::max);
        for ((_, score), explained) in ranked.hits.iter().zip(&all) {
            let beside = explained.meaning + explained.learned;
            assert!(!explained.words.is_empty() || beside > 0.0, "{query}: a hit has a reason");
            meant += usize::from(explained.meaning > 0.0);
            called += usize::from(explained.learned > 0.0);
            let made = product(explained) / best.powf(index.ranking.even);
            assert!((made - score).abs() <= score * 1e-3, "{query}: {made} is not {score}: {explained:?}");
            explained_hits += 1;
        }
    }
    assert!(explained_hits > 20 && meant > 0 && called > 0, "{explained_hits} {meant} {called}");
}

#[test]
fn a_query_finds_what_it_means_in_five_languages() {
    let tool = |(name, about): (&str, &str)| json!({"name": name, "description": about});
    let tools = [
        ("get_forecast", "Weather of a place for the next days."),
        ("send_message", "Sends a mail to somebody."),
        ("remove_document", "Removes a document from a folder."),
        ("create_bill", "Makes a bill for a customer."),
        ("convert_money", "Converts an amount to another currency."),
        ("play_track", "Plays a song."),
        ("book_room", "Books a room of the hotel."),
    ];
    let listing = Listing { tools: tools.into_iter().map(tool).collect(), ..Listing::default() };
    let server = Arc::new(ServerEntry::listed("all", "all", None, listing, ServerState::Offline));
    let index = |ranking| Index::in_runs(std::slice::from_ref(&server), &Skills::default(), None, ranking, RUNS);
    let meant = index(Ranking::default()).expect("an index");
    let plain = index(Ranking { meaning: 0.0, ..Ranking::default() }).expect("an index");
    let first = |index: &Index, query: &str| {
        let signals = Signals::default();
        let among = with(&signals, &|_| None);
        let ranked = index.search(query, 3, &among, |_| true, &Meter::new(u64::MAX));
        let hit = ranked.unwrap_or_else(|_| panic!("{query}")).hits.first().map(|(id, _)| *id);
        hit.map(|id| server.stubs.tools[id].name.clone()).unwrap_or_default()
    };
    let mut gained = 0;
    for (query, expected) in [
        ("rain tomorrow", "get_forecast"),
        ("listen to music", "play_track"),
        ("Wetter morgen", "get_forecast"),
        ("Musik hören", "play_track"),
        ("envoyer un courrier", "send_message"),
        ("chanson", "play_track"),
        ("borrar documento", "remove_document"),
        ("clima", "get_forecast"),
        ("天气", "get_forecast"),
        ("音乐", "play_track"),
    ] {
        assert_eq!(first(&meant, query), expected, "{query}");
        gained += usize::from(first(&plain, query) != expected);
    }
    assert!(gained >= 7, "{gained}");
}

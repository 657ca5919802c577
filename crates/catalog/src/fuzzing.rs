//! Fuzz targets: arbitrary patterns, queries and definitions.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::glob::Glob;
use super::{Catalog, Node, Signals};
use crate::manifest::{ServerEntry, ServerState};
use base::error::ErrorCode;
use base::limits;
use base::meter::{Halt, Meter};
use inputs::{CHURN, Input, holds, spent, warmed};
use upstream::Listing;

/// More steps than any input needs.
const PLENTY: u64 = 1 << 40;

const GLOBS: &[&str] = &[
    "/", "*", "**", "**/", "?", "[a-z]", "[!b]", "[abcdefghijklmnop]", "[", "]", "{a,b}", "{,}", "{", "}", ",", "a",
    "A", "s", ".pyi", "\\", "tool_1", "é",
];
const WORDS: &[&str] = &[
    "create", "creat", "issue", "isue", "tool", "xxxxxxxx", "creat isue, ", " and ", "createIssue", "HTTPServer", " ",
    "-", "_", ". ", "\n", "1", "é", "ſ", "语言", "server", "delete the", "zzzz zzzz",
];

/// A catalog of similar words.
fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let tools = (0..200).map(|n| {
            let near: String = (0..40).map(|at| format!("create{}xx{n} ", char::from(b'a' + at % 26))).collect();
            json!({ "name": format!("tool_{n}"), "description": near, "inputSchema": { "type": "object" } })
        });
        built(listed(tools.collect()))
    });
    &CATALOG
}

fn listed(tools: Vec<Value>) -> ServerEntry {
    ServerEntry::listed("s", "s", None, Listing { tools, ..Listing::default() }, ServerState::Offline)
}

fn built(entry: ServerEntry) -> Catalog {
    Catalog::build(vec![Arc::new(entry)])
}

/// Checks that a pattern is refused in few words, or matches each path within [`limits::GLOB_STEPS`], and that the
/// catalog finds its files within as many steps per path.
pub fn patterns(data: &[u8]) {
    warmed(check_patterns, data);
}

fn check_patterns(data: &[u8]) {
    let mut input = Input::new(data);
    let pattern = input.text(GLOBS, limits::GLOB.max + 8);
    let path = format!("/{}", input.text(GLOBS, 2_000));
    let (glob, memory) = spent(|| Glob::parse(&pattern));
    holds(&limits::GLOB_MEMORY, pattern.len(), memory.peak, &pattern);
    let glob = match glob {
        Ok(glob) => glob,
        Err(error) => return assert!(error.message.len() < 1_000, "{} for {pattern:?}", error.message),
    };
    let meter = Meter::new(PLENTY);
    let (matched, memory) = spent(|| glob.matcher().is_match(&path, &meter).is_ok());
    let steps = PLENTY - meter.left();
    assert!(matched && steps <= 1 + glob.states() * path.len() as u64, "{steps} for {pattern:?} and {path:?}");
    holds(&limits::GLOB_STEPS, path.len(), steps as usize, &(&pattern, &path));
    holds(&limits::GLOB_MEMORY, pattern.len(), memory.peak, &pattern);
    let found = catalog().files(&pattern, &BTreeSet::new(), &Meter::new(PLENTY));
    assert!(found.map_or(0, |nodes| nodes.len()) <= limits::GLOB_FILES.max, "{pattern:?}");
}

/// Checks that a search stays within [`limits::QUERY_STEPS`] and its answer within a bounded number of bytes.
pub fn queries(data: &[u8]) {
    warmed(check_queries, data);
}

fn check_queries(data: &[u8]) {
    check_query(&Input::new(data).text(WORDS, limits::QUERY.max));
}

fn check_query(query: &str) {
    let query = query.to_owned();
    let (meter, catalog) = (Meter::new(PLENTY), catalog());
    let (found, memory) = spent(|| {
        let found = catalog.find_all_metered(std::slice::from_ref(&query), 8, "/", &Signals::default(), &meter)?;
        Ok::<_, Halt>((found.found.len(), catalog.no_hits(&query, "/", &meter)?))
    });
    let (hits, nothing) = found.unwrap_or_else(|halt| panic!("{} for {query:?}", halt.error("search")));
    let steps = PLENTY - meter.left();
    assert!(hits <= 8 && nothing.len() < 2_000, "{hits}, {nothing}");
    holds(&limits::QUERY_STEPS, query.len(), steps as usize, &query);
    holds(&limits::QUERY_MEMORY, query.len(), memory.peak, &query);
}

/// Checks that a tool list becomes stubs of linear size and a catalog in linear memory, and that each file can be read.
pub fn definitions(data: &[u8]) {
    warmed(check_definitions, data);
}

fn check_definitions(data: &[u8]) {
    let mut input = Input::new(data);
    let tools: Vec<Value> = (0..=input.byte() % 3).map(|n| definition(&mut input, n)).collect();
    let bytes = tools.iter().map(|tool| tool.to_string().len()).sum();
    let (entry, memory) = spent(|| listed(tools.clone()));
    holds(&limits::STUBS_MEMORY, bytes, memory.peak, &tools);
    // Without metered steps, the sum of all allocations stands for the work.
    holds(&limits::STUBS_MEMORY, bytes, memory.total / CHURN, &tools);
    let (catalog, memory) = spent(|| built(entry));
    holds(&limits::CATALOG_MEMORY, bytes, memory.peak, &tools);
    holds(&limits::CATALOG_MEMORY, bytes, memory.total / CHURN, &tools);
    for node in catalog.every_file() {
        let (text, memory) = spent(|| catalog.read(node).map_or(0, |text| text.len()));
        holds(&limits::STUB_BYTES, bytes, text, &tools);
        holds(&limits::STUBS_MEMORY, bytes, memory.peak, &tools);
    }
    let listing = catalog.ls("/", 4).unwrap_or_else(|error| error.message);
    assert!(listing.len() <= 70 << 10, "{} for {tools:?}", listing.len());
    for name in ["t0", "T0", ""] {
        let unknown = catalog.tool("s", name).err().is_none_or(|error| error.code == ErrorCode::ToolNotFound);
        assert!(unknown, "{name} in {tools:?}");
    }
    assert!(catalog.resolve("/s").is_ok_and(Node::is_folder), "{tools:?}");
}

fn definition(input: &mut Input<'_>, number: usize) -> Value {
    const NAMES: &[&str] = &["t", ".", "/", "-", "class", "x_", "Get", "ß"];
    let name = if input.byte().is_multiple_of(3) { input.text(NAMES, 2_000) } else { format!("t{number}") };
    let mut tool = json!({ "name": name, "inputSchema": input.schema() });
    match input.byte() % 6 {
        0 => tool["outputSchema"] = input.schema(),
        1 => tool["description"] = json!(input.text(WORDS, 100_000)),
        2 => tool["annotations"] = serde_json::from_str(&input.json(NAMES, 20_000)).unwrap_or_default(),
        3 => tool["inputSchema"] = serde_json::from_str(&input.json(NAMES, 20_000)).unwrap_or_default(),
        4 => tool["title"] = json!(input.text(NAMES, 20_000)),
        _ => {}
    }
    tool
}

#[cfg(test)]
mod tests {
    use inputs::property;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use base::text::head;

    #[test]
    fn of_the_words_that_are_like_an_unknown_one_few_are_looked_at() {
        // Each tool has 4,000 words at edit distance one.
        let tool = |number: usize| {
            let (head, tail) = "createissue".split_at(number);
            let near = ('\u{ac00}'..).take(4_000).map(|letter| format!("{head}{letter}{} ", &tail[1..]));
            json!({ "name": format!("t{number}"), "description": near.collect::<String>() })
        };
        let catalog = built(listed((0..8).map(tool).collect()));
        let search = || {
            let meter = Meter::new(PLENTY);
            let (found, memory) =
                spent(|| catalog.search("createissue", 8, "/", &Signals::default(), &meter).map(|hits| hits.len()));
            (found.unwrap_or_default(), PLENTY - meter.left(), memory)
        };
        search();
        let (found, steps, memory) = search();
        assert!(found > 0 && steps < 20_000, "{found} hits in {steps} steps");
        assert!(memory.peak < 1 << 20, "{memory:?}");
    }

    #[test]
    fn clauses_that_are_searched_again_stay_within_the_limits_of_a_query() {
        for part in ["creat isue, ", "creat isue and tols xxxxxxxx. ", "creat isue and tols xxxxxxxx, isue tol but "] {
            for times in [1, 2, 4, 16, 32, limits::QUERY.max / part.len()] {
                let query: String = (0..times).map(|number| part.replace("isue", &format!("isue{number}"))).collect();
                for query in [part.repeat(times), head(&query, limits::QUERY.max).to_owned()] {
                    warmed(|query| check_query(std::str::from_utf8(query).unwrap_or_default()), query.as_bytes());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(property())]

        #[test]
        fn definitions_give_stubs_of_linear_size(data in vec(any::<u8>(), 0..300)) {
            definitions(&data);
        }

        #[test]
        fn patterns_take_linear_steps(data in vec(any::<u8>(), 0..100)) {
            patterns(&data);
        }

        #[test]
        fn queries_take_linear_steps(data in vec(any::<u8>(), 0..100)) {
            queries(&data);
        }
    }
}

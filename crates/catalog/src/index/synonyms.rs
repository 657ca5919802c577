//! Synonyms of agents and servers.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words;

/// One group per line. The words of a group are synonyms of each other; groups are not joined.
const GROUPS: &str = include_str!("synonyms.txt");

/// Synonyms of `stem`.
pub(super) fn of(stem: &str) -> &'static [String] {
    static BY_STEM: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(read);
    BY_STEM.get(stem).map_or(&[], Vec::as_slice)
}

fn read() -> HashMap<String, Vec<String>> {
    let mut by_stem: HashMap<String, Vec<String>> = HashMap::new();
    for line in GROUPS.lines().filter(|line| !line.starts_with('#')) {
        let group: Vec<String> = line.split_whitespace().map(words::stem).collect();
        for stem in &group {
            let others = by_stem.entry(stem.clone()).or_default();
            others.extend(group.iter().filter(|other| *other != stem).cloned());
            others.sort_unstable();
            others.dedup();
        }
    }
    by_stem
}

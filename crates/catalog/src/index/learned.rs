//! Learned from use: how often each tool was called after each word was searched for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Index, broken, meaning, query};
use base::error::Result;
use base::json;
use base::meter::{Halt, Meter};

/// Changes with the format of the text.
const FORMAT: u32 = 1;
/// Days in which a count halves.
const HALF_LIFE: f32 = 30.0;
/// Count under which a tool is forgotten for a word.
const LEAST: f32 = 0.2;
/// Most words, tools of a word, and bytes of a tool's path.
const MAX_WORDS: usize = 1_000;
const MAX_TOOLS: usize = 4;
const MAX_PATH: usize = 200;
/// Calls added to those after a word, so that the first one is no certainty.
const DOUBT: f32 = 2.0;
/// Memory that the values of a text may take.
const MAX_TREE: usize = 16 << 20;

/// Tools that were called after words were searched for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    format: u32,
    /// Day to which the counts are reduced, since 1970.
    day: u64,
    /// Stem → path of a tool, `SERVER/TOOL` → count.
    words: BTreeMap<String, BTreeMap<String, f32>>,
}

/// What ranks hits beside the words of the catalog.
#[derive(Debug, Clone)]
pub struct Signals {
    /// True if texts that mean the same match without a common word.
    pub meaning: bool,
    /// Learned from use, if it is.
    pub learned: Option<Arc<Learned>>,
}

impl Default for Learned {
    fn default() -> Self {
        Self { format: FORMAT, day: 0, words: BTreeMap::new() }
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self { meaning: true, learned: None }
    }
}

impl Learned {
    /// From its text; nothing if that is damaged or of another format.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let counts = |learned: &Self| learned.words.values().flat_map(BTreeMap::values).all(|count| count.is_finite());
        let learned = json::parse::<Self>(text, MAX_TREE).ok();
        learned.filter(|learned| learned.format == FORMAT && counts(learned)).unwrap_or_default()
    }

    /// Its text, as it is kept: stems, paths of tools and counts.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Counts a call of the tool at `path` on a day, in days since 1970, after these words.
    pub fn add(&mut self, words: &[String], path: &str, day: u64) {
        self.age(day);
        for word in words.iter().filter(|_| path.len() <= MAX_PATH) {
            let tools = self.words.entry(word.clone()).or_default();
            *tools.entry(path.to_owned()).or_default() += 1.0;
            if tools.len() > MAX_TOOLS {
                let others = tools.iter().filter(|(known, _)| *known != path);
                let least = others.min_by(|a, b| a.1.total_cmp(b.1)).map(|(known, _)| known.clone());
                least.map(|least| tools.remove(&least));
            }
        }
        if self.words.len() > MAX_WORDS {
            // The least used eighth makes room, so that not every call has to.
            let count = |tools: &BTreeMap<String, f32>| tools.values().sum::<f32>();
            let mut counts: Vec<f32> = self.words.values().map(count).collect();
            let (_, bound, _) = counts.select_nth_unstable_by(MAX_WORDS / 8, f32::total_cmp);
            let bound = *bound;
            self.words.retain(|word, tools| words.contains(word) || count(tools) > bound);
        }
    }

    fn age(&mut self, day: u64) {
        #[expect(clippy::cast_precision_loss, reason = "days are few")]
        let days = day.saturating_sub(self.day) as f32;
        self.day = self.day.max(day);
        if days > 0.0 {
            let left = 0.5_f32.powf(days / HALF_LIFE);
            self.words.values_mut().for_each(|tools| {
                tools.values_mut().for_each(|count| *count *= left);
                tools.retain(|_, count| *count >= LEAST);
            });
            self.words.retain(|_, tools| !tools.is_empty());
        }
    }

    /// Tools that were called after a word, by path, each with its share of the calls.
    pub(super) fn of(&self, stem: &str) -> impl Iterator<Item = (&str, f32)> {
        let tools = self.words.get(stem);
        let all = DOUBT + tools.map_or(0.0, |tools| tools.values().sum());
        tools.into_iter().flatten().map(move |(path, count)| (path.as_str(), count / all))
    }
}

impl Index {
    /// Words of a query that may be learned: those of the catalog and of the language. Others, such as names of people,
    /// are kept nowhere.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails; or the meter stops the work.
    pub(crate) fn learnable(&self, query: &str, meter: &Meter) -> Result<Vec<String>, Halt> {
        let mut words = Vec::new();
        for term in query::terms(query, &self.ranking) {
            let mut is_known = meaning::row(&term.stem).is_some();
            for at in &self.segments {
                meter.spend(super::POSTINGS_A_STEP)?;
                is_known = is_known || at.segment.words.known(&term.stem).map_err(broken)?.is_some();
            }
            if is_known {
                words.push(term.stem);
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITE: &str = r#"{"format":1,"day":1,"words":{"a":{"b/c":1e300}}}"#;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn counts_halve_in_a_month_and_are_bounded() {
        let mut learned = Learned::default();
        learned.add(&words("open ticket"), "jira/create_issue", 20_000);
        learned.add(&words("open"), "files/open", 20_000);
        let shares = |learned: &Learned, stem: &str| -> Vec<(String, f32)> {
            learned.of(stem).map(|(path, share)| (path.to_owned(), (share * 100.0).round())).collect()
        };
        assert_eq!(shares(&learned, "ticket"), [("jira/create_issue".to_owned(), 33.0)]);
        assert_eq!(shares(&learned, "open").len(), 2);
        assert_eq!(Learned::parse(&learned.text()), learned);
        learned.add(&words("ticket"), "jira/create_issue", 20_030);
        assert_eq!(shares(&learned, "ticket"), [("jira/create_issue".to_owned(), 43.0)]);
        learned.add(&[], "", 20_400);
        assert_eq!(learned.words.len(), 0, "all is forgotten");
        for round in 0..20_000_u32 {
            let word = format!("w{}", round % 3_000);
            learned.add(&[word], &format!("server{}/{}", round % 7, "t".repeat(150)), 20_400);
        }
        assert!(learned.words.len() <= MAX_WORDS && learned.words.values().all(|tools| tools.len() <= MAX_TOOLS));
        assert!(learned.text().len() < 900 << 10, "{}", learned.text().len());
        for damaged in ["", "{", "{\"format\":2,\"day\":1,\"words\":{}}", "[]", INFINITE] {
            assert_eq!(Learned::parse(damaged.as_bytes()), Learned::default(), "{damaged}");
        }
    }
}

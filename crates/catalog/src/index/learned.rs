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
/// Most words.
const MAX_WORDS: usize = 1_000;
/// Most bytes of a word.
const MAX_WORD: usize = 40;
/// Most tools of a word.
const MAX_TOOLS: usize = 4;
/// Most bytes of a tool's path.
const MAX_PATH: usize = 200;
/// Most bytes of the text, which a record of the state has to hold.
const MAX_BYTES: usize = 200 << 10;
/// Bytes of the text beside a word or path: quotes, separators and a count.
const PAIR: usize = 20;
/// Calls added to those after a word, so that the first one is no certainty.
const DOUBT: f32 = 2.0;
/// Memory that the values of a text may take.
const MAX_TREE: usize = 64 * MAX_BYTES;

/// Tools that were called after words were searched for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    format: u32,
    /// Day to which the counts are reduced, since 1970.
    day: u64,
    /// Stem → path of a tool, `SERVER/TOOL` → count.
    words: BTreeMap<String, BTreeMap<String, f32>>,
}

/// Calls of servers, by their identifiers.
pub type Uses = BTreeMap<String, f32>;

/// Signals that rank hits beside the words of the catalog.
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
    pub fn parse(text: &[u8]) -> Self {
        let counts = |learned: &Self| learned.words.values().flat_map(BTreeMap::values).all(|count| count.is_finite());
        let learned = json::parse::<Self>(text, MAX_TREE).ok();
        learned.filter(|learned| learned.format == FORMAT && counts(learned)).unwrap_or_default()
    }

    /// Calls of each server that count, by its identifier.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, count) in self.words.values().flatten() {
            *uses.entry(path.split('/').next().unwrap_or_default().to_owned()).or_default() += count;
        }
        uses
    }

    /// Its text, as it is kept: stems, paths of tools and counts.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Counts a call of the tool at `path` on a day, in days since 1970, after these words. Of a word with as many tools as
    /// fit, a further one takes a call from the least.
    pub fn add(&mut self, words: &[String], path: &str, day: u64) {
        self.age(day);
        for word in words.iter().filter(|word| path.len() <= MAX_PATH && word.len() <= MAX_WORD) {
            let tools = self.words.entry(word.clone()).or_default();
            let is_full = tools.len() >= MAX_TOOLS && !tools.contains_key(path);
            match tools.iter_mut().min_by(|a, b| a.1.total_cmp(b.1)).filter(|_| is_full) {
                Some((_, count)) => *count -= 1.0,
                None => *tools.entry(path.to_owned()).or_default() += 1.0,
            }
            tools.retain(|_, count| *count >= LEAST);
        }
        while self.words.len() > MAX_WORDS || self.bytes() > MAX_BYTES {
            // The least used eighth makes room, so that not every call has to.
            let count = |tools: &BTreeMap<String, f32>| tools.values().sum::<f32>();
            let mut all: Vec<(bool, f32, String)> =
                self.words.iter().map(|(word, tools)| (words.contains(word), count(tools), word.clone())).collect();
            all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then_with(|| a.2.cmp(&b.2)));
            for (_, _, word) in all.iter().take(self.words.len().div_ceil(8)) {
                self.words.remove(word);
            }
        }
    }

    /// About as many bytes as its text has.
    fn bytes(&self) -> usize {
        let tools = |tools: &BTreeMap<String, f32>| tools.keys().map(|path| path.len() + PAIR).sum::<usize>();
        self.words.iter().map(|(word, of)| word.len() + PAIR + tools(of)).sum()
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
    /// Words of a query that may be learned: those that the catalog has, and those of the table of meanings. Others, such as
    /// numbers and most names, are kept nowhere.
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
        assert!((1_000..=MAX_BYTES).contains(&learned.text().len()), "{}", learned.text().len());
        let mut learned = Learned::default();
        (0..MAX_WORDS).for_each(|number| learned.add(&[format!("w{number}")], "a/b", 1));
        learned.add(&words("one more"), "a/b", 1);
        assert_eq!(learned.words.len(), (MAX_WORDS + 2) - (MAX_WORDS + 2).div_ceil(8), "an eighth made room");
        assert!(learned.words.contains_key("one"));
        let mut learned = Learned::default();
        for (path, calls) in [("a/a", 100), ("a/b", 50), ("a/c", 40), ("a/d", 30)] {
            (0..calls).for_each(|_| learned.add(&words("open"), path, 1));
        }
        (0..29).for_each(|number| learned.add(&words("open"), &format!("z/z{number}"), 1));
        assert_eq!(learned.words["open"].keys().collect::<Vec<_>>(), ["a/a", "a/b", "a/c", "a/d"]);
        learned.add(&[format!("long{}", "x".repeat(4_000))], "a/b", 1);
        assert_eq!(learned.words.len(), 1);
        for damaged in ["", "{", "{\"format\":2,\"day\":1,\"words\":{}}", "[]", INFINITE] {
            assert_eq!(Learned::parse(damaged.as_bytes()), Learned::default(), "{damaged}");
        }
    }
}

//! Which documents have a word, and how often: an FST of the words over postings in memory.

use std::collections::HashMap;
use std::sync::LazyLock;

use fst::{IntoStreamer as _, Streamer as _};
use levenshtein_automata::LevenshteinAutomatonBuilder;

use crate::limits;

/// Largest word in bytes. Nobody can ask for a larger one, and the FST's builder takes some hundred bytes a byte.
const MAX_WORD: usize = limits::QUERY.max;

/// One edit away, where two letters that changed places are one edit.
static ONE_EDIT: LazyLock<LevenshteinAutomatonBuilder> = LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true));

/// The words of all documents, with their postings.
pub(super) struct Postings {
    /// Each word's position in `ends`.
    words: fst::Map<Vec<u8>>,
    /// Where the postings of each word end, and those of the next one begin.
    ends: Vec<u32>,
    documents: Vec<u32>,
    counts: Vec<u16>,
}

impl Postings {
    /// Postings of texts such as `ticket*5 creat*3`, one a document, each word once.
    ///
    /// # Errors
    /// The FST cannot be built, which of sorted words it can.
    pub(super) fn new<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Self, fst::Error> {
        let mut ids: HashMap<&str, u32> = HashMap::new();
        let mut found: Vec<(u32, u32, u16)> = Vec::new();
        for (text, document) in texts.zip(0..) {
            for (word, count) in words(text) {
                if word.len() <= MAX_WORD {
                    let next = position(ids.len());
                    found.push((*ids.entry(word).or_insert(next), document, count.parse().unwrap_or(u16::MAX)));
                }
            }
        }
        let mut words: Vec<(&str, u32)> = ids.into_iter().collect();
        words.sort_unstable();
        let mut ranks = vec![0; words.len()];
        for ((_, id), rank) in words.iter().zip(0usize..) {
            ranks[*id as usize] = rank;
        }
        // Where each word's postings begin, which filling them in moves to where they end.
        let mut ends = vec![0u32; words.len()];
        for (id, ..) in &found {
            ends[ranks[*id as usize]] += 1;
        }
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let (mut documents, mut counts) = (vec![0; found.len()], vec![0; found.len()]);
        for (id, document, count) in found {
            let end = &mut ends[ranks[id as usize]];
            (documents[*end as usize], counts[*end as usize]) = (document, count);
            *end += 1;
        }
        let words = fst::Map::from_iter(words.into_iter().map(|(word, _)| word).zip(0u64..))?;
        Ok(Self { words, ends, documents, counts })
    }

    /// The documents that have `word`, in order, with how often; `None` if none has it.
    pub(super) fn of(&self, word: &str) -> Option<impl ExactSizeIterator<Item = (u32, u16)>> {
        let span = self.span(self.words.get(word)?);
        Some(self.documents[span.clone()].iter().copied().zip(self.counts[span].iter().copied()))
    }

    /// How many documents have `word`.
    pub(super) fn frequency(&self, word: &str) -> Option<u32> {
        self.words.get(word).map(|at| position(self.span(at).len()))
    }

    /// The first `limit` words that start with `prefix`, with how many documents have each.
    pub(super) fn starting(&self, prefix: &str, limit: usize) -> Vec<(u32, String)> {
        self.first(limit, self.words.range().ge(prefix).lt(format!("{prefix}\u{10ffff}")).into_stream())
    }

    /// The first `limit` words that are one edit away from `word`, with how many documents have each.
    pub(super) fn near(&self, word: &str, limit: usize) -> Vec<(u32, String)> {
        self.first(limit, self.words.search(ONE_EDIT.build_dfa(word)).into_stream())
    }

    fn first<A: fst::Automaton>(&self, limit: usize, mut words: fst::map::Stream<'_, A>) -> Vec<(u32, String)> {
        let mut first = Vec::new();
        while first.len() < limit
            && let Some((word, at)) = words.next()
        {
            first.push((position(self.span(at).len()), String::from_utf8_lossy(word).into_owned()));
        }
        first
    }

    fn span(&self, at: u64) -> std::ops::Range<usize> {
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        at.checked_sub(1).map_or(0, end)..end(at)
    }
}

/// The words of a text with how often each is there.
pub(super) fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_ascii_whitespace().filter_map(|word| word.split_once('*'))
}

fn position(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

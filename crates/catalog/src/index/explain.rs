//! What the score of a hit is made of.

use super::scoring::{Scratch, Signal, Variant, rarity};
use super::{Among, Index, POSTINGS_A_STEP, broken, named, query};
use base::error::Result;
use base::meter::{Halt, Meter};

/// Parts of one hit's score: its words, the share of its name in the query, its meaning and its calls, times the boosts.
/// Scores of a query of one sentence are divided by the square root of the best of these; those of several sentences are summed.
#[derive(Debug, Default)]
pub struct Explained {
    /// Words of the query that it has.
    pub words: Vec<Word>,
    /// Score of the share of its name in the query.
    pub name: f32,
    /// Score of its meaning.
    pub meaning: f32,
    /// Score of calls after the words of the query.
    pub learned: f32,
    /// Factors, and what is added, beside them.
    pub boosts: Vec<Boost>,
}

/// A word of a query that a document has.
#[derive(Debug)]
pub struct Word {
    /// Stem of the query's word.
    pub word: String,
    /// Stem of the document's word.
    pub meant: String,
    /// Why it counts: `word`, `synonym` or `like`.
    pub how: &'static str,
    /// True if it is in the name.
    pub in_name: bool,
    /// Rarity of the document's word.
    pub rarity: f32,
    /// Its part of the score.
    pub gives: f32,
}

/// A factor of a score.
#[derive(Debug, serde::Serialize)]
pub struct Boost {
    /// Reason.
    pub what: String,
    /// The factor.
    pub factor: f32,
}

impl Index {
    /// Parts of the scores of documents for a query, in their order.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails; or the meter stops the work.
    pub(crate) fn explain(
        &self,
        query: &str,
        documents: &[usize],
        among: &Among<'_>,
        meter: &Meter,
    ) -> Result<Vec<Explained>, Halt> {
        let mut all: Vec<Explained> = documents.iter().map(|_| Explained::default()).collect();
        let mut scratch = Scratch::new(self.norms.len(), self.server_names.len());
        for (part, _) in &self.parts(query) {
            let terms = query::terms(part, &self.ranking);
            let limit = self.score(&terms, &mut scratch, meter)?;
            self.beside_words(part, &terms, &limit, among, meter, |signal, document, score| {
                let at = documents.iter().position(|known| *known == document as usize);
                let explained = at.and_then(|at| all.get_mut(at));
                match (signal, explained) {
                    (Signal::Meaning, Some(explained)) => explained.meaning = explained.meaning.max(score),
                    (Signal::Learned, Some(explained)) => explained.learned += score,
                    (_, None) => {}
                }
            })?;
            let mut of_words = vec![0.0_f32; documents.len()];
            for term in &terms {
                let variants = self.variants(term, meter)?;
                let (weights, _) = self.weights(term, &variants);
                for ((document, explained), sum) in documents.iter().zip(&mut all).zip(&mut of_words) {
                    let best = self.best(super::number(*document), &variants, &weights, meter)?;
                    *sum += best.as_ref().map_or(0.0, |best| best.gives);
                    if let Some(found) = best.filter(|_| !explained.words.iter().any(|known| known.word == term.stem)) {
                        explained.words.push(Word { word: term.stem.clone(), ..found });
                    }
                }
            }
            let highest = scratch.of_server.highest.max(f32::MIN_POSITIVE);
            for ((document, explained), of_words) in documents.iter().zip(&mut all).zip(of_words) {
                explained.name = explained.name.max(scratch.all.get(super::number(*document)) - of_words);
                let server = self.server_of(super::number(*document));
                if self.server_names.len() > 1 {
                    let share = scratch.of_server.get(server) / highest;
                    explained.boost("words in any tool of its server", 1.0 + self.ranking.server_matched * share);
                }
                let named = self.server_names.get(server as usize).map_or(0.0, |words| named(words, &terms));
                explained.boost("its server is named", 1.0 + self.ranking.server_named * named);
            }
            scratch.all.drain(|_, _| {});
            scratch.of_server.drain(|_, _| {});
        }
        Ok(all)
    }

    /// The variant of a word that counts for a document.
    fn best(
        &self,
        document: u32,
        variants: &[Variant<'_>],
        weights: &[f32],
        meter: &Meter,
    ) -> Result<Option<Word>, Halt> {
        let mut best: Option<Word> = None;
        for (variant, weight) in variants.iter().zip(weights) {
            for (at, word) in &variant.found {
                meter.spend(u64::from(variant.count) / POSTINGS_A_STEP)?;
                let mut times = 0;
                let count = |found, count| times = if at.id(found) == document { count } else { times };
                at.segment.words.postings(word, count).map_err(broken)?;
                let gives = weight * self.saturated(document, times);
                if times == 0 || best.as_ref().is_some_and(|best| best.gives >= gives) {
                    continue;
                }
                let mut in_name = false;
                if let Some(word) = at.segment.names.known(&variant.stem).map_err(broken)? {
                    let is_it = |found, _| in_name |= at.id(found) == document;
                    at.segment.names.postings(&word, is_it).map_err(broken)?;
                }
                best = Some(Word {
                    word: String::new(),
                    meant: variant.stem.clone(),
                    how: variant.how,
                    in_name,
                    rarity: rarity(self.norms.len(), variant.count),
                    gives,
                });
            }
        }
        Ok(best)
    }
}

impl Explained {
    /// Notes a factor, the largest of all sentences.
    fn boost(&mut self, what: &str, factor: f32) {
        match self.boosts.iter_mut().find(|known| known.what == what) {
            Some(known) => known.factor = known.factor.max(factor),
            None if factor > 1.0 => self.boosts.push(Boost { what: what.to_owned(), factor }),
            None => {}
        }
    }
}

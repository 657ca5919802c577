//! Scores documents for the words of a query: BM25 over all segments, with statistics of the whole index, so that a
//! score does not depend on how the documents are divided.

use std::collections::BTreeMap;

use tantivy::Term;
use tantivy::postings::TermInfo;
use tantivy::query::FuzzyTermQuery;
use tantivy::schema::Field;

use super::meaning::Vector;
use super::scores::{self, Scores};
use super::segment::{Segment, Words};
use super::segments::Placed;
use super::{Among, DOCUMENTS_A_STEP, Index, POSTINGS_A_STEP, Signals, broken, meaning, number, query, synonyms};
use base::error::Result;
use base::meter::{Halt, Meter, Stopped};

/// Costs in metered steps: a look-up in one segment, and a character of a word that is searched as misspelt.
const LOOK_UP: u64 = 10;
const FUZZY_CHARACTER: u64 = 1_000;
/// Most known words that an unknown one may stand for.
const MAX_MEANT: usize = 4;
/// Most candidates, known words with an unknown one as prefix or near it, to choose them from. A server can list a
/// million.
const MAX_LIKE: usize = 256;
/// Steps per candidate.
const LIKE: u64 = 4;

/// Most documents whose meaning counts for a part of a query.
const MAX_NEAR: usize = 128;

/// Scores of one part of a query, cleared after each.
pub(super) struct Scratch {
    pub(super) all: Scores,
    of_name: Scores,
    of_term: Scores,
    /// For each server, the sum over the words of the best score of its tools.
    pub(super) of_server: Scores,
    of_server_term: Scores,
}

impl Scratch {
    pub(super) fn new(documents: usize, servers: usize) -> Self {
        let [all, of_name, of_term] = [(); 3].map(|()| Scores::new(documents));
        Self { all, of_name, of_term, of_server: Scores::new(servers), of_server_term: Scores::new(servers) }
    }
}

/// A word where it occurs.
pub(super) type Occurrences<'i> = Vec<(&'i Placed, TermInfo)>;

/// A word of a query, or another that counts for it.
pub(super) struct Variant<'i> {
    pub(super) stem: String,
    /// Why it counts: `word`, `synonym`, or `like` for a known word that an unknown one may stand for.
    pub(super) how: &'static str,
    /// Its weight beside the word's own.
    share: f32,
    pub(super) found: Occurrences<'i>,
    /// Number of documents with it.
    pub(super) count: u32,
}

/// The score that a document with each word of a part many times nears.
pub(super) struct Limit {
    pub(super) all: f32,
    /// Its share of words whose meaning is known.
    meant: f32,
    /// The limit of each word.
    of_terms: Vec<f32>,
}

/// A signal beside words.
pub(super) enum Signal {
    Meaning,
    Learned,
}

impl Index {
    /// Scores each document for `terms`: of a word and its synonyms the best counts, once.
    pub(super) fn score(&self, terms: &[query::Term], scratch: &mut Scratch, meter: &Meter) -> Result<Limit, Halt> {
        let Scratch { all, of_name, of_term, of_server, of_server_term } = scratch;
        let mut perfect = Limit { all: f32::MIN_POSITIVE, meant: 0.0, of_terms: Vec::with_capacity(terms.len()) };
        for term in terms {
            let variants = self.variants(term, meter)?;
            let (weights, limit) = self.weights(term, &variants);
            perfect.all += limit;
            perfect.meant += if meaning::row(&term.stem).is_some() { limit } else { 0.0 };
            perfect.of_terms.push(limit);
            let mut count = |document, score| {
                all.add(document, score);
                of_server_term.at_least(self.server_of(document), score);
            };
            let occurring: Vec<_> = variants.iter().zip(weights).filter(|(variant, _)| variant.count > 0).collect();
            if let [(variant, weight)] = occurring[..] {
                self.score_variant(variant, weight, meter, count)?;
            } else {
                for (variant, weight) in occurring {
                    self.score_variant(variant, weight, meter, |document, score| of_term.at_least(document, score))?;
                }
                of_term.drain(&mut count);
            }
            of_server_term.drain(|server, score| of_server.add(server, score));
            self.score_names(&variants, of_term, meter)?;
            of_term.drain(|document, score| of_name.add(document, score));
        }
        of_name.drain(|document, hit| {
            let whole = self.name_weights.get(document as usize).copied().unwrap_or(f32::MAX);
            all.add(document, self.ranking.coverage * hit * hit / whole);
        });
        Ok(perfect)
    }

    /// Calls `each` with what documents score beside their words: for a meaning near that of the part, and for calls after
    /// its words. Of a part of which half of the words are unknown, such as a misspelt name, the meaning counts a quarter.
    pub(super) fn beside_words(
        &self,
        part: &str,
        terms: &[query::Term],
        limit: &Limit,
        among: &Among<'_>,
        meter: &Meter,
        mut each: impl FnMut(Signal, u32, f32),
    ) -> Result<(), Stopped> {
        let Signals { meaning: is_meant, learned } = among.signals;
        // Of each tool, its shares of the calls after the words, and the weight of these words.
        let mut called: BTreeMap<usize, (f32, f32)> = BTreeMap::new();
        for (term, limit) in terms.iter().zip(&limit.of_terms) {
            for (path, share) in learned.iter().flat_map(|learned| learned.of(&term.stem)) {
                meter.spend(LOOK_UP)?;
                if let Some(document) = (among.of_path)(path) {
                    let (shares, words) = called.entry(document).or_default();
                    (*shares, *words) = (*shares + limit * share, *words + limit);
                }
            }
        }
        for (document, (shares, words)) in called {
            // One common word of a query proves little.
            each(Signal::Learned, number(document), self.ranking.learned * shares * (words / limit.all));
        }
        let known = limit.meant / limit.all;
        let weight = self.ranking.meaning * known * known * limit.all;
        let is_counted = *is_meant && weight > 0.0;
        let Some(meant) = is_counted.then(|| meaning::of(part)).flatten() else { return Ok(()) };
        meter.spend(2 * self.norms.len() as u64 / DOCUMENTS_A_STEP)?;
        let near = self.near(&meant);
        let nearest = near.iter().map(|(_, cosine)| *cosine).fold(0.0, f32::max);
        let least = self.ranking.near * nearest;
        for (document, cosine) in near.into_iter().filter(|(_, cosine)| *cosine > least) {
            each(Signal::Meaning, document, weight * (cosine - least) / (nearest - least));
        }
        Ok(())
    }

    /// The documents whose meaning is nearest, each with its cosine.
    fn near(&self, meant: &Vector) -> Vec<(u32, f32)> {
        let cosines = self.segments.iter().flat_map(|at| {
            let meanings = (0..).zip(&at.segment.meanings);
            meanings.map(|(document, meaning)| (at.id(document), meaning.cosine(meant)))
        });
        scores::best(cosines.filter(|(_, cosine)| *cosine > 0.0), MAX_NEAR, |_| true)
    }

    /// Calls `each` with each document of a word and its score.
    fn score_variant(
        &self,
        variant: &Variant<'_>,
        weight: f32,
        meter: &Meter,
        mut each: impl FnMut(u32, f32),
    ) -> Result<(), Halt> {
        meter.spend(u64::from(variant.count) / POSTINGS_A_STEP)?;
        for (at, word) in &variant.found {
            let mut score = |document, count| each(document, weight * self.saturated(document, count));
            at.segment.words.postings(word, |document, count| score(at.id(document), count)).map_err(broken)?;
        }
        Ok(())
    }

    /// Weight of a word's variants, and the limit of their score.
    pub(super) fn weights(&self, term: &query::Term, variants: &[Variant<'_>]) -> (Vec<f32>, f32) {
        let total = self.norms.len();
        let whole = term.count.powf(self.ranking.repeats) * (self.ranking.k1 + 1.0);
        let mut own: Option<f32> = None;
        let mut weights = Vec::with_capacity(variants.len());
        for (number, variant) in variants.iter().enumerate() {
            let rarity = own.unwrap_or(f32::MAX).min(rarity(total, variant.count));
            if number == 0 && variant.count > 0 {
                own = Some(rarity);
            }
            weights.push(variant.share * rarity.powf(self.ranking.rarity) * whole);
        }
        (weights, own.unwrap_or_else(|| rarity(total, 0)).powf(self.ranking.rarity) * whole)
    }

    /// Share of its weight that a word has which is so many times in a document.
    pub(super) fn saturated(&self, document: u32, count: u32) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let count = count as f32 / self.norms.get(document as usize).copied().unwrap_or(1.0);
        count / (count + self.ranking.k1)
    }

    /// Scores each document for a word and its variants in its name. Those are among the words of the document, so that
    /// other segments need no look-up.
    fn score_names(&self, variants: &[Variant<'_>], of_term: &mut Scores, meter: &Meter) -> Result<(), Halt> {
        for Variant { stem, share, found, .. } in variants {
            let segments = found.iter().map(|(at, _)| *at);
            let (found, count) = occurrences(stem, segments, |segment| &segment.names, meter)?;
            meter.spend(u64::from(count) / POSTINGS_A_STEP)?;
            let weight = share * rarity(self.norms.len(), count);
            for (at, word) in found {
                at.segment
                    .names
                    .postings(&word, |document, _| of_term.at_least(at.id(document), weight))
                    .map_err(broken)?;
            }
        }
        Ok(())
    }

    /// The word, its synonyms, and the likely meanings of an unknown word.
    pub(super) fn variants(&self, term: &query::Term, meter: &Meter) -> Result<Vec<Variant<'_>>, Halt> {
        let own = self.variant(&term.stem, "word", 1.0, meter)?;
        let is_unknown = own.count == 0;
        let mut variants = vec![own];
        for other in synonyms::of(&term.stem) {
            variants.push(self.variant(other, "synonym", self.ranking.synonyms, meter)?);
        }
        if term.may_be_typo && is_unknown {
            meter.spend(term.stem.len() as u64 * FUZZY_CHARACTER)?;
            for other in self.meant(&term.stem, meter)? {
                variants.push(self.variant(&other, "like", self.ranking.typos, meter)?);
            }
        }
        Ok(variants)
    }

    fn variant(&self, stem: &str, how: &'static str, share: f32, meter: &Meter) -> Result<Variant<'_>, Halt> {
        let (found, count) = occurrences(stem, self.segments.iter(), |segment| &segment.words, meter)?;
        Ok(Variant { stem: stem.to_owned(), how, share, found, count })
    }

    /// The most frequent known words with an unknown one as prefix, else those at edit distance one.
    fn meant(&self, stem: &str, meter: &Meter) -> Result<Vec<String>, Halt> {
        let mut like = Like::default();
        let end = format!("{stem}\u{10ffff}");
        for at in &self.segments {
            let mut starting = at.segment.words.terms().range().ge(stem).lt(&end).into_stream().map_err(broken)?;
            for _ in 0..MAX_LIKE {
                if !starting.advance() {
                    break;
                }
                like.add(starting.key(), starting.value().doc_freq, meter)?;
            }
        }
        let word = Term::from_field_text(Field::from_field_id(0), stem);
        if like.counts.is_empty()
            && let Ok(near) = FuzzyTermQuery::new(word, 1, true).automaton()
        {
            for at in &self.segments {
                let mut near = at.segment.words.terms().search(&near).into_stream().map_err(broken)?;
                for _ in 0..MAX_LIKE {
                    if !near.advance() {
                        break;
                    }
                    like.add(near.key(), near.value().doc_freq, meter)?;
                }
            }
        }
        Ok(like.most_frequent())
    }
}

/// Where a word occurs in a field of some segments, and the number of documents with it.
fn occurrences<'i>(
    stem: &str,
    segments: impl Iterator<Item = &'i Placed>,
    field: impl Fn(&Segment) -> &Words,
    meter: &Meter,
) -> Result<(Occurrences<'i>, u32), Halt> {
    let (mut found, mut count) = (Vec::new(), 0);
    for at in segments {
        meter.spend(LOOK_UP)?;
        if let Some(word) = field(&at.segment).known(stem).map_err(broken)? {
            count += word.doc_freq;
            found.push((at, word));
        }
    }
    Ok((found, count))
}

/// Known words like an unknown one, with the number of documents of each.
#[derive(Default)]
struct Like {
    counts: BTreeMap<String, u32>,
}

impl Like {
    fn add(&mut self, word: &[u8], count: u32, meter: &Meter) -> Result<(), Stopped> {
        meter.spend(LIKE)?;
        *self.counts.entry(String::from_utf8_lossy(word).into_owned()).or_default() += count;
        Ok(())
    }

    fn most_frequent(self) -> Vec<String> {
        // The first of all are among the first of each segment.
        let mut found: Vec<(String, u32)> = self.counts.into_iter().take(MAX_LIKE).collect();
        found.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        found.truncate(MAX_MEANT);
        found.into_iter().map(|(word, _)| word).collect()
    }
}

/// BM25's inverse document frequency of a word in `count` of `total` documents.
#[expect(clippy::cast_precision_loss, reason = "catalogs are not that large")]
pub(super) fn rarity(total: usize, count: u32) -> f32 {
    let (total, count) = (total as f32, count as f32);
    ((total - count + 0.5) / (count + 0.5)).ln_1p()
}

//! Ranks tools for a query: BM25F over an in-memory tantivy index, with stems, synonyms and typo tolerance.
//!
//! Every tool is one field of stems, in which a part that weighs three times as much is three times: the frequency of a
//! word is its weight (BM25F), and one look-up a word and segment is enough. A segment covers consecutive servers, and
//! the next index reuses it while none of them changes; the statistics are those of the whole index. Scores are summed
//! here and not by tantivy's queries, since a word and its synonyms must count once, and since sentences are scored one
//! by one.

mod document;
mod explain;
mod lazy;
mod learned;
mod meaning;
mod query;
mod ranking;
mod rarest;
mod runs;
mod scores;
mod scoring;
mod segment;
mod segments;
mod synonyms;
mod words;

use std::sync::Arc;

pub use self::explain::{Boost, Explained, Word};
pub(super) use self::lazy::Lazy;
pub use self::learned::{Learned, Signals, Uses};
pub use self::ranking::{Fields, Ranking};
use self::runs::{RUNS, Runs};
use self::scores::Scores;
use self::scoring::Scratch;
use self::segment::Segment;
use self::segments::Placed;
use crate::manifest::ServerEntry;
use crate::skills::Skills;
use base::error::{Cause, Error, ErrorCode, Result};
use base::meter::{Halt, Meter, Stopped};

/// Least words of a question of one sentence whose clauses are searched on their own, and of a sentence among others:
/// those are one step each, unless they are long.
const LONG_QUESTION: usize = 6;
const LONG_SENTENCE: usize = 16;
/// Most clauses of a query.
const MAX_CLAUSES: usize = 16;
/// Share of its score that a hit of a server that does not answer counts with, beside those of servers that do.
pub(super) const SILENT_SHARE: f32 = 0.5;
/// Most documents that a query names.
const MAX_NAMED: usize = 64;
/// Postings and documents per metered step.
const POSTINGS_A_STEP: u64 = 4;
const DOCUMENTS_A_STEP: u64 = 16;

/// Documents that match a query.
pub(super) struct Ranked {
    /// Ids and scores, best first.
    pub(super) hits: Vec<(usize, f32)>,
    /// True if none matches well.
    pub(super) is_weak: bool,
}

/// Servers and signals that a search takes into account.
pub(super) struct Among<'a> {
    /// Servers that do not answer, by position.
    pub(super) silent: &'a [bool],
    pub(super) signals: &'a Signals,
    /// The document of a tool, by the path that was learned.
    pub(super) of_path: &'a dyn Fn(&str) -> Option<usize>,
}

/// A read-only index of the tools, resources and prompts of one catalog.
pub(super) struct Index {
    segments: Vec<Placed>,
    ranking: Ranking,
    /// BM25 length norm of each document.
    norms: Vec<f32>,
    /// Total rarity of the words in each document's name.
    name_weights: Vec<f32>,
    /// Server of each document.
    servers: Vec<u32>,
    /// Words by which a query names a server.
    server_names: Vec<Vec<String>>,
    /// Digest of the skills.
    skills: String,
}

impl Index {
    /// Indexes the tools of `servers` in order, then their resources and prompts, then the skills; a hit's id is its
    /// position there. Reuses the segments and documents of unchanged servers from `previous`.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails, which in memory it should not.
    pub(super) fn build(
        servers: &[Arc<ServerEntry>],
        skills: &Skills,
        previous: Option<&Self>,
        ranking: Ranking,
    ) -> Result<Self> {
        Self::in_runs(servers, skills, previous, ranking, RUNS).map_err(broken)
    }

    fn in_runs(
        servers: &[Arc<ServerEntry>],
        skills: &Skills,
        previous: Option<&Self>,
        ranking: Ranking,
        runs: Runs,
    ) -> tantivy::Result<Self> {
        let known: Vec<&Arc<Segment>> = previous.into_iter().flat_map(Self::segments).collect();
        let mut segments = segments::of_servers(servers, &known, &ranking, runs)?;
        if !skills.skills.is_empty() {
            let same = previous.filter(|previous| previous.skills == skills.digest());
            segments.push(match same.and_then(|same| same.segments().last()) {
                Some(known) => Arc::clone(known),
                None => Arc::new(segments::of_skills(skills, &ranking)?),
            });
        }
        let segments = segments::placed(segments);
        Ok(Self {
            norms: segments::norms(&segments, ranking.b),
            name_weights: segments::name_weights(&segments)?,
            servers: segments::servers(&segments),
            server_names: servers.iter().map(|server| query::server_words(&server.name, &ranking)).collect(),
            segments,
            skills: skills.digest().to_owned(),
            ranking,
        })
    }

    /// Server of a document; no server's number for skills.
    fn server_of(&self, document: u32) -> u32 {
        self.servers.get(document as usize).copied().unwrap_or(u32::MAX)
    }

    fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments.iter().map(|at| &at.segment)
    }

    /// Least share of the best score for a hit; others are fillers.
    pub(super) fn least_share(&self) -> f32 {
        self.ranking.fillers
    }

    /// The documents that match `query` and `keep`, best first, ties in order of id. Those of `silent` servers, by
    /// position, count less; the others' scores do not change.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails; or the meter stops the work.
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        among: &Among<'_>,
        keep: impl Fn(usize) -> bool,
        meter: &Meter,
    ) -> Result<Ranked, Halt> {
        let silent = among.silent;
        let parts = self.parts(query);
        let mut scratch = Scratch::new(self.norms.len(), self.server_names.len());
        let mut total = Scores::new(self.norms.len());
        let mut fit = 0.0_f32;
        meter.spend(1 + self.norms.len() as u64 / DOCUMENTS_A_STEP)?;
        for (part, weight) in &parts {
            let terms = query::terms(part, &self.ranking);
            let perfect = self.score(&terms, &mut scratch, meter)?;
            fit = fit.max(scratch.all.highest / perfect.all);
            self.beside_words(part, &terms, &perfect, among, meter, |_, document, score| {
                scratch.all.add(document, score)
            })?;
            self.favour_matched_servers(&mut scratch);
            self.favour_named_servers(&terms, &mut scratch.all, meter)?;
            let fusion = if parts.len() == 1 { 1 } else { self.ranking.fusion };
            let even = scratch.all.highest.max(f32::MIN_POSITIVE).powf(self.ranking.even);
            scratch.all.drain(|document, score| total.add(document, weight * raised(score / even, fusion)));
        }
        meter.spend(total.count() as u64 / POSTINGS_A_STEP)?;
        if silent.contains(&true) && silent.contains(&false) {
            let fusion = if parts.len() == 1 { 1 } else { self.ranking.fusion };
            let server = |document: u32| self.server_of(document) as usize;
            let is_silent = |document| silent.get(server(document)).is_some_and(|is_silent| *is_silent);
            total.scale(|document| if is_silent(document) { SILENT_SHARE.powi(fusion) } else { 1.0 });
        }
        let mut best = total.best(limit + self.norms.len().min(MAX_NAMED), |document| keep(document as usize));
        if parts.len() > 1 {
            best.iter_mut().for_each(|(_, score)| *score = score.powf(1.0 / self.ranking.fusion as f32));
        }
        let is_name = self.ranking.names_first && self.names_first(query, &mut best, &keep);
        best.truncate(limit);
        let hits = best.into_iter().map(|(document, score)| (document as usize, score)).collect();
        Ok(Ranked { hits, is_weak: !is_name && fit < self.ranking.weak })
    }

    /// True if a name has one of the words of a query, other than verbs of any tool.
    pub(super) fn names(&self, query: &str, name: &str) -> bool {
        let mut words = query::server_words(name, &self.ranking);
        words.retain(|word| !query::OF_ANY_TOOL.contains(&word.as_str()));
        query::terms(query, &self.ranking).iter().any(|term| words.contains(&term.stem))
    }

    /// Sentences of a query, and the clauses of long ones, each with its weight.
    fn parts<'q>(&self, query: &'q str) -> Vec<(&'q str, f32)> {
        if self.ranking.fusion == 0 {
            return vec![(query, 1.0)];
        }
        let sentences = words::sentences(query);
        let mut parts: Vec<(&str, f32)> = sentences.iter().map(|sentence| (*sentence, 1.0)).collect();
        if self.ranking.clauses > 0.0 {
            let least = if sentences.len() == 1 { LONG_QUESTION } else { LONG_SENTENCE };
            let clauses = sentences.iter().flat_map(|sentence| words::clauses(sentence, least)).take(MAX_CLAUSES);
            parts.extend(clauses.map(|clause| (clause, self.ranking.clauses)));
        }
        parts
    }

    /// Boosts the tools of servers by the share of the query's words that each has, in whichever of its tools.
    fn favour_matched_servers(&self, scratch: &mut Scratch) {
        let Scratch { all, of_server, .. } = scratch;
        let highest = of_server.highest.max(f32::MIN_POSITIVE);
        if self.server_names.len() > 1 {
            all.scale(|document| {
                let server = self.server_of(document);
                1.0 + self.ranking.server_matched * of_server.get(server) / highest
            });
        }
        of_server.drain(|_, _| {});
    }

    /// Boosts the tools of a server by the share of its name's words in the query.
    fn favour_named_servers(&self, terms: &[query::Term], scores: &mut Scores, meter: &Meter) -> Result<(), Stopped> {
        meter.spend((self.server_names.len() * terms.len()) as u64 / POSTINGS_A_STEP)?;
        let shares: Vec<f32> = self.server_names.iter().map(|words| named(words, terms)).collect();
        if shares.iter().all(|share| *share == 0.0) {
            return Ok(());
        }
        scores.scale(|document| {
            let server = self.server_of(document) as usize;
            1.0 + self.ranking.server_named * shares.get(server).copied().unwrap_or(0.0)
        });
        Ok(())
    }

    /// Puts documents first whose whole name is the query, then those whose name starts with it, if the query reads as
    /// part of a name. True if there are any.
    fn names_first(&self, text: &str, best: &mut Vec<(u32, f32)>, keep: &impl Fn(usize) -> bool) -> bool {
        let wanted = words::squashed(text);
        if wanted.len() < 2 || wanted.len() > 128 {
            return false;
        }
        let reads_as_name = !text.trim().contains(char::is_whitespace) && text.trim().contains(['_', '-', '.']);
        let fits = |name: &str| reads_as_name || name == wanted;
        let mut first: Vec<(&str, u32)> = Vec::new();
        for at in &self.segments {
            let named = at.segment.named(&wanted).map(|(name, document)| (name, at.id(document)));
            first.extend(named.filter(|(name, document)| fits(name) && keep(*document as usize)).take(MAX_NAMED));
        }
        first.sort_unstable();
        first.truncate(MAX_NAMED);
        let highest = best.first().map_or(1.0, |(_, score)| *score);
        for (_, document) in &first {
            match best.iter_mut().find(|(known, _)| known == document) {
                Some((_, score)) => *score = highest,
                None => best.push((*document, highest)),
            }
        }
        let tier = |document: u32| match first.iter().find(|(_, known)| *known == document) {
            Some((name, _)) => u8::from(*name != wanted),
            None => 2,
        };
        best.sort_by_key(|(document, _)| tier(*document));
        !first.is_empty()
    }
}

/// `powi`, which is a call each time, for the exponents in use.
fn raised(score: f32, exponent: i32) -> f32 {
    match exponent {
        1 => score,
        2 => score * score,
        _ => score.powi(exponent),
    }
}

fn broken(error: impl Into<Cause>) -> Error {
    Error::new(ErrorCode::Internal, "the search index failed").caused_by(error)
}

/// Share of the words of a server's name that are in a query.
#[expect(clippy::cast_precision_loss, reason = "names have few words")]
fn named(words: &[String], terms: &[query::Term]) -> f32 {
    let count = words.iter().filter(|word| terms.iter().any(|term| term.stem == **word)).count();
    count as f32 / words.len().max(1) as f32
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

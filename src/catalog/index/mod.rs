//! Ranks tools for a query: BM25F over an in-memory tantivy index, with stems, synonyms and typo tolerance.
//!
//! Every tool is one bag of weighted stems in one field: the weight of a word is its frequency in the postings, so that
//! one look-up per word is enough. Scores are summed here and not by tantivy's queries, since a word and its synonyms
//! must count once, and since sentences are scored one by one.

mod document;
mod query;
mod ranking;
mod scores;
mod synonyms;
mod tokens;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use tantivy::postings::{Postings as _, TermInfo};

use tantivy::query::FuzzyTermQuery;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{DocSet as _, Index as Tantivy, InvertedIndexReader, TERMINATED, Term};

use self::document::{Document, OfServer, Writer};
pub use self::ranking::{Fields, Ranking};
use self::scores::Scores;
use crate::error::{Error, ErrorCode, Result};
use crate::manifest::ServerEntry;
use crate::meter::{Halt, Meter, Stopped};
use crate::skills::Skills;

/// Memory for building the single segment, in bytes per document and in total. A third of it becomes the word table,
/// which grows on demand. A catalog is built several times while servers connect: a table of megabytes for a few tools
/// would be most of the time to the first answer.
const DOCUMENT_MEMORY: usize = 2 << 10;
const BUILD_MEMORY: std::ops::RangeInclusive<usize> = (256 << 10)..=(64 << 20);
/// Least words of a question of one sentence whose clauses are searched on their own, and of a sentence among others:
/// those are one step each, unless they are long.
const LONG_QUESTION: usize = 6;
const LONG_SENTENCE: usize = 16;
/// Most clauses of a query.
const MAX_CLAUSES: usize = 16;
/// Least number of servers for building documents on several threads.
const MIN_PARALLEL: usize = 16;
/// Costs in metered steps: a look-up, a character of a word that is searched as misspelt, and postings or documents per
/// step.
const LOOK_UP: u64 = 10;
const FUZZY_CHARACTER: u64 = 1_000;
const POSTINGS_A_STEP: u64 = 4;
const DOCUMENTS_A_STEP: u64 = 16;
/// Most known words that an unknown one may stand for.
const MAX_MEANT: usize = 4;
/// Most candidates, known words with an unknown one as prefix or near it, to choose them from. A server can list a
/// million.
const MAX_LIKE: usize = 256;
/// Steps per candidate.
const LIKE: u64 = 4;

/// Documents that match a query.
pub(super) struct Ranked {
    /// Ids and scores, best first.
    pub(super) hits: Vec<(usize, f32)>,
    /// True if none matches well.
    pub(super) is_weak: bool,
}

/// A read-only index of the tools, resources and prompts of one catalog.
pub(super) struct Index {
    words: Arc<InvertedIndexReader>,
    names: Arc<InvertedIndexReader>,
    fields: [Field; 2],
    ranking: Ranking,
    /// BM25 length norm of each document.
    norms: Vec<f32>,
    /// Total rarity of the words in each document's name.
    name_weights: Vec<f32>,
    /// Server of each document.
    servers: Vec<u32>,
    /// Words by which a query names a server.
    server_names: Vec<Vec<String>>,
    /// Names reduced to letters and digits, sorted, with their document.
    by_name: Vec<(String, u32)>,
    /// Documents by server.
    documents: Vec<Arc<OfServer>>,
    /// Digest of the skills.
    skills: String,
}

impl Index {
    /// Indexes the tools of `servers` in order, then their resources and prompts, then the skills; a hit's id is its position there.
    /// Reuses the documents of unchanged servers from `previous`.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails, which in memory it should not.
    pub(super) fn build(
        servers: &[Arc<ServerEntry>],
        skills: &Skills,
        previous: Option<&Self>,
        ranking: Ranking,
    ) -> Result<Self> {
        Self::try_build(servers, skills, previous, ranking).map_err(broken)
    }

    /// Least share of the best score for a hit; others are fillers.
    pub(super) fn least_share(&self) -> f32 {
        self.ranking.fillers
    }

    /// True if this is the index of `servers` too: at most their states changed.
    pub(super) fn is_of(&self, servers: &[Arc<ServerEntry>], skills: &Skills) -> bool {
        let is_same = self.documents.len() == servers.len() && self.skills == skills.digest();
        is_same && self.documents.iter().zip(servers).all(|(own, new)| own.is_of(new))
    }

    fn try_build(
        servers: &[Arc<ServerEntry>],
        skills: &Skills,
        previous: Option<&Self>,
        ranking: Ranking,
    ) -> tantivy::Result<Self> {
        let indexing = |option| {
            let indexing = TextFieldIndexing::default().set_tokenizer(tokens::NAME).set_fieldnorms(false);
            TextOptions::default().set_indexing_options(indexing.set_index_option(option))
        };
        let mut schema = Schema::builder();
        let words = schema.add_text_field("words", indexing(IndexRecordOption::WithFreqs));
        let names = schema.add_text_field("names", indexing(IndexRecordOption::Basic));
        let tokenizers = TokenizerManager::new();
        tokenizers.register(tokens::NAME, tokens::Counted::default());
        let documents = documents(servers, previous, &ranking);
        let tools = documents.iter().enumerate().flat_map(|(server, of)| of.tools.iter().map(move |d| (server, d)));
        let others = documents.iter().enumerate().flat_map(|(server, of)| of.others.iter().map(move |d| (server, d)));
        let of_skills = skill_documents(skills, &ranking);
        // Of no server.
        let of_skills = of_skills.iter().map(|document| (usize::MAX, document));
        let all: Vec<(usize, &Document)> = tools.chain(others).chain(of_skills).collect();
        let memory = (all.len() * DOCUMENT_MEMORY).clamp(*BUILD_MEMORY.start(), *BUILD_MEMORY.end());
        let mut segment = Tantivy::builder()
            .schema(schema.build())
            .tokenizers(tokenizers)
            .single_segment_index_writer(tantivy::directory::RamDirectory::create(), memory)?;
        for (_, document) in &all {
            let mut fields = tantivy::TantivyDocument::default();
            fields.add_text(words, &document.words);
            fields.add_text(names, &document.names);
            segment.add_document(fields)?;
        }
        let reader = segment.finalize()?.reader_builder().reload_policy(tantivy::ReloadPolicy::Manual).try_into()?;
        let searcher = tantivy::IndexReader::searcher(&reader);
        let inverted =
            |field| searcher.segment_readers().first().map(|segment| segment.inverted_index(field)).transpose();
        let empty = || Arc::new(InvertedIndexReader::empty(IndexRecordOption::Basic));
        Ok(Self {
            words: inverted(words)?.unwrap_or_else(empty),
            names: inverted(names)?.unwrap_or_else(empty),
            fields: [words, names],
            norms: norms(&all, ranking.b),
            name_weights: name_weights(&all),
            servers: all.iter().map(|(server, _)| number(*server)).collect(),
            server_names: servers.iter().map(|server| query::server_words(&server.name, &ranking)).collect(),
            by_name: by_name(&all),
            documents,
            skills: skills.digest().to_owned(),
            ranking,
        })
    }

    /// The documents that match `query` and `keep`, best first, ties in order of id.
    ///
    /// # Errors
    /// `INTERNAL` when tantivy fails; or the meter stops the work.
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        keep: impl Fn(usize) -> bool,
        meter: &Meter,
    ) -> Result<Ranked, Halt> {
        let parts = self.parts(query);
        let mut scratch = Scratch::new(self.norms.len(), self.documents.len());
        let mut total = Scores::new(self.norms.len());
        let mut fit = 0.0_f32;
        meter.spend(1 + self.norms.len() as u64 / DOCUMENTS_A_STEP)?;
        for (part, weight) in &parts {
            let terms = query::terms(part, &self.ranking);
            let perfect = self.score(&terms, &mut scratch, meter)?;
            fit = fit.max(scratch.all.highest() / perfect);
            self.favour_matched_servers(&mut scratch);
            self.favour_named_servers(&terms, &mut scratch.all, meter)?;
            let fusion = if parts.len() == 1 { 1 } else { self.ranking.fusion };
            let even = scratch.all.highest().max(f32::MIN_POSITIVE).powf(self.ranking.even);
            scratch.all.drain(|document, score| total.add(document, weight * (score / even).powi(fusion)));
        }
        meter.spend(total.count() as u64 / POSTINGS_A_STEP)?;
        let mut best = total.best(limit + self.by_name.len().min(64), |document| keep(document as usize));
        if parts.len() > 1 {
            best.iter_mut().for_each(|(_, score)| *score = score.powf(1.0 / self.ranking.fusion as f32));
        }
        let is_name = self.ranking.names_first && self.names_first(query, &mut best, &keep);
        best.truncate(limit);
        let hits = best.into_iter().map(|(document, score)| (document as usize, score)).collect();
        Ok(Ranked { hits, is_weak: !is_name && fit < self.ranking.weak })
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

    /// Scores each document for `terms`: of a word and its synonyms the best counts, once. Returns the limit that a
    /// document with each word many times nears.
    fn score(&self, terms: &[query::Term], scratch: &mut Scratch, meter: &Meter) -> Result<f32, Halt> {
        let Scratch { all, of_name, of_term, of_server, of_server_term } = scratch;
        let mut perfect = f32::MIN_POSITIVE;
        for term in terms {
            let variants = self.variants(term, meter)?;
            perfect += self.score_term(term, &variants, of_term, meter)?;
            of_term.drain(|document, score| {
                all.add(document, score);
                of_server_term.at_least(self.servers.get(document as usize).copied().unwrap_or(u32::MAX), score);
            });
            of_server_term.drain(|server, score| of_server.add(server, score));
            if self.ranking.coverage > 0.0 {
                self.score_names(&variants, of_term, meter)?;
                of_term.drain(|document, score| of_name.add(document, score));
            }
        }
        of_name.drain(|document, hit| {
            let whole = self.name_weights.get(document as usize).copied().unwrap_or(f32::MAX);
            all.add(document, self.ranking.coverage * hit * hit / whole);
        });
        Ok(perfect)
    }

    /// Scores each document for a word and its variants. Returns the limit of such a score.
    fn score_term(
        &self,
        term: &query::Term,
        variants: &[(String, f32)],
        of_term: &mut Scores,
        meter: &Meter,
    ) -> Result<f32, Halt> {
        let own = self.rarity_of(&self.words, self.fields[0], &term.stem)?;
        let rarest = own.unwrap_or_else(|| rarity(self.norms.len(), 0)).powf(self.ranking.rarity);
        let whole = term.count.powf(self.ranking.repeats) * (self.ranking.k1 + 1.0);
        for (stem, share) in variants {
            meter.spend(LOOK_UP)?;
            let Some(info) = known(&self.words, self.fields[0], stem)? else { continue };
            meter.spend(u64::from(info.doc_freq) / POSTINGS_A_STEP)?;
            let rarity = rarity(self.norms.len(), info.doc_freq);
            let rarity = own.map_or(rarity, |own| own.min(rarity)).powf(self.ranking.rarity);
            let weight = share * rarity * whole;
            let postings = self.words.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqs);
            let mut postings = postings.map_err(broken)?;
            let mut document = postings.doc();
            while document != TERMINATED {
                #[expect(clippy::cast_precision_loss, reason = "counts are small")]
                let count = postings.term_freq() as f32;
                let count = count / self.norms.get(document as usize).copied().unwrap_or(1.0);
                of_term.at_least(document, weight * count / (count + self.ranking.k1));
                document = postings.advance();
            }
        }
        Ok(rarest * whole)
    }

    fn score_names(&self, variants: &[(String, f32)], of_term: &mut Scores, meter: &Meter) -> Result<(), Halt> {
        for (stem, share) in variants {
            meter.spend(LOOK_UP)?;
            let Some(info) = known(&self.names, self.fields[1], stem)? else { continue };
            meter.spend(u64::from(info.doc_freq) / POSTINGS_A_STEP)?;
            let weight = share * rarity(self.norms.len(), info.doc_freq);
            let postings = self.names.read_postings_from_terminfo(&info, IndexRecordOption::Basic);
            let mut postings = postings.map_err(broken)?;
            let mut document = postings.doc();
            while document != TERMINATED {
                of_term.at_least(document, weight);
                document = postings.advance();
            }
        }
        Ok(())
    }

    fn rarity_of(&self, index: &InvertedIndexReader, field: Field, stem: &str) -> Result<Option<f32>> {
        Ok(known(index, field, stem)?.map(|info| rarity(self.norms.len(), info.doc_freq)))
    }

    /// The word, its synonyms, and the likely meanings of an unknown word, each with its weight.
    fn variants(&self, term: &query::Term, meter: &Meter) -> Result<Vec<(String, f32)>, Halt> {
        let mut variants = vec![(term.stem.clone(), 1.0)];
        if self.ranking.synonyms > 0.0 {
            variants.extend(synonyms::of(&term.stem).iter().map(|other| (other.clone(), self.ranking.synonyms)));
        }
        let may_be_meant = self.ranking.typos > 0.0 && term.may_be_typo;
        if may_be_meant && known(&self.words, self.fields[0], &term.stem)?.is_none() {
            meter.spend(term.stem.len() as u64 * FUZZY_CHARACTER)?;
            let meant = self.meant(&term.stem, meter)?;
            variants.extend(meant.into_iter().map(|other| (other, self.ranking.typos)));
        }
        Ok(variants)
    }

    /// The most frequent known words with an unknown one as prefix, else those at edit distance one.
    fn meant(&self, stem: &str, meter: &Meter) -> Result<Vec<String>, Halt> {
        let mut found = Vec::new();
        let end = format!("{stem}\u{10ffff}");
        let starting = self.words.terms().range().ge(stem).lt(end).into_stream();
        let mut starting = starting.map_err(broken)?;
        while found.len() < MAX_LIKE && starting.advance() {
            found.push((starting.value().doc_freq, String::from_utf8_lossy(starting.key()).into_owned()));
        }
        if found.is_empty()
            && let Ok(near) = FuzzyTermQuery::new(Term::from_field_text(self.fields[0], stem), 1, true).automaton()
        {
            let mut near = self.words.terms().search(near).into_stream().map_err(broken)?;
            while found.len() < MAX_LIKE && near.advance() {
                found.push((near.value().doc_freq, String::from_utf8_lossy(near.key()).into_owned()));
            }
        }
        meter.spend(found.len() as u64 * LIKE)?;
        found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        found.truncate(MAX_MEANT);
        Ok(found.into_iter().map(|(_, stem)| stem).collect())
    }

    /// Boosts the tools of servers by the share of the query's words that each has, in whichever of its tools.
    fn favour_matched_servers(&self, scratch: &mut Scratch) {
        let Scratch { all, of_server, .. } = scratch;
        let highest = of_server.highest().max(f32::MIN_POSITIVE);
        if self.ranking.server_matched > 0.0 && self.server_names.len() > 1 {
            all.scale(|document| {
                let server = self.servers.get(document as usize).copied().unwrap_or(u32::MAX);
                1.0 + self.ranking.server_matched * of_server.get(server) / highest
            });
        }
        of_server.drain(|_, _| {});
    }

    /// Boosts the tools of a server by the share of its name's words in the query.
    fn favour_named_servers(&self, terms: &[query::Term], scores: &mut Scores, meter: &Meter) -> Result<(), Stopped> {
        meter.spend((self.server_names.len() * terms.len()) as u64 / POSTINGS_A_STEP)?;
        let share = |words: &Vec<String>| {
            let named = words.iter().filter(|word| terms.iter().any(|term| term.stem == **word)).count();
            ratio(named, words.len())
        };
        let shares: Vec<f32> = self.server_names.iter().map(share).collect();
        if self.ranking.server_named <= 0.0 || shares.iter().all(|share| *share == 0.0) {
            return Ok(());
        }
        scores.scale(|document| {
            let server = self.servers.get(document as usize).copied().unwrap_or(u32::MAX) as usize;
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
        let from = self.by_name.partition_point(|(name, _)| *name < wanted);
        let starting = self.by_name[from..].iter().take_while(|(name, _)| name.starts_with(&wanted));
        let fits = |name: &str| reads_as_name || name == wanted;
        let first: Vec<(u32, bool)> = starting
            .filter(|(name, document)| fits(name) && keep(*document as usize))
            .map(|(name, document)| (*document, *name == wanted))
            .take(64)
            .collect();
        let highest = best.first().map_or(1.0, |(_, score)| *score);
        for (document, _) in &first {
            match best.iter_mut().find(|(known, _)| known == document) {
                Some((_, score)) => *score = highest,
                None => best.push((*document, highest)),
            }
        }
        let tier = |document: u32| match first.iter().find(|(known, _)| *known == document) {
            Some((_, true)) => 0,
            Some((_, false)) => 1,
            None => 2,
        };
        best.sort_by_key(|(document, _)| tier(*document));
        !first.is_empty()
    }
}

/// Scores of one part of a query, cleared after each.
struct Scratch {
    all: Scores,
    of_name: Scores,
    of_term: Scores,
    /// For each server, the sum over the words of the best score of its tools.
    of_server: Scores,
    of_server_term: Scores,
}

impl Scratch {
    fn new(documents: usize, servers: usize) -> Self {
        let [all, of_name, of_term] = [(); 3].map(|()| Scores::new(documents));
        Self { all, of_name, of_term, of_server: Scores::new(servers), of_server_term: Scores::new(servers) }
    }
}

fn known(index: &InvertedIndexReader, field: Field, stem: &str) -> Result<Option<TermInfo>> {
    index.get_term_info(&Term::from_field_text(field, stem)).map_err(broken)
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::Internal, format!("the search index failed: {error}"))
}

/// BM25's inverse document frequency of a word in `count` of `total` documents.
#[expect(clippy::cast_precision_loss, reason = "catalogs are not that large")]
fn rarity(total: usize, count: u32) -> f32 {
    let (total, count) = (total as f32, count as f32);
    ((total - count + 0.5) / (count + 0.5)).ln_1p()
}

/// Documents of each server: reused from `previous` if unchanged, else built on every processor.
fn documents(servers: &[Arc<ServerEntry>], previous: Option<&Index>, ranking: &Ranking) -> Vec<Arc<OfServer>> {
    let known: HashMap<&str, &Arc<OfServer>> =
        previous.into_iter().flat_map(|index| &index.documents).map(|of| (of.name.as_str(), of)).collect();
    let make = |servers: &[Arc<ServerEntry>]| -> Vec<Arc<OfServer>> {
        let mut writer = Writer::new(ranking);
        let of = |server: &Arc<ServerEntry>| match known.get(server.name.as_str()) {
            Some(known) if known.is_of(server) => Arc::clone(known),
            _ => Arc::new(writer.server(server)),
        };
        servers.iter().map(of).collect()
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors == 1 || servers.len() < MIN_PARALLEL {
        return make(servers);
    }
    std::thread::scope(|scope| {
        let parts = servers.chunks(servers.len().div_ceil(processors));
        let threads: Vec<_> = parts.map(|part| (part, scope.spawn(|| make(part)))).collect();
        threads.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| make(part))).collect()
    })
}

/// Documents of the skills, one each.
fn skill_documents(skills: &Skills, ranking: &Ranking) -> Vec<Document> {
    if skills.skills.is_empty() {
        return Vec::new();
    }
    let mut writer = Writer::new(ranking);
    skills.skills.iter().map(|skill| writer.skill(skill)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "names have few words")]
fn ratio(part: usize, whole: usize) -> f32 {
    part as f32 / whole.max(1) as f32
}

#[expect(clippy::cast_precision_loss, reason = "lengths are small")]
fn norms(documents: &[(usize, &Document)], b: f32) -> Vec<f32> {
    let total: u64 = documents.iter().map(|(_, document)| u64::from(document.length)).sum();
    let average = (total as f32 / documents.len().max(1) as f32).max(1.0);
    documents.iter().map(|(_, document)| 1.0 - b + b * document.length as f32 / average).collect()
}

fn name_weights(documents: &[(usize, &Document)]) -> Vec<f32> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for stem in documents.iter().flat_map(|(_, document)| document.names.split_ascii_whitespace()) {
        *counts.entry(stem).or_default() += 1;
    }
    let weight = |stem: &str| rarity(documents.len(), counts.get(stem).copied().unwrap_or(0));
    documents.iter().map(|(_, document)| document.names.split_ascii_whitespace().map(weight).sum()).collect()
}

fn by_name(documents: &[(usize, &Document)]) -> Vec<(String, u32)> {
    let named = documents.iter().enumerate().map(|(id, (_, document))| (document.squashed.clone(), number(id)));
    let mut by_name: Vec<_> = named.collect();
    by_name.sort_unstable();
    by_name
}

fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

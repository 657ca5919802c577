//! All segments of an index, built or reused, and what is computed over all of them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tantivy::termdict::TermMerger;

use super::document::{Document, OfServer, Writer};
use super::number;
use super::ranking::Ranking;
use super::runs::Runs;
use super::scoring::rarity;
use super::segment::Segment;
use crate::manifest::ServerEntry;
use crate::skills::Skills;

/// Least number of servers for building documents on several threads.
const MIN_PARALLEL: usize = 16;

/// A segment at its place in the index.
pub(super) struct Placed {
    pub(super) segment: Arc<Segment>,
    /// Id of its first tool, and of its first other document.
    tools_at: u32,
    others_at: u32,
}

impl Placed {
    /// Id in the index of one of its documents.
    pub(super) fn id(&self, document: u32) -> u32 {
        match document.checked_sub(self.segment.tools) {
            None => self.tools_at + document,
            Some(other) => self.others_at + other,
        }
    }
}

/// The segments of the servers: segments and documents are reused from `known` where nothing changed, others are built on
/// every processor.
pub(super) fn of_servers(
    servers: &[Arc<ServerEntry>],
    known: &[&Arc<Segment>],
    ranking: &Ranking,
    runs: Runs,
) -> tantivy::Result<Vec<Arc<Segment>>> {
    let starts: HashMap<&str, &Arc<Segment>> =
        known.iter().filter_map(|segment| Some((segment.servers.first()?.name.as_str(), *segment))).collect();
    let sizes: Vec<(&str, usize)> = servers.iter().map(|server| (server.name.as_str(), size(server))).collect();
    let same = |run: Range<usize>| {
        let servers = &servers[run];
        let known = starts.get(servers.first()?.name.as_str())?;
        known.is_of(servers).then(|| Arc::clone(known))
    };
    let runs = runs.of(&sizes, &starts.keys().copied().collect());
    let runs: Vec<(Range<usize>, Option<Arc<Segment>>)> =
        runs.into_iter().map(|run| (run.clone(), same(run))).collect();
    let changed = || runs.iter().filter(|(_, same)| same.is_none()).map(|(run, _)| &servers[run.clone()]);
    let documents = documents(&changed().flatten().collect::<Vec<_>>(), known, ranking);
    let mut documents = documents.into_iter();
    let parts: Vec<Vec<Arc<OfServer>>> =
        changed().map(|servers| documents.by_ref().take(servers.len()).collect()).collect();
    let build = |part: &Vec<Arc<OfServer>>| Segment::of_servers(part.clone(), ranking).map(Arc::new);
    let mut built = in_parallel(&parts, 2, |parts| parts.iter().map(build).collect()).into_iter();
    runs.into_iter().filter_map(|(_, same)| same.map(Ok).or_else(|| built.next())).collect()
}

fn size(server: &ServerEntry) -> usize {
    server.stubs.tools.len() + server.offers.resources.len() + server.offers.prompts.len()
}

/// Documents of each server.
fn documents(servers: &[&Arc<ServerEntry>], known: &[&Arc<Segment>], ranking: &Ranking) -> Vec<Arc<OfServer>> {
    let known = known.iter().flat_map(|segment| &segment.servers);
    let known: HashMap<&str, &Arc<OfServer>> = known.map(|of| (of.name.as_str(), of)).collect();
    in_parallel(servers, MIN_PARALLEL, |servers| {
        let mut writer = Writer::new(ranking);
        let of = |server: &&Arc<ServerEntry>| match known.get(server.name.as_str()) {
            Some(known) if known.is_of(server) => Arc::clone(known),
            _ => Arc::new(writer.server(server)),
        };
        servers.iter().map(of).collect()
    })
}

/// Works on every processor if there are `least` items or more.
fn in_parallel<T: Sync, R: Send>(items: &[T], least: usize, work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors == 1 || items.len() < least {
        return work(items);
    }
    std::thread::scope(|scope| {
        let parts = items.chunks(items.len().div_ceil(processors));
        let threads: Vec<_> = parts.map(|part| (part, scope.spawn(|| work(part)))).collect();
        threads.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| work(part))).collect()
    })
}

/// A segment of the skills, a document each.
pub(super) fn of_skills(skills: &Skills, ranking: &Ranking) -> tantivy::Result<Segment> {
    let mut writer = Writer::new(ranking);
    let documents: Vec<Document> = skills.skills.iter().map(|skill| writer.skill(skill)).collect();
    Segment::of(&documents.iter().collect::<Vec<_>>(), ranking)
}

/// Gives each segment its place: the tools of all come first, the skills last.
pub(super) fn placed(segments: Vec<Arc<Segment>>) -> Vec<Placed> {
    let mut tools_at = 0;
    let mut others_at = segments.iter().map(|segment| segment.tools).sum();
    let place = |segment: Arc<Segment>| {
        let placed = Placed { tools_at, others_at, segment };
        tools_at += placed.segment.tools;
        others_at += number(placed.segment.len()) - placed.segment.tools;
        placed
    };
    segments.into_iter().map(place).collect()
}

/// BM25 length norm of each document.
#[expect(clippy::cast_precision_loss, reason = "lengths are small")]
pub(super) fn norms(segments: &[Placed], b: f32) -> Vec<f32> {
    let lengths = || segments.iter().flat_map(|at| &at.segment.lengths);
    let total: u64 = lengths().map(|length| u64::from(*length)).sum();
    let average = (total as f32 / lengths().count().max(1) as f32).max(1.0);
    each_document(segments, |at| at.segment.lengths.iter().map(move |length| 1.0 - b + b * *length as f32 / average))
}

/// Server of each document; no server's number for skills.
pub(super) fn servers(segments: &[Placed]) -> Vec<u32> {
    let mut first = 0;
    each_document(segments, |at| {
        let of = |sizes: &dyn Fn(&OfServer) -> usize| -> Vec<u32> {
            (first..).zip(&at.segment.servers).flat_map(|(number, of)| std::iter::repeat_n(number, sizes(of))).collect()
        };
        let mut numbers = of(&|of| of.tools.len());
        numbers.extend(of(&|of| of.others.len()));
        numbers.resize(at.segment.len(), u32::MAX);
        first += number(at.segment.servers.len());
        numbers.into_iter()
    })
}

/// Total rarity of the words in each document's name.
pub(super) fn name_weights(segments: &[Placed]) -> tantivy::Result<Vec<f32>> {
    let total = segments.iter().map(|at| at.segment.len()).sum();
    let mut weights = vec![0.0; total];
    let words = segments.iter().map(|at| at.segment.names.terms().stream()).collect::<std::io::Result<_>>()?;
    let mut words = TermMerger::new(words);
    while words.advance() {
        let found: Vec<_> = words.current_segment_ords_and_term_infos().collect();
        let rarity = rarity(total, found.iter().map(|(_, word)| word.doc_freq).sum());
        for (segment, word) in &found {
            let at = &segments[*segment];
            at.segment.names.postings(word, |document, _| {
                if let Some(weight) = weights.get_mut(at.id(document) as usize) {
                    *weight += rarity;
                }
            })?;
        }
    }
    Ok(weights)
}

/// A value for each document of the index, from those of each segment.
fn each_document<'s, T: Clone + Default, I: Iterator<Item = T>>(
    segments: &'s [Placed],
    mut of: impl FnMut(&'s Placed) -> I,
) -> Vec<T> {
    let mut all = vec![T::default(); segments.iter().map(|at| at.segment.len()).sum()];
    for at in segments {
        for (document, value) in (0..).zip(of(at)) {
            if let Some(slot) = all.get_mut(at.id(document) as usize) {
                *slot = value;
            }
        }
    }
    all
}

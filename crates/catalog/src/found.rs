//! Searching: hits of one query and of several, with those of servers that answer first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Catalog;
use crate::index::{self, Among, Boost, Explained, Ranked, Signals};
use crate::manifest::{ServerEntry, ServerState};
use crate::vfs::Node;
use base::error::Result;
use base::meter::{Halt, Meter};
use stubgen::ToolStub;

/// Least share of the best score for a resource or prompt among the hits.
const OFFER_SHARE: f32 = 0.5;
/// One hit in this many may be a resource or prompt.
const OFFER_PART: usize = 4;

/// Documents of the index with their scores, best first.
type Scored = Vec<(usize, f32)>;
/// A hit's rank in each query that found it, with the number of the query.
type Ranks = Vec<(u16, usize)>;

/// Most hits of servers that answer where a query names them and ranks others first.
const MAX_NAMED_READY: usize = 2;
/// Most servers named that have no tools yet.
const MAX_SILENT: usize = 8;
/// Most hits of a query that nothing matches well.
const MAX_WEAK: usize = 2;

/// Added to a rank, from 0, before it is inverted. Small, since the queries of a task are different steps: the best hit
/// of one beats a middling hit of two.
const RANK_OFFSET: f32 = 1.0;

/// A tool among the hits.
pub struct Hit<'a> {
    /// The tool's server.
    pub server: &'a ServerEntry,
    /// The tool.
    pub tool: &'a ToolStub,
    /// Comparable within one query only.
    pub score: f32,
}

/// Hits of several queries.
pub struct Hits<'a> {
    /// Best first, each with the numbers of the queries that found it, the one that ranks it best first.
    pub found: Vec<(Found<'a>, Vec<usize>)>,
    /// For each query that nothing matches well, what else there is to say.
    pub weak: Vec<Option<Weak>>,
}

/// Words of a query that nothing matches well.
#[derive(Debug, Default)]
pub struct Weak {
    /// The rarest word that a tool has, and the document of that tool, which is among the hits.
    rarest: Option<(usize, String)>,
    /// Words that no tool has.
    pub unknown: Vec<String>,
}

/// A hit: tool, resource, prompt or skill.
pub enum Found<'a> {
    /// A tool.
    Tool(Hit<'a>),
    /// A resource, prompt or skill: its file.
    Offer(Node),
}

impl Found<'_> {
    /// True if it is this tool.
    pub fn is(&self, tool: &ToolStub) -> bool {
        matches!(self, Self::Tool(hit) if std::ptr::eq(hit.tool, tool))
    }

    /// True unless it is a tool of a server that does not answer.
    pub fn answers(&self) -> bool {
        !matches!(self, Self::Tool(hit) if hit.server.comes_last())
    }

    /// Path by which it is learned, if it is a tool.
    pub fn learned_path(&self) -> Option<String> {
        match self {
            Self::Tool(hit) => Some(Catalog::learned_path(hit.server, hit.tool)),
            Self::Offer(_) => None,
        }
    }

    /// True if it is a tool of this server.
    pub fn is_of(&self, server: &ServerEntry) -> bool {
        matches!(self, Self::Tool(hit) if std::ptr::eq(hit.server, server))
    }
}

impl Catalog {
    /// The best tools for `query` under the folder `path`.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the folder does not exist, `INTERNAL` when the index fails; or the meter stops the work.
    pub fn search(
        &self,
        query: &str,
        limit: usize,
        path: &str,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<Vec<Hit<'_>>, Halt> {
        let folder = self.folder(path, meter)?;
        let keep = |id: usize| id < self.tools && self.is_below(id, folder);
        let (mut hits, _) = self.ranked_hits(query, limit, signals, keep, meter)?;
        hits.truncate(limit);
        Ok(hits.into_iter().filter_map(|(id, score)| self.hit(id, score)).collect())
    }

    /// Hits as [`Catalog::search`], each with what its score is made of; and true if nothing matches well.
    pub fn search_explained(
        &self,
        query: &str,
        limit: usize,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<(Vec<(Hit<'_>, Explained)>, bool), Halt> {
        let keep = |id: usize| id < self.tools;
        let (mut hits, weak) = self.ranked_hits(query, limit, signals, keep, meter)?;
        hits.truncate(limit);
        let documents: Vec<usize> = hits.iter().map(|(id, _)| *id).collect();
        let among = Among { silent: &[], signals, of_path: &|path| self.learned_tool(path) };
        let mut explained = self.index.get(meter)?.explain(query, &documents, &among, meter)?;
        for (id, explained) in documents.iter().zip(&mut explained) {
            if self.comes_last(*id) {
                explained
                    .boosts
                    .push(Boost { what: "its server does not answer".to_owned(), factor: index::SILENT_SHARE });
            }
        }
        let hits = hits.into_iter().zip(explained);
        let hits = hits.filter_map(|((id, score), explained)| Some((self.hit(id, score)?, explained)));
        Ok((hits.collect(), weak.is_some()))
    }

    /// Twice as many hits as asked for, without fillers; those of servers that do not answer count less. Where no other
    /// is among those asked for, tools of servers that answer come first whose name, or whose server's, the query has.
    /// If none matches well, the tool with the rarest word of the query is one of those asked for.
    fn ranked_hits(
        &self,
        query: &str,
        limit: usize,
        signals: &Signals,
        keep: impl Fn(usize) -> bool,
        meter: &Meter,
    ) -> Result<(Scored, Option<Weak>), Halt> {
        let silent: Vec<bool> = self.servers.iter().map(|server| server.comes_last()).collect();
        let among = Among { silent: &silent, signals, of_path: &|path| self.learned_tool(path) };
        let index = self.index.get(meter)?;
        let mut ranked = index.search(query, limit * 2, &among, &keep, meter)?;
        let best = ranked.hits.first().map_or(0.0, |(_, score)| *score);
        ranked.hits.retain(|(_, score)| *score >= best * index.least_share());
        ranked.hits.truncate(if ranked.is_weak { MAX_WEAK } else { usize::MAX });
        if ranked.hits.iter().take(limit).all(|(id, _)| self.comes_last(*id)) && silent.contains(&false) {
            let answers = |id: usize| keep(id) && !self.comes_last(id);
            let Ranked { hits: mut named, .. } = index.search(query, MAX_NAMED_READY, &among, answers, meter)?;
            named.retain(|(id, _)| self.is_named(&index, query, *id));
            ranked.hits.retain(|(id, _)| named.iter().all(|(first, _)| first != id));
            ranked.hits.splice(..0, named.into_iter().map(|(id, score)| (id, score.max(best))));
        }
        let Ranked { mut hits, is_weak } = ranked;
        if !is_weak {
            return Ok((hits, None));
        }
        let (word, unknown) = index.rarest(query, |id| id < self.tools && keep(id), meter)?;
        let mut weak = Weak { rarest: None, unknown };
        if let Some((word, documents)) = word {
            let has = |id: usize| documents.binary_search(&id).is_ok();
            hits.truncate(limit.max(1));
            if !hits.iter().any(|(id, _)| has(*id)) {
                let last = hits.len().min(limit.saturating_sub(1));
                hits.splice(last.., index.search(query, 1, &among, has, meter)?.hits);
            }
            weak.rarest = hits.iter().find(|(id, _)| has(*id)).map(|(id, _)| (*id, word));
        }
        Ok((hits, Some(weak)))
    }

    /// Path by which a tool is learned, `SERVER/TOOL`.
    #[must_use]
    pub fn learned_path(server: &ServerEntry, tool: &ToolStub) -> String {
        format!("{}/{}", server.ident, tool.ident)
    }

    /// The tool of such a path.
    fn learned_tool(&self, path: &str) -> Option<usize> {
        let (server, tool) = path.split_once('/')?;
        let server = *self.by_name.get(server)?;
        let tool = self.servers[server].stubs.position(tool)?;
        Some(self.documents[..self.tools].partition_point(|known| known.server() < Some(server)) + tool)
    }

    /// Words of a query that may be learned.
    ///
    /// # Errors
    /// `INTERNAL` when the index fails; or the meter stops the work.
    pub fn learnable(&self, query: &str, meter: &Meter) -> Result<Vec<String>, Halt> {
        self.index.get(meter)?.learnable(query, meter)
    }

    /// True if the query has a word of the name of a tool, or of its server.
    fn is_named(&self, index: &index::Index, query: &str, id: usize) -> bool {
        self.hit(id, 0.0)
            .is_some_and(|Hit { server, tool, .. }| index.names(query, &server.name) || index.names(query, &tool.name))
    }

    /// Servers that no search finds, since they have not said what they have: named with their state.
    #[must_use]
    pub fn unsearched(&self) -> Option<String> {
        let is_silent = |entry: &&Arc<ServerEntry>| {
            let state = matches!(entry.state, ServerState::Failed { .. } | ServerState::Connecting);
            state && entry.stubs.tools.is_empty()
        };
        let silent: Vec<_> = self.servers.iter().filter(is_silent).collect();
        let named = silent.iter().take(MAX_SILENT).map(|entry| format!("{} ({})", entry.ident, entry.state.word()));
        let more = if silent.len() > MAX_SILENT { ", …" } else { "" };
        let named = named.collect::<Vec<_>>().join(", ");
        (!silent.is_empty()).then(|| format!("not ready, not searched: {named}{more}; `ls /` tells more"))
    }

    /// True if a server answers, or may.
    #[must_use]
    pub fn has_answering(&self) -> bool {
        self.servers.iter().any(|server| !server.comes_last())
    }

    /// True for a document of the index whose server does not answer.
    fn comes_last(&self, id: usize) -> bool {
        let server = self.documents.get(id).and_then(|node| node.server());
        server.and_then(|server| self.servers.get(server)).is_some_and(|server| server.comes_last())
    }

    /// Documents of the index that match `query` under `folder`: tools, then resources and prompts that match as well;
    /// and what else there is to say if none matches well.
    fn find(
        &self,
        query: &str,
        limit: usize,
        folder: Node,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<(Scored, Option<Weak>), Halt> {
        let (hits, weak) = self.ranked_hits(query, limit, signals, |id| self.is_below(id, folder), meter)?;
        let best = hits.iter().map(|(_, score)| *score).fold(0.0, f32::max);
        let (mut tools, others): (Vec<_>, Vec<_>) = hits.into_iter().partition(|(id, _)| *id < self.tools);
        let mut others: Vec<_> = others.into_iter().filter(|(_, score)| *score >= best * OFFER_SHARE).collect();
        // Callable tools come first; a few resources and prompts follow, more of them where tools are few.
        others.truncate(limit.saturating_sub(tools.len()).max(limit / OFFER_PART));
        tools.truncate(limit - others.len());
        tools.extend(others);
        Ok((tools, weak))
    }

    /// Searches for each step of a task: `limit` hits per query under the folder `path`, fused by reciprocal rank, each
    /// with the numbers of the queries that found it, from 0, the one that ranks it best first.
    ///
    /// # Errors
    /// As [`Catalog::search`].
    pub fn find_all(
        &self,
        queries: &[String],
        limit: usize,
        path: &str,
        signals: &Signals,
    ) -> Result<Vec<(Found<'_>, Vec<usize>)>> {
        let hits = self.find_all_metered(queries, limit, path, signals, &Meter::new(u64::MAX));
        hits.map(|hits| hits.found).map_err(|halt| halt.error("search"))
    }

    /// Like [`Catalog::find_all`], metered.
    pub fn find_all_metered(
        &self,
        queries: &[String],
        limit: usize,
        path: &str,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<Hits<'_>, Halt> {
        let folder = self.folder(path, meter)?;
        let mut positions: HashMap<usize, usize> = HashMap::new();
        let mut fused: Vec<(Found<'_>, Ranks, f32)> = Vec::new();
        let mut weak = Vec::with_capacity(queries.len());
        for (number, query) in queries.iter().enumerate() {
            let (hits, of_query) = self.find(query, limit, folder, signals, meter)?;
            weak.push(of_query);
            for (rank, (id, score)) in (0_u16..).zip(hits) {
                let share = 1.0 / (RANK_OFFSET + f32::from(rank));
                if let Some((_, queries, sum)) = positions.get(&id).and_then(|position| fused.get_mut(*position)) {
                    queries.push((rank, number));
                    *sum += share;
                } else if let Some(found) = self.found(id, score) {
                    positions.insert(id, fused.len());
                    fused.push((found, vec![(rank, number)], share));
                }
            }
        }
        // Stable: ties, such as the first hits of all queries, keep the order of the queries.
        fused.sort_by(|a, b| b.2.total_cmp(&a.2));
        let numbers = |mut queries: Ranks| {
            queries.sort_unstable();
            queries.into_iter().map(|(_, number)| number).collect()
        };
        let found = fused.into_iter().map(|(found, queries, _)| (found, numbers(queries))).collect();
        Ok(Hits { found, weak })
    }

    /// Rarest words of the queries with these numbers, where this hit is the one that has them.
    pub fn rarest_of<'h>(&self, hits: &'h Hits<'_>, found: &Found<'_>, by: &[usize]) -> Vec<&'h str> {
        let weak = by.iter().filter_map(|query| hits.weak.get(*query)?.as_ref()?.rarest.as_ref());
        let own = weak.filter(|(id, _)| self.hit(*id, 0.0).is_some_and(|hit| found.is(hit.tool)));
        own.map(|(_, word)| word.as_str()).collect()
    }

    fn found(&self, id: usize, score: f32) -> Option<Found<'_>> {
        let offer = || self.documents.get(id).copied().map(Found::Offer);
        self.hit(id, score).map(Found::Tool).or_else(offer)
    }

    /// The document as a hit, if it is a tool.
    fn hit(&self, id: usize, score: f32) -> Option<Hit<'_>> {
        let Node::Tool(server, tool, _) = *self.documents.get(id)? else { return None };
        let server = self.servers.get(server)?;
        Some(Hit { server, tool: server.stubs.tools.get(tool)?, score })
    }

    /// True for a document below a folder.
    fn is_below(&self, id: usize, folder: Node) -> bool {
        let Some(node) = self.documents.get(id).copied() else { return false };
        match (folder, node) {
            (Node::Root, _) | (Node::Skills, Node::SkillFile(..)) => true,
            (Node::Server(server), _) => node.server() == Some(server),
            (Node::Category(server, category), Node::Tool(of, tool, _)) => {
                let stubs = &self.servers[server].stubs;
                server == of && stubs.tools[tool].category.as_ref() == stubs.categories.get(category)
            }
            (Node::Resources(server), Node::Resource(of, _)) | (Node::Prompts(server), Node::Prompt(of, _)) => {
                server == of
            }
            (Node::Skill(skill), Node::SkillFile(of, _)) => skill == of,
            _ => false,
        }
    }
}

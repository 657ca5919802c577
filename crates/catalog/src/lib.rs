//! The agent's catalog: stub files, index and digest in one immutable value, built and swapped as a whole.
//!
//! `manifest` has the servers' lists with their state and pins, `findings` what is suspicious in them,
//! `drift` how two definitions of a tool differ. `vfs` are the
//! files of it, `views` one catalog per profile, `index` the search. `skills`, `registry`, and `people`, which renders
//! foreign text for people.

mod direct;
pub mod drift;
pub mod findings;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod glob;
mod index;
mod listing;
pub mod manifest;
pub mod people;
mod quarantine;
pub mod registry;
mod resource_paths;
mod skill_paths;
pub mod skills;
mod vfs;
mod views;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::findings::{Across, Finding};
use crate::manifest::{Phase, ServerEntry, ServerState};
use crate::skills::Skills;
use base::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use base::limits;
use base::meter::{Halt, Meter};
use base::task;
use base::text::brief;
use config::ListedNames;
use index::{Among, Ranked};
use stubgen::ToolStub;
use upstream::auth;

pub use direct::Named;
pub use index::{Boost, Explained, Fields, Learned, Ranking, Signals, Uses, Word};
pub use resource_paths::Remote;
pub use resource_paths::arguments as prompt_arguments;
pub use skill_paths::skill_uri;
pub use vfs::{Node, View};
pub use views::{Catalogs, Views};

/// Least share of the best score for a resource or prompt among the hits.
const OFFER_SHARE: f32 = 0.5;
/// One hit in this many may be a resource or prompt.
const OFFER_PART: usize = 4;

/// A hit's rank in each query that found it, with the number of the query.
type Ranks = Vec<(u16, usize)>;

/// Most hits of servers that answer where a query names them and ranks others first.
const MAX_NAMED_READY: usize = 2;
/// Most hits of a query that nothing matches well.
const MAX_WEAK: usize = 2;

/// Added to a rank, from 0, before it is inverted. Small, since the queries of a task are different steps: the best hit
/// of one beats a middling hit of two.
const RANK_OFFSET: f32 = 1.0;

/// Lists, reads and searches the servers' stubs. See [`Catalog::build`].
pub struct Catalog {
    servers: Vec<Arc<ServerEntry>>,
    /// Server by identifier and by name.
    by_name: HashMap<String, usize>,
    /// Tools in order of server and identifier; the index refers to positions here.
    tools: Vec<ToolRef>,
    /// Resources, prompts and skills; in the index they follow the tools.
    offers: Vec<Node>,
    /// Skills of the folder, as they are without the scripts' own.
    folder: Arc<Skills>,
    /// All skills.
    skills: Arc<Skills>,
    index: Arc<index::Lazy>,
    /// Findings of the comparison of servers, by name.
    across: Arc<OnceLock<Across>>,
    digest: String,
    /// The profile's view that it is of; `None` for that of everything.
    view: Option<Arc<config::View>>,
    /// Tools by names of their own, once asked for.
    direct: OnceLock<direct::Direct>,
}

/// Position of a tool: its server, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolRef {
    server: usize,
    tool: usize,
}

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
    /// For each query, true if nothing matches it well.
    pub weak: Vec<bool>,
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
    /// Builds the catalog of `servers`, given in order of identifier. The first search builds its index.
    #[must_use]
    pub fn build(servers: Vec<Arc<ServerEntry>>) -> Self {
        Self::ranked(servers, Ranking::default())
    }

    /// Like [`Catalog::build`] with another ranking, for evaluations.
    #[must_use]
    pub fn ranked(servers: Vec<Arc<ServerEntry>>, ranking: Ranking) -> Self {
        let skills = skills::with_scripts(&Arc::default(), &servers);
        let index = index::Lazy::new(&servers, &skills, ranking);
        Self::with_index(servers, Arc::default(), skills, index, None)
    }

    /// Builds the catalog of `servers` and reuses this one's work for unchanged servers, with its index if this one has
    /// been searched. The result equals that of [`Catalog::build`].
    ///
    /// # Errors
    /// `INTERNAL` when the index cannot be built.
    pub fn rebuild(&self, servers: Vec<Arc<ServerEntry>>) -> Result<Self> {
        self.rebuild_with(servers, Arc::clone(&self.folder))
    }

    /// Like [`Catalog::rebuild`], with the skills of a folder beside the servers.
    ///
    /// # Errors
    /// As [`Catalog::rebuild`].
    pub fn rebuild_with(&self, servers: Vec<Arc<ServerEntry>>, folder: Arc<Skills>) -> Result<Self> {
        let skills = match servers.iter().any(|server| server.ident.eq_ignore_ascii_case(skill_paths::FOLDER)) {
            // A server had the name first.
            true => Arc::default(),
            false => skills::with_scripts(&folder, &servers),
        };
        let index = self.index.next(&servers, &skills)?;
        Ok(Self::with_index(servers, folder, skills, index, Some(self)))
    }

    fn with_index(
        servers: Vec<Arc<ServerEntry>>,
        folder: Arc<Skills>,
        skills: Arc<Skills>,
        index: Arc<index::Lazy>,
        last: Option<&Self>,
    ) -> Self {
        let mut by_name = HashMap::new();
        let mut tools = Vec::new();
        for (server, entry) in servers.iter().enumerate() {
            by_name.entry(entry.ident.clone()).or_insert(server);
            by_name.entry(entry.name.clone()).or_insert(server);
            tools.extend((0..entry.stubs.tools.len()).map(|tool| ToolRef { server, tool }));
        }
        let mut offers = resource_paths::nodes(&servers);
        offers.extend((0..skills.skills.len()).map(|skill| Node::SkillFile(skill, 0)));
        let digest = |s: &Arc<ServerEntry>| {
            let held: Vec<&str> = s.quarantine.keys().map(String::as_str).collect();
            let for_apps = s.for_apps.as_ref().map_or("", |stubs| &stubs.digest);
            format!("{} {}{for_apps} {} {}", s.name, s.stubs.digest, s.offers.digest, held.join(","))
        };
        let mut digests: Vec<String> = servers.iter().map(digest).collect();
        if !skills.is_empty() {
            digests.push(format!("skills {}", skills.digest()));
        }
        let digest = stubgen::digest(&digests.join("\n"));
        let is_same = |last: &&Self| {
            let same = |(one, other): (&Arc<ServerEntry>, &Arc<ServerEntry>)| {
                one.name == other.name && Arc::ptr_eq(&one.findings, &other.findings)
            };
            last.servers.len() == servers.len() && last.servers.iter().zip(&servers).all(same)
        };
        let across = match last.filter(is_same) {
            Some(last) => Arc::clone(&last.across),
            None => Arc::default(),
        };
        let direct = OnceLock::new();
        Self { servers, by_name, tools, offers, folder, skills, index, across, digest, view: None, direct }
    }

    /// Names of the tools that its servers list.
    #[must_use]
    pub fn listed_names(&self) -> ListedNames {
        self.servers.iter().filter_map(|entry| Some((entry.name.clone(), entry.names.clone()?))).collect()
    }

    /// The servers, in order of identifier.
    #[must_use]
    pub fn servers(&self) -> &[Arc<ServerEntry>] {
        &self.servers
    }

    /// Findings about a server, made if they were not yet, in its own definitions and beside other servers'.
    pub fn findings<'a>(&'a self, server: &'a ServerEntry) -> impl Iterator<Item = &'a Finding> {
        server.findings.get().list.iter().chain(self.across().get(&server.name).into_iter().flatten())
    }

    /// The same as far as they were made.
    pub fn known_findings<'a>(&'a self, server: &'a ServerEntry) -> impl Iterator<Item = &'a Finding> {
        let is_all = self.servers.iter().all(|server| server.findings.known().is_some());
        let across = is_all.then(|| self.across().get(&server.name)).flatten();
        let own = server.findings.known().map(|found| &found.list);
        own.into_iter().flatten().chain(across.into_iter().flatten())
    }

    fn across(&self) -> &Across {
        let all = || self.servers.iter().map(|server| (&*server.name, server.findings.get()));
        self.across.get_or_init(|| task::work_on(task::LONG, || findings::across(all())))
    }

    /// Full digest of everything but the servers' states.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Progress of the servers.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let connecting = || self.servers.iter().filter(|server| server.state == ServerState::Connecting);
        if self.servers.iter().all(|server| !server.is_listing()) {
            Phase::Settled
        } else if connecting().all(|server| !server.stubs.tools.is_empty()) {
            Phase::Usable
        } else {
            Phase::Starting
        }
    }

    /// The server called `name`, by identifier or name.
    ///
    /// # Errors
    /// `SERVER_NOT_FOUND` with suggestions; `INVALID_ARGS` for a name over its limit.
    pub fn server(&self, name: &str) -> Result<&ServerEntry> {
        limits::NAME.check(name.len())?;
        self.server_position(name).map(|position| &*self.servers[position]).ok_or_else(|| {
            let known = self.servers.iter().map(|server| server.ident.as_str());
            let hint = did_you_mean(&nearest(name, known)).unwrap_or_else(|| match self.servers.is_empty() {
                true => "no server is configured".to_owned(),
                false => "`ls /` lists the servers".to_owned(),
            });
            Error::new(ErrorCode::ServerNotFound, format!("there is no server `{}`", brief(name))).hint(hint)
        })
    }

    fn server_position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().or_else(|| {
            self.servers.iter().position(|s| s.ident.eq_ignore_ascii_case(name) || s.name.eq_ignore_ascii_case(name))
        })
    }

    /// The tool `name` of `server`: wire name or identifier, with or without its category before a dot.
    ///
    /// # Errors
    /// `SERVER_NOT_FOUND` or `TOOL_NOT_FOUND` with suggestions; `TRANSPORT_DEAD` when the server has no tools
    /// because it could not be started.
    pub fn tool(&self, server: &str, name: &str) -> Result<(&ServerEntry, &ToolStub)> {
        let entry = self.server(server)?;
        limits::NAME.check(name.len())?;
        match find_tool(entry, name) {
            Some(tool) => Ok((entry, tool)),
            None => Err(self.unknown_tool(entry, name)),
        }
    }

    /// As [`Catalog::tool`], with the tools that only pages of their servers call.
    ///
    /// # Errors
    /// As there.
    pub fn any_tool(&self, server: &str, name: &str) -> Result<(&ServerEntry, &ToolStub)> {
        self.tool(server, name).or_else(|error| {
            let entry = self.server(server)?;
            let found = entry.tools_for_apps().find(|tool| tool.name == name || tool.ident == name);
            Ok((entry, found.ok_or(error)?))
        })
    }

    fn unknown_tool(&self, entry: &ServerEntry, name: &str) -> Error {
        let server = &entry.ident;
        match &entry.state {
            ServerState::Failed { reason } if entry.stubs.tools.is_empty() => {
                return Error::new(
                    ErrorCode::TransportDead,
                    format!("server `{server}` could not be started: {reason}"),
                );
            }
            ServerState::NeedsLogin { command } => return auth::needs_login_by(&entry.name, command),
            ServerState::Connecting => {
                return Error::new(ErrorCode::TransportDead, format!("server `{server}` is still being started"))
                    .hint("try again in a few seconds; `ls /` shows its state");
            }
            ServerState::Disabled => {
                return Error::new(ErrorCode::ServerNotFound, format!("server `{server}` is disabled"))
                    .hint("set `enabled = true` in the configuration");
            }
            _ => {}
        }
        let error = Error::new(ErrorCode::ToolNotFound, format!("server `{server}` has no tool `{}`", brief(name)));
        let here = nearest(name, entry.stubs.tools.iter().map(|tool| tool.ident.as_str()));
        if let Some(hint) = did_you_mean(&here) {
            return error.hint(hint);
        }
        let elsewhere: Vec<String> = self
            .servers
            .iter()
            .filter(|other| find_tool(other, name).is_some())
            .map(|other| format!("{}.{name}", other.ident))
            .take(3)
            .collect();
        match did_you_mean(&elsewhere) {
            Some(hint) => error.hint(hint),
            None => error.hint(format!("`ls /{server}` lists its tools, `search` finds tools by purpose")),
        }
    }

    /// The best tools for `query` under the folder `path`.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the folder does not exist, `INTERNAL` when the index fails.
    pub fn search(&self, query: &str, limit: usize, path: &str) -> Result<Vec<Hit<'_>>> {
        let meter = Meter::new(u64::MAX);
        self.search_metered(query, limit, path, &Signals::default(), &meter).map_err(|halt| halt.error("search"))
    }

    /// Like [`Catalog::search`], metered.
    pub fn search_metered(
        &self,
        query: &str,
        limit: usize,
        path: &str,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<Vec<Hit<'_>>, Halt> {
        let folder = self.folder(path, meter)?;
        let keep = |id: usize| self.tools.get(id).is_some_and(|tool| self.is_in(*tool, folder));
        let Ranked { mut hits, .. } = self.ranked_hits(query, limit, signals, keep, meter)?;
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
        let keep = |id: usize| id < self.tools.len();
        let Ranked { mut hits, is_weak } = self.ranked_hits(query, limit, signals, keep, meter)?;
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
        Ok((hits.filter_map(|((id, score), explained)| Some((self.hit(id, score)?, explained))).collect(), is_weak))
    }

    /// Twice as many hits as asked for, without fillers; those of servers that do not answer count less. Where no other
    /// is among those asked for, tools of servers that answer come first whose name, or whose server's, the query has.
    fn ranked_hits(
        &self,
        query: &str,
        limit: usize,
        signals: &Signals,
        keep: impl Fn(usize) -> bool,
        meter: &Meter,
    ) -> Result<Ranked, Halt> {
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
        Ok(ranked)
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
        Some(self.tools.partition_point(|known| known.server < server) + tool)
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

    /// True if a server answers, or may.
    #[must_use]
    pub fn has_answering(&self) -> bool {
        self.servers.iter().any(|server| !server.comes_last())
    }

    /// True for a document of the index whose server does not answer.
    fn comes_last(&self, id: usize) -> bool {
        let server = match id.checked_sub(self.tools.len()) {
            None => self.tools.get(id).map(|tool| tool.server),
            Some(offer) => self.offers.get(offer).and_then(|node| node.server()),
        };
        server.and_then(|server| self.servers.get(server)).is_some_and(|server| server.comes_last())
    }

    /// Documents of the index that match `query` under `folder`: tools, then resources and prompts that match as well;
    /// and true if none matches well.
    fn find(
        &self,
        query: &str,
        limit: usize,
        folder: Node,
        signals: &Signals,
        meter: &Meter,
    ) -> Result<(Vec<(usize, f32)>, bool), Halt> {
        let keep = |id: usize| match self.tools.get(id) {
            Some(tool) => self.is_in(*tool, folder),
            None => self.offers.get(id - self.tools.len()).is_some_and(|offer| resource_paths::is_in(*offer, folder)),
        };
        let Ranked { hits, is_weak } = self.ranked_hits(query, limit, signals, keep, meter)?;
        let best = hits.iter().map(|(_, score)| *score).fold(0.0, f32::max);
        let (mut tools, others): (Vec<_>, Vec<_>) = hits.into_iter().partition(|(id, _)| *id < self.tools.len());
        let mut others: Vec<_> = others.into_iter().filter(|(_, score)| *score >= best * OFFER_SHARE).collect();
        // Callable tools come first; a few resources and prompts follow, more of them where tools are few.
        others.truncate(limit.saturating_sub(tools.len()).max(limit / OFFER_PART));
        tools.truncate(limit - others.len());
        tools.extend(others);
        Ok((tools, is_weak))
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
            let (hits, is_weak) = self.find(query, limit, folder, signals, meter)?;
            weak.push(is_weak);
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

    fn found(&self, id: usize, score: f32) -> Option<Found<'_>> {
        match id.checked_sub(self.tools.len()) {
            None => self.hit(id, score).map(Found::Tool),
            Some(offer) => self.offers.get(offer).copied().map(Found::Offer),
        }
    }

    fn hit(&self, id: usize, score: f32) -> Option<Hit<'_>> {
        let place = self.tools.get(id)?;
        let server = self.servers.get(place.server)?;
        Some(Hit { server, tool: server.stubs.tools.get(place.tool)?, score })
    }

    fn is_in(&self, tool: ToolRef, folder: Node) -> bool {
        match folder {
            Node::Server(server) => tool.server == server,
            Node::Category(server, category) => {
                let stubs = &self.servers[server].stubs;
                tool.server == server && stubs.tools[tool.tool].category.as_ref() == stubs.categories.get(category)
            }
            Node::Root => true,
            _ => false,
        }
    }
}

/// Finds a tool of `entry` by wire name or identifier, ignoring case if there is no exact match; a leading category is
/// ignored unless it is part of the name.
fn find_tool<'a>(entry: &'a ServerEntry, name: &str) -> Option<&'a ToolStub> {
    let tools = &entry.stubs.tools;
    let exact = |wanted: &str| entry.stubs.position(wanted).and_then(|position| tools.get(position));
    exact(name).or_else(|| {
        let (category, rest) = name.split_once('.')?;
        exact(rest).filter(|tool| tool.category.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(category)))
    })
}

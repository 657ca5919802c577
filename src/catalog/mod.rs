//! What the agent can find: stub files, index and digest, one immutable value that is built whole and swapped whole.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod glob;
mod index;
mod listing;
mod quarantine;
mod resource_paths;
mod vfs;

use std::collections::HashMap;
use std::sync::Arc;

use crate::auth;
use crate::error::{Error, ErrorCode, Result, did_you_mean, nearest};
use crate::limits;
use crate::manifest::{Phase, ServerEntry, ServerState};
use crate::meter::{Halt, Meter};
use crate::text::brief;
use stubgen::ToolStub;

pub use index::{Fields, Ranking};
pub use resource_paths::Remote;
pub(crate) use resource_paths::arguments as prompt_arguments;
pub use vfs::{Node, View};

/// Share of the best score that a resource or prompt needs to be among the hits.
const OFFER_SHARE: f32 = 0.5;
/// One hit in this many may be a resource or prompt.
const OFFER_PART: usize = 4;

/// What is added to a rank, from 0, before it is inverted. Small, since the queries of a task are of different steps: the
/// best hit of one is worth more than one that is in the middle for two.
const RANK_OFFSET: f32 = 1.0;

/// Everything that can be listed, read and searched. See [`Catalog::build`].
pub struct Catalog {
    servers: Vec<Arc<ServerEntry>>,
    /// Server by identifier and by name.
    by_name: HashMap<String, usize>,
    /// The tools in order of server and identifier; the index speaks of positions in it.
    tools: Vec<ToolRef>,
    /// Resources and prompts; in the index they come after the tools.
    offers: Vec<Node>,
    index: Arc<index::Index>,
    digest: String,
}

/// Where a tool is: positions of its server and of itself there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolRef {
    server: usize,
    tool: usize,
}

/// A tool that a search found.
pub struct Hit<'a> {
    /// The tool's server.
    pub server: &'a ServerEntry,
    /// The tool.
    pub tool: &'a ToolStub,
    /// Comparable within one query only.
    pub score: f32,
}

/// A tool, resource or prompt that a search found.
pub enum Found<'a> {
    /// A tool.
    Tool(Hit<'a>),
    /// A resource or prompt: its file.
    Offer(Node),
}

impl Catalog {
    /// Builds the catalog of `servers`, given in order of identifier.
    ///
    /// # Errors
    /// `INTERNAL` when the index cannot be built.
    pub fn build(servers: Vec<Arc<ServerEntry>>) -> Result<Self> {
        Self::ranked(servers, Ranking::default())
    }

    /// As [`Catalog::build`], ranking otherwise: for evaluations that take parts of the ranking away.
    ///
    /// # Errors
    /// As [`Catalog::build`].
    pub fn ranked(servers: Vec<Arc<ServerEntry>>, ranking: Ranking) -> Result<Self> {
        let index = index::Index::build(&servers, None, ranking)?;
        Ok(Self::with_index(servers, Arc::new(index)))
    }

    /// The catalog of `servers`, with the work taken over that was done for those of this one that did not change. The
    /// outcome is the same as that of [`Catalog::build`].
    ///
    /// # Errors
    /// As [`Catalog::build`].
    pub fn rebuild(&self, servers: Vec<Arc<ServerEntry>>) -> Result<Self> {
        let index = match self.index.is_of(&servers) {
            true => Arc::clone(&self.index),
            false => Arc::new(index::Index::build(&servers, Some(&self.index), Ranking::default())?),
        };
        Ok(Self::with_index(servers, index))
    }

    fn with_index(servers: Vec<Arc<ServerEntry>>, index: Arc<index::Index>) -> Self {
        let mut by_name = HashMap::new();
        let mut tools = Vec::new();
        for (server, entry) in servers.iter().enumerate() {
            by_name.entry(entry.ident.clone()).or_insert(server);
            by_name.entry(entry.name.clone()).or_insert(server);
            tools.extend((0..entry.stubs.tools.len()).map(|tool| ToolRef { server, tool }));
        }
        let offers = resource_paths::nodes(&servers);
        let digest = |s: &Arc<ServerEntry>| {
            let held: Vec<&str> = s.quarantine.keys().map(String::as_str).collect();
            format!("{} {} {} {}", s.name, s.stubs.digest, s.offers.digest, held.join(","))
        };
        let digests: Vec<String> = servers.iter().map(digest).collect();
        let digest = stubgen::digest(&digests.join("\n"));
        Self { servers, by_name, tools, offers, index, digest }
    }

    /// The servers, in order of identifier.
    #[must_use]
    pub fn servers(&self) -> &[Arc<ServerEntry>] {
        &self.servers
    }

    /// How many tools there are.
    #[must_use]
    pub fn tool_count(&self) -> usize {
        self.tools.len()
    }

    /// Whole digest of everything but the servers' states.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How far the servers have come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let connecting = || self.servers.iter().filter(|server| server.state == ServerState::Connecting);
        if connecting().next().is_none() {
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
        self.search_metered(query, limit, path, &Meter::new(u64::MAX)).map_err(|halt| halt.error("search"))
    }

    /// As [`Catalog::search`], metered.
    pub(crate) fn search_metered(
        &self,
        query: &str,
        limit: usize,
        path: &str,
        meter: &Meter,
    ) -> Result<Vec<Hit<'_>>, Halt> {
        let folder = self.folder(path, meter)?;
        let keep = |id: usize| self.tools.get(id).is_some_and(|tool| self.is_in(*tool, folder));
        let found = self.index.search(query, limit, keep, meter)?;
        Ok(found.into_iter().filter_map(|(id, score)| self.hit(id, score)).collect())
    }

    /// The documents of the index that fit `query` under `folder`: tools, and after them resources and prompts that fit
    /// as well.
    fn find(&self, query: &str, limit: usize, folder: Node, meter: &Meter) -> Result<Vec<(usize, f32)>, Halt> {
        let keep = |id: usize| match self.tools.get(id) {
            Some(tool) => self.is_in(*tool, folder),
            None => self.offers.get(id - self.tools.len()).is_some_and(|offer| resource_paths::is_in(*offer, folder)),
        };
        let found = self.index.search(query, limit * 2, keep, meter)?;
        let best = found.first().map_or(0.0, |(_, score)| *score);
        let (tools, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(id, _)| *id < self.tools.len());
        let mut others: Vec<_> = others.into_iter().filter(|(_, score)| *score >= best * OFFER_SHARE).collect();
        // What scripts call comes first; there is room for a few others, and for more of them where tools are few.
        others.truncate(limit.saturating_sub(tools.len()).max(limit / OFFER_PART));
        let room = limit - others.len();
        Ok(tools.into_iter().take(room).chain(others).collect())
    }

    /// The best tools, resources and prompts for several queries under the folder `path`, one query a step of a task:
    /// `limit` hits a query, fused by reciprocal rank, each with the numbers of the queries that found it, from 0.
    ///
    /// # Errors
    /// As [`Catalog::search`].
    pub fn find_all(&self, queries: &[String], limit: usize, path: &str) -> Result<Vec<(Found<'_>, Vec<usize>)>> {
        self.find_all_metered(queries, limit, path, &Meter::new(u64::MAX)).map_err(|halt| halt.error("search"))
    }

    /// As [`Catalog::find_all`], metered.
    pub(crate) fn find_all_metered(
        &self,
        queries: &[String],
        limit: usize,
        path: &str,
        meter: &Meter,
    ) -> Result<Vec<(Found<'_>, Vec<usize>)>, Halt> {
        let folder = self.folder(path, meter)?;
        let mut positions: HashMap<usize, usize> = HashMap::new();
        let mut fused: Vec<(Found<'_>, Vec<usize>, f32)> = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            for (rank, (id, score)) in (0_u16..).zip(self.find(query, limit, folder, meter)?) {
                let share = 1.0 / (RANK_OFFSET + f32::from(rank));
                if let Some((_, queries, sum)) = positions.get(&id).and_then(|position| fused.get_mut(*position)) {
                    queries.push(number);
                    *sum += share;
                } else if let Some(found) = self.found(id, score) {
                    positions.insert(id, fused.len());
                    fused.push((found, vec![number], share));
                }
            }
        }
        // Stable: what ties, such as the first hits of all queries, stays in the order of the queries.
        fused.sort_by(|a, b| b.2.total_cmp(&a.2));
        Ok(fused.into_iter().map(|(found, queries, _)| (found, queries)).collect())
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

/// The tool `name` of `entry`, by wire name, identifier or either in another case; a leading category is ignored
/// unless it is part of the name.
fn find_tool<'a>(entry: &'a ServerEntry, name: &str) -> Option<&'a ToolStub> {
    let tools = &entry.stubs.tools;
    let exact = |wanted: &str| entry.stubs.position(wanted).and_then(|position| tools.get(position));
    exact(name).or_else(|| {
        let (category, rest) = name.split_once('.')?;
        exact(rest).filter(|tool| tool.category.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(category)))
    })
}

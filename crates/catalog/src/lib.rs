//! The agent's catalog: stub files, index and digest in one immutable value, built and swapped as a whole.
//!
//! `manifest` has the servers' lists with their state and pins, `findings` what is suspicious in them,
//! `drift` how two definitions of a tool differ. `vfs` are the files of it, `matching` those of a glob, `views` one catalog
//! per profile, `index` the search, `listing` and `hits` the texts of both. `skills`, `registry`, and `people`, which
//! renders foreign text for people.

mod direct;
pub mod drift;
pub mod findings;
mod found;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod glob;
mod hits;
mod index;
mod listing;
pub mod manifest;
mod matching;
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
use base::task;
use base::text::brief;
use config::ListedNames;
use stubgen::ToolStub;
pub use stubgen::View;
use upstream::auth;

pub use direct::Named;
pub use found::{Found, Hit, Hits, Weak};
pub use index::{Boost, Explained, Fields, Learned, Ranking, Signals, Uses, Word};
pub use matching::named;
pub use resource_paths::Remote;
pub use resource_paths::arguments as prompt_arguments;
pub use skill_paths::skill_uri;
pub use vfs::Node;
pub use views::{Catalogs, Views};

/// Most tools of a server that the error of an unknown one names.
const MAX_NAMED: usize = 8;

/// Lists, reads and searches the servers' stubs. See [`Catalog::build`].
pub struct Catalog {
    servers: Vec<Arc<ServerEntry>>,
    /// Server by identifier and by name.
    by_name: HashMap<String, usize>,
    /// Tools in order of server and identifier, then resources, prompts and skills; the index refers to positions here.
    documents: Vec<Node>,
    /// Number of the tools among them.
    tools: usize,
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

impl Catalog {
    /// Builds the catalog of `servers`, given in order of identifier. The first search builds its index.
    pub fn build(servers: Vec<Arc<ServerEntry>>) -> Self {
        Self::ranked(servers, Ranking::default())
    }

    /// Like [`Catalog::build`] with another ranking, for evaluations.
    pub fn ranked(servers: Vec<Arc<ServerEntry>>, ranking: Ranking) -> Self {
        let skills = skills::with_scripts(&Arc::default(), &servers);
        let index = index::Lazy::new(&servers, &skills, ranking);
        Self::with_index(servers, Arc::default(), skills, index, None)
    }

    /// Builds the catalog of `servers`, and of the skills of a folder, and reuses this one's work for unchanged servers, with
    /// its index if this one has been searched. The result equals that of [`Catalog::build`].
    ///
    /// # Errors
    /// `INTERNAL` when the index cannot be built.
    pub fn rebuild(&self, servers: Vec<Arc<ServerEntry>>, folder: Arc<Skills>) -> Result<Self> {
        let skills = skills_beside(&folder, &servers);
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
        let mut documents = Vec::new();
        for (server, entry) in servers.iter().enumerate() {
            by_name.entry(entry.ident.clone()).or_insert(server);
            by_name.entry(entry.name.clone()).or_insert(server);
            documents.extend((0..entry.stubs.tools.len()).map(|tool| Node::Tool(server, tool, View::Pyi)));
        }
        let tools = documents.len();
        documents.extend(resource_paths::nodes(&servers));
        documents.extend((0..skills.skills.len()).map(|skill| Node::SkillFile(skill, 0)));
        let digest = |s: &Arc<ServerEntry>| {
            let held: Vec<&str> = s.quarantine.keys().map(String::as_str).collect();
            let for_apps = s.for_apps.as_ref().map_or("", |stubs| &stubs.digest);
            format!("{} {}{for_apps} {} {}", s.name, s.stubs.digest, s.offers.digest, held.join(","))
        };
        let mut digests: Vec<String> = servers.iter().map(digest).collect();
        if !skills.is_empty() {
            digests.push(format!("skills {}", skills.digest()));
        }
        let digest = stubgen::digest(digests.join("\n"));
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
        Self { servers, by_name, documents, tools, folder, skills, index, across, digest, view: None, direct }
    }

    /// Names of the tools that its servers list.
    pub fn listed_names(&self) -> ListedNames {
        self.servers.iter().filter_map(|entry| Some((entry.name.clone(), entry.names.clone()?))).collect()
    }

    /// The servers, in order of identifier.
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
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Progress of the servers.
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
            let of_uri = self
                .server_of_scheme(name)
                .map(|server| format!("the server comes first: `\"{server}\", {:?}`", brief(name)));
            let hint = of_uri.or_else(|| did_you_mean(&nearest(name, known)));
            let hint = hint.unwrap_or_else(|| match self.servers.is_empty() {
                true => "no server is configured".to_owned(),
                false => "`ls /` lists the servers".to_owned(),
            });
            Error::new(ErrorCode::ServerNotFound, format!("there is no server `{}`", brief(name))).hint(hint)
        })
    }

    fn server_position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().or_else(|| self.servers.iter().position(|server| server.is_called(name)))
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
                return Error::new(ErrorCode::ServerNotFound, format!("server `{server}` is disabled")).hint(format!(
                    "`forgefs enable {}` switches it on, and `forgefs reload` in a gateway that runs",
                    entry.name
                ));
            }
            _ => {}
        }
        let error = Error::new(ErrorCode::ToolNotFound, format!("server `{server}` has no tool `{}`", brief(name)));
        let offered = match name.split_once('.') {
            Some(("resources", _)) => {
                Some(format!("`forge.readResource(\"{server}\", uri)`, in Starlark `read_resource`"))
            }
            Some(("prompts", prompt)) => {
                let prompt = brief(prompt);
                Some(format!("`forge.prompt(\"{server}\", {prompt:?}, {{…}})`, in Starlark `prompt(…, name = value)`"))
            }
            _ => None,
        };
        if let Some(hint) = offered {
            return error.hint(hint);
        }
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
        let own = match entry.stubs.tools.as_slice() {
            few @ [_, ..] if few.len() <= MAX_NAMED => {
                let names: Vec<&str> = few.iter().map(|tool| tool.ident.as_str()).collect();
                format!("its tools are {}", names.join(", "))
            }
            _ => format!("`ls /{server}` lists its tools"),
        };
        let further = did_you_mean(&elsewhere).unwrap_or_else(|| "`search` finds tools by purpose".to_owned());
        error.hint(format!("{own}; {further}"))
    }
}

/// The skills of a folder and of scripts, unless a server had the name of their folder first.
fn skills_beside(folder: &Arc<Skills>, servers: &[Arc<ServerEntry>]) -> Arc<Skills> {
    match servers.iter().any(|server| server.ident.eq_ignore_ascii_case(skill_paths::FOLDER)) {
        true => Arc::default(),
        false => skills::with_scripts(folder, servers),
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

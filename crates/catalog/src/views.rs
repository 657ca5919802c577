//! Catalogs of profiles. Each is a catalog of its own, made of what its profile has: what is not in it has no name, no
//! count, no rank and no suggestion anywhere, and takes no time to miss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Catalog, skills_beside};
use crate::manifest::{ServerEntry, ServerState};
use crate::skills::Skills;
use base::error::Result;
use config::{Profile, SCRIPTS_SERVER as SERVER, View};

/// Views by the name of their profile.
pub type Views = BTreeMap<String, Arc<View>>;

/// The catalog of all servers, and that of each profile that hides something; replaced as a whole.
pub struct Catalogs {
    /// Everything, for the operator.
    pub whole: Arc<Catalog>,
    /// Everything for agents: without tools that only pages of their servers call.
    pub agents: Arc<Catalog>,
    of: BTreeMap<String, Arc<Catalog>>,
    /// Nothing.
    pub nothing: Arc<Catalog>,
}

impl Catalogs {
    /// The same for other servers, skills and views; what did not change is reused.
    ///
    /// # Errors
    /// As [`Catalog::rebuild`].
    pub fn rebuilt(&self, servers: Vec<Arc<ServerEntry>>, skills: Arc<Skills>, views: &Views) -> Result<Self> {
        let whole = Arc::new(self.whole.rebuild(servers, Arc::clone(&skills))?);
        let for_agents = |entry: &Arc<ServerEntry>| {
            let [then, part] = [&self.whole, &self.agents].map(|catalog| catalog.same_as(entry));
            entry.for_agents(then.as_deref().zip(part.as_deref()))
        };
        let entries: Vec<_> = whole.servers().iter().map(for_agents).collect();
        let agents = match entries.iter().zip(whole.servers()).all(|(one, other)| Arc::ptr_eq(one, other)) {
            true => Arc::clone(&whole),
            false => Arc::new(self.agents.rebuild(entries, skills)?),
        };
        let narrowed = |(name, view): (&String, &Arc<View>)| {
            let last = self.of.get(name).filter(|last| last.view.as_ref().is_some_and(|of| Arc::ptr_eq(of, view)));
            Ok((name.clone(), Arc::new(agents.narrowed(view, last.map(|last| (&*self.agents, &**last)))?)))
        };
        let of = views.iter().map(narrowed).collect::<Result<_>>()?;
        Ok(Self { whole, agents, of, nothing: Arc::clone(&self.nothing) })
    }

    /// Nothing yet.
    pub fn empty() -> Self {
        let nothing = Catalog { view: Some(Arc::new(View::of(Profile::nothing()))), ..Catalog::build(Vec::new()) };
        let whole = Arc::new(Catalog::build(Vec::new()));
        Self { agents: Arc::clone(&whole), whole, of: BTreeMap::new(), nothing: Arc::new(nothing) }
    }

    /// The catalog of a profile that hides something; `None` if there is none yet.
    pub fn of(&self, profile: &str) -> Option<Arc<Catalog>> {
        self.of.get(profile).cloned()
    }
}

impl Catalog {
    /// The server of the same name.
    fn same_as(&self, entry: &ServerEntry) -> Option<Arc<ServerEntry>> {
        self.servers.iter().find(|known| known.name == entry.name).cloned()
    }

    /// The part of this catalog that a view has. `last` is the catalog before this one with its part for the same view.
    fn narrowed(&self, view: &Arc<View>, last: Option<(&Self, &Self)>) -> Result<Self> {
        let scripts = self.scripts_within(view);
        let in_use = self.servers.iter().filter(|entry| entry.state != ServerState::Disabled);
        let in_use: Vec<&str> = in_use.map(|entry| entry.name.as_str()).collect();
        let held = view.held(&in_use, &self.listed_names());
        let narrowed = |entry: &Arc<ServerEntry>| {
            let known = last.and_then(|(whole, part)| Some((whole.same_as(entry)?, part.same_as(entry)?)));
            let has = |tool: &str| view.tool(&entry.name, tool) && (!entry.is_scripts() || scripts.contains(tool));
            entry.narrowed(has, known.as_ref().map(|(whole, part)| (&**whole, &**part)), held.contains(&entry.name))
        };
        let is_its = |entry: &&Arc<ServerEntry>| view.server(&entry.name);
        let servers: Vec<Arc<ServerEntry>> = self.servers.iter().filter(is_its).map(narrowed).collect();
        let is_hidden = |name: &String| {
            self.server_position(name).is_some_and(|position| !view.server(&self.servers[position].name))
        };
        let folder = Arc::new(self.folder.keeping(|skill| !skill.servers.iter().any(is_hidden)));
        let skills = skills_beside(&folder, &servers);
        let index = last.map_or(&self.index, |(_, part)| &part.index).next(&servers, &skills)?;
        Ok(Self {
            view: Some(Arc::clone(view)),
            ..Self::with_index(servers, folder, skills, index, last.map(|(_, part)| part))
        })
    }

    /// Scripts that a view has, by wire name: those that call nothing that it does not have, through others too.
    fn scripts_within(&self, view: &View) -> BTreeSet<String> {
        let entries = self.servers.iter().filter(|entry| entry.is_scripts());
        let names = entries.flat_map(|entry| entry.stubs.tools.iter().map(|tool| tool.name.clone()));
        let mut within: BTreeSet<String> = names.filter(|name| view.tool(SERVER, name)).collect();
        loop {
            let may_call = |(server, tool): &(String, String)| match server == SERVER {
                true => within.contains(tool),
                false => view.tool(server, tool),
            };
            // One that was not judged yet, or is held, is not shown: its texts name tools.
            let is_kept = |name: &&String| match self.folder.calls.get(*name) {
                Some(calls) => calls.iter().flatten().all(may_call),
                None => false,
            };
            let kept: BTreeSet<String> = within.iter().filter(is_kept).cloned().collect();
            if kept.len() == within.len() {
                return within;
            }
            within = kept;
        }
    }

    /// True if it is a profile's, which does not have this server: data of it is not shown either.
    pub fn hides(&self, server: &str) -> bool {
        self.view.as_ref().is_some_and(|view| !view.server(server))
    }

    /// True if it is a profile's, which hides something.
    pub fn is_narrowed(&self) -> bool {
        self.view.is_some()
    }
}

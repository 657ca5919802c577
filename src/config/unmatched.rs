//! Rules that match nothing: a misspelt name leaves open what it should close. The names of groups, flows and servers are
//! checked when the file is read; those of tools and scripts, once they are listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::document::KeyPath;
use super::patterns::Patterns;
use super::profiles::{any, beginnings, matchers};
use super::{Config, Profile, SCRIPTS_SERVER, Server};
use crate::error::{did_you_mean, nearest};

/// Names of tools by server; one that was never listed has none.
pub type ListedNames = BTreeMap<String, Arc<[String]>>;

/// A rule that matches none of the tools that it is about, or of which that is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unmatched {
    /// Key of the rule.
    pub key: String,
    /// What it names, as written.
    pub entry: String,
    /// False if a server that it is about was never listed.
    pub is_known: bool,
    /// Names that may be meant.
    pub nearest: Vec<String>,
    /// Servers whose tools are held for it, since it would narrow.
    pub held: Vec<String>,
}

impl Unmatched {
    fn new(key: &impl fmt::Display, entry: &str) -> Self {
        Self { key: key.to_string(), entry: entry.to_owned(), is_known: true, nearest: Vec::new(), held: Vec::new() }
    }

    fn unknown(key: &impl fmt::Display, entry: &str) -> Self {
        Self { is_known: false, ..Self::new(key, entry) }
    }

    /// The rule without names that its server lists: what agents read.
    #[must_use]
    pub fn brief(&self) -> String {
        format!("the rule {} matches nothing: `{}`", self.key, self.entry)
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_known {
            return write!(f, "{}: {}: not known yet, its tools were never listed", self.key, self.entry);
        }
        write!(f, "{}: `{}` matches no tool", self.key, self.entry)?;
        if let Some(meant) = did_you_mean(&self.nearest) {
            write!(f, "; {meant}")?;
        }
        match self.held.is_empty() {
            true => Ok(()),
            false => write!(f, "; the tools of {} are held, {MEND}", self.held.join(", ")),
        }
    }
}

/// The ways out of a rule that holds tools.
pub const MEND: &str = "until the name is corrected, or `allow_unmatched = true` stands in the table of the rule";

impl Config {
    /// Every rule that matches nothing.
    #[must_use]
    pub fn unmatched(&self, listed: &ListedNames) -> Vec<Unmatched> {
        let mut found: Vec<Unmatched> =
            self.servers.iter().flat_map(|(name, server)| of_server(name, server, listed.get(name))).collect();
        let mut in_use: Vec<&str> =
            self.servers.iter().filter(|(_, server)| server.enabled).map(|(name, _)| name.as_str()).collect();
        let scripts = listed.get(SCRIPTS_SERVER);
        in_use.extend(self.scripts.path.iter().map(|_| SCRIPTS_SERVER));
        for (name, profile) in &self.profiles {
            found.extend(of_profile(name, profile, &in_use, listed));
        }
        let Some(scripts) = scripts else { return found };
        let mut named: BTreeSet<(String, &str)> = BTreeSet::new();
        named.extend(
            self.scripts
                .tools
                .keys()
                .map(|name| (KeyPath::root("scripts").key("tools").key(name).to_string(), name.as_str())),
        );
        for (name, server) in self.servers.iter().filter(|(_, server)| server.enabled) {
            for rule in &server.tools {
                let key = KeyPath::root("servers").key(name).key("tools").key(&rule.tools.entries().concat());
                named.extend(
                    rule.only_from.iter().flatten().map(|script| (key.key("only_from").to_string(), script.as_str())),
                );
            }
        }
        // A script is known by its path and by its identifier.
        let ident = |name: &str| name.replace('/', "_");
        let is_there = |name: &str| scripts.iter().any(|script| ident(script) == ident(name));
        let missing = named.into_iter().filter(|(_, name)| !is_there(name));
        found.extend(missing.map(|(key, name)| Unmatched {
            nearest: nearest(name, scripts.iter().map(String::as_str)),
            ..Unmatched::new(&key, name)
        }));
        found
    }
}

/// Rules of one server's entry that match none of the tools that it lists, whether they are shown or not.
#[must_use]
pub fn of_server(name: &str, server: &Server, listed: Option<&Arc<[String]>>) -> Vec<Unmatched> {
    let key = KeyPath::root("servers").key(name);
    let mut rules: Vec<(KeyPath, Patterns, bool)> = vec![(key.key("deny"), server.access.deny.clone(), true)];
    rules.extend(server.access.allow.clone().map(|allow| (key.key("allow"), allow, false)));
    let categories = server.categories.iter();
    rules.extend(categories.map(|(name, tools)| (key.key("categories").key(name), tools.clone(), false)));
    for rule in &server.tools {
        let narrows = rule.only_from.is_some() || rule.approval > Some(server.approval);
        rules.push((key.key("tools"), rule.tools.clone(), narrows));
    }
    for (tool, by) in &server.overrides {
        let shown = Patterns::name(by.name.as_deref().unwrap_or(tool));
        rules.push((key.key("tools"), shown, by.taken().next().is_some()));
    }
    rules.retain(|(_, patterns, _)| !patterns.entries().is_empty());
    let Some(listed) = listed.filter(|_| server.enabled) else {
        let many = (!rules.is_empty() && server.enabled).then(|| format!("whether its rules match ({})", rules.len()));
        return many.iter().map(|many| Unmatched::unknown(&key, many)).collect();
    };
    let names: Vec<&str> = listed.iter().map(String::as_str).collect();
    let mut found = BTreeMap::new();
    for (key, patterns, narrows) in &rules {
        for entry in patterns.matcher().idle(&names) {
            // Rules of a tool with a new name count for that, and are written under the server's.
            let renamed = server.overrides.iter().find(|(_, by)| by.name.as_deref() == Some(entry));
            let written = renamed.map_or(entry, |(tool, _)| tool);
            let rule = match key.to_string().ends_with(".tools") {
                true => key.key(written),
                false => key.clone(),
            };
            let unmatched = found.entry((rule.to_string(), written.to_owned())).or_insert_with(|| Unmatched {
                nearest: nearest(written, names.iter().copied()),
                ..Unmatched::new(&rule, written)
            });
            if *narrows && !server.allow_unmatched {
                unmatched.held = vec![name.to_owned()];
            }
        }
    }
    found.into_values().collect()
}

/// Rules of a profile that match no tool of the servers `in_use`.
pub(crate) fn of_profile(name: &str, profile: &Profile, in_use: &[&str], listed: &ListedNames) -> Vec<Unmatched> {
    let key = KeyPath::root("profiles").key(name);
    let none = Patterns::default();
    let lists = [
        ("allow", profile.allow.as_ref().unwrap_or(&none), false),
        ("deny", &profile.deny, true),
        ("direct", &profile.direct, false),
    ];
    let mut found = Vec::new();
    for (list, patterns, narrows) in lists {
        for entry in patterns.entries() {
            let (reach, tools) = (matchers(beginnings(entry)), matchers([entry.as_str()].into_iter()));
            let about: Vec<&str> = in_use.iter().copied().filter(|server| any(&reach, server)).collect();
            let known = about.iter().filter_map(|server| Some((*server, listed.get(*server)?)));
            let full: Vec<String> =
                known.flat_map(|(server, tools)| tools.iter().map(move |tool| format!("{server}.{tool}"))).collect();
            if about.is_empty() || full.iter().any(|tool| any(&tools, tool)) {
                continue;
            }
            if !about.iter().all(|server| listed.contains_key(*server)) {
                found.push(Unmatched::unknown(&key.key(list), &format!("whether `{entry}` matches")));
                continue;
            }
            let held = about.iter().filter(|server| narrows && !profile.allow_unmatched && **server != SCRIPTS_SERVER);
            found.push(Unmatched {
                nearest: nearest(entry, full.iter().map(String::as_str)),
                held: held.map(|server| (*server).to_owned()).collect(),
                ..Unmatched::new(&key.key(list), entry)
            });
        }
    }
    if let (Some(patterns), Some(scripts)) = (&profile.scripts, listed.get(SCRIPTS_SERVER)) {
        let is_idle = |entry: &&String| {
            let tools = matchers([entry.as_str()].into_iter());
            !scripts.iter().any(|script| any(&tools, script))
        };
        found.extend(patterns.entries().iter().filter(is_idle).map(|entry| Unmatched {
            nearest: nearest(entry, scripts.iter().map(String::as_str)),
            ..Unmatched::new(&key.key("scripts"), entry)
        }));
    }
    found
}

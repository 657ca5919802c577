//! Rules that match nothing: a misspelt name leaves open what it should close. The names of groups, flows and servers are
//! checked when the file is read; those of tools and scripts, once they are listed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::document::KeyPath;
use super::patterns::{Matcher, Patterns};
use super::{Config, Profile, SCRIPTS_SERVER, Server};
use base::error::{did_you_mean, nearest};

/// Names of tools by server; one that was never listed has none.
pub type ListedNames = BTreeMap<String, Arc<[String]>>;

/// A rule that matches none of the tools that it is about, or of which that is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unmatched {
    /// Key of the rule.
    pub key: String,
    /// Name or pattern, as written.
    pub entry: String,
    /// False if a server that it is about was never listed.
    pub is_known: bool,
    /// Names that may be meant.
    pub nearest: Vec<String>,
    /// Servers whose tools are held for it, since it would narrow.
    pub held: Vec<String>,
}

impl Unmatched {
    /// The rule without names that its server lists: what agents read.
    pub fn brief(&self) -> String {
        format!("the rule {} matches no tool: `{}`", self.key, self.entry)
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_known {
            return write!(f, "{}: `{}`: not known yet, its tools were never listed", self.key, self.entry);
        }
        write!(f, "{}: `{}` matches no tool", self.key, self.entry)?;
        if let Some(meant) = did_you_mean(&self.nearest) {
            write!(f, "; {meant}")?;
        }
        match self.held.is_empty() {
            true => Ok(()),
            false => write!(f, "; the tools of {} are held {MEND}", self.held.join(", ")),
        }
    }
}

/// The ways out of a rule that holds tools.
pub const MEND: &str = "until the name is corrected, or `allow_unmatched = true` stands in the table of the rule";

/// A rule about tools of these names, of which some are missing unless all `is_known`; `None` if it matches one.
fn told<N: AsRef<str>>(
    key: &KeyPath,
    entry: &str,
    pattern: &str,
    mut names: impl Iterator<Item = N> + Clone,
    is_known: bool,
) -> Option<Unmatched> {
    let matcher = Patterns::name(pattern).matcher();
    let all = names.clone();
    if names.any(|name| matcher.is_match(name.as_ref())) {
        return None;
    }
    let all: Vec<N> = if is_known { all.collect() } else { Vec::new() };
    let nearest = nearest(entry, all.iter().map(AsRef::as_ref));
    Some(Unmatched { key: key.to_string(), entry: entry.to_owned(), is_known, nearest, held: Vec::new() })
}

impl Config {
    /// Every rule that matches nothing.
    pub fn unmatched(&self, listed: &ListedNames) -> Vec<Unmatched> {
        let of_server =
            |(name, server): (&String, &Server)| of_server(name, server, listed.get(name).map(|list| &**list));
        let mut found: Vec<Unmatched> = self.servers.iter().flat_map(of_server).collect();
        let in_use = || self.servers.iter().filter(|(_, server)| server.enabled);
        let scripts = self.scripts.path.iter().map(|_| SCRIPTS_SERVER);
        let names: Vec<&str> = in_use().map(|(name, _)| name.as_str()).chain(scripts).collect();
        found.extend(self.profiles.iter().flat_map(|(name, profile)| of_profile(name, profile, &names, listed)));
        let Some(scripts) = listed.get(SCRIPTS_SERVER) else { return found };
        // A script is known by its path and by its identifier.
        let ident = |name: &String| name.replace('/', "_");
        let idents: Vec<String> = scripts.iter().map(ident).collect();
        let key = KeyPath::root("scripts").key("tools");
        found.extend(
            self.scripts.tools.keys().filter_map(|name| told(&key.key(name), name, &ident(name), idents.iter(), true)),
        );
        for (name, rule) in in_use().flat_map(|(name, server)| server.tools.iter().map(move |rule| (name, rule))) {
            let key = KeyPath::root("servers").key(name).key("tools").key(&rule.tools.entries().concat());
            let script = |name: &String| told(&key.key("only_from"), name, &ident(name), idents.iter(), true);
            found.extend(rule.only_from.iter().flatten().filter_map(script));
        }
        found
    }
}

/// Rules of one server's entry that match none of the tools that it lists, whether they are shown or not.
pub fn of_server(name: &str, server: &Server, listed: Option<&[String]>) -> Vec<Unmatched> {
    let key = KeyPath::root("servers").key(name);
    let tools = key.key("tools");
    let mut found = Vec::new();
    let mut look = |key: &KeyPath, entry: &str, pattern: &str, narrows: bool| {
        let names = listed.unwrap_or_default().iter();
        let rule = told(key, entry, pattern, names, listed.is_some()).filter(|_| server.enabled);
        let held = narrows && !server.allow_unmatched && listed.is_some();
        found.extend(rule.map(|rule| Unmatched { held: held.then(|| name.to_owned()).into_iter().collect(), ..rule }));
    };
    let lists = [("allow", server.access.allow.as_ref(), false), ("deny", Some(&server.access.deny), true)];
    for (list, patterns, narrows) in lists {
        let entries = patterns.into_iter().flat_map(Patterns::entries);
        entries.for_each(|entry| look(&key.key(list), entry, entry, narrows));
    }
    for (category, patterns) in &server.categories {
        patterns.entries().iter().for_each(|entry| look(&key.key("categories").key(category), entry, entry, false));
    }
    for (tool, by) in &server.overrides {
        look(&tools.key(tool), tool, by.name.as_deref().unwrap_or(tool), by.taken().next().is_some());
    }
    for (rule, pattern) in
        server.tools.iter().flat_map(|rule| rule.tools.entries().iter().map(move |entry| (rule, entry)))
    {
        // Rules of a tool with a new name count for that, and are written under the server's.
        let renamed = server.overrides.iter().find(|(_, by)| by.name.as_ref() == Some(pattern));
        let written = renamed.map_or(pattern, |(tool, _)| tool);
        let narrows = rule.only_from.is_some() || rule.approval > Some(server.approval);
        look(&tools.key(written), written, pattern, narrows);
    }
    // An override and a rule of one entry are one.
    found.sort();
    found.dedup_by(|next, kept| {
        let is_same = (&next.key, &next.entry) == (&kept.key, &kept.entry);
        if is_same && kept.held.is_empty() {
            kept.held.append(&mut next.held);
        }
        is_same
    });
    found
}

/// Rules of a profile that match no tool of its servers, of those `in_use`.
pub(super) fn of_profile(name: &str, profile: &Profile, in_use: &[&str], listed: &ListedNames) -> Vec<Unmatched> {
    let key = KeyPath::root("profiles").key(name);
    let lists = [("allow", profile.allow.as_ref()), ("deny", Some(&profile.deny)), ("direct", Some(&profile.direct))];
    let entries = lists.iter().flat_map(|(list, patterns)| {
        patterns.iter().flat_map(|patterns| patterns.entries()).map(move |entry| (*list, entry))
    });
    let mut found = Vec::new();
    for (list, entry) in entries {
        let reach = Matcher::of_servers([entry]);
        let is_its = |server: &&str| profile.servers.as_ref().is_none_or(|servers| servers.contains(*server));
        let about: Vec<&str> =
            in_use.iter().copied().filter(|server| is_its(server) && reach.is_match(server)).collect();
        let is_known = about.iter().all(|server| listed.contains_key(*server));
        let known = about.iter().filter_map(|server| Some((*server, listed.get(*server)?)));
        let full = known.flat_map(|(server, tools)| tools.iter().map(move |tool| format!("{server}.{tool}")));
        let narrows = list == "deny" && !profile.allow_unmatched && is_known;
        let held =
            about.iter().filter(|server| narrows && **server != SCRIPTS_SERVER).map(|server| (*server).to_owned());
        // Of servers that are switched off nothing is to be known.
        let rule = told(&key.key(list), entry, entry, full, is_known).filter(|_| !about.is_empty());
        found.extend(rule.map(|rule| Unmatched { held: held.collect(), ..rule }));
    }
    if let (Some(patterns), Some(scripts)) = (&profile.scripts, listed.get(SCRIPTS_SERVER)) {
        let script = |entry: &String| told(&key.key("scripts"), entry, entry, scripts.iter(), true);
        found.extend(patterns.entries().iter().filter_map(script));
    }
    found
}

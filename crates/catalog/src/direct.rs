//! Tools under names of their own, for clients that call them without a script: `SERVER__TOOL`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Catalog;
use crate::manifest::{ServerEntry, ServerState};
use base::error::{Error, ErrorCode, Result};
use base::text::brief;
use stubgen::ToolStub;

/// Longest name: hosts refuse tools with a longer one.
const MAX_NAME: usize = 64;
/// Digits of the digest that tells long or ambiguous names apart.
const DIGITS: usize = 8;

/// The tools of a catalog by their own names, in its order. Quarantined ones have none.
#[derive(Debug, Default)]
pub(super) struct Direct {
    names: Vec<(String, Place)>,
    by_name: HashMap<String, Place>,
    /// Bytes of all definitions.
    bytes: usize,
}

/// Position of a tool: the number of its server, and its own among the stubs, or among those for apps.
#[derive(Debug, Clone, Copy)]
struct Place {
    server: usize,
    tool: usize,
    is_for_apps: bool,
}

/// A tool with its own name.
pub struct Named<'a> {
    /// The name: letters, digits and `_`, unique.
    pub name: &'a str,
    /// The tool's server.
    pub server: &'a ServerEntry,
    /// The tool.
    pub tool: &'a ToolStub,
}

impl Catalog {
    fn direct(&self) -> &Direct {
        self.direct.get_or_init(|| {
            let mut direct = Direct::default();
            let mut taken = HashSet::with_capacity(self.tools);
            let of = |is_for_apps, tools: fn(&ServerEntry) -> usize| {
                let of = move |(server, entry): (usize, &Arc<ServerEntry>)| {
                    (0..tools(entry)).map(move |tool| Place { server, tool, is_for_apps })
                };
                self.servers.iter().enumerate().flat_map(of)
            };
            let own = of(false, |entry| entry.stubs.tools.len());
            for place in own.chain(of(true, |entry| entry.tools_for_apps().count())) {
                let (server, tool) = self.at(place);
                if server.quarantine.contains_key(&tool.ident) {
                    continue;
                }
                let name = name(server, tool, &taken);
                taken.insert(name.clone());
                if !place.is_for_apps {
                    direct.bytes += name.len() + tool.definition.text_bytes();
                }
                direct.by_name.insert(name.clone(), place);
                direct.names.push((name, place));
            }
            direct
        })
    }

    fn at(&self, place: Place) -> (&ServerEntry, &ToolStub) {
        let server = &*self.servers[place.server];
        let stubs = server.for_apps.as_ref().filter(|_| place.is_for_apps).unwrap_or(&server.stubs);
        (server, &stubs.tools[place.tool])
    }

    /// The server that pages mean by its own name for a tool: the only one with pages that lists such a tool, whether it
    /// may be called or not, so that no other takes a call because its server is away or its tool is refused. Asked of the
    /// catalog of everything.
    ///
    /// # Errors
    /// `TOOL_NOT_FOUND` where several have one, and while the tools of a server that starts are not known.
    pub fn server_for_pages(&self, tool: &str) -> Result<Option<&ServerEntry>> {
        let in_use = || self.servers.iter().filter(|entry| entry.state != ServerState::Disabled && !entry.is_scripts());
        let unknown = |message: String| Error::new(ErrorCode::ToolNotFound, message);
        if in_use().any(|entry| entry.names.is_none() && entry.is_starting()) {
            return Err(unknown(format!("there is no tool `{}` yet: servers are starting", brief(tool)))
                .hint("try again in a few seconds"));
        }
        // The definition of a held tool is not shown: it may have a page.
        let has_pages = |entry: &ServerEntry| {
            !entry.quarantine.is_empty() || entry.stubs.tools.iter().any(|tool| tool.page().is_some())
        };
        let lists =
            |entry: &ServerEntry| entry.names.as_ref().is_some_and(|names| names.iter().any(|name| name == tool));
        let mut found = in_use().filter(|entry| lists(entry) && has_pages(entry));
        match (found.next(), found.next()) {
            (one, None) => Ok(one.map(|one| &**one)),
            (_, Some(_)) => Err(unknown(format!("several servers with pages have a tool `{}`", brief(tool)))
                .hint("a call does not tell whose page makes it: call the tool in a script")),
        }
    }

    /// The tool of a server that its pages call by its wire name.
    pub fn tool_for_pages(&self, server: &str, tool: &str) -> Option<Named<'_>> {
        let is_callable = |named: &Named<'_>| named.tool.app.as_ref().is_none_or(|app| app.is_callable);
        self.named_tools().find(|named| named.tool.name == tool && named.server.name == server).filter(is_callable)
    }

    /// Every tool that is not held, by its own name; last those that only pages call.
    pub fn named_tools(&self) -> impl Iterator<Item = Named<'_>> {
        self.direct().names.iter().map(|(name, place)| {
            let (server, tool) = self.at(*place);
            Named { name, server, tool }
        })
    }

    /// The tool with this own name.
    pub fn named_tool(&self, name: &str) -> Option<Named<'_>> {
        let (name, place) = self.direct().by_name.get_key_value(name)?;
        let (server, tool) = self.at(*place);
        Some(Named { name, server, tool })
    }

    /// Bytes of the definitions of all tools.
    pub fn definition_bytes(&self) -> usize {
        self.direct().bytes
    }
}

/// The name of a tool, by its server and itself: one of an older list is not another tool's. A name that is cut has exactly
/// the most bytes.
fn name(server: &ServerEntry, tool: &ToolStub, taken: &HashSet<String>) -> String {
    let plain = format!("{}__{}", server.ident, tool.ident);
    let (first, last) = (plain.find("__"), plain.rfind("__"));
    // `a__b__c` is of the server `a`; `c` of `a__b` has a digest, and so has what ends like one.
    let is_like_cut = first != last || plain.len() == MAX_NAME;
    let is_plain = first == Some(server.ident.len()) && !(is_like_cut && ends_in_digits(&plain));
    if is_plain && plain.len() <= MAX_NAME && !taken.contains(&plain) {
        return plain;
    }
    let digest = stubgen::digest(format!("{}\n{}", server.name, tool.name));
    let numbered = |number: usize| {
        let end = if number == 0 { String::new() } else { format!("_{number}") };
        let beginning = base::text::head(&plain, MAX_NAME - DIGITS - 1 - end.len());
        format!("{beginning}_{}{end}", base::text::head(&digest, DIGITS))
    };
    (0..).map(numbered).find(|name| !taken.contains(name)).unwrap_or(plain)
}

fn ends_in_digits(name: &str) -> bool {
    let end = name.rsplit('_').next().unwrap_or_default();
    end.len() == DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::ServerState;
    use upstream::Listing;

    #[test]
    fn names_are_unique_and_short_whatever_servers_and_tools_are_called() {
        let long = "long_".repeat(30);
        let of = |name: &str, tools: &[&str]| {
            let tools = tools.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
            let ident = stubgen::assign_idents(&[name]).remove(0);
            let listing = Listing { tools, ..Listing::default() };
            Arc::new(ServerEntry::listed(name, &ident, None, listing, ServerState::Offline))
        };
        // A name that looks like the one that a digest would make.
        let like = format!("b__c_{}", base::text::head(&stubgen::digest("a__b\nc"), DIGITS));
        let one = of("a", &["b__c", "x y", "ü", &like]);
        let servers = vec![one, of("a__b", &["c"]), of("z", &[&long, &format!("{long}2")])];
        let shown = |servers: &[Arc<ServerEntry>]| {
            let of = |named: Named<'_>| [named.name, &named.server.name, &named.tool.name].map(str::to_owned);
            Catalog::build(servers.to_vec()).named_tools().map(of).collect::<HashSet<_>>()
        };
        let alone: HashSet<_> = servers.chunks(1).flat_map(shown).collect();
        assert_eq!(alone, shown(&servers), "a name is that of one tool, whatever servers are there");
        let catalog = Catalog::build(servers);
        let names: Vec<String> = catalog.named_tools().map(|named| named.name.to_owned()).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 7, "{names:?}");
        for name in &names {
            let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            assert!(name.len() <= MAX_NAME && is_plain, "{name}");
            assert!(catalog.named_tool(name).is_some_and(|named| named.name == name), "{name}");
        }
        assert!(names.contains(&"a__b__c".to_owned()) && catalog.named_tool("nowhere__x").is_none());
        assert!(catalog.definition_bytes() > 100);
    }
}

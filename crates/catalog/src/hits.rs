//! Texts of `search`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::listing::{Counts, ENTRIES_A_STEP, Lines, NO_SERVERS};
use super::{Catalog, Found, Hit, Node};
use crate::manifest::{Layout, ServerEntry};
use base::error::nearest;
use base::meter::{Halt, Meter, Stopped};
use base::text::brief;
use stubgen::ToolStub;

/// Most characters of a signature in a search hit.
const MAX_SIGNATURE: usize = 200;
/// Most siblings that a hit names.
const MAX_SIBLINGS: usize = 8;
/// Most bytes of the listing of a server that a query names.
const MAX_NAMED_SERVER: usize = 3 << 10;
/// Most words of a failed query for which similar names are searched.
const MAX_GUESSED_WORDS: usize = 4;

/// Step limit of that search.
const NAMES: u64 = 40_000;

impl Catalog {
    /// One line per hit: path, state of a server that does not answer, signature, summary.
    pub fn hit_line(&self, found: &Found<'_>) -> String {
        let hit = match found {
            Found::Tool(hit) => hit,
            Found::Offer(node @ Node::SkillFile(..)) => {
                let note = self.skill_file(*node).map(|(skill, _)| self.skill_note(skill)).unwrap_or_default();
                return format!("{}  skill  {note}", self.path(*node));
            }
            Found::Offer(node) => {
                let kind = if let Node::Prompt(..) = node { "prompt" } else { "resource" };
                let state = state_of(node.server().and_then(|server| self.servers.get(server)).map(|server| &**server));
                let line = format!(
                    "{}{state}  {kind}  {}",
                    self.path(*node),
                    self.offer(*node).map_or("", |(_, offer)| &offer.summary)
                );
                return line.trim_end().to_owned();
            }
        };
        let state = state_of(Some(hit.server));
        let (path, name) = match hit.server.layout {
            Layout::Whole => (format!("/{}/__init__.pyi", hit.server.ident), hit.tool.ident.as_str()),
            Layout::Small | Layout::PerTool => (Self::stub_path(hit.tool), ""),
        };
        if let Some(held) = hit.server.quarantine.get(&hit.tool.ident) {
            return format!("{}  {held}", Self::stub_path(hit.tool));
        }
        let observed = hit.server.observed.of(hit.tool);
        let result = observed.and_then(|observed| hit.tool.result_of(&observed));
        let result = result.map(|result| format!(" -> {result}")).unwrap_or_default();
        let callers =
            self.only_from(hit.server, hit.tool).map(|scripts| format!("  only from {scripts}")).unwrap_or_default();
        let line = format!("{path}{state}  {name}{}{result}{callers}  {}", short_signature(hit.tool), hit.tool.summary);
        line.trim_end().to_owned()
    }

    /// Names of the other tools in a hit's server or category, if those are few; without those that `is_hit`.
    pub fn siblings(&self, found: &Found<'_>, is_hit: impl Fn(&ToolStub) -> bool) -> Vec<String> {
        let Found::Tool(Hit { server, tool, .. }) = found else { return Vec::new() };
        let same = |other: &&ToolStub| other.category == tool.category && !server.quarantine.contains_key(&other.ident);
        let beside: Vec<&ToolStub> = server.stubs.tools.iter().filter(same).take(MAX_SIBLINGS + 2).collect();
        if beside.len() > MAX_SIBLINGS + 1 {
            return Vec::new();
        }
        beside.into_iter().filter(|other| !is_hit(other)).map(|other| other.ident.clone()).collect()
    }

    /// The listing of the server that `query` names in the folder `path`, if it does.
    pub fn named_server(
        &self,
        query: &str,
        path: &str,
        counts: Counts<'_>,
        meter: &Meter,
    ) -> Result<Option<(&ServerEntry, String)>, Halt> {
        let folder = self.folder(path, meter)?;
        meter.spend(1 + self.servers.len() as u64 / ENTRIES_A_STEP)?;
        let name = query.trim_matches('/').trim();
        let Some(position) = self.server_position(name) else { return Ok(None) };
        if folder != Node::Root && folder != Node::Server(position) {
            return Ok(None);
        }
        let mut lines = Lines::new(MAX_NAMED_SERVER);
        self.list(Node::Server(position), 1, counts, &mut lines, meter)?;
        Ok(Some((&self.servers[position], lines.text())))
    }

    /// Text for a search without hits: similar names, and where to look.
    pub fn no_hits(&self, query: &str, path: &str, meter: &Meter) -> Result<String, Stopped> {
        let under = if path.trim_matches('/').is_empty() { String::new() } else { format!(" under {}", brief(path)) };
        let words = query.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| word.len() > 2);
        let names = || self.servers.iter().flat_map(|s| s.stubs.tools.iter().map(|tool| tool.ident.as_str()));
        let servers = || self.servers.iter().map(|server| server.ident.as_str());
        let mut near: Vec<String> = Vec::new();
        for word in words.take(MAX_GUESSED_WORDS) {
            meter.spend(NAMES.min(8 * (self.tools + self.servers.len()) as u64))?;
            near.extend(nearest(word, servers()).into_iter().map(|name| format!("/{name}/")));
            for name in nearest(word, names()) {
                let mut tools = self.servers.iter().flat_map(|server| &server.stubs.tools);
                near.extend(tools.find(|tool| tool.ident == name).map(Self::stub_path));
            }
        }
        let mut told = BTreeSet::new();
        near.retain(|name| told.len() < 5 && told.insert(name.clone()));
        let folders: Vec<String> = self.servers.iter().take(20).map(|server| format!("/{}/", server.ident)).collect();
        let guess = if near.is_empty() { String::new() } else { format!("; spelt alike: {}", near.join(" ")) };
        let then = match folders.as_slice() {
            [] => NO_SERVERS.to_owned(),
            folders => format!("try other words, or look in {}", folders.join(" ")),
        };
        Ok(format!("no good match for `{}`{under}{guess}; {then}", brief(query)))
    }
}

/// Parameters in a hit: the required ones with their types, the others by name, which saves most of a signature's cost.
/// The path has the tool's name, and the stub has the rest.
pub(super) fn short_signature(tool: &ToolStub) -> String {
    let mut short = String::from("(");
    for (position, param) in tool.params().iter().enumerate() {
        let separator = if position > 0 { ", " } else { "" };
        let _ = match param.required {
            true => write!(short, "{separator}{}{}: {}", param.ident, wire_name(param), param.ty),
            false => write!(short, "{separator}{}{}?", param.ident, wire_name(param)),
        };
        if short.len() > 4 * MAX_SIGNATURE {
            break;
        }
    }
    short.push(')');
    match short.char_indices().nth(MAX_SIGNATURE) {
        Some((end, _)) => format!("{}…)", &short[..end]),
        None => short,
    }
}

/// The wire name of a parameter that has another one in stubs: ` "from"`.
fn wire_name(param: &stubgen::Param) -> String {
    match param.wire == param.ident {
        true => String::new(),
        false => format!(" {:?}", brief(&stubgen::one_line(&param.wire))),
    }
}

/// State of a server that does not answer, for a hit.
fn state_of(server: Option<&ServerEntry>) -> String {
    server.and_then(ServerEntry::trouble).map(|state| format!("  {state}")).unwrap_or_default()
}

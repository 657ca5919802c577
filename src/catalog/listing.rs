//! The texts that `ls`, `cat` and `search` answer with.

use std::fmt::Write as _;

use super::vfs::stub_path;
use super::{Catalog, Found, Node};
use crate::error::{Result, nearest};
use crate::manifest::{Layout, ServerEntry};

/// Entries of one folder that are listed before the rest is only counted.
const MAX_ENTRIES: usize = 400;
/// Characters of a signature in a search hit.
const MAX_SIGNATURE: usize = 200;
/// Words of a query that found nothing for which names are looked for that are spelt alike.
const MAX_GUESSED_WORDS: usize = 4;

impl Catalog {
    /// Lists the folder at `path` and `depth` levels below it, one line an entry; for a file, its own line.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such path.
    pub fn ls(&self, path: &str, depth: usize) -> Result<String> {
        Ok(self.ls_node(self.resolve(path)?, depth.max(1)))
    }

    pub(super) fn ls_node(&self, node: Node, depth: usize) -> String {
        let mut lines = Vec::new();
        match node {
            Node::Root => {
                lines.push(format!("/  {}, catalog {}", self.counts(), self.digest));
                lines.push("forge.pyi forge.d.ts  the script API of `execute`".to_owned());
                for (position, server) in self.servers.iter().enumerate() {
                    lines.push(server_line(server));
                    self.nested(Node::Server(position), depth - 1, "  ", &mut lines);
                }
                if self.servers.is_empty() {
                    lines.push("no servers are configured: add one to forge.toml".to_owned());
                }
            }
            Node::Server(_) | Node::Category(..) => {
                lines.push(format!("{}  {}", self.path(node), self.folder_note(node)));
                self.nested(node, depth, "", &mut lines);
            }
            Node::Resources(server) => self.ls_resources(server, &mut lines),
            Node::Prompts(server) => self.ls_prompts(server, &mut lines),
            Node::Resource(..) | Node::Prompt(..) => lines.push(self.offer_line(node)),
            Node::Tool(server, tool, _) => {
                let server = &self.servers[server];
                lines.push(tool_line(server, &server.stubs.tools[tool]));
            }
            Node::ForgePyi | Node::ForgeDts | Node::Init(_) | Node::Readme(_) | Node::Stderr(_) => {
                lines.push(self.path(node));
            }
        }
        lines.join("\n")
    }

    fn counts(&self) -> String {
        format!("{}, {}", counted(self.servers.len(), "server"), counted(self.tools.len(), "tool"))
    }

    fn folder_note(&self, node: Node) -> String {
        match node {
            Node::Server(server) => {
                let entry = &self.servers[server];
                let tools = counted(entry.stubs.tools.len(), "tool");
                let stderr = if entry.stderr().is_some() { "; stderr: what it said" } else { "" };
                match entry.stubs.tools.is_empty() {
                    true => format!("{tools}, {}{stderr}", entry.describe()),
                    false => {
                        let files = "README.md, __init__.pyi: every signature; beside each .pyi: .d.ts .md .json";
                        format!("{tools}; {files}{stderr}")
                    }
                }
            }
            Node::Category(server, category) => {
                let stubs = &self.servers[server].stubs;
                let name = stubs.categories.get(category);
                counted(stubs.tools.iter().filter(|tool| tool.category.as_ref() == name).count(), "tool")
            }
            _ => String::new(),
        }
    }

    /// The lines below `node`, `depth` levels deep.
    fn nested(&self, node: Node, depth: usize, indent: &str, lines: &mut Vec<String>) {
        if depth == 0 {
            return;
        }
        let mut tools = Vec::new();
        let (Node::Server(position) | Node::Category(position, _)) = node else { return };
        let entry = &*self.servers[position];
        if let Node::Server(_) = node {
            lines.extend(Self::offer_folders(entry).into_iter().map(|line| format!("{indent}{line}")));
        }
        if entry.layout != Layout::PerTool {
            let names: Vec<&str> = entry.stubs.tools.iter().map(|tool| tool.ident.as_str()).collect();
            if !names.is_empty() {
                lines.push(format!("{indent}__init__.pyi  {}", names.join(", ")));
            }
            let held = |tool: &&stubgen::ToolStub| entry.quarantine.contains_key(&tool.name);
            lines.extend(entry.stubs.tools.iter().filter(held).map(|t| format!("{indent}{}", tool_line(entry, t))));
            return;
        }
        match node {
            Node::Server(server) => {
                let stubs = &self.servers[server].stubs;
                for (position, category) in stubs.categories.iter().enumerate() {
                    let node = Node::Category(server, position);
                    lines.push(format!("{indent}{category}/  {}", self.folder_note(node)));
                    self.nested(node, depth - 1, &format!("{indent}  "), lines);
                }
                if stubs.categories.is_empty() {
                    tools.extend(&stubs.tools);
                }
            }
            Node::Category(server, category) => {
                let stubs = &self.servers[server].stubs;
                let name = stubs.categories.get(category);
                tools.extend(stubs.tools.iter().filter(|tool| tool.category.as_ref() == name));
            }
            _ => {}
        }
        lines.extend(tools.iter().take(MAX_ENTRIES).map(|tool| format!("{indent}{}", tool_line(entry, tool))));
        if tools.len() > MAX_ENTRIES {
            lines.push(format!("{indent}… {} more; `search` with path={}", tools.len() - MAX_ENTRIES, self.path(node)));
        }
    }

    /// The text of `README.md` of a server.
    pub(super) fn readme(&self, entry: &ServerEntry) -> String {
        let mut text = format!("# {}\n\n{}\n", entry.name, entry.describe());
        if let Some(description) = &entry.stubs.description {
            let _ = write!(text, "\n{description}\n");
        }
        if let Some(instructions) = &entry.stubs.instructions {
            // The server's words, quoted so that they cannot be taken for the gateway's.
            let quoted: Vec<String> =
                instructions.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
            let _ = write!(text, "\nThe server says:\n\n{}\n", quoted.join("\n"));
        }
        for note in &entry.offers.notes {
            let _ = write!(text, "\nNote: {note}\n");
        }
        text
    }

    /// One line a hit: path, signature, what it does.
    #[must_use]
    pub fn hit_line(&self, found: &Found<'_>) -> String {
        let hit = match found {
            Found::Tool(hit) => hit,
            Found::Offer(node @ Node::Prompt(..)) => {
                return format!("{}  prompt  {}", self.path(*node), self.offer_summary(*node)).trim_end().to_owned();
            }
            Found::Offer(node) => {
                return format!("{}  resource  {}", self.path(*node), self.offer_summary(*node)).trim_end().to_owned();
            }
        };
        let (path, name) = match hit.server.layout {
            Layout::Whole => (format!("/{}/__init__.pyi", hit.server.ident), hit.tool.ident.as_str()),
            Layout::Small | Layout::PerTool => (Self::stub_path(hit.server, hit.tool), ""),
        };
        let held = if hit.server.quarantine.contains_key(&hit.tool.name) { "QUARANTINED, not callable: " } else { "" };
        format!("{path}  {held}{name}{}  {}", short_signature(hit.tool), hit.tool.summary).trim_end().to_owned()
    }

    /// What to do when a search found nothing: names that are spelt alike, and where to look.
    #[must_use]
    pub fn no_hits(&self, query: &str, path: &str) -> String {
        let under = if path.trim_matches('/').is_empty() { String::new() } else { format!(" under {path}") };
        let words: Vec<&str> =
            query.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.len() > 2).collect();
        let names = || self.servers.iter().flat_map(|s| s.stubs.tools.iter().map(|tool| tool.ident.as_str()));
        let servers = || self.servers.iter().map(|server| server.ident.as_str());
        let mut near: Vec<String> = Vec::new();
        for word in words.iter().take(MAX_GUESSED_WORDS) {
            near.extend(nearest(word, servers()).into_iter().map(|name| format!("/{name}/")));
            for name in nearest(word, names()) {
                let owner =
                    self.servers.iter().find_map(|s| Some((s, s.stubs.tools.iter().find(|t| t.ident == name)?)));
                near.extend(owner.map(|(server, tool)| Self::stub_path(server, tool)));
            }
        }
        near.dedup();
        near.truncate(5);
        let folders: Vec<String> = self.servers.iter().take(20).map(|server| format!("/{}/", server.ident)).collect();
        let guess = if near.is_empty() { String::new() } else { format!("; spelt alike: {}", near.join(" ")) };
        format!("nothing matches `{query}`{under}{guess}; try other words, or look in {}", folders.join(" "))
    }

    /// The path of a tool's stub.
    #[must_use]
    pub fn stub_path(server: &ServerEntry, tool: &stubgen::ToolStub) -> String {
        format!("{}.pyi", stub_path(&server.ident, tool))
    }
}

/// The parameters as a hit shows them: those that a call needs with their types, the others by name, which is most of
/// the cost of a whole signature saved. The name of the tool is in the path, and the stub has the rest.
fn short_signature(tool: &stubgen::ToolStub) -> String {
    let shown: Vec<String> = tool
        .params
        .iter()
        .map(|param| match param.required {
            true => format!("{}: {}", param.ident, param.ty),
            false => format!("{}?", param.ident),
        })
        .collect();
    let short = format!("({})", shown.join(", "));
    match short.char_indices().nth(MAX_SIGNATURE) {
        Some((end, _)) => format!("{}…)", &short[..end]),
        None => short,
    }
}

fn server_line(server: &ServerEntry) -> String {
    let tools = counted(server.stubs.tools.len(), "tool");
    let mut line = format!("{}/  {tools}, {}", server.ident, server.describe());
    if server.ident != server.name {
        let _ = write!(line, " ({})", server.name);
    }
    if let Some(description) = &server.stubs.description {
        let _ = write!(line, "  {description}");
    }
    line
}

fn tool_line(server: &ServerEntry, tool: &stubgen::ToolStub) -> String {
    let held = server.quarantine.get(&tool.name).map(|reason| format!("QUARANTINED, not callable: {reason}. "));
    format!("{}.pyi  {}{}", tool.ident, held.unwrap_or_default(), tool.summary).trim_end().to_owned()
}

pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

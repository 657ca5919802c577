//! Texts of `ls`, and of servers' `README.md`.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::hits::short_signature;
use super::vfs::TRANSLATION;
use super::{Catalog, Node};
use crate::findings::{self, Finding, Item};
use crate::manifest::{Layout, ServerEntry};
use base::error::Result;
use base::meter::{Halt, Meter, Stopped};
use base::task;
use base::text::{counted, head};

/// Decides by server name whether the number of its resources may be shown.
pub(crate) type Counts<'a> = &'a dyn Fn(&str) -> bool;

/// Characters of a digest shown to people.
const SHOWN_DIGEST: usize = 8;
/// Most entries listed of one folder; the rest is only counted.
const MAX_ENTRIES: usize = 400;
/// Most tools that a listing shows with their signatures, and the bytes that their lines may take, about 600 tokens.
const MAX_SIGNED: usize = 40;
const SIGNED_BYTES: usize = 2_300;
/// Least bytes that a summary is cut to there.
const MIN_SUMMARY: usize = 24;
/// Most rules that match nothing in a server's line.
const MAX_RULES: usize = 3;
/// Entries per metered step.
pub(super) const ENTRIES_A_STEP: u64 = 8;
/// Most bytes of a listing.
const MAX_LISTING: usize = 64 << 10;

/// Line in place of servers.
pub(super) const NO_SERVERS: &str = "no servers are configured: `forgefs add` adds one";

/// Lines of a listing, up to a byte limit.
pub(super) struct Lines {
    text: String,
    most: usize,
}

impl Lines {
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }

    pub(super) fn push(&mut self, line: &str) {
        if !self.is_full() {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(line);
        }
    }

    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            if self.is_full() {
                return;
            }
            self.push(&line);
        }
    }

    /// True if further lines are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.text.len() > self.most
    }

    pub(super) fn text(self) -> String {
        match self.is_full() {
            false => self.text,
            true => format!("{}\n… cut at {} bytes; narrow it", head(&self.text, self.most), self.most),
        }
    }
}

impl Catalog {
    /// Lists the folder at `path` and `depth` levels below it, one line per entry; for a file, its own line.
    ///
    /// # Errors
    /// `INVALID_ARGS` when there is no such path.
    pub fn ls(&self, path: &str, depth: usize) -> Result<String> {
        self.ls_metered(path, depth, &|_| true, &Meter::new(u64::MAX)).map_err(|halt| halt.error("list"))
    }

    /// Like [`Catalog::ls`], metered; numbers of resources only where `counts` allows.
    pub fn ls_metered(&self, path: &str, depth: usize, counts: Counts<'_>, meter: &Meter) -> Result<String, Halt> {
        let node = self.resolve_metered(path, meter)?;
        let mut lines = Lines::new(MAX_LISTING);
        self.list(node, depth.max(1), counts, &mut lines, meter)?;
        Ok(lines.text())
    }

    pub(super) fn list(
        &self,
        node: Node,
        depth: usize,
        counts: Counts<'_>,
        lines: &mut Lines,
        meter: &Meter,
    ) -> Result<(), Stopped> {
        match node {
            Node::Root => {
                lines.push(&format!("/  {}, catalog {}", self.counts(), head(&self.digest, SHOWN_DIGEST)));
                lines.push("forge.pyi forge.d.ts  the script API of `execute`");
                for (position, server) in self.servers.iter().enumerate() {
                    lines.push(&self.server_line(server));
                    self.nested(Node::Server(position), depth - 1, "  ", counts, lines, meter)?;
                }
                if !self.skills.is_empty() {
                    lines.push(&self.skills_line("skills/"));
                }
                if self.servers.is_empty() {
                    lines.push(NO_SERVERS);
                }
            }
            Node::Server(_) | Node::Category(..) => {
                lines.push(&format!("{}  {}", self.path(node), self.folder_note(node)));
                self.nested(node, depth, "", counts, lines, meter)?;
            }
            Node::Skills | Node::Skill(_) | Node::SkillFile(..) => self.ls_skills(node, lines),
            Node::Resources(server) => self.ls_resources(server, lines),
            Node::Prompts(server) => self.ls_prompts(server, lines),
            Node::Resource(..) | Node::Prompt(..) => lines.push(&self.offer_line(node)),
            Node::Tool(server, tool, _) => {
                let server = &self.servers[server];
                lines.push(&tool_line(server, &server.stubs.tools[tool]));
            }
            Node::ForgePyi | Node::ForgeDts | Node::Init(_) | Node::Readme(_) | Node::Stderr(_) => {
                lines.push(&self.path(node));
            }
        }
        Ok(())
    }

    fn counts(&self) -> String {
        format!("{}, {}", counted(self.servers.len(), "server"), counted(self.tools, "tool"))
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
    fn nested(
        &self,
        node: Node,
        depth: usize,
        indent: &str,
        counts: Counts<'_>,
        lines: &mut Lines,
        meter: &Meter,
    ) -> Result<(), Stopped> {
        let (Node::Server(position) | Node::Category(position, _)) = node else { return Ok(()) };
        if depth == 0 || lines.is_full() {
            return Ok(());
        }
        let entry = &*self.servers[position];
        let stubs = &entry.stubs;
        meter.spend(1 + stubs.tools.len() as u64 / ENTRIES_A_STEP)?;
        if let Node::Server(_) = node {
            lines.extend(
                Self::offer_folders(entry, counts(&entry.name)).into_iter().map(|line| format!("{indent}{line}")),
            );
        }
        if entry.layout != Layout::PerTool {
            let all: Vec<&stubgen::ToolStub> = stubs.tools.iter().collect();
            let has_signatures = entry.layout == Layout::Small && indent.is_empty();
            if let Some(signed) = if has_signatures { signatures(entry, &all) } else { None } {
                lines.extend(signed);
                return Ok(());
            }
            let names: Vec<&str> = stubs.tools.iter().map(|tool| tool.ident.as_str()).collect();
            if !names.is_empty() {
                lines.push(&format!("{indent}__init__.pyi  {}", names.join(", ")));
            }
            let held = |tool: &&stubgen::ToolStub| entry.quarantine.contains_key(&tool.ident);
            lines.extend(stubs.tools.iter().filter(held).map(|tool| format!("{indent}{}", tool_line(entry, tool))));
            return Ok(());
        }
        if let Node::Server(server) = node {
            for (position, category) in stubs.categories.iter().enumerate() {
                if lines.is_full() {
                    return Ok(());
                }
                let node = Node::Category(server, position);
                meter.spend(1 + stubs.tools.len() as u64 / ENTRIES_A_STEP)?;
                lines.push(&format!("{indent}{category}/  {}", self.folder_note(node)));
                self.nested(node, depth - 1, &format!("{indent}  "), counts, lines, meter)?;
            }
        }
        let category = match node {
            Node::Server(_) if stubs.categories.is_empty() => None,
            Node::Category(_, category) => stubs.categories.get(category),
            _ => return Ok(()),
        };
        let tools = || stubs.tools.iter().filter(|tool| category.is_none() || tool.category.as_ref() == category);
        let shown: Vec<&stubgen::ToolStub> = tools().take(MAX_ENTRIES).collect();
        // Of the folder that is asked for alone: those below a listing are many.
        let with_signatures = if indent.is_empty() { signatures(entry, &shown) } else { None };
        let plain = || shown.iter().map(|tool| tool_line(entry, tool)).collect();
        lines.extend(with_signatures.unwrap_or_else(plain).into_iter().map(|line| format!("{indent}{line}")));
        let more = tools().count().saturating_sub(MAX_ENTRIES);
        if more > 0 {
            lines.push(&format!("{indent}… {more} more; `search` with path={}", self.path(node)));
        }
        Ok(())
    }

    /// Text of a server's `README.md`.
    pub(super) fn readme(entry: &ServerEntry) -> String {
        let mut text = format!("# {}\n\n{}\n", entry.name, entry.describe());
        if let Some(description) = &entry.stubs.description {
            let _ = write!(text, "\n{description}\n");
        }
        if let Some(instructions) = &entry.stubs.instructions {
            // Quoted, so that the server's words do not pass for the gateway's.
            let quoted: Vec<String> =
                instructions.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
            let _ = write!(text, "\nThe server says:\n\n{}\n", quoted.join("\n"));
        }
        for note in &entry.offers.notes {
            let _ = write!(text, "\nNote: {note}\n");
        }
        text
    }

    fn server_line(&self, server: &ServerEntry) -> String {
        let tools = counted(server.stubs.tools.len(), "tool");
        let mut line = format!("{}/  {tools}, {}", server.ident, server.describe());
        if let Some(found) = self.finding_note(server) {
            let _ = write!(line, "; {found}");
        }
        for rule in server.unmatched.iter().take(MAX_RULES) {
            let _ = write!(line, "; {}", rule.brief());
        }
        if server.ident != server.name {
            let _ = write!(line, " ({})", server.name);
        }
        if let Some(description) = &server.stubs.description {
            let _ = write!(line, "  {description}");
        }
        line
    }

    /// Findings about what is shown of a server; nothing of the server's words is in it.
    pub(super) fn finding_note(&self, entry: &ServerEntry) -> Option<String> {
        let tools = entry.stubs.tools.iter().filter(|tool| !entry.quarantine.contains_key(&tool.ident));
        let items = tools.map(|tool| Item::Tool(tool.name.clone())).chain(entry.offers.items().map(|(item, _)| item));
        let visible: Option<HashSet<Item>> = entry.holds_back().then(|| items.map(Item::shown).collect());
        let is_shown = |found: &&Finding| match &found.place.item {
            Item::Instructions => entry.held.as_ref().is_none_or(|held| !held.has(&found.place.item)),
            item => visible.as_ref().is_none_or(|visible| visible.contains(item)),
        };
        findings::summary(self.known_findings(entry).filter(is_shown))
    }

    /// Path of a tool's stub.
    pub fn stub_path(tool: &stubgen::ToolStub) -> String {
        format!("/{}.pyi", tool.path())
    }
}

/// Lines of a few tools with their signatures, summaries cut so that all fit; `None` where the signatures do not.
fn signatures(server: &ServerEntry, tools: &[&stubgen::ToolStub]) -> Option<Vec<String>> {
    if tools.len() > MAX_SIGNED || !server.quarantine.is_empty() {
        return None;
    }
    let sign = |tool: &&stubgen::ToolStub| format!("{}.pyi {}", tool.ident, short_signature(tool));
    let untranslated: usize = tools.iter().map(|tool| tool.untranslated_bytes()).sum();
    let signed: Vec<String> = task::work_on(untranslated * TRANSLATION, || tools.iter().map(sign).collect());
    let left = SIGNED_BYTES.checked_sub(signed.iter().map(|line| line.len() + 2).sum())?;
    let mut summaries: Vec<usize> = tools.iter().map(|tool| tool.summary.len()).collect();
    // The longest are cut to what the others leave.
    summaries.sort_unstable();
    let (mut most, mut left) = (usize::MAX, left);
    for (number, length) in summaries.iter().enumerate() {
        let share = left / (summaries.len() - number);
        if *length > share {
            most = share;
            break;
        }
        left -= length;
    }
    if most < MIN_SUMMARY {
        return None;
    }
    let line = |(signed, tool): (String, &&stubgen::ToolStub)| {
        let summary = head(&tool.summary, most);
        let cut = if summary.len() < tool.summary.len() { "…" } else { "" };
        format!("{signed}  {summary}{cut}").trim_end().to_owned()
    };
    Some(signed.into_iter().zip(tools).map(line).collect())
}

fn tool_line(server: &ServerEntry, tool: &stubgen::ToolStub) -> String {
    match server.quarantine.get(&tool.ident) {
        Some(held) => format!("{}.pyi  {held}", tool.ident),
        None => format!("{}.pyi  {}", tool.ident, tool.summary).trim_end().to_owned(),
    }
}

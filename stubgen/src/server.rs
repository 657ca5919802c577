//! Generates the stubs of one server from its tool list.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use minijinja::context;
use serde_json::{Value, json};

use crate::observed::Observed;
use crate::tool::ToolStub;
use crate::{canon, category, ident, templates, text};

/// Input: one MCP server as it listed itself.
#[derive(Clone, Debug, Default)]
pub struct ServerDef {
    /// Name in the configuration.
    pub name: String,
    /// Purpose of the server; hostile text.
    pub description: Option<String>,
    /// The server's own instructions; hostile text.
    pub instructions: Option<String>,
    /// Raw `tools/list` entries: any JSON.
    pub tools: Vec<Value>,
    /// Category to exact tool names, from the configuration; empty to derive them from the names.
    pub categories: BTreeMap<String, Vec<String>>,
}

/// Output: all files of one server in the virtual filesystem.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStubs {
    /// Name in the configuration.
    pub name: String,
    /// Identifier in scripts and paths.
    pub ident: String,
    /// Sanitised, one line.
    pub description: Option<String>,
    /// Sanitised, lines kept.
    pub instructions: Option<String>,
    /// Folder names, sorted; empty when the server has no category folders.
    pub categories: Vec<String>,
    /// Sorted by identifier.
    pub tools: Vec<ToolStub>,
    /// Positions of the tools, in order of wire name.
    by_name: Vec<usize>,
    /// Full digest of every tool, the description and the instructions.
    pub digest: String,
    /// Skipped or widened parts.
    pub notes: Vec<String>,
}

impl ServerStubs {
    /// Position of the tool with this wire name or identifier; the first if there are two.
    pub fn position(&self, name: &str) -> Option<usize> {
        let ident = self.tools.binary_search_by(|tool| tool.ident.as_str().cmp(name)).ok();
        let from = self.by_name.partition_point(|tool| self.tools[*tool].name.as_str() < name);
        let named = self.by_name.get(from).copied().filter(|tool| self.tools[*tool].name == name);
        ident.into_iter().chain(named).min()
    }

    /// Replaces the definitions of some tools, by identifier; they keep their identifiers and folders, and nothing
    /// else.
    #[must_use]
    pub fn showing(mut self, definitions: &BTreeMap<String, Value>) -> Self {
        let mut scratch = String::new();
        for tool in &mut self.tools {
            let Some(definition) = definitions.get(&tool.ident) else { continue };
            let name = name_of(definition).unwrap_or(&tool.ident);
            let (ident, folder, server) = (tool.ident.clone(), tool.category.clone(), Arc::clone(&tool.server));
            *tool = ToolStub::new(name, ident, folder, server, definition, &mut scratch);
        }
        self.completed()
    }

    /// Keeps some of the tools; they keep their identifiers and folders, and nothing tells of the others.
    #[must_use]
    pub fn keeping(mut self, is_kept: impl Fn(&ToolStub) -> bool) -> Self {
        self.tools.retain(is_kept);
        self.notes = Vec::new();
        self.completed()
    }

    /// Makes what follows from the tools and the texts.
    fn completed(mut self) -> Self {
        self.tools.sort_unstable_by(|a, b| a.ident.cmp(&b.ident));
        self.categories = self.tools.iter().filter_map(|tool| tool.category.clone()).collect();
        self.categories.sort_unstable();
        self.categories.dedup();
        self.by_name = (0..self.tools.len()).collect();
        self.by_name.sort_by(|a, b| self.tools[*a].name.cmp(&self.tools[*b].name));
        let tool = |tool: &ToolStub| json!([tool.name, tool.ident, tool.category, tool.full_digest]);
        let tools: Vec<Value> = self.tools.iter().map(tool).collect();
        self.digest = canon::digest(canon::canonical_json(&json!([self.description, self.instructions, tools])));
        self
    }

    /// `__init__.pyi`, one line per tool, with observations of the results.
    pub fn init_pyi(&self, observed: impl Fn(&ToolStub) -> Option<Observed>) -> String {
        let line = |tool: &ToolStub| {
            let mut line = format!("def {}: ", tool.signature_with(observed(tool).as_ref()));
            match tool.summary.as_str() {
                "" => line.push_str("..."),
                summary => line.push_str(&format!("\"\"\"{}\"\"\"", text::docstring(summary))),
            }
            if tool.name != tool.ident {
                line.push_str(&format!("  # wire name: {}", text::comment_name(&tool.name)));
            }
            line
        };
        let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tool in &self.tools {
            members.entry(tool.category.as_deref().unwrap_or_default()).or_default().push(line(tool));
        }
        let (count, plural) = (self.tools.len(), if self.tools.len() == 1 { "" } else { "s" });
        let groups: Vec<_> = members.into_iter().map(|(name, lines)| context! { name, lines }).collect();
        let literals = self.tools.iter().any(|tool| tool.signature().contains("Literal["));
        let above: Vec<String> = (self.name != self.ident)
            .then(|| format!("server name: {}", text::comment_name(&self.name)))
            .into_iter()
            .collect();
        templates::render(
            templates::INIT,
            context! {
                above,
                header => format!("{}: {count} tool{plural} {}", self.ident, &self.digest[..8]),
                imports => if literals { "from typing import Any, Literal" } else { "from typing import Any" },
                groups,
            },
        )
    }
}

/// Generates the stubs of one server. `ident` comes from [`crate::assign_idents`].
pub fn generate(server: ServerDef, ident: &str) -> ServerStubs {
    let mut notes = Vec::new();
    let entries = usable(server.tools, &mut notes);
    let names: Vec<&str> = entries.iter().filter_map(|raw| name_of(raw)).collect();
    let idents = ident::assign_tool_idents(&names);
    let folders = folders(category::assign(&names, &server.categories), &idents);
    let server_ident: Arc<str> = Arc::from(ident);
    let mut scratch = String::with_capacity(16 << 10);
    let tools = names
        .iter()
        .zip(&entries)
        .zip(idents)
        .zip(folders)
        .map(|(((name, raw), ident), folder)| {
            ToolStub::new(name, ident, folder, Arc::clone(&server_ident), raw, &mut scratch)
        })
        .collect();
    let description = server.description.as_deref().map(text::one_line).filter(|line| !line.is_empty());
    let instructions = server
        .instructions
        .as_deref()
        .map(|instructions| text::many_lines(instructions).join("\n"))
        .filter(|instructions| !instructions.is_empty());
    let stubs = ServerStubs {
        name: server.name,
        ident: ident.to_owned(),
        description,
        instructions,
        categories: Vec::new(),
        by_name: Vec::new(),
        tools,
        digest: String::new(),
        notes,
    };
    stubs.completed()
}

/// Entries with a name, the first of each.
fn usable(tools: Vec<Value>, notes: &mut Vec<String>) -> Vec<Value> {
    let mut seen = HashSet::with_capacity(tools.len());
    let mut entries = Vec::with_capacity(tools.len());
    let mut nameless = 0_usize;
    for tool in tools {
        match name_of(&tool) {
            Some(name) if seen.contains(name) => {
                notes.push(format!("a second tool named {} was skipped", text::comment_name(name)));
            }
            Some(name) => {
                seen.insert(name.to_owned());
                entries.push(tool);
            }
            None => nameless += 1,
        }
    }
    if nameless > 0 {
        notes.push(format!("entries without a usable name were skipped: {nameless}"));
    }
    entries
}

fn name_of(tool: &Value) -> Option<&str> {
    tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
}

/// Folder names for category labels: identifiers other than those of tools and of every server's folders.
fn folders(labels: Vec<Option<String>>, idents: &[String]) -> Vec<Option<String>> {
    let mut distinct: Vec<&str> = labels.iter().flatten().map(String::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.is_empty() {
        return labels;
    }
    let mut taken: HashSet<String> = idents.iter().map(|ident| ident.to_ascii_lowercase()).collect();
    taken.extend(["resources".to_owned(), "prompts".to_owned()]);
    let mut folder_of: HashMap<&str, String> = HashMap::new();
    for (label, mut folder) in distinct.iter().zip(ident::assign_tool_idents(&distinct)) {
        while !taken.insert(folder.to_ascii_lowercase()) {
            folder.push('_');
        }
        folder_of.insert(label, folder);
    }
    labels.iter().map(|label| folder_of.get(label.as_deref()?).cloned()).collect()
}

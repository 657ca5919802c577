//! One server's tool list in, its stubs out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::canon;
use crate::tool::{Annotations, ToolStub};

/// Input: one MCP server as it listed itself.
#[derive(Clone, Debug, Default)]
pub struct ServerDef {
    /// Name in the configuration.
    pub name: String,
    /// What the server is for; hostile text.
    pub description: Option<String>,
    /// The server's own instructions; hostile text.
    pub instructions: Option<String>,
    /// Raw `tools/list` entries: any JSON.
    pub tools: Vec<Value>,
    /// Category to exact tool names, from the configuration; empty to derive them from the names.
    pub categories: BTreeMap<String, Vec<String>>,
}

/// Output: everything the virtual filesystem shows of one server.
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
    /// `__init__.pyi`: a line a tool.
    pub init_pyi: String,
    /// Short digest over every tool, the description and the instructions.
    pub digest: String,
    /// What was skipped or widened, in words.
    pub notes: Vec<String>,
}

/// Generates the stubs of one server. `ident` comes from [`crate::assign_idents`].
pub fn generate(server: &ServerDef, ident: &str) -> ServerStubs {
    let mut notes = Vec::new();
    let mut tools = Vec::new();
    for tool in &server.tools {
        let Some(name) = tool.get("name").and_then(Value::as_str) else {
            notes.push("an entry without a name was skipped".to_owned());
            continue;
        };
        let tool_ident = crate::assign_idents(&[name]).remove(0);
        let full = canon::canonical_json(tool);
        tools.push(ToolStub {
            name: name.to_owned(),
            signature: format!("{tool_ident}(**kwargs: Any) -> Any"),
            pyi: format!("from typing import Any\n\ndef {tool_ident}(**kwargs: Any) -> Any: ...\n"),
            ident: tool_ident,
            category: None,
            summary: String::new(),
            params: Vec::new(),
            annotations: Annotations::default(),
            digest: canon::short_digest(&full),
            definition: Arc::new(tool.clone()),
            notes: Vec::new(),
        });
    }
    tools.sort_by(|a, b| a.ident.cmp(&b.ident));
    ServerStubs {
        name: server.name.clone(),
        ident: ident.to_owned(),
        description: server.description.clone(),
        instructions: server.instructions.clone(),
        categories: Vec::new(),
        init_pyi: tools.iter().map(|tool| format!("def {}: ...\n", tool.signature)).collect(),
        digest: canon::short_digest(&server.name),
        tools,
        notes,
    }
}

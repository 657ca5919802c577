//! JSON objects of servers, folders and hits: `--json` and the console show them.

use serde_json::{Value, json};
use stubgen::ToolStub;

use base::error::Result;
use catalog::findings::{self, Finding, Severity};
use catalog::manifest::{Offer, ServerEntry, ServerState};
use catalog::{Catalog, Found, Hit, Node};

/// Entries of a folder, or of a file alone. `/` has the servers, any other folder what is below it at any depth.
///
/// # Errors
/// `INVALID_ARGS` when there is no such path.
pub fn entries(catalog: &Catalog, path: &str) -> Result<Value> {
    let node = catalog.resolve(path)?;
    let servers = catalog.servers();
    let entries: Vec<Value> = match node {
        Node::Root => servers.iter().map(|entry| server(catalog, entry)).collect(),
        Node::Server(at) => below(catalog, at, |_| true),
        Node::Category(at, category) => {
            let category = servers[at].stubs.categories.get(category);
            let own = |tool: &&ToolStub| tool.category.as_ref() == category;
            servers[at].stubs.tools.iter().filter(own).map(|stub| tool(&servers[at], stub)).collect()
        }
        Node::Resources(at) => below(catalog, at, |kind| kind == "resource"),
        Node::Skills => skills(catalog),
        Node::Skill(at) => skills(catalog).into_iter().skip(at).take(1).collect(),
        Node::Prompts(at) => below(catalog, at, |kind| kind == "prompt"),
        Node::Tool(at, position, _) => vec![tool(&servers[at], &servers[at].stubs.tools[position])],
        file => vec![json!({ "path": catalog.path(file), "kind": "file" })],
    };
    Ok(json!({ "path": catalog.path(node), "entries": entries }))
}

fn below(catalog: &Catalog, at: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<Value> {
    let entry = &catalog.servers()[at];
    let resources = (0..entry.offers.resources.len()).map(|n| Node::Resource(at, n));
    let prompts = (0..entry.offers.prompts.len()).map(|n| Node::Prompt(at, n));
    let tools = entry.stubs.tools.iter().map(|stub| tool(entry, stub));
    let offers = resources.chain(prompts).filter_map(|node| offer(catalog, node));
    tools.chain(offers).filter(|entry| entry["kind"].as_str().is_some_and(&is_wanted)).collect()
}

fn skills(catalog: &Catalog) -> Vec<Value> {
    (0..catalog.skills().skills.len()).filter_map(|at| skill(catalog, Node::SkillFile(at, 0))).collect()
}

/// A skill with its files and what it lacks.
fn skill(catalog: &Catalog, node: Node) -> Option<Value> {
    let (skill, _) = catalog.skill_file(node)?;
    Some(json!({
        "path": catalog.path(node),
        "kind": "skill",
        "name": skill.name,
        "summary": skill.description,
        "servers": skill.servers,
        "lacks": catalog.skill_lacks(skill),
        "files": skill.files.iter().map(|file| &file.path).collect::<Vec<_>>(),
    }))
}

/// A server with its state.
pub fn server(catalog: &Catalog, entry: &ServerEntry) -> Value {
    let protocol = match &entry.state {
        ServerState::Ready { protocol } => Some(protocol),
        _ => None,
    };
    json!({
        "path": format!("/{}/", entry.ident),
        "kind": "server",
        "name": entry.name,
        "state": entry.state.word(),
        "detail": entry.describe(),
        "protocol": protocol,
        "tools": entry.stubs.tools.len(),
        "hidden": entry.hidden,
        "resources": entry.offers.resources.len(),
        "prompts": entry.offers.prompts.len(),
        "description": entry.stubs.description,
        "findings": counts(catalog.findings(entry)),
    })
}

/// Numbers of findings by severity.
fn counts<'a>(found: impl Iterator<Item = &'a Finding>) -> Value {
    let counts = findings::counts(found);
    let of = |severity: Severity| counts.get(&severity).copied().unwrap_or_default();
    json!({ "error": of(Severity::Error), "warning": of(Severity::Warning), "note": of(Severity::Note) })
}

/// A tool as lists show it.
pub fn tool(entry: &ServerEntry, stub: &ToolStub) -> Value {
    let held = entry.quarantine.get(&stub.ident).map(ToString::to_string);
    json!({
        "path": Catalog::stub_path(stub),
        "kind": "tool",
        "server": entry.name,
        "name": stub.name,
        "category": stub.category,
        "effect": stub.annotations.word(),
        "signature": stub.signature(),
        "summary": stub.summary,
        "quarantined": held,
    })
}

fn offer(catalog: &Catalog, node: Node) -> Option<Value> {
    let (entry, Offer { id, summary, .. }) = catalog.offer(node)?;
    let kind = if let Node::Prompt(..) = node { "prompt" } else { "resource" };
    Some(json!({
        "path": catalog.path(node),
        "kind": kind,
        "server": entry.name,
        "name": id,
        "summary": summary,
    }))
}

/// Hits of a search, best first, each with the numbers of the queries that found it, from 1.
pub fn hits(catalog: &Catalog, queries: &[String], found: &[(Found<'_>, Vec<usize>)]) -> Value {
    let hit = |(found, by): &(Found<'_>, Vec<usize>)| {
        let mut hit = match found {
            Found::Tool(Hit { server, tool: stub, .. }) => tool(server, stub),
            Found::Offer(node) => offer(catalog, *node).or_else(|| skill(catalog, *node))?,
        };
        hit["queries"] = by.iter().map(|query| query + 1).collect();
        Some(hit)
    };
    json!({ "queries": queries, "hits": found.iter().filter_map(hit).collect::<Vec<_>>() })
}

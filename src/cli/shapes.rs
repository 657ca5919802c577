//! JSON of the commands that print data: one shape each, which `docs/json.md` shows.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};
use stubgen::ToolStub;

use super::Failure;
use super::ui::Ui;
use crate::catalog::{Catalog, Found, Hit, Node};
use crate::findings::{self, Finding, Severity};
use crate::gateway::Gateway;
use crate::manifest::{Offer, ServerEntry, ServerState};
use crate::redact::{Outgoing as _, Surface};

/// Option of a command that prints data.
#[derive(Args, Clone, Copy)]
pub(super) struct Format {
    /// Print one JSON object, errors too
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints an object as `{"ok": true, …}`.
pub(super) fn print(object: Value, ui: Ui) {
    ui.json(&whole(object));
}

/// An object as `{"ok": true, …}`.
pub(super) fn whole(object: Value) -> String {
    let mut whole = Map::from_iter([("ok".to_owned(), true.into())]);
    if let Value::Object(object) = object {
        whole.extend(object);
    }
    Value::Object(whole).to_string()
}

/// An edit of one server in the configuration. `enabled` is its state after it, `None` if it is removed; `backup` is the
/// file as it was.
pub(super) fn edit(config: &str, name: &str, enabled: Option<bool>, changed: bool, backup: Option<&Path>) -> Value {
    let backup = backup.map(|path| path.display().to_string());
    json!({ "config": config, "name": name, "enabled": enabled, "changed": changed, "backup": backup })
}

/// Like [`whole`], with texts of servers, redacted as for the agent.
pub(super) fn foreign(gateway: &Gateway, object: Value) -> String {
    whole(object.redacted(Surface::Answer(gateway.config().redaction)))
}

/// Prints a failure as `{"ok": false, "error": …}`, and returns its exit code.
pub(super) fn failure(failure: &Failure, ui: Ui) -> ExitCode {
    let Failure { exit, message, hint } = failure;
    ui.json(&json!({ "ok": false, "error": { "message": message, "hint": hint, "exit": exit } }).to_string());
    ExitCode::from(*exit)
}

/// Entries of a folder, or of a file alone. `/` has the servers, any other folder what is below it at any depth.
pub(super) fn entries(catalog: &Catalog, path: &str) -> crate::error::Result<Value> {
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
pub(super) fn server(catalog: &Catalog, entry: &ServerEntry) -> Value {
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

fn tool(entry: &ServerEntry, stub: &ToolStub) -> Value {
    let held = entry.quarantine.get(&stub.ident).map(ToString::to_string);
    json!({
        "path": Catalog::stub_path(entry, stub),
        "kind": "tool",
        "server": entry.name,
        "name": stub.name,
        "category": stub.category,
        "effect": stub.annotations.word(),
        "signature": stub.signature,
        "summary": stub.summary,
        "quarantined": held,
    })
}

fn offer(catalog: &Catalog, node: Node) -> Option<Value> {
    let (kind, at) = match node {
        Node::Resource(at, _) => ("resource", at),
        Node::Prompt(at, _) => ("prompt", at),
        _ => return None,
    };
    let entry = catalog.servers().get(at)?;
    let Offer { id, summary, .. } = match node {
        Node::Resource(_, n) => entry.offers.resources.get(n)?,
        Node::Prompt(_, n) => entry.offers.prompts.get(n)?,
        _ => return None,
    };
    Some(json!({
        "path": catalog.path(node),
        "kind": kind,
        "server": entry.name,
        "name": id,
        "summary": summary,
    }))
}

/// Hits of a search, best first, each with the numbers of the queries that found it, from 1.
pub(super) fn hits(catalog: &Catalog, queries: &[String], found: &[(Found<'_>, Vec<usize>)]) -> Value {
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

/// State of the daemon, if one runs.
#[cfg(unix)]
pub(super) fn daemon(place: &crate::daemon::Place, state: Option<&Value>) -> Value {
    let of = |key: &str| state.map_or(Value::Null, |state| state[key].clone());
    json!({
        "running": state.is_some(),
        "config": place.config,
        "socket": place.socket(),
        "log": place.log(),
        "pid": of("pid"),
        "version": of("version"),
        "uptime_secs": of("uptime_secs"),
        "idle_exit_secs": of("idle_exit_secs"),
        "clients": of("clients"),
        "servers": of("servers"),
    })
}

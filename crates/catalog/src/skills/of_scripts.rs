//! Skills made of the scripts that are tools: name, documentation, signature and the tools that the lock lists.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use stubgen::ToolStub;

use super::{MAX_DESCRIPTION, MAX_NAME, Skill, Skills};
use crate::manifest::ServerEntry;
use base::limits;
use config::SCRIPTS_SERVER as SERVER;

/// The skills of the folder with those of the scripts among `servers`. A skill of the folder hides that of a script
/// with its name.
pub fn with_scripts(skills: &Arc<Skills>, servers: &[Arc<ServerEntry>]) -> Arc<Skills> {
    // A connected server may have this name, and its tools are no scripts.
    let entry = servers.iter().find(|entry| entry.name == SERVER && entry.instance == 0);
    let Some(entry) = entry.filter(|entry| !entry.stubs.tools.is_empty()) else { return Arc::clone(skills) };
    let (mut all, mut left_out) = (skills.skills.clone(), skills.left_out.clone());
    let mut taken = BTreeSet::new();
    for tool in entry.stubs.tools.iter().filter(|tool| !entry.quarantine.contains_key(&tool.ident)) {
        if all.len() >= limits::SKILLS.max {
            left_out.push((tool.name.clone(), format!("there are more than {} skills", limits::SKILLS.max)));
            break;
        }
        let name = named(&tool.name, &taken);
        taken.insert(name.clone());
        if skills.position(&name).is_some() {
            continue;
        }
        let calls = skills.calls.get(&tool.name).and_then(Option::as_ref);
        match Skill::of_text(&name, &text(entry, tool, &name, calls)) {
            // The tool's own definition is examined.
            Ok(skill) => all.push(Skill { findings: Vec::new(), ..skill }),
            Err(reason) => left_out.push((stubgen::one_line(&tool.name), reason)),
        }
    }
    Arc::new(Skills::new(all, left_out))
}

/// Name of a script's skill: its wire name in letters, digits and hyphens, numbered if it is taken.
fn named(wire: &str, taken: &BTreeSet<String>) -> String {
    let mut name = String::new();
    for c in wire.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.truncate(MAX_NAME - 4);
    let name = match name.trim_end_matches('-') {
        "" => "script",
        name => name,
    };
    let numbered = (2..1_000).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Text of a script's `SKILL.md`.
fn text(entry: &ServerEntry, tool: &ToolStub, name: &str, calls: Option<&BTreeSet<(String, String)>>) -> String {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let raw = tool.definition.tree();
    let doc = raw.get("description").and_then(Value::as_str).unwrap_or_default();
    let summary: String = match stubgen::one_line(doc) {
        none if none.is_empty() => format!("Runs the script {}.", stubgen::one_line(&tool.name)),
        line => line.chars().take(MAX_DESCRIPTION).collect(),
    };
    let servers: BTreeSet<&str> =
        calls.into_iter().flatten().map(|(server, _)| server.as_str()).chain([SERVER]).collect();
    let servers: Vec<String> = servers.into_iter().map(quoted).collect();
    let (ident, path) = (&tool.ident, tool.path());
    let mut text = format!(
        "---\nname: {name}\ndescription: {}\nservers: [{}]\n---\n\n# {}.{ident}\n\n",
        quoted(&summary),
        servers.join(", "),
        entry.ident
    );
    let doc = stubgen::many_lines(doc).join("\n");
    if !doc.trim().is_empty() {
        let _ = write!(text, "{}\n\n", doc.trim());
    }
    let (server, signature) = (&entry.ident, tool.signature());
    let _ = write!(text, "## Call\n\nA script that is a tool: call it in `execute` as `{server}.{ident}(…)`.\n\n");
    let _ = write!(text, "```python\ndef {signature}\n```\n\n");
    let _ = writeln!(text, "`/{path}.pyi` has its types, `/{path}.md` all of its documentation.");
    if let Some(calls) = calls {
        text.push_str("\n## Tools that it calls\n\nIts lock allows it no others.\n\n");
        for (server, tool) in calls {
            let _ = writeln!(text, "- `{}`", stubgen::one_line(&format!("{server}.{tool}")));
        }
        if calls.is_empty() {
            text.push_str("- none\n");
        }
    }
    text
}

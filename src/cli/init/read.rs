//! Reads the servers of a host's file.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};

use crate::cli::clients::parse;
use base::files;
use config::entries::{Found, Host, Input, Place};

/// Most bytes of a project's file, and of a user's: Claude Code keeps its history beside the servers.
const LONGEST_SHARED: u64 = 1 << 20;
const LONGEST: u64 = 32 << 20;
/// Most servers of a file.
const MOST: usize = 1000;

/// Contents of one file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) servers: Vec<Found>,
    /// Skipped entries, with the reason.
    pub(super) notes: Vec<String>,
    /// Servers of the project's `.mcp.json` that this file disables.
    pub(super) switched_off: Vec<String>,
}

/// Reads one file. `cwd` selects the project among those that Claude Code keeps in one file.
///
/// # Errors
/// The error in the file, with its position if known.
pub(super) fn read(place: &Place, cwd: &Path) -> Result<Contents, String> {
    let max = if place.is_shared { LONGEST_SHARED } else { LONGEST };
    let text = files::read_text(&place.path, max).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let is_toml = place.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let root = if is_toml { parse::toml(text)? } else { parse::json(text)? };
    let Some(root) = root.as_object() else {
        return Err("not an object with servers in it".to_owned());
    };
    let mut contents = Contents::default();
    contents.notes.extend(link(place));
    let inputs = inputs(root);
    for key in ["mcpServers", "servers", "mcp_servers", "context_servers"] {
        collect(place, root.get(key), &inputs, &mut contents);
    }
    // VS Code once kept its servers in settings.json.
    if let Some(nested) = root.get("mcp").and_then(Value::as_object) {
        collect(place, nested.get("servers"), &self::inputs(nested), &mut contents);
    }
    if place.host == Host::OpenCode {
        let mut flat = root.get("mcp").cloned();
        flat.as_mut().and_then(Value::as_object_mut).map(|flat| flat.remove("servers"));
        collect(place, flat.as_ref(), &[], &mut contents);
    }
    if place.host == Host::ClaudeCode {
        projects(place, root, cwd, &mut contents);
    }
    match contents.servers.len() {
        count if count > MOST => Err(format!("{count} servers, over the limit of {MOST} servers a file")),
        _ => Ok(contents),
    }
}

/// Target of a file that is a link out of its folder.
fn link(place: &Place) -> Option<String> {
    let is_link = place.path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let real = place.path.canonicalize().ok().filter(|_| is_link)?;
    let folder = place.project.as_deref().or(place.path.parent())?.canonicalize().ok()?;
    (!real.starts_with(folder)).then(|| format!("a link to {}, outside of its folder", real.display()))
}

fn collect(place: &Place, servers: Option<&Value>, inputs: &[Input], contents: &mut Contents) {
    let Some(servers) = servers else { return };
    let Some(servers) = servers.as_object() else {
        contents.notes.push("its list of servers is not an object".to_owned());
        return;
    };
    for (name, fields) in servers {
        match fields.as_object() {
            Some(fields) => contents.servers.push(Found {
                place: place.clone(),
                name: name.clone(),
                fields: fields.clone(),
                inputs: inputs.to_vec(),
                disabled: false,
                file: 0,
            }),
            None => contents.notes.push(format!("{name}: not an object, left out")),
        }
    }
}

fn inputs(root: &Map<String, Value>) -> Vec<Input> {
    let text = |input: &Value, key| Some(input.get(key)?.as_str()?.to_owned());
    let inputs = root.get("inputs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |input: &Value| {
        // A password has no intended default.
        let is_password = input.get("password").and_then(Value::as_bool).unwrap_or(false);
        let default = text(input, "default").filter(|default| !default.is_empty() && !is_password);
        Some(Input { id: text(input, "id")?, description: text(input, "description"), default })
    };
    inputs.iter().filter_map(one).collect()
}

/// Reads the project around `cwd` from `~/.claude.json`, which keeps the servers of every project.
fn projects(place: &Place, root: &Map<String, Value>, cwd: &Path, contents: &mut Contents) {
    let Some(projects) = root.get("projects").and_then(Value::as_object) else { return };
    let mut elsewhere = 0;
    for (folder, project) in projects {
        let servers = project.get("mcpServers").and_then(Value::as_object);
        if !cwd.starts_with(folder) {
            elsewhere += servers.map_or(0, Map::len);
            continue;
        }
        let here = Place { project: Some(folder.into()), ..place.clone() };
        let before = contents.servers.len();
        collect(&here, project.get("mcpServers"), &[], contents);
        let off = names(project, "disabledMcpServers");
        contents.servers[before..].iter_mut().for_each(|found| found.disabled = off.contains(&found.name));
        contents.switched_off.extend(off);
        contents.switched_off.extend(names(project, "disabledMcpjsonServers"));
    }
    if elsewhere > 0 {
        contents
            .notes
            .push(format!("left out, as they belong to other projects: {elsewhere}; import in their folders"));
    }
}

fn names(project: &Value, key: &str) -> Vec<String> {
    let names = project.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

//! Query sets and tool lists from files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use forgefs::catalog::manifest::{ServerEntry, ServerState, load_file};
use forgefs::upstream::Listing;
use serde::Deserialize;
use serde_json::Value;

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Queries over one catalog.
pub struct Set {
    /// Name of its folder.
    pub name: String,
    /// Servers to search.
    pub servers: Vec<Arc<ServerEntry>>,
    /// Queries.
    pub questions: Vec<Question>,
}

/// A query with the tools that answer it.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// Text.
    pub query: String,
    /// Relevant tools, each as `server/tool` with the tool's wire name.
    pub gold: Vec<String>,
    /// The task as an agent would search for it, one query per step; may be empty.
    #[serde(default)]
    pub steps: Vec<String>,
}

impl Set {
    /// Reads `catalog.json` and `queries.jsonl` of a folder.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let servers = entries(load_file(&folder.join("catalog.json"))?);
        let path = folder.join("queries.jsonl");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let questions =
            lines.map(serde_json::from_str).collect::<Result<_, _>>().with_context(|| path.display().to_string())?;
        Ok(Self { name, servers, questions })
    }
}

/// The sets of the repository, and those in `shared` too.
///
/// # Errors
/// When one of them cannot be read.
pub fn sets(shared: Option<&Path>) -> Result<Vec<Set>> {
    let mut folders = vec![root().join("tests/fixtures/retrieval/own")];
    if let Some(shared) = shared {
        let mut more = Vec::new();
        for entry in std::fs::read_dir(shared.join("retrieval"))? {
            more.push(entry?.path());
        }
        more.retain(|folder| folder.join("queries.jsonl").is_file());
        more.sort();
        folders.extend(more);
    }
    folders.iter().map(|folder| Set::read(folder)).collect()
}

/// Servers of every tool list in a folder, as a gateway with these files shows them.
///
/// # Errors
/// When one of them cannot be read.
pub fn catalogs(folder: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut servers = BTreeMap::new();
    for file in files {
        servers.extend(load_file(&file)?);
    }
    Ok(servers)
}

/// Most servers that an agent searches are up.
fn state() -> ServerState {
    ServerState::Ready { protocol: "2026-07-28".to_owned() }
}

/// Servers with these tools.
#[must_use]
pub fn entries(servers: BTreeMap<String, Vec<Value>>) -> Vec<Arc<ServerEntry>> {
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    let idents = stubgen::assign_idents(&names);
    let entry = |((name, tools), ident): ((&String, &Vec<Value>), &String)| {
        let listing = Listing { tools: tools.clone(), ..Listing::default() };
        Arc::new(ServerEntry::listed(name, ident, None, listing, state()))
    };
    let mut entries: Vec<_> = servers.iter().zip(&idents).map(entry).collect();
    entries.sort_by(|a, b| a.ident.cmp(&b.ident));
    entries
}

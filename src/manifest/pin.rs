//! The reviewed stub tree as allow-list: `[manifest] pin`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use stubgen::ServerStubs;

use crate::error::{Error, ErrorCode, Result};

/// Levels below the tree's root at which definitions are: server, category, tool.
const MAX_DEPTH: usize = 3;

/// The definitions that were reviewed: digest by server and tool identifier.
#[derive(Debug, Default)]
pub struct Pin {
    folder: String,
    digests: BTreeMap<(String, String), String>,
}

impl Pin {
    /// Reads the `.json` files of a tree that `forgefs stubs generate` wrote. The digests are made anew from what is
    /// in the files, so that they hold whichever version wrote the tree.
    ///
    /// # Errors
    /// `INVALID_ARGS` when the folder is no stub tree, or a file in it is not JSON.
    pub fn load(folder: &Path) -> Result<Self> {
        let wrong = |path: &Path, what: String| {
            Error::new(ErrorCode::InvalidArgs, format!("`manifest.pin`: {}: {what}", path.display()))
                .hint("`forgefs stubs generate --out DIR` writes the tree")
        };
        if !folder.join("stubs.lock").is_file() {
            return Err(wrong(folder, "no stub tree is here".to_owned()));
        }
        let mut pin = Self { folder: folder.display().to_string(), digests: BTreeMap::new() };
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((current, depth)) = folders.pop() {
            let entries = std::fs::read_dir(&current).map_err(|error| wrong(&current, error.to_string()))?;
            for entry in entries {
                let path = entry.map_err(|error| wrong(&current, error.to_string()))?.path();
                if path.is_dir() && depth + 1 < MAX_DEPTH {
                    folders.push((path, depth + 1));
                } else if path.extension().is_some_and(|extension| extension == "json") {
                    let text = std::fs::read(&path).map_err(|error| wrong(&path, error.to_string()))?;
                    let definition: Value =
                        serde_json::from_slice(&text).map_err(|error| wrong(&path, format!("not JSON: {error}")))?;
                    if let Some(key) = key(folder, &path) {
                        pin.digests.insert(key, stubgen::digest(&stubgen::canonical_json(&definition)));
                    }
                }
            }
        }
        Ok(pin)
    }

    /// The tools of a server that are not as reviewed, by wire name, with the reason.
    #[must_use]
    pub fn quarantined(&self, server: &ServerStubs) -> BTreeMap<String, String> {
        let folder = &self.folder;
        let reason = |tool: &stubgen::ToolStub| match self.digests.get(&(server.ident.clone(), tool.ident.clone())) {
            None => Some(format!("it is not among the reviewed stubs in {folder}")),
            Some(reviewed) if *reviewed != tool.full_digest() => {
                Some(format!("it is not what was reviewed in {folder}"))
            }
            Some(_) => None,
        };
        server.tools.iter().filter_map(|tool| Some((tool.name.clone(), reason(tool)?))).collect()
    }
}

/// Server and tool of a file in the tree, whatever the category between them.
fn key(root: &Path, file: &Path) -> Option<(String, String)> {
    let server = file.strip_prefix(root).ok()?.components().next()?.as_os_str().to_str()?;
    Some((server.to_owned(), file.file_stem()?.to_str()?.to_owned()))
}

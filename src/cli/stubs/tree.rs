//! A tree of text files: written, and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Failure;

/// Relative path → content.
pub(super) type Files = BTreeMap<String, String>;

/// The file that marks a folder as a stub tree and names the digests in it.
pub(super) const LOCK: &str = "stubs.lock";

/// A file that is not as it would be written.
pub(super) struct Change {
    /// Its path in the tree.
    pub(super) path: String,
    /// What is there; `None` when it is missing.
    pub(super) before: Option<String>,
    /// What would be written; `None` when nothing would be.
    pub(super) after: Option<String>,
    /// Unified diff from what is there to what would be written.
    pub(super) diff: String,
}

/// Writes `files` below `dir` and removes what an earlier tree left; returns how many files changed. A folder that
/// holds other things is refused.
pub(super) fn write(dir: &Path, files: &Files) -> Result<usize, Failure> {
    let old = existing(dir)?;
    if !old.is_empty() && !old.contains(LOCK) {
        return Err(Failure::usage(format!("{} is not empty and has no {LOCK}: it is no stub tree", dir.display()))
            .hint("choose an empty folder"));
    }
    let mut changed = 0;
    for (path, content) in files {
        let target = dir.join(path);
        if fs::read_to_string(&target).is_ok_and(|old| old == *content) {
            continue;
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        fs::write(&target, content).map_err(|error| failed(&target, &error))?;
        changed += 1;
    }
    for gone in old.iter().filter(|path| !files.contains_key(*path)) {
        let target = dir.join(gone);
        fs::remove_file(&target).map_err(|error| failed(&target, &error))?;
        // Empty folders go too; one that still holds something stays.
        target.ancestors().skip(1).take_while(|folder| *folder != dir).all(|folder| fs::remove_dir(folder).is_ok());
        changed += 1;
    }
    Ok(changed)
}

/// What differs between `dir` and `files`, by path.
pub(super) fn compare(dir: &Path, files: &Files) -> Result<Vec<Change>, Failure> {
    let old = existing(dir)?;
    if !old.contains(LOCK) {
        return Err(Failure::usage(format!("{} has no {LOCK}: it is no stub tree", dir.display()))
            .hint("`forgefs stubs generate --out DIR` writes one"));
    }
    let paths: BTreeSet<&String> = old.iter().chain(files.keys()).collect();
    let mut drift = Vec::new();
    for path in paths {
        let target = dir.join(path);
        let before = match old.contains(path) {
            true => Some(fs::read_to_string(&target).map_err(|error| failed(&target, &error))?),
            false => None,
        };
        let after = files.get(path).cloned();
        if before != after {
            let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
            let diff = similar::TextDiff::from_lines(old, new);
            let diff = diff.unified_diff().header(&format!("a/{path}"), &format!("b/{path}")).to_string();
            drift.push(Change { path: path.clone(), before, after, diff });
        }
    }
    Ok(drift)
}

/// The files below `dir` by relative path; none when there is no such folder. Hidden ones are not ours.
fn existing(dir: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder == dir => return Ok(found),
            Err(error) => return Err(failed(&folder, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(&folder, &error))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let kind = entry.file_type().map_err(|error| failed(&entry.path(), &error))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if let Ok(relative) = entry.path().strip_prefix(dir) {
                found.insert(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

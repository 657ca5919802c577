//! Writes and compares a tree of text files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::Failure;
use crate::cli::findings::{ACCEPTED, Accepted};
use base::json;
use base::limits::{PIN_FILE, PIN_TREE};
use base::text::counted;
use base::tree::{Kind, Tree};
use catalog::manifest::LOCK;
use state::shapes::Shapes;

/// Most bytes of memory of the values in it.
const MAX_TREE: usize = 1 << 30;
/// File of the observed shapes that a tree was written with.
pub(super) const OBSERVED: &str = "observed.json";

/// Ends of the files of a tool.
const TOOL_FILES: [&str; 4] = [".pyi", ".d.ts", ".md", ".json"];

/// Observed shapes by server identifier.
pub(super) type ByServer = BTreeMap<String, Shapes>;

/// Relative path → content.
pub(super) type Files = BTreeMap<String, String>;

/// A file that differs.
pub(super) struct Change {
    /// Path in the tree.
    pub(super) path: String,
    /// Current content; `None` if missing.
    pub(super) before: Option<String>,
    /// Generated content; `None` if the file is not generated.
    pub(super) after: Option<String>,
    /// Unified diff from current to generated content.
    pub(super) diff: String,
}

/// Writes `files` below `dir` and removes files of an earlier tree; returns the number of changed files. Refuses a
/// folder that has files of another kind. Replaces a link in place of a file, and refuses one in place of a folder.
pub(super) fn write(dir: &Path, files: &Files) -> Result<usize, Failure> {
    let tree = Tree::make(dir).map_err(|error| Failure::of_path(dir, error))?;
    let old = tree.entries().map_err(|error| Failure::of_path(dir, error))?;
    if !old.is_empty() && old.get(LOCK) != Some(&Kind::File) {
        return Err(Failure::usage(format!("{} is not empty and has no {LOCK}: it is no stub tree", dir.display()))
            .hint("choose an empty folder"));
    }
    let foreign = foreign(&tree, &old, files).map_err(|error| Failure::of_path(&dir.join(LOCK), error))?;
    if let [first, ..] = foreign.as_slice() {
        let what = format!("{} has {}, such as {first}", dir.display(), counted(foreign.len(), "foreign file"));
        return Err(Failure::usage(format!("nothing was written: {what}"))
            .hint("move them to another folder, or choose an empty one"));
    }
    let mut changed = 0;
    for (path, content) in files {
        let is_same = |kind: &Kind| *kind == Kind::File && is_text(&tree, path, content);
        if old.get(path).is_some_and(is_same) {
            continue;
        }
        tree.write(path, content.as_bytes()).map_err(|error| Failure::of_path(&dir.join(path), error))?;
        changed += 1;
    }
    for gone in old.keys().filter(|path| !files.contains_key(*path)) {
        tree.remove(gone).map_err(|error| Failure::of_path(&dir.join(gone), error))?;
        changed += 1;
    }
    Ok(changed)
}

/// Files of `old` that neither `files` has nor an earlier tree, by the names in its lock.
fn foreign<'o>(tree: &Tree, old: &'o BTreeMap<String, Kind>, files: &Files) -> io::Result<Vec<&'o str>> {
    const AT_ROOT: [&str; 6] = [OBSERVED, ACCEPTED, "forge.pyi", "forge.d.ts", "tools.pyi", "tools.d.ts"];
    const IN_FOLDER: [&str; 2] = ["README.md", "__init__.pyi"];
    let lock = if old.is_empty() { Vec::new() } else { tree.read(LOCK, PIN_TREE.max as u64)? };
    let lock = String::from_utf8_lossy(&lock);
    let mut listed: BTreeSet<&str> = lock.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    listed.extend(files.keys().map(String::as_str));
    let folders: BTreeSet<&Path> = listed.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
    let is_of_tree = |path: &str| {
        let of_tool = TOOL_FILES
            .iter()
            .filter_map(|end| path.strip_suffix(end))
            .any(|stem| listed.contains(format!("{stem}.pyi").as_str()));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let names: &[&str] = if folder.is_empty() { &AT_ROOT } else { &IN_FOLDER };
        of_tool || listed.contains(path) || (folders.contains(Path::new(folder)) && names.contains(&name))
    };
    Ok(old
        .iter()
        .filter(|(path, kind)| **kind == Kind::File && !is_of_tree(path))
        .map(|(path, _)| path.as_str())
        .collect())
}

fn is_text(tree: &Tree, path: &str, content: &str) -> bool {
    tree.read(path, content.len() as u64).is_ok_and(|old| old == content.as_bytes())
}

/// The observed shapes that `dir` was written with, and their text.
pub(super) fn observed(dir: &Path) -> Result<(ByServer, Option<String>), Failure> {
    let (shapes, text): (ByServer, _) = kept(dir, OBSERVED, "`forgefs stubs generate --observed --out DIR` writes it")?;
    Ok((shapes.into_iter().map(|(server, shapes)| (server, shapes.checked())).collect(), text))
}

/// The accepted findings that `dir` has, and their text.
pub(super) fn accepted(dir: &Path) -> Result<(Accepted, Option<String>), Failure> {
    kept(dir, ACCEPTED, "`forgefs stubs accept --finding DIGEST --why TEXT` writes it")
}

/// A file of `dir` that is no part of the servers' lists; empty if there is none.
fn kept<T: DeserializeOwned + Default>(dir: &Path, name: &str, hint: &str) -> Result<(T, Option<String>), Failure> {
    let path = dir.join(name);
    let text = match Tree::open(dir).and_then(|tree| tree.read(name, PIN_FILE.max as u64)) {
        Ok(text) => text,
        // A folder that is no tree is told later.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((T::default(), None)),
        Err(error) => return Err(Failure::of_path(&path, error)),
    };
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display())).hint(hint);
    let value = json::parse(&text, MAX_TREE).map_err(|error| wrong(error.to_string()))?;
    Ok((value, Some(String::from_utf8(text).map_err(|_| wrong("it is not text".to_owned()))?)))
}

/// Writes the accepted findings of `dir`.
pub(super) fn accept(dir: &Path, accepted: &Accepted) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(accepted).map_err(|error| Failure::internal(error.to_string()))?;
    let tree = Tree::open(dir).map_err(|error| Failure::of_path(dir, error))?;
    tree.write(ACCEPTED, format!("{text}\n").as_bytes()).map_err(|error| Failure::of_path(&dir.join(ACCEPTED), error))
}

/// Differences between `dir` and `files`, by path.
pub(super) fn compare(dir: &Path, files: &Files) -> Result<Vec<Change>, Failure> {
    let no_tree = |what: &str| {
        Failure::usage(format!("{} {what}: it is no stub tree", dir.display()))
            .hint("`forgefs stubs generate --out DIR` writes one")
    };
    let (tree, old) = match Tree::open(dir) {
        Ok(tree) => {
            let old = tree.entries().map_err(|error| Failure::of_path(dir, error))?;
            (tree, old)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_tree("is not there")),
        Err(error) => return Err(Failure::of_path(dir, error)),
    };
    if old.get(LOCK) != Some(&Kind::File) {
        return Err(no_tree(&format!("has no {LOCK}")));
    }
    let paths: BTreeSet<&String> = old.keys().chain(files.keys()).collect();
    let mut drift = Vec::new();
    for path in paths {
        let after = files.get(path);
        let before = match old.get(path) {
            Some(Kind::File) => {
                let target = dir.join(path);
                let content = tree.read(path, PIN_FILE.max as u64).map_err(|error| Failure::of_path(&target, error))?;
                Some(String::from_utf8(content).unwrap_or_else(|_| "(not text)\n".to_owned()))
            }
            // Its target is outside the tree, and not for a log.
            Some(Kind::Other(what)) => Some(format!("({what}, which is not followed)\n")),
            None => None,
        };
        if before.as_ref() != after {
            drift.push(Change::new(path.clone(), before, after.cloned()));
        }
    }
    Ok(drift)
}

impl Change {
    fn new(path: String, before: Option<String>, after: Option<String>) -> Self {
        let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        let diff = similar::TextDiff::from_lines(old, new);
        let shown = path.replace('\n', "\\n");
        let diff = diff.unified_diff().header(&format!("a/{shown}"), &format!("b/{shown}")).to_string();
        Self { path, before, after, diff }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diff_of_files_without_a_common_line_ends() {
        let text = |word: &str| (0..20_000).map(|n| format!("{word}{}\n", n * 7919 % 20_011)).collect::<String>();
        let change = Change::new("a\nb".to_owned(), Some(text("x")), Some(text("y") + &text("x")));
        assert!(change.diff.starts_with("--- a/a\\nb\n+++ b/a\\nb\n"), "{}", &change.diff[..40]);
        assert!(change.diff.lines().count() < 80_000, "{}", change.diff.lines().count());
    }
}

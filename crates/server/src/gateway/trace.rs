//! What is compared to find edits below a folder.

use std::fs;
use std::path::PathBuf;

use base::files::Version;

/// Most entries that are looked at; the limits of scripts and of skills are far below.
const MOST: usize = 20_000;

/// Versions of files, and of everything below folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trace(Vec<(PathBuf, Option<Version>)>);

impl Trace {
    /// Looks at these paths, without reading files.
    pub(super) async fn of(paths: Vec<PathBuf>) -> Self {
        tokio::task::spawn_blocking(move || Self(looked_at(paths))).await.unwrap_or_default()
    }
}

fn looked_at(paths: Vec<PathBuf>) -> Vec<(PathBuf, Option<Version>)> {
    let mut seen: Vec<_> = paths.iter().map(|path| (path.clone(), Version::of(path))).collect();
    let mut folders = paths;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if seen.len() >= MOST {
                return seen;
            }
            // No link to a folder is followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            seen.push((entry.path(), Version::of(&entry.path())));
        }
    }
    seen.sort_by(|(one, _), (other, _)| one.cmp(other));
    seen
}

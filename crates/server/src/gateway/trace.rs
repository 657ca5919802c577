//! Versions of the files below folders, compared to find edits.

use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use base::files::Version;

/// Most entries that are looked at; the limits of scripts and of skills are far below.
const MOST: usize = 20_000;

/// Versions of files, and of everything below folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trace(Vec<(PathBuf, Option<Version>)>);

impl Trace {
    /// Looks at these paths, without reading files; at the files behind links below them if those are followed.
    pub(super) async fn of(paths: Vec<PathBuf>, follows_links: bool) -> Self {
        tokio::task::spawn_blocking(move || Self(looked_at(paths, follows_links))).await.unwrap_or_default()
    }
}

fn looked_at(paths: Vec<PathBuf>, follows_links: bool) -> Vec<(PathBuf, Option<Version>)> {
    // A folder counts by what is in it: programs make and remove files of their own there all the time.
    let version = |path: &Path| Version::of(path).filter(|_| !path.is_dir());
    let mut seen: Vec<_> = paths.iter().map(|path| (path.clone(), version(path))).collect();
    let mut folders = paths;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if seen.len() >= MOST {
                return seen;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            let is = |test: fn(&FileType) -> bool| kind.as_ref().is_ok_and(test);
            let mut found = None;
            // No link to a folder is followed.
            if is(FileType::is_dir) {
                folders.push(path.clone());
            } else if follows_links || !is(FileType::is_symlink) {
                found = version(&path);
            }
            seen.push((path, found));
        }
    }
    seen.sort_by(|(one, _), (other, _)| one.cmp(other));
    seen
}

//! A folder of scripts and its lock as they look from outside, to find edits without reading every file.

use std::fs;
use std::path::{Path, PathBuf};

use base::files::Version;

/// Most entries that are looked at; the folder's own limit is far below.
const MAX_ENTRIES: usize = 5_000;

/// Every file below the folder, and the lock, with its version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace(Vec<(PathBuf, Option<Version>)>);

impl Trace {
    /// Looks at a folder and its lock.
    pub fn of(folder: &Path, lock: &Path) -> Self {
        let mut files = vec![(lock.to_path_buf(), Version::of(lock))];
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                if files.len() >= MAX_ENTRIES {
                    break;
                }
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    _ => files.push((path.clone(), Version::of(&path))),
                }
            }
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self(files)
    }
}

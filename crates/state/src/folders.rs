//! Folders of files that are named after an id: journals and approvals of one configuration file.

use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::path::{Path, PathBuf};

use super::day::identity;
use base::files;
use config::Config;

/// Digits of an id.
pub(super) const ID: usize = 12;
/// Name of the file with the key of journals.
pub(super) const JOURNAL_KEY: &str = "key";

/// Folder of what one configuration file keeps of a kind, below the state folder. Replicas, which may have their file
/// anywhere, keep it in their store.
pub fn kept_folder(state: &Path, kind: &str, config: &Config) -> PathBuf {
    state.join(format!("{kind}-{}", stubgen::short_digest(&identity(config))))
}

/// Id of the record that is kept of a name.
pub fn id_of(name: &str) -> String {
    stubgen::digest(name)[..ID].to_owned()
}

/// Entries of a folder; `None` without one.
pub(super) fn entries(folder: &Path) -> io::Result<Option<ReadDir>> {
    files::if_there(fs::read_dir(folder))
}

/// Files of a folder that are named after an id, with this extension.
pub(super) fn files(folder: &Path, extension: &str) -> io::Result<Vec<(String, DirEntry)>> {
    let mut found = Vec::new();
    for entry in entries(folder)?.into_iter().flatten() {
        let entry = entry?;
        let path = entry.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).filter(|id| is_id(id));
        if let Some(id) = id.filter(|_| path.extension().is_some_and(|found| found == extension)) {
            found.push((id.to_owned(), entry));
        }
    }
    Ok(found)
}

/// True for the form of an id.
pub fn is_id(id: &str) -> bool {
    id.len() == ID && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

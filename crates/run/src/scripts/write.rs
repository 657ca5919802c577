//! Writes a saved script and its first test into the folder of scripts, and overwrites nothing.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Saved;
use base::error::{Error, ErrorCode, Result};
use base::tree::Tree;

/// End of a cassette's name.
pub const CASSETTE: &str = ".cassette.json";
/// Names of the further tests that a script of this name can have, in order.
pub fn further_tests(name: &str) -> impl Iterator<Item = String> {
    (2..10).map(move |number| format!("{name}.{number}{CASSETTE}"))
}

/// Extensions of scripts, the preferred one first.
pub const EXTENSIONS: [&str; 6] = ["js", "ts", "mjs", "mts", "star", "py"];

/// Writes a script of this name, `/` for folders, and its cassette beside it, each as a whole; returns both files. No link
/// below the folder is followed.
///
/// # Errors
/// `INVALID_ARGS` when a file of one of these names is there, or the folder cannot be used; `INTERNAL` when a file cannot be
/// written: then none is.
pub fn write(folder: &Path, name: &str, saved: &Saved, cassette: &str) -> Result<[PathBuf; 2]> {
    let failed = |code, path: &Path, error: io::Error| Error::new(code, path.display().to_string()).caused_by(error);
    let tree = Tree::make(folder).map_err(|error| failed(ErrorCode::InvalidArgs, folder, error))?;
    let others = EXTENSIONS.map(|extension| folder.join(format!("{name}.{extension}")));
    if let Some(other) = others.iter().find(|other| fs::symlink_metadata(other).is_ok()) {
        return Err(taken(other));
    }
    let put = |file: &str, text: &str| {
        let path = folder.join(file);
        match tree.put(file, text.as_bytes(), false) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken(&path)),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                Err(failed(ErrorCode::InvalidArgs, &path, error).hint("save the script under another name"))
            }
            Err(error) => Err(failed(ErrorCode::Internal, &path, error)),
        }
    };
    let script = format!("{name}.{}", saved.extension.as_str());
    let written = put(&script, &saved.code)?;
    let beside = put(&format!("{name}{CASSETTE}"), cassette).inspect_err(|_| {
        // A script without its test is half of what was asked for.
        let _ = tree.remove(&script);
    })?;
    Ok([written, beside])
}

fn taken(path: &Path) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{} is there already", path.display()))
        .hint("give another name: a script is never overwritten")
}

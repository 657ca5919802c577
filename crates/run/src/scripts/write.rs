//! Writes a saved script and its first test into the folder of scripts, and overwrites nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::Saved;
use base::error::{Error, ErrorCode, Result};

/// End of a cassette's name.
pub const CASSETTE: &str = ".cassette.json";
/// Names of the further tests that a script of this name can have, in order.
pub fn further_tests(name: &str) -> impl Iterator<Item = String> {
    (2..10).map(move |number| format!("{name}.{number}{CASSETTE}"))
}

/// Extensions of scripts, the preferred one first.
pub const EXTENSIONS: [&str; 6] = ["js", "ts", "mjs", "mts", "star", "py"];

/// Writes a script of this name, `/` for folders, and its cassette beside it; returns both files.
///
/// # Errors
/// `INVALID_ARGS` when a script of that name is there, or the name leads out of the folder; `INTERNAL` when a file cannot
/// be written: then none is.
pub fn write(folder: &Path, name: &str, saved: &Saved, cassette: &str) -> Result<[PathBuf; 2]> {
    let parts: Vec<&str> = name.split('/').collect();
    let script = place(folder, &parts, saved.extension.as_str())?;
    let beside = script.with_file_name(format!("{}{CASSETTE}", parts.last().unwrap_or(&"")));
    create(&script, &saved.code)?;
    if let Err(error) = create(&beside, cassette) {
        // A script without its test is half of what was asked for.
        let _ = fs::remove_file(&script);
        return Err(error);
    }
    Ok([script, beside])
}

/// The file of a script that is not there yet, in a folder that is within that of scripts.
fn place(folder: &Path, parts: &[&str], extension: &str) -> Result<PathBuf> {
    let wrong = |path: &Path, error| failed(ErrorCode::InvalidArgs, path, error);
    let [folders @ .., stem] = parts else { return Err(Error::new(ErrorCode::InvalidArgs, "the name is empty")) };
    fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    let root = fs::canonicalize(folder).map_err(|error| wrong(folder, error))?;
    let mut within = folder.to_owned();
    for part in folders {
        within.push(part);
        match fs::create_dir(&within) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(wrong(&within, error)),
            _ => {}
        }
        let real = fs::canonicalize(&within).map_err(|error| wrong(&within, error))?;
        if !real.starts_with(&root) {
            let what = format!("{} leads out of the folder of scripts", within.display());
            return Err(Error::new(ErrorCode::InvalidArgs, what).hint("save the script under another name"));
        }
    }
    for known in EXTENSIONS {
        let other = within.join(format!("{stem}.{known}"));
        if fs::symlink_metadata(&other).is_ok() {
            return Err(taken(&other));
        }
    }
    Ok(within.join(format!("{stem}.{extension}")))
}

fn taken(path: &Path) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("{} is there already", path.display()))
        .hint("give another name: a script is never overwritten")
}

fn failed(code: ErrorCode, path: &Path, error: io::Error) -> Error {
    Error::new(code, path.display().to_string()).caused_by(error)
}

fn create(path: &Path, text: &str) -> Result<()> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => taken(path),
        _ => failed(ErrorCode::Internal, path, error),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(path);
        failed(error)
    })
}

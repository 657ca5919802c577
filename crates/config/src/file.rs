//! Finds and reads the file.

use std::io;
use std::path::{Path, PathBuf};

use super::Env;
use super::document::position;
use super::error::ConfigError;
use base::files;
use base::limits;

/// Longer than any configuration; a device or a wrong file may exceed it.
const LONGEST: u64 = limits::CONFIGURATION.max as u64;

/// `--config`, else `$FORGEFS_CONFIG`, else `./forge.toml`, else `$XDG_CONFIG_HOME/forgefs/forge.toml`.
pub(super) fn find(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(path) = explicit {
        return named(path, cwd, "--config");
    }
    let variable = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable("FORGEFS_CONFIG") {
        return named(&path, cwd, "$FORGEFS_CONFIG");
    }
    if cwd.join("forge.toml").exists() {
        return Ok(Some(cwd.join("forge.toml")));
    }
    Ok(of_user(env).filter(|path| path.exists()))
}

/// File to write to: that of [`find`], else the user's.
pub(super) fn place(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> PathBuf {
    let named = explicit.map(Path::to_owned);
    let named = named.or_else(|| env("FORGEFS_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from));
    let found = || find(None, env, cwd).ok().flatten();
    named.or_else(found).or_else(|| of_user(env)).unwrap_or_else(|| cwd.join("forge.toml"))
}

/// The user's file. The XDG specification ignores relative paths, and defines the default.
fn of_user(env: Env<'_>) -> Option<PathBuf> {
    let variable = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".config")));
    home.map(|home| home.join("forgefs").join("forge.toml"))
}

/// A file given explicitly must exist.
fn named(path: &Path, cwd: &Path, by: &str) -> Result<Option<PathBuf>, ConfigError> {
    match cwd.join(path).exists() {
        true => Ok(Some(path.to_owned())),
        false => {
            Err(fault(path, format!("no such file (named by {by})")).with_hint("`forgefs init` writes a first one"))
        }
    }
}

/// Reads a file as text.
pub(crate) fn read(path: &Path) -> Result<String, ConfigError> {
    let bytes = files::read_named(path, LONGEST).map_err(|error| {
        let message = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
            io::ErrorKind::IsADirectory => "this is a directory, not a file".to_owned(),
            io::ErrorKind::FileTooLarge => "longer than 4MiB: not a configuration".to_owned(),
            io::ErrorKind::InvalidInput => error.to_string(),
            _ => format!("cannot be read: {error}"),
        };
        fault(path, message)
    })?;
    check_text(path, bytes)
}

/// The content of a file as text.
pub fn check_text(path: &Path, bytes: Vec<u8>) -> Result<String, ConfigError> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(fault(path, "this is UTF-16 text".to_owned()).with_hint("save it as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid_to = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid_to]).into_owned();
        let mut fault = fault(path, "not UTF-8 text".to_owned()).with_hint("save it as UTF-8");
        fault.position = Some(position(&text, valid_to));
        fault
    })
}

fn fault(path: &Path, message: String) -> ConfigError {
    ConfigError { file: path.to_owned(), position: None, key: String::new(), message, hint: None }
}

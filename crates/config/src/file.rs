//! Finds and reads the file.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::document::position;
use super::error::ConfigError;
use super::key::own_folder;
use super::{Config, Env};
use base::files;
use base::limits;

/// Longer than any configuration; a device or a wrong file may exceed it.
const LONGEST: u64 = limits::CONFIGURATION.max as u64;

impl Config {
    /// Finds the file to load: `--config`, else `$FORGEFS_CONFIG`, else `forge.toml` in `cwd`, else
    /// `$XDG_CONFIG_HOME/forgefs/forge.toml` (`~/.config` by default). `None` if there is none. An empty `cwd` means
    /// the process's own directory, and gives the short name that reads best in errors.
    ///
    /// # Errors
    /// A file given explicitly does not exist, or one that was not given is planted.
    pub fn find(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> Result<Option<PathBuf>, ConfigError> {
        if let Some(path) = explicit {
            return named(path, cwd, "--config");
        }
        if let Some(path) = variable(env, "FORGEFS_CONFIG") {
            return named(&path, cwd, "$FORGEFS_CONFIG");
        }
        let here = cwd.join("forge.toml");
        if here.exists() {
            return match is_planted(&here) {
                true => Err(ConfigError::of_file(
                    &here,
                    "",
                    "belongs to another user, in a folder that everyone can write to",
                )
                .with_hint("`--config forge.toml` takes it all the same: its servers run as you")),
                false => Ok(Some(here)),
            };
        }
        Ok(of_user(env).filter(|path| path.exists()))
    }

    /// Finds the file to write to: like [`Config::find`], but it need not exist. Without one it is that of the user,
    /// which is found from every folder.
    pub fn place(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> PathBuf {
        let named = explicit.map(Path::to_owned).or_else(|| variable(env, "FORGEFS_CONFIG"));
        let found = || Self::find(None, env, cwd).ok().flatten();
        named.or_else(found).or_else(|| of_user(env)).unwrap_or_else(|| cwd.join("forge.toml"))
    }
}

/// True for a file that another user may have laid into the path of those who work in its folder, such as one in `/tmp`.
fn is_planted(file: &Path) -> bool {
    let is_own = |uid: u32| uid == 0 || uid == nix::unistd::geteuid().as_raw();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_open = folder.metadata().is_ok_and(|folder| folder.mode() & 0o002 != 0);
    is_open && [file.symlink_metadata(), file.metadata()].into_iter().flatten().any(|file| !is_own(file.uid()))
}

/// A path in the environment.
fn variable(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The user's file.
fn of_user(env: Env<'_>) -> Option<PathBuf> {
    own_folder(env, "XDG_CONFIG_HOME", ".config").map(|folder| folder.join("forge.toml"))
}

/// A file given explicitly must exist.
fn named(path: &Path, cwd: &Path, by: &str) -> Result<Option<PathBuf>, ConfigError> {
    match cwd.join(path).exists() {
        true => Ok(Some(path.to_owned())),
        false => Err(ConfigError::of_file(path, "", format!("no such file (named by {by})"))
            .with_hint("`forgefs init` writes a first one")),
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
        ConfigError::of_file(path, "", message)
    })?;
    check_text(path, bytes)
}

/// The content of a file as text.
pub fn check_text(path: &Path, bytes: Vec<u8>) -> Result<String, ConfigError> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(ConfigError::of_file(path, "", "this is UTF-16 text").with_hint("save it as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid_to = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid_to]).into_owned();
        let mut fault = ConfigError::of_file(path, "", "not UTF-8 text").with_hint("save it as UTF-8");
        fault.position = Some(position(&text, valid_to));
        fault
    })
}

//! `forgefs init`: what it writes, and how. The caller prints.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A first `forge.toml`: it loads as it is, and shows one server of each transport to uncomment.
#[must_use]
pub fn starter_config() -> &'static str {
    STARTER
}

/// Writes [`starter_config`], readable by its owner alone: people put tokens into such files.
///
/// # Errors
/// The file exists and `force` is not given, or it cannot be written.
pub fn write(path: &Path, force: bool) -> Result<(), InitError> {
    let failed = |source| InitError::Failed { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    // `create_new` asks and creates in one step, so that no file made in between is lost.
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists { path: path.to_owned() },
        _ => failed(source),
    })?;
    // The mode above is for a new file; an overwritten one keeps its own.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(failed)?;
    file.write_all(STARTER.as_bytes()).and_then(|()| file.flush()).map_err(failed)
}

/// Why no file was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is a file already.
    #[error("{} exists already; --force overwrites it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot write {}: {source}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

const STARTER: &str = r#"# ForgeFS configuration. Every key is explained in forge.toml.example.
# Lines that start with `#` and no space are settings: remove the `#` to use them. `forgefs doctor` checks the result.

# A server that is started here and spoken to on stdin and stdout.
#[servers.filesystem]
#command = "npx"
#args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}"]

# A server that listens on HTTP. ${GITHUB_TOKEN} is taken from the environment when ForgeFS starts.
#[servers.github]
#url = "https://api.githubcopilot.com/mcp/"
#headers = { Authorization = "Bearer ${GITHUB_TOKEN}" }

# What a script may use; these are the defaults.
#[sandbox.limits]
#cpu = "5s"
#wall = "120s"
#heap = "64MiB"
#calls = 50
"#;

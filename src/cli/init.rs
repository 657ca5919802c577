//! `forgefs init`: a first `forge.toml`, empty or with the servers of other hosts.

mod credentials;
mod entry;
mod hidden;
mod import;
mod places;
mod read;
mod references;
mod spelling;
mod translate;
mod typed;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::ui::Ui;
use super::{Failure, Global};
use crate::config::{Config, process_env, read_text};
use crate::files;
pub(super) use entry::key;
use import::{Imported, Sources, import};
pub(super) use typed::{Surroundings, Typed, Words, masked};

#[derive(Args)]
pub(super) struct InitArgs {
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Add to an existing file
    #[arg(long, requires = "import", conflicts_with = "force")]
    append: bool,
    /// Take over the servers of Claude Code, Claude Desktop, Codex, Cursor, VS Code, Windsurf, Zed,
    /// Gemini CLI and opencode: from FILE, or from wherever they keep them
    #[arg(long, value_name = "FILE", num_args = 0..)]
    import: Option<Vec<PathBuf>>,
    /// With --import: write ${NAME} in place of credentials, and say what to export
    #[arg(long, requires = "import")]
    no_secrets: bool,
    /// File to write [default: the file of --config or $FORGEFS_CONFIG, else ./forge.toml]
    path: Option<PathBuf>,
}

pub(super) fn init(global: &Global, args: &InitArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let path = &target(global, args)?;
    let refused = |error: InitError| Failure::usage(error.to_string());
    let Some(files) = &args.import else {
        write(path, args.force).map_err(refused)?;
        ui.note(&format!("wrote {}; `forgefs add` adds servers, `forgefs connect` connects clients", path.display()));
        ui.note(&reading(path));
        return Ok(ExitCode::SUCCESS);
    };
    // First, so that there is no report of a file that is not written.
    if path.exists() && !args.force && !args.append {
        return Err(refused(InitError::Exists { path: path.clone() }).hint("--append adds to it"));
    }
    let existing = if args.append && path.exists() { read_text(path)? } else { String::new() };
    check(&existing, path).map_err(Failure::usage)?;
    let imported = import(Sources {
        files,
        env: &process_env,
        cwd: &std::env::current_dir().unwrap_or_default(),
        target: path,
        existing: servers(&existing),
        leave_out: args.no_secrets,
        is_move: false,
    });
    imported.report.iter().for_each(|line| ui.note(&entry::plain(line)));
    if imported.count == 0 {
        return Err(Failure {
            exit: if imported.broken > 0 { 2 } else { 1 },
            ..Failure::usage("nothing to import".into())
        });
    }
    check_appended(&existing, &imported, path).map_err(Failure::usage)?;
    match existing.is_empty() {
        true => write_text(path, args.force || args.append, &format!("{IMPORTED}{}", imported.text)),
        false => append(path, &imported),
    }
    .map_err(refused)?;
    report(&imported, path, ui);
    Ok(ExitCode::SUCCESS)
}

/// The file to write.
fn target(global: &Global, args: &InitArgs) -> Result<PathBuf, Failure> {
    let named = match (&args.path, &global.config) {
        (Some(path), Some(config)) if path != config => {
            let (path, config) = (path.display(), config.display());
            return Err(Failure::usage(format!("two files to write: {path}, and {config} by --config")));
        }
        (path, config) => path.clone().or_else(|| config.clone()),
    };
    let variable = || process_env("FORGEFS_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.or_else(variable) {
        return Ok(path);
    }
    let path = PathBuf::from(HERE);
    // One that nobody asked for would hide it.
    match Config::find(None, &process_env, Path::new("")) {
        Ok(Some(other)) if other != path => {
            let other = other.display();
            let message =
                format!("there is a configuration already, {other}; a {HERE} here would hide it in this folder");
            Err(Failure::usage(message).hint(&match &args.import {
                None => format!("`forgefs add` adds servers to it; `forgefs init {HERE}` writes one for this folder"),
                Some(_) => format!(
                    "`forgefs --config {other} init --append --import` adds to it; `forgefs init {HERE} --import` writes one \
                     for this folder"
                ),
            }))
        }
        _ => Ok(path),
    }
}

/// Says where forgefs reads a file that was written.
pub(super) fn reading(path: &Path) -> String {
    let cwd = std::env::current_dir().unwrap_or_default();
    let path = cwd.join(path);
    let found = Config::find(None, &process_env, &cwd).ok().flatten();
    if found.is_none_or(|found| cwd.join(found) != path) {
        return format!("forgefs reads it with --config {}", path.display());
    }
    if process_env("FORGEFS_CONFIG").is_some_and(|value| !value.is_empty()) {
        return "forgefs reads it, as FORGEFS_CONFIG names it".to_owned();
    }
    match path == cwd.join(HERE) {
        true => format!("forgefs reads it in this folder only; elsewhere name it: --config {}", path.display()),
        false => format!("forgefs reads it in every folder that has no {HERE}"),
    }
}

fn report(imported: &Imported, path: &Path, ui: Ui) {
    let file = path.display();
    if imported.secrets > 0 {
        let count = imported.secrets;
        ui.note(&format!("warning: credentials in plain text in {file}: {count}; keep it out of version control"));
    }
    ui.note(&format!(
        "servers written to {file}: {}; `forgefs doctor` checks them, `forgefs connect` connects clients",
        imported.count
    ));
    ui.note(&reading(path));
}

/// Servers of one client's file, to be moved into `forge.toml`.
pub(super) struct Moved {
    /// The whole new `forge.toml`.
    pub(super) text: String,
    /// Names of the servers in the client's file that work behind ForgeFS as they did there, and are added.
    pub(super) names: Vec<String>,
    /// Names of the servers in the client's file that `forge.toml` has already.
    pub(super) known: Vec<String>,
    /// Names of the servers that are added to `forge.toml`.
    pub(super) written: Vec<String>,
    /// Remarks for the user, one per line.
    pub(super) report: Vec<String>,
    /// Number of copied credentials.
    pub(super) secrets: usize,
}

/// Imports the servers of `file` as `init --import` does, into a `forge.toml` that holds `existing`.
///
/// # Errors
/// `existing` is invalid, or would be with them.
pub(super) fn take_over(file: &Path, target: &Path, existing: &str) -> Result<Moved, String> {
    check(existing, target)?;
    let imported = import(Sources {
        files: &[file.to_owned()],
        env: &process_env,
        cwd: &std::env::current_dir().unwrap_or_default(),
        target,
        existing: servers(existing),
        leave_out: false,
        is_move: true,
    });
    check_appended(existing, &imported, target)?;
    let start = if existing.is_empty() { IMPORTED.to_owned() } else { format!("{existing}\n") };
    let text = if imported.count == 0 { existing.to_owned() } else { start + &imported.text };
    let report = imported.report.iter().map(|line| entry::plain(line)).collect();
    let Imported { taken_over: names, known, written, secrets, .. } = imported;
    Ok(Moved { text, names, known, written, report, secrets })
}

/// Refuses to add to an invalid configuration.
fn check(existing: &str, target: &Path) -> Result<(), String> {
    let parsed = Config::parse(existing, target, &process_env);
    parsed
        .map(drop)
        .map_err(|error| format!("nothing can be added to an invalid configuration; correct it first: {error}"))
}

/// Refuses to make a configuration invalid.
fn check_appended(existing: &str, imported: &Imported, target: &Path) -> Result<(), String> {
    let text = format!("{existing}\n{}", imported.text);
    let Err(error) = Config::parse(&text, target, &process_env) else { return Ok(()) };
    let hint = match toml::from_str::<toml::Table>(&text) {
        Ok(_) => "",
        Err(_) => "; write the servers that are there as tables `[servers.NAME]` first",
    };
    Err(format!("nothing was written, as the configuration would be invalid then: {error}{hint}"))
}

/// Servers of an existing configuration. `doctor` explains invalid TOML.
fn servers(text: &str) -> toml::Table {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_default();
    match table.remove("servers") {
        Some(toml::Value::Table(servers)) => servers,
        _ => toml::Table::new(),
    }
}

/// A first `forge.toml`: valid as it is, with one commented server of each transport.
#[must_use]
pub fn starter_config() -> &'static str {
    STARTER
}

/// Writes [`starter_config`], readable by its owner only: people put tokens into such files.
///
/// # Errors
/// The file exists and `force` is not given, or it cannot be written.
pub fn write(path: &Path, force: bool) -> Result<(), InitError> {
    write_text(path, force, STARTER)
}

fn write_text(path: &Path, force: bool, text: &str) -> Result<(), InitError> {
    let failed = |source| InitError::Failed { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = files::private();
    // `create_new` checks and creates in one step, so that no file made in between is lost.
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let (mut file, _) = files::open_regular(path, &mut options).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists { path: path.to_owned() },
        _ => failed(source),
    })?;
    // The mode above is for a new file; an overwritten one keeps its own.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(failed)
}

/// Appends the entries to a file, which becomes private: not every credential is recognised.
fn append(path: &Path, imported: &Imported) -> Result<(), InitError> {
    let failed = |source| InitError::Failed { path: path.to_owned(), source };
    let (mut file, _) = files::open_regular(path, OpenOptions::new().append(true)).map_err(failed)?;
    #[cfg(unix)]
    {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(failed)?;
    }
    file.write_all(format!("\n{}", imported.text).as_bytes()).and_then(|()| file.flush()).map_err(failed)
}

/// Reason why no file was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The file exists.
    #[error("{} exists already; --force overwrites it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// An I/O error.
    #[error("cannot write {}: {source}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// File to write if none is named.
const HERE: &str = "forge.toml";

const IMPORTED: &str = "\
#:schema https://raw.githubusercontent.com/forgefs/forgefs/main/docs/forge.schema.json
# ForgeFS configuration, made from those of other MCP hosts. Every key is explained in forge.toml.example.
# A server inherits only PATH, HOME, LANG and the like: what else it needs belongs into its `env`.
";

const STARTER: &str = r#"#:schema https://raw.githubusercontent.com/forgefs/forgefs/main/docs/forge.schema.json
# ForgeFS configuration. Every key is explained in forge.toml.example.
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
#calls = 1000
"#;

//! `forgefs init`: a first `forge.toml`, empty or with the servers of other hosts.

mod env_file;
mod import;
mod places;
mod read;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{Failure, Format, Global, Ui, shapes};
use crate::cli::servers::tell_backup;
use base::files::{Edited, Layout};
use base::limits;
use config::entries::variables;
use config::{Config, process_env};
use env_file::EnvFile;
use import::{Imported, Sources, import};

/// Most bytes of a file.
const LONGEST: u64 = limits::CONFIGURATION.max as u64;

#[derive(Args)]
pub(super) struct InitArgs {
    /// Overwrite an existing file; the old one is kept beside it
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
    #[arg(long, requires = "import", conflicts_with = "inline_secrets")]
    no_secrets: bool,
    /// With --import: write credentials into forge.toml itself, not as references to a private file of variables
    #[arg(long, requires = "import")]
    inline_secrets: bool,
    #[command(flatten)]
    format: Format,
    /// File to write [default: the file of --config or $FORGEFS_CONFIG, else ./forge.toml]
    path: Option<PathBuf>,
}

pub(super) fn init(global: &Global, args: &InitArgs, ui: Ui) -> Result<u8, Failure> {
    let path = &target(global, args)?;
    let exists = || {
        let other = if args.import.is_some() { "--append adds to it," } else { "`forgefs add` adds a server to it;" };
        Failure::usage(format!("{} exists already", path.display()))
            .hint(format!("{other} --force replaces it and keeps the old file beside it"))
    };
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let file = Edited::read(path, LONGEST).map_err(unreadable)?;
    // First, so that there is no report of a file that is not written.
    if file.content().is_some() && !args.force && !args.append {
        return Err(exists());
    }
    // Readable by its owner only: people put tokens into it, and not every credential is recognised.
    let replace = |text: &str| {
        file.replace_private(text.as_bytes()).map_err(|error| match (error.kind(), file.content()) {
            // Another program made it in between.
            (io::ErrorKind::ResourceBusy, None) => exists(),
            _ => Failure::usage(format!("cannot write {}: {error}", path.display())),
        })
    };
    let Some(files) = &args.import else {
        let backup = replace(STARTER)?;
        ui.note(&format!("wrote {}; `forgefs add` adds servers, `forgefs connect` connects clients", path.display()));
        ui.note(&reading(path));
        tell_backup(backup.as_deref(), ui);
        written(args, path, &[], backup.as_deref(), ui);
        return Ok(0);
    };
    let content = file.content().filter(|_| args.append).unwrap_or_default();
    let layout = Layout::of(content).map_err(unreadable)?;
    let existing = layout.plain();
    let old = check(existing, path).map_err(Failure::usage)?;
    let leave_out = !args.inline_secrets;
    let Taken { text, imported, env_file } =
        taken(files, path, (existing, &old), (leave_out, leave_out && !args.no_secrets), None)
            .map_err(Failure::usage)?;
    imported.tell(ui);
    if imported.count == 0 {
        return Err(Failure::usage("nothing to import").exit(if imported.broken > 0 { 2 } else { 1 }));
    }
    check_appended(existing, &imported, path).map_err(Failure::usage)?;
    // First: a configuration that names a file that is not there is not valid.
    if let Some(env_file) = &env_file {
        ui.note(&env_file.write().map_err(|error| Failure::usage(error.to_string()))?);
    }
    let backup = replace(&layout.render(&text))?;
    report(&imported, path, ui);
    tell_backup(backup.as_deref(), ui);
    written(args, path, &imported.written, backup.as_deref(), ui);
    Ok(0)
}

/// With `--json`, prints what was written.
fn written(args: &InitArgs, path: &Path, servers: &[String], backup: Option<&Path>, ui: Ui) {
    if args.format.json {
        shapes::print(json!({ "config": path, "servers": servers, "backup": backup }), ui);
    }
}

/// Servers of other hosts, taken into a configuration.
pub(super) struct Taken {
    /// The whole new configuration.
    pub(super) text: String,
    pub(super) imported: Imported,
    /// The file of its credentials, if they are left out and kept.
    pub(super) env_file: Option<EnvFile>,
}

/// Imports servers into the configuration `existing`. In a move, some stay, with the reason.
fn taken(
    files: &[PathBuf],
    target: &Path,
    (existing, old): (&str, &Config),
    (leave_out, keeps): (bool, bool),
    stays: Option<&BTreeMap<String, String>>,
) -> Result<Taken, String> {
    let (nothing, kept) = (BTreeMap::new(), RefCell::default());
    let in_files = old.file_variables();
    let imported = import(Sources {
        files,
        env: &|name| process_env(name).or_else(|| in_files.get(name).cloned()),
        real: &process_env,
        referred: variables(existing).collect(),
        cwd: &std::env::current_dir().unwrap_or_default(),
        target,
        existing: servers(existing),
        leave_out,
        kept: keeps.then_some(&kept),
        stays: stays.unwrap_or(&nothing),
        is_move: stays.is_some(),
    });
    let text = appended(existing, &imported);
    if imported.variables.is_empty() {
        return Ok(Taken { text, imported, env_file: None });
    }
    let (env_file, text) = EnvFile::of(target, old, &imported.variables, text)?;
    Ok(Taken { text, imported, env_file: Some(env_file) })
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
    // One that was not asked for would hide it.
    match Config::find(None, &process_env, Path::new("")) {
        Ok(Some(other)) if args.append => Ok(other),
        Ok(Some(other)) if other != path => {
            let other = other.display();
            let message =
                format!("there is a configuration already, {other}; a {HERE} here would hide it in this folder");
            Err(Failure::usage(message).hint(match &args.import {
                None => format!("`forgefs add` adds servers to it; `forgefs init {HERE}` writes one for this folder"),
                Some(_) => format!(
                    "`forgefs init --append --import` adds to it; `forgefs init {HERE} --import` writes one for this folder"
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

/// The configuration with the imported servers at its end.
fn appended(existing: &str, imported: &Imported) -> String {
    match (imported.count, existing) {
        (0, existing) => existing.to_owned(),
        (_, "") => format!("{IMPORTED}{}", imported.text),
        (_, existing) => format!("{existing}\n{}", imported.text),
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

/// Imports the servers of `file` as `init --import` does, into a `forge.toml` that holds `existing`, but for those that
/// stay where they are, each with the reason. Returns the new servers alone too, to be tried.
///
/// # Errors
/// `existing` is invalid, or would be with them.
pub(super) fn take_over(
    file: &Path,
    target: &Path,
    existing: &str,
    stays: &BTreeMap<String, String>,
) -> Result<(Taken, Config), String> {
    let old = check(existing, target)?;
    let files = [file.to_owned()];
    let taken = taken(&files, target, (existing, &old), (true, true), Some(stays))?;
    let mut new = Config::empty();
    new.servers = check_appended(existing, &taken.imported, target)?.servers;
    new.servers.retain(|name, _| taken.imported.written.contains(name));
    Ok((taken, new))
}

/// Refuses to add to an invalid configuration.
fn check(existing: &str, target: &Path) -> Result<Config, String> {
    Config::parse(existing, target, &process_env)
        .map_err(|error| format!("nothing can be added to an invalid configuration; correct it first: {error}"))
}

/// Refuses to make a configuration invalid. Its new variables are in no file yet.
fn check_appended(existing: &str, imported: &Imported, target: &Path) -> Result<Config, String> {
    let text = format!("{existing}\n{}", imported.text);
    let known = |name: &str| process_env(name).or_else(|| imported.variables.get(name).cloned());
    Config::parse(&text, target, &known).map_err(|error| {
        let hint = match toml::from_str::<toml::Table>(&text) {
            Ok(_) => "",
            Err(_) => "; write the servers that are there as tables `[servers.NAME]` first",
        };
        format!("nothing was written, as the configuration would be invalid then: {error}{hint}")
    })
}

/// Servers of an existing configuration. `doctor` explains invalid TOML.
fn servers(text: &str) -> toml::Table {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_default();
    match table.remove("servers") {
        Some(toml::Value::Table(servers)) => servers,
        _ => toml::Table::new(),
    }
}

/// File to write if none is named.
const HERE: &str = "forge.toml";

const IMPORTED: &str = concat!(
    "\
#:schema https://raw.githubusercontent.com/forgefs/forgefs/main/docs/forge.schema.json
# ForgeFS configuration, made from those of other MCP hosts. Every key:
# https://github.com/forgefs/forgefs/blob/main/docs/configuration.md
# A server inherits only PATH, HOME, LANG and the like: what else it needs belongs into its `env`.

",
    pins!()
);

/// A first `forge.toml`: valid as it is, with one commented server of each transport.
pub const STARTER: &str = concat!(
    r#"#:schema https://raw.githubusercontent.com/forgefs/forgefs/main/docs/forge.schema.json
# ForgeFS configuration. Every key: https://github.com/forgefs/forgefs/blob/main/docs/configuration.md
# Lines that start with `#` and no space are settings: remove the `#` to use them. `forgefs doctor` checks the result.

# A server that is started here and spoken to on stdin and stdout.
#[servers.filesystem]
#command = "npx"
#args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}"]

# A server that listens on HTTP. ${GITHUB_TOKEN} is taken from the environment when ForgeFS starts.
#[servers.github]
#url = "https://api.githubcopilot.com/mcp/"
#headers = { Authorization = "Bearer ${GITHUB_TOKEN}" }

"#,
    pins!(),
    r#"
# What a script may use; these are the defaults.
#[sandbox.limits]
#cpu = "5s"
#wall = "120s"
#heap = "64MiB"
#calls = 1000
"#
);

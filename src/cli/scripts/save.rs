//! `forgefs scripts save`: a run becomes a function script with a test.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::replay::{called, nowhere, offline, recorded};
use super::super::shapes::{self, Format};
use super::super::test::{CASSETTE, EXTENSIONS};
use super::super::ui::Ui;
use super::super::{Failure, Global, runs};
use crate::broker::ExecutionContext;
use crate::config::{self, Limits};
use crate::error::ErrorCode;
use crate::people;
use crate::redact::{self, Surface};
use crate::scripts::{Saved, Wanted, is_script_name};

#[derive(Args)]
pub(super) struct SaveArgs {
    /// Id of the run, or the beginning of it; `last` is the newest
    run: String,
    /// Name of the script, such as refund_failed or billing/refund_failed
    // With the id of the option for all commands that is spelt the same: it stands in its place here.
    #[arg(id = "client", long = "as", value_name = "NAME")]
    name: String,
    /// Make no literal a parameter
    #[arg(long)]
    keep: bool,
    /// Make literals of this argument parameters, and no others; can be repeated
    #[arg(long, value_name = "KEY", conflicts_with = "keep")]
    param: Vec<String>,
    /// Save a run that failed
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Writes script and cassette into the folder of scripts.
pub(super) async fn save(global: &Global, args: SaveArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    let config::Scripts { path: Some(folder), .. } = &config.scripts else { return Err(super::no_folder()) };
    let parts: Vec<&str> = args.name.split('/').collect();
    if !is_script_name(&args.name) {
        let what = format!("{:?} is no name of a script", redact::text(Surface::Log, &args.name));
        return Err(Failure::usage(people::line(&what).into_owned())
            .hint("write letters, digits and `_`, the first one a letter; `/` for folders; no reserved words"));
    }
    let (id, recorded) = recorded(global, &args.run).await?;
    if recorded.is_cut() {
        return Err(Failure::usage(format!("run {id} did not end by itself: it is no script to keep"))
            .hint("resume it, and save the run that ends"));
    }
    let outcome = recorded.end.as_ref().map(|end| end.outcome.clone()).unwrap_or_default();
    if outcome != "ok" && !args.failed {
        return Err(
            Failure::usage(format!("run {id} failed ({outcome})")).hint("save a run that succeeded, or give --failed")
        );
    }
    let tools = called(&*runs::journals(global)?, &recorded, ui).await?;
    let wanted =
        Wanted { doc: format!("Saved from run {id}."), keep: args.keep, only: args.param.clone(), returns: None };
    let context = nowhere(&offline(global)?);
    let limits = Limits { code_bytes: config.sandbox.limits.code_bytes, ..context.limits.clone() };
    let context = ExecutionContext { limits, redaction: config.redaction, ..context };
    let (saved, cassette) = context.saved(recorded, tools, wanted).await.map_err(|mut error| {
        error.hint.get_or_insert_with(|| "give --keep, or write the function by hand".to_owned());
        let is_usage = error.code == ErrorCode::InvalidArgs;
        let failure = Failure::from(error);
        if is_usage { Failure { exit: 2, ..failure } } else { failure }
    })?;
    let script = place(folder, &parts, saved.extension)?;
    let beside = script.with_file_name(format!("{}{CASSETTE}", parts.last().unwrap_or(&"")));
    create(&script, &saved.code)?;
    if let Err(failure) = create(&beside, &cassette.text()) {
        // A script without its test is half of what was asked for.
        let _ = fs::remove_file(&script);
        return Err(failure);
    }
    tell(&args, &saved, &script, &beside, ui);
    Ok(ExitCode::SUCCESS)
}

/// The file of a script that is not there yet, in a folder that is within that of scripts.
fn place(folder: &Path, parts: &[&str], extension: &str) -> Result<PathBuf, Failure> {
    let wrong = |path: &Path, error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let Some((stem, folders)) = parts.split_last() else { return Err(super::no_folder()) };
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
            return Err(Failure::usage(format!("{} leads out of the folder of scripts", within.display()))
                .hint("save the script under another name"));
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

fn taken(path: &Path) -> Failure {
    Failure::usage(format!("{} is there already", path.display()))
        .hint("give another name: a script is never overwritten")
}

fn create(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => taken(path),
        _ => Failure { exit: 4, ..Failure::usage(format!("{}: {error}", path.display())) },
    };
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

fn tell(args: &SaveArgs, saved: &Saved, script: &Path, cassette: &Path, ui: Ui) {
    if args.format.json {
        let params: Vec<&String> = saved.params.iter().map(|(name, _)| name).collect();
        let files = json!({ "script": script.display().to_string(), "test": cassette.display().to_string() });
        return shapes::print(json!({ "name": args.name, "files": files, "params": params }), ui);
    }
    ui.out(&people::line(&format!("wrote {}", script.display())));
    for (name, default) in &saved.params {
        ui.out(&people::line(&format!("  parameter {name} = {}", redact::text(Surface::Log, default))));
    }
    ui.out(&people::line(&format!("wrote {}, its first test", cassette.display())));
    ui.note("review it, then run `forgefs scripts lock`: without its lock it cannot be called");
}

//! `forgefs scripts save`: a run becomes a function script with a test.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::super::replay::{Export, called, offline, recorded};
use super::super::shapes::{self, Format};
use super::super::test::{CASSETTE, EXTENSIONS};
use super::super::ui::Ui;
use super::super::{Failure, Global, runs};
use crate::config;
use crate::error::Error;
use crate::gateway::Gateway;
use crate::people;
use crate::principal::Principal;
use crate::redact::{self, Results, Surface};
use crate::sandbox;
use crate::scripts::{Saved, Wanted, function};
use crate::shapes::{Given, Shape};

#[derive(Args)]
pub(super) struct SaveArgs {
    /// Id of the run, or the beginning of it; `last` is the newest
    run: String,
    /// Name of the script, such as refund_failed or billing/refund_failed
    #[arg(long = "as", value_name = "NAME")]
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
    if !parts.iter().all(|part| stubgen::is_tool_ident(part)) || parts.len() > crate::limits::SCRIPT_FOLDERS.max {
        let what = format!("{:?} is no name of a script", redact::text(Surface::Log, &args.name));
        return Err(Failure::usage(people::line(&what).into_owned())
            .hint("write letters, digits and `_`, the first one a letter; `/` for folders; no reserved words"));
    }
    let (id, recorded) = recorded(global, &args.run).await?;
    let head = recorded.head.clone();
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
    if redact::text(Surface::Answer(Results::Secrets), &head.code) != head.code {
        return Err(Failure::usage(format!("the script of run {id} has credentials: it is not saved"))
            .hint("configure them at the server, and record the script anew"));
    }
    let value = recorded.end.as_ref().and_then(|end| end.value.as_ref());
    let value = value.and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
    let returns = value.map(|value| Shape::of(&value, &Given::default()).schema());
    let doc = format!("Saved from run {id}.");
    let wanted = Wanted { doc, returns, keep: args.keep, only: args.param.clone() };
    let gateway = offline(global)?;
    let saved = made(&gateway, &head.code, head.language, config.sandbox.limits.code_bytes, &wanted).await?;
    let tools = called(&*runs::journals(global)?, &recorded, ui).await?;
    let export = Export::of(recorded, tools, config.redaction)?;
    let mut before = export.play(&gateway, &head.code, None).await?;
    let no_args = serde_json::value::RawValue::from_string("{}".to_owned()).ok();
    let cassette = export.play(&gateway, &saved.code, no_args).await?;
    before.args.clone_from(&cassette.args);
    before.servers.clone_from(&cassette.servers);
    if before.text() != cassette.text() {
        let what = "as a function the script does something else: it is not saved".to_owned();
        return Err(Failure { exit: 1, ..Failure::usage(what) }.hint("give --keep, or write the function by hand"));
    }
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

/// The function that a script becomes, which has a signature.
async fn made(
    gateway: &Gateway,
    code: &str,
    language: wire::Language,
    code_bytes: usize,
    wanted: &Wanted,
) -> Result<Saved, Failure> {
    let session = gateway.open_only_session(Principal::local());
    let pool = gateway.execution_context(&session).pool;
    let refused = |why: String| {
        Failure::usage(format!("the script cannot be made a function: {}", people::line(&why)))
            .hint("give --keep, or write the function by hand")
    };
    let (code, parts) = pool.parts(language, code, code_bytes).await.map_err(|failure| refused(reason(failure)))?;
    let saved = function(&code, language, &parts, wanted).map_err(refused)?;
    pool.prepare_function(language, &saved.code, code_bytes).await.map_err(|failure| refused(reason(failure)))?;
    Ok(saved)
}

fn reason(failure: sandbox::Failure) -> String {
    match failure {
        sandbox::Failure::Script(error) => format!("line {}: {}", error.line, error.message),
        sandbox::Failure::NotRun(Error { message, .. }) => message,
        _ => "the checker failed".to_owned(),
    }
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

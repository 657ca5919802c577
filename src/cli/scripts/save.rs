//! `forgefs scripts save`: a run becomes a function script with a test.

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::cli::replay::{called, nowhere, offline, recorded};
use crate::cli::{Failure, Format, Global, Ui, shapes};
use base::error::ErrorCode;
use base::outcome::Outcome;
use catalog::people;
use config::{Config, Limits};
use redact::Surface;
use run::broker::ExecutionContext;
use run::parts::Answers;
use run::runs::Runs;
use run::scripts::{self, Saved, Wanted, is_script_name};

#[derive(Args)]
pub(in crate::cli) struct SaveArgs {
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
pub(super) async fn save(global: &Global, args: SaveArgs, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    let config::Scripts { path: Some(folder), .. } = &config.scripts else { return Err(super::no_folder()) };
    if !is_script_name(&args.name) {
        let what = format!("{:?} is no name of a script", redact::text(Surface::Log, &args.name));
        return Err(Failure::usage(people::line(&what).into_owned())
            .hint("write letters, digits and `_`, the first one a letter; `/` for folders; no reserved words"));
    }
    let (id, recorded, journals) = recorded(global, None, &args.run).await?;
    if recorded.is_cut() {
        return Err(Failure::usage(format!("run {id} did not end by itself: it is no script to keep"))
            .hint("resume it, and save the run that ends"));
    }
    let outcome = recorded.end.as_ref().map(|end| end.outcome).unwrap_or_default();
    if outcome != Outcome::Ok && !args.failed {
        return Err(
            Failure::usage(format!("run {id} failed ({outcome})")).hint("save a run that succeeded, or give --failed")
        );
    }
    let tools = called(&journals, &recorded, ui).await?;
    let wanted =
        Wanted { doc: format!("Saved from run {id}."), keep: args.keep, only: args.param.clone(), ..Wanted::default() };
    let context = context(global, &config)?;
    let (saved, cassette) = context.saved(recorded, tools, wanted).await.map_err(|mut error| {
        error.hint.get_or_insert_with(|| "give --keep, or write the function by hand".to_owned());
        if error.code == ErrorCode::InvalidArgs { Failure::of_usage(error) } else { error.into() }
    })?;
    let [script, beside] = scripts::write(folder, &args.name, &saved, &cassette.text()).map_err(|error| {
        let exit = if error.code == ErrorCode::InvalidArgs { 2 } else { 4 };
        Failure::from(error).exit(exit)
    })?;
    tell(&args, &saved, &script, &beside, ui);
    Ok(0)
}

/// A context in which runs become functions, as the configuration bounds and redacts them.
pub(super) fn context(global: &Global, config: &Config) -> Result<ExecutionContext, Failure> {
    let context = nowhere(&offline(global, Limits::default())?);
    let limits = Limits { code_bytes: config.sandbox.limits.code_bytes, ..context.limits.clone() };
    let answers = Answers { redaction: config.redaction, ..context.runs.answers };
    Ok(ExecutionContext { limits, runs: Runs { answers, ..context.runs }, ..context })
}

fn tell(args: &SaveArgs, saved: &Saved, script: &Path, cassette: &Path, ui: Ui) {
    if args.format.json {
        let params: Vec<&String> = saved.params.iter().map(|(name, _)| name).collect();
        let files = json!({ "script": script.display().to_string(), "test": cassette.display().to_string() });
        return shapes::print(json!({ "name": args.name, "files": files, "params": params }), ui);
    }
    ui.out(&people::line(&format!("wrote {}", script.display())));
    for (name, default) in &saved.params {
        let default =
            if default.is_empty() { String::new() } else { format!(" = {}", redact::text(Surface::Log, default)) };
        ui.out(&people::line(&format!("  parameter {name}{default}")));
    }
    ui.out(&people::line(&format!("wrote {}, its first test", cassette.display())));
    ui.note("review it, then run `forgefs scripts lock`: without its lock it cannot be called");
}

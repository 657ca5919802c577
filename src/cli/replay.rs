//! `forgefs replay` and `forgefs journal export`: a recorded run again, on its journal alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use wire::Language;

use super::reports::write;
use super::run::{language, read};
use super::{Failure, Format, Global, Ui, runs, shapes};
use base::principal::Principal;
use base::text::counted;
use config::{Config, Limits};
use redact::{Outgoing as _, Surface};
use run::broker::ExecutionContext;
use run::execution::{Called, Export, Played};
use run::replay::{Tool, shown};
use run::scripts::{CASSETTE, EXTENSIONS};
use server::gateway::Gateway;
use state::journal::{Journals, Recorded};

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// Id of the run, or the beginning of it; `last` is the newest
    run: String,
    /// Another script, on the answers of that run
    #[arg(long, value_name = "FILE")]
    code: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Subcommand)]
pub(super) enum JournalCommand {
    /// Make a cassette of a run: its script, run again on redacted answers
    Export {
        /// Id of the run, or the beginning of it; `last` is the newest
        run: String,
        /// File to write, such as triage.cassette.json; the script is written beside it if it is not there [default:
        /// standard output]
        #[arg(short, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
}

/// A gateway without servers: a pool of workers, and nothing to call.
pub(super) fn offline(global: &Global, limits: Limits) -> Result<Gateway, Failure> {
    let mut config = Config::empty();
    config.sandbox.limits = limits;
    global.start(config, Vec::new())
}

/// The context of a script that calls nothing.
pub(super) fn nowhere(gateway: &Gateway) -> ExecutionContext {
    let session = gateway.open_only_session(Principal::local());
    gateway.execution_context(&session)
}

/// The tools that a run called, for its cassette; tells what is not known of them.
pub(super) async fn called(journals: &Journals, recorded: &Recorded, ui: Ui) -> Result<Vec<Tool>, Failure> {
    let Called { tools, gone } = Called::of(journals, recorded).await?;
    for id in gone {
        ui.note(&format!("the journal of run {id} is gone: the cassette has no definitions of its calls"));
    }
    Ok(tools)
}

pub(super) async fn replay(global: &Global, args: ReplayArgs, ui: Ui) -> Result<u8, Failure> {
    let (run, recorded, _) = recorded(global, global.only()?, &args.run).await?;
    let other = args.code.as_ref().map(|file| Ok::<_, Failure>((language(None, file)?, read(file)?))).transpose()?;
    let (is_other, operations) = (other.is_some(), recorded.operations.len());
    let gateway = offline(global, Limits::default())?;
    let playing = nowhere(&gateway).play(recorded, other);
    let (played, said) = ui.waiting(|| format!("replaying {run}"), playing).await?;
    if args.format.json {
        let object = json!({
            "run": run,
            "same": said.is_same,
            "operations": operations,
            "parted": said.parted,
            "summary": said.summary,
            "value": played.result.as_ref().and_then(|result| result.as_ref().ok()),
            "error": played.error(),
            "output": played.output,
        });
        shapes::print(object.redacted(Surface::Log), ui);
    } else {
        if is_other {
            show(&played, ui);
        }
        ui.out(&said.summary);
        if let Some(parted) = &said.parted {
            ui.out(parted);
        }
    }
    Ok(u8::from(!said.is_same))
}

/// Result of a script on other answers.
fn show(played: &Played, ui: Ui) {
    for line in redact::text(Surface::Log, &played.output).lines() {
        ui.note(line);
    }
    match &played.result {
        Some(Ok(value)) => ui.json(&redact::json_text(Surface::Log, value.get())),
        Some(Err(_)) => ui.note(&format!("error: {}", shown(&played.error().unwrap_or_default()))),
        None => {}
    }
}

/// Id of the run that begins so, of a client if one is given, its record, and the journals that have it.
pub(super) async fn recorded(
    global: &Global,
    by: Option<String>,
    begin: &str,
) -> Result<(String, Recorded, Arc<Journals>), Failure> {
    let journals = runs::journals(global)?;
    runs::know_secrets(global).await?;
    let run = runs::find(&journals, by.as_deref(), begin).await?;
    if run.file.is_running {
        return Err(Failure::usage(format!("run {} is still running", run.file.id)).hint("wait for its end"));
    }
    let recorded = journals.recorded(&run).await?;
    if recorded.head.limits.is_none() {
        let what = format!("the journal of run {} has no namespaces: an older ForgeFS wrote it", run.file.id);
        return Err(Failure::usage(what).hint("run the script anew"));
    }
    Ok((run.file.id, recorded, journals))
}

pub(super) async fn journal(global: &Global, command: JournalCommand, ui: Ui) -> Result<u8, Failure> {
    let JournalCommand::Export { run, out, format } = command;
    let (id, recorded, journals) = recorded(global, global.only()?, &run).await?;
    let tools = called(&journals, &recorded, ui).await?;
    if recorded.is_cut() {
        return Err(Failure::usage(format!("run {id} did not end by itself: nothing is to be expected of it"))
            .hint("resume it, and export the run that ends"));
    }
    let code = recorded.head.code.clone();
    let language = recorded.head.language;
    let export = Export::of(recorded, tools, global.load(false)?.redaction)?;
    let cassette = export.play(&nowhere(&offline(global, Limits::default())?), &code, None).await?;
    let Some(out) = out else {
        match format.json {
            true => shapes::print(json!({ "run": id, "cassette": cassette }), ui),
            false => ui.json(&cassette.text()),
        }
        return Ok(0);
    };
    write(&out, &cassette.text(), false)?;
    ui.note(&format!("wrote {}: {}", out.display(), counted(cassette.operations.len(), "operation")));
    beside(&out, language, &code, ui)?;
    if format.json {
        shapes::print(json!({ "run": id, "file": out, "operations": cassette.operations.len() }), ui);
    }
    Ok(0)
}

/// Writes the script beside its cassette, unless one is there.
fn beside(cassette: &Path, language: Language, code: &str, ui: Ui) -> Result<(), Failure> {
    let name = cassette.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(CASSETTE) else {
        ui.note(&format!("`forgefs test` looks for a cassette called NAME{} beside NAME.js or the like", CASSETTE));
        return Ok(());
    };
    if EXTENSIONS.iter().any(|extension| cassette.with_file_name(format!("{stem}.{extension}")).exists()) {
        return Ok(());
    }
    let extension = match language {
        Language::Javascript => "js",
        Language::Starlark => "star",
    };
    let path = cassette.with_file_name(format!("{stem}.{extension}"));
    if redact::text(Surface::Answer(redact::Results::Secrets), code) != code {
        ui.note(&format!("{} is not written: the script itself has credentials", path.display()));
        return Ok(());
    }
    write(&path, code, false)?;
    ui.note(&format!("wrote {}", path.display()));
    Ok(())
}

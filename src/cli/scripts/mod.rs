//! `forgefs scripts`: scripts that are tools, and their lock.

mod accept;
mod examine;
mod proposals;
mod rights;
mod save;
mod suggest;
mod told;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::reports::{Report, ReportArgs};
use super::shapes::{self, Format};
use super::test::{self, Results};
use super::ui::Ui;
use super::{Failure, Global};
use base::text::counted;
use catalog::people;
use config::Config;
use examine::Examined;
use run::scripts::{self, FILE, Folder, Listed, Lock, differences};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List the scripts, and which are what their lock says
    List(Format),
    /// Write scripts.lock: what each script may call and use, as its text shows
    Lock(Format),
    /// Save a recorded run as a script: a function with its literals as parameters, and its first test
    Save(save::SaveArgs),
    /// Find recorded runs that differ in literals alone, and propose one script for them
    Suggest(suggest::SuggestArgs),
    /// List the scripts that agents propose, or show one: the difference, what it may call, and its test
    Proposals(proposals::ProposalsArgs),
    /// Take a proposed script and its test into the folder of scripts
    Accept(accept::AcceptArgs),
    /// Remove a proposed script
    Reject(accept::RejectArgs),
    /// Compare scripts and tools with scripts.lock, find mistakes, and run the tests beside the scripts
    Check(ReportArgs),
}

fn no_folder() -> Failure {
    Failure::usage("there is no folder of scripts")
        .hint("name it in the configuration: `[scripts]`, `path = \"scripts/\"`")
}

/// The scripts of a configuration.
struct Place {
    config: Config,
    folder: Folder,
    path: PathBuf,
}

impl Place {
    fn of(global: &Global) -> Result<Self, Failure> {
        let config = global.load(false)?;
        let config::Scripts { path: Some(path), .. } = &config.scripts else {
            return Err(no_folder());
        };
        let path = path.clone();
        let folder = folder(&path, &config)?;
        Ok(Self { config, folder, path })
    }

    /// The lock, as it was read.
    fn lock(&self) -> Result<Option<Lock>, Failure> {
        Lock::load(&self.config.scripts.lock).map_err(Failure::of_usage)
    }
}

fn folder(path: &Path, config: &Config) -> Result<Folder, Failure> {
    Folder::read(path, config.sandbox.limits.code_bytes).and_then(Folder::whole).map_err(Failure::of_usage)
}

pub(super) async fn scripts(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    match command {
        Command::Save(args) => save::save(global, args, ui).await,
        Command::Suggest(args) => suggest::suggest(global, &args, ui).await,
        Command::Proposals(args) => proposals::proposals(global, args, ui).await,
        Command::Accept(args) => accept::accept(global, &args, ui),
        Command::Reject(args) => accept::reject(global, &args, ui),
        Command::List(format) => list(&Place::of(global)?, format, ui),
        Command::Lock(format) => lock(global, Place::of(global)?, format, ui).await,
        Command::Check(report) => check(global, Place::of(global)?, &report, ui).await,
    }
}

fn list(place: &Place, Format { json }: Format, ui: Ui) -> Result<u8, Failure> {
    let lock = place.lock()?;
    // Tools are compared by `check`, which starts their servers.
    let reason = |source| scripts::reason(source, &place.folder, lock.as_ref(), |_, _| Listed::Unknown);
    let mut entries = Vec::new();
    for source in &place.folder.scripts {
        let reason = reason(source);
        let file = told::file(&place.path, source);
        if !json {
            ui.out(&people::line(&format!("{}  {}", source.name, reason.as_deref().unwrap_or("locked"))));
        }
        let locked = lock.as_ref().and_then(|lock| lock.scripts.get(&source.name));
        let calls: Option<Vec<String>> = locked.map(|locked| locked.calls.iter().map(ToString::to_string).collect());
        entries.push(
            json!({ "name": source.name, "file": file, "locked": reason.is_none(), "reason": reason, "calls": calls }),
        );
    }
    let gone = lock.iter().flat_map(|lock| lock.scripts.keys()).filter(|name| place.folder.get(name).is_none());
    let gone: Vec<&String> = gone.collect();
    if json {
        shapes::print(json!({ "scripts": entries, "gone": gone }), ui);
    } else {
        gone.iter().for_each(|name| ui.out(&format!("{name}  only in {FILE}: the script is gone")));
        if entries.is_empty() {
            ui.note("the folder has no scripts: NAME.js, NAME.ts or NAME.star");
        }
    }
    Ok(0)
}

async fn lock(global: &Global, place: Place, format: Format, ui: Ui) -> Result<u8, Failure> {
    let before = place.lock().unwrap_or_else(|error| {
        ui.note(&format!("{}; it is written anew", error.message));
        None
    });
    let examined = examine::all(global, &place, ui).await?;
    let refused = examined.iter().filter(|examined| !examined.refused.is_empty()).count();
    let now = examine::lock_of(&examined);
    let changed = differences(&before.clone().unwrap_or_default(), &now);
    let is_written = refused == 0 && before.as_ref() != Some(&now);
    if is_written {
        let path = &place.config.scripts.lock;
        now.write(path).map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
    }
    if format.json {
        let scripts = told::as_json(&place.path, &examined, &changed);
        shapes::print(json!({ "locked": refused == 0, "written": is_written, "scripts": scripts }), ui);
    } else {
        examined.iter().for_each(|examined| told::findings(&place.path, examined, false, ui));
        told::changes(&changed, ui);
        let count = counted(examined.len(), "script");
        ui.out(&match (refused, is_written) {
            (0, true) => format!("wrote {FILE}: {count}"),
            (0, false) => format!("{FILE} is up to date: {count}"),
            (refused, _) => format!("{FILE} is not written: {refused} of {count} cannot be locked"),
        });
    }
    Ok(exit(&examined, false))
}

async fn check(global: &Global, place: Place, args: &ReportArgs, ui: Ui) -> Result<u8, Failure> {
    let before = place.lock()?;
    let examined = examine::all(global, &place, ui).await?;
    let changed = differences(&before.clone().unwrap_or_default(), &examine::lock_of(&examined));
    let tests = test::below(global, &place.path).await?;
    let mut code = exit(&examined, !changed.is_empty() || before.is_none());
    if tests.as_ref().is_some_and(|tests| tests.failed() > 0) {
        code = 1;
    }
    let report = Report {
        command: "scripts check",
        problems: told::problems(&place, &examined, before.is_some(), &changed, tests.as_ref()),
        passed: code == 0,
    };
    let object = || {
        let scripts = told::as_json(&place.path, &examined, &changed);
        json!({ "passed": code == 0, "scripts": scripts, "tests": tests.as_ref().map(Results::report) })
    };
    let text = || {
        examined.iter().for_each(|examined| told::findings(&place.path, examined, true, ui));
        told::changes(&changed, ui);
        if before.is_none() {
            ui.out(&format!("there is no {FILE}: `forgefs scripts lock` writes it"));
        }
        match &tests {
            Some(tests) => tests.tell(ui),
            None => ui.note("no tests: no NAME.cassette.json is beside a script"),
        }
        let count = counted(examined.len(), "script");
        ui.out(&match code {
            0 => format!("{count}: as {FILE} says"),
            3 => format!("{count}: not all was compared"),
            _ => format!("{count}: not as {FILE} says, or wrong; review, then `forgefs scripts lock`"),
        });
    };
    report.tell(args, object, text, ui)?;
    Ok(code)
}

/// 1 for a script that is wrong or differs, 3 if all that is wrong is that servers do not answer.
fn exit(examined: &[Examined], differs: bool) -> u8 {
    let wrong = examined.iter().any(|examined| examined.refused.iter().any(|refusal| !refusal.is_unknown));
    let unknown = examined.iter().any(|examined| !examined.refused.is_empty());
    match (wrong, unknown, differs) {
        (true, ..) | (false, false, true) => 1,
        (false, true, _) => 3,
        (false, false, false) => 0,
    }
}

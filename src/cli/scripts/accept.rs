//! `forgefs scripts accept` and `reject`: a person's decision about a proposed script.

use std::fs;
use std::io::{self, ErrorKind};
use std::iter;
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::proposals::Desk;
use super::told::{self, shown};
use crate::cli::{Failure, Format, Global, Ui, shapes};
use base::limits;
use base::tree::Tree;
use catalog::people;
use run::proposals::{Kept, Proposal};
use run::scripts::{CASSETTE, further_tests};

#[derive(Args)]
pub(in crate::cli) struct AcceptArgs {
    /// Name of the proposed script
    name: String,
    /// Accept only what `forgefs scripts proposals NAME` showed with this digest
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Replace the script of this name, and its test
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Args)]
pub(in crate::cli) struct RejectArgs {
    /// Name of the proposed script, or of a damaged file
    name: String,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Moves a script and its test into the folder of scripts.
///
/// A script without a test is whole, a test of another script is not: an old test goes first, then comes the script, then
/// its tests, and at last the proposal is removed. Accepting it again completes what was begun.
pub(super) fn accept(global: &Global, args: &AcceptArgs, ui: Ui) -> Result<u8, Failure> {
    let desk = Desk::of(global)?;
    desk.find(&args.name)?;
    let alone = desk.proposals.alone()?;
    let kept = desk.find(&args.name)?;
    if args.digest.as_ref().is_some_and(|digest| *digest != desk.digest(&kept)) {
        let what =
            format!("the proposal {}, or the script that it changes, is not the one with that digest", args.name);
        return Err(Failure::usage(what).exit(1).hint("`forgefs scripts proposals NAME` shows what is there now"));
    }
    fits(&desk, &kept, args.replace)?;
    let (script, tests) = files(&kept);
    let folder = &desk.place.path;
    let removed = put(folder, (&script, &kept.proposal.code), &tests, args.replace)?;
    desk.proposals.remove(&kept.file, &alone)?;
    let script = shown(folder, &script);
    let removed: Vec<String> = removed.iter().map(|test| shown(folder, test)).collect();
    let written: Vec<String> = tests.iter().map(|(test, _)| shown(folder, test)).collect();
    if args.format.json {
        let files = json!({ "script": script, "test": written.first() });
        shapes::print(json!({ "name": args.name, "files": files, "removed": removed }), ui);
        return Ok(0);
    }
    ui.out(&people::line(&format!("wrote {script}")));
    for (number, test) in written.iter().enumerate() {
        ui.out(&people::line(&format!("wrote {test}{}", if number == 0 { ", its first test" } else { "" })));
    }
    for test in &removed {
        ui.out(&people::line(&format!("removed {test}, a test of the script before")));
    }
    ui.note(match desk.place.config.scripts.unlocked {
        true => "run `forgefs scripts lock`; with `unlocked = true` it can be called already",
        false => "run `forgefs scripts lock`: without its lock it cannot be called",
    });
    Ok(0)
}

/// Script and tests of a proposal, by their paths in the folder of scripts; the tests with what they have.
fn files(kept: &Kept) -> (String, Vec<(String, &str)>) {
    let Proposal { name, extension, .. } = &kept.proposal;
    (format!("{name}.{}", extension.as_str()), names_of_tests(name).zip(kept.proposal.tests()).collect())
}

/// Names of the tests of a script, the first one first.
fn names_of_tests(name: &str) -> impl Iterator<Item = String> {
    iter::once(format!("{name}{CASSETTE}")).chain(further_tests(name))
}

/// Tests of the script before that go with it: those that have no successor among the tests of a proposal.
pub(super) fn left_over(folder: &Path, kept: &Kept) -> Vec<String> {
    old_tests(folder, &kept.proposal.name, &files(kept).1).map(|test| shown(folder, &test)).collect()
}

/// Names of the tests of a script that are in the folder, and are none of these.
fn old_tests<'a>(folder: &'a Path, name: &'a str, tests: &'a [(String, &str)]) -> impl Iterator<Item = String> + 'a {
    let is_new = |old: &String| tests.iter().any(|(test, _)| test == old);
    names_of_tests(name).filter(move |old| !is_new(old) && is_there(folder, old))
}

fn is_there(folder: &Path, file: &str) -> bool {
    fs::symlink_metadata(folder.join(file)).is_ok()
}

/// Refuses what would make the folder of scripts unreadable, or replace what is not to be replaced.
fn fits(desk: &Desk, kept: &Kept, replaces: bool) -> Result<(), Failure> {
    let (proposal, folder) = (&kept.proposal, &desk.place.folder);
    let refused = |what: String, hint: &str| Err(Failure::usage(what).exit(1).hint(hint));
    let ident = |name: &str| name.replace('/', "_").to_lowercase();
    let same = folder.scripts.iter().find(|script| ident(&script.name) == ident(&proposal.name));
    if let Some(other) = same.filter(|other| other.name != proposal.name) {
        let what = format!("the tool of {} has the same name", told::file(&desk.place.path, other));
        return refused(what, "reject it: `/`, `_` and case do not tell two scripts apart");
    }
    let (script, _) = files(kept);
    if let Some(current) = same {
        if current.path.extension().is_none_or(|extension| extension != proposal.extension.as_str()) {
            let what = format!("{} has another extension than {script}", told::file(&desk.place.path, current));
            return refused(what, "remove that script first, or reject the proposal");
        }
        if current.path.is_symlink() {
            let what = format!("{} is a link", told::file(&desk.place.path, current));
            return refused(what, "put the file itself there first");
        }
    }
    let is_done = same.is_some_and(|current| *current.code == *proposal.code);
    if same.is_some() && !is_done && !replaces {
        return Err(taken(&desk.place.path, &script));
    }
    // A test that is there already would be taken for one of this script.
    if let Some(test) =
        names_of_tests(&proposal.name).find(|test| is_there(&desk.place.path, test) && !replaces && !is_done)
    {
        return Err(taken(&desk.place.path, &test));
    }
    let code_bytes = desk.place.config.sandbox.limits.code_bytes;
    if proposal.code.len() > code_bytes {
        let what = format!("the script has {} bytes, over the limit of {code_bytes} bytes", proposal.code.len());
        return refused(what, "raise `sandbox.limits.code`, or reject it");
    }
    let all: usize = folder.scripts.iter().map(|script| script.code.len()).sum();
    if folder.scripts.len() >= limits::SCRIPTS.max || all + proposal.code.len() > limits::SCRIPTS_BYTES.max {
        let what =
            format!("the folder has {} scripts of {all} bytes: there is no room for another", folder.scripts.len());
        return refused(what, "move scripts that are no tools elsewhere");
    }
    Ok(())
}

/// Writes a script and its tests; the names of tests that it removed and that none of these replaces.
fn put(
    folder: &Path,
    (script, code): (&str, &str),
    tests: &[(String, &str)],
    replaces: bool,
) -> Result<Vec<String>, Failure> {
    let failed = |error: io::Error| Failure::internal(format!("{}: {error}", folder.display()));
    let tree = Tree::make(folder).map_err(failed)?;
    let has = |file: &str, text: &str| tree.read(file, text.len() as u64).is_ok_and(|own| own == text.as_bytes());
    for (test, _) in tests.iter().filter(|(test, text)| is_there(folder, test) && !has(test, text)) {
        if !replaces {
            return Err(taken(folder, test));
        }
        tree.remove(test).map_err(failed)?;
    }
    let (name, _) = script.rsplit_once('.').unwrap_or((script, ""));
    // Tests of the script before are none of this one.
    let removed: Vec<String> = old_tests(folder, name, tests).filter(|_| replaces).collect();
    removed.iter().try_for_each(|test| tree.remove(test)).map_err(failed)?;
    let all =
        iter::once((script, code, replaces)).chain(tests.iter().map(|(test, text)| (test.as_str(), *text, false)));
    for (file, text, replaces) in all.filter(|(file, text, _)| !has(file, text)) {
        tree.put(file, text.as_bytes(), replaces).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => taken(folder, file),
            _ => failed(error),
        })?;
    }
    Ok(removed)
}

fn taken(folder: &Path, file: &str) -> Failure {
    Failure::usage(format!("{} is there already", shown(folder, file)))
        .exit(1)
        .hint("look at the difference, then give --replace; or reject the proposal")
}

/// Removes a proposal.
pub(super) fn reject(global: &Global, args: &RejectArgs, ui: Ui) -> Result<u8, Failure> {
    let desk = Desk::of(global)?;
    let is_file =
        desk.proposals.list()?.iter().any(|found| found.as_ref().err().is_some_and(|(file, _)| *file == args.name));
    let file = if is_file { args.name.clone() } else { desk.find(&args.name)?.file };
    let alone = desk.proposals.alone()?;
    desk.proposals.remove(&file, &alone)?;
    let shown = desk.proposals.shown(&file);
    let text = format!("removed {shown}");
    args.format.out(json!({ "name": args.name, "removed": shown }), &people::line(&text), ui);
    Ok(0)
}

//! What is printed of scripts and their locks.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Place;
use super::examine::{Examined, Refusal};
use crate::cli::Ui;
use crate::cli::reports::{self, Problem};
use crate::cli::test::Results;
use base::error::code_name;
use catalog::findings::Severity;
use catalog::people;
use run::scripts::{FILE, Source};

/// A file of the folder of scripts as people know it: below the folder's name.
pub(super) fn shown(folder: &Path, file: impl AsRef<Path>) -> String {
    Path::new(folder.file_name().unwrap_or_default()).join(file).display().to_string()
}

/// The file of a script, as [`shown`].
pub(super) fn file(folder: &Path, source: &Source) -> String {
    shown(folder, source.path.strip_prefix(folder).unwrap_or(&source.path))
}

/// Prints why scripts cannot be locked, and their warnings if asked to.
pub(super) fn findings(folder: &Path, examined: &Examined, with_warnings: bool, ui: Ui) {
    let file = file(folder, &examined.source);
    let line = |at: Option<(u32, u32)>, level: &str, message: &str, fix: &str| {
        let place = at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
        ui.out(&people::line(&format!("{file}{place}: {level}: {message}")));
        ui.out(&people::line(&format!("  fix: {fix}")));
    };
    for Refusal { at, message, fix, .. } in &examined.refused {
        line(*at, "error", message, fix);
    }
    for warning in examined.warnings.iter().filter(|_| with_warnings) {
        let message = format!("{}: {}", code_name(warning.code), warning.message);
        line(Some((warning.line, warning.column)), "warning", &message, &warning.suggested_fix);
    }
}

/// Prints what differs from the lock, by script.
pub(super) fn changes(changed: &BTreeMap<String, Vec<String>>, ui: Ui) {
    for (script, differences) in changed {
        ui.out(&format!("{script}:"));
        differences.iter().for_each(|difference| ui.out(&people::line(&format!("  {difference}"))));
    }
}

/// Faults, as problems of files.
pub(super) fn problems(
    place: &Place,
    examined: &[Examined],
    is_locked: bool,
    changed: &BTreeMap<String, Vec<String>>,
    tests: Option<&Results>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !is_locked {
        let message = format!("there is no {FILE}: `forgefs scripts lock` writes it");
        problems.push(Problem::new(Severity::Error, "no-lock", None, message));
    }
    for examined in examined {
        let file = || Some(reports::place(&examined.source.path));
        let refused = examined.refused.iter().map(|Refusal { at, rule, message, fix, .. }| {
            let message = message.strip_prefix(&format!("{rule}: ")).unwrap_or(message);
            Problem::new(Severity::Error, rule, file(), format!("{message}; {fix}")).at(*at)
        });
        problems.extend(refused);
        let warnings = examined.warnings.iter();
        problems.extend(warnings.map(|warning| reports::mistake(Severity::Warning, file(), warning)));
    }
    let path_of = |script: &String| {
        let found = examined.iter().find(|examined| examined.source.name == *script);
        found.map_or(&place.config.scripts.lock, |examined| &examined.source.path)
    };
    for (script, differences) in changed.iter().filter(|_| is_locked) {
        let message = format!("{script} is not as {FILE} says: {}", differences.join("; "));
        problems.push(Problem::new(Severity::Error, "lock", Some(reports::place(path_of(script))), message));
    }
    problems.extend(tests.into_iter().flat_map(Results::problems));
    problems
}

/// The scripts as JSON, with those that are only in the lock.
pub(super) fn as_json(folder: &Path, examined: &[Examined], changed: &BTreeMap<String, Vec<String>>) -> Vec<Value> {
    let no_changes = Vec::new();
    let there = examined.iter().map(|examined| {
        let name = &examined.source.name;
        json!({
            "name": name,
            "file": file(folder, &examined.source),
            "mistakes": examined.refused.iter().map(Refusal::json).collect::<Vec<_>>(),
            "warnings": examined.warnings,
            "changes": changed.get(name).unwrap_or(&no_changes),
        })
    });
    let is_gone = |name: &&String| !examined.iter().any(|examined| examined.source.name == **name);
    let gone = changed.iter().filter(|(name, _)| is_gone(name)).map(
        |(name, changes)| json!({ "name": name, "file": null, "mistakes": [], "warnings": [], "changes": changes }),
    );
    there.chain(gone).collect()
}

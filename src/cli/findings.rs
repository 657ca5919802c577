//! Findings as lines, as JSON and as problems, for `doctor` and `stubs check`.

use std::collections::{BTreeMap, HashMap};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reports::Problem;
use base::text::counted;
use catalog::Catalog;
use catalog::findings::{Finding, Item, Severity};
use catalog::manifest::ServerEntry;
use redact::Surface;

/// Least severity of a finding that fails a check.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// Any warning or error
    Warning,
    /// Any error
    Error,
    /// No finding
    Never,
}

impl FailOn {
    /// True if a check with these findings fails.
    pub(super) fn fails(self, found: &[Found<'_>]) -> bool {
        let least = match self {
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
            Self::Never => return false,
        };
        found.iter().any(|found| found.finding.severity >= least)
    }
}

/// A finding with its server.
pub(super) struct Found<'a> {
    pub(super) server: &'a ServerEntry,
    pub(super) finding: &'a Finding,
}

/// All findings of a catalog, worst first.
pub(super) fn all(catalog: &Catalog) -> Vec<Found<'_>> {
    let of = |server| catalog.findings(server).map(move |finding| Found { server, finding });
    let mut found: Vec<Found<'_>> = catalog.servers().iter().flat_map(|server| of(&**server)).collect();
    found.sort_by(|a, b| (a.finding, &a.server.name).cmp(&(b.finding, &b.server.name)));
    found
}

/// Name of the file of accepted findings in a reviewed tree.
pub(super) const ACCEPTED: &str = "accepted.json";

/// Accepted findings: by server, by digest.
pub(super) type Accepted = BTreeMap<String, BTreeMap<String, Acceptance>>;

/// Who accepted a finding, and why.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acceptance {
    pub(super) who: String,
    pub(super) why: String,
    /// The finding, for readers of the file.
    pub(super) finding: String,
}

/// Takes the accepted findings out of `found`; returns them.
pub(super) fn take<'a>(found: &mut Vec<Found<'a>>, accepted: &Accepted) -> Vec<Found<'a>> {
    let is_accepted = |found: &mut Found<'_>| {
        accepted.get(&found.server.name).is_some_and(|of| of.contains_key(&found.finding.digest))
    };
    found.extract_if(.., is_accepted).collect()
}

/// The first of equal findings, and their number.
fn unequal<'f, 'a>(found: &'f [Found<'a>]) -> Vec<(&'f Found<'a>, usize)> {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    let mut all: Vec<(&Found<'_>, usize)> = Vec::new();
    for one in found {
        let at = *known.entry((&one.server.name, &one.finding.digest)).or_insert(all.len());
        match all.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => all.push((one, 1)),
        }
    }
    all
}

/// A line for each finding of at least a warning, with what to do and its digest, and one that counts the notes. Equal
/// findings are one line.
pub(super) fn lines(catalog: &Catalog, found: &[Found<'_>]) -> Vec<String> {
    let notes = found.iter().filter(|found| found.finding.severity == Severity::Note).count();
    let others = unequal(found).into_iter().filter(|(found, _)| found.finding.severity > Severity::Note);
    let mut lines: Vec<String> = others.map(|(found, count)| message(found, count)).collect();
    let more: usize = catalog.servers().iter().map(|server| server.findings.get().more).sum();
    if more > 0 {
        lines.push(format!("{more} more are not listed"));
    }
    if notes > 0 {
        lines.push(format!("{}; --json lists them", counted(notes, "note")));
    }
    lines
}

fn message(found: &Found<'_>, count: usize) -> String {
    let Found { server, finding } = found;
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    format!("{}: {}{times}; {} [{}]", server.name, line(finding), finding.rule.advice, finding.digest)
}

/// A finding on one line, without its server.
pub(super) fn line(finding: &Finding) -> String {
    redact::text(Surface::Log, &finding.line()).into_owned()
}

/// All findings as JSON.
pub(super) fn json(found: &[Found<'_>]) -> Value {
    found.iter().map(|found| found.finding.json(&found.server.name)).collect()
}

/// Unequal findings as problems. `artifact` names the file in which a finding is reported.
pub(super) fn problems(found: &[Found<'_>], artifact: impl Fn(&Found<'_>) -> String) -> Vec<Problem> {
    let problem = |(found, count): (&Found<'_>, usize)| {
        let Finding { rule, severity, place, excerpt, .. } = found.finding;
        let name = format!("{}/{}", found.server.name, place.item);
        let digest = stubgen::digest(format!("{name} {} {} {excerpt}", place.pointer, rule.id));
        let mut problem = Problem::new(*severity, rule.id, Some(artifact(found)), message(found, count));
        problem.definition = Some((format!("{name}#{}", place.pointer), kind(&place.item)));
        problem.fingerprint = Some(digest);
        problem
    };
    unequal(found).into_iter().map(problem).collect()
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Tool(_) | Item::Prompt(_) => "function",
        Item::Resource(_) | Item::Template(_) => "resource",
        Item::Instructions | Item::Skill(_) | Item::Answer => "module",
    }
}

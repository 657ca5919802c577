//! Findings as lines, as JSON and as problems, for `doctor` and `stubs check`.

use clap::ValueEnum;
use serde_json::Value;

use super::reports::{Level, Problem};
use crate::catalog::Catalog;
use crate::findings::{Finding, Item, Severity};
use crate::manifest::ServerEntry;
use crate::redact::{self, Surface};

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

/// A line for each finding of at least a warning, with what to do, and one that counts the notes.
pub(super) fn lines(catalog: &Catalog, found: &[Found<'_>]) -> Vec<String> {
    let (notes, others): (Vec<&Found<'_>>, Vec<&Found<'_>>) =
        found.iter().partition(|found| found.finding.severity == Severity::Note);
    let line = |found: &&Found<'_>| {
        format!("{}: {}; {}", found.server.name, self::line(found.finding), found.finding.rule.advice)
    };
    let mut lines: Vec<String> = others.iter().map(line).collect();
    let more: usize = catalog.servers().iter().map(|server| server.findings.get().more).sum();
    if more > 0 {
        lines.push(format!("{more} more are not listed"));
    }
    if !notes.is_empty() {
        lines.push(format!("{} notes; --json lists them", notes.len()));
    }
    lines
}

/// A finding on one line, without its server.
pub(super) fn line(finding: &Finding) -> String {
    redact::text(Surface::Log, &finding.line()).into_owned()
}

/// All findings as JSON.
pub(super) fn json(found: &[Found<'_>]) -> Value {
    found.iter().map(|found| found.finding.json(&found.server.name)).collect()
}

/// All findings as problems. `artifact` names the file in which a finding is reported.
pub(super) fn problems(found: &[Found<'_>], artifact: impl Fn(&Found<'_>) -> String) -> Vec<Problem> {
    let problem = |found: &Found<'_>| {
        let Finding { rule, severity, place, excerpt } = found.finding;
        let level = match severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Note => Level::Note,
        };
        let name = format!("{}/{}", found.server.name, place.item);
        let message = format!("{}: {}; {}", found.server.name, line(found.finding), rule.advice);
        let digest = stubgen::digest(&format!("{name} {} {} {excerpt}", place.pointer, rule.id));
        let mut problem = Problem::new(level, rule.id, Some(artifact(found)), message);
        problem.definition = Some((format!("{name}#{}", place.pointer), kind(&place.item)));
        problem.fingerprint = Some(digest);
        problem
    };
    found.iter().map(problem).collect()
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Tool(_) | Item::Prompt(_) => "function",
        Item::Resource(_) | Item::Template(_) => "resource",
        Item::Instructions | Item::Answer => "module",
    }
}

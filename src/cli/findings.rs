//! Findings as lines, JSON and SARIF, for `doctor` and `stubs check`.

use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::ui::Ui;
use super::{Failure, about};
use crate::catalog::Catalog;
use crate::findings::{Finding, Item, RULES, Severity};
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

/// Writes the findings as SARIF 2.1.0. `artifact` names the file in which a finding is reported.
pub(super) fn write_sarif(
    path: &Path,
    found: &[Found<'_>],
    artifact: impl Fn(&Found<'_>) -> String,
) -> Result<(), Failure> {
    let mut text = sarif(found, artifact).to_string();
    text.push('\n');
    std::fs::write(path, text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Tells of the file, for people.
pub(super) fn wrote(path: &Path, found: &[Found<'_>], ui: Ui) {
    ui.note(&format!("{} findings are in {}", found.len(), path.display()));
}

fn sarif(found: &[Found<'_>], artifact: impl Fn(&Found<'_>) -> String) -> Value {
    let rule = |rule: &&crate::findings::Rule| {
        json!({
            "id": rule.id,
            "shortDescription": { "text": rule.what },
            "help": { "text": rule.advice },
            "helpUri": format!("{}/blob/main/docs/findings.md", about::REPOSITORY),
            "defaultConfiguration": { "level": rule.worst.as_str() },
        })
    };
    let rules: Vec<Value> = RULES.iter().map(rule).collect();
    let result = |found: &Found<'_>| {
        let Finding { rule, severity, place, excerpt } = found.finding;
        let index = RULES.iter().position(|known| known.id == rule.id);
        let name = format!("{}/{}", found.server.name, place.item);
        let text = redact::text(Surface::Log, &format!("{}: {excerpt}. Do: {}.", rule.what, rule.advice)).into_owned();
        let fingerprint = stubgen::digest(&format!("{name} {} {} {excerpt}", place.pointer, rule.id));
        json!({
            "ruleId": rule.id,
            "ruleIndex": index,
            "level": severity.as_str(),
            "message": { "text": text },
            "locations": [{
                "physicalLocation": { "artifactLocation": { "uri": uri(&artifact(found)) }, "region": { "startLine": 1 } },
                "logicalLocations": [{ "fullyQualifiedName": format!("{name}#{}", place.pointer), "kind": kind(&place.item) }],
            }],
            "partialFingerprints": { "forgefs/v1": fingerprint },
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "forgefs",
                "version": about::VERSION,
                "informationUri": about::REPOSITORY,
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": found.iter().map(result).collect::<Vec<Value>>(),
        }],
    })
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Tool(_) | Item::Prompt(_) => "function",
        Item::Resource(_) | Item::Template(_) => "resource",
        Item::Instructions | Item::Answer => "module",
    }
}

/// A path as a relative URI reference.
fn uri(path: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~');
    path.bytes().map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

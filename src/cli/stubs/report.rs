//! Prints drift as text, as JSON, and as GitHub annotations.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::tree::Change;
use super::{Failure, Ui};
use crate::cli::findings::{self, ACCEPTED, Found};
use crate::cli::reports::{Problem, Report, ReportArgs, place};
use crate::cli::style::Role;
use base::text::{counted, push_visible};
use catalog::Catalog;
use catalog::drift::{self, Class, Difference};
use catalog::findings::{Item, Severity};
use catalog::manifest::OFFERS;

/// A tool that differs from its review.
#[derive(Serialize)]
struct Drifted {
    /// Path of its stub.
    path: String,
    /// Worst class of its changes.
    class: Class,
    /// All changes, worst first.
    changes: Vec<Difference>,
    /// First line of its stub that differs.
    #[serde(skip)]
    line: Option<u32>,
}

/// Findings in the current definitions.
pub(super) struct Findings<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) found: &'a [Found<'a>],
    /// Those that were accepted.
    pub(super) accepted: &'a [Found<'a>],
    /// True if they fail the check.
    pub(super) fails: bool,
}

/// The reviewed file of a finding's definition.
pub(super) fn artifact(dir: &Path, found: &Found<'_>) -> String {
    let Found { server, finding } = found;
    let tool = match &finding.place.item {
        Item::Tool(_) => server.stubs.tools.iter().find(|tool| finding.place.is_of(&Item::Tool(tool.name.clone()))),
        _ => None,
    };
    let path = match tool {
        Some(tool) => format!("{}.json", tool.path()),
        None => format!("{}/{OFFERS}", server.ident),
    };
    place(&dir.join(path))
}

/// Prints the differences and findings, or a confirmation.
pub(super) fn print(
    dir: &Path,
    changes: &[Change],
    findings: &Findings<'_>,
    (args, diff): (&ReportArgs, bool),
    ui: Ui,
) -> Result<(), Failure> {
    let tools = drifted(changes);
    let mut problems: Vec<Problem> = tools.iter().map(|tool| problem(dir, tool)).collect();
    if tools.is_empty() && !changes.is_empty() {
        let message = format!("{} files differ; regenerate the tree", changes.len());
        problems.push(Problem::new(Severity::Warning, "stubs", None, message));
    }
    problems.extend(findings::problems(findings.found, |found| artifact(dir, found)));
    let report = Report { command: "stubs check", problems, passed: changes.is_empty() && !findings.fails };
    let object = || {
        let diffs: Vec<&str> = changes.iter().map(|change| change.diff.as_str()).collect();
        let files: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        json!({
            "ok": report.passed,
            "drift": !changes.is_empty(),
            "fails": findings.fails,
            "tools": tools,
            "files": files,
            "diff": diffs.concat(),
            "findings": findings::json(findings.found),
            "accepted": findings::json(findings.accepted),
        })
    };
    let text = || {
        tools.iter().for_each(|tool| tell(tool, changes, ui));
        let is_of_tool = |change: &&Change| tools.iter().any(|tool| stem(&tool.path) == stem(&change.path));
        let others: Vec<&str> =
            changes.iter().filter(|change| !is_of_tool(change)).map(|change| change.path.as_str()).collect();
        if !tools.is_empty() && !others.is_empty() {
            ui.out(&format!("other files: {}", on_one_line(&others.join(", "))));
        }
        // Of files alone there is nothing else to say.
        for change in changes.iter().filter(|_| diff || tools.is_empty()) {
            // A file not written here may contain terminal or workflow commands.
            let mut diff = String::with_capacity(change.diff.len());
            push_visible(&mut diff, &change.diff);
            ui.out(&diff);
        }
        for line in findings::lines(findings.catalog, findings.found) {
            ui.out(&format!("finding: {line}"));
        }
        if !findings.accepted.is_empty() {
            ui.out(&format!("{} findings are accepted in {ACCEPTED}", findings.accepted.len()));
        }
        if changes.is_empty() {
            ui.out(&format!("{} is up to date", dir.display()));
        }
    };
    report.print(args, object, text, ui);
    if !changes.is_empty() {
        let (files, tree) = (counted(changes.len(), "file"), dir.display());
        let changed = match tools.len() {
            0 => format!("{files} changed"),
            count => format!("{} changed, in {files}; `--diff` shows them", counted(count, "tool")),
        };
        ui.note(&format!("{changed}; review, then `forgefs stubs generate --out {tree}`"));
    }
    report.write(args, ui)
}

/// Prints a tool with its class, its files and its changes.
fn tell(tool: &Drifted, changes: &[Change], ui: Ui) {
    let role = match tool.class {
        Class::LooksHarmless | Class::Breaking => Role::Failed,
        Class::AnnotationRisk | Class::Widening => Role::Waiting,
        Class::TextOnly => Role::Faint,
    };
    let stem = stem(&tool.path);
    let files = changes.iter().filter(|change| self::stem(&change.path) == stem);
    let endings: Vec<&str> = files.map(|change| change.path.get(stem.len()..).unwrap_or_default()).collect();
    let name = match tool.path.ends_with(OFFERS) {
        true => format!("  {}", on_one_line(&tool.path)),
        false => format!("  {} ({})", on_one_line(stem), on_one_line(&endings.join(" "))),
    };
    ui.parts(&[(role, &format!("{:<15}", tool.class.as_str())), (Role::Plain, &name)]);
    for change in &tool.changes {
        let class = if change.class == tool.class { String::new() } else { format!("{}: ", change.class.as_str()) };
        ui.out(&format!("  {class}{}", on_one_line(&change.what)));
    }
}

/// Path of a tool's files without their endings.
fn stem(path: &str) -> &str {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    path[name..].find('.').map_or(path, |dot| &path[..name + dot])
}

/// The problem that a tool differs, at the first line of its stub that does.
fn problem(dir: &Path, tool: &Drifted) -> Problem {
    let level = if tool.class <= Class::AnnotationRisk { Severity::Error } else { Severity::Warning };
    let what: Vec<String> = tool.changes.iter().map(in_words).collect();
    let file = place(&dir.join(&tool.path));
    Problem::new(level, tool.class.as_str(), Some(file), what.join("\n")).at(tool.line.map(|line| (line, 1)))
}

fn in_words(finding: &Difference) -> String {
    format!("{}: {}", finding.class.as_str(), on_one_line(&finding.what))
}

/// Text of a server or a file as one line.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    push_visible(&mut line, &text.replace('\n', "\\n"));
    line
}

/// The tools among the changed files: each has one `.json` with its definition. A stub edited by hand has an unchanged
/// definition, and is found too.
fn drifted(changed: &[Change]) -> Vec<Drifted> {
    let mut tools: Vec<Drifted> = Vec::new();
    for change in changed.iter().filter(|change| change.path.ends_with(".json")) {
        let parsed = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let changes = match (parsed(&change.before), parsed(&change.after)) {
            (Some(before), Some(after)) if change.path.ends_with(OFFERS) => drift::between_offers(&before, &after),
            (Some(before), Some(after)) => drift::between(&before, &after),
            (None, _) if change.path.ends_with(OFFERS) => {
                let what = "its prompts, resources and instructions are not reviewed yet".to_owned();
                vec![Difference { class: Class::Widening, what }]
            }
            (None, _) => vec![Difference { class: Class::Widening, what: "the tool is new".to_owned() }],
            (_, None) => vec![Difference { class: Class::Breaking, what: "it is gone".to_owned() }],
        };
        let is_offers = change.path.ends_with(OFFERS);
        let path = if is_offers { change.path.clone() } else { change.path.replace(".json", ".pyi") };
        if let Some(class) = changes.first().map(|first| first.class) {
            let line = changed.iter().find(|change| change.path == path).and_then(first_line);
            tools.push(Drifted { path, class, changes, line });
        }
    }
    for change in
        changed.iter().filter(|change| change.path.ends_with(".pyi") && !change.path.ends_with("__init__.pyi"))
    {
        let is_known = tools.iter().any(|tool| tool.path == change.path) || !change.path.contains('/');
        if !is_known {
            let what = "the stub differs although the tool is the same: it was edited, or made by another version";
            let changes = vec![Difference { class: Class::TextOnly, what: what.to_owned() }];
            let line = first_line(change);
            tools.push(Drifted { path: change.path.clone(), class: Class::TextOnly, changes, line });
        }
    }
    tools.sort_by(|a, b| (a.class, &a.path).cmp(&(b.class, &b.path)));
    tools
}

/// First line of the written file that differs; its head, which has a digest of it all, only if nothing else does.
fn first_line(change: &Change) -> Option<u32> {
    let (before, after) = (change.before.as_deref()?, change.after.as_deref().unwrap_or_default());
    let same = before.lines().zip(after.lines()).skip(1).take_while(|(before, after)| before == after).count();
    let is_head = before.lines().skip(1).eq(after.lines().skip(1));
    u32::try_from(if is_head { 1 } else { same + 2 }).ok()
}

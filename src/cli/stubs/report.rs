//! Prints drift as text, as JSON, and as GitHub annotations.

use std::path::Path;

use serde::Serialize;

use super::drift::{self, Class, Finding};
use super::tree::Change;
use super::{Failure, Ui};
use crate::cli::workflow::{data, property};
use crate::text::push_visible;

/// Format of drift.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Format {
    /// The changes in words, then unified diffs
    Text,
    /// One JSON object
    Json,
    /// Annotations for GitHub Actions
    Github,
}

/// A tool that differs from its review.
#[derive(Serialize)]
struct Drifted {
    /// Path of its stub.
    path: String,
    /// Worst class of its changes.
    class: Class,
    /// All changes, worst first.
    changes: Vec<Finding>,
}

/// Prints the differences, or a confirmation.
pub(super) fn print(dir: &Path, changes: &[Change], format: Format, ui: Ui) -> Result<(), Failure> {
    let tools = drifted(changes);
    match format {
        Format::Json => {
            let diffs: Vec<&str> = changes.iter().map(|change| change.diff.as_str()).collect();
            let files: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
            let report =
                serde_json::json!({ "ok": changes.is_empty(), "tools": tools, "files": files, "diff": diffs.concat() });
            ui.json(&report.to_string());
        }
        Format::Github => {
            for tool in &tools {
                let level = if tool.class <= Class::AnnotationRisk { "error" } else { "warning" };
                let file = property(&dir.join(&tool.path).display().to_string());
                let what: Vec<String> = tool.changes.iter().map(in_words).collect();
                let message = data(&what.join("\n"));
                ui.out(&format!("::{level} file={file},title={}::{message}", tool.class.as_str()));
            }
            if tools.is_empty() && !changes.is_empty() {
                ui.out(&format!("::warning title=stubs::{} files differ; regenerate the tree", changes.len()));
            }
        }
        Format::Text => {
            for tool in &tools {
                ui.out(&on_one_line(&tool.path));
                for change in &tool.changes {
                    ui.out(&format!("  {}", in_words(change)));
                }
            }
            for change in changes {
                // A file not written here may contain terminal or workflow commands.
                let mut diff = String::with_capacity(change.diff.len());
                push_visible(&mut diff, &change.diff);
                ui.out(&diff);
            }
        }
    }
    match (changes.len(), format) {
        (0, Format::Text) => ui.out(&format!("{} is up to date", dir.display())),
        (0, _) => {}
        (many, _) => ui.note(&format!(
            "{many} files differ, {} tools among them; review, then `forgefs stubs generate --out {}`",
            tools.len(),
            dir.display()
        )),
    }
    Ok(())
}

fn in_words(finding: &Finding) -> String {
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
fn drifted(changes: &[Change]) -> Vec<Drifted> {
    let mut tools: Vec<Drifted> = Vec::new();
    for change in changes.iter().filter(|change| change.path.ends_with(".json")) {
        let parsed = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let changes = match (parsed(&change.before), parsed(&change.after)) {
            (Some(before), Some(after)) => drift::between(&before, &after),
            (None, _) => vec![Finding { class: Class::Widening, what: "the tool is new".to_owned() }],
            (_, None) => vec![Finding { class: Class::Breaking, what: "the tool is gone".to_owned() }],
        };
        let path = change.path.replace(".json", ".pyi");
        if let Some(class) = changes.first().map(|first| first.class) {
            tools.push(Drifted { path, class, changes });
        }
    }
    for change in
        changes.iter().filter(|change| change.path.ends_with(".pyi") && !change.path.ends_with("__init__.pyi"))
    {
        let is_known = tools.iter().any(|tool| tool.path == change.path) || !change.path.contains('/');
        if !is_known {
            let what = "the stub differs although the tool is the same: it was edited, or made by another version";
            let changes = vec![Finding { class: Class::TextOnly, what: what.to_owned() }];
            tools.push(Drifted { path: change.path.clone(), class: Class::TextOnly, changes });
        }
    }
    tools.sort_by(|a, b| (a.class, &a.path).cmp(&(b.class, &b.path)));
    tools
}

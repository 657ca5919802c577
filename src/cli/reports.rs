//! Problems that checks find: as annotations of GitHub workflows, as SARIF 2.1.0, and as a summary in Markdown.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::workflow::{data, property};
use super::{Failure, Ui, about, shapes};
use base::error::code_name;
use base::files;
use base::text::{counted, head, visible};
use catalog::findings::{RULES, Severity};
use config::process_env;
use run::broker::Mistake;

/// Address of the format's schema.
const SARIF: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Most problems of a summary, and most bytes of one: GitHub shows up to 1 MiB.
const ROWS: usize = 50;
const ROW_BYTES: usize = 600;

/// Options of the commands that check.
#[derive(Args)]
pub(super) struct ReportArgs {
    /// Format of what is found
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write what is found to FILE, as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Append a summary in Markdown to FILE
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

/// Format of what a check finds.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One object
    Json,
    /// Annotations of GitHub workflows
    Github,
    /// SARIF 2.1.0
    Sarif,
}

impl ReportArgs {
    /// The format on standard output.
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// One problem.
pub(super) struct Problem {
    pub(super) level: Severity,
    /// Its rule: an error code, or a name.
    pub(super) rule: String,
    /// The file it is in, as [`place`] names it.
    pub(super) file: Option<String>,
    /// Line and column, from 1.
    pub(super) at: Option<(u32, u32)>,
    /// Description and fix, in lines.
    pub(super) message: String,
    /// Name and kind of the definition that it is in.
    pub(super) definition: Option<(String, &'static str)>,
    /// Fingerprint that stays if the file changes elsewhere.
    pub(super) fingerprint: Option<String>,
}

impl Problem {
    /// A problem of a file.
    pub(super) fn new(
        level: Severity,
        rule: impl Into<String>,
        file: Option<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { level, rule: rule.into(), file, at: None, message: message.into(), definition: None, fingerprint: None }
    }

    /// The same problem at a line and a column.
    pub(super) fn at(self, at: Option<(u32, u32)>) -> Self {
        Self { at, ..self }
    }

    fn annotation(&self) -> String {
        let mut properties = Vec::new();
        if let Some(file) = &self.file {
            properties.push(format!("file={}", property(file)));
        }
        if let Some((line, column)) = self.at {
            properties.push(format!("line={line},col={column}"));
        }
        properties.push(format!("title={}", property(&self.rule)));
        let command = if self.level == Severity::Note { "notice" } else { self.level.as_str() };
        format!("::{command} {}::{}", properties.join(","), data(&self.message))
    }

    fn result(&self, rules: &[&str]) -> Value {
        let (line, column) = self.at.unwrap_or((1, 1));
        let mut region = json!({ "startLine": line.max(1) });
        if self.at.is_some() {
            region["startColumn"] = column.max(1).into();
        }
        let mut location = json!({});
        if let Some(file) = &self.file {
            location["physicalLocation"] = json!({ "artifactLocation": { "uri": uri(file) }, "region": region });
        }
        if let Some((name, kind)) = &self.definition {
            location["logicalLocations"] = json!([{ "fullyQualifiedName": name, "kind": kind }]);
        }
        let mut result = json!({
            "ruleId": self.rule,
            "ruleIndex": rules.iter().position(|rule| *rule == self.rule),
            "level": self.level.as_str(),
            "message": { "text": self.message },
            "locations": [location],
        });
        if let Some(fingerprint) = &self.fingerprint {
            result["partialFingerprints"] = json!({ "forgefs/v1": fingerprint });
        }
        result
    }

    /// A row of the summary. Texts of servers are in it, so that nothing is left to be read as Markdown or HTML.
    fn row(&self) -> String {
        let at = self.at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
        let place = self.file.as_ref().map(|file| verbatim(&format!("{file}{at}"))).unwrap_or_default();
        format!("| {} | {place} | {} |\n", self.level.as_str(), verbatim(&format!("{}: {}", self.rule, self.message)))
    }
}

/// Findings of one check.
pub(super) struct Report {
    /// The command, without the program: `scripts check`.
    pub(super) command: &'static str,
    pub(super) problems: Vec<Problem>,
    pub(super) passed: bool,
}

impl Report {
    /// Prints it in the format asked for, the object or the text for people, and writes the files that the options ask for.
    pub(super) fn tell(
        &self,
        args: &ReportArgs,
        object: impl FnOnce() -> Value,
        text: impl FnOnce(),
        ui: Ui,
    ) -> Result<(), Failure> {
        let written = self.write(args, ui);
        match args.format() {
            Format::Text => text(),
            // Else the failure is the one object.
            Format::Json if written.is_ok() => shapes::print(object(), ui),
            Format::Json => {}
            Format::Github => self.problems.iter().for_each(|problem| ui.workflow(&problem.annotation())),
            Format::Sarif => ui.json(&self.sarif().to_string()),
        }
        written
    }

    /// Writes the files that the options ask for.
    fn write(&self, args: &ReportArgs, ui: Ui) -> Result<(), Failure> {
        if let Some(path) = &args.sarif {
            self.write_sarif(path, ui)?;
        }
        if let Some(path) = &args.summary {
            write(path, &self.summary(), true)?;
        }
        Ok(())
    }

    /// Writes the SARIF file, and tells of it.
    pub(super) fn write_sarif(&self, path: &Path, ui: Ui) -> Result<(), Failure> {
        write(path, &format!("{}\n", self.sarif()), false)?;
        ui.note(&format!("{} in {}", counted(self.problems.len(), "finding"), path.display()));
        Ok(())
    }

    /// The SARIF document. Its run has a category of its own, so that code scanning keeps those of several checks apart.
    fn sarif(&self) -> Value {
        let rules: BTreeSet<&str> = self.problems.iter().map(|problem| problem.rule.as_str()).collect();
        let rules: Vec<&str> = rules.into_iter().collect();
        json!({
            "$schema": SARIF,
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "forgefs",
                    "version": about::VERSION,
                    "informationUri": about::REPOSITORY,
                    "rules": rules.iter().map(|id| rule(id)).collect::<Vec<_>>(),
                } },
                "automationDetails": { "id": format!("forgefs/{}/", self.command.replace(' ', "-")) },
                "columnKind": "unicodeCodePoints",
                "results": self.problems.iter().map(|problem| problem.result(&rules)).collect::<Vec<_>>(),
            }],
        })
    }

    fn summary(&self) -> String {
        let verdict = if self.passed { "passed" } else { "failed" };
        let mut text = format!("### forgefs {}: {verdict}\n\n", self.command);
        if self.problems.is_empty() {
            return text;
        }
        text.push_str("| level | place | problem |\n| --- | --- | --- |\n");
        self.problems.iter().take(ROWS).for_each(|problem| text.push_str(&problem.row()));
        if self.problems.len() > ROWS {
            let _ = writeln!(text, "\n{} more are not listed.", self.problems.len() - ROWS);
        }
        text.push('\n');
        text
    }
}

/// Writes a file that an option names, or appends to it.
pub(super) fn write(path: &Path, text: &str, appends: bool) -> Result<(), Failure> {
    files::write_itself(path, text.as_bytes(), appends).map_err(|error| Failure::of_path(path, error))
}

/// A mistake of a script.
pub(super) fn mistake(level: Severity, file: Option<String>, mistake: &Mistake) -> Problem {
    let Mistake { code, message, suggested_fix, .. } = mistake;
    Problem::new(level, code_name(*code), file, format!("{message}; {suggested_fix}")).at(mistake.place())
}

/// Prints a failure as an annotation.
pub(super) fn failure(failure: &Failure, ui: Ui) {
    let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = format!("{}{hint}", failure.message);
    ui.workflow(&Problem::new(Severity::Error, "forgefs", None, message).annotation());
}

fn rule(id: &str) -> Value {
    match RULES.iter().find(|known| known.id == id) {
        Some(rule) => json!({
            "id": id,
            "shortDescription": { "text": rule.what },
            "help": { "text": rule.advice },
            "helpUri": format!("{}/blob/main/docs/findings.md", about::REPOSITORY),
            "defaultConfiguration": { "level": rule.worst.as_str() },
        }),
        None => json!({ "id": id, "helpUri": format!("{}/blob/main/docs/ci.md", about::REPOSITORY) }),
    }
}

/// Path of a file in a repository: below the workspace of a workflow, else below the current folder; else as it is given.
pub(super) fn place(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let workspace = process_env("GITHUB_WORKSPACE").filter(|workspace| !workspace.is_empty());
    let root = workspace.map_or_else(|| here.clone(), PathBuf::from);
    let mut whole = PathBuf::new();
    for part in here.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// A path as a relative URI reference.
fn uri(path: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~');
    path.bytes().map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Text as it is, in a cell of a Markdown table.
fn verbatim(text: &str) -> String {
    let mut cell = String::from("<code>");
    for c in visible(&head(text, ROW_BYTES).replace('\n', " ")).chars() {
        if c.is_ascii_punctuation() && !matches!(c, ',' | '-' | '/' | '(' | ')') {
            let _ = write!(cell, "&#{};", u32::from(c));
        } else {
            cell.push(c);
        }
    }
    cell + "</code>"
}

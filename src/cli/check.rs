//! `forgefs check`: what is wrong with scripts, and what they may do, without running them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::reports::{self, Problem, Report, ReportArgs, place};
use super::run::{Lang, language, read};
use super::style::Role;
use super::{Failure, Global, Ui};
use base::error::{ErrorCode, code_name};
use catalog::findings::Severity;
use catalog::manifest::ServerEntry;
use catalog::people;
use redact::{Outgoing as _, Results, Surface};
use run::broker::{Judgement as Checked, Mistake, Plan};

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Scripts; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Language [default: by each file's extension: .js, .mjs, .ts, .star or .py]
    #[arg(long, value_enum)]
    lang: Option<Lang>,
    #[command(flatten)]
    pub(super) report: ReportArgs,
}

/// Exits with 1 if any script has a mistake, with 3 if none has and a server whose tools are not known is called.
pub(super) async fn check(global: &Global, args: CheckArgs, ui: Ui) -> Result<u8, Failure> {
    let mut scripts = Vec::new();
    for file in &args.files {
        scripts.push((file.as_path(), language(args.lang, file)?, read(file)?));
    }
    let config = global.load(true)?;
    let principal = global.principal(&config)?;
    let gateway = global.gateway(config)?;
    let is_named = |server: &ServerEntry| {
        scripts.iter().any(|(_, _, code)| code.contains(&server.ident) || code.contains(&server.name))
    };
    super::wait_for(&gateway, is_named, super::OTHERS, ui).await;
    let session = gateway.open_only_session(principal);
    let mut found = Vec::new();
    for (file, language, code) in &scripts {
        let checked = gateway.execution_context(&session).check(*language, code).await?;
        found.push((*file, checked));
    }
    let unknown: BTreeSet<&String> = found.iter().flat_map(|(_, checked)| &checked.plan.unknown).collect();
    for server in &unknown {
        let state = gateway.catalog().server(server).map(|entry| format!(" ({})", entry.state.describe()));
        let state = state.map(|state| state.redacted(Surface::Output(Results::Secrets)));
        ui.note(&format!("{server}: its calls were not checked, its tools are not known{}", state.unwrap_or_default()));
    }
    let exit = match found.iter().any(|(_, checked)| !checked.mistakes.is_empty()) {
        true => 1,
        false if !unknown.is_empty() => 3,
        false => 0,
    };
    let report = Report { command: "check", problems: found.iter().flat_map(problems).collect(), passed: exit == 0 };
    let object = || {
        let files: Vec<Value> = found.iter().map(|(file, checked)| as_json(file, checked)).collect();
        json!({ "passed": exit == 0, "files": files, "unknown": unknown })
    };
    report.tell(&args.report, object, || found.iter().for_each(|(file, checked)| text(file, checked, ui)), ui)?;
    Ok(exit)
}

/// Findings with their level.
fn findings(checked: &Checked) -> impl Iterator<Item = (Severity, &Mistake)> {
    let errors = checked.mistakes.iter().map(|mistake| (Severity::Error, mistake));
    errors.chain(checked.warnings.iter().map(|mistake| (Severity::Warning, mistake)))
}

fn problems((file, checked): &(&Path, Checked)) -> Vec<Problem> {
    findings(checked).map(|(level, mistake)| reports::mistake(level, Some(place(file)), mistake)).collect()
}

fn text(file: &Path, checked: &Checked, ui: Ui) {
    let file = file.display().to_string();
    let file = people::line(&file);
    for (level, mistake) in findings(checked) {
        let Mistake { code, message, suggested_fix, .. } = mistake;
        let role = if level == Severity::Error { Role::Failed } else { Role::Waiting };
        let at = mistake.place().map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
        let (place, what) = (format!("{file}{at}: "), format!(": {}: {message}", code_name(*code)));
        ui.parts(&[(Role::Plain, &place), (role, level.as_str()), (Role::Plain, &what)]);
        ui.parts(&[(Role::Good, "  fix:"), (Role::Plain, &format!(" {suggested_fix}"))]);
    }
    // Nothing is known of a text that does not parse, and a tool that is not there is in no plan.
    let is_unparsed = checked.mistakes.iter().any(|mistake| mistake.code == ErrorCode::SyntaxError);
    let Plan { steps, unknown, .. } = &checked.plan;
    if is_unparsed || (!checked.mistakes.is_empty() && steps.is_empty() && unknown.is_empty()) {
        return;
    }
    ui.out(&format!("{file}:"));
    for line in checked.plan.to_string().lines() {
        let role = if line.starts_with("may write ") { Role::Destructive } else { Role::Plain };
        ui.parts(&[(role, &format!("  {line}"))]);
    }
}

fn as_json(file: &Path, checked: &Checked) -> Value {
    json!({
        "file": file.display().to_string(),
        "passed": checked.mistakes.is_empty(),
        "mistakes": checked.mistakes,
        "warnings": checked.warnings,
        "plan": checked.plan,
    })
}

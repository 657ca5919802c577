//! State that outlives a request: where it cannot be used, the gateway refuses calls, or writes no journals.

use std::path::Path;

use super::Report;
use config::Config;
use run::approvals::Approvals;
use state::journal::Journals;
use state::spending::Spending;

/// Warns of what cannot be used, each with its place and what to do.
pub(super) async fn tell(config: &Config, report: &mut Report) {
    for (what, then) in found(config).await.unwrap_or_else(|error| vec![told(&error)]) {
        report.fault("warning", &then);
        report.push("warnings", &format!("state    {what}; {then}"), format!("state: {what}; {then}").into());
    }
}

fn told(error: &base::error::Error) -> (String, String) {
    (error.message.clone(), error.suggested_fix().to_owned())
}

async fn found(config: &Config) -> base::error::Result<Vec<(String, String)>> {
    let state = state::open(config)?;
    if state.is_shared() {
        state.approvals(Path::new("")).await?;
    }
    let mut found = Vec::new();
    if let Some(journals) = Journals::new(config, &state)
        && let Err((file, error)) = journals.probe().await
    {
        let (message, then) = told(&error);
        found.push((format!("no run has a journal: {message}: {}", file.display()), then));
    }
    for file in Spending::new(config, state.clone()).unreadable() {
        let what = format!("what was spent today is not known, and calls are refused: {}", file.display());
        found.push((what, "remove the file: the sum begins anew".to_owned()));
    }
    if let Some(approvals) = Approvals::new(config, &state) {
        for (id, file) in approvals.damaged().await? {
            let what = format!("approval {id} is damaged, or of another version: {file}");
            found.push((what, "remove it: the run asks anew".to_owned()));
        }
    }
    Ok(found)
}

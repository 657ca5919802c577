//! Says what a run that failed, was interrupted or went on had written.

use std::collections::BTreeMap;

use super::run::resume;
use super::{Failure, Global, Ui};
use base::error::ErrorCode;
use base::outcome::Outcome;
use base::principal::LOCAL;
use run::execution::Execution;
use state::journal::{Journals, Recorded};

/// Note about calls that write: their tools, and whether they are known to be done. `None` for none.
fn note(calls: impl Iterator<Item = (String, bool)>) -> Option<String> {
    let mut tools: BTreeMap<(bool, String), usize> = BTreeMap::new();
    calls.for_each(|(tool, is_done)| *tools.entry((!is_done, tool)).or_default() += 1);
    let said = |((is_unknown, tool), count): (&(bool, String), &usize)| {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        format!("{tool}{times}{}", if *is_unknown { ", done or not: no answer came" } else { "" })
    };
    (!tools.is_empty()).then(|| format!("written: {}", tools.iter().map(said).collect::<Vec<_>>().join("; ")))
}

/// Note about an execution; `None` if it wrote nothing.
pub(super) fn by(execution: &Execution) -> Option<String> {
    let calls = execution.calls.iter().filter(|call| call.may_have_written());
    note(calls.filter_map(|call| match call.outcome {
        // The server says that it refused it.
        Outcome::Failed(ErrorCode::ToolError | ErrorCode::UpstreamError) => None,
        outcome => Some((format!("{}.{}", call.server, call.tool), outcome == Outcome::Ok)),
    }))
}

/// Note about a run, by its journal.
fn of(recorded: &Recorded) -> Option<String> {
    note(recorded.calls().filter_map(|call| {
        let sent = call.sent.as_ref().filter(|sent| !sent.reads)?;
        let is_refused = call.given.as_ref().is_some_and(|given| matches!(given.outcome, Some(wire::Outcome::Err(_))));
        (!is_refused).then(|| (format!("{}.{}", sent.server, sent.tool), !call.is_unknown()))
    }))
}

/// Names the run of `code` that began since `began_ms` and was interrupted, what it had written, and how to go on. Without
/// code it resumes another run.
pub(super) async fn interrupted(global: &Global, code: Option<&str>, began_ms: u64, ui: Ui) {
    match stopped(global, code, began_ms).await {
        Ok(Some(recorded)) => {
            let id = &recorded.head.run;
            let written = of(&recorded).unwrap_or_else(|| "nothing was written".to_owned());
            ui.note(&format!("interrupted: run {id}; {written}"));
            let resume = resume(global.client.as_deref().unwrap_or(LOCAL), id);
            ui.note(&format!("resume: `{resume}` goes on, and repeats no call that was made"));
        }
        Ok(None) => ui.note("interrupted before the first call: nothing was written"),
        Err(failure) => ui.note(&format!("interrupted; its journal cannot be read: {}", failure.message)),
    }
}

/// The run of this process, or of the daemon for it: its newest run of the same script.
async fn stopped(global: &Global, code: Option<&str>, began_ms: u64) -> Result<Option<Recorded>, Failure> {
    let config = global.load(true)?;
    let state = state::open(&config)?;
    let journals = Journals::new(&config, &state).ok_or_else(|| Failure::usage("journals are off"))?;
    let client = global.principal(&config)?.client;
    let mut found = None;
    for listed in journals.list(Some(&client)).await?.iter().rev().filter(|run| run.at_ms >= began_ms) {
        // One that is removed meanwhile is not it.
        let Ok(run) = journals.find(Some(&client), &listed.id).await else { continue };
        let is_own = run.head.gateway.as_ref().is_some_and(|by| by.pid == std::process::id());
        let is_same = code.map_or(!run.head.after.is_empty(), |code| run.head.code == code);
        if is_own || (is_same && found.is_none()) {
            found = Some(run);
        }
        if is_own {
            break;
        }
    }
    match found {
        Some(run) => Ok(Some(journals.recorded(&run).await?)),
        None => Ok(None),
    }
}

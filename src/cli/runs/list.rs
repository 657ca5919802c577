//! `forgefs runs list`: runs with a journal, and those of which the audit log alone tells: they failed before their first call,
//! or their journal could not be written.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{brief, calls};
use crate::cli::records::{self, Newest};
use crate::cli::style::{Cell, Role, Table};
use crate::cli::times::{Times, parsed};
use crate::cli::{Failure, Format, Global, Ui, audit, shapes};
use base::error::ErrorCode;
use base::outcome::Outcome;
use base::text::counted;
use base::time::rfc3339_millis;
use redact::{Outgoing as _, Surface};
use state::audit::Record;
use state::journal::Journals;
use state::title;

/// All runs, of every client without `by`.
pub(super) struct All<'a> {
    pub(super) global: &'a Global,
    pub(super) journals: &'a Journals,
    pub(super) by: Option<&'a str>,
}

/// A run in the list.
pub(super) struct Entry {
    at_ms: u64,
    pub(super) id: String,
    pub(super) client: String,
    /// Its record, if it has no journal.
    pub(super) early: Option<Record>,
}

/// All runs, the newest last.
async fn entries(All { global, journals, by }: &All<'_>) -> Result<Vec<Entry>, Failure> {
    let runs = journals.list(*by).await?;
    let journaled: HashSet<&str> = runs.iter().map(|run| &*run.id).collect();
    let is_early = |record: &Record| {
        record.run.language.is_some()
            && (record.run.no_journal
                || matches!(record.outcome, Outcome::Failed(_))
                    && record.calls.iter().all(|call| call.verdict.is_refusal()))
            && !journaled.contains(&*record.id)
            && by.is_none_or(|by| by == record.by())
    };
    // A log that cannot be read hides no journal.
    let (records, _) = audit::records(&global.load(false)?).unwrap_or_default();
    let early = records.into_iter().filter(is_early).filter_map(|record| {
        let (id, client) = (record.id.clone(), record.by().to_owned());
        Some(Entry { at_ms: parsed(&record.time)?, id, client, early: Some(record) })
    });
    let mut all: Vec<Entry> = early.collect();
    all.extend(runs.into_iter().map(|run| Entry { at_ms: run.at_ms, id: run.id, client: run.client, early: None }));
    all.sort_by_key(|entry| entry.at_ms);
    Ok(all)
}

/// The run whose id begins so; `last` is the newest.
pub(super) async fn find(all: &All<'_>, begin: &str) -> Result<Entry, Failure> {
    records::one(entries(all).await?, |entry| &entry.id, begin, ["run", "runs"])
}

/// Prints the newest runs.
pub(super) async fn list(
    of: &All<'_>,
    newest: &Newest,
    (format, times): (Format, Times),
    ui: Ui,
) -> Result<(), Failure> {
    let all = entries(of).await?;
    let (mut objects, head) = (Vec::new(), ["RUN", "TIME", "STATE", "CLIENT", "LANGUAGE", "CALLS", "CHAIN", "TITLE"]);
    let mut table = Table::new(head, &[], &[5, 6]).with_spare_last();
    for entry in newest.of(&all) {
        let (object, calls) = match &entry.early {
            Some(record) => (
                early(record),
                match record.run.no_journal {
                    true => format!("no journal: see `forgefs audit show {}`", entry.id),
                    false => "before its first call".to_owned(),
                },
            ),
            None => match journaled(of.journals, entry).await? {
                Some(shown) => shown,
                None => continue,
            },
        };
        let object = object.redacted(Surface::Log);
        table.push(row(&object, &calls, times.ago(entry.at_ms)));
        objects.push(object);
    }
    match format.json {
        true => shapes::print(json!({ "runs": objects }), ui),
        false if all.is_empty() => ui.note("no run has a journal yet"),
        false => ui.table(&table),
    }
    Ok(())
}

/// A run with a journal as JSON, and its calls in words; `None` if it is gone. Read one at a time: each is read whole.
async fn journaled(journals: &Journals, entry: &Entry) -> Result<Option<(Value, String)>, Failure> {
    let run = match journals.find(Some(&entry.client), &entry.id).await {
        Err(error) if error.code == ErrorCode::InvalidArgs => return Ok(None),
        Err(error) => return Ok(Some((damaged(entry), error.message))),
        Ok(run) => run,
    };
    let read = journals.recorded(&run).await;
    let said = match read.as_ref().map(|recorded| calls(&run, recorded)) {
        Ok((calls, 0)) => counted(calls, "call"),
        Ok((calls, unknown)) => format!("{}, {unknown} unknown", counted(calls, "call")),
        Err(error) => error.message.clone(),
    };
    Ok(Some((brief(&run, read.as_ref().ok()), said)))
}

/// A run whose journal cannot be read, as JSON.
fn damaged(entry: &Entry) -> Value {
    json!({
        "run": entry.id, "time": rfc3339_millis(entry.at_ms), "client": entry.client, "session": null, "language": null,
        "title": null, "state": "damaged", "calls": 0, "unknown": 0, "continues": null, "resumed_by": null,
    })
}

fn row(object: &Value, calls: &str, time: String) -> [Cell; 8] {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let chain = [("continues", "continues"), ("resumed_by", "resumed by")];
    let chain = chain.iter().filter_map(|(key, words)| Some(format!("{words} {}", object[*key].as_str()?)));
    [
        Cell::plain(text("run")),
        Cell::new(Role::Faint, &time),
        Cell::new(Role::of(Outcome::named(text("state"))), text("state")),
        Cell::plain(text("client")),
        Cell::plain(text("language")),
        Cell::plain(calls),
        Cell::plain(&chain.collect::<Vec<_>>().join(", ")),
        Cell::plain(text("title")),
    ]
}

/// A run without a journal, as JSON.
pub(super) fn early(record: &Record) -> Value {
    let Record { id, time, run, outcome, .. } = record;
    json!({
        "run": id, "time": time, "client": record.by(), "session": run.session,
        "language": run.language, "title": title(run.file.as_deref(), run.code.as_deref().unwrap_or_default(), None),
        "state": outcome, "calls": record.calls.iter().filter(|call| !call.verdict.is_refusal()).count(), "unknown": 0, "continues": null, "resumed_by": null,
    })
}

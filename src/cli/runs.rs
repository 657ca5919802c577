//! `forgefs runs`: journals of runs.

mod list;

use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Value, json};

use super::records::{self, LAST, Newest};
use super::times::Times;
use super::{Failure, Format, Global, Ui, audit, style};
use base::outcome::Outcome;
use base::text::counted;
use base::time::rfc3339_millis;
use config::{Server, secrets};
use redact::{Outgoing as _, Surface};
use run::calls::title_of;
use run::replay::{Asked, shown};
use state::journal::{Journals, Operation, Recorded, Run};

#[derive(Subcommand)]
pub(super) enum Command {
    /// List runs, the newest last, with those that failed before their first call
    List {
        #[command(flatten)]
        newest: Newest,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        times: Times,
    },
    /// Show one run: its script, its operations and its end, redacted
    Show {
        /// Its id, or the beginning of it; `last` is the newest
        run: String,
        #[command(flatten)]
        format: Format,
        #[command(flatten)]
        times: Times,
    },
    /// Delete the journal of a run, which can then not be resumed
    Delete {
        /// Its id, or the beginning of it; `last` is the newest
        run: String,
        #[command(flatten)]
        format: Format,
    },
}

pub(super) async fn runs(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    let (journals, by) = (journals(global)?, global.only()?);
    let all = list::All { global, journals: &journals, by: by.as_deref() };
    if !matches!(command, Command::Delete { .. })
        && let Err(error) = know_secrets(global).await
    {
        ui.note(&format!("warning: a secret in a run may be shown, as it cannot be read: {}", error.message));
    }
    match command {
        Command::List { newest, format, times } => list::list(&all, &newest, (format, times), ui).await?,
        Command::Show { run, format, times } => {
            let entry = list::find(&all, &run).await?;
            let (object, text) = match &entry.early {
                Some(record) => (list::early(record), audit::show(record, times)),
                None => {
                    let run = journals.find(Some(&entry.client), &entry.id).await?;
                    let recorded = journals.recorded(&run).await?;
                    (object(&run, &recorded), show(&run, &recorded, times))
                }
            };
            format.out(object.redacted(Surface::Log), text.trim_end(), ui);
        }
        Command::Delete { run, format } => {
            let entry = list::find(&all, &run).await?;
            if entry.early.is_some() {
                return Err(Failure::usage(format!("run {}: it has no journal", entry.id)).exit(1));
            }
            let is_gone = !journals.remove(&entry.client, &entry.id).await?;
            let id = entry.id;
            let gone = if is_gone { "was gone already" } else { "is deleted" };
            let note = format!("the journal of run {id} {gone}");
            format.tell(json!({ "run": id, "deleted": !is_gone }), &note, ui);
        }
    }
    Ok(0)
}

/// Has redaction know the secrets of all servers: no server starts here, and scripts may hold them.
pub(super) async fn know_secrets(global: &Global) -> Result<(), Failure> {
    let config = global.load(false)?;
    Ok(secrets::know(config.servers.values().flat_map(Server::credentials)).await?)
}

/// The journals of the configuration.
pub(super) fn journals(global: &Global) -> Result<Arc<Journals>, Failure> {
    let config = global.load(false)?;
    let state = state::open(&config)?;
    Journals::new(&config, &state).ok_or_else(|| {
        Failure::usage("journals are off: no run is on record")
            .hint("`on = true` in [journal] of forge.toml; they need a home folder or XDG_STATE_HOME")
    })
}

/// The one run whose id begins so; `last` is the newest.
pub(super) async fn find(journals: &Journals, by: Option<&str>, begin: &str) -> Result<Run, Failure> {
    let runs = journals.list(by).await?;
    if begin == LAST && runs.is_empty() {
        return Err(Failure::usage("no run has a journal").hint("a script that runs gets one; `[journal]` keeps it"));
    }
    let run = records::one(runs, |run| &run.id, begin, ["run", "runs"])?;
    Ok(journals.find(Some(&run.client), &run.id).await?)
}

/// State of a run: `running`, the name of its outcome, or `died`.
fn state(run: &Run, recorded: &Recorded) -> String {
    match recorded.outcome(run.file.is_running) {
        Outcome::Unfinished => "died".to_owned(),
        outcome => outcome.to_string(),
    }
}

/// Number of calls, and of those that may be done or not.
fn calls(run: &Run, recorded: &Recorded) -> (usize, usize) {
    (recorded.calls().count(), recorded.calls().filter(|call| is_unknown(run, call)).count())
}

fn is_unknown(run: &Run, operation: &Operation) -> bool {
    !run.file.is_running && operation.is_unknown()
}

/// One run as JSON.
fn brief(run: &Run, recorded: Option<&Recorded>) -> Value {
    let (calls, unknown) = recorded.map_or((0, 0), |recorded| self::calls(run, recorded));
    json!({
        "run": run.file.id,
        "time": rfc3339_millis(run.head.at_ms),
        "client": run.head.client,
        "session": run.head.session,
        "language": run.head.language,
        "title": title_of(&run.head, recorded.and_then(first_call)),
        "state": recorded.map_or_else(|| "damaged".to_owned(), |recorded| state(run, recorded)),
        "calls": calls,
        "unknown": unknown,
        "continues": run.head.after.last(),
        "resumed_by": run.file.next,
    })
}

/// Server and tool of the first call.
fn first_call(recorded: &Recorded) -> Option<(&str, &str)> {
    recorded.calls().find_map(|call| match call.op.as_ref()? {
        wire::Op::Tool { server, tool, .. } => Some((&**server, &**tool)),
        _ => None,
    })
}

/// One run with its operations, as JSON.
fn object(run: &Run, recorded: &Recorded) -> Value {
    let operation = |(number, operation): (&u64, &Operation)| {
        let asked = operation.op.as_ref().and_then(|op| Asked::of(op).ok());
        let (answer, error, left_out) = match operation.given.as_ref().map(|given| (&given.outcome, given.left_out)) {
            Some((Some(wire::Outcome::Ok(value)), _)) => (serde_json::from_str::<Value>(value.get()).ok(), None, None),
            Some((Some(wire::Outcome::Err(error)), _)) => (None, serde_json::to_value(error).ok(), None),
            Some((None, bytes)) => (None, None, bytes),
            None => (None, None, None),
        };
        json!({
            "op": number,
            "request": asked.as_ref().map(|asked| &asked.kind),
            "ask": asked.as_ref().map(|asked| &asked.fields),
            "answered": operation.given.is_some(),
            "unknown": is_unknown(run, operation),
            "answer": answer,
            "error": error,
            "left_out": left_out,
            "from": operation.given.as_ref().and_then(|given| given.from.as_ref()),
        })
    };
    let mut object = brief(run, Some(recorded));
    let more = json!({
        "code": recorded.head.code,
        "operations": recorded.operations.iter().map(operation).collect::<Vec<_>>(),
        "nested": recorded.nested.iter().map(operation).collect::<Vec<_>>(),
        "value": recorded.end.as_ref().and_then(|end| end.value.as_ref()),
        "error": recorded.end.as_ref().and_then(|end| end.error.as_ref()),
        "output": recorded.end.as_ref().map(|end| &end.output),
        "engine": recorded.end.as_ref().and_then(|end| end.engine.as_ref()),
    });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// A run for people.
fn show(run: &Run, recorded: &Recorded, times: Times) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: &str| style::put(&mut text, name, value);
    let (head, end) = (&recorded.head, recorded.end.as_ref());
    put("run", &run.file.id);
    put("time", &times.at(head.at_ms));
    put("client", &head.client);
    put("session", &head.session);
    put("language", head.language.as_str());
    put("engine", end.and_then(|end| end.engine.as_deref()).unwrap_or_default());
    put("state", &state(run, recorded));
    put("continues", &head.after.join(", "));
    put("resumed by", run.file.next.as_deref().unwrap_or_default());
    for line in redact::text(Surface::Log, &head.code).lines() {
        put("  |", line);
    }
    let own = recorded.operations.iter().map(|(number, operation)| (format!("op {number}"), operation));
    let nested = recorded.nested.values().map(|operation| ("in a script".to_owned(), operation));
    for (name, operation) in own.chain(nested) {
        let asked = operation.op.as_ref().map_or_else(|| Ok(Asked::left_out()), Asked::of);
        put(&name, &asked.map_or_else(|error| error.message, |asked| asked.to_string()));
        put("", &answer(run, operation));
    }
    if let Some(end) = end {
        put("value", &end.value.as_ref().map(|value| shown(value.get())).unwrap_or_default());
        put("error", &end.error.as_deref().map(shown).unwrap_or_default());
        for line in redact::text(Surface::Log, &end.output).lines() {
            put("output", line);
        }
    }
    text
}

/// Answer of an operation, or why it has none, in a line.
fn answer(run: &Run, operation: &Operation) -> String {
    let Some(given) = &operation.given else {
        return match &operation.sent {
            Some(sent) if is_unknown(run, operation) => {
                format!("UNKNOWN: sent at {}, and no answer came: it may be done or not", rfc3339_millis(sent.at_ms))
            }
            _ => "not answered yet".to_owned(),
        };
    };
    let origin = given.from.as_ref();
    let origin = origin.map(|from| format!("  (answered by operation {} of run {})", from.op, from.run));
    let what = match (&given.outcome, given.left_out) {
        (Some(wire::Outcome::Ok(value)), _) => shown(value.get()),
        (Some(wire::Outcome::Err(error)), _) => {
            shown(&format!("{}: {}", base::error::code_name(error.code), error.message))
        }
        (None, bytes) => format!("too large to keep: {}", counted(bytes.unwrap_or_default(), "byte")),
    };
    format!("→ {what}{}", origin.unwrap_or_default())
}

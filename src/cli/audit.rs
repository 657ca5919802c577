//! `forgefs audit`: executions, their calls, and the stubs read before them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::records::{self, Newest};
use super::ui::Ui;
use super::{Failure, Global};
use base::principal::LOCAL;
use base::text::head;
use catalog::people;
use state::audit;

/// Arguments of `forgefs audit`.
#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List executions, the last ones last
    List {
        #[command(flatten)]
        newest: Newest,
        /// Those of a client, by the name of its token; `local` is this machine's user
        #[arg(long)]
        client: Option<String>,
        /// Those of clients of a profile
        #[arg(long)]
        profile: Option<String>,
        /// One JSON object a line, whole
        #[arg(long)]
        json: bool,
    },
    /// Show one execution
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// The record as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the stubs that had been read before an execution, as they were then
    Stubs {
        /// Its id, or the beginning of it
        id: String,
    },
}

pub(super) fn audit(global: &Global, args: AuditArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    let Some(path) = config.audit.path.filter(|_| config.audit.to == config::AuditTo::File) else {
        return Err(Failure::usage("audit records do not go to a file".to_owned())
            .hint("set `to = \"file\"` in [audit] of forge.toml"));
    };
    let records = match audit::records(&path) {
        Ok(records) => records,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::internal(format!("{}: {error}", path.display()))),
    };
    match args.command {
        Command::List { newest, client, profile, json } => {
            let is_wanted = |record: &&Value| {
                let by = if text(record, "principal").is_empty() { LOCAL } else { text(record, "principal") };
                client.as_deref().is_none_or(|client| client == by)
                    && profile.as_deref().is_none_or(|profile| profile == text(record, "profile"))
            };
            let wanted: Vec<&Value> = records.iter().filter(is_wanted).collect();
            if wanted.is_empty() {
                let of_whom = if records.is_empty() { "" } else { " of this client or profile" };
                ui.note(&format!("nothing{of_whom} is on record in {}", path.display()));
            }
            for record in newest.of(&wanted) {
                if json { ui.json(&record.to_string()) } else { ui.out(&people::line(&line(record))) }
            }
        }
        Command::Show { id, json } => {
            let mut record = find(&records, &id)?.clone();
            let missing = complete(&path, &mut record);
            if json {
                ui.json(&pretty(&record));
            } else {
                ui.out(show(&record).trim_end());
            }
            note_missing(missing, ui);
        }
        Command::Stubs { id } => stubs(&path, find(&records, &id)?, ui)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn find<'a>(records: &'a [Value], id: &str) -> Result<&'a Value, Failure> {
    records::one(records, |record| text(record, "id"), id, ["record", "audit"])
}

/// One record in a line: id, time, script or request, outcome, calls.
fn line(record: &Value) -> String {
    let what = match text(record, "language") {
        "" => text(record, "request").to_owned(),
        language => language.to_owned(),
    };
    let calls = record["calls"].as_array().map_or(&[][..], Vec::as_slice);
    let called: Vec<String> = calls
        .iter()
        .map(|call| format!("{}.{} {}", text(call, "server"), text(call, "tool"), text(call, "outcome")))
        .collect();
    let ms = record["ms"].as_f64().map(|ms| format!("  {ms:.0} ms")).unwrap_or_default();
    let (id, time, outcome) = (text(record, "id"), text(record, "time"), text(record, "outcome"));
    format!("{id}  {time}  {what}  {outcome}{ms}  {}", called.join(", ")).trim_end().to_owned()
}

/// A record for people: script, outcome, and each call with decision, size and cost.
fn show(record: &Value) -> String {
    let words = |value: &Value| {
        let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(", ")
    };
    let mut shown = String::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            shown.push_str(&format!("{name:<11}{}\n", people::visible(value).replace('\n', "\\n")));
        }
    };
    put("id", text(record, "id"));
    put("time", text(record, "time"));
    put("session", text(record, "session"));
    put("client", text(record, "client"));
    put("token of", text(record, "principal"));
    put("profile", text(record, "profile"));
    put("trace", text(record, "trace"));
    put("request", text(record, "request"));
    put("language", text(record, "language"));
    put("engine", text(record, "engine"));
    put("outcome", &outcome(record));
    put("error", text(record, "error"));
    put("cost", &record.get("cost").map(Value::to_string).unwrap_or_default());
    put("confined", &words(&record["confined"]));
    put("unconfined", &words(&record["unconfined"]));
    put("code hash", text(record, "code_hash"));
    for line in text(record, "code").lines() {
        put("  |", line);
    }
    for (number, call) in record["calls"].as_array().into_iter().flatten().enumerate() {
        let name = format!("{}.{}({})", text(call, "server"), text(call, "tool"), text(call, "args"));
        put(&format!("call {}", number + 1), &name);
        let cost = call.get("cost").map(|cost| format!(", cost {cost}")).unwrap_or_default();
        let (sent, received) = (&call["args_bytes"], &call["answer_bytes"]);
        match call.get("ms") {
            Some(ms) => {
                let outcome = text(call, "outcome");
                put("", &format!("{outcome} in {ms} ms, {sent} bytes sent, {received} received{cost}"));
            }
            None => put("", &format!("on record before it was sent, {sent} bytes; what came of it is unknown")),
        }
        put("  error", text(call, "error"));
        put("  verdict", text(call, "verdict"));
        put("  holding", &words(&call["labels"]));
    }
    for (path, seen) in record["read"].as_object().into_iter().flatten() {
        // The record has the full digest; people see its beginning.
        put("had read", &format!("{path} {}", head(text(seen, "digest"), 8)));
    }
    shown
}

/// Outcome, if the end is known.
fn outcome(record: &Value) -> String {
    match (text(record, "outcome"), record.get("ms")) {
        (outcome, Some(ms)) => format!("{outcome} in {ms} ms"),
        (outcome, None) => format!("{outcome}: it is under way, or its gateway was killed"),
    }
}

/// Adds to a record all that its session had read, also from earlier records; returns the number of stubs no longer
/// known.
fn complete(path: &Path, record: &mut Value) -> u64 {
    let (read, missing) = audit::had_read(path, record);
    if let Some(record) = record.as_object_mut() {
        record.insert("read".to_owned(), read.into_iter().collect::<serde_json::Map<_, _>>().into());
    }
    missing
}

fn note_missing(missing: u64, ui: Ui) {
    if missing > 0 {
        ui.note(&format!(
            "{missing} more stubs had been read before it: the records of this session that have them were rotated away, or it forgot them"
        ));
    }
}

fn pretty(record: &Value) -> String {
    serde_json::to_string_pretty(record).unwrap_or_else(|_| record.to_string())
}

fn stubs(path: &Path, record: &Value, ui: Ui) -> Result<(), Failure> {
    let (read, missing) = audit::had_read(path, record);
    note_missing(missing, ui);
    if read.is_empty() && missing == 0 {
        ui.note("nothing had been read before it");
    }
    for (stub, seen) in &read {
        let object = PathBuf::from(text(seen, "object"));
        let name = object.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let content = audit::kept(path, &name).map_err(|error| Failure::internal(format!("{stub}: {error}")))?;
        ui.out(&format!("# {stub}\n{}", content.trim_end()));
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

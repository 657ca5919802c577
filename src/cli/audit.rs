//! `forgefs audit`: executions, their calls, and the stubs read before them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::clients::{home, show as show_path};
use super::records::{self, Newest};
use super::style::{self, Cell, Role, Table};
use super::times::{Times, parsed};
use super::{Failure, Format, Global, Ui, shapes};
use base::text::head;
use config::{AuditTo, Config, process_env};
use state::audit::{self, CallRecord, Record};

/// Arguments of `forgefs audit`.
#[derive(Subcommand)]
pub(super) enum Command {
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
        #[command(flatten)]
        times: Times,
    },
    /// Show one execution
    Show {
        /// Its id, or the beginning of it; `last` is the newest
        id: String,
        /// The record as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        times: Times,
    },
    /// Print the stubs that had been read before an execution, as they were then
    Stubs {
        /// Its id, or the beginning of it; `last` is the newest
        id: String,
        #[command(flatten)]
        format: Format,
    },
}

pub(super) fn audit(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    let path = path(&config)?;
    let (mut records, broken) = records(&config)?;
    // To `list`, `--as` is `--client`, which may also name one that was removed.
    if !matches!(command, Command::List { .. })
        && let Some(by) = global.only()?
    {
        records.retain(|record| record.by() == by);
    }
    match command {
        Command::List { newest, client, profile, json, times } => {
            let is_wanted = |record: &&Record| {
                client.as_deref().is_none_or(|client| client == record.by())
                    && (profile.as_deref()).is_none_or(|profile| record.run.profile.as_deref() == Some(profile))
            };
            let wanted: Vec<&Record> = records.iter().filter(is_wanted).collect();
            if wanted.is_empty() {
                let of_whom = if records.is_empty() { "" } else { " of this client or profile" };
                ui.note(&format!("nothing{of_whom} is on record in {}", path.display()));
            }
            if broken > 0 {
                ui.note(&format!("warning: {broken} lines of the log are no records"));
            }
            let newest = newest.of(&wanted);
            match json {
                true => newest.iter().for_each(|record| ui.json(audit::line(record).trim_end())),
                false => list(newest, times, ui),
            }
        }
        Command::Show { id, json, times } => {
            let mut record = find(&records, &id)?.clone();
            // All that its session had read, also from earlier records.
            let (read, missing) = audit::had_read(&path, &record);
            record.read = read;
            if json {
                ui.json(&serde_json::to_string_pretty(&record).unwrap_or_default());
            } else {
                ui.out(show(&record, times).trim_end());
            }
            note_missing(missing, ui);
        }
        Command::Stubs { id, format } => stubs(&path, find(&records, &id)?, format, ui)?,
    }
    Ok(0)
}

/// The file of the audit log.
///
/// # Errors
/// Records do not go to a file.
pub(super) fn path(config: &Config) -> Result<PathBuf, Failure> {
    config.audit.path.clone().filter(|_| config.audit.to == AuditTo::File).ok_or_else(|| {
        Failure::usage("audit records do not go to a file").hint("set `to = \"file\"` in [audit] of forge.toml")
    })
}

/// The records of the audit log, oldest first, and the number of lines that are none.
pub(super) fn records(config: &Config) -> Result<(Vec<Record>, u64), Failure> {
    let path = path(config)?;
    match audit::records(&path) {
        Ok(records) => Ok(records),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((Vec::new(), 0)),
        Err(error) => Err(Failure::internal(format!("{}: {error}", path.display()))),
    }
}

fn find<'a>(records: &'a [Record], id: &str) -> Result<&'a Record, Failure> {
    records::one(records, |record| &record.id, id, ["record", "audit"])
}

/// Records in a table: id, time, script or request, outcome, duration, calls. Where they are of several clients or
/// configurations, also theirs.
fn list(records: &[&Record], times: Times, ui: Ui) {
    let home = home(&process_env);
    let clients: BTreeSet<&str> = records.iter().map(|record| record.by()).collect();
    let configs: BTreeSet<&str> = records.iter().filter_map(|record| record.run.config.as_deref()).collect();
    let head = ["ID", "TIME", "REQUEST", "OUTCOME", "    TOOK", "CLIENT", "CONFIG", "CALLS"];
    let mut table = Table::new(head, &[4], &[3, 6, 7]);
    table.left_out.extend([(5, clients.len()), (6, configs.len())].iter().filter(|of| of.1 < 2).map(|of| of.0));
    for record in records {
        let Record { id, run, outcome, .. } = record;
        let calls = record.calls.iter();
        let called: Vec<String> = calls.map(|call| format!("{}.{} {}", call.server, call.tool, call.outcome)).collect();
        let [id, time] = [Cell::plain(id), Cell::new(Role::Faint, &time(record, times))];
        let request = Cell::plain(run.language.as_deref().or(run.request.as_deref()).unwrap_or_default());
        let outcome = Cell::new(Role::of(*outcome), &outcome.name());
        let took = Cell::plain(&record.ms.map(|ms| format!("{ms:.0} ms")).unwrap_or_default());
        let config = run.config.as_deref().map(|path| shortened(Path::new(path), home.as_deref()));
        let [client, config] = [record.by(), &config.unwrap_or_default()].map(Cell::plain);
        let called = Cell::plain(&called.join(", "));
        table.push([id, time, request, outcome, took, client, config, called]);
    }
    ui.table(&table);
}

/// The folder of a `forge.toml`, or another file, with `~` for the home folder.
fn shortened(path: &Path, home: Option<&Path>) -> String {
    let folder = path.parent().filter(|_| path.file_name().is_some_and(|name| name == "forge.toml"));
    show_path(folder.unwrap_or(path), home)
}

fn time(record: &Record, times: Times) -> String {
    parsed(&record.time).map_or_else(|| record.time.clone(), |ms| times.ago(ms))
}

/// A record for people: script, outcome, and each call with decision, size and cost.
pub(super) fn show(record: &Record, times: Times) -> String {
    let mut shown = String::new();
    let mut put = |name: &str, value: &str| style::put(&mut shown, name, value);
    let run = &record.run;
    let words = |words: &Option<String>| words.clone().unwrap_or_default();
    put("id", &record.id);
    put("time", &parsed(&record.time).map_or_else(|| record.time.clone(), |ms| times.at(ms)));
    put("session", &run.session);
    put("client", &words(&run.client));
    put("token of", &words(&run.principal));
    put("profile", run.profile.as_deref().unwrap_or_default());
    put("config", run.config.as_deref().unwrap_or_default());
    put("trace", &words(&run.trace));
    put("request", &words(&run.request));
    put("language", &words(&run.language));
    put("engine", &words(&record.engine));
    put("outcome", &outcome(record));
    put("error", &words(&record.error));
    put("cost", &record.ms.map(|_| record.cost.to_string()).unwrap_or_default());
    put("confined", &record.confined.join(", "));
    put("unconfined", &record.unconfined.join(", "));
    for hook in &record.hooks {
        put("hook", &hook.to_string());
    }
    put("code hash", &words(&run.code_hash));
    for line in words(&run.code).lines() {
        put("  |", line);
    }
    for (number, call) in (1..).zip(&record.calls) {
        put(&format!("call {number}"), &format!("{}.{}({})", call.server, call.tool, call.args));
        let CallRecord { args_bytes: sent, answer_bytes: received, cost, outcome, .. } = call;
        match call.ms {
            Some(ms) => {
                put("", &format!("{outcome} in {ms} ms, {sent} bytes sent, {received} received, cost {cost}"));
            }
            None => put("", &format!("on record before it was sent, {sent} bytes; what came of it is unknown")),
        }
        put("  error", &words(&call.error));
        put("  verdict", &call.verdict.to_string());
        for hook in &call.hooks {
            put("  hook", &hook.to_string());
        }
        put("  holding", &call.labels.iter().cloned().collect::<Vec<_>>().join(", "));
    }
    for (path, seen) in &record.read {
        // The record has the full digest; people see its beginning.
        put("had read", &format!("{path} {}", head(&seen.digest, 8)));
    }
    shown
}

/// Outcome, if the end is known.
fn outcome(record: &Record) -> String {
    match record.ms {
        Some(ms) => format!("{} in {ms} ms", record.outcome),
        None => format!("{}: it is under way, or its gateway was killed", record.outcome),
    }
}

fn note_missing(missing: u64, ui: Ui) {
    if missing > 0 {
        ui.note(&format!(
            "{missing} more stubs had been read before it: the records of this session that have them were rotated away, or it forgot them"
        ));
    }
}

fn stubs(path: &Path, record: &Record, format: Format, ui: Ui) -> Result<(), Failure> {
    let (read, missing) = audit::had_read(path, record);
    note_missing(missing, ui);
    if read.is_empty() && missing == 0 {
        ui.note("nothing had been read before it");
    }
    let mut stubs = serde_json::Map::new();
    for (stub, seen) in &read {
        let object = PathBuf::from(&seen.object);
        let name = object.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let content = audit::kept(path, &name).map_err(|error| Failure::internal(format!("{stub}: {error}")))?;
        match format.json {
            true => _ = stubs.insert(stub.clone(), content.into()),
            false => ui.out(&format!("# {stub}\n{}", content.trim_end())),
        }
    }
    if format.json {
        shapes::print(serde_json::json!({ "id": record.id, "stubs": stubs, "missing": missing }), ui);
    }
    Ok(())
}

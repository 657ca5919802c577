//! One run: its record of the audit log, and what its journal has of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::time::unix_ms;
use serde_json::{Value, json};
use wire::{Op, Outcome};

use super::access::Person;
use super::runs::{brief, log};
use super::{Console, records, wrong};
use base::error::{Error, ErrorCode, Result};
use base::outcome::Outcome as Ended;
use base::task;
use base::text::brief as cut;
use catalog::people;
use run::calls::title_of;
use run::replay::Asked as Request;
use state::audit::{self, CallRecord};
use state::journal::{End, NESTED, Operation, Recorded, Run};

/// Most bytes of one answer, and of one value: the page stays usable.
const VALUE: usize = 2 << 20;

impl Console {
    /// One run, whole.
    ///
    /// # Errors
    /// `INVALID_ARGS` when neither the audit log nor the journals have it.
    pub(super) async fn run(self: &Arc<Self>, id: &str, by: &Person) -> Result<Value> {
        let (record, recorded) = (self.record(id).await?, self.journal(id).await?);
        if record.is_none() && recorded.is_none() {
            let what = format!("there is no run `{}`", cut(id));
            return Err(wrong(what, "its record was rotated away, and its journal removed"));
        }
        let mut object = self.outline(id, record.as_ref(), recorded.as_ref()).await?;
        let whole = recorded.as_ref().map(|(_, recorded)| recorded);
        let size = recorded.as_ref().map_or(0, |(run, _)| usize::try_from(run.file.bytes).unwrap_or(usize::MAX));
        let is_running = recorded.as_ref().is_some_and(|(run, _)| run.file.is_running);
        let end = whole.and_then(|recorded| recorded.end.as_ref());
        let (operations, value) = task::work_on(size, || (operations(record.as_ref(), whole, is_running), value(end)));
        object["operations"] = operations.into();
        object["value"] = value;
        object["output"] = end.map(|end| end.output.as_str()).unwrap_or_default().into();
        object["explained"] = end.and_then(explained).into();
        add(&mut object, self.place_in_chain(id, recorded.as_ref()));
        object["chain"] = self.chain(recorded.as_ref()).await.into();
        add(&mut object, self.read_before(record).await?);
        let marks = match whole {
            Some(recorded) => self.marks(recorded, by).await,
            None => Vec::new(),
        };
        object["marks"] = marks.into();
        object["script"] = whole.map(|recorded| recorded.head.code.as_str()).into();
        Ok(object)
    }

    /// The record of the audit log, if there is one.
    pub(super) async fn record(&self, id: &str) -> Result<Option<audit::Record>> {
        let Ok(path) = log(&self.gateway.config()) else { return Ok(None) };
        let id = id.to_owned();
        let found = task::apart(move || match audit::record(&path, &id) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::new(ErrorCode::Internal, "the audit log cannot be read").caused_by(error)),
            found => Ok(found.unwrap_or_default()),
        });
        found.await
    }

    /// Journal of a run; `None` if there is none.
    pub(super) async fn journal(&self, id: &str) -> Result<Option<(Run, Recorded)>> {
        let Some(journals) = self.gateway.journals() else { return Ok(None) };
        let run = match journals.find(None, id).await {
            Err(error) if error.code == ErrorCode::InvalidArgs => return Ok(None),
            run => run?,
        };
        let recorded = journals.recorded(&run).await?;
        Ok(Some((run, recorded)))
    }

    /// Line of the list, and the rest of its record.
    async fn outline(
        self: &Arc<Self>,
        id: &str,
        record: Option<&audit::Record>,
        recorded: Option<&(Run, Recorded)>,
    ) -> Result<Value> {
        let is_running = self.gateway.board().look(0).iter().any(|run| run.id == id);
        let listed = match record {
            Some(_) => self.entries().await?.into_iter().find(|entry| *entry.id == *id),
            None => None,
        };
        let mut object = match (listed, recorded) {
            (Some(entry), _) => brief(&entry, is_running),
            (None, Some((run, recorded))) => of_journal(run, recorded, is_running),
            (None, None) => json!({ "id": id, "outcome": Ended::Unfinished }),
        };
        let layers = |of: fn(&audit::Record) -> &Vec<String>| json!(record.map(of).cloned().unwrap_or_default());
        let tokens = record.and_then(|record| record.plain_list);
        let more = json!({
            "profile": record.and_then(|record| record.run.profile.as_deref()),
            "engine": record.and_then(|record| record.engine.as_ref()),
            "trace": record.and_then(|record| record.run.trace.as_ref()),
            "warm": record.and_then(|record| record.warm),
            "confined": layers(|record| &record.confined),
            "unconfined": layers(|record| &record.unconfined),
            "tokens": tokens.map(|plain_list| json!({ "plain_list": plain_list, "four_tools": self.shown_tokens })),
        });
        add(&mut object, more);
        Ok(object)
    }

    /// The stubs that the agent had read before, with the tokens of their texts.
    async fn read_before(&self, record: Option<audit::Record>) -> Result<Value> {
        let (Some(record), Ok(path)) = (record, log(&self.gateway.config())) else {
            return Ok(json!({ "read": [], "read_missing": 0 }));
        };
        let (read, missing) = task::apart(move || Ok(audit::had_read(&path, &record))).await?;
        let listed: Vec<Value> =
            read.iter().map(|(path, seen)| json!({ "path": path, "digest": seen.digest })).collect();
        Ok(json!({ "read": listed, "read_missing": missing }))
    }

    /// A stub as the agent had read it.
    ///
    /// # Errors
    /// `INVALID_ARGS` when it had not, `INTERNAL` when its text is gone.
    pub(super) async fn was_read(&self, id: &str, wanted: &str) -> Result<Value> {
        let unread =
            || Error::new(ErrorCode::InvalidArgs, format!("`{}` had not been read before this run", cut(wanted)));
        let Some(record) = self.record(id).await? else { return Err(unread().hint("the record of the run is gone")) };
        let (path, wanted_path) = (log(&self.gateway.config())?, wanted.to_owned());
        let text = task::apart(move || {
            let (read, _) = audit::had_read(&path, &record);
            let object = || Some(PathBuf::from(&read.get(&wanted_path)?.object));
            let name = object().and_then(|object| Some(object.file_name()?.to_string_lossy().into_owned()));
            let kept = name.map(|name| audit::kept(&path, &name)).transpose();
            kept.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))
        });
        let text = text.await?.ok_or_else(|| unread().hint("the list of the run has what had been read"))?;
        Ok(json!({ "path": wanted, "text": text }))
    }

    /// Marks on the lines of a script: its calls, what a check finds today, and the error that it ended with.
    async fn marks(&self, recorded: &Recorded, by: &Person) -> Vec<Value> {
        let mark = |line: u32, column: u32, kind: &str, text: String| json!({ "line": line, "column": column, "kind": kind, "text": text });
        let mut marks = Vec::new();
        if let Ok(judged) = self.context(by).check(recorded.head.language, &recorded.head.code).await {
            marks
                .extend(judged.calls.iter().map(|((line, column), label)| mark(*line, *column, "call", label.clone())));
            let found = judged.mistakes.iter().chain(&judged.warnings);
            marks.extend(found.map(|found| mark(found.line, found.column, "warning", found.message.clone())));
        }
        let explained = recorded.end.as_ref().and_then(explained);
        if let Some((line, text)) = explained.and_then(|text| Some((records::line_of(text)?, text))) {
            let first = text.lines().next().unwrap_or_default();
            marks.push(mark(line, 1, "error", first.to_owned()));
        }
        marks
    }
}

/// Adds the fields of another object.
fn add(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// Line of the list for a run that the audit log does not have.
fn of_journal(run: &Run, recorded: &Recorded, is_running: bool) -> Value {
    let end = recorded.end.as_ref();
    json!({
        "id": run.file.id,
        "at_ms": run.head.at_ms,
        "client": run.head.client,
        "client_name": null,
        "session": run.head.session,
        "kind": "script",
        "language": run.head.language,
        "request": null,
        "outcome": recorded.outcome(is_running || run.file.is_running),
        "error": end.and_then(|end| end.error.as_ref()),
        "ms": end.map(|end| end.at_ms.saturating_sub(run.head.at_ms)),
        "calls": recorded.calls().count(),
        "refused": 0,
        "cost": "0",
        "labels": end.map(|end| &end.labels),
        "servers": [],
        "title": title_of(&run.head, None),
        "code": run.head.code.lines().next().unwrap_or_default(),
        "dry_run": false,
    })
}

/// Value of a run that has ended.
fn value(end: Option<&End>) -> Value {
    let value = end.and_then(|end| end.value.as_ref()).filter(|value| value.get().len() <= VALUE);
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// Error of a run that has ended with one.
fn explained(end: &End) -> Option<&str> {
    end.explained.as_deref().or(end.error.as_deref())
}

/// Every operation of a run: those of its journal with what the audit log says of them, then calls that only the log has.
fn operations(record: Option<&audit::Record>, recorded: Option<&Recorded>, is_running: bool) -> Vec<Value> {
    let mut logged: BTreeMap<u64, &CallRecord> = BTreeMap::new();
    for (position, call) in (1..).zip(record.into_iter().flat_map(|record| &record.calls)) {
        // Records of older versions have no number; theirs is their place.
        logged.insert(if call.call == 0 { position } else { call.call }, call);
    }
    let mut all = Vec::new();
    let journaled = recorded.into_iter().flat_map(|recorded| recorded.operations.iter().chain(&recorded.nested));
    for (number, operation) in journaled {
        all.push(operation_of(*number, Some(operation), logged.remove(number), is_running));
    }
    all.extend(logged.into_iter().map(|(number, call)| operation_of(number, None, Some(call), is_running)));
    all.sort_by_key(|operation| (operation["at_ms"].as_u64().unwrap_or(u64::MAX), operation["op"].as_u64()));
    all
}

fn operation_of(number: u64, operation: Option<&Operation>, call: Option<&CallRecord>, is_running: bool) -> Value {
    let asked = operation.and_then(|operation| operation.op.as_ref()).and_then(|op| Request::of(op).ok());
    let given = operation.and_then(|operation| operation.given.as_ref());
    let sent = operation.and_then(|operation| operation.sent.as_ref());
    let (server, tool) = named(operation.and_then(|operation| operation.op.as_ref()), call);
    let label = match (&server, &tool) {
        (Some(server), Some(tool)) => format!("{server}.{tool}"),
        _ => asked.as_ref().map_or_else(|| "request".to_owned(), |asked| asked.kind.clone()),
    };
    let (answer, left_out, error) = match given.map(|given| (&given.outcome, given.left_out)) {
        Some((Some(Outcome::Ok(value)), _)) if value.get().len() > VALUE => (None, Some(value.get().len()), None),
        Some((Some(Outcome::Ok(value)), _)) => (serde_json::from_str::<Value>(value.get()).ok(), None, None),
        Some((Some(Outcome::Err(error)), _)) => (None, None, Some((Ended::Failed(error.code), error.message.as_str()))),
        Some((None, bytes)) => (None, bytes, None),
        None => (None, None, None),
    };
    let error = error.or_else(|| call.and_then(|call| Some((call.outcome, call.error.as_deref()?))));
    let outcome = match (call, error, given) {
        (Some(call), _, _) => call.outcome,
        (None, Some((outcome, _)), _) => outcome,
        (None, None, Some(_)) => Ended::Ok,
        (None, None, None) => Ended::Running,
    };
    let at_ms = call.map(|call| unix_ms(call.began.0)).filter(|at| *at > 0).or_else(|| sent.map(|sent| sent.at_ms));
    let ms = call.and_then(|call| call.ms);
    let ms = ms.or_else(|| Some(given?.now_ms.saturating_sub(sent?.at_ms) as f64));
    let args = asked.as_ref().map(|asked| asked.fields.get("args").unwrap_or(&asked.fields).clone());
    json!({
        "op": number,
        "label": people::line(&label),
        "server": server,
        "tool": tool,
        "nested": number >= NESTED,
        "from": call.and_then(|call| call.from.as_ref()),
        "at_ms": at_ms,
        "ms": ms,
        "args": args,
        "args_text": call.map(|call| &call.args),
        "answer": answer,
        "left_out_bytes": left_out,
        "error": error.map(|(code, message)| json!({ "code": code, "message": message })),
        "outcome": outcome,
        "verdict": call.map(|call| &call.verdict),
        "refused": call.is_some_and(|call| call.verdict.is_refusal()),
        "cost": call.map(|call| call.cost).unwrap_or_default().to_string(),
        "labels": call.map(|call| call.labels.clone()).unwrap_or_default(),
        "approval": call.and_then(|call| call.verdict.approval()),
        "inherited": given.and_then(|given| given.from.as_ref()).map(|from| json!({ "run": from.run, "op": from.op })),
        "unknown": !is_running && operation.is_some_and(Operation::is_unknown),
    })
}

/// Server and tool, as the log has them, else as the script wrote them.
fn named(op: Option<&Op>, call: Option<&CallRecord>) -> (Option<String>, Option<String>) {
    let (server, tool) = match (call, op) {
        (Some(call), _) => (&call.server, &call.tool),
        (None, Some(Op::Tool { server, tool, .. })) => (server, tool),
        (None, Some(Op::ReadResource { server, uri })) => (server, uri),
        (None, Some(Op::Prompt { server, name, .. })) => (server, name),
        _ => return (None, None),
    };
    (Some(server.clone()), Some(tool.clone()))
}

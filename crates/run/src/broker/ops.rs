//! Answers scripts: calls go through the broker's steps, everything else comes from memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::time::now_ms;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{CallError, Json, Op, Outcome};

use super::{Broker, ExecutionContext, normalise};
use crate::discovery::{Discovery, SEARCH_STEPS, Sight};
use crate::runs::{self, Watched};
use crate::sandbox::{Answer, Host};
use crate::session;
use base::error::{Error, ErrorCode, Result};
use base::json;
use base::labels::Labels;
use base::limits;
use base::meter::{Meter, metered_as};
use base::pause::Pause;
use base::task;
use catalog::Catalog;
use catalog::manifest::ServerEntry;
use redact::{Outgoing, Surface};
use state::{Entry, Room};
use upstream::Step;

#[async_trait]
impl Host for Broker {
    async fn call(&self, call: u64, op: Op) -> Answer {
        let (call, is_nested) = match &self.scope {
            Some(_) => (self.run.nesting.number(), true),
            None => (call, false),
        };
        // Of a script within the run its calls are evidence: the rest it does again when it runs again.
        let is_call = matches!(op, Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. });
        let evidence = self.evidence().filter(|_| is_call || !is_nested);
        if let Some(evidence) = evidence {
            evidence.asked(call, &op);
        }
        let outcome = match self.perform_op(call, op).await {
            Ok(json) => Outcome::Ok(json),
            Err(error) => Outcome::Err(call_error(&error)),
        };
        let now_ms = evidence.map_or_else(now_ms, |evidence| evidence.answered(call, &outcome, self.labels()));
        Answer { outcome, now_ms }
    }

    fn pause(&self) -> &Pause {
        &self.run.pause
    }

    fn wrote(&self, text: &str) {
        if let Some(live) = self.context.live.as_ref().filter(|_| self.scope.is_none()) {
            live.wrote(text);
        }
    }

    fn reported(&self, text: &str) {
        let Some(caller) = &self.context.caller else { return };
        // A run below `/runs` has the labels of its own script.
        if self.scope.is_some() {
            return;
        }
        let message = self.outgoing(Surface::Output(self.context.runs.answers.redaction), text);
        if let Some(live) = &self.context.live {
            live.report(message.clone());
        }
        caller.progress(Step { done: self.run.ledger.closed(), message });
    }
}

impl Watched for Broker {
    fn labels(&self) -> Labels {
        self.taint.now().labels
    }

    fn calls(&self) -> usize {
        self.run.ledger.closed()
    }
}

/// Decides which files and results a script may see.
impl Sight for Broker {
    fn sees(&self, labels: &Labels) -> bool {
        self.taint.glimpse(labels)
    }

    fn counts(&self, server: &str) -> bool {
        !self.context.policy.rules.sets_apart(server) || self.taint.now().labels.contains(server)
    }
}

impl Broker {
    /// Discovery of the execution's session.
    pub(super) fn discovery<'a>(&'a self, sight: Option<&'a dyn Sight>) -> Discovery<'a> {
        let lowered = self.context.limits.lowered();
        let ExecutionContext { catalog, session, runs, searching, .. } = &*self.context;
        Discovery { catalog, session, lowered, runs: runs.clone(), searching: searching.clone(), sight }
    }

    async fn perform_op(&self, call: u64, op: Op) -> Result<Json> {
        self.scope.as_ref().map_or(Ok(()), |scope| scope.admit(&op))?;
        let discovery = self.discovery(Some(self));
        if !matches!(op, Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. } | Op::Sleep { .. }) {
            self.run.ledger.charge_discovery()?;
        }
        match op {
            Op::Tool { server, tool, args } => json_text(&self.call_tool(call, &server, &tool, args.get()).await?),
            Op::ReadResource { server, uri } => {
                let answer = self.read_resource(call, &server, uri).await?;
                self.for_script(&server, "a resource", answer)
            }
            Op::Prompt { server, name, args } => {
                let answer = self.prompt(call, &server, &name, args.get()).await?;
                self.for_script(&server, "a prompt", answer)
            }
            Op::Ls { path, depth } => {
                self.enter_folder(call, "ls", &path)?;
                words(discovery.ls(&path, depth).await?)
            }
            Op::Cat { paths, lines } => {
                paths.iter().try_for_each(|path| self.enter_folder(call, "cat", path))?;
                let text = self.read_files(call, &discovery, &paths, lines.as_deref()).await?;
                task::work_on(text.len(), || words(text))
            }
            Op::Search { queries, limit, path } => words(discovery.search(&queries, limit, path.as_deref()).await?),
            Op::Servers => words(self.servers()),
            Op::SearchTools { query, limit } => words(self.search_tools(query, limit).await?),
            Op::ToolInfo { server, tool } => {
                let (_, stub) = self.context.catalog.tool(&server, &tool)?;
                task::work_on(stub.definition_bytes, || words(Value::clone(&*stub.definition.tree())))
            }
            Op::StashPut { key, value, ttl_secs } => {
                limits::STASH_KEY.check(key.len())?;
                json::measure(value.get().as_bytes()).map_err(|unfit| {
                    Error::new(ErrorCode::InvalidArgs, format!("the value of {key:?} cannot be kept")).caused_by(unfit)
                })?;
                let most = self.context.limits.stash_value_bytes;
                if value.get().len() > most {
                    let size = value.get().len();
                    let what =
                        format!("the value of {key:?} has {size} bytes, and a value of the stash at most {most}");
                    return Err(Error::new(ErrorCode::BudgetExceeded, what)
                        .hint("keep less, or raise `sandbox.limits.stash_value` in the configuration"));
                }
                let (ttl, room) = (ttl_secs.map(Duration::from_secs), Room::stash(&self.context.limits));
                self.run.ledger.stash("put", &key, value.get().len());
                self.run.stash.put(key, value.get().to_owned(), self.labels(), ttl, room, self.readable()).await?;
                json_text(&Value::Null)
            }
            Op::StashGet { key } => {
                let found = self.stashed(&key).await?;
                self.run.ledger.stash("get", &key, found.as_ref().map_or(0, |text| text.len()));
                match found {
                    Some(text) => RawValue::from_string(text.to_string()).map_err(not_json),
                    None => json_text(&Value::Null),
                }
            }
            Op::StashDelete { key } => {
                let is_there = self.stashed(&key).await?.is_some();
                self.run.ledger.stash("delete", &key, 0);
                self.run.stash.delete(&key, self.readable()).await?;
                json_text(&is_there)
            }
            // A key is its writer's data as much as the value under it.
            Op::StashKeys => json_text(&self.run.stash.keys(|labels| self.sees(labels)).await?),
            Op::ResultsList => json_text(&self.results().await?),
            Op::ResultsGet { path } => self.result(&discovery, &path).await,
            // The wall clock of the run bounds it.
            Op::Sleep { ms } => {
                let has_waited = self.evidence().is_some_and(|evidence| evidence.has_waited(call));
                let ms = if has_waited { 0 } else { ms };
                tokio::time::sleep(Duration::from_millis(u64::from(ms))).await;
                json_text(&Value::Null)
            }
            Op::RunsList => json_text(&self.context.runs.list(|labels| self.sees(labels), false).await?),
            Op::RunsGet { run } => self.run(&run).await,
            Op::RunsCancel { run } if self.run.is_dry => {
                let is_running = self.context.runs.get(&run).await?.state == base::outcome::Outcome::Running;
                json_text(&is_running)
            }
            Op::RunsCancel { run } => json_text(&self.context.runs.cancel(&run, &self.labels()).await?),
        }
    }

    /// The answer to `Op::ReadResource` or `Op::Prompt`.
    fn for_script(&self, server: &str, what: &str, value: Value) -> Result<Json> {
        let entry = self.context.catalog.server(server)?;
        json_text(&normalise::with_handles(value, &self.origin(entry, what))?)
    }

    /// Filter of kept data: only what this execution may read exists for it.
    fn readable(&self) -> impl Fn(&Labels) -> bool {
        |labels| self.taint.may_take_in(labels)
    }

    /// An entry of the stash. Its mere existence is information from its writer.
    async fn stashed(&self, key: &str) -> Result<Option<Arc<str>>> {
        let Some(entry) = self.run.stash.get(key, self.readable()).await? else { return Ok(None) };
        // A concurrent call may have entered another group meanwhile.
        if self.taint.take_in("the stash", &entry.labels).is_err() {
            return Ok(None);
        }
        self.reads_kept(&entry.value);
        Ok(Some(entry.value))
    }

    /// Adds the server to the taint: names of resources in its folder are its data.
    fn enter_folder(&self, call: u64, what: &str, path: &str) -> Result<()> {
        let Some(server) = self.context.catalog.resource_list_of(path) else { return Ok(()) };
        self.taint.enter(server).map_err(|error| self.record_invalid(call, server, what, path, error))?;
        self.taint.receive(server);
        Ok(())
    }

    /// Stored results that may be listed here, without their content.
    async fn results(&self) -> Result<Value> {
        let describe = |result: &Entry| {
            json!({
                "path": result.name, "bytes": result.value.len(), "lines": result.lines, "labels": result.labels,
            })
        };
        let results = self.context.session.results.list(|labels| self.sees(labels)).await?;
        Ok(results.iter().map(describe).collect())
    }

    async fn result(&self, discovery: &Discovery<'_>, path: &str) -> Result<Json> {
        let sees = |labels: &Labels| discovery.sees(labels);
        let result = self.context.session.results.get(path, self.readable(), sees).await?;
        self.taint.take_in(&result.name, &result.labels)?;
        self.reads_kept(&result.value);
        match session::is_json(&result) {
            true => {
                let compact = || RawValue::from_string(json::compact(&result.value));
                task::work_on(result.value.len(), compact).map_err(not_json)
            }
            false => json_text(&*result.value),
        }
    }

    /// A run of the client, with the labels of what it has.
    async fn run(&self, id: &str) -> Result<Json> {
        let run = self.context.runs.get(id).await?;
        if !self.taint.may_take_in(&run.labels) {
            return Err(runs::unknown(id));
        }
        self.taint.take_in(&format!("/runs/{}", run.id), &run.labels)?;
        let json = self.context.runs.redacted(run, self.context.session.placeholders()).to_json();
        self.reads_kept(json.get());
        Ok(json)
    }

    fn servers(&self) -> Value {
        let describe = |server: &Arc<ServerEntry>| {
            json!({
                "name": server.name,
                "ident": server.ident,
                "state": server.describe(),
                "tools": server.stubs.tools.len(),
                "description": server.stubs.description,
            })
        };
        self.context.catalog.servers().iter().map(describe).collect()
    }

    async fn search_tools(&self, query: String, limit: Option<u32>) -> Result<Value> {
        limits::QUERY.check(query.len())?;
        let limit = limit.unwrap_or(8).min(50) as usize;
        let catalog = Arc::clone(&self.context.catalog);
        let describe = |hit: &catalog::Hit<'_>| {
            json!({
                "server": hit.server.ident,
                "tool": hit.tool.ident,
                "path": Catalog::stub_path(hit.tool),
                "signature": hit.tool.signature_with(hit.server.observed.of(hit.tool).as_ref()),
                "summary": hit.tool.summary,
            })
        };
        let signals = self.context.searching.signals().await;
        let find = move |meter: &Meter| {
            let hits = catalog.search(&query, limit, "/", &signals, meter)?;
            Ok(hits.iter().map(describe).collect())
        };
        metered_as("search", SEARCH_STEPS, find).await
    }
}

/// The error as scripts see it.
fn call_error(error: &Error) -> CallError {
    CallError {
        code: error.code,
        message: error.message.clone(),
        retryable: error.behaviour().retryable && !error.is_doubtful,
        suggested_fix: Some(error.suggested_fix().to_owned()),
        data: error.data.as_ref().and_then(|data| json_text(data).ok()),
    }
}

/// Words of servers that stand in the catalog, as scripts see them: without configured values.
fn words(said: impl Outgoing + serde::Serialize) -> Result<Json> {
    json_text(&said.redacted(Surface::Script))
}

fn json_text<T: serde::Serialize + ?Sized>(value: &T) -> Result<Json> {
    serde_json::value::to_raw_value(value).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorCode::Internal, "a value has no JSON form").caused_by(error)
}

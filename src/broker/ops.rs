//! What scripts ask of the gateway, answered: calls by the broker's steps, everything else from memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{CallError, Json, Op, Outcome};

use super::{Broker, normalise};
use crate::catalog::Catalog;
use crate::discovery::Discovery;
use crate::error::{Error, ErrorCode, Result};
use crate::manifest::ServerEntry;
use crate::pause::Pause;
use crate::sandbox::Host;
use crate::session::StoredResult;

#[async_trait]
impl Host for Broker {
    async fn call(&self, call: u64, op: Op) -> Outcome {
        match self.perform_op(call, op).await {
            Ok(json) => Outcome::Ok(json),
            Err(error) => Outcome::Err(call_error(&error)),
        }
    }

    fn pause(&self) -> &Pause {
        &self.pause
    }
}

impl Broker {
    async fn perform_op(&self, call: u64, op: Op) -> Result<Json> {
        let discovery = Discovery { catalog: &self.catalog, session: &self.session };
        if !matches!(op, Op::Tool { .. } | Op::ReadResource { .. } | Op::Prompt { .. }) {
            self.ledger.charge_discovery()?;
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
            Op::Ls { path, depth } => json_text(&discovery.ls(&path, depth)?),
            Op::Cat { paths, lines } => json_text(&self.cat(call, &paths, lines.as_deref()).await?),
            Op::Search { queries, limit, path } => json_text(&discovery.search(&queries, limit, path.as_deref())?),
            Op::Servers => json_text(&self.servers()),
            Op::SearchTools { query, limit } => json_text(&self.search_tools(&query, limit)?),
            Op::ToolInfo { server, tool } => json_text(&*self.catalog.tool(&server, &tool)?.1.definition),
            Op::StashPut { key, value, ttl_secs } => {
                let ttl = ttl_secs.map(Duration::from_secs);
                self.stash.put(key, value.get().to_owned(), self.labels(), ttl)?;
                json_text(&Value::Null)
            }
            Op::StashGet { key } => match self.stashed(call, "get", &key)? {
                Some(text) => RawValue::from_string(text.to_string()).map_err(not_json),
                None => json_text(&Value::Null),
            },
            Op::StashDelete { key } => {
                let is_there = self.stashed(call, "delete", &key)?.is_some();
                self.stash.delete(&key);
                json_text(&is_there)
            }
            Op::StashKeys => json_text(&self.stash_keys()),
            Op::ResultsList => json_text(&self.results()),
            Op::ResultsGet { path } => self.result(call, &path),
        }
    }

    /// The answer to `Op::ReadResource` or `Op::Prompt`.
    fn for_script(&self, server: &str, what: &str, value: Value) -> Result<Json> {
        let entry = self.catalog.server(server)?;
        json_text(&normalise::with_handles(value, &self.origin(entry, what))?)
    }

    /// An entry of the stash. To learn whether there is one is to learn something of its writer.
    fn stashed(&self, call: u64, what: &str, key: &str) -> Result<Option<Arc<str>>> {
        let Some((text, labels)) = self.stash.get(key) else { return Ok(None) };
        let taken = self.holdings.take_in(&format!("stash entry {key:?}"), &labels);
        taken.map_err(|error| self.unfit(call, "stash", what, key, error))?;
        Ok(Some(text))
    }

    /// The keys that may be read here. A key is data of its writer as much as what is under it.
    fn stash_keys(&self) -> Vec<String> {
        let keys = self.stash.keys().into_iter();
        keys.filter(|(_, labels)| self.holdings.glimpse(labels)).map(|(key, _)| key).collect()
    }

    /// The stored results, without anything of what is in them.
    fn results(&self) -> Value {
        let describe = |result: &Arc<StoredResult>| {
            json!({
                "path": result.path, "bytes": result.text.len(), "lines": result.lines, "labels": result.labels,
            })
        };
        self.session.results.list().iter().map(describe).collect()
    }

    fn result(&self, call: u64, path: &str) -> Result<Json> {
        let result = self.session.results.get(path)?;
        let taken = self.holdings.take_in(&result.path, &result.labels);
        taken.map_err(|error| self.unfit(call, "results", "get", path, error))?;
        match result.is_json {
            true => json_text(&serde_json::from_str::<Value>(&result.text).map_err(not_json)?),
            false => json_text(&result.text),
        }
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
        self.catalog.servers().iter().map(describe).collect()
    }

    fn search_tools(&self, query: &str, limit: Option<u32>) -> Result<Value> {
        let hits = self.catalog.search(query, limit.unwrap_or(8).min(50) as usize, "/")?;
        let describe = |hit: &crate::catalog::Hit<'_>| {
            json!({
                "server": hit.server.ident,
                "tool": hit.tool.ident,
                "path": Catalog::stub_path(hit.server, hit.tool),
                "signature": hit.tool.signature,
                "summary": hit.tool.summary,
            })
        };
        Ok(hits.iter().map(describe).collect())
    }
}

/// The error as scripts see it.
#[must_use]
pub fn call_error(error: &Error) -> CallError {
    CallError {
        code: error.code,
        message: error.message.clone(),
        retryable: error.behaviour().retryable,
        suggested_fix: Some(error.suggested_fix().to_owned()),
        data: error.data.as_ref().and_then(|data| json_text(data).ok()),
    }
}

fn json_text<T: serde::Serialize + ?Sized>(value: &T) -> Result<Json> {
    serde_json::value::to_raw_value(value).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(ErrorCode::Internal, format!("a value has no JSON form: {error}"))
}

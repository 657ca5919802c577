//! The list of runs: filtered, newest first, in pages.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::index::{CODE, Entry};
use super::{Asked, Console, wrong};
use base::error::Result;
use base::outcome::Outcome;
use base::task;
use base::text::head;
use config::{AuditTo, Config};

/// Runs of a page, by default and at most.
const PAGE: usize = 100;
const MOST: usize = 500;
/// Most runs whose journals are searched for a text: those with longer scripts than the log has.
const LONG: usize = 1_000;
/// Most values of a filter that are offered.
const FACET: usize = 200;
/// Most characters of a script's first line.
const LINE: usize = 160;

/// Filter of a list.
#[derive(Debug, Default)]
struct Filter {
    client: String,
    outcome: String,
    server: String,
    tool: String,
    label: String,
    /// Text of the script, in any case.
    text: String,
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    /// Runs whose journal has the text behind what the log has of their scripts.
    beyond: BTreeSet<Arc<str>>,
}

impl Filter {
    fn has(&self, entry: &Entry) -> bool {
        self.fits(entry) && (self.text.is_empty() || self.says(entry))
    }

    /// True if its script, or the begin of its id, has the text.
    fn says(&self, entry: &Entry) -> bool {
        entry.code.to_lowercase().contains(&self.text)
            || entry.id.starts_with(&self.text)
            || self.beyond.contains(&entry.id)
    }

    /// True if everything but the text fits.
    fn fits(&self, entry: &Entry) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let outcome = match self.outcome.as_str() {
            "failed" => !matches!(entry.outcome, Outcome::Ok | Outcome::Running | Outcome::Unfinished),
            "refused" => entry.refused() > 0,
            wanted => is(wanted, &entry.outcome.name()),
        };
        let called = |call: &super::index::Call| is(&self.server, &call.server) && is(&self.tool, &call.tool);
        let is_called = (self.server.is_empty() && self.tool.is_empty()) || entry.calls.iter().any(called);
        let is_held = self.label.is_empty() || entry.labels().contains(self.label.as_str());
        is(&self.client, &entry.client)
            && outcome
            && is_called
            && is_held
            && self.from_ms.is_none_or(|from| entry.at_ms >= from)
            && self.to_ms.is_none_or(|to| entry.at_ms <= to)
    }
}

/// The file of the audit log.
///
/// # Errors
/// `INVALID_ARGS` when there is none.
pub(super) fn log(config: &Config) -> Result<PathBuf> {
    match (&config.audit.to, &config.audit.path) {
        (AuditTo::File, Some(path)) => Ok(path.clone()),
        _ => {
            let what = "there is no audit log in a file, from which runs are listed";
            Err(wrong(what, "set `to = \"file\"` in [audit] of forge.toml"))
        }
    }
}

impl Console {
    /// Runs of the audit log, newest first. Those that run now have the outcome `running`.
    pub(super) async fn entries(self: &Arc<Self>) -> Result<Vec<Arc<Entry>>> {
        let (console, path) = (Arc::clone(self), log(&self.gateway.config())?);
        let read = task::apart(move || {
            let mut all = console.index.all(&path)?;
            all.sort_by(|one, other| (other.at_ms, &other.id).cmp(&(one.at_ms, &one.id)));
            Ok(all)
        });
        read.await
    }

    /// A page of the runs that match a filter.
    pub(super) async fn runs(self: &Arc<Self>, asked: &Asked) -> Result<Value> {
        let all = self.entries().await?;
        let mut filter = Filter {
            client: asked.text("client").to_owned(),
            outcome: asked.text("outcome").to_owned(),
            server: asked.text("server").to_owned(),
            tool: asked.text("tool").to_owned(),
            label: asked.text("label").to_owned(),
            text: asked.text("text").to_lowercase(),
            from_ms: asked.number("from_ms")?,
            to_ms: asked.number("to_ms")?,
            beyond: BTreeSet::new(),
        };
        filter.beyond = self.beyond(&all, &filter).await;
        let limit = asked.number("limit")?.map_or(PAGE, |limit| usize::try_from(limit).unwrap_or(MOST)).clamp(1, MOST);
        let before = cursor(asked.text("cursor"))?;
        let running: BTreeSet<String> = self.gateway.board().look(0).into_iter().map(|run| run.id).collect();
        task::apart(move || Ok(page(&all, &filter, before, limit, &running))).await
    }

    /// The newest runs of a filter with longer scripts than the log has, whose journals have its text.
    async fn beyond(&self, all: &[Arc<Entry>], filter: &Filter) -> BTreeSet<Arc<str>> {
        let mut found = BTreeSet::new();
        let Some(journals) = self.gateway.journals().filter(|_| !filter.text.is_empty()) else { return found };
        // The log's beginning ends at a character.
        let is_cut = |entry: &&Arc<Entry>| entry.code.len() + 4 > CODE && filter.fits(entry) && !filter.says(entry);
        for entry in all.iter().filter(is_cut).take(LONG) {
            // The client of a person of the console has another name.
            let client = Some(&*entry.client).filter(|client| !client.contains('/'));
            let run = journals.find(client, &entry.id).await;
            if run.is_ok_and(|run| run.head.code.to_lowercase().contains(&filter.text)) {
                found.insert(Arc::clone(&entry.id));
            }
        }
        found
    }
}

/// The place of a run in the order of the list.
type Position = (u64, String);

fn cursor(text: &str) -> Result<Option<Position>> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = text.split_once('-').and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    found.map(Some).ok_or_else(|| wrong("`cursor` is none of this list", "begin at the first page"))
}

fn page(
    all: &[Arc<Entry>],
    filter: &Filter,
    before: Option<Position>,
    limit: usize,
    running: &BTreeSet<String>,
) -> Value {
    let mut matched = 0;
    let mut rows: Vec<&Arc<Entry>> = Vec::new();
    for entry in all.iter().filter(|entry| filter.has(entry)) {
        matched += 1;
        let is_after = before.as_ref().is_none_or(|(at_ms, id)| (entry.at_ms, &*entry.id) < (*at_ms, id.as_str()));
        if is_after && rows.len() <= limit {
            rows.push(entry);
        }
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| has_more).map(|last| format!("{}-{}", last.at_ms, last.id));
    let rows: Vec<Value> = rows.into_iter().map(|entry| brief(entry, running.contains(&*entry.id))).collect();
    json!({
        "runs": rows,
        "next": next,
        "matched": matched,
        "indexed": all.len(),
        "facets": {
            "clients": facet(all.iter().map(|entry| &*entry.client)),
            "outcomes": facet(all.iter().map(|entry| entry.outcome.name())),
            "servers": facet(all.iter().flat_map(|entry| entry.calls.iter().map(|call| &*call.server))),
            "labels": facet(all.iter().flat_map(|entry| entry.labels())),
        },
        "note": (!filter.text.is_empty()).then(|| format!("of the {LONG} newest longer scripts, text is looked for in the whole")),
    })
}

fn facet<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = BTreeSet::new();
    for value in values {
        if found.len() < FACET {
            found.insert(value);
        }
    }
    found.into_iter().collect()
}

/// A run as lists show it.
pub(super) fn brief(entry: &Entry, is_running: bool) -> Value {
    let first = entry.code.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    json!({
        "id": entry.id,
        "at_ms": entry.at_ms,
        "client": entry.client,
        "client_name": entry.client_name,
        "session": entry.session,
        "config": entry.config,
        "kind": if entry.language.is_some() { "script" } else { "request" },
        "language": entry.language,
        "request": entry.request,
        "outcome": if is_running { Outcome::Running } else { entry.outcome },
        "error": entry.error,
        "ms": entry.ms,
        "calls": entry.calls.len(),
        "refused": entry.refused(),
        "cost": entry.cost.to_string(),
        "labels": entry.labels().into_iter().take(FACET).collect::<Vec<_>>(),
        "servers": entry.servers().into_iter().take(FACET).collect::<Vec<_>>(),
        "title": entry.title(),
        "code": head(first.trim(), LINE),
        "dry_run": entry.dry_run,
    })
}

//! The catalog as the operator sees it: folders and files, tools with their definitions and findings, and searches with
//! what their ranking is made of.

use std::sync::Arc;

use serde_json::{Value, json};

use super::access::Person;
use super::reply::Refusal;
use super::{Asked, Console};
use base::error::Result;
use base::limits;
use base::meter::metered_as;
use base::principal::Principal;
use base::task;
use catalog::findings::Item;
use catalog::{Catalog, Signals, View, Word};
use run::discovery::{self, File, Lines, SEARCH_STEPS, objects};

/// Hits of a search, by default and at most.
const HITS: usize = 20;
const MOST_HITS: usize = 50;

impl Console {
    /// A folder, as `forgefs ls --json` shows it.
    pub(super) async fn ls(&self, path: &str) -> Result<Value> {
        let path = if path.is_empty() { "/" } else { path };
        limits::PATH.check(path.len())?;
        let catalog = self.gateway.catalog();
        task::work_on(task::LONG, || objects::entries(&catalog, path))
    }

    /// A file, as `forgefs cat --json` shows it. One who may only look gets what the gateway has: a resource is read from its
    /// server.
    pub(super) async fn cat(&self, path: &str, by: &Person) -> Result<Value, Refusal> {
        let (paths, session) = ([path.to_owned()], &by.session);
        let text = if by.rights.may_act {
            self.gateway.cat(session, &paths, None).await?
        } else {
            let catalog = self.gateway.catalog_of(session.principal());
            let sight = self.gateway.discovery(&catalog, session);
            let files = sight.files(&paths, Lines::parse(None)?).await?.into_iter().map(|file| match file {
                File::Text { path, text, .. } => Ok((path, text)),
                File::Resource(_) => Err(Refusal::asks_no_server()),
            });
            discovery::concatenate(&files.collect::<Result<Vec<_>, _>>()?).0
        };
        Ok(json!({ "files": [{ "path": path, "text": text }] }))
    }

    /// Hits of a query, each with what its score is made of.
    pub(super) async fn search(&self, asked: &Asked) -> Result<Value> {
        let query = asked.text("q").trim().to_owned();
        limits::QUERY.check(query.len())?;
        let limit = asked.number("limit")?.map_or(HITS, |limit| usize::try_from(limit).unwrap_or(MOST_HITS));
        let (catalog, limit) = (self.gateway.catalog(), limit.clamp(1, MOST_HITS));
        if query.is_empty() {
            return Ok(json!({ "query": query, "hits": [], "weak": false }));
        }
        let signals = self.gateway.searching(&Principal::local()).signals().await;
        metered_as("search", SEARCH_STEPS, move |meter| found(&catalog, &query, limit, &signals, meter)).await
    }

    /// A tool with its definition, stubs and findings.
    pub(super) async fn tool(&self, server: &str, tool: &str) -> Result<Value> {
        let catalog = self.gateway.catalog();
        task::work_on(task::LONG, || shown(&catalog, server, tool))
    }
}

fn found(
    catalog: &Arc<Catalog>,
    query: &str,
    limit: usize,
    signals: &Signals,
    meter: &base::meter::Meter,
) -> Result<Value, base::meter::Halt> {
    let (hits, is_weak) = catalog.search_explained(query, limit, signals, meter)?;
    let hits = hits.into_iter().map(|(hit, explained)| {
        let mut object = objects::tool(hit.server, hit.tool);
        object["score"] = hit.score.into();
        let beside = [
            ("name", "share of its name", explained.name),
            ("meaning", "its meaning", explained.meaning),
            ("learned", "calls after such queries", explained.learned),
        ];
        object["why"] = explained.words.iter().map(word).chain(beside.into_iter().filter_map(signal)).collect();
        object["boosts"] = json!(explained.boosts);
        object["agent_sees"] = (!hit.server.quarantine.contains_key(&hit.tool.ident)).into();
        object
    });
    Ok(json!({ "query": query, "hits": hits.collect::<Vec<_>>(), "weak": is_weak }))
}

fn word(word: &Word) -> Value {
    json!({
        "word": word.word,
        "as": word.meant,
        "how": word.how,
        "fields": if word.in_name { json!(["name"]) } else { json!(["text"]) },
        "rarity": word.rarity,
        "gives": word.gives,
    })
}

/// A score beside those of words.
fn signal((how, meant, gives): (&str, &str, f32)) -> Option<Value> {
    let fields = if how == "name" { json!(["name"]) } else { json!([]) };
    let row = || json!({ "word": null, "as": meant, "how": how, "fields": fields, "rarity": null, "gives": gives });
    (gives > 0.001).then(row)
}

fn shown(catalog: &Catalog, server: &str, tool: &str) -> Result<Value> {
    let (entry, stub) = catalog.tool(server, tool)?;
    let definition = stub.definition.tree();
    let item = Item::Tool(stub.name.clone());
    let findings: Vec<Value> = catalog
        .findings(entry)
        .filter(|finding| finding.place.is_of(&item))
        .map(|finding| finding.json(&entry.name))
        .collect();
    let observed = entry.observed.of(stub);
    Ok(json!({
        "server": entry.ident,
        "name": stub.name,
        "ident": stub.ident,
        "state": entry.quarantine.get(&stub.ident).map(ToString::to_string),
        "definition": &*definition,
        "stubs": {
            "pyi": stub.view(View::Pyi, observed.as_ref()),
            "dts": stub.view(View::Dts, observed.as_ref()),
            "md": stub.view(View::Md, observed.as_ref()),
        },
        "findings": findings,
        "schema": definition.get("inputSchema"),
        "effect": stub.annotations.word(),
        "path": Catalog::stub_path(stub),
    }))
}

//! `forgefs ls`, `cat` and `search`: the agent's tools on the terminal.

use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::remote::{Answer, Piece};
use super::{Failure, shapes};
use run::discovery::objects;
use run::session::Session;
use server::gateway::Gateway;

/// Hits a query with `--json`, by default and at most.
const HITS: u32 = 8;
const MOST_HITS: u32 = 50;

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LsArgs {
    /// Folder
    #[arg(default_value = "/")]
    pub(super) path: String,
    /// Levels to list
    #[arg(long, short)]
    depth: Option<u32>,
    /// Print one JSON object, errors too
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatArgs {
    /// Files or globs, such as /github/*.pyi
    #[arg(required = true)]
    pub(super) paths: Vec<String>,
    /// Lines, such as 10-40, or -5 for the last five
    #[arg(long, allow_negative_numbers = true)]
    lines: Option<String>,
    /// Print one JSON object, errors too
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArgs {
    /// Purpose of the tool; several queries are answered one after the other
    #[arg(required = true)]
    queries: Vec<String>,
    /// Hits a query
    #[arg(long, short)]
    limit: Option<u32>,
    /// Folder to stay in
    #[arg(long)]
    pub(super) path: Option<String>,
    /// Print one JSON object, errors too
    #[arg(long)]
    json: bool,
}

/// Lists a folder.
pub(super) async fn list(gateway: &Gateway, session: &Arc<Session>, args: &LsArgs) -> Result<Answer, Failure> {
    // With --json too, for its errors and limits.
    let listing = gateway.ls(session, &args.path, args.depth).await?;
    if !args.json {
        return Ok(Answer::of(Piece::Out(listing)));
    }
    let entries = objects::entries(&gateway.catalog_of(session.principal()), &args.path)?;
    Ok(Answer::of(Piece::Json(shapes::foreign(gateway, entries))))
}

/// Reads files.
pub(super) async fn read(gateway: &Gateway, session: &Arc<Session>, args: &CatArgs) -> Result<Answer, Failure> {
    let (paths, lines) = (&args.paths, args.lines.as_deref());
    if !args.json {
        return Ok(Answer::of(Piece::Out(gateway.cat(session, paths, lines).await?)));
    }
    let mut files = Vec::new();
    for path in paths {
        let text = gateway.cat(session, std::slice::from_ref(path), lines).await?;
        files.push(json!({ "path": path, "text": text }));
    }
    Ok(Answer::of(Piece::Json(shapes::whole(json!({ "files": files })))))
}

/// Searches the stubs.
pub(super) async fn find(gateway: &Gateway, session: &Arc<Session>, args: &SearchArgs) -> Result<Answer, Failure> {
    let SearchArgs { queries, limit, path, json } = args;
    let path = path.as_deref();
    // With --json too, for its errors and limits.
    let answer = gateway.search(session, queries, *limit, path).await?;
    if !*json {
        return Ok(Answer::of(Piece::Out(answer)));
    }
    let (catalog, limit) =
        (gateway.catalog_of(session.principal()), limit.unwrap_or(HITS).clamp(1, MOST_HITS) as usize);
    let queries = queries.iter().map(|query| query.trim().to_owned()).filter(|query| !query.is_empty());
    let queries: Vec<String> = queries.collect();
    let signals = gateway.searching(session.principal()).signals().await;
    let found = catalog.find_all(&queries, limit, path.unwrap_or("/"), &signals)?;
    Ok(Answer::of(Piece::Json(shapes::foreign(gateway, objects::hits(&catalog, &queries, &found)))))
}

//! `forgefs ls`, `cat` and `search`: the agent's tools on the terminal.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use serde_json::json;

use super::remote::{self, Answer, Piece, Request};
use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use run::discovery::objects;
use run::session::Session;
use server::gateway::Gateway;

/// Hits a query with `--json`, by default and at most.
const HITS: u32 = 8;
const MOST_HITS: u32 = 50;

#[derive(Args)]
pub(super) struct LsArgs {
    /// Folder
    #[arg(default_value = "/")]
    path: String,
    /// Levels to list
    #[arg(long, short)]
    depth: Option<u32>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Args)]
pub(super) struct CatArgs {
    /// Files or globs, such as /github/*.pyi
    #[arg(required = true)]
    paths: Vec<String>,
    /// Lines, such as 10-40, or -5 for the last five
    #[arg(long)]
    lines: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Args)]
pub(super) struct SearchArgs {
    /// Purpose of the tool; several queries are answered one after the other
    #[arg(required = true)]
    queries: Vec<String>,
    /// Hits a query
    #[arg(long, short)]
    limit: Option<u32>,
    /// Folder to stay in
    #[arg(long)]
    path: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

pub(super) async fn ls(global: &Global, args: LsArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let LsArgs { path, depth, format } = args;
    let request = Request::Ls { path, depth, json: format.json };
    remote::answer(global, request, false, ui).await
}

pub(super) async fn cat(global: &Global, args: CatArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let CatArgs { paths, lines, format } = args;
    let request = Request::Cat { paths, lines, json: format.json };
    remote::answer(global, request, false, ui).await
}

pub(super) async fn search(global: &Global, args: SearchArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let SearchArgs { queries, limit, path, format } = args;
    let request = Request::Search { queries, limit, path, json: format.json };
    remote::answer(global, request, false, ui).await
}

/// Lists a folder.
pub(super) async fn list(
    gateway: &Gateway,
    session: &Arc<Session>,
    path: &str,
    depth: Option<u32>,
    json: bool,
) -> Result<Answer, Failure> {
    // With --json too, for its errors and limits.
    let listing = gateway.ls(session, path, depth).await?;
    Ok(Answer::of(match json {
        true => {
            Piece::Json(shapes::foreign(gateway, objects::entries(&gateway.catalog_of(session.principal()), path)?))
        }
        false => Piece::Out(listing),
    }))
}

/// Reads files.
pub(super) async fn read(
    gateway: &Gateway,
    session: &Arc<Session>,
    paths: &[String],
    lines: Option<&str>,
    json: bool,
) -> Result<Answer, Failure> {
    if !json {
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
pub(super) async fn find(
    gateway: &Gateway,
    session: &Arc<Session>,
    queries: &[String],
    limit: Option<u32>,
    path: Option<&str>,
    json: bool,
) -> Result<Answer, Failure> {
    // With --json too, for its errors and limits.
    let answer = gateway.search(session, queries, limit, path).await?;
    if !json {
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

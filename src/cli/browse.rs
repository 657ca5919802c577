//! `forgefs ls`, `cat` and `search`: the agent's tools on the terminal.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use serde_json::json;

use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global, OTHERS};
use crate::gateway::Gateway;
use crate::manifest::ServerEntry;

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
    /// Lines, such as 10-40
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
    let gateway = started(global, &[&args.path], ui).await?;
    // With --json too, for its errors and limits.
    let listing = gateway.ls(&Arc::default(), &args.path, args.depth).await?;
    match args.format.json {
        true => shapes::print_foreign(&gateway, shapes::entries(&gateway.catalog(), &args.path)?, ui),
        false => ui.out(&listing),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn cat(global: &Global, args: CatArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let paths: Vec<&str> = args.paths.iter().map(String::as_str).collect();
    let gateway = started(global, &paths, ui).await?;
    let (session, lines) = (Arc::default(), args.lines.as_deref());
    if args.format.json {
        let mut files = Vec::new();
        for path in &args.paths {
            let text = gateway.cat(&session, std::slice::from_ref(path), lines).await?;
            files.push(json!({ "path": path, "text": text }));
        }
        shapes::print(json!({ "files": files }), ui);
        return Ok(ExitCode::SUCCESS);
    }
    ui.out(&gateway.cat(&session, &args.paths, lines).await?);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn search(global: &Global, args: SearchArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let gateway = started(global, &[args.path.as_deref().unwrap_or("/")], ui).await?;
    // With --json too, for its errors and limits.
    let answer = gateway.search(&Arc::default(), &args.queries, args.limit, args.path.as_deref()).await?;
    if args.format.json {
        let (catalog, limit) = (gateway.catalog(), args.limit.unwrap_or(HITS).clamp(1, MOST_HITS) as usize);
        let queries = args.queries.iter().map(|query| query.trim().to_owned()).filter(|query| !query.is_empty());
        let queries: Vec<String> = queries.collect();
        let found = catalog.find_all(&queries, limit, args.path.as_deref().unwrap_or("/"))?;
        shapes::print_foreign(&gateway, shapes::hits(&catalog, &queries, &found), ui);
        return Ok(ExitCode::SUCCESS);
    }
    ui.out(&answer);
    Ok(ExitCode::SUCCESS)
}

/// A gateway whose servers are up as far as `paths` need them: only those that they name, or all as long as they start in
/// good time.
async fn started(global: &Global, paths: &[&str], ui: Ui) -> Result<Gateway, Failure> {
    let gateway = global.eager(global.load(false)?)?;
    let names: Vec<&str> =
        paths.iter().map(|path| path.trim_start_matches('/').split('/').next().unwrap_or("")).collect();
    let is_named = |server: &ServerEntry| names.iter().any(|name| server.is_called(name));
    let catalog = gateway.catalog();
    let all_named = names.iter().all(|name| catalog.servers().iter().any(|server| server.is_called(name)));
    super::settle(&gateway, is_named, if all_named { Duration::ZERO } else { OTHERS }, ui).await;
    Ok(gateway)
}

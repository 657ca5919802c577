//! `forgefs ls`, `cat` and `search`: the agent's tools on the terminal.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::ui::Ui;
use super::{Failure, Global};

#[derive(Args)]
pub(super) struct LsArgs {
    /// Folder
    #[arg(default_value = "/")]
    path: String,
    /// Levels to list
    #[arg(long, short)]
    depth: Option<u32>,
}

#[derive(Args)]
pub(super) struct CatArgs {
    /// Files or globs, such as /github/*.pyi
    #[arg(required = true)]
    paths: Vec<String>,
    /// Lines, such as 10-40
    #[arg(long)]
    lines: Option<String>,
}

#[derive(Args)]
pub(super) struct SearchArgs {
    /// What the tool should do; several queries are answered one after the other
    #[arg(required = true)]
    queries: Vec<String>,
    /// Hits a query
    #[arg(long, short)]
    limit: Option<u32>,
    /// Folder to stay in
    #[arg(long)]
    path: Option<String>,
}

pub(super) async fn ls(global: &Global, args: LsArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let gateway = global.settled().await?;
    ui.out(&gateway.ls(&Arc::default(), &args.path, args.depth).await?);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn cat(global: &Global, args: CatArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let gateway = global.settled().await?;
    ui.out(&gateway.cat(&Arc::default(), &args.paths, args.lines.as_deref()).await?);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn search(global: &Global, args: SearchArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let gateway = global.settled().await?;
    ui.out(&gateway.search(&Arc::default(), &args.queries, args.limit, args.path.as_deref()).await?);
    Ok(ExitCode::SUCCESS)
}

//! `forgefs doctor`: checks configuration, servers and sandbox.

use std::process::ExitCode;

use clap::Args;

use super::newest::{self, Newest};
use super::ui::Ui;
use super::{Failure, Global, about};
use crate::audit;
use crate::config::exposures;
use crate::manifest::ServerState;

#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Ask the package registry for a newer release; without this, doctor connects to configured servers only
    #[arg(long)]
    online: bool,
    /// Index of releases, for a mirror of the registry
    #[arg(long, hide = true, value_name = "URL", default_value = newest::INDEX)]
    index: String,
}

pub(super) async fn doctor(global: &Global, args: &DoctorArgs, ui: Ui) -> Result<ExitCode, Failure> {
    ui.out(&format!("forgefs {}", about::VERSION));
    ui.out(&format!("build    {}; {}", about::engines(), about::platform()));
    let config = global.load(true)?;
    match &config.path {
        Some(path) => ui.out(&format!("config   {}", path.display())),
        None => ui.out("config   none found; `forgefs init` writes one"),
    }
    for exposure in exposures(&config, std::env::current_exe().ok().as_deref()) {
        ui.out(&format!("warning  {exposure}"));
    }
    if let Err(error) = audit::Log::open(&config.audit).probe() {
        let then = if config.audit.required { ", calls are refused until it can" } else { "" };
        ui.out(&format!("audit    records cannot be written: {error}{then}"));
    }
    let gateway = global.gateway(config)?;
    let mut exit = 0;
    match gateway.pool().describe().await {
        Ok(ready) => {
            for engine in &ready.engines {
                ui.out(&format!(
                    "engine   {}: {} {}",
                    engine.language.as_str(),
                    engine.engine.as_str(),
                    engine.version
                ));
            }
            for layer in &ready.confinement {
                ui.out(&format!(
                    "sandbox  {}: {}",
                    layer.name,
                    if layer.active { layer.detail.clone() } else { format!("NOT ACTIVE, {}", layer.detail) }
                ));
            }
        }
        Err(error) => {
            ui.out(&format!("sandbox  {error}"));
            exit = 4;
        }
    }
    gateway.settle(super::SETTLE).await;
    for server in gateway.catalog().servers() {
        let state = match &server.state {
            ServerState::Ready { protocol } => {
                let hidden = match server.hidden {
                    0 => String::new(),
                    hidden => format!(" and {hidden} hidden"),
                };
                format!("ready, {} tools{hidden}, protocol {protocol}", server.stubs.tools.len())
            }
            other => other.describe(),
        };
        ui.out(&format!("server   {}: {state}", server.name));
        if matches!(server.state, ServerState::Failed { .. } | ServerState::NeedsLogin { .. }) && exit == 0 {
            exit = 3;
        }
    }
    if gateway.catalog().servers().is_empty() {
        ui.out("server   none configured");
    }
    if args.online && !tell_newest(&args.index, ui).await && exit == 0 {
        exit = 3;
    }
    Ok(ExitCode::from(exit))
}

/// Tells of a newer release; false if the registry did not answer.
async fn tell_newest(index: &str, ui: Ui) -> bool {
    let asked = newest::newest(index).await;
    match &asked {
        Ok(Newest::This) => ui.out("release  this is the newest"),
        Ok(Newest::Other(version)) => {
            ui.out(&format!("release  {version} is newer: {}/releases", about::REPOSITORY));
        }
        Err(error) => ui.out(&format!("release  the check failed: {error}; see {}/releases", about::REPOSITORY)),
    }
    asked.is_ok()
}

//! `forgefs reload`: makes running gateways apply an edit that waits for the operator.

use std::fmt::Display;
use std::path::PathBuf;

use serde_json::json;

use super::{Failure, Format, Global, Ui, shapes};
use catalog::manifest::Cache;
use catalog::people;
use config::{Config, process_env, state_folder};
use server::running;

/// Where running gateways are registered.
pub(super) fn entries() -> Result<PathBuf, Failure> {
    state_folder(&process_env).ok_or_else(|| no_gateway("HOME and XDG_STATE_HOME are not set"))
}

pub(super) fn no_gateway(why: impl Display) -> Failure {
    Failure::internal(format!("no gateway can be reached: {why}"))
}

pub(super) fn reload(global: &Global, format: Format, ui: Ui) -> Result<u8, Failure> {
    let path = global.file()?;
    // A gateway has an environment of its own and decides for itself.
    match Config::load(&path, &process_env) {
        Err(error) if error.is_unset => {
            ui.note(&format!("with the environment of this shell it is not valid: {error}"))
        }
        Err(error) => return Err(error.into()),
        // By the lists that are kept: a gateway tells of newer ones in its log.
        Ok(config) => {
            for rule in config.unmatched(&Cache::names(&config)) {
                ui.note(&format!("rule: {}", people::line(&rule.to_string())));
            }
        }
    }
    let signalled = running::hang_up(&entries()?, &path).map_err(no_gateway)?;
    let exit = u8::from(signalled.is_empty());
    if format.json {
        let config = path.display().to_string();
        shapes::print(json!({ "ok": !signalled.is_empty(), "config": config, "gateways": signalled }), ui);
        return Ok(exit);
    }
    for pid in &signalled {
        ui.out(&format!("signalled gateway {pid}, which follows {}", path.display()));
    }
    if signalled.is_empty() {
        ui.note(&format!("no gateway follows {}", path.display()));
    }
    Ok(exit)
}

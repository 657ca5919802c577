//! `forgefs stubs accept`: what servers list now becomes what `pin_first_use` compares with.

use std::process::ExitCode;

use super::{Failure, Global, Ui, current};
use crate::catalog::Catalog;
use crate::cli::findings;
use crate::findings::{Finding, Item, Severity};
use crate::manifest::{Accepted, FirstUse, ServerEntry, ServerState};
use crate::people;
use crate::state;

pub(super) async fn accept(global: &Global, servers: &[String], ui: Ui) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    let state = state::open(&config)?;
    let Some(first_use) = FirstUse::new(&config, &state)? else {
        return Err(Failure::usage("`manifest.pin_first_use` is not on: there is nothing to accept".to_owned())
            .hint("stubs that are reviewed as files are accepted with `forgefs stubs generate --out DIR`"));
    };
    if let Some(unknown) = servers.iter().find(|name| !config.servers.contains_key(*name)) {
        return Err(Failure::usage(format!("there is no server `{unknown}`")).hint("`forgefs ls /` lists the servers"));
    }
    let catalog = current(global, Vec::new(), ui).await?;
    let is_meant = |entry: &&std::sync::Arc<ServerEntry>| {
        !entry.is_scripts()
            && entry.state != ServerState::Disabled
            && (servers.is_empty() || servers.contains(&entry.name))
    };
    for entry in catalog.servers().iter().filter(is_meant) {
        let accepted = first_use.accept(entry, None).await?;
        tell(&catalog, entry, &accepted, ui);
    }
    ui.note("`forgefs reload` has running gateways compare again");
    Ok(ExitCode::SUCCESS)
}

fn tell(catalog: &Catalog, entry: &ServerEntry, accepted: &Accepted, ui: Ui) {
    let Accepted { new, changed, gone } = accepted;
    ui.out(&format!("{}: {} new, {} changed, {} gone", entry.name, new.len(), changed.len(), gone.len()));
    for (what, items) in [("new", new), ("changed", changed), ("gone", gone)] {
        items.iter().for_each(|item| ui.out(&format!("  {what}: {}", people::line(&item.to_string()))));
    }
    let is_accepted = |finding: &&Finding| {
        let is_it = |item: &Item| *item == finding.place.item;
        finding.severity > Severity::Note && (new.iter().any(is_it) || changed.iter().any(is_it))
    };
    for finding in catalog.findings(entry).filter(is_accepted) {
        ui.out(&format!("  finding: {}; {}", findings::line(finding), finding.rule.advice));
    }
}

//! `forgefs stubs accept`: what servers list now becomes what `pin_first_use` compares with; with `--finding` a finding is
//! written into the reviewed tree as harmless.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Failure, Global, Ui, current, tree};
use crate::cli::findings::{self, Acceptance};
use crate::cli::{Format, shapes};
use catalog::Catalog;
use catalog::drift;
use catalog::findings::{Finding, Item, Severity};
use catalog::manifest::{Accepted, FirstUse, ServerEntry, ServerState};
use catalog::people;
use config::process_env;

pub(super) async fn accept(
    global: &Global,
    servers: &[String],
    yes: bool,
    format: Format,
    ui: Ui,
) -> Result<u8, Failure> {
    let config = global.load(false)?;
    let state = state::open(&config)?;
    let Some(first_use) = FirstUse::new(&config, &state)? else {
        return Err(Failure::usage("`manifest.pin_first_use` is not on: there is nothing to accept")
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
    let (mut taken, mut left, mut objects) = (false, false, Vec::new());
    for entry in catalog.servers().iter().filter(is_meant) {
        let found = first_use.against(entry).await?;
        if !format.json {
            tell(&catalog, entry, &found, ui);
        }
        // Agents read the command in errors, and some have a shell: off a terminal a person says so.
        let differs = found != Accepted::default();
        let is_taken =
            yes || !differs || (!format.json && ui.is_interactive() && ui.asks(&format!("Accept {}?", entry.name)));
        objects.push(object(entry, &found, is_taken));
        if is_taken {
            first_use.accept(entry, None).await?;
            taken |= differs;
        } else {
            ui.note(&format!("{}: nothing was accepted; `--yes` accepts it", entry.name));
            left = true;
        }
    }
    if taken {
        ui.note("accepted; run `forgefs reload` to apply it to running gateways");
    }
    if format.json {
        shapes::print(json!({ "ok": !left, "servers": objects }), ui);
    }
    Ok(u8::from(left))
}

/// Differences of a server from its accepted list, as JSON.
fn object(entry: &ServerEntry, Accepted { new, changed, gone }: &Accepted, is_taken: bool) -> Value {
    let names = |items: &mut dyn Iterator<Item = &Item>| items.map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "server": entry.name, "accepted": is_taken, "new": names(&mut new.iter()),
        "changed": names(&mut changed.iter().map(|(item, _)| item)), "gone": names(&mut gone.iter()),
    })
}

/// Accepts the finding with this digest, of every server that has it.
pub(super) async fn finding(
    global: &Global,
    (from, dir): (Vec<PathBuf>, Option<PathBuf>),
    digest: &str,
    (who, why): (Option<String>, String),
    format: Format,
    ui: Ui,
) -> Result<u8, Failure> {
    let dir = match dir {
        Some(dir) => dir,
        None => global
            .load(false)?
            .manifest
            .pin
            .ok_or_else(|| Failure::usage("which tree? `manifest.pin` names none").hint("`--tree DIR` names it"))?,
    };
    let who = who
        .or_else(|| process_env("USER"))
        .ok_or_else(|| Failure::usage("who accepts it? $USER is not set").hint("`--who NAME` says it"))?;
    if why.trim().is_empty() || who.trim().is_empty() {
        return Err(Failure::usage("`--why` and `--who` need a text: reviewers of accepted.json read it"));
    }
    let (mut accepted, _) = tree::accepted(&dir)?;
    let catalog = current(global, from, ui).await?;
    let found = findings::all(&catalog);
    let mut same = found.iter().filter(|found| found.finding.digest == digest).peekable();
    match same.peek() {
        None => {
            let what = format!("there is no finding `{digest}` now");
            return Err(Failure::usage(what).hint("`forgefs stubs check DIR` shows digests, in brackets"));
        }
        // It is of what was not read.
        Some(found) if found.finding.rule.id == "not-examined" => {
            return Err(Failure::usage("`not-examined` cannot be accepted: its text was not read"));
        }
        Some(_) => {}
    }
    let (mut lines, mut servers) = (Vec::new(), Vec::new());
    for found in same {
        let line = findings::line(found.finding);
        let acceptance = Acceptance { who: who.clone(), why: why.clone(), finding: line.clone() };
        if accepted.entry(found.server.name.clone()).or_default().insert(digest.to_owned(), acceptance).is_none() {
            lines.push(format!("accepted: {}: {line}", found.server.name));
            servers.push(&found.server.name);
        }
    }
    tree::accept(&dir, &accepted)?;
    match format.json {
        true => shapes::print(json!({ "finding": digest, "servers": servers }), ui),
        false => lines.iter().for_each(|line| ui.out(line)),
    }
    Ok(0)
}

fn tell(catalog: &Catalog, entry: &ServerEntry, accepted: &Accepted, ui: Ui) {
    let Accepted { new, changed, gone } = accepted;
    ui.out(&format!("{}: {} new, {} changed, {} gone", entry.name, new.len(), changed.len(), gone.len()));
    let line = |what: &str, item: &Item| ui.out(&format!("  {what}: {}", people::line(&item.to_string())));
    new.iter().for_each(|item| line("new", item));
    for (item, both) in changed {
        line("changed", item);
        let Some([before, now]) = both else { continue };
        for change in drift::of_item(item, before, now) {
            ui.out(&format!("    {}", people::line(&format!("{}: {}", change.class.as_str(), change.what))));
        }
    }
    gone.iter().for_each(|item| line("gone", item));
    let is_accepted = |finding: &&Finding| {
        let is_it = |item: &Item| finding.place.is_of(item);
        finding.severity > Severity::Note && (new.iter().any(is_it) || changed.iter().any(|(item, _)| is_it(item)))
    };
    for finding in catalog.findings(entry).filter(is_accepted) {
        ui.out(&format!("  finding: {}; {}", findings::line(finding), finding.rule.advice));
    }
}

//! `forgefs clients`: clients of `serve --http`, and their tokens.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::servers::{RELOAD, Target, tell_backup};
use super::shapes::{self, Format};
use super::ui::Ui;
use super::{Failure, Global};
use crate::config::{Edit, is_client_name, token_digest};
use crate::random;

#[derive(Args)]
pub(super) struct ClientsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a token for a client, print it once, and keep its digest in the configuration
    Add {
        /// Name of the client, for policies and records
        name: String,
        #[command(flatten)]
        format: Format,
    },
    /// List the clients
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Remove a client: its token and its sessions end
    Remove {
        /// Name of the client
        name: String,
        #[command(flatten)]
        format: Format,
    },
}

impl ClientsArgs {
    /// True if it prints JSON.
    pub(super) fn json(&self) -> bool {
        let (Command::Add { format, .. } | Command::List { format } | Command::Remove { format, .. }) = &self.command;
        format.json
    }
}

pub(super) fn clients(global: &Global, args: &ClientsArgs, ui: Ui) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Add { name, format } => add(&Target::any(global), name, *format, ui)?,
        Command::List { format } => list(&Target::existing(global)?, *format, ui)?,
        Command::Remove { name, format } => {
            let target = Target::existing(global)?;
            let backup = target.edit(|edit| edit.without_client(name).map(Some))?;
            match format.json {
                true => shapes::print(json!({ "name": name, "file": target.shown() }), ui),
                false => {
                    ui.note(&format!(
                        "removed {name} from {}; its token ends at once where a gateway runs",
                        target.shown()
                    ));
                    if Edit::parse(target.path(), &target.text()?)?.clients().next().is_none() {
                        ui.note("it was the last: `forgefs reload` serves this machine without a token again");
                    }
                }
            }
            tell_backup(backup.as_deref(), ui);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(target: &Target, name: &str, format: Format, ui: Ui) -> Result<(), Failure> {
    if !is_client_name(name) {
        let failure = Failure::usage(format!("`{name}` is not usable as the name of a client"));
        return Err(failure.hint("use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first"));
    }
    // 256 bits, with a beginning by which people and scanners recognise it.
    let token = format!("forgefs_{}{}", random::token(), random::token());
    let backup = target.edit(|edit| edit.with_client(name, &token_digest(&token)).map(Some))?;
    match format.json {
        true => shapes::print(json!({ "name": name, "token": token, "file": target.shown() }), ui),
        false => {
            ui.note(&format!("added {name} to {}, with the digest of its token; {RELOAD}", target.shown()));
            ui.note("the token is shown this once; clients send it as `Authorization: Bearer TOKEN`:");
            ui.out(&token);
        }
    }
    tell_backup(backup.as_deref(), ui);
    Ok(())
}

fn list(target: &Target, format: Format, ui: Ui) -> Result<(), Failure> {
    let text = target.text()?;
    let edit = Edit::parse(target.path(), &text)?;
    let names: Vec<&String> = edit.clients().collect();
    match (format.json, names.as_slice()) {
        (true, _) => shapes::print(json!({ "file": target.shown(), "clients": names }), ui),
        (false, []) => ui.note("no clients: `serve --http` serves this machine alone; `forgefs clients add NAME`"),
        (false, names) => names.iter().for_each(|name| ui.out(name)),
    }
    Ok(())
}

//! `forgefs connect`: ForgeFS in the configurations of MCP clients.

mod change;
mod document;
mod json;
mod program;
mod report;
mod take_over;
mod toml;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::clients::{CLIENTS, Client, Located, Os, home, show};
use super::{Failure, Format, Global, Ui, shapes};
use base::random;
use change::{Plan, Undo};
use config::process_env;
use program::{program, serve};
use report::{Outcome, Report};

/// Attempts to edit a file that another program changes at the same time.
const ATTEMPTS: u32 = 20;
/// Reason when all of them failed.
const BUSY: &str = "another program changed it during each of 20 attempts; close the client";

/// Attempts to edit a file that others edit, each but the first after a pause of its own length.
fn attempts() -> impl Iterator<Item = ()> {
    (0..ATTEMPTS).map(|before| {
        if before > 0 {
            std::thread::sleep(Duration::from_millis((random::number() % (4 * before)).into()));
        }
    })
}

#[derive(Args)]
#[command(after_help = CLIENTS_HELP)]
pub(super) struct ConnectArgs {
    /// Clients [default: those that are installed]
    #[arg(value_name = "CLIENT", value_parser = PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id)))]
    clients: Vec<String>,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Take ForgeFS out again: the old file, or the file without the entry if it was edited since
    #[arg(long)]
    undo: bool,
    /// Move the client's other servers behind ForgeFS: into forge.toml, credentials into a private file beside it, and out
    /// of the client's file
    #[arg(long, conflicts_with_all = ["yes", "undo", "json"])]
    import: bool,
    /// With --import: move servers without starting them first
    #[arg(long, requires = "import")]
    no_check: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

const CLIENTS_HELP: &str = "\
On a terminal it shows the change and asks. Elsewhere, and with --json, it shows
the change, and writes it with --yes only. The old file is kept beside the new
one, as FILE.<time>-<digest>.forgefs-backup.";

/// Settings of one run of the command.
struct Connector<'a> {
    global: &'a Global,
    args: &'a ConnectArgs,
    home: Option<PathBuf>,
    /// The configuration in use, or the one to make.
    config: Option<PathBuf>,
    /// Command that starts the gateway.
    program: String,
    /// Its arguments.
    args_of_program: Vec<String>,
    ui: Ui,
}

pub(super) async fn connect(global: &Global, args: &ConnectArgs, ui: Ui) -> Result<u8, Failure> {
    let cwd = std::env::current_dir().unwrap_or_default();
    let chosen = |client: &&Client| args.clients.is_empty() || args.clients.iter().any(|id| id == client.id);
    let mut found: Vec<(&Client, Located)> = Vec::new();
    for client in CLIENTS.iter().filter(chosen) {
        let located = client.locate(Os::current(), &process_env, &cwd);
        found.extend(located.map(|located| (client, located)));
    }
    if args.clients.is_empty() {
        found.retain(|(_, located)| located.is_found);
    }
    if found.is_empty() {
        let ids: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        let failure = Failure::usage("no MCP client is installed here").exit(1);
        return Err(failure.hint(format!("name one of {}, and its file is made", ids.join(", "))));
    }
    let home = home(&process_env);
    let default = home.as_ref().map(|home| home.join(".config/forgefs/forge.toml"));
    let config = global.find()?.map(|config| cwd.join(config));
    let config = match (config, default) {
        (None, Some(default)) => {
            if !args.undo && !args.import {
                ui.note(&format!("note: there is no {} yet; `forgefs add` makes it", default.display()));
            }
            Some(default)
        }
        (config, _) => config,
    };
    let (program, mut args_of_program) = program()?;
    args_of_program.extend(serve(config.as_deref())?);
    let connector = Connector { global, args, home, config, program, args_of_program, ui };
    if args.clients.is_empty() {
        let names: Vec<&str> = found.iter().map(|(client, _)| client.name).collect();
        ui.note(&format!("found: {}", names.join(", ")));
    }
    let mut reports: Vec<Report> = Vec::new();
    for (client, located) in &found {
        reports.push(match args.undo {
            false => connector.connect(client, located).await,
            true => connector.undo(client, located),
        });
    }
    let outcomes: Vec<Outcome> = reports.iter().map(|report| report.outcome).collect();
    connector.sum_up(&outcomes);
    if args.format.json {
        let clients = found.iter().zip(&reports).map(|((client, located), report)| report.json(client, &located.path));
        let config = connector.config.as_deref().map(|config| config.display().to_string());
        shapes::print(serde_json::json!({ "config": config, "clients": clients.collect::<Vec<_>>() }), ui);
    }
    Ok(u8::from(outcomes.contains(&Outcome::Failed)))
}

impl Connector<'_> {
    /// Adds ForgeFS to a client's file.
    async fn connect(&self, client: &Client, located: &Located) -> Report {
        let entry = document::entry(client, &self.program, &self.args_of_program);
        let by_hand = |problem: String| {
            let mut report = self.fail(client, &located.path, &problem);
            if !self.args.import {
                report.paste = self.paste(client, &located.path, &entry);
            }
            report
        };
        let taken_over = if self.args.import { self.take_over(client, located).await } else { Ok(None) };
        let taken_over = match taken_over {
            Ok(taken_over) => taken_over,
            Err(problem) => return self.fail(client, &located.path, &problem),
        };
        let servers = taken_over.as_ref().map(|taken_over| taken_over.servers.as_slice()).unwrap_or_default();
        let question = match &taken_over {
            None => format!("Connect {}?", client.name),
            Some(taken_over) => format!("{}, and connect {}?", taken_over.question(), client.name),
        };
        let mut is_taken_over = false;
        let mut is_agreed = self.args.yes;
        for () in attempts() {
            let plan = match Plan::connect(client, located, &entry, servers) {
                Ok(Some(plan)) => plan,
                Ok(None) => {
                    self.ui.note(&format!("{}: connected already, in {}", client.name, self.show(&located.path)));
                    return Outcome::Same.into();
                }
                Err(problem) => return by_hand(problem),
            };
            let report = Report { difference: plan.difference.clone(), ..Outcome::Left.into() };
            is_agreed = is_agreed || self.agrees(client, &plan, &question);
            if !is_agreed {
                return report;
            }
            // First: a server in both files is better than one in none.
            if let Some(taken_over) = taken_over.as_ref().filter(|_| !is_taken_over) {
                // While the question was open, another program may have written.
                if !plan.is_current() {
                    continue;
                }
                if let Err(error) = taken_over.write(self) {
                    return self.fail(client, taken_over.file.path(), &error.to_string());
                }
                is_taken_over = true;
            }
            match plan.apply() {
                Ok(backup) => {
                    let kept = self.kept(backup.as_deref());
                    self.ui.note(&format!("{}: connected in {}; {kept}", client.name, self.show(plan.path())));
                    if !self.args.import && change::has_others(client, located) {
                        let others = "its other servers are still its own; `--import` moves them behind ForgeFS";
                        self.ui.note(&format!("{}: {others}", client.name));
                    }
                    let outcome = match &taken_over {
                        None => Outcome::Written,
                        Some(taken_over) => {
                            self.ui.note(&format!("{}: {}", client.name, taken_over.way_back(client)));
                            Outcome::Moved
                        }
                    };
                    return Report { outcome, backup, ..report };
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                Err(error) => return by_hand(error.to_string()),
            }
        }
        self.fail(client, &located.path, BUSY)
    }

    /// Takes ForgeFS out of a client's file.
    fn undo(&self, client: &Client, located: &Located) -> Report {
        let mut report = Report::from(Outcome::Left);
        let (mut is_agreed, mut is_written) = (self.args.yes, false);
        for () in attempts() {
            let plan = match Plan::undo(client, located) {
                // Before the edit that was undone there was another one, or none.
                Ok(next) if is_written && next.as_ref().is_none_or(|next| next.undo_kind() != Undo::Restore) => {
                    if next.is_some() {
                        let path = self.show(&located.path);
                        let what = "still connected, by an entry from before that; `connect --undo` again takes it out";
                        self.ui.note(&format!("{}: {path} is {what}", client.name));
                    }
                    return report;
                }
                Ok(Some(plan)) => plan,
                Ok(None) => {
                    self.ui.note(&format!("{}: not connected, in {}", client.name, self.show(&located.path)));
                    return Outcome::Same.into();
                }
                Err(problem) => return self.fail(client, &located.path, &problem),
            };
            is_agreed = is_agreed || self.agrees(client, &plan, &format!("Take ForgeFS out of {}?", client.name));
            if !is_agreed {
                return Report { difference: plan.difference.clone(), ..report };
            }
            match plan.apply() {
                Ok(backup) => {
                    report.outcome = Outcome::Written;
                    report.difference.push_str(&plan.difference);
                    report.backup.clone_from(&backup);
                    let backup = backup.map(|backup| self.show(&backup)).unwrap_or_default();
                    let what = match plan.undo_kind() {
                        Undo::Restore => "is as it was before".to_owned(),
                        Undo::Remove => "is removed, which `connect` had made".to_owned(),
                        Undo::Entry => {
                            let back = match plan.back.join(", ") {
                                names if names.is_empty() => names,
                                names => format!("; back in it: {names}"),
                            };
                            format!("was edited since, so only the entry is taken out{back}; the old file is {backup}")
                        }
                    };
                    self.ui.note(&format!("{}: {} {what}", client.name, self.show(plan.path())));
                    is_written = true;
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                Err(error) => return self.fail(client, &located.path, &error.to_string()),
            }
        }
        self.fail(client, &located.path, BUSY)
    }

    fn fail(&self, client: &Client, path: &Path, problem: &str) -> Report {
        self.ui.note(&format!("error: {}: {} was not edited: {problem}", client.name, self.show(path)));
        Report { error: Some(problem.to_owned()), ..Outcome::Failed.into() }
    }

    /// Shows a change, and asks on a terminal; elsewhere the answer is no, and so it is with `--json`.
    fn agrees(&self, client: &Client, plan: &Plan, question: &str) -> bool {
        if self.args.format.json {
            return false;
        }
        self.ui.note(&format!("{}, {}:", client.name, self.show(plan.path())));
        self.ui.out(&plan.difference);
        self.ui.is_interactive() && self.ui.asks(question)
    }

    /// Shows what to write by hand, and returns it.
    fn paste(&self, client: &Client, path: &Path, entry: &serde_json::Value) -> Option<String> {
        let text = document::new(client, entry).ok()?;
        if !self.args.format.json {
            self.ui.note(&format!("to connect {} by hand, merge this into {}:", client.name, self.show(path)));
            self.ui.out(&text);
            self.ui.note(&format!("its documentation: {}", client.docs));
        }
        Some(text)
    }

    fn sum_up(&self, outcomes: &[Outcome]) {
        let left = outcomes.iter().filter(|outcome| **outcome == Outcome::Left).count();
        if left > 0 && (self.args.format.json || !self.ui.is_interactive()) {
            self.ui.note(match self.args.import {
                false => "nothing of this was written; --yes writes it",
                true => "nothing of this was written: --import asks first, on a terminal",
            });
        }
        if self.args.undo {
            return;
        }
        if outcomes.contains(&Outcome::Moved) {
            self.ui.note("restart the client to have it read its file");
        } else if outcomes.contains(&Outcome::Written) {
            self.ui.note("restart the client to have it read its file; `forgefs connect --undo` takes all back");
        }
    }

    /// Says where the old file is.
    fn kept(&self, backup: Option<&Path>) -> String {
        match backup {
            Some(backup) => format!("the old file is {}", self.show(backup)),
            None => "the file is new".to_owned(),
        }
    }

    fn show(&self, path: &Path) -> String {
        show(path, self.home.as_deref())
    }
}

#[cfg(test)]
mod tests;

//! `forgefs connect`: ForgeFS in the configurations of MCP clients.

mod change;
mod document;
mod json;
mod report;
mod toml;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::clients::{CLIENTS, Client, Located, Os, home, show};
use super::servers::faults;
use super::{Failure, Format, Global, Ui, init, shapes};
use base::files::{Edited, Layout};
use base::limits;
use base::random;
use change::{Plan, Undo};
use config::process_env;
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
                            format!("was edited since, so only the entry is taken out; the old file is {backup}")
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

    /// Prepares to move the client's servers into the configuration; `None` when there are none.
    async fn take_over(&self, client: &Client, located: &Located) -> Result<Option<TakeOver>, String> {
        let target = self.config.as_deref().ok_or("no home folder for a forge.toml")?;
        let file = Edited::read(target, limits::CONFIGURATION.max as u64)
            .map_err(|error| format!("{}: {error}", self.show(target)))?;
        let layout = Layout::of(file.content().unwrap_or_default()).map_err(|error| error.to_string())?;
        // Before the import reads them: they are compared once more before they are removed.
        let servers = change::servers(client, located)?;
        let take_over =
            |stays: &BTreeMap<String, String>| init::take_over(&located.path, target, layout.plain(), stays);
        let (mut moved, new) = take_over(&BTreeMap::new())?;
        if self.ui.is_interactive() && !self.args.no_check && !moved.imported.taken_over.is_empty() {
            let faults = faults(self.global, new, self.ui).await.map_err(|failure| failure.message)?;
            let faults = faults.ok_or("interrupted while its servers were started")?;
            let stays = faults.iter().flat_map(|(name, fault)| {
                let why = format!("it does not start behind ForgeFS: {fault}; --no-check moves it all the same");
                moved.imported.called.get(name).into_iter().flatten().map(move |called| (called.clone(), why.clone()))
            });
            (moved, _) = take_over(&stays.collect())?;
        }
        let imported = &moved.imported;
        imported.tell(self.ui);
        if imported.taken_over.is_empty() && imported.known.is_empty() {
            self.ui.note(&format!("{}: no server to move", client.name));
            return Ok(None);
        }
        let names = imported.taken_over.iter().chain(&imported.known);
        let servers = names.map(|name| (name.clone(), servers.get(name).cloned())).collect();
        let text = layout.render(&moved.text);
        Ok(Some(TakeOver { moved, servers, file, text, shown: self.show(target) }))
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

/// A client's servers on their way behind ForgeFS.
struct TakeOver {
    moved: init::Taken,
    /// The servers to remove from the client's file, with the values that were read there.
    servers: Vec<(String, Option<serde_json::Value>)>,
    /// The configuration.
    file: Edited,
    /// Its new content.
    text: String,
    /// Its path for people.
    shown: String,
}

impl TakeOver {
    /// Start of the question.
    fn question(&self) -> String {
        let (imported, file) = (&self.moved.imported, &self.shown);
        let (new, known) = (imported.taken_over.join(", "), imported.known.join(", "));
        match (new.as_str(), known.as_str()) {
            (_, "") => format!("Move {new} to {file}"),
            ("", _) => format!("Take out {known}, which {file} has already"),
            _ => format!("Move {new} to {file}, take out {known}, which it has already"),
        }
    }

    /// Says what `--undo` brings back and what it leaves.
    fn way_back(&self, client: &Client) -> String {
        let undo = format!("`forgefs connect {} --undo` brings its servers back, unless its file is edited", client.id);
        match self.moved.imported.written.as_slice() {
            [] => undo,
            written => format!("{undo}; in {} stay, until you remove them: {}", self.shown, written.join(", ")),
        }
    }

    /// Writes the configuration, readable by its owner only: not every credential is recognised.
    fn write(&self, connector: &Connector<'_>) -> io::Result<()> {
        if self.file.content() == Some(self.text.as_bytes()) {
            return match self.file.is_current() {
                true => Ok(()),
                false => Err(io::Error::new(ErrorKind::ResourceBusy, "another program changed it; try again")),
            };
        }
        if let Some(env_file) = &self.moved.env_file {
            connector.ui.note(&env_file.write()?);
        }
        let backup = self.file.replace_private(self.text.as_bytes())?;
        let (imported, file, kept) = (&self.moved.imported, &self.shown, connector.kept(backup.as_deref()));
        connector.ui.note(&format!("{file}: added {}; {kept}", imported.written.join(", ")));
        if imported.secrets > 0 {
            let count = imported.secrets;
            let text = format!("warning: credentials in plain text in {file}: {count}; keep it out of version control");
            connector.ui.note(&text);
        }
        Ok(())
    }
}

/// Command that starts this executable, as text for a client's file, and its first arguments: npx or uvx if it is in their
/// cache, which may be emptied at any time; else its absolute path, and of several the one that the next version has too.
fn program() -> Result<(String, Vec<String>), Failure> {
    let path = std::env::current_exe().map_err(|error| Failure::internal(format!("this executable: {error}")))?;
    if !path.exists() {
        return Err(Failure::internal(format!("this executable was replaced: {} is gone", path.display())));
    }
    Ok(match launcher(&path) {
        Some((launcher, args)) => (launcher.to_owned(), args.iter().map(|arg| (*arg).to_owned()).collect()),
        None => (text(&lasting(&path).unwrap_or(path))?, Vec::new()),
    })
}

/// The path by which the shell finds this executable on PATH, or by which it was started, with links as they are: they lead
/// to the next version too.
fn lasting(executable: &Path) -> Option<PathBuf> {
    let real = executable.canonicalize().ok()?;
    let name = Path::new("forgefs").with_extension(std::env::consts::EXE_EXTENSION);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&folders).map(|folder| folder.join(&name)).find(|path| path.is_file());
    let started = std::env::args_os().next().map(PathBuf::from).filter(|path| path.components().count() > 1);
    let paths = [on_path, started.and_then(|path| std::path::absolute(path).ok())];
    paths.into_iter().flatten().find(|path| path.is_absolute() && path.canonicalize().ok().as_ref() == Some(&real))
}

/// The command that installed an executable into a cache, and its arguments.
fn launcher(executable: &Path) -> Option<(&'static str, &'static [&'static str])> {
    let parts: Vec<_> = executable.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let is_uv =
        |pair: &[&str]| pair[0] == "uv" && (pair[1].starts_with("archive-v") || pair[1].starts_with("environments-v"));
    if parts.contains(&"_npx") {
        Some(("npx", &["-y", "forgefs"]))
    } else if parts.windows(2).any(is_uv) {
        Some(("uvx", &["forgefs"]))
    } else {
        None
    }
}

/// Arguments of the gateway. The configuration is always named: a client may start it in a folder that has a `forge.toml`
/// of its own, whose servers would be started.
fn serve(config: Option<&Path>) -> Result<Vec<String>, Failure> {
    let named = config.map(text).transpose()?.map(|config| ["--config".to_owned(), config]);
    Ok(["serve".to_owned()].into_iter().chain(named.into_iter().flatten()).collect())
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: not UTF-8, which a client's file must be", path.display())))
}

#[cfg(test)]
mod tests;

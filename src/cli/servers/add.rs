//! `forgefs add`: tries a server, shows what it offers, and writes it into the configuration.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::target::{self, Target};
use super::tried::{State, Tried};
use crate::cli::init::reading;
use crate::cli::{Failure, Format, Global, Ui, shapes};
use catalog::manifest::{FirstUse, ServerEntry, ServerState};
use config::entries::{self, Entry, Names, Surroundings, Words, key};
use config::{Config, Edit, InGroup, NewServer, process_env, secret_variables};

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(in crate::cli) struct AddArgs {
    /// Name of the server: its tools appear under /NAME/
    pub(in crate::cli) name: String,
    /// URL of a server on HTTP
    #[arg(required_unless_present = "command", conflicts_with_all = ["command", "sandbox"])]
    pub(in crate::cli) url: Option<String>,
    /// Program that is the server, with its arguments
    #[arg(last = true)]
    pub(in crate::cli) command: Vec<String>,
    /// Working directory of the program
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) cwd: Option<PathBuf>,
    /// Speak HTTP+SSE, the transport before Streamable HTTP
    #[arg(long)]
    pub(in crate::cli) sse: bool,
    #[command(flatten)]
    pub(in crate::cli) how: How,
    #[arg(skip)]
    pub(in crate::cli) origin: Origin,
}

/// Where the words come from, if no person typed them.
#[derive(Clone, Default)]
pub(in crate::cli) struct Origin {
    /// Comment above the entry.
    pub(in crate::cli) comment: Option<String>,
    /// Variables that it wants and no person named: with one of them it is not tried, and written as disabled.
    pub(in crate::cli) refers: Vec<String>,
}

/// How a server is added.
#[derive(Args)]
pub(in crate::cli) struct How {
    /// Variable of the program; NAME alone refers to the one of this environment; may be repeated
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(in crate::cli) env: Vec<String>,
    /// Header of every request; may be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(in crate::cli) header: Vec<String>,
    /// One line for `ls /`, in place of the server's own description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Group to put it into, made if there is none: a script that has called one strict group calls no other
    #[arg(long, value_name = "GROUP", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// Calls that ask the user for approval: never, plan, writes or always
    #[arg(long, value_parser = ["never", "plan", "writes", "always"])]
    approval: Option<String>,
    /// What its process may do, by a preset (docs/sandbox.md); it is tried so
    #[arg(long, value_enum)]
    sandbox: Option<Preset>,
    /// Write it without trying it
    #[arg(long)]
    pub(in crate::cli) no_check: bool,
    /// Write credentials as they are, in place of references to variables
    #[arg(long)]
    in_clear: bool,
    /// Ask nothing, on a terminal too
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// Its program alone
    Pure,
    /// Also `--cwd`, and the absolute paths among its arguments
    Files,
    /// Also the network, but no files
    Net,
}

impl Preset {
    fn pair(self) -> String {
        let word = match self {
            Self::Pure => "pure",
            Self::Files => "files",
            Self::Net => "net",
        };
        format!("sandbox = \"{word}\"")
    }
}

const USAGE: &str = "forgefs add [OPTIONS] <NAME> -- <COMMAND> [ARGS]...\n       forgefs add [OPTIONS] <NAME> <URL>";

const EXAMPLES: &str = "\
Examples:
  forgefs add files -- npx -y @modelcontextprotocol/server-filesystem .
  forgefs add github https://api.githubcopilot.com/mcp/ -H \"Authorization: Bearer $GITHUB_TOKEN\"
  forgefs add sentry https://mcp.sentry.dev/mcp        then log in: forgefs auth login sentry

The server is started or reached, and its tools are shown, before anything is written: one that does
not answer is not. A credential becomes a reference such as ${GITHUB_TOKEN} to a variable.";

pub(in crate::cli) async fn add(global: &Global, args: AddArgs, ui: Ui) -> Result<u8, Failure> {
    let target = Target::any(global);
    let mut typed = typed(&args, &target)?;
    // Words of an entry name variables that no person allowed it: it has none of them until it is enabled.
    let is_missing = typed.lacks(&args.origin.refers, &|_| None);
    let mut pairs = typed.pairs();
    pairs.extend(args.how.approval.iter().map(|when| format!("approval = \"{when}\"")));
    let sandbox = args.how.sandbox.map(Preset::pair);
    pairs.extend(sandbox.clone());
    let comments: Vec<String> = args.origin.comment.clone().into_iter().chain(typed.comments()).collect();
    let group_key = args.how.group.as_deref().map(key).unwrap_or_default();
    let group = args.how.group.as_deref().map(|name| InGroup { name, key: &group_key });
    let new = NewServer { name: &args.name, key: &key(&args.name), comments: &comments, pairs: &pairs, group };
    // First, so that nothing is started for a file that cannot be edited.
    let text = target.text()?;
    let edit = Edit::parse(target.path(), &text)?;
    drop(edit.with(&new)?);
    let names = Names::of(&edit, &args.name);
    let config = alone(&typed, &target, sandbox.as_deref(), args.how.no_check || is_missing)?;
    let json = args.how.format.json;
    let is_asked = ui.is_interactive() && !args.how.yes && !json;
    let mut tried = None;
    if let Some(config) = config {
        if ui.is_interactive() {
            ui.note(&format!("trying {}; the first start of a server may take a while", args.name));
        }
        let Some(trial) = Tried::new(global, &args.name, config, ui).await? else { return Ok(130) };
        tried = Some(trial.tell(json, ui)?);
        if is_asked && !ui.asks(&format!("Write {} to {}?", args.name, target.shown())) {
            ui.note("nothing was written");
            return Ok(1);
        }
    }
    let backup = target.edit(|edit| edit.with(&new).map(Some))?;
    // One that wants a login has listed nothing yet.
    if let Some(entry) = tried.as_ref().filter(|entry| matches!(entry.state, ServerState::Ready { .. })) {
        reviewed(&target, entry, ui).await;
    }
    if json {
        let edit = shapes::edit(&target.shown(), &args.name, Some(typed.unset.is_empty()), true, backup.as_deref());
        let state = tried.map(|entry| State::of(&entry));
        shapes::print(object(edit, &typed, &names, state), ui);
        return Ok(0);
    }
    report(&args, &typed, &target, ui);
    names.notes.iter().for_each(|note| ui.note(&format!("note: {note}")));
    if backup.is_none() {
        ui.note(&format!("{} is new: {}", target.shown(), reading(target.path())));
        ui.note("next: `forgefs connect` connects Claude, Codex, Cursor, VS Code and others to it");
    }
    target::tell_backup(backup.as_deref(), ui);
    Ok(0)
}

/// Pins what was shown, where first lists are pinned: a server that lists other at its next start is held.
async fn reviewed(target: &Target, entry: &ServerEntry, ui: Ui) {
    let pinned = async {
        let config = Config::load(target.path(), &process_env).map_err(|error| error.to_string())?;
        let state = state::open(&config).map_err(|error| error.to_string())?;
        match FirstUse::new(&config, &state).map_err(|error| error.to_string())? {
            Some(first_use) => first_use.accept(entry, None).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    };
    if let Err(error) = pinned.await {
        ui.note(&format!("warning: its tools are pinned as its next start lists them: {error}"));
    }
}

/// The shape of `add` in `docs/json.md`.
fn object(mut edit: Value, typed: &Entry, names: &Names, state: Option<State>) -> Value {
    edit["identifier"] = names.identifier.as_str().into();
    edit["state"] = json!(state.as_ref().map(|state| state.word));
    edit["tools"] = json!(state.as_ref().map(|state| state.tools));
    edit["detail"] = json!(state.map(|state| state.detail));
    edit["references"] = json!(typed.references());
    edit["unset"] = json!(typed.unset);
    edit["in_clear"] = json!(typed.secrets);
    edit["notes"] = typed.notes.iter().chain(&names.notes).map(String::as_str).collect();
    edit
}

fn typed(args: &AddArgs, target: &Target) -> Result<Entry, Failure> {
    let words = Words {
        name: &args.name,
        command: &args.command,
        url: args.url.as_deref(),
        env: &args.how.env,
        headers: &args.how.header,
        cwd: args.cwd.as_deref(),
        sse: args.sse,
        description: args.how.description.as_deref(),
    };
    let around = Surroundings {
        env: &process_env,
        secrets: &secret_variables(),
        cwd: &std::env::current_dir().unwrap_or_default(),
        target: target.path(),
        in_clear: args.how.in_clear,
    };
    entries::typed(&words, &around).map_err(Failure::usage)
}

/// The entry as a configuration of its own. Without a check, `None`, and its variables may be unset.
fn alone(typed: &Entry, target: &Target, sandbox: Option<&str>, unchecked: bool) -> Result<Option<Config>, Failure> {
    let known = |name: &str| typed.variables.get(name).cloned().or_else(|| process_env(name));
    let lenient = |name: &str| known(name).or_else(|| unchecked.then(|| "unset".to_owned()));
    match Config::parse(&(typed.alone() + sandbox.unwrap_or_default()), target.path(), &lenient) {
        Ok(_) if unchecked => Ok(None),
        Ok(config) => Ok(Some(config)),
        Err(error) => {
            let key = if error.key.is_empty() { String::new() } else { format!("{}: ", error.key) };
            Err(Failure::usage(format!("{key}{}; nothing was written", error.message)).hinted(error.hint))
        }
    }
}

fn report(args: &AddArgs, typed: &Entry, target: &Target, ui: Ui) {
    typed.notes.iter().for_each(|note| ui.note(&format!("note: {note}")));
    for key in &typed.secrets {
        ui.note(&format!("warning: {key} is a credential in plain text; keep the file out of version control"));
    }
    let (name, file) = (&args.name, target.shown());
    match &typed.unset[..] {
        [] => ui.note(&format!("added {name} to {file}; {}", target::RELOAD)),
        unset => {
            let list = unset.join(", ");
            ui.note(&format!(
                "added {name} to {file}, disabled: it refers to {list}, not set here, in place of a credential\n\
                 export {list} where forgefs is started, then `forgefs enable {name}`"
            ));
        }
    }
    let mut set = typed.references();
    set.retain(|name| !typed.unset.contains(name));
    if !set.is_empty() {
        ui.note(&format!("it refers to {}: the environment that starts forgefs must have it", set.join(", ")));
    }
}

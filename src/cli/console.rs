//! `forgefs console`: a web page of what agents do, and the people who may open it on HTTP.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use tempfile::NamedTempFile;

use super::servers::{RELOAD, Target, tell_backup};
use super::{Failure, Format, Global, Ui, serve, shapes, signals, tokens};
use config::is_client_name;
use server::mcp::Opening;

/// Form of an address.
const FORM: &str = "give an address of this machine and a port, such as 127.0.0.1:7340";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ConsoleArgs {
    #[command(subcommand)]
    command: Option<ConsoleCommand>,
    /// Address of this machine to listen at [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Print the link, and open no browser
    #[arg(long)]
    no_open: bool,
    /// A link whose session may look, and change nothing
    #[arg(long)]
    read_only: bool,
    /// Print the link as a JSON object, errors too
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum ConsoleCommand {
    /// Make a token for a person who may open /console of `serve --http`, print it once, and keep its digest in the
    /// configuration
    Add {
        /// Name of the person, for records
        name: String,
        /// The person may look, and change nothing
        #[arg(long)]
        read_only: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Take a person's token back: its sessions and scripts end at once
    Remove {
        /// Name of the person
        name: String,
        #[command(flatten)]
        format: Format,
    },
}

pub(super) async fn console(global: &Global, args: ConsoleArgs, ui: Ui) -> Result<u8, Failure> {
    match &args.command {
        Some(ConsoleCommand::Add { name, read_only, format }) => {
            return add(&Target::any(global), name, *read_only, *format, ui);
        }
        Some(ConsoleCommand::Remove { name, format }) => {
            let target = Target::existing(global)?;
            let backup = target.edit(|edit| edit.without_console(name).map(Some))?;
            let taken_up = tokens::taken_up(&target).await;
            if !format.json {
                ui.note(&format!("removed {name} from {}; the sessions end at once", target.shown()));
            }
            tell_backup(backup.as_deref(), ui);
            return format.followed(json!({ "name": name, "file": target.shown() }), taken_up, ui);
        }
        None => {}
    }
    let fault = |address: &str| Failure::usage(format!("--listen: `{address}` is no address with a port")).hint(FORM);
    let parsed = |address: &String| address.parse::<SocketAddr>().map_err(|_| fault(address));
    let listen = args.listen.as_ref().map(parsed).transpose()?;
    let opening =
        Opening { listen: listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))), read_only: args.read_only };
    open(global, &opening, (args.no_open, args.json), ui).await
}

/// Opens the console of the daemon, which is started if the configuration wants one; without one, of a gateway of this
/// process.
async fn open(global: &Global, opening: &Opening, how: (bool, bool), ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    if global.client.is_some() {
        return Err(Failure::usage("--as: the console is for the operator, who sees everything"));
    }
    let mut end = signals::Watch::for_the_end(std::time::Duration::ZERO);
    if super::daemon::console(global, &config, opening, &mut end, |url| tell(url, how, ui)).await? {
        return Ok(0);
    }
    let gateway = Arc::new(serve::started(global, config).await?);
    let open = opening.open(&gateway).await.map_err(Failure::of_usage)?;
    ui.note(
        "note: no daemon runs, so this gateway has servers of its own; it lists the runs of all, and what runs here",
    );
    let _page = tell(&open.url, how, ui);
    tokio::select! {
        () = open.serve(end.asked()) => {}
        () = serve::kept_current(&gateway) => {}
    }
    gateway.save_observed().await;
    Ok(0)
}

/// Tells the link, and opens it in a browser. The browser gets it in a private file, which goes with the command: the
/// command lines of programs are for every user of the machine.
fn tell(url: &str, (no_open, json): (bool, bool), ui: Ui) -> Option<NamedTempFile> {
    match json {
        true => shapes::print(json!({ "url": url }), ui),
        false => ui.out(url),
    }
    ui.note("the link signs in once, within ten minutes; Ctrl-C ends the console");
    if no_open {
        return None;
    }
    let opened = || {
        let mut file = tempfile::Builder::new().prefix("forgefs-console-").suffix(".html").tempfile()?;
        write!(file, "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0; url={url}\">")?;
        file.flush()?;
        open::that_detached(file.path())?;
        Ok::<_, std::io::Error>(file)
    };
    opened().inspect_err(|error| ui.note(&format!("no browser could be opened: {error}"))).ok()
}

fn add(target: &Target, name: &str, read_only: bool, format: Format, ui: Ui) -> Result<u8, Failure> {
    if !is_client_name(name) {
        let failure = Failure::usage(format!("`{name}` is not usable as the name of a person"));
        return Err(failure.hint("use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first"));
    }
    let done = format!("added {name} to {}, with the digest of the token; {RELOAD}", target.shown());
    let told = [&*done, "it signs in at /console of `forgefs serve --http`"];
    tokens::issue(target, name, told, format, |edit, digest| edit.with_console(name, digest, read_only), ui)
}

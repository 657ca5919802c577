//! `forgefs registry`: servers of the official registry, or of another one with the same API.

mod add;
mod search;

use clap::{Args, Subcommand};

use super::ui::Ui;
use super::{Failure, Global};
use base::fetch::Fault;
use catalog::people;
use catalog::registry::{OFFICIAL, Registry};
use config::{Config, cache_folder, process_env};

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Find servers by a part of their names
    Search(search::SearchArgs),
    /// Write a server into the configuration, pinned to its version
    Add(add::AddArgs),
}

const EXAMPLES: &str = "\
Examples:
  forgefs registry search filesystem
  forgefs registry add io.github.acme/weather
  forgefs registry add io.github.acme/files -- ~/documents     arguments that the entry leaves open";

/// The registry to ask.
#[derive(Args)]
struct Place {
    /// Base URL of another registry with the same API; https, or http on this machine
    #[arg(long, value_name = "URL", default_value = OFFICIAL)]
    registry: String,
}

impl Place {
    /// The registry, with the folder in which its answers are kept.
    fn open(&self, global: &Global) -> Result<Registry, Failure> {
        let cache = match global.find().ok().flatten().and_then(|path| Config::load(&path, &process_env).ok()) {
            Some(config) => config.manifest.cache,
            None => cache_folder(&process_env),
        };
        let folder = cache.map(|cache| cache.join("registry"));
        Registry::new(&self.registry, folder).map_err(|error| Failure::usage(format!("--registry: {error}")))
    }
}

pub(super) async fn registry(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    match command {
        Command::Search(args) => search::search(global, &args, ui).await,
        Command::Add(args) => add::add(global, args, ui).await,
    }
}

fn failed(fault: Fault) -> Failure {
    let hint = fault.is_away.then(|| "try again later, or name another registry with --registry".to_owned());
    Failure::usage(people::line(&fault.what)).exit(3).hinted(hint)
}

//! `forgefs policy`: what the audit log says of profiles, and of a changed configuration.

mod suggest;
mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};

use super::shapes::Format;
use super::times::Times;
use super::ui::Ui;
use super::{Failure, Global, audit};
use base::error::{did_you_mean, nearest};
use base::principal::{LOCAL, Principal};
use config::{Config, process_env};
use state::audit::PastCalls;

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Arguments of `forgefs policy`.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Suggest the narrowest profile for what clients called
    Suggest(Past),
    /// Try a changed forge.toml on the calls of the log; exits with 1 if it decides any otherwise
    Try {
        /// The whole changed file, in the folder of forge.toml
        file: PathBuf,
        #[command(flatten)]
        past: Past,
        #[command(flatten)]
        times: Times,
    },
}

/// Part of the log.
#[derive(Args)]
pub(super) struct Past {
    /// Calls of the last days
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Those of a client, by the name of its token; `local` is this machine's user
    #[arg(long)]
    client: Option<String>,
    #[command(flatten)]
    format: Format,
}

pub(super) fn policy(global: &Global, command: Command, ui: Ui) -> Result<u8, Failure> {
    let config = global.load(false)?;
    match command {
        Command::Suggest(past) => suggest::suggest(&config, &past, ui),
        Command::Try { file, past, times } => {
            let next = Config::load(&file, &process_env)?;
            trial::trial(&config, next, &past, times, ui)
        }
    }
}

impl Past {
    /// Reads the log, and tells what of it is not counted.
    fn read(&self, config: &Config, ui: Ui) -> Result<PastCalls, Failure> {
        let path = audit::path(config)?;
        let since = SystemTime::now().checked_sub(Duration::from_secs(u64::from(self.days) * DAY));
        let calls = PastCalls::read(&path, since.unwrap_or(SystemTime::UNIX_EPOCH));
        let mut calls = calls.map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
        // Probes of the gateway are no client's use.
        calls.rows.retain(|call, _| call.client != Principal::PROBE);
        if let Some(client) = &self.client {
            let known = calls.rows.keys().map(|call| &*call.client).chain(config.clients.keys().map(String::as_str));
            let known: BTreeSet<&str> = known.chain([LOCAL]).collect();
            if !known.contains(&**client) {
                let what = format!("--client: neither the log nor forge.toml has a client `{client}`");
                return Err(Failure::usage(what).hinted(did_you_mean(&nearest(client, known))));
            }
            calls.rows.retain(|call, _| call.client == *client);
        }
        if calls.broken > 0 {
            ui.note(&format!("warning: {} lines of the log are no records, or name too much", calls.broken));
        }
        if calls.left_out > 0 {
            ui.note(&format!("warning: {} calls are left out, there are too many kinds: use --days", calls.left_out));
        }
        if calls.rows.is_empty() {
            ui.note(&format!("no such call of the last {} days is on record in {}", self.days, path.display()));
        }
        Ok(calls)
    }
}

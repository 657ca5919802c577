//! `forgefs policy`: what the audit log says of profiles, and of a changed configuration.

mod suggest;
mod trial;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::shapes::Format;
use super::times::Times;
use super::ui::Ui;
use super::{Failure, Global, audit};
use base::error::{did_you_mean, nearest};
use base::principal::LOCAL;
use base::text::counted;
use config::{Config, process_env};
use state::audit::PastCalls;

/// Arguments of `forgefs policy`.
#[derive(Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Suggest the narrowest profile for what clients called
    Suggest {
        #[command(flatten)]
        past: Past,
    },
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
struct Past {
    /// Calls of the last days
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Those of a client, by the name of its token; `local` is this machine's user
    #[arg(long)]
    client: Option<String>,
    #[command(flatten)]
    format: Format,
}

/// Calls of the log, and where it is.
struct Log {
    path: PathBuf,
    calls: PastCalls,
}

pub(super) fn policy(global: &Global, args: PolicyArgs, ui: Ui) -> Result<ExitCode, Failure> {
    let config = global.load(false)?;
    match args.command {
        Command::Suggest { past } => suggest::suggest(&config, &past, ui),
        Command::Try { file, past, times } => {
            let next = Config::load(&file, &process_env)?;
            trial::trial(&config, next, &past, times, ui)
        }
    }
}

impl Past {
    fn read(&self, config: &Config, ui: Ui) -> Result<Log, Failure> {
        let path = audit::path(config)?;
        let days = Duration::from_secs(u64::from(self.days) * 24 * 60 * 60);
        let since = SystemTime::now().checked_sub(days).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut calls =
            PastCalls::read(&path, since).map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
        if let Some(client) = &self.client {
            let known: BTreeSet<&str> = calls.rows.keys().map(|call| &*call.client).chain([LOCAL]).collect();
            let known: BTreeSet<&str> = known.into_iter().chain(config.clients.keys().map(String::as_str)).collect();
            if !known.contains(&**client) {
                let hint = did_you_mean(&nearest(client, known));
                let failure =
                    Failure::usage(format!("--client: neither the log nor forge.toml has a client `{client}`"));
                return Err(failure.hint(hint.as_deref().unwrap_or("`forgefs clients list` shows the clients")));
            }
            calls.rows.retain(|call, _| call.client == *client);
        }
        let broken = (calls.broken, "lines of the log are no records, or name too much");
        let left_out = (calls.left_out, "calls are left out: the log has too many distinct ones; --days has fewer");
        for (count, what) in [broken, left_out].iter().filter(|(count, _)| *count > 0) {
            ui.note(&format!("warning: {count} {what}"));
        }
        if calls.rows.is_empty() {
            ui.note(&format!(
                "no such call is on record in {} in the last {}",
                path.display(),
                counted(self.days as usize, "day")
            ));
        }
        Ok(Log { path, calls })
    }
}

impl Log {
    /// The object with what every command tells of the log.
    fn told(&self, past: &Past, mut object: Value) -> Value {
        let (file, PastCalls { left_out, broken, .. }) = (self.path.display().to_string(), &self.calls);
        object["log"] = json!({ "file": file, "days": past.days, "broken_lines": broken, "left_out": left_out });
        object
    }
}

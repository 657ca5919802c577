//! `forgefs policy`: what the audit log says of profiles, and of a changed configuration.

mod suggest;
mod trial;

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
use base::time::rfc3339;
use config::{Config, process_env};
use state::audit::{PastCalls, Seen};

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
        Command::Suggest { past } => suggest::suggest(config, &past, ui),
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
            let names = calls.rows.keys().map(|call| &call.client).chain(config.clients.keys());
            let known = || names.clone().map(String::as_str).chain([LOCAL]);
            if !known().any(|name| name == client) {
                let failure =
                    Failure::usage(format!("--client: neither the log nor forge.toml has a client `{client}`"));
                let hint = did_you_mean(&nearest(client, known()));
                return Err(failure.hint(hint.as_deref().unwrap_or("`forgefs audit list` shows the clients")));
            }
            calls.rows.retain(|call, _| call.client == *client);
        }
        let told = [
            (calls.broken, "line of the log is no record, or names too much: not counted"),
            (calls.left_out, "call is not counted: the log has too many distinct ones; choose --days or --client"),
            (calls.unmade, "script was refused before its first call: what it would have called is not on record"),
        ];
        for (count, what) in told.iter().filter(|(count, _)| *count > 0) {
            ui.note(&format!("note: {count} × {what}"));
        }
        if calls.rows.is_empty() {
            let of = self.client.as_ref().map(|client| format!(" of {client}")).unwrap_or_default();
            let days = counted(self.days as usize, "day");
            ui.note(&format!("no call{of} is on record in {} in the last {days}", path.display()));
        }
        Ok(Log { path, calls })
    }
}

impl Log {
    /// The object with what every command tells of the log.
    fn told(&self, past: &Past, mut object: Value) -> Value {
        let PastCalls { left_out, broken, unmade, .. } = &self.calls;
        object["log"] = json!({
            "file": self.path.display().to_string(), "days": past.days,
            "broken_lines": broken, "left_out": left_out, "refused_before_a_call": unmade,
        });
        object
    }
}

/// Number and times, as keys of an object.
fn with_times(seen: Seen, mut object: Value) -> Value {
    object["calls"] = seen.count.into();
    object["first"] = rfc3339(seen.first).into();
    object["last"] = rfc3339(seen.last).into();
    object
}

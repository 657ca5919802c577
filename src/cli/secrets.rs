//! `forgefs secrets`: secrets in the desktop's keyring, and their rotation in running gateways.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::reload::{entries, no_gateway};
use super::{Failure, Format, Global, Ui, shapes};
use base::limits;
use config::secrets::keyring;
use redact::secret;
use server::running;

/// Time for the answers of gateways: that of the secrets, and that of a slow server to start.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Subcommand)]
pub(super) enum SecretsCommand {
    /// Put a secret, read from stdin, into the desktop's keyring, for `{ keyring = "NAME" }`
    Set(Named),
    /// List the names of the secrets in the keyring
    List(Format),
    /// Remove a secret from the keyring
    Remove(Named),
    /// Have running gateways read the secrets of a server anew, and connect to it with the new values
    Rotate {
        /// Server
        server: String,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Args)]
pub(super) struct Named {
    /// Name of the entry
    name: String,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn secrets(global: &Global, command: SecretsCommand, ui: Ui) -> Result<u8, Failure> {
    match command {
        SecretsCommand::Set(Named { name, format }) => {
            let value = value(ui).await?;
            let name = blocking(move || keyring::set(&name, &value).map(|()| name)).await?;
            let note = format!("the keyring holds {name}; name it as {{ keyring = \"{name}\" }}");
            format.tell(json!({ "name": name }), &note, ui);
            Ok(0)
        }
        SecretsCommand::List(format) => {
            let names = blocking(keyring::list).await?;
            match format.json {
                true => shapes::print(json!({ "secrets": names }), ui),
                false => names.iter().for_each(|name| ui.out(name)),
            }
            Ok(0)
        }
        SecretsCommand::Remove(Named { name, format }) => {
            let (name, was_there) = blocking(move || keyring::remove(&name).map(|was_there| (name, was_there))).await?;
            if format.json {
                shapes::print(json!({ "name": name, "removed": was_there }), ui);
            } else if !was_there {
                ui.note(&format!("the keyring has no {name}"));
            }
            Ok(u8::from(!was_there))
        }
        SecretsCommand::Rotate { server, format } => rotate(global, &server, format, ui).await,
    }
}

/// The first line of stdin. It is no argument: those are in the history of shells, and in `ps`.
async fn value(ui: Ui) -> Result<String, Failure> {
    if ui.is_interactive() {
        ui.note("Type the secret and end it with Enter. It is shown as you type; `pass show NAME | forgefs secrets set NAME` shows nothing.");
    }
    let mut line = Vec::new();
    let most = limits::SECRET.max as u64 + 2;
    let read = BufReader::new(tokio::io::stdin()).take(most).read_until(b'\n', &mut line).await;
    read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
    let line = String::from_utf8(line).map_err(|_| Failure::usage("the secret is not UTF-8 text"))?;
    let value = line.trim_end_matches(['\r', '\n']);
    if value.is_empty() || value.len() > limits::SECRET.max {
        let most = limits::SECRET.max >> 10;
        return Err(Failure::usage(format!("stdin has no secret: a line of up to {most} KiB")));
    }
    secret::list_token(value);
    Ok(value.to_owned())
}

/// Waits for the keyring.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err("the keyring failed: see the log".to_owned())).map_err(Failure::usage)
}

async fn rotate(global: &Global, server: &str, format: Format, ui: Ui) -> Result<u8, Failure> {
    let path = global.file()?;
    let asked = running::ask(&entries()?, &path, Some(server), PATIENCE).await.map_err(no_gateway)?;
    if asked.is_empty() && !format.json {
        ui.note(&format!("no gateway follows {}", path.display()));
    }
    let mut exit = if asked.is_empty() { 1 } else { 0 };
    let mut gateways = Vec::new();
    for (pid, rotated) in asked {
        match &rotated {
            _ if format.json => {}
            Ok(()) => ui.out(&format!("gateway {pid} uses new secrets of {server}")),
            Err(error) => ui.note(&format!("gateway {pid}: {error}")),
        }
        if rotated.is_err() {
            exit = 3;
        }
        gateways.push(json!({ "pid": pid, "rotated": rotated.is_ok(), "error": rotated.err() }));
    }
    if format.json {
        shapes::print(json!({ "ok": exit == 0, "server": server, "gateways": gateways }), ui);
    }
    Ok(exit)
}

//! `forgefs clients`: clients of `serve --http`, and their tokens.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::auth;
use super::servers::{RELOAD, Target, tell_backup};
use super::style::{self, Table};
use super::{Failure, Format, Global, Ui, shapes};
use base::error::ErrorCode;
use base::random;
use config::{Client, Config, ConfigError, Edit, is_client_name, is_of_token, process_env, state_folder, token_digest};
use server::running;

/// Time for a gateway to take up the file.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most attempts on a file that other programs write.
const ATTEMPTS: usize = 20;
/// How a client uses its token.
const SENT: &str = "clients send it as `Authorization: Bearer TOKEN`";

#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a token for a client, print it once, and keep its digest in the configuration
    Add {
        /// Name of the client, for policies and records
        name: String,
        #[command(flatten)]
        format: Format,
    },
    /// List the clients
    List(Format),
    /// Remove a client: its token, its sessions and its logins end
    #[command(alias = "remove")]
    Revoke(Named),
    /// Give a client another token, print it once, and end the one that it has with its sessions
    Rotate(Named),
}

#[derive(Args)]
pub(super) struct Named {
    /// Name of the client
    name: String,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn clients(global: &Global, command: &Command, ui: Ui) -> Result<u8, Failure> {
    match command {
        Command::Add { name, format } => add(&Target::any(global), name, *format, ui),
        Command::List(format) => list(&Target::existing(global)?, *format, ui),
        Command::Revoke(Named { name, format }) => revoke(global, name, *format, ui).await,
        Command::Rotate(Named { name, format }) => rotate(&Target::existing(global)?, name, *format, ui).await,
    }
}

async fn rotate(target: &Target, name: &str, format: Format, ui: Ui) -> Result<u8, Failure> {
    let token = new_token();
    let digest = token_digest(&token);
    target.edit(|edit| edit.with_client_token(name, &digest).map(|_| None))?;
    let change = |edit: &Edit<'_>| edit.with_client_token(name, &digest);
    let (is_everywhere, backup) = without_token(target, name, change).await?;
    let place = match is_everywhere {
        true => "at every replica; each needs the new one in its forge.toml, and takes it up at `forgefs reload`",
        false => "where a gateway runs, which takes up the new one at `forgefs reload`",
    };
    let taken_up = taken_up(target).await;
    let done = format!("gave {name} another token in {}; the one before ends at once {place}", target.shown());
    tell_token(&token, [&done, SENT], format, ui);
    tell_backup(backup.as_deref(), ui);
    format.followed(of_token(target, name, &token), taken_up, ui)
}

async fn revoke(global: &Global, name: &str, format: Format, ui: Ui) -> Result<u8, Failure> {
    let (before, target) = (global.load(false), Target::existing(global)?);
    let by_claims = Cell::new(false);
    let change = |edit: &Edit<'_>| {
        by_claims.set(edit.client_entries().any(|(known, entry)| known == name && entry.get("oauth").is_some()));
        edit.without_client(name)
    };
    let (is_everywhere, backup) = without_token(&target, name, change).await?;
    let taken_up = taken_up(&target).await;
    // They end whatever a gateway does.
    let logins = match before {
        Ok(config) => auth::forget(&config, None, Some(name)).await.map(Some),
        Err(_) => Ok(None),
    };
    if !format.json {
        let place = if is_everywhere { "at every replica" } else { "where a gateway runs" };
        ui.note(&format!("removed {name} from {}; its token ends at once {place}", target.shown()));
        let text = target.text()?;
        let edit = Edit::parse(target.path(), &text)?;
        match (edit.issuer(), edit.client_entries().any(|(_, entry)| has_credentials(entry))) {
            (Some((issuer, 1..)), _) if by_claims.get() => ui.note(&format!(
                "its tokens of {issuer} are still let in, as another client, if a row of [[http.oauth.map]] matches them"
            )),
            (None, false) => ui.note("it was the last: `forgefs reload` serves this machine without a token again"),
            _ => {}
        }
    }
    tell_backup(backup.as_deref(), ui);
    match &logins {
        Ok(None) => ui.note(&format!(
            "its logins stay, since the configuration is not valid: `forgefs auth logout --client {name}` ends them"
        )),
        Ok(Some(forgotten)) if !forgotten.is_empty() => {
            auth::shown(Some(name), forgotten).iter().for_each(|line| ui.note(line));
        }
        _ => {}
    }
    format.followed(json!({ "name": name, "file": target.shown() }), taken_up.and(logins.map(drop)), ui)
}

/// Waits until the gateways of this user that follow the file have taken up what it takes away.
///
/// # Errors
/// When one does not.
pub(super) async fn taken_up(target: &Target) -> Result<(), Failure> {
    let failed =
        |what: String| Failure::internal(format!("the file is edited, but {what}")).hint("mend it, and try again");
    let Some(folder) = state_folder(&process_env) else { return Ok(()) };
    let answers = running::ask(&folder, target.path(), None, PATIENCE).await;
    let answers = answers.map_err(|error| failed(format!("no gateway can be reached: {error}")))?;
    match answers.into_iter().find(|(pid, answer)| answer.is_err() && running::is_gateway(*pid)) {
        Some((pid, Err(why))) => Err(failed(format!("gateway {pid} did not take it up: {why}"))),
        _ => Ok(()),
    }
}

/// Takes a client's token back at all replicas, and changes the file, which still has that token. True if there are replicas;
/// with the backup of the file.
///
/// # Errors
/// Those of [`take_back`] and of an edit; and when the file changes again and again.
async fn without_token(
    target: &Target,
    name: &str,
    change: impl Fn(&Edit<'_>) -> Result<String, ConfigError>,
) -> Result<(bool, Option<PathBuf>), Failure> {
    for _ in 0..ATTEMPTS {
        let text = target.text()?;
        let is_everywhere = take_back(target, &text, name).await?;
        // Another edit may have given the client a token that was not taken back.
        let is_other = Cell::new(false);
        let backup = target.edit(|edit| {
            is_other.set(edit.text() != text.strip_prefix('\u{feff}').unwrap_or(&text));
            if is_other.get() { Ok(None) } else { change(edit).map(Some) }
        })?;
        if !is_other.get() {
            return Ok((is_everywhere, backup));
        }
    }
    Err(Failure::internal(format!("{} is being changed by another program", target.shown())).hint("try again"))
}

/// Takes the token that a client has in the text of the file back at all replicas; false if the gateway has no store.
///
/// # Errors
/// When the store is away, or the configuration does not tell which one it is.
async fn take_back(target: &Target, text: &str, name: &str) -> Result<bool, Failure> {
    if !Edit::parse(target.path(), text)?.has_store() {
        return Ok(false);
    }
    let config = Config::parse(text, target.path(), &process_env)?;
    let Some(token) = config.clients.get(name).and_then(Client::token_sha256) else { return Ok(false) };
    state::open(&config)?.revoke(&[token]).await.map_err(|error| match error.code {
        ErrorCode::Timeout => error.into(),
        _ => Failure::from(error).hint(
            "nothing was changed: try again when it is back, or take the client out of each replica's forge.toml",
        ),
    })
}

fn add(target: &Target, name: &str, format: Format, ui: Ui) -> Result<u8, Failure> {
    if !is_client_name(name) || is_of_token(name) {
        let failure = Failure::usage(format!("`{name}` is not usable as the name of a client"));
        return Err(failure
            .hint("use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first and not `oauth-`"));
    }
    let done = format!("added {name} to {}, with the digest of its token; {RELOAD}", target.shown());
    issue(target, name, [&done, SENT], format, |edit, digest| edit.with_client(name, digest), ui)
}

/// Makes a token, and tells it: what was done, and how it is used. `with` puts its digest into the configuration.
pub(super) fn issue(
    target: &Target,
    name: &str,
    told: [&str; 2],
    format: Format,
    with: impl Fn(&Edit<'_>, &str) -> Result<String, ConfigError>,
    ui: Ui,
) -> Result<u8, Failure> {
    let token = new_token();
    let digest = token_digest(&token);
    let backup = target.edit(|edit| with(edit, &digest).map(Some))?;
    tell_token(&token, told, format, ui);
    tell_backup(backup.as_deref(), ui);
    format.followed(of_token(target, name, &token), Ok(()), ui)
}

/// A token of 256 bits, with a beginning by which people and scanners recognise it.
fn new_token() -> String {
    format!("forgefs_{}{}", random::token(), random::token())
}

/// Tells people a new token, this once: what was done, and how it is used.
fn tell_token(token: &str, [done, used]: [&str; 2], format: Format, ui: Ui) {
    if !format.json {
        ui.note(done);
        ui.note(&format!("the token is shown this once; {used}:"));
        ui.out(token);
    }
}

/// A new token as JSON.
fn of_token(target: &Target, name: &str, token: &str) -> Value {
    json!({ "name": name, "token": token, "file": target.shown() })
}

fn list(target: &Target, format: Format, ui: Ui) -> Result<u8, Failure> {
    let text = target.text()?;
    let edit = Edit::parse(target.path(), &text)?;
    let clients: Vec<Listed<'_>> = edit.client_entries().map(|(name, entry)| Listed::of(name, entry)).collect();
    if format.json {
        shapes::print(json!({ "file": target.shown(), "clients": clients }), ui);
        return Ok(0);
    }
    let mut table = Table::new(["NAME", "KIND", "PROFILE"], &[], &[2]);
    for Listed { name, kind, profile } in &clients {
        table.push([name, kind, profile.unwrap_or_default()].map(style::Cell::plain));
    }
    ui.table(&table);
    match edit.issuer() {
        Some((issuer, rows)) => ui.note(&format!("and tokens of {issuer}; rows of [[http.oauth.map]]: {rows}")),
        None if clients.is_empty() => {
            ui.note("no clients: `serve --http` serves this machine alone; `forgefs clients add NAME`");
        }
        None => {}
    }
    Ok(0)
}

fn has_credentials(entry: &toml::Value) -> bool {
    ["token", "token_sha256", "oauth"].iter().any(|key| entry.get(key).is_some())
}

/// A client as it is listed.
#[derive(Serialize)]
struct Listed<'e> {
    name: &'e str,
    /// `token` for one with a token of its own, `oauth` for one that claims of access tokens identify, `local` for this
    /// machine's user.
    kind: &'static str,
    profile: Option<&'e str>,
}

impl<'e> Listed<'e> {
    fn of(name: &'e str, entry: &'e toml::Value) -> Self {
        let kind = match (entry.get("oauth"), has_credentials(entry)) {
            (Some(_), _) => "oauth",
            (None, true) => "token",
            (None, false) => "local",
        };
        Self { name, kind, profile: entry.get("profile").and_then(toml::Value::as_str) }
    }
}

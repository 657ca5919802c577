//! Servers one by one: what they said, switching them on and off, and starting them again.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Console;
use super::access::Person;
use crate::reload;
use base::error::{Error, ErrorCode, Result};
use base::task;
use config::{Server, Transport};

/// An action on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Enable,
    Disable,
    Restart,
}

/// A server, and what is done with it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    server: String,
    act: Act,
    /// Digest of the settings that the person has seen.
    #[serde(default)]
    seen: String,
}

impl Console {
    /// A server's log, what it starts or reaches, and the number of its items that are held back.
    ///
    /// # Errors
    /// `SERVER_NOT_FOUND` for a name that is none.
    pub(super) async fn server(&self, name: &str) -> Result<Value> {
        let catalog = self.gateway.catalog();
        let entry = catalog.server(name)?;
        let offers = entry.held.as_ref().map_or(0, |held| held.items().count());
        let config = self.gateway.config();
        let known = config.servers.get(&entry.name);
        let path = config.path.clone();
        let text = task::apart(move || Ok(path.and_then(|path| config::editable(&path).ok().flatten()))).await?;
        let text = text.unwrap_or_default();
        Ok(json!({
            "server": entry.name,
            "starts": known.map(starts),
            "digest": known.map(|server| digest(server, &text)),
            // Scripts and lists from files are in no table of servers.
            "enabled": known.map(|server| server.enabled),
            "held": entry.quarantine.len() + offers,
            "log": entry.stderr(),
        }))
    }

    /// Switches a server on or off in the configuration file, or starts it again.
    ///
    /// # Errors
    /// As [`reload::switch`]; a server that cannot be started again keeps its connection.
    pub(super) async fn act(&self, wanted: Wanted, by: &Person) -> Result<Value> {
        let Wanted { server, act, seen } = wanted;
        let config = self.gateway.config();
        let Some(known) = config.servers.get(&server) else {
            return Err(Error::new(ErrorCode::ServerNotFound, format!("the gateway has no server `{server}`"))
                .hint("scripts, and lists from files, are no servers of the configuration"));
        };
        tracing::info!(target: "forgefs::console", server, ?act, by = by.name, "a server is to be changed");
        let changed = match act {
            Act::Restart if !known.enabled => {
                return Err(Error::new(ErrorCode::InvalidArgs, format!("`{server}` is off")).hint("enable it first"));
            }
            Act::Restart => {
                let restarted = self.gateway.restart(&server).await;
                self.gateway.relist();
                restarted.map(|()| true)?
            }
            Act::Enable | Act::Disable => {
                let (gateway, revoked) = (Arc::clone(&self.gateway), self.gateway.state().revoked().await);
                let name = server.clone();
                // What a server that is off would start may be edited without a question: only what was shown is started.
                let is_seen = move |server: &Server, text: &str| act == Act::Disable || seen == digest(server, text);
                task::apart(move || reload::switch(&gateway, &revoked, (&name, act == Act::Enable), is_seen)).await?
            }
        };
        Ok(json!({ "server": server, "changed": changed }))
    }
}

/// The program that a server starts, or the address that it is reached at, as the configuration has it.
pub(super) fn starts(server: &Server) -> String {
    match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let names: Vec<&str> = env.keys().map(String::as_str).collect();
            let folder = cwd.as_ref().map(|cwd| format!("\nin {}", cwd.display())).unwrap_or_default();
            let with = if names.is_empty() { String::new() } else { format!("\nwith {}", names.join(", ")) };
            let program: Vec<&str> = [command].into_iter().chain(args).map(String::as_str).collect();
            format!("{}{folder}{with}", json!(program))
        }
        Transport::Http { url, .. } => url.to_string(),
        Transport::OpenApi { document, base_url, .. } => format!("{document:?}, at {base_url:?}"),
    }
}

/// Digest of a server's settings, with what it starts, and of the file's text: of a server that is off, values are in the text
/// alone.
pub(super) fn digest(server: &Server, text: &str) -> String {
    stubgen::digest(format!("{server:?}\n{}\n{text}", starts(server)))
}

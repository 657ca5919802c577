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

/// What is done with a server.
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
    /// What a server said, and what of it is held back.
    ///
    /// # Errors
    /// `SERVER_NOT_FOUND` for a name that is none.
    pub(super) fn server(&self, name: &str) -> Result<Value> {
        let catalog = self.gateway.catalog();
        let entry = catalog.server(name)?;
        let offers = entry.held.as_ref().map_or(0, |held| {
            held.prompts.len() + held.resources.len() + held.templates.len() + usize::from(held.instructions)
        });
        let config = self.gateway.config();
        let known = config.servers.get(&entry.name);
        Ok(json!({
            "server": entry.name,
            "starts": known.map(starts),
            "digest": known.map(digest),
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
            // What a server that is off would start may be edited without a question: only what was shown is started.
            Act::Enable if seen != digest(known) => {
                let message = format!("the settings of `{server}` are not those that were shown");
                return Err(Error::new(ErrorCode::InvalidArgs, message).hint("look at them again, and enable it then"));
            }
            Act::Enable | Act::Disable => {
                let (gateway, revoked) = (Arc::clone(&self.gateway), self.gateway.state().revoked().await);
                let name = server.clone();
                task::apart(move || reload::switch(&gateway, &revoked, &name, act == Act::Enable)).await?
            }
        };
        Ok(json!({ "server": server, "changed": changed }))
    }
}

/// The program that a server starts, or the address that it is reached at, as the configuration has it.
fn starts(server: &Server) -> String {
    match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let names: Vec<&str> = env.keys().map(String::as_str).collect();
            let folder = cwd.as_ref().map(|cwd| format!("\nin {}", cwd.display())).unwrap_or_default();
            let with = if names.is_empty() { String::new() } else { format!("\nwith {}", names.join(", ")) };
            format!(
                "{}{folder}{with}",
                json!([[command.as_str()].as_slice(), &args.iter().map(String::as_str).collect::<Vec<_>>()].concat())
            )
        }
        Transport::Http { url, .. } => url.to_string(),
        Transport::OpenApi { document, base_url, .. } => format!("{document:?}, at {base_url:?}"),
    }
}

fn digest(server: &Server) -> String {
    stubgen::digest(&format!("{server:?}"))
}

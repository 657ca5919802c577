//! Servers one by one: what they said, switching them on and off, and starting them again.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Console;
use super::access::Person;
use crate::reload;
use base::error::{Error, ErrorCode, Result};
use base::task;

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
        Ok(json!({
            "server": entry.name,
            // Scripts and lists from files are in no table of servers.
            "enabled": config.servers.get(&entry.name).map(|server| server.enabled),
            "held": entry.quarantine.len() + offers,
            "log": entry.stderr(),
        }))
    }

    /// Switches a server on or off in the configuration file, or starts it again.
    ///
    /// # Errors
    /// As [`reload::switch`]; a server that cannot be started again keeps its connection.
    pub(super) async fn act(&self, wanted: Wanted, by: &Person) -> Result<Value> {
        let Wanted { server, act } = wanted;
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
                task::apart(move || reload::switch(&gateway, &revoked, &name, act == Act::Enable)).await?
            }
        };
        Ok(json!({ "server": server, "changed": changed }))
    }
}

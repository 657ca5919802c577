//! Logins to servers, by server and client; never a token.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Console;
use super::access::Person;
use base::error::{Error, ErrorCode, Result};
use config::{Login, Transport};
use upstream::auth::{Forgotten, Standing, account, forget_of_clients};

/// Logins to end: of a client at all servers, or at one; without a client that of the gateway at a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ended {
    server: Option<String>,
    client: Option<String>,
}

impl Console {
    /// Logins to each server that is reached by HTTP.
    pub(super) async fn logins(&self) -> Value {
        let config = self.gateway.config();
        let mut servers = Vec::new();
        for (name, server) in &config.servers {
            if matches!(server.transport, Transport::Stdio { .. }) {
                continue;
            }
            let logins = Standing::all(&config, self.gateway.state(), name).await;
            let logins = logins.into_iter().map(|Standing { client, detail, usable, is_kept }| {
                json!({ "client": client, "detail": detail, "usable": usable, "kept": is_kept })
            });
            let owner = match server.login() {
                Login::Gateway => "gateway",
                Login::Client => "client",
                Login::User => "user",
            };
            servers.push(json!({ "server": name, "owner": owner, "logins": logins.collect::<Vec<_>>() }));
        }
        json!({ "servers": servers })
    }

    /// Revokes and forgets logins.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a server that is none, or without server and client; a login that cannot be removed.
    pub(super) async fn end_logins(&self, wanted: &Ended, by: &Person) -> Result<Value> {
        let (config, state) = (self.gateway.config(), self.gateway.state());
        let (server, client) = (wanted.server.as_deref(), wanted.client.as_deref());
        let ended = match (server, client) {
            (_, Some(_)) => {
                let forgotten = forget_of_clients(&config, state, (server, client)).await?;
                let object =
                    |one: &Forgotten| json!({ "server": one.server, "client": one.client, "revoked": one.revoked });
                forgotten.iter().map(object).collect()
            }
            (Some(server), None) => {
                let none = || Error::new(ErrorCode::InvalidArgs, format!("`{server}` has no login"));
                let revoked = account(&config, state, server, None).ok_or_else(none)?.logout().await?;
                let object = |revoked| json!({ "server": server, "client": null, "revoked": revoked });
                revoked.map(object).into_iter().collect::<Vec<_>>()
            }
            (None, None) => return Err(Error::new(ErrorCode::InvalidArgs, "neither a server nor a client is named")),
        };
        tracing::info!(target: "forgefs::console", server, client, by = by.name, count = ended.len(), "logins were ended");
        Ok(json!({ "ended": ended }))
    }
}

//! Logins as operators see them: of each server and client, never a token.

use std::path::Path;
use std::sync::Arc;

use super::{Account, Person, Record, login_command};
use config::{Config, Login, Sealing, Transport};
use state::State;

/// One login to a server.
pub struct Standing {
    /// Client whose login it is; `None` for that of the gateway.
    pub client: Option<Arc<str>>,
    /// Words about it.
    pub detail: String,
    /// True if calls can use it.
    pub usable: bool,
    /// True if it is kept, and can be forgotten.
    pub is_kept: bool,
}

impl Standing {
    /// Logins to a server without network access: that of the gateway, and those of clients with one of their own.
    pub async fn all(config: &Config, state: &Arc<dyn State>, name: &str) -> Vec<Self> {
        let mut all = vec![Self::of_gateway(config, state, name).await];
        let Some(server) = config.servers.get(name).filter(|server| server.login() != Login::Gateway) else {
            return all;
        };
        let clients = match Account::of(name, server, state) {
            Some(account) => account.clients(state).await,
            None => Ok(Vec::new()),
        };
        let clients = match clients {
            Ok(clients) => clients,
            Err(error) => {
                let client = Some("?".into());
                all.push(Self { client, detail: error.message, usable: false, is_kept: false });
                return all;
            }
        };
        for client in clients {
            let Some(account) = account(config, state, name, Some(&client)) else { continue };
            let Ok(Some(record)) = account.record().await else { continue };
            let (detail, usable) = described(&record);
            all.push(Self { client: Some(client), detail, usable, is_kept: true });
        }
        all
    }

    async fn of_gateway(config: &Config, state: &Arc<dyn State>, name: &str) -> Self {
        let one = |detail: &str, usable| Self { client: None, detail: detail.to_owned(), usable, is_kept: false };
        let Some(server) = config.servers.get(name) else { return one("no such server", false) };
        if !server.enabled {
            return one("disabled", false);
        }
        let Some(account) = Account::of(name, server, state) else {
            return match &server.transport {
                Transport::Http { headers, .. } | Transport::OpenApi { headers, .. }
                    if headers.contains_key("authorization") =>
                {
                    one("an Authorization header is configured", true)
                }
                _ => one("no login", true),
            };
        };
        if !account.is_of_person() {
            return one("logs in by itself, with what the configuration has", true);
        }
        match account.record().await {
            Ok(Some(record)) => {
                let (detail, usable) = described(&record);
                Self { client: None, detail, usable, is_kept: true }
            }
            Ok(None) => one(&format!("not logged in ({})", login_command(name)), false),
            Err(error) => Self { client: None, detail: error.message, usable: false, is_kept: true },
        }
    }
}

/// The login of a server: that of the gateway, or a client's own. `None` for a server without.
pub fn account(config: &Config, state: &Arc<dyn State>, name: &str, client: Option<&str>) -> Option<Arc<Account>> {
    let server = config.servers.get(name)?;
    let Some(client) = client else { return Account::of(name, server, state) };
    let (client, credentials) = (client.into(), config.credentials_of(client));
    let person = Person { client: &client, credentials: credentials.as_ref() };
    Account::for_client(name, server, state, person, None)
}

/// Folder of stored logins, and the keys that encrypt them: of all servers alike.
pub fn kept(config: &Config) -> Option<(&Path, Option<&Sealing>)> {
    let mut logins = config.servers.values().filter_map(|server| server.auth.as_deref());
    logins.find_map(|oauth| Some((oauth.store.as_deref()?, oauth.sealing.as_deref())))
}

/// A login in one line, and whether it is usable.
pub fn described(record: &Record) -> (String, bool) {
    let mut text = "logged in".to_owned();
    if let Some(issuer) = record.issuer() {
        text += &format!(" by {issuer}");
    }
    if let Some(named) = record.named() {
        text += &format!(", for {named}, as the server names itself");
    }
    if !record.scopes().is_empty() {
        text += &format!(", scopes {}", record.scopes().join(" "));
    }
    let over = record.lasts().is_some_and(|lasts| lasts.is_zero());
    text += &match (record.lasts(), record.is_renewable()) {
        (_, true) => ", renewed when needed".to_owned(),
        (None, false) => String::new(),
        (Some(_), false) if over => ", expired".to_owned(),
        (Some(lasts), false) => format!(", for {} more minutes", lasts.as_secs().div_ceil(60)),
    };
    (text, record.is_renewable() || !over)
}

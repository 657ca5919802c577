//! What tells servers apart beyond their name: how they are reached.

use serde_json::{Value, json};

use crate::config::{self, Transport};
use crate::redact::secret::Secret;

/// For what is kept on disk: of secrets only the names.
pub(super) fn on_disk(server: &config::Server) -> String {
    digest(server, |_| Value::Null)
}

/// For what is kept in memory: with another key or token it is another server. Does not leave the process.
pub(super) fn in_memory(server: &config::Server) -> String {
    digest(server, |secret| secret.expose().into())
}

fn digest(server: &config::Server, value: impl Fn(&Secret) -> Value) -> String {
    let secrets = |secrets: &std::collections::BTreeMap<String, Secret>| -> Value {
        secrets.iter().map(|(name, secret)| json!([name, value(secret)])).collect()
    };
    let reached = match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            json!({"command": command, "args": args, "env": secrets(env), "cwd": cwd})
        }
        Transport::Http { url, headers, .. } => {
            json!({"url": url, "headers": secrets(headers)})
        }
    };
    stubgen::digest(&stubgen::canonical_json(&reached))
}

//! Origin of a server: its connection settings, which identify it beside its name.

use serde_json::{Value, json};

use config::{Credential, DocumentPlace, Transport};

/// Origin for the disk: only the names of secrets.
pub(super) fn on_disk(server: &config::Server) -> String {
    digest(server, |_| Value::Null)
}

/// Origin in memory: another key or token is another server. It stays in the process.
pub fn in_memory(server: &config::Server) -> String {
    digest(server, |credential| match credential {
        Credential::Given(secret) => secret.expose().into(),
        Credential::Kept(source) => format!("{source:?}").into(),
    })
}

fn digest(server: &config::Server, value: impl Fn(&Credential) -> Value) -> String {
    let secrets = |secrets: &std::collections::BTreeMap<String, Credential>| -> Value {
        secrets.iter().map(|(name, credential)| json!([name, value(credential)])).collect()
    };
    let reached = match &server.transport {
        Transport::Stdio { command, args, env, cwd } => {
            json!({"command": command, "args": args, "env": secrets(env), "cwd": cwd})
        }
        Transport::Http { url, headers, .. } => {
            json!({"url": url, "headers": secrets(headers)})
        }
        Transport::OpenApi { document, base_url, headers, query } => {
            let document = match document {
                DocumentPlace::File(path) => json!({ "file": path }),
                DocumentPlace::Url(url) => json!({ "url": url }),
            };
            json!({"openapi": document, "base_url": base_url, "headers": secrets(headers), "query": secrets(query)})
        }
    };
    // Their tools are other ones.
    let origin = match server.overrides.is_empty() {
        true => reached,
        false => json!([reached, server.overrides]),
    };
    stubgen::digest(stubgen::canonical_json(&origin))
}

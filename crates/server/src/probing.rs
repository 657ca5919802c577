//! `[manifest] probe`: the gateway itself calls tools that only read and declare no result, each once, so that their stubs
//! have one before an agent calls them. The broker makes such a call as any other; as a dry run, it makes none that may
//! write or needs approval.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use stubgen::ToolStub;

use crate::gateway::Gateway;
use base::error::ErrorCode;
use base::principal::Principal;
use base::task;
use catalog::manifest::{ServerEntry, ServerState};
use config::{Budgets, Config, Login, Scope};
use run::broker::{PROBE, is_read_only};
use run::session::Session;

/// Most tools of a server that are called in the life of a gateway, whatever it lists.
const TOOLS: usize = 20;
/// Longest wait for an answer; after it, no tool of that server is called before its list changes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for all answers of a server; after it, none of its tools is called any more.
const PATIENCE_A_SERVER: Duration = Duration::from_secs(30);

/// Calls of one server.
#[derive(Default)]
struct Probed {
    /// Digests of the definitions of its tools.
    tools: BTreeSet<String>,
    /// Digest of the last list that was looked at.
    list: String,
    /// Time that its answers took.
    waited: Duration,
}

/// Probes servers that become ready, one call after the other. It ends with the gateway.
pub async fn follow(gateway: &Arc<Gateway>) {
    let (mut changes, mut probed) = (gateway.changes(), BTreeMap::<String, Probed>::new());
    let session = gateway.open_only_session(Principal::of_probe());
    session.met(PROBE.to_owned());
    loop {
        changes.borrow_and_update();
        if gateway.config().manifest.probe {
            for entry in gateway.catalog_of(session.principal()).servers() {
                probe(gateway, &session, entry, probed.entry(entry.name.clone()).or_default()).await;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Calls the tools of a server that may be, and were not.
async fn probe(gateway: &Gateway, session: &Arc<Session>, entry: &ServerEntry, probed: &mut Probed) {
    if probed.list == entry.stubs.digest || !is_open(&gateway.config(), entry, session.principal()) {
        return;
    }
    probed.list.clone_from(&entry.stubs.digest);
    for tool in &entry.stubs.tools {
        let left = PATIENCE_A_SERVER.saturating_sub(probed.waited).min(PATIENCE);
        if probed.tools.len() >= TOOLS || left.is_zero() || !gateway.config().manifest.probe {
            return;
        }
        let Some(args) = task::work_on(tool.definition_bytes, || arguments(entry, tool)) else { continue };
        if !probed.tools.insert(tool.full_digest()) {
            continue;
        }
        let (context, begun) = (gateway.execution_context(session), Instant::now());
        let called = context.request(PROBE, async |broker| broker.call_tool(1, &entry.ident, &tool.ident, &args).await);
        let called = tokio::time::timeout(left, called).await;
        probed.waited += begun.elapsed();
        match called {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if matches!(error.code, ErrorCode::ToolError | ErrorCode::InvalidArgs) => {
                tracing::debug!(server = entry.name, tool = tool.name, %error, "a probe failed");
            }
            // It ended, or may not be called: the next call would be no better, and opens its breaker for others.
            Ok(Err(error)) => return tracing::info!(server = entry.name, tool = tool.name, %error, "a probe failed"),
            Err(_) => return tracing::info!(server = entry.name, tool = tool.name, "a probe was not answered in time"),
        }
    }
}

/// True for a server that is ready, whose one instance and login serve this machine's user, and whose calls are not counted:
/// agents would lack those that a probe takes.
fn is_open(config: &Config, entry: &ServerEntry, principal: &Principal) -> bool {
    let is_open = |server: &config::Server| {
        let is_shared = server.share.scope(principal) == Scope::All && server.login() == Login::Gateway;
        is_shared && server.rate.is_none() && server.tools.iter().all(|rule| rule.rate.is_none())
    };
    let is_ready = matches!(entry.state, ServerState::Ready { .. }) && config.budgets == Budgets::default();
    is_ready && config.servers.get(&entry.name).is_some_and(is_open)
}

/// The arguments of a probe; `None` for a tool that may not be called, or whose schema does not say what it needs.
fn arguments(entry: &ServerEntry, tool: &ToolStub) -> Option<String> {
    let is_held = entry.quarantine.contains_key(&tool.ident) || entry.only_from.contains_key(&tool.ident);
    let reads = is_read_only(tool) && tool.annotations.destructive != Some(true);
    let is_unknown = tool.has_open_result() && entry.observed.of(tool).is_some_and(|it| it.schema.is_none());
    if is_held || !reads || !is_unknown {
        return None;
    }
    let definition = tool.definition.tree();
    let schema = definition.get("inputSchema")?;
    let mut arguments = Map::new();
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let own = schema.get("properties")?.get(name.as_str()?)?;
        let value = own.get("default").or(own.get("const")).or_else(|| own.get("enum")?.get(0))?;
        arguments.insert(name.as_str()?.to_owned(), value.clone());
    }
    Some(Value::Object(arguments).to_string())
}

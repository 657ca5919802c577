//! Callers: a tool with `only_from` is called by these scripts alone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Caller, PendingCall, Rules};
use crate::scripts::SERVER;
use base::error::{Error, ErrorCode, Result};
use config::{PerTool, ToolRule};

/// Scripts that may call tools of one server, by tool.
pub(super) type Callers = PerTool<BTreeSet<String>>;

/// The callers of each server that has such tools.
pub(super) fn callers(servers: &BTreeMap<String, config::Server>) -> impl Iterator<Item = (String, Callers)> {
    let bound = servers.iter().filter(|(_, server)| server.tools.iter().any(|rule| rule.only_from.is_some()));
    bound.map(|(name, server)| (name.clone(), ToolRule::by_tool(&server.tools, |rule| rule.only_from.clone())))
}

/// # Errors
/// `TOOL_DENIED` for a call of a tool from elsewhere. Every rule for the tool counts.
pub(super) fn check(rules: &Rules, &PendingCall { entry, stub, from, .. }: &PendingCall<'_>) -> Result<()> {
    let (Some(callers), Some(stub)) = (rules.callers.get(&entry.name), stub) else { return Ok(()) };
    let mut bounds = callers.all(&stub.name).map(|(_, scripts)| scripts);
    let Some(scripts) = bounds.find(|scripts| from.and_then(Caller::reviewed).is_none_or(|from| !has(scripts, from)))
    else {
        return Ok(());
    };
    let is_there = |script: &&String| rules.view.as_ref().is_none_or(|view| view.tool(SERVER, script));
    let message = format!("{}.{} is callable only from", entry.ident, stub.ident);
    Err(match names(scripts.iter().filter(is_there)) {
        none if none.is_empty() => {
            let message = format!("{message} scripts that are not here");
            Error::new(ErrorCode::ToolDenied, message).hint("use another tool")
        }
        names => Error::new(ErrorCode::ToolDenied, format!("{message} {names}")).hint(format!("call {names} instead")),
    })
}

/// True if the script is one of them, by its path or its identifier: no two scripts differ in that alone.
fn has(scripts: &BTreeSet<String>, name: &str) -> bool {
    scripts.iter().any(|script| ident(script) == ident(name))
}

/// The name that code has for a script.
fn ident(script: &str) -> String {
    script.replace('/', "_")
}

fn names<'a>(scripts: impl Iterator<Item = &'a String>) -> String {
    scripts.map(|script| format!("{SERVER}.{}", ident(script))).collect::<Vec<_>>().join(" or ")
}

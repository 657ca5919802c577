//! Callers: a tool with `only_from` is called by these scripts alone.

use std::collections::BTreeSet;

use super::{Caller, PendingCall, Rules};
use crate::scripts::SERVER;
use base::error::{Error, ErrorCode, Result};

/// # Errors
/// `TOOL_DENIED` for a call of a tool from elsewhere. Every rule for the tool counts.
pub(super) fn check(rules: &Rules, &PendingCall { entry, stub, from, .. }: &PendingCall<'_>) -> Result<()> {
    let (Some(server), Some(stub)) = (rules.servers.get(&entry.name), stub) else { return Ok(()) };
    let mut bounds = server.callers.all(&stub.name).map(|(_, scripts)| scripts);
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

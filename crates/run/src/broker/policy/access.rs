//! Access: the client's profile has the tool, the server is configured and enabled, and the tool is allowed and not
//! denied.
//!
//! The catalog hides tools without access, but it is rebuilt a moment after a reload, and a script keeps the catalog
//! that it began with. This rule decides.

use super::{PendingCall, Rules};
use base::error::{Error, ErrorCode, Result};
use catalog::manifest::ServerState;

/// # Errors
/// `SERVER_NOT_FOUND` for a server that the rules do not know or that is disabled, `TOOL_DENIED` for a tool without
/// access.
pub(super) fn check(rules: &Rules, &PendingCall { entry, stub, .. }: &PendingCall<'_>) -> Result<()> {
    if let Some(view) = &rules.view
        && !(view.server(&entry.name) && stub.is_none_or(|stub| view.tool(&entry.name, &stub.name)))
    {
        let message = format!("{} is not in the profile in force", stub.map_or(&entry.ident, |stub| &stub.ident));
        return Err(Error::new(ErrorCode::ToolDenied, message).hint("`ls /` shows what is there now"));
    }
    // A tool list from a file has no entry in the configuration, and no server behind it.
    if entry.state == ServerState::Offline {
        return Ok(());
    }
    let Some(server) = rules.servers.get(&entry.name) else {
        let message = format!("server `{}` is not in use by the configuration in force", entry.ident);
        return Err(Error::new(ErrorCode::ServerNotFound, message));
    };
    let has =
        |tool: &str| server.allow.as_ref().is_none_or(|allow| allow.is_match(tool)) && !server.deny.is_match(tool);
    match stub {
        Some(stub) if !has(&stub.name) => {
            let message = format!("the configuration denies {}.{}", entry.ident, stub.ident);
            Err(Error::new(ErrorCode::ToolDenied, message))
        }
        _ => Ok(()),
    }
}

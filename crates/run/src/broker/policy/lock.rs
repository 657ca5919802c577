//! Lock: a reviewed script calls the tools that its lock lists, as they were then, and nothing else.

use super::{Caller, PendingCall};
use crate::scripts::Use;
use base::error::{Error, ErrorCode, Result};
use upstream::Operation;

/// # Errors
/// `TOOL_DENIED` for anything else, `TOOL_CHANGED` for a tool whose definition is another one now.
pub(super) fn check(asked: &PendingCall<'_>) -> Result<()> {
    let Some(scope) = asked.from.and_then(Caller::scope) else { return Ok(()) };
    let Some(locked) = scope.locked() else { return Ok(()) };
    let server = &asked.entry.name;
    let refused = || scope.refused(&format!("may not call {}", asked.label()));
    if let Some(stub) = asked.stub {
        let found = locked.calls.iter().find(|call| call.server == *server && call.tool == stub.name);
        let call = found.ok_or_else(refused)?;
        // Of a script its text was reviewed: see `Broker::call_script`.
        let is_same = asked.entry.is_scripts() || call.definition == stub.full_digest();
        return is_same.then_some(()).ok_or_else(|| {
            let what = format!("{}: {} is not what it was when the script was reviewed", scope.label(), asked.label());
            Error::new(ErrorCode::ToolChanged, what).hint("the operator reviews both and runs `forgefs scripts lock`")
        });
    }
    let is_listed = match asked.operation {
        // Its tools are there for the next script.
        Operation::Connect => locked.calls.iter().any(|call| call.server == *server),
        Operation::Prompt { .. } => locked.uses.contains(&Use::Prompts(server.clone())),
        _ => locked.uses.contains(&Use::Resources(server.clone())),
    };
    is_listed.then_some(()).ok_or_else(refused)
}

//! Lock: a reviewed script calls the tools that its lock lists, as they were then, and nothing else.

use super::{Caller, PendingCall};
use crate::broker::scope::Scope;
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
    match (asked.stub, asked.operation) {
        (Some(stub), _) => {
            let found = locked.calls.iter().find(|call| call.server == *server && call.tool == stub.name);
            let call = found.ok_or_else(refused)?;
            // Of a script its text was reviewed: see `Broker::call_script`.
            if asked.entry.is_scripts() || call.definition == stub.full_digest() {
                Ok(())
            } else {
                Err(changed(scope, asked))
            }
        }
        // Its tools are there for the next script.
        (None, Operation::Connect) => {
            if locked.calls.iter().any(|call| call.server == *server) {
                Ok(())
            } else {
                Err(refused())
            }
        }
        (None, operation) => {
            let part = match operation.method() {
                "prompts/get" => Use::Prompts(server.clone()),
                _ => Use::Resources(server.clone()),
            };
            if locked.uses.contains(&part) { Ok(()) } else { Err(refused()) }
        }
    }
}

fn changed(scope: &Scope, asked: &PendingCall<'_>) -> Error {
    let what = format!("{}: {} is not what it was when the script was reviewed", scope.label(), asked.label());
    Error::new(ErrorCode::ToolChanged, what).hint("the operator reviews both and runs `forgefs scripts lock`")
}

//! Whether a call may be made at all.

use stubgen::ToolStub;

use crate::error::{Error, ErrorCode, Result};
use crate::manifest::ServerEntry;

/// Denies what the configuration does not allow. Called once for every operation, before it is counted or sent.
///
/// # Errors
/// `TOOL_DENIED` for a tool that is not as reviewed.
pub(super) fn check(entry: &ServerEntry, stub: Option<&ToolStub>) -> Result<()> {
    let Some(stub) = stub else { return Ok(()) };
    match entry.quarantine.get(&stub.name) {
        Some(reason) => {
            let message = format!("{}.{} is quarantined: {reason}", entry.ident, stub.ident);
            Err(Error::new(ErrorCode::ToolDenied, message)
                .hint("the operator has to review it and run `forgefs stubs generate`; use another tool until then"))
        }
        None => Ok(()),
    }
}

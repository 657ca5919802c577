//! Tools have to be as they were reviewed, where the configuration names reviewed stubs.

use super::Asked;
use crate::error::{Error, ErrorCode, Result};

/// # Errors
/// `TOOL_DENIED` for a tool that differs.
pub(super) fn check(&Asked { entry, stub, .. }: &Asked<'_>) -> Result<()> {
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

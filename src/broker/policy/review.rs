//! Review: with reviewed stubs configured, a tool must match its review.

use stubgen::ToolStub;

use crate::error::{Error, ErrorCode, Result};
use crate::manifest::ServerEntry;

/// # Errors
/// `TOOL_DENIED` for a tool that differs.
pub(in crate::broker) fn reviewed(entry: &ServerEntry, stub: &ToolStub) -> Result<()> {
    match entry.quarantine.get(&stub.ident) {
        Some(held) => {
            let message = format!("{}.{} is quarantined: {}", entry.ident, stub.ident, held.reason);
            let command = if entry.is_scripts() { "forgefs scripts lock" } else { "forgefs stubs generate" };
            Err(Error::new(ErrorCode::ToolDenied, message)
                .hint(format!("the operator has to review it and run `{command}`; use another tool until then")))
        }
        None => Ok(()),
    }
}

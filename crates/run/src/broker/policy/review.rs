//! Review: with a pin, a tool must match its review, and so must a prompt, resource or template that the server lists.

use stubgen::ToolStub;

use super::PendingCall;
use base::error::{Error, ErrorCode, Result};
use catalog::findings::Item;
use catalog::manifest::ServerEntry;
use upstream::{Operation, Subject};

/// # Errors
/// `TOOL_DENIED` for a tool that differs.
pub(in crate::broker) fn reviewed(entry: &ServerEntry, stub: &ToolStub) -> Result<()> {
    match entry.quarantine.get(&stub.ident) {
        Some(held) => {
            let message = format!("{}.{} is quarantined: {}", entry.ident, stub.ident, held.reason);
            let todo = match (entry.is_scripts(), held.review.as_str()) {
                (true, _) => "review it and run `forgefs scripts lock`".to_owned(),
                (false, "") => "correct the configuration".to_owned(),
                (false, review) => format!("review it: {review}"),
            };
            Err(Error::new(ErrorCode::ToolDenied, message)
                .hint(format!("the operator has to {todo}; use another tool until then")))
        }
        None => Ok(()),
    }
}

/// A prompt must be reviewed. Of resources, which templates make many of, only those count that the server lists.
///
/// # Errors
/// `TOOL_DENIED` for an offer that differs from its review.
pub(super) fn offered(asked: &PendingCall<'_>) -> Result<()> {
    let entry = asked.entry;
    let Some(held) = &entry.held else { return Ok(()) };
    let is_held = match asked.operation {
        Operation::Prompt { name, .. } | Operation::Complete { subject: Subject::Prompt(name), .. } => {
            entry.offers.prompt(name).is_none()
        }
        Operation::Resource { uri, .. } => held.has(&Item::Resource(uri.clone())),
        Operation::Complete { subject: Subject::Template(uri), .. } => held.has(&Item::Template(uri.clone())),
        Operation::List | Operation::Connect | Operation::Tool { .. } => false,
    };
    match is_held {
        false => Ok(()),
        true => {
            let what = format!("{}: it is quarantined: the operator has not reviewed it", entry.ident);
            Err(Error::new(ErrorCode::ToolDenied, what)
                .hint("the operator has to review it and run `forgefs stubs generate` or `forgefs stubs accept`"))
        }
    }
}

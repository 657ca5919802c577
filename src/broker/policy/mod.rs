//! Whether a call may be made. One rule a file, asked in a fixed order; the first that refuses decides:
//!
//! 1. [`review`]: a tool that is not as reviewed is quarantined.
//!
//! What the configuration hides (`allow`, `deny`) never comes this far: it is not in the catalog.

mod review;

use stubgen::ToolStub;

use crate::error::{Error, Result, code_name};
use crate::manifest::ServerEntry;

/// A call that is to be decided about.
pub(super) struct Asked<'a> {
    /// The server.
    pub(super) entry: &'a ServerEntry,
    /// The tool; `None` for resources, prompts and completions.
    pub(super) stub: Option<&'a ToolStub>,
}

/// Decides about a call, before it is counted or sent; says why it may be made.
///
/// # Errors
/// The code of the rule that refuses it.
pub(super) fn decide(asked: &Asked<'_>) -> Result<String> {
    review::check(asked)?;
    Ok("allowed".to_owned())
}

/// What records say of a call that is not made.
pub(super) fn refusal(error: &Error) -> String {
    match error.code {
        wire::ErrorCode::ToolDenied | wire::ErrorCode::GroupPolicyDenied | wire::ErrorCode::ApprovalDenied => {
            format!("denied: {}", error.message)
        }
        code => format!("refused: {}: {}", code_name(code), error.message),
    }
}

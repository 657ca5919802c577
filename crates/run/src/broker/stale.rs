//! Writes that are refused since what they change is newer than what was read.

use base::error::{Error, ErrorCode};
use stubgen::ToolStub;

/// Fix of such a call. The same call would be refused again, so that it is not to be retried; a resumed run would read
/// from its record.
const FIX: &str = "this call stays refused: in one script, read it again right before the write, and use the version of \
                   that answer; `resume` needs the tool that reads in `fresh`";
/// Words about it, whatever the call.
#[rustfmt::skip]
const SURE: &[&str] = &[
    "version conflict", "conflict: version", "edit conflict", "update conflict", "precondition failed", "optimistic lock",
    "stale version", "stale etag", "object has been modified", "modified since it",
];
/// Words about it, of a call that takes a version.
const LIKELY: &[&str] = &["conflict", "stale", "hash does not match", "out of date", "outdated", "current version"];
/// Words of other conflicts.
const OTHER: &[&str] = &["already exist", "depend"];
/// Parts of the name of an argument that is a version, and its ends.
const VERSIONS: &[&str] = &["version", "revision", "etag", "if_match", "if-match", "ifmatch"];
const ENDS: &[&str] = &["sha", "_rev"];

/// Adds what to do to the error of a write that was refused for its version.
pub(super) fn explained(error: Error, stub: Option<&ToolStub>) -> Error {
    let is_refused = matches!(error.code, ErrorCode::ToolError | ErrorCode::UpstreamError);
    let is_open = is_refused && error.hint.is_none() && !error.behaviour().retryable;
    let Some(stub) = stub.filter(|stub| is_open && stub.annotations.read_only != Some(true)) else { return error };
    let said = error.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let has_status = || said.split(|c: char| !c.is_alphanumeric()).any(|word| ["409", "412"].contains(&word));
    let is_version = |name: &str| {
        let name = name.to_lowercase();
        let is_named = VERSIONS.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end));
        is_named && !name.starts_with("api")
    };
    let takes_version = || stub.params().iter().any(|param| is_version(&param.wire));
    let is_stale = !says(OTHER) && (says(SURE) || ((says(LIKELY) || has_status()) && takes_version()));
    if is_stale { error.hint(FIX) } else { error }
}

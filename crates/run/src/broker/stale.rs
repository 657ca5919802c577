//! Writes that are refused since what they change is newer than what was read.

use base::error::Error;
use stubgen::ToolStub;

/// Fix of such a call. The same call would be refused again, so that it is not to be retried; a resumed run would read
/// from its record.
const FIX: &str = "this call stays refused: in one script, read it again right before the write, and use the version of \
                   that answer; `resume` needs the tool that reads in `fresh`";
/// Words about it, whatever the call.
#[rustfmt::skip]
const SURE: &[&str] = &[
    "version conflict", "conflict: version", "edit conflict", "update conflict", "modified since", "changed since", "updated since",
    "been modified", "precondition failed", "if-match", "optimistic lock", "stale version", "stale etag",
];
/// Words about it, of a call that takes a version.
#[rustfmt::skip]
const LIKELY: &[&str] = &[
    "conflict", "stale", "409", "412", "mismatch", "not match", "out of date", "outdated", "newer", "current version",
];
/// Words of other conflicts.
const OTHER: &[&str] = &["already exist", "depend", "package"];
/// Parts of the name of an argument that is a version, and its ends.
const VERSIONS: &[&str] = &["version", "revision", "etag"];
const ENDS: &[&str] = &["sha", "match", "_rev"];

/// Adds what to do to the error of a write that was refused for its version.
pub(super) fn explained(error: Error, stub: Option<&ToolStub>) -> Error {
    let Some(stub) = stub.filter(|stub| stub.annotations.read_only != Some(true)) else { return error };
    let said = error.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let is_version = |name: &str| {
        let name = name.to_lowercase();
        let is_named = VERSIONS.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end));
        is_named && !name.starts_with("api")
    };
    let takes_version = || stub.params.iter().any(|param| is_version(&param.wire));
    let is_stale = !says(OTHER) && (says(SURE) || (says(LIKELY) && takes_version()));
    if is_stale && error.hint.is_none() { error.hint(FIX) } else { error }
}

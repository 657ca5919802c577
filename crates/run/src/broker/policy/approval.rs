//! Approvals: calls that need the user's consent.

use super::{Caller, PendingCall, Reason, Rules};
use config::{Approval, ScriptApproval};
use upstream::Operation;

/// Reason to ask the user before this call, if any. A tool's own name beats a pattern; of several patterns the
/// strictest counts. Completions need no approval: the client requests them while its user types.
pub(super) fn wanted(rules: &Rules, asked: &PendingCall<'_>) -> Option<Reason> {
    if matches!(asked.operation, Operation::Complete { .. } | Operation::List | Operation::Connect) {
        return None;
    }
    // Reviewed with everything that its lock lists: whether it asks at all was decided at its own call.
    if asked
        .from
        .and_then(Caller::scope)
        .is_some_and(|scope| scope.locked().is_some() && scope.script.approval != ScriptApproval::Each)
    {
        return None;
    }
    let server = rules.servers.get(&asked.entry.name)?;
    let of_tool = asked.stub.and_then(|stub| server.approvals.one(&stub.name)).copied();
    // A script that asks at each of its calls does not ask at its own.
    let least = if asked.entry.is_scripts() && of_tool.is_none() { Approval::Never } else { rules.least };
    match of_tool.unwrap_or(server.approval).max(least) {
        Approval::Never => None,
        Approval::Plan | Approval::Writes if asked.is_read() => None,
        rule => Some(Reason::Approval { server: asked.entry.ident.clone(), rule }),
    }
}

//! Approvals: before which calls the user is asked.

use super::{Asked, Reason, Rules};
use crate::config::Approval;
use crate::upstream::Operation;

/// Why the user is asked before this call, if that is so. A tool's own name counts more than a pattern; of several
/// patterns the strictest counts. Completions are asked for by the client itself, while its user types.
pub(super) fn wanted(rules: &Rules, asked: &Asked<'_>) -> Option<Reason> {
    if matches!(asked.operation, Operation::Complete { .. } | Operation::List | Operation::Connect) {
        return None;
    }
    let approvals = rules.approvals.get(&asked.entry.name)?;
    let of_tool = asked.stub.and_then(|stub| approvals.tools.one(&stub.name)).copied();
    let server = || asked.entry.ident.clone();
    match of_tool.unwrap_or(approvals.otherwise) {
        Approval::Writes if !asked.is_read() => Some(Reason::Approval { server: server(), writes: true }),
        Approval::Always => Some(Reason::Approval { server: server(), writes: false }),
        Approval::Writes | Approval::Never => None,
    }
}

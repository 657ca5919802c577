//! Flows: which server's data may reach which other server. A server may always get its own.

use super::{Reason, Rules};
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;
use config::FlowAction;

/// Checks a call to `server` by an execution that holds data of `labels`; returns the reasons to ask the user.
///
/// # Errors
/// `GROUP_POLICY_DENIED` when any of the data may not go there.
pub(super) fn check(rules: &Rules, server: &str, labels: &Labels) -> Result<Vec<Reason>> {
    let mut reasons = Vec::new();
    for flow in rules.flows.iter().filter(|flow| flow.to.covers(server)) {
        for from in labels.iter().filter(|label| *label != server && flow.from.covers(label)) {
            if flow.action == FlowAction::Deny {
                let rule = format!("from = {:?}, to = {:?}", flow.from.name, flow.to.name);
                let message = format!("this run holds data of `{from}`, which may not go to `{server}` ({rule})");
                let hint = format!("call `{server}` in a separate `execute` that needs nothing of `{from}`");
                return Err(Error::new(ErrorCode::GroupPolicyDenied, message).hint(hint));
            }
            reasons.push(Reason::Flow { from: from.clone(), to: server.to_owned() });
        }
    }
    reasons.sort_unstable();
    reasons.dedup();
    Ok(reasons)
}

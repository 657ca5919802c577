//! Strict groups: the first call to one, or the first read of its data, locks the execution to it. Servers in open
//! groups and in none are free.

use std::sync::Arc;

use super::Rules;
use base::error::{Error, ErrorCode, Result};

/// The strict group of who is in `group` and enters those of `servers`.
///
/// # Errors
/// `GROUP_POLICY_DENIED` as of [`admit`].
pub(in crate::broker) fn entered(
    rules: &Rules,
    group: Option<&Arc<str>>,
    servers: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Option<Arc<str>>> {
    let mut group = group.cloned();
    servers.into_iter().try_for_each(|server| admit(rules, &mut group, server.as_ref()))?;
    Ok(group)
}

/// Takes `lock` for the group of `server`, if that is strict. The caller holds the lock's mutex, so of two concurrent
/// calls to two groups exactly one is admitted.
///
/// # Errors
/// `GROUP_POLICY_DENIED` when another group has it, or the client's profile does not have the server.
pub(in crate::broker) fn admit(rules: &Rules, lock: &mut Option<Arc<str>>, server: &str) -> Result<()> {
    if rules.view.as_ref().is_some_and(|view| !view.server(server)) {
        let message = "it has data of a server that is not here any more";
        return Err(Error::new(ErrorCode::GroupPolicyDenied, message));
    }
    let Some(group) = rules.strict.get(server) else { return Ok(()) };
    match lock {
        None => *lock = Some(Arc::clone(group)),
        Some(own) if own == group => {}
        Some(own) => {
            let message = format!("`{server}` is in the strict group `{group}`, and this run is in `{own}`");
            return Err(Error::new(ErrorCode::GroupPolicyDenied, message));
        }
    }
    Ok(())
}

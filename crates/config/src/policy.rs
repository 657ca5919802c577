//! Policy of scripts: `[groups.<name>]`, `[[flows]]`, and approvals of servers and tools.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ConfigError;
use super::key::Key;
use super::raw::{RawFlow, RawGroup};
use super::suggest;
use super::words::words;

/// Groups of servers, and flows between servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Groups by name; a server is in at most one.
    pub groups: BTreeMap<String, Group>,
    /// Restricted flows, in the order of the file.
    pub flows: Vec<Flow>,
}

/// One `[groups.<name>]` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Names of its servers.
    pub servers: BTreeSet<String>,
    /// Isolation of the group.
    pub isolation: Isolation,
}

/// Isolation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// An execution that has called one of its servers calls no other strict group.
    #[default]
    Strict,
    /// None: the group is a name for its servers.
    Open,
}

/// One `[[flows]]` entry: data of one side may not reach the other, or only with the user's consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Source of the data.
    pub from: Party,
    /// Destination of a call.
    pub to: Party,
    /// Action.
    pub action: FlowAction,
}

/// One side of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// As written: a server, a group or `*`.
    pub name: String,
    /// The servers; `None` for all.
    servers: Option<BTreeSet<String>>,
}

impl Party {
    /// True if a server is of this side.
    pub fn covers(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }
}

/// Action on a flow, least strict first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowAction {
    /// The user is asked.
    Approve,
    /// The call is refused.
    Deny,
}

/// Approval of a tool's calls, least strict first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// Once for all planned calls of a script, unless the tool is annotated as read-only.
    Plan,
    /// Unless the tool is annotated as read-only.
    Writes,
    /// Each time.
    Always,
}

/// Questions of a server that reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Relays {
    /// `elicitation/create`: questions to the user.
    pub elicitation: Relay,
    /// `sampling/createMessage`: completions by the client's model.
    pub sampling: Relay,
}

/// Calls that a server makes tasks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tasks {
    /// Of tools that require it, and those that a server of 2026-07-28 answers with a task.
    #[default]
    Auto,
    /// None: a tool that requires it is refused.
    Never,
}

/// Handling of a server's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relay {
    /// Forwarded to the client, with the server's name in front.
    #[default]
    Ask,
    /// Refused.
    Never,
}

words!(Relay: "ask" = Ask, "never" = Never);
words!(Tasks: "auto" = Auto, "never" = Never);
words!(Isolation: "strict" = Strict, "open" = Open);
words!(FlowAction: "deny" = Deny, "approve" = Approve);
words!(Approval: "never" = Never, "plan" = Plan, "writes" = Writes, "always" = Always);

/// Checks groups and flows against the configured servers.
pub(super) fn policy(
    root: &Key<'_>,
    servers: &[&str],
    groups: BTreeMap<String, RawGroup>,
    flows: Vec<RawFlow>,
) -> Result<Policy, ConfigError> {
    let mut placed = BTreeMap::new();
    let groups = root.key("groups").entries(groups, |key, raw| group(key, servers, raw, &mut placed))?;
    let known = Known { servers, groups: &groups };
    let flows = root.key("flows").each(Some(flows), |key, raw| flow(key, known, raw))?;
    Ok(Policy { groups, flows })
}

/// Parses a group; `placed` has the group of each server.
fn group(
    key: &Key<'_>,
    servers: &[&str],
    raw: RawGroup,
    placed: &mut BTreeMap<String, String>,
) -> Result<Group, ConfigError> {
    let name = key.name();
    if name == "*" || servers.contains(&name) {
        let message = "not usable as the name of a group: it means something else in `flows`";
        return Err(key.at_key(message).with_hint("take a name that no server has"));
    }
    if raw.servers.as_ref().is_none_or(Vec::is_empty) {
        let error = key.at_key("lists no server");
        return Err(error.with_hint("write `servers = [\"…\"]` with names of `[servers.<name>]`"));
    }
    let members = key.key("servers").each(raw.servers, |key, member| {
        let member = key.filled(member)?;
        if !servers.contains(&member.as_str()) {
            return Err(key.at_value("there is no such server").with_hint(suggest::word_hint(&member, servers)));
        }
        match placed.insert(member.clone(), name.to_owned()) {
            None => Ok(member),
            Some(other) => {
                let error = key.at_value(format!("is in the group `{other}` already"));
                Err(error.with_hint("a server is in one group at most"))
            }
        }
    })?;
    let isolation = key.key("isolation").word(raw.isolation)?.unwrap_or_default();
    Ok(Group { servers: members, isolation })
}

/// Configured servers and groups.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) servers: &'a [&'a str],
    pub(super) groups: &'a BTreeMap<String, Group>,
}

/// The server or the servers of the group with this name; `other` names something too.
pub(super) fn named(
    key: &Key<'_>,
    name: &str,
    known: Known<'_>,
    other: Option<&str>,
) -> Result<BTreeSet<String>, ConfigError> {
    match known.groups.get(name) {
        Some(group) => Ok(group.servers.clone()),
        None if known.servers.contains(&name) => Ok([name.to_owned()].into()),
        None => {
            let names = known.servers.iter().copied().chain(known.groups.keys().map(String::as_str)).chain(other);
            let hint = suggest::word_hint(name, &names.collect::<Vec<_>>());
            Err(key.at_value("there is no such server or group").with_hint(hint))
        }
    }
}

/// Parses a flow.
pub(super) fn flow(key: &Key<'_>, known: Known<'_>, raw: RawFlow) -> Result<Flow, ConfigError> {
    let missing = |name: &str| {
        let error = key.at_value(format!("has no `{name}`"));
        error.with_hint("write `from = \"…\"`, `to = \"…\"` and `action = \"deny\"` or `\"approve\"`")
    };
    let party = |name: &str, text: Option<String>| {
        let key = key.key(name);
        let name = key.filled(text.ok_or_else(|| missing(name))?)?;
        let servers = if name == "*" { None } else { Some(named(&key, &name, known, Some("*"))?) };
        Ok(Party { name, servers })
    };
    let (from, to) = (party("from", raw.from)?, party("to", raw.to)?);
    let action = key.key("action").word(raw.action)?.ok_or_else(|| missing("action"))?;
    Ok(Flow { from, to, action })
}

//! Policy of scripts: `[groups.<name>]`, `[[flows]]`, and approvals of servers and tools.

use std::collections::{BTreeMap, BTreeSet};

use super::document::KeyPath;
use super::error::ConfigError;
use super::raw::{RawFlow, RawGroup};
use super::suggest;
use super::values::Values;

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
    #[must_use]
    pub fn covers(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }
}

/// Action on a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAction {
    /// The call is refused.
    Deny,
    /// The user is asked.
    Approve,
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

/// Handling of a server's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relay {
    /// Forwarded to the client, with the server's name in front.
    #[default]
    Ask,
    /// Refused.
    Never,
}

/// Values of `elicitation` and `sampling`.
pub(super) const RELAYS: &[(&str, Relay)] = &[("ask", Relay::Ask), ("never", Relay::Never)];
/// Values of `isolation`.
pub(super) const ISOLATIONS: &[(&str, Isolation)] = &[("strict", Isolation::Strict), ("open", Isolation::Open)];
/// Values of `action`.
pub(super) const ACTIONS: &[(&str, FlowAction)] = &[("deny", FlowAction::Deny), ("approve", FlowAction::Approve)];
/// Values of `approval`.
pub(super) const APPROVALS: &[(&str, Approval)] =
    &[("never", Approval::Never), ("plan", Approval::Plan), ("writes", Approval::Writes), ("always", Approval::Always)];

/// Checks groups and flows against the configured servers.
pub(super) fn policy(
    values: Values<'_>,
    servers: &[&str],
    groups: BTreeMap<String, RawGroup>,
    flows: Vec<RawFlow>,
) -> Result<Policy, ConfigError> {
    let mut policy = Policy::default();
    let mut placed: BTreeMap<String, String> = BTreeMap::new();
    for (name, raw) in groups {
        let group = group(values, servers, &name, raw, &mut placed)?;
        policy.groups.insert(name, group);
    }
    let root = KeyPath::root("flows");
    for (index, raw) in flows.into_iter().enumerate() {
        let flow = flow(values, servers, &policy.groups, &root.index(index), raw)?;
        policy.flows.push(flow);
    }
    Ok(policy)
}

fn group(
    values: Values<'_>,
    servers: &[&str],
    name: &str,
    raw: RawGroup,
    placed: &mut BTreeMap<String, String>,
) -> Result<Group, ConfigError> {
    let key = KeyPath::root("groups").key(name);
    if name == "*" || servers.contains(&name) {
        let message = "not usable as the name of a group: it means something else in `flows`";
        return Err(values.document.at_key(&key, message).with_hint("take a name that no server has"));
    }
    let Some(listed) = raw.servers.filter(|servers| !servers.is_empty()) else {
        let error = values.document.at_key(&key, "lists no server");
        return Err(error.with_hint("write `servers = [\"…\"]` with names of `[servers.<name>]`"));
    };
    let mut members = BTreeSet::new();
    for (index, member) in listed.into_iter().enumerate() {
        let key = key.key("servers").index(index);
        let member = values.filled(&key, member)?.text;
        if !servers.contains(&member.as_str()) {
            let hint = suggest::word_hint(&member, servers);
            return Err(values.document.at_value(&key, "there is no such server").with_hint(hint));
        }
        if let Some(other) = placed.insert(member.clone(), name.to_owned()) {
            let error = values.document.at_value(&key, format!("is in the group `{other}` already"));
            return Err(error.with_hint("a server is in one group at most"));
        }
        members.insert(member);
    }
    let isolation = values.word(&key.key("isolation"), raw.isolation, ISOLATIONS)?.unwrap_or_default();
    Ok(Group { servers: members, isolation })
}

/// Parses a flow.
pub(super) fn flow(
    values: Values<'_>,
    servers: &[&str],
    groups: &BTreeMap<String, Group>,
    key: &KeyPath,
    raw: RawFlow,
) -> Result<Flow, ConfigError> {
    let missing = |name: &str| {
        let error = values.document.at_value(key, format!("has no `{name}`"));
        error.with_hint("write `from = \"…\"`, `to = \"…\"` and `action = \"deny\"` or `\"approve\"`")
    };
    let party = |name: &str, text: Option<String>| {
        let Some(text) = text else { return Err(missing(name)) };
        let key = key.key(name);
        let name = values.filled(&key, text)?.text;
        let servers = match groups.get(&name) {
            _ if name == "*" => None,
            Some(group) => Some(group.servers.clone()),
            None if servers.contains(&name.as_str()) => Some([name.clone()].into()),
            None => {
                let known: Vec<&str> = servers.iter().copied().chain(groups.keys().map(String::as_str)).collect();
                let hint = suggest::word_hint(&name, &[known.as_slice(), &["*"]].concat());
                return Err(values.document.at_value(&key, "there is no such server or group").with_hint(hint));
            }
        };
        Ok(Party { name, servers })
    };
    let (from, to) = (party("from", raw.from)?, party("to", raw.to)?);
    let word = raw.action.ok_or_else(|| missing("action"))?;
    let action = values.word(&key.key("action"), word, ACTIONS)?.ok_or_else(|| missing("action"))?;
    Ok(Flow { from, to, action })
}

/// Parses an `elicitation` or `sampling` key.
pub(super) fn relay(values: &Values<'_>, key: &KeyPath, word: Option<String>) -> Result<Relay, ConfigError> {
    Ok(values.word(key, word, RELAYS)?.unwrap_or_default())
}

/// Parses an `approval` key.
pub(super) fn approval(
    values: &Values<'_>,
    key: &KeyPath,
    word: Option<String>,
) -> Result<Option<Approval>, ConfigError> {
    values.word(&key.key("approval"), word, APPROVALS)
}

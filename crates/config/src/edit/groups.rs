//! Puts a server into a group.

use toml::{Table, Value};

use super::{Edit, NewServer};
use crate::error::ConfigError;

/// Table of the groups.
const GROUPS: &str = "groups";
/// Key of a group's servers.
const MEMBERS: &str = "servers";

/// A group to put a server into.
#[derive(Clone, Copy)]
pub struct InGroup<'a> {
    /// Name.
    pub name: &'a str,
    /// The name as a TOML key.
    pub key: &'a str,
}

impl Edit<'_> {
    /// The text with `server` in a group, which is made if there is none.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn grouped(&self, server: &str, group: InGroup<'_>) -> Result<String, ConfigError> {
        // A JSON string is one of TOML.
        let member = serde_json::Value::from(server).to_string();
        let groups = self.of(GROUPS);
        let Some((_, members)) = groups.pair(group.name, MEMBERS) else {
            let pairs = [format!("{MEMBERS} = [{member}]")];
            let entry = Table::from_iter([(MEMBERS.to_owned(), Value::from(vec![server]))]);
            let new = NewServer { name: group.name, key: group.key, comments: &[], pairs: &pairs, group: None };
            return groups.checked(groups.appended(&new), group.name, Some(entry));
        };
        let unclear = || self.unclear(server);
        let (list, span) = members.as_array().zip(members.span()).ok_or_else(unclear)?;
        let last = list.iter().last().and_then(|last| Some(last.span()?.end));
        let at = last.unwrap_or(span.start + 1);
        // A comment behind the last member would seem to be about the new one.
        if !self.is_plain(at..span.end) {
            return Err(unclear());
        }
        let text = self.inserted(at, &format!("{}{member}", if last.is_some() { ", " } else { "" }));
        let mut entry = groups.entry(group.name)?;
        if let Some(members) = entry.get_mut(MEMBERS).and_then(Value::as_array_mut) {
            members.push(server.into());
        }
        groups.checked(text, group.name, Some(entry))
    }
}

//! Puts a server into a group.

use toml::{Table, Value};

use super::{Edit, Place};
use crate::config::error::ConfigError;

/// Table of the groups.
const GROUPS: &str = "groups";
/// Key of a group's servers.
const MEMBERS: &str = "servers";

/// A group to put a server into.
#[derive(Clone, Copy)]
pub(crate) struct InGroup<'a> {
    /// Name.
    pub(crate) name: &'a str,
    /// The name as a TOML key.
    pub(crate) key: &'a str,
}

impl Edit<'_> {
    /// The text with `server` in a group, which is made if there is none.
    ///
    /// # Errors
    /// The file cannot be edited.
    pub(super) fn grouped(&self, server: &str, group: InGroup<'_>) -> Result<String, ConfigError> {
        // A JSON string is one of TOML.
        let member = serde_json::Value::from(server).to_string();
        let text = match self.found(&[GROUPS, group.name, MEMBERS]) {
            Some(Place { pair, .. }) => {
                let value = self.text.get(pair.value.clone()).unwrap_or_default();
                let Some(body) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
                    return Err(self.unclear(server));
                };
                let body = body.trim_end();
                let added = match body {
                    "" => member,
                    body if body.ends_with(',') => format!(" {member},"),
                    _ => format!(", {member}"),
                };
                self.inserted(pair.value.start + 1 + body.len(), &added)
            }
            None => {
                let end = self.line_end();
                let between = if self.text.ends_with('\n') { end.to_owned() } else { end.repeat(2) };
                let entry = format!("[{GROUPS}.{}]{end}{MEMBERS} = [{member}]{end}", group.key);
                format!("{}{between}{entry}", self.text)
            }
        };
        let mut expected = self.table.clone();
        let members = table(&mut expected, GROUPS).and_then(|groups| table(groups, group.name)).map(|group| {
            let members = group.entry(MEMBERS).or_insert_with(|| Value::Array(Vec::new()));
            members.as_array_mut().map(|members| members.push(Value::from(server)))
        });
        match members.flatten() {
            Some(()) => self.checked(server, text, |table| *table == expected),
            None => Err(self.unclear(server)),
        }
    }
}

/// The table under a key, made if there is none.
fn table<'t>(above: &'t mut Table, key: &str) -> Option<&'t mut Table> {
    above.entry(key).or_insert_with(|| Table::new().into()).as_table_mut()
}

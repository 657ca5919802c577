//! Edits of `[clients]`.

use super::{Edit, NewServer};
use crate::config::error::ConfigError;
use crate::error::{did_you_mean, nearest};

/// Table of the clients.
const CLIENTS: &str = "clients";

impl Edit<'_> {
    /// The text with another client, whose token has this digest.
    ///
    /// # Errors
    /// A client has this name in any case, or the file cannot be edited.
    pub(crate) fn with_client(&self, name: &str, token_sha256: &str) -> Result<String, ConfigError> {
        if let Some(taken) = self.clients().find(|taken| taken.eq_ignore_ascii_case(name)) {
            let error = self.client_fault(name, format!("there is a client `{taken}` already"));
            return Err(error.with_hint(format!("`forgefs clients remove {taken}` first: its token ends with it")));
        }
        let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        // A JSON string is one of TOML.
        let key = if is_bare { name.to_owned() } else { serde_json::Value::from(name).to_string() };
        let pairs = [format!("token_sha256 = \"{token_sha256}\"")];
        let entry = NewServer { name, key: &key, comments: &[], pairs: &pairs, group: None };
        let text = Edit::of_table(self.file, self.text, CLIENTS)?.added(&entry)?;
        Ok(format!("{}{text}", self.mark))
    }

    /// The text without a client.
    ///
    /// # Errors
    /// There is no such client, or the file cannot be edited.
    pub(crate) fn without_client(&self, name: &str) -> Result<String, ConfigError> {
        if !self.clients().any(|known| known == name) {
            let error = self.client_fault(name, format!("there is no client `{name}`"));
            let hint = did_you_mean(&nearest(name, self.clients().map(String::as_str)));
            return Err(error.with_hint(hint.unwrap_or_else(|| "`forgefs clients list` shows those there are".into())));
        }
        let text = Edit::of_table(self.file, self.text, CLIENTS)?.without(&[name])?;
        Ok(format!("{}{text}", self.mark))
    }

    /// Names of the clients.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &String> {
        self.table.get(CLIENTS).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys)
    }

    fn client_fault(&self, name: &str, message: String) -> ConfigError {
        super::fault(self.file, &format!("{CLIENTS}.{name}"), message)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn clients_come_and_go_and_the_rest_stays() {
        let before = "# mine\n[servers.a] # one\ncommand = 'x'   # kept\n\n[clients.old]\ntoken = \"${OLD_TOKEN}\"\n";
        let file = Path::new("forge.toml");
        let edit = Edit::parse(file, before).expect("TOML");
        let with = edit.with_client("lap.top", "ab").expect("an edit");
        assert_eq!(with, format!("{before}\n[clients.\"lap.top\"]\ntoken_sha256 = \"ab\"\n"));
        let edit = Edit::parse(file, &with).expect("TOML");
        assert_eq!(edit.clients().collect::<Vec<_>>(), ["lap.top", "old"]);
        assert_eq!(edit.without_client("lap.top").expect("an edit"), before);
        assert!(edit.with_client("OLD", "ab").is_err() && edit.without_client("ol").is_err());
        for text in ["", "\u{feff}[servers]\r\n", "clients = { a = { token = \"x\" } }\n", "clients.a.token = \"x\"\n"]
        {
            let with = Edit::parse(file, text).expect("TOML").with_client("b", "ab").expect("an edit");
            let edit = Edit::parse(file, &with).expect("TOML");
            assert!(edit.clients().any(|name| name == "b"), "{with}");
            assert_eq!(edit.clients().count(), 1 + usize::from(text.contains("clients")), "{with}");
        }
    }
}

//! Edits of `[clients]`.

use super::{Edit, NewServer};
use crate::error::ConfigError;

/// Tables of the clients, and of people who may open the console.
const CLIENTS: &str = "clients";
const CONSOLE: &str = "console";

impl Edit<'_> {
    /// The text with another client, whose token has this digest.
    ///
    /// # Errors
    /// A client has this name in any case, or the file cannot be edited.
    pub fn with_client(&self, name: &str, token_sha256: &str) -> Result<String, ConfigError> {
        let clients = self.of(CLIENTS);
        if let Some(taken) = self.clients().find(|taken| taken.eq_ignore_ascii_case(name)) {
            let error = clients.fault(name, format!("there is a client `{taken}` already"));
            return Err(error.with_hint(format!("`forgefs clients rotate {taken}` gives it another token")));
        }
        clients.with_entry(name, &[format!("token_sha256 = \"{token_sha256}\"")])
    }

    /// The text with another person who may open the console, whose token has this digest.
    ///
    /// # Errors
    /// A person has this name, or the file cannot be edited.
    pub fn with_console(&self, name: &str, token_sha256: &str, read_only: bool) -> Result<String, ConfigError> {
        let people = self.of(CONSOLE);
        if people.servers().any(|(taken, _)| taken.eq_ignore_ascii_case(name)) {
            let error = people.fault(name, format!("`{name}` has a token already"));
            return Err(error.with_hint(format!("`forgefs console remove {name}` takes it back")));
        }
        let mut pairs = vec![format!("token_sha256 = \"{token_sha256}\"")];
        if read_only {
            pairs.push("read_only = true".to_owned());
        }
        people.with_entry(name, &pairs)
    }

    /// The text without such a person.
    ///
    /// # Errors
    /// There is none of this name, or the file cannot be edited.
    pub fn without_console(&self, name: &str) -> Result<String, ConfigError> {
        let people = self.of(CONSOLE);
        if !people.servers().any(|(known, _)| known == name) {
            let error = people.fault(name, format!("`{name}` has no token"));
            return Err(error.with_hint(people.meant(name, "`forgefs console add NAME` makes one")));
        }
        people.without(&[name])
    }

    fn with_entry(&self, name: &str, pairs: &[String]) -> Result<String, ConfigError> {
        let key = toml_edit::Key::new(name);
        self.added(&NewServer { name, key: &key.display_repr(), comments: &[], pairs, group: None })
    }

    /// The text without a client.
    ///
    /// # Errors
    /// There is no such client, or the file cannot be edited.
    pub fn without_client(&self, name: &str) -> Result<String, ConfigError> {
        if !self.clients().any(|known| known == name) {
            return Err(self.unknown_client(name));
        }
        self.of(CLIENTS).without(&[name])
    }

    /// The text with another token of a client, in place of the one that it has. The rest of its entry stays.
    ///
    /// # Errors
    /// There is no such client, its token is not in the file, or the file cannot be edited.
    pub fn with_client_token(&self, name: &str, token_sha256: &str) -> Result<String, ConfigError> {
        let clients = self.of(CLIENTS);
        let Some((_, entry)) = self.client_entries().find(|(known, _)| *known == name) else {
            return Err(self.unknown_client(name));
        };
        let value = format!("\"{token_sha256}\"");
        match entry.get("token").map(|token| token.as_str().unwrap_or_default()) {
            Some(token) if token.contains("${") => {
                let error = clients.fault(name, format!("its token is that of {token}"));
                Err(error.with_hint("change the variable where the gateway starts, and `forgefs reload`"))
            }
            Some(_) => clients.with_digest(name, &value),
            None if entry.get("token_sha256").is_some() => clients.with_value(name, "token_sha256", &value),
            None => {
                let error = clients.fault(name, "it has no token of its own".to_owned());
                Err(error.with_hint("its access tokens are rotated where they are issued"))
            }
        }
    }

    /// The text with `token_sha256` in place of the `token` of a client.
    fn with_digest(&self, name: &str, value: &str) -> Result<String, ConfigError> {
        let spans = self.pair(name, "token").and_then(|(key, old)| key.span().zip(old.span()));
        let (key, old) = spans.ok_or_else(|| self.unclear(name))?;
        let written = self.text[key.clone()].replace("token", "token_sha256");
        let between = &self.text[key.end..old.start];
        let text = self.replaced(key.start..old.end, &format!("{written}{between}{value}"));
        let mut entry = self.entry(name)?;
        entry.remove("token");
        entry.insert("token_sha256".to_owned(), value.trim_matches('"').into());
        self.checked(text, name, Some(entry))
    }

    /// Names of the clients.
    pub fn clients(&self) -> impl Iterator<Item = &String> {
        self.client_entries().map(|(name, _)| name)
    }

    /// Clients as they are written, by name.
    pub fn client_entries(&self) -> impl Iterator<Item = (&String, &toml::Value)> {
        self.entries(CLIENTS)
    }

    /// True if the gateway shares its state in a store.
    pub fn has_store(&self) -> bool {
        self.table.contains_key("state")
    }

    /// Issuer of access tokens, and the number of rows that let them in.
    pub fn issuer(&self) -> Option<(&str, usize)> {
        let oauth = self.table.get("http")?.get("oauth")?;
        let rows = oauth.get("map").and_then(toml::Value::as_array).map_or(0, Vec::len);
        Some((oauth.get("issuer")?.as_str()?, rows))
    }

    fn unknown_client(&self, name: &str) -> ConfigError {
        let clients = self.of(CLIENTS);
        let error = clients.fault(name, format!("there is no client `{name}`"));
        error.with_hint(clients.meant(name, "`forgefs clients list` shows those there are"))
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

    #[test]
    fn another_token_takes_the_place_of_the_one_and_the_rest_stays() {
        let file = Path::new("forge.toml");
        let rotated = |text: &str, name: &str| {
            Edit::parse(file, text).expect("TOML").with_client_token(name, "cd").map_err(|error| error.to_string())
        };
        for (before, after) in [
            ("[clients.a] # one\nprofile = 'x'\ntoken_sha256 = \"ab\" # two\n[clients.b]\ntoken = \"t\"\n", None),
            ("[clients.a]\ntoken = \"old\" # two\n", Some("[clients.a]\ntoken_sha256 = \"cd\" # two\n")),
            ("\u{feff}clients.a.token = 'old'\n", Some("\u{feff}clients.a.token_sha256 = \"cd\"\n")),
            ("clients = { a = { \"token\"='x' } }", Some("clients = { a = { \"token_sha256\"=\"cd\" } }")),
        ] {
            let after = after.map_or_else(|| before.replace("ab", "cd"), str::to_owned);
            assert_eq!(rotated(before, "a").as_deref(), Ok(after.as_str()), "{before}");
        }
        for (text, name, why) in [
            ("[clients.a]\ntoken = \"${TOKEN}\"\n", "a", "its token is that of ${TOKEN}"),
            ("[clients.a]\noauth = { sub = \"x\" }\n", "a", "no token of its own"),
            ("[clients.a]\ntoken = \"x\"\n", "b", "there is no client `b`"),
        ] {
            let refused = rotated(text, name).expect_err("an error");
            assert!(refused.contains(why), "{refused}");
        }
    }
}

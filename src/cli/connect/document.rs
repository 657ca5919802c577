//! Edits of a client's document: pure functions from text to text, which check that nothing else changes.

use std::path::Path;

use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::{json, toml};
use crate::cli::clients::{Client, Form, parse};
use base::text;
use config::entries::masked;

/// Name of ForgeFS among a client's servers.
pub(super) const NAME: &str = "forgefs";
/// Keys that ForgeFS writes into its entry.
pub(super) const OWN: &[&str] = &["type", "command", "args", "enabled"];
/// Stands for a value or a comment that is not shown.
const HIDDEN: &str = "…";
/// Most bytes shown of a line.
const WIDEST: usize = 200;

/// A client's document.
pub(super) struct Document<'a> {
    client: &'a Client,
    text: &'a str,
    value: Value,
    /// Keys that lead to the table of servers.
    table: Vec<&'static str>,
}

impl<'a> Document<'a> {
    /// Parses a document; an empty one has no servers.
    ///
    /// # Errors
    /// The fault, and where it is.
    pub(super) fn parse(client: &'a Client, text: &'a str) -> Result<Self, String> {
        let value = value(client, text)?;
        let mut table = client.table.to_vec();
        // Version 2 of opencode nests the servers; it still reads the flat form.
        let nested = value.pointer("/mcp/servers").and_then(Value::as_object);
        if client.form == Form::Local && nested.is_some_and(|nested| !nested.contains_key("type")) {
            table.push("servers");
        }
        Ok(Self { client, text, value, table })
    }

    /// The entry of ForgeFS.
    pub(super) fn entry(&self) -> Option<&Value> {
        self.server(NAME)
    }

    /// One of its servers.
    pub(super) fn server(&self, name: &str) -> Option<&Value> {
        self.servers()?.get(name)
    }

    /// True if ForgeFS is there with every value of `entry`.
    pub(super) fn has(&self, entry: &Value) -> bool {
        self.has_server(NAME, entry)
    }

    fn has_server(&self, name: &str, entry: &Value) -> bool {
        let Some(wanted) = entry.as_object() else { return self.server(name) == Some(entry) };
        self.server(name).is_some_and(|found| wanted.iter().all(|(key, value)| found.get(key) == Some(value)))
    }

    /// The text with ForgeFS among the servers. Its other keys, such as `env`, stay.
    ///
    /// # Errors
    /// Why it cannot be edited without loss.
    pub(super) fn with(&self, entry: &Value) -> Result<String, String> {
        self.with_server(NAME, entry)
    }

    /// The text with a server.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub(super) fn with_server(&self, name: &str, entry: &Value) -> Result<String, String> {
        let edited = match self.client.form {
            Form::Toml => toml::with(self.text, &self.table, name, entry)?,
            Form::Plain | Form::Typed | Form::Local => json::with(self.text, &self.table, name, entry)?,
        };
        let after = Document::parse(self.client, &edited)?;
        let is_added = self.server(name).is_none();
        let is_same = self.rest(&[name]) == after.rest(&[name]) && after.has_server(name, entry);
        match is_same && (!is_added || is_part(self.text, &edited)) {
            true => Ok(edited),
            false => Err("it cannot be edited without loss".to_owned()),
        }
    }

    /// The text without these servers.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub(super) fn without(&self, names: &[&str]) -> Result<String, String> {
        let edited = match self.client.form {
            Form::Toml => toml::without(self.text, &self.table, names)?,
            Form::Plain | Form::Typed | Form::Local => json::without(self.text, &self.table, names)?,
        };
        let after = Document::parse(self.client, &edited)?;
        match self.rest(names) == after.rest(&[]) && is_part(&edited, self.text) {
            true => Ok(edited),
            false => Err("it cannot be edited without loss".to_owned()),
        }
    }

    /// Its servers by name.
    pub(super) fn servers(&self) -> Option<&Map<String, Value>> {
        self.table.iter().try_fold(&self.value, |value, key| value.get(key))?.as_object()
    }

    /// Its values without these servers, and without tables that are empty then.
    fn rest(&self, names: &[&str]) -> Value {
        let mut rest = self.value.clone();
        fn remove(value: &mut Value, table: &[&str], names: &[&str]) {
            let Some(object) = value.as_object_mut() else { return };
            match table.split_first() {
                None => names.iter().for_each(|name| drop(object.remove(*name))),
                Some((key, table)) => {
                    if let Some(inner) = object.get_mut(*key) {
                        remove(inner, table, names);
                        if inner.as_object().is_some_and(Map::is_empty) {
                            object.remove(*key);
                        }
                    }
                }
            }
        }
        remove(&mut rest, &self.table, names);
        rest
    }

    /// The text with values and comments hidden, but for the entry of ForgeFS: other servers have credentials.
    fn hidden(&self) -> String {
        let path: Vec<&str> = self.table.iter().copied().chain([NAME]).collect();
        let foreign = match self.client.form {
            Form::Toml => toml::foreign(self.text, &path),
            Form::Plain | Form::Typed | Form::Local => json::foreign(self.text, &path),
        };
        let (mut shown, mut at) = (String::new(), 0);
        for range in foreign {
            if range.start >= at {
                shown.push_str(&self.text[at..range.start]);
                shown.push_str(HIDDEN);
                at = range.end;
            }
        }
        shown + &self.text[at..]
    }

    /// The difference to another text, as a unified diff that shows no value of other servers.
    pub(super) fn difference(&self, edited: &str, path: &Path) -> String {
        let after = Document::parse(self.client, edited).map(|after| after.hidden()).unwrap_or_default();
        let before = self.hidden();
        let file = path.display().to_string();
        let diff = TextDiff::from_lines(&before, &after);
        let mut diff = diff.unified_diff();
        let shown = diff.context_radius(3).missing_newline_hint(false).header(&file, &file).to_string();
        let cut = |line: &str| match text::head(line, WIDEST) {
            head if head.len() < line.len() => format!("{head}{HIDDEN}\n"),
            line => format!("{line}\n"),
        };
        shown.lines().map(cut).collect()
    }
}

/// The entry of ForgeFS for this client.
pub(super) fn entry(client: &Client, program: &str, args: &[String]) -> Value {
    match client.form {
        Form::Plain | Form::Toml => json!({"command": program, "args": args}),
        Form::Typed => json!({"type": "stdio", "command": program, "args": args}),
        Form::Local => {
            let command: Vec<&str> = [program].into_iter().chain(args.iter().map(String::as_str)).collect();
            json!({"type": "local", "command": command, "enabled": true})
        }
    }
}

/// Positions of the words of a command that are credentials.
pub(super) fn secret_words(words: &[&str]) -> Vec<usize> {
    let shown = masked(words);
    (0..words.len()).filter(|at| words[*at] != shown[*at]).collect()
}

/// A new document with this entry of ForgeFS alone.
///
/// # Errors
/// The entry has no form in it.
pub(super) fn new(client: &Client, entry: &Value) -> Result<String, String> {
    // In the order in which they were written: not every parser keeps it.
    let own = OWN.iter().filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone())));
    let text = Document::parse(client, "")?.with(&Value::Object(own.collect()))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

fn value(client: &Client, text: &str) -> Result<Value, String> {
    match client.form {
        Form::Toml => parse::toml(text),
        Form::Plain | Form::Typed | Form::Local => json::value(text),
    }
}

/// True if a text consists of characters of another one in their order, but for white space.
fn is_part(part: &str, whole: &str) -> bool {
    let mut whole = whole.chars();
    part.chars().filter(|c| !c.is_whitespace()).all(|c| whole.any(|other| other == c))
}

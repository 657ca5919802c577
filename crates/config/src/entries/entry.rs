//! One `[servers.<name>]` entry to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::loss::Loss;
use crate::share::keeps_session;

/// Comment on `share = "session"`.
pub(super) const OWN_SESSION: &str =
    "It keeps a session, such as an open browser: each session of a client has its own instance.";

/// A server in terms of `forge.toml`. Texts are in its syntax, references included.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Name in `forge.toml`.
    pub name: String,
    /// Names in the source files.
    pub called: Vec<String>,
    /// Source files.
    pub origins: Vec<String>,
    /// Transport.
    pub transport: Transport,
    /// One line for `ls /`.
    pub description: Option<String>,
    /// True if its source has it switched off.
    pub disabled: bool,
    /// Time for a call.
    pub timeout: Option<String>,
    /// Time for the connection.
    pub connect_timeout: Option<String>,
    /// Lists of tools: `allow` and `deny`.
    pub tools: Vec<(&'static str, Vec<String>)>,
    /// Keys of `[servers.<name>.auth]`, with values as TOML.
    pub auth: Vec<(&'static str, String)>,
    /// Keys whose values are plain credentials.
    pub secrets: Vec<String>,
    /// Credentials behind variables.
    pub hidden: Vec<String>,
    /// Variables in place of credentials, with their values.
    pub variables: BTreeMap<String, String>,
    /// Variables that its host's references name.
    pub refers: BTreeSet<String>,
    /// Required variables that are not set.
    pub unset: Vec<String>,
    /// Parts of the server that the entry lacks: it may not work as it did.
    pub lost: Vec<Loss>,
    /// Position of its file among those that are read.
    pub file: usize,
    /// Position among all servers found.
    pub position: usize,
    /// True if another server has its name: the user should check it first.
    pub is_doubtful: bool,
    /// True if it comes from a file that others can write too.
    pub is_shared: bool,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// Transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program, spoken to on stdin and stdout.
    Stdio {
        /// Program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: Vec<(String, String)>,
        /// Its working directory.
        cwd: Option<String>,
    },
    /// A server on HTTP.
    Http {
        /// True for HTTP+SSE.
        legacy: bool,
        /// Address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

impl Default for Transport {
    fn default() -> Self {
        Self::Http { legacy: false, url: String::new(), headers: Vec::new() }
    }
}

impl Entry {
    /// The entry's keys under its table header, without comments.
    pub fn table(&self) -> String {
        format!("[servers.{}]\n{}\n", key(&self.name), self.pairs().join("\n"))
    }

    /// The entry's keys with their values, to write.
    pub fn pairs(&self) -> Vec<String> {
        let mut pairs = Vec::new();
        let mut line = |key: &str, value: String| pairs.push(format!("{key} = {value}"));
        if self.is_off() {
            line("enabled", "false".to_owned());
        }
        match &self.transport {
            Transport::Stdio { command, args, env, cwd } => {
                line("command", string(command));
                if !args.is_empty() {
                    line("args", array(args));
                }
                if let Some(cwd) = cwd {
                    line("cwd", string(cwd));
                }
                env.iter().for_each(|(name, value)| line(&format!("env.{}", key(name)), string(value)));
            }
            Transport::Http { legacy, url, headers } => {
                if *legacy {
                    line("transport", string("sse"));
                }
                line("url", string(url));
                headers.iter().for_each(|(name, value)| line(&format!("headers.{}", key(name)), string(value)));
            }
        }
        if self.keeps_session() {
            line("share", string("session"));
        }
        let texts = [
            ("description", &self.description),
            ("timeout", &self.timeout),
            ("connect_timeout", &self.connect_timeout),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                line(name, string(text));
            }
        }
        self.tools.iter().for_each(|(name, tools)| line(name, array(tools)));
        self.auth.iter().for_each(|(name, value)| line(&format!("auth.{name}"), value.clone()));
        pairs
    }

    /// Merges the rules of the same server from another file, which never allow more: denied stays denied, disabled
    /// stays disabled. A project's file cannot change what the user's own files allow.
    pub fn join(&mut self, other: &Self) {
        self.disabled |= other.disabled;
        for (kind, tools) in &other.tools {
            match self.tools.iter_mut().find(|(known, _)| known == kind) {
                Some((_, known)) if *kind == "deny" => {
                    let new: Vec<_> = tools.iter().filter(|tool| !known.contains(tool)).cloned().collect();
                    known.extend(new);
                }
                Some((_, known)) if self.is_shared == other.is_shared => {
                    let both: Vec<_> = known.iter().filter(|tool| tools.contains(tool)).cloned().collect();
                    *known = if both.is_empty() { std::mem::take(known) } else { both };
                }
                Some(_) => {}
                None => self.tools.push((kind, tools.clone())),
            }
        }
    }

    /// True if another entry is on and off, allows tools and waits in the same way.
    pub fn has_rules_of(&self, other: &Self) -> bool {
        let rules =
            |entry: &Self| (entry.disabled, entry.tools.clone(), entry.timeout.clone(), entry.connect_timeout.clone());
        rules(self) == rules(other)
    }

    /// True if a configuration table is of the same server.
    pub fn is_at(&self, table: &toml::Value) -> bool {
        let text = |key| table.get(key).and_then(toml::Value::as_str);
        match &self.transport {
            Transport::Stdio { command, args, .. } => {
                let theirs = table.get("args").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
                text("command") == Some(command)
                    && theirs.iter().map(toml::Value::as_str).eq(args.iter().map(|arg| Some(arg.as_str())))
            }
            Transport::Http { url, .. } => text("url") == Some(url),
        }
    }

    /// True if a configuration table starts or reaches the server in the same way, as the same user, and allows no more.
    pub fn is_same(&self, table: &toml::Value) -> bool {
        let text = self.pairs().join("\n");
        // There the credential may be in place of the variable.
        let plain = self.variables.iter().fold(text.clone(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), string(&value.replace("${", "$${")).trim_matches('"'))
        });
        [text, plain].iter().any(|text| is_same(text, table))
    }

    /// True if it is known to keep a session in its process.
    pub(super) fn keeps_session(&self) -> bool {
        matches!(&self.transport, Transport::Stdio { command, args, .. } if keeps_session(command, args))
    }

    /// True if it is written as disabled.
    pub(super) fn is_off(&self) -> bool {
        self.disabled || self.is_doubtful || !self.unset.is_empty()
    }

    /// Renders the entry with its comments. If it is `refused`, all of it is a comment.
    pub fn render(&self, refused: Option<&str>) -> String {
        let mut out = String::new();
        let mut comment = |text: String| {
            let _infallible = writeln!(out, "# {}", plain(&text));
        };
        comment(format!("From {}.", self.origins.join(" and ")));
        for secret in &self.secrets {
            comment(format!("{secret} is a credential in plain text; better export it and write ${{NAME}} here."));
        }
        if !self.unset.is_empty() {
            comment(format!("Export {}, then remove `enabled = false`.", self.unset.join(", ")));
        }
        if self.keeps_session() {
            comment(OWN_SESSION.to_owned());
        }
        self.notes.iter().for_each(|note| comment(note.clone()));
        if let Some(reason) = refused {
            comment(format!("Not used: {reason}"));
        }
        let table = self.table();
        match refused {
            None => out + &table,
            Some(_) => table.lines().fold(out, |out, line| out + "#" + line + "\n"),
        }
    }
}

/// True if the pairs of a table start or reach the same server as `table`, and allow no more.
fn is_same(pairs: &str, table: &toml::Value) -> bool {
    let Ok(own) = toml::from_str::<toml::Table>(pairs) else { return false };
    let said = |value: Option<&toml::Value>| {
        let is_empty = |value: &toml::Value| match value {
            toml::Value::Array(items) => items.is_empty(),
            toml::Value::Table(pairs) => pairs.is_empty(),
            _ => false,
        };
        value.filter(|value| !is_empty(value)).cloned()
    };
    let is_sse = |value: Option<&toml::Value>| value.and_then(toml::Value::as_str) == Some("sse");
    let keys = ["command", "args", "cwd", "env", "url", "headers", "auth"];
    keys.iter().all(|key| said(own.get(*key)) == said(table.get(*key)))
        && is_sse(own.get("transport")) == is_sse(table.get("transport"))
        && ["allow", "deny"].iter().all(|key| own.get(*key).is_none_or(|rule| table.get(*key) == Some(rule)))
}

/// A text without line ends and direction marks.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || turns(c) { ' ' } else { c }).collect()
}

/// True if a character changes how text reads.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A TOML key.
pub fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare { name.to_owned() } else { string(name) }
}

/// A TOML string, in JSON's form, which is valid but for DEL. Deceptive characters are escaped too.
pub(super) fn string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let escape = |c: char| match c == '\u{7f}' || turns(c) {
        true => format!("\\u{:04X}", u32::from(c)),
        false => c.to_string(),
    };
    quoted.chars().map(escape).collect()
}

/// A TOML array of strings, on one line if it fits.
pub(super) fn array(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| string(item)).collect();
    let line = format!("[{}]", items.join(", "));
    match line.chars().count() > 110 {
        true => format!("[\n    {},\n]", items.join(",\n    ")),
        false => line,
    }
}

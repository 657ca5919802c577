//! An entry from the words of a person. Credentials among them become references to variables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::credentials::{self, Credentials};
use super::entry::{Entry, OWN_SESSION};
use super::host::{Found, Host, Place};
use super::references;
use super::spelling::Known;
use super::translate;
use crate::Env;
use crate::expand::is_name;
use redact::sounds_secret;

/// Fewest bytes of a variable's value that is replaced by a reference: a shorter one occurs by chance.
const SHORTEST: usize = 8;

/// Schemes of credentials in headers.
const SCHEMES: [&str; 4] = ["Basic", "Bearer", "Digest", "Token"];

/// Words of `forgefs add`.
pub struct Words<'a> {
    /// Name of the server.
    pub name: &'a str,
    /// Program with its arguments; empty for a server on HTTP.
    pub command: &'a [String],
    /// Address of a server on HTTP.
    pub url: Option<&'a str>,
    /// `NAME=VALUE`, or `NAME` for a reference to the variable.
    pub env: &'a [String],
    /// `NAME: VALUE`.
    pub headers: &'a [String],
    /// Working directory of the program.
    pub cwd: Option<&'a Path>,
    /// True for HTTP+SSE.
    pub sse: bool,
    /// One line for `ls /`.
    pub description: Option<&'a str>,
}

/// Surroundings of the words.
pub struct Surroundings<'a> {
    /// The environment.
    pub env: Env<'a>,
    /// Its variables that hold credentials, with their values.
    pub secrets: &'a [(String, String)],
    /// The current folder.
    pub cwd: &'a Path,
    /// The file to write.
    pub target: &'a Path,
    /// Write credentials as they are.
    pub in_clear: bool,
}

/// Translates the words.
///
/// # Errors
/// A mistake in them. Values, which may be credentials, are not repeated.
pub fn typed(words: &Words<'_>, around: &Surroundings<'_>) -> Result<Entry, String> {
    let place = Place { host: Host::Unknown, path: PathBuf::new(), project: Some(around.cwd.into()), is_shared: false };
    let fields = fields(words, around)?;
    let found = Found { place, name: words.name.to_owned(), fields, inputs: Vec::new(), disabled: false, file: 0 };
    let base = around.target.parent().unwrap_or(around.cwd);
    let nothing = Known::default();
    let (env, referred, leave_out) = (around.env, &BTreeSet::new(), !around.in_clear);
    let mut credentials = Credentials { env, real: env, referred, leave_out, kept: None, known: &nothing };
    // A credential in one value must not be visible in another.
    let first = translate::entry(&found, credentials, base)?;
    let known = Known::new(first.hidden.iter());
    credentials.known = &known;
    let mut entry = translate::entry(&found, credentials, base)?;
    entry.notes.retain(|note| !note.is_empty());
    Ok(entry)
}

impl Entry {
    /// The entry as a configuration of its own, enabled.
    pub fn alone(&self) -> String {
        Self { unset: Vec::new(), ..self.clone() }.table()
    }

    /// Notes variables that the entry refers to and that are not set; true if there are any.
    pub fn lacks(&mut self, names: &[String], env: Env<'_>) -> bool {
        let missing: Vec<&String> = names.iter().filter(|name| env(name).is_none()).collect();
        for name in &missing {
            if !self.unset.contains(name) {
                self.unset.push((*name).clone());
            }
        }
        !missing.is_empty()
    }

    /// Variables that hold credentials and that the entry refers to.
    pub fn references(&self) -> Vec<String> {
        let text = self.pairs().join("\n");
        let is_secret = |name: &String| sounds_secret(name) || self.variables.contains_key(name);
        let names: BTreeSet<String> = references::variables(&text).filter(is_secret).collect();
        names.into_iter().collect()
    }

    /// Comments to write above it where it was typed.
    pub fn comments(&self) -> Vec<String> {
        let own_session = self.keeps_session().then(|| OWN_SESSION.to_owned());
        let unset = match &self.unset[..] {
            [] => None,
            unset => Some(format!("Export {}, then `forgefs enable {}`.", unset.join(", "), self.name)),
        };
        own_session.into_iter().chain(unset).collect()
    }
}

/// The words in the form of hosts' files.
fn fields(words: &Words<'_>, around: &Surroundings<'_>) -> Result<Map<String, Value>, String> {
    let referring = |text: &str| referring(text, around);
    let mut fields = Map::new();
    match (words.command, words.url) {
        ([program, args @ ..], None) => {
            fields.insert("command".to_owned(), referring(program).into());
            fields.insert("args".to_owned(), args.iter().map(|arg| referring(arg)).collect());
        }
        ([], Some(url)) if url.contains("://") => {
            fields.insert("url".to_owned(), referring(url).into());
            fields.insert("type".to_owned(), if words.sse { "sse" } else { "http" }.into());
        }
        ([], Some(word)) => {
            let name = words.name;
            if let Some(scheme) = missing_scheme(word) {
                return Err(format!("`{word}` is not a URL; forgefs add {name} {scheme}://{word}"));
            }
            return Err(format!("`{word}` is not a URL; a command follows `--`: forgefs add {name} -- {word}"));
        }
        _ => return Err("a server is a command or a URL, not both".to_owned()),
    }
    let (env, headers) = (variables(words.env, around)?, headers(words.headers, around)?);
    let on_http = words.url.is_some();
    if on_http && !(env.is_empty() && words.cwd.is_none()) {
        return Err(
            "--env and --cwd are for a command; a server on HTTP takes its credentials from --header".to_owned()
        );
    }
    if !on_http && (!headers.is_empty() || words.sse) {
        return Err("--header and --sse are for a URL; a command takes its credentials from --env".to_owned());
    }
    if !env.is_empty() {
        fields.insert("env".to_owned(), env.into());
    }
    if !headers.is_empty() {
        fields.insert("headers".to_owned(), headers.into());
    }
    if let Some(cwd) = words.cwd {
        let cwd = around.cwd.join(cwd);
        let cwd = cwd.to_str().ok_or_else(|| format!("--cwd: {} is not Unicode", cwd.display()))?;
        fields.insert("cwd".to_owned(), referring(cwd).into());
    }
    if let Some(description) = words.description {
        // A reference would show it to agents all the same.
        if referring(description) != description || !credentials::in_value(description).is_empty() {
            return Err("--description: it has a credential in it, and agents read it; leave that out".to_owned());
        }
        fields.insert("description".to_owned(), json!(description));
    }
    Ok(fields)
}

/// The scheme of a word that is a URL but for it: a host with a port or a path.
fn missing_scheme(word: &str) -> Option<&'static str> {
    let end = word.find([':', '/'])?;
    let (host, rest) = word.split_at(end);
    let port = rest.strip_prefix(':').map(|rest| rest.split('/').next().unwrap_or_default());
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_here = host == "localhost" || host.starts_with("127.");
    let is_host = is_here || (host.contains('.') && host.starts_with(|first: char| first.is_ascii_alphanumeric()));
    (is_port && is_host).then_some(if is_here { "http" } else { "https" })
}

fn variables(given: &[String], around: &Surroundings<'_>) -> Result<Map<String, Value>, String> {
    let mut variables = Map::new();
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, referring(value, around)),
            None => (text.as_str(), format!("${{{text}}}")),
        };
        if !is_name(name) {
            return Err("--env: give NAME=VALUE, or NAME for a variable of this environment".to_owned());
        }
        if variables.insert(name.to_owned(), value.into()).is_some() {
            return Err(format!("--env: {name} is given twice"));
        }
    }
    Ok(variables)
}

fn headers(given: &[String], around: &Surroundings<'_>) -> Result<Map<String, Value>, String> {
    let mut headers = Map::new();
    for text in given {
        let (name, value) = text.split_once(':').unwrap_or_default();
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || value.is_empty() {
            return Err("--header: give 'NAME: VALUE', such as 'Authorization: Bearer ${TOKEN}'".to_owned());
        }
        if let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.eq_ignore_ascii_case(value)) {
            return Err(format!("--header: the value after {scheme} is empty; is the variable set?"));
        }
        if headers.insert(name.to_owned(), referring(value, around).into()).is_some() {
            return Err(format!("--header: {name} is given twice"));
        }
    }
    Ok(headers)
}

/// The text with references in place of values of variables: a shell has expanded `$TOKEN` before we see it.
fn referring(text: &str, around: &Surroundings<'_>) -> String {
    if around.in_clear {
        return text.to_owned();
    }
    let mut secrets: Vec<_> = around.secrets.iter().filter(|(_, value)| value.len() >= SHORTEST).collect();
    secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    // Once from left to right: the value of one variable may be the name of another, in a reference.
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let reference = rest.strip_prefix("${").and_then(|inner| inner.find('}')).map(|end| end + "${}".len());
        let secret = secrets.iter().find(|(_, value)| rest.starts_with(value.as_str()));
        let taken = match (reference, secret) {
            (Some(end), _) => {
                out.push_str(&rest[..end]);
                end
            }
            (None, Some((name, value))) => {
                out.push_str(&format!("${{{name}}}"));
                value.len()
            }
            (None, None) => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Words of a written server without the credentials among them.
pub fn masked(words: &[&str]) -> Vec<String> {
    let before = |index: usize| index.checked_sub(1).and_then(|before| words.get(before)).copied();
    let mask = |(index, word): (usize, &&str)| {
        let mut shown = (*word).to_owned();
        for part in credentials::in_argument(before(index), word).into_iter().rev() {
            // A reference is none.
            if !part.value.contains("${") {
                shown.replace_range(part.start..part.end, "[redacted]");
            }
        }
        shown
    };
    words.iter().enumerate().map(mask).collect()
}

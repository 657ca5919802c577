//! References of servers to variables, resolved again for a client with other values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::document::Document;
use super::env_files::EnvFiles;
use super::error::ConfigError;
use super::expand::{self, has_reference};
use super::key::Key;
use super::raw::RawServer;
use super::{Env, OAuth, Server, server};
use redact::secret::{MASK, Secret};

/// Keys that are resolved for each client: those that start or reach the server. All others, such as limits and
/// approval, are the operator's.
const KEYS: &[&str] =
    &["transport", "command", "args", "env", "cwd", "url", "headers", "openapi", "base_url", "query", "auth"];

/// Values that a client has for the variables that the configuration refers to. A variable without a value is unset for
/// this client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl From<BTreeMap<String, String>> for Environment {
    fn from(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }
}

impl Environment {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|name| (name, MASK))).finish()
    }
}

/// Enabled servers that refer to variables, as they are written.
#[derive(Clone, Default, PartialEq)]
pub struct References {
    servers: BTreeMap<String, Entry>,
    /// Variables of `env_files`, for those that an environment lacks.
    files: BTreeMap<String, Secret>,
    path: PathBuf,
    base: PathBuf,
}

/// One of these servers.
#[derive(Clone, PartialEq)]
struct Entry {
    /// [`KEYS`] of its entry.
    keys: Table,
    /// The gateway's own values of the variables.
    own: BTreeMap<String, Option<Secret>>,
}

impl fmt::Debug for References {
    /// The variables by server. The entries may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.servers.iter().map(|(name, entry)| (name, entry.own.keys()))).finish()
    }
}

impl References {
    /// References in the text of a configuration that was parsed before.
    pub(super) fn of(text: &str, path: &Path, base: &Path, env: Env<'_>) -> Self {
        let (servers, files) = (BTreeMap::new(), BTreeMap::new());
        let mut references = Self { servers, files, path: path.to_owned(), base: base.to_owned() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let table = if has_reference(text) { text.parse::<Table>().unwrap_or_default() } else { Table::new() };
        for (name, entry) in table.get("servers").and_then(Value::as_table).into_iter().flatten() {
            let Some(entry) = entry.as_table() else { continue };
            if entry.get("enabled").and_then(Value::as_bool) == Some(false) {
                continue;
            }
            let keys: Table = entry.iter().filter(|(key, _)| KEYS.contains(&key.as_str())).map(clone).collect();
            let mut names = BTreeSet::new();
            keys.values().for_each(|value| variables(value, &mut names));
            if names.is_empty() {
                continue;
            }
            let own = names.into_iter().map(|name| (name.to_owned(), env(name).map(Secret::unlisted))).collect();
            references.servers.insert(name.clone(), Entry { keys, own });
        }
        // Without any, it is that of no file.
        if references.servers.is_empty() { Self::default() } else { references }
    }

    /// The same with the variables of files.
    pub(super) fn with(mut self, files: &EnvFiles) -> Self {
        let names = self.servers.values().flat_map(|entry| entry.own.keys());
        let value = |name: &String| Some((name.clone(), Secret::unlisted(files.get(name)?)));
        self.files = names.filter_map(value).collect();
        self
    }

    /// Servers of `next` whose references differ.
    pub(super) fn changed<'n>(&self, next: &'n Self) -> impl Iterator<Item = &'n str> {
        let changed = next.servers.iter().filter(|(name, entry)| self.servers.get(*name) != Some(entry));
        changed.map(|(name, _)| name.as_str())
    }

    /// Names of the servers.
    pub fn servers(&self) -> impl Iterator<Item = &String> {
        self.servers.keys()
    }

    /// The server `name` with the values of `environment`, where `own` is the one with the gateway's values; `None` if
    /// they are the same.
    ///
    /// # Errors
    /// The first error in it, such as a variable that this client does not have.
    pub fn resolve(&self, name: &str, own: &Server, environment: &Environment) -> Result<Option<Server>, ConfigError> {
        let Some(entry) = self.servers.get(name) else { return Ok(None) };
        let env = |variable: &str| {
            environment.get(variable).or_else(|| self.files.get(variable).map(|value| value.expose().to_owned()))
        };
        let is_same =
            |(variable, own): (&String, &Option<Secret>)| env(variable).as_deref() == own.as_ref().map(Secret::expose);
        if entry.own.iter().all(is_same) {
            return Ok(None);
        }
        // Its text is not kept, so errors have no position.
        let document = Document::parse(&self.path, "")?;
        let key = Key::root(&document, &env, &self.base).key("servers").key(name);
        let raw: RawServer = entry.keys.clone().try_into().map_err(|_| key.at_key("not a server any more"))?;
        let Server { transport, auth, .. } = server::server(key, raw)?;
        // The folder of logins is the gateway's.
        let auth = auth.map(|auth| Box::new(kept_as(*auth, own.auth.as_deref())));
        let theirs = Server { transport, auth, ..own.clone() };
        Ok((theirs != *own).then_some(theirs))
    }
}

fn clone((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// Names of the variables in a value.
fn variables<'v>(value: &'v Value, names: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) => names.extend(expand::names(text)),
        Value::Array(items) => items.iter().for_each(|item| variables(item, names)),
        Value::Table(table) => table.values().for_each(|value| variables(value, names)),
        _ => {}
    }
}

/// `auth` with the stored logins of `own`.
fn kept_as(auth: OAuth, own: Option<&OAuth>) -> OAuth {
    let OAuth { store, sealing, identity, .. } = own.cloned().unwrap_or_default();
    OAuth { store, sealing, identity, ..auth }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Transport};

    const TEXT: &str = r#"
        [servers.files]
        command = "files"
        args = ["--root", "${ROOT}", "$${ROOT}"]
        env.TOKEN = "${FILES_TOKEN:-none}"
        approval = "${APPROVAL:-always}"
        rate = { calls = 1, per = "1m" }

        [servers.plain]
        command = "plain"

        [servers.off]
        enabled = false
        command = "${OFF}"
    "#;

    fn own(name: &str) -> Option<String> {
        (name == "ROOT").then(|| "/own".to_owned())
    }

    fn environment(values: &[(&str, &str)]) -> Environment {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>().into()
    }

    fn resolved(values: &[(&str, &str)]) -> Result<Option<Server>, ConfigError> {
        let config = Config::parse(TEXT, Path::new("/project/forge.toml"), &own).expect("valid");
        config.references.resolve("files", &config.servers["files"], &environment(values))
    }

    #[test]
    fn a_server_is_resolved_with_the_values_of_a_client_and_the_rules_of_the_operator() {
        let config = Config::parse(TEXT, Path::new("/project/forge.toml"), &own).expect("valid");
        assert!(config.references.servers["files"].own.keys().eq(["FILES_TOKEN", "ROOT"]));
        assert_eq!(config.references.servers().collect::<Vec<_>>(), ["files"]);
        let server = resolved(&[("ROOT", "/theirs"), ("APPROVAL", "never")]).expect("valid").expect("another");
        let Transport::Stdio { args, .. } = &server.transport else { panic!("{server:?}") };
        assert_eq!(args, &["--root", "/theirs", "${ROOT}"]);
        let before = &config.servers["files"];
        assert_eq!((server.approval, server.rate), (before.approval, before.rate));
        assert_eq!(resolved(&[("ROOT", "/own")]).expect("valid"), None);
        assert_eq!(resolved(&[("ROOT", "/own"), ("FILES_TOKEN", "")]).expect("valid"), None);
    }

    #[test]
    fn a_variable_that_the_client_lacks_is_never_taken_from_the_gateway() {
        let error = resolved(&[("FILES_TOKEN", "t0k3n-of-client")]).expect_err("no ROOT");
        assert_eq!(error.message, "environment variable `ROOT` is not set");
        assert_eq!(error.key, "servers.files.args[1]");
    }

    #[test]
    fn values_are_not_printed() {
        let environment = environment(&[("TOKEN", "hunter2")]);
        assert_eq!(format!("{environment:?}"), r#"{"TOKEN": "[redacted]"}"#);
        let config = Config::parse(TEXT, Path::new("/project/forge.toml"), &own).expect("valid");
        assert!(!format!("{:?}", config.references).contains("/own"));
    }
}

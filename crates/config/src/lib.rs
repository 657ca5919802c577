//! Configuration: `forge.toml` → raw serde types → [`Config`], with enums, `Duration`s and checked ranges.
//!
//! Resolved once, here. Nothing outside this folder reads the environment for configuration, compares a mode as a
//! string or applies a default.
//!
//! `raw` has every key as it is written, and a file per table resolves it; a table of bounds (`bounds`) does both.
//! `diff` finds edits that widen rights, `entries` makes entries of servers, `edit` writes servers and clients into a file,
//! `unmatched` finds rules that match nothing, `profiles` what clients may see, `secrets` reads the values that the
//! configuration only names. `schema`, a test, writes the JSON Schema of all keys.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use redact::Results;
use redact::secret;

mod approvals;
mod audit;
mod auth;
mod bounds;
mod clients;
mod confinement;
mod console;
mod credential;
mod daemon;
mod diff;
mod document;
mod edit;
mod edited;
pub mod entries;
mod env_files;
mod error;
mod expand;
mod exposure;
mod file;
mod hooks;
mod http;
mod identity;
mod journal;
mod key;
mod manifest;
mod oauth;
mod openapi;
mod overrides;
mod patterns;
mod policy;
mod profiles;
mod raw;
mod references;
mod sandbox;
#[cfg(test)]
mod schema;
mod scripts;
pub mod secrets;
mod sensitive;
mod server;
mod share;
mod spending;
mod state;
mod suggest;
mod telemetry;
mod transport;
mod units;
mod unmatched;
mod words;

pub use approvals::{Approvals, Notify};
pub use audit::{Audit, AuditTo, Required};
pub use auth::{Grant, Login, OAuth};
pub use base::memory::Memory;
pub use clients::{Client, client_of_token, is_client_name, is_of_token, token_digest};
pub use confinement::Confinement;
pub use console::ConsoleToken;
pub use credential::{Credential, Place, Source};
pub use daemon::Daemon;
pub use diff::Widened;
use document::Document;
pub use document::position;
pub use edit::{Edit, InGroup, NewServer};
pub use edited::{Unwritten, Written, edit_file, editable};
pub use env_files::variable_line;
pub use error::{ConfigError, Position};
pub use expand::is_name as is_variable_name;
pub use exposure::exposures;
pub use file::check_text;
pub use hooks::{Hook, HookEvent};
pub use http::{Http, LISTEN_FORM, Tls, parse_listen};
pub use identity::Identity;
pub use journal::Journal;
use key::Key;
pub use manifest::Manifest;
pub use oauth::{ClaimRow, Claims, ResourceServer};
pub use overrides::Override;
pub use patterns::{Matcher, Patterns, PerTool};
pub use policy::{Approval, Flow, FlowAction, Group, Isolation, Party, Policy, Relay, Relays, Tasks};
pub use profiles::{DEFAULT_PROFILE, Expose, Profile, View};
use raw::{Raw, RawRedaction, RawSkills};
pub use references::{Environment, References};
pub use sandbox::{Limits, RecyclePolicy, Sandbox};
pub use scripts::{Returns, SCRIPTS_LOCK, SCRIPTS_SERVER, ScriptApproval, ScriptRule, Scripts};
pub use server::{Access, Binding, Breaker, INHERITED, ROOT_NAMES, Server, Start};
pub use share::{Scope, Share, keeps_session};
pub use spending::{Amount, Budgets, Rate, ToolRule};
pub use state::{Sealing, Store};
pub use telemetry::{Metrics, Telemetry};
pub use transport::{DocumentPlace, HttpKind, Transport};
pub use units::show_size;
pub use unmatched::{ListedNames, MEND, Unmatched, of_server as unmatched_of};
use words::words;

/// Address of the JSON Schema of `forge.toml` of the newest release.
pub const SCHEMA_ADDRESS: &str = "https://raw.githubusercontent.com/forgefs/forgefs/main/docs/forge.schema.json";

/// The `[search]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// True if texts that mean the same match without a common word.
    pub meaning: bool,
    /// State folder of what is learned from calls after searches; `None` if nothing is.
    pub learned: Option<PathBuf>,
}

impl Default for Search {
    fn default() -> Self {
        Self { meaning: true, learned: None }
    }
}

/// Configuration of one gateway.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Files with variables for references.
    pub env_files: Vec<PathBuf>,
    /// Downstream MCP servers by name, disabled ones included.
    pub servers: BTreeMap<String, Server>,
    /// Execution of scripts.
    pub sandbox: Sandbox,
    /// Memory limits of the gateway.
    pub memory: Memory,
    /// Cache, refresh and review of tool lists.
    pub manifest: Manifest,
    /// Folder of skills, if there is one.
    pub skills: Option<PathBuf>,
    /// Ranking of searches.
    pub search: Search,
    /// Audit log.
    pub audit: Audit,
    /// Journals of runs.
    pub journal: Journal,
    /// Approvals that wait.
    pub approvals: Approvals,
    /// Programs and services that decide about calls, by name.
    pub hooks: BTreeMap<String, Hook>,
    /// Store that replicas share; `None` for one gateway alone.
    pub state: Option<Store>,
    /// Redaction of results, beside configured values.
    pub redaction: Results,
    /// True if redacted values get placeholders, which are restored in arguments.
    pub placeholders: bool,
    /// True if answers of scripts that called tools are examined for findings.
    pub answer_findings: bool,
    /// Budgets.
    pub budgets: Budgets,
    /// Metrics endpoint, if enabled.
    pub metrics: Option<Metrics>,
    /// Export of spans, if enabled.
    pub telemetry: Option<Telemetry>,
    /// Groups and flows of servers.
    pub policy: Policy,
    /// Scripts as tools.
    pub scripts: Scripts,
    /// Endpoint of `forgefs serve --http`.
    pub http: Http,
    /// Rights of clients, by name of the profile.
    pub profiles: BTreeMap<String, Profile>,
    /// Clients by name. Where none has credentials, only this machine may use the endpoint.
    pub clients: BTreeMap<String, Client>,
    /// People who may open `/console` of `forgefs serve --http`.
    pub console: BTreeMap<String, ConsoleToken>,
    /// True if requests on HTTP need a token: there are clients or an issuer, or the last was revoked and nothing else
    /// confirmed.
    pub needs_token: bool,
    /// References of servers to variables.
    pub references: References,
    /// The gateway that clients share.
    pub daemon: Daemon,
    /// Source file; `None` for [`Config::empty`].
    pub path: Option<PathBuf>,
}

/// Looks up one environment variable. Passed in, so that tests need not change the process.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// State folder of all gateways; `None` for a user without a home.
pub fn state_folder(env: Env<'_>) -> Option<PathBuf> {
    key::own_folder(env, "XDG_STATE_HOME", ".local/state")
}

/// Folder for what can be fetched again; `None` without a home folder.
pub fn cache_folder(env: Env<'_>) -> Option<PathBuf> {
    key::own_folder(env, "XDG_CACHE_HOME", ".cache")
}

/// Environment of this process, for production. A value that is not Unicode counts as unset.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Variables of this process's environment that hold a credential by their name, with their values. A path is none.
pub fn secret_variables() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let is_secret = |(name, value): &(String, String)| {
        let is_path = Path::new(value).is_absolute();
        redact::sounds_secret(name) && !sensitive::describes_machine(name) && expand::is_name(name) && !is_path
    };
    std::env::vars_os().filter_map(text).filter(is_secret).collect()
}

impl Config {
    /// The variables of its `env_files`, as these are now.
    pub fn file_variables(&self) -> BTreeMap<String, String> {
        self.env_files.iter().flat_map(|path| env_files::variables_in(path)).collect()
    }

    /// Absolute path of its file, for records; `None` for [`Config::empty`].
    pub fn absolute_path(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string())
    }

    /// Reads and resolves a file.
    ///
    /// # Errors
    /// The first error in it.
    pub fn load(path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        Self::of_text(&file::read(path)?, path, env)
    }

    /// Like [`Config::load`], of a text that the file may not have yet.
    ///
    /// # Errors
    /// The first error in it.
    pub fn of_text(text: &str, path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // Absolute, so that a server's working directory and program do not depend on the gateway's directory later.
        let base = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self::resolve(text, path, &base, env)
    }

    /// Resolves the text of a file. Relative paths in it are resolved against the folder of `path`, which is not read.
    ///
    /// # Errors
    /// The first error in it.
    pub fn parse(text: &str, path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        Self::resolve(text, path, path.parent().unwrap_or(Path::new("")), env)
    }

    /// Defaults, without servers.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Lists the gateway's own files and hosts for redaction.
    fn list_places(&self) {
        let manifest = [&self.manifest.cache, &self.manifest.pin];
        let files = [&self.path, &self.audit.path, &self.scripts.path, &self.skills].into_iter().chain(manifest);
        let tls = self.http.tls.iter().flat_map(|tls| [&tls.cert, &tls.key]);
        files.flatten().chain(tls).for_each(|path| redact::list_path(path));
        let hooks = self.hooks.values().map(|hook| &hook.transport);
        for transport in self.servers.values().map(|server| &server.transport).chain(hooks) {
            let (urls, file) = match transport {
                Transport::Stdio { .. } => (Vec::new(), None),
                Transport::Http { url, .. } => (vec![url], None),
                Transport::OpenApi { document: DocumentPlace::Url(url), base_url, .. } => {
                    (std::iter::once(url).chain(base_url).collect(), None)
                }
                Transport::OpenApi { document: DocumentPlace::File(path), base_url, .. } => {
                    (base_url.iter().collect(), Some(path))
                }
            };
            file.into_iter().for_each(|path| redact::list_path(path));
            for url in urls.into_iter().filter_map(|url| url::Url::parse(url).ok()) {
                url.host_str().into_iter().for_each(redact::list_host);
            }
        }
    }

    fn resolve(text: &str, path: &Path, base: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        let left_out = secret::left_out();
        let document = Document::parse(path, text)?;
        let mut raw: Raw = document.read()?;
        let env_files = env_files::read(&Key::root(&document, env, base).key("env_files"), raw.env_files)?;
        let env = |name: &str| env(name).or_else(|| env_files.get(name));
        let root = Key::root(&document, &env, base);
        let key = |name| root.key(name);
        let sealing = state::sealing(&key("state"), &mut raw.state)?;
        let identity = root.given("identity", raw.identity, identity::identity)?;
        let identity = identity.map(|mut identity| {
            identity.oauth.sealing.clone_from(&sealing);
            Arc::new(identity)
        });
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut servers: BTreeMap<String, Server> = BTreeMap::new();
        for (name, raw) in raw.servers {
            let key = key("servers").key(&name);
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name.clone()) {
                return Err(key.at_key(format!("differs from `{other}` only in case")));
            }
            let mut server = server::server(key, raw)?;
            if let Some(oauth) = &mut server.auth {
                Identity::attach(identity.as_ref(), &root.key("servers").key(&name), oauth)?;
                oauth.sealing.clone_from(&sealing);
            }
            servers.insert(name, server);
        }
        let journal = journal::journal(&key("journal"), raw.journal)?;
        let answer_findings = raw.redaction.findings.unwrap_or(false);
        let (redaction, placeholders) = redaction(&key("redaction"), raw.redaction)?;
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        let policy = policy::policy(&root, &names, raw.groups, raw.flows)?;
        let hooks = key("hooks").entries(raw.hooks, |key, raw| hooks::hook(key, raw, &names))?;
        let known = policy::Known { servers: &names, groups: &policy.groups };
        let profiles = key("profiles").entries(raw.profiles, |key, raw| profiles::profile(key, raw, known))?;
        let clients = clients::clients(&key("clients"), raw.clients, &profiles)?;
        let http = http::http(&key("http"), raw.http, &profiles)?;
        let config = Self {
            sandbox: sandbox::sandbox(&key("sandbox"), raw.sandbox)?,
            memory: sandbox::memory(&key("memory"), raw.memory)?,
            manifest: manifest::manifest(&key("manifest"), raw.manifest)?,
            skills: skills(&root, raw.skills, &servers)?,
            search: Search {
                meaning: raw.search.meaning.unwrap_or(true),
                learned: key("search").state_folder().filter(|_| raw.search.learn.unwrap_or(true)),
            },
            audit: audit::audit(&key("audit"), raw.audit)?,
            approvals: approvals::approvals(&key("approvals"), raw.approvals, &journal)?,
            journal,
            hooks,
            state: state::store(&key("state"), raw.state)?,
            redaction,
            placeholders,
            answer_findings,
            console: key("console").entries(raw.console, console::console)?,
            budgets: spending::budgets(&key("budgets"), raw.budgets)?,
            metrics: telemetry::metrics(&key("metrics"), raw.metrics)?,
            telemetry: telemetry::telemetry(&key("telemetry"), raw.telemetry)?,
            scripts: scripts::scripts(&key("scripts"), raw.scripts)?,
            needs_token: clients.values().any(Client::has_credentials) || http.oauth.is_some(),
            http,
            profiles,
            clients,
            references: References::of(text, path, base, &env).with(&env_files),
            env_files: env_files.paths.clone(),
            daemon: daemon::daemon(&key("daemon"), raw.daemon)?,
            policy,
            servers,
            path: Some(path.to_owned()),
        };
        state::check(&key("state"), &config)?;
        auth::check(&key("servers"), &config)?;
        config.list_places();
        if secret::left_out() > left_out {
            return Err(too_much_to_redact(path));
        }
        Ok(config)
    }
}

/// A configuration with more values than redaction can hold must not come into force.
fn too_much_to_redact(path: &Path) -> ConfigError {
    let (values, bytes, places) = (limits::SECRETS.max, limits::SECRET_BYTES.max, limits::PLACES.max);
    let message = format!(
        "with all versions that were read since the start it has more to redact than {values} values of {bytes} bytes \
         together, or than {places} paths and hosts"
    );
    ConfigError::of_file(path, "", message)
        .with_hint("configure fewer credentials and servers, or restart, which forgets those of earlier versions")
}

words!(Results: "off" = Off, "secrets" = Secrets, "secrets+pii" = SecretsAndPii);

/// The `[skills]` table.
fn skills(root: &Key<'_>, raw: RawSkills, servers: &BTreeMap<String, Server>) -> Result<Option<PathBuf>, ConfigError> {
    let Some(path) = raw.path else { return Ok(None) };
    if let Some(server) = servers.keys().find(|name| name.eq_ignore_ascii_case("skills")) {
        let error = root.key("servers").key(server).at_key("the folder of skills takes the name of this server");
        return Err(error.with_hint("rename the server, or remove `skills.path`"));
    }
    root.key("skills").key("path").path(path).map(Some)
}

/// Redaction of results, and whether placeholders are on.
fn redaction(key: &Key<'_>, raw: RawRedaction) -> Result<(Results, bool), ConfigError> {
    let results = key.key("results").word(raw.results)?.unwrap_or_default();
    let placeholders = raw.placeholders.unwrap_or(false);
    if placeholders && results == Results::Off {
        let error = key.key("placeholders").at_value("there are none where nothing is taken out");
        return Err(error.with_hint("set `results` to \"secrets\" or \"secrets+pii\""));
    }
    Ok((results, placeholders))
}

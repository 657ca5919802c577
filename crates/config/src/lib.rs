//! Configuration: `forge.toml` → raw serde types → [`Config`], with enums, `Duration`s and checked ranges.
//!
//! Resolved once, here. Nothing outside this folder reads the environment for configuration, compares a mode as a
//! string or applies a default.
//!
//! `raw` has every key as it is written, and a file per table resolves it. `diff` finds edits that widen rights, `edit`
//! writes servers and clients into a file, `unmatched` finds rules that match nothing, `profiles` what clients may see,
//! `schema` and `reference` describe all keys. `secrets` reads the values that the configuration only names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wire::LayerName;

use base::limits;
use base::principal::LOCAL;
use redact::Results;
use redact::secret;

mod approvals;
mod auth;
mod confinement;
mod console;
mod credential;
mod daemon;
mod diff;
mod document;
mod edit;
mod env_files;
mod error;
mod expand;
mod exposure;
mod file;
mod http;
mod journal;
mod key;
mod oauth;
mod openapi;
mod overrides;
mod patterns;
mod policy;
mod profiles;
mod raw;
mod reference;
mod references;
mod sandbox;
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
pub use base::memory::Memory;
pub use console::ConsoleToken;
pub use credential::{Credential, Place, Source};
pub use daemon::Daemon;
pub use diff::Widened;
use document::Document;
pub use document::position;
pub use edit::{Edit, InGroup, NewServer};
pub use env_files::{variable_line, variables_in};
pub use error::{ConfigError, Position};
pub use exposure::exposures;
pub use file::check_text;
pub use http::{Client, Http, Tls};
pub use http::{LISTEN_FORM, is_client_name, is_of_token, parse_listen, token_digest};
pub use journal::Journal;
use key::Key;
pub use oauth::{ClaimRow, Claims, ResourceServer};
pub use overrides::Override;
pub use patterns::{Matcher, Patterns, PerTool};
pub use policy::{Approval, Flow, FlowAction, Group, Isolation, Party, Policy, Relay, Relays};
pub use profiles::{DEFAULT_PROFILE, Expose, Profile, View};
use raw::{Raw, RawRedaction, RawSkills};
pub use reference::reference;
pub use references::{Environment, References};
pub use schema::ADDRESS as SCHEMA_ADDRESS;
pub use schema::schema;
pub use scripts::{Returns, SCRIPTS_LOCK, SCRIPTS_SERVER, ScriptApproval, ScriptRule, Scripts};
pub use share::keeps_session;
pub use share::{Scope, Share};
pub use spending::{Amount, Budgets, Rate, ToolRule};
pub use state::Store;
pub use telemetry::{Metrics, Telemetry};
pub use units::show_size;
pub use unmatched::{ListedNames, MEND, Unmatched, of_server as unmatched_of};
use words::words;

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
    /// Audit log.
    pub audit: Audit,
    /// Journals of runs.
    pub journal: Journal,
    /// Approvals that wait.
    pub approvals: Approvals,
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
#[must_use]
pub fn state_folder(env: Env<'_>) -> Option<PathBuf> {
    key::own_folder(env, "XDG_STATE_HOME", ".local/state")
}

/// Environment of this process, for production. A value that is not Unicode counts as unset.
#[must_use]
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
    /// Reads and resolves a file.
    ///
    /// # Errors
    /// The first error in it.
    pub fn load(path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        let text = file::read(path)?;
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // Absolute, so that a server's working directory and program do not depend on the gateway's directory later.
        let base = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self::resolve(&text, path, &base, env)
    }

    /// Resolves the text of a file. Relative paths in it are resolved against the folder of `path`, which is not read.
    ///
    /// # Errors
    /// The first error in it.
    pub fn parse(text: &str, path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        Self::resolve(text, path, path.parent().unwrap_or(Path::new("")), env)
    }

    /// Finds the file to load: `--config`, else `$FORGEFS_CONFIG`, else `forge.toml` in `cwd`, else
    /// `$XDG_CONFIG_HOME/forgefs/forge.toml` (`~/.config` by default). `None` if there is none. An empty `cwd` means
    /// the process's own directory, and gives the short name that reads best in errors.
    ///
    /// # Errors
    /// A file given explicitly does not exist.
    pub fn find(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> Result<Option<PathBuf>, ConfigError> {
        file::find(explicit, env, cwd)
    }

    /// Finds the file to write to: like [`Config::find`], but it need not exist. Without one it is that of the user,
    /// which is found from every folder.
    #[must_use]
    pub fn place(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> PathBuf {
        file::place(explicit, env, cwd)
    }

    /// Defaults, without servers.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// This configuration without the clients and people that `next` lacks or gives another token, and without the access
    /// tokens that it no longer takes; `None` if there are none. It may come into force before the rest of `next` is confirmed.
    #[must_use]
    pub fn revoked(&self, next: &Self) -> Option<Self> {
        let stays = |(name, client): &(&String, &Client)| {
            next.clients.get(*name).map_or_else(|| *name == LOCAL, |next| next.is_known_as(client))
        };
        let clients: BTreeMap<_, _> =
            self.clients.iter().filter(stays).map(|(name, client)| (name.clone(), client.clone())).collect();
        let oauth = oauth::remaining(self.http.oauth.as_ref(), next.http.oauth.as_ref());
        let mut console = self.console.clone();
        console.retain(|name, person| next.console.get(name).is_some_and(|next| next.token == person.token));
        let people = (console.len(), clients.len());
        let is_less = people != (self.console.len(), self.clients.len()) || oauth != self.http.oauth;
        is_less.then(|| Self { clients, console, http: Http { oauth, ..self.http.clone() }, ..self.clone() })
    }

    /// This configuration without the clients whose token was taken back; `None` if there are none. `revoked` has the hex of
    /// the tokens' SHA-256.
    #[must_use]
    pub fn without_tokens(&self, revoked: &HashSet<String>) -> Option<Self> {
        let stays = |client: &Client| client.token_sha256().is_none_or(|token| !revoked.contains(&token));
        let is_less = !revoked.is_empty() && !self.clients.values().all(stays);
        is_less.then(|| {
            let mut less = self.clone();
            less.clients.retain(|_, client| stays(client));
            less
        })
    }

    /// Names of the clients with credentials.
    pub fn remote_clients(&self) -> impl Iterator<Item = &String> {
        self.clients.iter().filter(|(_, client)| client.has_credentials()).map(|(name, _)| name)
    }

    /// Profile of a client: the one that it names, else that of its credentials, else that of all. `None` if it has none.
    #[must_use]
    pub fn profile_of<'a>(&'a self, client: &str, by_credentials: Option<&'a str>) -> Option<&'a str> {
        let named = self.clients.get(client).and_then(|client| client.profile.as_deref());
        let default = || self.profiles.contains_key(DEFAULT_PROFILE).then_some(DEFAULT_PROFILE);
        named.or(by_credentials).or_else(default)
    }

    /// Form in which a client's tools may be shown.
    #[must_use]
    pub fn exposed(&self, client: &str, by_credentials: Option<&str>) -> Expose {
        let own = self.clients.get(client).and_then(|client| client.expose);
        let profile = || self.profiles.get(self.profile_of(client, by_credentials)?);
        own.or_else(|| profile().map(|profile| profile.expose)).unwrap_or_default()
    }

    /// True if several clients may use the endpoint: any number may, with access tokens that a row lets in.
    #[must_use]
    pub fn has_several_clients(&self) -> bool {
        let has_rows = self.http.oauth.as_ref().is_some_and(|oauth| !oauth.map.is_empty());
        has_rows || self.remote_clients().count() > 1
    }

    /// True if `name` is the same client in both: known by the same credentials, which the same issuer confirms.
    #[must_use]
    pub fn is_same_client(&self, next: &Self, name: &str) -> bool {
        let known = |config: &Self| config.clients.get(name).filter(|client| client.has_credentials()).cloned();
        let (client, successor) = (known(self), known(next));
        let is_by_claims = is_of_token(name) || client.as_ref().is_some_and(|client| !client.claims().is_empty());
        let is_known = match (client, successor) {
            (Some(client), Some(successor)) => client.is_known_as(&successor),
            (client, successor) => client.is_none() && successor.is_none(),
        };
        is_known && (!is_by_claims || self.http.oauth == next.http.oauth)
    }

    /// Lists the gateway's own files and hosts for redaction.
    fn list_places(&self) {
        let manifest = [&self.manifest.cache, &self.manifest.pin];
        let files = [&self.path, &self.audit.path, &self.scripts.path, &self.skills].into_iter().chain(manifest);
        let tls = self.http.tls.iter().flat_map(|tls| [&tls.cert, &tls.key]);
        files.flatten().chain(tls).for_each(|path| redact::list_path(path));
        for server in self.servers.values() {
            let (urls, file) = match &server.transport {
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
        let raw: Raw = document.read()?;
        let env_files = env_files::read(&Key::root(&document, env, base).key("env_files"), raw.env_files)?;
        let env = |name: &str| env(name).or_else(|| env_files.get(name));
        let root = Key::root(&document, &env, base);
        let key = |name| root.key(name);
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut servers: BTreeMap<String, Server> = BTreeMap::new();
        for (name, raw) in raw.servers {
            let key = key("servers").key(&name);
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name.clone()) {
                return Err(key.at_key(format!("differs from `{other}` only in case")));
            }
            servers.insert(name, server::server(key, raw)?);
        }
        let sandbox = sandbox::sandbox(&key("sandbox"), raw.sandbox)?;
        let memory = sandbox::memory(&key("memory"), raw.memory)?;
        let manifest = sandbox::manifest(&key("manifest"), raw.manifest)?;
        let skills = skills(&root, raw.skills, &servers)?;
        let audit = sandbox::audit(&key("audit"), raw.audit)?;
        let journal = journal::journal(&key("journal"), raw.journal)?;
        let approvals = approvals::approvals(&key("approvals"), raw.approvals, &journal)?;
        let state = state::store(&key("state"), raw.state)?;
        let answer_findings = raw.redaction.findings.unwrap_or(false);
        let (redaction, placeholders) = redaction(&key("redaction"), raw.redaction)?;
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        let policy = policy::policy(&root, &names, raw.groups, raw.flows)?;
        let known = profiles::Known { servers: &servers, groups: &policy.groups };
        let profile = |key: &Key<'_>, raw| profiles::profile(key, raw, &known);
        let profiles = key("profiles").entries(raw.profiles, profile)?;
        let clients = http::clients(&key("clients"), raw.clients, &profiles)?;
        let http = http::http(&key("http"), raw.http, &profiles)?;
        let config = Self {
            sandbox,
            memory,
            manifest,
            skills,
            audit,
            journal,
            approvals,
            state,
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
    let error = ConfigError { file: path.to_owned(), position: None, key: String::new(), message, hint: None };
    error.with_hint("configure fewer credentials and servers, or restart, which forgets those of earlier versions")
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

/// One `[servers.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Transport.
    pub transport: Transport,
    /// One line for `ls /`, in place of the server's own description.
    pub description: Option<String>,
    /// False disables the entry. Its texts stay as written, references such as `${VAR}` included, and the values of
    /// `env` and `headers` are dropped: nothing may be started from it.
    pub enabled: bool,
    /// Timeout of a call since it began, or since the server last reported progress.
    pub timeout: Duration,
    /// Total timeout of a call; at least `timeout`.
    pub max_timeout: Duration,
    /// Timeout of start, handshake and tool list.
    pub connect_timeout: Duration,
    /// False starts or reaches it once only: what fails or ends stays so.
    pub reconnect: bool,
    /// Longest delay between attempts to connect for calls; the background waits up to four times as long.
    pub max_reconnect_backoff: Duration,
    /// Circuit breaker.
    pub breaker: Breaker,
    /// Category → its tools; empty derives categories from the names.
    pub categories: BTreeMap<String, Patterns>,
    /// Tools that agents may see and call.
    pub access: Access,
    /// Files that listings and search hits point at.
    pub binding: Binding,
    /// Time of the start.
    pub start: Start,
    /// Idle time after which it is stopped; the next call starts it again. `None` keeps it running.
    pub idle_stop: Option<Duration>,
    /// Clients that share one instance of it.
    pub share: Share,
    /// Authentication.
    pub auth: Auth,
    /// Rate limit.
    pub rate: Option<Rate>,
    /// Price of a call, unless a rule of its tool sets one.
    pub cost: Amount,
    /// Approval of calls of its tools and of reads of its resources and prompts.
    pub approval: Approval,
    /// Its questions that reach the client.
    pub relays: Relays,
    /// Rules for some of its tools.
    pub tools: Vec<ToolRule>,
    /// How tools are shown and called in place of its own definitions, by its name.
    pub overrides: BTreeMap<String, Override>,
    /// True if a rule of this entry that matches nothing holds no tools.
    pub allow_unmatched: bool,
    /// Rights of its process; `None` does not confine it.
    pub sandbox: Option<Confinement>,
}

/// Rights of a server's process besides running its program: the `sandbox` of its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// Files and folders that it may read.
    pub read: BTreeSet<PathBuf>,
    /// Files and folders that it may read and change.
    pub write: BTreeSet<PathBuf>,
    /// As `write`, as far as they exist: paths that its `cwd` and arguments name, by the preset `files`.
    pub named: BTreeSet<PathBuf>,
    /// True if it may use the network.
    pub network: bool,
    /// Most bytes of memory.
    pub memory: Option<u64>,
    /// Most processes and threads.
    pub processes: Option<u32>,
    /// Layers without which it does not start.
    pub require: BTreeSet<confine::server::LayerName>,
}

impl Server {
    /// Its credentials.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let (given, more) = match &self.transport {
            Transport::Stdio { env, .. } => (env, None),
            Transport::Http { headers, .. } => (headers, None),
            Transport::OpenApi { headers, query, .. } => (headers, Some(query)),
        };
        let oauth = match &self.auth {
            Auth::Login(oauth) | Auth::ClientCredentials(oauth) => oauth.client_secret.as_ref(),
            Auth::None => None,
        };
        given.values().chain(more.into_iter().flat_map(BTreeMap::values)).chain(oauth)
    }

    /// True if some of its credentials are kept outside of the configuration.
    #[must_use]
    pub fn has_kept_secrets(&self) -> bool {
        self.credentials().any(|credential| credential.source().is_some())
    }
}

/// Circuit breaker of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Consecutive faults that open it.
    pub faults: u32,
    /// First duration of the open state; each failed probe doubles it, up to two minutes.
    pub pause: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { faults: 5, pause: Duration::from_secs(5) }
    }
}

/// Transport of a server.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// A child process with MCP on stdin and stdout.
    Stdio {
        /// Program; looked up in `PATH` unless it contains a path separator: then it is relative to the configuration
        /// file.
        command: String,
        /// Arguments, verbatim: no shell and no `~`.
        args: Vec<String>,
        /// Variables beside the short allow-list that a child inherits.
        env: BTreeMap<String, Credential>,
        /// Working directory; relative ones were resolved against the configuration file.
        cwd: Option<PathBuf>,
    },
    /// A server that listens on HTTP.
    Http {
        /// Which of the two transports over HTTP.
        kind: HttpKind,
        /// A valid `http` or `https` URL with a host and without user name or password.
        url: String,
        /// Extra headers. Names are valid, lower-case and not among those of the transport; none is a credential if the
        /// URL is plain HTTP to another machine.
        headers: BTreeMap<String, Credential>,
    },
    /// An API on HTTP that an OpenAPI document describes.
    OpenApi {
        /// The document.
        document: DocumentPlace,
        /// Address of its operations, as the URL of [`Transport::Http`] and without a query; `None` leaves it to the
        /// document.
        base_url: Option<String>,
        /// Extra headers, as in [`Transport::Http`].
        headers: BTreeMap<String, Credential>,
        /// Extra parameters of the query, by name.
        query: BTreeMap<String, Credential>,
    },
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentPlace {
    /// A file; relative ones were resolved against the configuration file.
    File(PathBuf),
    /// A valid `http` or `https` URL.
    Url(String),
}

/// A transport over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, or HTTP+SSE where the server turns out to speak that.
    Streamable,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl fmt::Debug for Transport {
    /// Arguments and URLs may hold a token from the environment: redacted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => {
                let args: Vec<_> = args.iter().map(|arg| secret::redact(arg)).collect();
                let command = secret::redact(command);
                f.debug_struct("Stdio")
                    .field("command", &command)
                    .field("args", &args)
                    .field("env", env)
                    .field("cwd", cwd)
                    .finish()
            }
            Self::Http { kind, url, headers } => f
                .debug_struct("Http")
                .field("kind", kind)
                .field("url", &secret::redact(url))
                .field("headers", headers)
                .finish(),
            Self::OpenApi { document, base_url, headers, query } => f
                .debug_struct("OpenApi")
                .field("document", &secret::redact(&format!("{document:?}")))
                .field("base_url", &base_url.as_deref().map(secret::redact))
                .field("headers", headers)
                .field("query", query)
                .finish(),
        }
    }
}

/// Authentication to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Auth {
    /// None: the server needs none, or the credentials are in `headers` or `env`.
    None,
    /// Login by a person with `forgefs auth login`, if the server asks for it.
    Login(Box<OAuth>),
    /// Client credentials of this program.
    ClientCredentials(Box<OAuth>),
}

/// Settings of a login beyond the server's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuth {
    /// Scopes to request; empty leaves them to the server.
    pub scopes: Vec<String>,
    /// Client id, or the https address of a client metadata document. Without one, a client is registered.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Credential>,
    /// Port of this machine for the redirect; any free one by default.
    pub redirect_port: Option<u16>,
    /// True if the authorization server may be on a private network.
    pub private_network: bool,
    /// Issuer of logins, whatever the server names.
    pub issuer: Option<String>,
    /// Token endpoint for client credentials, in place of discovery.
    pub token_url: Option<String>,
    /// Folder of stored logins.
    pub store: Option<PathBuf>,
}

/// Files that listings and search hits of a server point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// One stub file per tool.
    Tool,
    /// The whole server in one `__init__.pyi`.
    Server,
    /// Chosen by the size of the server.
    #[default]
    Auto,
}

/// Tools of a server that agents may see and call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Only these; `None` means all.
    pub allow: Option<Patterns>,
    /// Never these, whatever `allow` says.
    pub deny: Patterns,
}

/// Start of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the gateway.
    #[default]
    Eager,
    /// At the first call, if its last listing is cached; else at once, to be listed.
    Lazy,
}

/// The `[sandbox]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// Warm worker processes, 1 to 8 and at most [`Limits::runs`].
    pub workers: usize,
    /// Wear at which a worker is replaced.
    pub wear: RecyclePolicy,
    /// Sandbox layers without which no script runs.
    pub require: Vec<LayerName>,
    /// Limits of one run.
    pub limits: Limits,
}

/// Wear of a worker at which it is replaced, before its next script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecyclePolicy {
    /// Scripts that it has run.
    pub scripts: u64,
    /// Age.
    pub age: Duration,
    /// Memory kept between scripts beyond what it had when it was new, in bytes.
    pub growth: u64,
}

impl Default for RecyclePolicy {
    fn default() -> Self {
        Self { scripts: 500, age: Duration::from_secs(30 * 60), growth: 128 << 20 }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { workers: 2, wear: RecyclePolicy::default(), require: Vec::new(), limits: Limits::default() }
    }
}

/// The `[sandbox.limits]` table. No value means "unlimited".
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// CPU time of the script itself.
    pub cpu: Duration,
    /// Wall clock of a run, including tool time.
    pub wall: Duration,
    /// Wall clock of a run in the background.
    pub background_wall: Duration,
    /// Heap of the engine, buffers included.
    pub heap_bytes: u64,
    /// Length of a script.
    pub code_bytes: usize,
    /// Captured output of a run.
    pub output_bytes: usize,
    /// Tool calls of a run.
    pub calls: u32,
    /// Concurrent tool calls of a run.
    pub concurrency: usize,
    /// Arguments of one call, as JSON.
    pub args_bytes: usize,
    /// Text of one tool's answer.
    pub answer_bytes: usize,
    /// Binary content of one tool's answer.
    pub binary_bytes: usize,
    /// Concurrent runs.
    pub runs: usize,
    /// Runs in the queue; zero refuses at once.
    pub queue: usize,
    /// Tokens of an `execute` answer; a larger value is stored under `/results/`.
    pub result_tokens: usize,
    /// Entries of a session's stash.
    pub stash_entries: usize,
    /// Keys and values of a session's stash.
    pub stash_bytes: usize,
    /// A value of the stash, as JSON.
    pub stash_value_bytes: usize,
}

impl Limits {
    /// Limits of a run that are lower than the defaults, in words for a script's author; `None` if none is.
    #[must_use]
    pub fn lowered(&self) -> Option<String> {
        let usual = Self::default();
        let time = |limit: Duration| humantime::format_duration(limit).to_string();
        let size =
            |bytes: u64| if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) };
        let told = [
            (self.calls < usual.calls).then(|| format!("{} calls", self.calls)),
            (self.wall < usual.wall).then(|| time(self.wall)),
            (self.cpu < usual.cpu).then(|| format!("{} of CPU", time(self.cpu))),
            (self.heap_bytes < usual.heap_bytes).then(|| format!("{} of memory", size(self.heap_bytes))),
            (self.args_bytes < usual.args_bytes)
                .then(|| format!("{} of arguments a call", size(self.args_bytes as u64))),
            (self.output_bytes < usual.output_bytes).then(|| format!("{} of output", size(self.output_bytes as u64))),
            (self.code_bytes < usual.code_bytes).then(|| format!("{} of code", size(self.code_bytes as u64))),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        (!told.is_empty()).then(|| format!("Limits of a script here: {}.", told.join(", ")))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(5),
            wall: Duration::from_secs(120),
            background_wall: Duration::from_secs(3_600),
            heap_bytes: 64 << 20,
            code_bytes: 64 << 10,
            output_bytes: 256 << 10,
            calls: 1_000,
            concurrency: 8,
            args_bytes: 1 << 20,
            answer_bytes: 10 << 20,
            binary_bytes: 1 << 20,
            runs: 8,
            queue: 64,
            result_tokens: 4_000,
            stash_entries: 1_000,
            stash_bytes: 16 << 20,
            stash_value_bytes: 4 << 20,
        }
    }
}

/// The `[audit]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// Destination of records.
    pub to: AuditTo,
    /// The file, if records go to one.
    pub path: Option<PathBuf>,
    /// Bytes of the file before it is rotated.
    pub max_bytes: usize,
    /// Rotated files that are kept.
    pub keep: u32,
    /// True if each record is on disk before the answer is sent.
    pub fsync: bool,
    /// Calls that are refused when they cannot be put on record before they are sent.
    pub required: Required,
}

/// Calls that need a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Required {
    /// None.
    Nothing,
    /// Those that may write, in the audit log or in the journal of their run.
    Writes,
    /// All, in the audit log.
    Calls,
}

/// Destination of audit records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditTo {
    /// A file.
    File,
    /// The log on standard error, target `forgefs::audit`.
    Stderr,
    /// Nowhere.
    Off,
}

impl Default for Audit {
    fn default() -> Self {
        Self { to: AuditTo::Stderr, path: None, max_bytes: 64 << 20, keep: 5, fsync: false, required: Required::Writes }
    }
}

/// Folder for what can be fetched again; `None` without a home folder.
#[must_use]
pub fn cache_folder(env: Env<'_>) -> Option<PathBuf> {
    key::own_folder(env, "XDG_CACHE_HOME", ".cache")
}

/// The `[manifest]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Interval of tool list refreshes; `None` relies on the servers' notifications.
    pub refresh: Option<Duration>,
    /// Folder of reviewed stubs, the allow-list; resolved against the configuration file.
    pub pin: Option<PathBuf>,
    /// True if what a server lists first is the allow-list.
    pub pin_first_use: bool,
    /// True if a changed wording passes a pin, unless it adds a finding.
    pub accepts_text: bool,
    /// Folder of the gateway's state; `None` without a home folder.
    pub state_folder: Option<PathBuf>,
    /// Folder of cached tool lists; `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Servers that are started or listed at once; calls start theirs beside them.
    pub startup_concurrency: usize,
    /// True if the shapes of answers are learned, for stubs of tools that declare none.
    pub observe: bool,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            refresh: None,
            pin: None,
            pin_first_use: false,
            accepts_text: false,
            state_folder: None,
            cache: None,
            startup_concurrency: 16,
            observe: true,
        }
    }
}

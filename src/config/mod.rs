//! Configuration: `forge.toml` → raw serde types → [`Config`], with enums, `Duration`s and checked ranges.
//!
//! Everything is decided here once. Nothing outside this folder reads the environment for configuration, compares a
//! mode as a string or applies a default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits;
use crate::redact::secret::{self, Secret};
use crate::redact::{self, Results};

mod auth;
mod diff;
mod document;
mod error;
mod expand;
mod exposure;
mod file;
mod patterns;
mod policy;
mod raw;
mod sandbox;
mod sensitive;
mod server;
mod spending;
mod suggest;
mod telemetry;
mod transport;
mod units;
mod values;

pub(crate) use auth::is_private;
pub use diff::Widened;
pub(crate) use document::position;
use document::{Document, KeyPath};
pub use error::{ConfigError, Position};
pub use exposure::exposures;
pub(crate) use file::read as read_text;
pub use patterns::{Matcher, Patterns, PerTool};
pub use policy::{Approval, Flow, FlowAction, Group, Isolation, Party, Policy, Relay, Relays};
use raw::{Raw, RawRedaction};
pub(crate) use sensitive::sounds_secret;
pub use spending::{Amount, Budgets, Rate, ToolRule};
pub use telemetry::{Metrics, Telemetry};
pub(crate) use transport::is_loopback;
use values::Values;

/// The whole configuration of one gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The downstream MCP servers by name, disabled ones included.
    pub servers: BTreeMap<String, Server>,
    /// How scripts run.
    pub sandbox: Sandbox,
    /// What the gateway itself may keep in memory.
    pub memory: Memory,
    /// How tool lists are kept.
    pub manifest: Manifest,
    /// Where records of what ran go.
    pub audit: Audit,
    /// What is taken out of results, beside the values of this configuration.
    pub redaction: Results,
    /// Whether what is taken out of results has names that are put back into arguments of calls.
    pub placeholders: bool,
    /// What may be spent.
    pub budgets: Budgets,
    /// Where metrics can be fetched, if anywhere.
    pub metrics: Option<Metrics>,
    /// Where spans are posted, if anywhere.
    pub telemetry: Option<Telemetry>,
    /// Which servers are kept apart, and where their data may go.
    pub policy: Policy,
    /// The file this came from; `None` for [`Config::empty`].
    pub path: Option<PathBuf>,
}

/// Looks up one environment variable. Passed in, so that tests need not change the process.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The folder of what gateways keep between their starts; `None` for a user without a home.
#[must_use]
pub fn state_folder(env: Env<'_>) -> Option<PathBuf> {
    values::own_folder(env, "XDG_STATE_HOME", ".local/state")
}

/// The environment of this process, for production. A value that is not Unicode counts as unset.
#[must_use]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Config {
    /// Reads and resolves a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        let text = file::read(path)?;
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // Absolute, so that a server's working directory and program do not depend on ours at the time of its start.
        let base = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self::resolve(&text, path, &base, env)
    }

    /// Resolves the text of a file. Relative paths in it are resolved against the folder of `path`, which is not read.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &str, path: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        Self::resolve(text, path, path.parent().unwrap_or(Path::new("")), env)
    }

    /// Which file to load: `--config`, else `$FORGEFS_CONFIG`, else `forge.toml` in `cwd`, else
    /// `$XDG_CONFIG_HOME/forgefs/forge.toml` (`~/.config` where that is not set). `None` if there is none of them.
    /// An empty `cwd` stands for the process's own directory and gives the short name that reads best in errors.
    ///
    /// # Errors
    /// A file that was asked for by name does not exist.
    pub fn find(explicit: Option<&Path>, env: Env<'_>, cwd: &Path) -> Result<Option<PathBuf>, ConfigError> {
        file::find(explicit, env, cwd)
    }

    /// Defaults, and no servers.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            servers: BTreeMap::new(),
            sandbox: Sandbox::default(),
            memory: Memory::default(),
            manifest: Manifest::default(),
            audit: Audit::default(),
            redaction: Results::default(),
            placeholders: false,
            budgets: Budgets::default(),
            metrics: None,
            telemetry: None,
            policy: Policy::default(),
            path: None,
        }
    }

    /// Has the files and hosts that are the gateway's own business kept out of what agents read.
    fn list_places(&self) {
        let files = [&self.path, &self.manifest.cache, &self.manifest.pin, &self.audit.path];
        files.into_iter().flatten().for_each(|path| redact::list_path(path));
        for server in self.servers.values() {
            if let Transport::Http { url, .. } = &server.transport
                && let Ok(url) = url::Url::parse(url)
                && let Some(host) = url.host_str()
            {
                redact::list_host(host);
            }
        }
    }

    fn resolve(text: &str, path: &Path, base: &Path, env: Env<'_>) -> Result<Self, ConfigError> {
        let left_out = secret::left_out();
        let document = Document::parse(path, text)?;
        let raw: Raw = document.read()?;
        let values = Values { document: &document, env: Some(env), base };
        let mut servers: BTreeMap<String, Server> = BTreeMap::new();
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (name, raw) in raw.servers {
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name.clone()) {
                let message = format!("differs from `{other}` only in case");
                return Err(document.at_key(&KeyPath::root("servers").key(&name), message));
            }
            let server = server::server(values, &name, raw)?;
            servers.insert(name, server);
        }
        let sandbox = sandbox::sandbox(values, raw.sandbox)?;
        let memory = sandbox::memory(values, raw.memory)?;
        let manifest = sandbox::manifest(values, raw.manifest)?;
        let audit = sandbox::audit(values, raw.audit)?;
        let (redaction, placeholders) = redaction(values, raw.redaction)?;
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        let policy = policy::policy(values, &names, raw.groups, raw.flows)?;
        let config = Self {
            servers,
            sandbox,
            memory,
            manifest,
            audit,
            redaction,
            placeholders,
            budgets: spending::budgets(values, raw.budgets)?,
            metrics: telemetry::metrics(values, raw.metrics)?,
            telemetry: telemetry::telemetry(values, raw.telemetry)?,
            policy,
            path: Some(path.to_owned()),
        };
        config.list_places();
        if secret::left_out() > left_out {
            return Err(too_much_to_redact(path));
        }
        Ok(config)
    }
}

/// What cannot be redacted must not come into force.
fn too_much_to_redact(path: &Path) -> ConfigError {
    let (values, bytes, places) = (limits::SECRETS.max, limits::SECRET_BYTES.max, limits::PLACES.max);
    let message = format!(
        "with all versions that were read since the start it has more to redact than {values} values of {bytes} bytes \
         together, or than {places} paths and hosts"
    );
    let error = ConfigError { file: path.to_owned(), position: None, key: String::new(), message, hint: None };
    error.with_hint("configure fewer credentials and servers, or restart, which forgets those of earlier versions")
}

/// What `redaction.results` may be.
const RESULTS: &[(&str, Results)] =
    &[("off", Results::Off), ("secrets", Results::Secrets), ("secrets+pii", Results::SecretsAndPii)];

/// What is taken out, and whether it gets names.
fn redaction(values: Values<'_>, raw: RawRedaction) -> Result<(Results, bool), ConfigError> {
    let key = KeyPath::root("redaction");
    let results = match raw.results {
        Some(word) => values.word(&key.key("results"), word, RESULTS)?.unwrap_or_default(),
        None => Results::default(),
    };
    let placeholders = raw.placeholders.unwrap_or(false);
    if placeholders && results == Results::Off {
        let error = values.document.at_value(&key.key("placeholders"), "there are none where nothing is taken out");
        return Err(error.with_hint("set `results` to \"secrets\" or \"secrets+pii\""));
    }
    Ok((results, placeholders))
}

/// One `[servers.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// How to reach it.
    pub transport: Transport,
    /// One line for `ls /`, in place of what the server says of itself.
    pub description: Option<String>,
    /// Whether it is used at all. A disabled entry keeps its texts as written, references such as `${VAR}` included,
    /// and drops the values of `env` and `headers`: nothing may be started from it.
    pub enabled: bool,
    /// How long one call may take since it began, or since the server last reported progress.
    pub timeout: Duration,
    /// How long one call may take altogether; at least `timeout`.
    pub max_timeout: Duration,
    /// How long start, handshake and tool list may take.
    pub connect_timeout: Duration,
    /// When it is left alone for a while.
    pub breaker: Breaker,
    /// Category → the tools in it; empty means that categories are derived from the names.
    pub categories: BTreeMap<String, Patterns>,
    /// Which of its tools there are for agents.
    pub access: Access,
    /// What listings and search hits point at.
    pub binding: Binding,
    /// When it is started.
    pub start: Start,
    /// How long nobody may use it before it is stopped; the next call starts it again. `None` keeps it.
    pub idle_stop: Option<Duration>,
    /// How it is logged into.
    pub auth: Auth,
    /// How often it may be called.
    pub rate: Option<Rate>,
    /// What one call costs, unless something else is said of its tool.
    pub cost: Amount,
    /// When the user is asked before one of its tools is called, or its resources and prompts are read.
    pub approval: Approval,
    /// Which of its questions reach the client.
    pub relays: Relays,
    /// What holds for some of its tools only.
    pub tools: Vec<ToolRule>,
}

/// When a server that keeps failing is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Faults in a row after which it is.
    pub faults: u32,
    /// For how long at first; doubled by each probe that fails, up to two minutes.
    pub pause: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { faults: 5, pause: Duration::from_secs(5) }
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Transport {
    /// A child process that speaks on stdin and stdout.
    Stdio {
        /// Program; looked up in `PATH` unless it contains a path separator, in which case it is relative to the
        /// configuration file.
        command: String,
        /// Its arguments, as written: no shell and no `~`.
        args: Vec<String>,
        /// Variables added to the short allow-list that a child inherits.
        env: BTreeMap<String, Secret>,
        /// Working directory; relative ones were resolved against the configuration file.
        cwd: Option<PathBuf>,
    },
    /// A server that listens on HTTP.
    Http {
        /// Which of the two transports over HTTP.
        kind: HttpKind,
        /// A valid `http` or `https` URL with a host and without user name or password.
        url: String,
        /// Extra headers; names are valid, lower-case and not among those that the transport sets itself, and none is
        /// a credential where the URL is plain http to another machine.
        headers: BTreeMap<String, Secret>,
    },
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
    /// Arguments and URLs may hold a token that came from the environment, so they are shown redacted.
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
        }
    }
}

/// How a server is logged into.
#[derive(Debug, Clone, PartialEq)]
pub enum Auth {
    /// Not at all: it wants nothing, or what it wants is in `headers` or `env`.
    None,
    /// By a person, with `forgefs auth login`, if it wants that.
    Login(Box<OAuth>),
    /// By this program, with a secret of its own.
    ClientCredentials(Box<OAuth>),
}

/// What a login needs beyond what servers tell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuth {
    /// Scopes to ask for; empty leaves them to the server.
    pub scopes: Vec<String>,
    /// The client as the authorization server knows it, or the https address of a document that describes it. Without
    /// one, a client is registered.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// Port of this machine that the browser is sent back to; any free one by default.
    pub redirect_port: Option<u16>,
    /// Whether the authorization server may be on a private network.
    pub private_network: bool,
    /// The authorization server that logins are made with, whichever the server names.
    pub issuer: Option<String>,
    /// Folder that logins are kept in.
    pub store: Option<PathBuf>,
}

/// What a listing and a search hit of a server point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// One stub file a tool.
    Tool,
    /// The whole server in one `__init__.pyi`.
    Server,
    /// By the size of the server.
    #[default]
    Auto,
}

/// Which tools of a server there are for agents; the others are nowhere to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// These alone; `None` means all.
    pub allow: Option<Patterns>,
    /// Not these, whatever `allow` says.
    pub deny: Patterns,
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the gateway.
    #[default]
    Eager,
    /// At the first call, if what it listed last time is known; else to be listed.
    Lazy,
}

/// The `[sandbox]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sandbox {
    /// Worker processes kept warm, 1 to 8 and never more than [`Limits::runs`].
    pub workers: usize,
    /// Layers of the process sandbox without which no script runs, as [`LAYERS`] names them.
    pub require: Vec<String>,
    /// What one run may use.
    pub limits: Limits,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { workers: 2, require: Vec::new(), limits: Limits::default() }
    }
}

/// The layers of the process sandbox that `sandbox.require` can name: what a worker can report (`wire::Layer`).
pub const LAYERS: [&str; 7] =
    ["parent_death", "no_new_privs", "dumpable", "landlock", "rlimits", "processes", "seccomp"];

/// The `[sandbox.limits]` table. No value means "unlimited".
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// CPU time of the script itself.
    pub cpu: Duration,
    /// Wall clock of a run, tool time included.
    pub wall: Duration,
    /// Heap of the engine, buffers included.
    pub heap_bytes: u64,
    /// Length of a script.
    pub code_bytes: usize,
    /// Captured output of a run.
    pub output_bytes: usize,
    /// Tool calls of a run.
    pub calls: u32,
    /// Tool calls of a run in flight at once.
    pub concurrency: usize,
    /// Arguments of one call, as JSON.
    pub args_bytes: usize,
    /// Text of one tool's answer.
    pub answer_bytes: usize,
    /// Binary content of one tool's answer.
    pub binary_bytes: usize,
    /// Runs at once.
    pub runs: usize,
    /// Runs that may wait for a free place; zero refuses at once.
    pub queue: usize,
    /// Tokens of an `execute` answer; what is larger is stored under `/results/`.
    pub result_tokens: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(5),
            wall: Duration::from_secs(120),
            heap_bytes: 64 << 20,
            code_bytes: 64 << 10,
            output_bytes: 256 << 10,
            calls: 50,
            concurrency: 8,
            args_bytes: 1 << 20,
            answer_bytes: 10 << 20,
            binary_bytes: 1 << 20,
            runs: 8,
            queue: 64,
            result_tokens: 4_000,
        }
    }
}

/// The `[memory]` table: what the gateway itself may hold, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Values that are made of large answers and results, at once.
    pub answers: usize,
    /// Stored results and the stash of all sessions.
    pub results: usize,
    /// Definitions of all servers, as JSON.
    pub lists: usize,
    /// Definitions of one server.
    pub list: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { answers: 512 << 20, results: 256 << 20, lists: 64 << 20, list: 16 << 20 }
    }
}

/// The `[audit]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// Where records go.
    pub to: AuditTo,
    /// The file, when they go to one.
    pub path: Option<PathBuf>,
    /// Bytes of the file before another one is begun.
    pub max_bytes: usize,
    /// Files that are kept besides the current one.
    pub keep: u32,
    /// Whether each record is on the disk before the answer is given.
    pub fsync: bool,
    /// Whether a call is refused when it cannot be put on record before it is sent: by default, where `path` or
    /// `to = "file"` is configured.
    pub required: bool,
}

/// Where audit records go.
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
        Self { to: AuditTo::Stderr, path: None, max_bytes: 64 << 20, keep: 5, fsync: false, required: false }
    }
}

/// The `[manifest]` table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// How often tool lists are asked for again; `None` leaves it to the servers' own notifications.
    pub refresh: Option<Duration>,
    /// Folder of reviewed stubs that serve as the allow-list; resolved against the configuration file.
    pub pin: Option<PathBuf>,
    /// Folder where tool lists are kept between starts; `None` keeps none.
    pub cache: Option<PathBuf>,
}

//! One `[servers.<name>]` entry.

use std::collections::BTreeMap;
use std::time::Duration;

use super::auth::{Grant, Login, OAuth, auth};
use super::bounds::{Bounds as _, bounds};
use super::clients::is_client_name;
use super::confinement::confinement;
use super::error::ConfigError;
use super::key::Key;
use super::patterns::Patterns;
use super::raw::{RawServer, RawTool};
use super::share::Share;
use super::transport::transport;
use super::units::{DAY, HOUR, MILLI, MINUTE, SECOND};
use super::words::words;
use super::{
    Amount, Approval, Confinement, Credential, Override, Rate, Relays, Tasks, ToolRule, Transport, overrides, spending,
};

/// Variables that a server inherits, and its way out of a network with a proxy or certificates of its own. The rest of the
/// gateway's environment stays with the gateway.
pub const INHERITED: &[&str] = &[
    "ALL_PROXY", "CURL_CA_BUNDLE", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "LANG", "LC_ALL", "LOGNAME",
    "NODE_EXTRA_CA_CERTS", "NO_PROXY", "PATH", "REQUESTS_CA_BUNDLE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP",
    "TERM", "TMP", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
];

/// One `[servers.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Transport.
    pub transport: Transport,
    /// One line for `ls /`, in place of the server's own description.
    pub description: Option<String>,
    /// False disables the entry. Its texts stay as written, references such as `${VAR}` included, and the values of
    /// `env` and `headers` are dropped but for places of secrets: nothing may be started from it.
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
    /// Authentication; `None` if it needs none, or the credentials are in `headers` or `env`.
    pub auth: Option<Box<OAuth>>,
    /// Rate limit.
    pub rate: Option<Rate>,
    /// Price of a call, unless a rule of its tool sets one.
    pub cost: Amount,
    /// Approval of calls of its tools and of reads of its resources and prompts.
    pub approval: Approval,
    /// Its questions that reach the client.
    pub relays: Relays,
    /// Calls that it makes tasks of.
    pub tasks: Tasks,
    /// Rules for some of its tools.
    pub tools: Vec<ToolRule>,
    /// How tools are shown and called in place of its own definitions, by its name.
    pub overrides: BTreeMap<String, Override>,
    /// True if a rule of this entry that matches nothing holds no tools.
    pub allow_unmatched: bool,
    /// Rights of its process; `None` does not confine it.
    pub sandbox: Option<Confinement>,
}

impl Server {
    /// Its credentials.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let oauth = self.auth.as_deref().into_iter().flat_map(OAuth::credentials);
        self.transport.credentials().chain(oauth)
    }

    /// Owner of the login that a call uses.
    pub fn login(&self) -> Login {
        self.auth.as_ref().map_or(Login::Gateway, |oauth| oauth.login)
    }

    /// True if the caller's access token is exchanged for one of the server.
    pub fn exchanges(&self) -> bool {
        self.auth.as_ref().is_some_and(|oauth| oauth.grant == Grant::Exchange)
    }

    /// True if some of its credentials are kept outside of the configuration.
    pub fn has_kept_secrets(&self) -> bool {
        self.credentials().any(|credential| credential.source().is_some())
    }
}

bounds! {
    /// Circuit breaker of a server.
    #[derive(Copy)]
    Breaker from RawBreaker {
        /// Consecutive faults that open it.
        faults as faults: count u32 = 5, 1..=1000;
        /// First duration of the open state; each failed probe doubles it, up to two minutes.
        pause as pause: duration Duration = 5 * SECOND, 100 * MILLI..=2 * MINUTE;
    }
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

/// Names beside the servers in the virtual filesystem, which no server has.
pub const ROOT_NAMES: &[&str] = &["forge.pyi", "forge.d.ts", "results", "runs", "scripts", "proposals"];

/// Names beside the categories of a server.
const SERVER_NAMES: &[&str] = &["README.md", "__init__.pyi", "resources", "prompts", "stderr"];

impl Server {
    /// An enabled server with this transport, and defaults for everything else.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            description: None,
            enabled: true,
            timeout: MINUTE,
            max_timeout: 10 * MINUTE,
            connect_timeout: 30 * SECOND,
            reconnect: true,
            max_reconnect_backoff: 30 * SECOND,
            breaker: Breaker::default(),
            categories: BTreeMap::new(),
            access: Access::default(),
            binding: Binding::default(),
            start: Start::default(),
            idle_stop: None,
            share: Share::default(),
            auth: None,
            rate: None,
            cost: Amount::ONE,
            approval: Approval::default(),
            relays: Relays::default(),
            tasks: Tasks::default(),
            tools: Vec::new(),
            overrides: BTreeMap::new(),
            allow_unmatched: false,
            sandbox: None,
        }
    }
}

/// Checks an entry and resolves its types.
pub(super) fn server(mut key: Key<'_>, mut raw: RawServer) -> Result<Server, ConfigError> {
    check_name(&key, "server", ROOT_NAMES)?;
    let enabled = raw.enabled.unwrap_or(true);
    if !enabled {
        key.env = None;
    }
    let key = &key;
    let usual = Server::new(transport(key, &mut raw)?);
    let duration = |name: &str, raw, least| key.key(name).duration(raw, least..=HOUR);
    let timeout = duration("timeout", raw.timeout, 10 * MILLI)?.unwrap_or(usual.timeout);
    let max_timeout = duration("max_timeout", raw.max_timeout, 10 * MILLI)?;
    let max_timeout = max_timeout.unwrap_or(usual.max_timeout.max(timeout));
    if max_timeout < timeout {
        let error = key.key("max_timeout").at_value("shorter than `timeout`");
        return Err(error.with_hint("it bounds what progress can make of `timeout`"));
    }
    let share = key.key("share").word(raw.share)?;
    let description = key.key("description").expanded(raw.description.unwrap_or_default())?;
    let access = Access {
        allow: key.given("allow", raw.allow, Patterns::parse)?,
        deny: key.given("deny", raw.deny, Patterns::parse)?.unwrap_or_default(),
    };
    let (tools, overrides) = tools(&key.key("tools"), raw.tools)?;
    overrides::check_names(key, &overrides, &access, &tools)?;
    let auth = auth(&key.key("auth"), raw.auth, &usual.transport)?;
    let is_shared = auth.as_ref().is_none_or(|oauth| oauth.login == Login::Gateway);
    if !is_shared && share == Some(Share::All) {
        let error = key.key("share").at_value("would put several people on one connection");
        return Err(error.with_hint("leave it out, or let them share a login: `auth.login = \"gateway\"`"));
    }
    Ok(Server {
        description: Some(description).filter(|text| !text.trim().is_empty()),
        enabled,
        timeout,
        max_timeout,
        connect_timeout: duration("connect_timeout", raw.connect_timeout, 10 * MILLI)?.unwrap_or(usual.connect_timeout),
        reconnect: raw.reconnect.unwrap_or(usual.reconnect),
        max_reconnect_backoff: duration("max_reconnect_backoff", raw.max_reconnect_backoff, 500 * MILLI)?
            .unwrap_or(usual.max_reconnect_backoff),
        breaker: Breaker::read(&key.key("breaker"), raw.breaker)?,
        categories: key.key("categories").entries(raw.categories, category)?,
        access,
        binding: key.key("binding").word(raw.binding)?.unwrap_or_default(),
        start: key.key("start").word(raw.start)?.unwrap_or_default(),
        idle_stop: key.key("idle_stop").duration(raw.idle_stop, SECOND..=DAY)?,
        share: share.unwrap_or_else(|| Share::of(&usual.transport)),
        auth,
        rate: spending::rate(key, raw.rate)?,
        cost: spending::cost(key, raw.cost)?.unwrap_or(usual.cost),
        approval: key.key("approval").word(raw.approval)?.unwrap_or_default(),
        relays: Relays {
            elicitation: key.key("elicitation").word(raw.elicitation)?.unwrap_or_default(),
            sampling: key.key("sampling").word(raw.sampling)?.unwrap_or_default(),
        },
        tasks: key.key("tasks").word(raw.tasks)?.unwrap_or_default(),
        tools,
        overrides,
        allow_unmatched: raw.allow_unmatched.unwrap_or(usual.allow_unmatched),
        sandbox: confinement(&key.key("sandbox"), raw.sandbox, &usual.transport)?,
        transport: usual.transport,
    })
}

/// Parses the entries of `[servers.<name>.tools]`: rules for tools, and overrides of their definitions.
fn tools(
    key: &Key<'_>,
    raw: BTreeMap<String, RawTool>,
) -> Result<(Vec<ToolRule>, BTreeMap<String, Override>), ConfigError> {
    let (mut rules, mut found) = (Vec::new(), BTreeMap::new());
    for (tool, mut raw) in raw {
        let key = key.key(&tool);
        let by = overrides::parse(&key, &mut raw)?;
        let rule = spending::tool(&key, raw)?;
        let Some(by) = by else {
            rules.push(rule);
            continue;
        };
        if rule.has_rules() {
            rules.push(ToolRule { tools: by.name.as_deref().map_or(rule.tools, Patterns::name), ..rule });
        }
        found.insert(tool, by);
    }
    Ok((rules, found))
}

words!(Start: "eager" = Eager, "lazy" = Lazy);
words!(Binding: "tool" = Tool, "server" = Server, "auto" = Auto);

/// Checks a name that is none of those that are `taken`.
pub(super) fn check_name(key: &Key<'_>, of: &str, taken: &[&str]) -> Result<(), ConfigError> {
    if !is_client_name(key.name()) {
        let form = "write 1 to 64 letters, digits, `_`, `.` and `-`, the first one a letter or a digit";
        return Err(key.at_key(format!("not usable as the name of a {of}")).with_hint(form));
    }
    if taken.iter().any(|taken| taken.eq_ignore_ascii_case(key.name())) {
        let error = key.at_key(format!("reserved, not usable as the name of a {of}"));
        return Err(error.with_hint(format!("reserved are {}", taken.join(", "))));
    }
    Ok(())
}

fn category(key: &Key<'_>, tools: Vec<String>) -> Result<Patterns, ConfigError> {
    check_name(key, "category", SERVER_NAMES)?;
    match tools.is_empty() {
        true => Err(key.at_value("lists no tool")),
        false => Patterns::parse(key, tools),
    }
}

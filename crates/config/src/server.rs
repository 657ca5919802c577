//! One `[servers.<name>]` entry.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::auth::auth;
use super::confinement::confinement;
use super::document::KeyPath;
use super::error::ConfigError;
use super::patterns::Patterns;
use super::raw::{RawBreaker, RawServer, RawTool};
use super::share::{SHARES, Share};
use super::spending;
use super::transport::transport;
use super::values::Values;
use super::{
    Access, Amount, Approval, Auth, Binding, Breaker, Override, Relays, Server, Start, ToolRule, Transport, overrides,
    policy,
};

/// Names beside the servers in the virtual filesystem.
const ROOT_NAMES: &[&str] = &["forge.pyi", "forge.d.ts", "results", "runs", "scripts", "proposals"];

/// Names beside the categories of a server.
const SERVER_NAMES: &[&str] = &["README.md", "__init__.pyi", "resources", "prompts", "stderr"];

const CALL: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(30);
const BACKOFF: Duration = Duration::from_secs(30);
const MAX_CALL: Duration = Duration::from_secs(600);
const IDLE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

impl Server {
    /// An enabled server with this transport, and defaults for everything else.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            description: None,
            enabled: true,
            timeout: CALL,
            max_timeout: MAX_CALL,
            connect_timeout: CONNECT,
            reconnect: true,
            max_reconnect_backoff: BACKOFF,
            breaker: Breaker::default(),
            categories: BTreeMap::new(),
            access: Access::default(),
            binding: Binding::default(),
            start: Start::default(),
            idle_stop: None,
            share: Share::default(),
            auth: Auth::None,
            rate: None,
            cost: Amount::ONE,
            approval: Approval::default(),
            relays: Relays::default(),
            tools: Vec::new(),
            overrides: BTreeMap::new(),
            allow_unmatched: false,
            sandbox: None,
        }
    }
}

/// Checks an entry and resolves its types.
pub(super) fn server(mut values: Values<'_>, name: &str, mut raw: RawServer) -> Result<Server, ConfigError> {
    let key = KeyPath::root("servers").key(name);
    check_name(&values, &key, name, "server", ROOT_NAMES)?;
    let enabled = raw.enabled.unwrap_or(true);
    let reconnect = raw.reconnect.unwrap_or(true);
    if !enabled {
        values.env = None;
    }
    let range = Duration::from_millis(10)..=Duration::from_secs(3_600);
    let timeout = values.duration(&key.key("timeout"), raw.timeout.take(), CALL, range.clone())?;
    let max_timeout =
        values.duration(&key.key("max_timeout"), raw.max_timeout.take(), MAX_CALL.max(timeout), range.clone())?;
    if max_timeout < timeout {
        let error = values.document.at_value(&key.key("max_timeout"), "shorter than `timeout`");
        return Err(error.with_hint("it bounds what progress can make of `timeout`"));
    }
    let connect_timeout = values.duration(&key.key("connect_timeout"), raw.connect_timeout.take(), CONNECT, range)?;
    let backoff = Duration::from_millis(500)..=Duration::from_secs(3_600);
    let max_reconnect_backoff =
        values.duration(&key.key("max_reconnect_backoff"), raw.max_reconnect_backoff.take(), BACKOFF, backoff)?;
    let breaker = breaker(&values, &key.key("breaker"), std::mem::take(&mut raw.breaker))?;
    let binding = values.word(&key.key("binding"), raw.binding.take(), BINDINGS)?.unwrap_or_default();
    let start = values.word(&key.key("start"), raw.start.take(), STARTS)?.unwrap_or_default();
    let idle_stop = raw
        .idle_stop
        .take()
        .map(|given| values.duration(&key.key("idle_stop"), Some(given), CALL, IDLE))
        .transpose()?;
    let share = values.word(&key.key("share"), raw.share.take(), SHARES)?;
    let description = match raw.description.take() {
        Some(text) => Some(values.text(&key.key("description"), text)?.text).filter(|text| !text.trim().is_empty()),
        None => None,
    };
    let categories = categories(&values, &key.key("categories"), std::mem::take(&mut raw.categories))?;
    let access = Access {
        allow: raw.allow.take().map(|list| Patterns::parse(&values, &key.key("allow"), list)).transpose()?,
        deny: Patterns::parse(&values, &key.key("deny"), raw.deny.take().unwrap_or_default())?,
    };
    let rate = spending::rate(&values, &key.key("rate"), raw.rate.take())?;
    let cost = spending::cost(&values, &key.key("cost"), raw.cost.take())?.unwrap_or(Amount::ONE);
    let (tools, overrides) = tools(&values, &key.key("tools"), std::mem::take(&mut raw.tools))?;
    overrides::check_names(&values, &key, &overrides, &access, &tools)?;
    let approval = policy::approval(&values, &key, raw.approval.take())?.unwrap_or_default();
    let relays = Relays {
        elicitation: policy::relay(&values, &key.key("elicitation"), raw.elicitation.take())?,
        sampling: policy::relay(&values, &key.key("sampling"), raw.sampling.take())?,
    };
    let allow_unmatched = raw.allow_unmatched.take().unwrap_or_default();
    let login = raw.auth.take();
    let sandbox = raw.sandbox.take();
    let transport = transport(&values, &key, raw)?;
    let sandbox = confinement(&values, &key.key("sandbox"), sandbox, &transport)?;
    let auth = auth(&values, &key, login, &transport)?;
    let share = share.unwrap_or_else(|| Share::of(&transport));
    Ok(Server {
        transport,
        description,
        enabled,
        timeout,
        max_timeout,
        connect_timeout,
        reconnect,
        max_reconnect_backoff,
        breaker,
        categories,
        access,
        binding,
        start,
        idle_stop,
        share,
        auth,
        rate,
        cost,
        approval,
        relays,
        tools,
        overrides,
        allow_unmatched,
        sandbox,
    })
}

/// Parses the entries of `[servers.<name>.tools]`: rules for tools, and overrides of their definitions.
fn tools(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, RawTool>,
) -> Result<(Vec<ToolRule>, BTreeMap<String, Override>), ConfigError> {
    let (mut rules, mut found) = (Vec::new(), BTreeMap::new());
    for (tool, mut raw) in raw {
        let key = key.key(&tool);
        let by = overrides::parse(values, &key, &tool, &mut raw)?;
        let rule = spending::tool(values, &key, &tool, raw)?;
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

fn breaker(values: &Values<'_>, key: &KeyPath, raw: RawBreaker) -> Result<Breaker, ConfigError> {
    let Breaker { faults, pause } = Breaker::default();
    let pauses = Duration::from_millis(100)..=Duration::from_secs(120);
    Ok(Breaker {
        faults: values.count(&key.key("faults"), raw.faults, faults, 1..=1000)?,
        pause: values.duration(&key.key("pause"), raw.pause, pause, pauses)?,
    })
}

/// Values of `start`.
pub(super) const STARTS: &[(&str, Start)] = &[("eager", Start::Eager), ("lazy", Start::Lazy)];

/// Values of `binding`.
pub(super) const BINDINGS: &[(&str, Binding)] =
    &[("tool", Binding::Tool), ("server", Binding::Server), ("auto", Binding::Auto)];

/// Checks a name that becomes a folder in the virtual filesystem.
fn check_name(values: &Values<'_>, key: &KeyPath, name: &str, what: &str, taken: &[&str]) -> Result<(), ConfigError> {
    let valid = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    let fault = |message: String, hint: String| Err(values.document.at_key(key, message).with_hint(hint));
    if !valid {
        let form = "write 1 to 64 letters, digits, `_`, `.` and `-`, the first one a letter or a digit";
        fault(format!("not usable as the name of a {what}"), form.to_owned())
    } else if taken.iter().any(|taken| taken.eq_ignore_ascii_case(name)) {
        fault(format!("reserved, not usable as the name of a {what}"), format!("reserved are {}", taken.join(", ")))
    } else {
        Ok(())
    }
}

fn categories(
    values: &Values<'_>,
    key: &KeyPath,
    raw: BTreeMap<String, Vec<String>>,
) -> Result<BTreeMap<String, Patterns>, ConfigError> {
    let mut categories = BTreeMap::new();
    for (name, tools) in raw {
        let key = key.key(&name);
        check_name(values, &key, &name, "category", SERVER_NAMES)?;
        if tools.is_empty() {
            return Err(values.document.at_value(&key, "lists no tool"));
        }
        categories.insert(name, Patterns::parse(values, &key, tools)?);
    }
    Ok(categories)
}

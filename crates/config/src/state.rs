//! `[state]`: the store that replicas share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::credential::{self, Credential};
use super::error::ConfigError;
use super::key::Key;
use super::policy::Isolation;
use super::raw::RawState;
use super::units::{MILLI, SECOND};
use super::{Config, Expose};
use base::address::is_loopback;
use redact::secret::{self, Secret};

/// Longest prefix of keys.
const PREFIX: usize = 64;
const FORM: &str = "write it in full, such as \"rediss://user:${STORE_PASSWORD}@store.example.com:6379/0\"";

/// A Valkey or Redis server that keeps the state of all replicas of one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its URL, which may have a password.
    pub url: Secret,
    /// Certificates of the authorities to trust, in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Beginning of every key. Gateways with the same prefix are replicas of one.
    pub prefix: String,
    /// Time for each operation.
    pub timeout: Duration,
    /// Replicas of the store that must have a write before it counts as done.
    pub replicas: usize,
    /// State folder of this machine, for what must hold while the store is away.
    pub folder: Option<PathBuf>,
}

/// Keys with which logins are encrypted where they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealing {
    /// Key in use.
    pub key: Credential,
    /// Keys before it, which decrypt.
    pub before: Vec<Credential>,
}

/// Resolves the keys of stored logins.
pub(super) fn sealing(key: &Key<'_>, raw: &mut RawState) -> Result<Option<Arc<Sealing>>, ConfigError> {
    let before = raw.decrypt.take();
    let Some(now) = raw.encrypt.take() else {
        return match before {
            None => Ok(None),
            Some(_) => Err(key.key("decrypt").at_key("there is no `encrypt`").with_hint("name the key in use there")),
        };
    };
    let before = key.key("decrypt").each(before, credential::one)?;
    Ok(Some(Arc::new(Sealing { key: credential::one(&key.key("encrypt"), now)?, before })))
}

pub(super) fn store(key: &Key<'_>, raw: RawState) -> Result<Option<Store>, ConfigError> {
    let RawState { url, ca, prefix, timeout, replicas, encrypt: _, decrypt: _ } = raw;
    let Some(url) = url else {
        let others = [("ca", ca.is_some()), ("prefix", prefix.is_some()), ("timeout", timeout.is_some())];
        let others = others.into_iter().chain([("replicas", replicas.is_some())]);
        return match others.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(key.key(name).at_key("there is no store: `url` is missing").with_hint(FORM)),
            None => Ok(None),
        };
    };
    let url_key = key.key("url");
    let text = url_key.filled(url)?;
    let fault = |message: &str, hint: &str| Err(url_key.at_value(message).with_hint(hint));
    let Ok(parsed) = url::Url::parse(&text) else { return fault("not a URL", FORM) };
    if let Some(password) = parsed.password() {
        secret::list(password);
    }
    match parsed.scheme() {
        "rediss" => {}
        "redis" if is_loopback(&parsed) || parsed.password().is_none() => {}
        "redis" => return fault("a password over plain TCP to another machine", "use rediss://, which encrypts"),
        _ => return fault("not a redis:// or rediss:// URL", FORM),
    }
    if !parsed.has_host() {
        return fault("no host", FORM);
    }
    let prefix = key.given("prefix", prefix, Key::expanded)?.unwrap_or_else(|| "forgefs".to_owned());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if prefix.is_empty() || prefix.len() > PREFIX || !prefix.bytes().all(is_plain) {
        let error = key.key("prefix").at_value("not usable as the beginning of keys");
        return Err(error.with_hint("use letters, digits, `-`, `_`, `.` and `:`, 64 at most"));
    }
    Ok(Some(Store {
        url: Secret::new(text),
        ca: key.given("ca", ca, Key::path)?,
        prefix,
        timeout: key.key("timeout").duration(timeout, 50 * MILLI..=30 * SECOND)?.unwrap_or(2 * SECOND),
        replicas: key.key("replicas").count(replicas, 0..=16)?.unwrap_or(0),
        folder: key.state_folder(),
    }))
}

impl Config {
    /// True if rules depend on what a run or a session holds: flows or strict groups.
    pub fn has_labels(&self) -> bool {
        self.policy.groups.values().any(|group| group.isolation == Isolation::Strict)
            || self.profiles.values().any(|profile| !profile.flows.is_empty())
            || !self.policy.flows.is_empty()
    }
}

/// Checks that replicas share all that the configuration needs them to.
///
/// # Errors
/// For what one process alone would know.
pub(super) fn check(key: &Key<'_>, config: &Config) -> Result<(), ConfigError> {
    if config.state.is_none() {
        return Ok(());
    }
    let fault = |message: &str, hint: &str| Err(key.key("url").at_key(message).with_hint(hint));
    if config.placeholders {
        let hint = "turn off `placeholders` in [redaction], or remove the store";
        return fault("placeholders are known to one process, and replicas would not restore them", hint);
    }
    let forms = config.profiles.values().map(|profile| profile.expose);
    let forms = forms.chain(config.clients.values().filter_map(|client| client.expose));
    if config.has_labels() && forms.into_iter().any(|form| form != Expose::Code) {
        let hint = "show the four tools alone (`expose = \"code\"`), or remove the store";
        return fault("what calls outside of scripts hold for flows and strict groups is known to one process", hint);
    }
    Ok(())
}

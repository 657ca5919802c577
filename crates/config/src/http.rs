//! Serving over HTTP: `[http]`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;

use super::Profile;
use super::error::ConfigError;
use super::key::Key;
use super::oauth::{self, ResourceServer};
use super::raw::RawHttp;
use super::units::{DAY, MINUTE, SECOND};
use base::address::is_private;

/// The `[http]` table: the endpoint of `forgefs serve --http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Address, unless `--http` names one.
    pub listen: SocketAddr,
    /// URL of the endpoint as browsers of other machines reach it, without `/mcp`: logins of people lead there.
    pub public_url: Option<Url>,
    /// Names by which clients may call it, beside `localhost` and addresses; lower-case.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call it, as browsers send them.
    pub allowed_origins: Vec<String>,
    /// Certificate chain and private key, both in PEM; without, it is plain HTTP.
    pub tls: Option<Tls>,
    /// Proxies in front of it, which encrypt.
    pub trusted_proxies: Vec<IpNet>,
    /// True if metrics are served too, at `/metrics`.
    pub metrics: bool,
    /// Most sessions.
    pub max_sessions: usize,
    /// Most sessions of one client.
    pub max_client_sessions: usize,
    /// Most connections.
    pub max_connections: usize,
    /// Time after which an unused session ends.
    pub idle: Duration,
    /// Time that requests have to end after SIGTERM.
    pub drain: Duration,
    /// Access tokens that it takes beside those of `[clients]`.
    pub oauth: Option<Arc<ResourceServer>>,
}

/// Files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7333)),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            trusted_proxies: Vec::new(),
            metrics: false,
            max_sessions: 1_000,
            max_client_sessions: 200,
            max_connections: 2_000,
            idle: 30 * MINUTE,
            drain: 10 * SECOND,
            oauth: None,
        }
    }
}

pub(super) fn http(key: &Key<'_>, raw: RawHttp, profiles: &BTreeMap<String, Profile>) -> Result<Http, ConfigError> {
    let usual = Http::default();
    let listen = key.given("listen", raw.listen, |key, text| {
        parse_listen(&key.filled(text)?).map_err(|fault| key.at_value(fault).with_hint(LISTEN_FORM))
    })?;
    let files = (key.given("tls_cert", raw.tls_cert, Key::path)?, key.given("tls_key", raw.tls_key, Key::path)?);
    let tls = match files {
        (Some(cert), Some(key)) => Some(Tls { cert, key }),
        (None, None) => None,
        (Some(_), None) => return Err(key.key("tls_cert").at_key("has no `tls_key`")),
        (None, Some(_)) => return Err(key.key("tls_key").at_key("has no `tls_cert`")),
    };
    let count = |name: &str, raw| key.key(name).count(raw, 1..=100_000);
    let public_url = key.given("public_url", raw.public_url, public_url)?;
    let oauth = key.given("oauth", raw.oauth, |key, raw| oauth::resource_server(key, raw, profiles))?.map(Arc::new);
    Ok(Http {
        listen: listen.unwrap_or(usual.listen),
        public_url: public_url.or_else(|| base_of(oauth.as_ref()?.resource.as_str())),
        allowed_hosts: each(&key.key("allowed_hosts"), raw.allowed_hosts, HOST_FORM, host)?,
        allowed_origins: each(&key.key("allowed_origins"), raw.allowed_origins, ORIGIN_FORM, origin)?,
        tls,
        trusted_proxies: each(&key.key("trusted_proxies"), raw.trusted_proxies, PROXY_FORM, proxy)?,
        metrics: raw.metrics.unwrap_or(usual.metrics),
        max_sessions: count("max_sessions", raw.max_sessions)?.unwrap_or(usual.max_sessions),
        max_client_sessions: count("max_client_sessions", raw.max_client_sessions)?
            .unwrap_or(usual.max_client_sessions),
        max_connections: count("max_connections", raw.max_connections)?.unwrap_or(usual.max_connections),
        idle: key.key("idle").duration(raw.idle, 10 * SECOND..=7 * DAY)?.unwrap_or(usual.idle),
        drain: key.key("drain").duration(raw.drain, SECOND..=10 * MINUTE)?.unwrap_or(usual.drain),
        oauth,
    })
}

/// URL without `/mcp` at its end.
fn base_of(endpoint: &str) -> Option<Url> {
    let base = endpoint.trim_end_matches('/');
    Url::parse(base.strip_suffix("/mcp").unwrap_or(base)).ok()
}

fn public_url(key: &Key<'_>, text: String) -> Result<Url, ConfigError> {
    let is_usable = |url: &Url| is_private(url) && oauth::is_bare(url);
    base_of(&key.filled(text)?).filter(is_usable).ok_or_else(|| {
        let error = key.at_value("not an https URL without user name, query and fragment");
        error.with_hint("write the URL of this endpoint as browsers reach it, such as \"https://forge.example.com\"")
    })
}

const HOST_FORM: &str = "write a name such as \"forge.example.com\", without scheme and port";
const ORIGIN_FORM: &str =
    "write it as browsers send it, such as \"https://app.example.com\" or \"http://localhost:6274\"";
const PROXY_FORM: &str = "write an address or a network, such as \"10.0.0.7\" or \"10.0.0.0/24\"";
/// Form of an address to listen at.
pub const LISTEN_FORM: &str = "write an address of this machine and a port, such as \"127.0.0.1:7333\"";

/// Parses each text of a list.
fn each<T>(
    key: &Key<'_>,
    texts: Option<Vec<String>>,
    form: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    key.each(texts, |key, text| {
        parse(key.filled(text)?.trim()).ok_or_else(|| key.at_value("not usable here").with_hint(form))
    })
}

/// Parses an address to listen at.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse_listen(text: &str) -> Result<SocketAddr, &'static str> {
    match text.trim().parse::<SocketAddr>() {
        Ok(listen) if listen.port() == 0 => Err("port 0 is any port"),
        Ok(listen) => Ok(listen),
        Err(_) => Err("not an address with a port"),
    }
}

fn host(text: &str) -> Option<String> {
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    (text.len() <= 253 && is_name(text)).then(|| text.to_ascii_lowercase())
}

/// An origin in the form that browsers send.
fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let origin = url.origin();
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_of_all = url.username().is_empty() && url.password().is_none();
    (origin.is_tuple() && is_bare && is_of_all).then(|| origin.ascii_serialization())
}

fn proxy(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_and_hosts_are_read_as_browsers_send_them() {
        for (text, read) in [
            ("https://App.example.com", Some("https://app.example.com")),
            ("https://app.example.com:443/", Some("https://app.example.com")),
            ("http://localhost:6274", Some("http://localhost:6274")),
            ("https://app.example.com/path", None),
            ("https://user@app.example.com", None),
            ("https://:word@app.example.com", None),
            ("app.example.com", None),
            ("*", None),
            ("null", None),
        ] {
            assert_eq!(origin(text).as_deref(), read, "{text}");
        }
        for (text, read) in [("Forge.Example", Some("forge.example")), ("a:1", None), ("*", None), ("a/b", None)] {
            assert_eq!(host(text).as_deref(), read, "{text}");
        }
        assert!(proxy("10.0.0.7").is_some_and(|net| net.contains(&IpAddr::from([10, 0, 0, 7]))));
        assert!(proxy("10.0.0.0/24").is_some_and(|net| net.contains(&IpAddr::from([10, 0, 0, 9]))));
        assert_eq!((proxy("10.0.0.0/99"), proxy("proxy")), (None, None));
    }
}

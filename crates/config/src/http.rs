//! Serving over HTTP: `[http]`, and the clients that may: `[clients.<name>]`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use url::Url;

use super::document::KeyPath;
use super::error::ConfigError;
use super::oauth::{self, Claims, ResourceServer};
use super::raw::{RawClient, RawHttp};
use super::values::Values;
use super::{Budgets, Expose, Profile, profiles, spending};
use base::principal::LOCAL;
use base::random;
use redact::secret;

/// Shortest token: 128 bits in hexadecimal digits have twice as many.
const SHORTEST: usize = 16;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The `[http]` table: the endpoint of `forgefs serve --http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Address, unless `--http` names one.
    pub listen: SocketAddr,
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
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            trusted_proxies: Vec::new(),
            metrics: false,
            max_sessions: 1_000,
            max_client_sessions: 200,
            max_connections: 2_000,
            idle: Duration::from_secs(30 * 60),
            drain: Duration::from_secs(10),
            oauth: None,
        }
    }
}

/// One `[clients.<name>]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// SHA-256 of its token. The token itself is not kept. `None` for a client that its claims identify, and for this
    /// machine's user.
    pub(super) token: Option<[u8; 32]>,
    /// Claims of its access tokens; none for a client with a token of its own.
    pub(super) claims: Claims,
    /// Its profile; `None` for that of all, if there is one.
    pub profile: Option<String>,
    /// Rate limit and budgets of its own.
    pub budgets: Budgets,
    /// Form in which its tools are shown, in place of its profile's.
    pub expose: Option<Expose>,
}

impl Client {
    /// True if `token` is the client's. Takes as long for each other one.
    #[must_use]
    pub fn has(&self, token: &str) -> bool {
        self.token.is_some_and(|own| own.ct_eq(&digest(token)).into())
    }

    /// True if both have the same credentials.
    #[must_use]
    pub fn is_known_as(&self, other: &Self) -> bool {
        self.token == other.token && self.claims == other.claims
    }

    /// Hex of its token's SHA-256; `None` for a client without a token of its own.
    #[must_use]
    pub fn token_sha256(&self) -> Option<String> {
        self.token.map(|digest| random::hex(&digest))
    }

    /// Text that identifies its credentials.
    #[must_use]
    pub fn identity(&self) -> String {
        let token = self.token_sha256().unwrap_or_default();
        format!("{token} {:?}", self.claims)
    }

    /// True if it has credentials: a request on HTTP can be its.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.token.is_some() || !self.claims.is_empty()
    }

    /// Claims of its access tokens; none for a client with a token of its own.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The digest of a token as `token_sha256` has it.
pub fn token_digest(token: &str) -> String {
    random::hex(&digest(token))
}

pub(super) fn clients(
    values: Values<'_>,
    raw: BTreeMap<String, RawClient>,
    profiles: &BTreeMap<String, Profile>,
) -> Result<BTreeMap<String, Client>, ConfigError> {
    let mut clients = BTreeMap::<String, Client>::new();
    for (name, raw) in raw {
        let key = KeyPath::root("clients").key(&name);
        let fault = |message: String, hint: &str| Err(values.document.at_key(&key, message).with_hint(hint));
        if !is_client_name(&name) {
            let hint = "use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first";
            return fault("not usable as the name of a client".to_owned(), hint);
        }
        if name != LOCAL && name.eq_ignore_ascii_case(LOCAL) {
            return fault(format!("`{LOCAL}` is the client of this machine's user"), "use another name");
        }
        if is_of_token(&name) {
            return fault(format!("names with `{OF_TOKEN}` are those of access tokens"), "use another name");
        }
        let claims = match raw.oauth {
            Some(claims) => oauth::claims(values, &key.key("oauth"), claims)?,
            None => Claims::new(),
        };
        let form = "`forgefs clients add` makes a token and writes its digest";
        let token = match (raw.token, raw.token_sha256) {
            (None, None) if !claims.is_empty() => None,
            (_, _) if !claims.is_empty() => {
                return fault("has `oauth` and a token".to_owned(), "keep one of them");
            }
            (Some(token), None) => {
                let token = values.filled(&key.key("token"), token)?.text;
                secret::list(&token);
                if token.len() < SHORTEST || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
                    let message = format!("must have {SHORTEST} characters or more, of ASCII and without spaces");
                    return Err(values.document.at_value(&key.key("token"), message).with_hint(form));
                }
                Some(digest(&token))
            }
            (None, Some(text)) => {
                let text = values.filled(&key.key("token_sha256"), text)?.text;
                match parse_digest(&text) {
                    Some(digest) => Some(digest),
                    None => {
                        let message = "not a SHA-256 digest of 64 hexadecimal digits";
                        return Err(values.document.at_value(&key.key("token_sha256"), message).with_hint(form));
                    }
                }
            }
            (Some(_), Some(_)) => return fault("has `token` and `token_sha256`".to_owned(), "keep one of them"),
            (None, None) if name == LOCAL => None,
            (None, None) => return fault("has no token".to_owned(), form),
        };
        if name == LOCAL && (token.is_some() || !claims.is_empty()) {
            return fault(
                format!("`{LOCAL}` is the client of this machine's user, without a token"),
                "use another name",
            );
        }
        if let Some((other, _)) = clients.iter().find(|(_, client)| token.is_some() && client.token == token) {
            return fault(format!("has the token of `{other}`"), "give each client a token of its own");
        }
        if let Some((other, _)) = clients.iter().find(|(_, client)| !claims.is_empty() && client.claims == claims) {
            return fault(format!("has the claims of `{other}`"), "give each client claims of its own");
        }
        let named = |text| profiles::named(values, &key.key("profile"), text, profiles);
        let profile = raw.profile.map(named).transpose()?;
        let budgets = spending::budgets(values, &key.key("budgets"), raw.budgets)?;
        let expose = profiles::expose(&values, &key.key("expose"), raw.expose)?;
        clients.insert(name, Client { token, claims, profile, budgets, expose });
    }
    Ok(clients)
}

/// True if clients can have this name: it stands in records, metrics and messages.
pub fn is_client_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    first && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Beginning of the names of clients that an access token makes: no configured client has one.
const OF_TOKEN: &str = "oauth-";

/// True for a name that only the client of an access token can have.
pub fn is_of_token(name: &str) -> bool {
    name.get(..OF_TOKEN.len()).is_some_and(|first| first.eq_ignore_ascii_case(OF_TOKEN))
}

pub(super) fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(digest)
}

pub(super) fn http(
    values: Values<'_>,
    raw: RawHttp,
    profiles: &BTreeMap<String, Profile>,
) -> Result<Http, ConfigError> {
    let key = KeyPath::root("http");
    let usual = Http::default();
    let listen = match raw.listen {
        Some(text) => {
            let key = key.key("listen");
            let text = values.filled(&key, text)?.text;
            parse_listen(&text).map_err(|fault| values.document.at_value(&key, fault).with_hint(LISTEN_FORM))?
        }
        None => usual.listen,
    };
    let file = |name: &str, path: Option<String>| path.map(|path| values.path(&key.key(name), path)).transpose();
    let tls = match (file("tls_cert", raw.tls_cert)?, file("tls_key", raw.tls_key)?) {
        (Some(cert), Some(key)) => Some(Tls { cert, key }),
        (None, None) => None,
        (Some(_), None) => return Err(values.document.at_key(&key.key("tls_cert"), "has no `tls_key`")),
        (None, Some(_)) => return Err(values.document.at_key(&key.key("tls_key"), "has no `tls_cert`")),
    };
    let count = |name: &str, raw, usual: usize, most: u32| {
        let usual = u32::try_from(usual).unwrap_or(most);
        values.count(&key.key(name), raw, usual, 1..=most).map(|count| count as usize)
    };
    let seconds = Duration::from_secs;
    let issuer = |raw| oauth::resource_server(values, &key.key("oauth"), raw, profiles);
    Ok(Http {
        listen,
        allowed_hosts: each(&values, &key.key("allowed_hosts"), raw.allowed_hosts, HOST_FORM, host)?,
        allowed_origins: each(&values, &key.key("allowed_origins"), raw.allowed_origins, ORIGIN_FORM, origin)?,
        tls,
        trusted_proxies: each(&values, &key.key("trusted_proxies"), raw.trusted_proxies, PROXY_FORM, proxy)?,
        metrics: raw.metrics.unwrap_or(usual.metrics),
        max_sessions: count("max_sessions", raw.max_sessions, usual.max_sessions, 100_000)?,
        max_client_sessions: count("max_client_sessions", raw.max_client_sessions, usual.max_client_sessions, 100_000)?,
        max_connections: count("max_connections", raw.max_connections, usual.max_connections, 100_000)?,
        idle: values.duration(&key.key("idle"), raw.idle, usual.idle, seconds(10)..=7 * DAY)?,
        drain: values.duration(&key.key("drain"), raw.drain, usual.drain, seconds(1)..=seconds(600))?,
        oauth: raw.oauth.map(issuer).transpose()?.map(Arc::new),
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
    values: &Values<'_>,
    key: &KeyPath,
    texts: Option<Vec<String>>,
    form: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    let mut all = Vec::new();
    for (index, text) in texts.unwrap_or_default().into_iter().enumerate() {
        let key = key.index(index);
        let text = values.filled(&key, text)?.text;
        let fault = || values.document.at_value(&key, "not usable here").with_hint(form);
        all.push(parse(text.trim()).ok_or_else(fault)?);
    }
    Ok(all)
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
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    (origin.is_tuple() && is_bare).then(|| origin.ascii_serialization())
}

fn proxy(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_digest_alone() {
        let text = token_digest("correct-horse-battery");
        let client = Client {
            token: Some(parse_digest(&text).expect("a digest")),
            claims: Claims::new(),
            profile: None,
            budgets: Budgets::default(),
            expose: None,
        };
        for (token, is_its) in [("correct-horse-battery", true), ("correct-horse-batter", false), ("", false)] {
            assert_eq!(client.has(token), is_its, "{token}");
        }
        assert!(!client.has(&text), "the digest is no token");
        for text in ["", "zz", &text[1..], &format!("{text}0"), &"é".repeat(32)] {
            assert_eq!(parse_digest(text), None, "{text}");
        }
    }

    #[test]
    fn origins_and_hosts_are_read_as_browsers_send_them() {
        for (text, read) in [
            ("https://App.example.com", Some("https://app.example.com")),
            ("https://app.example.com:443/", Some("https://app.example.com")),
            ("http://localhost:6274", Some("http://localhost:6274")),
            ("https://app.example.com/path", None),
            ("https://user@app.example.com", None),
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

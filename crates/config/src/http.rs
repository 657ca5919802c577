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

use super::error::ConfigError;
use super::key::Key;
use super::oauth::{self, Claims, ResourceServer};
use super::raw::{RawClient, RawHttp};
use super::units::{DAY, MINUTE, SECOND};
use super::{Budgets, Expose, Profile, profiles, spending};
use base::address::is_private;
use base::principal::LOCAL;
use base::random;
use redact::secret;

/// Shortest token: 128 bits in hexadecimal digits have twice as many.
const SHORTEST: usize = 16;

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
    pub fn has(&self, token: &str) -> bool {
        self.token.is_some_and(|own| own.ct_eq(&digest(token)).into())
    }

    /// True if both have the same credentials.
    pub fn is_known_as(&self, other: &Self) -> bool {
        self.token == other.token && self.claims == other.claims
    }

    /// Hex of its token's SHA-256; `None` for a client without a token of its own.
    pub fn token_sha256(&self) -> Option<String> {
        self.token.map(|digest| random::hex(&digest))
    }

    /// Text that identifies its credentials.
    pub fn identity(&self) -> String {
        let token = self.token_sha256().unwrap_or_default();
        format!("{token} {:?}", self.claims)
    }

    /// True if it has credentials: a request on HTTP can be its.
    pub fn has_credentials(&self) -> bool {
        self.token.is_some() || !self.claims.is_empty()
    }

    /// Claims of its access tokens; none for a client with a token of its own.
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
    key: &Key<'_>,
    raw: BTreeMap<String, RawClient>,
    profiles: &BTreeMap<String, Profile>,
) -> Result<BTreeMap<String, Client>, ConfigError> {
    let mut clients = BTreeMap::<String, Client>::new();
    for (name, raw) in raw {
        let client = client(&key.key(&name), raw, &clients, profiles)?;
        clients.insert(name, client);
    }
    Ok(clients)
}

/// Reads a client; `others` are those that were read before.
fn client(
    key: &Key<'_>,
    raw: RawClient,
    others: &BTreeMap<String, Client>,
    profiles: &BTreeMap<String, Profile>,
) -> Result<Client, ConfigError> {
    let name = key.name();
    let fault = |message: String, hint: &str| Err(key.at_key(message).with_hint(hint));
    check_name(key, "client")?;
    if name != LOCAL && name.eq_ignore_ascii_case(LOCAL) {
        return fault(format!("`{LOCAL}` is the client of this machine's user"), "use another name");
    }
    if is_of_token(name) {
        return fault(format!("names with `{OF_TOKEN}` are those of access tokens"), "use another name");
    }
    let claims = match raw.oauth {
        Some(claims) => oauth::claims(&key.key("oauth"), claims)?,
        None => Claims::new(),
    };
    let token = token(key, raw.token, raw.token_sha256, &claims)?;
    if name == LOCAL && (token.is_some() || !claims.is_empty()) {
        return fault(format!("`{LOCAL}` is the client of this machine's user, without a token"), "use another name");
    }
    if let Some((other, _)) = others.iter().find(|(_, client)| token.is_some() && client.token == token) {
        return fault(format!("has the token of `{other}`"), "give each client a token of its own");
    }
    if let Some((other, _)) = others.iter().find(|(_, client)| !claims.is_empty() && client.claims == claims) {
        return fault(format!("has the claims of `{other}`"), "give each client claims of its own");
    }
    let named = |text| profiles::named(&key.key("profile"), text, profiles);
    Ok(Client {
        token,
        claims,
        profile: raw.profile.map(named).transpose()?,
        budgets: spending::budgets(&key.key("budgets"), raw.budgets)?,
        expose: key.key("expose").word(raw.expose)?,
    })
}

/// Digest of a client's token; `None` for a client that its claims identify, and for this machine's user.
fn token(
    key: &Key<'_>,
    token: Option<String>,
    sha256: Option<String>,
    claims: &Claims,
) -> Result<Option<[u8; 32]>, ConfigError> {
    const FORM: &str = "`forgefs clients add` makes a token and writes its digest";
    let fault = |message: &str, hint: &str| Err(key.at_key(message).with_hint(hint));
    match (token, sha256) {
        (None, None) if !claims.is_empty() || key.name() == LOCAL => Ok(None),
        (None, None) => fault("has no token", FORM),
        _ if !claims.is_empty() => fault("has `oauth` and a token", "keep one of them"),
        (Some(_), Some(_)) => fault("has `token` and `token_sha256`", "keep one of them"),
        (None, Some(text)) => digest_of(&key.key("token_sha256"), text, FORM).map(Some),
        (Some(token), None) => {
            let key = key.key("token");
            let token = key.filled(token)?;
            secret::list(&token);
            if token.len() < SHORTEST || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
                let message = format!("must have {SHORTEST} characters or more, of ASCII and without spaces");
                return Err(key.at_value(message).with_hint(FORM));
            }
            Ok(Some(digest(&token)))
        }
    }
}

/// Reads the digest of a token.
pub(super) fn digest_of(key: &Key<'_>, text: String, form: &str) -> Result<[u8; 32], ConfigError> {
    let fault = || key.at_value("not a SHA-256 digest of 64 hexadecimal digits").with_hint(form);
    parse_digest(&key.filled(text)?).ok_or_else(fault)
}

/// Checks the name of a client, a person or a profile.
pub(super) fn check_name(key: &Key<'_>, of: &str) -> Result<(), ConfigError> {
    let form = "use letters, digits, `-`, `_` and `.`, 64 at most, with a letter or digit first";
    let fault = || key.at_key(format!("not usable as the name of a {of}")).with_hint(form);
    is_client_name(key.name()).then_some(()).ok_or_else(fault)
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

/// Longest subject that stands in a client's name as it is.
const SUBJECT: usize = 40;
/// Bytes of a digest in a client's name.
const DIGEST: usize = 16;
/// Bytes of the issuer's digest in it.
const ISSUER: usize = 4;

/// Name of the client with this subject. Subjects of other issuers have other names, and so have configured clients. It can
/// be the name of a file everywhere: a subject with other characters, capitals included, stands as its digest.
pub fn client_of_token(issuer: &str, subject: &str) -> String {
    let digest =
        |text: &str, bytes: usize| random::hex(Sha256::digest(text.as_bytes()).get(..bytes).unwrap_or_default());
    let is_plain =
        subject.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte));
    let issuer = digest(issuer, ISSUER);
    match is_plain && subject.len() <= SUBJECT && !subject.ends_with('.') {
        true => format!("{OF_TOKEN}{issuer}.{subject}"),
        false => format!("{OF_TOKEN}{issuer}-{}", digest(subject, DIGEST)),
    }
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(digest)
}

pub(super) fn http(key: &Key<'_>, raw: RawHttp, profiles: &BTreeMap<String, Profile>) -> Result<Http, ConfigError> {
    const MOST: u32 = 100_000;
    let usual = Http::default();
    let listen = |text| {
        let key = key.key("listen");
        parse_listen(&key.filled(text)?).map_err(|fault| key.at_value(fault).with_hint(LISTEN_FORM))
    };
    let listen = raw.listen.map(listen).transpose()?.unwrap_or(usual.listen);
    let file = |name: &str, path: Option<String>| path.map(|path| key.key(name).path(path)).transpose();
    let tls = match (file("tls_cert", raw.tls_cert)?, file("tls_key", raw.tls_key)?) {
        (Some(cert), Some(key)) => Some(Tls { cert, key }),
        (None, None) => None,
        (Some(_), None) => return Err(key.key("tls_cert").at_key("has no `tls_key`")),
        (None, Some(_)) => return Err(key.key("tls_key").at_key("has no `tls_cert`")),
    };
    let max_client_sessions = key.key("max_client_sessions");
    let issuer = |raw| oauth::resource_server(&key.key("oauth"), raw, profiles);
    let public_url = raw.public_url.map(|url| public_url(&key.key("public_url"), &url)).transpose()?;
    let oauth = raw.oauth.map(issuer).transpose()?.map(Arc::new);
    Ok(Http {
        listen,
        public_url: public_url.or_else(|| base_of(oauth.as_ref()?.resource.as_str())),
        allowed_hosts: each(&key.key("allowed_hosts"), raw.allowed_hosts, HOST_FORM, host)?,
        allowed_origins: each(&key.key("allowed_origins"), raw.allowed_origins, ORIGIN_FORM, origin)?,
        tls,
        trusted_proxies: each(&key.key("trusted_proxies"), raw.trusted_proxies, PROXY_FORM, proxy)?,
        metrics: raw.metrics.unwrap_or(usual.metrics),
        max_sessions: key.key("max_sessions").count(raw.max_sessions, 1..=MOST)?.unwrap_or(usual.max_sessions),
        max_client_sessions: max_client_sessions
            .count(raw.max_client_sessions, 1..=MOST)?
            .unwrap_or(usual.max_client_sessions),
        max_connections: key
            .key("max_connections")
            .count(raw.max_connections, 1..=MOST)?
            .unwrap_or(usual.max_connections),
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

fn public_url(key: &Key<'_>, text: &str) -> Result<Url, ConfigError> {
    let is_usable = |url: &Url| is_private(url) && oauth::is_bare(url);
    base_of(&key.filled(text.to_owned())?).filter(is_usable).ok_or_else(|| {
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
        for text in ["", "zz", &text[1..], &format!("{text}0"), &"é".repeat(32), &"+f".repeat(32)] {
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

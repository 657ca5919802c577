//! Who asks: names by which a request was sent, addresses and tokens.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::oauth::{self, Issuer, Issuers, Known, Refusal};
use super::reply::{self, Reply};
use base::listener::{Connection, bearer, host_name, is_own_name};
use base::principal::{LOCAL, Principal};
use base::text;
use config::{Client, Config, ResourceServer};

/// Most bytes of a name in an error.
const NAME: usize = 200;
/// Headers by which a proxy passes on who asks, beside `X-Forwarded-…`.
const FORWARDED: [&str; 6] = ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];

/// A client that asks.
#[derive(Debug)]
pub(super) struct Who {
    /// Its name.
    pub(super) client: String,
    /// Profile that its access token gives it.
    pub(super) profile: Option<String>,
    /// Credential that let it in.
    pub(super) grant: Grant,
    /// Time until which a stream may be open on its access token.
    pub(super) until: Option<Instant>,
}

impl Who {
    /// Its principal, with a new session.
    pub(super) fn principal(&self) -> Principal {
        Principal { profile: self.profile.as_deref().map(Into::into), ..Principal::of(&self.client) }
    }
}

/// Credential that let a client in. Where it is no longer in force, or is another one, everything of the client ends.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    /// Its entry in `[clients]`; none where no token is asked for, and for clients of access tokens alone.
    entry: Option<Client>,
    /// The issuer of its access token, as configured.
    issuer: Option<Arc<ResourceServer>>,
}

impl Grant {
    /// Texts that identify the credentials.
    pub(super) fn identity(&self) -> Vec<String> {
        let issuer = self.issuer.as_ref().map(|issuer| issuer.issuer.to_string());
        self.entry.iter().map(Client::identity).chain(issuer).collect()
    }

    /// True if another one is of the same credentials.
    pub(super) fn is(&self, other: &Self) -> bool {
        is_known(self.entry.as_ref(), other.entry.as_ref()) && self.issuer == other.issuer
    }

    /// True if it is in force for a client of this name.
    pub(super) fn holds(&self, config: &Config, name: &str) -> bool {
        if !config.needs_token {
            return name == LOCAL;
        }
        let is_issued = self.issuer.is_none() || self.issuer == config.http.oauth;
        let is_any = self.entry.is_some() || self.issuer.is_some();
        is_any && is_issued && is_known(self.entry.as_ref(), config.clients.get(name))
    }
}

/// True for one client, or none, with the same credentials.
fn is_known(one: Option<&Client>, other: Option<&Client>) -> bool {
    one.is_some() == other.is_some() && one.zip(other).is_none_or(|(one, other)| one.is_known_as(other))
}

/// The client that asks. `query` is that of the URL.
pub(super) async fn client(
    config: &Config,
    issuers: &Issuers,
    headers: &HeaderMap,
    query: Option<&str>,
    from: &Connection,
) -> Result<Who, Box<Reply>> {
    encrypted(config, from)?;
    if !config.needs_token {
        let is_forwarded = is_proxy(config, from.peer)
            || headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
            || FORWARDED.iter().any(|name| headers.contains_key(*name));
        if from.peer.is_loopback() && !is_forwarded {
            let grant = Grant { entry: None, issuer: None };
            return Ok(Who { client: LOCAL.to_owned(), profile: None, grant, until: None });
        }
        let what = "without [clients] in forge.toml only this machine is served";
        let fix = "`forgefs clients add NAME` makes a token";
        return Err(Box::new(reply::refused(StatusCode::FORBIDDEN, None, what, fix)));
    }
    let token = single_token(headers, query)?;
    if let Some(who) = token.and_then(|token| configured(config, token)) {
        return Ok(who);
    }
    match (&config.http.oauth, token, headers.contains_key(header::AUTHORIZATION)) {
        (Some(settings), Some(token), _) => {
            let found = issued(config, &issuers.of(settings), settings, token).await;
            found.map_err(|refusal| Box::new(oauth::refused(settings, refusal)))
        }
        (Some(settings), None, _) => Err(Box::new(oauth::unauthorized(settings))),
        (None, _, false) => Err(Box::new(reply::unauthorized("Bearer realm=\"forgefs\"", "a token is needed"))),
        (None, _, true) => {
            let challenge = "Bearer realm=\"forgefs\", error=\"invalid_token\"";
            Err(Box::new(reply::unauthorized(challenge, "no client has this token")))
        }
    }
}

fn is_proxy(config: &Config, peer: IpAddr) -> bool {
    config.http.trusted_proxies.iter().any(|net| net.contains(&peer))
}

/// Refuses a request that crossed a network unencrypted.
pub(super) fn encrypted(config: &Config, from: &Connection) -> Result<(), Box<Reply>> {
    if from.is_tls() || from.peer.is_loopback() || is_proxy(config, from.peer) {
        return Ok(());
    }
    let (what, fix) = ("plain HTTP is for trusted proxies alone", "use https, or the address of the proxy in front");
    Err(Box::new(reply::refused(StatusCode::FORBIDDEN, None, what, fix)))
}

/// The client of `[clients]` that has this token.
fn configured(config: &Config, token: &str) -> Option<Who> {
    // Each is compared, so that the time tells nothing of which one it is.
    let is_its = |found, (name, client)| if Client::has(client, token) { Some((name, client)) } else { found };
    let (name, client): (&String, &Client) = config.clients.iter().fold(None, is_its)?;
    let grant = Grant { entry: Some(client.clone()), issuer: None };
    Some(Who { client: name.clone(), profile: None, grant, until: None })
}

/// The client of an access token.
async fn issued(config: &Config, issuer: &Issuer, settings: &Arc<ResourceServer>, token: &str) -> Result<Who, Refusal> {
    let token = issuer.verify(token).await?;
    let Known { client, profile } = oauth::identify(config, settings, &token.claims)?;
    let grant = Grant { entry: config.clients.get(&client).cloned(), issuer: Some(Arc::clone(settings)) };
    Ok(Who { client, profile, grant, until: Some(token.until()) })
}

/// The only token of a request. One in the URL is refused: URLs stand in logs of proxies and in histories of browsers.
pub(super) fn single_token<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Result<Option<&'h str>, Box<Reply>> {
    let invalid = |what: &str| {
        let challenge = HeaderValue::from_static("Bearer realm=\"forgefs\", error=\"invalid_request\"");
        let fix = "send one `Authorization: Bearer TOKEN`";
        Err(Box::new(reply::challenged(StatusCode::BAD_REQUEST, challenge, what, fix)))
    };
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    if pairs.any(|(name, _)| name == "access_token") {
        return invalid("a token in the URL is not accepted");
    }
    bearer(headers).or_else(invalid)
}

/// Refuses a request that was sent by another name. DNS rebinding: a web page whose name resolves to this machine must not
/// reach it, so a name has to be configured; addresses and `localhost` cannot be rebound. A page of another origin must
/// be configured too.
pub(super) fn misnamed(config: &Config, headers: &HeaderMap, authority: Option<&str>, is_tls: bool) -> Option<Reply> {
    let forbidden = |what: &str, key: &str, value: &str| {
        let what = format!("{what} `{}` is not allowed", text::head(value, NAME));
        Some(reply::refused(StatusCode::FORBIDDEN, None, &what, &format!("add it to `http.{key}` in forge.toml")))
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => String::from_utf8_lossy(host.as_bytes()),
        (None, None) => authority.unwrap_or_default().into(),
        (_, Some(_)) => return Some(reply::refused(StatusCode::BAD_REQUEST, None, "two Host headers", "send one")),
    };
    let name = host_name(&host).to_ascii_lowercase();
    let public = config.http.public_url.as_ref().filter(|url| url.host_str() == Some(&*name));
    if !(is_own_name(&name) || public.is_some() || config.http.allowed_hosts.contains(&name)) {
        return forbidden("the name", "allowed_hosts", &name);
    }
    let mut origins = headers.get_all(header::ORIGIN).iter().map(|origin| String::from_utf8_lossy(origin.as_bytes()));
    // A page of this very address: its name was checked.
    let own = format!("{}://{host}", if is_tls { "https" } else { "http" });
    let is_same = |origin: &str| origin.eq_ignore_ascii_case(&own);
    // A proxy in front encrypts, and the page is of the address by which it was reached.
    let is_public = |origin: &str| public.is_some_and(|url| url.origin().ascii_serialization() == origin);
    let is_allowed = |origin: &str| {
        is_same(origin)
            || is_public(origin)
            || config.http.allowed_origins.iter().any(|allowed| allowed.as_str() == origin)
    };
    match origins.find(|origin| !is_allowed(origin)) {
        Some(origin) => forbidden("the origin", "allowed_origins", &origin),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_name_or_origin_is_refused() {
        let mut config = Config::empty();
        config.http.allowed_hosts = vec!["forge.example".to_owned()];
        config.http.allowed_origins = vec!["https://app.example".to_owned()];
        for (host, origin, is_allowed) in [
            ("127.0.0.1:7333", None, true),
            ("localhost", None, true),
            ("LOCALHOST:7333", None, true),
            ("[::1]:7333", None, true),
            ("10.1.2.3", None, true),
            ("forge.example:443", None, true),
            ("Forge.Example", Some("https://app.example"), true),
            ("evil.example", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("", None, false),
            ("127.0.0.1", Some("https://evil.example"), false),
            ("127.0.0.1:7333", Some("http://127.0.0.1:7333"), true),
            ("127.0.0.1", Some("http://127.0.0.1:7333"), false),
            ("127.0.0.1:7333", Some("http://127.0.0.1:6274"), false),
            ("evil.example", Some("http://evil.example"), false),
            ("127.0.0.1:7333", Some("https://127.0.0.1:7333"), false),
            ("127.0.0.1", Some("chrome-extension://127.0.0.1"), false),
            ("127.0.0.1", Some("://127.0.0.1"), false),
            ("127.0.0.1", Some("null"), false),
            ("127.0.0.1", Some("https://app.example.evil"), false),
            ("127.0.0.1", Some(""), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).expect("a value"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("a value"));
            }
            assert_eq!(misnamed(&config, &headers, None, false).is_none(), is_allowed, "{host} {origin:?}");
        }
        assert!(misnamed(&config, &HeaderMap::new(), None, false).is_some(), "no name at all");
    }
}

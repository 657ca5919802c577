//! Who asks: names by which a request was sent, addresses and tokens.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use super::reply::{self, Reply};
use crate::config::{Client, Config};
use crate::listener::{host_name, is_own_name};
use crate::principal::LOCAL;
use crate::text;

/// Most bytes of a name in an error.
const NAME: usize = 200;
/// Headers by which a proxy passes on who asks, beside `X-Forwarded-…`.
const FORWARDED: [&str; 6] = ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];

/// The client that asks.
pub(super) fn client(config: &Config, headers: &HeaderMap, peer: IpAddr, is_tls: bool) -> Result<String, Box<Reply>> {
    let is_proxy = config.http.trusted_proxies.iter().any(|net| net.contains(&peer));
    if !is_tls && !is_proxy && !peer.is_loopback() {
        let fix = "use https, or the address of the proxy in front";
        return Err(Box::new(reply::refused(
            StatusCode::FORBIDDEN,
            None,
            "plain HTTP is for trusted proxies alone",
            fix,
        )));
    }
    if !config.needs_token {
        let is_forwarded = is_proxy
            || headers.keys().any(|name| name.as_str().starts_with("x-forwarded-"))
            || FORWARDED.iter().any(|name| headers.contains_key(*name));
        return match peer.is_loopback() && !is_forwarded {
            true => Ok(LOCAL.to_owned()),
            false => {
                let what = "without [clients] in forge.toml only this machine is served";
                Err(Box::new(reply::refused(
                    StatusCode::FORBIDDEN,
                    None,
                    what,
                    "`forgefs clients add NAME` makes a token",
                )))
            }
        };
    }
    let Some(token) = headers.get(header::AUTHORIZATION).map(bearer) else {
        return Err(Box::new(reply::unauthorized("Bearer realm=\"forgefs\"", "a token is needed")));
    };
    // Each is compared, so that the time tells nothing of which one it is.
    let found = token.and_then(|token| {
        let is_its =
            |found, (name, client): (&String, &Client)| if client.has(token) { Some(name.clone()) } else { found };
        config.clients.iter().fold(None, is_its)
    });
    let wrong = || reply::unauthorized("Bearer realm=\"forgefs\", error=\"invalid_token\"", "no client has this token");
    found.ok_or_else(|| Box::new(wrong()))
}

/// The token of `Authorization: Bearer`.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
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
    if !(is_own_name(&name) || config.http.allowed_hosts.contains(&name)) {
        return forbidden("the name", "allowed_hosts", &name);
    }
    let mut origins = headers.get_all(header::ORIGIN).iter().map(|origin| String::from_utf8_lossy(origin.as_bytes()));
    // A page of this very address: its name was checked.
    let own = format!("{}://{host}", if is_tls { "https" } else { "http" });
    let is_same = |origin: &str| origin.eq_ignore_ascii_case(&own);
    let is_allowed =
        |origin: &str| is_same(origin) || config.http.allowed_origins.iter().any(|allowed| allowed.as_str() == origin);
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

    #[test]
    fn a_token_is_read_from_its_header() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("abc", None),
        ] {
            assert_eq!(bearer(&HeaderValue::from_static(value)), token, "{value}");
        }
    }
}

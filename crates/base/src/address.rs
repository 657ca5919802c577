//! Allowed addresses of connections, checked when a name is resolved for the connection: an earlier answer of DNS may
//! have changed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Variables that name a proxy. A proxy resolves the names behind it; its own address is the operator's choice.
const PROXIES: &[&str] = &["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// True if a URL points at this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        // In schemes that are none of the web's, the parser takes an address for a name.
        Some(Host::Domain(name)) => match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => name == "localhost" || name.ends_with(".localhost"),
        },
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// True if tokens may travel to this address: over TLS, or within this machine.
pub fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// Class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The Internet.
    Public,
    /// This machine.
    Loopback,
    /// A network that is not the Internet.
    Private,
    /// Never a server: link-local addresses, such as cloud metadata services, and reserved ones.
    Never,
}

/// Class of an address. An embedded address (mapped, NAT64, 6to4) decides.
pub fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => match carried(address) {
            Some(carried) => class_v4(carried),
            None => class_v6(address),
        },
    }
}

fn class_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Class::Private,
        // Reserved for benchmarks; local proxies resolve all names to it.
        [198, 18 | 19, ..] => Class::Private,
        [0, ..] | [169, 254, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
            Class::Never
        }
        _ => Class::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // Unique local, and the old site local.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private,
        // Link local, multicast, discard, local NAT64, Teredo, documentation.
        [0xfe80..=0xfebf, ..] | [0xff00..=0xffff, ..] | [0x100, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => Class::Never,
        [0x2001, 0 | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0, 0, 0, 0, 0, 0, ..] => Class::Never,
        _ => Class::Public,
    }
}

/// The IPv4 address embedded in a mapped, compatible, translated, NAT64 or 6to4 address.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0, 0, 0, 0, 0, 0] if (g, h) != (0, 0) && (g, h) != (0, 1) => Some(v4(g, h)),
        [0x2002, ..] => Some(v4(b, c)),
        _ => None,
    }
}

/// Classes of addresses that one client may connect to.
#[derive(Debug, Clone)]
pub struct Reach {
    loopback: bool,
    private: bool,
    /// Names that are not checked.
    proxies: Arc<[String]>,
}

impl Reach {
    /// For URLs named by the server at `url`, which may be hostile: the Internet; this machine if the server's own URL
    /// is on it; private networks if the operator allows them.
    pub fn of_server(url: &Url, private_network: bool) -> Self {
        let is_private = literal(url).is_some_and(|address| class(address) == Class::Private);
        Self { loopback: is_loopback(url), private: private_network || is_private, proxies: proxies() }
    }

    /// For a server that the operator configured: every address that a server may have.
    pub fn configured() -> Self {
        Self { loopback: true, private: true, proxies: proxies() }
    }

    /// For a server that only a document names: the Internet.
    pub fn internet() -> Self {
        Self { loopback: false, private: false, proxies: proxies() }
    }

    /// Checks a URL with an address in place of a name. Names are checked when they are resolved.
    pub fn allows(&self, url: &Url) -> bool {
        literal(url).is_none_or(|address| self.takes(class(address)))
    }

    /// Checks a URL, and the addresses that its name leads to. A name that leads nowhere is left to the connection.
    ///
    /// # Errors
    /// One that is not allowed.
    pub async fn check(&self, url: &Url) -> io::Result<()> {
        if !self.allows(url) {
            return Err(refusal(url.as_str()));
        }
        let (Some(Host::Domain(name)), Some(port)) = (url.host(), url.port_or_known_default()) else { return Ok(()) };
        match tokio::net::lookup_host((name, port)).await {
            Ok(found) => self.filter(name, found).map(drop),
            Err(_) => Ok(()),
        }
    }

    fn takes(&self, class: Class) -> bool {
        match class {
            Class::Public => true,
            Class::Loopback => self.loopback,
            Class::Private => self.private,
            Class::Never => false,
        }
    }

    fn filter(&self, name: &str, found: impl Iterator<Item = SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        if self.proxies.iter().any(|proxy| *proxy == plain(name)) {
            return Ok(found.collect());
        }
        let (taken, refused): (Vec<_>, Vec<_>) = found.partition(|address| self.takes(class(address.ip())));
        match (taken.is_empty(), refused.first()) {
            (true, Some(refused)) => Err(refusal(&format!("{name}, which leads to {}", refused.ip()))),
            _ => Ok(taken),
        }
    }
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(reach.filter(name.as_str(), found)?.into_iter()) as Addrs)
        })
    }
}

/// Error of a refused connection.
pub fn refusal(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("address not allowed: {what}"))
}

fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn proxies() -> Arc<[String]> {
    let set = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
    let host = |proxy: String| {
        let url = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
        Url::parse(&url).ok()?.host_str().map(plain)
    };
    set.filter_map(host).collect()
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_class_of_what_they_lead_to() {
        for (class, addresses) in [
            (
                Class::Public,
                "1.1.1.1 100.63.0.1 172.32.0.1 192.169.0.1 2606:4700::1111 64:ff9b::101:101 2002:101:101::",
            ),
            (Class::Loopback, "127.0.0.1 127.255.1.2 ::1 ::ffff:127.0.0.1 ::7f00:1 64:ff9b::7f00:1 2002:7f00:1::"),
            (Class::Private, "10.0.0.9 172.16.0.1 172.31.255.1 192.168.1.1 100.64.0.1 198.18.0.7 fd00::1 fec0::1"),
            (Class::Private, "::ffff:10.0.0.9 ::ffff:0:10.0.0.9 64:ff9b::a00:9 2002:a00:9:: ::192.168.0.1"),
            (Class::Never, "0.0.0.0 0.1.2.3 169.254.169.254 192.0.0.1 224.0.0.1 255.255.255.255 240.0.0.1 203.0.113.1"),
            (
                Class::Never,
                ":: fe80::1 ff02::1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: ::ffff:0.0.0.0",
            ),
            (Class::Never, "64:ff9b:1::a9fe:a9fe 2001:0:4136:e378::1 2001:db8::1 100::1 ::ffff:0:169.254.169.254"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(super::class(address.parse().expect("an address")), class, "{address}");
            }
        }
    }

    #[test]
    fn spellings_of_addresses_are_addresses() {
        let reach = Reach::of_server(&Url::parse("https://mcp.example.com/").expect("a URL"), false);
        for host in [
            "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.1", "[::ffff:7f00:1]", "0", "0x0", "3232235777",
            "[::ffff:a9fe:a9fe]", "169.254.43518", "[64:ff9b::10.0.0.1]", "１２７.0.0.1", "①②⑦.0.0.1", "%31%30.0.0.1",
        ] {
            let url = Url::parse(&format!("https://{host}/token")).expect("a URL");
            assert!(!reach.allows(&url), "{host} is {url}");
        }
    }

    #[test]
    fn names_are_followed_only_to_where_they_may_lead() {
        let at = |url: &str, private| Reach::of_server(&Url::parse(url).expect("a URL"), private);
        let leads = |reach: &Reach, addresses: &[&str]| {
            let found = addresses.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), 0));
            reach.filter("auth.example.com", found).map(|taken| taken.len()).map_err(|error| error.to_string())
        };
        let public = at("https://mcp.example.com/", false);
        assert_eq!(leads(&public, &["1.1.1.1", "10.0.0.1", "::1"]), Ok(1), "the rest is left out");
        for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "fd00::1", "::ffff:192.168.0.1", "0.0.0.0"] {
            let refused = leads(&public, &[address]).expect_err("refused");
            assert!(refused.contains("address not allowed: auth.example.com, which leads to"), "{refused}");
        }
        assert_eq!(leads(&at("https://mcp.example.com/", true), &["10.0.0.1", "127.0.0.1"]), Ok(1));
        assert_eq!(leads(&at("http://127.0.0.1:8000/mcp", false), &["127.0.0.1", "10.0.0.1"]), Ok(1));
        assert_eq!(leads(&at("http://localhost/mcp", false), &["::1", "169.254.169.254"]), Ok(1));
        assert_eq!(leads(&at("https://10.1.1.1/mcp", false), &["10.0.0.1", "127.0.0.1"]), Ok(1));
        assert_eq!(leads(&Reach::configured(), &["10.0.0.1", "127.0.0.1", "fe80::1", "169.254.169.254"]), Ok(2));
    }
}

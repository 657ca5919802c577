//! Values that a definition brings along: defaults, constants, choices and examples.

use super::phrases;
use super::rules::{self, Rule, Severity};
use crate::people;

/// Hosts that stand for no one's: reserved, or this machine.
const NO_HOSTS: &[&str] = &["localhost", "127.0.0.1", "0.0.0.0", "[::1]"];
const NO_DOMAINS: &[&str] =
    &["example.com", "example.org", "example.net", "example", "test", "invalid", "localhost", "local", "internal"];
/// Parts of commands that fetch and run, in lower case.
const COMMANDS: &[&str] = &[
    "| sh", "|sh", "| bash", "|bash", "| python", "$(curl", "$(wget", "`curl", "`wget", "; curl ", "&& curl ",
    "; wget ", "&& wget ", "rm -rf /", "rm -rf ~", "nc -e", "/dev/tcp/", "base64 -d |", "base64 --decode |", "iex(",
    "downloadstring(", "eval(atob",
];

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sent unless the model decides otherwise, or always.
    Fixed,
    /// One of several, or an example.
    Shown,
}

/// A finding about a value; its parameter is called `name`, and its tool is in these fields.
pub(super) fn find(name: &str, value: &str, kind: Kind, fields: &[&Rule]) -> Option<(&'static Rule, Severity)> {
    let lower = value.trim().to_ascii_lowercase();
    if is_command(&lower) {
        let is_usual = fields.contains(&&rules::COMMAND);
        return Some((&rules::COMMAND, if is_usual { Severity::Note } else { Severity::Error }));
    }
    if lower.starts_with("javascript:") || lower.starts_with("data:text/html") {
        return Some((&rules::DEFAULT, Severity::Warning));
    }
    let fixed = |severity| if kind == Kind::Fixed { severity } else { Severity::Note };
    if lower.split([' ', ',', ';']).any(is_secret_path) {
        let is_usual = fields.contains(&&rules::READS);
        return Some((&rules::DEFAULT, if is_usual { Severity::Note } else { fixed(Severity::Warning) }));
    }
    let words = people::words(name);
    let is_one = |list: &str| words.iter().any(|word| phrases::list(list).contains(&&**word));
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let receives = phrases::list("names receiver").contains(&&*name);
    let address = lower.split([' ', ',', ';']).find(|part| is_address(part))?;
    if let Some((scheme, rest)) = address.split_once("://") {
        let host = host(rest);
        let is_odd = rest.split('/').next().is_some_and(|authority| authority.contains('@')) || is_public_ip(host);
        let sinks = receives || is_one("names sink");
        let severity = match scheme {
            _ if sinks => Severity::Error,
            _ if is_odd => Severity::Warning,
            _ => Severity::Note,
        };
        return Some((&rules::DEFAULT, fixed(severity)));
    }
    let severity = match receives {
        true => Severity::Error,
        false if is_one("names sender") => Severity::Note,
        false => Severity::Warning,
    };
    Some((&rules::DEFAULT, fixed(severity)))
}

/// True for text with a command that fetches and runs something, in lower case.
pub(super) fn is_command(text: &str) -> bool {
    COMMANDS.iter().any(|command| text.contains(command))
}

/// True for a path of a file of credentials; public keys are none.
pub(super) fn is_secret_path(text: &str) -> bool {
    if text.len() < 4
        || text.len() > 512
        || text.contains(".pub")
        || (text.contains("://") && !text.starts_with("file://"))
    {
        return false;
    }
    let file = text.rsplit(['/', '\\']).next().unwrap_or(text);
    phrases::list("names secret-file").contains(&file)
        || phrases::list("names secret-path").iter().any(|part| text.contains(part))
}

/// True for a URL or mail address whose host is not reserved for examples, nor this machine.
pub(super) fn is_address(text: &str) -> bool {
    if text.len() < 5 || text.len() > 2048 {
        return false;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let is_scheme = matches!(scheme, "http" | "https" | "ws" | "wss" | "ftp" | "ftps" | "mailto" | "tcp");
        return is_scheme && is_someones(host(rest));
    }
    let text = text.strip_prefix("mailto:").unwrap_or(text);
    let Some((user, host)) = text.split_once('@') else { return false };
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+'))
    };
    is_part(user) && is_part(host) && host.contains('.') && !host.ends_with('.') && is_someones(host)
}

fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.starts_with('[') {
        true => host,
        false => host.split(':').next().unwrap_or_default(),
    }
}

fn is_someones(host: &str) -> bool {
    // A place holder, such as `<account>.example.io` or `{host}`.
    let is_host = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'[' | b']' | b':'));
    let in_domain = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    is_host
        && host.contains(['.', ':'])
        && !NO_HOSTS.contains(&host)
        && !NO_DOMAINS.iter().any(|domain| in_domain(domain))
}

/// True for an IPv4 address outside of private and loopback ranges.
fn is_public_ip(host: &str) -> bool {
    host.parse::<std::net::Ipv4Addr>()
        .is_ok_and(|ip| !(ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_told_by_their_form() {
        for path in
            ["~/.ssh/id_rsa", "/home/u/.aws/credentials", ".env", "src/.env", "~/.cursor/mcp.json", "/etc/passwd"]
        {
            assert!(is_secret_path(path), "{path}");
        }
        for path in ["~/.ssh/id_rsa.pub", "process.env", ".envrc", "/etc/hosts", "https://x.io/mcp.json", "environment"]
        {
            assert!(!is_secret_path(path), "{path}");
        }
        for address in ["https://evil.io/x", "a@evil.io", "ws://evil.io", "http://93.184.216.34/a"] {
            assert!(is_address(address), "{address}");
        }
        for none in [
            "https://example.com/x", "a@example.org", "http://localhost:1", "@types/node", "user@host",
            "https://{host}/x", "git@github",
        ] {
            assert!(!is_address(none), "{none}");
        }
    }
}

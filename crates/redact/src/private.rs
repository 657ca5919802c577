//! Data about the gateway itself: its paths, hosts of its network, and stack frames.

use std::path::Path;
use std::sync::LazyLock;

use parking_lot::RwLock;
use regex::Regex;

use super::scan::{Found, rank};
use crate::secret;
use base::limits;

/// Paths and hosts of this gateway, with their replacements.
static OWN: RwLock<Vec<(String, &'static str)>> = RwLock::new(Vec::new());

/// Lists a private file or folder, such as the configuration or the cache.
pub fn list_path(path: &Path) {
    // Short paths such as `/tmp` are not private.
    if path.is_absolute() && path.components().count() > 2 {
        list(&path.to_string_lossy(), "path");
    }
}

/// Lists the host of a configured server, unless it is on the open Internet, where it is no secret, or this machine.
pub fn list_host(host: &str) {
    let is_name = !host.contains('.') && host != "localhost" && !host.contains(':');
    if is_name && host.len() > 5 || NETWORK.iter().any(|pattern| pattern.is_match(host)) {
        list(host, "host");
    }
}

fn list(text: &str, label: &'static str) {
    let mut own = OWN.write();
    if own.iter().any(|(listed, _)| listed == text) {
        return;
    }
    match own.len() < limits::PLACES.max {
        true => own.push((text.to_owned(), label)),
        false => secret::leave_out(),
    }
}

/// Finds listed paths and hosts.
pub(super) fn own(text: &str, found: &mut Vec<Found>) {
    for (listed, label) in OWN.read().iter() {
        let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        for (from, _) in text.match_indices(&**listed) {
            let to = from + listed.len();
            // A listed file is not the prefix of another's name.
            if !is_part(text.as_bytes().get(to)) && !is_part(text.as_bytes()[..from].last()) {
                found.push(Found { from, to, label, rank: rank::PRIVATE });
            }
        }
    }
}

static NETWORK: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // RFC 1918, RFC 3927, RFC 4193 and RFC 4291 addresses, and names that only a private network resolves.
    let hosts = [
        r"(?-u:\b)(?:10\.[0-9]{1,3}|172\.(?:1[6-9]|2[0-9]|3[01])|192\.168|169\.254)\.[0-9]{1,3}\.[0-9]{1,3}(?-u:\b)",
        r"(?-u:\b)(?:[fF][cCdD][0-9A-Fa-f]{2}|[fF][eE]80):(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{1,4}",
        r"(?-u:\b)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,6}(?:svc\.cluster\.local|internal|intranet|corp|lan|localdomain|home\.arpa)(?-u:\b)",
    ];
    hosts.into_iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// Finds hosts of private networks, and the operator's home folder.
pub(super) fn network(text: &str, found: &mut Vec<Found>) {
    let private = |from, to, label| Found { from, to, label, rank: rank::PRIVATE };
    for pattern in NETWORK.iter() {
        found.extend(pattern.find_iter(text).map(|m| private(m.start(), m.end(), "host")));
    }
    if let Some(home) = HOME.as_deref() {
        let places = text.match_indices(home);
        found.extend(places.map(|(from, _)| private(from, from + home.len(), "home")));
    }
}

static HOME: LazyLock<Option<String>> = LazyLock::new(|| {
    let home = std::env::home_dir()?.to_string_lossy().into_owned();
    (home.len() > 5).then_some(home)
});

static FRAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // One line each of Node and the JVM, of Python (with its source line), of Rust and of Go. An error quotes lines of
    // stderr joined by ` | `.
    let node = r"at [^\n|]{1,300}(?::[0-9]{1,7}(?::[0-9]{1,7})?\)?|\(native\)|\((?:Unknown Source|Native Method)\))";
    let python = r#"(?:Traceback \(most recent call last\):|File "[^"\n]{1,300}", line [0-9]{1,7}(?:, in [^\n|]{1,120})?(?:\n {4,}[^\n|]{0,300})*)"#;
    let go = r"(?:goroutine [0-9]{1,9} \[[^\]\n]{1,60}\]:|/[^\s|]{1,300}\.go:[0-9]{1,7} \+0x[0-9a-f]{1,16})";
    Regex::new(&format!(r"(?:(?:^|\n|\| )[ \t]*(?:{node}|{python}|{go})[ \t]*)+")).ok()
});

/// Finds stack frames; consecutive ones count as one.
pub(super) fn traces(text: &str, found: &mut Vec<Found>) {
    let Some(frames) = FRAMES.as_ref() else { return };
    for m in frames.find_iter(text) {
        let from = m.start() + m.as_str().len() - m.as_str().trim_start_matches(['\n', '|', ' ', '\t']).len();
        found.push(Found { from, to: m.end(), label: "stack-trace", rank: rank::PRIVATE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_compile() {
        assert_eq!((NETWORK.len(), FRAMES.is_some()), (3, true));
    }
}

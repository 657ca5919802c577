//! Finds credentials in imported values, and decides how to write them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::hidden::{Span, has_secret, in_text, is_plausible, is_random, merged};
use super::references::variable_name;
use super::spelling::Known;
use crate::{Env, INHERITED};
use redact::sounds_secret;

/// Handling of credentials in a host's file.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// The environment of this process, and the files of variables of the configuration.
    pub env: Env<'a>,
    /// The environment of this process alone: references of hosts mean no other.
    pub real: Env<'a>,
    /// Variables that servers refer to: none of them gets the credential of another server.
    pub referred: &'a BTreeSet<String>,
    /// Write references in their place. Otherwise they are copied, so that the servers work at once.
    pub leave_out: bool,
    /// Variables with the credentials that are left out, if they are kept in a file.
    pub kept: Option<&'a RefCell<BTreeMap<String, String>>>,
    /// Credentials found in any value, to find them in all others.
    pub known: &'a Known,
}

impl Credentials<'_> {
    /// The value of a variable, if it is set, or kept.
    pub(super) fn env(&self, name: &str) -> Option<String> {
        (self.env)(name).or_else(|| self.kept?.borrow().get(name).cloned())
    }

    /// Keeps the value of a variable, unless that has one.
    pub(super) fn keep(&self, name: &str, value: &str) {
        if let Some(kept) = self.kept.filter(|_| self.env(name).is_none()) {
            kept.borrow_mut().insert(name.to_owned(), value.to_owned());
        }
    }

    /// True if a variable without a value is that of other servers' references.
    pub(super) fn is_referred(&self, name: &str) -> bool {
        self.referred.contains(name) && self.env(name).is_none()
    }

    /// True if a variable is not what an editor asks for under its name: a server inherits it, a file has it for another
    /// server, or it is set and no credential.
    pub(super) fn is_other(&self, name: &str) -> bool {
        let is_in_file = || (self.env)(name).is_some();
        INHERITED.contains(&name) || (self.real)(name).map_or_else(is_in_file, |_| !sounds_secret(name))
    }

    /// Variable to refer to in place of a credential; `None` to copy it.
    pub(super) fn reference(&self, server: &str, part: &Part) -> Option<String> {
        let own = variable_name(&part.name);
        // A variable of the same name with the same value is the one the user means.
        if self.env(&own).is_some_and(|value| value == part.value) {
            return Some(own);
        }
        if !self.leave_out {
            return None;
        }
        Some(if part.is_variable && !self.is_referred(&own) {
            own
        } else {
            variable_name(&format!("{server}_{}", part.name))
        })
    }
}

/// Position of a credential in a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// First byte.
    pub(super) start: usize,
    /// Byte after the last.
    pub(super) end: usize,
    /// The credential.
    pub(super) value: String,
    /// Name of the credential.
    name: String,
    /// True if the name is that of an environment variable.
    is_variable: bool,
}

/// The parts of `text` at the spans.
fn parts(text: &str, spans: Vec<Span>) -> Vec<Part> {
    let part = |(start, end, name): Span| {
        let value = text.get(start..end)?.to_owned();
        (!value.is_empty()).then_some(Part { start, end, value, name, is_variable: false })
    };
    merged(spans).into_iter().filter_map(part).collect()
}

/// A value that is a credential as a whole.
pub(super) fn whole(name: &str, value: &str) -> Vec<Part> {
    parts(value, vec![(0, value.len(), name.to_owned())])
}

/// Finds credentials in a value of unknown meaning.
pub(super) fn in_value(value: &str) -> Vec<Part> {
    parts(value, in_text(value))
}

/// Finds other values' credentials in this one.
pub(super) fn repeated(value: &str, known: &Known) -> Vec<Part> {
    parts(value, known.places(value))
}

/// Finds credentials in a variable of the server's environment.
pub(super) fn in_variable(name: &str, value: &str) -> Vec<Part> {
    let parts = if has_secret(name, value) { whole(name, value) } else { Vec::new() };
    parts.into_iter().map(|part| Part { is_variable: true, ..part }).collect()
}

/// Finds the credential in a header, without its scheme.
pub(super) fn in_header(name: &str, value: &str) -> Vec<Part> {
    parts(value, header(name, value))
}

fn header(name: &str, value: &str) -> Vec<Span> {
    let start = value.find(' ').map_or(0, |space| space + 1);
    if name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("proxy-authorization") {
        return vec![(start, value.len(), "TOKEN".to_owned())];
    }
    if has_secret(name, value) { vec![(0, value.len(), name.to_owned())] } else { Vec::new() }
}

/// Options whose value is a header, a variable, or a user with a password.
const HEADERS: &[&str] = &["-H", "-h", "--header", "--headers", "--http-header"];
const VARIABLES: &[&str] = &["-e", "--env", "--env-var", "--set-env", "-E"];
const USERS: &[&str] = &["-u", "--user", "--proxy-user", "-U", "--basic-auth", "--login"];
/// Options whose value names a place or an object, not a credential.
const PLACES: &[&str] = &["ID", "REF", "PROJECT", "ORG", "FILE", "PATH", "DIR", "IMAGE", "COMMIT", "SHA", "DIGEST"];

/// Finds credentials in an argument: by its own option or the option before it, by names in it, and by form.
pub(super) fn in_argument(previous: Option<&str>, argument: &str) -> Vec<Part> {
    let mut spans = in_text(argument);
    let (option, at) = match argument.split_once('=') {
        Some((name, value)) if name.starts_with('-') => (Some(name), argument.len() - value.len()),
        _ if argument.starts_with("-H") || argument.starts_with("-e") => (argument.get(..2), 2),
        _ if argument.starts_with('-') && !is_random(argument) => (None, 0),
        _ => (previous.filter(|name| name.starts_with('-') && !name.contains('=')), 0),
    };
    let value = argument.get(at..).unwrap_or_default();
    let own = match option {
        Some(option) => of_option(option, value),
        None if argument.starts_with('-') => attached(argument),
        None => Vec::new(),
    };
    spans.extend(own.into_iter().map(|(start, end, name)| (start + at, end + at, name)));
    // `NAME=value` as for `env`, with its value to the very end, unless it is a line for a shell.
    let is_line = previous.is_some_and(|previous| previous.starts_with('-') && previous.ends_with('c'));
    if let Some((name, value)) = argument.split_once('=').filter(|_| !is_line)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && sounds_secret(name)
        && is_plausible(name, value)
    {
        spans.push((argument.len() - value.len(), argument.len(), name.trim_start_matches('-').to_owned()));
    }
    let is_place = option.is_some_and(|option| {
        let option = option.to_ascii_uppercase();
        option.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| PLACES.contains(&word))
    });
    if spans.is_empty() && !is_place && is_random(value) {
        spans.push((at, argument.len(), option.map_or("TOKEN", |option| option.trim_start_matches('-')).to_owned()));
    }
    parts(argument, spans)
}

/// Finds credentials in the value of an option.
fn of_option(option: &str, value: &str) -> Vec<Span> {
    let whole = |name: &str| vec![(0, value.len(), name.to_owned())];
    let split = |by: char| {
        let (name, rest) = value.split_once(by)?;
        let rest = rest.trim_start();
        Some((name.trim(), rest, value.len() - rest.len()))
    };
    let shifted = |spans: Vec<Span>, by: usize| spans.into_iter().map(|(a, b, name)| (a + by, b + by, name)).collect();
    if HEADERS.contains(&option)
        && let Some((name, rest, at)) = split(':').or_else(|| split('='))
    {
        return shifted(header(name, rest), at);
    }
    if VARIABLES.contains(&option)
        && let Some((name, rest, at)) = split('=')
    {
        let spans = in_variable(name, rest).into_iter().map(|part| (part.start, part.end, part.name)).collect();
        return shifted(spans, at);
    }
    if USERS.contains(&option)
        && let Some((_, rest, at)) = split(':')
    {
        return if rest.is_empty() { Vec::new() } else { vec![(at, value.len(), "PASSWORD".to_owned())] };
    }
    if sounds_secret(option) && is_plausible(option, value) {
        return whole(option.trim_start_matches('-'));
    }
    match option {
        "-p" | "-P" | "-k" | "-t" | "-a" if is_password(value) => whole("PASSWORD"),
        _ => Vec::new(),
    }
}

/// A password directly behind a short option, as for `mysql`.
fn attached(argument: &str) -> Vec<Span> {
    match argument.strip_prefix("-p") {
        Some(value) if is_password(value) => vec![(2, argument.len(), "PASSWORD".to_owned())],
        _ => Vec::new(),
    }
}

/// True if a text looks like a password: one word of several kinds of characters.
fn is_password(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let special =
        has(|byte| matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'~' | b'+'));
    let letter = has(u8::is_ascii_alphabetic);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    (6..=128).contains(&text.len()) && letter && (special || mixed) && !text.contains([':', '/', ' ', '='])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parts: Vec<Part>) -> Vec<(String, String)> {
        parts.into_iter().map(|part| (part.name, part.value)).collect()
    }

    fn pair(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn credentials_are_found_in_every_place() {
        assert_eq!(found(in_variable("GITHUB_TOKEN", "x")), pair("GITHUB_TOKEN", "x"));
        let token = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";
        assert_eq!(found(in_variable("PLAIN", token)), pair("PLAIN", token));
        assert_eq!(found(in_variable("DB", "postgres://u:p@h/d")), pair("DB", "postgres://u:p@h/d"));
        assert_eq!(found(in_header("Authorization", "Bearer abc")), pair("TOKEN", "abc"));
        assert_eq!(found(in_header("X-Api-Key", "abc")), pair("X-Api-Key", "abc"));
        assert_eq!(found(in_argument(None, "--api-key=abc")), pair("api-key", "abc"));
        assert_eq!(found(in_argument(Some("--token"), "abc")), pair("token", "abc"));
        assert_eq!(found(in_argument(Some("--header"), "Authorization: Bearer abc")), pair("TOKEN", "abc"));
        assert_eq!(found(in_value("https://h/p?a=1&apiKey=abc&b=2")), pair("apiKey", "abc"));
    }

    #[test]
    fn plain_values_are_left_alone() {
        for plain in [
            in_variable("LOG_LEVEL", "debug"),
            in_variable("MAX_TOKENS", "4096"),
            in_header("X-Readonly", "true"),
            in_argument(None, "--verbose"),
            in_argument(Some("-y"), "server"),
            in_argument(Some("-y"), "@modelcontextprotocol/server-github@2025.11.18"),
            in_argument(Some("--header"), "X-Readonly: true"),
            in_argument(Some("--use-auth"), "--verbose"),
            in_argument(Some("-p"), "8080:80"),
            in_argument(Some("-i"), "ghcr.io/github/github-token-server:latest"),
            in_argument(Some("--project-ref"), "abcdefgh1jklmnopqrs2"),
            in_argument(None, "/home/me/.config/tokens/server-2024-11-05.json"),
            in_argument(None, "/usr/bin/3f9a1c7e-key/8d2b5f60"),
            in_argument(Some("-m"), "mcp_server_fetch"),
            in_value("https://h/p?page=2"),
            in_value("https://mcp.example.com/v1/servers/github-issues/mcp"),
            in_value("Searches issues; needs a token: see the manual"),
            in_variable("TOKEN", ""),
        ] {
            assert!(plain.is_empty(), "{plain:?}");
        }
    }

    /// Arguments with credentials, each with the argument before it; `@` stands for the credential.
    const WAYS: &[(&str, &str)] = &[
        ("--token", "@"),
        ("--api-key", "@"),
        ("-e", "API_KEY=@"),
        ("--env", "DB_PASSWORD=@"),
        ("--header", "Authorization: Bearer @"),
        ("-H", "X-Api-Key: @"),
        ("--header", "Cookie: @"),
        ("-u", "admin:@"),
        ("", "--token=@"),
        ("", "--env=MY_SECRET=@"),
        ("", "--header=Authorization: Bearer @"),
        ("", "ACCESS_TOKEN=@"),
        ("", "{\"apiKey\":\"@\"}"),
        ("--config", "{\"auth\": {\"password\": \"@\", \"level\": 3}}"),
        ("", "[{\"name\": \"API_KEY\", \"value\": \"@\"}]"),
        ("", "postgres://admin:@@db.example.com/app"),
        ("", "https://example.com/mcp?api_key=@&x=1"),
        ("", "https://example.com/mcp?x=1#access_token=@"),
        ("", "Server=db;User Id=sa;Password=@;Encrypt=True"),
        ("", "host=db password=@ dbname=x"),
        ("", "cache:6380,password=@,ssl=True"),
        ("-c", "MY_TOKEN=@ exec server"),
        ("-c", "server --password '@' --verbose"),
        ("-c", "curl -H \"Authorization: Bearer @\" https://example.com"),
        ("", "--//registry.example.com/:_authToken=@"),
    ];

    #[test]
    fn a_credential_is_found_whatever_it_looks_like_and_however_it_is_carried() {
        let credentials = [
            "plain-words-only",
            "hunter2",
            "correcthorsebatterystaple",
            "0123456789",
            "ghp_a0B1c2D3e4F5g6H7i8J9k0L1m2N3o4P5q6R7",
            "a1b2c3d4e5f60718293a4b5c6d7e8f90",
            "4f3c2b1a-9d8e-4c7b-a6f5-0e1d2c3b4a59",
            "YWRtaW46aHVudGVyMg==",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg",
            "s3cr3t!",
            "Tr0ub4dor.3",
        ];
        let mut left = Vec::new();
        for (previous, way) in WAYS {
            for credential in credentials {
                let at = way.find('@').expect("a place");
                let argument = format!("{}{credential}{}", &way[..at], &way[at + 1..]);
                let parts = in_argument(Some(previous).filter(|previous| !previous.is_empty()).copied(), &argument);
                let is_covered = parts.iter().any(|part| part.start <= at && at + credential.len() <= part.end);
                if !is_covered {
                    left.push(format!("{previous} {argument}: {parts:?}"));
                }
            }
        }
        assert!(left.is_empty(), "{} of {}:\n{}", left.len(), WAYS.len() * credentials.len(), left.join("\n"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_looked_at(
            previous in "(-[a-zA-Z]|--[a-z]{2,8}|)",
            text in "(token|key=|password|[:=@/?&#\"'\\\\ {}\\[\\]é🦀%-]|://|Bearer |[a-zA-Z0-9]{1,24}){0,24}",
        ) {
            for part in in_argument(Some(&previous), &text).into_iter().chain(in_variable(&previous, &text)) {
                proptest::prop_assert_eq!(&text[part.start..part.end], &part.value);
            }
        }
    }
}

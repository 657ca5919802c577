//! Which parts of imported values are credentials, and what becomes of them.

use super::references::variable_name;
use crate::config::{Env, sounds_secret};

/// What to do with credentials that stand in a host's file.
#[derive(Clone, Copy)]
pub(super) struct Credentials<'a> {
    /// The environment of this process.
    pub(super) env: Env<'a>,
    /// Write references in their place. Else they are copied, so that the servers work at once.
    pub(super) leave_out: bool,
}

impl Credentials<'_> {
    /// The value of a variable, if it is set.
    pub(super) fn env(&self, name: &str) -> Option<String> {
        (self.env)(name)
    }

    /// The variable to refer to in place of a credential; `None` to copy it.
    pub(super) fn reference(&self, server: &str, part: &Part) -> Option<String> {
        let own = variable_name(&part.name);
        // A variable of the same name that holds the very value is what the user means.
        if self.env(&own).is_some_and(|value| value == part.value) {
            return Some(own);
        }
        if !self.leave_out {
            return None;
        }
        Some(if part.is_variable { own } else { variable_name(&format!("{server}_{}", part.name)) })
    }
}

/// Where in a value a credential is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// First byte.
    pub(super) start: usize,
    /// Byte after the last.
    pub(super) end: usize,
    /// The credential itself.
    value: String,
    /// What it is called.
    name: String,
    /// The name is that of an environment variable.
    is_variable: bool,
}

impl Part {
    fn of(whole: &str, start: usize, end: usize, name: &str) -> Option<Self> {
        let value = whole.get(start..end)?.to_owned();
        (!value.is_empty()).then(|| Self { start, end, value, name: name.to_owned(), is_variable: false })
    }
}

/// A value that is a credential as a whole.
pub(super) fn whole(name: &str, value: &str) -> Option<Part> {
    Part::of(value, 0, value.len(), name)
}

/// A variable of the server's environment.
pub(super) fn in_variable(name: &str, value: &str) -> Option<Part> {
    let has_password = || url::Url::parse(value).is_ok_and(|url| url.password().is_some());
    let secret = sounds_secret(name) || looks_like_token(value) || has_password();
    whole(name, value).filter(|_| secret).map(|part| Part { is_variable: true, ..part })
}

/// A header, without its scheme.
pub(super) fn in_header(name: &str, value: &str) -> Option<Part> {
    let start = value.find(' ').map_or(0, |space| space + 1);
    if name.eq_ignore_ascii_case("authorization") {
        return Part::of(value, start, value.len(), "TOKEN");
    }
    let secret = sounds_secret(name) || looks_like_token(&value[start..]);
    whole(name, value).filter(|_| secret)
}

/// An argument: `--token=…`, what follows `--token`, `--header` with a credential in it, or a token by its look.
pub(super) fn in_argument(previous: Option<&str>, argument: &str) -> Option<Part> {
    let option = |text: &str| text.trim_start_matches('-').to_owned();
    if let Some((name, value)) = argument.split_once('=')
        && name.starts_with('-')
        && sounds_secret(name)
    {
        return Part::of(argument, argument.len() - value.len(), argument.len(), &option(name));
    }
    let previous = previous.filter(|name| name.starts_with('-') && !name.contains('='));
    if matches!(previous, Some("--header" | "-H" | "-h"))
        && let Some((name, value)) = argument.split_once(':')
    {
        let value = value.trim_start();
        let part = in_header(name.trim(), value)?;
        let shift = argument.len() - value.len();
        return Some(Part { start: part.start + shift, end: part.end + shift, ..part });
    }
    match previous {
        Some(name) if sounds_secret(name) => whole(&option(name), argument),
        _ => whole("TOKEN", argument).filter(|_| looks_like_token(argument)),
    }
}

/// The first credential in the query of a URL.
pub(super) fn in_url(url: &str) -> Option<Part> {
    let query = url.find('?')? + 1;
    let mut start = query;
    for pair in url[query..].split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && sounds_secret(name)
        {
            let end = start + pair.len();
            return Part::of(url, end - value.len(), end, name);
        }
        start += pair.len() + 1;
    }
    None
}

/// Beginnings that issuers give to their tokens, so that leaks can be found.
const PREFIXES: &[&str] = &[
    "AIza",
    "AKIA",
    "dop_v1_",
    "eyJ",
    "figd_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "hf_",
    "lin_api_",
    "ntn_",
    "npm_",
    "rk_live_",
    "sbp_",
    "sk-",
    "sk_live_",
    "xoxb-",
    "xoxp-",
];

fn looks_like_token(value: &str) -> bool {
    value.len() >= 16 && PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(part: Option<Part>) -> Option<(String, String)> {
        part.map(|part| (part.name, part.value))
    }

    fn pair(name: &str, value: &str) -> Option<(String, String)> {
        Some((name.to_owned(), value.to_owned()))
    }

    #[test]
    fn credentials_are_found_in_every_place() {
        assert_eq!(found(in_variable("GITHUB_TOKEN", "x")), pair("GITHUB_TOKEN", "x"));
        assert_eq!(found(in_variable("PLAIN", "ghp_0123456789abcdef")), pair("PLAIN", "ghp_0123456789abcdef"));
        assert_eq!(found(in_variable("DB", "postgres://u:p@h/d")), pair("DB", "postgres://u:p@h/d"));
        assert_eq!(found(in_header("Authorization", "Bearer abc")), pair("TOKEN", "abc"));
        assert_eq!(found(in_header("X-Api-Key", "abc")), pair("X-Api-Key", "abc"));
        assert_eq!(found(in_argument(None, "--api-key=abc")), pair("api-key", "abc"));
        assert_eq!(found(in_argument(Some("--token"), "abc")), pair("token", "abc"));
        assert_eq!(found(in_argument(Some("--header"), "Authorization: Bearer abc")), pair("TOKEN", "abc"));
        assert_eq!(found(in_url("https://h/p?a=1&apiKey=abc&b=2")), pair("apiKey", "abc"));
    }

    #[test]
    fn plain_values_are_left_alone() {
        let parts = [
            in_variable("LOG_LEVEL", "debug"),
            in_header("X-Readonly", "true"),
            in_argument(None, "--verbose"),
            in_argument(Some("-y"), "server"),
            in_argument(Some("--header"), "X-Readonly: true"),
            in_url("https://h/p?page=2"),
            in_variable("TOKEN", ""),
        ];
        assert!(parts.iter().all(Option::is_none), "{parts:?}");
    }
}

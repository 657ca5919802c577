//! Values that are secret because of their name: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…</secret>`.

use super::names::label;
use super::scan::{Found, rank, run, run_before, spent};
use super::vendors::{alnum, word};
use super::{placeholder, token};

/// Longest name, and longest value.
const NAME: usize = 64;
const VALUE: usize = 4096;

/// True if a value under a secret name is a secret, and not a type, a reference, a path or a sentence.
pub(super) fn is_secret(value: &str, label: &str, is_quoted: bool) -> bool {
    let least = if label == "password" { 6 } else { 10 };
    spent(value.len().min(VALUE + 1));
    if !(least..=VALUE).contains(&value.len()) || value.contains(char::is_whitespace) || is_reference(value) {
        return false;
    }
    if placeholder::is_in(value)
        || (!is_quoted && value.contains(['(', '{', '[']))
        || super::names::label(value).is_some()
    {
        return false;
    }
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let (letters, digits) = (has(u8::is_ascii_alphabetic), has(u8::is_ascii_digit));
    if label == "password" {
        let special =
            has(|byte| matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'~' | b'+'));
        return digits || (letters && special) || !value.is_ascii() || is_mixed(value);
    }
    let mut kinds: Vec<u8> = value.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    letters && digits && kinds.len() >= 6 && !is_slug(value)
}

/// True for letters that change between upper and lower case more often than words do.
fn is_mixed(value: &str) -> bool {
    let changes =
        value.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase());
    value.len() >= 8 && value.bytes().all(|byte| byte.is_ascii_alphabetic()) && changes.count() * 3 >= value.len()
}

/// True for addresses, paths, dates and names of variables, which refer to a secret without showing it.
fn is_reference(value: &str) -> bool {
    const STARTS: &[&str] = &[
        "http://", "https://", "arn:", "projects/", "file:", "vault:", "op://", "ref:", "env:", "ssh-", "pk_", "./",
        "../", "~/", "@", "$", "#", "[redacted", "-----BEGIN", "sha256:", "urn:", "data:",
    ];
    let is_path = value.starts_with('/') && value[1..].contains('/') && !value.ends_with('=');
    let is_constant = value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && value.contains('_');
    let is_date = value.len() >= 8
        && value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'T' | b'Z' | b'.' | b'+'))
        && value.contains('-');
    STARTS.iter().any(|start| value.starts_with(start)) || is_path || is_constant || is_date
}

/// True for `my-app-secret-v2`: words and numbers, as in names of resources.
pub(super) fn is_slug(value: &str) -> bool {
    let mut parts = value.split(['-', '_', '.', '/', ':']).peekable();
    let is_word = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let same_case = letters.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
        part.len() <= 18 && digits <= 4 && same_case && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    parts.all(is_word)
}

/// Finds a field whose name has an anchor at `anchor`.
pub(super) fn field(text: &str, anchor: usize) -> (Option<Found>, usize) {
    let from = anchor - run_before(text, anchor, NAME, word);
    let to = anchor + run(text, anchor, NAME, word);
    // `arn:…:secret:name` is a name itself.
    if text[..from].ends_with(':') {
        return (None, to);
    }
    // So is `<<TOKEN:…>>`, a placeholder.
    if let Some(place) = from.checked_sub(2).and_then(|start| token::place(text, start)) {
        return (None, place.to);
    }
    let name = text[from..to].trim_start_matches('-');
    let Some(label) = label(name).or_else(|| name.strip_suffix(['s', 'S']).and_then(label)) else { return (None, to) };
    let Some((at, quote)) = value_at(text, from, to) else { return (None, to) };
    if quote.is_none() && text[at..].starts_with('[') {
        return list(text, at + 1, label);
    }
    if super::names::label(name).is_none() {
        return (None, to);
    }
    let length = extent(text, at, quote);
    let value = &text[at..at + length];
    let value = if quote.is_some() { value } else { value.trim_end_matches(['.', ':']) };
    let found = Found { from: at, to: at + value.len(), label, rank: rank::NAMED };
    (is_secret(value, label, quote.is_some()).then_some(found), at + length)
}

/// Finds a list of quoted values: from its first secret to its last.
fn list(text: &str, from: usize, label: &'static str) -> (Option<Found>, usize) {
    let (mut at, mut depth, mut found) = (from, 1, None::<Found>);
    while depth > 0 && at < from + VALUE {
        at += run(text, at, VALUE, |byte| !matches!(byte, b'[' | b']' | b'{' | b'}' | b'"' | b'\''));
        match text.as_bytes().get(at) {
            Some(b'[') => depth += 1,
            Some(b']') => depth -= 1,
            Some(quote @ (b'"' | b'\'')) => {
                let to = at + 1 + extent(text, at + 1, Some(*quote));
                let value = &text[at + 1..to];
                if is_secret(value, label, true) && (label == "password" || value.len() >= 16) {
                    let first = found.map_or(at + 1, |found| found.from);
                    found = Some(Found { from: first, to, label, rank: rank::NAMED });
                }
                at = to + run(text, to, 8, |byte| byte == b'\\');
            }
            // An object has names of its own.
            _ => break,
        }
        at += 1;
    }
    (found, at.min(text.len()))
}

/// Length of the value at `at`, which may be quoted.
pub(super) fn extent(text: &str, at: usize, quote: Option<u8>) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    let end = quote.and_then(|quote| rest.iter().take(VALUE).position(|&byte| byte == quote || byte == b'\n'));
    spent(end.unwrap_or(if quote.is_some() { rest.len().min(VALUE) } else { 0 }));
    match end {
        Some(end) => end - run_before(&text[at..], end, end, |byte| byte == b'\\'),
        None => bare(text, at),
    }
}

fn bare(text: &str, at: usize) -> usize {
    let is_part = |byte: u8| {
        !byte.is_ascii_whitespace()
            && !matches!(
                byte,
                b',' | b';' | b'&' | b'"' | b'\'' | b'`' | b'<' | b'>' | b')' | b'}' | b']' | b'|' | b'\\'
            )
    };
    let mut length = run(text, at, VALUE, is_part);
    while !text.is_char_boundary(at + length) {
        length -= 1;
    }
    length
}

/// Start of a name's value, and its quote.
pub(super) fn value_at(text: &str, name: usize, end: usize) -> Option<(usize, Option<u8>)> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(b'\n');
    let spaces = |at: usize| at + run(text, at, 4, |byte| matches!(byte, b' ' | b'\t'));
    let slashes = |at: usize| at + run(text, at, 8, |byte| byte == b'\\');
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'`');
    let mut at = end;
    let quoted = slashes(at);
    if is_quote(byte(quoted)) {
        at = quoted + 1;
    }
    let is_option = text[name..].starts_with("--") && byte(at) == b' ';
    // The next item of a list of arguments.
    if text[name..].starts_with("--") && at > end && byte(at) == b',' {
        let open = slashes(spaces(at + 1));
        return is_quote(byte(open)).then(|| (open + 1, Some(byte(open))));
    }
    at = spaces(at);
    at = match (byte(at), byte(at + 1)) {
        (b'=' | b':', b'>' | b'=') if byte(at) != b'=' || byte(at + 1) != b'=' => at + 2,
        (b'=', b'=') => return None,
        (b'=' | b':', _) => at + 1,
        (b'>', _) if name > 0 && byte(name - 1) == b'<' => at + 1,
        (b'%', b'3') if byte(at + 2).eq_ignore_ascii_case(&b'd') => at + 3,
        _ if is_option || (quoted == end && is_told(text, name, end, at)) => at,
        _ => return None,
    };
    at = spaces(at);
    at = block(text, at).unwrap_or(at);
    // Rust's debug form in logs.
    at += ["String(", "Some("].iter().find(|wrap| text[at..].starts_with(**wrap)).map_or(0, |wrap| wrap.len());
    let open = slashes(at);
    match byte(open) {
        quote if is_quote(quote) => Some((open + 1, Some(quote))),
        next if alnum(next) || !matches!(next, b'\n' | b'\r' | b',' | b';' | b')' | b'}' | b']') => Some((at, None)),
        _ => None,
    }
}

/// The first line of a YAML block, whose `|` or `>` is at `at`.
fn block(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(['|', '>'])?;
    let line = rest.trim_start_matches(['-', '+']).strip_prefix('\n')?;
    let indent = run(line, 0, 32, |byte| byte == b' ');
    (indent > 0).then(|| text.len() - line.len() + indent)
}

/// True if a password follows its name without a sign between them: SQL's `PASSWORD 'x'`, `login x password y` of
/// .netrc.
fn is_told(text: &str, name: usize, end: usize, at: usize) -> bool {
    let before = text.as_bytes().get(name.saturating_sub(64)..name).unwrap_or_default();
    let is_login = || before.windows(6).any(|word| word == b"login ");
    at > end && text[name..end].eq_ignore_ascii_case("password") && (text[at..].starts_with('\'') || is_login())
}

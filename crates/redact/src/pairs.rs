//! Secrets with their name beside them: `name: DB_PASSWORD` and `value: …` in either order, cookies, `Authorization`,
//! and SQL statements.

use super::named::{self, extent, value_at};
use super::names;
use super::scan::{Found, rank, run, run_before, spent};
use super::vendors::{alnum, base64, dotted, is_random, word};

/// Bytes before and after a value in which its name is searched.
const NEAR: usize = 160;
/// Longest header.
const HEADER: usize = 4096;

/// Fields that hold the name of `value`.
const NAMES: &[&str] =
    &["name", "key", "field", "header", "variable", "parameter", "param", "option", "property", "id"];

/// True if a field of this name holds the name of another, and is not a plain name (`hostname`, `api_key`).
pub(super) fn is_name(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    let field = field.trim_start_matches("parameter").trim_start_matches("env").trim_start_matches('_');
    NAMES.contains(&field) || field == "var"
}

/// True if a field of this name holds the value of another one.
pub(super) fn is_value(field: &str) -> bool {
    let field = field.to_ascii_lowercase().replace('_', "");
    let fields = ["value", "val", "stringvalue", "secretvalue", "parametervalue", "values", "plaintext"];
    fields.contains(&&*field)
}

/// Finds the `value` of a pair around the anchor.
pub(super) fn value(text: &str, anchor: usize) -> (Option<Found>, usize) {
    let from = anchor - run_before(text, anchor, 32, word);
    let to = anchor + run(text, anchor, 32, word);
    if !is_value(text[from..to].trim_start_matches('-')) {
        return (None, to);
    }
    let Some((at, quote)) = value_at(text, from, to) else { return (None, to) };
    let end = at + extent(text, at, quote);
    let value = &text[at..end];
    // A value that is a secret under no name needs no search around it.
    let fits = |label| named::is_secret(value, label, quote.is_some());
    if !fits("password") && !fits("secret") {
        return (None, end);
    }
    let label = name_before(text, from).or_else(|| name_after(text, end)).filter(|label| fits(label));
    (label.map(|label| Found { from: at, to: end, label, rank: rank::NAMED }), end)
}

/// End of the object, element or item that contains a field.
fn is_end(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b'<' | b'>')
}

fn name_before(text: &str, to: usize) -> Option<&'static str> {
    let length = run_before(text, to, NEAR, |byte| !is_end(byte));
    let mut from = to - length;
    // An item of a YAML list.
    if let Some(item) = text.as_bytes()[from..to].windows(2).rposition(|two| two == b"- ") {
        from += item;
    }
    name_in(text, from, to)
}

fn name_after(text: &str, from: usize) -> Option<&'static str> {
    let length = run(text, from, NEAR, |byte| !is_end(byte));
    let near = &text.as_bytes()[from..from + length];
    let item = near.windows(2).position(|two| two == b"- ");
    name_in(text, from, from + item.unwrap_or(length))
}

/// Label of a pair's last name in a part of the text.
fn name_in(text: &str, from: usize, to: usize) -> Option<&'static str> {
    let (mut at, mut label) = (from, None);
    while at < to {
        let length = run(text, at, to - at, word);
        if length > 0
            && is_name(&text[at..at + length])
            && let Some((value, quote)) = value_at(text, at, at + length)
        {
            let value = &text[value..value + extent(text, value, quote)];
            label = names::label(value.trim_start_matches('-')).or(label);
        }
        at += length.max(1);
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    label
}

/// Finds the values of `Cookie: a=…; b=…` and `Set-Cookie: a=…; Path=/`, from the first secret to the last.
pub(super) fn cookie(text: &str, anchor: usize) -> (Option<Found>, usize) {
    let from = anchor - run_before(text, anchor, 32, word);
    let to = anchor + run(text, anchor, 32, word);
    if !is_cookie(&text[from..to]) {
        return (None, to);
    }
    let Some((at, quote)) = value_at(text, from, to) else { return (None, to) };
    let length = run(text, at, HEADER, |byte| byte.is_ascii_graphic() || byte == b' ');
    let header = &text[at..at + length];
    let end = quote.and_then(|quote| header.find(char::from(quote))).unwrap_or(length);
    (cookies(text, at, at + end), at + end)
}

/// True for the name of a header with cookies.
pub(super) fn is_cookie(name: &str) -> bool {
    ["cookie", "cookies", "set-cookie", "set_cookie", "setcookie"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Finds secrets among the cookies of a header.
pub(super) fn cookies(text: &str, from: usize, to: usize) -> Option<Found> {
    let (mut at, mut found) = (from, None::<Found>);
    spent(to - from);
    for pair in text[from..to].split(';') {
        if let Some((name, value)) = pair.split_once('=') {
            let value_from = at + name.len() + 1;
            let value = value.trim_end_matches(['\\', '"', '\'', ' ']);
            let name = name.trim().to_ascii_lowercase();
            let is_attribute = ["expires", "path", "domain", "max-age", "samesite"].contains(&&*name);
            if value.len() >= 16 && !is_attribute && is_random(value) && !named::is_slug(value) {
                let first = found.map_or(value_from, |found| found.from);
                found = Some(Found { from: first, to: value_from + value.len(), label: "cookie", rank: rank::SHAPE });
            }
        }
        at += pair.len() + 1;
    }
    found
}

/// Finds `Authorization: Token …`, with any one-word scheme, or none.
pub(super) fn authorization(text: &str, anchor: usize) -> (Option<Found>, usize) {
    let to = anchor + run(text, anchor, 64, word);
    if !text[anchor..to].eq_ignore_ascii_case("authorization") {
        return (None, to);
    }
    let Some((at, _)) = value_at(text, anchor, to) else { return (None, to) };
    let scheme = run(text, at, 32, word);
    let spaces = run(text, at + scheme, 3, |byte| byte == b' ');
    let is_part = |byte: u8| dotted(byte) || base64(byte) || matches!(byte, b'~' | b':' | b'|');
    let from = if spaces > 0 { at + scheme + spaces } else { at };
    let length = run(text, from, HEADER, is_part);
    let credential = text[from..from + length].trim_end_matches(['.', ':']);
    // Without a scheme before it, it may be one: `AWS4-HMAC-SHA256`.
    let least = if spaces > 0 { 16 } else { 20 };
    let is_one = credential.len() >= least && is_random(credential) && !named::is_slug(credential);
    let is_field = !text[..from].ends_with('=') && !text[from + length..].starts_with('=');
    let found = Found { from, to: from + credential.len(), label: "authorization", rank: rank::NAMED };
    ((is_one && is_field).then_some(found), from + length)
}

/// Finds SQL's `IDENTIFIED BY '…'`.
pub(super) fn identified(text: &str, start: usize) -> (Option<Found>, usize) {
    let at = start + "identified by".len();
    let at = at + run(text, at, 4, |byte| byte == b' ');
    let Some(quote) = text.as_bytes().get(at).copied().filter(|byte| matches!(byte, b'\'' | b'"')) else {
        return (None, at);
    };
    let length = extent(text, at + 1, Some(quote));
    let (from, to) = (at + 1, at + 1 + length);
    let fits = named::is_secret(&text[from..to], "password", true);
    (fits.then_some(Found { from, to, label: "password", rank: rank::NAMED }), to)
}

/// Finds `jdbc:oracle:thin:user/password@host`.
pub(super) fn oracle(text: &str, start: usize) -> (Option<Found>, usize) {
    let at = start + "jdbc:oracle:thin:".len();
    let user = run(text, at, 64, |byte| alnum(byte) || matches!(byte, b'_' | b'$' | b'#'));
    let from = at + user + 1;
    let length = run(text, from, 128, |byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'"' | b'\'' | b'/'));
    let is_whole = user > 0 && text[at + user..].starts_with('/') && text[from + length..].starts_with('@');
    let fits = is_whole && length >= 3 && !super::placeholder::is_in(&text[from..from + length]);
    let found = Found { from, to: from + length, label: "url-password", rank: rank::SHAPE };
    (fits.then_some(found), at + user)
}

//! Values that are secret because of their name: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…</secret>`.

use super::placeholder;
use super::scan::{Found, rank, run, run_before};
use super::vendors::{alnum, word};

/// Longest name and longest value that are looked at.
const NAME: usize = 64;
const VALUE: usize = 4096;

/// Names, without separators and in lower case, that end like this hold a secret.
const ENDINGS: &[(&str, &str)] = &[
    ("password", "password"),
    ("passwd", "password"),
    ("passphrase", "password"),
    ("passcode", "password"),
    ("pwd", "password"),
    ("apikey", "api-key"),
    ("token", "token"),
    ("secret", "secret"),
    ("secretvalue", "secret"),
    ("secretkey", "secret"),
    ("secretkeybase", "secret"),
    ("accesskey", "secret"),
    ("privatekey", "secret"),
    ("accountkey", "secret"),
    ("signingkey", "secret"),
    ("encryptionkey", "secret"),
    ("masterkey", "secret"),
    ("authkey", "secret"),
    ("sharedkey", "secret"),
    ("servicekey", "secret"),
    ("servicerolekey", "secret"),
    ("storagekey", "secret"),
    ("appkey", "secret"),
    ("licensekey", "secret"),
    ("subscriptionkey", "secret"),
    ("functionskey", "secret"),
    ("credential", "secret"),
    ("credentials", "secret"),
    ("connectionstring", "secret"),
    ("npmauth", "secret"),
    ("sessioncookie", "secret"),
];

/// Names that only look like it: cursors, counts and the like, which an agent needs.
const HARMLESS: &[&str] = &[
    "pagetoken",
    "nexttoken",
    "synctoken",
    "continuationtoken",
    "continuetoken",
    "cursortoken",
    "startingtoken",
    "paginationtoken",
    "resumetoken",
    "changetoken",
    "maxtoken",
    "stoptoken",
    "eostoken",
    "bostoken",
    "padtoken",
    "unktoken",
    "progresstoken",
    "clienttoken",
    "idempotencytoken",
    "watchtoken",
    "deltatoken",
    "skiptoken",
    "csstoken",
    "designtoken",
    "publicapikey",
    "publickey",
];

/// What a field of this name holds, if that is a secret.
pub(super) fn label(name: &str) -> Option<&'static str> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if HARMLESS.iter().any(|harmless| plain.ends_with(harmless)) {
        return None;
    }
    if matches!(&*plain, "sig" | "xamzsignature" | "xgoogsignature" | "xamzsecuritytoken") {
        return Some("signature");
    }
    if matches!(name, "_auth" | "_password") {
        return Some("password");
    }
    ENDINGS.iter().find(|(ending, _)| plain.ends_with(ending)).map(|(_, label)| *label)
}

/// Whether a value under a secret name is one, and not a type, a reference, a path or a sentence.
pub(super) fn is_secret(value: &str, label: &str, is_quoted: bool) -> bool {
    let least = if label == "password" { 6 } else { 10 };
    if !(least..=VALUE).contains(&value.len()) || value.contains(char::is_whitespace) || is_reference(value) {
        return false;
    }
    if placeholder::is_in(value) || (!is_quoted && value.contains(['(', '{', '['])) || self::label(value).is_some() {
        return false;
    }
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let (letters, digits) = (has(u8::is_ascii_alphabetic), has(u8::is_ascii_digit));
    if label == "password" {
        let special =
            has(|byte| matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'~' | b'+'));
        return digits || (letters && special) || !value.is_ascii();
    }
    let mut kinds: Vec<u8> = value.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    letters && digits && kinds.len() >= 6 && !is_slug(value)
}

/// Addresses, paths, dates, names of variables: what says where a secret is, but not which.
fn is_reference(value: &str) -> bool {
    const STARTS: &[&str] = &[
        "http://",
        "https://",
        "arn:",
        "projects/",
        "file:",
        "vault:",
        "op://",
        "ref:",
        "env:",
        "ssh-",
        "pk_",
        "./",
        "../",
        "~/",
        "@",
        "$",
        "#",
        "[redacted",
        "-----BEGIN",
        "sha256:",
        "urn:",
        "data:",
    ];
    let is_path = value.starts_with('/') && value[1..].contains('/') && !value.ends_with('=');
    let is_constant = value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && value.contains('_');
    let is_date = value.len() >= 8
        && value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'T' | b'Z' | b'.' | b'+'))
        && value.contains('-');
    STARTS.iter().any(|start| value.starts_with(start)) || is_path || is_constant || is_date
}

/// `my-app-secret-v2`: words and numbers, as resources are named.
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

/// A field in text, an anchor of whose name is at `anchor`.
pub(super) fn field(text: &str, anchor: usize) -> (Option<Found>, usize) {
    let from = anchor - run_before(text, anchor, NAME, word);
    let to = anchor + run(text, anchor, NAME, word);
    // `arn:…:secret:name` is a name itself.
    if text[..from].ends_with(':') {
        return (None, to);
    }
    let Some(label) = label(text[from..to].trim_start_matches('-')) else { return (None, to) };
    let Some((at, is_quoted)) = value_at(text, from, to) else { return (None, to) };
    let length = match is_quoted {
        Some(quote) => {
            let rest = &text.as_bytes()[at..];
            let end = rest.iter().take(VALUE).position(|&byte| byte == quote || byte == b'\n');
            match end {
                Some(end) => end - run_before(&text[at..], end, end, |byte| byte == b'\\'),
                None => bare(text, at),
            }
        }
        None => bare(text, at),
    };
    let value = &text[at..at + length];
    let value = if is_quoted.is_some() { value } else { value.trim_end_matches(['.', ':']) };
    let found = Found { from: at, to: at + value.len(), label, rank: rank::NAMED };
    (is_secret(value, label, is_quoted.is_some()).then_some(found), at + length)
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

/// Where the value of a name begins, and the quote it stands in.
fn value_at(text: &str, name: usize, end: usize) -> Option<(usize, Option<u8>)> {
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
    at = spaces(at);
    at = match (byte(at), byte(at + 1)) {
        (b'=' | b':', b'>' | b'=') if byte(at) != b'=' || byte(at + 1) != b'=' => at + 2,
        (b'=', b'=') => return None,
        (b'=' | b':', _) => at + 1,
        (b'>', _) if name > 0 && byte(name - 1) == b'<' => at + 1,
        (b'%', b'3') if byte(at + 2).eq_ignore_ascii_case(&b'd') => at + 3,
        _ if is_option => at,
        _ => return None,
    };
    at = spaces(at);
    // As Rust shows values in logs.
    at += ["String(", "Some("].iter().find(|wrap| text[at..].starts_with(**wrap)).map_or(0, |wrap| wrap.len());
    let open = slashes(at);
    match byte(open) {
        quote if is_quote(quote) => Some((open + 1, Some(quote))),
        next if alnum(next) || !matches!(next, b'\n' | b'\r' | b',' | b';' | b')' | b'}' | b']') => Some((at, None)),
        _ => None,
    }
}

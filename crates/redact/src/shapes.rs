//! Credentials recognised by form: PEM, JWT, `Bearer` and `Basic`, URLs with a password, webhooks.

use super::scan::{Found, ends, rank, run, run_before, spent};
use super::vendors::{alnum, base64, dotted, is_delimited, is_random, word};
use super::{encoded, named, placeholder};

/// Longest JWT and other credential.
const LONG: usize = 16 << 10;

fn shape(from: usize, to: usize, label: &'static str) -> Option<Found> {
    Some(Found { from, to, label, rank: rank::SHAPE })
}

/// Finds a private key between its lines, or the available part of one. In JSON text its line ends are escaped.
pub(super) fn pem(text: &str, start: usize) -> (Option<Found>, usize) {
    const DASHES: &str = "-----";
    let label_at = start + "-----BEGIN ".len();
    let label = run(text, label_at, 64, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ');
    let body_at = label_at + label + DASHES.len();
    let is_private = text[label_at..label_at + label].contains("PRIVATE KEY");
    if !is_private || text.get(label_at + label..body_at) != Some(DASHES) {
        return (None, label_at + label);
    }
    // The next dashes end it, whatever they begin: each part of the text is looked at once.
    let rest = &text[body_at..];
    let next = rest.find(DASHES);
    spent(next.unwrap_or(rest.len()));
    let (body, to) = match next {
        Some(at) if rest[at + DASHES.len()..].starts_with("END ") => {
            let closing = body_at + at + DASHES.len();
            let end = run(text, closing, 64, |byte| byte.is_ascii_uppercase() || byte == b' ') + closing;
            (&rest[..at], if text[end..].starts_with(DASHES) { end + DASHES.len() } else { end })
        }
        Some(at) => cut_key(&rest[..at], body_at),
        None => cut_key(rest, body_at),
    };
    let has_key = body.split(|c: char| !c.is_ascii() || !base64(c as u8)).any(|part| part.len() >= 30);
    (if has_key { shape(start, to, "private-key") } else { None }, to.max(body_at))
}

/// The lines that can belong to a key without an end.
fn cut_key(rest: &str, at: usize) -> (&str, usize) {
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let bare = line.trim();
        spent(line.len());
        let is_key = bare.bytes().all(|byte| base64(byte) || byte == b'\\') || bare.contains(": ") || bare.is_empty();
        if !is_key {
            // In JSON text, or cut: the key is the beginning of this line.
            end += run(line, 0, line.len(), |byte| base64(byte) || byte == b'\\');
            break;
        }
        end += line.len();
    }
    let end = rest[..end].trim_end().len();
    (&rest[..end], at + end)
}

/// Finds `header.payload.signature` of base64, with a JSON object as header, and the five parts of an encrypted JWT.
pub(super) fn jwt(text: &str, start: usize) -> (Option<Found>, usize) {
    if run_before(text, start, 1, dotted) > 0 {
        return (None, start + 1);
    }
    let length = run(text, start, LONG, dotted);
    let token = text[start..start + length].trim_end_matches('.');
    let parts: Vec<&str> = token.splitn(6, '.').collect();
    let is_jwt = match parts[..] {
        [header, payload] => header.len() > 12 && payload.starts_with("eyJ") && payload.len() > 12,
        [header, payload, signature] => {
            header.len() > 12 && payload.len() > 12 && payload.starts_with("eyJ") && signature.len() > 15
        }
        [header, _, _, payload, _] => header.len() > 12 && payload.len() > 12,
        _ => false,
    };
    (if is_jwt { shape(start, start + token.len(), "jwt") } else { None }, start + length)
}

/// Fewest characters of a token after `Bearer`: in prose, and as the value of an `Authorization` header.
const BEARER: usize = 16;
const BEARER_OF_HEADER: usize = 8;

/// Finds `Bearer` with its token.
pub(super) fn bearer(text: &str, start: usize) -> (Option<Found>, usize) {
    let Some(at) = after_scheme(text, start, "bearer".len()) else { return (None, start + 1) };
    let length = run(text, at, LONG, |byte| dotted(byte) || matches!(byte, b'~' | b'+' | b'/' | b'=' | b':' | b'|'));
    let credential = text[at..at + length].trim_end_matches(['.', ':']);
    let least = if is_header(text, start) { BEARER_OF_HEADER } else { BEARER };
    let fits = credential.len() >= least && is_random(credential) && !named::is_slug(credential);
    (if fits { shape(at, at + credential.len(), "bearer-token") } else { None }, at + length)
}

/// True if a text before `start` names the `Authorization` header: `Authorization: `, `"authorization": ["`.
fn is_header(text: &str, start: usize) -> bool {
    const NAME: &[u8] = b"authorization";
    let between = run_before(text, start, 8, |byte| b" \t\"'\\:=[,>".contains(&byte));
    let end = start - between;
    let name = end.checked_sub(NAME.len()).and_then(|from| text.as_bytes().get(from..end));
    between > 0 && name.is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// Finds `Basic` with base64 of `user:password`.
pub(super) fn basic(text: &str, start: usize) -> (Option<Found>, usize) {
    let Some(at) = after_scheme(text, start, "basic".len()) else { return (None, start + 1) };
    let length = run(text, at, 4096, base64);
    let is_pair = |plain: Vec<u8>| plain.contains(&b':') && !plain.iter().any(u8::is_ascii_control);
    let fits = length >= 8 && encoded::decode(&text[at..at + length]).is_some_and(is_pair);
    (if fits { shape(at, at + length, "basic-credential") } else { None }, at + length)
}

/// Start of the credential after an authentication scheme.
fn after_scheme(text: &str, start: usize, scheme: usize) -> Option<usize> {
    let end = start + scheme;
    let spaces = run(text, end, 3, |byte| matches!(byte, b' ' | b'\t'));
    let encoded = if text[end..].starts_with("%20") { 3 } else { 0 };
    (run_before(text, start, 1, alnum) == 0 && spaces + encoded > 0).then_some(end + spaces + encoded)
}

/// Finds the password of `scheme://user:password@host`, or a token in place of the user.
pub(super) fn url_credentials(text: &str, start: usize) -> (Option<Found>, usize) {
    let at = start + "://".len();
    let length = run(text, at, 1024, |byte| {
        byte.is_ascii_graphic() && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\')
    });
    let authority = &text[at..at + length];
    let Some((user_info, _host)) = authority.rsplit_once('@') else { return (None, at) };
    // A mark in place of the user, from redacting it before.
    let marked = if user_info.starts_with("[redacted:") { user_info.find(']').map_or(0, |end| end + 1) } else { 0 };
    let (from, secret) = match user_info[marked..].split_once(':') {
        Some((user, password)) => (at + marked + user.len() + 1, password),
        None => (at + marked, &user_info[marked..]),
    };
    let fits = match from == at {
        true => secret.len() >= 20 && is_random(secret),
        false => is_password(secret),
    };
    (if fits { shape(from, from + secret.len(), "url-password") } else { None }, at + user_info.len())
}

fn is_password(text: &str) -> bool {
    const WORDS: &[&str] = &["pass", "passwd", "password", "pw", "pwd", "secret", "token", "mypassword", "[password]"];
    let lower = text.to_ascii_lowercase();
    let is_reference = text.starts_with(['$', '{', '%', '[', '<', '*']) && !text.starts_with("%2");
    text.len() >= 3
        && !WORDS.contains(&lower.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        && !is_reference
        && !placeholder::is_in(text)
        && !lower.bytes().all(|byte| byte == b'x')
}

/// Finds the last part of a webhook's address, which is enough to post there.
pub(super) fn webhook(text: &str, start: usize) -> (Option<Found>, usize) {
    let length = run(text, start, 400, |byte| dotted(byte) || matches!(byte, b'/' | b'@'));
    let path = &text[start..start + length];
    let last = path.trim_end_matches(['/', '.']).rsplit('/').next().unwrap_or_default();
    let to = start + path.trim_end_matches(['/', '.']).len();
    let fits = last.len() >= 20 && is_random(last);
    (if fits { shape(to - last.len(), to, "webhook") } else { None }, start + length)
}

/// Finds a Telegram bot token: a number, a colon, 35 characters.
pub(super) fn telegram(text: &str, colon: usize) -> (Option<Found>, usize) {
    let digits = run_before(text, colon, 11, |byte| byte.is_ascii_digit());
    let length = run(text, colon + 1, 36, word);
    let (from, to) = (colon - digits, colon + 1 + length);
    // In a URL the number follows the word `bot`.
    let begins = run_before(text, from, 1, alnum) == 0 || text[..from].ends_with("bot");
    let fits = (8..=10).contains(&digits) && length == 35 && begins && is_random(&text[colon + 1..to]);
    (if fits { shape(from, to, "telegram-token") } else { None }, colon + 1)
}

/// Finds a client secret of Entra: three characters, a digit, `Q~`, and 31 to 34 more.
pub(super) fn azure_client_secret(text: &str, at: usize) -> (Option<Found>, usize) {
    let is_part = |byte| dotted(byte) || byte == b'~';
    let (before, length) = (run_before(text, at, 5, is_part), run(text, at + 2, 40, is_part));
    let (from, to) = (at.saturating_sub(before), at + 2 + length);
    let fits = before == 4 && text.as_bytes()[at - 1].is_ascii_digit() && (29..=36).contains(&length);
    (if fits && is_random(&text[from..to]) { shape(from, to, "azure-client-secret") } else { None }, at + 2 + length)
}

/// Finds a token of Terraform Cloud: 14 characters, `.atlasv1.`, 60 or more.
pub(super) fn terraform(text: &str, at: usize) -> (Option<Found>, usize) {
    let end = at + ".atlasv1.".len();
    let (before, length) = (run_before(text, at, 15, alnum), run(text, end, 80, word));
    let fits =
        before == 14 && length >= 60 && is_delimited(text, at - before, end + length) && ends(text, end + length, word);
    (if fits { shape(at - before, end + length, "terraform-token") } else { None }, end + length)
}

//! Finds credentials inside texts whose place has no meaning: URLs, connection strings, JSON, shell lines, base64. The
//! redactor knows the form of vendors' tokens.

use serde_json::Value;

use super::spelling::{decoded, occurrences, percent_decoded};
use redact::sounds_secret;

/// First byte, byte after the last, and a name.
pub(super) type Span = (usize, usize, String);

/// Most levels of nested texts: JSON in base64 in a URL in JSON.
const LEVELS: usize = 4;
/// Most bytes of a text; a longer one counts as a credential. No system takes longer arguments.
const LONGEST: usize = 64 << 10;

/// Finds credentials in a text.
pub(super) fn in_text(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    look(text, LEVELS, &mut spans);
    merged(spans)
}

fn look(text: &str, levels: usize, spans: &mut Vec<Span>) {
    let Some(levels) = levels.checked_sub(1) else { return };
    if text.len() > LONGEST {
        return spans.push((0, text.len(), "VALUE".to_owned()));
    }
    let tokens = redact::credentials(text).into_iter();
    spans.extend(tokens.map(|found| (found.from, found.to, "TOKEN".to_owned())));
    pairs(text, spans);
    let mut done = 0;
    for (at, _) in text.match_indices("://") {
        if at >= done {
            done = in_url(text, at, levels, spans);
        }
    }
    words(text, spans);
    if let Some(secrets) = in_json(text, levels) {
        for (secret, name) in secrets {
            located(text, &secret, &name, spans);
        }
    }
    if let Some(plain) = decoded(text)
        && !nested(&plain, levels).is_empty()
    {
        spans.push((0, text.len(), "CONFIG".to_owned()));
    }
}

fn nested(text: &str, levels: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    look(text, levels, &mut spans);
    spans
}

/// Sorts spans and merges overlapping ones.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.0, std::cmp::Reverse(span.1)));
    let mut merged: Vec<Span> = Vec::new();
    for next in spans {
        match merged.last_mut() {
            Some(last) if next.0 < last.1 => {
                if last.2 == "TOKEN" {
                    last.2 = next.2;
                }
                last.1 = last.1.max(next.1);
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// True if a value under a secret name can be a secret: a switch or a small number cannot.
pub(super) fn is_plausible(name: &str, value: &str) -> bool {
    const WORDS: &[&str] = &["true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default"];
    let name = name.to_ascii_uppercase();
    let is_password = ["PASS", "PWD", "SECRET"].iter().any(|part| name.contains(part));
    let is_number = value.len() <= 7 && value.bytes().all(|byte| byte.is_ascii_digit());
    !value.is_empty() && (is_password || !is_number) && !WORDS.contains(&value.to_ascii_lowercase().as_str())
}

/// True if a value is a secret by its name or by its form, or has one in it.
pub(super) fn has_secret(name: &str, value: &str) -> bool {
    (sounds_secret(name) && is_plausible(name, value)) || is_random(value) || !in_text(value).is_empty()
}

/// True if a text is one word without meaning to people: the form of keys without a vendor's prefix.
pub(super) fn is_random(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'=' | b'+' | b'.' | b'~');
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let mut kinds: Vec<u8> = text.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let is_word = |part: &str| part.len() < 20 && part.bytes().filter(u8::is_ascii_digit).count() <= 4;
    let is_slug = text.split(['-', '_', '.']).all(is_word);
    text.len() >= 20
        && text.bytes().all(is_part)
        && digits >= 2
        && kinds.len() >= 8
        && (!is_slug || is_uuid(text) || is_dense(text))
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// True if letters and digits alternate too often for words.
fn is_dense(text: &str) -> bool {
    let bytes = text.as_bytes();
    let changes = bytes.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    changes * 4 >= bytes.len()
}

/// Finds `name=value`, `name: value` and `"name": "value"` with a secret name.
fn pairs(text: &str, spans: &mut Vec<Span>) {
    let bytes = text.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' ');
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'\\' | b'`');
    let mut done = 0;
    for (at, _) in text.match_indices(['=', ':']) {
        if at < done {
            continue;
        }
        let before = |to: usize, is_part: &dyn Fn(u8) -> bool| {
            to - bytes[..to].iter().rev().take(64).take_while(|&&byte| is_part(byte)).count()
        };
        let close = before(at, &|byte| is_quote(byte) || byte == b' ');
        let open = before(close, &is_name);
        let name = text.get(open..close).unwrap_or_default();
        // A sentence that ends with the name, or a connection string's key with a space in it.
        let name = if name.split(' ').count() > 2 { name.rsplit(' ').next().unwrap_or_default() } else { name };
        if !sounds_secret(name) {
            continue;
        }
        let after = |from: usize, is_part: &dyn Fn(u8) -> bool| {
            from + bytes[from..].iter().take_while(|&&byte| is_part(byte)).count()
        };
        let from = after(at + 1, &|byte| matches!(byte, b' ' | b'=' | b'>'));
        let begin = after(from, &is_quote);
        let scheme = after_scheme(&text[begin..]);
        let is_quoted = begin > from;
        // A quoted header: `-H "X-Api-Key: value"`.
        let is_header = bytes[at] == b':' && open > 0 && is_quote(bytes[open - 1]) && close == at;
        let begin = begin + scheme;
        let to = begin + length(&text[begin..], is_quoted || is_header);
        let value = &text[begin..to];
        // `image:tag`, `host:port` and prose are not pairs. A quoted name makes a pair, and so does a random value.
        let is_pair = bytes[at] == b'=' || close < at || is_quoted || is_random(value) || starts_line(text, open);
        let is_sure = bytes[at] == b'=' || is_quoted || is_header || scheme > 0;
        let is_prose = !is_sure && text[to..].split_whitespace().nth(1).is_some();
        if (is_pair || is_sure) && !is_prose && is_plausible(name, value) {
            let name = name.trim_matches(['-', '.', ' ']);
            let is_header = name.to_ascii_lowercase().ends_with("authorization");
            spans.push((begin, to, if is_header { "TOKEN" } else { name }.to_owned()));
            done = to;
        }
    }
}

/// Length of the scheme before a credential, as in `Bearer …`.
fn after_scheme(text: &str) -> usize {
    let Some((scheme, rest)) = text.split_once(' ') else { return 0 };
    let is_scheme = ["basic", "bearer", "digest", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if is_scheme && !rest.starts_with(char::is_whitespace) { scheme.len() + 1 } else { 0 }
}

/// True if a header begins there: `X-Api-Key: value` as the whole argument.
fn starts_line(text: &str, at: usize) -> bool {
    at == 0 && text.contains(": ")
}

/// Length of a value: to its quote, or to a delimiter of URLs, connection strings and shells.
fn length(text: &str, is_quoted: bool) -> usize {
    if is_quoted {
        return text
            .find(['"', '\'', '`'])
            .map_or(text.len(), |end| end - text[..end].bytes().rev().take_while(|&byte| byte == b'\\').count());
    }
    let ends = |(at, c): &(usize, char)| match c {
        // In Redis connection strings a comma ends a value; elsewhere it is part of one.
        ',' => text[at + 1..].split([',', ';']).next().is_some_and(|next| next.contains('=')),
        c => c.is_whitespace() || matches!(c, ';' | '&' | '"' | '\'' | '`' | ')' | '}' | '|'),
    };
    text.char_indices().find(ends).map_or(text.len(), |(at, _)| at)
}

/// Finds secrets in the URL whose `://` is at `at`; returns its end.
fn in_url(text: &str, at: usize, levels: usize, spans: &mut Vec<Span>) -> usize {
    let start = at + 3;
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '\\');
    let end = text[start..].find(is_end).map_or(text.len(), |end| start + end);
    let url = &text[start..end];
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    // A password may contain characters that should have been encoded.
    let user = url[..authority].rfind('@').or_else(|| url.find('?').is_none().then(|| url.rfind('@')).flatten());
    let user = user.filter(|user| url[..*user].contains(':') || *user <= authority);
    let mut host = 0;
    if let Some(user) = user {
        match url[..user].split_once(':') {
            Some((name, password)) if !password.is_empty() => {
                spans.push((start + name.len() + 1, start + user, "PASSWORD".to_owned()));
                if is_random(name) {
                    spans.push((start, start + name.len(), "TOKEN".to_owned()));
                }
            }
            _ if user >= 16 => spans.push((start, start + user, "TOKEN".to_owned())),
            _ => {}
        }
        host = user + 1;
    }
    let rest = &url[host..];
    let query = rest.find(['?', '#']).unwrap_or(rest.len());
    let mut from = start + host;
    for segment in rest[..query].split('/') {
        if is_random(segment) && from > start + host {
            spans.push((from, from + segment.len(), "PATH".to_owned()));
        }
        from += segment.len() + 1;
    }
    let mut from = start + host + query + 1;
    for pair in rest.get(query + 1..).unwrap_or_default().split(['&', '#', '?']) {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let plain = percent_decoded(value);
        let is_secret = (sounds_secret(&percent_decoded(name)) && is_plausible(name, value))
            || is_random(&plain)
            || !nested(&plain, levels).is_empty()
            || decoded(&plain).is_some_and(|inner| !nested(&inner, levels).is_empty());
        if is_secret {
            let to = from + pair.len();
            let name = if name.is_empty() { "TOKEN".to_owned() } else { percent_decoded(name) };
            spans.push((to - value.len(), to, name));
        }
        from += pair.len() + 1;
    }
    end
}

/// Finds `--token value` and `Bearer value` in a line.
fn words(text: &str, spans: &mut Vec<Span>) {
    let mut previous = "";
    for word in text.split_whitespace() {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let bare = word.trim_matches(['"', '\'', '`', ',', ';']);
        let start = at + word.find(bare).unwrap_or_default();
        let is_option = previous.starts_with('-') && !previous.contains('=') && sounds_secret(previous);
        let is_scheme = ["bearer", "basic"].iter().any(|scheme| previous.eq_ignore_ascii_case(scheme))
            && bare.len() >= 8
            && bare.bytes().any(|byte| byte.is_ascii_digit() || byte == b'=');
        if (is_option && !bare.starts_with("--") && is_plausible(previous, bare)) || is_scheme {
            let name = if is_scheme { "TOKEN" } else { previous.trim_matches('-') };
            spans.push((start, start + bare.len(), name.to_owned()));
        }
        previous = word.trim_matches(['"', '\'', '`', ',', ';', ':']);
    }
}

/// Secrets of a JSON text, each with a name.
fn in_json(text: &str, levels: usize) -> Option<Vec<(String, String)>> {
    let text = text.trim();
    let is_json = text.starts_with(['{', '[', '"']);
    let value: Value = if is_json { serde_json::from_str(text).ok()? } else { return None };
    let mut secrets = Vec::new();
    walk(&value, "", levels, &mut secrets);
    Some(secrets)
}

fn walk(value: &Value, name: &str, levels: usize, secrets: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if sounds_secret(name) && is_plausible(name, text) => {
            secrets.push((text.clone(), name.to_owned()));
        }
        Value::String(text) => {
            if is_random(text) {
                secrets.push((text.clone(), name.to_owned()));
            }
            let spans = nested(text, levels).into_iter();
            secrets.extend(spans.filter_map(|(from, to, name)| Some((text.get(from..to)?.to_owned(), name))));
        }
        Value::Number(number) if sounds_secret(name) && is_plausible(name, &number.to_string()) => {
            secrets.push((number.to_string(), name.to_owned()));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, name, levels, secrets)),
        Value::Object(object) => {
            // {"name": "DB_PASSWORD", "value": "…"}
            let called = ["name", "key", "Name", "Key"].iter().find_map(|key| object.get(*key)?.as_str());
            for (key, value) in object {
                let name = if key.eq_ignore_ascii_case("value") { called.unwrap_or(key) } else { key };
                walk(value, if sounds_secret(name) { name } else { key }, levels, secrets);
            }
        }
        _ => {}
    }
}

/// Finds a secret in a text, in any spelling; the whole text if that fails.
fn located(text: &str, secret: &str, name: &str, spans: &mut Vec<Span>) {
    let found = occurrences(text, secret);
    match found.is_empty() {
        true => spans.push((0, text.len(), name.to_owned())),
        false => spans.extend(found.into_iter().map(|(from, to)| (from, to, name.to_owned()))),
    }
}

//! Encoded text: base64, hexadecimal, escapes.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use base::random;

/// Shortest runs that are decoded, in characters.
const BASE64: usize = 24;
const HEXADECIMAL: usize = 32;
const ESCAPES: usize = 6;
/// Most decoded texts of one text.
const MAX_TEXTS: usize = 32;
/// Least words of a decoded text.
const WORDS: usize = 3;

const FREE: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const ENGINES: [GeneralPurpose; 2] = [GeneralPurpose::new(&STANDARD, FREE), GeneralPurpose::new(&URL_SAFE, FREE)];

/// Texts that are encoded in `text`, each with its place.
pub(super) fn find(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    runs(
        text,
        BASE64,
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'),
        &mut |at, run| {
            found.extend(base64(run).map(|text| (at, text)));
        },
    );
    runs(text, HEXADECIMAL, |byte| byte.is_ascii_hexdigit(), &mut |at, run| {
        found.extend(hexadecimal(run).map(|text| (at, text)));
    });
    for (mark, digits, radix) in [("\\u", 4, 16), ("\\x", 2, 16), ("%", 2, 16), ("&#x", 0, 16), ("&#", 0, 10)] {
        if text.contains(mark) {
            escapes(text, mark, digits, radix, &mut found);
        }
    }
    found.truncate(MAX_TEXTS);
    found
}

fn runs(text: &str, least: usize, is_digit: impl Fn(u8) -> bool, found: &mut impl FnMut(usize, &str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_digit(**byte)).count();
        if length >= least {
            found(at, &text[at..at + length]);
        }
        at += length.max(1);
    }
}

fn base64(run: &str) -> Option<String> {
    // Leftover digits at the end make no whole byte.
    let whole = &run[..run.len() - usize::from(run.len() % 4 == 1)];
    ENGINES.iter().find_map(|engine| prose(engine.decode(whole).ok()?))
}

fn hexadecimal(run: &str) -> Option<String> {
    // A leftover digit at the end makes no whole byte.
    prose(random::from_hex(&run[..run.len() / 2 * 2])?)
}

/// Escapes in a row; `digits` is 0 if a `;` ends each.
fn escapes(text: &str, mark: &str, digits: usize, radix: u32, found: &mut Vec<(usize, String)>) {
    let (mut decoded, mut from, mut count, mut next) = (String::new(), 0, 0, 0);
    let mut flush = |decoded: &mut String, count: &mut usize, from: usize| {
        let text = std::mem::take(decoded);
        let escaped = std::mem::take(count);
        // Most of it: some blanks of a URL are none.
        if escaped >= ESCAPES && 2 * escaped >= text.chars().count() && is_prose(&text) {
            found.push((from, text));
        }
    };
    for (at, _) in text.match_indices(mark) {
        let rest = &text[at + mark.len()..];
        let length = if digits > 0 { digits } else { rest.bytes().take(8).position(|byte| byte == b';').unwrap_or(0) };
        let Some(c) =
            rest.get(..length).and_then(|code| u32::from_str_radix(code, radix).ok()).and_then(char::from_u32)
        else {
            continue;
        };
        // A few plain characters between them are part of the text.
        if at > next + 8 || at < next {
            flush(&mut decoded, &mut count, from);
        } else if count > 0 {
            decoded.push_str(text.get(next..at).unwrap_or_default());
        }
        if count == 0 {
            from = at;
        }
        decoded.push(c);
        count += 1;
        next = at + mark.len() + length + usize::from(digits == 0);
    }
    flush(&mut decoded, &mut count, from);
}

fn prose(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| is_prose(text))
}

/// True for words with blanks between them.
fn is_prose(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    let is_word = |word: &str| word.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    text.chars().all(is_plain) && text.split_whitespace().filter(|word| is_word(word)).count() >= WORDS
}

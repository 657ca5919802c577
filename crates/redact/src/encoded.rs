//! Base64 and hexadecimal: finds secrets in them, and checks content declared as binary.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::scan::{self, Found, rank, run};
use super::vendors::alnum;
use crate::secret;
use base::random;

/// Shortest run of digits that is decoded.
const SHORTEST: usize = 24;
/// Shortest line of base64 that goes on in the next one: MIME breaks at 76 digits, PEM at 64.
const WRAPPED: usize = 60;
/// Characters at the start of a run that must decode to plain text.
const SAMPLE: usize = 16;
/// Levels of nested base64. Each is three quarters of the one around it.
const LEVELS: usize = 2;

/// Finds secrets in text that is encoded as base64 or hexadecimal; the whole run is one.
pub(super) fn find(text: &str, found: &mut Vec<Found>) {
    find_in(text, LEVELS, found);
}

fn find_in(text: &str, levels: usize, found: &mut Vec<Found>) {
    let mut at = 0;
    while at < text.len() {
        let mut length = run(text, at, text.len(), is_digit);
        if length >= SHORTEST
            && let Some((inner, all)) = decoded(text, at, length)
        {
            length = all;
            if let Some(Found { label, rank, .. }) = worst(&inner, levels) {
                let to = at + length + run(text, at + length, 2, |byte| byte == b'=');
                found.push(Found { from: at, to, label, rank });
            }
        }
        at += length + run(text, at + length, text.len(), |byte| !is_digit(byte));
    }
}

/// The text that the run of `first` digits at `at` encodes, and the length of the run with the lines in which it goes on.
fn decoded(text: &str, at: usize, first: usize) -> Option<(String, usize)> {
    let line = &text[at..at + first];
    if let Some(plain) = hexadecimal(line) {
        return Some((plain, first));
    }
    if !is_plain(&decode(&line[..SAMPLE])?) {
        return None;
    }
    let length = wrapped(text, at, first);
    if length == first {
        return Some((String::from_utf8(decode(whole(line))?).ok()?, first));
    }
    let digits: String = text[at..at + length].split(['\r', '\n']).collect();
    Some((String::from_utf8_lossy(&decode(whole(&digits))?).into_owned(), length))
}

/// Length of the base64 at `at`, whose first line has `line` digits, with the lines in which it goes on.
fn wrapped(text: &str, at: usize, line: usize) -> usize {
    let (mut length, mut last) = (line, line);
    while last == line && line >= WRAPPED && line.is_multiple_of(4) {
        let gap = run(text, at + length, 2, |byte| matches!(byte, b'\r' | b'\n'));
        last = run(text, at + length + gap, line + 1, is_digit);
        if gap == 0 || last == 0 || last > line {
            break;
        }
        length += gap + last;
    }
    length
}

/// Finds the gravest secret in decoded text. Tokens known only by name are skipped: cursors of lists are such texts.
fn worst(inner: &str, levels: usize) -> Option<Found> {
    let mut found = secret::places(inner);
    scan::credentials(inner, &mut found);
    if levels > 1 {
        find_in(inner, levels - 1, &mut found);
    }
    let counts = |found: &Found| found.rank < rank::NAMED || (found.rank == rank::NAMED && found.label != "token");
    let worst = found.into_iter().filter(counts).min_by_key(|found| found.rank)?;
    Some(Found { rank: worst.rank.min(rank::SHAPE), ..worst })
}

fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t') || *byte >= 0x80)
}

/// The digits without those at the end that make no whole byte.
fn whole(digits: &str) -> &str {
    &digits[..digits.len() - usize::from(digits.len() % 4 == 1)]
}

/// The text that pairs of hexadecimal digits encode.
fn hexadecimal(digits: &str) -> Option<String> {
    String::from_utf8(random::from_hex(digits)?).ok().filter(|plain| is_plain(plain.as_bytes()))
}

pub(super) fn is_digit(byte: u8) -> bool {
    alnum(byte) || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Decodes base64 of either alphabet, with or without padding; `None` for other text.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_padded = digits.len() < text.len();
    if digits.len() % 4 == 1 || (is_padded && !text.len().is_multiple_of(4)) {
        return None;
    }
    digits_decoded(digits)
}

/// Decodes unpadded base64 of either alphabet; `None` if another character occurs.
pub fn digits_decoded(digits: &str) -> Option<Vec<u8>> {
    scan::spent(digits.len());
    DIGITS.decode(digits.replace('-', "+").replace('_', "/")).ok()
}

/// Accepts trailing bits: a cut text is decoded as well.
const DIGITS: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The base64 of `plain` in the midst of other bytes, at each alignment and in both alphabets; each with the digits before
/// and behind it that have bits of a neighbour too.
pub(super) fn aligned(plain: &str) -> impl Iterator<Item = (String, usize, usize)> {
    (0..3).flat_map(move |before| {
        let bytes = [&[0; 2][..before], plain.as_bytes()].concat();
        let digits = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
        let own = digits[(before * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned();
        let url = own.replace('+', "-").replace('/', "_");
        let other = Some(url).filter(|url| *url != own);
        let (before, behind) = (usize::from(before > 0), usize::from(bytes.len() % 3 > 0));
        [Some(own), other].into_iter().flatten().map(move |own| (own, before, behind))
    })
}

/// Encodes base64 with padding.
pub(super) fn encode(plain: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_and_what_is_not_base64_does_not() {
        for length in 0..40u8 {
            let plain: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            let text = encode(&plain);
            assert_eq!(decode(&text).as_deref(), Some(&*plain));
            assert_eq!(decode(text.trim_end_matches('=')).as_deref(), Some(&*plain));
        }
        for text in ["a", "a===", "ab=", "a b=", "äöü", "ab=c", "{}"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}

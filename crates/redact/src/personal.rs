//! Personal data: e-mail, telephone, payment card, IBAN, IP address.

use std::sync::LazyLock;

use regex::{Match, Regex};

use super::scan::{Found, rank};

/// A kind of personal data: label, regular expression, and a further check of the match in its text.
type Kind = (&'static str, &'static str, fn(&str, Match<'_>) -> bool);

const KINDS: &[Kind] = &[
    (
        "email",
        r"(?-u:\b)[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,6}[A-Za-z]{2,24}(?-u:\b)",
        is_address,
    ),
    ("iban", r"(?-u:\b)[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)(?-u:\b)", is_iban),
    (
        "card",
        r"(?-u:\b)[2-6][0-9]{3}(?:[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{1,7}|[ -]?[0-9]{6}[ -]?[0-9]{5})(?-u:\b)",
        is_card,
    ),
    ("phone", r"\+[1-9][0-9]{0,3}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{1,5}(?:[ .-]?[0-9]{2,5}){1,5}(?-u:\b)", is_phone),
    ("phone", r"(?:\([0-9]{3}\) ?|(?-u:\b)[0-9]{3}[.-])[0-9]{3}[.-][0-9]{4}(?-u:\b)", is_alone),
    ("ip", r"(?-u:\b)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?-u:\b)", is_ipv4),
    ("ip", r"(?:[0-9A-Fa-f]{1,4}:|::)(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}", is_ipv6),
];

static PATTERNS: LazyLock<Vec<(Kind, Regex)>> =
    LazyLock::new(|| KINDS.iter().filter_map(|kind| Some((*kind, Regex::new(kind.1).ok()?))).collect());

/// Finds personal data in `text`.
pub(super) fn find(text: &str, found: &mut Vec<Found>) {
    for ((label, _, is_one), pattern) in PATTERNS.iter() {
        let matches = pattern.find_iter(text).filter(|found| is_one(text, *found));
        found.extend(matches.map(|m| Found { from: m.start(), to: m.end(), label, rank: rank::PERSONAL }));
    }
}

fn before<'t>(text: &'t str, found: &Match<'_>) -> &'t [u8] {
    &text.as_bytes()[..found.start()]
}

fn after(text: &str, found: &Match<'_>) -> u8 {
    text.as_bytes().get(found.end()).copied().unwrap_or(b' ')
}

fn is_address(text: &str, found: Match<'_>) -> bool {
    // `git@host:path` and `user@host` in a URL are connection addresses.
    let name = found.as_str();
    let host = name.rsplit_once('@').map(|(_, host)| host).unwrap_or_default();
    let is_file = [".png", ".jpg", ".svg", ".js", ".ts", ".css"].iter().any(|ending| host.ends_with(ending));
    !name.starts_with("git@") && !is_file && !before(text, &found).ends_with(b"://") && after(text, &found) != b':'
}

/// ISO 13616: with the first four characters moved to the end and letters as numbers, the remainder by 97 is 1.
fn is_iban(_: &str, found: Match<'_>) -> bool {
    let plain: Vec<u8> = found.as_str().bytes().filter(|byte| *byte != b' ').collect();
    let remainder = plain.iter().cycle().skip(4).take(plain.len()).fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    (15..=34).contains(&plain.len()) && remainder == 1
}

fn is_card(text: &str, found: Match<'_>) -> bool {
    is_card_number(found.as_str()) && is_alone(text, found)
}

/// True if `text` may contain a number as long as a card's.
pub(super) fn has_number(text: &str) -> bool {
    let mut length = 0;
    text.bytes().any(|byte| {
        length = if byte.is_ascii_digit() { length + 1 } else { 0 };
        length >= 13
    })
}

/// ISO/IEC 7812: the Luhn check, and a length and prefix of cards.
pub(super) fn is_card_number(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if digits.len() < 13 {
        return false;
    }
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match place % 2 {
            0 => *digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    let begins = match digits[..2] {
        [3, 4 | 7] => digits.len() == 15,
        [4, _] => matches!(digits.len(), 13 | 16 | 19),
        [5, 1..=5] | [2, 2..=7] => digits.len() == 16,
        [6, _] => (16..=19).contains(&digits.len()),
        _ => false,
    };
    begins && sum.is_multiple_of(10)
}

fn is_phone(text: &str, found: Match<'_>) -> bool {
    let digits = found.as_str().bytes().filter(u8::is_ascii_digit).count();
    (8..=15).contains(&digits) && is_alone(text, found)
}

/// True if it is not part of a longer number, word or path.
fn is_alone(text: &str, found: Match<'_>) -> bool {
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/' | b'_' | b'=');
    let last = before(text, &found).last().copied().unwrap_or(b' ');
    // A full stop after it ends a sentence, unless a digit follows.
    let goes_on =
        text.as_bytes().get(found.end()..found.end() + 2).is_some_and(|two| two[0] == b'.' && two[1].is_ascii_digit());
    !joins(last) && last != b'.' && last != b'+' && !joins(after(text, &found)) && !goes_on
}

fn is_ipv4(text: &str, found: Match<'_>) -> bool {
    let octets: Vec<&str> = found.as_str().split('.').collect();
    let is_octet = |part: &&str| part.parse::<u8>().is_ok() && (part.len() == 1 || !part.starts_with('0'));
    let is_own = matches!(octets[0], "0" | "127" | "255");
    let words = String::from_utf8_lossy(&before(text, &found)[found.start().saturating_sub(12)..]).to_ascii_lowercase();
    let words = words.trim_end_matches([' ', ':', '"', '=', '\'', '^', '~', '>', '<']);
    let is_version =
        ["version", "ver", "v", "-", ".", "chrome/", "section", "§"].iter().any(|word| words.ends_with(word));
    let goes_on = after(text, &found) == b'.' && text.as_bytes().get(found.end() + 1).is_some_and(u8::is_ascii_digit);
    octets.iter().all(is_octet) && !is_own && !is_version && !goes_on && after(text, &found) != b'-'
}

fn is_ipv6(text: &str, found: Match<'_>) -> bool {
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_');
    let is_cut = before(text, &found).last().is_some_and(|&byte| joins(byte)) || joins(after(text, &found));
    let address = found.as_str().parse::<std::net::Ipv6Addr>();
    !is_cut
        && address.is_ok_and(|address| !address.is_loopback() && !address.is_unspecified() && address.segments()[0] > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_compile() {
        assert_eq!(PATTERNS.len(), KINDS.len());
    }
}

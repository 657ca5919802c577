//! Spellings of one credential: plain, in JSON, in URLs, in base64.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use serde_json::Value;

use super::hidden::Span;

/// Shorter credentials are not searched elsewhere: they would occur by chance.
const SHORTEST: usize = 6;

/// Finds `secret` in `text` in any spelling.
pub(super) fn occurrences(text: &str, secret: &str) -> Vec<(usize, usize)> {
    let spellings = spellings(secret).into_iter();
    let places = spellings.flat_map(|spelling| {
        let places = text.match_indices(&spelling).map(|(at, part)| (at, at + part.len()));
        places.collect::<Vec<_>>()
    });
    places.collect()
}

/// Spellings of a text: plain, in JSON, in JSON within JSON, and in URLs.
fn spellings(secret: &str) -> Vec<String> {
    let quoted = |text: &str| Value::from(text).to_string().trim_matches('"').to_owned();
    let json = quoted(secret);
    let twice = quoted(&json);
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let path = form.replace('+', "%20");
    let mut spellings = vec![secret.to_owned(), json, twice, form, path];
    spellings.retain(|spelling| !spelling.is_empty());
    spellings
}

/// Credentials found in any value of an import, to find them in all others.
#[derive(Debug, Default)]
pub struct Known(Option<AhoCorasick>);

impl Known {
    /// Keeps those that do not occur by chance.
    pub fn new<'a>(secrets: impl Iterator<Item = &'a String>) -> Self {
        let secrets: BTreeSet<&String> = secrets.filter(|secret| secret.chars().count() >= SHORTEST).collect();
        let spellings: Vec<String> = secrets.into_iter().flat_map(|secret| spellings(secret)).collect();
        Self(if spellings.is_empty() { None } else { AhoCorasick::new(spellings).ok() })
    }

    /// Their places in `text`.
    pub(super) fn places(&self, text: &str) -> Vec<Span> {
        let found = self.0.iter().flat_map(|finder| finder.find_overlapping_iter(text));
        found.map(|found| (found.start(), found.end(), "TOKEN".to_owned())).collect()
    }
}

/// Decodes a base64 word, if it is text.
pub(super) fn decoded(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('=');
    if !(12..=1 << 20).contains(&text.len()) {
        return None;
    }
    let plain = redact::digits_decoded(text)?;
    String::from_utf8(plain).ok().filter(|plain| !plain.contains(|c: char| c.is_control() && !c.is_whitespace()))
}

pub(super) fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

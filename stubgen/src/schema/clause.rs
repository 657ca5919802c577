//! The clause of a description that tells how a value is written: its format, its unit or an example.

use std::sync::LazyLock;

use crate::text::{first_sentence, width};

/// Words that tell it, in lower case.
static TELLING: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "hh:mm, yyyy, iso 8601, iso-8601, iso8601, rfc 3339, rfc-3339, rfc3339, base64, unix time, epoch, \
    in milliseconds, in seconds, in minutes, in hours, in days, in bytes, comma-separated, comma separated"
        .split(", ")
        .collect()
});
/// Words behind which it is told.
const ANNOUNCING: &[&str] = &["format:"];
/// Fewest columns that are worth a clause.
const MIN_COLUMNS: usize = 10;

/// The first clause of a line that has one of the words, in at most `most` columns.
pub(super) fn how_written(line: &str, most: usize) -> Option<String> {
    let mut rest = line;
    while most >= MIN_COLUMNS && !rest.is_empty() {
        let sentence = first_sentence(rest);
        if let Some((at, length)) = mark(sentence) {
            return around(sentence, at, length, most);
        }
        rest = rest[sentence.len()..].trim_start();
    }
    None
}

/// Place of the first of the words, and its length if it tells enough alone.
fn mark(sentence: &str) -> Option<(usize, Option<usize>)> {
    let is_here = |at: usize, word: &str| {
        sentence.as_bytes().get(at..at + word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut before = ' ';
    for (at, c) in sentence.char_indices() {
        if c.is_alphanumeric() && !before.is_alphanumeric() {
            if let Some(word) = TELLING.iter().find(|word| is_here(at, word)) {
                return Some((at, Some(word.len())));
            }
            if ANNOUNCING.iter().any(|word| is_here(at, word)) {
                return Some((at, None));
            }
        }
        before = c;
    }
    None
}

/// The parenthesis or sentence around the word, else the word with what belongs to it.
fn around(sentence: &str, at: usize, telling: Option<usize>, most: usize) -> Option<String> {
    let open = sentence[..at].rfind('(').filter(|open| !sentence[*open..at].contains(')'));
    // The announced text goes on behind a parenthesis of its own.
    let close = match (open, telling) {
        (Some(_), _) => sentence[at..].find(')'),
        (None, Some(_)) => sentence[at..].find(" ("),
        (None, None) => None,
    };
    let (start, end) = (open.map_or(0, |open| open + 1), close.map_or(sentence.len(), |close| at + close));
    let clause = trimmed(&sentence[start..end]);
    if width(clause) <= most {
        return Some(clause.to_owned());
    }
    let Some(length) = telling else { return shortened(&sentence[at..end], most) };
    let is_end = [' ', '(', ')', '\'', '"', '`', ','];
    let from = sentence[..at].rfind(is_end).map_or(0, |before| before + 1);
    let to = sentence[at + length..].find(is_end).map_or(sentence.len(), |end| at + length + end);
    Some(trimmed(&sentence[from..to]).to_owned()).filter(|word| width(word) <= most)
}

/// The items that fit, with an ellipsis.
fn shortened(text: &str, most: usize) -> Option<String> {
    let ends = text.match_indices(", ").chain(text.match_indices(" or ")).map(|(at, _)| at);
    let end = ends.filter(|end| width(&text[..*end]) < most).max()?;
    let shown = trimmed(&text[..end]);
    let has_item = !ANNOUNCING.iter().any(|word| shown.eq_ignore_ascii_case(word));
    has_item.then(|| format!("{shown}…"))
}

fn trimmed(text: &str) -> &str {
    text.trim().trim_end_matches(['.', ',', ';', ':', ' '])
}

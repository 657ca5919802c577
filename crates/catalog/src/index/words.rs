//! Splits text into words and sentences; stems; stop words.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};

use super::meaning::{self, Row};

/// Words with a stem that Snowball does not give them.
const OWN_STEMS: &str = include_str!("stems.txt");
/// Words of a query that describe no tool.
const STOP_WORDS: &str = include_str!("stop_words.txt");
/// Most sentences of a query searched on their own; the rest is one.
const MAX_SENTENCES: usize = 32;
/// Least words of a clause.
const MIN_CLAUSE: usize = 2;
/// Most ends of clauses in a sentence.
const MAX_ENDS: usize = 64;
/// Words between clauses.
const JOINTS: [&str; 8] = [" and ", " then ", " or ", " after ", " before ", " while ", " so ", " but "];
/// Least words of a sentence searched on its own.
const MIN_SENTENCE: usize = 2;

/// Calls `word` with each word of names and prose, in lower case. Splits at everything but letters and digits, between
/// lower and upper case (`createIssue`), and before the last capital of a run (`HTTPServer`). Scripts without spaces
/// become pairs of letters.
pub(super) fn each_word(text: &str, mut word: impl FnMut(&str)) {
    let mut lower = String::new();
    let mut pass = |part: &str| {
        if part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return word(part);
        }
        lower.clear();
        lower.extend(part.chars().flat_map(char::to_lowercase));
        word(&lower);
    };
    let (mut start, mut before) = (None, ' ');
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, after)| *after);
        let is_letter = c.is_alphanumeric() && !is_unspaced(c);
        if let Some(from) = start
            && (!is_letter || begins(before, c, after))
        {
            pass(&text[from..at]);
            start = None;
        }
        if is_letter {
            start = start.or(Some(at));
        } else if is_unspaced(c) {
            let end = at + c.len_utf8();
            match after.filter(|after| is_unspaced(*after)) {
                Some(after) => pass(&text[at..end + after.len_utf8()]),
                None if !is_unspaced(before) => pass(&text[at..end]),
                None => {}
            }
        }
        before = c;
    }
    if let Some(from) = start {
        pass(&text[from..]);
    }
}

/// True if a word begins at a letter that others stand before.
fn begins(before: char, c: char, after: Option<char>) -> bool {
    c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && after.is_some_and(char::is_lowercase)))
}

/// True for Chinese, Japanese and Thai.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

/// The words of `text`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    words
}

/// Letters and digits of `text` in lower case, to compare names.
pub(super) fn squashed(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// True if queries drop `word`.
pub(super) fn is_stop_word(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        STOP_WORDS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
    });
    WORDS.contains(word)
}

/// Stems an English word; words of other languages mostly stay unchanged. Those of `stems.txt` have a stem of their own.
pub(super) fn stem(word: &str) -> String {
    static OWN: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let lines = OWN_STEMS.lines().filter(|line| !line.starts_with('#'));
        let of_line = |line: &'static str| {
            let (stem, words) = line.split_once(' ').unwrap_or_default();
            words.split_whitespace().map(move |word| (word, stem))
        };
        lines.flat_map(of_line).collect()
    });
    match OWN.get(word) {
        Some(own) => (*own).to_owned(),
        None => Stemmer::new(Algorithm::English).stem(word).into_owned(),
    }
}

/// Sentences of a query with enough words; the whole query if that is one or none.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = match c {
            '.' | '!' | '?' | ';' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
            '\n' | '。' | '！' | '？' | '；' => true,
            _ => false,
        };
        if ends && sentences.len() + 1 < MAX_SENTENCES {
            let end = at + c.len_utf8();
            sentences.push(&text[start..end]);
            start = end;
        }
    }
    sentences.push(&text[start..]);
    sentences.retain(|sentence| words(sentence).iter().filter(|word| !is_stop_word(word)).count() >= MIN_SENTENCE);
    if sentences.len() > 1 { sentences } else { vec![text] }
}

/// Clauses of a sentence, each with something to look for; none if it has fewer than `least` words.
pub(super) fn clauses(sentence: &str, least: usize) -> Vec<&str> {
    let counts = |text: &str| words(text).iter().filter(|word| !is_stop_word(word)).count();
    if counts(sentence) < least {
        return Vec::new();
    }
    let mut ends: Vec<usize> =
        sentence.match_indices([',', ':', ';', '(', ')', '、', '，']).map(|(at, _)| at).collect();
    ends.extend(JOINTS.iter().flat_map(|joint| sentence.match_indices(joint).map(|(at, _)| at)));
    ends.sort_unstable();
    ends.truncate(MAX_ENDS);
    ends.push(sentence.len());
    let mut clauses = Vec::new();
    let mut start = 0;
    for end in ends {
        // A clause with too few words goes with the next one.
        if let Some(clause) = sentence.get(start..end).filter(|clause| counts(clause) >= MIN_CLAUSE) {
            clauses.push(clause);
            start = end;
        }
    }
    if clauses.len() > 1 { clauses } else { Vec::new() }
}

/// Stems of known words, with their place in the table of meanings; each word is stemmed once.
#[derive(Default)]
pub(super) struct Vocabulary {
    positions: HashMap<Box<str>, usize>,
    stems: Vec<(Box<str>, Option<Row>)>,
}

impl Vocabulary {
    /// The stem of `word`, or the word itself.
    pub(super) fn stem<'v>(&'v mut self, word: &'v str, stems: bool) -> (&'v str, Option<Row>) {
        if !stems {
            return (word, None);
        }
        let position = self.positions.get(word).copied().unwrap_or_else(|| {
            self.positions.insert(word.into(), self.stems.len());
            let stem = stem(word);
            self.stems.push((stem.as_str().into(), meaning::row(&stem)));
            self.stems.len() - 1
        });
        self.stems.get(position).map_or((word, None), |(stem, row)| (stem, *row))
    }
}

#[cfg(test)]
mod tests {
    use super::{clauses, sentences, words};

    #[test]
    fn names_and_prose_are_split_into_words() {
        let cases = [
            ("createIssue", "create issue"),
            ("HTTPServer2go", "http server2go"),
            ("get_current-weather.v2", "get current weather v2"),
            ("ABC aB Ab A1b", "abc a b ab a1b"),
            ("Größe ändern", "größe ändern"),
            ("größteÄnderung ÄRGERLich", "größte änderung ärger lich"),
            ("获取天气 now", "获取 取天 天气 now"),
            ("获now取", "获 now 取"),
            ("", ""),
            ("  --  ", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn sentences_are_parts_with_something_to_look_for() {
        assert_eq!(sentences("Find the file. Then delete its copies!"), ["Find the file.", " Then delete its copies!"]);
        assert_eq!(sentences("Find file v1.2 please"), ["Find file v1.2 please"]);
        assert_eq!(clauses("find the file, delete it and tell Ann", 3), ["find the file", ", delete it and tell Ann"]);
        assert_eq!(clauses("find the file and its copies", 9), [""; 0]);
        assert_eq!(sentences("Hi. I need this: list all open invoices."), ["Hi. I need this: list all open invoices."]);
    }
}

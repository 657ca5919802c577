//! Text to words: splitting, stems, stop words, sentences.

use std::collections::HashMap;

use frostem::{Algorithm, Stemmer};

/// Words of a query that say nothing of a tool.
const STOP_WORDS: &str = include_str!("stop_words.txt");
/// Words that a sentence needs to be looked for on its own.
const MIN_SENTENCE: usize = 2;

/// Calls `word` with each word of names and prose, in lower case: split at everything that is no letter or digit,
/// between lower and upper case (`createIssue`), and before the last capital of a run (`HTTPServer`). Scripts without
/// spaces between words are taken in pairs of letters.
pub(super) fn each_word(text: &str, mut word: impl FnMut(&str)) {
    let mut current = String::new();
    let mut previous: Option<char> = None;
    let mut unspaced = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_unspaced(c) {
            flush(&mut current, &mut word);
            unspaced.push(c);
            previous = None;
            continue;
        }
        if !unspaced.is_empty() {
            pairs(&unspaced, &mut word);
            unspaced.clear();
        }
        if !c.is_alphanumeric() {
            flush(&mut current, &mut word);
            previous = None;
            continue;
        }
        let starts = previous.is_some_and(|p| {
            (p.is_lowercase() && c.is_uppercase())
                || (p.is_uppercase() && c.is_uppercase() && chars.peek().is_some_and(|n| n.is_lowercase()))
        });
        if starts {
            flush(&mut current, &mut word);
        }
        current.extend(c.to_lowercase());
        previous = Some(c);
    }
    flush(&mut current, &mut word);
    pairs(&unspaced, &mut word);
}

fn flush(current: &mut String, word: &mut impl FnMut(&str)) {
    if !current.is_empty() {
        word(current);
        current.clear();
    }
}

fn pairs(letters: &[char], word: &mut impl FnMut(&str)) {
    if let [only] = letters {
        word(&only.to_string());
    }
    for pair in letters.windows(2) {
        word(&pair.iter().collect::<String>());
    }
}

/// Chinese, Japanese, Thai.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

/// The words of `text`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    words
}

/// Letters and digits of `text` in lower case, as names are compared.
pub(super) fn squashed(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a query leaves `word` out.
pub(super) fn is_stop_word(word: &str) -> bool {
    static WORDS: std::sync::LazyLock<std::collections::HashSet<&str>> = std::sync::LazyLock::new(|| {
        STOP_WORDS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
    });
    WORDS.contains(word)
}

/// The stem of an English word; a word of another language is mostly left as it is.
pub(super) fn stem(word: &str) -> String {
    Stemmer::new(Algorithm::English).stem(word).into_owned()
}

/// The sentences of a query that have enough words; the whole query where that is one or none.
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
        if ends {
            let end = at + c.len_utf8();
            sentences.push(&text[start..end]);
            start = end;
        }
    }
    sentences.push(&text[start..]);
    sentences.retain(|sentence| words(sentence).iter().filter(|word| !is_stop_word(word)).count() >= MIN_SENTENCE);
    if sentences.len() > 1 { sentences } else { vec![text] }
}

/// Numbers for the stems of one index, so that a word is stemmed once.
#[derive(Default)]
pub(super) struct Vocabulary {
    ids: HashMap<Box<str>, u32>,
    by_stem: HashMap<Box<str>, u32>,
    stems: Vec<Box<str>>,
}

impl Vocabulary {
    /// The number of `word`'s stem, or of the word itself.
    pub(super) fn id(&mut self, word: &str, stems: bool) -> u32 {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let stem: Box<str> = if stems { stem(word).into() } else { word.into() };
        let next = u32::try_from(self.stems.len()).unwrap_or(u32::MAX);
        let id = *self.by_stem.entry(stem.clone()).or_insert(next);
        if id == next {
            self.stems.push(stem);
        }
        self.ids.insert(word.into(), id);
        id
    }

    /// The stem with this number.
    pub(super) fn stem(&self, id: u32) -> &str {
        self.stems.get(id as usize).map_or("", |stem| stem)
    }
}

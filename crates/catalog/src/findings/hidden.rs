//! Text that a reader does not see, and text that moves what a reader sees.

use stubgen::{is_hidden, is_rtl, is_usual};

use super::fold;
use super::rules::{self, Rule, Severity};

/// Blanks in one line, and line ends in a row, that push what follows out of sight.
const BLANKS: usize = 80;
const LINES: usize = 8;
/// Least invisible characters in a row that can spell something.
const SPELLING: usize = 6;
/// Scattered invisible characters that are more than an accident.
const SCATTERED: usize = 3;
/// Markup that is not shown, in lower case.
const NOT_SHOWN: &[&str] = &[
    "display:none", "display: none", "visibility:hidden", "visibility: hidden", "font-size:0", "font-size: 0",
    "opacity:0", "color:white", "color: white", "color:#fff", "[//]: #", "[comment]: #", "[_]: #",
];

/// A place in the text.
pub(super) type Hit = (&'static Rule, Severity, usize);

/// Finds what is hidden in `text`, the first place of each rule and severity.
pub(super) fn find(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    blanks(text, &mut hits);
    markup(text, &mut hits);
    if text.bytes().any(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        controls(text, &mut hits);
        invisible(text, &mut hits);
        mixed(text, &mut hits);
    }
    hits
}

fn blanks(text: &str, hits: &mut Vec<Hit>) {
    let (mut blanks, mut lines, mut from) = (0, 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '\n' => (blanks, lines) = (0, lines + 1),
            c if c.is_whitespace() || matches!(c, '\u{2800}' | '\u{3164}') => blanks += 1,
            _ => {
                if (blanks >= BLANKS || lines >= LINES) && from > 0 {
                    return hits.push((&rules::OUT_OF_SIGHT, Severity::Warning, at));
                }
                (blanks, lines, from) = (0, 0, at + 1);
            }
        }
    }
}

fn markup(text: &str, hits: &mut Vec<Hit>) {
    // Quoted, it is shown.
    if let Some(at) = text.find("<!--").filter(|at| !text[..*at].ends_with(['`', '"', '\''])) {
        let content = &text[at + 4..];
        let content = content.split("-->").next().unwrap_or(content);
        if content.chars().any(char::is_alphabetic) {
            hits.push((&rules::HIDDEN_MARKUP, Severity::Warning, at));
            return;
        }
    }
    // An image whose address has a place for data.
    if let Some(at) = text.find("](http").filter(|at| text[..*at].contains("![")) {
        let address = text[at + 2..].split([')', ' ']).next().unwrap_or_default();
        if address.contains(['{', '<', '$']) && address.contains('?') {
            hits.push((&rules::SENDS, Severity::Warning, at));
        }
    }
    if text.contains(['<', '[']) {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = NOT_SHOWN.iter().find_map(|markup| lower.find(markup)) {
            let is_text = lower[at..].starts_with('[') || lower.contains("style");
            if is_text {
                hits.push((&rules::HIDDEN_MARKUP, Severity::Warning, at));
            }
        }
    }
}

fn controls(text: &str, hits: &mut Vec<Hit>) {
    let mut rest = text.char_indices().peekable();
    let mut seen = None;
    while let Some((at, c)) = rest.next() {
        let severity = match c {
            '\n' | '\t' | '\u{85}' => continue,
            '\r' if rest.peek().is_none_or(|(_, next)| *next == '\n') => continue,
            // They hide or overwrite text on a terminal.
            '\u{1b}' | '\u{8}' | '\u{9b}' | '\u{90}' | '\u{9d}' => Severity::Error,
            c if c.is_control() => Severity::Warning,
            _ => continue,
        };
        if seen.is_none_or(|seen| seen < severity) {
            seen = Some(severity);
            hits.push((&rules::TERMINAL, severity, at));
        }
    }
}

fn invisible(text: &str, hits: &mut Vec<Hit>) {
    let has_rtl = text.chars().any(is_rtl);
    let (mut row, mut total, mut first, mut in_words) = (0, 0, None, 0);
    let mut worst = Severity::Note;
    let (mut before, mut flag) = (None, false);
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let after = rest.peek().map(|(_, c)| *c);
        if let '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' = c {
            if !has_rtl {
                let is_mark = matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}');
                let severity = if is_mark { Severity::Warning } else { Severity::Error };
                hits.push((&rules::DIRECTION, severity, at));
            } else if matches!(c, '\u{202d}' | '\u{202e}') {
                hits.push((&rules::DIRECTION, Severity::Error, at));
            }
            continue;
        }
        flag = c == '\u{1f3f4}' || (flag && matches!(c, '\u{e0020}'..='\u{e007f}'));
        let is_line = matches!(c, '\u{2028}' | '\u{2029}');
        if !is_hidden(c) || c.is_control() || flag || is_line || is_usual(c, before, after) {
            (row, before) = (0, Some(c));
            continue;
        }
        (row, total) = (row + 1, total + 1);
        first = first.or(Some(at));
        if before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric) {
            in_words += 1;
        }
        let is_smuggling = matches!(c, '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}');
        if is_smuggling || row >= SPELLING {
            worst = Severity::Error;
        }
    }
    if let Some(at) = first {
        let scattered = if total >= SCATTERED || in_words > 0 { Severity::Warning } else { Severity::Note };
        hits.push((&rules::INVISIBLE, worst.max(scattered), at));
    }
}

/// Words of Latin letters with look-alikes of Greek, Cyrillic or Armenian.
fn mixed(text: &str, hits: &mut Vec<Hit>) {
    let mut at = 0;
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if is_mixed(word) {
            return hits.push((&rules::MIXED, Severity::Warning, at));
        }
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
}

/// True for a word of Latin letters with look-alikes of other scripts.
pub(super) fn is_mixed(word: &str) -> bool {
    if word.is_ascii() {
        return false;
    }
    let latin = word.chars().filter(char::is_ascii_alphabetic).count();
    // A Greek letter after a capital or digit is a name of science: TNFα.
    let mut before = 'a';
    let passes = |c: &char| {
        let is_symbol = matches!(c, '\u{370}'..='\u{3ff}') && !before.is_lowercase();
        before = *c;
        !is_symbol && fold::passes_for_latin(*c)
    };
    let alike = word.chars().filter(passes).count();
    // All else of the word is Latin: a foreign ending on a name, as in Slavic languages, is none.
    latin >= 2 && alike > 0 && latin + alike == word.chars().filter(|c| c.is_alphabetic()).count()
}

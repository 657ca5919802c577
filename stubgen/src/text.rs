//! Escapes hostile text: descriptions for docstrings and comments, values for string literals.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use crate::hidden::is_format;

/// Longest description in any view; the raw definition has the rest.
pub(crate) const MAX_DESCRIPTION: usize = 16_000;
/// Longest one-line summary, in characters.
const MAX_SUMMARY: usize = 120;
/// Longest sentence that follows it in a docstring, and longest docstring, in bytes.
const MAX_FURTHER: usize = 80;
const MAX_DOCSTRING: usize = 160;
/// First words of sections that parameters and result have elsewhere.
const SECTIONS: [&str; 8] =
    ["Args:", "Arguments:", "Parameters:", "Params:", "Returns:", "Example:", "Examples:", "Usage:"];

/// The beginning of `text`, at most `bytes`, cut between characters.
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Begins a line.
pub(crate) fn new_line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes items with a separator between them.
pub(crate) fn separated<T>(
    out: &mut String,
    separator: &str,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        write(out, item);
    }
}

/// Text on one line: whitespace is collapsed, invisible characters are removed, length is capped.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_DESCRIPTION));
    for word in text.split_whitespace() {
        let end = out.len();
        if !out.is_empty() {
            out.push(' ');
        }
        let start = out.len();
        if word.bytes().all(|byte| byte.is_ascii_graphic()) {
            out.push_str(word);
        } else {
            out.extend(word.chars().filter(|c| !is_format(*c)));
        }
        if out.len() == start {
            out.truncate(end);
        }
        if out.len() >= MAX_DESCRIPTION {
            out.truncate(out.ceil_char_boundary(MAX_DESCRIPTION));
            out.push('…');
            break;
        }
    }
    out
}

/// Columns of a line, as formatters count them.
pub(crate) fn width(line: &str) -> usize {
    // Fast path: nearly all code is ASCII.
    if line.is_ascii() { line.len() } else { line.width() }
}

/// Text with its lines: each trimmed at the end, without consecutive empty ones.
pub fn many_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for raw in text.split(['\n', '\u{2028}', '\u{2029}']) {
        let line: String = raw
            .chars()
            .filter_map(|c| match c {
                '\t' => Some(' '),
                c if is_format(c) => None,
                c => Some(c),
            })
            .collect();
        let line = line.trim_end();
        if line.is_empty() && lines.last().is_none_or(String::is_empty) {
            continue;
        }
        length += line.len() + 1;
        if length > MAX_DESCRIPTION {
            lines.push(format!("{}…", cut(line, 200)));
            break;
        }
        lines.push(line.to_owned());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The first sentence of a description on one line, cut at a word.
pub(crate) fn summary(text: &str) -> String {
    cut(first_sentence(&beginning(text)), MAX_SUMMARY).into_owned()
}

/// The summary with the sentences behind it, up to the first that is long: they say what a call requires.
pub(crate) fn doc(text: &str) -> String {
    let line = beginning(text);
    let summary = first_sentence(&line);
    let mut end = summary.len();
    if let Cow::Owned(cut) = cut(summary, MAX_SUMMARY) {
        return cut;
    }
    loop {
        let rest = &line[end..];
        let next = first_sentence(rest.trim_start());
        let through = end + (rest.len() - rest.trim_start().len()) + next.len();
        let is_prose = next.starts_with(char::is_alphanumeric) && !SECTIONS.iter().any(|word| next.starts_with(word));
        if !is_prose || next.len() > MAX_FURTHER || through > MAX_DOCSTRING {
            return line[..end].to_owned();
        }
        end = through;
    }
}

/// The beginning of the first paragraph with a word, on one line.
fn beginning(text: &str) -> String {
    let mut paragraph = "";
    for line in text.split(['\n', '\u{2028}', '\u{2029}']) {
        let line =
            line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '-' | '>')).trim_end();
        if line.chars().any(char::is_alphanumeric) {
            let start = line.as_ptr() as usize - text.as_ptr() as usize;
            let rest = &text[start..];
            let end = rest.find("\n\n").or_else(|| rest.find("\r\n\r\n")).unwrap_or(rest.len());
            paragraph = &rest[..end];
            break;
        }
    }
    // Nothing beyond this is shown, and a description may be megabytes.
    one_line(head(paragraph, 8 * MAX_SUMMARY))
}

/// Text up to the first full stop that ends a sentence.
pub(crate) fn first_sentence(line: &str) -> &str {
    const ABBREVIATIONS: [&str; 9] = ["e.g", "i.e", "etc", "vs", "approx", "incl", "no", "cf", "resp"];
    for (at, c) in line.char_indices() {
        if matches!(c, '。' | '！' | '？') {
            return &line[..at + c.len_utf8()];
        }
        let rest = &line[at + c.len_utf8()..];
        if !matches!(c, '.' | '!' | '?') || !rest.starts_with(' ') {
            continue;
        }
        let word = line[..at].rsplit([' ', '(', ',']).next().unwrap_or("");
        let opens = rest.trim_start().chars().next().is_some_and(|next| !next.is_lowercase());
        if opens && !ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return &line[..=at];
        }
    }
    line
}

/// At most `max` characters, cut at a word if one ends in the second half, with an ellipsis.
pub(crate) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some((end, _)) = text.char_indices().nth(max.saturating_sub(1)) else { return Cow::Borrowed(text) };
    if text[end..].chars().nth(1).is_none() {
        return Cow::Borrowed(text);
    }
    let head = &text[..end];
    let head = match head.rfind(' ') {
        Some(space) if space > head.len() / 2 => &head[..space],
        _ => head,
    };
    Cow::Owned(format!("{}…", head.trim_end_matches([' ', ',', ';', ':', '-', '('])))
}

/// Text between `"""` and `"""`: it can neither close the docstring nor start an escape.
pub(crate) fn docstring(text: &str) -> String {
    let mut out = text.replace('\\', "\\\\");
    if out.contains("\"\"") || out.starts_with('"') || out.ends_with('"') {
        out = out.replace('"', "'");
    }
    out
}

/// Text between `/**` and `*/`; a leading `@` would make it a directive.
pub(crate) fn jsdoc(text: &str) -> String {
    text.trim_start_matches(['@', ' ']).replace("*/", "* /")
}

/// True if a comment with this text would be a directive to a checker or formatter.
pub(crate) fn is_directive(text: &str) -> bool {
    const WORDS: [&str; 8] = ["type:", "pyright:", "mypy:", "ty:", "ruff:", "fmt:", "noqa", "isort:"];
    text.split('#').skip(1).any(|rest| WORDS.iter().any(|word| rest.trim_start().starts_with(word)))
}

/// A string literal as `ruff format` and prettier write it: double quotes unless single ones save escapes.
pub(crate) fn quoted(text: &str, language: Language) -> String {
    let quote = if text.matches('"').count() > text.matches('\'').count() { '\'' } else { '"' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    push_escaped(&mut out, text, quote, language);
    out.push(quote);
    out
}

/// A name in a comment: double-quoted, without invisible characters, at most 80 characters.
pub(crate) fn comment_name(name: &str) -> String {
    let mut out = String::from("\"");
    push_escaped(&mut out, &cut(name, 80), '"', Language::Python);
    out.push('"');
    if is_directive(&out) { out.replace('#', "\\x23") } else { out }
}

/// Language of a literal's escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    TypeScript,
}

fn push_escaped(out: &mut String, text: &str, quote: char, language: Language) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_format(c) => push_code(out, c, language),
            c => out.push(c),
        }
    }
}

fn push_code(out: &mut String, c: char, language: Language) {
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let _ = match (language, code) {
        (_, 0..=0xff) => write!(out, "\\x{code:02x}"),
        (_, 0..=0xffff) => write!(out, "\\u{code:04x}"),
        (Language::Python, _) => write!(out, "\\U{code:08x}"),
        (Language::TypeScript, _) => write!(out, "\\u{{{code:x}}}"),
    };
}

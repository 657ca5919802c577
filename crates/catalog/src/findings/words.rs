//! Divides folded text into words.

use super::values;

/// Longest word that is looked up.
const MAX_WORD: usize = 24;
/// Least letters that stand alone and are read as one word.
const SPELLED: usize = 4;

/// A word, or a piece of text that stands for a class by its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Letters and digits.
    Word,
    /// Path of a file of credentials.
    Secret,
    /// URL or mail address, unless it is reserved for examples.
    Address,
    /// End of a sentence.
    End,
}

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) form: Form,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Pieces of folded text.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(text.len() / 6 + 2);
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        // A blank line ends a sentence.
        if rest[..blank].bytes().filter(|byte| *byte == b'\n').count() > 1 {
            pieces.push(Piece { form: Form::End, from: at, to: at });
        }
        at += blank;
        let rest = &text[at..];
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        chunk(text, at, at + length, &mut pieces);
        at += length;
    }
    pieces.push(Piece { form: Form::End, from: text.len(), to: text.len() });
    spelled(text, &mut pieces);
    pieces
}

/// Pieces of text without blanks.
fn chunk(text: &str, from: usize, to: usize, pieces: &mut Vec<Piece>) {
    let whole = &text[from..to];
    let core = whole
        .trim_matches(|c: char| {
            matches!(c, '`' | '\'' | '"' | '(' | ')' | '[' | ']' | '<' | '>' | ',' | ';' | ':' | '!' | '?' | '*')
        })
        .trim_end_matches('.');
    // Plain words are most of a text.
    let may_be = core.bytes().any(|byte| matches!(byte, b'.' | b'/' | b'\\' | b'@' | b'_'));
    let form = match core {
        _ if !may_be => None,
        _ if values::is_secret_path(core) => Some(Form::Secret),
        _ if values::is_address(core) => Some(Form::Address),
        _ => None,
    };
    match form {
        Some(form) => pieces.push(Piece { form, from, to }),
        None => words(text, from, to, pieces),
    }
    let is_end = |c: char| matches!(c, '.' | '!' | '?' | ';' | '。' | '！' | '？');
    if whole.trim_end_matches(['\'', '"', '`', ')', '*']).ends_with(is_end) {
        pieces.push(Piece { form: Form::End, from: to, to });
    }
}

fn words(text: &str, from: usize, to: usize, pieces: &mut Vec<Piece>) {
    let mut start = None;
    for (offset, c) in text[from..to].char_indices() {
        let at = from + offset;
        match (c.is_alphanumeric() || c == '\'', start) {
            (true, None) if c != '\'' => start = Some(at),
            (false, Some(begin)) => {
                pieces.push(Piece { form: Form::Word, from: begin, to: at });
                start = None;
            }
            _ => {}
        }
    }
    if let Some(begin) = start {
        pieces.push(Piece { form: Form::Word, from: begin, to });
    }
}

/// Reads `i g n o r e` as one word.
fn spelled(text: &str, pieces: &mut Vec<Piece>) {
    let is_letter = |piece: &Piece| piece.form == Form::Word && text[piece.from..piece.to].chars().nth(1).is_none();
    let mut joined = Vec::with_capacity(pieces.len());
    let mut at = 0;
    while at < pieces.len() {
        let mut end = at;
        while end < pieces.len()
            && is_letter(&pieces[end])
            && (end == at || text[pieces[end - 1].to..pieces[end].from].chars().nth(1).is_none())
        {
            end += 1;
        }
        if end - at >= SPELLED {
            joined.push(Piece { form: Form::Word, from: pieces[at].from, to: pieces[end - 1].to });
            at = end;
        } else {
            joined.push(pieces[at]);
            at += 1;
        }
    }
    *pieces = joined;
}

/// Passes the forms of a word under which it is looked up: itself, and with digits as letters.
pub(super) fn forms(word: &str, mut look_up: impl FnMut(&str)) {
    if word.len() > 2 * MAX_WORD {
        return;
    }
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return look_up(word);
    }
    let plain: String = word.chars().filter(|c| c.is_alphanumeric()).collect();
    look_up(&plain);
    if plain.bytes().any(|b| b.is_ascii_digit()) && plain.bytes().any(|b| b.is_ascii_alphabetic()) {
        look_up(&plain.chars().map(letter).collect::<String>());
    }
}

fn letter(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        '8' => 'b',
        c => c,
    }
}

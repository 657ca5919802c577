//! Folds text to plain lower-case letters, as a model reads it: compatibility forms, look-alikes and accents become
//! ASCII, and invisible characters disappear.

use std::borrow::Cow;

use unicode_normalization::char::decompose_compatible;

use crate::people::is_hidden;

/// Folded text, with the places that it came from.
pub(super) struct Folded<'a> {
    pub(super) text: Cow<'a, str>,
    /// For each byte of `text`, the byte of the original; `None` if they are the same.
    from: Option<Vec<u32>>,
}

impl Folded<'_> {
    /// Byte of the original text for a byte of the folded one.
    pub(super) fn origin(&self, at: usize) -> usize {
        match &self.from {
            Some(from) => from.get(at).map_or(0, |at| *at as usize),
            None => at,
        }
    }
}

/// Folds text of less than 4 GiB.
pub(super) fn fold(text: &str) -> Folded<'_> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let text = if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
        return Folded { text, from: None };
    }
    let (mut folded, mut from) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    for (at, c) in text.char_indices() {
        each(c, |c| {
            folded.push(c);
            from.extend(std::iter::repeat_n(u32::try_from(at).unwrap_or(u32::MAX), c.len_utf8()));
        });
    }
    Folded { text: Cow::Owned(folded), from: Some(from) }
}

/// Folds text without places.
pub(super) fn plain(text: &str) -> String {
    fold(text).text.into_owned()
}

fn each(c: char, mut push: impl FnMut(char)) {
    if c.is_ascii() {
        match c {
            '\n' | '\t' | ' '..='~' => push(c.to_ascii_lowercase()),
            '\r' => push('\n'),
            _ => {}
        }
        return;
    }
    // Tags spell ASCII.
    if let '\u{e0020}'..='\u{e007e}' = c {
        return each(char::from_u32(u32::from(c) - 0xe0000).unwrap_or(' '), push);
    }
    if matches!(c, '\u{2028}' | '\u{2029}' | '\u{85}') {
        return push('\n');
    }
    if is_hidden(c) {
        return;
    }
    decompose_compatible(c, |c| {
        if matches!(c, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{20d0}'..='\u{20ff}')
        {
            return;
        }
        for c in c.to_lowercase() {
            push(look_alike(c).unwrap_or(c));
        }
    });
}

/// The ASCII letter that a lower-case letter of another script, or a variant, looks like.
pub(super) fn look_alike(c: char) -> Option<char> {
    Some(match c {
        'а' | 'α' | 'ɑ' | 'ᴀ' => 'a',
        'в' | 'ʙ' => 'b',
        'с' | 'ϲ' | 'ᴄ' => 'c',
        'ԁ' | 'ᴅ' | 'đ' => 'd',
        'е' | 'ε' | 'ᴇ' | 'ҽ' => 'e',
        'ꜰ' | 'ƒ' => 'f',
        'ɡ' | 'ɢ' | 'ց' => 'g',
        'һ' | 'н' | 'ʜ' | 'հ' => 'h',
        'і' | 'ι' | 'ı' | 'ɪ' | 'ӏ' => 'i',
        'ј' | 'ᴊ' => 'j',
        'к' | 'κ' | 'ᴋ' => 'k',
        'ʟ' | 'ł' => 'l',
        'м' | 'ᴍ' => 'm',
        'η' | 'ɴ' | 'ո' => 'n',
        'о' | 'ο' | 'ᴏ' | 'օ' | 'ø' => 'o',
        'р' | 'ρ' | 'ᴘ' => 'p',
        'ԛ' => 'q',
        'ʀ' | 'г' => 'r',
        'ѕ' | 'ꜱ' => 's',
        'т' | 'τ' | 'ᴛ' => 't',
        'υ' | 'ս' | 'ᴜ' => 'u',
        'ν' | 'ѵ' | 'ᴠ' => 'v',
        'ԝ' | 'ω' | 'ᴡ' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ү' | 'ʏ' => 'y',
        'ᴢ' => 'z',
        '’' | '‘' | 'ʼ' | '＇' => '\'',
        _ => return None,
    })
}

/// True for a letter of another script that passes for an ASCII letter.
pub(super) fn passes_for_latin(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{58f}') && c.to_lowercase().any(|lower| look_alike(lower).is_some())
}

//! Cuts and escapes text from outside.

/// Average bytes per token, for estimates without a tokenizer.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// The beginning of `text`, at most `bytes`, cut between characters.
#[must_use]
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A name, path or query from outside for an error: its beginning, and its length if it is cut.
#[must_use]
pub(crate) fn brief(text: &str) -> std::borrow::Cow<'_, str> {
    const SHOWN: usize = 200;
    match head(text, SHOWN) {
        whole if whole.len() == text.len() => whole.into(),
        cut => format!("{cut}… ({} bytes)", text.len()).into(),
    }
}

/// Appends text from outside, with terminal controls and direction marks escaped.
pub(crate) fn push_visible(text: &mut String, line: &str) {
    for c in line.chars() {
        match c {
            '\t' | '\n' => text.push(c),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.extend(c.escape_unicode());
            }
            c if c.is_control() => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
}

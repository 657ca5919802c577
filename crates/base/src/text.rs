//! Cuts and escapes text from outside.

use std::borrow::Cow;

pub use stubgen::head;

/// Average bytes per token, for estimates without a tokenizer.
pub const BYTES_PER_TOKEN: usize = 4;

/// `1 call`, `2 calls`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A name, path or query from outside for an error: its beginning, and its length if it is cut.
pub fn brief(text: &str) -> Cow<'_, str> {
    beginning(text, 200)
}

/// The beginning of a text, at most `bytes`, with its length if it is cut.
pub fn beginning(text: &str, bytes: usize) -> Cow<'_, str> {
    match head(text, bytes) {
        whole if whole.len() == text.len() => whole.into(),
        cut => format!("{cut}… ({} bytes)", text.len()).into(),
    }
}

/// Text from outside, with controls and other invisible characters escaped, but where writing or emoji have one.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut before, mut rest) = (None, text.chars().peekable());
    while let Some(c) = rest.next() {
        let is_shown = !stubgen::is_format(c) || stubgen::is_usual(c, before, rest.peek().copied());
        if is_shown || matches!(c, '\t' | '\n') {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
        before = Some(c);
    }
    shown
}

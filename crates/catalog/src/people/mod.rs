//! Renders foreign text for people: approvals, elicitations, the terminal and the log.
//!
//! A question begins with its speaker. Every further line begins with [`MARK`], which no value can contain, so that a
//! value neither starts a line nor passes for another field, however a client wraps or joins lines. Invisible
//! characters, and those that move visible ones, are shown as escapes.

mod fields;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod relay;
mod words;

use std::borrow::Cow;
use std::io;
use std::sync::LazyLock;

use regex::Regex;

use base::error::{ErrorCode, Result};
use base::limits::Limit;

pub use fields::fields;
pub use relay::relayed;
pub use stubgen::is_hidden;
pub use words::words;

/// Start of every line of a question but the first.
pub const MARK: &str = "▌ ";
/// Most combining marks on one character, and most consecutive spaces, before they are escaped.
const MAX_RUN: usize = 4;

/// Refuses what is more than a person can be shown.
fn fits(limit: &Limit, size: usize) -> Result<()> {
    if size <= limit.max { Ok(()) } else { Err(limit.exceeded(ErrorCode::ApprovalDenied, size)) }
}

/// The user of this process, for records of what a person decided.
pub fn user() -> String {
    let uid = nix::unistd::getuid();
    let name = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    name.map_or_else(|| format!("uid {uid}"), |name| format!("{} (uid {uid})", line(&name)))
}

/// Text of any number of lines, for a terminal: only `\n` and `\t` have an effect.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut marks = 0;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            c => push(&mut shown, c, &mut marks),
        }
    }
    Cow::Owned(shown)
}

/// Text on one line that cannot pass for part of a question's frame.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !text.contains("     ") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    push_line(&mut shown, text, |_| false);
    Cow::Owned(shown)
}

/// Quoted text on one line; anything that could pass for its end is escaped.
pub fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    push_line(&mut shown, text, |c| matches!(c, '"' | '\\'));
    shown.push('"');
    shown
}

/// JSON text that stays the same JSON, with invisible characters escaped.
pub fn json(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Characters below a space stand between values, never inside one.
        if c >= ' ' && is_hidden(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn push_line(shown: &mut String, text: &str, is_escaped: impl Fn(char) -> bool) {
    let mut marks = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let blank = rest.len() - rest.trim_start_matches(is_blank).len();
        if blank > 0 {
            push_blanks(shown, &rest[..blank]);
            (rest, marks) = (&rest[blank..], 0);
            continue;
        }
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if is_escaped(c) => shown.extend(['\\', c]),
            c if is_frame(c) => shown.extend(c.escape_unicode()),
            c => push(shown, c, &mut marks),
        }
        rest = &rest[c.len_utf8()..];
    }
}

/// A run of spaces could push text to where the next line of a window begins.
fn push_blanks(shown: &mut String, blanks: &str) {
    let count = blanks.chars().count();
    if count > MAX_RUN {
        shown.push_str(&format!("\\u{{20}}×{count}"));
    } else {
        blanks.chars().for_each(|c| if c == ' ' { shown.push(c) } else { shown.extend(c.escape_unicode()) });
    }
}

fn push(shown: &mut String, c: char, marks: &mut usize) {
    let is_mark = is_combining(c);
    *marks = if is_mark { *marks + 1 } else { 0 };
    if is_hidden(c) || *marks > MAX_RUN { shown.extend(c.escape_unicode()) } else { shown.push(c) }
}

/// True for look-alikes of [`MARK`], and quotation marks and equals signs of other widths.
fn is_frame(c: char) -> bool {
    matches!(c,
        '\u{2580}'..='\u{259f}' | '\u{2758}'..='\u{275a}' | '\u{23b8}' | '\u{23b9}' | '\u{1fb00}'..='\u{1fbff}'
        | '\u{ff02}' | '\u{ff1d}' | '\u{a78a}' | '\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{2ba}' | '\u{2ee}'
        | '\u{5f4}')
}

/// True for a space of any width.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// True for a combining mark.
fn is_combining(c: char) -> bool {
    static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{Mn}\p{Me}]$").ok());
    // Fast path: most text has none, and ideographs are none.
    if c < '\u{300}' || matches!(c, '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}') {
        return false;
    }
    MARKS.as_ref().is_some_and(|marks| marks.is_match(c.encode_utf8(&mut [0; 4])))
}

/// Writes log records, each on one line; each write is a record with its line end, as `tracing_subscriber` makes them.
#[derive(Debug)]
pub struct Records<W>(pub W);

impl<W: io::Write> io::Write for Records<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (record, end) = text.strip_suffix('\n').map_or((&*text, ""), |record| (record, "\n"));
        let mut shown = String::with_capacity(text.len());
        let mut marks = 0;
        for c in record.chars() {
            match c {
                '\n' => shown.push_str("\\n"),
                '\t' => shown.push('\t'),
                c => push(&mut shown, c, &mut marks),
            }
        }
        shown.push_str(end);
        self.0.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_that_unicode_calls_invisible_is_escaped() {
        let class = Regex::new(r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}]$").expect("a class");
        for c in ('\0'..=char::MAX).filter(|c| class.is_match(c.encode_utf8(&mut [0; 4]))) {
            assert!(is_hidden(c), "{:?}", c.escape_unicode().to_string());
        }
        for c in "aé中ａ\u{301}אشกั😀“”…→─│'`|:=".chars() {
            assert!(!is_hidden(c), "{c}");
        }
    }

    #[test]
    fn text_is_shown_as_it_is_or_as_escapes() {
        for (text, many, one) in [
            ("plain: ü 中文 “x”", "plain: ü 中文 “x”", "plain: ü 中文 “x”"),
            ("a\nb\tc", "a\nb\tc", "a\\nb\\tc"),
            ("a\r\nb\rc", "a\nb\\u{d}c", "a\\r\\nb\\rc"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J", "\\u{9b}2J"),
            ("x\u{202e}y\u{200b}z\u{e0041}", "x\\u{202e}y\\u{200b}z\\u{e0041}", "x\\u{202e}y\\u{200b}z\\u{e0041}"),
            ("❤\u{fe0f}", "❤\\u{fe0f}", "❤\\u{fe0f}"),
            ("▌ to = 1", "▌ to = 1", "\\u{258c} to = 1"),
            ("a        b", "a        b", "a\\u{20}×8b"),
            ("a\u{a0}b", "a\u{a0}b", "a\\u{a0}b"),
            (
                "e\u{301}\u{301}\u{301}\u{301}\u{301}", "e\u{301}\u{301}\u{301}\u{301}\\u{301}",
                "e\u{301}\u{301}\u{301}\u{301}\\u{301}",
            ),
        ] {
            assert_eq!((&*visible(text), &*line(text)), (many, one), "{text:?}");
        }
        assert_eq!(quoted("a\" = \\u{20}"), "\"a\\\" = \\\\u{20}\"");
        let mut log = Vec::new();
        Records(&mut log).write_all("WARN a\nERROR forged \u{1b}[2J\n".as_bytes()).expect("written");
        assert_eq!(String::from_utf8(log).expect("text"), "WARN a\\nERROR forged \\u{1b}[2J\n");
    }

    proptest! {
        #[test]
        fn json_stays_the_same_json(text in any::<String>()) {
            let written = serde_json::json!([text, {text.clone(): 1}]).to_string();
            let shown = json(&written);
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok(), serde_json::from_str(&written).ok());
            prop_assert!(!shown.chars().any(is_hidden), "{shown:?}");
        }

        #[test]
        fn one_line_is_one_line(text in any::<String>()) {
            for shown in [line(&text).into_owned(), quoted(&text)] {
                prop_assert!(!shown.chars().any(|c| is_hidden(c) || is_frame(c)), "{shown:?}");
            }
            prop_assert!(!visible(&text).chars().any(|c| is_hidden(c) && !matches!(c, '\n' | '\t')));
        }
    }
}

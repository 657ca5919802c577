//! A text without its byte order mark and with one kind of line end, for parsers; both come back when it is rendered.

use std::io;

/// Byte order mark.
const MARK: char = '\u{feff}';

/// The layout of a text.
#[derive(Debug)]
pub struct Layout {
    original: String,
    plain: String,
}

impl Layout {
    /// Takes the layout of a file's content.
    ///
    /// # Errors
    /// `InvalidData` when it is not UTF-8.
    pub fn of(content: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(content)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))?;
        let plain = text.strip_prefix(MARK).unwrap_or(text).replace("\r\n", "\n");
        Ok(Self { original: text.to_owned(), plain })
    }

    /// The text without a byte order mark, each line ended by `\n`.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Renders an edited plain text: unchanged lines at the start and the end as they were, the others with the line end
    /// that most lines have.
    pub fn render(&self, edited: &str) -> String {
        let text = self.original.strip_prefix(MARK).unwrap_or(&self.original);
        let mark = if text.len() < self.original.len() { MARK.to_string() } else { String::new() };
        let (all, returns) = (text.matches('\n').count(), text.matches("\r\n").count());
        if returns == 0 {
            return mark + edited;
        }
        let end = if 2 * returns > all { "\r\n" } else { "\n" };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let old: Vec<&str> = self.plain.split_inclusive('\n').collect();
        let new: Vec<&str> = edited.split_inclusive('\n').collect();
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - head;
        let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
        let middle = new[head..new.len() - tail].iter().map(|line| match line.strip_suffix('\n') {
            Some(line) => format!("{line}{end}"),
            None => (*line).to_owned(),
        });
        mark + &lines[..head].concat() + &middle.collect::<String>() + &lines[lines.len() - tail..].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_the_mark_survive_an_edit() {
        for (before, edited, after) in [
            ("a\nb\n", "a\nx\nb\n", "a\nx\nb\n"),
            ("a\r\nb\r\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
            ("\u{feff}a\r\nb", "a\nx\nb", "\u{feff}a\r\nx\r\nb"),
            ("\u{feff}a", "a\nx", "\u{feff}a\nx"),
            // Mixed: what is there stays, what is new has the line end of most.
            ("a\r\nb\nc\nd\r\ne\r\n", "a\nb\nx\nc\nd\ne\n", "a\r\nb\nx\r\nc\nd\r\ne\r\n"),
            ("a\nb\nc\r\n", "a\nx\nb\nc\n", "a\nx\nb\nc\r\n"),
            ("a\r\na\r\n", "a\n", "a\r\n"),
            ("a\r\n", "a\na\na\n", "a\r\na\r\na\r\n"),
            ("a\r\r\nb\rc\r\n", "a\r\nb\rc\nx\n", "a\r\r\nb\rc\r\nx\r\n"),
            ("\r\n", "", ""),
            ("", "x", "x"),
        ] {
            let layout = Layout::of(before.as_bytes()).expect("UTF-8");
            assert_eq!(layout.render(edited), after, "{before:?} edited to {edited:?}");
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        let error = Layout::of(b"\xff\xfe{\x00}\x00").expect_err("UTF-16").to_string();
        assert_eq!(error, "it is not UTF-8 text");
    }

    proptest::proptest! {
        #[test]
        fn a_text_that_is_not_edited_is_the_same(text in "(\u{feff}|[ab\n\r]|\r\n){0,20}") {
            let layout = Layout::of(text.as_bytes()).expect("UTF-8");
            proptest::prop_assert_eq!(layout.render(layout.plain()), text.clone());
        }
    }
}

//! Places of byte offsets, found in the same time on a line of any length.

/// Most bytes between two marks.
const STEP: usize = 1 << 10;

/// A text, with places of some of its offsets.
pub(crate) struct Lines {
    code: String,
    /// Offsets with their places: where each line begins, and parts of long ones.
    marks: Vec<(usize, (u32, u32))>,
    width: fn(char) -> usize,
}

impl Lines {
    /// `width` has the columns of a character.
    pub(crate) fn new(code: &str, width: fn(char) -> usize) -> Self {
        let (mut last, mut place) = (0, (1, 1));
        let mut marks = vec![(last, place)];
        for (at, c) in code.char_indices() {
            let behind = at + c.len_utf8();
            place = if c == '\n' { (place.0 + 1, 1) } else { (place.0, place.1 + columns(width(c))) };
            if c == '\n' || behind - last >= STEP {
                last = behind;
                marks.push((last, place));
            }
        }
        Self { code: code.to_owned(), marks, width }
    }

    /// The line of a byte offset.
    pub(crate) fn line(&self, offset: u32) -> &str {
        let (before, behind) = self.code.split_at(self.code.floor_char_boundary(offset as usize));
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = behind.find('\n').map_or(self.code.len(), |newline| before.len() + newline);
        self.code[start..rest].trim_end_matches('\r')
    }

    /// Line and column of a byte offset, from 1.
    pub(crate) fn place(&self, offset: u32) -> (u32, u32) {
        let offset = self.code.floor_char_boundary(offset as usize);
        let behind = self.marks.partition_point(|(at, _)| *at <= offset);
        let (from, (line, column)) = behind.checked_sub(1).map_or((0, (1, 1)), |before| self.marks[before]);
        let more = self.code[from..offset].chars().map(self.width).sum();
        (line, column + columns(more))
    }
}

fn columns(width: usize) -> u32 {
    u32::try_from(width).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_their_lines_however_long() {
        let code = format!("é🎉\n{}\r\n{}x", "🎉é a".repeat(400), "b".repeat(2000));
        let (units, chars) = (Lines::new(&code, char::len_utf16), Lines::new(&code, |_| 1));
        for (at, _) in code.char_indices() {
            let offset = u32::try_from(at).expect("a short text");
            assert_eq!(units.place(offset), wire::position(&code, at));
            let start = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
            assert_eq!(chars.place(offset).1 as usize, code[start..at].chars().count() + 1);
            assert_eq!(Some(units.line(offset)), code[start..].lines().next());
        }
        // No place is far behind a mark.
        let ends = units.marks.iter().map(|(at, _)| *at).skip(1).chain([code.len()]);
        assert!(ends.zip(&units.marks).all(|(end, (at, _))| end - at < STEP + 4));
    }
}

//! Changes to a script, and the way back from places of the changed text.

use starlark::codemap::{Pos, Span};

use crate::lines::Lines;

/// Changes in any order: begin, order at one place, end, and the new text.
#[derive(Default)]
pub(super) struct Edits(Vec<(usize, (u8, isize), usize, String)>);

impl Edits {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn replace(&mut self, start: usize, end: usize, text: impl Into<String>) {
        self.0.push((start, (2, self.number()), end, text.into()));
    }

    /// Inserts what opens before `at`: the first is the outermost.
    pub(super) fn open(&mut self, at: usize, text: impl Into<String>) {
        self.0.push((at, (1, self.number()), at, text.into()));
    }

    /// Inserts what closes behind `at`.
    pub(super) fn close(&mut self, at: usize, text: impl Into<String>) {
        self.0.push((at, (0, -self.number()), at, text.into()));
    }

    fn number(&self) -> isize {
        isize::try_from(self.0.len()).unwrap_or(isize::MAX)
    }

    /// The changed text, and where its parts come from.
    pub(super) fn apply(mut self, code: &str) -> (String, Vec<Part>) {
        self.0.sort_by_key(|(start, order, ..)| (*start, *order));
        let (mut text, mut parts, mut at) = (String::new(), Vec::new(), 0);
        for (start, _, end, new) in self.0 {
            // A change within another that was replaced is gone with it.
            if start < at || end < start {
                continue;
            }
            parts.push(Part { new: text.len(), old: at, is_kept: true });
            text.push_str(&code[at..start]);
            parts.push(Part { new: text.len(), old: start, is_kept: false });
            text.push_str(&new);
            at = end;
        }
        parts.push(Part { new: text.len(), old: at, is_kept: true });
        text.push_str(&code[at..]);
        (text, parts)
    }
}

/// Begin of a part of the changed text, and its place in the script.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(super) new: usize,
    pub(super) old: usize,
    pub(super) is_kept: bool,
}

/// The script as written, for the places of its tree.
pub(crate) struct Places {
    lines: Lines,
    /// Empty if the tree is that of the script itself.
    parts: Vec<Part>,
}

impl Places {
    pub(in crate::starlark) fn new(code: &str, parts: Vec<Part>) -> Self {
        Self { lines: Lines::new(code, |_| 1), parts }
    }

    /// Begin and end in the script, in bytes.
    pub(crate) fn range(&self, span: Span) -> (u32, u32) {
        (self.offset(span.begin()), self.offset(span.end()))
    }

    /// Line and column in the script, from 1.
    pub(crate) fn place(&self, span: Span) -> (u32, u32) {
        self.lines.place(self.offset(span.begin()))
    }

    fn offset(&self, at: Pos) -> u32 {
        let offset = at.get() as usize;
        let behind = self.parts.partition_point(|part| part.new <= offset);
        let Some(part) = behind.checked_sub(1).map(|index| self.parts[index]) else { return at.get() };
        u32::try_from(part.old + if part.is_kept { offset - part.new } else { 0 }).unwrap_or(u32::MAX)
    }
}

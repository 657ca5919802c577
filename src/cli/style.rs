//! Tables, and colours by role. Foreign text is made harmless before it is styled, so that only ours has escapes.

use std::borrow::Cow;
use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use base::outcome::Outcome;
use catalog::people;
use config::process_env;

/// Space between columns.
const GAP: usize = 2;
/// Least width that a column is cut to.
const NARROWEST: usize = 6;
/// Least width of a column that has what others leave.
const SPARE: usize = 12;

/// Meaning of a text, which its colour shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Head,
    Faint,
    Good,
    Failed,
    Waiting,
    Destructive,
}

impl Role {
    pub(super) fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Head => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Failed => AnsiColor::BrightRed.on_default(),
            Self::Waiting => AnsiColor::Yellow.on_default(),
            Self::Destructive => AnsiColor::Magenta.on_default().bold(),
        }
    }

    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Good,
            Outcome::Running | Outcome::Planned => Self::Waiting,
            Outcome::Failed(_) | Outcome::Unknown | Outcome::Unfinished => Self::Failed,
        }
    }
}

/// Text as a terminal shows it. In CI no line of it is a command, whatever name or text of a stranger's is in it.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    static IN_CI: LazyLock<bool> =
        LazyLock::new(|| ["GITHUB_ACTIONS", "TF_BUILD"].iter().any(|name| process_env(name).is_some()));
    let text = people::visible(text);
    if !*IN_CI || !(text.contains("::") || text.contains("##")) {
        return text;
    }
    let line = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("\\u{{3a}}:{rest}"),
        None => line.replace("##[", "#\\u{23}[").replace("##vso", "#\\u{23}vso"),
    };
    text.split_inclusive('\n').map(line).collect::<String>().into()
}

/// Adds a line to what is shown of a record: a name and a value, unless that is empty.
pub(super) fn put(shown: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        shown.push_str(&format!("{name:<11}{}\n", people::visible(value).replace('\n', "\\n")));
    }
}

/// A cell: one harmless line with a role.
pub(super) struct Cell {
    text: String,
    role: Role,
}

impl Cell {
    pub(super) fn new(role: Role, text: &str) -> Self {
        // An empty column would be none to who reads it by spaces.
        let text = if text.is_empty() { "-".into() } else { people::line(text) };
        Self { text: shown(&text).into_owned(), role }
    }

    pub(super) fn plain(text: &str) -> Self {
        Self::new(Role::Plain, text)
    }
}

/// Paints a text.
pub(super) type Paint<'a> = &'a dyn Fn(Role, &str) -> String;

/// Rows below a head, in aligned columns. The last column may be empty.
pub(super) struct Table<const N: usize> {
    head: [&'static str; N],
    /// Columns of numbers.
    right: &'static [usize],
    /// Columns of words, which are cut before others.
    wide: &'static [usize],
    /// True if the last column has only what the others leave.
    is_last_spare: bool,
    /// Columns that are not shown.
    pub(super) left_out: Vec<usize>,
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(head: [&'static str; N], right: &'static [usize], wide: &'static [usize]) -> Self {
        Self { head, right, wide, is_last_spare: false, left_out: Vec::new(), rows: Vec::new() }
    }

    /// With a last column that has the room which the others leave, or is left out.
    pub(super) fn with_spare_last(self) -> Self {
        Self { is_last_spare: true, ..self }
    }

    pub(super) fn push(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    /// The head and the rows, cut to `most` columns of a terminal; `None` without rows.
    pub(super) fn lines(&self, most: Option<usize>, head: Paint<'_>, body: Paint<'_>) -> Option<(String, Vec<String>)> {
        let widths = self.widths(most);
        let names = self.head.each_ref().map(|name| Cell { text: (*name).to_owned(), role: Role::Head });
        let rows: Vec<String> = self.rows.iter().map(|row| self.line(row, &widths, body)).collect();
        (!rows.is_empty()).then(|| (self.line(&names, &widths, head), rows))
    }

    /// Width of each column: of its widest cell, less where the widest ones must give way.
    fn widths(&self, most: Option<usize>) -> [usize; N] {
        let of = |column: usize| {
            if self.left_out.contains(&column) {
                return 0;
            }
            let cells = self.rows.iter().map(|row| row[column].text.width());
            cells.chain([self.head[column].width()]).max().unwrap_or_default()
        };
        let mut widths = std::array::from_fn(of);
        let Some(most) = most else { return widths };
        let mut most = most.saturating_sub(GAP * (N - self.left_out.len()).saturating_sub(1));
        if let Some((last, others)) = widths.split_last_mut().filter(|_| self.is_last_spare) {
            let room = most.saturating_sub(others.iter().sum());
            (*last, most) = if room < SPARE.min(*last) { (0, most + GAP) } else { (room.min(*last), most) };
        }
        while widths.iter().sum::<usize>() > most {
            match self.wide.iter().max_by_key(|column| widths[**column]) {
                Some(widest) if widths[*widest] > NARROWEST => widths[*widest] -= 1,
                _ => break,
            }
        }
        // Columns at the end go, before ids are cut.
        for column in (1..N).rev() {
            let over = widths.iter().sum::<usize>().saturating_sub(most);
            widths[column] -= over.min(widths[column]);
        }
        widths
    }

    fn line(&self, row: &[Cell; N], widths: &[usize; N], paint: Paint<'_>) -> String {
        let mut line = String::new();
        let shown = |(column, _): &(usize, _)| !self.left_out.contains(column);
        for (column, (cell, width)) in row.iter().zip(widths).enumerate().filter(shown) {
            let is_last = column + 1 == N;
            let text = if is_last && cell.text == "-" { "".into() } else { cut(&cell.text, *width) };
            let pad = " ".repeat(width.saturating_sub(text.width()));
            let text = paint(cell.role, &text);
            match (self.right.contains(&column), is_last) {
                (true, _) => line.extend([&*pad, &*text]),
                (false, true) => line.push_str(&text),
                (false, false) => line.extend([&*text, &*pad]),
            }
            if !is_last {
                line.push_str(&" ".repeat(GAP));
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Beginning of a text that is too wide, with a mark.
pub(super) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width || width == 0 {
        return Cow::Borrowed(if width == 0 { "" } else { text });
    }
    let (mut cut, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or_default();
        if used > width {
            break;
        }
        cut.push(c);
    }
    Cow::Owned(cut.trim_end().to_owned() + "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<3> {
        let mut table = Table::new(["NAME", "SIZE", "TEXT"], &[1], &[2]);
        table.push([Cell::plain("票券"), Cell::plain("7"), Cell::plain("a \u{1b}[31mred\u{1b}[0m text")]);
        table.push([Cell::plain("b"), Cell::plain("1200"), Cell::plain("")]);
        table
    }

    #[test]
    fn columns_are_aligned_by_what_a_terminal_shows_and_nothing_foreign_moves_it() {
        let plain = |_: Role, text: &str| text.to_owned();
        let lines = |most| table().lines(most, &plain, &plain).map(|(_, rows)| rows).unwrap_or_default();
        assert_eq!(lines(None), ["票券     7  a \\u{1b}[31mred\\u{1b}[0m text", "b     1200"]);
        assert_eq!(lines(Some(30)), ["票券     7  a \\u{1b}[31mred\\u…", "b     1200"]);
        assert_eq!(lines(Some(12)), ["票券     7", "b     1200"]);
    }

    #[test]
    fn a_spare_column_takes_nothing_from_the_others() {
        let plain = |_: Role, text: &str| text.to_owned();
        let rows = |most| {
            let mut table = Table::new(["RUN", "CALLS", "TITLE"], &[], &[1]).with_spare_last();
            table.push([Cell::plain("6f"), Cell::plain("before its first call"), Cell::plain("a title of 21 letters")]);
            table.lines(Some(most), &plain, &plain).map(|(_, rows)| rows).unwrap_or_default()
        };
        assert_eq!(rows(60), ["6f   before its first call  a title of 21 letters"]);
        assert_eq!(rows(40), ["6f   before its first call  a title of…"]);
        assert_eq!(rows(39), ["6f   before its first call"]);
        assert_eq!(rows(16), ["6f   before its…"]);
    }

    #[test]
    fn a_wide_character_is_not_halved() {
        assert_eq!([cut("票券系統", 5), cut("票券系統", 4), cut("abc", 3)], ["票券…", "票…", "abc"]);
    }
}

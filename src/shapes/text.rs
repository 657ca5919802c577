//! Kinds of texts: JSON, CSV with its header, lines, any.

use serde::{Deserialize, Serialize};

use super::{Shape, keys};

/// Bytes of the beginning that is looked at.
const MAX_LOOKED_AT: usize = 16 << 10;
/// Lines that are looked at.
const MAX_LINES: usize = 32;
/// Most columns.
const MAX_COLUMNS: usize = 40;

/// Kind of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Text {
    /// Empty, or too long to tell.
    Unknown,
    /// An object or array.
    Json(Box<Shape>),
    /// The names of its columns.
    Csv(Vec<String>),
    /// Several lines.
    Lines,
    /// Any text.
    Plain,
}

impl Text {
    /// The least kind that has both.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, kind) | (kind, Self::Unknown) => kind,
            (Self::Json(mut ours), Self::Json(theirs)) => {
                ours.join(*theirs);
                Self::Json(ours)
            }
            (Self::Csv(ours), Self::Csv(theirs)) if ours == theirs => Self::Csv(ours),
            (Self::Csv(_) | Self::Lines, Self::Csv(_) | Self::Lines) => Self::Lines,
            _ => Self::Plain,
        }
    }

    /// Kind of a text that is not JSON.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Unknown;
        }
        if !text.contains('\n') {
            return Self::Plain;
        }
        columns(text).map_or(Self::Lines, Self::Csv)
    }
}

/// Columns of CSV with a header. The first line is a header, not data, only if every cell of it is a name, and a column
/// below has nothing but numbers, dates or addresses.
fn columns(text: &str) -> Option<Vec<String>> {
    let looked_at = crate::text::head(text, MAX_LOOKED_AT);
    let whole = looked_at.len() == text.len();
    let mut lines: Vec<&str> = looked_at.lines().take(MAX_LINES).collect();
    if !whole && lines.len() < MAX_LINES {
        lines.pop();
    }
    let header = *lines.first()?;
    let separator = [',', '\t', ';', '|'].into_iter().find(|separator| header.contains(*separator))?;
    let header = cells(header, separator)?;
    let names: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let distinct = names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    if !(2..=MAX_COLUMNS).contains(&names.len()) || !distinct || names.iter().any(|name| keys::is_data(name)) {
        return None;
    }
    let mut typed = vec![Some(false); names.len()];
    for line in lines.iter().skip(1).filter(|line| !line.is_empty()) {
        let row = cells(line, separator).filter(|row| row.len() == names.len())?;
        for (column, cell) in typed.iter_mut().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            *column = column.filter(|_| is_value(cell)).map(|_| true);
        }
    }
    typed.contains(&Some(true)).then_some(names)
}

/// Cells of a line; `None` if a quotation is open at its end.
fn cells(line: &str, separator: char) -> Option<Vec<&str>> {
    let (mut cells, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                cells.push(&line[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    cells.push(&line[start..]);
    let bare = cells.into_iter().map(|cell| cell.trim().trim_matches('"')).collect();
    (!quoted).then_some(bare)
}

/// A number, date, time, address or truth value.
fn is_value(cell: &str) -> bool {
    let unsigned = cell.trim_start_matches(['-', '+', '$', '€', '£']);
    unsigned.starts_with(|c: char| c.is_ascii_digit())
        || cell.contains('@')
        || cell.contains("://")
        || ["true", "false"].iter().any(|word| cell.eq_ignore_ascii_case(word))
}

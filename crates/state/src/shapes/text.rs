//! Kinds of texts: JSON, CSV with its header, lines, any.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Shape, keys};

/// Bytes of the beginning that is looked at.
const MAX_LOOKED_AT: usize = 16 << 10;
/// Lines that are looked at.
const MAX_LINES: usize = 32;
/// Most columns.
const MAX_COLUMNS: usize = 40;
/// Most named lines, and longest name of one in bytes.
const MAX_NAMED: usize = 8;
const MAX_NAME: usize = 32;

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
    /// Several lines, the first of them with these names: `version: 3`. Sorted.
    Named(Vec<String>),
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
            (Self::Named(mut ours), Self::Named(theirs)) => {
                ours.retain(|name| theirs.contains(name));
                if ours.is_empty() { Self::Lines } else { Self::Named(ours) }
            }
            (Self::Csv(_) | Self::Lines | Self::Named(_), Self::Csv(_) | Self::Lines | Self::Named(_)) => Self::Lines,
            _ => Self::Plain,
        }
    }

    /// Kind of a text that is not JSON. Names that the caller gave are data.
    pub(super) fn of(text: &str, given: &BTreeSet<String>) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Unknown;
        }
        if !text.contains('\n') {
            return Self::Plain;
        }
        let mut names = named(text);
        names.retain(|name| !given.contains(name));
        match columns(text) {
            Some(columns) => Self::Csv(columns),
            None if names.is_empty() => Self::Lines,
            None => Self::Named(names),
        }
    }
}

/// Names of the lines `name: value` before an empty one or `---`, where the value is a number, date or truth value in one
/// word: what stands before words may be a person.
fn named(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let is_plain = |value: &str| is_value(value) && !value.contains([' ', '@', '/']);
    let mut names = Vec::new();
    let lines = base::text::head(text, MAX_LOOKED_AT).lines().take(MAX_LINES);
    for line in lines.skip_while(|line| *line == "---") {
        if line.is_empty() || line == "---" {
            names.truncate(MAX_NAMED);
            names.sort_unstable();
            names.dedup();
            return names;
        }
        let Some((name, value)) = line.split_once(": ") else { break };
        if name.len() <= MAX_NAME && name.chars().all(is_word) && !keys::is_data(name) && is_plain(value.trim()) {
            names.push(name.to_owned());
        }
    }
    Vec::new()
}

/// Columns of CSV with a header. The first line is a header, not data, only if every cell of it is a name, and a column
/// below has nothing but numbers, dates or addresses.
fn columns(text: &str) -> Option<Vec<String>> {
    let looked_at = base::text::head(text, MAX_LOOKED_AT);
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

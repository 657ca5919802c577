//! Kinds of texts: JSON, CSV with its header, lines, one line of a form, any.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Object, Shape, both, keys};

/// Bytes of the beginning that is looked at.
const MAX_LOOKED_AT: usize = 16 << 10;
/// Lines that are looked at.
const MAX_LINES: usize = 32;
/// Most columns, and headers.
const MAX_COLUMNS: usize = 40;
const MAX_HEADERS: usize = 3;
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
    /// A list or dict as Python prints it.
    Python(Box<Shape>),
    /// An object or array on each line.
    JsonLines(Box<Shape>),
    /// Columns or names that an earlier version learned, to be learned anew.
    #[serde(rename = "csv", alias = "named")]
    Old(Vec<String>),
    /// CSV: the separator and columns of each header; true if a cell may be in quotation marks.
    Tables(BTreeSet<(char, Vec<String>)>, bool),
    /// Several lines.
    Lines,
    /// Several lines, each of them `name: value`.
    Pairs,
    /// Several lines, the first of them with these names: `version: 3`. Sorted. True if `---` ends them, and false if an
    /// empty line does.
    Headed(Vec<String>, Option<bool>),
    /// One line of a form.
    Of(Form),
    /// A value that the definition lists for an argument of the same name.
    Listed,
    /// Any text.
    #[serde(alias = "plain")]
    Any,
}

/// Forms of a text of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Form {
    Date,
    DateTime,
    /// A number.
    Decimal,
    /// Two or three capitals, as of a country or a currency.
    Capitals(u8),
}

impl Form {
    fn of(text: &str) -> Option<Self> {
        let like = |text: &str, form: &str| {
            let is = |(byte, like): (u8, u8)| if like == b'0' { byte.is_ascii_digit() } else { byte == like };
            text.len() == form.len() && text.bytes().zip(form.bytes()).all(is)
        };
        let starts = |form: &str| text.get(..form.len()).is_some_and(|start| like(start, form));
        let is_of_time = |byte: u8| byte.is_ascii_digit() || b":.+-Z".contains(&byte);
        let number = text.strip_prefix('-').unwrap_or(text);
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.len() {
            10 if like(text, "0000-00-00") => Some(Self::Date),
            16..=40 if starts("0000-00-00T00:00") && text[16..].bytes().all(is_of_time) => Some(Self::DateTime),
            2..=3 if text.bytes().all(|byte| byte.is_ascii_uppercase()) => Some(Self::Capitals(text.len() as u8)),
            // `007` is a name.
            _ if whole.len() > 1 && whole.starts_with('0') => None,
            _ => (is_digits(whole) && is_digits(part)).then_some(Self::Decimal),
        }
    }
}

impl Text {
    /// The least kind that has both.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown | Self::Old(_), kind) | (kind, Self::Unknown | Self::Old(_)) => kind,
            (Self::Json(ours), Self::Json(theirs)) => Self::Json(both(ours, *theirs)),
            // JSON is read by `forge.literal` too.
            (Self::Python(ours), Self::Python(theirs) | Self::Json(theirs))
            | (Self::Json(ours), Self::Python(theirs)) => Self::Python(both(ours, *theirs)),
            (Self::JsonLines(ours), Self::JsonLines(theirs)) => Self::JsonLines(both(ours, *theirs)),
            (Self::Tables(mut ours, quoted), Self::Tables(theirs, also)) => {
                ours.extend(theirs);
                // Equal names before others are names of data: `Name;Alice`, `Name;Bob`.
                let like = |(separator, names): &(char, Vec<String>)| (*separator, names.len(), names.first().cloned());
                let is_data = ours.iter().map(like).collect::<BTreeSet<_>>().len() < ours.len();
                if is_data || ours.len() > MAX_HEADERS { Self::Lines } else { Self::Tables(ours, quoted || also) }
            }
            (Self::Headed(mut ours, end), Self::Headed(theirs, other)) => {
                ours.retain(|name| theirs.contains(name));
                if ours.is_empty() { Self::Lines } else { Self::Headed(ours, end.filter(|end| other == Some(*end))) }
            }
            (ours, theirs) if ours == theirs => ours,
            (ours, theirs) if ours.has_lines() && theirs.has_lines() => Self::Lines,
            _ => Self::Any,
        }
    }

    fn has_lines(&self) -> bool {
        matches!(self, Self::JsonLines(_) | Self::Tables(..) | Self::Lines | Self::Pairs | Self::Headed(..))
    }

    /// Kind of a text that is not JSON. Names that the caller gave are data.
    pub(super) fn of(text: &str, given: &BTreeSet<String>) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Unknown;
        }
        if !text.contains('\n') {
            return Form::of(text).map_or(Self::Any, Self::Of);
        }
        let (mut names, end) = named(text);
        names.retain(|name| !given.contains(name));
        match columns(text) {
            Some(header) => Self::Tables(BTreeSet::from([header]), text.contains('"')),
            None if !names.is_empty() => Self::Headed(names, end),
            None if are_pairs(text) => Self::Pairs,
            None => Self::Lines,
        }
    }

    /// Shape of the JSON that it has.
    pub(super) fn inner(&self) -> Option<&Shape> {
        if let Self::Json(inner) | Self::Python(inner) | Self::JsonLines(inner) = self { Some(inner) } else { None }
    }

    /// Shape of the JSON that it has.
    pub(super) fn inner_mut(&mut self) -> Option<&mut Shape> {
        if let Self::Json(inner) | Self::Python(inner) | Self::JsonLines(inner) = self { Some(inner) } else { None }
    }

    /// Names of its lines and columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let (columns, lines) = match self {
            Self::Tables(headers, _) => (Some(headers), None),
            Self::Headed(names, _) => (None, Some(names)),
            _ => (None, None),
        };
        columns.into_iter().flatten().flat_map(|(_, names)| names).chain(lines.into_iter().flatten())
    }

    /// Its lines in words, if it has several.
    pub(super) fn words(&self) -> Option<String> {
        let list =
            |names: Vec<&String>, end: &str| names.into_iter().map(|name| format!("{name}{end}")).collect::<Vec<_>>();
        let fields = |shape: &Shape| match &shape.object {
            Some(Object::Fields(fields)) => {
                format!(": {{{}}}", list(fields.keys().take(MAX_NAMED).collect(), "").join(", "))
            }
            _ => String::new(),
        };
        let quoted = if let Self::Tables(_, true) = self { ", some cells quoted" } else { "" };
        Some(match self {
            Self::JsonLines(inner) => format!("JSON on each line{}", fields(inner)),
            Self::Python(inner) => match &inner.list {
                Some(item) => format!("a list of Python for `forge.literal(text)`{}", fields(item)),
                None => format!("a dict of Python for `forge.literal(text)`{}", fields(inner)),
            },
            Self::Tables(headers, _) => {
                let by = |separator| if separator == ',' { String::new() } else { format!("by {separator:?}: ") };
                let one = |(separator, names): &(char, Vec<String>)| by(*separator) + &names.join(", ");
                format!("CSV{quoted}: {}", headers.iter().map(one).collect::<Vec<_>>().join("; or "))
            }
            Self::Lines => "lines".to_owned(),
            Self::Pairs => "lines, each `name: value`".to_owned(),
            Self::Headed(names, end) => {
                let end =
                    end.map_or("", |is_rule| if is_rule { ", then a line `---`" } else { ", then an empty line" });
                format!("lines, with {}{end}", list(names.iter().collect(), ": N").join(", "))
            }
            _ => return None,
        })
    }
}

/// Names of the lines `name: value` before an empty one or `---`, where the value is a number, date or truth value in one
/// word: what stands before words may be a person.
fn named(text: &str) -> (Vec<String>, Option<bool>) {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let is_plain = |value: &str| is_value(value) && !value.contains([' ', '@', '/']);
    let mut names = Vec::new();
    let lines = base::text::head(text, MAX_LOOKED_AT).lines().take(MAX_LINES);
    for line in lines.skip_while(|line| *line == "---") {
        if line.is_empty() || line == "---" {
            names.truncate(MAX_NAMED);
            names.sort_unstable();
            names.dedup();
            return (names, Some(line == "---"));
        }
        let Some((name, value)) = line.split_once(": ") else { break };
        if name.len() <= MAX_NAME && name.chars().all(is_word) && !keys::is_data(name) && is_plain(value.trim()) {
            names.push(name.to_owned());
        }
    }
    (Vec::new(), None)
}

/// True for lines `name: value`, but for empty ones and rules. The names may be people: they are not kept.
fn are_pairs(text: &str) -> bool {
    let is_pair = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
        let is_name = name.starts_with(char::is_alphabetic) && name.len() <= MAX_NAME && name.chars().all(of_name);
        is_name && (value.is_empty() || value.starts_with(' '))
    };
    let mut lines = base::text::head(text, MAX_LOOKED_AT).lines().take(MAX_LINES);
    lines.all(|line| line.is_empty() || line == "---" || is_pair(line))
}

/// Separator and columns of CSV with a header. The first line is a header, not data, only if every cell of it is a name,
/// and a column below has nothing but numbers, dates or addresses: of two columns the first, since names and values of one
/// thing stand like that too, `Name;Alice` above `Age;42`.
fn columns(text: &str) -> Option<(char, Vec<String>)> {
    let looked_at = base::text::head(text, MAX_LOOKED_AT);
    let whole = looked_at.len() == text.len();
    let mut lines: Vec<&str> = looked_at.lines().take(MAX_LINES).collect();
    if !whole && lines.len() < MAX_LINES {
        lines.pop();
    }
    let header = *lines.first()?;
    let separator = [',', '\t', ';', '|'].into_iter().find(|separator| header.contains(*separator))?;
    let header = cells(header, separator).filter(|cells| (2..=MAX_COLUMNS).contains(&cells.len()))?;
    let names: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let distinct = names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    if !distinct || names.iter().any(|name| keys::is_data(name)) {
        return None;
    }
    let mut typed = vec![Some(false); names.len()];
    for line in lines.iter().skip(1).filter(|line| !line.is_empty()) {
        let row = cells(line, separator).filter(|row| row.len() == names.len())?;
        for (column, cell) in typed.iter_mut().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            *column = column.filter(|_| is_value(cell)).map(|_| true);
        }
    }
    let telling = if names.len() == 2 { &typed[..1] } else { &typed[..] };
    telling.contains(&Some(true)).then_some((separator, names))
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

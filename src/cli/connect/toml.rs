//! Servers in a client's TOML, with its comments and order kept.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Array, Document, DocumentMut, Formatted, InlineTable, Item, RawString, Table, TableLike};

use super::document::{self, OWN};
use crate::cli::clients::parse;

/// Adds or updates a server. Keys of it that are not in `entry` stay.
pub(super) fn with(text: &str, path: &[&str], name: &str, entry: &Value) -> Result<String, String> {
    let mut document = parse(text)?;
    let mut servers: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    for key in path {
        let implicit = || {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        };
        let item = servers.entry(key).or_insert_with(implicit);
        is_inline = item.is_inline_table();
        servers = item.as_table_like_mut().ok_or_else(|| format!("its `{key}` is not a table"))?;
    }
    let fields = entry.as_object().ok_or("the entry is not an object")?;
    match servers.get_mut(name) {
        Some(server) => {
            let server = server.as_table_like_mut().ok_or_else(|| format!("its `{name}` is not a table"))?;
            for (key, value) in fields {
                let mut new = input(value)?;
                if let Some(old) = server.get(key).and_then(Item::as_value) {
                    if is_same(old, &new) {
                        continue;
                    }
                    // The comment behind it.
                    *new.decor_mut() = old.decor().clone();
                }
                server.insert(key, Item::Value(new));
            }
        }
        None if is_inline => {
            let mut server = InlineTable::new();
            for (key, value) in fields {
                server.insert(key, input(value)?);
            }
            servers.insert(name, Item::Value(server.into()));
        }
        None => {
            let mut server = Table::new();
            for (key, value) in fields {
                server.insert(key, Item::Value(input(value)?));
            }
            if !text.is_empty() {
                server.decor_mut().set_prefix("\n");
            }
            servers.insert(name, Item::Table(server));
        }
    }
    Ok(render(&document, text))
}

/// True if two values are the same but for white space and comments.
fn is_same(one: &toml_edit::Value, other: &toml_edit::Value) -> bool {
    match (one, other) {
        (toml_edit::Value::String(one), toml_edit::Value::String(other)) => one.value() == other.value(),
        (toml_edit::Value::Boolean(one), toml_edit::Value::Boolean(other)) => one.value() == other.value(),
        (toml_edit::Value::Array(one), toml_edit::Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        _ => false,
    }
}

/// Removes servers. Comments above them stay, but for those right above that describe them.
pub(super) fn without(text: &str, path: &[&str], names: &[&str]) -> Result<String, String> {
    let mut document = parse(text)?;
    let mut servers: Option<&mut dyn TableLike> = Some(document.as_table_mut());
    for key in path {
        servers = servers.and_then(|servers| servers.get_mut(key)).and_then(Item::as_table_like_mut);
    }
    if let Some(servers) = servers {
        let removed: Vec<Item> = names.iter().filter_map(|name| servers.remove(name)).collect();
        for item in &removed {
            headers(item, &mut |position, prefix| {
                let kept = foreign_comments(prefix);
                if !kept.is_empty() {
                    keep(&mut document, position, kept);
                }
            });
        }
    }
    Ok(render(&document, text))
}

/// Visits the place in the document of each table with a header, and the text above it.
fn headers(item: &Item, visit: &mut dyn FnMut(isize, &str)) {
    let mut table = |table: &Table| {
        if let (Some(position), false) = (table.position(), table.is_implicit() || table.is_dotted()) {
            visit(position, table.decor().prefix().and_then(RawString::as_str).unwrap_or_default());
        }
        table.iter().for_each(|(_, item)| headers(item, visit));
    };
    match item {
        Item::Table(one) => table(one),
        Item::ArrayOfTables(tables) => tables.iter().for_each(table),
        Item::None | Item::Value(_) => {}
    }
}

/// The comments above a header that are not about its table: all but the block right above it, and that too when it is
/// TOML that is commented out.
fn foreign_comments(prefix: &str) -> &str {
    // The last line is what stands before the header in its line.
    let lines = prefix.rfind('\n').map_or("", |end| &prefix[..=end]);
    let starts = lines.split_inclusive('\n').rev().take_while(|line| line.trim_start().starts_with('#'));
    let (before, block) = lines.split_at(lines.len() - starts.map(str::len).sum::<usize>());
    let inner: String = block.lines().map(|line| format!("{}\n", line.trim_start().trim_start_matches('#'))).collect();
    let is_toml = inner.parse::<DocumentMut>().is_ok_and(|inner| !inner.is_empty());
    let kept = if is_toml { lines } else { before };
    if kept.contains('#') { kept } else { "" }
}

/// Moves comments from above a header that was at `position` to the next one, or to the end of the document.
fn keep(document: &mut DocumentMut, position: isize, comments: &str) {
    let mut next: Option<isize> = None;
    headers(document.as_item(), &mut |place, _| {
        if place > position && next.is_none_or(|next| place < next) {
            next = Some(place);
        }
    });
    let join = |after: &str, is_end: bool| match is_end || after.starts_with('\n') {
        true => format!("{}\n{after}", comments.trim_end()),
        false => format!("{comments}{after}"),
    };
    match next.and_then(|next| header(document.as_item_mut(), next)) {
        Some(table) => {
            let prefix = join(table.decor().prefix().and_then(RawString::as_str).unwrap_or_default(), false);
            table.decor_mut().set_prefix(prefix);
        }
        None => {
            let after = document.trailing().as_str().unwrap_or_default();
            let trailing = join(after, after.is_empty());
            document.set_trailing(trailing);
        }
    }
}

/// The table with a header at `position`.
fn header(item: &mut Item, position: isize) -> Option<&mut Table> {
    fn within(table: &mut Table, position: isize) -> Option<&mut Table> {
        if table.position() == Some(position) && !table.is_implicit() && !table.is_dotted() {
            return Some(table);
        }
        table.iter_mut().find_map(|(_, item)| header(item, position))
    }
    match item {
        Item::Table(table) => within(table, position),
        Item::ArrayOfTables(tables) => tables.iter_mut().find_map(|table| within(table, position)),
        Item::None | Item::Value(_) => None,
    }
}

/// Finds the values and comments outside of the server at `path`, as byte ranges.
pub(super) fn foreign(text: &str, path: &[&str]) -> Vec<Range<usize>> {
    let Ok(document) = Document::parse(text) else { return std::iter::once(0..text.len()).collect() };
    let (mut found, mut ours) = (Vec::new(), Vec::new());
    leaves(document.as_item(), Some(path), &mut found, &mut ours);
    // Besides the values there are keys, headers and comments.
    let mut values: Vec<_> = found.iter().chain(&ours).cloned().collect();
    values.sort_by_key(|range| range.start);
    let is_value = |place: usize| {
        let before = values.partition_point(|range| range.start <= place);
        before.checked_sub(1).is_some_and(|last| values[last].contains(&place))
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mut signs = line.match_indices('#').map(|(offset, _)| at + offset);
        if let Some(start) = signs.find(|place| !is_value(*place)) {
            found.push(start..at + line.trim_end_matches(['\n', '\r']).len());
        }
        at += line.len();
    }
    found.sort_by_key(|range| range.start);
    found
}

/// Values that are no tables; those that `with` writes into the server that `path` leads to are `ours`.
fn leaves(item: &Item, path: Option<&[&str]>, found: &mut Vec<Range<usize>>, ours: &mut Vec<Range<usize>>) {
    if let Some(table) = item.as_table_like() {
        for (key, item) in table.iter() {
            match path.and_then(|path| path.split_first()) {
                Some((first, rest)) if key == *first => leaves(item, Some(rest), found, ours),
                None if path.is_some() && OWN.contains(&key) => {
                    ours.extend(item.span());
                    found.extend(secret_words(item));
                }
                _ => leaves(item, None, found, ours),
            }
        }
    } else if let Some(tables) = item.as_array_of_tables() {
        for (_, item) in tables.iter().flat_map(Table::iter) {
            leaves(item, None, found, ours);
        }
    } else {
        found.extend(item.span());
    }
}

/// Places of the words of a command that are credentials.
fn secret_words(item: &Item) -> Vec<Range<usize>> {
    let words: Vec<&toml_edit::Value> = item.as_array().into_iter().flatten().collect();
    let plain: Vec<&str> = words.iter().map(|word| word.as_str().unwrap_or_default()).collect();
    document::secret_words(&plain).into_iter().filter_map(|at| words[at].span()).collect()
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    let document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| parse::toml_mistake(text, error.message(), error.span()))?;
    match render(&document, text) == text {
        true => Ok(document),
        false => Err("it cannot be edited without loss".to_owned()),
    }
}

/// Renders the document made from `text`, which need not end with a line end.
fn render(document: &DocumentMut, text: &str) -> String {
    let rendered = document.to_string();
    match text.is_empty() || text.ends_with('\n') {
        true => rendered,
        false => rendered.strip_suffix('\n').map(str::to_owned).unwrap_or(rendered),
    }
}

fn input(value: &Value) -> Result<toml_edit::Value, String> {
    match value {
        Value::Bool(flag) => Ok(toml_edit::Value::Boolean(Formatted::new(*flag))),
        Value::String(text) => Ok(toml_edit::Value::from(text.as_str())),
        Value::Array(items) => items.iter().map(input).collect::<Result<Array, _>>().map(toml_edit::Value::Array),
        other => Err(format!("{other} has no form in TOML")),
    }
}

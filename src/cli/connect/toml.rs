//! Servers in a client's TOML, with its comments and order kept.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Array, Document, DocumentMut, Formatted, InlineTable, Item, Table, TableLike};

use super::document::OWN;
use crate::config::{Position, position};

/// Parses the text.
pub(super) fn value(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| explain(text, error.message(), error.span()))?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

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
                server.insert(key, Item::Value(input(value)?));
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

/// Removes servers.
pub(super) fn without(text: &str, path: &[&str], names: &[&str]) -> Result<String, String> {
    let mut document = parse(text)?;
    let mut servers: Option<&mut dyn TableLike> = Some(document.as_table_mut());
    for key in path {
        servers = servers.and_then(|servers| servers.get_mut(key)).and_then(Item::as_table_like_mut);
    }
    if let Some(servers) = servers {
        names.iter().for_each(|name| drop(servers.remove(name)));
    }
    Ok(render(&document, text))
}

/// Finds the values and comments outside of the server at `path`, as byte ranges.
pub(super) fn foreign(text: &str, path: &[&str]) -> Vec<Range<usize>> {
    let Ok(document) = Document::parse(text) else { return vec![0..text.len()] };
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
                None if path.is_some() && OWN.contains(&key) => ours.extend(item.span()),
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

fn parse(text: &str) -> Result<DocumentMut, String> {
    let document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| explain(text, error.message(), error.span()))?;
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

fn explain(text: &str, message: &str, span: Option<Range<usize>>) -> String {
    let message = message.replace('\n', "; ");
    match span.map(|span| position(text, span.start)) {
        Some(Position { line, column }) => format!("{line}:{column}: {message}"),
        None => message,
    }
}

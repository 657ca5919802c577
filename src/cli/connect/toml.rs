//! Servers in a client's TOML, with its comments and order kept.

use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use toml_edit::{Array, Document, Formatted, InlineTable, Item, Table};

use super::document::{self, OWN};
use crate::cli::clients::parse;
use config::{ConfigError, Edit, NewServer};

/// Adds or updates a server. Keys of it that are not in `entry` stay.
pub(super) fn with(text: &str, path: &[&str], name: &str, entry: &Value) -> Result<String, String> {
    let fields = entry.as_object().ok_or("the entry is not an object")?;
    let now = parse::toml(text)?;
    let servers = match now.get(table(path)?) {
        Some(servers) => Some(servers.as_object().ok_or_else(|| format!("its `{}` is not a table", path[0]))?),
        None => None,
    };
    let Some(server) = servers.and_then(|servers| servers.get(name)) else {
        let pair = |(key, value)| Ok(format!("{key} = {}", input(value)?));
        let pairs = fields.iter().map(pair).collect::<Result<Vec<String>, String>>()?;
        return edit(text, path, |edit| {
            edit.added(&NewServer { name, key: name, comments: &[], pairs: &pairs, group: None })
        });
    };
    let server = server.as_object().ok_or_else(|| format!("its `{name}` is not a table"))?;
    let mut text = text.to_owned();
    for (key, value) in fields.iter().filter(|(key, value)| server.get(*key) != Some(value)) {
        let value = input(value)?.to_string();
        text = edit(&text, path, |edit| edit.with_value(name, key, &value))?;
    }
    Ok(text)
}

/// Removes servers. Comments stay, but for those right above a header that describe its table.
pub(super) fn without(text: &str, path: &[&str], names: &[&str]) -> Result<String, String> {
    edit(text, path, |edit| {
        let known: Vec<&str> =
            edit.servers().map(|(name, _)| name.as_str()).filter(|name| names.contains(name)).collect();
        if known.is_empty() { Ok(text.to_owned()) } else { edit.without(&known) }
    })
}

/// Edits the table of servers that `path` leads to.
fn edit(
    text: &str,
    path: &[&str],
    change: impl Fn(&Edit<'_>) -> Result<String, ConfigError>,
) -> Result<String, String> {
    let edited = Edit::of_table(Path::new(""), text, table(path)?).and_then(|edit| change(&edit));
    edited.map_err(|error| error.message)
}

/// The table at the root that a path leads to.
fn table<'a>(path: &[&'a str]) -> Result<&'a str, String> {
    match path {
        [table] => Ok(table),
        _ => Err("its servers are not in a table at the root".to_owned()),
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

fn input(value: &Value) -> Result<toml_edit::Value, String> {
    match value {
        Value::Bool(flag) => Ok(toml_edit::Value::Boolean(Formatted::new(*flag))),
        Value::String(text) => Ok(toml_edit::Value::from(text.as_str())),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Ok(whole.into()),
            None => Ok(number.as_f64().unwrap_or_default().into()),
        },
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.as_str(), input(value)?)));
            fields.collect::<Result<InlineTable, String>>().map(toml_edit::Value::InlineTable)
        }
        Value::Array(items) => items.iter().map(input).collect::<Result<Array, _>>().map(toml_edit::Value::Array),
        Value::Null => Err("null has no form in TOML".to_owned()),
    }
}

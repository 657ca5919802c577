//! Servers in a client's JSON, with its comments and trailing commas kept.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstComment, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, parse_to_ast};
use serde_json::Value;

use super::document::{self, NAME, OWN};
use crate::cli::clients::parse;

/// Most members of an object of one line that is written anew as several lines.
const LONG: usize = 100;

/// Parses the text; an empty one is an empty object.
pub(super) fn value(text: &str) -> Result<Value, String> {
    Ok(match parse::json(text)? {
        Value::Null => Value::Object(serde_json::Map::new()),
        value => value,
    })
}

/// Adds or updates a server. Keys of it that are not in `entry` stay.
pub(super) fn with(text: &str, table: &[&str], name: &str, entry: &Value) -> Result<String, String> {
    let root = parse(text)?;
    let mut servers = root.object_value_or_create().ok_or("it holds something else than an object")?;
    for (depth, key) in table.iter().enumerate() {
        servers = once(&servers, key)?;
        if servers.get(key).is_none() && is_long(&servers) {
            let (above, below) = table.split_at(depth);
            return insert(text, above, &[below, &[name]].concat(), entry);
        }
        servers = servers.object_value_or_create(key).ok_or_else(|| format!("its `{key}` is not an object"))?;
    }
    once(&servers, name)?;
    match (servers.object_value(name), entry) {
        (Some(server), Value::Object(fields)) => {
            for (key, value) in fields {
                once(&server, key)?;
                match server.get(key) {
                    Some(property) => property.set_value(input(value)),
                    None => drop(server.append(key, input(value))),
                }
            }
        }
        _ if servers.get(name).is_some() => return Err(format!("its `{name}` is not an object")),
        _ if is_long(&servers) => return insert(text, table, &[name], entry),
        _ => drop(servers.append(name, input(entry))),
    }
    Ok(root.to_string())
}

/// True for an object of one line with many members. Another one would break the line at each of them, in a time that is
/// quadratic in their number.
fn is_long(object: &CstObject) -> bool {
    object.properties().len() > LONG && !object.children().iter().any(CstNode::is_newline)
}

/// Inserts members that lead to a value, each in the one before, behind the last member of the object at `path`.
fn insert(text: &str, path: &[&str], keys: &[&str], value: &Value) -> Result<String, String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse::JSON);
    let parsed = parsed.map_err(|error| parse::json_mistake(&error))?;
    let mut object = parsed.value.as_ref().and_then(ast::Value::as_object);
    for key in path {
        object = object.and_then(|object| object.get_object(key));
    }
    let last = object.and_then(|object| object.properties.last()).ok_or("it cannot be edited without loss")?;
    let (key, inner) = keys.split_first().ok_or("it cannot be edited without loss")?;
    let value = inner.iter().rev().fold(value.clone(), |value, key| serde_json::json!({ *key: value }));
    let (before, after) = text.split_at(last.end());
    Ok(format!("{before},{}:{value}{after}", Value::from(*key)))
}

/// Removes servers, with the comments on the lines right above those of others: they tell about them.
pub(super) fn without(text: &str, table: &[&str], names: &[&str]) -> Result<String, String> {
    let root = parse(text)?;
    let mut servers = root.object_value();
    for key in table {
        servers = servers.and_then(|servers| servers.object_value(key));
    }
    for name in names {
        if let Some(property) = servers.as_ref().and_then(|servers| servers.get(name)) {
            for comment in if *name == NAME { Vec::new() } else { above(&property) } {
                // So that its line goes too.
                comment.set_raw_value("//".to_owned());
                comment.remove();
            }
            property.remove();
        }
    }
    Ok(root.to_string())
}

/// Comments on the lines right above a server. One that is a server switched off is none.
fn above(server: &CstObjectProp) -> Vec<CstComment> {
    let (mut found, mut newlines, mut last) = (Vec::new(), 0, None);
    for node in server.previous_siblings() {
        match node.as_comment() {
            _ if node.is_newline() => {
                newlines += 1;
                found.extend(last.take());
            }
            // A second one of a line, or one behind something else, may be about that.
            Some(comment) if newlines == 1 && !comment.raw_value().contains("\":") => {
                (newlines, last) = (0, Some(comment));
            }
            None if node.is_whitespace() => {}
            _ => break,
        }
        if newlines > 1 {
            break;
        }
    }
    found
}

/// Finds the values and comments outside of the server at `path`, as byte ranges.
pub(super) fn foreign(text: &str, path: &[&str]) -> Vec<std::ops::Range<usize>> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: false };
    let Ok(parsed) = parse_to_ast(text, &collect, &parse::JSON) else {
        return std::iter::once(0..text.len()).collect();
    };
    let mut found = Vec::new();
    let comments = parsed.comments.iter().flat_map(|comments| comments.values());
    found.extend(comments.flat_map(|comments| comments.iter()).map(|comment| comment.start()..comment.end()));
    if let Some(value) = &parsed.value {
        leaves(value, Some(path), &mut found);
    }
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup();
    found
}

/// Values that are no containers; none that `with` writes into the server that `path` leads to.
fn leaves(value: &ast::Value<'_>, path: Option<&[&str]>, found: &mut Vec<std::ops::Range<usize>>) {
    match value {
        ast::Value::Object(object) => {
            for property in &object.properties {
                let name = property.name.as_str();
                match path.and_then(|path| path.split_first()) {
                    Some((first, rest)) if name == *first => leaves(&property.value, Some(rest), found),
                    // The server itself: only `env` and the like may hold credentials.
                    None if path.is_some() && OWN.contains(&name) => secret_words(&property.value, found),
                    _ => leaves(&property.value, None, found),
                }
            }
        }
        ast::Value::Array(array) => array.elements.iter().for_each(|element| leaves(element, None, found)),
        leaf => found.push(leaf.start()..leaf.end()),
    }
}

/// Places of the words of a command that are credentials.
fn secret_words(value: &ast::Value<'_>, found: &mut Vec<std::ops::Range<usize>>) {
    let ast::Value::Array(array) = value else { return };
    let words = array.elements.iter().map(|element| element.as_string_lit().map_or("", |word| &word.value));
    let words: Vec<&str> = words.collect();
    let secret = document::secret_words(&words).into_iter().map(|at| &array.elements[at]);
    found.extend(secret.map(|element| element.start()..element.end()));
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let root = CstRootNode::parse(text, &parse::JSON).map_err(|error| parse::json_mistake(&error))?;
    match root.to_string() == text {
        true => Ok(root),
        false => Err("it cannot be edited without loss".to_owned()),
    }
}

/// Refuses a key that occurs twice: clients disagree about which one counts.
fn once(object: &CstObject, key: &str) -> Result<CstObject, String> {
    let is_it =
        |node: &CstNode| node.as_object_prop().and_then(|property| property.decoded_name()).as_deref() == Some(key);
    match object.children().iter().filter(|node| is_it(node)).count() {
        0 | 1 => Ok(object.clone()),
        count => Err(format!("it has `{key}` {count} times")),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

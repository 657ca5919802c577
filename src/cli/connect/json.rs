//! Servers in a client's JSON, with its comments and trailing commas kept.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast, parse_to_serde_value};
use serde_json::Value;

use super::document::OWN;

/// What clients accept. The parser's other leniency would hide mistakes.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses the text; an empty one is an empty object.
pub(super) fn value(text: &str) -> Result<Value, String> {
    let value: Option<Value> = parse_to_serde_value(text, &OPTIONS).map_err(|error| explain(&error))?;
    Ok(value.unwrap_or_else(|| Value::Object(serde_json::Map::new())))
}

/// Adds or updates a server. Keys of it that are not in `entry` stay.
pub(super) fn with(text: &str, table: &[&str], name: &str, entry: &Value) -> Result<String, String> {
    let root = parse(text)?;
    let mut servers = root.object_value_or_create().ok_or("it holds something else than an object")?;
    for key in table {
        servers = once(&servers, key)?;
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
        _ => drop(servers.append(name, input(entry))),
    }
    Ok(root.to_string())
}

/// Removes servers.
pub(super) fn without(text: &str, table: &[&str], names: &[&str]) -> Result<String, String> {
    let root = parse(text)?;
    let mut servers = root.object_value();
    for key in table {
        servers = servers.and_then(|servers| servers.object_value(key));
    }
    for name in names {
        if let Some(property) = servers.as_ref().and_then(|servers| servers.get(name)) {
            property.remove();
        }
    }
    Ok(root.to_string())
}

/// Finds the values and comments outside of the server at `path`, as byte ranges.
pub(super) fn foreign(text: &str, path: &[&str]) -> Vec<std::ops::Range<usize>> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: false };
    let Ok(parsed) = parse_to_ast(text, &collect, &OPTIONS) else { return vec![0..text.len()] };
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
                    None if path.is_some() && OWN.contains(&name) => {}
                    _ => leaves(&property.value, None, found),
                }
            }
        }
        ast::Value::Array(array) => array.elements.iter().for_each(|element| leaves(element, None, found)),
        leaf => found.push(leaf.start()..leaf.end()),
    }
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| explain(&error))?;
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

fn explain(error: &ParseError) -> String {
    format!("{}:{}: {}", error.line_display(), error.column_display(), error.kind())
}

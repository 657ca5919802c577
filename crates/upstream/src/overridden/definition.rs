//! A tool's definition as its override wants it.

use serde_json::{Map, Value, json};
use stubgen::OVERRIDE;

use base::text::head;
use config::Override;

/// Keywords beside `properties` that may speak of an argument.
const BESIDE: [&str; 13] = [
    "$ref", "allOf", "anyOf", "dependencies", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf",
    "propertyNames", "then", "unevaluatedProperties",
];
/// Folders of definitions that come along with a part of a schema.
const FOLDERS: [&str; 2] = ["$defs", "definitions"];
/// Most references that are followed to a part of a result.
const MAX_HOPS: usize = 16;

/// The definition with its override, or why that does not fit.
pub(super) fn changed(tool: &Value, by: &Override) -> Result<Value, String> {
    let before = stubgen::digest(stubgen::canonical_json(tool));
    let mut tool = tool.as_object().cloned().ok_or("it is not an object")?;
    if let Some(name) = &by.name {
        tool.insert("name".to_owned(), name.as_str().into());
    }
    if let Some(description) = &by.description {
        tool.insert("description".to_owned(), description.as_str().into());
    }
    if !by.annotations.is_empty() {
        let mut annotations = taken(&mut tool, "annotations");
        annotations.extend(by.annotations.clone());
        tool.insert("annotations".to_owned(), annotations.into());
    }
    if by.taken().next().is_some() || !by.default.is_empty() {
        let schema = arguments(taken(&mut tool, "inputSchema"), by)?;
        tool.insert("inputSchema".to_owned(), schema.into());
    }
    if !by.result.is_empty() {
        let schema = tool.remove("outputSchema");
        let part = schema.map(|schema| part(&schema, &by.result)).transpose()?.flatten();
        tool.extend(part.map(|part| ("outputSchema".to_owned(), part)));
    }
    let mut meta = taken(&mut tool, "_meta");
    // Another definition of the server, or another override, is another tool.
    let by = stubgen::digest(stubgen::canonical_json(&json!(by)));
    meta.insert(OVERRIDE.to_owned(), json!({ "definition": before, "override": by }));
    tool.insert("_meta".to_owned(), meta.into());
    Ok(tool.into())
}

/// Takes the mark of an override from a definition that has none: only the operator overrides.
pub(super) fn unmark(tool: &mut Value) {
    if let Some(meta) = tool.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.shift_remove(OVERRIDE);
    }
}

/// Takes a field that is an object; an empty one if it is none.
fn taken(tool: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match tool.remove(name) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The schema of the arguments without those that are hidden, and with defaults.
fn arguments(mut schema: Map<String, Value>, by: &Override) -> Result<Map<String, Value>, String> {
    let mut properties = taken(&mut schema, "properties");
    let required = schema.remove("required");
    let mut required: Vec<Value> = required.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    for name in by.taken() {
        let own = properties.shift_remove(name).ok_or_else(|| missing(name))?;
        if let Some(value) = by.fixed.get(name) {
            fits("fixed", name, value, &own)?;
        } else if required.iter().any(|required| required == name) {
            return Err(format!("it requires `{}`, which is hidden: give it by `fixed`", head(name, 100)));
        }
        let speaks = |keyword: &&&str| schema.get(**keyword).is_some_and(|part| mentions(part, name));
        if let Some(keyword) = BESIDE.iter().find(speaks) {
            return Err(format!("its schema has `{}` in `{keyword}`, which cannot be hidden", head(name, 100)));
        }
        required.retain(|required| required != name);
    }
    for (name, value) in &by.default {
        let own = properties.get_mut(name).ok_or_else(|| missing(name))?;
        fits("default", name, value, own)?;
        if !own.is_object() {
            *own = json!({});
        }
        own["default"] = value.clone();
        required.retain(|required| required != name);
    }
    if by.taken().next().is_some() {
        schema.remove("examples");
        schema.remove("default");
        // Others that it takes besides could be those that are hidden.
        let is_open =
            schema.get("additionalProperties").is_none_or(|more| *more == Value::Bool(true) || *more == json!({}));
        if is_open {
            schema.insert("additionalProperties".to_owned(), false.into());
        }
    }
    schema.entry("type").or_insert_with(|| "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    Ok(schema)
}

fn missing(name: &str) -> String {
    format!("it has no argument `{}`", head(name, 100))
}

/// Compares a value with what the schema of its argument says of it without a reference. The server checks the rest.
fn fits(key: &str, name: &str, value: &Value, schema: &Value) -> Result<(), String> {
    let is_of = |kind: &Value| match (kind.as_str(), value) {
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        (Some("number"), Value::Number(_))
        | (Some("string"), Value::String(_))
        | (Some("boolean"), Value::Bool(_))
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_))
        | (Some("null"), Value::Null) => true,
        (Some("integer" | "number" | "string" | "boolean" | "array" | "object" | "null"), _) => false,
        _ => true,
    };
    let is_kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_of),
        Some(kind) => is_of(kind),
        None => true,
    };
    let is_listed = schema.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value));
    let is_only = schema.get("const").is_none_or(|only| only == value);
    match is_kind && is_listed && is_only {
        true => Ok(()),
        false => Err(format!("`{key}.{}` is not a value that it takes", head(name, 100))),
    }
}

/// True if a part of a schema has this name as a key or a text.
fn mentions(part: &Value, name: &str) -> bool {
    match part {
        Value::String(text) => text == name || text.rsplit('/').next() == Some(name),
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        Value::Object(fields) => fields.iter().any(|(key, field)| key == name || mentions(field, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The schema of a part of a result; `None` if nothing is known of it.
fn part(root: &Value, path: &[String]) -> Result<Option<Value>, String> {
    let mut at = root;
    for (depth, key) in path.iter().enumerate() {
        let Some(whole) = resolved(root, at) else { return Ok(None) };
        let items = || whole.get("items").filter(|_| key.bytes().all(|b| b.is_ascii_digit()));
        at = match whole.get("properties").and_then(|all| all.get(key)).or_else(items) {
            Some(next) => next,
            None if whole.get("additionalProperties") == Some(&Value::Bool(false)) => {
                return Err(format!("its result has no `{}`", path[..=depth].join(".")));
            }
            None => return Ok(None),
        };
    }
    let Some(whole @ Value::Object(own)) = resolved(root, at) else { return Ok(None) };
    let mut references = Vec::new();
    refers(whole, &mut references);
    if !references.iter().all(|to| FOLDERS.iter().any(|folder| to.starts_with(&format!("#/{folder}/")))) {
        return Ok(None);
    }
    let mut own = own.clone();
    let folders = FOLDERS.iter().filter(|_| !references.is_empty());
    for name in folders.chain(&["$schema"]) {
        if let Some(value) = root.get(*name) {
            own.entry(*name).or_insert_with(|| value.clone());
        }
    }
    Ok(Some(own.into()))
}

/// A schema behind its references; `None` if one leads nowhere.
fn resolved<'s>(root: &'s Value, mut at: &'s Value) -> Option<&'s Value> {
    for _ in 0..MAX_HOPS {
        match at.get("$ref").and_then(Value::as_str) {
            None => return Some(at),
            Some(reference) => at = root.pointer(reference.strip_prefix('#')?)?,
        }
    }
    None
}

/// Collects the references of a schema.
fn refers<'s>(part: &'s Value, found: &mut Vec<&'s str>) {
    match part {
        Value::Array(items) => items.iter().for_each(|item| refers(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| match (key.as_str(), field) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => found.push(to),
            _ => refers(field, found),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

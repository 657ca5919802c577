//! Types of values as a function script writes them, from JSON Schema of a value that was seen.

use serde_json::Value;

/// Longest type; a longer one is any value.
const MAX_TYPE: usize = 2000;

/// A type of TypeScript and JSDoc.
pub(super) fn javascript_type(schema: &Value) -> String {
    let text = typescript(schema);
    // In JSDoc it stands within a comment, and in braces.
    let breaks_out = text.contains("*/") || text.chars().any(char::is_control);
    if text.len() > MAX_TYPE || breaks_out { "unknown".to_owned() } else { text }
}

fn typescript(schema: &Value) -> String {
    if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
        return united(members.iter().map(typescript), "unknown");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "string".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("integer") if schema.get("format").is_some() => "number | bigint".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("null") => "null".to_owned(),
        Some("array") => match schema.get("items").map(typescript) {
            Some(item) if item.contains('|') => format!("Array<{item}>"),
            Some(item) => format!("{item}[]"),
            None => "unknown[]".to_owned(),
        },
        Some("object") => typescript_object(schema),
        _ => "unknown".to_owned(),
    }
}

fn typescript_object(schema: &Value) -> String {
    if let Some(value) = schema.get("additionalProperties") {
        return format!("Record<string, {}>", typescript(value));
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return "object".to_owned() };
    if properties.is_empty() {
        return "object".to_owned();
    }
    let required = schema.get("required").and_then(Value::as_array);
    let fields = properties.iter().map(|(key, schema)| {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        let is_plain = stubgen::is_tool_ident(key);
        let key = if is_plain { key.clone() } else { Value::from(key.as_str()).to_string() };
        format!("{key}{} {}", if is_required { ":" } else { "?:" }, typescript(schema))
    });
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

/// A type annotation of Starlark.
pub(super) fn starlark_type(schema: &Value) -> String {
    if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
        return united(members.iter().map(starlark_type), "typing.Any");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "str".to_owned(),
        Some("boolean") => "bool".to_owned(),
        Some("integer") => "int".to_owned(),
        Some("number") => "float".to_owned(),
        Some("null") => "None".to_owned(),
        Some("object") => "dict".to_owned(),
        Some("array") => {
            let item = schema.get("items").map_or_else(|| "typing.Any".to_owned(), starlark_type);
            if item == "typing.Any" { "list".to_owned() } else { format!("list[{item}]") }
        }
        _ => "typing.Any".to_owned(),
    }
}

/// A union of types, each once.
fn united(members: impl Iterator<Item = String>, any: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for member in members {
        if !all.contains(&member) {
            all.push(member);
        }
    }
    if all.is_empty() || all.iter().any(|member| member == any) { any.to_owned() } else { all.join(" | ") }
}

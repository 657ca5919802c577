//! Forms of arguments: what models send for a number, a list or a language is taken for it.

use serde_json::{Value, json};

/// Names of JavaScript, and of what it is written in.
const JAVASCRIPT: [&str; 5] = ["javascript", "js", "typescript", "ts", "node"];

/// Takes a text for the value that it stands for; if it is none that the schema has, the form of one.
pub(super) fn misfit(schema: &Value, value: &mut Value) -> Option<String> {
    if schema.get("enum").is_none() && schema.get("type").is_some_and(|kind| kind == "string") {
        // Scripts are long: they are not copied.
        *value = if value.is_number() { value.to_string().into() } else { value.take() };
        return (!value.is_string()).then(|| "a text".to_owned());
    }
    let text = value.as_str().map(str::trim).unwrap_or_default().to_owned();
    let read = || serde_json::from_str::<Value>(&text.to_ascii_lowercase()).ok();
    if schema.get("enum").is_some() {
        let is_javascript = JAVASCRIPT.contains(&&*text.to_ascii_lowercase());
        *value = if is_javascript { "javascript".into() } else { value.take() };
        let is_python = text.to_ascii_lowercase().starts_with("py");
        let form = "\"javascript\" (also for TypeScript) or \"starlark\", for scripts like Python";
        return is_python.then(|| form.to_owned());
    }
    let several = || serde_json::from_str::<Vec<String>>(&text).ok().filter(|all| !all.is_empty());
    let Some(kind) = schema.get("type").and_then(Value::as_str) else {
        // One text or several, as a text of JSON.
        *value = several().filter(|_| text.starts_with('[')).map_or_else(|| value.take(), |all| json!(all));
        return None;
    };
    let read = match kind {
        "number" | "integer" | "boolean" => read().filter(|read| !read.is_string()),
        "array" if !text.is_empty() => {
            Some(serde_json::from_str(&text).ok().filter(Value::is_array).unwrap_or_else(|| json!([text])))
        }
        _ => None,
    };
    *value = read.filter(|_| value.is_string()).unwrap_or_else(|| value.take());
    let (fits, form) = match kind {
        "number" => (value.is_number(), "a number"),
        "integer" => (value.is_u64(), "a whole number"),
        "boolean" => (value.is_boolean(), "true or false"),
        "array" => (value.is_array(), "a list of texts"),
        _ => (true, ""),
    };
    (!fits).then(|| form.to_owned())
}

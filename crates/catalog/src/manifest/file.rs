//! Tool lists from files, for offline use and review.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use base::error::{Cause, Error, ErrorCode, Result};
use base::files;
use base::json;
use base::limits;

/// Most bytes of a file.
const MAX_FILE: u64 = limits::LIST_FILE.max as u64;
/// Most bytes of memory of its values.
const MAX_TREE: usize = 4 << 30;

/// Reads tool lists: the result of a `tools/list`, an array of tools, or `{server: {"tools": […]}}`. The first two
/// belong to a server named after the file.
///
/// # Errors
/// `INVALID_ARGS` when the file cannot be read or has none of these shapes.
pub fn load(path: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let wrong = |what: Cause| {
        Error::new(ErrorCode::InvalidArgs, path.display().to_string()).caused_by(what).hint(
            "expected the result of `tools/list` ({\"tools\": […]}), an array of tools, or {\"<server>\": {\"tools\": […]}}",
        )
    };
    let text = files::read_regular(path, MAX_FILE).map_err(|error| wrong(error.into()))?;
    let document: Value = json::parse(&text, MAX_TREE).map_err(|error| wrong(format!("not JSON: {error}").into()))?;
    let stem = path.file_stem().map_or_else(|| "catalog".to_owned(), |stem| stem.to_string_lossy().into_owned());
    servers(document, stem).ok_or_else(|| wrong("has no tool list".into()))
}

fn servers(document: Value, stem: String) -> Option<BTreeMap<String, Vec<Value>>> {
    match document {
        Value::Array(tools) => Some(BTreeMap::from([(stem, tools)])),
        Value::Object(mut object) => {
            if let Some(Value::Object(result)) = object.get("result") {
                return servers(Value::Object(result.clone()), stem);
            }
            if let Some(Value::Array(tools)) = object.get_mut("tools") {
                return Some(BTreeMap::from([(stem, std::mem::take(tools))]));
            }
            object.into_iter().map(|(name, server)| Some((name, tools_of(server)?))).collect()
        }
        _ => None,
    }
}

/// Tools of one server: its own `tools` list, or a list, or a map of tool name to tool.
fn tools_of(server: Value) -> Option<Vec<Value>> {
    match server {
        Value::Array(tools) => Some(tools),
        Value::Object(mut object) => match object.get_mut("tools").map(std::mem::take) {
            Some(Value::Array(tools)) => Some(tools),
            Some(Value::Object(tools)) => Some(tools.into_iter().map(|(name, tool)| named(name, tool)).collect()),
            _ => None,
        },
        _ => None,
    }
}

fn named(name: String, mut tool: Value) -> Value {
    if let Value::Object(object) = &mut tool {
        object.entry("name").or_insert(Value::String(name));
    }
    tool
}

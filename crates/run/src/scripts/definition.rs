//! The definition of a script as a tool.

use serde_json::{Map, Value, json};
use wire::Signature;

/// Description of a script for callers, beside its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// True if it calls tools that read, and no others.
    pub read_only: bool,
    /// True if it calls a tool that may destroy something.
    pub destructive: bool,
}

/// The entry of `tools/list` that a script has, for the stub generator. Its `outputSchema` may be of any
/// type, where MCP wants an object.
pub fn definition(name: &str, signature: &Signature, hints: Hints) -> Value {
    let schema = |text: &wire::Json| serde_json::from_str(text.get()).unwrap_or_else(|_| json!({}));
    let mut tool = Map::new();
    tool.insert("name".to_owned(), Value::from(name));
    if !signature.doc.is_empty() {
        tool.insert("description".to_owned(), Value::from(signature.doc.as_str()));
    }
    tool.insert("inputSchema".to_owned(), schema(&signature.params));
    if let Some(returns) = &signature.returns {
        tool.insert("outputSchema".to_owned(), schema(returns));
    }
    let hints = json!({ "readOnlyHint": hints.read_only, "destructiveHint": hints.destructive });
    tool.insert("annotations".to_owned(), hints);
    Value::Object(tool)
}

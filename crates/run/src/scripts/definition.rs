//! The definition of a script as a tool.

use serde_json::{Map, Value, json};
use wire::Signature;

/// The entry of `tools/list` that a script has, for the stub generator. Its `outputSchema` may be of any
/// type, where MCP wants an object. One that `writes` calls other tools than those that read, and may destroy something.
pub fn definition(name: &str, signature: &Signature, writes: bool) -> Value {
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
    let hints = json!({ "readOnlyHint": !writes, "destructiveHint": writes });
    tool.insert("annotations".to_owned(), hints);
    Value::Object(tool)
}

//! Judges the signature of a script: a checker may be in the hands of the script's author.

use serde_json::{Map, Value};
use wire::{Json, MAX_DOC, MAX_SCHEMA, MAX_TYPE_LEVELS, MAX_TYPES, SCHEMA_KEYWORDS, Signature};

use base::json;

/// Memory of one schema's values, in bytes.
const MAX_TREE: usize = 16 << 20;
/// Types that a schema may have: of a union, each member is one.
const MOST_TYPES: usize = MAX_TYPES * 2;
/// Levels that a schema may have: a union is one more.
const MOST_LEVELS: usize = MAX_TYPE_LEVELS * 2;

/// Refuses a signature that no checker of ours makes.
///
/// # Errors
/// The fault.
pub(super) fn judge(signature: &Signature) -> Result<(), &'static str> {
    if signature.doc.len() > MAX_DOC {
        return Err("the description is larger than a script can have");
    }
    let params = schema(&signature.params)?;
    if params.get("type").and_then(Value::as_str) != Some("object") || params.get("properties").is_none() {
        return Err("the parameters are no object");
    }
    signature.returns.as_ref().map_or(Ok(()), |returns| schema(returns).map(drop))
}

/// A schema of known keywords, each with the kind of value that it has.
fn schema(text: &Json) -> Result<Map<String, Value>, &'static str> {
    if text.get().len() > MAX_SCHEMA {
        return Err("the schema is larger than a script can have");
    }
    let schema: Value =
        json::parse(text.get().as_bytes(), MAX_TREE).map_err(|_| "the schema is not JSON, or too large as values")?;
    let mut types = MOST_TYPES;
    known(&schema, MOST_LEVELS, &mut types)?;
    match schema {
        Value::Object(schema) => Ok(schema),
        _ => Err("a schema is an object"),
    }
}

fn known(schema: &Value, levels: usize, types: &mut usize) -> Result<(), &'static str> {
    let Some(schema) = schema.as_object() else { return Err("a schema is an object") };
    let below = levels.checked_sub(1).ok_or("the schema nests deeper than a script can have it")?;
    *types = types.checked_sub(1).ok_or("the schema has more types than a script can have")?;
    for (keyword, value) in schema {
        if !SCHEMA_KEYWORDS.contains(&keyword.as_str()) {
            return Err("the schema has a keyword that no signature has");
        }
        let fits = match (keyword.as_str(), value) {
            ("items" | "additionalProperties", Value::Bool(false)) => true,
            ("items" | "additionalProperties", schema) => known(schema, below, types).map(|()| true)?,
            ("properties", Value::Object(all)) => {
                all.values().try_for_each(|schema| known(schema, below, types))?;
                true
            }
            ("anyOf" | "prefixItems", Value::Array(all)) => {
                all.iter().try_for_each(|schema| known(schema, below, types))?;
                true
            }
            ("type", Value::String(_)) | ("enum", Value::Array(_)) | ("default", _) => true,
            ("type" | "required", Value::Array(names)) => names.iter().all(Value::is_string),
            ("description", value) => value.is_string(),
            ("minItems" | "maxItems", value) => value.is_u64(),
            _ => false,
        };
        if !fits {
            return Err("a keyword of the schema has another kind of value");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wire::Signature;

    use super::judge;

    #[test]
    fn signatures_that_no_checker_makes_are_refused() {
        let deep = format!("{}{{}}{}", r#"{"type":"array","items":"#.repeat(40), "}".repeat(40));
        let cases = [
            (r#"{"type":"object","properties":{}}"#, ""),
            (r#"{"type":"object","properties":{"a":{"type":["string","null"],"default":null}},"required":["a"]}"#, ""),
            ("[]", "a schema is an object"),
            ("1", "a schema is an object"),
            (r#"{"type":"string"}"#, "the parameters are no object"),
            (r#"{"type":"object"}"#, "the parameters are no object"),
            (
                r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##,
                "the schema has a keyword that no signature has",
            ),
            (
                r#"{"type":"object","properties":{"a":{"pattern":"(a*)*"}}}"#,
                "the schema has a keyword that no signature has",
            ),
            (r#"{"type":"object","properties":[]}"#, "a keyword of the schema has another kind of value"),
            (r#"{"type":"object","properties":{"a":true}}"#, "a schema is an object"),
            (r#"{"type":"object","properties":{},"minItems":-1}"#, "a keyword of the schema has another kind of value"),
            (deep.as_str(), "the schema nests deeper than a script can have it"),
        ];
        for (schema, why) in cases {
            let params = serde_json::value::RawValue::from_string(schema.to_owned()).expect("JSON");
            let judged = judge(&Signature { doc: String::new(), params, returns: None });
            assert_eq!(judged.err().unwrap_or_default(), why, "{schema}");
        }
    }
}

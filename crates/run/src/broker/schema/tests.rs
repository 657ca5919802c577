//! Tests the interpreter against the jsonschema library and against hostile schemas.

mod agreement;
mod hostile;

use serde_json::Value;

use super::*;

/// Result for one value within `steps`, and the steps it took.
fn checked(schema: &Value, value: &Value, steps: u64) -> (Result<Problems, Halt>, u64) {
    let (meter, patterns) = (Meter::new(steps), Patterns::default());
    let answer = Dialect::of(schema, &meter)
        .and_then(|dialect| Check::new(schema, dialect, &meter, &patterns).find(value, Problems::default()));
    (answer, steps - meter.left())
}

#[test]
fn null_fits_where_the_word_of_openapi_says_so() {
    use serde_json::json;
    let string = json!({ "type": "string", "nullable": true });
    for (schema, value, fits) in [
        (string.clone(), json!(null), true),
        (string.clone(), json!(1), false),
        (json!({ "type": "string", "nullable": false }), json!(null), false),
        (json!({ "type": "string", "nullable": "true" }), json!(null), false),
        (json!({ "enum": ["a"], "nullable": true }), json!(null), true),
        (json!({ "properties": { "a": string }, "required": ["a"] }), json!({ "a": null }), true),
        (json!({ "items": { "$ref": "#/$defs/S" }, "$defs": { "S": string } }), json!([null, "a"]), true),
    ] {
        let (problems, _) = checked(&schema, &value, 1_000);
        assert_eq!(problems.is_ok_and(|problems| problems.line().is_empty()), fits, "{schema} {value}");
    }
}

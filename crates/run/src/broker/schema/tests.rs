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

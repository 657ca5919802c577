//! The interpreter against the jsonschema library, and against schemas made to hold it up.

mod agreement;
mod hostile;

use serde_json::Value;

use super::*;

/// The answer to one value, and the steps it took; so many are there.
fn checked(schema: &Value, value: &Value, steps: u64) -> (Result<Problems, Halt>, u64) {
    let (meter, patterns) = (Meter::new(steps), Patterns::default());
    let answer = Dialect::of(schema, &meter)
        .and_then(|dialect| Check::new(schema, dialect, &meter, &patterns).find(value, Problems::default()));
    (answer, steps - meter.left())
}

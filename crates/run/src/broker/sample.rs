//! Samples for calls that a dry run does not make: the smallest value that fits a schema, always the same.

use serde_json::{Map, Value, json};

use base::limits::SAMPLE_WORK;
use base::meter::Meter;

/// Deepest value; schemas may be recursive.
const MAX_DEPTH: usize = 16;
/// Most items of an array, or characters of a text.
const MAX_LENGTH: u64 = 1000;
/// Most values inside one value.
const MAX_VALUES: usize = 2000;
/// Levels of objects that name no required parts, and have all.
const MAX_FILLED: usize = 4;
/// Keys of failures. A script that finds none takes an answer for a success: no sample has them unless they are required.
pub(super) const SIGNS: &[&str] = &["error", "errors", "isError", "is_error"];
/// Most bytes of text inside one value, names included.
const MAX_BYTES: usize = 64 << 10;

/// A sample of `schema`: its `const`, first `enum` value, `default` or `examples`, else the required parts alone, or
/// all where it names none. It ignores patterns and the like. `null` without a schema, and in place of values over the limits.
pub(super) fn of(schema: Option<&Value>) -> Value {
    let making =
        |schema| Making { root: schema, left: MAX_VALUES, bytes: MAX_BYTES, meter: Meter::new(SAMPLE_WORK as u64) };
    schema.map_or(Value::Null, |schema| value(&mut making(schema), schema, 0))
}

/// A sample in progress.
struct Making<'a> {
    /// Root for references.
    root: &'a Value,
    /// Values left.
    left: usize,
    /// Bytes of text left.
    bytes: usize,
    /// Steps for keywords, names and subschemas.
    meter: Meter,
}

impl Making<'_> {
    /// Takes `bytes` of the limit if they fit; true if so.
    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    fn spends(&self, steps: usize) -> bool {
        self.meter.spend(steps as u64).is_ok()
    }

    /// A value given by the schema, if it fits; its size is measured up to the limit only.
    fn given(&mut self, value: &Value) -> Value {
        if self.measured(value) { value.clone() } else { Value::Null }
    }

    fn measured(&mut self, value: &Value) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        match value {
            Value::Null | Value::Bool(_) => true,
            Value::Number(number) => self.takes(number.as_str().len()),
            Value::String(text) => self.takes(text.len()),
            Value::Array(items) => items.iter().all(|item| self.measured(item)),
            Value::Object(map) => map.iter().all(|(name, item)| self.takes(name.len()) && self.measured(item)),
        }
    }
}

fn value(making: &mut Making<'_>, schema: &Value, depth: usize) -> Value {
    let Some(object) = schema.as_object().filter(|_| depth < MAX_DEPTH && making.left > 0 && making.spends(1)) else {
        return Value::Null;
    };
    making.left -= 1;
    let root = making.root;
    if let Some(reference) = object.get("$ref").and_then(Value::as_str)
        && making.spends(reference.len() / 16)
        && let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
    {
        return value(making, target, depth + 1);
    }
    let first = |key: &str| object.get(key).and_then(Value::as_array).and_then(|items| items.first());
    let given = object.get("const").or_else(|| first("enum")).or_else(|| object.get("default"));
    if let Some(given) = given.or_else(|| first("examples")) {
        return making.given(given);
    }
    if object.contains_key("allOf") {
        return merged(making, object, depth);
    }
    if let Some(branch) = first("anyOf").or_else(|| first("oneOf")) {
        return match (value(making, branch, depth + 1), object.contains_key("properties")) {
            (Value::Object(branch), true) => {
                let mut own = fields(making, object, depth);
                own.extend(branch);
                Value::Object(own)
            }
            (branch, _) => branch,
        };
    }
    match kind(object) {
        Some("object") => Value::Object(fields(making, object, depth)),
        Some("array") => Value::Array(items(making, object, depth)),
        Some("string") => text(making, object),
        Some("integer") => number(object, true),
        Some("number") => number(object, false),
        Some("boolean") => Value::Bool(false),
        _ => Value::Null,
    }
}

fn kind(object: &Map<String, Value>) -> Option<&str> {
    match object.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ if object.contains_key("properties") || object.contains_key("required") => Some("object"),
        _ if object.contains_key("items") => Some("array"),
        _ => None,
    }
}

/// `allOf` and the keywords beside it, merged into one object; the first part if they are not objects.
fn merged(making: &mut Making<'_>, object: &Map<String, Value>, depth: usize) -> Value {
    let parts = object.get("allOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut all = fields(making, object, depth);
    for part in parts {
        if !making.spends(1) {
            break;
        }
        match value(making, part, depth + 1) {
            Value::Object(part) => all.extend(part),
            Value::Null => {}
            other => return other,
        }
    }
    Value::Object(all)
}

fn fields(making: &mut Making<'_>, object: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let required = object.get("required").and_then(Value::as_array);
    let properties = object.get("properties").and_then(Value::as_object);
    let schema = |name: &str| properties.and_then(|properties| properties.get(name));
    let all = properties.filter(|_| required.is_none() && depth < MAX_FILLED).into_iter().flat_map(Map::keys);
    let all = all.map(String::as_str).filter(|name| !SIGNS.contains(name));
    let names = required.into_iter().flatten().filter_map(Value::as_str).chain(all);
    let mut fields = Map::new();
    for name in names {
        if !making.spends(1) || making.left == 0 || !making.takes(name.len()) {
            break;
        }
        let field = schema(name).map_or(Value::Null, |schema| value(making, schema, depth + 1));
        fields.insert(name.to_owned(), field);
    }
    fields
}

fn items(making: &mut Making<'_>, object: &Map<String, Value>, depth: usize) -> Vec<Value> {
    let first = object.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let least = length(object, "minItems");
    let mut items = Vec::new();
    for position in 0..least {
        if making.left == 0 || !making.spends(1) {
            break;
        }
        let item = first.get(position).or_else(|| object.get("items"));
        items.push(item.map_or(Value::Null, |schema| value(making, schema, depth + 1)));
    }
    items
}

fn length(object: &Map<String, Value>, key: &str) -> usize {
    let least = object.get(key).and_then(Value::as_u64).unwrap_or_default().min(MAX_LENGTH);
    usize::try_from(least).unwrap_or_default()
}

fn text(making: &mut Making<'_>, object: &Map<String, Value>) -> Value {
    let text = match object.get("format").and_then(Value::as_str).unwrap_or_default() {
        "date-time" => "1970-01-01T00:00:00Z",
        "date" => "1970-01-01",
        "time" => "00:00:00Z",
        "duration" => "PT0S",
        "email" => "someone@example.com",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "url" | "iri" => "https://example.com/",
        "uuid" => "00000000-0000-0000-0000-000000000000",
        _ => "",
    };
    let missing = length(object, "minLength").saturating_sub(text.len());
    if making.takes(text.len() + missing) { json!(text.to_owned() + &"x".repeat(missing)) } else { Value::Null }
}

fn number(object: &Map<String, Value>, whole: bool) -> Value {
    let bound = |key: &str| object.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0).unwrap_or(1.0);
    let (least, above) = (bound("minimum"), bound("exclusiveMinimum"));
    let (most, below) = (bound("maximum"), bound("exclusiveMaximum"));
    let fits = |n: f64| {
        least.is_none_or(|least| n >= least)
            && above.is_none_or(|above| n > above)
            && most.is_none_or(|most| n <= most)
            && below.is_none_or(|below| n < below)
    };
    let up = |from: f64| (from / step).ceil() * step;
    let down = |from: f64| (from / step).floor() * step;
    let candidates = [
        Some(0.0),
        least.map(up),
        above.map(|above| up(above) + if up(above) > above { 0.0 } else { step }),
        most.map(down),
        below.map(|below| down(below) - if down(below) < below { 0.0 } else { step }),
        least.zip(most.or(below)).map(|(low, high)| (low + high) / 2.0).filter(|_| !whole),
        above.zip(most.or(below)).map(|(low, high)| (low + high) / 2.0).filter(|_| !whole),
    ];
    let found = candidates.into_iter().flatten().find(|n| fits(*n)).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and beyond 2^63 it saturates")]
    match found.fract() == 0.0 {
        true => json!(found as i64),
        false => json!(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fit_their_schemas_and_are_as_small_as_they_can_be() {
        for (schema, expected) in [
            (json!({}), json!(null)),
            (json!(true), json!(null)),
            (json!({"type": "object"}), json!({})),
            (json!({"type": ["null", "string"]}), json!("")),
            (json!({"const": 7}), json!(7)),
            (json!({"enum": ["b", "a"]}), json!("b")),
            (json!({"type": "string", "default": "d"}), json!("d")),
            (json!({"type": "string", "minLength": 3}), json!("xxx")),
            (json!({"type": "string", "format": "date"}), json!("1970-01-01")),
            (json!({"type": "integer", "minimum": 3}), json!(3)),
            (json!({"type": "integer", "exclusiveMinimum": 3}), json!(4)),
            (json!({"type": "integer", "minimum": 5, "multipleOf": 4}), json!(8)),
            (json!({"type": "integer", "maximum": -2}), json!(-2)),
            (json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}), json!(0.5)),
            (json!({"type": "array", "items": {"type": "string"}}), json!([])),
            (json!({"type": "array", "items": {"type": "string"}, "minItems": 2}), json!(["", ""])),
            (
                json!({"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"type": "null"}, "minItems": 2}),
                json!([false, null]),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}),
                json!({"a": 0}),
            ),
            (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), json!(null)),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}, {"required": ["y"], "properties": {"y": {"const": 1}}}],
                       "$defs": {"a": {"type": "object", "required": ["x"], "properties": {"x": {"type": "boolean"}}}}}),
                json!({"x": false, "y": 1}),
            ),
        ] {
            let sample = of(Some(&schema));
            assert_eq!(sample, expected, "{schema}");
            assert!(jsonschema::is_valid(&schema, &sample), "{sample} of {schema}");
        }
        assert_eq!(of(None), Value::Null);
    }

    #[test]
    fn a_schema_without_end_has_a_sample_with_one() {
        let recursive = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert!(of(Some(&recursive)).to_string().len() < 500);
    }

    #[test]
    fn a_sample_is_small_whatever_its_schema_asks_for() {
        let long = "n".repeat(20_000);
        let list = |item: Value, count: usize| Value::Array(vec![item; count]);
        let names = |count: usize| (0..count).map(|at| json!(format!("name-{at}"))).collect::<Vec<_>>();
        let nested = |keyword: &str, count: usize| {
            (0..count).fold(json!({"required": names(100)}), |inner, _| json!({keyword: [inner.clone(), inner]}))
        };
        for (name, schema) in [
            (
                "arrays of long texts",
                json!({"type": "array", "minItems": u64::MAX, "items": {"type": "string", "minLength": u64::MAX}}),
            ),
            ("arrays of a large default", json!({"type": "array", "minItems": 1000, "items": {"default": long}})),
            ("a default of 400 kB", json!({"default": list(json!(long), 20)})),
            ("a constant of 100,000 values", json!({"const": list(json!(1), 100_000)})),
            (
                "an enum of large objects",
                json!({"type": "array", "minItems": 1000, "items": {"enum": [{long.clone(): long}]}}),
            ),
            ("100,000 required names", json!({"required": names(100_000)})),
            (
                "required names of 20 kB",
                json!({"required": (0..100).map(|at| format!("{long}{at}")).collect::<Vec<_>>()}),
            ),
            ("parts that double", nested("allOf", 14)),
            (
                "references that double",
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}),
            ),
            (
                "arrays of arrays",
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "minItems": 1000, "items": {"$ref": "#/$defs/a"}}}}),
            ),
            (
                "a number of 400 kB",
                serde_json::from_str(&format!("{{\"default\": {}}}", "7".repeat(400_000))).unwrap_or_default(),
            ),
            ("100,000 parts that are none", json!({"allOf": list(json!(1), 100_000)})),
        ] {
            let sample = of(Some(&schema));
            assert_eq!(sample, of(Some(&schema)), "{name}: the same each time");
            assert!(sample.to_string().len() < 128 << 10, "{name}: {}", sample.to_string().len());
        }
    }
}

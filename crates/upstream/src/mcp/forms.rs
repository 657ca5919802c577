//! Questions in the form that rmcp reads: what libraries write of a schema beyond it is folded, and what has no place in a
//! form is told.

use rmcp::model::PrimitiveSchemaDefinition;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Most references and alternatives that one field leads through.
const MAX_FOLDS: usize = 8;
/// Most fields of a form that is folded.
const MAX_FIELDS: usize = 100;
/// Most bytes of its schema, which each reference may copy.
const MAX_SCHEMA: usize = 64 << 10;
/// Constraints that a form can do without, since the server checks its answer: the least useful first.
const NEEDLESS: [&str; 6] = ["format", "default", "minLength", "maxLength", "minimum", "maximum"];

/// Reads the parameters of a question.
///
/// # Errors
/// The reason why no client could be asked it.
pub(super) fn read<T: DeserializeOwned>(mut params: Value) -> Result<T, String> {
    if let Some(most) = params.get_mut("maxTokens") {
        whole(most);
    }
    if let Some(Value::Object(schema)) = params.get_mut("requestedSchema") {
        let fields = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        let all = Value::Object(schema.clone());
        if fields > MAX_FIELDS || all.to_string().len() > MAX_SCHEMA {
            return Err(format!("the form has more than {MAX_FIELDS} fields, or {MAX_SCHEMA} bytes of schema"));
        }
        schema.entry("type").or_insert("object".into());
        schema.entry("properties").or_insert(Value::Object(Map::new()));
        for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            *field = folded(field.take(), &all);
            if field["format"] == "password" {
                return Err(format!("the form's field `{name}` is a password, which MCP forbids to ask for by a form"));
            }
            if !is_readable(field) {
                let kind = field.get("type").and_then(Value::as_str).unwrap_or("(none)");
                return Err(format!("the form's field `{name}` is of type `{kind}`, or has options, that no form has"));
            }
        }
    }
    let is_form = ["messages", "url", "requestedSchema"].iter().all(|key| params.get(key).is_none());
    if is_form {
        return Err("it has no `requestedSchema`".to_owned());
    }
    serde_json::from_value(params).map_err(|error| format!("it cannot be read: {error}"))
}

/// A field without references, `null` as an alternative, and constraints that cannot be read.
fn folded(field: Value, all: &Value) -> Value {
    let Value::Object(mut field) = field else { return field };
    for _ in 0..MAX_FOLDS {
        let part = ["$ref", "allOf", "anyOf", "oneOf"].into_iter().find_map(|key| {
            let part = match field.get(key)? {
                Value::String(place) => all.pointer(place.strip_prefix('#')?).cloned(),
                several => only(several),
            };
            part.inspect(|_| _ = field.shift_remove(key))
        });
        let Some(Value::Object(part)) = part else { break };
        part.into_iter().for_each(|(key, value)| _ = field.entry(key).or_insert(value));
    }
    if let Some(one) = field.get("type").and_then(only) {
        field.insert("type".to_owned(), one);
    } else if field.contains_key("enum") {
        field.entry("type").or_insert("string".into());
    }
    field.values_mut().for_each(whole);
    let mut field = Value::Object(field);
    let is_password = field["format"] == "password";
    for key in NEEDLESS.into_iter().filter(|key| *key != "format" || !is_password) {
        if let (false, Some(fields)) = (is_readable(&field), field.as_object_mut()) {
            fields.shift_remove(key);
        }
    }
    field
}

/// The only alternative beside `null`.
fn only(several: &Value) -> Option<Value> {
    let mut some = several.as_array()?.iter().filter(|one| *one != "null" && one.get("type") != Some(&"null".into()));
    let one = some.next().filter(|one| one.get("const").is_none())?;
    some.next().is_none().then(|| one.clone())
}

/// Makes an integer of a number without a fraction.
fn whole(value: &mut Value) {
    const MOST: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() < MOST)
    {
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and fits")]
        let number = number as i64;
        *value = number.into();
    }
}

fn is_readable(field: &Value) -> bool {
    serde_json::from_value::<PrimitiveSchemaDefinition>(field.clone()).is_ok()
}

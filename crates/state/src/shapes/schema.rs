//! JSON Schema of a shape, the form in which stubs and samples take it.

use serde_json::{Map, Value, json};

use super::learn::listed;
use super::text::{Form, Text};
use super::{Object, Shape};

impl Shape {
    /// Its schema, as the result of a tool with this definition.
    #[must_use]
    pub fn schema(&self, definition: &Value) -> Value {
        self.schema_of("", definition)
    }

    /// Its schema, as the value of a key.
    fn schema_of(&self, key: &str, definition: &Value) -> Value {
        let Self { any, null, bool, int, long, float, text, list, object } = self;
        if *any {
            return json!({});
        }
        let scalars = [(*bool, "boolean"), (*float, "number"), (*int && !*float, "integer")];
        let mut kinds: Vec<Value> =
            scalars.iter().filter(|(is, _)| *is).map(|(_, name)| json!({ "type": name })).collect();
        if let (true, false, Some(integer)) = (*long, *float, kinds.last_mut()) {
            integer["format"] = json!("int64");
        }
        kinds.extend(text.iter().map(|text| of_text(text, key, definition)));
        kinds.extend(list.iter().map(|items| json!({"type": "array", "items": items.schema(definition)})));
        kinds.extend(object.iter().map(|object| of_object(object, definition)));
        kinds.extend(null.then(|| json!({"type": "null"})));
        match kinds.len() {
            0 => json!({}),
            1 => kinds.swap_remove(0),
            _ => json!({ "anyOf": kinds }),
        }
    }
}

fn of_text(text: &Text, key: &str, definition: &Value) -> Value {
    let mut schema = match text {
        Text::Unknown | Text::Old(_) | Text::Any => json!({}),
        Text::Of(Form::Date) => json!({"format": "date"}),
        Text::Of(Form::DateTime) => json!({"format": "date-time"}),
        Text::Of(Form::Decimal) => json!({"format": "decimal"}),
        Text::Of(Form::Capitals(count)) => json!({ "pattern": format!("^[A-Z]{{{count}}}$") }),
        Text::Listed => listed(definition, key).map_or_else(|| json!({}), |values| json!({ "enum": values })),
        Text::Lines | Text::Pairs => json!({"format": "lines"}),
        Text::Headed(names, _) => json!({"format": "lines", "contentSchema": {"type": "object", "required": names}}),
        Text::Json(json) => json!({"contentMediaType": "application/json", "contentSchema": json.schema(definition)}),
        Text::JsonLines(_) => json!({"format": "lines", "contentMediaType": "application/jsonl"}),
        Text::Python(_) => json!({"contentMediaType": "text/x-python"}),
        Text::Tables(..) => json!({"contentMediaType": "text/csv"}),
    };
    schema["type"] = "string".into();
    if let Some(words) = text.words() {
        schema[stubgen::NOTE] = words.into();
    }
    schema
}

fn of_object(object: &Object, definition: &Value) -> Value {
    match object {
        Object::Map(value) => json!({"type": "object", "additionalProperties": value.schema(definition)}),
        Object::Fields(fields) => {
            let required: Vec<&String> =
                fields.iter().filter(|(_, field)| !field.optional).map(|(key, _)| key).collect();
            let properties: Map<String, Value> =
                fields.iter().map(|(key, field)| (key.clone(), field.shape.schema_of(key, definition))).collect();
            json!({"type": "object", "properties": properties, "required": required})
        }
    }
}

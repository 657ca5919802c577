//! JSON Schema of a shape, the form in which stubs and samples take it.

use serde_json::{Map, Value, json};

use super::text::Text;
use super::{Object, Shape};

impl Shape {
    /// Its schema.
    #[must_use]
    pub fn schema(&self) -> Value {
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
        kinds.extend(text.iter().map(of_text));
        kinds.extend(list.iter().map(|items| json!({"type": "array", "items": items.schema()})));
        kinds.extend(object.iter().map(of_object));
        kinds.extend(null.then(|| json!({"type": "null"})));
        match kinds.len() {
            0 => json!({}),
            1 => kinds.swap_remove(0),
            _ => json!({ "anyOf": kinds }),
        }
    }
}

fn of_text(text: &Text) -> Value {
    match text {
        Text::Unknown | Text::Plain => json!({"type": "string"}),
        Text::Lines => json!({"type": "string", "format": "lines"}),
        Text::Named(names) => {
            json!({"type": "string", "format": "lines", "contentSchema": {"type": "object", "required": names}})
        }
        Text::Json(inner) => {
            json!({"type": "string", "contentMediaType": "application/json", "contentSchema": inner.schema()})
        }
        Text::Csv(columns) => json!({
            "type": "string",
            "contentMediaType": "text/csv",
            "contentSchema": {"type": "array", "items": {"type": "object", "required": columns}},
        }),
    }
}

fn of_object(object: &Object) -> Value {
    match object {
        Object::Map(value) => json!({"type": "object", "additionalProperties": value.schema()}),
        Object::Fields(fields) => {
            let required: Vec<&String> =
                fields.iter().filter(|(_, field)| !field.optional).map(|(key, _)| key).collect();
            let properties: Map<String, Value> =
                fields.iter().map(|(key, field)| (key.clone(), field.shape.schema())).collect();
            json!({"type": "object", "properties": properties, "required": required})
        }
    }
}

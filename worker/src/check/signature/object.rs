//! Objects and unions as JSON Schema, made alike for every language.

use serde_json::{Map, Value, json};

/// An object with named properties.
#[derive(Default)]
pub(super) struct Shape {
    pub(super) properties: Vec<Property>,
    /// The type of all others, where there may be others.
    pub(super) others: Option<Value>,
}

/// One property of an object.
pub(super) struct Property {
    pub(super) name: String,
    /// Byte offset of its name.
    pub(super) at: u32,
    pub(super) schema: Value,
    pub(super) is_required: bool,
}

impl Shape {
    pub(super) fn property(&mut self, name: &str) -> Option<&mut Property> {
        self.properties.iter_mut().find(|property| property.name == name)
    }

    /// Its schema; a closed one has no other properties.
    pub(super) fn schema(self, is_closed: bool) -> Value {
        let required: Vec<Value> =
            self.properties.iter().filter(|it| it.is_required).map(|it| Value::from(it.name.as_str())).collect();
        let properties: Map<String, Value> = self.properties.into_iter().map(|it| (it.name, it.schema)).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), Value::from("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        match self.others {
            Some(others) => schema.insert("additionalProperties".to_owned(), others),
            None if is_closed => schema.insert("additionalProperties".to_owned(), Value::Bool(false)),
            None => None,
        };
        Value::Object(schema)
    }
}

/// The schema of a simple type.
pub(super) fn simple(name: &str) -> Value {
    json!({ "type": name })
}

/// The schema of an object whose keys are data.
pub(super) fn map_of(values: Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

/// The schema of a list.
pub(super) fn list_of(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// The schema of a tuple; of its first items, `least` must be there.
pub(super) fn tuple(items: Vec<Value>, least: usize, rest: Option<Value>) -> Value {
    let most = items.len();
    let mut schema = json!({ "type": "array", "prefixItems": items, "minItems": least });
    match rest {
        Some(rest) => schema["items"] = rest,
        None => {
            schema["items"] = Value::Bool(false);
            schema["maxItems"] = Value::from(most);
        }
    }
    schema
}

/// The schema of a value that is one of these.
pub(super) fn one_of(members: Vec<Value>) -> Value {
    let mut literals: Vec<Value> = Vec::new();
    let mut types: Vec<Value> = Vec::new();
    let mut others: Vec<Value> = Vec::new();
    for member in members.into_iter().flat_map(parts) {
        let Some(map) = member.as_object() else { continue };
        let list = match (map.len(), map.get("enum"), map.get("type")) {
            (0, ..) => return member,
            (1, Some(_), _) => {
                if let Some(Value::Array(values)) = map.get("enum") {
                    values.iter().for_each(|value| push(&mut literals, value.clone()));
                }
                continue;
            }
            (1, _, Some(name)) => {
                push(&mut types, name.clone());
                continue;
            }
            _ => &mut others,
        };
        push(list, member);
    }
    let is_null_type = types == [Value::from("null")];
    if is_null_type && !literals.is_empty() {
        types.clear();
        push(&mut literals, Value::Null);
    }
    let mut all = others;
    if !literals.is_empty() {
        all.insert(0, json!({ "enum": literals }));
    }
    if types.len() > 1 && all.is_empty() {
        return json!({ "type": types });
    }
    all.extend(types.into_iter().map(|name| json!({ "type": name })));
    if all.len() == 1 { all.remove(0) } else { json!({ "anyOf": all }) }
}

/// The members of a union, or the schema itself.
fn parts(schema: Value) -> Vec<Value> {
    let Some(map) = schema.as_object().filter(|map| map.len() == 1) else { return vec![schema] };
    match (map.get("anyOf"), map.get("type")) {
        (Some(Value::Array(members)), _) => members.clone(),
        (_, Some(Value::Array(types))) => types.iter().map(|name| json!({ "type": name })).collect(),
        _ => vec![schema],
    }
}

fn push(list: &mut Vec<Value>, value: Value) {
    if !list.contains(&value) {
        list.push(value);
    }
}

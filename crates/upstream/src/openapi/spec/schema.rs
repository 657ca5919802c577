//! Schemas of the document as JSON Schema 2020-12, with the `$defs` that they need and no others.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};
use stubgen::KeywordForm;

use super::Problem;
use super::body::is_binary;
use super::document::Version;
use super::names::Names;
use super::refs::{Place, Refs};
use base::json;
use base::limits;
use base::meter::Meter;

/// Levels of JSON that a schema may have: its text is parsed again later.
const MAX_LEVELS: usize = 100;
/// Bytes that a part counts for beside its text.
const PART: usize = 8;

/// The side that a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Arguments: all of it, without properties that are only read.
    Input,
    /// Results: what is deep in a large schema is left open, and properties that are only written are left out.
    Output,
}

/// Schemas of one side of a tool.
pub(super) struct Schemas<'r> {
    refs: &'r Refs<'r>,
    version: Version,
    meter: &'r Meter,
    side: Side,
    /// Bytes left.
    left: usize,
    defs: Map<String, Value>,
    names: HashMap<Place, String>,
    taken: Names,
    waiting: VecDeque<(Place, String)>,
}

impl<'r> Schemas<'r> {
    pub(super) fn new(refs: &'r Refs<'r>, version: Version, meter: &'r Meter, side: Side) -> Self {
        let left = match side {
            Side::Input => limits::DEFINITION.max,
            Side::Output => limits::OPENAPI_RESULT.max,
        };
        Self {
            refs,
            version,
            meter,
            side,
            left,
            defs: Map::new(),
            names: HashMap::new(),
            taken: Names::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Converts a schema of `file`.
    pub(super) fn convert(&mut self, file: usize, schema: &Value) -> Result<Value, Problem> {
        self.at(file, schema, 3)
    }

    /// The definitions of all converted schemas; the nearest come first.
    pub(super) fn defs(mut self) -> Result<Map<String, Value>, Problem> {
        while let Some((place, name)) = self.waiting.pop_front() {
            let schema = self.refs.value(&place).map_err(Problem::Here)?;
            let schema = self.at(place.file, schema, 3)?;
            self.defs.insert(name, schema);
        }
        Ok(self.defs)
    }

    /// Takes bytes; false if a result has none left.
    fn take(&mut self, bytes: usize) -> Result<bool, Problem> {
        self.meter.spend(1 + bytes as u64 / 64)?;
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None if self.side == Side::Output => {
                self.left = 0;
                return Ok(false);
            }
            None => {
                let most = limits::DEFINITION.max;
                return Err(Problem::Here(format!("the schema of its arguments has more than {most} bytes")));
            }
        }
        Ok(true)
    }

    fn at(&mut self, file: usize, schema: &Value, level: usize) -> Result<Value, Problem> {
        // `of_3_0` makes it one of two alternatives.
        let is_lower = |fields: &Map<_, _>| self.version == Version::V3_0 && is_nullable(fields) && is_composed(fields);
        let level = if schema.as_object().is_some_and(is_lower) { level + 2 } else { level };
        if level > MAX_LEVELS {
            return Err(Problem::Here(format!("a schema has more than {MAX_LEVELS} levels")));
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(open) => return Ok(Value::Bool(*open)),
            _ => return Ok(json!({})),
        };
        if !self.take(PART)? {
            return Ok(json!({}));
        }
        let mut made = Map::new();
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let name = self.name(file, reference)?;
            made.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
            // In 3.0 nothing counts beside it.
            if self.version == Version::V3_0 {
                return Ok(Value::Object(made));
            }
        }
        for (key, value) in fields {
            if let Some(value) = self.keyword(file, key, value, level)? {
                made.insert(key.clone(), value);
            }
        }
        self.only(fields, &mut made);
        if self.side == Side::Input && is_binary(schema) {
            return Ok(bytes(made));
        }
        if self.version == Version::V3_0 {
            made = of_3_0(fields, made);
        }
        Ok(Value::Object(made))
    }

    /// The value of one keyword; `None` leaves it out.
    fn keyword(&mut self, file: usize, key: &str, value: &Value, level: usize) -> Result<Option<Value>, Problem> {
        let form = KeywordForm::latest(key).filter(|_| !matches!(key, "$defs" | "definitions" | "contentSchema"));
        if is_plain(key, form) && !(key == "default" && self.side == Side::Output) {
            let is_kept = self.take(key.len() + PART + json::written(value))?;
            return Ok(is_kept.then(|| value.clone()));
        }
        if !self.take(key.len())? {
            return Ok(None);
        }
        Ok(match (form, value) {
            (Some(KeywordForm::Schema), Value::Object(_) | Value::Bool(_)) => Some(self.at(file, value, level + 1)?),
            (Some(KeywordForm::Schemas), Value::Array(list)) => {
                let list = list.iter().map(|schema| self.at(file, schema, level + 2));
                Some(Value::Array(list.collect::<Result<_, _>>()?))
            }
            (Some(KeywordForm::Named), Value::Object(named)) => {
                let mut made = Map::new();
                for (name, schema) in named {
                    if key == "properties" && self.is_other_side(schema) {
                        continue;
                    }
                    if !self.take(name.len() + PART)? {
                        break;
                    }
                    made.insert(name.clone(), self.at(file, schema, level + 2)?);
                }
                Some(Value::Object(made))
            }
            _ => None,
        })
    }

    fn is_other_side(&self, schema: &Value) -> bool {
        let key = match self.side {
            Side::Input => "readOnly",
            Side::Output => "writeOnly",
        };
        schema.get(key) == Some(&Value::Bool(true))
    }

    /// Leaves out of `required` what was left out of `properties`.
    fn only(&self, fields: &Map<String, Value>, made: &mut Map<String, Value>) {
        let Some(Value::Object(properties)) = fields.get("properties") else { return };
        let Some(Value::Array(mut required)) = made.get_mut("required").map(Value::take) else { return };
        let kept = made.get("properties").and_then(Value::as_object);
        let is_gone = |name: &str| properties.contains_key(name) && !kept.is_some_and(|kept| kept.contains_key(name));
        required.retain(|name| !name.as_str().is_some_and(is_gone));
        made.insert("required".to_owned(), Value::Array(required));
    }

    /// Name among `$defs` of what a reference leads to.
    fn name(&mut self, file: usize, reference: &str) -> Result<String, Problem> {
        let place = self.refs.place(file, reference).map_err(Problem::Here)?;
        if let Some(name) = self.names.get(&place) {
            return Ok(name.clone());
        }
        self.refs.value(&place).map_err(Problem::Here)?;
        let last = place.pointer.rsplit('/').next().unwrap_or_default();
        let plain: String =
            last.chars().take(80).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let name = self.taken.numbered(if plain.is_empty() { "Schema".to_owned() } else { plain });
        self.names.insert(place.clone(), name.clone());
        self.waiting.push_back((place, name.clone()));
        Ok(name)
    }
}

/// True for a keyword whose value is taken over as it is.
fn is_plain(key: &str, form: Option<KeywordForm>) -> bool {
    let is_left_out = key.starts_with('$') || matches!(key, "examples" | "readOnly" | "writeOnly");
    matches!(key, "const" | "default") || !is_left_out && form.is_some_and(|form| !form.has_schemas())
}

/// Bytes as scripts give them.
fn bytes(mut made: Map<String, Value>) -> Value {
    for key in ["format", "contentMediaType", "minLength", "maxLength", "pattern"] {
        made.shift_remove(key);
    }
    made.insert("type".to_owned(), "string".into());
    made.insert("contentEncoding".to_owned(), "base64".into());
    let what = "Bytes: the handle of binary content, or base64.";
    let told = match made.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} {what}"),
        None => what.to_owned(),
    };
    made.insert("description".to_owned(), told.into());
    Value::Object(made)
}

/// The dialect of 3.0: `nullable`, and exclusive bounds that are switches.
fn of_3_0(fields: &Map<String, Value>, mut made: Map<String, Value>) -> Map<String, Value> {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match made.get(exclusive) {
            Some(Value::Bool(true)) => match made.shift_remove(bound) {
                Some(number) => drop(made.insert(exclusive.to_owned(), number)),
                None => drop(made.shift_remove(exclusive)),
            },
            Some(Value::Bool(false)) => drop(made.shift_remove(exclusive)),
            _ => {}
        }
    }
    if !is_nullable(fields) {
        return made;
    }
    if is_composed(&made) {
        let either = vec![Value::Object(made), json!({ "type": "null" })];
        return Map::from_iter([("anyOf".to_owned(), either.into())]);
    }
    if let Some(Value::String(of_type)) = made.get("type") {
        let both = json!([of_type, "null"]);
        made.insert("type".to_owned(), both);
        if let Some(Value::Array(values)) = made.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
    made
}

fn is_nullable(fields: &Map<String, Value>) -> bool {
    fields.get("nullable") == Some(&Value::Bool(true))
}

fn is_composed(fields: &Map<String, Value>) -> bool {
    ["allOf", "anyOf", "oneOf", "not"].iter().any(|key| fields.contains_key(*key))
}

//! JSON Schema of `forge.toml`, for editors: the raw types with the words and the texts of `forge.toml.example`. A test
//! compares docs/forge.schema.json with it, or writes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::raw::{Raw, TextOr};
use super::words::{Word, Words};
use super::{SCHEMA_ADDRESS, units};

const EXAMPLE: &str = include_str!("../forge.toml.example");

/// Text that begins a reference, in a regular expression. The value of a reference is checked when it is read.
const REFERENCE: &str = r"\$\{";

#[test]
fn the_schema_of_the_documentation_is_current() {
    let (file, made) = (concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/forge.schema.json"), schema());
    if std::env::var_os("FORGEFS_WRITE_DOCS").is_some() {
        std::fs::write(file, &made).expect("the file can be written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert!(written == made, "docs/forge.schema.json is not current: `cargo xtask docs` writes it");
}

/// The schema as JSON text, in draft 7: TOML language servers know no later one.
fn schema() -> String {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<Raw>().to_value();
    without_null(&mut schema);
    for (path, text) in texts() {
        if let Some(place) = place(&mut schema, &path).and_then(Value::as_object_mut) {
            place.insert("description".to_owned(), text.into());
        }
    }
    schema["$id"] = SCHEMA_ADDRESS.into();
    schema["title"] = "Configuration of ForgeFS".into();
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// Removes `null`, which TOML does not have, and formats of numbers, which TOML fixes.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(without_null);
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|one| *one != json!({ "type": "null" }));
                if let [Value::Object(only)] = any.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    object.extend(only);
                }
            }
            object.retain(|key, value| !(key == "default" && value.is_null() || key == "format"));
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Comments of the example, by the path of the key that they stand above.
fn texts() -> BTreeMap<Vec<String>, String> {
    let (mut texts, mut table, mut comment) = (BTreeMap::new(), Vec::new(), Vec::new());
    for line in EXAMPLE.lines() {
        if let Some(text) = line.strip_prefix("# ").filter(|text| !text.starts_with("---")) {
            comment.push(text.trim());
            continue;
        }
        let setting = line.strip_prefix('#').unwrap_or_default();
        let header = setting.trim_start_matches('[').split(']').next().unwrap_or_default();
        let path = match setting.split_once(" = ") {
            _ if setting.starts_with('[') => {
                table = header.split('.').map(|part| part.trim_matches('"').to_owned()).collect();
                Some(table.clone())
            }
            Some((key, _)) => Some([table.as_slice(), &[key.to_owned()]].concat()),
            None => None,
        };
        let text = comment.join(" ");
        if let Some(path) = path.filter(|_| !text.is_empty() && text != "As above.") {
            texts.entry(path).or_insert(text);
        }
        comment.clear();
    }
    texts
}

/// Schema of the value at a path of the file.
fn place<'s>(schema: &'s mut Value, path: &[String]) -> Option<&'s mut Value> {
    let Some((name, rest)) = path.split_first() else { return Some(schema) };
    let below = ["properties", "additionalProperties", "items"].into_iter().find(|key| match *key {
        "properties" => schema.get(key).is_some_and(|properties| properties.get(name).is_some()),
        key => schema.get(key).is_some_and(Value::is_object),
    })?;
    match below {
        "properties" => place(&mut schema[below][name], rest),
        "items" => place(&mut schema[below], path),
        _ => place(&mut schema[below], rest),
    }
}

/// Schema of a text with a form of its own.
fn text(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": format!("{pattern}|{REFERENCE}") })
}

/// Units as parts of a regular expression.
fn alternatives(units: &[(&'static str, u64)]) -> String {
    units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join("|")
}

/// Schema of a duration.
pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    text(&format!("^\\s*([0-9]+ *({}))+\\s*$", alternatives(units::DURATIONS)))
}

/// Schema of a size.
pub(super) fn size(_: &mut SchemaGenerator) -> Schema {
    text(&format!("^\\s*[0-9]+ *({})\\s*$", alternatives(units::SIZES)))
}

/// Schema of a name that becomes a folder.
pub(super) fn names<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<T>();
    json_schema!({
        "type": "object",
        "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$" },
        "additionalProperties": value,
    })
}

/// Schema of one of a few words.
fn word<'w>(words: impl Iterator<Item = &'w str>) -> Schema {
    let words: Vec<&str> = words.collect();
    json_schema!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": REFERENCE }] })
}

impl<W: JsonSchema, T: JsonSchema> JsonSchema for TextOr<W, T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [W::json_schema(generator), T::json_schema(generator)] })
    }
}

impl<T: Words> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        word(T::words().into_iter().map(|(word, _)| word))
    }
}

//! The `type` keyword as a set of bits.

use serde_json::Value;

use super::facets::Facet;
use super::get;
use super::translate::Translator;

pub(super) const NULL: u8 = 1;
pub(super) const BOOLEAN: u8 = 2;
pub(super) const INTEGER: u8 = 4;
pub(super) const FRACTION: u8 = 8;
pub(super) const STRING: u8 = 16;
pub(super) const ARRAY: u8 = 32;
pub(super) const OBJECT: u8 = 64;
pub(super) const ALL: u8 = 127;

impl<'a> Translator<'a> {
    /// Types that all facets allow.
    pub(super) fn mask(&mut self, facets: &[Facet<'a>]) -> u8 {
        let mut mask = ALL;
        for facet in facets {
            let mut allowed = match get(facet.map, "type") {
                Some(Value::String(name)) => self.type_bits(name),
                Some(Value::Array(names)) if !names.is_empty() => {
                    names.iter().fold(0, |bits, name| bits | name.as_str().map_or(ALL, |name| self.type_bits(name)))
                }
                None => continue,
                Some(_) => {
                    self.note("a type that is not a name was ignored");
                    ALL
                }
            };
            if get(facet.map, "nullable") == Some(&Value::Bool(true)) {
                allowed |= NULL;
            }
            mask &= allowed;
        }
        if mask == ALL {
            // Without a type, keywords of objects and arrays show the intent.
            let any = |keys: &[&str]| facets.iter().any(|facet| keys.iter().any(|key| facet.map.contains_key(*key)));
            if any(&["properties", "patternProperties", "additionalProperties", "propertyNames"]) {
                mask = OBJECT;
            } else if any(&["items", "prefixItems"]) {
                mask = ARRAY;
            }
        }
        mask
    }

    pub(super) fn type_bits(&mut self, name: &str) -> u8 {
        match name {
            "string" => STRING,
            "integer" => INTEGER,
            "number" => INTEGER | FRACTION,
            "boolean" => BOOLEAN,
            "null" => NULL,
            "array" => ARRAY,
            "object" => OBJECT,
            _ => {
                self.note("a type that JSON Schema does not know was read as any");
                ALL
            }
        }
    }
}

pub(super) fn bits_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(number) if number.to_string().bytes().all(|b| b.is_ascii_digit() || b == b'-') => INTEGER,
        // 3.0 is an integer in JSON Schema.
        Value::Number(_) => INTEGER | FRACTION,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

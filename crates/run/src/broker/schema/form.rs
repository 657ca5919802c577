//! Validates a schema: each keyword must have the form of its draft's meta-schema.

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::Value;

use super::Halt;
use super::number::Decimal;
use super::refs::{children, is_resource};
use base::meter::Meter;

/// Properties of a whole schema that a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::broker) struct Dialect {
    pub(super) draft: Draft,
    /// True if a part has an `$id`, so that references there do not start from the root.
    pub(super) has_ids: bool,
}

impl Dialect {
    /// Reads the whole schema once.
    ///
    /// # Errors
    /// [`Halt::Unreadable`] when a keyword's form is invalid in its draft.
    pub(in crate::broker) fn of(root: &Value, meter: &Meter) -> Result<Self, Halt> {
        let draft = Draft::Draft202012.detect(root);
        if draft == Draft::Unknown {
            return Err(Halt::Unreadable("its $schema is not known".to_owned()));
        }
        let mut reading = Reading { draft, has_ids: false, meter };
        reading.schema(root, true)?;
        Ok(Self { draft, has_ids: reading.has_ids })
    }
}

struct Reading<'m> {
    draft: Draft,
    has_ids: bool,
    meter: &'m Meter,
}

impl Reading<'_> {
    fn schema(&mut self, schema: &Value, is_root: bool) -> Result<(), Halt> {
        self.meter.spend(1)?;
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(_) => return Ok(()),
            _ => return Err(Halt::Unreadable("a schema is neither an object nor a boolean".to_owned())),
        };
        self.has_ids |= !is_root && is_resource(map, self.draft);
        for (keyword, argument) in map {
            self.meter.spend(1)?;
            if !self.is_formed(keyword, argument)? {
                let keyword = base::text::head(keyword, 40);
                return Err(Halt::Unreadable(format!("`{keyword}` has not the form that JSON Schema asks for")));
            }
        }
        let mut parts = Ok(());
        children(map, self.draft, |part| {
            if parts.is_ok() {
                parts = self.schema(part, false);
            }
        });
        parts
    }

    fn is_formed(&mut self, keyword: &str, argument: &Value) -> Result<bool, Halt> {
        let since = |draft: Draft| self.draft >= draft;
        Ok(match keyword {
            "type" => match argument {
                Value::Array(types) => {
                    types.iter().all(is_type) && !types.is_empty() && self.are_distinct_strings(types)?
                }
                one => is_type(one),
            },
            "required" if self.draft == Draft::Draft4 => self.is_names(argument, 1)?,
            "required" => self.is_names(argument, 0)?,
            "enum" => argument.is_array(),
            "properties" | "patternProperties" | "definitions" => argument.is_object(),
            "$defs" | "dependentSchemas" if since(Draft::Draft201909) => argument.is_object(),
            "dependencies" => match argument.as_object() {
                Some(dependencies) => {
                    for needed in dependencies.values() {
                        if needed.is_array() && !self.is_names(needed, usize::from(self.draft == Draft::Draft4))? {
                            return Ok(false);
                        }
                    }
                    true
                }
                None => false,
            },
            "dependentRequired" if since(Draft::Draft201909) => match argument.as_object() {
                Some(needed) => {
                    for names in needed.values() {
                        if !self.is_names(names, 0)? {
                            return Ok(false);
                        }
                    }
                    true
                }
                None => false,
            },
            "allOf" | "anyOf" | "oneOf" => is_list_of_schemas(argument),
            "prefixItems" if since(Draft::Draft202012) => is_list_of_schemas(argument),
            "items" if since(Draft::Draft202012) => is_schema(argument),
            "items" => is_schema(argument) || argument.is_array(),
            "additionalProperties" | "not" => is_schema(argument),
            "additionalItems" if !since(Draft::Draft202012) => is_schema(argument),
            "contains" | "propertyNames" if since(Draft::Draft6) => is_schema(argument),
            "if" | "then" | "else" if since(Draft::Draft7) => is_schema(argument),
            "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" if since(Draft::Draft201909) => {
                is_schema(argument)
            }
            "minimum" | "maximum" => argument.is_number(),
            "exclusiveMinimum" | "exclusiveMaximum" if self.draft == Draft::Draft4 => argument.is_boolean(),
            "exclusiveMinimum" | "exclusiveMaximum" => argument.is_number(),
            "multipleOf" => match argument {
                Value::Number(number) => {
                    let zero = Decimal::new(&serde_json::Number::from(0));
                    Decimal::new(number).compare(&zero).is_gt()
                }
                _ => false,
            },
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                count(argument).is_some()
            }
            "minContains" | "maxContains" if since(Draft::Draft201909) => count(argument).is_some(),
            "uniqueItems" => argument.is_boolean(),
            "pattern" | "$schema" | "title" | "description" => argument.is_string(),
            "format" => argument.is_string(),
            "id" if self.draft == Draft::Draft4 => argument.is_string(),
            "$id" | "$ref" if since(Draft::Draft6) => argument.is_string(),
            "$comment" if since(Draft::Draft7) => argument.is_string(),
            "contentEncoding" | "contentMediaType" if since(Draft::Draft7) => argument.is_string(),
            "$anchor" if since(Draft::Draft201909) => argument.is_string(),
            "$dynamicRef" | "$dynamicAnchor" if since(Draft::Draft202012) => argument.is_string(),
            "$recursiveRef" if self.draft == Draft::Draft201909 => argument.is_string(),
            "$recursiveAnchor" if self.draft == Draft::Draft201909 => argument.is_boolean(),
            "readOnly" if since(Draft::Draft7) => argument.is_boolean(),
            "writeOnly" | "deprecated" if since(Draft::Draft201909) => argument.is_boolean(),
            "examples" if since(Draft::Draft6) => argument.is_array(),
            _ => true,
        })
    }

    fn is_names(&self, names: &Value, least: usize) -> Result<bool, Halt> {
        match names.as_array() {
            Some(names) => Ok(names.len() >= least && self.are_distinct_strings(names)?),
            None => Ok(false),
        }
    }

    fn are_distinct_strings(&self, names: &[Value]) -> Result<bool, Halt> {
        self.meter.spend(names.len() as u64)?;
        let mut seen = HashSet::with_capacity(names.len());
        Ok(names.iter().all(|name| name.as_str().is_some_and(|name| seen.insert(name))))
    }
}

fn is_type(name: &Value) -> bool {
    let known = ["null", "boolean", "integer", "number", "string", "array", "object"];
    name.as_str().is_some_and(|name| known.contains(&name))
}

fn is_schema(schema: &Value) -> bool {
    schema.is_object() || schema.is_boolean()
}

fn is_list_of_schemas(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

/// A count, which may be written as `3.0` or exceed 64 bits.
pub(super) fn count(argument: &Value) -> Option<u64> {
    let Value::Number(number) = argument else { return None };
    if let Some(count) = number.as_u64() {
        return Some(count);
    }
    let decimal = Decimal::new(number);
    let zero = Decimal::new(&serde_json::Number::from(0));
    (decimal.is_whole() && decimal.compare(&zero).is_ge()).then(|| match number.as_f64() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; it saturates")]
        Some(count) => count as u64,
        None => u64::MAX,
    })
}

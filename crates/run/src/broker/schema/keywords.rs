//! Keywords of each draft, and their subschemas.

use jsonschema::Draft;
use serde_json::{Map, Value};

/// Form of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Schema,
    SchemaOrList,
    Schemas,
    /// Schemas by name.
    Named,
    /// By name, a schema or the names that it needs.
    Dependencies,
    /// By name, the names that it needs.
    Needed,
    Names,
    Types,
    List,
    Text,
    Flag,
    Number,
    Positive,
    Count,
}

impl Form {
    /// Form of `keyword`; `None` for any value, as of a keyword that the draft does not have.
    pub(super) fn of(keyword: &str, draft: Draft) -> Option<Self> {
        use Draft::{Draft4, Draft6, Draft7, Draft201909, Draft202012};
        let (since, form) = match keyword {
            "items" if draft < Draft202012 => (Draft4, Self::SchemaOrList),
            "additionalItems" | "$recursiveRef" | "$recursiveAnchor" if draft > Draft201909 => return None,
            "exclusiveMinimum" | "exclusiveMaximum" if draft == Draft4 => (Draft4, Self::Flag),
            "id" if draft > Draft4 => return None,
            "items" | "additionalItems" | "additionalProperties" | "not" => (Draft4, Self::Schema),
            "contains" | "propertyNames" => (Draft6, Self::Schema),
            "if" | "then" | "else" => (Draft7, Self::Schema),
            "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => (Draft201909, Self::Schema),
            "allOf" | "anyOf" | "oneOf" => (Draft4, Self::Schemas),
            "prefixItems" => (Draft202012, Self::Schemas),
            "properties" | "patternProperties" | "definitions" => (Draft4, Self::Named),
            "$defs" | "dependentSchemas" => (Draft201909, Self::Named),
            "dependencies" => (Draft4, Self::Dependencies),
            "dependentRequired" => (Draft201909, Self::Needed),
            "required" => (Draft4, Self::Names),
            "type" => (Draft4, Self::Types),
            "enum" => (Draft4, Self::List),
            "examples" => (Draft6, Self::List),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => (Draft4, Self::Number),
            "multipleOf" => (Draft4, Self::Positive),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                (Draft4, Self::Count)
            }
            "minContains" | "maxContains" => (Draft201909, Self::Count),
            "uniqueItems" => (Draft4, Self::Flag),
            "readOnly" => (Draft7, Self::Flag),
            "writeOnly" | "deprecated" | "$recursiveAnchor" => (Draft201909, Self::Flag),
            "id" | "pattern" | "format" | "$schema" | "title" | "description" => (Draft4, Self::Text),
            "$id" | "$ref" => (Draft6, Self::Text),
            "$comment" | "contentEncoding" | "contentMediaType" => (Draft7, Self::Text),
            "$anchor" | "$recursiveRef" => (Draft201909, Self::Text),
            "$dynamicRef" | "$dynamicAnchor" => (Draft202012, Self::Text),
            _ => return None,
        };
        (draft >= since).then_some(form)
    }
}

/// Calls `visit` with each subschema of its draft.
pub(super) fn children<'c>(map: &'c Map<String, Value>, draft: Draft, mut visit: impl FnMut(&'c Value)) {
    for (keyword, argument) in map {
        match (Form::of(keyword, draft), argument) {
            (Some(Form::Schemas | Form::SchemaOrList), Value::Array(all)) => all.iter().for_each(&mut visit),
            (Some(Form::Schema | Form::SchemaOrList), schema) => visit(schema),
            (Some(Form::Named), Value::Object(all)) => all.values().for_each(&mut visit),
            (Some(Form::Dependencies), Value::Object(all)) => {
                all.values().filter(|schema| !schema.is_array()).for_each(&mut visit);
            }
            _ => {}
        }
    }
}

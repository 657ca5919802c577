//! Keywords of JSON Schema by draft: 4, 6, 7, 2019 or 2020.

use serde_json::{Map, Value};

/// Form of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeywordForm {
    /// A schema.
    Schema,
    /// A schema, or a list of them.
    SchemaOrList,
    /// A list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// By name, a schema or the names that it needs.
    Dependencies,
    /// By name, the names that it needs.
    Needed,
    /// A list of names.
    Names,
    /// A type, or a list of them.
    Types,
    /// A list of values.
    List,
    /// A text.
    Text,
    /// A boolean.
    Flag,
    /// A number.
    Number,
    /// A number above zero.
    Positive,
    /// A whole number from zero on.
    Count,
}

impl KeywordForm {
    /// Form in the latest draft.
    pub fn latest(keyword: &str) -> Option<Self> {
        Self::of(keyword, 2020)
    }

    /// Form in a draft; `None` for any value, as of a keyword that the draft does not have.
    pub fn of(keyword: &str, draft: u16) -> Option<Self> {
        let (since, form) = match keyword {
            "items" if draft < 2020 => (4, Self::SchemaOrList),
            "additionalItems" | "$recursiveRef" | "$recursiveAnchor" if draft > 2019 => return None,
            "exclusiveMinimum" | "exclusiveMaximum" if draft == 4 => (4, Self::Flag),
            "id" if draft > 4 => return None,
            "items" | "additionalItems" | "additionalProperties" | "not" => (4, Self::Schema),
            "contains" | "propertyNames" => (6, Self::Schema),
            "if" | "then" | "else" => (7, Self::Schema),
            "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => (2019, Self::Schema),
            "allOf" | "anyOf" | "oneOf" => (4, Self::Schemas),
            "prefixItems" => (2020, Self::Schemas),
            "properties" | "patternProperties" | "definitions" => (4, Self::Named),
            "$defs" | "dependentSchemas" => (2019, Self::Named),
            "dependencies" => (4, Self::Dependencies),
            "dependentRequired" => (2019, Self::Needed),
            "required" => (4, Self::Names),
            "type" => (4, Self::Types),
            "enum" => (4, Self::List),
            "examples" => (6, Self::List),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => (4, Self::Number),
            "multipleOf" => (4, Self::Positive),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => (4, Self::Count),
            "minContains" | "maxContains" => (2019, Self::Count),
            "uniqueItems" => (4, Self::Flag),
            "readOnly" => (7, Self::Flag),
            "writeOnly" | "deprecated" | "$recursiveAnchor" => (2019, Self::Flag),
            "id" | "pattern" | "format" | "$schema" | "title" | "description" => (4, Self::Text),
            "$id" | "$ref" => (6, Self::Text),
            "$comment" | "contentEncoding" | "contentMediaType" => (7, Self::Text),
            "$anchor" | "$recursiveRef" => (2019, Self::Text),
            "$dynamicRef" | "$dynamicAnchor" => (2020, Self::Text),
            _ => return None,
        };
        (draft >= since).then_some(form)
    }

    /// True if there are schemas in it.
    pub fn has_schemas(self) -> bool {
        matches!(self, Self::Schema | Self::SchemaOrList | Self::Schemas | Self::Named | Self::Dependencies)
    }
}

/// Calls `visit` with each subschema of `map` in a draft.
pub fn subschemas<'s>(map: &'s Map<String, Value>, draft: u16, mut visit: impl FnMut(&'s Value)) {
    for (keyword, argument) in map {
        match (KeywordForm::of(keyword, draft), argument) {
            (Some(KeywordForm::Schemas | KeywordForm::SchemaOrList), Value::Array(all)) => {
                all.iter().for_each(&mut visit)
            }
            (Some(KeywordForm::Schema | KeywordForm::SchemaOrList), schema) => visit(schema),
            (Some(KeywordForm::Named), Value::Object(all)) => all.values().for_each(&mut visit),
            (Some(KeywordForm::Dependencies), Value::Object(all)) => {
                all.values().filter(|schema| !schema.is_array()).for_each(&mut visit);
            }
            _ => {}
        }
    }
}

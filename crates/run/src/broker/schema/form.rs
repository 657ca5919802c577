//! Validates a schema: each keyword must have the form of its draft's meta-schema.

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::Value;
use stubgen::{KeywordForm, subschemas};

use super::Halt;
use super::number::Decimal;
use super::refs::is_resource;
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

/// Number of a draft.
pub(super) fn number(draft: Draft) -> u16 {
    match draft {
        Draft::Draft4 => 4,
        Draft::Draft6 => 6,
        Draft::Draft7 => 7,
        Draft::Draft201909 => 2019,
        _ => 2020,
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
            let form = KeywordForm::of(keyword, number(self.draft));
            if !form.map_or(Ok(true), |form| self.is_formed(form, argument))? {
                let keyword = base::text::head(keyword, 40);
                return Err(Halt::Unreadable(format!("`{keyword}` has not the form that JSON Schema asks for")));
            }
        }
        let mut parts = Ok(());
        subschemas(map, number(self.draft), |part| {
            if parts.is_ok() {
                parts = self.schema(part, false);
            }
        });
        parts
    }

    fn is_formed(&self, form: KeywordForm, argument: &Value) -> Result<bool, Halt> {
        Ok(match form {
            KeywordForm::Schema => is_schema(argument),
            KeywordForm::SchemaOrList => is_schema(argument) || argument.is_array(),
            KeywordForm::Schemas => argument.as_array().is_some_and(|list| !list.is_empty()),
            KeywordForm::Named => argument.is_object(),
            KeywordForm::Dependencies | KeywordForm::Needed => {
                let Some(named) = argument.as_object() else { return Ok(false) };
                for needed in named.values().filter(|needed| form == KeywordForm::Needed || needed.is_array()) {
                    if !self.is_names(needed)? {
                        return Ok(false);
                    }
                }
                true
            }
            KeywordForm::Names => self.is_names(argument)?,
            KeywordForm::Types => match argument {
                Value::Array(types) => {
                    types.iter().all(is_type) && !types.is_empty() && self.are_distinct_strings(types)?
                }
                one => is_type(one),
            },
            KeywordForm::List => argument.is_array(),
            KeywordForm::Text => argument.is_string(),
            KeywordForm::Flag => argument.is_boolean(),
            KeywordForm::Number => argument.is_number(),
            KeywordForm::Positive => argument.as_number().is_some_and(|number| Decimal::new(number).is_positive()),
            KeywordForm::Count => count(argument).is_some(),
        })
    }

    fn is_names(&self, names: &Value) -> Result<bool, Halt> {
        let least = usize::from(self.draft == Draft::Draft4);
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

/// A count, which may be written as `3.0` or exceed 64 bits.
pub(super) fn count(argument: &Value) -> Option<u64> {
    let Value::Number(number) = argument else { return None };
    if let Some(count) = number.as_u64() {
        return Some(count);
    }
    let decimal = Decimal::new(number);
    (decimal.is_whole() && !decimal.is_negative).then(|| match number.as_f64() {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; it saturates")]
        Some(count) => count as u64,
        None => u64::MAX,
    })
}

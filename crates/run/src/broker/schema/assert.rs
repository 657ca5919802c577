//! Assertions: keywords about the value itself.

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::{Map, Value};
use stubgen::At;

use super::form::count;
use super::number::Decimal;
use super::problems::Problem;
use super::{Check, Halt, shown};
use base::error::nearest;

/// Most options of an enum compared with a wrong value, and most bytes of one.
const MAX_MEANT: usize = 200;
const MAX_OPTION: usize = 100;
/// Most bytes of options in a problem.
const MAX_LISTED: usize = 250;

impl<'c> Check<'c> {
    /// Checks `keyword`; unknown keywords accept the value.
    pub(super) fn assertion(
        &mut self,
        keyword: &str,
        argument: &'c Value,
        map: &'c Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        match (keyword, value) {
            ("type", _) => self.has_type(argument, value, at),
            ("enum", _) => self.is_option(argument, value, at),
            ("const", _) if self.draft >= Draft::Draft6 => {
                if self.are_equal(argument, value)? {
                    return Ok(true);
                }
                self.wrong(at, || format!("{} was expected", shown(argument)))
            }
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf", Value::Number(number)) => {
                self.spend(number.as_str().len() / 8)?;
                self.is_within(keyword, argument, map, value, at)
            }
            ("minLength" | "maxLength", Value::String(text)) => {
                self.spend(text.len() / 16)?;
                self.is_sized(keyword, argument, text.chars().count(), value, at)
            }
            ("minItems" | "maxItems", Value::Array(items)) => self.is_sized(keyword, argument, items.len(), value, at),
            ("minProperties" | "maxProperties", Value::Object(object)) => {
                self.is_sized(keyword, argument, object.len(), value, at)
            }
            ("required", Value::Object(object)) => self.has_all(argument, object, at),
            ("dependentRequired", Value::Object(object)) if self.draft >= Draft::Draft201909 => {
                self.every(argument.as_object().into_iter().flatten(), |check, (name, needed)| {
                    check.spend(1)?;
                    Ok(!object.contains_key(name) || check.has_all(needed, object, at)?)
                })
            }
            ("uniqueItems", Value::Array(items)) if *argument == Value::Bool(true) => {
                if self.are_unique(items)? {
                    return Ok(true);
                }
                self.wrong(at, || format!("{} has non-unique elements", shown(value)))
            }
            ("pattern", Value::String(_)) => self.matches_pattern(argument, value, at),
            ("format", Value::String(_)) if self.draft <= Draft::Draft7 => {
                self.is_kind(keyword, argument, "", value, at)
            }
            ("contentEncoding" | "contentMediaType", Value::String(_))
                if matches!(self.draft, Draft::Draft6 | Draft::Draft7) =>
            {
                let what = if keyword == "contentEncoding" { " content encoding" } else { " media type" };
                self.is_kind(keyword, argument, what, value, at)
            }
            _ => Ok(true),
        }
    }

    fn has_type(&mut self, argument: &Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let draft = self.draft;
        let is = |name: &Value| match name.as_str().unwrap_or_default() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            "integer" => match value {
                Value::Number(number) if draft == Draft::Draft4 => !number.as_str().contains(['.', 'e', 'E']),
                Value::Number(number) => Decimal::new(number).is_whole(),
                _ => false,
            },
            _ => false,
        };
        if let Value::Number(number) = value {
            self.spend(number.as_str().len() / 8)?;
        }
        let types = match argument {
            Value::Array(types) => types.as_slice(),
            one => std::slice::from_ref(one),
        };
        if types.iter().any(is) {
            return Ok(true);
        }
        let names = || types.iter().take(8).filter_map(Value::as_str).collect::<Vec<_>>().join(" or ");
        // `JSON.stringify({…})`
        let is_written = |kind: &Value| match kind.as_str() {
            Some("object") => value.as_str().is_some_and(|text| text.trim_start().starts_with('{')),
            Some("array") => value.as_str().is_some_and(|text| text.trim_start().starts_with('[')),
            _ => false,
        };
        let instead = if types.iter().any(is_written) { ": pass the value itself, not its JSON" } else { "" };
        self.wrong(at, || format!("{} is not of type {}{instead}", shown(value), names()))
    }

    fn is_option(&mut self, argument: &Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let Some(options) = argument.as_array() else { return Ok(true) };
        for option in options {
            if self.are_equal(option, value)? {
                return Ok(true);
            }
        }
        self.fail(at, |place| {
            let known =
                options.iter().take(MAX_MEANT).filter_map(Value::as_str).filter(|text| text.len() <= MAX_OPTION);
            let meant = match value.as_str() {
                Some(text) if text.len() <= MAX_OPTION => nearest(text, known),
                _ => Vec::new(),
            };
            let text = format!("{} is not one of {}", shown(value), options_shown(options));
            Problem { meant, ..Problem::at(place, &text) }
        })
    }

    fn is_within(
        &mut self,
        keyword: &str,
        argument: &Value,
        map: &Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let (Value::Number(bound), Value::Number(number)) = (argument, value) else { return Ok(true) };
        self.spend(bound.as_str().len() / 8)?;
        let (bound, number) = (Decimal::new(bound), Decimal::new(number));
        let order = number.compare(&bound);
        // In draft 4 the exclusive keywords are booleans beside the bounds.
        let is_strict = |strict: &str| self.draft == Draft::Draft4 && map.get(strict) == Some(&Value::Bool(true));
        let (fits, but_is) = match keyword {
            "minimum" if is_strict("exclusiveMinimum") => (order.is_gt(), "less than or equal to the minimum of"),
            "maximum" if is_strict("exclusiveMaximum") => (order.is_lt(), "greater than or equal to the maximum of"),
            "minimum" => (order.is_ge(), "less than the minimum of"),
            "maximum" => (order.is_le(), "greater than the maximum of"),
            "exclusiveMinimum" => (order.is_gt(), "less than or equal to the minimum of"),
            "exclusiveMaximum" => (order.is_lt(), "greater than or equal to the maximum of"),
            _ => (number.is_multiple_of(&bound), "not a multiple of"),
        };
        if fits {
            return Ok(true);
        }
        self.wrong(at, || format!("{} is {but_is} {}", shown(value), shown(argument)))
    }

    fn is_sized(
        &mut self,
        keyword: &str,
        argument: &Value,
        size: usize,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let Some(limit) = count(argument) else { return Ok(true) };
        let is_least = keyword.starts_with("min");
        if if is_least { size as u64 >= limit } else { size as u64 <= limit } {
            return Ok(true);
        }
        let (is_than, thing) = match (is_least, value) {
            (true, Value::String(_)) => ("is shorter than", ("character", "characters")),
            (false, Value::String(_)) => ("is longer than", ("character", "characters")),
            (true, Value::Array(_)) => ("has less than", ("item", "items")),
            (false, Value::Array(_)) => ("has more than", ("item", "items")),
            (true, _) => ("has less than", ("property", "properties")),
            (false, _) => ("has more than", ("property", "properties")),
        };
        let thing = if limit == 1 { thing.0 } else { thing.1 };
        self.wrong(at, || format!("{} {is_than} {limit} {thing}", shown(value)))
    }

    pub(super) fn has_all(&mut self, needed: &Value, object: &Map<String, Value>, at: &At<'_>) -> Result<bool, Halt> {
        self.every(needed.as_array().into_iter().flatten().filter_map(Value::as_str), |check, name| {
            check.spend(1)?;
            if object.contains_key(name) {
                return Ok(true);
            }
            check.fail(at, |place| {
                let inside = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
                Problem::new(format!("argument `{}` is missing{inside}", base::text::head(name, MAX_OPTION)))
            })
        })
    }

    pub(super) fn matches_pattern(&mut self, pattern: &Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let Some(pattern) = pattern.as_str() else { return Ok(true) };
        match self.patterns.matches(pattern, value, self.meter)? {
            Some(true) => Ok(true),
            Some(false) => self.wrong(at, || format!("{} does not match \"{pattern}\"", shown(value))),
            None => self.wrong(at, || format!("{} takes too many steps to match with \"{pattern}\"", shown(value))),
        }
    }

    fn is_kind(&mut self, keyword: &str, kind: &Value, what: &str, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let Some(kind) = kind.as_str() else { return Ok(true) };
        if self.patterns.is_kind(self.draft, keyword, kind, value, self.meter)? {
            return Ok(true);
        }
        let is_not = if what.is_empty() { "is not a" } else { "is not compliant with" };
        self.wrong(at, || format!("{} {is_not} \"{kind}\"{what}", shown(value)))
    }

    /// JSON Schema equality: `1` equals `1.0`.
    fn are_equal(&self, a: &Value, b: &Value) -> Result<bool, Halt> {
        self.spend(1)?;
        Ok(match (a, b) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a == b,
                _ => {
                    self.spend(4 + (a.as_str().len() + b.as_str().len()) / 8)?;
                    Decimal::new(a).compare(&Decimal::new(b)).is_eq()
                }
            },
            (Value::String(a), Value::String(b)) => {
                self.spend(if a.len() == b.len() { a.len() / 64 } else { 0 })?;
                a == b
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                return all(a.iter().zip(b).map(|(a, b)| self.are_equal(a, b)));
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
                return all(a.iter().map(|(name, a)| b.get(name).map_or(Ok(false), |b| self.are_equal(a, b))));
            }
            (a, b) => a == b,
        })
    }

    /// Pays for the canonical text of a value, a part at a time.
    fn charge(&self, value: &Value) -> Result<(), Halt> {
        self.spend(2)?;
        match value {
            Value::Number(number) => self.spend(number.as_str().len() / 8),
            Value::String(text) => self.spend(text.len() / 16),
            Value::Array(items) => items.iter().try_for_each(|item| self.charge(item)),
            Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
                self.spend(4 + name.len() / 16)?;
                self.charge(value)
            }),
            _ => Ok(()),
        }
    }

    /// Compares canonical texts of the items, so that no two items are compared directly.
    fn are_unique(&self, items: &[Value]) -> Result<bool, Halt> {
        let mut seen = HashSet::with_capacity(items.len().min(1024));
        for item in items {
            self.charge(item)?;
            if !seen.insert(stubgen::identity_json(item)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// True if all are; no later one is worked out.
fn all(mut parts: impl Iterator<Item = Result<bool, Halt>>) -> Result<bool, Halt> {
    parts.find(|part| *part != Ok(true)).unwrap_or(Ok(true))
}

/// Formats `["open","closed"]`, or its beginning.
fn options_shown(options: &[Value]) -> String {
    let mut text = String::from("[");
    for (at, option) in options.iter().enumerate() {
        if text.len() > MAX_LISTED {
            text.push_str(&format!(", and {} more", options.len() - at));
            break;
        }
        text.push_str(if at > 0 { "," } else { "" });
        text.push_str(&shown(option));
    }
    text.push(']');
    text
}

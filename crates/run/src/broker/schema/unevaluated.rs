//! `unevaluatedProperties` and `unevaluatedItems`: properties and items that no other keyword evaluated.

use std::borrow::Cow;

use jsonschema::Draft;
use serde_json::{Map, Value};
use stubgen::At;

use super::apply::{MAX_NAMES, not_allowed};
use super::{Check, Halt};

impl<'c> Check<'c> {
    /// Applies all keywords: the unevaluated ones last, to what the others left.
    pub(super) fn keywords(&mut self, map: &'c Map<String, Value>, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let (rest, length) = match value {
            Value::Object(object) => (map.get("unevaluatedProperties"), object.len()),
            Value::Array(items) => (map.get("unevaluatedItems"), items.len()),
            _ => (None, 0),
        };
        let Some(rest) = rest.filter(|_| self.draft >= Draft::Draft201909) else {
            return self.other_keywords(map, value, at);
        };
        self.spend(length / 2)?;
        let outer = self.seen.replace(vec![false; length]);
        let fits = self.other_keywords(map, value, at)?;
        let own = std::mem::replace(&mut self.seen, outer).unwrap_or_default();
        (0..length).for_each(|position| self.see(position));
        Ok(fits & (self.is_quiet && !fits || self.unevaluated(rest, value, &own, at)?))
    }

    /// True if the schema `rest` accepts all properties or items that are not in `seen`.
    fn unevaluated(&mut self, rest: &'c Value, value: &Value, seen: &[bool], at: &At<'_>) -> Result<bool, Halt> {
        let properties = value.as_object().into_iter().flatten().map(|(name, item)| (Cow::from(name), item));
        let items = value.as_array().into_iter().flatten().enumerate();
        let items = items.map(|(position, item)| (Cow::from(position.to_string()), item));
        let mut unexpected: Vec<Cow<'_, str>> = Vec::new();
        let mut more = 0_usize;
        for ((name, item), is_seen) in properties.chain(items).zip(seen) {
            self.spend(1)?;
            if !is_seen && !self.quietly(|check| check.inside(rest, item, at))? {
                if unexpected.len() < MAX_NAMES { unexpected.push(name) } else { more += 1 }
            }
        }
        if unexpected.is_empty() {
            return Ok(true);
        }
        let what = if value.is_object() { "Unevaluated properties" } else { "Unevaluated items" };
        let names: Vec<&str> = unexpected.iter().map(|name| &**name).collect();
        self.wrong(at, || not_allowed(what, &names, more))
    }

    /// Notes the property or item at a position as evaluated.
    pub(super) fn see(&mut self, position: usize) {
        if let Some(seen) = self.seen.as_mut().and_then(|seen| seen.get_mut(position)) {
            *seen = true;
        }
    }

    /// Applies a schema to the same value. Its evaluations count if it accepts the value.
    pub(super) fn branch(&mut self, part: &'c Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        self.spend(self.seen.as_ref().map_or(0, Vec::len) / 2)?;
        let before = self.seen.clone();
        let fits = self.apply(part, value, at)?;
        if !fits {
            self.seen = before;
        }
        Ok(fits)
    }

    /// Applies a schema to a property or item, or to a value whose evaluations do not count.
    pub(super) fn inside(&mut self, part: &'c Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let outer = self.seen.take();
        let fits = self.apply(part, value, at);
        self.seen = outer;
        fits
    }
}

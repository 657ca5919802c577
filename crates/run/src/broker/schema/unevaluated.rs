//! `unevaluatedProperties` and `unevaluatedItems`: names and items that no other keyword evaluated.

use std::collections::HashSet;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::apply::not_allowed;
use super::problems::At;
use super::{Check, Halt, MAX_LEVELS, address};

/// Evaluated names of properties, or positions of items.
#[derive(Default)]
struct Seen {
    names: HashSet<String>,
    positions: HashSet<usize>,
    /// The first items.
    below: usize,
    all: bool,
}

impl Seen {
    fn has_item(&self, position: usize) -> bool {
        self.all || position < self.below || self.positions.contains(&position)
    }
}

impl<'c> Check<'c> {
    pub(super) fn unevaluated(
        &mut self,
        map: &'c Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let keyword = match value {
            Value::Object(_) => "unevaluatedProperties",
            Value::Array(_) => "unevaluatedItems",
            _ => return Ok(true),
        };
        let Some(part) = map.get(keyword) else { return Ok(true) };
        let mut seen = Seen::default();
        self.quietly(|check| check.see(map, value, &mut seen, false))?;
        if seen.all {
            return Ok(true);
        }
        let mut unexpected: Vec<String> = Vec::new();
        let mut more = 0_usize;
        let mut note = |name: String| if unexpected.len() < 8 { unexpected.push(name) } else { more += 1 };
        match value {
            Value::Object(object) => {
                for (name, item) in object {
                    self.spend(1)?;
                    if !seen.names.contains(name) && !self.quietly(|check| check.apply(part, item, &at.name(name)))? {
                        note(name.clone());
                    }
                }
            }
            Value::Array(items) => {
                for (position, item) in items.iter().enumerate() {
                    self.spend(1)?;
                    if !seen.has_item(position) && !self.quietly(|check| check.apply(part, item, at))? {
                        note(position.to_string());
                    }
                }
            }
            _ => {}
        }
        if unexpected.is_empty() {
            return Ok(true);
        }
        let what = if value.is_object() { "Unevaluated properties" } else { "Unevaluated items" };
        let names: Vec<&str> = unexpected.iter().map(String::as_str).collect();
        self.wrong(at, || not_allowed(what, &names, more))
    }

    /// Adds what the keywords of an accepting schema have evaluated.
    fn see(&mut self, map: &'c Map<String, Value>, value: &Value, seen: &mut Seen, with_own: bool) -> Result<(), Halt> {
        self.spend(4 + 2 * map.len())?;
        if self.levels == MAX_LEVELS {
            return Err(Halt::TooDeep);
        }
        self.levels += 1;
        match value {
            Value::Object(object) => self.see_properties(map, object, seen, with_own)?,
            Value::Array(items) => self.see_items(map, items, seen, with_own)?,
            _ => {}
        }
        for (keyword, argument) in map {
            if seen.all {
                break;
            }
            match keyword.as_str() {
                "allOf" | "anyOf" | "oneOf" => {
                    for part in argument.as_array().into_iter().flatten() {
                        self.see_part(part, value, seen)?;
                    }
                }
                "if" => {
                    let holds = self.apply(argument, value, &At::ROOT)?;
                    if holds {
                        self.see_part(argument, value, seen)?;
                    }
                    if let Some(branch) = map.get(if holds { "then" } else { "else" }) {
                        self.see_part(branch, value, seen)?;
                    }
                }
                "dependentSchemas" | "dependencies" => {
                    for (name, part) in argument.as_object().into_iter().flatten() {
                        if value.get(name).is_some() && !part.is_array() {
                            self.see_part(part, value, seen)?;
                        }
                    }
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    if let Some((target, base)) = self.referred(keyword, argument)? {
                        let key = (address(target), address(value));
                        self.spend(1 + self.following.len() / 16)?;
                        if !self.following.contains(&key) {
                            self.following.push(key);
                            self.entering(base, |check| check.see_part(target, value, seen))?;
                            self.following.pop();
                        }
                    }
                }
                _ => {}
            }
        }
        self.levels -= 1;
        Ok(())
    }

    fn see_part(&mut self, part: &'c Value, value: &Value, seen: &mut Seen) -> Result<(), Halt> {
        match part.as_object() {
            Some(map) if self.apply(part, value, &At::ROOT)? => self.see(map, value, seen, true),
            _ => Ok(()),
        }
    }

    fn see_properties(
        &mut self,
        map: &'c Map<String, Value>,
        object: &Map<String, Value>,
        seen: &mut Seen,
        with_own: bool,
    ) -> Result<(), Halt> {
        if map.contains_key("additionalProperties") || with_own && map.contains_key("unevaluatedProperties") {
            seen.all = true;
            return Ok(());
        }
        for name in object.keys() {
            self.spend(1 + name.len() / 16)?;
            if !seen.names.contains(name) && self.is_known(map, name)? {
                seen.names.insert(name.clone());
            }
        }
        Ok(())
    }

    fn see_items(
        &mut self,
        map: &'c Map<String, Value>,
        items: &[Value],
        seen: &mut Seen,
        with_own: bool,
    ) -> Result<(), Halt> {
        let is_new = self.draft >= Draft::Draft202012;
        let listed = |keyword: &str| map.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        seen.below = seen.below.max(listed(if is_new { "prefixItems" } else { "items" }));
        let rest = map.get("items").is_some_and(|rest| !rest.is_array());
        let is_listed = map.get("items").is_some_and(Value::is_array);
        let additional = !is_new && is_listed && map.contains_key("additionalItems");
        if rest || additional || with_own && map.contains_key("unevaluatedItems") {
            seen.all = true;
            return Ok(());
        }
        if is_new && let Some(part) = map.get("contains") {
            for (position, item) in items.iter().enumerate() {
                if !seen.has_item(position) && self.apply(part, item, &At::ROOT)? {
                    seen.positions.insert(position);
                }
            }
        }
        Ok(())
    }
}

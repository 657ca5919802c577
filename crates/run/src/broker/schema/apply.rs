//! Applicators: keywords that apply schemas to the value or to parts of it.

use jsonschema::Draft;
use serde_json::{Map, Value};
use stubgen::At;

use super::form::count;
use super::problems::Problem;
use super::refs::is_resource;
use super::{Check, Halt, Known, MAX_KNOWN, MAX_LEVELS, address, shown};
use base::text::head;

/// Most names in one problem.
pub(super) const MAX_NAMES: usize = 8;
/// Most bytes of such a name.
const MAX_NAME: usize = 80;

impl<'c> Check<'c> {
    /// True if `schema` accepts the value.
    pub(super) fn apply(&mut self, schema: &'c Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let map = match schema {
            Value::Bool(true) => return self.spend(1).map(|()| true),
            Value::Bool(false) => {
                self.spend(1)?;
                return self.wrong(at, || format!("False schema does not allow {}", shown(value)));
            }
            Value::Object(map) => map,
            _ => return Err(Halt::Unreadable("a schema is neither an object nor a boolean".to_owned())),
        };
        self.spend(4 + 2 * map.len())?;
        // OpenAPI's word, which servers use in JSON Schema too.
        if value.is_null() && map.get("nullable") == Some(&Value::Bool(true)) {
            return Ok(true);
        }
        if self.levels == MAX_LEVELS {
            return Err(Halt::TooDeep);
        }
        self.levels += 1;
        let fits = if self.has_ids && is_resource(map, self.draft) {
            self.entering(schema, |check| check.keywords(map, value, at))
        } else {
            self.keywords(map, value, at)
        };
        self.levels -= 1;
        fits
    }

    /// First keywords about the value itself, then those about its parts.
    pub(super) fn other_keywords(
        &mut self,
        map: &'c Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        if self.draft <= Draft::Draft7
            && let Some(reference @ Value::String(_)) = map.get("$ref")
        {
            return self.refer("$ref", reference, value, at);
        }
        let fits = self.every(map, |check, (keyword, argument)| check.assertion(keyword, argument, map, value, at))?;
        if !fits && self.is_quiet {
            return Ok(false);
        }
        Ok(fits & self.every(map, |check, (keyword, argument)| check.applicator(keyword, argument, map, value, at))?)
    }

    fn applicator(
        &mut self,
        keyword: &str,
        argument: &'c Value,
        map: &'c Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        match (keyword, value) {
            ("properties" | "patternProperties" | "additionalProperties" | "propertyNames", Value::Object(object)) => {
                self.properties(keyword, argument, map, object, at)
            }
            ("dependencies" | "dependentSchemas", Value::Object(object)) => {
                self.dependencies(keyword, argument, object, value, at)
            }
            ("items" | "prefixItems" | "additionalItems", Value::Array(items)) => {
                self.items(keyword, argument, map, items, at)
            }
            ("contains", Value::Array(items)) if self.draft >= Draft::Draft6 => {
                self.contains(argument, map, items, value, at)
            }
            ("allOf", _) => {
                self.every(argument.as_array().into_iter().flatten(), |check, part| check.branch(part, value, at))
            }
            ("anyOf" | "oneOf", _) => self.one_of(keyword, argument, value, at),
            ("not", _) => {
                if !self.quietly(|check| check.inside(argument, value, at))? {
                    return Ok(true);
                }
                self.wrong(at, || format!("{} is not allowed for {}", shown(argument), shown(value)))
            }
            ("if", _)
                if self.draft >= Draft::Draft7
                    && (map.contains_key("then") || map.contains_key("else") || self.seen.is_some()) =>
            {
                let holds = self.quietly(|check| check.branch(argument, value, at))?;
                match map.get(if holds { "then" } else { "else" }) {
                    Some(branch) => self.branch(branch, value, at),
                    None => Ok(true),
                }
            }
            ("$ref" | "$dynamicRef" | "$recursiveRef", _) => self.refer(keyword, argument, value, at),
            _ => Ok(true),
        }
    }

    fn properties(
        &mut self,
        keyword: &str,
        argument: &'c Value,
        map: &'c Map<String, Value>,
        object: &Map<String, Value>,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let mut unexpected: Vec<&str> = Vec::new();
        let mut more = 0_usize;
        let fits = self.every(object.iter().enumerate(), |check, (position, (name, item))| {
            check.spend(1)?;
            if keyword == "additionalProperties" {
                check.see(position);
            }
            match keyword {
                "properties" => argument.get(name).map_or(Ok(true), |part| {
                    check.see(position);
                    check.inside(part, item, &at.key(name))
                }),
                "patternProperties" => {
                    check.every(argument.as_object().into_iter().flatten(), |check, (pattern, part)| {
                        if !check.is_named(name, pattern)? {
                            return Ok(true);
                        }
                        check.see(position);
                        check.inside(part, item, &at.key(name))
                    })
                }
                "propertyNames" if check.draft >= Draft::Draft6 => {
                    check.spend(name.len() / 16)?;
                    let text = Value::String(name.clone());
                    // The text is freed afterwards, and its address used again.
                    let outer = std::mem::replace(&mut check.is_passing, true);
                    let fits = check.inside(argument, &text, at)?;
                    check.is_passing = outer;
                    Ok(fits)
                }
                "additionalProperties" if check.is_known(map, name)? => Ok(true),
                "additionalProperties" if *argument == Value::Bool(false) => {
                    if unexpected.len() < MAX_NAMES {
                        unexpected.push(name)
                    } else {
                        more += 1
                    }
                    Ok(false)
                }
                "additionalProperties" => check.inside(argument, item, &at.key(name)),
                _ => Ok(true),
            }
        })?;
        if let Some(first) = unexpected.first() {
            return self.fail(at, |place| match place.is_empty() {
                true => Problem::unknown(first),
                false => Problem::at(place, &not_allowed("Additional properties", &unexpected, more)),
            });
        }
        Ok(fits)
    }

    /// True if `properties` or `patternProperties` cover the name.
    fn is_known(&mut self, map: &Map<String, Value>, name: &str) -> Result<bool, Halt> {
        if map.get("properties").is_some_and(|properties| properties.get(name).is_some()) {
            return Ok(true);
        }
        for pattern in map.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if self.is_named(name, pattern)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_named(&mut self, name: &str, pattern: &str) -> Result<bool, Halt> {
        self.spend(1 + name.len() / 16)?;
        let name = Value::String(name.to_owned());
        Ok(self.patterns.matches(pattern, &name, self.meter)? == Some(true))
    }

    fn dependencies(
        &mut self,
        keyword: &str,
        argument: &'c Value,
        object: &Map<String, Value>,
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        if keyword == "dependentSchemas" && self.draft < Draft::Draft201909 {
            return Ok(true);
        }
        self.every(argument.as_object().into_iter().flatten(), |check, (name, part)| {
            check.spend(1)?;
            match part {
                _ if !object.contains_key(name) => Ok(true),
                Value::Array(_) => check.has_all(part, object, at),
                part => check.branch(part, value, at),
            }
        })
    }

    fn items(
        &mut self,
        keyword: &str,
        argument: &'c Value,
        map: &'c Map<String, Value>,
        items: &[Value],
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let is_new = self.draft >= Draft::Draft202012;
        let listed = |keyword: &str| map.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        let (parts, rest, from) = match (keyword, argument) {
            ("prefixItems", Value::Array(parts)) if is_new => (parts.as_slice(), None, 0),
            ("items", Value::Array(parts)) if !is_new => (parts.as_slice(), None, 0),
            ("items", rest) if !rest.is_array() => {
                (Default::default(), Some(rest), if is_new { listed("prefixItems") } else { 0 })
            }
            ("additionalItems", rest) if !is_new && map.get("items").is_some_and(Value::is_array) => {
                (Default::default(), Some(rest), listed("items"))
            }
            _ => return Ok(true),
        };
        let items = items.iter().enumerate().skip(from);
        let items = items.map_while(|(position, item)| Some((position, item, parts.get(position).or(rest)?)));
        self.every(items, |check, (position, item, part)| {
            check.see(position);
            check.inside(part, item, &at.index(position))
        })
    }

    fn contains(
        &mut self,
        part: &'c Value,
        map: &'c Map<String, Value>,
        items: &[Value],
        value: &Value,
        at: &At<'_>,
    ) -> Result<bool, Halt> {
        let limit = |keyword| if self.draft >= Draft::Draft201909 { map.get(keyword).and_then(count) } else { None };
        let (least, most) = (limit("minContains").unwrap_or(1), limit("maxContains"));
        let are_seen = self.draft >= Draft::Draft202012 && self.seen.is_some();
        let mut found = 0;
        for (position, item) in items.iter().enumerate() {
            if self.quietly(|check| check.inside(part, item, at))? {
                found += 1;
                if are_seen {
                    self.see(position);
                } else if most.map_or(found >= least, |most| found > most) {
                    break;
                }
            }
        }
        if found >= least && most.is_none_or(|most| found <= most) {
            return Ok(true);
        }
        self.wrong(at, || match (least, most) {
            (1, None) => format!("None of {} are valid under the given schema", shown(value)),
            (_, Some(most)) if found > most => {
                format!("more than {most} items of {} are valid under the given schema", shown(value))
            }
            _ => format!("fewer than {least} items of {} are valid under the given schema", shown(value)),
        })
    }

    fn one_of(&mut self, keyword: &str, argument: &'c Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let Some(parts) = argument.as_array() else { return Ok(true) };
        let mut fitting = 0;
        for part in parts {
            fitting += usize::from(self.quietly(|check| check.branch(part, value, at))?);
            if self.seen.is_none() && (fitting == 1 && keyword == "anyOf" || fitting > 1) {
                break;
            }
        }
        match fitting {
            1 => Ok(true),
            2.. if keyword == "anyOf" => Ok(true),
            0 => self.wrong(at, || {
                format!("{} is not valid under any of the schemas listed in the '{keyword}' keyword", shown(value))
            }),
            _ => self.wrong(at, || {
                let text = "is valid under more than one of the schemas listed in the 'oneOf' keyword";
                format!("{} {text}", shown(value))
            }),
        }
    }

    fn refer(&mut self, keyword: &str, reference: &'c Value, value: &Value, at: &At<'_>) -> Result<bool, Halt> {
        let (target, base) = match keyword {
            _ if !reference.is_string() => return Ok(true),
            "$ref" => self.target(reference)?,
            "$dynamicRef" if self.draft == Draft::Draft202012 => self.dynamic_target(reference)?,
            "$recursiveRef" if self.draft == Draft::Draft201909 => self.recursive_target(reference)?,
            _ => return Ok(true),
        };
        self.following(target, value, |check| check.entering(base, |check| check.branch(target, value, at)))
    }

    /// Applies the target of a reference once per value. A check under way is assumed to pass, and known results are
    /// reused.
    fn following(
        &mut self,
        target: &'c Value,
        value: &Value,
        apply: impl FnOnce(&mut Self) -> Result<bool, Halt>,
    ) -> Result<bool, Halt> {
        let key = (address(target), address(value));
        self.spend(2 + self.following.len() / 16)?;
        if let Some(place) = self.following.iter().position(|known| *known == key) {
            self.assumed = self.assumed.min(place);
            return Ok(true);
        }
        // With several resources, the meaning of a target depends on the path to it.
        let is_kept = !self.is_passing && !self.has_ids;
        match self.known.get(&key).filter(|_| is_kept) {
            Some(Known::Fits) if self.seen.is_none() => return Ok(true),
            Some(Known::Told) => return Ok(false),
            Some(Known::Fails) if self.is_quiet => return Ok(false),
            _ => {}
        }
        let place = self.following.len();
        self.following.push(key);
        let outer = std::mem::replace(&mut self.assumed, usize::MAX);
        let fits = apply(self)?;
        self.following.pop();
        let is_certain = self.assumed >= place;
        self.assumed = if is_certain { outer } else { outer.min(self.assumed) };
        if is_certain && is_kept && self.known.len() < MAX_KNOWN {
            let known = if fits {
                Known::Fits
            } else if self.is_quiet {
                Known::Fails
            } else {
                Known::Told
            };
            self.known.insert(key, known);
        }
        Ok(fits)
    }
}

/// Formats `Additional properties are not allowed ('a', 'b' were unexpected)`.
pub(super) fn not_allowed(what: &str, names: &[&str], more: usize) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{}'", head(name, MAX_NAME))).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let were = if names.len() == 1 { "was" } else { "were" };
    format!("{what} are not allowed ({}{more} {were} unexpected)", quoted.join(", "))
}

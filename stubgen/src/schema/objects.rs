//! Objects and arrays: classes, maps, lists and tuples.

use serde_json::{Map, Value};

use super::choices::LETTERS;
use super::facets::{Facet, Facets, TOO_MANY_STEPS};
use super::names::{ARGS, Path, Step};
use super::translate::{Seen, TOO_LARGE, Translator};
use super::{Body, Field, Lit, MAX_TEXT, Ty, get};
use crate::canon::sorted;

/// Most classes that a new one is compared with; a hostile schema has thousands, all different.
const MAX_COMPARED: usize = 100;

impl<'a> Translator<'a> {
    pub(super) fn array(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Ty {
        let path = path.then(Step::Item);
        let first = |keyword: &str| facets.iter().find_map(|facet| get(facet.map, keyword));
        let prefix = first("prefixItems").or_else(|| first("items").filter(|items| items.is_array()));
        if let Some(Value::Array(prefix)) = prefix.filter(|prefix| prefix.as_array().is_some_and(|p| !p.is_empty())) {
            let mut items = Vec::with_capacity(prefix.len().min(64));
            for item in prefix {
                if self.budget.is_spent() {
                    return Ty::Tuple(items, Some(Box::new(Ty::Any)));
                }
                items.push(self.ty(&[item], &path));
            }
            let rest = first("additionalItems").or_else(|| first("items")).filter(|rest| rest.is_object());
            let rest = rest.map(|rest| Box::new(self.ty(&[rest], &path)));
            return Ty::Tuple(items, rest);
        }
        let items: Vec<&'a Value> =
            facets.iter().filter_map(|facet| get(facet.map, "items")).filter(|items| !items.is_array()).collect();
        let item = if items.is_empty() { Ty::Any } else { self.ty(&items, &path) };
        Ty::List(Box::new(item))
    }

    pub(super) fn object(&mut self, facets: &Facets<'a>, path: &Path<'_>, key: Option<&Vec<usize>>) -> Ty {
        if !facets.all.iter().any(|facet| has_fields(facet.map)) {
            return self.dict(&facets.all, path);
        }
        let alone = (facets.all.len() == 1 && !facets.by_ref).then(|| facets.all[0].map);
        if let Some(map) = alone
            && self.budget.steps(self.classes.len() * (1 + map.len()))
            && let Some((_, id)) = self.classes.iter().find(|(known, _)| same_object(known, map))
        {
            return Ty::Named(*id);
        }
        let open = key.and_then(|key| match self.seen.get(key) {
            Some(Seen::Open(Some(id))) => Some(*id),
            _ => None,
        });
        let id = open.unwrap_or_else(|| {
            let title = facets.first("title").and_then(Value::as_str);
            let tag = matches!(path.step, Step::Member).then(|| tag(&facets.all)).flatten();
            self.open(facets.ref_name.as_deref().or(title).or(tag), path)
        });
        if let Some(key) = key {
            self.seen.insert(key.clone(), Seen::Open(Some(id)));
        }
        if let Some(map) = alone
            && self.classes.len() < MAX_COMPARED
        {
            self.classes.push((map, id));
        }
        let fields = self.fields(std::slice::from_ref(&facets.all), path);
        let skipped = fields.is_empty();
        let extra = if skipped || self.budget.is_spent() || facets.all.iter().any(|facet| speaks_of_extra(facet.map)) {
            self.extra(&facets.all, path)
        } else {
            None
        };
        self.named[id].body = Body::Class { fields, extra };
        Ty::Named(id)
    }

    pub(super) fn dict(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Ty {
        let names: Vec<&'a Value> = facets.iter().filter_map(|facet| get(facet.map, "propertyNames")).collect();
        let key = match self.ty(&names, &path.then(Step::Value)) {
            Ty::Literal(literals) if literals.iter().all(|literal| matches!(literal, Lit::Str(_))) => {
                Ty::Literal(literals)
            }
            _ => Ty::Str,
        };
        let value = self.extra(facets, path).unwrap_or(Ty::Any);
        Ty::Dict(Box::new(key), Box::new(value))
    }

    /// Type of keys beyond the fields; `None` if they are forbidden.
    pub(super) fn extra(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Option<Ty> {
        if self.budget.is_spent() {
            return Some(Ty::Any);
        }
        let path = path.then(Step::Value);
        let first = |keyword: &str| facets.iter().find_map(|facet| get(facet.map, keyword));
        let mut members = Vec::new();
        if let Some(Value::Object(patterns)) = first("patternProperties") {
            members.extend(sorted(patterns).into_iter().map(|(_, schema)| self.ty(&[schema], &path)));
        }
        let rest: Vec<&'a Value> = facets.iter().filter_map(|facet| get(facet.map, "additionalProperties")).collect();
        let closed = rest.iter().any(|rest| **rest == Value::Bool(false));
        let fields = facets.iter().any(|facet| facet.map.contains_key("properties"));
        if !rest.is_empty() && !closed {
            members.push(self.ty(&rest, &path));
        } else if members.is_empty() && (closed || fields) {
            return None;
        }
        Some(Ty::union(members))
    }

    /// Fields of an object; with several variants, those of all, required only if all require them.
    pub(super) fn fields(&mut self, variants: &[Vec<Facet<'a>>], path: &Path<'_>) -> Vec<Field<'a>> {
        let mut found: Vec<(&'a str, usize, Option<&'a Value>)> = Vec::new();
        let mut required: Vec<(&'a str, usize)> = Vec::new();
        for (at, facets) in variants.iter().enumerate() {
            for facet in facets {
                let size = |keyword: &str| match get(facet.map, keyword) {
                    Some(Value::Object(properties)) => properties.len(),
                    Some(Value::Array(names)) => names.len(),
                    _ => 0,
                };
                if !self.budget.steps(8 * (size("properties") + size("required"))) {
                    self.note(TOO_MANY_STEPS);
                    break;
                }
                if let Some(Value::Object(properties)) = get(facet.map, "properties") {
                    found.extend(properties.iter().map(|(name, schema)| (name.as_str(), at, Some(schema))));
                }
                if let Some(Value::Array(names)) = get(facet.map, "required") {
                    required.extend(names.iter().filter_map(Value::as_str).map(|name| (name, at)));
                }
            }
        }
        required.sort_unstable();
        required.dedup();
        let needed = |name: &str| {
            let start = required.partition_point(|(other, _)| *other < name);
            required[start..].iter().take_while(|(other, _)| *other == name).count() == variants.len()
        };
        found.extend(required.iter().filter(|(name, _)| needed(name)).map(|(name, at)| (*name, *at, None)));
        // Stable: schemas for one name in one variant keep the order of their facets.
        found.sort_by_key(|(name, at, _)| (*name, *at));
        let mut fields = Vec::with_capacity(found.len());
        for group in found.chunk_by(|a, b| a.0 == b.0) {
            let name = group[0].0;
            if name.is_empty() && !matches!(path.step, Step::Root(ARGS)) || name.len() > MAX_TEXT {
                self.note("a key that is empty or very long was left out");
                continue;
            }
            if self.budget.is_spent() || !self.budget.nodes(name.len() / LETTERS) {
                self.note(TOO_LARGE);
                break;
            }
            let path = path.then(Step::Property(name));
            let mut members = Vec::with_capacity(1);
            let mut info = Vec::new();
            for variant in group.chunk_by(|a, b| a.1 == b.1) {
                let schemas: Vec<&'a Value> = variant.iter().filter_map(|(_, _, schema)| *schema).collect();
                let facets = self.facets(&schemas);
                if facets.never {
                    continue;
                }
                let keywords: usize = facets.all.iter().map(|facet| facet.map.len()).sum();
                if self.budget.steps(keywords) {
                    info.extend(facets.all.iter().map(|facet| facet.map));
                }
                members.push(self.conjunction(facets, &path));
            }
            if !members.is_empty() {
                let mut field = Field::new(name, Ty::union(members), needed(name), info);
                field.json = field.json_schema().map(|schema| self.ty(&[schema], &path));
                fields.push(field);
            }
        }
        fields.sort_by_key(|field| !field.required);
        fields
    }
}

fn has_fields(map: &Map<String, Value>) -> bool {
    let properties = map.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    properties || map.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(Value::is_string))
}

fn speaks_of_extra(map: &Map<String, Value>) -> bool {
    map.contains_key("additionalProperties") || map.contains_key("patternProperties")
}

/// True if two object schemas differ only in their names.
fn same_object(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    const SAID_ELSEWHERE: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$schema"];
    let relevant = |map: &Map<String, Value>| map.keys().filter(|key| !SAID_ELSEWHERE.contains(&key.as_str())).count();
    let fields = |map: &Map<String, Value>| get(map, "properties").and_then(Value::as_object).map(Map::len);
    std::ptr::eq(a, b)
        || fields(a) == fields(b)
            && relevant(a) == relevant(b)
            && a.iter().all(|(key, value)| SAID_ELSEWHERE.contains(&key.as_str()) || b.get(key) == Some(value))
}

/// The constant that distinguishes this member of a union.
fn tag<'a>(facets: &[Facet<'a>]) -> Option<&'a str> {
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for facet in facets {
        let Some(Value::Object(properties)) = get(facet.map, "properties") else { continue };
        for (name, schema) in properties {
            let only = schema.get("enum").and_then(Value::as_array).filter(|values| values.len() == 1);
            let constant = schema.get("const").or_else(|| only.and_then(|values| values.first()));
            if let Some(constant) = constant.and_then(Value::as_str) {
                tags.push((name, constant));
            }
        }
    }
    tags.into_iter().min().map(|(_, constant)| constant)
}

//! Schemas to types: conjunctions are merged, choices become unions, recursion becomes names.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::facets::{Facet, Facets};
use super::names::{ARGS, Names, Path, Step};
use super::{Body, Field, Lit, Named, Ty};

/// Types one tool may need before the rest is widened: a real tool of 89 kB needs about 2,000.
const MAX_NODES: usize = 10_000;
/// Nesting before the rest is widened: real schemas go to 13.
const MAX_DEPTH: usize = 40;
/// Most combinations of `anyOf` and `oneOf` that are spelled out.
const MAX_VARIANTS: usize = 64;
/// Longest key or enum value that is spelled out: checkers give up on literals of some thousand characters.
const MAX_TEXT: usize = 1000;
/// Notes beyond this say nothing new.
const MAX_NOTES: usize = 8;

/// What a tool takes and gives.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    /// Required first, each group sorted by wire name.
    pub(crate) params: Vec<Field<'a>>,
    /// Type of arguments beyond `params`, where the schema leaves room for them.
    pub(crate) extra: Option<Ty>,
    pub(crate) result: Ty,
    pub(crate) named: Vec<Named<'a>>,
    pub(crate) notes: Vec<String>,
}

/// The state of translating one tool.
pub(crate) struct Translator<'a> {
    root: &'a Value,
    named: Vec<Named<'a>>,
    names: Names,
    /// What was reached through a `$ref`, by the identity of its schemas.
    seen: HashMap<Vec<usize>, Seen>,
    /// Objects that became classes, to find the same object again.
    classes: Vec<(&'a Map<String, Value>, usize)>,
    nodes: usize,
    notes: Vec<String>,
}

enum Seen {
    /// Being translated; the name, once something inside refers back.
    Open(Option<usize>),
    Done(Ty),
}

impl<'a> Translator<'a> {
    /// Translates the schemas of the tool whose identifier is `ident`.
    pub(crate) fn shape(ident: &str, input: Option<&'a Value>, output: Option<&'a Value>) -> Shape<'a> {
        let mut this = Translator {
            root: input.or(output).unwrap_or(&Value::Null),
            named: Vec::new(),
            names: Names::new(ident),
            seen: HashMap::new(),
            classes: Vec::new(),
            nodes: 0,
            notes: Vec::new(),
        };
        let (params, extra) = match input {
            Some(input) => this.params(input),
            None => {
                this.note("no inputSchema: any arguments");
                (Vec::new(), Some(Ty::Any))
            }
        };
        let result = match output {
            Some(output) => {
                this.root = output;
                this.seen.clear();
                this.result(output)
            }
            None => Ty::Any,
        };
        Shape { params, extra, result, named: this.named, notes: this.notes }
    }

    fn params(&mut self, input: &'a Value) -> (Vec<Field<'a>>, Option<Ty>) {
        let facets = self.facets(&[input]);
        let open = |this: &mut Self, note: &str| {
            this.note(note);
            (Vec::new(), Some(Ty::Any))
        };
        if facets.never || !input.is_object() {
            return open(self, "inputSchema is not an object schema: any arguments");
        }
        if self.mask(&facets.all) & OBJECT == 0 {
            return open(self, "inputSchema does not describe an object: any arguments");
        }
        let path = Path::root(ARGS);
        let variants = self.variants(&facets);
        if let Some(variants) = variants {
            self.note("arguments follow one of several forms, merged here: see the raw schema");
            let variants: Vec<Vec<Facet<'a>>> = variants.into_iter().map(|variant| variant.all).collect();
            return (self.fields(&variants, &path), self.extra(&variants.concat(), &path));
        }
        let fields = self.fields(std::slice::from_ref(&facets.all), &path);
        let extra = self.extra(&facets.all, &path);
        (fields, extra)
    }

    fn result(&mut self, output: &'a Value) -> Ty {
        let ty = self.ty(&[output], &Path::root("Result"));
        let short = match &ty {
            Ty::Any | Ty::Null | Ty::Bool | Ty::Int | Ty::Float | Ty::Str | Ty::Named(_) => true,
            Ty::List(item) | Ty::Dict(_, item) => matches!(**item, Ty::Any | Ty::Int | Ty::Str | Ty::Named(_)),
            _ => false,
        };
        if short {
            return ty;
        }
        let name = self.names.give(None, &Path::root("Result"));
        self.named.push(Named { name, body: Body::Alias(ty) });
        Ty::Named(self.named.len() - 1)
    }

    fn note(&mut self, note: &str) {
        if self.notes.len() < MAX_NOTES && !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    fn facets(&mut self, schemas: &[&'a Value]) -> Facets<'a> {
        let mut facets = Facets::default();
        let root = self.root;
        for schema in schemas {
            facets.add(schema, root, &mut |note| self.note(note));
        }
        facets
    }

    /// The type of values for which all `schemas` hold.
    fn ty(&mut self, schemas: &[&'a Value], path: &Path<'_>) -> Ty {
        let facets = self.facets(schemas);
        self.conjunction(facets, path)
    }

    fn conjunction(&mut self, facets: Facets<'a>, path: &Path<'_>) -> Ty {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            self.note("the schema is too large; the rest was read as any");
            return Ty::Any;
        }
        if path.depth > MAX_DEPTH {
            self.note("the schema is nested too deeply; the rest was read as any");
            return Ty::Any;
        }
        if facets.never {
            return Ty::Any;
        }
        if !facets.by_ref {
            return self.build(&facets, path, None);
        }
        let telling = facets.all.iter().filter(|facet| facet.map.keys().any(|key| !says_no_type(key)));
        let key: Vec<usize> =
            telling.map(|facet| std::ptr::from_ref(facet.map).addr() | usize::from(facet.choices)).collect();
        match self.seen.get(&key) {
            Some(Seen::Done(ty)) => {
                let ty = ty.clone();
                self.nodes += weight(&ty);
                return ty;
            }
            Some(Seen::Open(Some(id))) => return Ty::Named(*id),
            Some(Seen::Open(None)) => {
                let id = self.open(facets.ref_name.as_deref(), path);
                self.seen.insert(key, Seen::Open(Some(id)));
                return Ty::Named(id);
            }
            None => {
                self.seen.insert(key.clone(), Seen::Open(None));
            }
        }
        let mut ty = self.build(&facets, path, Some(&key));
        if let Some(Seen::Open(Some(id))) = self.seen.get(&key)
            && ty != Ty::Named(*id)
        {
            // A recursive type that is no object: the name stands for it.
            let id = *id;
            self.named[id].body = Body::Alias(ty);
            ty = if self.is_groundless(id) {
                self.note("a $ref that refers to nothing but itself was read as any");
                self.named[id].body = Body::Alias(Ty::Any);
                Ty::Any
            } else {
                Ty::Named(id)
            };
        }
        self.seen.insert(key, Seen::Done(ty.clone()));
        ty
    }

    /// Whether the alias reaches itself without passing through a container: `A = A | None`.
    fn is_groundless(&self, id: usize) -> bool {
        let mut todo = vec![id];
        let mut done = Vec::new();
        while let Some(at) = todo.pop() {
            if done.contains(&at) {
                continue;
            }
            done.push(at);
            let Body::Alias(ty) = &self.named[at].body else { continue };
            let members = if let Ty::Union(members) = ty { members.as_slice() } else { std::slice::from_ref(ty) };
            for member in members {
                match member {
                    Ty::Named(next) if *next == id => return true,
                    Ty::Named(next) => todo.push(*next),
                    _ => {}
                }
            }
        }
        false
    }

    fn open(&mut self, given: Option<&str>, path: &Path<'_>) -> usize {
        let name = self.names.give(given, path);
        self.named.push(Named { name, body: Body::Open });
        self.named.len() - 1
    }

    fn build(&mut self, facets: &Facets<'a>, path: &Path<'_>, key: Option<&Vec<usize>>) -> Ty {
        let mask = self.mask(&facets.all);
        if let Some(ty) = self.enumeration(facets, mask) {
            return ty;
        }
        if let Some(variants) = self.variants(facets) {
            let path = path.then(Step::Member);
            let nullable = facets.first("nullable") == Some(&Value::Bool(true));
            let possible: Vec<_> = variants.into_iter().filter(|variant| !variant.never).collect();
            let mut members: Vec<Ty> = Vec::new();
            for variant in possible {
                if self.mask(&variant.all) != 0 {
                    members.push(self.conjunction(variant, &path));
                }
            }
            if members.is_empty() {
                self.note("no value can satisfy part of the schema; it was read as any");
            } else if nullable {
                members.push(Ty::Null);
            }
            return Ty::union(members);
        }
        if mask == 0 {
            self.note("part of the schema contradicts itself; it was read as any");
        }
        if mask == 0 || mask == ALL {
            return Ty::Any;
        }
        let mut members = Vec::with_capacity(1);
        if mask & STRING != 0 {
            members.push(Ty::Str);
        }
        if mask & FRACTION != 0 {
            members.push(Ty::Float);
        } else if mask & INTEGER != 0 {
            members.push(Ty::Int);
        }
        if mask & BOOLEAN != 0 {
            members.push(Ty::Bool);
        }
        if mask & ARRAY != 0 {
            members.push(self.array(&facets.all, path));
        }
        if mask & OBJECT != 0 {
            // A reference back to this schema means all its types, which a class can stand for only if it is alone.
            members.push(self.object(facets, path, key.filter(|_| mask == OBJECT)));
        }
        if mask & NULL != 0 {
            members.push(Ty::Null);
        }
        Ty::union(members)
    }

    /// The types that all facets allow.
    fn mask(&mut self, facets: &[Facet<'a>]) -> u8 {
        let mut mask = ALL;
        for facet in facets {
            let mut allowed = match facet.map.get("type") {
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
            if facet.map.get("nullable") == Some(&Value::Bool(true)) {
                allowed |= NULL;
            }
            mask &= allowed;
        }
        if mask == ALL {
            // Without a type, keywords of objects and arrays show what was meant.
            let any = |keys: &[&str]| facets.iter().any(|facet| keys.iter().any(|key| facet.map.contains_key(*key)));
            if any(&["properties", "patternProperties", "additionalProperties", "propertyNames"]) {
                mask = OBJECT;
            } else if any(&["items", "prefixItems"]) {
                mask = ARRAY;
            }
        }
        mask
    }

    fn type_bits(&mut self, name: &str) -> u8 {
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

    /// `const` and `enum`; fractions and structures among the values are widened to their type.
    fn enumeration(&mut self, facets: &Facets<'a>, mask: u8) -> Option<Ty> {
        let mut values: Option<Vec<&'a Value>> = None;
        for facet in &facets.all {
            let constant = facet.map.get("const").map(std::slice::from_ref);
            let listed = facet.map.get("enum").and_then(Value::as_array).map(Vec::as_slice);
            for these in [constant, listed].into_iter().flatten() {
                values = Some(match values {
                    None => these.iter().collect(),
                    Some(known) => known.into_iter().filter(|value| these.contains(value)).collect(),
                });
            }
        }
        let values = values?;
        let mut fitting: Vec<&Value> = values.iter().copied().filter(|value| bits_of(value) & mask != 0).collect();
        if fitting.is_empty() {
            if values.is_empty() {
                self.note("an enum has no values left; it was read as any");
                return Some(Ty::Any);
            }
            self.note("enum values contradict the type; the values were kept");
            fitting = values;
        }
        let nullable = facets.first("nullable") == Some(&Value::Bool(true));
        let mut literals = Vec::with_capacity(fitting.len());
        let mut seen = std::collections::HashSet::with_capacity(fitting.len());
        let mut others = Vec::new();
        for value in fitting {
            let literal = match value {
                Value::String(text) if text.len() > MAX_TEXT => {
                    self.note("a very long enum value was read as any string");
                    others.push(Ty::Str);
                    continue;
                }
                Value::String(text) => Lit::Str(text.clone()),
                Value::Bool(flag) => Lit::Bool(*flag),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => Lit::Int(number),
                    None => {
                        others.push(if bits_of(value) == INTEGER { Ty::Int } else { Ty::Float });
                        continue;
                    }
                },
                Value::Null => {
                    others.push(Ty::Null);
                    continue;
                }
                Value::Array(_) => {
                    others.push(Ty::List(Box::new(Ty::Any)));
                    continue;
                }
                Value::Object(_) => {
                    others.push(Ty::Dict(Box::new(Ty::Str), Box::new(Ty::Any)));
                    continue;
                }
            };
            if seen.insert(literal.clone()) {
                literals.push(literal);
            }
        }
        self.nodes += literals.len();
        if !literals.is_empty() {
            others.insert(0, Ty::Literal(literals));
        }
        if nullable {
            others.push(Ty::Null);
        }
        Some(Ty::union(others))
    }

    /// The conjunctions that `anyOf` and `oneOf` choose from; `None` where there is nothing to choose.
    fn variants(&mut self, facets: &Facets<'a>) -> Option<Vec<Facets<'a>>> {
        let mut choices: Vec<&'a [Value]> = Vec::new();
        for facet in facets.all.iter().filter(|facet| facet.choices) {
            for keyword in ["anyOf", "oneOf"] {
                if let Some(Value::Array(members)) = facet.map.get(keyword)
                    && members.iter().any(shapes)
                {
                    choices.push(members);
                }
            }
        }
        if choices.is_empty() {
            return None;
        }
        let base: Vec<Facet<'a>> = facets.all.iter().map(|facet| Facet { choices: false, ..*facet }).collect();
        let mut variants = vec![Facets { all: base, ..Facets::default() }];
        let root = self.root;
        for members in choices {
            if variants.len() * members.len() > MAX_VARIANTS {
                self.note("too many alternatives; some were ignored");
                if variants.len() > 1 {
                    break;
                }
            }
            let mut product = Vec::new();
            for variant in &variants {
                for member in members.iter().take(16 * MAX_VARIANTS) {
                    let mut facets = Facets { all: variant.all.clone(), ..Facets::default() };
                    facets.by_ref = variant.by_ref;
                    facets.never = variant.never;
                    facets.add(member, root, &mut |note| self.note(note));
                    product.push(facets);
                }
            }
            variants = product;
        }
        Some(variants)
    }

    fn array(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Ty {
        let path = path.then(Step::Item);
        let get = |keyword: &str| facets.iter().find_map(|facet| facet.map.get(keyword));
        let prefix = get("prefixItems").or_else(|| get("items").filter(|items| items.is_array()));
        if let Some(Value::Array(prefix)) = prefix.filter(|prefix| prefix.as_array().is_some_and(|p| !p.is_empty())) {
            let items: Vec<Ty> = prefix.iter().map(|item| self.ty(&[item], &path)).collect();
            let rest = get("additionalItems").or_else(|| get("items")).filter(|rest| rest.is_object());
            let rest = rest.map(|rest| Box::new(self.ty(&[rest], &path)));
            return Ty::Tuple(items, rest);
        }
        let items: Vec<&'a Value> =
            facets.iter().filter_map(|facet| facet.map.get("items")).filter(|items| !items.is_array()).collect();
        let item = if items.is_empty() { Ty::Any } else { self.ty(&items, &path) };
        Ty::List(Box::new(item))
    }

    fn object(&mut self, facets: &Facets<'a>, path: &Path<'_>, key: Option<&Vec<usize>>) -> Ty {
        if !facets.all.iter().any(|facet| has_fields(facet.map)) {
            return self.dict(&facets.all, path);
        }
        let alone = (facets.all.len() == 1 && !facets.by_ref).then(|| facets.all[0].map);
        if let Some(map) = alone
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
        if let Some(map) = alone {
            self.classes.push((map, id));
        }
        let fields = self.fields(std::slice::from_ref(&facets.all), path);
        let skipped = fields.is_empty();
        let extra = if skipped || facets.all.iter().any(|facet| speaks_of_extra(facet.map)) {
            self.extra(&facets.all, path)
        } else {
            None
        };
        self.named[id].body = Body::Class { fields, extra };
        Ty::Named(id)
    }

    fn dict(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Ty {
        let names: Vec<&'a Value> = facets.iter().filter_map(|facet| facet.map.get("propertyNames")).collect();
        let key = match self.ty(&names, &path.then(Step::Value)) {
            Ty::Literal(literals) if literals.iter().all(|literal| matches!(literal, Lit::Str(_))) => {
                Ty::Literal(literals)
            }
            _ => Ty::Str,
        };
        let value = self.extra(facets, path).unwrap_or(Ty::Any);
        Ty::Dict(Box::new(key), Box::new(value))
    }

    /// The type of keys that are not fields; `None` where there are to be none.
    fn extra(&mut self, facets: &[Facet<'a>], path: &Path<'_>) -> Option<Ty> {
        let path = path.then(Step::Value);
        let get = |keyword: &str| facets.iter().find_map(|facet| facet.map.get(keyword));
        let mut members = Vec::new();
        if let Some(Value::Object(patterns)) = get("patternProperties") {
            let mut patterns: Vec<_> = patterns.iter().collect();
            patterns.sort_by_key(|(pattern, _)| *pattern);
            members.extend(patterns.into_iter().map(|(_, schema)| self.ty(&[schema], &path)));
        }
        let rest: Vec<&'a Value> = facets.iter().filter_map(|facet| facet.map.get("additionalProperties")).collect();
        let closed = rest.iter().any(|rest| **rest == Value::Bool(false));
        let fields = facets.iter().any(|facet| facet.map.contains_key("properties"));
        if !rest.is_empty() && !closed {
            members.push(self.ty(&rest, &path));
        } else if members.is_empty() && (closed || fields) {
            return None;
        }
        Some(Ty::union(members))
    }

    /// The fields of an object; where there are several variants, those of all of them, required only if all say so.
    fn fields(&mut self, variants: &[Vec<Facet<'a>>], path: &Path<'_>) -> Vec<Field<'a>> {
        let mut found: Vec<(&'a str, usize, Option<&'a Value>)> = Vec::new();
        let mut required: Vec<(&'a str, usize)> = Vec::new();
        for (at, facets) in variants.iter().enumerate() {
            for facet in facets {
                if let Some(Value::Object(properties)) = facet.map.get("properties") {
                    found.extend(properties.iter().map(|(name, schema)| (name.as_str(), at, Some(schema))));
                }
                if let Some(Value::Array(names)) = facet.map.get("required") {
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
        // A stable sort: schemas for one name in one variant stay in the order of their facets.
        found.sort_by_key(|(name, at, _)| (*name, *at));
        let mut fields = Vec::with_capacity(found.len());
        for group in found.chunk_by(|a, b| a.0 == b.0) {
            let name = group[0].0;
            if name.is_empty() && !matches!(path.step, Step::Root(ARGS)) || name.len() > MAX_TEXT {
                self.note("a key that is empty or very long was left out");
                continue;
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
                info.extend(facets.all.iter().map(|facet| facet.map));
                members.push(self.conjunction(facets, &path));
            }
            if !members.is_empty() {
                fields.push(Field::new(name, Ty::union(members), needed(name), info));
            }
        }
        fields.sort_by_key(|field| !field.required);
        fields
    }
}

const NULL: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
const FRACTION: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;
const ALL: u8 = 127;

fn bits_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(number) if number.to_string().bytes().all(|b| b.is_ascii_digit() || b == b'-') => INTEGER,
        // 3.0 is an integer to JSON Schema.
        Value::Number(_) => INTEGER | FRACTION,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

/// How many types a memorised type would print again.
fn weight(ty: &Ty) -> usize {
    match ty {
        Ty::Literal(literals) => literals.len(),
        Ty::List(item) => 1 + weight(item),
        Ty::Dict(key, value) => weight(key) + weight(value),
        Ty::Tuple(items, rest) => items.iter().map(weight).sum::<usize>() + rest.as_deref().map_or(1, weight),
        Ty::Union(members) => members.iter().map(weight).sum(),
        _ => 1,
    }
}

/// Whether a member of `anyOf` says more than which properties must be there.
fn shapes(member: &Value) -> bool {
    match member {
        Value::Object(map) => map.keys().any(|key| {
            !matches!(key.as_str(), "required" | "not" | "title" | "description" | "$comment" | "dependentRequired")
        }),
        _ => true,
    }
}

/// Keywords without a say in the type, among them those whose targets are facets of their own.
fn says_no_type(keyword: &str) -> bool {
    matches!(
        keyword,
        "$ref"
            | "$dynamicRef"
            | "$recursiveRef"
            | "allOf"
            | "$defs"
            | "definitions"
            | "$schema"
            | "$id"
            | "$anchor"
            | "$dynamicAnchor"
            | "$comment"
            | "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
    )
}

fn has_fields(map: &Map<String, Value>) -> bool {
    let properties = map.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    properties || map.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(Value::is_string))
}

fn speaks_of_extra(map: &Map<String, Value>) -> bool {
    map.contains_key("additionalProperties") || map.contains_key("patternProperties")
}

/// Whether two object schemas differ in no more than what they are called.
fn same_object(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    const SAID_ELSEWHERE: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$schema"];
    let relevant =
        |map: &Map<String, Value>| map.len() - SAID_ELSEWHERE.iter().filter(|key| map.contains_key(**key)).count();
    std::ptr::eq(a, b)
        || relevant(a) == relevant(b)
            && a.iter().all(|(key, value)| SAID_ELSEWHERE.contains(&key.as_str()) || b.get(key) == Some(value))
}

/// The constant that tells this member of a union from the others.
fn tag<'a>(facets: &[Facet<'a>]) -> Option<&'a str> {
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for facet in facets {
        let Some(Value::Object(properties)) = facet.map.get("properties") else { continue };
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

//! Translates schemas to types: conjunctions are merged, choices become unions, recursion becomes names.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::choices::LETTERS;
use super::facets::{Facet, Facets, TOO_MANY_STEPS};
use super::names::{ARGS, Names, Path, Step};
use super::types::{ALL, ARRAY, BOOLEAN, FRACTION, INTEGER, NULL, OBJECT, STRING};
use super::{Body, Budget, Field, Lit, Named, Ty, get};
use crate::{ident, text};

pub(super) const TOO_LARGE: &str = "the schema is too large; the rest was read as any";
/// Nesting before the rest is widened: real schemas have up to 13.
const MAX_DEPTH: usize = 24;
/// Most parts of a type behind a `$ref` that is printed inline.
const MAX_INLINE: usize = 8;
/// Most bytes of names in a form; the note is cut anyway.
const MAX_FORM: usize = 300;
/// Most notes; more would say nothing new.
const MAX_NOTES: usize = 8;

/// Input and output types of a tool.
#[derive(Debug)]
pub(crate) struct Shape<'a> {
    /// Required first, each group sorted by wire name.
    pub(crate) params: Vec<Field<'a>>,
    /// Type of arguments beyond `params`, if the schema allows them.
    pub(crate) extra: Option<Ty>,
    pub(crate) result: Ty,
    pub(crate) named: Vec<Named<'a>>,
    pub(crate) notes: Vec<String>,
}

/// Translation state of one tool.
pub(crate) struct Translator<'a> {
    pub(super) root: &'a Value,
    pub(super) named: Vec<Named<'a>>,
    names: Names,
    /// Types behind a `$ref`, by the identity of its schemas.
    pub(super) seen: HashMap<Vec<usize>, Seen>,
    /// Objects that became classes, for reuse.
    pub(super) classes: Vec<(&'a Map<String, Value>, usize)>,
    pub(super) budget: Rc<Budget>,
    notes: Vec<String>,
}

pub(super) enum Seen {
    /// In translation; with the name, once something inside refers back.
    Open(Option<usize>),
    Done(Ty),
}

impl<'a> Translator<'a> {
    /// Translates the schemas of the tool `ident`, within the budget.
    pub(crate) fn shape(ident: &str, input: Option<&'a Value>, output: Option<&'a Value>, budget: Budget) -> Shape<'a> {
        let mut this = Translator {
            root: input.or(output).unwrap_or(&Value::Null),
            named: Vec::new(),
            names: Names::new(ident),
            seen: HashMap::new(),
            classes: Vec::new(),
            budget: Rc::new(budget),
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
            let forms: Vec<Vec<&str>> = variants.iter().map(|variant| required(&variant.all)).collect();
            self.note_forms(&forms);
            let variants: Vec<Vec<Facet<'a>>> = variants.into_iter().map(|variant| variant.all).collect();
            return (self.fields(&variants, &path), self.extra(&variants.concat(), &path));
        }
        for facet in &facets.all {
            for keyword in ["anyOf", "oneOf"] {
                if let Some(Value::Array(members)) = get(facet.map, keyword) {
                    let maps = members.iter().filter_map(Value::as_object).map(|map| Facet { map, choices: false });
                    let forms: Vec<Vec<&str>> = maps.map(|facet| required(&[facet])).collect();
                    self.note_forms(&forms);
                }
            }
        }
        let fields = self.fields(std::slice::from_ref(&facets.all), &path);
        let extra = self.extra(&facets.all, &path);
        (fields, extra)
    }

    /// Notes which arguments go together, since a signature only lists them all.
    fn note_forms(&mut self, forms: &[Vec<&str>]) {
        // A form names each argument once.
        let mut uses: HashMap<&str, usize> = HashMap::new();
        forms.iter().flatten().for_each(|name| *uses.entry(name).or_default() += 1);
        let own = |name: &&&str| uses.get(**name) != Some(&forms.len());
        let shown: Vec<String> = forms
            .iter()
            .map(|form| {
                let own: Vec<String> = form.iter().filter(own).take(MAX_FORM).map(|name| spelled(name)).collect();
                if own.is_empty() { "none of these".to_owned() } else { own.join(", ") }
            })
            .collect();
        if shown.iter().any(|form| form != "none of these") {
            let forms = shown.join(" | ");
            self.note(&format!("arguments come in one form of: {}", text::cut(&forms, 300)));
        } else if !shown.is_empty() {
            self.note("arguments come in several forms, merged here: see the raw schema");
        }
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

    pub(super) fn note(&mut self, note: &str) {
        if self.notes.len() < MAX_NOTES && !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    pub(super) fn facets(&mut self, schemas: &[&'a Value]) -> Facets<'a> {
        let mut facets = Facets::default();
        let (root, budget) = (self.root, Rc::clone(&self.budget));
        for schema in schemas {
            facets.add(schema, root, &budget, &mut |note| self.note(note));
        }
        facets
    }

    /// Type of values that satisfy all `schemas`.
    pub(super) fn ty(&mut self, schemas: &[&'a Value], path: &Path<'_>) -> Ty {
        let facets = self.facets(schemas);
        self.conjunction(facets, path)
    }

    pub(super) fn conjunction(&mut self, facets: Facets<'a>, path: &Path<'_>) -> Ty {
        // A line of a deep type is mostly its indentation.
        let cost = 1 + path.depth / 2;
        if !self.budget.nodes(cost) {
            self.note(TOO_LARGE);
            return Ty::Any;
        }
        if !self.budget.steps(4 * facets.all.len()) {
            self.note(TOO_MANY_STEPS);
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
                self.budget.nodes(cost * weight(&ty) + letters(&ty) / LETTERS);
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
            // A recursive type other than an object: its name stands for it.
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
        if weight(&ty) > MAX_INLINE
            && let Some(given) = &facets.ref_name
        {
            // A long named type is printed once: a schema may refer to it any number of times.
            let id = self.open(Some(given), path);
            self.named[id].body = Body::Alias(ty);
            ty = Ty::Named(id);
        }
        self.seen.insert(key, Seen::Done(ty.clone()));
        ty
    }

    /// True if the alias reaches itself without a container between: `A = A | None`.
    fn is_groundless(&self, id: usize) -> bool {
        let mut todo = vec![id];
        let mut done = HashSet::new();
        while let Some(at) = todo.pop() {
            if !done.insert(at) {
                continue;
            }
            if !self.budget.steps(1) {
                return true;
            }
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

    pub(super) fn open(&mut self, given: Option<&str>, path: &Path<'_>) -> usize {
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
            members.push(if is_long(&facets.all) { Ty::Long } else { Ty::Int });
        }
        if mask & BOOLEAN != 0 {
            members.push(Ty::Bool);
        }
        if mask & ARRAY != 0 {
            members.push(self.array(&facets.all, path));
        }
        if mask & OBJECT != 0 {
            // A back reference means all types of this schema, which a class can stand for only if it is the only one.
            members.push(self.object(facets, path, key.filter(|_| mask == OBJECT)));
        }
        if mask & NULL != 0 {
            members.push(Ty::Null);
        }
        Ty::union(members)
    }
}

/// True if the format or a bound of integers is beyond 2^53.
fn is_long(facets: &[Facet<'_>]) -> bool {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let says = |key| facets.iter().filter_map(move |facet| get(facet.map, key));
    let mut bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].into_iter().flat_map(says);
    bounds.any(|bound| bound.as_f64().is_some_and(|bound| bound.abs() > EXACT))
        || says("format").any(|format| matches!(format.as_str(), Some("int64" | "uint64")))
}

/// Required names of a conjunction, sorted.
fn required<'a>(facets: &[Facet<'a>]) -> Vec<&'a str> {
    let lists = facets.iter().filter_map(|facet| get(facet.map, "required")?.as_array());
    let mut names: Vec<&str> = lists.flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A name in a note, quoted unless it is an identifier.
fn spelled(name: &str) -> String {
    if ident::is_plain(name) { name.to_owned() } else { text::comment_name(name) }
}

/// Types that printing a cached type again would take.
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

/// Letters of the literals in a type.
fn letters(ty: &Ty) -> usize {
    match ty {
        Ty::Literal(literals) => {
            literals.iter().map(|literal| if let Lit::Str(text) = literal { text.len() } else { 0 }).sum()
        }
        Ty::List(item) => letters(item),
        Ty::Dict(key, value) => letters(key) + letters(value),
        Ty::Tuple(items, rest) => items.iter().map(letters).sum::<usize>() + rest.as_deref().map_or(0, letters),
        Ty::Union(members) => members.iter().map(letters).sum(),
        _ => 0,
    }
}

/// Keywords that do not affect the type, among them those whose targets are facets of their own.
fn says_no_type(keyword: &str) -> bool {
    keyword.starts_with('$')
        || matches!(keyword, "allOf" | "definitions" | "title" | "description" | "default" | "examples" | "example")
        || matches!(keyword, "deprecated" | "readOnly" | "writeOnly")
}

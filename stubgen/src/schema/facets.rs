//! Conjunctions of schemas: a schema, its `$ref` target, and the members of its `allOf`.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{Budget, get};

/// Most schemas of one conjunction, and so the longest chain of references.
const MAX_FACETS: usize = 48;
const TOO_LONG: &str = "a chain of references or allOf is too long; the rest was ignored";
pub(super) const TOO_MANY_STEPS: &str = "the schema takes too many steps to read; the rest was read as any";

/// One of several schema objects that apply to the same value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facet<'a> {
    pub(crate) map: &'a Map<String, Value>,
    /// True if `anyOf` and `oneOf` are still to be read.
    pub(crate) choices: bool,
}

/// A flattened conjunction of facets.
#[derive(Debug, Default)]
pub(crate) struct Facets<'a> {
    pub(crate) all: Vec<Facet<'a>>,
    /// Last segment of the first `$ref`: the author's name.
    pub(crate) ref_name: Option<String>,
    /// True if a `$ref` was followed, so that recursion is possible.
    pub(crate) by_ref: bool,
    /// True if a `false` schema is among them: nothing is valid.
    pub(crate) never: bool,
}

impl<'a> Facets<'a> {
    /// Adds `schema` and everything it includes, within the budget; reports problems to `note`.
    pub(crate) fn add(&mut self, schema: &'a Value, root: &'a Value, budget: &Budget, note: &mut dyn FnMut(&str)) {
        if !budget.steps(1 + self.all.len()) {
            return note(TOO_MANY_STEPS);
        }
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(true) => return,
            Value::Bool(false) => {
                self.never = true;
                return;
            }
            _ => return note("a schema that is neither an object nor a boolean was read as any"),
        };
        if self.all.iter().any(|facet| std::ptr::eq(facet.map, map)) {
            return;
        }
        if self.all.len() >= MAX_FACETS {
            return note(TOO_LONG);
        }
        self.all.push(Facet { map, choices: true });
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(Value::String(reference)) = get(map, keyword) else { continue };
            match resolve(reference, root, budget) {
                Some(target) => {
                    self.by_ref = true;
                    if self.ref_name.is_none() {
                        self.ref_name = definition_name(reference);
                    }
                    self.add(target, root, budget, note);
                }
                None => note("a $ref that does not resolve was read as any"),
            }
        }
        if let Some(Value::Array(members)) = get(map, "allOf") {
            for member in members {
                if self.all.len() >= MAX_FACETS {
                    return note(TOO_LONG);
                }
                self.add(member, root, budget, note);
            }
        }
    }

    /// First value of `keyword` over all facets.
    pub(crate) fn first(&self, keyword: &str) -> Option<&'a Value> {
        self.all.iter().find_map(|facet| get(facet.map, keyword))
    }
}

/// Target of a local reference: `#`, a JSON pointer, or an `$anchor`.
fn resolve<'a>(reference: &str, root: &'a Value, budget: &Budget) -> Option<&'a Value> {
    if !budget.steps(reference.len() / 16) {
        return None;
    }
    let fragment = match reference.strip_prefix('#') {
        Some(fragment) => fragment,
        None => {
            // An absolute reference into this document.
            let id = root.get("$id").or_else(|| root.get("id"))?.as_str()?.trim_end_matches('#');
            let rest = reference.strip_prefix(id)?;
            if rest.is_empty() { "" } else { rest.strip_prefix('#')? }
        }
    };
    if fragment.is_empty() {
        return Some(root);
    }
    if !fragment.starts_with('/') {
        return ["$defs", "definitions"]
            .iter()
            .filter_map(|key| root.get(key)?.as_object())
            .flat_map(|definitions| definitions.values())
            .take_while(|_| budget.steps(1))
            .find(|schema| {
                let is = |key: &str| schema.get(key).and_then(Value::as_str) == Some(fragment);
                is("$anchor") || is("$dynamicAnchor") || schema.get("$id").and_then(Value::as_str) == Some(reference)
            });
    }
    root.pointer(fragment).or_else(|| root.pointer(&percent_decode_str(fragment).decode_utf8().ok()?))
}

/// `Filter` for `#/$defs/Filter`; `None` for pointers into the middle of a document.
fn definition_name(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"))?;
    (!name.contains('/')).then(|| name.to_owned())
}

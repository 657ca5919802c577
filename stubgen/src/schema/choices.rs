//! `enum`, `const`, `anyOf` and `oneOf`.

use std::rc::Rc;

use serde_json::Value;

use super::facets::{Facet, Facets, TOO_MANY_STEPS};
use super::translate::Translator;
use super::types::{INTEGER, bits_of};
use super::{Lit, MAX_TEXT, Ty, get};

/// Most combinations of `anyOf` and `oneOf` in a type.
const MAX_VARIANTS: usize = 64;
/// Letters of names and values that count as one type.
pub(super) const LETTERS: usize = 100;

impl<'a> Translator<'a> {
    /// `const` and `enum`; fractions and structures are widened to their type.
    pub(super) fn enumeration(&mut self, facets: &Facets<'a>, mask: u8) -> Option<Ty> {
        let mut values: Option<Vec<&'a Value>> = None;
        for facet in &facets.all {
            let constant = get(facet.map, "const").map(std::slice::from_ref);
            let listed = get(facet.map, "enum").and_then(Value::as_array).map(Vec::as_slice);
            for these in [constant, listed].into_iter().flatten() {
                let compared = these.len().saturating_mul(values.as_ref().map_or(1, Vec::len));
                if !self.budget.steps(compared) {
                    self.note(TOO_MANY_STEPS);
                    return Some(Ty::Any);
                }
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
                    Err(Ty::Str)
                }
                Value::String(text) => Ok(Lit::Str(text.clone())),
                Value::Bool(flag) => Ok(Lit::Bool(*flag)),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => Ok(Lit::Int(number)),
                    None => Err(if bits_of(value) == INTEGER { Ty::Int } else { Ty::Float }),
                },
                Value::Null => Err(Ty::Null),
                Value::Array(_) => Err(Ty::List(Box::new(Ty::Any))),
                Value::Object(_) => Err(Ty::Dict(Box::new(Ty::Str), Box::new(Ty::Any))),
            };
            match literal {
                Ok(literal) if !seen.insert(literal.clone()) => {}
                Ok(literal) => literals.push(literal),
                Err(other) => others.push(other),
            }
        }
        let letters: usize =
            literals.iter().map(|literal| if let Lit::Str(text) = literal { text.len() } else { 0 }).sum();
        if !self.budget.nodes(literals.len() + letters / LETTERS) {
            self.note("an enum has too many values to list; it was read as any of their types");
            others.extend(literals.drain(..).map(|literal| match literal {
                Lit::Str(_) => Ty::Str,
                Lit::Int(_) => Ty::Int,
                Lit::Bool(_) => Ty::Bool,
            }));
        }
        if !literals.is_empty() {
            others.insert(0, Ty::Literal(literals));
        }
        if nullable {
            others.push(Ty::Null);
        }
        Some(Ty::union(others))
    }

    /// Conjunctions that `anyOf` and `oneOf` choose from; `None` without a choice.
    pub(super) fn variants(&mut self, facets: &Facets<'a>) -> Option<Vec<Facets<'a>>> {
        let mut choices: Vec<&'a [Value]> = Vec::new();
        for facet in facets.all.iter().filter(|facet| facet.choices) {
            for keyword in ["anyOf", "oneOf"] {
                if let Some(Value::Array(members)) = get(facet.map, keyword)
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
        let (root, budget) = (self.root, Rc::clone(&self.budget));
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
                    if !budget.steps(1 + variant.all.len()) {
                        break;
                    }
                    facets.add(member, root, &budget, &mut |note| self.note(note));
                    product.push(facets);
                }
            }
            variants = product;
        }
        Some(variants)
    }
}

/// True if a member of `anyOf` has more than `required`.
fn shapes(member: &Value) -> bool {
    match member {
        Value::Object(map) => map.keys().any(|key| {
            !matches!(key.as_str(), "required" | "not" | "title" | "description" | "$comment" | "dependentRequired")
        }),
        _ => true,
    }
}

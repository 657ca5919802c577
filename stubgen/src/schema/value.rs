//! Default values: type checks, and literals of each language.

use serde_json::Value;

use super::{Body, Lit, Named, Ty};
use crate::canon::sorted;
use crate::text::{self, Language};

/// Longest default in a signature; longer ones read `...`.
const MAX_LITERAL: usize = 60;

/// True if a type checker accepts `value` as the default of a parameter of type `ty`.
///
/// Stricter than JSON Schema where checkers are: a list is no tuple, and the union member of an object must be
/// unambiguous.
pub(crate) fn accepts(ty: &Ty, value: &Value, named: &[Named<'_>]) -> bool {
    match (ty, value) {
        (Ty::Any, _) | (Ty::Null, Value::Null) | (Ty::Bool, Value::Bool(_)) | (Ty::Str, Value::String(_)) => true,
        (Ty::Float, Value::Number(_)) => true,
        (Ty::Int | Ty::Long, Value::Number(number)) => is_integer(&number.to_string()),
        (Ty::Literal(literals), value) => match value {
            Value::String(text) => literals.iter().any(|literal| matches!(literal, Lit::Str(known) if known == text)),
            Value::Bool(flag) => literals.contains(&Lit::Bool(*flag)),
            Value::Number(number) => {
                is_integer(&number.to_string())
                    && number.as_i64().is_some_and(|number| literals.contains(&Lit::Int(number)))
            }
            _ => false,
        },
        (Ty::List(item), Value::Array(items)) => items.iter().all(|value| accepts(item, value, named)),
        (Ty::Dict(key, item), Value::Object(map)) => map.iter().all(|(name, value)| {
            let known = match &**key {
                Ty::Literal(literals) => literals.contains(&Lit::Str(name.clone())),
                _ => true,
            };
            known && accepts(item, value, named)
        }),
        (Ty::Named(id), value) => match (&named[*id].body, value) {
            (Body::Class { fields, .. }, Value::Object(map)) => {
                fields.iter().filter(|field| field.required).all(|field| map.contains_key(field.wire))
                    && map.iter().all(|(name, value)| {
                        fields.iter().any(|field| field.wire == name && accepts(&field.ty, value, named))
                    })
            }
            // Values are finite, so following a recursive alias ends with them, unless it holds no container.
            (Body::Alias(Ty::Named(_)), _) => false,
            (Body::Alias(ty), value) => accepts(ty, value, named),
            _ => false,
        },
        (Ty::Union(members), value) => {
            let structures = members.iter().filter(|member| !is_scalar(member)).count();
            (structures < 2 || !(value.is_object() || value.is_array()))
                && members.iter().any(|member| {
                    !matches!(member, Ty::Named(id) if is_union(*id, named)) && accepts(member, value, named)
                })
        }
        _ => false,
    }
}

fn is_union(id: usize, named: &[Named<'_>]) -> bool {
    matches!(&named[id].body, Body::Alias(_) | Body::Open)
}

fn is_scalar(ty: &Ty) -> bool {
    matches!(ty, Ty::Null | Ty::Bool | Ty::Int | Ty::Long | Ty::Float | Ty::Str | Ty::Literal(_))
}

fn is_integer(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

/// `value` as a literal of `language`; `None` if it is too long for a signature.
pub(crate) fn literal(value: &Value, language: Language) -> Option<String> {
    let mut out = String::new();
    write(&mut out, value, language).map(|()| out)
}

/// `None` if it was not written in full.
fn write(out: &mut String, value: &Value, language: Language) -> Option<()> {
    let python = language == Language::Python;
    let quoted = |text: &str| (text.len() <= MAX_LITERAL).then(|| text::quoted(text, language));
    match value {
        Value::Null => out.push_str(if python { "None" } else { "null" }),
        Value::Bool(true) => out.push_str(if python { "True" } else { "true" }),
        Value::Bool(false) => out.push_str(if python { "False" } else { "false" }),
        Value::Number(number) => {
            let number = number.to_string();
            if number.len() > 24 {
                return None;
            }
            out.push_str(&number.to_ascii_lowercase().replace("e+", "e"));
        }
        Value::String(string) => out.push_str(&quoted(string)?),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(out, item, language)?;
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (at, (key, item)) in sorted(map).into_iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&quoted(key)?);
                out.push_str(": ");
                write(out, item, language)?;
            }
            out.push('}');
        }
    }
    (out.len() <= MAX_LITERAL).then_some(())
}

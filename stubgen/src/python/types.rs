//! Prints types as Python, on one line or broken like ruff.

use super::{Python, WIDTH};
use crate::schema::{Body, Lit, Ty};
use crate::text::{self, Language, new_line};

/// Style of a broken union.
#[derive(Clone, Copy)]
pub(super) enum Break {
    /// Members on lines of their own, as in a parameter list.
    Bare,
    /// The same in parentheses, as after `=` or in a class.
    Parenthesised,
}

impl Python<'_> {
    pub(super) fn flat(&mut self, out: &mut String, ty: &Ty) {
        match ty {
            Ty::Any => {
                self.used.insert("Any");
                out.push_str("Any");
            }
            Ty::Null => out.push_str("None"),
            Ty::Bool => out.push_str("bool"),
            Ty::Int | Ty::Long => out.push_str("int"),
            Ty::Float => out.push_str("float"),
            Ty::Str => out.push_str("str"),
            Ty::Literal(literals) => self.flat_literals(out, literals),
            Ty::List(item) => {
                out.push_str("list[");
                self.flat(out, item);
                out.push(']');
            }
            Ty::Tuple(items, rest) => {
                out.push_str("tuple[");
                text::separated(out, ", ", items, |out, item| self.flat(out, item));
                if let Some(rest) = rest {
                    out.push_str(", *tuple[");
                    self.flat(out, rest);
                    out.push_str(", ...]");
                }
                out.push(']');
            }
            Ty::Dict(key, value) => {
                out.push_str("dict[");
                self.flat(out, key);
                out.push_str(", ");
                self.flat(out, value);
                out.push(']');
            }
            Ty::Named(id) if self.brief => self.brief_name(out, *id),
            Ty::Named(id) => out.push_str(&self.named[*id].name),
            Ty::Union(members) if self.brief => self.brief_union(out, members),
            Ty::Union(members) => text::separated(out, " | ", members, |out, member| self.flat(out, member)),
        }
    }

    pub(super) fn flat_literals(&mut self, out: &mut String, literals: &[Lit]) {
        let start = out.len();
        out.push_str("Literal[");
        for (at, literal) in literals.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            push_lit(out, literal);
            if self.brief && out.len() - start > 80 {
                out.truncate(start);
                out.push_str(&widened(literals));
                return;
            }
        }
        self.used.insert("Literal");
        out.push(']');
    }

    fn brief_name(&mut self, out: &mut String, id: usize) {
        self.used.insert("Any");
        out.push_str(match &self.named[id].body {
            Body::Alias(Ty::Literal(literals)) => return self.flat_literals(out, literals),
            Body::Class { .. } | Body::Alias(Ty::Dict(..)) => "dict[str, Any]",
            Body::Alias(Ty::List(_)) => "list[Any]",
            _ => "Any",
        });
    }

    /// Two classes are the same `dict[str, Any]` here.
    fn brief_union(&mut self, out: &mut String, members: &[Ty]) {
        let mut shown: Vec<String> = Vec::with_capacity(members.len());
        for member in members {
            let text = self.ty(member);
            if text == "Any" {
                return out.push_str("Any");
            }
            if !shown.contains(&text) {
                shown.push(text);
            }
        }
        out.push_str(&shown.join(" | "));
    }

    /// The type at `indent`, after `used` columns and before `tail` more, broken if it does not fit.
    pub(super) fn put(&mut self, out: &mut String, ty: &Ty, indent: usize, used: usize, tail: usize, style: Break) {
        let start = out.len();
        self.flat(out, ty);
        if used + text::width(&out[start..]) + tail <= WIDTH {
            return;
        }
        let flat = out.split_off(start);
        match (ty, style) {
            (Ty::Union(members), Break::Bare) => self.put_members(out, members, indent, used, tail),
            (Ty::Union(members), Break::Parenthesised) => {
                out.push('(');
                new_line(out, indent + 4);
                self.put_members(out, members, indent + 4, indent + 4, 0);
                new_line(out, indent);
                out.push(')');
            }
            (Ty::List(item), _) => self.put_subscript(out, "list", &[Item::Type(item)], indent),
            (Ty::Dict(key, value), _) => {
                self.put_subscript(out, "dict", &[Item::Type(key), Item::Type(value)], indent);
            }
            (Ty::Tuple(items, rest), _) => {
                let mut parts: Vec<Item<'_>> = items.iter().map(Item::Type).collect();
                parts.extend(rest.as_deref().map(Item::Rest));
                self.put_subscript(out, "tuple", &parts, indent);
            }
            (Ty::Literal(literals), _) => {
                let parts: Vec<Item<'_>> = literals.iter().map(Item::Lit).collect();
                self.put_subscript(out, "Literal", &parts, indent);
            }
            _ => out.push_str(&flat),
        }
    }

    fn put_members(&mut self, out: &mut String, members: &[Ty], indent: usize, used: usize, tail: usize) {
        for (at, member) in members.iter().enumerate() {
            let last = if at + 1 == members.len() { tail } else { 0 };
            if at == 0 {
                self.put(out, member, indent, used, last, Break::Bare);
            } else {
                new_line(out, indent);
                out.push_str("| ");
                self.put(out, member, indent, indent + 2, last, Break::Bare);
            }
        }
    }

    /// `name[…]` with one item per line, and a trailing comma unless it would make a tuple of one.
    fn put_subscript(&mut self, out: &mut String, name: &str, items: &[Item<'_>], indent: usize) {
        out.push_str(name);
        out.push('[');
        let comma = items.len() > 1;
        for item in items {
            new_line(out, indent + 4);
            match item {
                Item::Type(ty) => self.put(out, ty, indent + 4, indent + 4, usize::from(comma), Break::Bare),
                Item::Lit(literal) => push_lit(out, literal),
                Item::Rest(rest) => {
                    let mut flat = String::from("*tuple[");
                    self.flat(&mut flat, rest);
                    flat.push_str(", ...]");
                    if indent + 4 + text::width(&flat) < WIDTH {
                        out.push_str(&flat);
                    } else {
                        self.put_subscript(out, "*tuple", &[Item::Type(rest), Item::Dots], indent + 4);
                    }
                }
                Item::Dots => out.push_str("..."),
            }
            if comma {
                out.push(',');
            }
        }
        new_line(out, indent);
        out.push(']');
    }
}

/// A part of a subscript.
enum Item<'t> {
    Type(&'t Ty),
    Lit(&'t Lit),
    Rest(&'t Ty),
    Dots,
}

/// Types of literals, for lines too short for the values.
fn widened(literals: &[Lit]) -> String {
    let mut types = Vec::new();
    for literal in literals {
        let ty = match literal {
            Lit::Str(_) => "str",
            Lit::Int(_) => "int",
            Lit::Bool(_) => "bool",
        };
        if !types.contains(&ty) {
            types.push(ty);
        }
    }
    types.join(" | ")
}

fn push_lit(out: &mut String, literal: &Lit) {
    match literal {
        Lit::Str(text) => out.push_str(&text::quoted(text, Language::Python)),
        Lit::Int(number) => out.push_str(&number.to_string()),
        Lit::Bool(flag) => out.push_str(if *flag { "True" } else { "False" }),
    }
}

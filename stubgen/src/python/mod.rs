//! Prints types and definitions as Python, formatted like `ruff format`.

mod classes;
mod layout;
mod types;

use std::collections::{BTreeSet, HashSet};

use self::layout::{Param, lay_out_def};
use self::types::Break;
use crate::schema::{Field, Named, Shape, Ty, accepts, literal};
use crate::text::{self, Language};

/// Line length of `ruff format` without configuration.
const WIDTH: usize = 88;
/// Longest trailing comment; the Markdown has the rest.
const MAX_COMMENT: usize = 40;

/// Prints the types of one tool.
pub(crate) struct Python<'s> {
    named: &'s [Named<'s>],
    /// Names that `named` defines.
    names: HashSet<&'s str>,
    /// Names to import from `typing`.
    used: BTreeSet<&'static str>,
    /// True for one-line listings: no named types, no long literals.
    brief: bool,
}

/// Bytes from which a signature omits parameters; the stub has them.
const MAX_SIGNATURE: usize = 16 << 10;

impl<'s> Python<'s> {
    pub(crate) fn new(named: &'s [Named<'s>]) -> Python<'s> {
        let names = named.iter().map(|named| named.name.as_str()).collect();
        Python { named, names, used: BTreeSet::new(), brief: false }
    }

    /// Import line, if anything printed so far needs one.
    pub(crate) fn imports(&self) -> Option<String> {
        let names: Vec<&str> = self.used.iter().copied().collect();
        (!names.is_empty()).then(|| format!("from typing import {}", names.join(", ")))
    }

    /// The type on one line.
    pub(crate) fn ty(&mut self, ty: &Ty) -> String {
        let mut out = String::new();
        self.flat(&mut out, ty);
        out
    }

    /// Members of a union, and values of literals, each as a type.
    pub(crate) fn members(&mut self, ty: &Ty) -> BTreeSet<String> {
        match ty {
            Ty::Union(members) => members.iter().flat_map(|member| self.members(member)).collect(),
            Ty::Literal(all) => all.iter().map(|one| self.ty(&Ty::Literal(vec![one.clone()]))).collect(),
            ty => BTreeSet::from([self.ty(ty)]),
        }
    }

    /// Signature on one line, without the named types of the tool's own stub.
    pub(crate) fn signature(shape: &Shape<'_>, name: &str, idents: &[String]) -> String {
        let mut python = Python { named: &shape.named, names: HashSet::new(), used: BTreeSet::new(), brief: true };
        let mut out = String::with_capacity(64 + 40 * shape.params.len());
        out.push_str(name);
        out.push('(');
        for (at, (field, ident)) in shape.params.iter().zip(idents).enumerate() {
            if out.len() > MAX_SIGNATURE {
                python.used.insert("Any");
                out.extend([", **", rest_name(idents), ": Any) -> "]);
                python.flat(&mut out, &shape.result);
                return out;
            }
            out.extend([if at == 0 { "*, " } else { ", " }, ident, ": "]);
            if let Some(default) = python.annotate(&mut out, field) {
                out.extend([" = ", &default]);
            }
        }
        if let Some(extra) = &shape.extra {
            out.extend([if shape.params.is_empty() { "**" } else { ", **" }, rest_name(idents), ": "]);
            python.flat(&mut out, extra);
        }
        out.push_str(") -> ");
        python.flat(&mut out, &shape.result);
        out
    }

    /// Definition of a tool, with `doc` as the docstring.
    pub(crate) fn definition(&mut self, shape: &Shape<'_>, name: &str, idents: &[String], doc: &str) -> String {
        let params = shape.params.iter().zip(idents).map(|(field, ident)| self.param(field, ident));
        let params: Vec<Param> = params.collect();
        let mut rest = String::new();
        if let Some(extra) = &shape.extra {
            rest = format!("**{}: ", rest_name(idents));
            self.flat(&mut rest, extra);
        }
        let mut result = String::new();
        self.flat(&mut result, &shape.result);
        let body =
            if doc.is_empty() { " ...".to_owned() } else { format!("\n    \"\"\"{}\"\"\"", text::docstring(doc)) };
        let mut out = format!("def {name}");
        lay_out_def(&mut out, &params, &rest, &result, &body);
        out
    }

    /// A parameter: its line, and its comment.
    fn param(&mut self, field: &Field<'_>, ident: &str) -> Param {
        let mut flat = format!("{ident}: ");
        let start = flat.len();
        let default = self.annotate(&mut flat, field);
        let tail = default.as_deref().map(|default| format!(" = {default}")).unwrap_or_default();
        let mut comments = Vec::new();
        if ident != field.wire {
            comments.push(format!("wire name: {}", text::comment_name(field.wire)));
        }
        let short = self.comment(field, None);
        if !short.is_empty() {
            comments.push(short);
        }
        let used: usize = comments.iter().map(|comment| text::width(comment) + 2).sum();
        comments.extend(match used {
            0 => field.few_words(MAX_COMMENT),
            used => field.how_written(MAX_COMMENT.saturating_sub(used)),
        });
        let comment = comments.join("; ");
        flat.push_str(&tail);
        let mut broken = None;
        if 4 + text::width(&flat) + 1 > WIDTH {
            let mut line = flat[..start].to_owned();
            // ruff would break a default in brackets before the type; the documentation has it instead.
            let tail = if tail.ends_with([']', '}']) { " = ..." } else { &tail };
            self.put(&mut line, &annotation(field), 4, 4 + start, text::width(tail) + 1, Break::Bare);
            line.push_str(tail);
            broken = Some(line);
        }
        Param { flat, broken, comment }
    }

    /// Writes a parameter's type and returns its default.
    fn annotate(&mut self, out: &mut String, field: &Field<'_>) -> Option<String> {
        self.flat(out, &field.ty);
        if field.required {
            return None;
        }
        match field.shown_default() {
            Some(value) => {
                let fits = accepts(&field.ty, value, self.named);
                let shown = if fits { literal(value, Language::Python) } else { None };
                Some(shown.unwrap_or_else(|| "...".to_owned()))
            }
            None => {
                if !field.ty.is_nullable() {
                    out.push_str(" | None");
                }
                Some("None".to_owned())
            }
        }
    }
}

impl Python<'_> {
    /// Contents and short constraints as a trailing comment, and the default if the type cannot show it.
    fn comment(&mut self, field: &Field<'_>, default: Option<String>) -> String {
        let default = default.map(|default| format!("= {default}"));
        let contents = field.contents(|ty| self.ty(ty));
        let mut out = default.into_iter().chain(contents).collect::<Vec<_>>().join("; ");
        for constraint in field.constraints() {
            if text::width(&out) + text::width(&constraint) + 2 > MAX_COMMENT {
                continue;
            }
            if !out.is_empty() {
                out.push_str("; ");
            }
            out.push_str(&constraint);
        }
        out
    }
}

/// Type in a signature: `None` stands for "not sent".
fn annotation(field: &Field<'_>) -> Ty {
    let sent = field.required || field.shown_default().is_some();
    if sent || field.ty.is_nullable() {
        return field.ty.clone();
    }
    match &field.ty {
        Ty::Union(members) => Ty::Union(members.iter().cloned().chain([Ty::Null]).collect()),
        ty => Ty::Union(vec![ty.clone(), Ty::Null]),
    }
}

/// A name for `**` that no parameter has.
fn rest_name(idents: &[String]) -> &'static str {
    ["kwargs", "kwargs_", "other_kwargs", "_kwargs", "__kwargs"]
        .into_iter()
        .find(|name| !idents.iter().any(|ident| ident == name))
        .unwrap_or("_kwargs_")
}

//! Types and definitions as Python, laid out the way `ruff format` leaves them.

use unicode_width::UnicodeWidthStr;

use crate::ident;
use crate::schema::{Body, Field, Lit, Named, Shape, Ty, accepts, literal};
use crate::text::{self, Language};

/// Line length of `ruff format` without configuration.
const WIDTH: usize = 88;
/// Longest trailing comment; more is in the Markdown.
const MAX_COMMENT: usize = 40;

/// Prints the types of one tool.
pub(crate) struct Python<'s> {
    named: &'s [Named<'s>],
    /// Names to import from `typing`, in the order of [`TYPING`].
    used: [bool; TYPING.len()],
    /// One line for listings: no named types, no long literals.
    brief: bool,
}

/// What stubs import, sorted as ruff sorts.
const TYPING: [&str; 4] = ["Any", "Literal", "NotRequired", "TypedDict"];
const ANY: usize = 0;
const LITERAL: usize = 1;
const NOT_REQUIRED: usize = 2;
const TYPED_DICT: usize = 3;

/// How a union that does not fit its line is broken.
#[derive(Clone, Copy)]
enum Break {
    /// Members on lines of their own, as in a parameter list.
    Bare,
    /// The same in parentheses, as after `=` or in a class.
    Parenthesised,
}

impl<'s> Python<'s> {
    pub(crate) fn new(named: &'s [Named<'s>]) -> Python<'s> {
        Python { named, used: [false; TYPING.len()], brief: false }
    }

    /// The import line, if anything printed so far needs one.
    pub(crate) fn imports(&self) -> Option<String> {
        let names: Vec<&str> = TYPING.iter().zip(self.used).filter(|(_, used)| *used).map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| format!("from typing import {}", names.join(", ")))
    }

    /// The type on one line.
    pub(crate) fn ty(&mut self, ty: &Ty) -> String {
        let mut out = String::new();
        self.flat(&mut out, ty);
        out
    }

    /// The signature on one line, in words that stand without the named types of the tool's own stub.
    pub(crate) fn signature(shape: &Shape<'_>, name: &str, idents: &[String]) -> String {
        let mut python = Python { named: &shape.named, used: Default::default(), brief: true };
        let mut out = format!("{name}(");
        for (at, (field, ident)) in shape.params.iter().zip(idents).enumerate() {
            out.push_str(if at == 0 { "*, " } else { ", " });
            out.push_str(ident);
            out.push_str(": ");
            let default = python.annotate(&mut out, field);
            if let Some(default) = default {
                out.push_str(" = ");
                out.push_str(&default);
            }
        }
        if let Some(extra) = &shape.extra {
            if !shape.params.is_empty() {
                out.push_str(", ");
            }
            out.push_str("**");
            out.push_str(rest_name(idents));
            out.push_str(": ");
            python.flat(&mut out, extra);
        }
        out.push_str(") -> ");
        python.flat(&mut out, &shape.result);
        out
    }

    /// The whole definition of a tool: `summary` becomes the docstring.
    pub(crate) fn definition(&mut self, shape: &Shape<'_>, name: &str, idents: &[String], summary: &str) -> String {
        let mut params = Vec::with_capacity(shape.params.len() + 1);
        for (field, ident) in shape.params.iter().zip(idents) {
            params.push(self.param(field, ident));
        }
        let mut rest = String::new();
        if let Some(extra) = &shape.extra {
            rest = format!("**{}: ", rest_name(idents));
            self.flat(&mut rest, extra);
        }
        let mut result = String::new();
        self.flat(&mut result, &shape.result);
        let body = if summary.is_empty() {
            " ...".to_owned()
        } else {
            format!("\n    \"\"\"{}\"\"\"", text::docstring(summary))
        };
        let mut out = format!("def {name}");
        lay_out_def(&mut out, &params, &rest, &result, &body);
        out
    }

    /// The definition of a named type.
    pub(crate) fn class(&mut self, named: &Named<'_>) -> String {
        let mut out = String::new();
        match &named.body {
            Body::Open => {}
            Body::Alias(ty) => {
                out.push_str(&named.name);
                out.push_str(" = ");
                let before = out.len();
                self.put(&mut out, ty, 0, before, 0, Break::Parenthesised);
            }
            Body::Class { fields, extra } => {
                self.used[TYPED_DICT] = true;
                if fields.is_empty() {
                    return format!("class {}(TypedDict): ...", named.name);
                }
                let partial = fields.iter().all(|field| !field.required);
                if fields.iter().all(|field| self.can_be_attribute(field.wire)) {
                    self.class_body(&mut out, &named.name, fields, partial);
                } else {
                    self.functional(&mut out, &named.name, fields, partial);
                }
                if let Some(extra) = extra {
                    let other = self.ty(extra);
                    out.insert_str(0, &format!("# other keys: {}\n", text::cut(&other, 100)));
                }
            }
        }
        out
    }

    fn class_body(&mut self, out: &mut String, name: &str, fields: &[Field<'_>], partial: bool) {
        out.push_str("class ");
        out.push_str(name);
        out.push_str(if partial { "(TypedDict, total=False):" } else { "(TypedDict):" });
        for field in fields {
            let comment = comment(field, field.shown_default().and_then(|value| literal(value, Language::Python)));
            let optional = !field.required && !partial;
            let mut line = format!("\n    {}: ", field.wire);
            let used = line.len() - 1;
            self.put_field(&mut line, field, optional, 4, used, &comment, 0, Break::Parenthesised);
            out.push_str(&line);
        }
    }

    fn functional(&mut self, out: &mut String, name: &str, fields: &[Field<'_>], partial: bool) {
        out.push_str(&format!("{name} = TypedDict(\n    \"{name}\",\n    {{"));
        for field in fields {
            let comment = comment(field, field.shown_default().and_then(|value| literal(value, Language::Python)));
            let optional = !field.required && !partial;
            let mut line = format!("\n        {}: ", text::quoted(field.wire, Language::Python));
            let used = line.width() - 1;
            self.put_field(&mut line, field, optional, 8, used, &comment, 1, Break::Bare);
            out.push_str(&line);
        }
        out.push_str("\n    },\n");
        if partial {
            out.push_str("    total=False,\n");
        }
        out.push(')');
    }

    /// A field's type, a comma if `comma`, and its comment: behind it if the line has room, else above it.
    #[expect(clippy::too_many_arguments, reason = "what a line holds before, in and after the type")]
    fn put_field(
        &mut self,
        line: &mut String,
        field: &Field<'_>,
        optional: bool,
        indent: usize,
        used: usize,
        comment: &str,
        comma: usize,
        style: Break,
    ) {
        let before = line.len();
        self.flat_field(line, &field.ty, optional);
        let fits = |line: &str, more: usize| used + line[before..].width() + comma + more <= WIDTH;
        let behind = if comment.is_empty() { 0 } else { comment.width() + 4 };
        if !fits(line, 0) {
            line.truncate(before);
            if optional {
                line.push_str("NotRequired[\n");
                push_indent(line, indent + 4);
                self.put(line, &field.ty, indent + 4, indent + 4, 0, Break::Bare);
                line.push('\n');
                push_indent(line, indent);
                line.push(']');
            } else {
                self.put(line, &field.ty, indent, used, comma, style);
            }
        }
        let one_line = !line[before..].contains('\n');
        if comma == 1 {
            line.push(',');
        }
        if comment.is_empty() {
        } else if one_line && used + line[before..].width() + behind <= WIDTH {
            line.push_str("  # ");
            line.push_str(comment);
        } else {
            line.insert_str(1, &format!("{}# {comment}\n", " ".repeat(indent)));
        }
    }

    fn flat_field(&mut self, out: &mut String, ty: &Ty, optional: bool) {
        if optional {
            self.used[NOT_REQUIRED] = true;
            out.push_str("NotRequired[");
        }
        self.flat(out, ty);
        if optional {
            out.push(']');
        }
    }

    /// Whether a class body can hold the key: no keyword, not mangled, and no type that a later field would mean.
    fn can_be_attribute(&self, key: &str) -> bool {
        ident::is_plain(key)
            && !ident::is_python_keyword(key)
            && !ident::is_stub_name(key)
            && !key.starts_with("__")
            && !self.named.iter().any(|named| named.name == key)
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
        let short = comment(field, None);
        if !short.is_empty() {
            comments.push(short);
        }
        let comment = comments.join("; ");
        flat.push_str(&tail);
        let mut broken = None;
        if 4 + flat.width() + 1 > WIDTH {
            let mut line = flat[..start].to_owned();
            // A default in brackets would be broken before the type; it is left to the documentation instead.
            let tail = if tail.ends_with([']', '}']) { " = ..." } else { &tail };
            self.put(&mut line, &annotation(field), 4, 4 + start, tail.width() + 1, Break::Bare);
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

    fn flat(&mut self, out: &mut String, ty: &Ty) {
        match ty {
            Ty::Any => {
                self.used[ANY] = true;
                out.push_str("Any");
            }
            Ty::Null => out.push_str("None"),
            Ty::Bool => out.push_str("bool"),
            Ty::Int => out.push_str("int"),
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
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    self.flat(out, item);
                }
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
            Ty::Union(members) => {
                for (at, member) in members.iter().enumerate() {
                    if at > 0 {
                        out.push_str(" | ");
                    }
                    self.flat(out, member);
                }
            }
        }
    }

    fn flat_literals(&mut self, out: &mut String, literals: &[Lit]) {
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
        self.used[LITERAL] = true;
        out.push(']');
    }

    fn brief_name(&mut self, out: &mut String, id: usize) {
        self.used[ANY] = true;
        out.push_str(match &self.named[id].body {
            Body::Class { .. } => "dict[str, Any]",
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
    fn put(&mut self, out: &mut String, ty: &Ty, indent: usize, used: usize, tail: usize, style: Break) {
        let start = out.len();
        self.flat(out, ty);
        if used + out[start..].width() + tail <= WIDTH {
            return;
        }
        let flat = out.split_off(start);
        match (ty, style) {
            (Ty::Union(members), Break::Bare) => self.put_members(out, members, indent, used, tail),
            (Ty::Union(members), Break::Parenthesised) => {
                out.push_str("(\n");
                push_indent(out, indent + 4);
                self.put_members(out, members, indent + 4, indent + 4, 0);
                out.push('\n');
                push_indent(out, indent);
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
                out.push('\n');
                push_indent(out, indent);
                out.push_str("| ");
                self.put(out, member, indent, indent + 2, last, Break::Bare);
            }
        }
    }

    /// `name[…]` with an item a line, and a trailing comma unless it would make a tuple of one.
    fn put_subscript(&mut self, out: &mut String, name: &str, items: &[Item<'_>], indent: usize) {
        out.push_str(name);
        out.push('[');
        let comma = items.len() > 1;
        for item in items {
            out.push('\n');
            push_indent(out, indent + 4);
            match item {
                Item::Type(ty) => self.put(out, ty, indent + 4, indent + 4, usize::from(comma), Break::Bare),
                Item::Lit(literal) => push_lit(out, literal),
                Item::Rest(rest) => {
                    let mut flat = String::from("*tuple[");
                    self.flat(&mut flat, rest);
                    flat.push_str(", ...]");
                    if indent + 4 + flat.width() < WIDTH {
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
        out.push('\n');
        push_indent(out, indent);
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

/// A parameter ready for layout.
struct Param {
    flat: String,
    /// Over several lines, where `flat` is too long for a line of its own.
    broken: Option<String>,
    comment: String,
}

/// The type as a signature shows it: `None` stands for "not sent".
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

/// On one line, on one indented line, or a parameter a line: the first that fits, as ruff decides.
fn lay_out_def(out: &mut String, params: &[Param], rest: &str, result: &str, body: &str) {
    let after = format!(" -> {result}:{body}");
    let after_width = after.lines().next().map_or(0, UnicodeWidthStr::width);
    let mut flat = String::new();
    if !params.is_empty() {
        flat.push_str("*, ");
        flat.push_str(&params.iter().map(|param| param.flat.as_str()).collect::<Vec<_>>().join(", "));
    }
    if !rest.is_empty() {
        flat.push_str(if params.is_empty() { "" } else { ", " });
        flat.push_str(rest);
    }
    let plain = params.iter().all(|param| param.comment.is_empty());
    let width = flat.width();
    if plain && out.width() + 2 + width + after_width <= WIDTH {
        out.push_str(&format!("({flat}){after}"));
    } else if flat.is_empty() {
        // Only a very long name gets here: ruff then breaks the return type.
        out.push_str(&format!("() -> (\n    {result}\n):{body}"));
    } else if plain && 4 + width <= WIDTH {
        out.push_str(&format!("(\n    {flat}\n){after}"));
    } else {
        out.push_str("(\n");
        if !params.is_empty() {
            out.push_str("    *,\n");
        }
        params.iter().for_each(|param| push_param(out, param));
        if !rest.is_empty() {
            out.push_str(&format!("    {rest},\n"));
        }
        out.push_str(&format!("){after}"));
    }
}

fn push_param(out: &mut String, param: &Param) {
    let line = param.broken.as_deref().unwrap_or(&param.flat);
    let behind = 4 + line.width() + 5 + param.comment.width() <= WIDTH && param.broken.is_none();
    if !param.comment.is_empty() && !behind {
        out.push_str(&format!("    # {}\n", param.comment));
    }
    out.push_str(&format!("    {line},"));
    if !param.comment.is_empty() && behind {
        out.push_str(&format!("  # {}", param.comment));
    }
    out.push('\n');
}

/// A name for `**` that no parameter has.
fn rest_name(idents: &[String]) -> &'static str {
    ["kwargs", "kwargs_", "other_kwargs", "_kwargs", "__kwargs"]
        .into_iter()
        .find(|name| !idents.iter().any(|ident| ident == name))
        .unwrap_or("_kwargs_")
}

/// Constraints as a trailing comment, as many as are short; the default too where the type cannot show it.
fn comment(field: &Field<'_>, default: Option<String>) -> String {
    let mut out = default.map(|default| format!("= {default}")).unwrap_or_default();
    for constraint in field.constraints() {
        if out.width() + constraint.width() + 2 > MAX_COMMENT {
            continue;
        }
        if !out.is_empty() {
            out.push_str("; ");
        }
        out.push_str(&constraint);
    }
    out
}

/// The types of literals, for lines too short for the values.
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

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

//! Prints types and definitions as TypeScript, formatted like prettier.

use crate::hidden::is_format;
use crate::schema::{Body, Field, Lit, Named, Shape, Ty, literal};
use crate::text::{self, Language, new_line};

/// Line length of prettier without configuration.
const WIDTH: usize = 80;
/// Longest comment behind a property; prettier does not count it.
const MAX_COMMENT: usize = 120;

/// Prints the types of one tool.
pub(crate) struct TypeScript<'s> {
    named: &'s [Named<'s>],
    /// True for signatures in messages, where no named type is defined.
    is_brief: bool,
}

impl<'s> TypeScript<'s> {
    pub(crate) fn new(named: &'s [Named<'s>]) -> TypeScript<'s> {
        TypeScript { named, is_brief: false }
    }

    /// Types without names: objects are `object`.
    pub(crate) fn brief(named: &'s [Named<'s>]) -> TypeScript<'s> {
        TypeScript { named, is_brief: true }
    }

    /// Definition of a tool, with `doc` above it.
    pub(crate) fn definition(&self, shape: &Shape<'_>, name: &str, doc: &str) -> String {
        let mut out = String::new();
        if !doc.is_empty() {
            out.push_str(&format!("/** {} */\n", text::jsdoc(doc)));
        }
        let optional = if shape.params.iter().any(|field| field.required) { "" } else { "?" };
        let result = self.ty(&shape.result);
        if shape.params.is_empty() {
            let args = match &shape.extra {
                Some(extra) => format!("args?: Record<string, {}>", self.ty(extra)),
                None => "args?: Record<string, never>".to_owned(),
            };
            let line = format!("export function {name}({args}): Promise<{result}>;");
            if text::width(&line) <= WIDTH {
                out.push_str(&line);
            } else {
                out.push_str(&format!("export function {name}(\n  {args},\n): Promise<{result}>;"));
            }
            return out;
        }
        if let Some(args) = self.flat_fields(shape) {
            let line = format!("export function {name}(args{optional}: {args}): Promise<{result}>;");
            if text::width(&line) <= WIDTH {
                out.push_str(&line);
                return out;
            }
        }
        out.push_str(&format!("export function {name}(args{optional}: {{\n"));
        self.put_fields(&mut out, &shape.params, shape.extra.as_ref());
        out.push_str(&format!("}}): Promise<{result}>;"));
        out
    }

    /// The definition of a named type.
    pub(crate) fn interface(&self, named: &Named<'_>) -> String {
        let mut out = String::new();
        match &named.body {
            Body::Open => {}
            Body::Alias(ty) => {
                out.push_str(&format!("type {} =", named.name));
                self.put_value(&mut out, ty, 0, named.name.len() + 7);
                out.push(';');
            }
            Body::Class { fields, extra } if fields.is_empty() && extra.is_none() => {
                out.push_str(&format!("type {} = Record<string, never>;", named.name));
            }
            Body::Class { fields, extra } => {
                out.push_str(&format!("interface {} {{\n", named.name));
                self.put_fields(&mut out, fields, extra.as_ref());
                out.push('}');
            }
        }
        out
    }

    /// Parameters between braces on one line; `None` if a comment needs the end of a line.
    fn flat_fields(&self, shape: &Shape<'_>) -> Option<String> {
        let mut parts = Vec::with_capacity(shape.params.len() + 1);
        for field in &shape.params {
            if !self.comment(field).is_empty() {
                return None;
            }
            let mark = if field.required { "" } else { "?" };
            parts.push(format!("{}{mark}: {}", key(field.wire), self.ty(&field.ty)));
        }
        match &shape.extra {
            Some(Ty::Any) => parts.push("[key: string]: any".to_owned()),
            Some(_) => return None,
            None => {}
        }
        Some(format!("{{ {} }}", parts.join("; ")))
    }

    fn put_fields(&self, out: &mut String, fields: &[Field<'_>], extra: Option<&Ty>) {
        for field in fields {
            let start = out.len();
            out.push_str("  ");
            out.push_str(&key(field.wire));
            out.push_str(if field.required { ":" } else { "?:" });
            let used = text::width(&out[start..]) + 1;
            self.put_value(out, &field.ty, 2, used);
            out.push(';');
            let comment = self.comment(field);
            if !comment.is_empty() {
                out.push_str(&format!(" // {comment}"));
            }
            out.push('\n');
        }
        match extra {
            // Every property must fit an index signature, which only `any` guarantees.
            Some(Ty::Any) => out.push_str("  [key: string]: any;\n"),
            Some(extra) => {
                let extra = self.ty(extra);
                out.push_str(&format!("  [key: string]: any; // other keys: {}\n", text::cut(&extra, MAX_COMMENT)));
            }
            None => {}
        }
    }

    /// Default, contents and short constraints.
    fn comment(&self, field: &Field<'_>) -> String {
        let mut out = field
            .shown_default()
            .and_then(|value| literal(value, Language::TypeScript))
            .map(|default| format!("= {default}"))
            .unwrap_or_default();
        for constraint in field.contents(|ty| self.ty(ty)).into_iter().chain(field.constraints()) {
            if out.len() + constraint.len() + 2 > MAX_COMMENT {
                continue;
            }
            if !out.is_empty() {
                out.push_str("; ");
            }
            out.push_str(&constraint);
        }
        out
    }

    /// The type on one line.
    pub(crate) fn ty(&self, ty: &Ty) -> String {
        let mut out = String::new();
        self.flat(&mut out, ty);
        out
    }

    fn flat(&self, out: &mut String, ty: &Ty) {
        match ty {
            Ty::Any => out.push_str("any"),
            Ty::Null => out.push_str("null"),
            Ty::Bool => out.push_str("boolean"),
            Ty::Int | Ty::Float => out.push_str("number"),
            Ty::Str => out.push_str("string"),
            Ty::Named(id) if self.is_brief => match &self.named[*id].body {
                Body::Alias(Ty::Literal(literals)) => self.flat(out, &Ty::Literal(literals.clone())),
                Body::Class { .. } | Body::Alias(Ty::Dict(..)) => out.push_str("object"),
                Body::Alias(_) | Body::Open => out.push_str("any"),
            },
            Ty::Named(id) => out.push_str(&self.named[*id].name),
            Ty::Long | Ty::Literal(_) | Ty::Union(_) => {
                text::separated(out, " | ", &members(ty), |out, member| self.flat_member(out, member));
            }
            Ty::List(item) => self.flat_list(out, item),
            Ty::Tuple(items, rest) => {
                out.push('[');
                text::separated(out, ", ", items, |out, item| self.flat(out, item));
                if let Some(rest) = rest {
                    out.push_str(", ...");
                    self.flat_list(out, rest);
                }
                out.push(']');
            }
            Ty::Dict(keys, value) => {
                let partial = matches!(**keys, Ty::Literal(_));
                out.push_str(if partial { "Partial<Record<" } else { "Record<" });
                self.flat(out, keys);
                out.push_str(", ");
                self.flat(out, value);
                out.push_str(if partial { ">>" } else { ">" });
            }
        }
    }

    fn flat_list(&self, out: &mut String, item: &Ty) {
        let group = members(item).len() > 1;
        out.push_str(if group { "(" } else { "" });
        self.flat(out, item);
        out.push_str(if group { ")[]" } else { "[]" });
    }

    fn flat_member(&self, out: &mut String, member: &Member<'_>) {
        match member {
            Member::Type(ty) => self.flat(out, ty),
            Member::Lit(Lit::Str(text)) => out.push_str(&text::quoted(text, Language::TypeScript)),
            Member::Lit(Lit::Int(number)) => out.push_str(&number.to_string()),
            Member::BigInt => out.push_str("bigint"),
            Member::Lit(Lit::Bool(flag)) => out.push_str(if *flag { "true" } else { "false" }),
        }
    }

    /// A type behind `:` or `=`: a union that does not fit goes on the lines below, indented.
    fn put_value(&self, out: &mut String, ty: &Ty, indent: usize, used: usize) {
        let flat = self.ty(ty);
        if used + text::width(&flat) < WIDTH {
            out.push(' ');
            out.push_str(&flat);
        } else if members(ty).len() > 1 {
            if indent + 2 + text::width(&flat) < WIDTH {
                new_line(out, indent + 2);
                out.push_str(&flat);
            } else {
                self.put_members(out, ty, indent + 2);
            }
        } else {
            out.push(' ');
            self.put(out, ty, indent, used, 1);
        }
    }

    /// `| member` lines, each starting with a line break.
    fn put_members(&self, out: &mut String, ty: &Ty, indent: usize) {
        let members = members(ty);
        for (at, member) in members.iter().enumerate() {
            let tail = usize::from(at + 1 == members.len());
            new_line(out, indent);
            out.push_str("| ");
            match member {
                Member::Type(ty) => self.put(out, ty, indent + 2, indent + 2, tail),
                Member::Lit(_) | Member::BigInt => self.flat_member(out, member),
            }
        }
    }

    /// A type other than a union, at `indent`, after `used` columns and before `tail` more.
    fn put(&self, out: &mut String, ty: &Ty, indent: usize, used: usize, tail: usize) {
        let flat = self.ty(ty);
        if used + text::width(&flat) + tail <= WIDTH {
            out.push_str(&flat);
            return;
        }
        match ty {
            Ty::List(item) if members(item).len() > 1 => {
                out.push('(');
                self.put_members(out, item, indent + 2);
                new_line(out, indent);
                out.push_str(")[]");
            }
            Ty::List(item) => {
                self.put(out, item, indent, used, tail + 2);
                out.push_str("[]");
            }
            Ty::Dict(keys, value) if **keys == Ty::Str => {
                out.push_str("Record<");
                new_line(out, indent + 2);
                out.push_str("string,");
                self.put_argument(out, value, indent + 2);
                new_line(out, indent);
                out.push('>');
            }
            Ty::Dict(keys, value) => {
                out.push_str("Partial<");
                let record = self.ty(&Ty::Dict(keys.clone(), value.clone()));
                let record = record.trim_start_matches("Partial<").strip_suffix('>').unwrap_or(&record).to_owned();
                new_line(out, indent + 2);
                if indent + 2 + text::width(&record) <= WIDTH {
                    out.push_str(&record);
                } else {
                    out.push_str("Record<");
                    self.put_argument(out, keys, indent + 4);
                    out.push(',');
                    self.put_argument(out, value, indent + 4);
                    new_line(out, indent + 2);
                    out.push('>');
                }
                new_line(out, indent);
                out.push('>');
            }
            Ty::Tuple(items, rest) => {
                out.push('[');
                for item in items {
                    new_line(out, indent + 2);
                    self.put_item(out, item, indent + 2);
                    out.push(',');
                }
                if let Some(rest) = rest {
                    new_line(out, indent + 2);
                    out.push_str("...");
                    let list = Ty::List(rest.clone());
                    self.put(out, &list, indent + 2, indent + 5, 1);
                    out.push(',');
                }
                new_line(out, indent);
                out.push(']');
            }
            _ => out.push_str(&flat),
        }
    }

    /// A type argument on its own line; members of a broken union stand flush.
    fn put_argument(&self, out: &mut String, ty: &Ty, indent: usize) {
        let flat = self.ty(ty);
        if indent + text::width(&flat) < WIDTH || members(ty).len() < 2 {
            new_line(out, indent);
            self.put(out, ty, indent, indent, 1);
        } else {
            self.put_members(out, ty, indent);
        }
    }

    /// An item of a tuple; a broken union stands in parentheses.
    fn put_item(&self, out: &mut String, ty: &Ty, indent: usize) {
        let flat = self.ty(ty);
        if indent + text::width(&flat) < WIDTH || members(ty).len() < 2 {
            self.put(out, ty, indent, indent, 1);
        } else {
            out.push('(');
            self.put_members(out, ty, indent + 2);
            new_line(out, indent);
            out.push(')');
        }
    }
}

/// A member of a union; a literal type of several values is a union in TypeScript.
enum Member<'t> {
    Type(&'t Ty),
    Lit(&'t Lit),
    BigInt,
}

fn members(ty: &Ty) -> Vec<Member<'_>> {
    match ty {
        Ty::Literal(literals) => literals.iter().map(Member::Lit).collect(),
        Ty::Long => vec![Member::Type(&Ty::Int), Member::BigInt],
        Ty::Union(parts) => parts.iter().flat_map(members).collect(),
        ty => vec![Member::Type(ty)],
    }
}

/// A property key, quoted only where prettier quotes it (identifiers of ES5, so no astral letters).
pub(crate) fn key(wire: &str) -> String {
    let start = |c: char| matches!(c, '_' | '$') || c <= '\u{ffff}' && unicode_ident::is_xid_start(c);
    let rest = |c: char| c == '$' || c <= '\u{ffff}' && unicode_ident::is_xid_continue(c) && !is_format(c);
    let mut chars = wire.chars();
    let plain = chars.next().is_some_and(start) && chars.all(rest);
    if plain { wire.to_owned() } else { text::quoted(wire, Language::TypeScript) }
}

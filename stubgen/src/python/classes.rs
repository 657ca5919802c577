//! Prints named types as `TypedDict` classes and aliases.

use super::types::Break;
use super::{Python, WIDTH};
use crate::ident;
use crate::schema::{Body, Field, Named, Ty, literal};
use crate::text::{self, Language, new_line};

impl Python<'_> {
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
                self.used.insert("TypedDict");
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
            let line = format!("\n    {}: ", field.wire);
            self.put_field(out, line, field, partial, Break::Parenthesised);
        }
    }

    fn functional(&mut self, out: &mut String, name: &str, fields: &[Field<'_>], partial: bool) {
        out.push_str(&format!("{name} = TypedDict(\n    \"{name}\",\n    {{"));
        for field in fields {
            let line = format!("\n        {}: ", text::quoted(field.wire, Language::Python));
            self.put_field(out, line, field, partial, Break::Bare);
        }
        out.push_str("\n    },\n");
        if partial {
            out.push_str("    total=False,\n");
        }
        out.push(')');
    }

    /// A field whose `line` has a line break and its name: its type, and its comment behind it if it fits, else above it.
    /// With [`Break::Bare`] it is an item of a dictionary, and has a comma.
    fn put_field(&mut self, out: &mut String, mut line: String, field: &Field<'_>, partial: bool, style: Break) {
        let comment = self.comment(field, field.shown_default().and_then(|value| literal(value, Language::Python)));
        let (indent, comma) = if matches!(style, Break::Bare) { (8, 1) } else { (4, 0) };
        let (optional, before, used) = (!field.required && !partial, line.len(), text::width(&line) - 1);
        self.flat_field(&mut line, &field.ty, optional);
        if used + text::width(&line[before..]) + comma > WIDTH {
            line.truncate(before);
            if optional {
                line.push_str("NotRequired[");
                new_line(&mut line, indent + 4);
                self.put(&mut line, &field.ty, indent + 4, indent + 4, 0, Break::Bare);
                new_line(&mut line, indent);
                line.push(']');
            } else {
                self.put(&mut line, &field.ty, indent, used, comma, style);
            }
        }
        let one_line = !line[before..].contains('\n');
        if comma == 1 {
            line.push(',');
        }
        if comment.is_empty() {
        } else if one_line && used + text::width(&line[before..]) + text::width(&comment) + 4 <= WIDTH {
            line.push_str("  # ");
            line.push_str(&comment);
        } else {
            line.insert_str(1, &format!("{}# {comment}\n", " ".repeat(indent)));
        }
        out.push_str(&line);
    }

    fn flat_field(&mut self, out: &mut String, ty: &Ty, optional: bool) {
        if optional {
            self.used.insert("NotRequired");
            out.push_str("NotRequired[");
        }
        self.flat(out, ty);
        if optional {
            out.push(']');
        }
    }

    /// True if a class body can hold the key: no keyword, not mangled, and not the name of a type that a later field
    /// uses.
    fn can_be_attribute(&self, key: &str) -> bool {
        ident::is_plain(key)
            && !ident::is_python_keyword(key)
            && !ident::is_stub_name(key)
            && !key.starts_with("__")
            && !self.names.contains(key)
    }
}

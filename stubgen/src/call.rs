//! The signature of a tool as JavaScript calls it, on one line, for messages.

use crate::observed::Observed;
use crate::schema::{Body, Field, Named, Ty};
use crate::tool::ToolStub;
use crate::typescript::{TypeScript, key};

/// Bytes from which the rest of an object is left out.
const MAX_OBJECT: usize = 4 << 10;

impl ToolStub {
    /// `get_order({ id: number, note?: string }): Promise<string>`, with an observation of the result.
    pub fn javascript_signature(&self, observed: Option<&Observed>) -> String {
        let raw = self.definition.tree();
        let shape = self.shape(&raw, self.usable(observed));
        let typescript = TypeScript::brief(&shape.named);
        let args = match (shape.params.as_slice(), &shape.extra) {
            ([], None) => String::new(),
            (fields, extra) => object(&typescript, fields, extra.is_some()),
        };
        format!("{}({args}): Promise<{}>", self.ident, result(&typescript, &shape.named, &shape.result))
    }
}

/// A result, with the keys of its object or of its items.
fn result(typescript: &TypeScript<'_>, named: &[Named<'_>], ty: &Ty) -> String {
    match ty {
        Ty::List(item) if matches!(**item, Ty::Named(_)) => format!("{}[]", result(typescript, named, item)),
        Ty::Named(id) => match &named[*id].body {
            Body::Class { fields, extra } if !fields.is_empty() => object(typescript, fields, extra.is_some()),
            _ => typescript.ty(ty),
        },
        _ => typescript.ty(ty),
    }
}

fn object(typescript: &TypeScript<'_>, fields: &[Field<'_>], is_open: bool) -> String {
    let mut out = String::from("{ ");
    let mut separator = "";
    for field in fields {
        if out.len() > MAX_OBJECT {
            break;
        }
        let mark = if field.required { ":" } else { "?:" };
        out.push_str(&format!("{separator}{}{mark} {}", key(field.wire), typescript.ty(&field.ty)));
        separator = ", ";
    }
    if is_open || out.len() > MAX_OBJECT {
        out.push_str(&format!("{separator}…"));
    }
    out.push_str(" }");
    out
}

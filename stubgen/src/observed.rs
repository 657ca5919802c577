//! Results of a tool as they were observed, for stubs of tools that declare none.

use serde_json::Value;

use crate::ident::is_plain;
use crate::python::Python;
use crate::schema::{Body, Named, Ty, noted};
use crate::text::comment_name;
use crate::tool::{Annotations, ToolStub};

/// Longest note on a text.
const MAX_NOTE: usize = 160;
/// Bytes from which an outline of a result names no more fields.
const MAX_OUTLINE: usize = 120;

/// Observations of a tool's results: an input of its views beside the definition. No digest counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Answers so far.
    pub answers: u64,
    /// JSON Schema of them; `None` before the first.
    pub schema: Option<Value>,
}

impl Observed {
    /// The observation in one line. The count is rounded down to a power of two: text that changes with every answer
    /// would have to be read again.
    pub(crate) fn words(&self, annotations: Annotations) -> String {
        let Some(schema) = self.schema.as_ref().filter(|_| self.answers > 0) else {
            // A call that may write is no way to look.
            let look = if annotations.read_only == Some(true) { ": log one row" } else { "" };
            return format!("result not observed yet{look}");
        };
        let count = match self.answers.ilog2() {
            0 => "1 answer".to_owned(),
            power => format!("{}+ answers", 1_u64 << power),
        };
        let kinds = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
        let contents = [schema].into_iter().chain(kinds).find_map(|schema| noted(schema.as_object()?, MAX_NOTE));
        format!("result observed in {count}{}", contents.map(|it| format!(": {it}")).unwrap_or_default())
    }
}

impl ToolStub {
    /// True if an observation can add to the definition, which does not describe the result, or as one text.
    pub fn has_open_result(&self) -> bool {
        self.is_undescribed() || self.only_text.as_deref().is_some()
    }

    /// The part of an observation that counts: all of it if the definition does not describe the result; if that is one
    /// text, its contents, should they be JSON or CSV.
    pub(crate) fn usable<'o>(&self, observed: Option<&'o Observed>) -> Option<&'o Observed> {
        let tells = |observed: &Observed, key: &str| {
            let text = observed.schema.as_ref().and_then(|schema| schema.get("properties")?.get(key));
            text.is_some_and(|text| text.get("contentMediaType").is_some())
        };
        observed.filter(|observed| {
            self.is_undescribed() || self.only_text.as_deref().is_some_and(|key| tells(observed, key))
        })
    }

    fn is_undescribed(&self) -> bool {
        matches!(self.result(), "Any" | "dict[str, Any]")
    }

    /// The result in a few words for a line of a listing: an object by its fields, as a class's name says nothing
    /// without the stub: `{orders: [{id, total}], next_page?}`; anything else as its Python type.
    pub fn result_of(&self, observed: &Observed) -> Option<String> {
        let observed = self.usable(Some(observed)).filter(|observed| observed.schema.is_some())?;
        let raw = self.definition.tree();
        let shape = self.shape(&raw, Some(observed));
        let mut outline = String::new();
        push_outline(&mut outline, &shape.result, &shape.named, 2);
        match outline.is_empty() {
            true => (shape.result != Ty::Any).then(|| Python::new(&shape.named).ty(&shape.result)),
            false => Some(outline),
        }
    }
}

/// Appends the fields of an object, or of the objects of a list, down to `depth` objects; nothing for another type.
fn push_outline(out: &mut String, ty: &Ty, named: &[Named<'_>], depth: usize) {
    match ty {
        Ty::List(item) => {
            let start = out.len();
            out.push('[');
            push_outline(out, item, named, depth);
            match out.len() - start {
                1 => out.truncate(start),
                _ => out.push(']'),
            }
        }
        Ty::Named(id) if depth > 0 => {
            let Body::Class { fields, .. } = &named[*id].body else { return };
            out.push('{');
            for (at, field) in fields.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                if out.len() > MAX_OUTLINE {
                    out.push('…');
                    break;
                }
                out.push_str(&if is_plain(field.wire) { field.wire.into() } else { comment_name(field.wire) });
                out.push_str(if field.required { "" } else { "?" });
                let end = out.len();
                out.push_str(": ");
                push_outline(out, &field.ty, named, depth - 1);
                if out.len() == end + 2 {
                    out.truncate(end);
                }
            }
            out.push('}');
        }
        _ => {}
    }
}

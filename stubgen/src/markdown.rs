//! Full documentation of a tool in Markdown.

use minijinja::context;
use serde_json::Value;

use crate::observed::Observed;
use crate::python::Python;
use crate::schema::{Body, Field, Named, Shape, literal};
use crate::templates;
use crate::text::{self, Language};
use crate::tool::{MAX_DESCRIPTIONS, OVERRIDE, ToolStub, param_idents};

/// Result section for a tool without answers so far: the cheapest way to its type.
const UNOBSERVED: &str = "Not observed yet: after the first call, this file and the stub have the type.";
/// The same for a tool that only reads.
const UNOBSERVED_READ: &str =
    "Not observed yet: a script that returns one answer shows it, and then this file and the stub have the type.";

/// The documentation of a tool with the definition `raw`, and an observation of the result.
pub(crate) fn document(stub: &ToolStub, raw: &Value, observed: Option<&Observed>) -> String {
    let shape = stub.shape(raw, observed);
    let mut python = Python::new(&shape.named);
    let mut letters = MAX_DESCRIPTIONS;
    let params = params(&shape, &param_idents(&shape), &mut python, &mut letters);
    let types: Vec<_> = shape
        .named
        .iter()
        .map(|ty| context! { name => ty.name.as_str(), lines => named(ty, &mut python, &mut letters) })
        .collect();
    let result = match (observed, raw.get("outputSchema")) {
        (Some(Observed { schema: None, .. }), _) if stub.annotations.read_only == Some(true) => {
            UNOBSERVED_READ.to_owned()
        }
        (Some(Observed { schema: None, .. }), _) => UNOBSERVED.to_owned(),
        (Some(observed), _) => {
            format!("{}, {}.", code(&python.ty(&shape.result)), observed.words(stub.annotations))
        }
        (None, Some(_)) => code(&python.ty(&shape.result)),
        (None, None) => "Not described: JSON if the tool answers with JSON, else text.".to_owned(),
    };
    let wire = (stub.name != stub.ident).then(|| code(&text::comment_name(&stub.name)));
    templates::render(
        templates::MD,
        context! {
            path => format!("{}.{}", stub.server, stub.ident),
            description => quotation(raw.get("description").and_then(Value::as_str).unwrap_or("")),
            overridden => raw.get("_meta").is_some_and(|meta| meta.get(OVERRIDE).is_some()),
            wire,
            params,
            types,
            result,
            hints => stub.annotations.words(),
            notes => shape.notes,
            digest => stub.digest.as_str(),
        },
    )
}

/// One list entry per parameter.
fn params(shape: &Shape<'_>, idents: &[String], python: &mut Python<'_>, letters: &mut usize) -> Vec<String> {
    let mut entries: Vec<String> = shape
        .params
        .iter()
        .zip(idents)
        .map(|(field, ident)| {
            let mut entry = entry(field, ident, python, letters);
            if ident != field.wire {
                entry.push_str(&format!(" Wire name: {}.", code(&text::comment_name(field.wire))));
            }
            entry
        })
        .collect();
    if let Some(extra) = &shape.extra {
        entries.push(format!("- any other argument: {}", code(&python.ty(extra))));
    }
    entries
}

/// Fields of a named type, or its alias.
fn named(named: &Named<'_>, python: &mut Python<'_>, letters: &mut usize) -> Vec<String> {
    match &named.body {
        Body::Open => Vec::new(),
        Body::Alias(ty) => vec![code(&python.ty(ty))],
        Body::Class { fields, extra } => {
            let mut entries: Vec<String> =
                fields.iter().map(|field| entry(field, &text::one_line(field.wire), python, letters)).collect();
            if let Some(extra) = extra {
                entries.push(format!("- any other key: {}", code(&python.ty(extra))));
            }
            entries
        }
    }
}

fn entry(field: &Field<'_>, name: &str, python: &mut Python<'_>, letters: &mut usize) -> String {
    let mut out = format!("- {}: {}", code(name), code(&python.ty(&field.ty)));
    if field.required {
        out.push_str(", required");
    }
    if let Some(default) = field.default() {
        match literal(default, Language::Python) {
            Some(default) => out.push_str(&format!(", default {}", code(&default))),
            None => out.push_str(", default in the raw schema"),
        }
    }
    for constraint in field.constraints() {
        match constraint.strip_prefix("matches ") {
            Some(pattern) => out.push_str(&format!(", matches {}", code(pattern))),
            None => out.push_str(&format!(", {constraint}")),
        }
    }
    if let Some(contents) = field.contents(|ty| python.ty(ty)) {
        out.push_str(&format!(", {}", code(&contents)));
    }
    out.push('.');
    if let Some(description) = field.described(letters) {
        out.push(' ');
        out.push_str(&description);
    }
    let examples: Vec<String> =
        field.examples().into_iter().filter_map(|value| literal(value, Language::Python)).map(|e| code(&e)).collect();
    if !examples.is_empty() {
        out.push_str(&format!(" Examples: {}.", examples.join(", ")));
    }
    out
}

/// A code span that its content cannot end.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Hostile text as a quotation: none of its lines can pass for ours.
fn quotation(text: &str) -> String {
    let lines = text::many_lines(text);
    let quoted: Vec<String> =
        lines.iter().map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") }).collect();
    quoted.join("\n")
}

//! Describes and classifies the difference between a reviewed tool and its current definition.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use stubgen::{Param, ServerDef, ToolStub};

use crate::manifest::wording;

/// Class of a change, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Class {
    /// Working scripts may fail.
    Breaking,
    /// The tool's annotations claim more effects than when it was reviewed.
    AnnotationRisk,
    /// The tool accepts or promises more than before.
    Widening,
    /// Only descriptions changed.
    TextOnly,
}

impl Class {
    /// Name in output.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Breaking => "breaking",
            Self::AnnotationRisk => "annotation-risk",
            Self::Widening => "widening",
            Self::TextOnly => "text-only",
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    /// Class.
    pub(super) class: Class,
    /// Description.
    pub(super) what: String,
}

/// Differences between two definitions of a tool, worst first; empty when they are the same.
pub(super) fn between(before: &Value, after: &Value) -> Vec<Finding> {
    let mut findings = BTreeSet::new();
    let mut find = |class, what: String| {
        findings.insert(Finding { class, what });
    };
    if let (Some(old), Some(new)) = (stub(before), stub(after)) {
        params(&old, &new, &mut find);
        result(before, after, &mut find);
        annotations(&old, &new, &mut find);
        texts(before, after, &mut find);
        let same_schema = bare(before.get("inputSchema")) == bare(after.get("inputSchema"));
        if !same_schema && findings.iter().all(|finding| finding.class == Class::TextOnly) {
            let what = "constraints inside the parameters changed; see the diff".to_owned();
            findings.insert(Finding { class: Class::Breaking, what });
        }
    }
    if findings.is_empty() && stubgen::canonical_json(before) != stubgen::canonical_json(after) {
        findings.insert(Finding { class: Class::TextOnly, what: "other fields of the definition changed".to_owned() });
    }
    findings.into_iter().collect()
}

/// Differences between the prompts, resources and instructions of a server.
pub(super) fn between_offers(before: &Value, after: &Value) -> Vec<Finding> {
    let mut findings = BTreeSet::new();
    let list = |file: &Value, key: &str, id: &str| -> BTreeMap<String, Value> {
        let offers = file.get(key).and_then(Value::as_array).into_iter().flatten();
        offers.filter_map(|offer| Some((offer.get(id)?.as_str()?.to_owned(), offer.clone()))).collect()
    };
    for (key, id, what) in [
        ("prompts", "name", "prompt"),
        ("resources", "uri", "resource"),
        ("resourceTemplates", "uriTemplate", "resource template"),
    ] {
        let (old, new) = (list(before, key, id), list(after, key, id));
        for (name, offer) in &new {
            let (class, how) = match old.get(name) {
                None => (Class::Widening, "is new"),
                Some(known) if known == offer => continue,
                Some(known) if wording::is_same_but_words(known, offer) => (Class::TextOnly, "has other words"),
                Some(_) => (Class::Breaking, "changed"),
            };
            findings.insert(Finding { class, what: format!("{what} `{name}` {how}") });
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            findings.insert(Finding { class: Class::Breaking, what: format!("{what} `{name}` is gone") });
        }
    }
    if before.get("instructions") != after.get("instructions") {
        findings.insert(Finding { class: Class::TextOnly, what: "the server's instructions changed".to_owned() });
    }
    findings.into_iter().collect()
}

fn stub(definition: &Value) -> Option<ToolStub> {
    let server = ServerDef { name: "server".to_owned(), tools: vec![definition.clone()], ..ServerDef::default() };
    stubgen::generate(&server, "server").tools.into_iter().next()
}

fn params(old: &ToolStub, new: &ToolStub, find: &mut impl FnMut(Class, String)) {
    for param in &new.params {
        let Param { wire, ty, required, .. } = param;
        match (old.params.iter().find(|before| before.wire == *wire), required) {
            (None, true) => find(Class::Breaking, format!("new required parameter `{wire}: {ty}`")),
            (None, false) => find(Class::Widening, format!("new optional parameter `{wire}: {ty}`")),
            (Some(before), _) => changed_param(before, param, find),
        }
    }
    for gone in old.params.iter().filter(|before| new.params.iter().all(|param| param.wire != before.wire)) {
        find(Class::Breaking, format!("parameter `{}` is gone", gone.wire));
    }
}

fn changed_param(before: &Param, after: &Param, find: &mut impl FnMut(Class, String)) {
    let name = &after.wire;
    match (before.required, after.required) {
        (false, true) => find(Class::Breaking, format!("parameter `{name}` became required")),
        (true, false) => find(Class::Widening, format!("parameter `{name}` became optional")),
        _ => {}
    }
    if before.ty != after.ty {
        let class = if accepts_all(&after.ty, &before.ty) { Class::Widening } else { Class::Breaking };
        find(class, format!("parameter `{name}`: `{}` became `{}`", before.ty, after.ty));
    }
    if before.description != after.description {
        find(Class::TextOnly, format!("the description of `{name}` changed"));
    }
}

/// True if a type, in a stub's syntax, accepts every value of another. Compares only unions and literals; otherwise
/// false.
fn accepts_all(wide: &str, narrow: &str) -> bool {
    let wide = members(wide);
    wide.contains("Any")
        || members(narrow).iter().all(|member| wide.contains(member) || (is_text(member) && wide.contains("str")))
}

fn is_text(member: &str) -> bool {
    member.starts_with("Literal[\"")
}

/// Members of a union; `Literal["a", "b"]` counts as two.
fn members(ty: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in split(ty, '|') {
        match part.strip_prefix("Literal[").and_then(|rest| rest.strip_suffix(']')) {
            Some(values) => found.extend(split(values, ',').into_iter().map(|value| format!("Literal[{value}]"))),
            None => drop(found.insert(part)),
        }
    }
    found
}

/// Splits at `separator` outside brackets and quotes.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut part, mut depth, mut quoted, mut escaped) = (Vec::new(), String::new(), 0_usize, false, false);
    for c in text.chars() {
        match c {
            '"' if !escaped => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if c == separator && depth == 0 && !quoted {
            parts.push(std::mem::take(&mut part).trim().to_owned());
        } else {
            part.push(c);
        }
    }
    parts.push(part.trim().to_owned());
    parts
}

fn result(before: &Value, after: &Value, find: &mut impl FnMut(Class, String)) {
    match (before.get("outputSchema"), after.get("outputSchema")) {
        (None, Some(_)) => find(Class::Widening, "the shape of the result is now declared".to_owned()),
        (Some(_), None) => find(Class::Breaking, "the shape of the result is no longer declared".to_owned()),
        (old, new) if bare(old) != bare(new) => {
            find(Class::Breaking, "the shape of the result changed; see the diff".to_owned());
        }
        _ => {}
    }
}

fn annotations(old: &ToolStub, new: &ToolStub, find: &mut impl FnMut(Class, String)) {
    let (old, new) = (old.annotations, new.annotations);
    // Name, before, after, and the least harmful value.
    let hints = [
        ("readOnlyHint", old.read_only, new.read_only, true),
        ("destructiveHint", old.destructive, new.destructive, false),
        ("idempotentHint", old.idempotent, new.idempotent, true),
        ("openWorldHint", old.open_world, new.open_world, false),
    ];
    for (name, before, after, harmless) in hints {
        if before == after {
            continue;
        }
        let shown = |hint: Option<bool>| hint.map_or("not given".to_owned(), |hint| hint.to_string());
        let class = if before == Some(harmless) { Class::AnnotationRisk } else { Class::TextOnly };
        // A first annotation as harmful is no change of behaviour, but the tool was reviewed as unknown.
        let class = if before.is_none() && after == Some(!harmless) { Class::AnnotationRisk } else { class };
        find(class, format!("{name}: {} → {}", shown(before), shown(after)));
    }
}

fn texts(before: &Value, after: &Value, find: &mut impl FnMut(Class, String)) {
    for key in ["title", "description"] {
        if before.get(key) != after.get(key) {
            find(Class::TextOnly, format!("its {key} changed"));
        }
    }
}

/// A schema without descriptions, in canonical form.
fn bare(schema: Option<&Value>) -> String {
    schema.map(|schema| stubgen::canonical_json(&without_words(schema, false))).unwrap_or_default()
}

/// `is_map`: the keys of `schema` are names, as below `properties`, not keywords.
fn without_words(schema: &Value, is_map: bool) -> Value {
    const WORDS: &[&str] = &["title", "description", "examples", "$comment"];
    const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];
    match schema {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, _)| is_map || !WORDS.contains(&key.as_str()));
            let inner = |key: &str| !is_map && MAPS.contains(&key);
            Value::Object(kept.map(|(key, value)| (key.clone(), without_words(value, inner(key)))).collect())
        }
        Value::Array(items) => items.iter().map(|item| without_words(item, false)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_told_in_words_and_classed() {
        let tool = |properties: Value, required: Value, annotations: Value| json!({"name": "t", "inputSchema": {"type": "object", "properties": properties, "required": required}, "annotations": annotations});
        let base = tool(
            json!({"a": {"type": "string"}, "s": {"enum": ["x", "y"]}}),
            json!(["a"]),
            json!({"readOnlyHint": true}),
        );
        let cases = [
            (
                tool(
                    json!({"a": {"type": "string"}, "s": {"enum": ["x", "y"]}, "cc": {"type": "array", "items": {"type": "string"}}}),
                    json!(["a", "cc"]),
                    json!({"readOnlyHint": true}),
                ),
                "breaking: new required parameter `cc: list[str]`",
            ),
            (
                tool(
                    json!({"a": {"type": "string"}, "s": {"enum": ["x", "y", "z"]}}),
                    json!(["a"]),
                    json!({"readOnlyHint": true}),
                ),
                "widening: parameter `s`",
            ),
            (
                tool(
                    json!({"a": {"type": "string"}, "s": {"enum": ["x"]}}),
                    json!(["a"]),
                    json!({"readOnlyHint": true}),
                ),
                "breaking: parameter `s`",
            ),
            (
                tool(json!({"a": {"type": "string"}}), json!(["a"]), json!({"readOnlyHint": true})),
                "breaking: parameter `s` is gone",
            ),
            (
                tool(
                    json!({"a": {"type": "string"}, "s": {"enum": ["x", "y"]}}),
                    json!([]),
                    json!({"readOnlyHint": true}),
                ),
                "widening: parameter `a` became optional",
            ),
            (
                tool(
                    json!({"a": {"type": "string"}, "s": {"enum": ["x", "y"]}}),
                    json!(["a"]),
                    json!({"readOnlyHint": false}),
                ),
                "annotation-risk: readOnlyHint: true → false",
            ),
            (
                tool(
                    json!({"a": {"type": "string", "maxLength": 9}, "s": {"enum": ["x", "y"]}}),
                    json!(["a"]),
                    json!({"readOnlyHint": true}),
                ),
                "breaking: constraints",
            ),
            (
                tool(
                    json!({"a": {"type": "string", "description": "new"}, "s": {"enum": ["x", "y"]}}),
                    json!(["a"]),
                    json!({"readOnlyHint": true}),
                ),
                "text-only: the description of `a` changed",
            ),
        ];
        for (after, expected) in cases {
            let found: Vec<String> =
                between(&base, &after).iter().map(|f| format!("{}: {}", f.class.as_str(), f.what)).collect();
            assert!(found.first().is_some_and(|first| first.starts_with(expected)), "{expected}: {found:?}");
            assert_eq!(found.len(), 1, "{expected}: {found:?}");
        }
        assert!(between(&base, &base).is_empty());
    }
}

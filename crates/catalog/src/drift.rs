//! Describes and classifies the difference between a reviewed tool and its current definition, for `forgefs stubs` and the
//! console.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use stubgen::{Param, ServerDef, ToolStub};

use crate::findings::Item;
use crate::manifest::{offers_of, wording};

/// Class of a change, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The tool's annotations make it look more harmless than when it was reviewed: less is asked for its calls.
    #[serde(rename = "annotation-risk")]
    LooksHarmless,
    /// Working scripts may fail, or call something else.
    Breaking,
    /// The tool's annotations claim more effects than when it was reviewed, or claim what was the default.
    AnnotationRisk,
    /// The tool accepts, promises or carries more than before.
    Widening,
    /// Only titles and descriptions changed, as `pin_accept = ["text"]` understands it.
    TextOnly,
}

/// A hint, the value that looks harmless, and what follows it. MCP takes a hint that is not given for the other value.
const HINTS: &[(&str, bool, &str)] = &[
    ("readOnlyHint", true, "approval, plans, dry runs and repeated calls follow it"),
    ("destructiveHint", false, "people and models judge the tool by it"),
    ("idempotentHint", true, "failed and resumed calls are repeated by it"),
    ("openWorldHint", false, "people and models judge the tool by it"),
];

impl Class {
    /// Name in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LooksHarmless | Self::AnnotationRisk => "annotation-risk",
            Self::Breaking => "breaking",
            Self::Widening => "widening",
            Self::TextOnly => "text-only",
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// Class.
    pub class: Class,
    /// Description.
    pub what: String,
}

/// Differences between two definitions of a tool, worst first; empty when they are the same.
pub fn between(before: &Value, after: &Value) -> Vec<Difference> {
    let is_held = |key: &String| matches!(key.as_str(), "name" | "quarantined" | "reviewed");
    if after.get("quarantined").is_some() && after.as_object().is_some_and(|file| file.keys().all(is_held)) {
        let what = "it is held now, and nothing of it is known; `forgefs doctor` tells why".to_owned();
        return vec![Difference { class: Class::AnnotationRisk, what }];
    }
    let mut findings = BTreeSet::new();
    let mut find = |class, what: String| {
        findings.insert(Difference { class, what });
    };
    if let (Some(old), Some(new)) = (stub(before), stub(after)) {
        let told = params(&old, &new, &mut find);
        constraints(before, after, &told, &mut find);
        result(before, after, &mut find);
        annotations(before, after, &mut find);
        others("", before, after, &["inputSchema", "outputSchema", "annotations"], &mut find);
    }
    if findings.is_empty() && stubgen::canonical_json(before) != stubgen::canonical_json(after) {
        let (class, what) = match wording::is_same_but_words(before, after) {
            true => (Class::TextOnly, "words inside the schemas changed"),
            false => (Class::Breaking, "the definition changed; see the diff"),
        };
        findings.insert(Difference { class, what: what.to_owned() });
    }
    findings.into_iter().collect()
}

/// Differences between two definitions of an item, worst first.
pub fn of_item(item: &Item, before: &Value, after: &Value) -> Vec<Difference> {
    let (class, what) = match item {
        Item::Tool(_) => return between(before, after),
        _ if before.is_string() || wording::is_same_but_words(before, after) => (Class::TextOnly, "it has other words"),
        _ => (Class::Breaking, "it changed beyond its words"),
    };
    vec![Difference { class, what: what.to_owned() }]
}

/// Differences between the prompts, resources and instructions of a server.
pub fn between_offers(before: &Value, after: &Value) -> Vec<Difference> {
    let (old, new) = (offers_of(before), offers_of(after));
    let difference = |item: &Item| {
        let (class, how) = match (old.get(item), new.get(item)) {
            (one, other) if one == other => return None,
            _ if *item == Item::Instructions => (Class::TextOnly, "changed"),
            (None, _) => (Class::Widening, "is new"),
            (_, None) => (Class::Breaking, "is gone"),
            (Some(one), Some(other)) if wording::is_same_but_words(one, other) => (Class::TextOnly, "has other words"),
            _ => (Class::Breaking, "changed"),
        };
        let what = match (item, item.parts()) {
            (Item::Instructions, _) => format!("the server's instructions {how}"),
            (Item::Template(uri), _) => format!("resource template `{uri}` {how}"),
            (_, (kind, name)) => format!("{kind} `{}` {how}", name.unwrap_or_default()),
        };
        Some(Difference { class, what })
    };
    let all: BTreeSet<Difference> = old.keys().chain(new.keys()).filter_map(difference).collect();
    all.into_iter().collect()
}

fn stub(definition: &Value) -> Option<ToolStub> {
    let server = ServerDef { name: "server".to_owned(), tools: vec![definition.clone()], ..ServerDef::default() };
    stubgen::generate(server, "server").tools.into_iter().next()
}

/// Tells of parameters; those that differ beyond their description.
fn params<'a>(old: &'a ToolStub, new: &'a ToolStub, find: &mut impl FnMut(Class, String)) -> BTreeSet<&'a str> {
    let mut told = BTreeSet::new();
    let (before, after) = (old.members(), new.members());
    for param in new.params() {
        let Param { wire, ty, required, .. } = param;
        match (old.params().iter().find(|before| before.wire == *wire), required) {
            (None, true) => find(Class::Breaking, format!("new required parameter `{wire}: {ty}`")),
            (None, false) => find(Class::Widening, format!("new optional parameter `{wire}: {ty}`")),
            (Some(known), _) => {
                let is_wider = || accepts_all(after.get(wire), before.get(wire));
                changed_param(known, param, is_wider, find);
                if known.ty == *ty && known.required == *required {
                    continue;
                }
            }
        }
        told.insert(wire.as_str());
    }
    for gone in old.params().iter().filter(|before| new.params().iter().all(|param| param.wire != before.wire)) {
        find(Class::Breaking, format!("parameter `{}` is gone", gone.wire));
        told.insert(&gone.wire);
    }
    told
}

/// Tells of what no type shows: constraints, defaults and examples of parameters that were not `told` of.
fn constraints(before: &Value, after: &Value, told: &BTreeSet<&str>, find: &mut impl FnMut(Class, String)) {
    let rest = |definition: &Value| {
        let mut schema = definition.get("inputSchema").cloned().unwrap_or_default();
        let Some(fields) = schema.as_object_mut() else { return schema };
        fields.remove("required");
        let mut refers = false;
        if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !told.contains(name.as_str()));
            refers = properties.values().any(|property| property.to_string().contains("\"$ref\""));
        }
        fields.retain(|key, value| match key.as_str() {
            "properties" => *value != json!({}),
            // Types to which only the others refer were told with them.
            "$defs" | "definitions" => told.is_empty() || refers,
            _ => true,
        });
        schema
    };
    if !wording::is_same_but_words(&rest(before), &rest(after)) {
        find(Class::Breaking, "constraints inside the parameters changed; see the diff".to_owned());
    }
}

fn changed_param(before: &Param, after: &Param, is_wider: impl FnOnce() -> bool, find: &mut impl FnMut(Class, String)) {
    let name = &after.wire;
    match (before.required, after.required) {
        (false, true) => find(Class::Breaking, format!("parameter `{name}` became required")),
        (true, false) => find(Class::Widening, format!("parameter `{name}` became optional")),
        _ => {}
    }
    if before.ty != after.ty {
        let class = if is_wider() { Class::Widening } else { Class::Breaking };
        find(class, format!("parameter `{name}`: `{}` became `{}`", before.ty, after.ty));
    }
    if before.description != after.description {
        find(Class::TextOnly, format!("the description of `{name}` changed"));
    }
}

/// True if a type of these members accepts every value of another. Compares only unions and literals; otherwise false.
fn accepts_all(wide: Option<&BTreeSet<String>>, narrow: Option<&BTreeSet<String>>) -> bool {
    let (Some(wide), Some(narrow)) = (wide, narrow) else { return false };
    let is_text = |member: &str| member.starts_with("Literal[\"") || member.starts_with("Literal['");
    let is_in = |member: &String| wide.contains(member) || (is_text(member) && wide.contains("str"));
    wide.contains("Any") || narrow.iter().all(is_in)
}

fn result(before: &Value, after: &Value, find: &mut impl FnMut(Class, String)) {
    match (before.get("outputSchema"), after.get("outputSchema")) {
        (None, Some(_)) => find(Class::Widening, "the shape of the result is now declared".to_owned()),
        (Some(_), None) => find(Class::Breaking, "the shape of the result is no longer declared".to_owned()),
        (Some(old), Some(new)) if !wording::is_same_but_words(old, new) => {
            find(Class::Breaking, "the shape of the result changed; see the diff".to_owned());
        }
        _ => {}
    }
}

fn annotations(before: &Value, after: &Value, find: &mut impl FnMut(Class, String)) {
    let of = |definition: &Value| definition.get("annotations").cloned().unwrap_or_default();
    let (before, after) = (of(before), of(after));
    let shown = |hint: Option<&Value>| match hint {
        None => "not given".to_owned(),
        Some(Value::Bool(hint)) => hint.to_string(),
        Some(_) => "not a boolean".to_owned(),
    };
    for (name, harmless, follows) in HINTS {
        let (old, new) = (before.get(name), after.get(name));
        if old == new {
            continue;
        }
        let looks_harmless = |hint: Option<&Value>| hint.and_then(Value::as_bool) == Some(*harmless);
        let what = format!("{name}: {} → {}", shown(old), shown(new));
        match !looks_harmless(old) && looks_harmless(new) {
            true => find(Class::LooksHarmless, format!("{what}, it looks more harmless: {follows}")),
            false => find(Class::AnnotationRisk, what),
        }
    }
    let hints: Vec<&str> = HINTS.iter().map(|(name, ..)| *name).collect();
    others("annotations.", &before, &after, &hints, find);
}

/// Tells of fields beside those that are `told` of.
fn others(prefix: &str, before: &Value, after: &Value, told: &[&str], find: &mut impl FnMut(Class, String)) {
    let keys = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let all: BTreeSet<String> = [keys(before), keys(after)].into_iter().flat_map(|keys: Vec<String>| keys).collect();
    for key in all.iter().filter(|key| !told.contains(&key.as_str()) && before.get(key) != after.get(key)) {
        let alone = |value: &Value| value.get(key).map(|field| json!({ key: field })).unwrap_or_else(|| json!({}));
        let class = match key.as_str() {
            // Policy knows tools by their names.
            "name" if prefix.is_empty() => Class::Breaking,
            _ if wording::is_same_but_words(&alone(before), &alone(after)) => Class::TextOnly,
            _ => Class::Widening,
        };
        find(class, format!("its {prefix}{key} changed"));
    }
}

#[cfg(test)]
mod tests {
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
                    json!({"a": {"type": "string"}, "s": {"enum": ["\"a, b", "x", "y"]}}),
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

//! Tells the wording of a definition from what calls depend on.

use serde_json::Value;
use stubgen::KeywordForm;

/// Keywords of wording.
const WORDS: &[&str] = &["title", "description"];
/// Keywords whose content is a value: a field `description` of it is no wording.
const VALUES: &[&str] = &["default", "const", "enum", "examples", "example", "_meta", "icons", "required"];

/// True if two definitions differ in titles and descriptions alone.
pub fn is_same_but_words(one: &Value, other: &Value) -> bool {
    bare(one) == bare(other)
}

/// Digest of a definition without titles and descriptions.
pub fn bare_digest(definition: &Value) -> String {
    stubgen::digest(bare(definition))
}

/// A definition without titles and descriptions, as canonical JSON.
fn bare(definition: &Value) -> String {
    stubgen::canonical_json(&without_words(definition, false))
}

/// `has_names`: the keys are names, not keywords.
fn without_words(part: &Value, has_names: bool) -> Value {
    match part {
        Value::Object(fields) => {
            let is_kept = |key: &str, value: &Value| has_names || !WORDS.contains(&key) || !value.is_string();
            let kept = fields.iter().filter(|(key, value)| is_kept(key, value));
            let is_map = |key: &str| matches!(KeywordForm::latest(key), Some(KeywordForm::Named | KeywordForm::Needed));
            let bare = |key: &str, value: &Value| match has_names {
                false if VALUES.contains(&key) => value.clone(),
                _ => without_words(value, !has_names && is_map(key)),
            };
            Value::Object(kept.map(|(key, value)| (key.clone(), bare(key, value))).collect())
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
    fn only_titles_and_descriptions_are_wording() {
        let base = json!({"name": "t", "title": "T", "description": "d", "annotations": {"title": "A", "readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"description": {"type": "string", "description": "x"}, "a": {"default": {"title": "v"}}}}});
        let change = |pointer: &str, value: Value| {
            let mut changed = base.clone();
            *changed.pointer_mut(pointer).expect("there") = value;
            changed
        };
        let same = [
            change("/title", json!("U")),
            change("/description", json!("e")),
            change("/annotations/title", json!("B")),
            change("/inputSchema/properties/description/description", json!("y")),
        ];
        let other = [
            change("/name", json!("u")),
            change("/annotations/readOnlyHint", json!(false)),
            change("/inputSchema/properties/description", json!("gone")),
            change("/inputSchema/properties/description/type", json!("integer")),
            change("/inputSchema/properties/a/default/title", json!("w")),
            change("/description", json!({"not": "text"})),
        ];
        assert!(same.iter().all(|changed| is_same_but_words(&base, changed)));
        for changed in other {
            assert!(!is_same_but_words(&base, &changed), "{changed}");
        }
    }
}

//! Answers whose value is elsewhere than scripts look for it: in a text of JSON, behind a handle, among texts.

use super::look::Look;
use super::source::Source;

/// The way for the answer `name`, by its shape.
pub(super) fn way(look: &Look<'_>, name: &str, shape: &str) -> Option<String> {
    let reads = |parts: &[&str]| parts.iter().any(|part| look.line.contains(part));
    if shape.contains("handle: ") && reads(&[".data", ".blob", "\"data\"", "\"blob\""]) {
        let handle = if look.script.is_javascript { ".handle" } else { "[\"handle\"]" };
        return Some(format!("pass `x{handle}` as a whole argument: {}", super::SENT));
    }
    if shape.contains("], texts and dicts") && look.message.contains("expected `int`, actual `string") {
        return Some(format!("`{name}` has texts and dicts: `[x for x in {name} if type(x) == \"dict\"]`"));
    }
    decoded(look, name, key_of_json(shape)?)
}

/// The way for an expression that has one of several answers, if each has its value in a text of JSON.
pub(super) fn of_any(look: &Look<'_>, expression: &str) -> Option<String> {
    let is_read = match look.script.is_javascript {
        true => look.message.starts_with("SyntaxError: "),
        false => look.message.starts_with("Key ") || look.message.contains("`text` doesn't match"),
    };
    let mut keys = look.script.answers.iter().map(|(_, shape)| key_of_json(shape));
    let key = keys.next().flatten().filter(|key| is_read && keys.all(|other| other == Some(key)))?;
    decoded(look, Source::chains(expression).first()?.text, key)
}

/// The key of an answer that has one text, of JSON.
fn key_of_json(shape: &str) -> Option<&str> {
    let (key, text) = shape.strip_prefix('{')?.strip_suffix('}')?.split_once(": ")?;
    matches!(text, "\"{…}\"" | "\"[…]\"").then_some(key)
}

fn decoded(look: &Look<'_>, owner: &str, key: &str) -> Option<String> {
    let (part, decode) = match look.script.is_javascript {
        true => (format!(".{key}"), "JSON.parse"),
        false => (format!("[\"{key}\"]"), "json.decode"),
    };
    let argument = format!("({owner}{part})");
    (!look.line.contains(&argument)).then(|| format!("JSON is in `{part}`: `{decode}{argument}`"))
}

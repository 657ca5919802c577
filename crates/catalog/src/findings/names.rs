//! Names of parameters and tools.

use serde_json::Value;

use super::rules::{self, Rule, Severity};
use super::{fold, phrases, values};
use crate::people::words;
use base::text::head;
use redact::names_credential;

/// Most names of a definition that tell its field, and most bytes of one.
const MAX_NAMES: usize = 200;
const MAX_NAME: usize = 128;
/// Lists of verbs of tools.
const READS: &str = "names reads";
const DESTROYS: &str = "names destroys";
const WRITES: &str = "names writes";

/// A finding about the name of a parameter with this schema, of a tool in these fields.
pub(super) fn parameter(name: &str, schema: &Value, fields: &[&Rule]) -> Option<(&'static Rule, Severity)> {
    if values::is_secret_path(&name.to_ascii_lowercase()) {
        return Some((&rules::READS, Severity::Error));
    }
    if let Some(rule) = asks_for(name).filter(|_| takes_text(name, schema)) {
        let described = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let own_use = phrases::list("names own-use");
        // The tool makes or keeps it.
        let has_own_use = words(described).iter().any(|word| own_use.contains(&&**word));
        let is_usual = has_own_use || fields.contains(&rule);
        return Some((rule, if is_usual { Severity::Note } else { Severity::Warning }));
    }
    names_credential(name).then_some((&rules::CREDENTIAL, Severity::Note))
}

/// The rule of a name that asks for the conversation or for secrets. A longer name with one of those in it says the same.
fn asks_for(name: &str) -> Option<&'static Rule> {
    let letters: String = fold::plain(name).chars().filter(char::is_ascii_alphanumeric).collect();
    let is = |list: &str| {
        phrases::list(list).iter().any(|name| letters == *name || (name.len() > 10 && letters.contains(name)))
    };
    match () {
        () if is("names asks-for-conversation") => Some(&rules::CONVERSATION),
        () if is("names asks-for-secrets") => Some(&rules::SECRETS),
        () => None,
    }
}

/// False for numbers, switches, choices, and what only names or counts something.
fn takes_text(name: &str, schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let last = words(name).pop().unwrap_or_default();
    !matches!(kind, "boolean" | "integer" | "number")
        && schema.get("enum").is_none()
        && !phrases::list("names handle").contains(&&*last)
}

/// Words of the names of a definition: its own, and those of its parameters. Names that ask for something tell no field.
pub(super) fn of_definition(definition: &Value) -> Vec<String> {
    let own = ["name", "title"].into_iter().filter_map(|key| definition.get(key)?.as_str());
    let parameters = definition.pointer("/inputSchema/properties").and_then(Value::as_object);
    let parameters = parameters.into_iter().flatten().map(|(name, _)| name.as_str());
    let arguments = definition.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let arguments = arguments.filter_map(|argument| argument.get("name")?.as_str());
    let names = own.chain(parameters).chain(arguments).take(MAX_NAMES).map(|name| head(name, MAX_NAME));
    names.filter(|name| asks_for(name).is_none()).flat_map(words).collect()
}

/// A finding about the annotations of a tool.
pub(super) fn annotations(name: &str, definition: &Value) -> Option<(&'static Rule, Severity)> {
    let hint = |key: &str| definition.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool);
    let is_harmless = hint("readOnlyHint") == Some(true) || hint("destructiveHint") == Some(false);
    // The first verb is what it does: `preview_delete` deletes nothing.
    let is_in = |verb: &str, list: &&str| phrases::list(list).contains(&verb);
    let of = |word: String| [READS, DESTROYS, WRITES].into_iter().find(|list| is_in(&word, list));
    let verb = words(name).into_iter().find_map(of);
    match hint("readOnlyHint") {
        Some(true) if verb == Some(DESTROYS) => Some((&rules::HINT, Severity::Warning)),
        Some(true) if verb == Some(WRITES) => Some((&rules::HINT, Severity::Note)),
        _ if is_harmless && verb == Some(DESTROYS) => Some((&rules::HINT, Severity::Note)),
        _ => None,
    }
}

//! Reads of answers whose type is declared.

use serde_json::{Map, Value};
use wire::{How, Language, Read};

use crate::broker::sample::SIGNS;
use base::error::{Error, ErrorCode, did_you_mean, nearest};
use base::text::head;
use state::shapes::leads_on;

/// Most references that lead to a schema.
const MAX_REFERENCES: usize = 8;
/// Most keys in a message.
const MAX_KEYS: usize = 12;
/// Most bytes of such a key.
const MAX_KEY: usize = 80;
/// Keys that every answer may have: content beside structured content.
const OWN: &[&str] = &["_content"];
/// Properties that every object of JavaScript has.
const INHERITED: &[&str] = &["constructor", "hasOwnProperty", "isPrototypeOf", "toString", "toLocaleString", "valueOf"];
/// Properties of texts in JavaScript.
#[rustfmt::skip]
const OF_TEXTS: &[&str] = &[
    "at", "charAt", "charCodeAt", "codePointAt", "concat", "endsWith", "includes", "indexOf", "lastIndexOf", "length",
    "localeCompare", "match", "matchAll", "normalize", "padEnd", "padStart", "repeat", "replace", "replaceAll", "search",
    "slice", "split", "startsWith", "substr", "substring", "toLowerCase", "toUpperCase", "trim", "trimEnd", "trimStart",
];
/// Methods of dicts.
const OF_DICTS: &[&str] = &["clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];
/// Keywords beside which `properties` does not say everything.
const COMPOSED: &[&str] =
    &["anyOf", "oneOf", "allOf", "if", "not", "patternProperties", "$dynamicRef", "$recursiveRef", "dependentSchemas"];

/// The error of a read that has no `await`.
pub(super) fn of_promise(label: &str, read: &Read) -> Error {
    let what = match read.path.last().map(String::as_str) {
        Some("[]") | None => "its items are".to_owned(),
        Some(key) => format!("`.{key}` is"),
    };
    Error::new(ErrorCode::ScriptError, format!("{label}(…) is a promise, and {what} read of it"))
        .hint(format!("wait for the answer first: `(await {label}(…))`"))
}

/// The doubt about a key of an answer that was text, or had other keys, whenever it was seen.
pub(super) fn unseen(label: &str, root: &Value, read: &Read, language: Language) -> Option<Error> {
    if let Some(error) = inside(label, root, read, language) {
        return Some(error);
    }
    if read.how != How::Key || read.path.last()? == "[]" {
        return None;
    }
    lacking(label, root, read, language).or_else(|| of_text(label, root, read, language))
}

/// The doubt about a key that answers lack, and that their schema does not name.
pub(super) fn lacking(label: &str, root: &Value, read: &Read, language: Language) -> Option<Error> {
    let (last, before) = read.path.split_last()?;
    let schema = followed(root, before).filter(|schema| schema.get("type") == Some(&Value::from("object")))?;
    let place = place(label, before);
    let properties = schema.get("properties")?.as_object()?;
    let are_counts = || properties.values().all(|value| matches!(value["type"].as_str(), Some("integer" | "number")));
    let is_map = schema.get("additionalProperties").is_some_and(|values| values.get("type").is_some())
        || read.how == How::Guarded && are_counts();
    // One that is not there says no less.
    let is_sign = read.how == How::Guarded && SIGNS.contains(&last.as_str());
    if properties.contains_key(last) || is_map || is_sign || [OWN, INHERITED].concat().contains(&last.as_str()) {
        return None;
    }
    let keys = keys(properties);
    let near = did_you_mean(&nearest(last, properties.keys().map(String::as_str)));
    if near.is_none() && leads_on(last) {
        return None;
    }
    let message = format!("no answer of {place} had `{last}` so far: it was {{{}}}", keys.join(", "));
    let is_json = |schema: &Value| schema.get("contentMediaType") == Some(&Value::from("application/json"));
    let hint = match (keys.as_slice(), language) {
        ([key], _) if !properties.get(*key).is_some_and(is_json) => None,
        ([key], Language::Javascript) => Some(format!("JSON is in `.{key}`: `JSON.parse(r.{key})`")),
        ([key], Language::Starlark) => Some(format!("JSON is in `[\"{key}\"]`: `json.decode(r[\"{key}\"])`")),
        _ => None,
    };
    let hint = hint.or(near).unwrap_or_else(|| "`cat` the tool's stub".to_owned());
    Some(Error::new(ErrorCode::ScriptError, message).hint(hint))
}

/// The doubt about a key that an answer lacks and the JSON in one of its texts has, as in `{result: "{…}"}`: what decides by
/// it goes the wrong way in silence.
pub(super) fn inside(label: &str, root: &Value, read: &Read, language: Language) -> Option<Error> {
    let (last, before) = read.path.split_last()?;
    let properties = followed(root, before)?.get("properties")?.as_object()?;
    let has = |schema: &Value| {
        schema.get("contentMediaType").is_some_and(|kind| kind == "application/json")
            && schema.pointer("/contentSchema/properties").is_some_and(|of| of.get(last).is_some())
    };
    let (text, _) = properties.iter().find(|(_, schema)| has(schema)).filter(|_| !properties.contains_key(last))?;
    let text = head(text, MAX_KEY);
    let place = place(label, before);
    let fix = match language {
        Language::Javascript => format!("`JSON.parse(answer.{text}).{last}`"),
        Language::Starlark => format!("`json.decode(answer[\"{text}\"])[\"{last}\"]`"),
    };
    let message = format!("no answer of {place} had `{last}` so far: the JSON in its text `{text}` has it");
    Some(Error::new(ErrorCode::ScriptError, message).hint(fix))
}

/// The doubt about a key that is read of a text, or of a character of one.
pub(super) fn of_text(label: &str, root: &Value, read: &Read, language: Language) -> Option<Error> {
    let (last, before) = read.path.split_last()?;
    // Items of a list have a schema of their own, the characters of a text have none.
    let whole = before.iter().rposition(|step| step != "[]").map_or(0, |at| at + 1);
    let ends = [before.len(), whole];
    let (of, schema) = ends.into_iter().find_map(|end| Some((&before[..end], followed(root, &before[..end])?)))?;
    let is_own = OF_TEXTS.contains(&last.as_str()) || INHERITED.contains(&last.as_str());
    if read.how != How::Key || schema.get("type")? != "string" || last == "[]" || is_own {
        return None;
    }
    let instead = match language {
        Language::Javascript => {
            format!("`{}.{last}` of it is undefined", "[…]".repeat(before.len() - of.len()))
        }
        Language::Starlark => "a text has no keys".to_owned(),
    };
    let message = format!("every answer of {} so far was text: {instead}", place(label, of));
    let contents = |keyword: &str| schema.get(keyword).and_then(Value::as_str).unwrap_or_default();
    let named = schema.get("contentSchema").and_then(|schema| schema.get("required")?.as_array());
    let is_named = named.is_some_and(|names| names.iter().any(|name| name == last));
    let fix = match (language, contents("contentMediaType"), contents("format")) {
        (Language::Javascript, _, "lines") if is_named => {
            format!("its line `{last}: …` is `/^{last}: (.*)$/m.exec(text)[1]`")
        }
        (Language::Starlark, _, "lines") if is_named => {
            format!("its line `{last}: …` is `[l for l in text.splitlines() if l.startswith(\"{last}: \")][0]`")
        }
        (Language::Javascript, "application/json", _) => "it is JSON: `JSON.parse(text)`".to_owned(),
        (Language::Starlark, "application/json", _) => "it is JSON: `json.decode(text)`".to_owned(),
        (_, "text/x-python", _) => "it is as Python prints it: `forge.literal(text)`".to_owned(),
        (Language::Javascript, _, "lines") | (Language::Javascript, "text/csv", _) => {
            "take it from the lines: `text.split(\"\\n\")`".to_owned()
        }
        (Language::Starlark, _, "lines") | (Language::Starlark, "text/csv", _) => {
            "take it from the lines: `text.splitlines()`".to_owned()
        }
        _ => "use the answer itself: it is the text".to_owned(),
    };
    Some(Error::new(ErrorCode::ScriptError, message).hint(fix))
}

/// The error of a key that the declared type of an answer does not have.
pub(super) fn absent(label: &str, root: &Value, read: &Read) -> Option<Error> {
    let (last, before) = read.path.split_last()?;
    let schema = followed(root, before)?;
    if schema.get("type")? != "object" || OWN.contains(&last.as_str()) {
        return None;
    }
    let place = place(label, before);
    if read.how == How::Attribute {
        let known = schema.get("properties").and_then(Value::as_object);
        let keys = known.filter(|keys| !keys.is_empty() && !keys.contains_key(last)).map(|keys| {
            let keys: Vec<&str> = keys.keys().map(|key| head(key, MAX_KEY)).take(MAX_KEYS).collect();
            format!("read a key by `[\"key\"]`: its keys are {}", keys.join(", "))
        });
        return (!OF_DICTS.contains(&last.as_str())).then(|| {
            Error::new(
                ErrorCode::ScriptError,
                format!("an answer of {place} is a dict, which has no attribute `{last}`"),
            )
            .hint(keys.unwrap_or_else(|| format!("its keys are read by `[\"{last}\"]` or `.get(\"{last}\")`")))
        });
    }
    let properties = schema.get("properties")?.as_object()?;
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    if !is_closed || properties.contains_key(last) || INHERITED.contains(&last.as_str()) {
        return None;
    }
    let message = format!("the answer of {place} has no `{last}`: it is {{{}}}", keys(properties).join(", "));
    let fix = did_you_mean(&nearest(last, properties.keys().map(String::as_str)));
    Some(Error::new(ErrorCode::ScriptError, message).hint(fix.unwrap_or_else(|| "`cat` the tool's stub".to_owned())))
}

/// The schema of a part of an answer, if it is a plain one.
fn followed<'s>(root: &'s Value, path: &[String]) -> Option<&'s Value> {
    path.iter().try_fold(plain(root, root)?, |schema, step| plain(root, part(schema, step)?))
}

/// Keys of an object, in messages.
fn keys(properties: &Map<String, Value>) -> Vec<&str> {
    let more = (properties.len() > MAX_KEYS).then_some("…");
    properties.keys().map(|key| head(key, MAX_KEY)).take(MAX_KEYS).chain(more).collect()
}

/// A part of an answer, in messages.
fn place(label: &str, path: &[String]) -> String {
    path.iter().fold(label.to_owned(), |place, step| match step.as_str() {
        "[]" => format!("{place}[…]"),
        key => format!("{place}.{key}"),
    })
}

/// The schema that a chain of references leads to, if it is a plain one.
pub(in crate::broker) fn plain<'s>(root: &'s Value, mut schema: &'s Value) -> Option<&'s Value> {
    for _ in 0..MAX_REFERENCES {
        if let Some(one) = not_null(schema) {
            schema = one;
            continue;
        }
        if COMPOSED.iter().any(|keyword| schema.get(keyword).is_some()) {
            return None;
        }
        match schema.get("$ref") {
            None => return Some(schema),
            Some(reference) => schema = root.pointer(reference.as_str()?.strip_prefix('#')?)?,
        }
    }
    None
}

/// The schema of what may be null otherwise: `anyOf` with one more branch.
fn not_null(schema: &Value) -> Option<&Value> {
    let fields = schema.as_object().filter(|fields| !fields.contains_key("properties"))?;
    let branches = fields.get("anyOf").or_else(|| fields.get("oneOf"))?.as_array()?;
    let mut others = branches.iter().filter(|branch| branch.get("type") != Some(&Value::from("null")));
    others.next().filter(|_| branches.len() == 2 && others.next().is_none())
}

fn part<'s>(schema: &'s Value, step: &str) -> Option<&'s Value> {
    match step {
        "[]" if schema.get("type")? == "array" => schema.get("items"),
        "[]" => None,
        key if schema.get("type")? == "object" => schema.get("properties")?.get(key),
        _ => None,
    }
}

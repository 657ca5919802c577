//! Redacts JSON by its structure.
//!
//! A name labels its value, also through lists and objects. `{"name": …, "value": …}` is a name and a value too, and so
//! are two neighbours in a list of headers or arguments. Strings that are JSON are parsed. Content declared as binary
//! is decoded, and passes only if it is not text.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::scan::{Found, rank, replace};
use super::{Classes, Redaction, Surface, encoded, named, names, owned, pairs, personal, pieces, scan, text};
use crate::secret;

/// Levels of JSON inside JSON strings.
const LEVELS: u8 = 4;
/// Nesting below which strings are not parsed as JSON: each level takes stack.
const DEEPEST: u16 = 64;
/// Most bytes of a string that is parsed as JSON; a larger one is plain text.
const NESTED: usize = 1 << 20;
/// Most bytes of JSON that is always parsed; larger JSON only if an anchor occurs in it.
const SMALL: usize = 1 << 20;
/// Shortest number that can be a secret.
const SHORTEST_NUMBER: usize = 6;
/// Most characters of base64 that may be a token.
const SHORT: usize = 512;

/// Like [`text`], for every string in a value, keys included, and for fields with secret names.
pub fn json<'w>(redaction: impl Into<Redaction<'w>>, value: Value) -> Value {
    let walk = Walk::new(redaction.into(), LEVELS);
    match walk.finds_nothing(&value) {
        true => value,
        false => walk.value(value, None),
    }
}

/// Like [`json`], for JSON text; other text is redacted as text.
pub fn json_text<'t, 'w>(redaction: impl Into<Redaction<'w>>, plain: &'t str) -> Cow<'t, str> {
    let redaction = redaction.into();
    let classes = redaction.surface.classes();
    let is_looked_for = classes.credentials || classes.personal;
    let speaks = || plain.contains('\\') || scan::has_anchor(plain) || personal::has_number(plain);
    // A match in JSON text may be in escaped form, which a placeholder must not stand for.
    if redaction.writer.is_none() && !(is_looked_for && (plain.len() <= SMALL || speaks())) {
        let rough = text(redaction.surface, plain);
        if matches!(rough, Cow::Borrowed(_)) {
            return rough;
        }
    }
    let Ok(value) = serde_json::from_str(plain) else { return text(redaction.surface, plain) };
    let walk = Walk::new(redaction, LEVELS);
    let clean = walk.value(value, None);
    match walk.changed.get() {
        true => Cow::Owned(clean.to_string()),
        false => Cow::Borrowed(plain),
    }
}

/// Label of a value, from the names above it.
#[derive(Clone, Copy)]
struct Label {
    label: &'static str,
    /// True if it comes from the value's own name, not from a list or object around it.
    is_own: bool,
}

struct Walk<'w> {
    redaction: Redaction<'w>,
    classes: Classes,
    levels: u8,
    depth: Cell<u16>,
    /// True once anything was redacted.
    changed: Cell<bool>,
}

impl<'w> Walk<'w> {
    fn new(redaction: Redaction<'w>, levels: u8) -> Self {
        Self { redaction, classes: redaction.surface.classes(), levels, depth: Cell::new(0), changed: Cell::new(false) }
    }

    /// True if only configured values and placeholders are searched, and none occurs: most answers to scripts stay as
    /// they are.
    fn finds_nothing(&self, value: &Value) -> bool {
        if self.classes != Classes::default() || self.redaction.writer.is_some() {
            return false;
        }
        let is_clean = |plain: &str| matches!(text(self.redaction, plain), Cow::Borrowed(_));
        match value {
            Value::String(plain) => is_clean(plain),
            Value::Number(number) => number.as_str().len() < SHORTEST_NUMBER || is_clean(number.as_str()),
            Value::Array(items) => items.iter().all(|item| self.finds_nothing(item)),
            // Content declared as binary is decoded.
            Value::Object(object) if object.contains_key("mimeType") => false,
            Value::Object(object) => object.iter().all(|(key, value)| is_clean(key) && self.finds_nothing(value)),
            Value::Null | Value::Bool(_) => true,
        }
    }

    fn value(&self, value: Value, label: Option<Label>) -> Value {
        self.depth.update(|depth| depth + 1);
        let clean = match value {
            Value::String(plain) => Value::String(self.string(plain, label)),
            Value::Array(items) => self.array(items, label),
            Value::Object(object) => self.object(object, label),
            Value::Number(ref number) => self.number(number.as_str(), label).map_or(value, Value::String),
            Value::Null | Value::Bool(_) => value,
        };
        self.depth.update(|depth| depth - 1);
        clean
    }

    fn string(&self, plain: String, label: Option<Label>) -> String {
        let plain = self.nested(&plain).unwrap_or(plain);
        if let Cow::Owned(clean) = text(self.redaction, &plain) {
            self.changed.set(true);
            return clean;
        }
        match label.filter(|label| is_secret(&plain, *label)) {
            Some(Label { label, .. }) => self.replaced(label, &plain),
            None => plain,
        }
    }

    fn replaced(&self, label: &'static str, plain: &str) -> String {
        self.changed.set(true);
        replace(plain, vec![Found { from: 0, to: plain.len(), label, rank: rank::NAMED }], self.redaction.writer)
            .into_owned()
    }

    /// Redacts a JSON string; `None` if it is unchanged.
    fn nested(&self, plain: &str) -> Option<String> {
        let is_json = plain.trim_start().starts_with(['{', '[']) && plain.len() <= NESTED;
        let is_near = self.depth.get() < DEEPEST && self.classes.credentials;
        let levels = self.levels.checked_sub(1).filter(|_| is_json && is_near)?;
        scan::spent(plain.len());
        let walk = Walk { depth: self.depth.clone(), ..Walk::new(self.redaction, levels) };
        let clean = walk.value(serde_json::from_str(plain).ok()?, None);
        walk.changed.get().then(|| {
            self.changed.set(true);
            clean.to_string()
        })
    }

    /// Replacement of a number, if it is a secret.
    fn number(&self, plain: &str, label: Option<Label>) -> Option<String> {
        if plain.len() < SHORTEST_NUMBER {
            return None;
        }
        let is_configured = !secret::places(plain).is_empty();
        let digits = plain.bytes().all(|byte| byte.is_ascii_digit());
        let least = |label: &Label| if label.label == "password" { 6 } else { 12 };
        let label = match label.filter(|label| digits && self.classes.credentials && plain.len() >= least(label)) {
            _ if is_configured => "",
            Some(Label { label, .. }) => label,
            None if self.classes.personal && personal::is_card_number(plain) => "card",
            None => return None,
        };
        self.changed.set(true);
        let name = self.redaction.writer.filter(|_| !label.is_empty());
        let name = name.and_then(|writer| writer.name_of_number(label, plain));
        let found = || Found { from: 0, to: plain.len(), label, rank: rank::NAMED };
        Some(name.unwrap_or_else(|| replace(plain, vec![found()], None).into_owned()))
    }

    fn array(&self, mut items: Vec<Value>, label: Option<Label>) -> Value {
        if self.classes.credentials && pieces::take_out(self.redaction.writer, &mut items) {
            self.changed.set(true);
        }
        let mut before: Option<String> = None;
        let walk = |item: Value| {
            let name = match &item {
                Value::String(text) if text.len() <= 64 => Some(text.clone()),
                _ => None,
            };
            let named = before.as_deref().filter(|_| self.classes.credentials).and_then(neighbour);
            let said = named.filter(|said| is_neighbour(&item, *said));
            before = name;
            self.value(item, said.or(label.map(|label| Label { is_own: false, ..label })))
        };
        Value::Array(items.into_iter().map(walk).collect())
    }

    fn object(&self, object: Map<String, Value>, label: Option<Label>) -> Value {
        let pair = if self.classes.credentials { named_pair(&object) } else { None };
        let mime = object.get("mimeType").and_then(Value::as_str).map(str::to_owned);
        let is_kept = object.get("kind").and_then(Value::as_str) == Some("Secret");
        let is_schema = is_schema(&object);
        let mut clean = Map::with_capacity(object.len());
        let mut same: HashMap<String, usize> = HashMap::new();
        for (key, value) in object {
            let own = if self.classes.credentials { self.own_label(&key, &value) } else { None };
            let said = match pair {
                Some(Pair::Named(label)) if pairs::is_value(&key) => Some(Label { label, is_own: true }),
                _ => own,
            };
            let inherited = || label.filter(|_| !is_schema && names::may_inherit(&key));
            let said = said.or_else(inherited);
            let value = match value {
                Value::String(plain) if mime.is_some() && matches!(&*key, "data" | "blob") => {
                    Value::String(self.media(plain, said))
                }
                Value::Object(inner) if is_kept && matches!(&*key, "data" | "stringData") => self.all_secret(inner),
                value
                    if (pairs::is_cookie(&key) || (pair == Some(Pair::Cookie) && pairs::is_value(&key)))
                        && self.classes.credentials =>
                {
                    self.value(self.cookies(value), said)
                }
                value => self.value(value, said),
            };
            let name = owned(self.redaction, key.clone());
            let name = match name == key {
                true => name,
                false => {
                    self.changed.set(true);
                    // Two keys with the same redacted form stay two keys.
                    let number = same.entry(name.clone()).or_default();
                    *number += 1;
                    if *number > 1 { format!("{name} ({number})") } else { name }
                }
            };
            clean.insert(name, value);
        }
        Value::Object(clean)
    }

    /// Label of a value by its name; a plural labels the items of a list or object.
    fn own_label(&self, key: &str, value: &Value) -> Option<Label> {
        let of = |name: &str| names::label(name).map(|label| Label { label, is_own: true });
        match value {
            Value::Array(_) | Value::Object(_) => {
                let plural = key.strip_suffix('s').or_else(|| key.strip_suffix('S'));
                of(key).or_else(|| plural.and_then(of)).map(|label| Label { is_own: false, ..label })
            }
            _ => of(key),
        }
    }

    /// Redacts content declared as binary. Base64 passes if it is not text and too long for a token; anything else is
    /// redacted as text.
    fn media(&self, plain: String, label: Option<Label>) -> String {
        match encoded::decode(&plain).map(String::from_utf8) {
            None => self.string(plain, label),
            Some(Err(_)) if plain.len() <= SHORT || plain.contains(['-', '_']) => self.string(plain, label),
            Some(Ok(inner)) => {
                let clean = self.string(inner.clone(), label);
                if clean == inner { plain } else { encoded::encode(clean.as_bytes()) }
            }
            Some(Err(_)) => {
                let clean = owned(Surface::Script.into(), plain.clone());
                self.changed.set(self.changed.get() || clean != plain);
                clean
            }
        }
    }

    /// Redacts the data of a Kubernetes Secret.
    fn all_secret(&self, object: Map<String, Value>) -> Value {
        let hide = |(key, value): (String, Value)| match value {
            Value::String(plain) if !plain.is_empty() && self.classes.credentials => {
                (key, Value::String(self.replaced("secret", &plain)))
            }
            value => (key, self.value(value, None)),
        };
        Value::Object(object.into_iter().map(hide).collect())
    }

    fn cookies(&self, value: Value) -> Value {
        match value {
            Value::String(plain) => match pairs::cookies(&plain, 0, plain.len()) {
                Some(found) => {
                    self.changed.set(true);
                    Value::String(replace(&plain, vec![found], self.redaction.writer).into_owned())
                }
                None => Value::String(plain),
            },
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.cookies(item)).collect()),
            value => value,
        }
    }
}

/// True if a text under a name is a secret. Under the name of a list around it, it must look more like one.
fn is_secret(plain: &str, Label { label, is_own }: Label) -> bool {
    let is_opaque = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./+=~:|".contains(&byte);
    named::is_secret(plain, label, true)
        && (is_own || label != "token" || (plain.len() >= 16 && plain.bytes().all(is_opaque)))
}

/// Label for the next item of a list: `["--password", "…"]`, `["X-Api-Key", "…"]`.
fn neighbour(name: &str) -> Option<Label> {
    // A single word is no name.
    let is_name =
        name.contains(['-', '_']) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let label = names::label(name.trim_start_matches('-')).filter(|_| is_name)?;
    Some(Label { label, is_own: name.starts_with('-') })
}

/// True if an item can be the value that the one before it names: in a list of names it is the next name.
fn is_neighbour(item: &Value, said: Label) -> bool {
    item.as_str().is_some_and(|text| said.is_own || (text.len() >= 12 && !named::is_slug(text)))
}

/// Label of an object with a name and a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pair {
    Named(&'static str),
    Cookie,
}

fn named_pair(object: &Map<String, Value>) -> Option<Pair> {
    let names = object.iter().filter(|(key, _)| pairs::is_name(key)).filter_map(|(_, name)| name.as_str());
    let mut said = names.filter_map(|name| match pairs::is_cookie(name) {
        true => Some(Pair::Cookie),
        false => names::label(name.trim_start_matches('-')).map(Pair::Named),
    });
    said.next().filter(|_| object.keys().any(|key| pairs::is_value(key)))
}

/// True if an object describes values, as a JSON Schema does, and holds none.
fn is_schema(object: &Map<String, Value>) -> bool {
    let says =
        ["properties", "description", "minLength", "maxLength", "format", "pattern", "enum", "items", "required"];
    object.contains_key("type") && says.iter().any(|key| object.contains_key(*key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Results;
    use super::*;

    #[test]
    fn keys_that_read_alike_afterwards_are_all_kept() {
        let keys = ["a1B2c3D4e5F6", "f6E5d4C3b2A1", "q1W2e3R4t5Y6"].map(|part| format!("ghp_{}", part.repeat(3)));
        let object: Map<String, Value> =
            keys.iter().zip(1..).map(|(key, number)| (key.clone(), json!(number))).collect();
        let clean = json(Surface::Answer(Results::Secrets), Value::Object(object));
        let expected =
            json!({"[redacted:github-token]": 1, "[redacted:github-token] (2)": 2, "[redacted:github-token] (3)": 3});
        assert_eq!(clean, expected);
    }

    #[test]
    fn what_has_nothing_in_it_stays_byte_for_byte() {
        for plain in ["{ \"a\" : 1.50,\n \"b\": [\"x\\u0041\", 1e400] }", "[1,2,3]", "\"{ \\\"a\\\": 1 }\"", "no JSON"]
        {
            assert!(matches!(json_text(Surface::Answer(Results::SecretsAndPii), plain), Cow::Borrowed(_)), "{plain}");
        }
    }
}

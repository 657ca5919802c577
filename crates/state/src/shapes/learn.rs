//! Learns the shape of one value, in bounded work.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::text::Text;
use super::{Field, MAX_DEPTH, Object, Shape, joined, keys, values};
use base::json;

/// Most values looked at, about a millisecond.
const MAX_VALUES: usize = 10_000;
/// Most items looked at of one list, spread over it.
const MAX_ITEMS: usize = 256;
/// Most bytes of texts parsed as JSON.
const MAX_JSON: usize = 64 << 10;
/// Memory that its values may take.
const MAX_TREE: usize = 8 << 20;
/// Missing keys that cost as much as a value.
const KEYS_A_VALUE: usize = 8;
/// Most texts of arguments.
const MAX_GIVEN: usize = 256;
/// Most values of an argument's list, with their bytes, and most lines that are JSON.
const MAX_LISTED: usize = 64;
const MAX_LISTED_BYTES: usize = 2 << 10;
const MAX_LINES: usize = 64;

/// Texts that the caller gave as arguments: an object with only such keys answers by what was asked for. And the values
/// that the definition lists for arguments.
#[derive(Debug, Default)]
pub struct Given<'d>(BTreeSet<String>, Option<&'d Value>);

impl<'d> Given<'d> {
    /// Texts among the arguments of a call of a tool with this definition.
    #[must_use]
    pub fn of(arguments: &Map<String, Value>, definition: &'d Value) -> Self {
        let mut given = Self(BTreeSet::new(), Some(definition));
        arguments.values().take(MAX_GIVEN).for_each(|argument| given.add(argument));
        given
    }

    fn add(&mut self, value: &Value) {
        match value {
            _ if self.0.len() >= MAX_GIVEN => {}
            Value::String(text) if text.len() <= 2 * MAX_GIVEN => drop(self.0.insert(text.clone())),
            Value::Array(items) => items.iter().take(MAX_GIVEN).for_each(|item| self.add(item)),
            Value::Object(map) => map.values().take(MAX_GIVEN).for_each(|item| self.add(item)),
            _ => {}
        }
    }
}

/// Values that a definition lists for an argument.
pub(super) fn listed<'d>(definition: &'d Value, argument: &str) -> Option<&'d [Value]> {
    let values = definition.get("inputSchema")?.get("properties")?.get(argument)?.get("enum")?.as_array()?;
    let bytes = values.iter().try_fold(0, |sum, value| Some(sum + value.as_str()?.len()))?;
    (values.len() <= MAX_LISTED && bytes <= MAX_LISTED_BYTES).then_some(values)
}

impl Shape {
    /// The shape of an answer to a call with these arguments.
    #[must_use]
    pub fn of(value: &Value, given: &Given<'_>) -> Self {
        let mut shape = Self::default();
        let mut learner = Learner { left: MAX_VALUES, json: MAX_JSON, given };
        learner.see(&mut shape, value, MAX_DEPTH);
        shape.bound(MAX_DEPTH);
        shape
    }
}

struct Learner<'a> {
    /// Values left to look at.
    left: usize,
    /// Bytes left to parse.
    json: usize,
    given: &'a Given<'a>,
}

impl Learner<'_> {
    /// Extends a shape by a value; `depth` more levels are looked at.
    fn see(&mut self, shape: &mut Shape, value: &Value, depth: usize) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        match value {
            _ if shape.any => {}
            Value::Null => shape.null = true,
            Value::Bool(_) => shape.bool = true,
            Value::Number(number) if number.as_str().bytes().all(|b| b.is_ascii_digit() || b == b'-') => {
                shape.int = true;
                shape.long |= !wire::json::is_held(number.as_str());
            }
            Value::Number(_) => shape.float = true,
            Value::String(text) => self.text(shape, text, depth),
            Value::Array(items) => {
                let into = shape.list.get_or_insert_default();
                if depth == 0 {
                    **into = Shape::anything();
                }
                let stride = items.len().div_ceil(MAX_ITEMS).max(1);
                items.iter().step_by(stride).for_each(|item| self.see(into, item, depth.saturating_sub(1)));
            }
            Value::Object(map) => self.object(&mut shape.object, map, depth),
        }
    }

    fn text(&mut self, shape: &mut Shape, text: &str, depth: usize) {
        // Nothing can be added to that.
        if shape.text == Some(Text::Any) {
            return;
        }
        let kind = match self.json.checked_sub(text.len()) {
            _ if !json::is_composed(text) => Text::of(text, &self.given.0),
            None => Text::Unknown,
            Some(left) => {
                self.json = left;
                match json::parse::<Value>(text.as_bytes(), MAX_TREE) {
                    Ok(value) => {
                        let mut inner = Shape::default();
                        self.see(&mut inner, &value, depth.saturating_sub(1));
                        Text::Json(Box::new(inner))
                    }
                    Err(_) => {
                        let lines = self.lines(text, depth).map(|inner| Text::JsonLines(Box::new(inner)));
                        let python = || self.python(text, depth).map(|inner| Text::Python(Box::new(inner)));
                        lines.or_else(python).unwrap_or_else(|| Text::of(text, &self.given.0))
                    }
                }
            }
        };
        add(shape, kind);
    }

    /// The shape of a list or dict as Python prints it.
    fn python(&mut self, text: &str, depth: usize) -> Option<Shape> {
        let value = json::parse::<Value>(wire::python::as_json(text)?.as_bytes(), MAX_TREE).ok()?;
        let mut inner = Shape::default();
        self.see(&mut inner, &value, depth.saturating_sub(1));
        Some(inner)
    }

    /// The shape of several lines that are JSON each.
    fn lines(&mut self, text: &str, depth: usize) -> Option<Shape> {
        let (mut inner, mut count) = (Shape::default(), 0);
        for line in text.lines().filter(|line| !line.trim().is_empty()).take(MAX_LINES) {
            let value = json::is_composed(line).then(|| json::parse::<Value>(line.as_bytes(), MAX_TREE).ok())??;
            self.see(&mut inner, &value, depth.saturating_sub(1));
            count += 1;
        }
        (count > 1).then_some(inner)
    }

    fn object(&mut self, object: &mut Option<Object>, map: &Map<String, Value>, depth: usize) {
        let below = depth.saturating_sub(1);
        let is_asked_for = || !map.is_empty() && map.keys().all(|key| self.given.0.contains(key));
        let is_map = |known: &BTreeMap<String, Field>| {
            map.len() > keys::MAX_KEYS
                || map.keys().any(|key| !known.contains_key(key) && keys::is_data(key))
                || is_asked_for()
        };
        match object {
            _ if depth == 0 => *object = Some(Object::Map(Box::new(Shape::anything()))),
            None if is_map(&BTreeMap::new()) => *object = Some(Object::Map(Box::default())),
            None => {
                let field = |key: &String| (key.clone(), Field { optional: keys::leads_on(key), ..Field::default() });
                *object = Some(Object::Fields(map.keys().map(field).collect()));
            }
            Some(Object::Fields(fields)) if is_map(fields) => {
                *object = Some(Object::Map(Box::new(values(std::mem::take(fields)))));
            }
            Some(Object::Fields(fields)) => {
                let added = map.keys().filter(|key| !fields.contains_key(*key)).cloned().collect::<Vec<_>>();
                if fields.len() + added.len() > map.len() {
                    self.left = self.left.saturating_sub(fields.len() / KEYS_A_VALUE);
                    fields.iter_mut().for_each(|(key, field)| field.optional |= !map.contains_key(key));
                }
                fields.extend(added.into_iter().map(|key| (key, Field { optional: true, ..Field::default() })));
                if fields.len() > keys::MAX_KEYS {
                    *object = Some(Object::Map(Box::new(values(std::mem::take(fields)))));
                }
            }
            Some(Object::Map(_)) => {}
        }
        // Simple values first: a long list does not use up the work of its siblings.
        let is_simple = |value: &Value| !value.is_array() && !value.is_object();
        let ordered = map.iter().filter(|(_, value)| is_simple(value));
        let given = self.given;
        let is_listed = |key: &str, value: &Value| listed(given.1?, key).map(|all| all.contains(value));
        for (key, value) in ordered.chain(map.iter().filter(|(_, value)| !is_simple(value))) {
            match object {
                Some(Object::Fields(fields)) => match fields.get_mut(key) {
                    Some(field) if self.left > 0 && is_listed(key, value) == Some(true) => {
                        self.left -= 1;
                        add(&mut field.shape, Text::Listed);
                    }
                    Some(field) => self.see(&mut field.shape, value, below),
                    None => {}
                },
                Some(Object::Map(shape)) => self.see(shape, value, below),
                None => {}
            }
        }
    }
}

/// Adds a kind of text.
fn add(shape: &mut Shape, kind: Text) {
    shape.text = joined(shape.text.take(), Some(kind), Text::join);
}

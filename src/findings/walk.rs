//! Goes through definitions, and examines every text, name and value in them.

use serde_json::Value;

use super::place::{self, Finding, Item, Place};
use super::rules::{self, Rule, Severity};
use super::{MAX_FINDINGS, encoded, fold, hidden, names, phrases, values};
use crate::limits;
use crate::meter::Meter;

/// Deepest level that is examined.
const MAX_LEVELS: usize = 128;
/// Most findings of one definition.
const MAX_OF_ONE: usize = 20;
/// Keywords whose keys are names.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose content are values.
const FIXED: &[&str] = &["default", "const"];
const SHOWN: &[&str] = &["enum", "examples", "example"];

/// What is examined so far.
pub(super) struct Walk {
    pub(super) found: Vec<Finding>,
    /// Number of findings that are not in `found`.
    pub(super) more: usize,
    /// Bytes left of all definitions.
    left: usize,
    of_one: usize,
}

/// Role of a part of a definition.
#[derive(Clone, Copy)]
enum Role<'a> {
    /// A schema, or another object of keywords.
    Keywords,
    /// An object whose keys are names.
    Names,
    /// A value of the parameter `name`.
    Value { name: &'a str, kind: values::Kind },
}

impl Walk {
    /// A walk over at most `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self { found: Vec::new(), more: 0, left: bytes, of_one: 0 }
    }

    /// Examines a list of definitions, which `key` names.
    pub(super) fn list(&mut self, list: &[Value], key: &str, item: fn(String) -> Item) {
        for definition in list {
            let name = definition.get(key).and_then(Value::as_str).unwrap_or_default();
            self.definition(&item(place::name(name)), definition);
        }
    }

    /// Examines one definition.
    pub(super) fn definition(&mut self, item: &Item, definition: &Value) {
        let place = Place { item: item.clone(), pointer: String::new() };
        self.of_one = 0;
        if let (Item::Tool(_), Some(name)) = (item, definition.get("name").and_then(Value::as_str))
            && let Some((rule, severity)) = names::annotations(name, definition)
        {
            let place = Place { pointer: "/annotations".to_owned(), ..place.clone() };
            self.push(rule, severity, &place, name, 0);
        }
        let mut budget = limits::DEFINITION.max.min(self.left);
        let given = budget;
        if !self.part(&place, definition, "", Role::Keywords, 0, &mut budget) {
            self.push(&rules::UNREAD, Severity::Warning, &place, "", 0);
        }
        self.left -= given - budget;
    }

    /// Examines a text that is no definition.
    pub(super) fn prose(&mut self, item: &Item, text: &str) {
        let place = Place { item: item.clone(), pointer: String::new() };
        self.of_one = 0;
        let head = crate::text::head(text, limits::DEFINITION.max.min(self.left));
        self.text(&place, head);
        if head.len() < text.len() {
            self.push(&rules::UNREAD, Severity::Warning, &place, "", 0);
        }
        self.left -= head.len();
    }

    /// Examines a part; false if the budget ended before it.
    fn part(
        &mut self,
        place: &Place,
        part: &Value,
        name: &str,
        role: Role<'_>,
        level: usize,
        budget: &mut usize,
    ) -> bool {
        if level > MAX_LEVELS {
            return false;
        }
        let below = |key: &str| Place { item: place.item.clone(), pointer: place::step(&place.pointer, key) };
        match part {
            Value::String(text) => {
                let Some(left) = budget.checked_sub(text.len()) else { return false };
                *budget = left;
                self.text(place, text);
                if let Role::Value { name, kind } = role
                    && let Some((rule, severity)) = values::find(name, text, kind)
                {
                    self.push(rule, severity, place, text, 0);
                }
                true
            }
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                *budget = budget.saturating_sub(1);
                self.part(&below(&index.to_string()), item, name, role, level + 1, budget)
            }),
            Value::Object(fields) => fields.iter().all(|(key, value)| {
                let Some(left) = budget.checked_sub(key.len() + 1) else { return false };
                *budget = left;
                let (place, role, name) =
                    (below(key), role_of(role, name, key, value), self.named(&below(key), role, key, value, name));
                self.part(&place, value, name, role, level + 1, budget)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }

    /// Examines a key; returns the name of the parameter that its value belongs to.
    fn named<'a>(&mut self, place: &Place, role: Role<'_>, key: &'a str, schema: &Value, name: &'a str) -> &'a str {
        if let Role::Keywords = role
            && key.is_ascii()
            && key.len() <= 32
        {
            return name;
        }
        if let Role::Names = role
            && let Some((rule, severity)) = names::parameter(key, schema)
        {
            self.push(rule, severity, place, key, 0);
        }
        if !key.is_ascii() || key.len() > 32 {
            self.text(place, key);
        }
        if let Role::Names = role { key } else { name }
    }

    /// Examines a text.
    fn text(&mut self, place: &Place, text: &str) {
        for (rule, severity, at) in hidden::find(text) {
            self.push(rule, severity, place, text, at);
        }
        let folded = fold::fold(text);
        if folded.text.contains("curl") || folded.text.contains("wget") {
            let is_given = values::is_command(&folded.text);
            is_given.then(|| self.push(&rules::COMMAND, Severity::Warning, place, text, 0));
        }
        let (hits, done) = phrases::find(&folded, &Meter::new(steps(text)));
        for hit in hits {
            self.push(hit.rule, hit.severity, place, text, hit.at);
        }
        if done.is_err() {
            self.push(&rules::UNREAD, Severity::Warning, place, text, 0);
        }
        for (at, inner) in encoded::find(text) {
            let is_addressed = phrases::find(&fold::fold(&inner), &Meter::new(steps(&inner)))
                .0
                .iter()
                .any(|hit| hit.severity > Severity::Note);
            let severity = if is_addressed { Severity::Error } else { Severity::Warning };
            self.push(&rules::ENCODED, severity, place, text, at);
        }
    }

    fn push(&mut self, rule: &'static Rule, severity: Severity, place: &Place, text: &str, at: usize) {
        self.of_one += 1;
        // Notes never take the room of what is worse.
        let room = if severity == Severity::Note { MAX_FINDINGS / 2 } else { 4 * MAX_FINDINGS };
        if self.of_one > MAX_OF_ONE || self.found.len() >= room {
            self.more += 1;
        } else {
            self.found.push(Finding::new(rule, severity, place, text, at));
        }
    }
}

/// Steps for the phrases of a text.
fn steps(text: &str) -> u64 {
    limits::PHRASE_STEPS.of(text.len()) as u64
}

/// Role of the value of `key`.
fn role_of<'a>(role: Role<'a>, name: &'a str, key: &str, value: &Value) -> Role<'a> {
    match role {
        Role::Value { .. } => role,
        Role::Names => Role::Keywords,
        Role::Keywords if FIXED.contains(&key) => Role::Value { name, kind: values::Kind::Fixed },
        Role::Keywords if SHOWN.contains(&key) => {
            // A single choice is no choice.
            let is_single = key == "enum" && value.as_array().is_some_and(|choices| choices.len() == 1);
            let kind = if is_single { values::Kind::Fixed } else { values::Kind::Shown };
            Role::Value { name, kind }
        }
        Role::Keywords if MAPS.contains(&key) && value.is_object() => Role::Names,
        Role::Keywords => Role::Keywords,
    }
}

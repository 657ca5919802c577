//! Goes through definitions, and examines every text, name and value in them.

use serde_json::Value;
use stubgen::{At, KeywordForm};

use super::place::{self, Finding, Item, Place};
use super::rules::{self, Rule, Severity};
use super::{MAX_FINDINGS, encoded, fold, hidden, names, phrases, values};
use base::limits;
use base::meter::Meter;

/// Deepest level that is examined.
const MAX_LEVELS: usize = 128;
/// Longest key that is no text.
const MAX_KEYWORD: usize = 32;
/// Most findings of one definition, of each severity.
const MAX_OF_ONE: usize = 20;
/// Keywords whose content are values.
const FIXED: &[&str] = &["default", "const"];
const SHOWN: &[&str] = &["enum", "examples", "example"];

/// Texts examined so far.
pub(super) struct Walk {
    pub(super) found: Vec<Finding>,
    /// Number of findings that are not in `found`.
    pub(super) more: usize,
    /// Bytes left of all definitions.
    left: usize,
    item: Item,
    /// Findings of this definition, by severity.
    of_one: [usize; 3],
    /// Rules in whose field the definition is.
    fields: Vec<&'static Rule>,
    /// True within what a tool returns, which asks for nothing.
    is_output: bool,
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
        Self {
            found: Vec::new(),
            more: 0,
            left: bytes,
            item: Item::Answer,
            of_one: [0; 3],
            fields: Vec::new(),
            is_output: false,
        }
    }

    /// Examines a list of definitions, which `key` names.
    pub(super) fn list(&mut self, list: &[&Value], key: &str, item: fn(String) -> Item) {
        for definition in list {
            let name = definition.get(key).and_then(Value::as_str).unwrap_or_default();
            self.definition(&item(name.to_owned()).shown(), definition);
        }
    }

    /// Examines one definition.
    pub(super) fn definition(&mut self, item: &Item, definition: &Value) {
        self.begin(item);
        self.fields = phrases::fields(&names::of_definition(definition));
        if let (Item::Tool(_), Some(name)) = (item, definition.get("name").and_then(Value::as_str))
            && let Some((rule, severity)) = names::annotations(name, definition)
        {
            let at = At::ROOT.key("annotations");
            self.push(rule, severity, &at, name, 0);
        }
        let given = limits::DEFINITION.max.min(self.left);
        let mut budget = given;
        if !self.part(&At::ROOT, definition, "", Role::Keywords, 0, &mut budget) {
            self.push(&rules::UNREAD, Severity::Warning, &At::ROOT, "", 0);
        }
        self.left -= given - budget;
    }

    /// Examines a text that is no definition.
    pub(super) fn prose(&mut self, item: &Item, text: &str) {
        self.begin(item);
        let head = base::text::head(text, limits::DEFINITION.max.min(self.left));
        self.text(&At::ROOT, head);
        if head.len() < text.len() {
            self.push(&rules::UNREAD, Severity::Warning, &At::ROOT, "", 0);
        }
        self.left -= head.len();
    }

    fn begin(&mut self, item: &Item) {
        self.item = item.clone();
        self.of_one = [0; 3];
        self.fields.clear();
    }

    /// Examines a part; false if the budget ended before it.
    fn part(
        &mut self,
        at: &At<'_>,
        part: &Value,
        name: &str,
        role: Role<'_>,
        level: usize,
        budget: &mut usize,
    ) -> bool {
        if level > MAX_LEVELS {
            return false;
        }
        match part {
            Value::String(text) => {
                let Some(left) = budget.checked_sub(text.len()) else { return false };
                *budget = left;
                self.text(at, text);
                if let Role::Value { name, kind } = role
                    && let Some((rule, severity)) = values::find(name, text, kind, &self.fields)
                {
                    self.push(rule, severity, at, text, 0);
                }
                true
            }
            Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
                *budget = budget.saturating_sub(1);
                self.part(&at.index(index), item, name, role, level + 1, budget)
            }),
            Value::Object(fields) => fields.iter().all(|(key, value)| {
                let Some(left) = budget.checked_sub(key.len() + 1) else { return false };
                *budget = left;
                if level == 0 {
                    self.is_output = key == "outputSchema";
                }
                let at = at.key(key);
                let within = role_of(role, name, key, value);
                let name = self.named(&at, role, key, value, name);
                self.part(&at, value, name, within, level + 1, budget)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }

    /// Examines a key; returns the name of the parameter that its value belongs to.
    fn named<'a>(&mut self, at: &At<'_>, role: Role<'_>, key: &'a str, schema: &Value, name: &'a str) -> &'a str {
        let is_name = matches!(role, Role::Names);
        if is_name
            && !self.is_output
            && let Some((rule, severity)) = names::parameter(key, schema, &self.fields)
        {
            self.push(rule, severity, at, key, 0);
        }
        if !key.is_ascii() || key.len() > MAX_KEYWORD {
            self.text(at, key);
        }
        if is_name { key } else { name }
    }

    /// Examines a text.
    fn text(&mut self, at: &At<'_>, text: &str) {
        for (rule, severity, byte) in hidden::find(text) {
            self.push(rule, severity, at, text, byte);
        }
        let folded = fold::fold(text);
        if (folded.text.contains("curl") || folded.text.contains("wget")) && values::is_command(&folded.text) {
            let is_usual = self.fields.contains(&&rules::COMMAND);
            self.push(&rules::COMMAND, if is_usual { Severity::Note } else { Severity::Warning }, at, text, 0);
        }
        let (hits, done) = phrases::find(&folded, &self.fields, &Meter::new(steps(text)));
        for hit in hits {
            self.push(hit.rule, hit.severity, at, text, hit.at);
        }
        if done.is_err() {
            self.push(&rules::UNREAD, Severity::Warning, at, text, 0);
        }
        for (byte, inner) in encoded::find(text) {
            let (hits, _) = phrases::find(&fold::fold(&inner), &[], &Meter::new(steps(&inner)));
            let is_addressed = hits.iter().any(|hit| hit.severity > Severity::Note);
            let severity = if is_addressed { Severity::Error } else { Severity::Warning };
            self.push(&rules::ENCODED, severity, at, text, byte);
        }
    }

    fn push(&mut self, rule: &'static Rule, severity: Severity, at: &At<'_>, text: &str, byte: usize) {
        // What is less grave never takes the room of what is worse.
        let (at_hand, room) = match severity {
            Severity::Note => (&mut self.of_one[0], MAX_FINDINGS / 2),
            Severity::Warning => (&mut self.of_one[1], 4 * MAX_FINDINGS),
            Severity::Error => (&mut self.of_one[2], 8 * MAX_FINDINGS),
        };
        *at_hand += 1;
        if *at_hand > MAX_OF_ONE || self.found.len() >= room {
            self.more += 1;
        } else {
            let place = Place { item: self.item.clone(), pointer: pointer(at) };
            self.found.push(Finding::new(rule, severity, &place, text, byte));
        }
    }
}

/// JSON pointer to a part.
fn pointer(at: &At<'_>) -> String {
    let steps: Vec<_> = at.steps().collect();
    steps.iter().rev().fold(String::new(), |outer, key| place::step(&outer, key))
}

/// Steps for the phrases of a text.
fn steps(text: &str) -> u64 {
    let (each, besides) = limits::PHRASE_WORK;
    (each * text.len() + besides) as u64
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
        Role::Keywords if KeywordForm::latest(key) == Some(KeywordForm::Named) && value.is_object() => Role::Names,
        Role::Keywords => Role::Keywords,
    }
}

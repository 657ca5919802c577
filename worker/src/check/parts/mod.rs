//! Reads the parts of a script from which a function with parameters is made: the places of its literals in arguments of
//! tools, and of its value.

mod javascript;
mod starlark;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::Value;
use wire::{Form, Literal, MAX_PARTS, Parts};

pub(super) use javascript::parts as of_javascript;
pub(super) use starlark::parts as of_starlark;

/// Longest text of a name.
const MAX_NAME: usize = 200;

/// Parts in the making.
#[derive(Default)]
struct Draft {
    literals: Vec<(String, Literal)>,
    others: Vec<Literal>,
    /// Name that came last: of a property, or bound.
    key: String,
    /// Begins of names that are expressions.
    keys: BTreeSet<u32>,
    verbatim: Vec<(u32, u32)>,
    names: BTreeSet<String>,
    bound: BTreeSet<String>,
    /// Names that are bound more than once.
    twice: BTreeSet<String>,
    is_partial: bool,
}

impl Draft {
    fn name(&mut self, name: &str, is_bound: bool) {
        if name.len() > MAX_NAME || (self.names.len() >= MAX_PARTS && !self.names.contains(name)) {
            self.is_partial = true;
            return;
        }
        self.names.insert(name.to_owned());
        if is_bound {
            if !self.bound.insert(name.to_owned()) {
                self.twice.insert(name.to_owned());
            }
            self.key = name.to_owned();
        }
    }

    /// Adds a literal in an argument of a tool of the namespace `root`.
    fn literal(&mut self, root: &str, key: &str, at: (u32, u32), property: Option<u32>, value: &Value) {
        let Ok(value) = serde_json::value::to_raw_value(value) else { return };
        if self.literals.len() >= MAX_PARTS || key.len() > MAX_NAME {
            self.is_partial = true;
            return;
        }
        self.literals.push((root.to_owned(), Literal { at, property, constant: None, key: key.to_owned(), value }));
    }

    /// Adds the literal `at` of a statement that gives it a name once.
    fn constant(&mut self, name: &str, at: (u32, u32), statement: (u32, u32), value: &Value) {
        self.literal("", name, at, None, value);
        if let Some((_, literal)) = self.literals.last_mut().filter(|(_, it)| it.at == at) {
            literal.constant = Some(statement);
        }
    }

    /// Takes the next expression: perhaps a literal that no argument of a tool has.
    fn other(&mut self, at: (u32, u32), value: Option<Value>) {
        let key = Some(std::mem::take(&mut self.key)).filter(|key| (1..MAX_NAME).contains(&key.len()));
        let key = key.unwrap_or_else(|| "value".to_owned());
        let is_within = self.others.last().is_some_and(|last| last.at.0 <= at.0 && at.1 <= last.at.1);
        let value = value.and_then(|value| serde_json::value::to_raw_value(&value).ok());
        if let Some(value) =
            value.filter(|_| !is_within && !self.keys.contains(&at.0) && self.others.len() <= MAX_PARTS)
        {
            self.others.push(Literal { at, property: None, constant: None, key, value });
        }
    }

    fn verbatim(&mut self, code: &str, at: (u32, u32)) {
        if !code.get(at.0 as usize..at.1 as usize).is_some_and(|text| text.contains('\n')) {
            return;
        }
        match self.verbatim.len() < MAX_PARTS {
            true => self.verbatim.push(at),
            false => self.is_partial = true,
        }
    }

    /// The parts, with literals of namespaces alone: a name that the script declares is none.
    fn finish(self, typed: bool, form: Form) -> Parts {
        let Self { literals, mut others, mut verbatim, names, bound, is_partial, .. } = self;
        let mut literals: Vec<Literal> =
            literals.into_iter().filter(|(root, _)| !bound.contains(root)).map(|(_, literal)| literal).collect();
        literals.sort_by_key(|literal| literal.at);
        literals.dedup_by_key(|literal| literal.at);
        others.sort_by_key(|literal| literal.at);
        others.retain(|other| !literals.iter().any(|it| it.at.0 <= other.at.0 && other.at.1 <= it.at.1));
        verbatim.sort_unstable();
        let (names, outline) = (names.into_iter().collect(), String::new());
        Parts { typed, form, literals, others, outline, verbatim, names, is_partial }
    }
}

/// The code with a word for each literal, by its type; `None` with too many of them.
fn blanked(code: &str, parts: &Parts) -> Option<String> {
    let mut literals: Vec<&Literal> = parts.literals.iter().chain(&parts.others).collect();
    literals.sort_by_key(|literal| Reverse(literal.at));
    let mut text = code.to_owned();
    for Literal { at, value, .. } in literals {
        let word = match value.get().as_bytes() {
            [b'"', ..] => "(__literal_text)",
            [b'[', ..] => "(__literal_list)",
            [b't' | b'f', ..] => "(__literal_boolean)",
            _ => "(__literal_number)",
        };
        text.get(at.0 as usize..at.1 as usize)?;
        text.replace_range(at.0 as usize..at.1 as usize, word);
    }
    (!parts.is_partial && parts.others.len() <= MAX_PARTS).then_some(text)
}

/// A list of literals as one value, if it has any.
fn list(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

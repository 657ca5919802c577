//! Reads the parts of a script from which a function with parameters is made: the places of its literals in arguments of
//! tools, and of its value.

mod javascript;
mod starlark;

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
    verbatim: Vec<(u32, u32)>,
    names: BTreeSet<String>,
    bound: BTreeSet<String>,
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
            self.bound.insert(name.to_owned());
        }
    }

    /// Adds a literal in an argument of a tool of the namespace `root`.
    fn literal(&mut self, root: &str, key: &str, at: (u32, u32), property: Option<u32>, value: &Value) {
        let Ok(value) = serde_json::value::to_raw_value(value) else { return };
        if self.literals.len() >= MAX_PARTS || key.len() > MAX_NAME {
            self.is_partial = true;
            return;
        }
        self.literals.push((root.to_owned(), Literal { at, property, key: key.to_owned(), value }));
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
        let Self { literals, mut verbatim, names, bound, is_partial } = self;
        let mut literals: Vec<Literal> =
            literals.into_iter().filter(|(root, _)| !bound.contains(root)).map(|(_, literal)| literal).collect();
        literals.sort_by_key(|literal| literal.at);
        literals.dedup_by_key(|literal| literal.at);
        verbatim.sort_unstable();
        Parts { typed, form, literals, verbatim, names: names.into_iter().collect(), is_partial }
    }
}

/// A list of literals as one value, if it has any.
fn list(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

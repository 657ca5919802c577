//! Readable, unique names for types.

use std::collections::{HashMap, HashSet};

use crate::category::singular;
use crate::ident;

/// Longest name derived from a title or a path.
const MAX_NAME: usize = 40;

/// Name of the whole input schema.
pub(crate) const ARGS: &str = "Args";

/// Path of a schema, from the outside in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    pub(crate) step: Step<'p>,
    pub(crate) parent: Option<&'p Path<'p>>,
    pub(crate) depth: usize,
}

/// One step of a [`Path`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'p> {
    /// The whole input or output schema, with its name.
    Root(&'p str),
    Property(&'p str),
    Item,
    Value,
    /// A member of a union or intersection: same place, same name.
    Member,
}

impl<'p> Path<'p> {
    pub(crate) fn root(name: &'p str) -> Path<'p> {
        Path { step: Step::Root(name), parent: None, depth: 0 }
    }

    pub(crate) fn then<'q>(&'q self, step: Step<'q>) -> Path<'q>
    where
        'p: 'q,
    {
        Path { step, parent: Some(self), depth: self.depth + 1 }
    }

    /// Name for a schema here: `Filter` for an item of `filters`.
    fn name(&self) -> String {
        let above = || self.parent.map_or_else(|| "Item".to_owned(), Path::name);
        match self.step {
            Step::Root(name) => name.to_owned(),
            Step::Property(name) => camel(name).unwrap_or_else(|| format!("{}Field", above())),
            Step::Member => above(),
            Step::Value => format!("{}Value", above()),
            Step::Item => {
                let list = above();
                let item = singular(&list);
                if item == list { format!("{list}Item") } else { item }
            }
        }
    }

    /// True for an item of a list.
    fn is_item(&self) -> bool {
        match self.step {
            Step::Item => true,
            Step::Member => self.parent.is_some_and(Path::is_item),
            Step::Root(_) | Step::Property(_) | Step::Value => false,
        }
    }

    /// Name of the next enclosing property, to make a name unique.
    fn enclosing(&self) -> Option<String> {
        let mut path = self;
        while !matches!(path.step, Step::Property(_) | Step::Root(_)) {
            path = path.parent?;
        }
        // `Args` distinguishes nothing.
        path.parent.filter(|outer| !matches!(outer.step, Step::Root(ARGS))).map(Path::name)
    }
}

/// Names given so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tool: String,
    taken: HashSet<String>,
    /// Next number of each name, so that thousands of one name stay cheap.
    next: HashMap<String, usize>,
}

impl Names {
    /// A set in which `tool` is taken: the stub defines a function of that name.
    pub(crate) fn new(tool: &str) -> Names {
        Names { tool: tool.to_owned(), ..Names::default() }
    }

    /// A free name: the author's, else the path, then with the enclosing property, then numbered.
    pub(crate) fn give(&mut self, given: Option<&str>, path: &Path<'_>) -> String {
        let given = given.filter(|given| given.len() <= MAX_NAME && given.is_ascii()).and_then(camel);
        let mut name = given.unwrap_or_else(|| clip(path.name()));
        if ident::is_keyword(&name) || ident::is_stub_name(&name) {
            name.push_str("Type");
        }
        if self.take(&name) {
            return name;
        }
        if let Some(outer) = path.enclosing() {
            let longer = match outer == name {
                true => clip(format!("{name}{}", if path.is_item() { "Item" } else { "Value" })),
                false => clip(format!("{outer}{name}")),
            };
            if longer.len() < MAX_NAME && self.take(&longer) {
                return longer;
            }
        }
        let mut number = self.next.get(&name).copied().unwrap_or(2);
        let numbered = loop {
            let numbered = format!("{name}{number}");
            number += 1;
            if self.take(&numbered) {
                break numbered;
            }
        };
        self.next.insert(name, number);
        numbered
    }

    fn take(&mut self, name: &str) -> bool {
        name != self.tool && !self.taken.contains(name) && self.taken.insert(name.to_owned())
    }
}

/// `max-results of_all` becomes `MaxResultsOfAll`; `None` if no ASCII letter is left.
fn camel(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut upper = true;
    for c in text.chars().take(4 * MAX_NAME) {
        if !c.is_ascii_alphanumeric() || out.is_empty() && c.is_ascii_digit() {
            upper = true;
        } else {
            out.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    (!out.is_empty()).then(|| clip(out))
}

fn clip(mut name: String) -> String {
    name.truncate(MAX_NAME);
    name
}

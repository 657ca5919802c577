//! Problems of values that do not fit: few, in bounded text.

use serde_json::Value;
use stubgen::At;

use base::text::head;

/// Most problems shown.
const MAX_TOLD: usize = 5;
/// Most further problems counted.
pub(in crate::broker) const MAX_COUNTED: usize = 1000;
/// Most bytes of a shown value.
const MAX_SHOWN: usize = 120;
/// Most bytes of a name in a path, and of the path.
const MAX_STEP: usize = 80;
const MAX_PLACE: usize = 300;
/// Most bytes of text about one place.
const MAX_TEXT: usize = 500;

/// A problem, with a suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::broker) struct Problem {
    pub(in crate::broker) text: String,
    pub(in crate::broker) meant: Vec<String>,
    /// The unknown parameter, for that kind of problem.
    pub(in crate::broker) unknown: Option<String>,
}

impl Problem {
    pub(super) fn new(text: String) -> Self {
        Self { text, meant: Vec::new(), unknown: None }
    }

    /// An unknown parameter.
    pub(in crate::broker) fn unknown(name: &str) -> Self {
        let name = head(name, MAX_STEP);
        Self { unknown: Some(name.to_owned()), ..Self::new(format!("there is no parameter `{name}`")) }
    }

    /// An argument that is missing.
    pub(in crate::broker) fn missing(name: &str) -> Self {
        Self::new(format!("argument `{}` is missing", head(name, MAX_STEP)))
    }

    /// A value of another type, in one word each.
    pub(in crate::broker) fn of_type(name: &str, of: &Value, accepted: &Value) -> Self {
        Self::at(head(name, MAX_STEP), &format!("type {} was expected, not {of}", shown(accepted)))
    }

    /// A problem at a place; the root has none.
    pub(super) fn at(place: &str, text: &str) -> Self {
        let text = head(text, MAX_TEXT);
        Self::new(if place.is_empty() { text.to_owned() } else { format!("`{place}`: {text}") })
    }
}

/// The first problems, and the number of others.
#[derive(Debug, Default, Clone)]
pub(in crate::broker) struct Problems {
    pub(in crate::broker) told: Vec<Problem>,
    pub(in crate::broker) more: usize,
}

impl Problems {
    /// Adds a new problem. Beyond the first few it is counted, not made.
    pub(in crate::broker) fn add(&mut self, problem: impl FnOnce() -> Problem) {
        if self.told.len() == MAX_TOLD {
            self.more += 1;
            return;
        }
        let problem = problem();
        if !self.told.iter().any(|known| known.text == problem.text) {
            self.told.push(problem);
        }
    }

    pub(in crate::broker) fn are_enough(&self) -> bool {
        self.more > MAX_COUNTED
    }

    /// All of them in one line.
    pub(in crate::broker) fn line(&self) -> String {
        let mut texts: Vec<&str> = self.told.iter().map(|problem| problem.text.as_str()).collect();
        let more = match self.more {
            0 => String::new(),
            _ if self.are_enough() => format!("and more than {MAX_COUNTED} more"),
            more => format!("and {more} more"),
        };
        texts.extend((!more.is_empty()).then_some(more.as_str()));
        texts.join("; ")
    }
}

/// Formats `filter.and.0`; a long path loses its middle.
pub(super) fn place(at: &At<'_>) -> String {
    let mut steps = Vec::new();
    let mut length = 0;
    for step in at.steps() {
        let step = head(&step, MAX_STEP).to_owned();
        length += step.len() + 1;
        if length > MAX_PLACE {
            steps.push("…".to_owned());
            break;
        }
        steps.push(step);
    }
    steps.reverse();
    steps.join(".")
}

/// Beginning of a value as JSON.
pub(in crate::broker) fn shown(value: &Value) -> String {
    let mut bytes = [0; MAX_SHOWN + 4];
    let mut rest = bytes.as_mut_slice();
    // Writing ends where the value is longer than the buffer.
    let _ = serde_json::to_writer(&mut rest, value);
    let length = MAX_SHOWN + 4 - rest.len();
    let written = bytes.get(..length).unwrap_or_default();
    // A character that the buffer cuts begins behind the limit.
    let text = String::from_utf8_lossy(written);
    let cut = head(&text, MAX_SHOWN);
    if cut.len() < length { format!("{cut}…") } else { cut.to_owned() }
}

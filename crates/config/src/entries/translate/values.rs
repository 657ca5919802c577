//! Translates one value of a host: references into the syntax of `forge.toml`, and credentials into references.

use super::super::credentials::{self, Part};
use super::super::hidden::{in_text, merged};
use super::super::loss::Loss;
use super::super::references::{references, translate, variables};
use super::super::spelling::Known;
use super::Translator;

impl Translator<'_> {
    /// A value without credentials.
    pub(super) fn plain(&mut self, label: &str, value: &str) -> String {
        self.with_credentials(label, value, credentials::in_value(value))
    }

    /// A value whose `parts` must be hidden.
    pub(super) fn with_credentials(&mut self, label: &str, value: &str, mut parts: Vec<Part>) -> String {
        if self.credentials.leave_out {
            parts.extend(credentials::repeated(value, self.credentials.known));
            parts.sort_by_key(|part| (part.start, std::cmp::Reverse(part.end)));
        }
        let references = references(value, &self.scope);
        let mut out = String::new();
        let mut done = 0;
        let mut is_copied = false;
        for part in parts {
            let crosses = |place: &&(usize, usize)| place.0 < part.end && part.start < place.1;
            let inner: Vec<_> = references.iter().filter(crosses).collect();
            let covered: usize = inner.iter().map(|place| place.1.min(part.end) - place.0.max(part.start)).sum();
            // A reference that the host would have expanded is not a credential.
            // A kept value is not expanded.
            let is_partly = !inner.is_empty() && (!self.credentials.leave_out || self.credentials.kept.is_some());
            if part.start < done || covered == part.end - part.start || is_partly {
                is_copied |= is_partly && self.credentials.leave_out && covered < part.end - part.start;
                continue;
            }
            let Some(variable) = self.variable(&part) else {
                is_copied = true;
                continue;
            };
            let start = inner.iter().map(|place| place.0).min().unwrap_or(part.start).min(part.start).max(done);
            let end = inner.iter().map(|place| place.1).max().unwrap_or(part.end).max(part.end);
            let before = self.translated(label, &value[done..start]);
            // A dollar before a reference would escape it.
            out.push_str(before.trim_end_matches('$'));
            out.push_str(&format!("${{{variable}}}"));
            if self.credentials.kept.is_none() {
                self.need(&variable);
            }
            self.entry.hidden.push(part.value);
            done = end;
        }
        if is_copied {
            self.entry.secrets.push(label.to_owned());
        }
        let rest = self.translated(label, &value[done..]);
        out + &rest
    }

    /// Translates the references in a part of a value.
    fn translated(&mut self, label: &str, value: &str) -> String {
        let text = translate(value, &self.scope);
        for note in &text.notes {
            self.entry.notes.push(format!("{label}: {note}"));
        }
        for (inner, variable) in text.folders {
            self.lose(Loss::Folder { label: label.to_owned(), inner, variable });
        }
        for inner in text.unknown {
            self.lose(Loss::Reference { label: label.to_owned(), inner });
        }
        for variable in text.answers {
            if (self.credentials.real)(&variable).is_none() {
                self.lose(Loss::Answer { label: label.to_owned(), variable });
            }
        }
        for name in &text.needs {
            self.need(name);
        }
        self.entry.refers.extend(variables(&text.text));
        text.text
    }

    /// Variable of a credential: one for each value, whatever its names.
    fn variable(&mut self, part: &Part) -> Option<String> {
        let wanted = self.credentials.reference(&self.entry.name, part)?;
        let mut name = wanted.clone();
        let mut number = 2;
        let is_other = |value: String| self.credentials.kept.is_some() && value != part.value;
        while self.named.get(&name).is_some_and(|value| *value != part.value)
            || self.credentials.env(&name).is_some_and(is_other)
            || self.credentials.is_referred(&name)
        {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        self.credentials.keep(&name, &part.value);
        self.named.insert(name.clone(), part.value.clone());
        Some(name)
    }

    /// A reference to a variable that the host names itself.
    pub(super) fn reference(&mut self, variable: &str) -> String {
        self.need(variable);
        self.entry.refers.insert(variable.to_owned());
        format!("${{{variable}}}")
    }

    /// Notes a part that the entry has not.
    pub(super) fn lose(&mut self, loss: Loss) {
        self.entry.notes.push(loss.to_string());
        self.entry.lost.push(loss);
    }

    pub(super) fn need(&mut self, variable: &str) {
        let known = self.entry.unset.iter().any(|name| name == variable);
        if !known && (self.credentials.real)(variable).is_none() {
            self.entry.unset.push(variable.to_owned());
        }
    }
}

/// A note without credentials.
pub(super) fn without(note: &str, known: &Known) -> String {
    let mut clean = note.to_owned();
    let spans = known.places(note).into_iter().chain(in_text(note)).collect();
    for (from, to, _) in merged(spans).into_iter().rev() {
        clean.replace_range(from..to, "…");
    }
    clean
}

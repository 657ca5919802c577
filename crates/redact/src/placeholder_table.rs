//! Placeholders: stable names for redacted values of a session, such as `<<EMAIL:k3v9xbw2m7q4t>>`, restored in
//! arguments of calls ([`super::restore`]).
//!
//! A restored value is never shown: once a tool got it, it is redacted in all later text, also where no pattern would
//! recognise it. Configured values have no placeholder, since scripts never get them either.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::returned::Returned;
use super::scan::{Found, rank};
use super::token::{self, Place, Token};
use base::labels::Labels;
use base::limits;

/// Most values of a session; the oldest are forgotten first.
pub(super) const MAX_VALUES: usize = limits::PLACEHOLDERS.max;
/// Most bytes of all values.
const MAX_BYTES: usize = limits::PLACEHOLDERS_BYTES.max;
/// Most bytes of a value; a larger one gets no placeholder.
const MAX_VALUE: usize = limits::PLACEHOLDERS_VALUE.max;

/// The placeholders of a session.
#[derive(Debug, Default)]
pub struct PlaceholderTable(Mutex<Table>);

#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<Token, Entry>,
    tokens: HashMap<Arc<str>, Token>,
    /// Oldest first.
    order: VecDeque<Token>,
    bytes: usize,
    returned: Returned,
    told: bool,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("values", &self.entries.len()).finish_non_exhaustive()
    }
}

/// A placeholder's value.
pub(super) struct Entry {
    label: &'static str,
    pub(super) value: Arc<str>,
    /// Servers whose data contained it.
    pub(super) origins: Arc<Labels>,
    /// True if it was a JSON number wherever it occurred.
    pub(super) is_number: bool,
    was_put_back: bool,
}

impl PlaceholderTable {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }

    /// A writer for data of these servers.
    pub fn writer(&self, origins: Labels) -> PlaceholderWriter<'_> {
        PlaceholderWriter { placeholders: self, origins: Arc::new(origins) }
    }

    /// True if the session has placeholders and the agent has not been told yet; then counts as told.
    pub fn is_news(&self) -> bool {
        let mut table = self.lock();
        !table.entries.is_empty() && !std::mem::replace(&mut table.told, true)
    }

    /// The first placeholder of this session in `text`.
    pub fn first_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        let table = self.lock();
        token::places(text).find(|place| table.entry(place).is_some()).map(|place| &text[place.from..place.to])
    }

    /// Finds placeholders of this session in `text`.
    pub(super) fn places(&self, text: &str, found: &mut Vec<Found>) {
        if text.contains("<<") {
            let table = self.lock();
            let known = token::places(text).filter(|place| table.entry(place).is_some());
            let as_found = |Place { from, to, .. }| Found { from, to, label: "placeholder", rank: rank::CONFIGURED };
            found.extend(known.map(as_found));
        }
    }
}

impl Table {
    /// The value of a placeholder of this session.
    pub(super) fn entry(&self, place: &Place<'_>) -> Option<&Entry> {
        self.entries.get(&place.token).filter(|entry| token::kind(entry.label) == place.kind)
    }

    /// Notes that a value goes to a server.
    pub(super) fn return_value(&mut self, token: &Token) {
        if let Some(entry) = self.entries.get_mut(token)
            && !std::mem::replace(&mut entry.was_put_back, true)
        {
            self.returned.add(&entry.value, entry.label);
        }
    }

    fn name(&mut self, label: &'static str, value: &str, is_number: bool, origins: &Arc<Labels>) -> Option<String> {
        if value.len() > MAX_VALUE {
            return None;
        }
        let token = match self.tokens.get(value) {
            Some(token) => *token,
            None => self.add(label, value, is_number, origins)?,
        };
        let entry = self.entries.get_mut(&token)?;
        entry.is_number &= is_number;
        if !origins.is_subset(&entry.origins) {
            entry.origins = Arc::new(origins.union(&entry.origins).cloned().collect());
        }
        let shown = token::shown(entry.label, token);
        while self.order.len() > MAX_VALUES || self.bytes > MAX_BYTES {
            let oldest = self.order.pop_front().and_then(|token| self.entries.remove(&token))?;
            self.bytes -= oldest.value.len();
            self.tokens.remove(&oldest.value);
        }
        Some(shown)
    }

    fn add(&mut self, label: &'static str, value: &str, is_number: bool, origins: &Arc<Labels>) -> Option<Token> {
        let token = token::random().filter(|token| !self.entries.contains_key(token))?;
        let value: Arc<str> = value.into();
        self.bytes += value.len();
        self.tokens.insert(Arc::clone(&value), token);
        let origins = Arc::clone(origins);
        self.entries.insert(token, Entry { label, value, origins, is_number, was_put_back: false });
        self.order.push_back(token);
        Some(token)
    }
}

/// Names the values redacted in one text.
#[derive(Debug)]
pub struct PlaceholderWriter<'a> {
    placeholders: &'a PlaceholderTable,
    origins: Arc<Labels>,
}

impl PlaceholderWriter<'_> {
    /// Placeholder of a value; `None` if it is too large.
    pub(super) fn name(&self, label: &'static str, value: &str) -> Option<String> {
        self.placeholders.lock().name(label, value, false, &self.origins)
    }

    /// Like [`PlaceholderWriter::name`], for a JSON number.
    pub(super) fn name_of_number(&self, label: &'static str, value: &str) -> Option<String> {
        self.placeholders.lock().name(label, value, true, &self.origins)
    }

    /// Finds values restored before.
    pub(super) fn known(&self, text: &str, found: &mut Vec<Found>) {
        let mut table = self.placeholders.lock();
        let Table { returned, tokens, .. } = &mut *table;
        let parts = returned.ready(MAX_BYTES * 3 / 2, |value| tokens.contains_key(value));
        // The text is searched without the lock.
        drop(table);
        found.extend(parts.iter().flat_map(|part| part.places(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Results, Surface, json_text, text};
    use super::*;

    const PII: Surface = Surface::Answer(Results::SecretsAndPii);

    #[test]
    fn a_value_has_one_name_that_cannot_be_guessed() {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::from(["vault".to_owned()]));
        let shown = |plain: &str| text(PII.with_placeholders(Some(&writer)), plain).into_owned();
        let first = shown("ann@acme.dev, bob@acme.dev, ann@acme.dev");
        let names: Vec<&str> = first.split(", ").collect();
        assert!(names[0] == names[2] && names[0] != names[1] && names[0].starts_with("<<EMAIL:"), "{first}");
        assert_eq!(
            shown(&format!("{} again, and bob@acme.dev", names[0])),
            format!("{} again, and {}", names[0], names[1])
        );
        let other = PlaceholderTable::default();
        let writer = other.writer(Labels::new());
        assert_ne!(text(PII.with_placeholders(Some(&writer)), "ann@acme.dev"), names[0]);
        assert!(other.first_in(names[0]).is_none() && placeholders.first_in(&first) == Some(names[0]));
    }

    #[test]
    fn what_shows_a_placeholder_is_no_secret_itself() {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::new());
        for label in ["password", "api-key", "token", "secret", "card", "url-password", "signature"] {
            for number in 0..20 {
                let name = writer.name(label, &format!("{label}{number}")).expect("chance");
                for shape in [
                    "*", "password=*", "{\"token\":\"*\"}", "Authorization: Bearer *", "x://u:*@h/",
                    "\\\"secret\\\": \\\"*\\\"",
                ] {
                    let plain = shape.replace('*', &name);
                    assert_eq!(text(PII, &plain), plain);
                    assert_eq!(json_text(PII, &plain), plain);
                }
            }
        }
    }

    #[test]
    fn a_session_forgets_the_oldest() {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::new());
        let name = |number| writer.name("email", &format!("{number}@acme.dev")).expect("a name");
        let names: Vec<String> = (0..MAX_VALUES + 5).map(name).collect();
        let known = [4, 5, MAX_VALUES + 4].map(|number| placeholders.first_in(&names[number]).is_some());
        assert_eq!(known, [false, true, true]);
        let table = placeholders.lock();
        assert_eq!((table.entries.len(), table.tokens.len(), table.order.len()), (MAX_VALUES, MAX_VALUES, MAX_VALUES));
    }
}

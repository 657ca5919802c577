//! Placeholders: names for what was taken out of text, such as `<<EMAIL:3>>`, that stay the same for a session and are
//! put back where they come as an argument of a call.
//!
//! What is put back is never shown: a value that was given to a tool once is taken out of whatever comes after, also
//! where nothing else would know it for one. Values of the configuration have no placeholder, since scripts never get
//! them either.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex::{Captures, Regex};
use serde_json::Value;

use super::scan::{Found, rank};
use crate::error::{Error, ErrorCode, Result};
use crate::session::Labels;

/// Values that a session remembers; beyond, the oldest are forgotten.
const MAX_VALUES: usize = 10_000;
/// Bytes of them all together.
const MAX_BYTES: usize = 8 << 20;
/// Values that were put back and are looked for by themselves, if they are not shorter than this.
const SHORTEST: usize = 6;

static PLACEHOLDER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("<<([A-Z0-9_]{1,64}):([0-9]{1,9})>>").ok());

/// The placeholders of a session.
#[derive(Debug, Default)]
pub struct Minted(Mutex<Table>);

/// A placeholder: what kind of value it is for, and its number.
type Name = (&'static str, u32);

#[derive(Default)]
struct Table {
    values: HashMap<Name, Entry>,
    names: HashMap<Arc<str>, Name>,
    /// The last number of each kind.
    last: HashMap<&'static str, u32>,
    /// Oldest first.
    order: VecDeque<Name>,
    bytes: usize,
    /// Those that were put back.
    returned: Vec<Name>,
    told: bool,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

struct Entry {
    value: Arc<str>,
    /// The servers whose data it came with.
    origins: Labels,
    was_put_back: bool,
}

impl Minted {
    /// No holder can leave it half-changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names for what is taken out of data of these servers.
    #[must_use]
    pub fn minting(&self, origins: Labels) -> Minting<'_> {
        Minting { minted: self, origins }
    }

    /// Whether it is time to tell what placeholders are: there are some, and it was not told yet.
    #[must_use]
    pub fn is_news(&self) -> bool {
        let mut table = self.lock();
        !table.values.is_empty() && !std::mem::replace(&mut table.told, true)
    }

    /// Arguments, as JSON, with the values in place of the placeholders in their texts; `None` if there are none.
    ///
    /// # Errors
    /// `INVALID_ARGS` for one that is not of this session, or forgotten.
    pub fn put_back(&self, args: &str) -> Result<Option<PutBack>> {
        if !args.contains("<<") {
            return Ok(None);
        }
        // What is no JSON is refused by whoever needs it to be.
        let Ok(mut value) = serde_json::from_str::<Value>(args) else { return Ok(None) };
        let mut back = PutBack::default();
        let mut unknown = None;
        self.lock().put_back(&mut value, &mut back, &mut unknown);
        match unknown {
            Some(name) => Err(Error::new(ErrorCode::InvalidArgs, format!("there is no {name} in this session"))
                .hint("use placeholders as they were shown; old ones are forgotten")),
            None if back.values.is_empty() => Ok(None),
            None => Ok(Some(PutBack { args: value.to_string(), ..back })),
        }
    }
}

impl Table {
    fn put_back(&mut self, value: &mut Value, back: &mut PutBack, unknown: &mut Option<String>) {
        match value {
            Value::String(text) if text.contains("<<") => {
                let Some(placeholder) = PLACEHOLDER.as_ref() else { return };
                let replaced =
                    placeholder.replace_all(text, |found: &Captures<'_>| self.value_of(found, back, unknown));
                *text = replaced.into_owned();
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_back(item, back, unknown)),
            Value::Object(object) => object.values_mut().for_each(|item| self.put_back(item, back, unknown)),
            _ => {}
        }
    }

    fn value_of(&mut self, found: &Captures<'_>, back: &mut PutBack, unknown: &mut Option<String>) -> String {
        let kind = self.last.keys().find(|kind| shown_kind(kind) == found[1]).copied();
        // Text that only looks like a placeholder is the script's own.
        let Some(kind) = kind else { return found[0].to_owned() };
        let name = found[2].parse().map_or((kind, 0), |number| (kind, number));
        match self.values.get_mut(&name) {
            Some(entry) => {
                if !std::mem::replace(&mut entry.was_put_back, true) {
                    self.returned.push(name);
                }
                back.origins.extend(entry.origins.iter().cloned());
                back.values.push((Arc::clone(&entry.value), found[0].to_owned()));
                entry.value.to_string()
            }
            None => {
                unknown.get_or_insert_with(|| found[0].to_owned());
                found[0].to_owned()
            }
        }
    }

    fn name(&mut self, kind: &'static str, value: &str, origins: &Labels) -> Option<Name> {
        if value.len() > MAX_BYTES {
            return None;
        }
        let name = match self.names.get(value) {
            Some(name) => *name,
            None => {
                let last = self.last.entry(kind).or_default();
                *last = last.checked_add(1)?;
                let name = (kind, *last);
                let value: Arc<str> = value.into();
                self.bytes += value.len();
                self.names.insert(Arc::clone(&value), name);
                self.values.insert(name, Entry { value, origins: Labels::new(), was_put_back: false });
                self.order.push_back(name);
                name
            }
        };
        if let Some(entry) = self.values.get_mut(&name) {
            entry.origins.extend(origins.iter().cloned());
        }
        while self.order.len() > MAX_VALUES || self.bytes > MAX_BYTES {
            let oldest = self.order.pop_front().and_then(|name| self.values.remove(&name))?;
            self.bytes -= oldest.value.len();
            self.names.remove(&oldest.value);
        }
        Some(name)
    }
}

/// Gives names to what is taken out of one text.
#[derive(Debug)]
pub struct Minting<'a> {
    minted: &'a Minted,
    origins: Labels,
}

impl Minting<'_> {
    /// What stands for a value; `None` if it is too large to be remembered.
    pub(super) fn name(&self, kind: &'static str, value: &str) -> Option<String> {
        self.minted.lock().name(kind, value, &self.origins).map(shown)
    }

    /// Where values are that were put back before.
    pub(super) fn known(&self, text: &str, found: &mut Vec<Found>) {
        let table = self.minted.lock();
        for name in &table.returned {
            let Some(entry) = table.values.get(name).filter(|entry| entry.value.len() >= SHORTEST) else { continue };
            let places = text.match_indices(&*entry.value);
            found.extend(places.map(|(from, value)| Found {
                from,
                to: from + value.len(),
                label: name.0,
                rank: rank::PERSONAL,
            }));
        }
    }
}

/// Arguments with values in place of placeholders.
#[derive(Debug, Default)]
pub struct PutBack {
    /// The arguments, as JSON.
    pub args: String,
    /// The servers whose data is in them now.
    pub origins: Labels,
    values: Vec<(Arc<str>, String)>,
}

impl PutBack {
    /// What is said of these arguments, with the placeholders again.
    #[must_use]
    pub fn hide(&self, error: Error) -> Error {
        let hidden = |text: String| self.values.iter().fold(text, |text, (value, name)| text.replace(&**value, name));
        let error = Error { message: hidden(error.message), hint: error.hint.map(hidden), ..error };
        // A value that was cut to be shown is not found as a whole.
        let begins = |text: &str| {
            self.values.iter().any(|(value, _)| {
                let head = value.char_indices().nth(4).map_or(&**value, |(end, _)| &value[..end]);
                text.contains(head)
            })
        };
        if begins(&error.message) || error.hint.as_deref().is_some_and(begins) {
            return Error::new(error.code, "the arguments do not fit with the values in place of the placeholders");
        }
        error
    }
}

fn shown_kind(kind: &str) -> String {
    kind.to_ascii_uppercase().replace('-', "_")
}

fn shown((kind, number): Name) -> String {
    format!("<<{}:{number}>>", shown_kind(kind))
}

#[cfg(test)]
mod tests {
    use super::super::{Results, Surface, json_text, text};
    use super::*;

    const PII: Surface = Surface::Answer(Results::SecretsAndPii);

    #[test]
    fn a_value_has_one_name_and_comes_back_as_it_was() {
        let minted = Minted::default();
        let minting = minted.minting(Labels::from(["vault".to_owned()]));
        let shown = |plain: &str| text(PII.minted_by(Some(&minting)), plain).into_owned();
        assert_eq!(shown("ann@acme.dev, bob@acme.dev, ann@acme.dev"), "<<EMAIL:1>>, <<EMAIL:2>>, <<EMAIL:1>>");
        assert_eq!(shown("<<EMAIL:1>> again, and bob@acme.dev"), "<<EMAIL:1>> again, and <<EMAIL:2>>");
        let back = minted.put_back(r#"{"to":["<<EMAIL:2>>"],"text":"hi <<EMAIL:1>>, <<NOTHING:1>> <<x>>"}"#);
        let back = back.expect("known").expect("some");
        assert_eq!(back.args, r#"{"to":["bob@acme.dev"],"text":"hi ann@acme.dev, <<NOTHING:1>> <<x>>"}"#);
        assert_eq!(back.origins, Labels::from(["vault".to_owned()]));
        assert!(minted.put_back(r#"{"to":"<<EMAIL:3>>"}"#).is_err());
        assert!(Minted::default().put_back(r#"{"to":"<<EMAIL:1>>"}"#).expect("text").is_none());
    }

    #[test]
    fn fields_of_json_are_named_by_value_and_known_everywhere_once_put_back() {
        let minted = Minted::default();
        let minting = minted.minting(Labels::new());
        let shown = |plain: &str| json_text(PII.minted_by(Some(&minting)), plain).into_owned();
        let record = r#"{"password":"Tr0ub\"4dor-3","note":"Tr0ub\"4dor-3"}"#;
        assert_eq!(shown(record), r#"{"password":"<<PASSWORD:1>>","note":"Tr0ub\"4dor-3"}"#);
        let back = minted.put_back(r#"{"p":"<<PASSWORD:1>>"}"#).expect("known").expect("some");
        assert_eq!(back.args, r#"{"p":"Tr0ub\"4dor-3"}"#);
        assert_eq!(shown(record), r#"{"password":"<<PASSWORD:1>>","note":"<<PASSWORD:1>>"}"#);
        let error = Error::new(ErrorCode::InvalidArgs, "`Tr0ub\"4dor-3` is too long").hint("shorten it");
        assert_eq!(back.hide(error).message, "`<<PASSWORD:1>>` is too long");
        assert!(!back.hide(Error::new(ErrorCode::InvalidArgs, "`Tr0ub…` is too long")).message.contains("Tr0"));
    }

    #[test]
    fn a_session_forgets_the_oldest() {
        let minted = Minted::default();
        let minting = minted.minting(Labels::new());
        for number in 0..MAX_VALUES + 5 {
            minting.name("email", &format!("{number}@acme.dev")).expect("a name");
        }
        let is_known = |number| minted.put_back(&format!("{{\"to\":\"<<EMAIL:{number}>>\"}}")).is_ok();
        assert_eq!((is_known(5), is_known(6), is_known(MAX_VALUES + 5)), (false, true, true));
        assert_eq!(minted.lock().values.len(), MAX_VALUES);
        assert_eq!(minted.lock().names.len(), MAX_VALUES);
    }
}

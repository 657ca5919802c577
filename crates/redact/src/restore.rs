//! Restores placeholders in the arguments of a call, and hides the values again in its errors.
//!
//! A placeholder is restored only where the agent wrote it ([`Mentions`]): one that came with data, such as a page of a
//! server that learned it, is refused. It is restored in strings that are values, also inside longer ones; as a key it
//! is refused. The broker decides whether the data may go to the server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::finder::Finder;
use super::placeholder_table::{MAX_VALUES, PlaceholderTable, Table};
use super::token::{self, Token};
use base::error::{Error, ErrorCode, Result};
use base::labels::Labels;

/// Placeholders that the agent wrote itself.
#[derive(Debug, Default)]
pub enum Mentions {
    /// All: the agent wrote the arguments.
    #[default]
    Everything,
    /// Placeholders of its script, and of data that the session keeps for it.
    Only(HashSet<Token>),
}

impl Mentions {
    /// Placeholders of a script.
    pub fn of(code: &str) -> Self {
        Self::Only(token::places(code).map(|place| place.token).collect())
    }

    /// Adds those of data kept by the session, such as a stored result.
    pub fn add(&mut self, kept: &str) {
        if let Self::Only(all) = self {
            all.extend(token::places(kept).map(|place| place.token));
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(all) if all.is_empty())
    }

    fn has(&self, token: Token) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(all) => all.contains(&token),
        }
    }
}

/// Arguments with restored values.
#[derive(Debug, Default)]
pub struct Restored {
    /// The arguments, as JSON.
    pub args: String,
    /// Servers whose data is in them now.
    pub origins: Labels,
    values: HashMap<Arc<str>, String>,
}

impl PlaceholderTable {
    /// Restores the `mentioned` placeholders in JSON arguments; `None` if there are none. Arguments over `most` bytes
    /// are left to the caller's check.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a placeholder that is not of this session, or forgotten, or a key, and for values over `most`
    /// bytes; `GROUP_POLICY_DENIED` for one that is not mentioned.
    pub fn restore(&self, args: &str, mentioned: &Mentions, most: usize) -> Result<Option<Restored>> {
        if !(args.contains("<<") || args.contains("\\u003")) || args.len() > most {
            return Ok(None);
        }
        // The caller refuses invalid JSON.
        let Ok(mut value) = serde_json::from_str::<Value>(args) else { return Ok(None) };
        let mut table = self.lock();
        let mut returning = Returning {
            table: &table,
            mentioned,
            bytes: args.len(),
            most,
            tokens: HashSet::new(),
            back: Restored::default(),
        };
        returning.value(&mut value)?;
        let Returning { tokens, back, .. } = returning;
        tokens.iter().for_each(|token| table.return_value(token));
        Ok((!tokens.is_empty()).then(|| Restored { args: value.to_string(), ..back }))
    }
}

struct Returning<'a> {
    table: &'a Table,
    mentioned: &'a Mentions,
    /// Bytes of the arguments so far.
    bytes: usize,
    most: usize,
    tokens: HashSet<Token>,
    back: Restored,
}

impl Returning<'_> {
    fn value(&mut self, value: &mut Value) -> Result<()> {
        match value {
            Value::String(text) => {
                if let Some(replaced) = self.text(text)? {
                    *value = replaced;
                }
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.value(item))?,
            Value::Object(object) => {
                for (key, value) in object {
                    if let Some(place) = token::places(key).find(|place| self.table.entry(place).is_some()) {
                        let name = &key[place.from..place.to];
                        return Err(Error::new(ErrorCode::InvalidArgs, format!("{name} is a key of the arguments"))
                            .hint("placeholders are put back in values only; give this one as a value"));
                    }
                    self.value(value)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    /// The text with values restored; a number if the text is nothing but the placeholder of one.
    fn text(&mut self, text: &str) -> Result<Option<Value>> {
        let (mut replaced, mut end) = (String::new(), 0);
        for place in token::places(text) {
            let name = &text[place.from..place.to];
            let is_mentioned = self.mentioned.has(place.token);
            let Some(entry) = self.table.entry(&place) else {
                match is_mentioned {
                    true => return Err(unknown(name)),
                    // Not one of this session: plain data.
                    false => continue,
                }
            };
            if !is_mentioned {
                return Err(unmentioned(name));
            }
            self.bytes += entry.value.len();
            if self.bytes > self.most {
                let message =
                    format!("with values in place of placeholders they are over the limit of {} bytes", self.most);
                return Err(Error::new(ErrorCode::InvalidArgs, message).hint("send fewer of them in one call"));
            }
            if self.tokens.insert(place.token) {
                self.back.origins.extend(entry.origins.iter().cloned());
                self.back.values.insert(Arc::clone(&entry.value), name.to_owned());
            }
            if entry.is_number && name.len() == text.len() {
                return Ok(serde_json::from_str(&entry.value).ok());
            }
            replaced.push_str(&text[end..place.from]);
            replaced.push_str(&entry.value);
            end = place.to;
        }
        Ok((end > 0).then(|| Value::String(replaced + &text[end..])))
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorCode::InvalidArgs, format!("there is no {name} in this session"))
        .hint(format!("use placeholders as they were shown; the last {MAX_VALUES} are kept"))
}

fn unmentioned(name: &str) -> Error {
    Error::new(
        ErrorCode::GroupPolicyDenied,
        format!("{name} is not put back: it came with data, the script does not name it"),
    )
    .hint("write the placeholder into the script itself, where its value is meant to be sent")
}

impl Restored {
    /// Replaces the values in an error by their placeholders again.
    pub fn hide(&self, error: Error) -> Error {
        let (values, names): (Vec<&str>, Vec<&str>) =
            self.values.iter().map(|(value, name)| (&**value, &**name)).unzip();
        let finder = Finder::new(values.iter().copied());
        let hidden = |text: String| {
            // Of overlapping values the first and longest is named; the others are covered by it.
            let mut places: Vec<(usize, usize, usize)> = Vec::new();
            finder.each(&text, |from, to, value| {
                let mut place = (from, to, value);
                while let Some(&(earlier, end, named)) = places.last()
                    && end > place.0
                {
                    place = (place.0.min(earlier), to, if earlier <= place.0 { named } else { place.2 });
                    places.pop();
                }
                places.push(place);
            });
            let (mut clean, mut end) = (String::with_capacity(text.len()), 0);
            for (from, to, value) in places {
                clean.extend([&text[end..from], names[value]]);
                end = to;
            }
            clean + &text[end..]
        };
        let error = error.map_texts(hidden);
        // A value cut for display is not found as a whole.
        let head = |value| -> &str { str::char_indices(value).nth(4).map_or(value, |(end, _)| &value[..end]) };
        let heads = Finder::new(values.iter().copied().map(head));
        match heads.is_in(&error.message) || error.hint.as_deref().is_some_and(|hint| heads.is_in(hint)) {
            true => Error::new(error.code, "the arguments do not fit with the values in place of the placeholders"),
            false => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Results, Surface, json_text};
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn placeholders(values: &[(&'static str, &str)]) -> (PlaceholderTable, Vec<String>) {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::from(["vault".to_owned()]));
        let names = values.iter().map(|(label, value)| writer.name(label, value).expect("a name")).collect();
        (placeholders, names)
    }

    #[test]
    fn only_what_the_agent_wrote_is_put_back_and_only_as_a_value() {
        let (placeholders, names) = placeholders(&[("email", "ann@acme.dev"), ("email", "bob@acme.dev")]);
        let (ann, bob) = (&names[0], &names[1]);
        let far = PlaceholderTable::default().writer(Labels::new()).name("email", "eve@acme.dev").expect("a name");
        let script = Mentions::of(&format!("mail({{ to: '{ann}' }}); // {far}"));
        let case = |args: &str, mentions: &Mentions| match placeholders.restore(args, mentions, LIMIT) {
            Ok(None) => "as it is".to_owned(),
            Ok(Some(back)) => back.args,
            Err(error) => format!("{:?}", error.code),
        };
        for (args, expected) in [
            (r#"{"to":"ANN"}"#, r#"{"to":"ann@acme.dev"}"#),
            (
                r#"{"to":["x",{"y":"hi ANN, ANN <<x>>"}]}"#,
                r#"{"to":["x",{"y":"hi ann@acme.dev, ann@acme.dev <<x>>"}]}"#,
            ),
            (r#"{"to":"BOB"}"#, "GroupPolicyDenied"),
            (r#"{"to":"page: ANN","of":"BOB"}"#, "GroupPolicyDenied"),
            (r#"{"ANN":"x"}"#, "InvalidArgs"),
            (r#"{"x":{"to BOB":1}}"#, "InvalidArgs"),
            (r#"{"to":"FAR"}"#, "InvalidArgs"),
            (r#"{"to":"<<EMAIL:1>> <<EMAIL:abcdefghjkmnp>>"}"#, "as it is"),
            (r#"{"to":"CARD"}"#, "InvalidArgs"),
            (r#"["\u003c<EMAILTOKEN>>"]"#, r#"["ann@acme.dev"]"#),
            ("<<", "as it is"),
        ] {
            let args = args.replace("CARD", &ann.replace("EMAIL", "CARD")).replace("ANN", ann).replace("BOB", bob);
            let args = args.replace("FAR", &far).replace("<EMAILTOKEN>>", &ann[1..]);
            assert_eq!(case(&args, &script), expected, "{args}");
        }
        assert_eq!(case(&format!("[\"{bob}\"]"), &Mentions::Everything), r#"["bob@acme.dev"]"#);
        assert_eq!(case(&format!("[\"{far}\"]"), &Mentions::Everything), "InvalidArgs");
        let mut kept = Mentions::of("");
        kept.add(&format!("stored: {bob}"));
        assert_eq!(case(&format!("[\"{bob}\"]"), &kept), r#"["bob@acme.dev"]"#);
    }

    #[test]
    fn fields_of_json_are_named_by_value_and_known_everywhere_once_put_back() {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::from(["vault".to_owned()]));
        let shown = |plain: &str| {
            json_text(Surface::Answer(Results::Secrets).with_placeholders(Some(&writer)), plain).into_owned()
        };
        let record = r#"{"password":"Tr0ub\"4dor-3","note":"Tr0ub\"4dor-3"}"#;
        let first = shown(record);
        let name = placeholders.first_in(&first).expect("a placeholder").to_owned();
        assert_eq!(first, format!(r#"{{"password":"{name}","note":"Tr0ub\"4dor-3"}}"#));
        let back = placeholders.restore(&format!(r#"{{"p":"{name}"}}"#), &Mentions::Everything, LIMIT);
        let back = back.expect("known").expect("some");
        assert_eq!((back.args.as_str(), back.origins.len()), (r#"{"p":"Tr0ub\"4dor-3"}"#, 1));
        assert_eq!(shown(record), format!(r#"{{"password":"{name}","note":"{name}"}}"#));
        let error = Error::new(ErrorCode::InvalidArgs, "`Tr0ub\"4dor-3` is too long").hint("shorten it");
        assert_eq!(back.hide(error).message, format!("`{name}` is too long"));
        assert!(!back.hide(Error::new(ErrorCode::InvalidArgs, "`Tr0ub…` is too long")).message.contains("Tr0"));
    }

    #[test]
    fn a_number_comes_back_as_a_number() {
        let placeholders = PlaceholderTable::default();
        let writer = placeholders.writer(Labels::new());
        let name = writer.name_of_number("card", "4111111111111111").expect("a name");
        let args = format!(r#"{{"pan":"{name}","note":"card {name}"}}"#);
        let back =
            |args: &str| placeholders.restore(args, &Mentions::Everything, LIMIT).expect("known").expect("some").args;
        assert_eq!(back(&args), r#"{"pan":4111111111111111,"note":"card 4111111111111111"}"#);
        writer.name("card", "4111111111111111");
        assert_eq!(back(&format!("[\"{name}\"]")), r#"["4111111111111111"]"#);
    }

    #[test]
    fn values_cannot_grow_arguments_without_bound() {
        let (placeholders, names) = placeholders(&[("private-key", &"k".repeat(60_000))]);
        let args = serde_json::to_string(&vec![&names[0]; 40_000]).expect("JSON");
        let error = placeholders.restore(&args, &Mentions::Everything, 2 << 20).expect_err("too large");
        assert!(error.message.contains("2097152 bytes"), "{error}");
        assert!(placeholders.restore(&args, &Mentions::Everything, 1000).expect("left to others").is_none());
    }
}

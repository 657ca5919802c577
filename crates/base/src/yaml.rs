//! Reads YAML as JSON: mappings, lists and scalars of one document. Tags are refused. Aliases are refused or bounded, so
//! that a small text cannot become large values.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use crate::text::brief;

/// Bytes that a value counts for beside its text.
const VALUE: usize = 64;

/// Limits of one text.
pub struct Rules {
    /// Most levels of mappings and lists.
    pub levels: usize,
    /// Most bytes of all values, those that aliases repeat included; `None` refuses aliases.
    pub with_aliases: Option<usize>,
}

/// Reason why a text is not read.
#[derive(Debug)]
pub struct Fault {
    /// The fault as a clause, such as `has a tag, which is not read,`.
    pub what: String,
    /// The line, counted from 1.
    pub line: usize,
}

/// Reads a text; an empty one is null.
///
/// # Errors
/// The fault, and where it is.
pub fn read(text: &str, rules: &Rules) -> Result<Value, Fault> {
    let reader = Reader { rules, open: Vec::new(), whole: None, anchored: HashMap::new(), bytes: 0, kept: 0 };
    reader.read(text)
}

/// Values that are not complete yet.
enum Open {
    /// A mapping, with the key whose value is next.
    Mapping(Map<String, Value>, Option<String>),
    List(Vec<Value>),
}

struct Reader<'r> {
    rules: &'r Rules,
    /// With the anchor of each, or 0, and the bytes before it.
    open: Vec<(Open, usize, usize)>,
    whole: Option<Value>,
    /// Values that anchors name, and their bytes.
    anchored: HashMap<usize, (Value, usize)>,
    /// Bytes of the values so far, and of those that anchors keep.
    bytes: usize,
    kept: usize,
}

impl Reader<'_> {
    fn read(mut self, text: &str) -> Result<Value, Fault> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| Fault {
                what: format!("is no YAML: {}", error.info()),
                line: error.marker().line(),
            })?;
            self.take(event).map_err(|what| Fault { what, line: span.start.line() })?;
        }
        Ok(self.whole.unwrap_or_default())
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Alias(anchor) => self.alias(anchor),
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                Err("has a tag, which is not read,".to_owned())
            }
            Event::Scalar(text, style, anchor, _) => self.scalar(&text, style, anchor),
            Event::MappingStart(anchor, _) => self.push(Open::Mapping(Map::new(), None), anchor),
            Event::SequenceStart(anchor, _) => self.push(Open::List(Vec::new()), anchor),
            Event::MappingEnd | Event::SequenceEnd => match self.open.pop() {
                Some((open, anchor, before)) => {
                    let value = match open {
                        Open::Mapping(fields, _) => Value::Object(self.merged(fields)?),
                        Open::List(items) => Value::Array(items),
                    };
                    self.keep(anchor, &value, self.bytes - before)?;
                    self.add(value)
                }
                None => Ok(()),
            },
            Event::DocumentStart(_) if self.whole.is_some() => Err("has a second document".to_owned()),
            _ => Ok(()),
        }
    }

    /// Counts bytes before values of them are made.
    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let Some(most) = self.rules.with_aliases else { return Ok(()) };
        match self.bytes.saturating_add(self.kept) <= most {
            true => Ok(()),
            false => Err(format!("becomes values of more than {} MiB with its aliases,", most >> 20)),
        }
    }

    /// Keeps the value of an anchor.
    fn keep(&mut self, anchor: usize, value: &Value, bytes: usize) -> Result<(), String> {
        if anchor == 0 || self.rules.with_aliases.is_none() {
            return Ok(());
        }
        self.kept = self.kept.saturating_add(bytes);
        self.check()?;
        self.anchored.insert(anchor, (value.clone(), bytes));
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<(), String> {
        if self.rules.with_aliases.is_none() {
            return Err("has an alias, which is not read,".to_owned());
        }
        let bytes = self.anchored.get(&anchor).map(|(_, bytes)| *bytes);
        self.charge(bytes.ok_or("has an alias to a value that contains it")?)?;
        let value = self.anchored.get(&anchor).map(|(value, _)| value.clone()).unwrap_or_default();
        match (self.open.last_mut(), &value) {
            (Some((Open::Mapping(_, key @ None), ..)), Value::String(text)) => {
                *key = Some(text.clone());
                Ok(())
            }
            _ => self.add(value),
        }
    }

    /// Takes over the fields of a merge key, `<<`.
    fn merged(&mut self, mut fields: Map<String, Value>) -> Result<Map<String, Value>, String> {
        if self.rules.with_aliases.is_none() {
            return Ok(fields);
        }
        let sources = match fields.get("<<") {
            Some(Value::Object(_)) => vec![fields.shift_remove("<<").unwrap_or_default()],
            Some(Value::Array(list)) if list.iter().all(Value::is_object) => match fields.shift_remove("<<") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            },
            _ => return Ok(fields),
        };
        for source in sources {
            let Value::Object(source) = source else { continue };
            for (key, value) in source {
                fields.entry(key).or_insert(value);
            }
        }
        Ok(fields)
    }

    fn push(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if matches!(self.open.last(), Some((Open::Mapping(_, None), ..))) {
            return Err("has a key that is no text".to_owned());
        }
        if self.open.len() >= self.rules.levels {
            return Err(format!("has more than {} levels", self.rules.levels));
        }
        let before = self.bytes;
        self.charge(VALUE)?;
        self.open.push((open, anchor, before));
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize) -> Result<(), String> {
        let before = self.bytes;
        self.charge(VALUE + text.len())?;
        if let Some((Open::Mapping(fields, key @ None), ..)) = self.open.last_mut() {
            if fields.contains_key(text) {
                return Err(format!("has the key `{}` twice,", brief(text)));
            }
            *key = Some(text.to_owned());
            return self.keep(anchor, &Value::String(text.to_owned()), self.bytes - before);
        }
        let value = match style {
            ScalarStyle::Plain => plain(text)?,
            _ => Value::String(text.to_owned()),
        };
        self.keep(anchor, &value, self.bytes - before)?;
        self.add(value)
    }

    fn add(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            Some((Open::Mapping(fields, key), ..)) => {
                let key = key.take().ok_or_else(|| "has a key that is no text".to_owned())?;
                fields.insert(key, value);
            }
            Some((Open::List(items), ..)) => items.push(value),
            None => self.whole = Some(value),
        }
        Ok(())
    }
}

/// A plain scalar by YAML's core schema.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            match (text.parse::<i64>(), text.parse::<u64>()) {
                (Ok(whole), _) => whole.into(),
                (_, Ok(whole)) => whole.into(),
                _ => match text.parse::<f64>() {
                    Ok(number) if is_number => Number::from_f64(number)
                        .map(Value::Number)
                        .ok_or_else(|| "has a number out of range; put it in quotes,".to_owned())?,
                    _ => Value::String(text.to_owned()),
                },
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { levels: 20, with_aliases: Some(1 << 20) };

    fn told(text: &str) -> String {
        match read(text, &RULES) {
            Ok(value) => value.to_string(),
            Err(Fault { what, line }) => format!("{what} in line {line}"),
        }
    }

    #[test]
    fn aliases_are_repeated_within_a_limit() {
        for (text, told_) in [
            ("a: &x {b: 1}\nc: *x\n", r#"{"a":{"b":1},"c":{"b":1}}"#),
            ("a: &x {b: 1, d: 2}\nc:\n  <<: *x\n  b: 3\n", r#"{"a":{"b":1,"d":2},"c":{"b":3,"d":2}}"#),
            ("a: &x [*x]\n", "has an alias to a value that contains it in line 1"),
            ("a: !!str 1\n", "has a tag, which is not read, in line 1"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(told(text), told_, "{text}");
        }
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let before = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
        }
        assert_eq!(told(&bomb), "becomes values of more than 1 MiB with its aliases, in line 4");
    }
}

//! Values in paths, queries, headers and forms, by the styles of OpenAPI.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use base::text::brief;

/// Characters that are encoded: all but the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Items with commas between them.
    Simple,
    /// `name=value`, with commas between items that are not exploded.
    Form,
    /// As [`Style::Form`], with spaces.
    Space,
    /// As [`Style::Form`], with `|`.
    Pipe,
    /// `name[key]=value`.
    Deep,
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A value as text; an object or array as JSON. `None` of null, which is not sent.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// A value in a path or header, each item written by `item`.
pub(super) fn simple(value: &Value, explode: bool, item: impl Fn(&str) -> String) -> Option<String> {
    let written = |value: &Value| text(value).map(|text| item(&text));
    Some(match value {
        Value::Array(items) => items.iter().filter_map(written).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let between = if explode { "=" } else { "," };
            let fields =
                fields.iter().filter_map(|(name, value)| Some(format!("{}{between}{}", item(name), written(value)?)));
            fields.collect::<Vec<_>>().join(",")
        }
        value => written(value)?,
    })
}

/// Pairs `name=value` of a query or form, encoded.
pub(super) struct Pairs<'r> {
    text: String,
    most: usize,
    /// Names that only the configuration sets.
    reserved: &'r BTreeSet<String>,
    /// Names of parameters, which the keys of another one's object are not.
    declared: Vec<&'r str>,
}

impl<'r> Pairs<'r> {
    pub(super) fn new(most: usize, reserved: &'r BTreeSet<String>) -> Self {
        Self { text: String::new(), most, reserved, declared: Vec::new() }
    }

    /// The pairs of an operation with these parameters.
    pub(super) fn beside(self, declared: Vec<&'r str>) -> Self {
        Self { declared, ..self }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Adds a value.
    ///
    /// # Errors
    /// It is too long, or would set what only the configuration sets.
    pub(super) fn add(&mut self, name: &str, value: &Value, style: Style, explode: bool) -> Result<(), String> {
        let separator = match style {
            Style::Simple | Style::Form | Style::Deep => ",",
            Style::Space => "%20",
            Style::Pipe => "%7C",
        };
        match value {
            Value::Null => Ok(()),
            Value::Object(_) | Value::Array(_) if style == Style::Deep => self.deep(name, value),
            Value::Array(items) if explode => {
                items.iter().filter_map(text).try_for_each(|item| self.push(name, &encoded(&item)))
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().filter_map(text).map(|item| encoded(&item)).collect();
                // An empty list without a value would mean one empty item.
                if items.is_empty() { Ok(()) } else { self.push(name, &items.join(separator)) }
            }
            Value::Object(fields) if explode => fields
                .iter()
                .filter_map(|(key, value)| Some((key, text(value)?)))
                .try_for_each(|(key, value)| match key == name {
                    true => self.push(key, &encoded(&value)),
                    false => self.push_key(key, &encoded(&value)),
                }),
            Value::Object(fields) => {
                let fields = fields.iter().filter_map(|(name, value)| Some([encoded(name), encoded(&text(value)?)]));
                let parts: Vec<String> = fields.flatten().collect();
                if parts.is_empty() { Ok(()) } else { self.push(name, &parts.join(separator)) }
            }
            value => text(value).map_or(Ok(()), |value| self.push(name, &encoded(&value))),
        }
    }

    fn deep(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match value {
            Value::Object(fields) => {
                fields.iter().try_for_each(|(key, value)| self.deep(&format!("{name}[{key}]"), value))
            }
            Value::Array(items) => {
                items.iter().enumerate().try_for_each(|(index, value)| self.deep(&format!("{name}[{index}]"), value))
            }
            value => text(value).map_or(Ok(()), |value| self.push_key(name, &encoded(&value))),
        }
    }

    /// Adds the value of a key that the script chose.
    fn push_key(&mut self, name: &str, value: &str) -> Result<(), String> {
        match self.declared.contains(&name) {
            true => Err(format!("sets `{}`, which is a parameter of its own", brief(name))),
            false => self.push(name, value),
        }
    }

    fn push(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.reserved.contains(name) {
            return Err(format!("sets `{}`, which only the configuration sets", brief(name)));
        }
        // Brackets of names stay: many servers look for them as they are.
        let name = encoded(name).replace("%5B", "[").replace("%5D", "]");
        if self.text.len() + name.len() + value.len() + 2 > self.most {
            return Err(format!("is longer than {} bytes with the others", self.most));
        }
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(&name);
        self.text.push('=');
        self.text.push_str(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_by_their_style() {
        let (list, object) = (json!(["a b", 2, null, "c,d"]), json!({"r": 1, "g": "x&y"}));
        for (value, style, explode, written) in [
            (&list, Style::Form, true, "c=a%20b&c=2&c=c%2Cd"),
            (&list, Style::Form, false, "c=a%20b,2,c%2Cd"),
            (&list, Style::Space, false, "c=a%20b%202%20c%2Cd"),
            (&list, Style::Pipe, false, "c=a%20b%7C2%7Cc%2Cd"),
            (&list, Style::Deep, true, "c[0]=a%20b&c[1]=2&c[3]=c%2Cd"),
            (&object, Style::Form, true, "r=1&g=x%26y"),
            (&object, Style::Form, false, "c=r,1,g,x%26y"),
            (&object, Style::Deep, true, "c[r]=1&c[g]=x%26y"),
            (&json!({"a": {"b": [{"d": true}]}}), Style::Deep, true, "c[a][b][0][d]=true"),
            (&json!({"a": {"b": 1}}), Style::Form, true, "a=%7B%22b%22%3A1%7D"),
            (&json!([]), Style::Form, false, ""),
            (&json!(null), Style::Form, true, ""),
            (&json!("ü#?"), Style::Form, true, "c=%C3%BC%23%3F"),
            (&json!(12345678901234567890123_u128 as f64), Style::Form, true, "c=1.2345678901234568e%2B22"),
        ] {
            let none = BTreeSet::new();
            let mut pairs = Pairs::new(1000, &none);
            pairs.add("c", value, style, explode).expect("it is short");
            assert_eq!(pairs.into_text(), written, "{value} {style:?} {explode}");
        }
        for (value, explode, written) in
            [(&list, false, "a%20b,2,c%2Cd"), (&object, false, "r,1,g,x%26y"), (&object, true, "r=1,g=x%26y")]
        {
            assert_eq!(simple(value, explode, encoded).as_deref(), Some(written));
        }
    }

    #[test]
    fn a_value_sets_nothing_of_the_configuration_and_is_bounded() {
        let reserved = BTreeSet::from(["api_key".to_owned()]);
        let mut pairs = Pairs::new(1000, &reserved);
        let error = pairs.add("filter", &json!({"api_key": "x"}), Style::Form, true).expect_err("it is the key's");
        assert!(error.contains("only the configuration"), "{error}");
        let mut pairs = Pairs::new(1000, &reserved).beside(vec!["tenant", "f[x]", "f"]);
        for (style, value) in [(Style::Form, json!({"tenant": "x"})), (Style::Deep, json!({"x": 1}))] {
            let error = pairs.add("f", &value, style, true).expect_err("it is another parameter");
            assert!(error.contains("a parameter of its own"), "{error}");
        }
        pairs.add("tenant", &json!("acme"), Style::Form, true).expect("its own name");
        let mut deep = json!(vec![1; 100]);
        for _ in 0..50 {
            deep = json!({ "long-name-of-a-level": deep });
        }
        let error = pairs.add("a", &deep, Style::Deep, true).expect_err("it is too long");
        assert!(error.contains("longer than 1000 bytes"), "{error}");
    }
}

//! Generates troublesome inputs from bytes: pieces known to a parser or matcher, repeated, nested and cut, rather than
//! random characters.

use serde_json::{Map, Value, json};

/// Deceptive characters: long when escaped, zero-width, of several forms, not letters.
const ODD: &[&str] = &[
    "\u{0}", "\u{1b}[2J", "\u{7f}", "\u{85}", "\u{200b}", "\u{202e}", "\u{feff}", "\u{e0001}", "\u{10ffff}", "İ", "ß",
    "ﷺ", "a\u{300}\u{300}", "語", "😀", "\\", "\"", "\n", "\r\n", "\u{2028}", " ", "▌", "",
];

/// Bytes of an input, consumed as they are read; after the end all are zero.
pub struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    /// An input of these bytes.
    pub fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    /// The next byte.
    pub fn byte(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    /// True when all bytes are consumed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of a list, which is not empty.
    pub fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.byte() % of.len()]
    }

    /// Number of repetitions: mostly one, sometimes `most`.
    pub fn times(&mut self, most: usize) -> usize {
        let byte = self.byte();
        match byte % 8 {
            0..=3 => 1,
            4 => 2 + byte / 64,
            5 => most.min(1 + byte),
            6 => most / 8 + 1,
            _ => most,
        }
    }

    /// Text of at most `most` bytes: a few parts, each one of `pieces` or an odd character, repeated.
    pub fn text(&mut self, pieces: &[&str], most: usize) -> String {
        let mut text = String::new();
        for _ in 0..=self.byte() % 6 {
            let part = if self.byte().is_multiple_of(5) { *self.one(ODD) } else { *self.one(pieces) };
            let room = (most - text.len()) / part.len().max(1);
            text.push_str(&part.repeat(self.times(room.max(1)).min(room)));
            if self.is_empty() {
                break;
            }
        }
        text
    }

    /// JSON text, now and then invalid, of about `most` bytes at most.
    pub fn json(&mut self, leaves: &[&str], most: usize) -> String {
        let mut text = match self.byte() % 8 {
            0 => return self.text(leaves, most),
            1 => Value::String(self.text(leaves, most / 8)).to_string(),
            2 => self
                .one(&["0", "-0.0", "1e400", "12345678901234567890123", "true", "null", "[]", "{}", "\"\""])
                .to_string(),
            _ => String::from("0"),
        };
        for _ in 0..=self.byte() % 6 {
            let room = most / (text.len() + 8);
            text = match self.byte() % 6 {
                0 => format!("[{}]", vec![text.as_str(); self.times(room.max(1)).min(room.max(1))].join(",")),
                1 => {
                    let key = Value::String(self.text(leaves, 40));
                    format!("{{{key}:{text}}}")
                }
                2 => {
                    let count = self.times(room.max(1)).min(room.max(1));
                    format!("{{{}}}", (0..count).map(|n| format!("\"{n:x}\":{text}")).collect::<Vec<_>>().join(","))
                }
                3 => {
                    let levels = self.times(120).min(120);
                    format!("{}{text}{}", "[".repeat(levels), "]".repeat(levels))
                }
                4 if text.len() * 2 < most => Value::String(text).to_string(),
                _ => format!("{}{text}{}", "{\"a\":".repeat(5), "}".repeat(5)),
            };
            if self.is_empty() {
                break;
            }
        }
        text
    }

    /// A schema with definitions that refer to each other, chains and doublings among them.
    pub fn schema(&mut self) -> Value {
        let count = 1 + self.byte() % 40;
        let link = self.byte();
        let mut defs = Map::new();
        for at in 0..count {
            let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
            let schema = match link % 6 {
                0 => self.part(2),
                1 => json!({ "allOf": [next.clone(), next] }),
                2 => json!({ "anyOf": [next.clone(), next, self.part(0)] }),
                3 => json!({ "type": "object", "properties": { "a": next.clone(), "b": next } }),
                4 => json!({ "type": "array", "items": next, "prefixItems": [self.part(0)] }),
                _ => json!({ "$ref": format!("#/$defs/d{}", self.byte() % count) }),
            };
            defs.insert(format!("d{at}"), schema);
        }
        defs.insert(format!("d{count}"), self.part(2));
        let mut root = match self.part(4) {
            Value::Object(root) => root,
            _ => Map::new(),
        };
        root.insert("$defs".to_owned(), Value::Object(defs));
        if self.byte().is_multiple_of(4) {
            root.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        }
        Value::Object(root)
    }

    fn part(&mut self, depth: usize) -> Value {
        if depth == 0 || self.is_empty() {
            return match self.byte() % 4 {
                0 => json!({ "$ref": format!("#/$defs/d{}", self.byte() % 40) }),
                1 => json!({ "type": self.one(&["string", "integer", "array", "object", "null"]) }),
                2 => json!({ "$ref": "#" }),
                _ => json!(self.byte().is_multiple_of(2)),
            };
        }
        let mut map = Map::new();
        for _ in 0..=self.byte() % 3 {
            let (keyword, argument) = self.keyword(depth - 1);
            map.insert(keyword.to_owned(), argument);
        }
        Value::Object(map)
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        const NAMES: &[&str] = &["a", "b", "c d", "class", "x-1", "é", "long_name_"];
        match self.byte() % 20 {
            0 => ("type", json!(self.one(&["string", "integer", "array", "object", "number", "boolean"]))),
            1 => ("enum", self.repeated(|input| json!(input.text(NAMES, 60)), 400)),
            2 => ("required", self.repeated(|input| json!(input.text(NAMES, 60)), 200)),
            3 => ("allOf", self.repeated(|input| input.part(depth), 20)),
            4 => ("anyOf", self.repeated(|input| input.part(depth), 20)),
            5 => ("oneOf", self.repeated(|input| input.part(depth), 20)),
            6 => ("items", self.part(depth)),
            7 => ("prefixItems", self.repeated(|input| input.part(depth), 20)),
            8 => ("additionalProperties", self.part(depth)),
            9 => {
                let pattern = self.text(PATTERNS, 300);
                ("patternProperties", json!({ pattern: self.part(depth) }))
            }
            10 => ("pattern", json!(self.text(PATTERNS, 300))),
            11 => ("format", json!(self.one(FORMATS))),
            12 => ("uniqueItems", json!(true)),
            13 => ("not", self.part(depth)),
            14 => ("default", serde_json::from_str(&self.json(NAMES, 2_000)).unwrap_or_default()),
            15 => {
                (*self.one(&["minItems", "minLength", "maxProperties", "multipleOf"]), json!(self.byte() * self.byte()))
            }
            16 => (*self.one(&["description", "title"]), json!(self.text(NAMES, 5_000))),
            17 => (
                *self.one(&["unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains"]),
                self.part(depth),
            ),
            18 => ("$ref", json!(format!("#/$defs/d{}", self.byte() % 40))),
            _ => {
                let count = self.times(60);
                let name = self.text(NAMES, 60);
                let schema = self.part(depth);
                let properties = (0..count).map(|at| (format!("{name}{at}"), schema.clone()));
                let named = [("a".to_owned(), self.part(depth))];
                ("properties", Value::Object(named.into_iter().chain(properties).collect()))
            }
        }
    }

    fn repeated(&mut self, make: impl Fn(&mut Self) -> Value, most: usize) -> Value {
        let (item, other) = (make(self), make(self));
        let mut items = vec![item; self.times(most)];
        items.push(other);
        Value::Array(items)
    }
}

/// Parts of regular expressions.
const PATTERNS: &[&str] = &[
    "a", "^", "$", ".*", "(a+)+", "(a|a)*", "\\w{50}", "[^x]", "\\p{L}{20}", "(?=a)", "(?!b)", "\\1", "(x+x+)+y", "(",
    ")", "{9,}", "{1000}", "[", "(?i)",
];

const FORMATS: &[&str] = &[
    "email", "uri", "uri-reference", "iri", "regex", "date-time", "duration", "hostname", "idn-hostname", "ipv6",
    "uuid", "json-pointer", "uri-template", "time", "unknown",
];

//! Any bytes as a tool definition: no panic, and every line of code in the stubs is ours.
//!
//! `cargo +nightly fuzz run schema_to_stub fuzz/corpus/schema_to_stub stubgen/tests/corpus -- -dict=fuzz/schema.dict`
#![no_main]

use forgefs_stubgen::{ServerDef, View, generate};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

#[path = "../../stubgen/tests/it/invariants.rs"]
mod invariants;

fuzz_target!(|data: &[u8]| {
    // Text that is JSON is used unchanged; other bytes build a schema.
    let value = serde_json::from_slice(data).unwrap_or_else(|_| Bytes(data).value(6));
    let tool = match value {
        Value::Object(map) if map.contains_key("name") => Value::Object(map),
        schema => {
            json!({"name": "t", "description": schema["description"], "inputSchema": schema, "outputSchema": schema})
        }
    };
    let server = generate(ServerDef { name: "s".to_owned(), tools: vec![tool], ..ServerDef::default() }, "s");
    let holds = |verdict: Result<(), String>, text: &str| verdict.unwrap_or_else(|why| panic!("{why} in\n{text}"));
    let init = server.init_pyi(|_| None);
    assert!(!init.is_empty());
    holds(invariants::python(&init, server.tools.len()), &init);
    holds(invariants::shown_as_it_is(&init), &init);
    for tool in &server.tools {
        let [pyi, dts, md, json] = View::ALL.map(|(_, view)| tool.view(view, None));
        assert!(!pyi.is_empty() && !json.is_empty());
        holds(invariants::python(&pyi, 1), &pyi);
        holds(invariants::typescript(&dts), &dts);
        for text in [&pyi, &dts, &md] {
            holds(invariants::shown_as_it_is(text), text);
        }
    }
});

const KEYWORDS: [&str; 30] = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "enum",
    "const",
    "default",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "nullable",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "pattern",
    "format",
    "title",
    "description",
    "examples",
    "minItems",
    "definitions",
    "a",
    "b",
    "deprecated",
];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];
const REFERENCES: [&str; 5] = ["#", "#/properties/a", "#/$defs/a", "#/properties/a/items", "#/definitions/b"];

struct Bytes<'data>(&'data [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.next() % if depth == 0 { 6 } else { 12 } {
            0 => Value::Null,
            1 => Value::from(self.next() % 2 == 0),
            2 => Value::from(self.next()),
            3 => Value::from(self.text()),
            4 => Value::from(TYPES[self.next() % TYPES.len()]),
            5 => Value::from(REFERENCES[self.next() % REFERENCES.len()]),
            6 | 7 => (0..self.next() % 5).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut map = Map::new();
        for _ in 0..self.next() % 6 {
            let key = match self.next() {
                at if at < 200 => KEYWORDS[at % KEYWORDS.len()].to_owned(),
                _ => self.text(),
            };
            map.insert(key, self.value(depth));
        }
        Value::Object(map)
    }

    fn text(&mut self) -> String {
        let length = (self.next() % 24).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

//! The interpreter accepts exactly what the library accepts.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.roll(of.len() as u64) as usize]
    }

    fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = 1 + self.roll(3);
        (0..count).map(|_| make(self)).collect()
    }

    fn name(&mut self) -> String {
        (*self.one(&["a", "b", "c", "dd", "", "a/b~"])).to_owned()
    }

    fn number(&mut self) -> Value {
        let texts =
            ["0", "1", "2", "3", "-1", "1.0", "1.5", "0.1", "0.3", "1e2", "100", "-0.0", "10000000000000000001"];
        serde_json::from_str(self.one::<&str>(&texts)).expect("a number")
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.roll(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 | 3 => self.number(),
            4 => json!(self.name()),
            5 => json!(self.one(&["abc", "aaa", "x-1", "2020-01-01", "a@b.cc", "ü", "{}"])),
            6 => Value::Array(self.some(|dice| dice.value(depth - 1))),
            _ => {
                let names = self.some(Self::name);
                Value::Object(names.into_iter().map(|name| (name, self.value(depth - 1))).collect())
            }
        }
    }

    fn schemas(&mut self, depth: u64) -> Value {
        let names = self.some(Self::name);
        Value::Object(names.into_iter().map(|name| (name, self.schema(depth))).collect())
    }

    fn names(&mut self) -> Value {
        let mut names = self.some(Self::name);
        names.sort();
        names.dedup();
        json!(names)
    }

    fn schema(&mut self, depth: u64) -> Value {
        if self.roll(12) == 0 {
            return json!(self.roll(3) > 0);
        }
        let mut map = Map::new();
        for _ in 0..1 + self.roll(3) {
            let (keyword, argument) = self.keyword(depth);
            map.insert(keyword.to_owned(), argument);
        }
        Value::Object(map)
    }

    fn keyword(&mut self, depth: u64) -> (&'static str, Value) {
        let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
        let flat: [&'static str; 20] = [
            "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
            "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "required",
            "dependentRequired", "uniqueItems", "pattern", "format", "$ref",
        ];
        let deep: [&'static str; 23] = [
            "properties", "patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems",
            "additionalItems", "contains", "minContains", "maxContains", "allOf", "anyOf", "oneOf", "not", "if",
            "then", "else", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems",
            "$dynamicRef", "additionalProperties",
        ];
        let keyword = if depth == 0 || self.roll(2) == 0 { *self.one(&flat) } else { *self.one(&deep) };
        let below = depth.saturating_sub(1);
        let argument = match keyword {
            "type" if self.roll(3) == 0 => json!([self.one(&types[..3]), self.one(&types[3..])]),
            "type" => json!(self.one(&types)),
            "enum" => Value::Array(self.some(|dice| dice.value(1))),
            "const" => self.value(1),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => self.number(),
            "multipleOf" => json!(self.one(&[0.1, 0.5, 1.0, 2.0, 3.0])),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains" => json!(self.roll(4)),
            "required" => self.names(),
            "dependentRequired" => {
                let name = self.name();
                json!({ name: self.names() })
            }
            "uniqueItems" => json!(self.roll(4) > 0),
            "pattern" => json!(self.one(&["^a", "b", "^[a-z]+$", "^(?!x)", "^\\d", "(a|b)$"])),
            "format" => json!(self.one(&["date", "email", "ipv4", "uuid", "nothing-known"])),
            "$ref" | "$dynamicRef" => json!(self.one(&["#", "#/$defs/a", "#/$defs/b", "#/definitions/c", "#anchor"])),
            "properties" | "dependentSchemas" => self.schemas(below),
            "patternProperties" => {
                let pattern = *self.one(&["^a", "b", ".", "^$"]);
                json!({ pattern: self.schema(below) })
            }
            "dependencies" => {
                let (name, other) = (self.name(), self.name());
                json!({ name: self.names(), other: self.schema(below) })
            }
            "prefixItems" | "allOf" | "anyOf" | "oneOf" => Value::Array(self.some(|dice| dice.schema(below))),
            "items" if self.roll(4) == 0 => Value::Array(self.some(|dice| dice.schema(below))),
            _ => self.schema(below),
        };
        (keyword, argument)
    }

    fn root(&mut self) -> Value {
        let mut root = match self.schema(3) {
            Value::Object(root) => root,
            _ => Map::new(),
        };
        let drafts = [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-06/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ];
        if let Some(draft) = drafts.get(self.roll(8) as usize) {
            root.insert("$schema".to_owned(), json!(draft));
        }
        let mut named = self.schema(1);
        if let Some(named) = named.as_object_mut() {
            named.insert("$anchor".to_owned(), json!("anchor"));
        }
        root.insert("$defs".to_owned(), json!({ "a": self.schema(2), "b": named }));
        root.insert("definitions".to_owned(), json!({ "c": self.schema(2) }));
        Value::Object(root)
    }
}

/// True if a schema refers back to itself without descending into the value: the result of such a cycle is undefined.
fn has_circle(root: &Value) -> bool {
    fn goes<'s>(root: &'s Value, schema: &'s Value, way: &mut Vec<&'s Value>) -> bool {
        let Some(map) = schema.as_object() else { return false };
        if way.iter().any(|known| std::ptr::eq(*known, schema)) {
            return true;
        }
        way.push(schema);
        let found = map.iter().any(|(keyword, argument)| match keyword.as_str() {
            "allOf" | "anyOf" | "oneOf" => argument.as_array().into_iter().flatten().any(|part| goes(root, part, way)),
            "dependentSchemas" | "dependencies" => {
                argument.as_object().into_iter().flatten().any(|(_, part)| goes(root, part, way))
            }
            "not" | "if" | "then" | "else" => goes(root, argument, way),
            "$ref" | "$dynamicRef" => match argument.as_str() {
                Some("#anchor") => goes(root, &root["$defs"]["b"], way),
                Some(pointer) => root.pointer(&pointer[1..]).is_some_and(|target| goes(root, target, way)),
                None => false,
            },
            _ => false,
        });
        way.pop();
        found
    }
    let mut todo = vec![root];
    while let Some(value) = todo.pop() {
        if goes(root, value, &mut Vec::new()) {
            return true;
        }
        match value {
            Value::Object(map) => todo.extend(map.values()),
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    false
}

/// `None` if the library does not compile the schema.
fn library(schema: &Value, value: &Value) -> Option<bool> {
    Some(jsonschema::options().build(schema).ok()?.is_valid(value))
}

fn agree(schema: &Value, value: &Value) {
    let (answer, _) = checked(schema, value, 10_000_000);
    match (library(schema, value), answer) {
        (None, _) | (_, Err(Halt::Stopped(_))) => {}
        (Some(fits), Ok(problems)) => {
            assert_eq!(problems.told.is_empty(), fits, "{value} of {schema}: {problems:?}");
        }
        (Some(_), Err(halt)) => panic!("{value} of {schema}: {halt:?}"),
    }
    let (meter, patterns) = (Meter::new(10_000_000), Patterns::default());
    if let (Some(fits), Ok(dialect)) = (library(schema, value), Dialect::of(schema, &meter)) {
        let quiet = Check::new(schema, dialect, &meter, &patterns).accepts(schema, value);
        assert_eq!(quiet, Ok(fits), "{value} of {schema}, quietly");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn random_schemas_get_the_librarys_answer(seed in 1_u64..) {
        let mut dice = Dice(seed);
        let schema = dice.root();
        prop_assume!(!has_circle(&schema));
        for _ in 0..4 {
            agree(&schema, &dice.value(3));
        }
    }
}

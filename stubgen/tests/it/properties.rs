//! Properties that hold for any input.

use forgefs_stubgen::{Observed, ServerDef, ServerStubs, View, canonical_json, generate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::catalogs::python_accepts;
use crate::invariants;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_json_as_a_schema_gives_a_stub(input in any_json(), output in any_json()) {
        let stubs = stubs(vec![json!({"name": "t", "inputSchema": input, "outputSchema": output})]);
        everything(&stubs);
    }

    #[test]
    fn arbitrary_schemas_give_a_stub_and_key_order_does_not_matter(schema in schema(), seed in any::<u64>()) {
        let input = json!({"type": "object", "properties": {"a": schema, "b": {"$ref": "#/properties/a"}}});
        let tool = json!({"name": "t", "description": "d", "inputSchema": input, "outputSchema": schema});
        let shuffled = shuffled(&tool, &mut (seed | 1));
        prop_assert_eq!(canonical_json(&tool), canonical_json(&shuffled));
        prop_assert_eq!(everything(&stubs(vec![tool])), everything(&stubs(vec![shuffled])));
    }

    #[test]
    fn tool_order_does_not_matter(mut names in prop::collection::hash_set("[a-z._/-]{0,6}|\\PC{1,4}", 1..12)) {
        let tools: Vec<Value> = names.drain().map(|name| json!({"name": name, "description": name})).collect();
        let reversed = tools.iter().rev().cloned().collect();
        prop_assert_eq!(everything(&stubs(tools)), everything(&stubs(reversed)));
    }

    #[test]
    fn hostile_text_stays_text(text in "[\\\\\"'#\n\r\t*/`{}%a-z \u{0}-\u{1f}\u{200b}-\u{202e}]{0,40}|\\PC{0,20}") {
        let schema = json!({"type": "object", "title": text, "required": [text], "properties": {
            text.clone(): {"type": "string", "enum": [text, "x"], "description": text, "default": text},
            "o": {"type": "object", "title": text, "properties": {text.clone(): {"const": text, "format": text, "pattern": text}}},
        }});
        let tool = json!({"name": format!("n{text}"), "title": text, "description": text, "inputSchema": schema, "outputSchema": schema});
        everything(&stubs(vec![tool]));
    }
}

#[test]
fn arbitrary_schemas_give_valid_python() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut files = Vec::new();
    for _ in 0..400 {
        let schema = schema().new_tree(&mut runner).expect("a schema").current();
        let input = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
        let stubs = stubs(vec![json!({"name": "t", "inputSchema": input, "outputSchema": schema})]);
        files.push(stubs.init_pyi(|_| None));
        files.push(stubs.tools[0].view(View::Pyi, None));
        let open = self::stubs(vec![json!({"name": "t", "inputSchema": input})]);
        let observed = Observed { answers: 3, schema: Some(schema) };
        let ours = |verdict: Result<(), String>| verdict.unwrap_or_else(|why| panic!("{why} for {observed:?}"));
        let [pyi, dts] = [View::Pyi, View::Dts].map(|view| open.tools[0].view(view, Some(&observed)));
        ours(invariants::python(&pyi, 1));
        ours(invariants::typescript(&dts));
        files.push(pyi);
        files.push(open.init_pyi(|_| Some(observed.clone())));
    }
    python_accepts(&files);
}

fn stubs(tools: Vec<Value>) -> ServerStubs {
    generate(ServerDef { name: "s".to_owned(), tools, ..ServerDef::default() }, "s")
}

/// Every file of a server, after checks that hold for all of them.
fn everything(stubs: &ServerStubs) -> Vec<String> {
    let ours = |verdict: Result<(), String>, text: &str| verdict.unwrap_or_else(|why| panic!("{why} in\n{text}"));
    let init = stubs.init_pyi(|_| None);
    ours(invariants::python(&init, stubs.tools.len()), &init);
    let mut files = vec![init];
    for tool in &stubs.tools {
        let [pyi, dts, md, json] = View::ALL.map(|(_, view)| tool.view(view, None));
        ours(invariants::python(&pyi, 1), &pyi);
        ours(invariants::typescript(&dts), &dts);
        files.extend([pyi, dts, md, json]);
    }
    for file in &files {
        ours(invariants::shown_as_it_is(file), file);
    }
    files
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["1e400", "-0", "1.50", "123456789012345678901234567890", "1E5"])
            .prop_map(|text| serde_json::from_str(text).expect("a number")),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keyword(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn keyword() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum",
            "const", "default", "additionalProperties", "patternProperties", "propertyNames", "nullable", "minimum",
            "maximum", "exclusiveMinimum", "pattern", "format", "title", "description", "examples", "minItems",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ]
}

/// Mostly valid schemas, with references into the document.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["string", "integer", "number", "boolean", "null", "array", "object", "file"])
            .prop_map(|name| json!({"type": name})),
        prop::collection::vec(
            prop_oneof![
                "[a-z\"'\\\\]{0,12}".prop_map(Value::from),
                any::<i8>().prop_map(Value::from),
                Just(Value::Null)
            ],
            1..4
        )
        .prop_map(|values| json!({"enum": values, "default": values[0]})),
        prop::sample::select(vec!["#", "#/properties/a", "#/$defs/x", "#/properties/a/items", "#/nowhere"])
            .prop_map(|to| json!({"$ref": to})),
        any::<bool>().prop_map(Value::from),
        Just(json!({"type": ["string", "null"], "maxLength": 5, "description": "d"})),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key =
            || prop::sample::select(vec!["a", "b", "class", "$x", "a-b", "str", "type", "__p"]).prop_map(str::to_owned);
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|items| json!({"type": "array", "prefixItems": items})),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|members| json!({"anyOf": members})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|members| json!({"allOf": members})),
            inner.clone().prop_map(|value| json!({"type": "object", "additionalProperties": value})),
            (prop::collection::vec((key(), inner), 1..4), key()).prop_map(|(entries, required)| {
                json!({"type": "object", "title": "T", "required": [required],
                       "properties": entries.into_iter().collect::<Map<_, _>>()})
            }),
        ]
    })
}

/// The same JSON with the keys of every object in another order.
fn shuffled(value: &Value, seed: &mut u64) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| shuffled(item, seed)).collect(),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, item)| (key.clone(), shuffled(item, seed))).collect();
            for at in (1..entries.len()).rev() {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                entries.swap(at, usize::try_from(*seed >> 33).unwrap_or(0) % (at + 1));
            }
            Value::Object(entries.into_iter().collect())
        }
        other => other.clone(),
    }
}

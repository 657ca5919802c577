//! Definitions made to block readers, or to fill the output.

use std::time::{Duration, Instant};

use forgefs_stubgen::{ServerDef, ServerStubs, View, generate};
use serde_json::{Map, Value, json};

/// Most bytes of one view of one tool, beside those of the definition.
const MAX_VIEW: usize = 4 << 20;

fn stubs(tools: Vec<Value>) -> ServerStubs {
    generate(ServerDef { name: "hostile".to_owned(), tools, ..ServerDef::default() }, "hostile")
}

fn object(count: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(entry).collect::<Map<_, _>>())
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(item).collect())
}

fn refers(to: impl std::fmt::Display) -> Value {
    json!({ "$ref": format!("#/$defs/{to}") })
}

/// `$defs` in which each refers to the next.
fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    object(length + 1, |at| {
        let next = if at == length {
            json!({ "type": "object", "properties": { "end": {} } })
        } else {
            link(refers(format_args!("d{}", at + 1)))
        };
        (format!("d{at}"), next)
    })
}

fn nest(depth: usize, inner: Value, link: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |inner, _| link(inner))
}

/// An input schema with `properties`, and definitions.
fn input(properties: Value, defs: Value) -> Value {
    json!({ "type": "object", "properties": properties, "$defs": defs })
}

fn cases() -> Vec<(&'static str, Value)> {
    let long = |letter: &str, count: usize| letter.repeat(count);
    let root = |keyword: &str| json!({ "$ref": "#/$defs/d0", "$defs": chain(60, |next| json!({ keyword: [next.clone(), next] })) });
    vec![
        ("allOf doubles", root("allOf")),
        ("anyOf doubles", root("anyOf")),
        ("oneOf doubles", root("oneOf")),
        (
            "both double",
            json!({ "$ref": "#/$defs/d0", "$defs": chain(60, |next| json!({ "anyOf": [next.clone(), next.clone()], "oneOf": [next.clone(), next.clone()], "allOf": [next] })) }),
        ),
        (
            "properties double",
            json!({ "$ref": "#/$defs/d0", "$defs": chain(60, |next| json!({ "type": "object", "properties": { "a": next, "b": next } })) }),
        ),
        (
            "properties double inline",
            nest(
                14,
                json!({ "type": "string" }),
                |inner| json!({ "type": "object", "properties": { "a": inner, "b": inner } }),
            ),
        ),
        (
            "items double",
            json!({ "properties": { "a": refers("d0") }, "$defs": chain(60, |next| json!({ "prefixItems": [next.clone(), next] })) }),
        ),
        ("a reference to itself", json!({ "$ref": "#" })),
        (
            "a circle of 10,000 aliases",
            json!({ "properties": { "a": refers("d0") }, "$defs": object(10_000, |at| (format!("d{at}"), json!({ "anyOf": [{ "type": "null" }, refers(format_args!("d{}", (at + 1) % 10_000)), { "type": "array", "items": refers(format_args!("d{at}")) }] }))) }),
        ),
        (
            "3,000 schemas that all refer to 300",
            input(
                object(3_000, |at| {
                    (format!("p{at}"), json!({ "anyOf": list(30, |to| refers(format_args!("d{}", (at + to) % 300))) }))
                }),
                object(300, |at| {
                    (
                        format!("d{at}"),
                        json!({ "anyOf": list(30, |to| refers(format_args!("d{}", (at * 7 + to) % 300))) }),
                    )
                }),
            ),
        ),
        ("a long chain of references", json!({ "$ref": "#/$defs/d0", "$defs": chain(10_000, |next| next) })),
        ("100,000 properties", input(object(100_000, |at| (format!("p{at}"), json!({ "type": "string" }))), json!({}))),
        (
            "100,000 required names",
            json!({ "type": "object", "required": list(100_000, |at| json!(format!("r{at}"))) }),
        ),
        (
            "20,000 properties in each of 1,000 forms",
            json!({ "type": "object", "properties": object(20_000, |at| (format!("p{at}"), json!({}))), "anyOf": list(1_000, |at| json!({ "required": [format!("p{at}")], "type": "object" })) }),
        ),
        (
            "1,000 forms of 100 names",
            json!({ "type": "object", "oneOf": list(1_000, |at| json!({ "required": list(100, |name| json!(format!("n{}", at * 100 + name))) })) }),
        ),
        (
            "100 forms of 1,000 names that are the same",
            json!({ "type": "object", "oneOf": list(100, |_| json!({ "properties": {}, "required": list(1_000, |name| json!(format!("n{name}"))) })) }),
        ),
        (
            "10,000 references to one long description",
            input(
                object(10_000, |at| (format!("p{at}"), refers("d"))),
                json!({ "d": { "type": "string", "description": long("word ", 4_000) } }),
            ),
        ),
        (
            "10,000 references to a long enum",
            input(
                object(10_000, |at| (format!("p{at}"), refers("d"))),
                json!({ "d": { "enum": list(8, |at| json!(format!("{}{at}", long("x", 990)))) } }),
            ),
        ),
        (
            "10,000 references to 1,000 allOf",
            input(
                object(10_000, |at| (format!("p{at}"), refers("d"))),
                json!({ "d": { "allOf": list(1_000, |at| json!({ "minimum": at })) } }),
            ),
        ),
        (
            "10,000 references to an object of 1,000",
            input(
                object(10_000, |at| {
                    (
                        format!("p{at}"),
                        json!({ "allOf": [refers("d"), { "title": format!("t{at}") , "minProperties": at }] }),
                    )
                }),
                json!({ "d": { "type": "object", "properties": object(1_000, |at| (format!("q{at}"), json!({}))) } }),
            ),
        ),
        (
            "an anchor among 20,000",
            input(
                object(2_000, |at| (format!("p{at}"), json!({ "$ref": format!("#none{at}") }))),
                object(20_000, |at| (format!("d{at}"), json!({ "$anchor": format!("a{at}") }))),
            ),
        ),
        ("names of 1 MB", input(json!({ long("n", 1_000_000): { "type": "string" } }), json!({}))),
        (
            "10,000 names of 900 bytes",
            input(object(10_000, |at| (format!("{}{at}", long("n", 900)), json!({ "type": "string" }))), json!({})),
        ),
        (
            "a description of 10 MB",
            json!({ "type": "object", "description": long("word ", 2_000_000), "properties": { "a": { "description": long("\u{200b}x", 1_000_000) } } }),
        ),
        ("a default of 2 MB", input(json!({ "a": { "default": list(100_000, |at| json!({ "k": at })) } }), json!({}))),
        (
            "a default for 5,000 fields",
            input(
                json!({ "a": { "type": "object", "properties": object(4_000, |at| (format!("f{at}"), json!({ "type": "integer" }))), "default": object(4_000, |at| (format!("f{at}"), json!(at))) } }),
                json!({}),
            ),
        ),
        (
            "an enum of 100,000 texts",
            input(json!({ "a": { "enum": list(100_000, |at| json!(format!("value-{at}"))) } }), json!({})),
        ),
        (
            "two enums of 50,000",
            input(
                json!({ "a": { "allOf": [{ "enum": list(50_000, |at| json!(at)) }, { "enum": list(50_000, |at| json!(at + 49_999)) }] } }),
                json!({}),
            ),
        ),
        (
            "10,000 constants",
            input(json!({ "a": { "oneOf": list(10_000, |at| json!({ "const": format!("c{at}") })) } }), json!({})),
        ),
        (
            "1,000 different tuples",
            input(
                json!({ "a": { "oneOf": list(1_000, |at| json!({ "prefixItems": list(20, |to| json!({ "const": at * 100 + to })) })) } }),
                json!({}),
            ),
        ),
        (
            "100,000 prefix items",
            input(json!({ "a": { "prefixItems": list(100_000, |_| json!({ "type": "integer" })) } }), json!({})),
        ),
        (
            "50,000 patternProperties",
            input(
                json!({ "a": { "patternProperties": object(50_000, |at| (format!("^p{at}"), json!({ "type": "array", "items": { "const": at } }))) } }),
                json!({}),
            ),
        ),
        (
            "20,000 equal titles",
            input(
                object(20_000, |at| {
                    (
                        format!("p{at}"),
                        json!({ "title": "T", "type": "object", "properties": { format!("q{at}"): {} } }),
                    )
                }),
                json!({}),
            ),
        ),
        (
            "2,000 objects that differ in the last of 50 keys",
            input(
                object(2_000, |at| {
                    (
                        format!("p{at}"),
                        json!({ "type": "object", "properties": object(50, |key| (format!("k{key}"), if key == 49 { json!({ "const": at }) } else { json!({}) })) }),
                    )
                }),
                json!({}),
            ),
        ),
        ("120 levels", nest(120, json!({}), |inner| json!({ "type": "object", "properties": { "child": inner } }))),
        ("120 levels of lists", nest(120, json!({}), |inner| json!({ "type": "array", "items": inner }))),
        (
            "long tuples in tuples behind a reference of each property",
            json!({
                "$ref": "#/$defs/all",
                "$defs": {
                    "all": { "type": "object", "properties": object(140, |at| (format!("{}{at}", long("n", 80)), json!({ "$ref": "#/$defs/one", "items": { "type": "null" } }))) },
                    "one": nest(54, json!({ "prefixItems": list(20, |_| json!({ "$ref": "#" })) }), |inner| json!({ "prefixItems": [inner] })),
                },
            }),
        ),
        (
            "long tuples in twenty lists",
            input(
                json!({ "a": nest(20, json!({ "prefixItems": list(400, |_| json!({ "type": "null" })) }), |inner| json!({ "items": inner })) }),
                json!({}),
            ),
        ),
        ("an output schema of the same kind", json!({ "type": "object" })),
    ]
}

#[test]
fn a_hostile_definition_takes_little_time_and_gives_a_bounded_stub() {
    let mut wrong = Vec::new();
    for (name, schema) in cases() {
        for field in ["inputSchema", "outputSchema"] {
            let definition = json!({ "name": "tool", field: schema });
            let bytes = definition.to_string().len();
            if field == "outputSchema" && bytes > 100_000 {
                continue;
            }
            let start = Instant::now();
            let stubs = stubs(vec![definition]);
            let tool = &stubs.tools[0];
            let [pyi, dts, md, _] = View::ALL.map(|(_, view)| tool.view(view, None).len());
            let views = [pyi, dts, md, stubs.init_pyi(|_| None).len(), tool.signature().len()];
            let took = start.elapsed();
            let params: usize =
                tool.params().iter().map(|p| p.ty.len() + p.description.as_ref().map_or(0, String::len)).sum();
            if took > Duration::from_secs(60) || views.iter().any(|view| *view > MAX_VIEW) || params > MAX_VIEW {
                wrong.push(format!("{name} as {field}: {bytes} bytes take {took:?} and give {views:?}, {params}"));
            }
            if tool.signature().len() > 64 << 10 {
                wrong.push(format!("{name} as {field}: a signature of {}", tool.signature().len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn small_definitions_do_not_unfold_into_large_stubs() {
    for (name, schema) in cases() {
        let definition = json!({ "name": "tool", "inputSchema": schema });
        let bytes = definition.to_string().len();
        if bytes < 30_000 {
            let tool = &stubs(vec![definition]).tools[0];
            // The fuzzed bound of all views is 50 times the definition, and the text that every stub has.
            let most = 10 * bytes + (10 << 10);
            let [pyi, dts] = [View::Pyi, View::Dts].map(|view| tool.view(view, None).len());
            assert!(pyi < most && dts < most, "{name}: {bytes} give {pyi}");
        }
    }
}

#[test]
fn many_tools_take_time_in_proportion() {
    let tool = |name: String| json!({ "name": name, "inputSchema": { "type": "object" } });
    for (name, tools) in [
        ("a category each", (0..20_000).map(|at| tool(format!("c{at}.x"))).collect::<Vec<_>>()),
        (
            "names that collide",
            (0..20_000)
                .map(|at| {
                    tool(format!(
                        "a{}",
                        "!?-+".chars().cycle().skip(at % 4).take(1 + at / 4 % 80).collect::<String>()
                            + &format!("{at}")
                    ))
                })
                .collect(),
        ),
        ("one identifier", (0..5_000).map(|at| tool(format!("{}{at}", "é".repeat(96)))).collect()),
        (
            "identifiers that are taken",
            (0..10_000).map(|at| tool(if at % 2 == 0 { format!("x_{at}") } else { format!("X?{at}") })).collect(),
        ),
        ("names of 200 kB", (0..40).map(|at| tool(format!("{}{at}", "aB".repeat(100_000)))).collect()),
    ] {
        let start = Instant::now();
        let stubs = stubs(tools);
        assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
        let init = stubs.init_pyi(|_| None).len();
        assert!(init < 8 << 20, "{name}: {init}");
    }
}

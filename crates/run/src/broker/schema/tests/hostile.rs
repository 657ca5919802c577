//! Hostile schemas and values for validators, each within the published steps.

use serde_json::{Map, json};

use super::*;
use crate::broker::arguments::allowed;

/// Expected end of a case.
#[derive(Debug, PartialEq, Eq)]
enum Ends {
    Fits,
    Fails,
    /// Limit met: steps or levels.
    Limited,
    /// The schema cannot be read.
    Unread,
    /// Any of them.
    Either,
}

use Ends::{Either, Fails, Fits, Limited, Unread};

/// `$defs` in which each refers to the next as `link` says, down to `last`.
fn chain(length: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    let mut defs = Map::new();
    for at in 0..length {
        defs.insert(format!("d{at}"), link(json!({ "$ref": format!("#/$defs/d{}", at + 1) })));
    }
    defs.insert(format!("d{length}"), last);
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

/// The same, nested instead of referenced.
fn nest(depth: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    (0..depth).fold(last, |inner, _| link(inner))
}

fn twice(keyword: &str) -> impl Fn(Value) -> Value {
    move |next| json!({ keyword: [next.clone(), next] })
}

/// `{"child": {"child": … {}}}`.
fn deep(levels: usize, inner: Value) -> Value {
    nest(levels, |value| json!({ "child": value }), inner)
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(item).collect())
}

fn array(items: Value) -> Value {
    json!({ "type": "object", "properties": { "items": { "type": "array", "items": items } } })
}

/// A recursive schema that meets each child twice: without caching, steps double with each level.
fn tree(keyword: &str) -> Value {
    let node = json!({ keyword: [
        { "properties": { "child": { "$ref": "#/$defs/node" } } },
        { "properties": { "child": { "$ref": "#/$defs/node" } }, "required": ["child"] },
    ]});
    json!({ "$ref": "#/$defs/node", "$defs": { "node": node } })
}

fn cases() -> Vec<(&'static str, Value, Value, Ends)> {
    let one = || json!({ "a": 1 });
    let words = |count: usize| many(count, |at| json!(format!("word-{at}")));
    let objects = |count: usize| many(count, |at| json!({ "a": at, "b": [at] }));
    let backtrack = format!("{}b", "a".repeat(60));
    vec![
        // Chains that double at each link.
        ("allOf doubles, accepted", chain(60, twice("allOf"), json!({})), one(), Fits),
        ("allOf doubles, refused", chain(60, twice("allOf"), json!(false)), one(), Fails),
        ("anyOf doubles, refused", chain(60, twice("anyOf"), json!(false)), one(), Fails),
        ("oneOf doubles, refused", chain(60, twice("oneOf"), json!({ "type": "string" })), one(), Fails),
        ("oneOf doubles, accepted twice", chain(60, twice("oneOf"), json!({})), one(), Fails),
        ("not doubles", chain(60, |next| json!({ "not": { "allOf": [next.clone(), next] } }), json!({})), one(), Fits),
        (
            "if, then and else are the next",
            chain(60, |next| json!({ "if": next.clone(), "then": next.clone(), "else": next }), json!({})),
            one(),
            Fits,
        ),
        (
            "dependentSchemas double",
            chain(50, |next| json!({ "dependentSchemas": { "a": next.clone(), "b": next } }), json!(false)),
            json!({ "a": 1, "b": 2 }),
            Fails,
        ),
        (
            "unevaluatedProperties under chains that double",
            json!({ "unevaluatedProperties": false, "allOf": [chain(40, twice("allOf"), json!({}))["$defs"]["d0"]],
                "$defs": chain(40, twice("allOf"), json!({ "properties": { "a": {} } }))["$defs"] }),
            one(),
            Limited,
        ),
        (
            "unevaluatedProperties at each of 40 levels",
            nest(
                40,
                |inner| json!({ "unevaluatedProperties": false, "allOf": [inner] }),
                json!({ "properties": { "a": {} } }),
            ),
            one(),
            Either,
        ),
        (
            "unevaluatedItems at each of 30 levels",
            json!({ "properties": { "a": nest(30, |inner| json!({ "unevaluatedItems": false, "anyOf": [inner] }),
                json!({ "prefixItems": [{}] })) } }),
            json!({ "a": [1, 2] }),
            Either,
        ),
        (
            "a chain as long as a definition",
            chain(10_000, |next| json!({ "allOf": [next] }), json!({})),
            one(),
            Limited,
        ),
        ("a chain of bare references", chain(10_000, |next| next, json!({})), one(), Limited),
        ("100 wide and 60 long", chain(60, |next| json!({ "allOf": vec![next; 100] }), json!(false)), one(), Fails),
        (
            "propertyNames double",
            chain(40, |next| json!({ "propertyNames": { "allOf": [next.clone(), next] } }), json!({})),
            one(),
            Fits,
        ),
        (
            "propertyNames of chains that double",
            json!({ "propertyNames": chain(60, twice("allOf"), json!({}))["$defs"]["d0"],
                "$defs": chain(60, twice("allOf"), json!({ "minLength": 1 }))["$defs"] }),
            one(),
            Limited,
        ),
        // Cycles of references.
        ("a reference to itself", json!({ "$ref": "#" }), one(), Fits),
        (
            "two references to each other",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
            one(),
            Fits,
        ),
        (
            "not itself",
            json!({ "$defs": { "a": { "not": { "$ref": "#/$defs/a" } } }, "$ref": "#/$defs/a" }),
            one(),
            Fails,
        ),
        (
            "all of itself twice",
            json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }, { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }] }),
            one(),
            Fits,
        ),
        (
            "100 schemas that all refer to all",
            json!({ "$ref": "#/$defs/d0", "$defs": (0..100).map(|at| (format!("d{at}"), json!({ "anyOf":
                (0..100).map(|to| json!({ "$ref": format!("#/$defs/d{to}") })).collect::<Vec<_>>() })))
                .collect::<Map<_, _>>() }),
            one(),
            Fits,
        ),
        (
            "100 that refuse and all refer to all",
            json!({ "$ref": "#/$defs/d0", "$defs": (0..100).map(|at| (format!("d{at}"), json!({ "type": "string", "allOf":
                (0..100).map(|to| json!({ "$ref": format!("#/$defs/d{to}") })).collect::<Vec<_>>() })))
                .collect::<Map<_, _>>() }),
            one(),
            Limited,
        ),
        (
            "a dynamic reference to itself",
            json!({ "$dynamicAnchor": "n", "allOf": [{ "$dynamicRef": "#n" }, { "$dynamicRef": "#n" }] }),
            one(),
            Fits,
        ),
        (
            "dynamic references through 200 resources",
            json!({ "$id": "http://x/0", "$dynamicAnchor": "n", "$ref": "http://x/1", "$defs": (1..200).map(|at| (format!("d{at}"),
                json!({ "$id": format!("http://x/{at}"), "$dynamicAnchor": "n", "allOf": [
                    { "$ref": format!("http://x/{}", at % 199 + 1) }, { "$dynamicRef": "#n" } ] }))).collect::<Map<_, _>>() }),
            one(),
            Either,
        ),
        ("a reference into the network", json!({ "$ref": "http://169.254.169.254/latest" }), one(), Unread),
        ("a reference to a file", json!({ "$ref": "file:///etc/passwd" }), one(), Unread),
        ("a pointer of 100 kB", json!({ "$ref": format!("#{}", "/a".repeat(50_000)) }), one(), Unread),
        (
            "a reference into a constant",
            json!({ "$ref": "#/const/x", "const": { "x": twice("allOf")(json!({ "$ref": "#/const/x" })) } }),
            one(),
            Fails,
        ),
        ("a reference to no schema", json!({ "$ref": "#/required", "required": ["a"] }), one(), Unread),
        // Recursive schemas of honest servers, and deep arguments.
        ("a tree of 20 levels, all of", tree("allOf"), deep(20, json!({})), Fails),
        ("a tree of 20 levels, any of", tree("anyOf"), deep(20, json!({})), Fits),
        ("a tree of 40 levels, one of", tree("oneOf"), deep(40, json!({})), Either),
        ("a tree of 100 levels", tree("anyOf"), deep(100, json!({})), Either),
        (
            "a filter of 20 levels that is wrong at the end",
            json!({ "$ref": "#/$defs/f", "$defs": { "f": { "anyOf": [
                { "type": "object", "properties": { "child": { "$ref": "#/$defs/f" } }, "required": ["child"], "additionalProperties": false },
                { "type": "object", "properties": { "field": { "type": "string" } }, "required": ["field"], "additionalProperties": false } ] } } }),
            deep(20, json!({ "field": 1 })),
            Fails,
        ),
        (
            "a filter of 20 levels that is right",
            json!({ "$ref": "#/$defs/f", "$defs": { "f": { "oneOf": [
                { "type": "object", "properties": { "child": { "$ref": "#/$defs/f" } }, "required": ["child"], "additionalProperties": false },
                { "type": "object", "properties": { "field": { "type": "string" } }, "required": ["field"], "additionalProperties": false } ] } } }),
            deep(20, json!({ "field": "x" })),
            Fits,
        ),
        // Wide values.
        ("100,000 wrong items", array(json!({ "type": "integer" })), json!({ "items": words(100_000) }), Fails),
        ("100,000 right items", array(json!({ "type": "string" })), json!({ "items": words(100_000) }), Fits),
        (
            "100,000 items none of which is allowed",
            json!({ "properties": { "items": { "prefixItems": [{}], "items": false } } }),
            json!({ "items": words(100_000) }),
            Fails,
        ),
        (
            "100,000 items that miss a key",
            array(json!({ "required": ["a", "b", "c"] })),
            json!({ "items": many(100_000, |_| json!({})) }),
            Fails,
        ),
        (
            "100,000 items for one of two",
            array(json!({ "oneOf": [{ "type": "integer" }, { "type": "null" }] })),
            json!({ "items": words(100_000) }),
            Fails,
        ),
        (
            "100,000 unique items",
            json!({ "properties": { "items": { "uniqueItems": true } } }),
            json!({ "items": words(100_000) }),
            Fits,
        ),
        (
            "one item of 100,000 that 400 rules want unique",
            json!({ "properties": { "items": { "allOf": many(400, |_| json!({ "uniqueItems": true })) } } }),
            json!({ "items": [many(100_000, |_| json!(0))] }),
            Limited,
        ),
        (
            "50,000 unique objects",
            json!({ "properties": { "items": { "uniqueItems": true } } }),
            json!({ "items": objects(50_000) }),
            Fits,
        ),
        (
            "50,000 numbers that one double stands for",
            json!({ "properties": { "items": { "uniqueItems": true } } }),
            json!({ "items": many(50_000, |at| serde_json::from_str(&format!("1{at:05}e300")).unwrap_or_default()) }),
            Fits,
        ),
        (
            "50,000 long integers that one double stands for",
            json!({ "properties": { "items": { "uniqueItems": true } } }),
            json!({ "items": many(50_000, |at| serde_json::from_str(&format!("1000000000000000000000000000{at:05}")).unwrap_or_default()) }),
            Fits,
        ),
        (
            "100,000 items of which none is contained",
            json!({ "properties": { "items": { "contains": { "type": "integer" } } } }),
            json!({ "items": words(100_000) }),
            Fails,
        ),
        (
            "many items, each with 300 options",
            array(json!({ "enum": many(300, |at| json!(at)) })),
            json!({ "items": many(20_000, |_| json!(-1)) }),
            Either,
        ),
        (
            "100,000 options",
            json!({ "properties": { "a": { "enum": many(100_000, |at| json!(at)) } } }),
            json!({ "a": "none" }),
            Fails,
        ),
        (
            "10,000 items and options",
            array(json!({ "enum": many(10_000, |at| json!(at)) })),
            json!({ "items": many(10_000, |_| json!([-1])) }),
            Fails,
        ),
        (
            "10,000 items, and all options to the last",
            array(json!({ "enum": many(10_000, |at| json!(at)) })),
            json!({ "items": many(10_000, |_| json!(9_999)) }),
            Limited,
        ),
        (
            "a constant as large as the schema",
            array(json!({ "const": many(50_000, |at| json!(at)) })),
            json!({ "items": [words(50_000)] }),
            Fails,
        ),
        (
            "a constant compared 1,000 times",
            json!({ "allOf": vec![json!({ "const": many(40, |at| json!(at)) }); 1_000] }),
            json!({ "a": 1 }),
            Fails,
        ),
        (
            "100,000 unknown names",
            json!({ "additionalProperties": false }),
            Value::Object((0..100_000).map(|at| (format!("n{at}"), json!(1))).collect()),
            Fails,
        ),
        (
            "20,000 names and 40 patterns",
            json!({ "patternProperties": (0..40).map(|at| (format!("^x{at}"), json!(false))).collect::<Map<_, _>>() }),
            Value::Object((0..20_000).map(|at| (format!("n{at}"), json!(1))).collect()),
            Fits,
        ),
        (
            "10,000 properties, none given",
            json!({ "properties": (0..10_000).map(|at| (format!("n{at}"), json!(false))).collect::<Map<_, _>>() }),
            one(),
            Fits,
        ),
        (
            "10,000 required",
            json!({ "required": (0..10_000).map(|at| format!("n{at}")).collect::<Vec<_>>() }),
            one(),
            Fails,
        ),
        (
            "a name of 500 kB",
            json!({ "properties": { "x".repeat(500_000): { "type": "string" } } }),
            json!({ "x".repeat(500_000): 1 }),
            Fails,
        ),
        // Strings and patterns.
        (
            "a pattern that backtracks",
            json!({ "properties": { "a": { "pattern": "^(?=a)(a|a|aa)*$" } } }),
            json!({ "a": backtrack }),
            Fails,
        ),
        (
            "a backreference that backtracks",
            json!({ "properties": { "a": { "pattern": "^(a+)+\\1(a+)+\\2$" } } }),
            json!({ "a": backtrack }),
            Fails,
        ),
        (
            "200 strings that backtrack",
            array(json!({ "pattern": "^(?=a)(a|a|aa)*$" })),
            json!({ "items": vec![backtrack.clone(); 200] }),
            Either,
        ),
        (
            "a nested count",
            json!({ "properties": { "a": { "pattern": "((a{100}){100}){100}" } } }),
            json!({ "a": "aaa" }),
            Either,
        ),
        (
            "a pattern with as many states as may be, on 40 kB",
            json!({ "properties": { "a": { "pattern": "[01]*1[01]{900}x" } } }),
            json!({ "a": "01".repeat(20_000) }),
            Either,
        ),
        (
            "50 patterns of classes",
            json!({ "properties": { "a": { "allOf": many(50, |at| json!({ "pattern": format!("\\p{{L}}{{8}}{at}") })) } } }),
            json!({ "a": "x" }),
            Either,
        ),
        ("no pattern", json!({ "properties": { "a": { "pattern": "(" } } }), json!({ "a": "x" }), Unread),
        (
            "a long string",
            json!({ "properties": { "a": { "maxLength": 10, "minLength": 2_000_000 } } }),
            json!({ "a": "é".repeat(400_000) }),
            Fails,
        ),
        (
            "a format on a long string",
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "a": { "format": "email" } } }),
            json!({ "a": "@".repeat(500_000) }),
            Fails,
        ),
        (
            "a pattern as a value",
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "a": { "format": "regex" } } }),
            json!({ "a": "(".repeat(1_000) }),
            Fails,
        ),
        // Numbers.
        (
            "an exponent without end",
            json!({ "properties": { "a": { "multipleOf": 7, "maximum": 1e300 } } }),
            serde_json::from_str("{\"a\": 1e999999999}").unwrap_or_default(),
            Fails,
        ),
        (
            "a number of 500 kB",
            json!({ "properties": { "a": { "multipleOf": 3, "type": "integer" } } }),
            serde_json::from_str(&format!("{{\"a\": {}}}", "3".repeat(500_000))).unwrap_or_default(),
            Fits,
        ),
        (
            "a step of 1,000 digits",
            serde_json::from_str(&format!("{{\"properties\": {{\"a\": {{\"multipleOf\": {}}}}}}}", "7".repeat(1_000)))
                .unwrap_or_default(),
            json!({ "a": 1 }),
            Fits,
        ),
        // Invalid schemas.
        ("a keyword of another form", json!({ "properties": { "a": { "required": true } } }), one(), Unread),
        ("an unknown dialect", json!({ "$schema": "http://example.com/mine" }), one(), Unread),
        ("a list as schema", json!([1, 2]), one(), Unread),
        ("120 schemas inside each other", nest(120, |inner| json!({ "allOf": [inner] }), json!(false)), one(), Fails),
        (
            "100,000 annotations",
            Value::Object((0..100_000).map(|at| (format!("x-{at}"), json!(at))).collect()),
            one(),
            Fits,
        ),
        (
            "50,000 annotations, met by 2,000 items",
            array(Value::Object((0..50_000).map(|at| (format!("x-{at}"), json!(at))).collect())),
            json!({ "items": words(2_000) }),
            Either,
        ),
        (
            "200,000 names that are required at once",
            json!({ "required": many(100_000, |at| json!(format!("{at}"))), "dependentRequired": { "a": many(100_000, |at| json!(format!("{at}"))) } }),
            one(),
            Fails,
        ),
    ]
}

#[test]
fn hostile_schemas_end_within_the_published_steps() {
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 50, "{}", cases.len());
    for (name, schema, value, ends) in cases {
        let bytes = (schema.to_string().len(), value.to_string().len());
        let steps = allowed(bytes.1, bytes.0);
        let (answer, spent) = checked(&schema, &value, steps);
        let end = match &answer {
            Ok(problems) if problems.told.is_empty() => Fits,
            Ok(problems) => {
                assert!(problems.line().len() < 3_000, "{name}: {}", problems.line());
                Fails
            }
            Err(Halt::Unreadable(_)) => Unread,
            Err(_) => Limited,
        };
        if end != ends && ends != Either || spent > steps {
            wrong.push(format!("{name}: {end:?} after {spent} of {steps} steps"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_deepest_check_fits_the_stack_of_a_thread() {
    let chain = |length| chain(length, |next| json!({ "if": {}, "then": { "allOf": [next] } }), json!(false));
    for (length, ends) in [(80, Ok(false)), (200, Err(Halt::TooDeep))] {
        let schema = chain(length);
        let (answer, _) = checked(&schema, &json!({}), 1_000_000);
        assert_eq!(answer.map(|problems| problems.told.is_empty()), ends, "{length}");
    }
}

#[test]
fn problems_are_told_in_a_line_of_bounded_length() {
    let schema = array(json!({ "enum": many(10_000, |at| json!(format!("{at}{}", "x".repeat(50)))) }));
    let (answer, _) = checked(&schema, &json!({ "items": ["y".repeat(100_000), ["z".repeat(100_000)]] }), 100_000_000);
    let line = answer.map(|problems| problems.line()).unwrap_or_default();
    let beginning = line.contains("`items.0`: \"yyy") && line.contains("`items.1`: [\"zzz");
    assert!(beginning && line.contains("and 9995 more]"), "{line}");
    assert!(line.len() < 1_500, "{}", line.len());
    let schema = array(json!({ "type": "integer" }));
    for (count, says) in [(5, None), (7, Some("and 2 more")), (3_000, Some("and more than 1000 more"))] {
        let (answer, _) = checked(&schema, &json!({ "items": many(count, |_| json!("a")) }), 100_000_000);
        let line = answer.map(|problems| problems.line()).unwrap_or_default();
        assert_eq!(line.contains(" more"), says.is_some(), "{line}");
        assert!(line.contains(says.unwrap_or_default()), "{line}");
    }
}

#[test]
fn the_page_of_limits_says_how_many_steps_there_are() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md")).expect("the page");
    let steps = [allowed(1, 0) - allowed(0, 0), allowed(0, 1) - allowed(0, 0), allowed(0, 0)];
    assert_eq!(steps, [100, 100, 2_000_000]);
    assert!(page.contains("100 steps per byte of both, and 2,000,000 steps"), "{page}");
}

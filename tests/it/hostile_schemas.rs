//! Input schemas and arguments made to block the gateway: clear errors, while other requests are answered.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::client::{Fence, Session};
use crate::faulty::python;

/// Definitions whose check uses all allowed steps.
fn endless() -> Value {
    let options: Vec<Value> = (0..4_000).map(|at| json!([at, "an option"])).collect();
    let items = json!({ "type": "array", "items": { "enum": options } });
    json!({ "name": "endless", "inputSchema": { "type": "object", "properties": { "items": items } } })
}

/// `$defs` in which each refers to the next twice.
fn doubling(keyword: &str) -> Value {
    let mut defs = Map::new();
    for at in 0..100 {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        defs.insert(format!("d{at}"), json!({ keyword: [next.clone(), next] }));
    }
    defs.insert("d100".to_owned(), json!({ "type": "object", "required": ["a"] }));
    json!({ "name": keyword, "inputSchema": { "$ref": "#/$defs/d0", "$defs": defs } })
}

fn tools() -> Value {
    let node = json!({ "anyOf": [
        { "type": "object", "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/node" } } },
          "required": ["and"], "additionalProperties": false },
        { "type": "object", "properties": { "field": { "type": "string" } }, "required": ["field"],
          "additionalProperties": false },
    ]});
    let filter =
        json!({ "type": "object", "properties": { "where": { "$ref": "#/$defs/node" } }, "$defs": { "node": node } });
    let unique = json!({ "type": "object", "properties": { "items": { "type": "array", "uniqueItems": true } } });
    let integers =
        json!({ "type": "object", "properties": { "ids": { "type": "array", "items": { "type": "integer" } } } });
    let pattern =
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(?=a)(a|a|aa)*$" } } });
    json!([
        { "name": "integers", "inputSchema": integers },
        { "name": "filter", "inputSchema": filter },
        { "name": "unique", "inputSchema": unique },
        { "name": "pattern", "inputSchema": pattern },
        { "name": "circle", "inputSchema": { "$ref": "#" } },
        { "name": "large", "description": "x".repeat(1_100_000), "inputSchema": { "type": "object" } },
        doubling("allOf"),
        doubling("anyOf"),
        doubling("oneOf"),
        endless(),
    ])
}

async fn serve(fence: &Fence) -> Option<Session> {
    let file = fence.write("tools.json", &tools().to_string());
    let config = python("hostile", "schemas.py", &[&file.to_string_lossy()])?;
    let session = fence.serve(&config).await;
    session.ready(&["hostile"]).await;
    Some(session)
}

#[tokio::test]
async fn hostile_schemas_and_arguments_get_a_clear_answer() {
    let fence = Fence::new();
    let Some(session) = serve(&fence).await else { return };
    let nested =
        |inner: &str, levels: usize| format!("let w = {inner}; for (let i = 0; i < {levels}; i++) w = {{and: [w]}};");
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "100,000 wrong items",
            "const ids = Array.from({length: 100000}, (_, i) => 'w' + i);",
            "integers({ids})",
            &["INVALID_ARGS", "`ids.0`: \"w0\" is not of type integer", "and more than 1000 more"],
        ),
        (
            "20 levels of a filter, wrong",
            &nested("{field: 1}", 20),
            "filter({where: w})",
            &["INVALID_ARGS", "`where`", "anyOf"],
        ),
        ("a pattern that backtracks", "const a = 'a'.repeat(60) + 'b';", "pattern({a})", &["INVALID_ARGS", "`a`"]),
        ("allOf that doubles", "", "allOf({b: 1})", &["INVALID_ARGS", "`a` is missing"]),
        ("anyOf that doubles", "", "anyOf({b: 1})", &["INVALID_ARGS", "anyOf"]),
        ("oneOf that doubles", "", "oneOf({a: 1})", &["INVALID_ARGS"]),
        ("a definition over the limit", "", "large({})", &["LIMIT_EXCEEDED", "definition of a tool", "1048576 bytes"]),
        (
            "as many steps as there may be",
            "const items = Array.from({length: 3000}, (_, i) => [3999, 'an option']);",
            "endless({items})",
            &["LIMIT_EXCEEDED", "steps to check these arguments"],
        ),
    ];
    let started = Instant::now();
    for (name, before, call, says) in cases {
        let error = session.execute_err("javascript", &format!("{before}\nreturn await hostile.{call}")).await;
        for part in *says {
            assert!(error.contains(part), "{name}: no {part:?} in: {error}");
        }
        assert!(error.len() < 10_000, "{name}: {}", error.len());
    }
    for (name, before, call, answers) in [
        ("a circle", String::new(), "circle({a: 1})", json!(["a"])),
        ("20 levels of a filter", nested("{field: 'x'}", 20), "filter({where: w})", json!(["where"])),
        (
            "100,000 unique items",
            "const items = Array.from({length: 100000}, (_, i) => i);".to_owned(),
            "unique({items})",
            json!(["items"]),
        ),
        ("what the schema wants", String::new(), "allOf({a: 1})", json!(["a"])),
    ] {
        let answer = session.execute("javascript", &format!("{before}\nreturn await hostile.{call}")).await;
        assert_eq!(answer, answers, "{name}");
    }
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
}

/// During one check `ls` is answered, and the run's own deadline ends it.
#[tokio::test]
async fn others_are_answered_while_arguments_are_checked() {
    let fence = Fence::new();
    let Some(session) = serve(&fence).await else { return };
    let code = "const items = Array.from({length: 30000}, () => [3999, 'an option']);\n\
        return await Promise.all([0, 1, 2, 3].map(() => hostile.endless({items})))";
    let run = session.call("execute", json!({ "language": "javascript", "code": code, "timeout_secs": 5 }));
    let listing = async {
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let started = Instant::now();
            let listed = session.call("ls", json!({})).await;
            assert!(!listed.is_error, "{listed:?}");
            longest = longest.max(started.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        longest
    };
    let started = Instant::now();
    let (answer, longest) = tokio::join!(run, listing);
    assert!(answer.is_error, "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}: {}", started.elapsed(), answer.text);
    // A step of the old check blocked the only thread for minutes.
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    assert_eq!(session.execute("javascript", "return 1").await, json!(1));
}

/// A schema that is none checks nothing, and says nothing about a tool of that name elsewhere.
#[tokio::test]
async fn schemas_of_one_name_are_told_apart_and_an_argument_has_one_spelling() {
    let fence = Fence::new();
    let number = json!({ "type": "integer" });
    let strict = json!({ "type": "object", "properties": { "count": number, "max-results": number } });
    let mut config = String::new();
    for (name, schema) in [("open", json!({ "type": 7 })), ("strict", strict)] {
        let tools = json!([{ "name": "act", "inputSchema": schema }]);
        let file = fence.write(format!("{name}.json"), &tools.to_string());
        let Some(server) = python(name, "schemas.py", &[&file.to_string_lossy()]) else { return };
        config.push_str(&server);
    }
    let session = fence.serve(&config).await;
    session.ready(&["open", "strict"]).await;
    assert_eq!(session.execute("starlark", "open.act(count=\"x\")").await, json!(["count"]));
    for (code, why) in [
        ("strict.act(count=str(1))", "INVALID_ARGS: act: "),
        (
            "strict.act(**{\"max-results\": 1, \"max_results\": 2})",
            "INVALID_ARGS: act: argument `max-results` is given twice, by two of its spellings",
        ),
    ] {
        let error = session.execute_err("starlark", code).await;
        assert!(error.starts_with(why), "{error}");
    }
    assert_eq!(
        session.execute("starlark", "strict.act(count=1, max_results=2)").await,
        json!(["count", "max-results"])
    );
}

//! Forms of code that models write, and values of every kind at every place where they leave a script: each runs or is
//! told, and none is lost in silence.

use serde_json::{Value, json};

use crate::client::{Fence, Session, finish, value_of};
use crate::faulty::has_python;

/// A server whose tools have names that languages use themselves.
const NAMED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/named.py");

async fn serve() -> Option<(Fence, Session)> {
    let fence = has_python("tests/servers/named.py")?;
    let session = fence.serve(&config()).await;
    session.ready(&["s"]).await;
    Some((fence, session))
}

fn config() -> String {
    format!("[servers.s]\ncommand = \"python3\"\nargs = [{NAMED:?}]\n")
}

/// Kinds of values in JavaScript, each with its value, or a part of the error that says what to write.
const KINDS: &[(&str, Result<&str, &str>)] = &[
    ("(function* () { yield 1; })()", Err("an iterator (Generator): use [...it]")),
    ("(async function* () { yield 1; })()", Err("for await (const item of it) list.push(item)")),
    ("[1, 2].values()", Err("an iterator (Array Iterator): use [...it]")),
    ("new Map().entries()", Err("an iterator (Map Iterator): use [...it]")),
    ("'aa'.matchAll(/a/g)", Err("an iterator (RegExp String Iterator): use [...it]")),
    ("new URLSearchParams('a=1')", Err("use [...it]")),
    ("Symbol('q')", Err("a symbol, which has no JSON form: use String(symbol)")),
    ("/a+/g", Err("a RegExp: use its `.source`")),
    ("(() => 1)", Err("a function: was it meant to be called?")),
    ("class A {}", Err("a function: was it meant to be called?")),
    ("s", Err("a function: was it meant to be called?")),
    ("s.then", Err("a function: was it meant to be called?")),
    ("new (class A { #x = 1; get x() { return 1; } })()", Err("an object of A without fields of its own")),
    ("new (class A { x = 1; })()", Ok(r#"{"x":1}"#)),
    ("new (class A { toJSON() { return 'a'; } })()", Ok(r#""a""#)),
    ("new Date(0)", Ok(r#""1970-01-01T00:00:00.000Z""#)),
    ("new Date(NaN)", Err("an invalid Date")),
    ("new Map([[1, 2]])", Err("a Map: use Object.fromEntries(map)")),
    ("new Set([1])", Err("a Set: use [...set]")),
    ("new WeakMap()", Err("an object of WeakMap without fields")),
    ("new Uint8Array([1, 2])", Err("a Uint8Array: use [...bytes]")),
    ("new Float64Array(0)", Err("a Float64Array: use [...bytes]")),
    ("new ArrayBuffer(2)", Err("an ArrayBuffer: use [...new Uint8Array(buffer)]")),
    ("new DataView(new ArrayBuffer(2))", Err("a DataView: use [...new Uint8Array(view.buffer)]")),
    ("NaN", Err("is NaN")),
    ("-Infinity", Err("is -Infinity")),
    ("({ get a() { throw new Error('of the getter'); } })", Err("of the getter")),
    ("new Error('e')", Ok(r#"{"name":"Error","message":"e"}"#)),
    (
        "new AggregateError([new TypeError('p1'), 'p2'], 'all')",
        Ok(r#"{"name":"AggregateError","message":"all","errors":["TypeError: p1","p2"]}"#),
    ),
    ("Object.create(null)", Ok("{}")),
    ("new Number(5)", Ok("5")),
];

/// Places where a value leaves a script, and where its answer has it.
const PLACES: &[(&str, &str)] = &[
    ("return X;", ""),
    ("return { a: [X] };", "/a/0"),
    ("return (await s.echo({ x: X })).args;", "/x"),
    ("await forge.stash.put('k', X); return { a: await forge.stash.get('k') };", "/a"),
    ("await forge.stash.put('k', { a: X }); return await forge.stash.get('k');", "/a"),
];

#[tokio::test]
async fn no_kind_of_value_is_lost_in_silence() {
    let Some((_fence, session)) = serve().await else { return };
    let mut wrong = Vec::new();
    for (kind, expected) in KINDS {
        for (place, at) in PLACES {
            let code = place.replace('X', kind);
            let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
            let is_right = match expected {
                Ok(value) => {
                    let wanted: Value = serde_json::from_str(value).expect("JSON");
                    !answer.is_error && value_of(&answer.text).pointer(at) == Some(&wanted)
                }
                Err(says) => answer.is_error && answer.text.contains(says),
            };
            if !is_right {
                wrong.push(format!("{code}\n   {}", answer.text.replace('\n', "\n   ")));
            }
        }
        let code = format!("console.log({kind}); console.log({{ a: [{kind}] }}); return 1;");
        let shown = session.call("execute", json!({"language": "javascript", "code": code})).await;
        let lost = ["{}", "null", "contains itself", "\"a\":[]"];
        if shown.is_error || lost.iter().any(|lost| shown.text.contains(lost)) && !kind.contains("create(null)") {
            wrong.push(format!("{code}\n   {}", shown.text.replace('\n', "\n   ")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn no_kind_of_value_of_starlark_is_lost_in_silence() {
    let Some((_fence, session)) = serve().await else { return };
    let kinds: &[(&str, Result<&str, &str>)] = &[
        ("set([1, 2])", Ok("[1,2]")),
        ("range(2)", Ok("[0,1]")),
        ("(1, None)", Ok("[1,null]")),
        ("struct(a = 1)", Ok(r#"{"a":1}"#)),
        ("{1: 'x'}", Ok(r#"{"1":"x"}"#)),
        ("len", Err("is a function, which has no JSON form: was it meant to be called?")),
        ("(lambda x: x)", Err("is a function, which has no JSON form")),
        ("s", Err("has no JSON form")),
        ("s.then", Err("has no JSON form")),
        ("float('nan')", Err("has no JSON form")),
        ("{(1, 2): 1}", Err("use str(key)")),
    ];
    let places = [
        ("result = X", ""),
        ("result = {'a': [X]}", "/a/0"),
        ("result = s.echo(x = X)['args']", "/x"),
        ("stash.put('k', X)\nresult = {'a': stash.get('k')}", "/a"),
    ];
    for (kind, expected) in kinds {
        for (place, at) in places {
            let code = place.replace('X', kind);
            let answer = session.call("execute", json!({"language": "starlark", "code": code})).await;
            match expected {
                Ok(value) => {
                    let wanted: Value = serde_json::from_str(value).expect("JSON");
                    assert!(!answer.is_error, "{code}: {}", answer.text);
                    assert_eq!(value_of(&answer.text).pointer(at), Some(&wanted), "{code}: {}", answer.text);
                }
                Err(says) => assert!(answer.is_error && answer.text.contains(says), "{code}: {}", answer.text),
            }
        }
    }
}

#[tokio::test]
async fn a_function_that_nothing_calls_is_called_or_told() {
    let Some((_fence, session)) = serve().await else { return };
    let scripts: &[(&str, &str, Result<Value, &str>)] = &[
        ("javascript", "async function main() { return (await s.echo({ a: 1 })).args.a; }", Ok(json!(1))),
        ("javascript", "const run = async () => 2;", Ok(json!(2))),
        ("javascript", "function run(limit = 3, ...rest) { return limit; }\n// done", Ok(json!(3))),
        (
            "javascript",
            "const base = 1;\nconst plus = (x) => x + base;\nasync function go() { return plus(3); }",
            Ok(json!(4)),
        ),
        ("javascript", "function other() { return 1; }\nfunction main() { return 5; }", Ok(json!(5))),
        (
            "javascript",
            "interface A { n: number }\nconst main = async (): Promise<A> => ({ n: 6 });",
            Ok(json!({"n": 6})),
        ),
        (
            "javascript",
            "const rows = (await s.echo({ n: 7 })).args;\nasync function main() { return rows.n; }",
            Ok(json!(7)),
        ),
        ("javascript", "async function main() { return 8; }\nexport default main;", Ok(json!(8))),
        ("javascript", "async function main() { return 9; }\nawait main();", Ok(json!(9))),
        ("javascript", "function main(n) { return n > 0 ? main(n - 1) : 'deep'; }\nreturn main(3);", Ok(json!("deep"))),
        // What acts by itself is left alone: nothing says that the rest was meant.
        (
            "javascript",
            "const made = await s.echo({});\nconst undo = async () => { throw new Error('undone'); };",
            Ok(Value::Null),
        ),
        (
            "javascript",
            "function helper() { throw new Error('called'); }\nfor (const n of [1]) console.log(n);",
            Ok(Value::Null),
        ),
        ("javascript", "const f = (x) => x;\nreturn 1;", Ok(json!(1))),
        ("javascript", "function a() {}\nfunction b() {}", Err("declares `a`, `b` and calls none of them")),
        ("javascript", "async function run(id) { return id; }", Err("end it with a call: `return await run(…);`")),
        ("javascript", "const run = async ({ id }) => id;", Err("declares `run` and never calls it")),
        ("javascript", "function* rows() { yield 1; }", Err("an iterator (Generator): use [...it]")),
        ("starlark", "def main():\n    return s.echo(a = 1)['args']['a']", Ok(json!(1))),
    ];
    for (language, code, expected) in scripts {
        let answer = session.call("execute", json!({"language": language, "code": code})).await;
        match expected {
            Ok(value) => {
                assert!(!answer.is_error, "{code}: {}", answer.text);
                assert_eq!(&value_of(&answer.text), value, "{code}: {}", answer.text);
            }
            Err(says) => assert!(answer.is_error && answer.text.contains(says), "{code}: {}", answer.text),
        }
    }
}

#[tokio::test]
async fn errors_of_several_reasons_show_them_bounded() {
    let Some((_fence, session)) = serve().await else { return };
    let code = "return await Promise.any([Promise.reject(new Error('p1')), s.absent({}), Promise.reject('p3')]);";
    let said = session.execute_err("javascript", &code.replace("s.absent", "s['ab' + 'sent']")).await;
    for part in ["p1", "absent", "p3"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let code = "throw new AggregateError(Array.from({ length: 90 }, (_, i) => new Error(`<${i}>` + 'x'.repeat(9000))), 'many');";
    let said = session.execute_err("javascript", code).await;
    assert!(said.contains("many (Error: <0>") && said.contains("… and 85 more") && !said.contains("<5>"), "{said}");
    assert!(said.len() < 3000, "{}", said.len());
}

/// Names that languages use themselves are names of tools like any other.
#[tokio::test]
async fn tools_have_any_name() {
    let Some((_fence, session)) = serve().await else { return };
    for name in ["then", "constructor", "toString", "valueOf", "toJSON", "__proto__", "hasOwnProperty"] {
        let wanted = json!({"tool": name, "args": {"a": 1}});
        for call in [
            format!("s.{name}({{ a: 1 }})"),
            format!("s[{name:?}]({{ a: 1 }})"),
            format!("forge.server('s')[{name:?}]({{ a: 1 }})"),
            format!("forge.callTool('s', {name:?}, {{ a: 1 }})"),
        ] {
            assert_eq!(session.execute("javascript", &format!("return await {call};")).await, wanted, "{call}");
        }
        for call in [format!("s.{name}(a = 1)"), format!("call_tool('s', {name:?}, a = 1)")] {
            assert_eq!(session.execute("starlark", &call).await, wanted, "{call}");
        }
    }
    for (code, value) in [
        ("const t = await s; return await t.echo({ a: 1 });", json!({"tool": "echo", "args": {"a": 1}})),
        ("return await (await Promise.resolve(s)).echo({});", json!({"tool": "echo", "args": {}})),
        (
            "return [`${s}`, String(s.then), s + '', JSON.stringify({ s }), typeof (await s.then)];",
            json!(["[forge s]", "[forge s.then]", "[forge s]", "{}", "function"]),
        ),
        ("let got; s.then((it) => { got = it; }); return await got.echo({});", json!({"tool": "echo", "args": {}})),
    ] {
        let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
        assert!(!answer.is_error, "{code}: {}", answer.text);
        assert_eq!(value_of(&answer.text), value, "{code}");
    }
    for name in ["isPrototypeOf", "catch", "finally", "toLocaleString"] {
        let said = session.execute_err("javascript", &format!("return await s.{name}({{}});")).await;
        assert!(said.contains("TOOL_NOT_FOUND"), "{name}: {said}");
    }
}

#[tokio::test]
async fn what_is_left_out_may_be_empty_or_null() {
    let Some((_fence, session)) = serve().await else { return };
    for empty in [json!(""), json!("  "), Value::Null] {
        let arguments = json!({
            "language": "javascript", "code": "return 1;", "resume": empty, "save_as": empty, "timeout_secs": empty,
            "dry_run": empty, "background": empty, "fresh": empty,
        });
        let answer = session.call("execute", arguments).await;
        assert!(!answer.is_error && answer.text.starts_with('1'), "{empty}: {}", answer.text);
        for (tool, arguments) in [
            ("ls", json!({"path": empty, "depth": empty})),
            ("cat", json!({"path": "/s/echo.pyi", "lines": empty})),
            ("search", json!({"query": "echo", "limit": empty, "path": empty})),
        ] {
            let answer = session.call(tool, arguments).await;
            assert!(
                !answer.is_error && answer.text.contains("echo") == (tool != "ls"),
                "{tool} {empty}: {}",
                answer.text
            );
        }
        let answer = session.call("execute", json!({"language": empty, "code": "return 1;"})).await;
        assert!(!answer.is_error && answer.text.starts_with('1'), "the language it parses in: {}", answer.text);
    }
}

/// Arguments that came as JSON text.
#[test]
fn arguments_may_be_json_text() {
    let Some(fence) = has_python("tests/servers/named.py") else { return };
    fence.write("forge.toml", &config());
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let mut input = format!("{begin}\n{}\n", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let texts = [r#"{"language": "javascript", "code": "return 40 + 2"}"#, "[1]", "no JSON", "", "{\"a\": 1", "7"];
    for (at, text) in texts.iter().enumerate() {
        let params = json!({"name": if at == 3 { "ls" } else { "execute" }, "arguments": text});
        input += &format!("{}\n", json!({"jsonrpc": "2.0", "id": at + 10, "method": "tools/call", "params": params}));
    }
    let output = finish(&mut fence.forgefs(["serve"]), &input);
    let answer = |id: usize| {
        let lines = output.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line["id"] == id + 10).unwrap_or_else(|| panic!("no answer {id}: {output:?}"))
    };
    assert!(
        answer(0)["result"]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("42")),
        "{}",
        answer(0)
    );
    assert!(
        answer(3)["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("s/")),
        "{}",
        answer(3)
    );
    for refused in [1, 2, 4, 5] {
        let error = &answer(refused)["error"];
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("`arguments`, an object")), "{error}");
    }
}

//! Function scripts: the signature of each form of writing it, and arguments that reach the function.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use forgefs::base::pause::Pause;
use forgefs::base::time::now_ms;
use forgefs::run::sandbox::{Answer, Failure, Host, Pool, Script, Turn};
use forgefs::run::scripts::{Hints, definition};
use serde_json::{Value, json};
use wire::{CallError, ErrorCode, Language, Limits, Op, Outcome, Run, Signature};

use crate::executable::pool;

/// `=== name`, then the same signature in one or more languages, each behind `--- language`.
const CASES: &str = include_str!("signatures/cases.txt");
const MAX_BYTES: usize = 64 << 10;

fn language(extension: &str) -> Language {
    if extension == "star" { Language::Starlark } else { Language::Javascript }
}

async fn read(pool: &Pool, extension: &str, code: &str) -> Result<(Script, Signature), String> {
    pool.prepare_function(language(extension), code, MAX_BYTES).await.map_err(|failure| match failure {
        Failure::Script(error) => {
            let fix = error.fix.map(|fix| format!("\n    fix: {fix}")).unwrap_or_default();
            format!("{}:{} {}{fix}", error.line, error.column, error.message)
        }
        other => panic!("{other:?} for {code}"),
    })
}

fn as_json(signature: &Signature) -> Value {
    let json = |text: &wire::Json| serde_json::from_str::<Value>(text.get()).expect("a schema is JSON");
    json!({
        "doc": signature.doc,
        "params": json(&signature.params),
        "returns": signature.returns.as_ref().map(json),
    })
}

/// Lines of a signature: its schemas on one line each.
fn shown(signature: &Value) -> String {
    let mut text = String::new();
    for (part, value) in signature.as_object().expect("an object") {
        if !value.is_null() && *value != json!("") {
            let _ = write!(text, "\n    {part}: {value}");
        }
    }
    text
}

#[tokio::test]
async fn signatures_are_read_alike_from_every_language() {
    let pool = pool();
    let (mut table, mut faults, mut signatures) = (String::new(), Vec::new(), 0);
    for case in CASES.split("=== ").skip(1) {
        let (name, rest) = case.split_once('\n').expect("a case has a name");
        let _ = writeln!(table, "=== {name}");
        let mut first: Option<Value> = None;
        for script in rest.split("--- ").skip(1) {
            let (extension, code) = script.split_once('\n').expect("a script has a language");
            let read = read(&pool, extension, code.trim_end()).await;
            assert_eq!(read.is_err(), name.starts_with("error"), "{name} in {extension}: {:?}", read.err());
            match read {
                Err(error) => {
                    let _ = writeln!(table, "{extension} {error}");
                }
                Ok((_, signature)) => {
                    signatures += 1;
                    let signature = as_json(&signature);
                    match &first {
                        None => {
                            let _ = writeln!(table, "signature{}", shown(&signature));
                            first = Some(signature);
                        }
                        Some(first) if *first != signature => {
                            faults.push(format!("{name}: {extension} differs: {signature}\nfrom {first}"));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(signatures >= 40, "{signatures}");
    insta::assert_snapshot!("signatures", table);
}

/// A run that calls nothing.
#[derive(Default)]
struct Alone(Pause);

#[async_trait]
impl Host for Alone {
    async fn call(&self, _: u64, op: Op) -> Answer {
        let message = format!("not expected: {op:?}");
        let error = CallError { code: ErrorCode::Internal, message, retryable: false, suggested_fix: None, data: None };
        Answer { outcome: Outcome::Err(error), now_ms: now_ms() }
    }

    fn pause(&self) -> &Pause {
        &self.0
    }
}

/// The value of a script, or its error.
async fn value_of(pool: &Pool, script: &Script, args: Option<&str>) -> String {
    let args = args.map(|text| serde_json::value::RawValue::from_string(text.to_owned()).expect("JSON"));
    let limits =
        Limits { cpu_ms: 60_000, heap_bytes: 64 << 20, output_bytes: 1 << 16, result_bytes: 1 << 20, calls: 10 };
    let code = script.code.clone();
    let language = script.language;
    let run = Run { run: 0, language, code, servers: Vec::new(), limits, seed: [7; 32], now_ms: now_ms(), args };
    let turn = Turn { party: "test".into(), most: 4 };
    let report = pool.run(run, &Alone::default(), Duration::from_secs(120), turn).await;
    match report.result {
        Ok(value) => value.get().to_owned(),
        Err(Failure::Script(error)) => error.message,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn arguments_reach_the_function() {
    let pool = pool();
    let any = "export default async function";
    let cases = [
        (
            "js",
            format!("/** @param {{{{ a: number }}}} it */\n{any} ({{ a }}) {{ return a + 1 }}"),
            Some(r#"{"a":1}"#),
            "2",
        ),
        ("ts", format!("{any} ({{ a = 5 }}: {{ a?: number }}) {{ return a }}"), Some("{}"), "5"),
        // Without arguments: a parameter in braces gets an object, and any other function is called with none.
        ("ts", format!("{any} ({{ a = 5 }}: {{ a?: number }}) {{ return a }}"), None, "5"),
        ("ts", format!("{any} (it: {{ a?: number }} = {{ a: 7 }}) {{ return it.a }}"), None, "7"),
        ("ts", format!("{any} ({{ a }}: {{ a?: number }} = {{ a: 7 }}) {{ return a ?? null }}"), None, "7"),
        ("js", "export default async () => 3".to_owned(), None, "3"),
        ("js", "\"use strict\"\nexport default async () => 4".to_owned(), Some("{}"), "4"),
        // Keys with a meaning to the engine are plain properties.
        (
            "ts",
            format!(
                "{any} (it: {{ it: unknown }}) {{ const o = it.it as any; return [Object.keys(o), \
                 Object.getPrototypeOf(o) === Object.prototype, ({{}} as any).x === undefined, o.x ?? null] }}"
            ),
            Some(r#"{"it":{"__proto__":{"x":1},"constructor":2}}"#),
            r#"[["__proto__","constructor"],true,true,null]"#,
        ),
        (
            "ts",
            format!("{any} ({{ it }}: {{ it: unknown }}) {{ return it }}"),
            Some(r#"{"it":[1.5,-2,"é😀\u0000\u2028",null,true,{"b":{}}]}"#),
            "[1.5,-2,\"é😀\\u0000\u{2028}\",null,true,{\"b\":{}}]",
        ),
        ("star", "def main(a: int, b: str = \"x\"):\n    return [a, b]".to_owned(), Some(r#"{"a":1}"#), r#"[1,"x"]"#),
        (
            "star",
            "def main(a: dict):\n    return [a.keys(), a[\"__proto__\"]]".to_owned(),
            Some(r#"{"a":{"__proto__":9007199254740993}}"#),
            r#"[["__proto__"],9007199254740993]"#,
        ),
        ("star", "result = 1\ndef main(a: str | None = None):\n    return a".to_owned(), Some("{}"), "null"),
        ("star", "def main(a: str = \"y\"):\n    return a".to_owned(), None, "\"y\""),
    ];
    let mut faults = Vec::new();
    for (extension, code, args, wanted) in cases {
        let (script, _) = read(&pool, extension, &code).await.unwrap_or_else(|error| panic!("{error} in {code}"));
        let value = value_of(&pool, &script, args).await;
        if value != wanted {
            faults.push(format!("{code}\n  with {args:?}: {value}, wanted {wanted}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn places_of_errors_in_functions_are_those_of_the_file() {
    let pool = pool();
    let code = "type A = { a: string }\n\nexport default async function ({ a }: A) {\n  return nothing.at(a)\n}\n";
    let (script, _) = read(&pool, "ts", code).await.expect("a signature");
    let limits = Limits { cpu_ms: 60_000, heap_bytes: 64 << 20, output_bytes: 1, result_bytes: 1, calls: 1 };
    let args = serde_json::value::RawValue::from_string("{\"a\":\"x\"}".to_owned()).expect("JSON");
    let (code, language) = (script.code.clone(), script.language);
    let run =
        Run { run: 0, language, code, servers: Vec::new(), limits, seed: [7; 32], now_ms: now_ms(), args: Some(args) };
    let turn = Turn { party: "test".into(), most: 4 };
    let report = pool.run(run, &Alone::default(), Duration::from_secs(120), turn).await;
    let Err(Failure::Script(error)) = report.result else { panic!("{:?}", report.result) };
    // The engines agree about the line, and not about which part of a statement fails.
    assert_eq!(script.original(error.line, error.column).0, 4, "{}", error.message);
}

#[tokio::test]
async fn calls_of_a_function_script_are_certain() {
    let pool = pool();
    let scripts = [
        (
            "js",
            "/** @param {{ id: string }} it */\nexport default async function ({ id, ...rest }) {\n  await shop.get({ id })\n  if (id) await shop.drop({ id })\n}",
        ),
        (
            "ts",
            "export default async ({ id }: { id: string }) => {\n  await shop.get({ id })\n  if (id) await shop.drop({ id })\n}",
        ),
        ("star", "def main(id: str):\n    shop.get(id = id)\n    if id:\n        shop.drop(id = id)"),
    ];
    for (extension, code) in scripts {
        let (script, _) = read(&pool, extension, code).await.expect("a signature");
        let calls: Vec<_> =
            script.outline.calls.iter().map(|site| (format!("{:?}", site.target), site.is_certain)).collect();
        let wanted = [("get", true), ("drop", false)]
            .map(|(tool, is_certain)| (format!("Path([\"shop\", \"{tool}\"])"), is_certain));
        assert_eq!(calls, wanted, "{extension}");
        let names: Vec<&str> = script.outline.names.iter().map(|name| name.name.as_str()).collect();
        assert_eq!(names, ["shop"], "{extension}");
        assert!(!script.outline.is_partial, "{extension}");
    }
}

#[tokio::test]
async fn a_script_has_a_stub_as_any_tool_has() {
    let code = "/**\n * Refunds failed orders. Twice is once.\n *\n * @param {object} options\n * @param {string} \
                options.country - Two letters.\n * @param {\"card\" | \"bank\"} [options.to] - Where to.\n * @returns \
                {Promise<{ refunded: string[], total: number }>} What was refunded.\n */\nexport default async function \
                ({ country, to, dryRun = false }) {}";
    let code = code.replace(" * @returns", " * @param {boolean} options.dryRun\n * @returns");
    let (_, signature) = read(&pool(), "js", &code).await.expect("a signature");
    let tool = definition("billing/refund_failed", &signature, Hints { read_only: false, destructive: true });
    let server = stubgen::ServerDef { name: "scripts".to_owned(), tools: vec![tool], ..stubgen::ServerDef::default() };
    let stubs = stubgen::generate(server, "scripts");
    let stub = stubs.tools.first().expect("one tool");
    let views = [stubgen::View::Pyi, stubgen::View::Dts, stubgen::View::Json].map(|view| stub.view(view, None));
    insta::assert_snapshot!("script_stub", views.join("\n"));
}

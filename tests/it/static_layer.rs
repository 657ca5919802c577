//! Scripts before they run: refusals with position and message, and valid scripts.

use forgefs::run::sandbox::{Failure, Pool, Script};
use wire::{Language, ScriptError};

use crate::client::{Fence, value_of};
use crate::executable::pool;

const CASES: &str = include_str!("static_layer/cases.txt");
/// Default limit.
const MAX_BYTES: usize = 64 << 10;

/// What the static layer makes of a script, or its syntax error.
async fn prepare(pool: &Pool, script: &str) -> Result<Script, ScriptError> {
    pool.prepare(Language::Javascript, script, MAX_BYTES).await.map_err(|failure| match failure {
        Failure::Script(error) => *error,
        other => panic!("{other:?} for {:?}", script.get(..100)),
    })
}

/// One case of the table.
struct Case {
    name: &'static str,
    script: String,
    expected: &'static str,
}

fn cases() -> Vec<Case> {
    let blocks = CASES.split("\n=== ").skip(1);
    let case = |block: &'static str| {
        let (name, rest) = block.split_once('\n').expect("a case has a name");
        let (script, expected) = rest.split_once("\n--> ").expect("a case says what it expects");
        let wide = |text: &str, (name, c): (&str, &str)| text.replace(name, c);
        let marks = [("<U+FEFF>", "\u{feff}"), ("<U+2028>", "\u{2028}"), ("<U+2029>", "\u{2029}"), ("<NUL>", "\0")];
        let script = marks.into_iter().fold(script.to_owned(), |text, mark| wide(&text, mark));
        Case { name, script, expected: expected.lines().next().unwrap_or_default() }
    };
    blocks.map(case).collect()
}

/// The difference between answer and expectation, if any.
fn judge(case: &Case, answer: &str, is_error: bool) -> Result<(), String> {
    let fault = |what: &str| Err(format!("{}: {what}, wanted {:?}, got {answer:?}", case.name, case.expected));
    if let Some(value) = case.expected.strip_prefix("value ") {
        let wanted: serde_json::Value = serde_json::from_str(value).expect("an expected value is JSON");
        return if !is_error && value_of(answer) == wanted { Ok(()) } else { fault("another value") };
    }
    if !is_error {
        return fault("it ran");
    }
    // The first word is a position if it has a colon.
    let (place, text) = match case.expected.split_once(' ').unwrap_or((case.expected, "")) {
        (place, text) if place.contains(':') => (Some(place), text),
        _ => (None, case.expected),
    };
    let at = place.and_then(|place| place.split_once(':'));
    let at = at.map(|(line, column)| format!("at line {line}, column {column}\n"));
    if at.is_some_and(|at| !answer.contains(&at)) {
        return fault("another place");
    }
    if answer.contains(text) && answer.starts_with("SYNTAX_ERROR") { Ok(()) } else { fault("other words") }
}

#[tokio::test]
async fn scripts_are_refused_in_their_place_or_run() {
    let fence = Fence::new();
    let session = fence.serve("[servers]\n").await;
    let pool = pool();
    let mut faults = Vec::new();
    for case in cases() {
        let arguments = serde_json::json!({"language": "javascript", "code": case.script});
        let answer = session.call("execute", arguments).await;
        faults.extend(judge(&case, &answer.text, answer.is_error).err());
        // What is refused is refused before a worker sees it.
        let prepared = prepare(&pool, &case.script).await;
        if prepared.is_ok() != case.expected.starts_with("value ") {
            faults.push(format!("{}: the static layer says {:?}", case.name, prepared.map(|_| "ok")));
        }
    }
    session.close().await;
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The deepest code in 64 KiB, for every recursion of a parser.
fn deep() -> Vec<(&'static str, String)> {
    let most = |open: &str, close: &str, core: &str| {
        let times = (MAX_BYTES - core.len() - 20) / (open.len() + close.len());
        format!("{}{core}{}", open.repeat(times), close.repeat(times))
    };
    let labels: String = (0..9000).map(|n| format!("a{n}:")).collect();
    vec![
        ("brackets", most("[", "", "")),
        ("closed brackets", most("[", "]", "1")),
        ("parentheses", most("(", "", "")),
        ("closed parentheses", most("(", ")", "1")),
        ("negations", most("!", "", "a")),
        ("signs", most("- ", "", "a")),
        ("conditions", most("a?b:", "", "c")),
        ("conditions in conditions", most("a?", "", "")),
        ("members", most("a.", "", "b")),
        ("optional members", most("a?.", "", "b")),
        ("calls", format!("a{}", "()".repeat(30_000))),
        ("sums", most("1+", "", "1")),
        ("powers", most("1**", "", "1")),
        ("templates", most("`${", "", "")),
        ("closed templates", most("`${", "}`", "1")),
        ("tagged templates", format!("a{}", "``".repeat(30_000))),
        ("ifs", most("if(1)", "", ";")),
        ("ifs on lines", most("if (1)\n", "", ";")),
        ("elses", most("if(1);else ", "", ";")),
        ("loops", most("for(;;)", "", ";")),
        ("labels", labels),
        ("blocks", most("{", "}", "")),
        ("arrows", most("a=>", "", "1")),
        ("arrows with parentheses", most("(a)=>", "", "1")),
        ("functions", most("function f(){", "}", "")),
        ("classes", most("class A{a=class{", "", "")),
        ("objects", format!("x={}", most("{a:", "}", "1"))),
        ("patterns", format!("let {}=1", most("[", "]", "a"))),
        ("object patterns", format!("let {}=1", most("{a:", "}", "a"))),
        ("awaits", most("await ", "", "1")),
        ("news", most("new ", "", "a")),
        ("typeofs", most("typeof ", "", "a")),
        ("groups", format!("/{}/", most("(", ")", "a"))),
        ("classes of characters", format!("/{}/v", most("[", "]", "a"))),
        ("type arguments", format!("type A={}", most("A<", "", ""))),
        ("closed type arguments", format!("type A={}", most("A<", ">", "A"))),
        ("comparisons taken for type arguments", format!("let x:any={}", most("a<", "", "b"))),
        ("many such comparisons", format!("let x:any;{}", format!("{}b;", "a<".repeat(45)).repeat(680))),
        ("tuples", format!("type A={}", most("[", "]", "1"))),
        ("types in parentheses", format!("type A={}", most("(", ")", "1"))),
        ("function types", format!("type A={}", most("()=>", "", "1"))),
        ("conditional types", format!("type A={}", most("A extends B?C:", "", "D"))),
        ("keyofs", format!("type A={}", most("keyof ", "", "B"))),
        ("unions", format!("type A={}", most("A|", "", "B"))),
        ("assertions", format!("let a:any={}", most("<A>", "", "1"))),
        ("namespaces", most("namespace a{", "}", "")),
        ("names of namespaces", format!("namespace {} {{}}", most("a.", "", "b"))),
        ("after what looks like a regular expression", format!("a++ /2;{}", most("\"/\",[", "", ""))),
        ("after a string that holds closing brackets", most("[\"]]]]]]\",", "", "")),
    ]
}

/// Of these, what is wrong before the end may be told first: they break off.
const UNFINISHED: [&str; 9] = [
    "brackets",
    "parentheses",
    "conditions in conditions",
    "templates",
    "labels",
    "classes",
    "type arguments",
    "after what looks like a regular expression",
    "after a string that holds closing brackets",
];
/// These are not deep, but to be got through.
const FLAT: [&str; 2] = ["unions", "many such comparisons"];

#[tokio::test]
async fn deep_code_is_refused_or_ends_its_checker() {
    let pool = pool();
    for (name, script) in deep() {
        assert!(script.len() <= MAX_BYTES, "{name} has {} bytes", script.len());
        if FLAT.contains(&name) {
            // A busy machine may stop it.
            let prepared = pool.prepare(Language::Javascript, &script, MAX_BYTES).await;
            assert!(matches!(prepared, Ok(_) | Err(Failure::Script(_) | Failure::NotRun(_))), "{name}: {prepared:?}");
            continue;
        }
        let prepared = prepare(&pool, &script).await;
        let error = prepared.map(|_| ()).expect_err(name);
        let is_told = error.message.contains("nested too deeply") || UNFINISHED.contains(&name);
        assert!(error.line > 0 && is_told, "{name}: {}", error.message);
    }
}

#[tokio::test]
async fn a_checker_that_dies_takes_nothing_else_with_it() {
    let pool = pool();
    let deep = format!("const a = 1\n{}", "[".repeat((1 << 20) - 100));
    let scripts = (0..8).map(|number| match number {
        3 => deep.clone(),
        6 => "let a: number = 1; a +".to_owned(),
        _ => format!("const a: number = {number}; return a"),
    });
    let scripts: Vec<String> = scripts.collect();
    for _ in 0..3 {
        let prepared = scripts.iter().map(|script| pool.prepare(Language::Javascript, script, 1 << 20));
        let outcomes = futures::future::join_all(prepared).await;
        for (number, outcome) in outcomes.into_iter().enumerate() {
            match (number, outcome) {
                (3, Err(Failure::Script(error))) => {
                    assert!(error.message.contains("nested too deeply") && error.line == 2, "{error:?}");
                }
                (6, Err(Failure::Script(error))) => assert_eq!((error.line, error.column), (1, 23), "{error:?}"),
                (_, Ok(script)) => assert!(script.code.contains(&format!("const a = {number};")), "{}", script.code),
                (number, outcome) => panic!("{number}: {outcome:?}"),
            }
        }
    }
}

/// Enums whose members double each other: a few hundred bytes that would fold to gigabytes.
fn doubling() -> Vec<(&'static str, String)> {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| (1..count).map(line).collect::<String>();
    let members = |line: &dyn Fn(usize) -> String| format!("enum E {{ A0 = \"xy\", {} }}\nE.A39", lines(40, line));
    vec![
        ("sums", members(&|n| format!("A{n} = A{0} + A{0}, ", n - 1))),
        ("templates", members(&|n| format!("A{n} = `${{A{0}}}${{A{0}}}`, ", n - 1))),
        ("of the enum's name", members(&|n| format!("A{n} = E.A{0} + E.A{0}, ", n - 1))),
        ("by keys", members(&|n| format!("A{n} = E[\"A{0}\"] + E['A{0}'], ", n - 1))),
        ("in parentheses", members(&|n| format!("A{n} = ((A{0})) + (A{0}), ", n - 1))),
        ("names in quotes", members(&|n| format!("\"A{n}\" = A{0} + A{0}, ", n - 1))),
        ("of numbers and texts", members(&|n| format!("A{n} = A{0} + 1 + A{0}, ", n - 1))),
        ("Fibonacci", members(&|n| format!("A{n} = A{} + A{}, ", n - 1, n.saturating_sub(2)))),
        (
            "enum after enum",
            lines(40, &|n| {
                format!(
                    "enum E{n} {{ A = {} }}\n",
                    match n {
                        1 => "\"xy\"".to_owned(),
                        n => format!("E{0}.A + E{0}.A", n - 1),
                    }
                )
            }) + "E39.A",
        ),
        (
            "one enum again and again",
            lines(40, &|n| {
                format!(
                    "enum E {{ A{n} = {} }}\n",
                    match n {
                        1 => "\"xy\"".to_owned(),
                        n => format!("E.A{0} + E.A{0}", n - 1),
                    }
                )
            }) + "E.A39",
        ),
        ("constant enums", format!("const {}", members(&|n| format!("A{n} = A{0} + A{0}, ", n - 1)))),
        ("in a function", format!("function f() {{ {} }}\nf()", members(&|n| format!("A{n} = A{0} + A{0}, ", n - 1)))),
        (
            "in a namespace",
            format!(
                "namespace N {{ export enum E {{ A0 = \"xy\", {} }} }}\nN.E.A39",
                lines(40, &|n| format!("A{n} = A{0} + A{0}, ", n - 1))
            ),
        ),
        (
            "wide",
            format!("enum E {{ A = \"{}\", {} }}\nE.A", "x".repeat(2000), lines(2000, &|n| format!("B{n} = A + A, "))),
        ),
    ]
}

#[tokio::test]
async fn enums_that_double_are_refused_before_they_are_folded() {
    let pool = pool();
    for (name, script) in doubling() {
        let error = prepare(&pool, &script).await.map(|script| script.code.len()).expect_err(name);
        assert!(
            error.message.contains("come to more than 65536 bytes, the limit of code"),
            "{name}: {}",
            error.message
        );
        assert!(error.line > 0 && error.column > 0, "{name} has no place");
    }
}

#[tokio::test]
async fn what_becomes_of_types_is_held_to_the_limit_of_code() {
    let pool = pool();
    let large = format!("{}1", "namespace N { export const a = 1, b = a + a; }\n".repeat(1300));
    let error = prepare(&pool, &large).await.map(|script| script.code.len()).expect_err("it grows");
    assert!(error.message.contains("over the limit of 65536"), "{}", error.message);
    let members: String = (0..900).map(|n| format!("Member{n} = \"a value of member {n}\",\n")).collect();
    for honest in [format!("enum E {{ {members} }}\nE.Member7"), "enum E { A = 1 << 3, B = A | 4, C }\nE.C".to_owned()]
    {
        let prepared = prepare(&pool, &honest).await;
        assert!(prepared.is_ok(), "{:?}", prepared.map(|_| ()).map_err(|error| error.message));
    }
}

#[tokio::test]
async fn long_code_is_not_taken_for_deep() {
    let lines = |line: &str| line.repeat(MAX_BYTES / line.len() - 1);
    let scripts = [
        ("data", format!("const data = [\n{}];", lines("  { id: 1, tags: [\"a\", 'b(('], f: (x) => x.y[0] + 1 },\n"))),
        ("calls", lines("await github.create_issue({ title: `a ${1 + 2}`, labels: [\"x\"] });\n")),
        ("no semicolons", lines("var f = (a) => a.b.c(1)\nif (f) {\n  f(1)\n} else if (g) f(2)\nelse f(3)\n")),
        (
            "functions",
            format!(
                "{}f()",
                lines("function f(a, b) { if (a) return b; for (const x of a) { b += x } return a / b }\n")
            ),
        ),
        ("types", lines("{ let a: Map<string, Array<Record<string, number>>> | { a: B<C>; d(): E<F> }; }\n")),
        ("switch", format!("switch (1) {{\n{}}}", lines("  case 1:\n    f(1)\n    break\n"))),
        ("divisions", lines("x = (a + b) / 2 / c[0] / d(1); y = /[/]\\/[(]/.test(z)\n")),
        ("chain", format!("x{}", ".map((a) => a)".repeat(60))),
        ("text", format!("const t = '';\nreturn t{}", " + '(('".repeat(200))),
    ];
    let pool = pool();
    for (name, script) in scripts {
        if let Err(error) = prepare(&pool, &script).await {
            panic!("{name}: line {}: {}", error.line, error.message);
        }
    }
}

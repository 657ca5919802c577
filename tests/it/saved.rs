//! Runs that are saved as scripts, by the executable.

use std::fs;

use serde_json::{Value, json};

use crate::proposals::fence;
use crate::replay::close;

const CASES: [(&str, &str, &str, &str); 17] = [
    (
        "next_statement",
        "run.js",
        "const t = await tickets.get_ticket({ id: 1 })\nconst n = 2\n;[1, 2].forEach((x) => x + n)\nreturn t.id",
        "js",
    ),
    (
        "large",
        "run.js",
        "const base = 10n;\nconst t = await tickets.get_ticket({ id: 1 });\nreturn String(BigInt(t.id) * base);",
        "js",
    ),
    ("key", "run.js", "const key = 'id';\nreturn (await tickets.get_ticket({ id: 1 }))[key]", "js"),
    (
        "lines",
        "run.js",
        "// One\r\nconst n = 2;\r\nconst t = await tickets.get_ticket({ id: 1 });\r\nreturn t.id + n",
        "js",
    ),
    (
        "several",
        "run.js",
        "const bonus = 1;\nconst factor = 2;\nconst t = await tickets.get_ticket({ id: 1 });\nreturn t.id * factor + bonus;",
        "js",
    ),
    (
        "constants",
        "run.ts",
        "// Twice.\nconst factor = 2; // of id\n// They\n/* wait\n */\nconst who: string = 'ops';\nlet more = 1;\n{ const factor = 3; more += factor }\n\
         const t = await tickets.get_ticket({ id: 1 });\nreturn [t.id * factor, who, more]",
        "ts",
    ),
    (
        "statements",
        "run.js",
        "const ticket = await tickets.get_ticket({ id: 1 });\nconst note = `a\n  b`;\nreturn [ticket.id, note];",
        "js",
    ),
    ("last", "run.js", "const t = await tickets.get_ticket({id: 1});\nt.id", "js"),
    (
        "arrow",
        "run.js",
        "async () => {\n    const id = 5;\n    return (await tickets.get_ticket({ 'id': 1 })).id + id;\n}",
        "js",
    ),
    ("typed", "run.ts", "const t: { id: number } = await tickets.get_ticket({ id: 1 });\nreturn t.id;", "ts"),
    (
        "twice",
        "run.js",
        "const f = (id) => id;\nconst a = await tickets.get_ticket({ id: 1 });\nreturn [f(a.id), (await tickets.get_ticket({ id: 1 })).id];",
        "js",
    ),
    ("expression", "run.star", "t = tickets.get_ticket(id = 1)\ntext = \"\"\"a\n b\"\"\"\n[t[\"id\"], text]", "star"),
    ("result", "run.star", "t = tickets.get_ticket(id = 1)\nresult = t[\"id\"]", "star"),
    (
        "factors",
        "run.star",
        "\"\"\"Twice.\"\"\"\nfactor = 2  # of id\n# They\nwho = \"ops\"\nkinds = [\n    \"a\",\n    \"b\",\n]\nmore = 1\nmore += factor\n\
         last = 1; least = 2\nlimits = {\"a\": 1}\nnone = None\ndef twice(n):\n    return n * factor\n\
         t = tickets.get_ticket(id = 1)\nlate = 3\nresult = [twice(t[\"id\"]), who, kinds, more, last, least, limits, none, late]",
        "star",
    ),
    (
        "by_text",
        "run.star",
        "server = \"tickets\"\nn = 2\n[call_tool(server, \"get_ticket\", id = 1)[\"id\"], n]",
        "star",
    ),
    (
        "perhaps",
        "run.star",
        "line = \"{:>3}\"\nt = tickets.get_ticket(id = 1)\nif t[\"id\"] > 0:\n    result = line.format(t[\"id\"])",
        "star",
    ),
    ("called", "run.star", "def main():\n    return tickets.get_ticket(id = 1)[\"id\"]", "star"),
];

#[test]
fn a_run_becomes_a_function_with_its_literals_as_parameters_and_a_test_that_passes() {
    let studio = fence("[scripts]\npath = \"scripts/\"\n");
    let mut texts = String::new();
    for (name, file, code, extension) in CASES {
        let (run, answer) = studio.record(file, code);
        assert_eq!(answer["ok"], json!(true), "{name}: {answer}");
        let output = studio.run(["scripts", "save", &run, "--as", name]).success();
        assert!(output.stdout.contains(&format!("{name}.{extension}")), "{output:?}");
        assert_eq!(output.stdout.matches("  parameter id").count(), 1, "{name}: {output:?}");
        let text = fs::read_to_string(studio.work().join(format!("scripts/{name}.{extension}"))).expect("saved");
        texts.push_str(&format!("--- {name}.{extension}\n{}", text.replace(&run, "RUN")));
    }
    close(&studio);
    let tested = studio.run(["test", "scripts"]).success();
    assert!(tested.stdout.contains(&format!("{} passed, 0 failed", CASES.len())), "{tested:?}");
    insta::assert_snapshot!("saved", texts);
}

#[test]
fn another_value_of_a_parameter_asks_for_another_answer() {
    let studio = fence("[scripts]\npath = \"scripts/\"\n");
    let (run, _) = studio.record("run.js", "return (await tickets.get_ticket({ id: 1 })).id");
    studio.run(["scripts", "save", &run, "--as", "one"]).success();
    let path = studio.work().join("scripts/one.cassette.json");
    let text = fs::read_to_string(&path).expect("a cassette");
    let mut cassette: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cassette["args"], json!({}));
    cassette["args"] = json!({ "id": 2 });
    fs::write(&path, cassette.to_string()).expect("written");
    let tested = studio.run(["test", "scripts"]);
    assert_eq!(tested.code, Some(1), "{tested:?}");
    assert!(tested.stdout.contains("tickets.get_ticket {\"id\":2}"), "{tested:?}");
}

#[test]
fn what_cannot_be_saved_is_refused_and_nothing_is_written() {
    let studio = fence("[scripts]\npath = \"scripts/\"\n");
    let (good, _) = studio.record("run.js", "return (await tickets.get_ticket({ id: 1 })).id");
    let (failed, _) = studio.record("run.js", "await tickets.get_ticket({ id: 1 }); throw new Error('x')");
    let cases: [(&[&str], &str); 8] = [
        (&[&good, "--as", "../out"], "is no name of a script"),
        (&[&good, "--as", "class"], "is no name of a script"),
        (&[&good, "--as", ""], "is no name of a script"),
        (&[&good, "--as", "a\u{1b}[31m"], "is no name of a script"),
        (&[&good, "--as", "a/b.js"], "is no name of a script"),
        (&[&failed, "--as", "bad"], "failed (SCRIPT_ERROR)"),
        (&[&good, "--as", "bad", "--param", "colour"], "no literal stands in an argument `colour`"),
        (&["none", "--as", "bad"], "no run has an id"),
    ];
    for (args, message) in cases {
        let output = studio.run([&["scripts", "save"], args].concat());
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        assert!(output.stderr.contains(message), "{args:?}: {output:?}");
        assert!(!output.stderr.contains('\u{1b}'), "{output:?}");
    }
    assert_eq!(fs::read_dir(studio.work().join("scripts")).expect("a folder").count(), 0);
    studio.run(["scripts", "save", &good, "--as", "deep/one"]).success();
    let again = studio.run(["scripts", "save", &good, "--as", "deep/one"]);
    assert!(again.code == Some(2) && again.stderr.contains("is there already"), "{again:?}");
    let kept = studio.run(["scripts", "save", &good, "--as", "kept", "--keep"]).success();
    assert!(!kept.stdout.contains("parameter"), "{kept:?}");
}

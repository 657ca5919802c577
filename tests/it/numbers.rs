//! Numbers of any length, by the executable: the same digits come in and go out, or the script is told.

use serde_json::{Value, json};

use crate::client::{Fence, finish};
use crate::faulty::python;

/// Numbers that no double holds, and others, as servers write them.
const NUMBERS: &[&str] = &[
    "1915883588174806058", "-7108510333361982070", "9007199254740992", "9007199254740993", "18446744073709551615",
    "123456789012345678901234567890", "0.12345678901234567890", "-123456789.1234567890123", "9007199254740993.0",
    "1e400", "-1e400", "1e-400", "9007199254740991", "-9007199254740991", "0.1", "-0", "5.0", "1e21",
    "0.30000000000000004", "5e-324",
];

/// Every number on every way in and out: its way in and the digits that the tool got, those of the JSON that the script
/// made, and the value itself.
const JAVASCRIPT: &str = r#"
const out = [];
for (const n of NUMBERS) {
  const { x } = await exact.get({ n });
  await forge.stash.put("x", { x });
  const text = `[{"x": ${n}}, "1e400"]`;
  const values = {
    structured: x, text: (await exact.get_text({ n })).x, stash: (await forge.stash.get("x")).x, parsed: JSON.parse(text)[0].x,
    revived: JSON.parse(text, (k, v) => v)[0].x, cloned: structuredClone({ x }).x, written: JSON.parse(JSON.stringify({ x })).x,
    again: await exact.get({ n }).then((a) => ({ ...a }).x),
  };
  for (const [way, v] of Object.entries(values)) {
    console.log(v);
    const got = await exact.put({ x: v, list: [{ v }] });
    out.push([n, way, got.x, got.list[0].v, JSON.stringify(v), JSON.stringify([v], (k, item) => item).slice(1, -1), String(v), v]);
  }
}
return out;
"#;

const STARLARK: &str = r#"
out = []
for n in NUMBERS:
    x = exact.get(n = n)["x"]
    stash.put("x", {"x": x})
    values = {
        "structured": x, "text": exact.get_text(n = n)["x"], "stash": stash.get("x")["x"], "parsed": json.decode('[{"x": %s}]' % n)[0]["x"],
        "written": json.decode(json.encode({"x": x}))["x"],
    }
    for way, v in values.items():
        print(json.encode(v))
        got = exact.put(x = v, list = [{"v": v}])
        out.append([n, way, got["x"], got["list"][0]["v"], json.encode(v), json.encode((v,))[1:-1], json.encode(v), v])
result = out
"#;

/// True if a text is the number: by its digits where no double holds them, else by its value.
fn is_same(sent: &str, seen: &str) -> bool {
    let seen = &seen.replace("e+", "e");
    sent == seen || wire::json::is_held(sent) && seen.parse::<f64>().is_ok_and(|seen| Ok(seen) == sent.parse())
}

fn exact() -> Option<Fence> {
    let server = python("exact", "exact.py", &[])?;
    let fence = Fence::new();
    fence.write("forge.toml", &server);
    Some(fence)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn listed(code: &str) -> String {
    code.replace("NUMBERS", &json!(NUMBERS).to_string())
}

#[test]
fn every_number_keeps_its_digits_on_every_way_and_in_every_record() {
    let Some(fence) = exact() else { return };
    fence.run(["run", "--help"]).success();
    let mut recorded = Vec::new();
    for (file, code, ways) in [("all.js", JAVASCRIPT, 8), ("all.star", STARLARK, 5)] {
        let limits = "[sandbox.limits]\ncalls = 2000\n";
        fence.write("forge.toml", &format!("{}{limits}", python("exact", "exact.py", &[]).unwrap_or_default()));
        let (run, answer) = fence.record(file, &listed(code));
        let rows = answer["value"].as_array().unwrap_or_else(|| panic!("{file}: {answer}")).clone();
        assert_eq!(rows.len(), NUMBERS.len() * ways, "{file}");
        for row in &rows {
            let sent = row[0].as_str().expect("a number");
            for seen in row.as_array().expect("a row").iter().skip(2) {
                assert!(is_same(sent, &text(seen)), "{file}: {row}");
            }
        }
        let output = answer["output"].to_string();
        for number in NUMBERS.iter().filter(|number| !wire::json::is_held(number)) {
            assert!(output.replace("e+", "e").contains(number), "{file}: {number} in {output}");
        }
        fence.run(["journal", "export", &run, "-o", &format!("{}.cassette.json", file.replace('.', "_"))]).success();
        recorded.push((file, run, answer));
    }
    fence.write("forge.toml", "[servers.exact]\ncommand = \"/nowhere/at-all\"\n[sandbox.limits]\ncalls = 2000\n");
    for (file, run, answer) in recorded {
        let replayed = fence.run(["replay", &run, "--json"]).success().object();
        assert_eq!((&replayed["same"], &replayed["value"]), (&json!(true), &answer["value"]), "{file}");
    }
}

#[test]
fn a_number_that_is_passed_on_is_answered_from_the_journal_and_in_cassettes() {
    let Some(fence) = exact() else { return };
    for (file, code) in [
        (
            "s.js",
            "const { x } = await exact.get({ n: '1e400' }); const i = await exact.get({ n: '1915883588174806058' });\n\
                  await exact.put({ x, list: [i.x] });\nif (WHEN) throw new Error('stop');\nreturn [x, i.x, await exact.put({ x, list: [i.x] })]",
        ),
        (
            "t.star",
            "x = exact.get(n = '1e400')['x']\ni = exact.get(n = '1915883588174806058')['x']\nexact.put(x = x, list = [i])\n\
                    if WHEN: fail('stop')\nresult = [x, i, exact.put(x = x, list = [i])]",
        ),
    ] {
        let js = file.ends_with(".js");
        fence.write("forge.toml", &python("exact", "exact.py", &[]).unwrap_or_default());
        let (run, _) = fence.record(file, &code.replace("WHEN", if js { "true" } else { "True" }));
        fence.write(file, &code.replace("WHEN", if js { "false" } else { "False" }));
        let resumed = fence.run(["run", "--json", "--resume", &run, file]).success().object();
        let wanted = r#"[1e400,1915883588174806058,{"list":["1915883588174806058"],"x":"1e400"}]"#;
        assert_eq!(stubgen::canonical_json(&resumed["value"]).replace("e+", "e"), wanted, "{resumed}");
        let calls = resumed["calls"].to_string();
        assert_eq!(calls.matches(&format!("answered by run {run}")).count(), 3, "{resumed}");
        let run = fence.last_run();
        fence.run(["journal", "export", &run, "-o", &format!("{}.cassette.json", &file[..1])]).success();
        let tested = fence.run(["test", file]);
        assert_eq!(tested.code, Some(0), "{tested:?}");
    }
}

#[test]
fn commands_resources_results_and_scripts_that_are_called_keep_digits() {
    let Some(fence) = exact() else { return };
    let config = python("exact", "exact.py", &[]).unwrap_or_default();
    fence.write(
        "scripts/hand_on.ts",
        "/** Passes a number on. */\nexport default async ({ x = -18446744073709551615 }: { x?: number | bigint }): Promise<{ x: bigint | number }> =>\n\
         \x20 ({ x: (await exact.put({ x })).x === String(x) ? x : 0 });\n",
    );
    fence.write("forge.toml", &format!("{config}[scripts]\npath = \"scripts\"\n"));
    fence.run(["scripts", "lock"]).success();
    let put = fence.run(["call", "exact", "put", "{\"x\": 1915883588174806058, \"list\": [1e400]}"]).success();
    assert!(put.stdout.contains("1915883588174806058") && put.stdout.contains("1e+400"), "{put:?}");
    let got = fence.run(["call", "exact", "get", "{\"n\": \"0.12345678901234567890\"}"]).success();
    assert!(got.stdout.contains("0.12345678901234567890"), "{got:?}");
    for (file, code) in [
        ("r.js", "return (await forge.readResource('exact', 'exact://x'))"),
        ("r.star", "read_resource('exact', 'exact://x')"),
        ("c.js", "return [await scripts.hand_on({ x: 1915883588174806058 }), await scripts.hand_on({})]"),
        ("c.star", "[scripts.hand_on(x = 1915883588174806058), scripts.hand_on()]"),
    ] {
        fence.write(file, code);
        let answer = fence.run(["run", "--json", file]).success().object();
        let value = answer["value"].to_string();
        assert!(value.contains("1915883588174806058"), "{answer}");
        assert_eq!(value.contains("-18446744073709551615"), file.starts_with('c'), "{answer}");
    }
}

/// Scripts with literals, the digits that a tool gets for `x`, and parts of what the run says.
const LITERALS: &[(&str, &str, &[&str])] = &[
    (
        "l.js",
        "return (await exact.put({ x: 7960607143101464576 })).x",
        &["\"7960607143101464576\"", "line 1, column 30", "`7960607143101464576n`"],
    ),
    (
        "l.js",
        "return (await exact.put({ x: -7960607143101464576 })).x",
        &["\"-7960607143101464576\"", "line 1, column 31"],
    ),
    (
        "l.js",
        "const x = 7_960_607_143_101_464_576;\n'😀'; return (await exact.put({ x })).x",
        &["\"7960607143101464576\"", "`7_960_607_143_101_464_576n`"],
    ),
    (
        "l.js",
        "return (await exact.put({ x: [0xFFFFFFFFFFFFFFFF, 0o1777777777777777777777, 0b11] })).x.join()",
        &["\"18446744073709551615,18446744073709551615,3\""],
    ),
    ("l.js", "return (await exact.put({ x: 7960607143101464576n })).x", &["\"7960607143101464576\""]),
    ("l.js", "return Object.keys({ 7960607143101464576: 1 })[0]", &["\"7960607143101464576\""]),
    (
        "l.js",
        "return `7960607143101464576 ${1}` + '7960607143101464576' + /7960607143101464576/.source",
        &["\"7960607143101464576 179606071431014645767960607143101464576\""],
    ),
    ("l.js", "return 9007199254740991 - 1e3", &["9007199254739991"]),
    (
        "l.js",
        "return [0.12345678901234567890].length",
        &["`0.12345678901234567890` is no number of its digits", "`0.12345678901234568`"],
    ),
    ("l.js", "return [1e400].length", &["`1e400` is no number of its digits: it is read as `Infinity`"]),
    ("l.js", "7960607143101464576", &["7960607143101464576"]),
    (
        "l.ts",
        "enum E { A = 7960607143101464576 }\nconst x: number | 7960607143101464577 = E.A as any;\nreturn (await exact.put({ x })).x",
        &["\"7960607143101464576\"", "line 1, column 14"],
    ),
    (
        "l.ts",
        "type T = { a: number };\nconst f = async (x: number | bigint): Promise<string> => (await exact.put({ x })).x;\nreturn f(7960607143101464576)",
        &["\"7960607143101464576\"", "line 3, column 10"],
    ),
    ("l.star", "exact.put(x = 7960607143101464577)['x']", &["\"7960607143101464577\""]),
    (
        "l.star",
        "[0.12345678901234567890][0] > 0",
        &["`0.12345678901234567890` is no float of its digits", "line 1, column 2"],
    ),
];

#[test]
fn literals_keep_their_digits_or_are_named() {
    let Some(fence) = exact() else { return };
    for (file, code, parts) in LITERALS {
        fence.write(file, code);
        let answer = finish(&mut fence.forgefs(["run", "--json", file]), "").success();
        let (value, said) = (answer.object()["value"].to_string(), answer.object().to_string());
        let (wanted, notes) = parts.split_first().expect("a value");
        match wanted.starts_with('`') {
            true => assert!(said.contains(wanted), "{code}: {said}"),
            false => assert_eq!(value, *wanted, "{code}: {said}"),
        }
        for note in notes {
            assert!(said.contains(note), "{code}: {note} in {said}");
        }
    }
}

/// Arithmetic that would lose digits, and what is said of it.
const ARITHMETIC: &[(&str, &str, &[&str])] = &[
    (
        "a.js",
        "const { x } = await exact.get({ n: '1915883588174806058' });\nconst y = x + 1;\nreturn y",
        &["BigInt", "taken from the answer of exact.get: {x: 1915883588174806058}", "x + 1n", "line 2"],
    ),
    (
        "a.js",
        "const { x } = await exact.get({ n: '1915883588174806058' });\nreturn Math.max(x, 1)",
        &["BigInt", "exact.get", "Number(x)"],
    ),
    ("a.js", "const { x } = await exact.get({ n: '1915883588174806058' });\nreturn +x", &["exact.get", "Number(x)"]),
    ("a.js", "const f = () => 9007199254740993 * 2;\n  return 7960607143101464576 - 1; // 1", &["BigInt", "line 2"]),
    ("a.js", "const { x } = await exact.get({ n: '1e400' });\nreturn x * 2", &["is beyond the numbers of JavaScript"]),
    ("a.star", "x = exact.get(n = '0.12345678901234567890')['x']\nresult = x + 1", &["float(str(x))"]),
];

#[test]
fn arithmetic_that_would_lose_digits_is_refused_with_a_reason() {
    let Some(fence) = exact() else { return };
    for (file, code, parts) in ARITHMETIC {
        fence.write(file, code);
        let output = fence.run(["run", file]);
        assert_eq!(output.code, Some(1), "{code}: {output:?}");
        for part in parts.iter() {
            assert!(output.stderr.contains(part), "{code}: {part} in {}", output.stderr);
        }
    }
}

#[test]
fn what_a_script_may_do_with_such_numbers_is_defined() {
    let Some(fence) = exact() else { return };
    let code = r#"
const get = async (n) => (await exact.get({ n })).x;
const [id, d] = [await get('1915883588174806058'), await get('0.12345678901234567890')];
const tried = (f) => { try { return f(); } catch (e) { return e.name; } };
const parsed = JSON.parse('{"a":{"b":[1915883588174806058,2]},"c":1e400}', function (k, v, { source }) { return k === 'c' ? source : v; });
return [
  typeof id, id === 1915883588174806058n, id == '1915883588174806058', id > 5, `${id}`, [id, 1n].sort()[0], { [id]: 1 },
  typeof d, `${d}`, d > 0.1, d.toFixed(3), d + 1, Object.isFrozen(d), tried(() => { 'use strict'; d.x = 1; }), new Map([[id, 'm']]).get(id),
  JSON.stringify({ id, d }), JSON.stringify({ id }, (k, v) => (typeof v === 'bigint' ? String(v) : v)), JSON.stringify({ id }, ['id'], 1), parsed,
  tried(() => JSON.parse('[01915883588174806058]')), tried(() => JSON.parse('[1915883588174806058')), JSON.parse('"1e400"'),
  JSON.parse('[1915883588174806058]', () => 7), tried(() => { BigInt.prototype.toJSON = 1; }), JSON.stringify(5n), JSON.stringify(undefined) === undefined,
];
"#;
    fence.write("d.js", code);
    let answer = fence.run(["run", "--json", "d.js"]).success().object();
    let wanted = r#"["bigint",true,true,true,"1915883588174806058",1,{"1915883588174806058":1},"object","0.12345678901234567890",true,"0.123",1.1234567890123457,true,"TypeError","m","{\"id\":1915883588174806058,\"d\":0.12345678901234567890}","{\"id\":\"1915883588174806058\"}","{\n \"id\": 1915883588174806058\n}",{"a":{"b":[1915883588174806058,2]},"c":"1e400"},"SyntaxError","SyntaxError","1e400",7,"TypeError","5",true]"#;
    assert_eq!(stubgen::canonical_json(&answer["value"]), wanted, "{answer}");
    let told = answer.to_string().matches("0.12345678901234567890 was rounded to 0.12345678901234568").count();
    assert_eq!(told, 1, "{answer}");
}

#[test]
fn stubs_say_where_integers_are_large() {
    let Some(fence) = exact() else { return };
    fence.run(["call", "exact", "get", "{\"n\": \"1915883588174806058\"}"]).success();
    for (stub, lines) in [
        (
            "find.d.ts",
            &[
                "  id?: number | bigint; // 0..18446744073709551615",
                "  id?: number | bigint; // int64",
                "  ids?: (number | bigint)[];",
                "  page?: number;",
            ][..],
        ),
        ("find.pyi", &["    ids: list[int] | None = None,"]),
        ("get.d.ts", &["  x: number | bigint; // int64"]),
    ] {
        let shown = fence.run(["cat", &format!("/exact/{stub}")]).success().stdout;
        for line in lines {
            assert!(shown.lines().any(|shown| shown == *line), "{line} in {shown}");
        }
    }
}

//! Scripts are checked before their first call: `forgefs check`, and the refusal of `execute`.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::client::{Fence, finish};
use crate::faulty::samples;

/// A server whose tools have schemas of all kinds; nothing behind it.
fn shop() -> Value {
    let text = json!({"type": "string"});
    let order = json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": text},
        "additionalProperties": false,
    });
    json!({"shop": {"tools": [
        {
            "name": "list_orders",
            "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"page": {"type": "integer"}}},
            "outputSchema": {
                "type": "object",
                "properties": {"orders": {"type": "array", "items": {"$ref": "#/$defs/order"}}, "next": text},
                "additionalProperties": false,
                "$defs": {"order": order},
            },
        },
        {
            "name": "create_order",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "item": text,
                    "quantity": {"type": "integer", "minimum": 1},
                    "speed": {"enum": ["slow", "fast"]},
                    "tags": {"type": "array", "items": text},
                    "from": text,
                },
                "required": ["item", "quantity"],
                "additionalProperties": false,
            },
        },
        {"name": "anything", "inputSchema": {"type": "object"}},
    ]}, "bank": {"tools": [
        {"name": "pay", "inputSchema": {"type": "object"}},
        {"name": "send", "inputSchema": {"type": "object", "properties": {"from": text}, "required": ["from"]}},
    ]}, "odd": {"tools": [
        {"name": "a.b.c.d.e.f.g.h.i", "inputSchema": {"type": "object"}},
        {"name": "l".repeat(240), "inputSchema": {"type": "object"}},
        {"name": "toString", "inputSchema": {"type": "object"}},
    ]}, "Buffer": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}})
}

/// Judgement of each script by `forgefs check --format json`, and its other output.
fn check_all<'c>(scripts: impl Iterator<Item = (&'c str, &'c str)>) -> (Vec<Value>, String) {
    let fence = Fence::new();
    fence.write("tools.json", &shop().to_string());
    let mut args: Vec<String> = ["--catalog", "tools.json", "check", "--format", "json"].map(str::to_owned).into();
    for (number, (extension, code)) in scripts.enumerate() {
        let name = format!("case{number}.{extension}");
        fence.write(&name, code);
        args.push(name);
    }
    let output = fence.run(&args);
    (output.object()["files"].as_array().expect("a list").clone(), output.stderr)
}

/// Scripts with what is found in them: `line:column` and a part of the message, warnings behind `~`.
#[rustfmt::skip]
const CASES: &[(&str, &str, &[&str])] = &[
    // Names.
    ("js", "await shop.list_order()", &["1:7 has no tool `list_order`"]),
    ("js", "await shp.list_orders()", &["1:7 `shp` is not defined"]),
    ("js", "const x = total + 1; return x", &["1:11 `total` is not defined"]),
    ("js", "await forge.callTool('shop', 'nothing', {})", &["1:7 has no tool `nothing`"]),
    ("js", "await forge.callTool('nobody', 'pay', {})", &["1:7 there is no server `nobody`"]),
    ("js", "const t = forge.server('shop');\nawait t.nothing()", &["2:7 has no tool `nothing`"]),
    ("js", "const { nothing: n } = shop;\nawait n()", &["2:7 has no tool `nothing`"]),
    ("js", "const t = shop; const u = t;\nawait u['nothing']({})", &["2:7 has no tool `nothing`"]),
    ("js", "await forge.readResource('nobody', 'file:///a')", &["1:7 there is no server `nobody`"]),
    ("star", "shop.list_order()", &["1:1 has no tool `list_order`"]),
    ("star", "shp.list_orders()", &["1:1 `shp` is not defined"]),
    ("star", "stop = lambda: fail(\"no\")\nshop.list_order()", &["2:1 has no tool `list_order`"]),
    ("star", "if False:\n    shp.list_orders()", &["2:5 `shp` is not defined"]),
    ("star", "call_tool(\"shop\", \"nothing\")", &["1:1 has no tool `nothing`"]),
    ("star", "t = shop\nt.nothing()", &["2:1 has no tool `nothing`"]),
    // Arguments.
    ("js", "await shop.create_order({ item: 'tea' })", &["1:7 argument `quantity` is missing"]),
    ("js", "await shop.create_order()", &["1:7 argument `item` is missing"]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 0 })", &["1:7 `quantity`: 0 is less than the minimum of 1"]),
    ("js", "await shop.create_order({ item: 'tea', quantity: '2' })", &["1:7 `quantity`: \"2\" is not of type integer"]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, speed: 'fst' })", &["1:7 `speed`: \"fst\" is not one of"]),
    ("js", "await shop.create_order({ itm: 'tea', quantity: 1 })", &["1:7 there is no parameter `itm`"]),
    ("js", "await shop.create_order('tea', 1)", &["1:7 takes one object with named arguments"]),
    ("js", "await shop.create_order(['tea'])", &["1:7 takes one object with named arguments"]),
    ("js", "const q = 0;\nawait shop.create_order({ item: 'tea', quantity: q })", &["2:7 `quantity`: 0 is less than"]),
    ("js", "async function f(x) { return x }\nconst n = await f(1);\nawait shop.create_order({ item: n, quantity: -1 })", &["3:7 `quantity`: -1 is less than"]),
    ("js", "async function f(x) { return x }\nconst n = await f(1);\nawait shop.create_order({ item: n, tags: ['a', 1] })", &["3:7 argument `quantity` is missing; `tags.1`: 1 is not of type"]),
    ("js", "async function f(x) { return x }\nconst n = await f(1);\nawait shop.create_order({ item: n, quantity: `${n}` })", &["3:7 `quantity`: type \"integer\" was expected, not \"string\""]),
    ("js", "async function f(x) { return x }\nconst n = await f({});\nawait shop.create_order({ ...n, sped: 'fast' })", &["3:7 there is no parameter `sped`"]),
    ("js", "await shop.create_order({ item: 1, quantity: 0, item: 'tea', quantity: 1 })", &[]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, item: undefined })", &["1:7 argument `item` is missing"]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, from: 2 })", &["1:7 `from`: 2 is not of type"]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, from_: 2 })", &["1:7 `from_`: 2 is not of type"]),
    ("star", "shop.create_order(item = \"tea\", quantity = 1, from_ = 2)", &["1:1 `from_`: 2 is not of type"]),
    ("star", "bank.send()", &["1:1 argument `from_` is missing"]),
    ("js", "await bank.send()", &["1:7 argument `from` is missing"]),
    ("star", "shop.create_order(item = \"tea\")", &["1:1 argument `quantity` is missing"]),
    ("star", "q = 0\nshop.create_order(item = \"tea\", quantity = q)", &["2:1 `quantity`: 0 is less than"]),
    ("star", "shop.create_order(\"tea\", 1)", &["1:1 takes keyword arguments only; got 2"]),
    ("star", "shop.create_order(item = \"a\" + str(1), quantity = \"%d\" % 2)", &["1:1 `quantity`: type \"integer\" was expected, not \"string\""]),
    ("star", "shop.create_order(item = \"tea\", quantity = 1, sped = \"fast\")", &["1:1 there is no parameter `sped`"]),
    ("star", "def main():\n    helper()\ndef helper():\n    shop.create_order()", &["4:5 argument `item` is missing"]),
    // Answers.
    ("js", "const r = await shop.list_orders();\nreturn r.order", &["2:10 has no `order`"]),
    ("js", "const { order } = await shop.list_orders(); return order", &["1:9 has no `order`"]),
    ("js", "const r = (await shop.list_orders()).orders[0].notes; return r", &["1:48 has no `notes`"]),
    ("js", "const [a, b] = await Promise.all([shop.anything(), shop.list_orders()]);\nreturn [a.x, b.ordrs]", &["2:16 has no `ordrs`"]),
    ("js", "const p = shop.list_orders();\nreturn p.orders", &["2:10 shop.list_orders(…) is a promise"]),
    ("js", "return shop.list_orders().orders", &["1:27 shop.list_orders(…) is a promise"]),
    ("js", "for (const o of shop.list_orders()) console.log(o)", &["1:17 is a promise, and its items are read"]),
    ("star", "r = shop.list_orders()\nr[\"order\"]", &["2:3 has no `order`"]),
    ("star", "r = shop.list_orders()\nr.orders", &["2:1 is a dict, which has no attribute `orders`"]),
    ("star", "shop.list_orders()[\"orders\"][0][\"notes\"]", &["1:33 has no `notes`"]),
    // Several at once, in order of their place.
    ("js", "await shop.no();\nawait shop.create_order();\nawait shop.neither()", &["1:7 `no`", "2:7 missing", "3:7 `neither`"]),
    // Code that may not run: warnings.
    ("js", "try { await shop.no() } catch {}", &["~1:13 `no`"]),
    ("js", "if (Math.random() > 2) await shop.no()", &["~1:30 `no`"]),
    ("js", "for (const x of [1]) await shop.create_order()", &["~1:28 missing"]),
    ("js", "a: { if (Math.random() > 2) break a; await shop.no() }", &["~1:44 `no`"]),
    ("js", "const { a = await shop.no() } = { a: 1 }; return a", &["~1:19 `no`"]),
    ("js", "async function* f() { await shop.no() }\nawait f(); return 1", &["~1:29 `no`"]),
    ("js", "[1].forEach(() => shop.no())", &["~1:19 `no`"]),
    ("js", "await forge.parallel([() => shop.no()])", &["~1:29 `no`"]),
    ("js", "if (Math.random() > 2) return 1;\nawait shop.no()", &["~2:7 `no`"]),
    ("js", "const r = await shop.list_orders();\nreturn r.orders.map((o) => o.notes)", &["~2:30 has no `notes`"]),
    ("js", "const f = async () => { await shop.no() };\nreturn [f].length", &["~1:31 `no`"]),
    ("js", "await shop.no().catch(() => {})", &["~1:7 `no`"]),
    ("js", "const p = shop.no();\nawait p.catch(() => 1)", &["~1:11 `no`"]),
    ("js", "await Promise.allSettled([shop.no()])", &["~1:27 `no`"]),
    ("js", "async function main() { await shop.no() }\nmain().catch(console.error)", &["~1:31 `no`"]),
    ("js", "const attempt = async (p) => { try { return await p } catch { return 1 } };\nawait attempt(shop.no())", &["~2:15 `no`"]),
    ("star", "try_call(shop.no)", &["~1:1 `no`"]),
    ("star", "for x in [1]:\n    shop.no()", &["~2:5 `no`"]),
    ("star", "[shop.no() for x in [1]]", &["~1:2 `no`"]),
    ("star", "def f():\n    if 1 > 2:\n        return 1\n    shop.no()\nf()", &["~4:5 `no`"]),
    ("star", "parallel([defer(shop.no)])", &["~1:11 `no`"]),
    ("star", "forge.parallel([forge.defer(shop.no)])", &["~1:17 `no`"]),
    ("star", "forge.call_tool(\"shop\", \"no\")", &["1:1 `no`"]),
    // Functions that are called certainly run.
    ("js", "async function main() { await shop.no() }\nawait main()", &["1:31 `no`"]),
    ("js", "await (async () => { await shop.no() })()", &["1:28 `no`"]),
    ("js", "async () => { await shop.no() }", &["1:21 `no`"]),
    ("js", "async () => { return shop.no() }", &["1:22 `no`"]),
    ("js", "await Promise.all([shop.anything(), shop.no()])", &["1:37 `no`"]),
    // TypeScript, with the places of the script as written.
    ("ts", "type A = { a: string };\nconst a: A = { a: 'x' };\nawait shop.no({ a } as unknown)", &["3:7 `no`"]),
    // What the text does not show is not judged.
    ("js", "const name = 'n' + 1; await shop[name]({})", &[]),
    ("star", "def f(xs):\n    seen = {}\n    def add(x):\n        seen[x] = shop.list_orders(page = x)\n        return x\n    return [add(x) for x in xs]\nf([1])", &[]),
    ("star", "def f(n):\n    def twice(x):\n        return missing * n\n    return twice(n)\nf(1)", &["3:16 `missing` is not defined"]),
    ("js", "await forge.callTool(...['shop', 'no'])", &[]),
    ("js", "let s = shop; s = bank; await s.list_orders()", &[]),
    ("js", "const f = (shop) => shop.no; return typeof f", &[]),
    ("js", "const r = await shop.list_orders(); r.extra = 1; return r.extra", &[]),
    ("js", "const r = await shop.list_orders(); ({ a: r.extra } = { a: 1 }); for (r.more of [1]); return r.extra + r.more", &[]),
    ("js", "const r = await shop.list_orders(); r.orders.push({ x: 1 }); return r.orders[0].x", &[]),
    ("js", "const r = await shop.list_orders(); Object.defineProperty(r, 'extra', { value: 1 }); return r.extra", &[]),
    ("js", "const r = await shop.list_orders(); return r.order ?? r.orders", &[]),
    ("js", "const r = await shop.list_orders(); return r.orders.length + r.orders.map((o) => o.id).length", &[]),
    ("js", "const r = await shop.anything(); return r.what.ever", &[]),
    ("js", "const p = shop.list_orders(); return (await p).orders", &[]),
    ("js", "return shop.list_orders().then((r) => r.orders)", &[]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, from: 'x' })", &[]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, from_: 'x' })", &[]),
    ("js", "await shop.create_order({ item: 'tea', quantity: 1, speed: undefined })", &[]),
    ("js", "return typeof shp === 'undefined' ? 1 : shp", &["~1:41 `shp` is not defined"]),
    ("js", "const { shp } = { shp: 1 }; return shp", &[]),
    ("js", "class A { m() { return new Map() } }\nreturn new A().m().size + Math.max(1, 2) + Intl.DateTimeFormat().resolvedOptions().locale", &[]),
    ("star", "json.encode({}); stash.put(\"k\", 1); len(\"a\")", &[]),
    ("star", "x = {\"order\": 1}\nx[\"order\"]", &[]),
    ("star", "def f(shop):\n    return shop.nothing\nf(1)", &[]),
    ("star", "r = shop.list_orders()\nr[\"extra\"] = 1\nr[\"extra\"]", &[]),
    ("star", "r = shop.list_orders()\nr.get(\"order\")", &[]),
    ("star", "r = shop.list_orders()\nr.update(extra = 1)\nr[\"extra\"]", &[]),
    ("star", "r = shop.list_orders()\nr[\"orders\"].append({\"x\": 1})\nr[\"orders\"][0][\"x\"]", &[]),
];

#[test]
fn what_is_provably_wrong_is_found_at_its_place() {
    let (answers, told) = check_all(CASES.iter().map(|(extension, code, _)| (*extension, *code)));
    assert_eq!(answers.len(), CASES.len(), "{told}");
    let mut wrong = String::new();
    for ((_, code, expected), answer) in CASES.iter().zip(&answers) {
        let all = |key: &str, mark: &str| -> Vec<String> {
            let list = answer[key].as_array().expect("a list").iter();
            list.map(|m| format!("{mark}{}:{} {}", m["line"], m["column"], m["message"].as_str().unwrap_or_default()))
                .collect()
        };
        let found = [all("mistakes", ""), all("warnings", "~")].concat();
        let is_met = |(found, expected): (&String, &&str)| {
            let (place, part) = expected.split_once(' ').expect("a place and a text");
            found.starts_with(&format!("{place} ")) && found.contains(part)
        };
        if found.len() != expected.len() || !found.iter().zip(*expected).all(is_met) {
            let _ = writeln!(wrong, "{code}\n  expected {expected:?}\n  found {found:#?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Scripts that call `bank.pay` as they run, or another tool of `shop()`, in ways that are hard to see.
#[rustfmt::skip]
const HARD: &[(&str, &str, &str)] = &[
    // A name is read before it has its value.
    ("js", "const o = { f() { return b.pay({}) } };\nconst b = bank;\nawait o.f()", "bank.pay"),
    ("js", "const fs = [() => b.pay({})];\nconst b = bank;\nawait fs[0]()", "bank.pay"),
    ("js", "class A { m() { return b.pay({}) } }\nconst b = bank;\nawait new A().m()", "bank.pay"),
    ("js", "const fs = [() => f.callTool('bank', 'pay', {})];\nconst f = forge;\nawait fs[0]()", "bank.pay"),
    ("js", "const h = () => b.pay({});\ntry { h() } catch {}\nconst b = bank;\nawait h()", "bank.pay"),
    ("star", "f = lambda: b.pay()\nb = bank\nf()", "bank.pay"),
    ("star", "def main():\n    f = lambda: b.pay()\n    b = bank\n    return f()", "bank.pay"),
    ("star", "def f():\n    def g():\n        return b.pay()\n    b = bank\n    return g()\nf()", "bank.pay"),
    ("star", "def f():\n    return b.pay()\nx = f() if False else 1\nb = bank\nf()", "bank.pay"),
    ("star", "x = [lambda: f(\"bank\", \"pay\")]\nf = call_tool\nx[0]()", "bank.pay"),
    // A name is given several times.
    ("js", "async function f() { return 1 }\nasync function f() { return await bank.pay({}) }\nawait f()", "bank.pay"),
    ("js", "var f = () => 1; if (1 < 2) { var f = () => bank.pay({}) }\nawait f()", "bank.pay"),
    ("js", "if (1 < 2) { var x = bank } else { var x = shop }\nawait x.pay({})", "bank.pay"),
    ("js", "var t = 'send'; if (1 < 2) { var t = 'pay' }\nawait forge.callTool('bank', t, {})", "bank.pay"),
    ("star", "def f():\n    return bank.pay()\nf()\ndef f():\n    return 1", "bank.pay"),
    ("star", "if True:\n    def f():\n        return bank.pay()\nelse:\n    def f():\n        return 1\nf()", "bank.pay"),
    // A name of the script is a server's until it has its value.
    ("star", "bank.pay()\nbank = 1", "bank.pay"),
    ("star", "bank = bank.pay()", "bank.pay"),
    ("star", "if False:\n    bank = 1\nbank.pay()", "bank.pay"),
    ("star", "for bank in []:\n    pass\nbank.pay()", "bank.pay"),
    ("star", "def f():\n    return bank.pay()\n[f][0]()\nbank = 1", "bank.pay"),
    ("star", "x = bank.pay()\ndef bank():\n    return 1", "bank.pay"),
    // Defaults and targets.
    ("js", "try { throw {} } catch ({ x = bank }) { await x.pay({}) }", "bank.pay"),
    ("js", "for (const { x = bank } of [{}]) await x.pay({})", "bank.pay"),
    ("js", "let x; for ({ x = bank } of [{}]) await x.pay({})", "bank.pay"),
    ("js", "for (const { y: x = bank } in { a: 1 }) await x.pay({})", "bank.pay"),
    ("star", "f = lambda b = bank: b.pay()\nf()", "bank.pay"),
    ("star", "def f(bank = bank):\n    return bank.pay()\nf()", "bank.pay"),
    ("star", "def f(bank = bank.pay()):\n    return 1\nf()", "bank.pay"),
    ("star", "x = {}\nfor x[str(bank.pay())] in [1]:\n    pass", "bank.pay"),
    ("star", "x = {}\ny = [1 for x[str(bank.pay())] in [1]]", "bank.pay"),
    // The language's own calls give the server or tool to the script.
    ("js", "if (1 < 2) bank.then((b) => b.pay({}))\nawait new Promise((done) => setTimeout(done, 50))", "bank.pay"),
    ("js", "if (1 < 2) await bank.toJSON('').pay({})", "bank.pay"),
    ("js", "if (1 < 2) await bank.pay.toJSON('')({})", "bank.pay"),
    // Names of tools.
    ("js", "const f = forge?.callTool;\nawait f('bank', 'pay', {})", "bank.pay"),
    ("js", "const b = forge.server?.('bank');\nawait b.pay({})", "bank.pay"),
    ("js", "await odd.a.b.c.d.e.f.g.h.i({})", "odd.a_b_c_d_e_f_g_h_i"),
    ("star", "odd.a.b.c.d.e.f.g.h.i()", "odd.a_b_c_d_e_f_g_h_i"),
    ("js", "const { a: { b: { c: { d: { e: { f: { g: { h: { i: x } } } } } } } } } = odd;\nawait x({})", "odd.a_b_c_d_e_f_g_h_i"),
    ("js", "await odd.toString({})", "odd.toString_"),
];

#[test]
fn a_plan_has_each_call_or_is_partial() {
    let long = "l".repeat(240);
    let (of_js, of_star) = (format!("await odd.{long}({{}})"), format!("odd.{long}()"));
    let tool = format!("odd.{long}");
    // Its checker runs out of memory.
    let large = format!("l = \"{}\"\nbank.pay(a = [{}])", "x".repeat(30_000), "l,".repeat(16_000));
    let long = [
        ("js", of_js.as_str(), tool.as_str()),
        ("star", of_star.as_str(), tool.as_str()),
        ("star", large.as_str(), "bank.pay"),
    ];
    let hard: Vec<_> = HARD.iter().copied().chain(long).collect();
    let (answers, told) = check_all(hard.iter().map(|(extension, code, _)| (*extension, *code)));
    assert_eq!(answers.len(), hard.len(), "{told}");
    let mut wrong = String::new();
    for ((_, code, tool), answer) in hard.iter().zip(&answers) {
        let plan = &answer["plan"];
        let mut steps = plan["steps"].as_array().expect("a list").iter();
        let is_listed = steps.any(|step| {
            step["tool"]
                .as_str()
                .is_some_and(|it| format!("{}.{it}", step["server"].as_str().unwrap_or_default()) == *tool)
        });
        if answer["mistakes"] != json!([]) || !is_listed && plan["is_partial"] != true {
            let _ = writeln!(wrong, "{code}\n  {answer}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Scripts that look at a server or tool, and neither call it nor give it on, or give its name to something else first.
#[rustfmt::skip]
const LOOKING: &[(&str, &str)] = &[
    ("js", "if (bank.pay) return 1"),
    ("js", "return !bank.pay"),
    ("js", "return bank.pay ? 1 : 2"),
    ("js", "return typeof bank.pay"),
    ("js", "return 'pay' in bank"),
    ("js", "return bank.pay === undefined || null != bank"),
    ("star", "bank = [1]\nfor x in bank:\n    print(x)\nf = lambda: bank"),
    ("star", "def bank():\n    return 1\nbank()"),
    ("star", "x = [hasattr(bank, \"pay\"), type(bank), str(bank.pay), bool(bank)]"),
];

#[test]
fn a_plan_is_whole_where_a_server_is_looked_at_alone() {
    let (answers, told) = check_all(LOOKING.iter().copied());
    assert_eq!(answers.len(), LOOKING.len(), "{told}");
    for ((_, code), answer) in LOOKING.iter().zip(&answers) {
        let whole = json!({"steps": [], "flows": [], "most_calls": 0, "is_partial": false});
        assert_eq!((&answer["plan"], &answer["mistakes"]), (&whole, &json!([])), "{code}");
    }
}

#[test]
fn a_plan_bounds_the_calls_only_where_the_text_does() {
    for (code, most) in [
        ("await bank.pay({}); await bank.pay({})", json!(2)),
        ("await (async () => { await bank.pay({}) })()", json!(1)),
        ("await (async function f(n) { await bank.pay({}); if (n) await f(n - 1) })(2)", Value::Null),
        ("const g = async function f(n) { await bank.pay({}); if (n) await f(n - 1) };\nawait g(2)", Value::Null),
    ] {
        let (answers, told) = check_all([("js", code)].into_iter());
        assert_eq!(answers[0]["plan"]["most_calls"], most, "{code}: {told}");
    }
}

#[test]
fn data_of_an_earlier_round_may_reach_a_server_that_is_called_before() {
    let round = "await bank.pay({ x }); x = await shop.list_orders({})";
    for (code, flows) in [
        (format!("let x = 1;\n{round}"), json!([])),
        (format!("let x = 1;\nfor (const i of [1, 2]) {{ {round} }}"), json!([["shop", "bank"]])),
    ] {
        let (answers, told) = check_all([("js", code.as_str())].into_iter());
        assert_eq!(answers[0]["plan"]["flows"], flows, "{code}: {told}");
    }
}

#[test]
fn a_server_named_as_a_global_of_javascript_is_reached_by_its_name_alone() {
    let fence = Fence::new();
    fence.write("tools.json", &shop().to_string());
    for (code, calls) in [("await Buffer.pay({})", 0), ("await forge.server('Buffer').pay({})", 1)] {
        fence.write("a.js", code);
        let ran = fence.run(["--catalog", "tools.json", "run", "--json", "a.js"]).object();
        assert_eq!(ran["calls"].as_array().map(Vec::len), Some(calls), "{code}: {ran}");
    }
}

#[test]
fn an_empty_script_is_told_without_a_place() {
    let fence = Fence::new();
    fence.write("tools.json", &shop().to_string());
    for (name, code) in [("a.js", ""), ("b.star", " \n\t\n")] {
        fence.write(name, code);
        let checked = fence.run(["--catalog", "tools.json", "check", name]);
        let told = format!("{name}: error: SYNTAX_ERROR: the script is empty\n  fix: write the code to run");
        assert!(checked.code == Some(1) && checked.stdout.starts_with(&told), "{checked:?}");
        let github = fence.run(["--catalog", "tools.json", "check", "--format", "github", name]).stdout;
        assert!(
            github.starts_with(&format!("::error file={name},title=SYNTAX_ERROR::the script is empty")),
            "{github}"
        );
    }
}

#[test]
fn a_fix_has_the_signature_in_the_language_of_the_script() {
    let fence = Fence::new();
    fs::write(fence.work().join("tools.json"), shop().to_string()).expect("written");
    for (name, code, signature) in [
        (
            "a.js",
            "await shop.create_order({ itm: 'tea' })",
            "the signature is create_order({ item: string, quantity: number, from?: string, speed?: \"slow\" | \"fast\", \
             tags?: string[] }): Promise<any>",
        ),
        (
            "b.js",
            "await shop.list_orders(1)",
            "list_orders({ page?: number }): Promise<{ next?: string, orders?: object[] }>",
        ),
        ("c.star", "shop.create_order(itm = \"tea\")", "the signature is create_order(*, item: str, quantity: int, "),
    ] {
        fs::write(fence.work().join(name), code).expect("written");
        let output = finish(&mut fence.forgefs(["--catalog", "tools.json", "check", name]), "");
        assert!(output.stdout.to_lowercase().contains(&signature.to_lowercase()), "{name}: {}", output.stdout);
    }
}

#[test]
fn a_server_whose_tools_are_not_known_is_told() {
    let fence = Fence::new();
    fence.write("forge.toml", "[servers.dead]\ncommand = \"no-such-program-anywhere\"\n");
    for (name, code, plan, exit) in [
        ("a.js", "return await dead.stop({})", "calls dead, whose tools are not known\n  at most 1 call", 3),
        ("b.star", "[dead.stop() for _ in range(3)]", "nothing in the text bounds the number of calls", 3),
        (
            "fields.js",
            "class A { x = dead.stop({}) }\nfor (const i of [1, 2]) await new A().x",
            "nothing in the text bounds the number of calls",
            3,
        ),
        ("static.js", "class A { static x = dead.stop({}) }\nawait A.x", "at most 1 call", 3),
        ("c.js", "await dead.stop(); return missing.tool()", "calls dead, whose tools are not known", 1),
        ("d.js", "return 'dead'", "calls no tool", 0),
    ] {
        fs::write(fence.work().join(name), code).expect("written");
        let output = finish(&mut fence.forgefs(["check", name]), "");
        let told = (output.code, output.stdout.contains(plan));
        assert_eq!(told, (Some(exit), true), "{name}: {} {}", output.stdout, output.stderr);
        assert_eq!(output.stderr.contains("dead: its calls were not checked"), exit != 0, "{name}: {}", output.stderr);
    }
}

#[tokio::test]
async fn a_script_with_a_mistake_makes_no_call_and_is_on_record() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["people", "tickets"]).await;
    for (language, code, second) in [
        (
            "javascript",
            "await people.list_teams();\nawait people.get_usr({});\nawait tickets.get_ticket({ id: 'x' })",
            "line 3",
        ),
        ("starlark", "people.list_teams()\npeople.get_usr()\ntickets.get_ticket(id = \"x\")", "line 3"),
    ] {
        let said = session.execute_err(language, code).await;
        for part in ["TOOL_NOT_FOUND", "at line 2", "get_user", second, "INVALID_ARGS", "no call was made"] {
            assert!(said.contains(part), "{language}: no {part:?} in {said}");
        }
        assert!(!said.contains("list_teams"), "{said}");
        let log = fs::read_to_string(fence.audit()).expect("a log");
        let last: Value = serde_json::from_str(log.lines().last().expect("a record")).expect("JSON");
        assert_eq!(last["outcome"], "TOOL_NOT_FOUND", "{last}");
        let calls: Vec<&Value> = last["calls"].as_array().expect("a list").iter().map(|call| &call["tool"]).collect();
        assert_eq!(calls, ["get_usr", "get_ticket"], "{last}");
    }
    // The same where it may not run: a warning beside the answer.
    let answer = session.call(
        "execute",
        json!({"language": "javascript", "code":
        "try { await people.get_usr({}) } catch (error) { return error.code }"}),
    );
    let text = answer.await.text;
    assert!(text.starts_with("TOOL_NOT_FOUND\n") && text.contains("note: line 1, column 13: TOOL_NOT_FOUND"), "{text}");
    session.close().await;
}

#[tokio::test]
async fn rules_and_limits_are_judged_before_the_first_call() {
    let fence = Fence::new();
    let rules = "[[flows]]\nfrom = \"people\"\nto = \"tickets\"\naction = \"deny\"\n[sandbox.limits]\ncalls = 3\n";
    let session = fence.serve(&format!("{}\n{rules}", samples())).await;
    session.ready(&["people", "tickets"]).await;
    let many = "await people.list_teams();\n".repeat(4);
    for (code, says) in [
        ("const t = await people.list_teams();\nawait tickets.list_tickets({})", "holds data of `people`"),
        (many.as_str(), "the script makes more than 3 calls"),
    ] {
        let said = session.execute_err("javascript", code).await;
        assert!(said.contains(says) && said.contains("no call was made"), "{said}");
    }
    // A promise that is not waited for brings no data yet, so this is for the broker to decide.
    let free = "const t = people.list_teams();\nconst u = tickets.list_tickets({});\nreturn [await u, await t].length";
    let answer = session.call("execute", json!({"language": "javascript", "code": free})).await;
    assert!(!answer.text.contains("no call was made"), "{}", answer.text);
    session.close().await;
}

#[test]
fn formats_are_those_that_tools_read() {
    let fence = Fence::new();
    let folder = fence.work();
    fs::write(folder.join("tools.json"), shop().to_string()).expect("written");
    fs::write(folder.join("a,b.js"), "await shop.no();\nif (1 > 2) await bank.no()").expect("written");
    fs::write(folder.join("fine.star"), "x = shop.list_orders()\nfor o in x[\"orders\"]:\n    bank.pay(o = o)")
        .expect("written");
    fs::write(folder.join("broken.js"), "await (").expect("written");
    let check = |format: &str, files: &[&str]| {
        let args = ["--catalog", "tools.json", "check", "--format", format].into_iter().chain(files.iter().copied());
        finish(&mut fence.forgefs(args), "")
    };
    let text = check("text", &["a,b.js", "fine.star"]);
    assert_eq!(text.code, Some(1));
    for line in [
        "a,b.js:1:7: error: TOOL_NOT_FOUND: server `shop` has no tool `no`",
        "a,b.js:2:18: warning: TOOL_NOT_FOUND: server `bank` has no tool `no`",
        "  reads shop.list_orders",
        "  may write bank.pay, repeatedly",
        "  data of shop may reach bank",
        "  nothing in the text bounds the number of calls",
    ] {
        assert!(text.stdout.lines().any(|found| found == line), "no {line:?} in {}", text.stdout);
    }
    assert_eq!(check("text", &["fine.star"]).code, Some(0));
    let github = check("github", &["a,b.js"]).stdout;
    assert!(github.starts_with("::error file=a%2Cb.js,line=1,col=7,title=TOOL_NOT_FOUND::server"), "{github}");
    let sarif: Value = serde_json::from_str(&check("sarif", &["a,b.js", "broken.js"]).stdout).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("a list");
    let rules: Vec<&Value> = results.iter().map(|result| &result["ruleId"]).collect();
    assert_eq!(rules, ["TOOL_NOT_FOUND", "TOOL_NOT_FOUND", "SYNTAX_ERROR"]);
    assert_eq!(results[1]["level"], "warning");
    assert_eq!(check("text", &["missing.js"]).code, Some(2));
}

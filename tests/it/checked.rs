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
    ]}})
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
];

#[test]
fn what_is_provably_wrong_is_found_at_its_place() {
    let fence = Fence::new();
    let folder = fence.work();
    fs::write(folder.join("tools.json"), shop().to_string()).expect("written");
    let mut args: Vec<String> = ["--catalog", "tools.json", "check", "--format", "json"].map(str::to_owned).into();
    for (number, (extension, code, _)) in CASES.iter().enumerate() {
        let name = format!("case{number}.{extension}");
        fs::write(folder.join(&name), code).expect("written");
        args.push(name);
    }
    let output = finish(&mut fence.forgefs(&args), "");
    let answer: Value = output.object();
    let answers = answer["files"].as_array().expect("a list");
    assert_eq!(answers.len(), CASES.len(), "{}", output.stderr);
    let mut wrong = String::new();
    for ((_, code, expected), answer) in CASES.iter().zip(answers) {
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

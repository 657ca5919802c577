//! Shapes of results are learned from answers, kept, and shown in stubs: keys and types, and nothing else.

use std::fs;

use serde_json::{Value, json};

use crate::client::Fence;
use crate::faulty::python;

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn structured(value: &Value) -> Value {
    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value})
}

/// A fence with the configuration of a server `shop` with these answers; `None`, visibly, without Python.
fn shop(answers: &Value, more: &str) -> Option<(Fence, String)> {
    let fence = Fence::new();
    let file = fence.write("answers.json", &answers.to_string());
    let config = format!("{}{more}", python("shop", "answers.py", &[&file.to_string_lossy()])?);
    fence.write("forge.toml", &config);
    Some((fence, config))
}

fn cat(fence: &Fence, path: &str) -> String {
    fence.run(["cat", path]).success().stdout
}

fn orders() -> Value {
    json!({"orders": [
        text(r#"{"orders": [{"id": 7, "total": 9.5, "note": null}], "next_page": 2}"#),
        text(r#"{"orders": [{"id": 8, "total": 12, "note": "blue", "paid": true}]}"#),
    ]})
}

#[test]
fn every_way_to_call_a_tool_teaches_its_stub() {
    let Some((fence, _)) = shop(&orders(), "") else { return };
    let before = cat(&fence, "/shop/orders.pyi");
    assert!(before.contains("# result not observed yet: log one row\ndef orders() -> Any:"), "{before}");
    let docs = cat(&fence, "/shop/orders.md");
    assert!(docs.contains("Not observed yet: a script that returns one answer shows it, and then this file"), "{docs}");

    fence.run(["call", "shop", "orders"]).success();
    let once = cat(&fence, "/shop/orders.pyi");
    assert!(once.contains("class Order(TypedDict):\n    id: int\n    note: None\n    total: float\n"), "{once}");
    assert!(once.contains("# result observed in 1 answer\ndef orders() -> Result:"), "{once}");
    // The last page lacks what leads on, whatever the first one has.
    assert!(once.contains("next_page: NotRequired[int]"), "{once}");
    assert_eq!(once.matches("NotRequired[").count(), 1, "{once}");

    fence.write("twice.js", "await shop.orders({}); return (await shop.orders({})).orders.length");
    assert_eq!(fence.run(["run", "twice.js"]).success().stdout.trim(), "1");
    let stub = cat(&fence, "/shop/orders.pyi");
    let expected = [
        "class Order(TypedDict):\n    id: int\n    note: str | None\n    total: float\n    paid: NotRequired[bool]\n",
        "class Result(TypedDict):\n    orders: list[Order]\n    next_page: NotRequired[int]\n",
        "# result observed in 2+ answers\ndef orders() -> Result:",
    ];
    expected.iter().for_each(|part| assert!(stub.contains(part), "{part}\n{stub}"));
    let types = cat(&fence, "/shop/orders.d.ts");
    assert!(types.contains("  orders: Order[];\n  next_page?: number;\n"), "{types}");
    assert!(types.contains("// result observed in 2+ answers\n"), "{types}");
    let docs = cat(&fence, "/shop/orders.md");
    assert!(docs.contains("## Result\n\n`Result`, result observed in 2+ answers."), "{docs}");
    let init = cat(&fence, "/shop/__init__.pyi");
    assert!(init.contains("def orders() -> dict[str, Any]: "), "{init}");
    let hits = fence.run(["search", "answers orders"]).success().stdout;
    assert!(
        hits.starts_with("/shop/orders.pyi  () -> {orders: [{id, note, total, paid?}], next_page?}  Answers orders."),
        "{hits}"
    );

    // Another definition, another tool: nothing is known of it.
    let answers = orders().to_string().replace("orders", "orders2");
    fence.write("answers.json", &answers);
    assert!(cat(&fence, "/shop/orders2.pyi").contains("# result not observed yet"));
    fence.write("answers.json", &orders().to_string());

    // A file that was tampered with is held to the same rules; one that is damaged is ignored.
    let mut files = fs::read_dir(fence.cache()).expect("a cache").flatten().map(|entry| entry.path());
    let file = files.find(|path| path.to_string_lossy().ends_with(".shapes.json")).expect("it is kept");
    let kept = fs::read_to_string(&file).expect("text");
    fs::write(&file, kept.replace("\"orders\"", "\"ann@example.com\"")).expect("written");
    let stub = cat(&fence, "/shop/orders.pyi");
    assert!(!stub.contains("class Order") && !stub.contains("ann@") && !stub.contains("-> Any"), "{stub}");
    for damaged in ["", "{}", "[1", &"[".repeat(1 << 20), &kept.replace("\"format\":2", "\"format\":9")] {
        fs::write(&file, damaged).expect("written");
        assert!(cat(&fence, "/shop/orders.pyi").contains("# result not observed yet"));
    }
    fence.run(["call", "shop", "orders"]).success();
    assert!(cat(&fence, "/shop/orders.pyi").contains("# result observed in 1 answer\n"));

    let off = fs::read_to_string(fence.work().join("forge.toml")).expect("a file") + "[manifest]\nobserve = false\n";
    fence.write("forge.toml", &off);
    let stub = cat(&fence, "/shop/orders.pyi");
    assert!(stub.contains("def orders() -> Any:") && !stub.contains("observed"), "{stub}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reads_what_its_calls_taught_and_nothing_is_announced() {
    let answers = json!({
        "orders": [structured(&json!({"orders": [{"id": 7}]}))],
        "report": [text("id,name,total\n7,Ann Lee,9.50\n8,Bob Ray,1")],
        "put_order": [structured(&json!({"id": 9}))],
        "broken": [{"isError": true, "content": [{"type": "text", "text": "{\"reason\": \"no\"}"}]}],
    });
    let Some((fence, config)) = shop(&answers, "") else { return };
    let session = fence.serve(&config).await;
    session.ready(&["shop"]).await;
    let cat = async |path: &str| session.call("cat", json!({ "path": path })).await.text;
    let root = session.call("ls", json!({})).await.text;
    assert!(cat("/shop/orders.pyi").await.contains("not observed yet"));
    let many = "for (let n = 0; n < 40; n++) await shop.orders({}); await shop.report({}); \
                try { await shop.broken({}) } catch (error) {} return 1";
    let answer = session.call("execute", json!({"language": "javascript", "code": many})).await;
    assert!(!answer.is_error && !answer.text.contains("has changed since it was read"), "{}", answer.text);
    assert!(cat("/shop/orders.pyi").await.contains("# result observed in 32+ answers\ndef orders() -> Result"));
    let report = cat("/shop/report.pyi").await;
    assert!(report.contains("# result observed in 1 answer: CSV: id, name, total\ndef report() -> str"), "{report}");
    assert!(cat("/shop/broken.pyi").await.contains("not observed yet"), "an error is no result");
    // The catalog's digest is in the first line.
    assert_eq!(session.call("ls", json!({})).await.text, root);

    // A dry run learns nothing of its samples; it answers with what was learned.
    let dry = async || {
        let code = "return await shop.put_order({})";
        session.call("execute", json!({"language": "javascript", "code": code, "dry_run": true})).await.text
    };
    assert!(dry().await.starts_with("null"), "{}", dry().await);
    // Nothing suggests a write to see what comes back.
    assert!(cat("/shop/put_order.pyi").await.contains("# result not observed yet\n"));
    assert!(cat("/shop/put_order.md").await.contains("Not observed yet: after the first call"));
    session.execute("javascript", "return await shop.put_order({})").await;
    assert!(dry().await.starts_with("{\"id\":0}"), "{}", dry().await);
    assert!(cat("/shop/put_order.pyi").await.contains("observed in 1 answer\n"));
    let search = "return (await manifest.search('orders'))[0].signature";
    assert_eq!(session.execute("javascript", search).await, "orders() -> dict[str, Any]");
    session.close().await;
    // Another process knows it too.
    assert!(self::cat(&fence, "/shop/orders.pyi").contains("# result observed in 32+ answers\n"));
}

#[test]
fn a_hostile_server_can_put_neither_data_nor_code_into_stubs() {
    let key = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let odd = json!({"class": 1, "def": 2, "__import__": 3, "Result": "x", "größe": 1, "Item": {"None": [1], "Any": "a b"}, "a b": 1});
    let evil = "\"\"\"\nimport os #";
    let mut wide = serde_json::Map::new();
    (0..5000).for_each(|n: i32| {
        drop(
            wide.insert(
                format!("k{}", "abcdefghij".repeat(1 + n as usize % 5)) + &format!("_{n:x}"),
                json!([{"x": n}]),
            ),
        )
    });
    let answers = json!({
        "secret": [structured(&json!({ key: {"value": 1}, "password": {"value": 2} }))],
        "people": [structured(&json!({"ann@example.com": {"age": 3}, "bob@example.com": {"age": 4}}))],
        "evil": [structured(&json!({ evil: 1, "x": 2 })), structured(&json!({"*/ export const y = 1; //": 1}))],
        "odd": [structured(&odd)],
        "wide": [structured(&wide.into())],
        "deep": [text(&format!("{}1{}", "{\"inner\": [".repeat(60), "]}".repeat(60)))],
        "rows": [text("ann,secret\n# type: ignore,x"), text(&format!("{evil},b\n1,2"))],
    });
    let Some((fence, _)) = shop(&answers, "") else { return };
    fence.write(
        "all.js",
        "for (const tool of ['secret', 'people', 'evil', 'evil', 'odd', 'wide', 'deep', 'rows', 'rows']) \
         await forge.callTool('shop', tool); return 1",
    );
    fence.run(["run", "all.js"]).success();
    let expected = [
        ("secret", "-> dict[str, ResultValue]"),
        ("people", "-> dict[str, ResultValue]"),
        ("evil", "-> dict[str, int]"),
        ("odd", "-> Result"),
        ("wide", "-> Result"),
        ("deep", "-> Result"),
        ("rows", ": lines\ndef rows() -> str"),
    ];
    let mut wrong = Vec::new();
    for (tool, result) in expected {
        let stub = cat(&fence, &format!("/shop/{tool}.pyi"));
        if !stub.contains(result) {
            wrong.push(stub.clone());
        }
        let types = cat(&fence, &format!("/shop/{tool}.d.ts"));
        let kept = [key, "ghp_", "example.com", "import os", "export const", "ann,", "secret\""];
        kept.iter().for_each(|data| assert!(!stub.contains(data) && !types.contains(data), "{data}: {stub}"));
        assert!(stub.len() < 2 << 10, "{tool}: {} bytes", stub.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for file in fs::read_dir(fence.cache()).expect("a cache").flatten() {
        let kept = fs::read_to_string(file.path()).expect("text");
        assert!(!kept.contains("ghp_") && !kept.contains("example.com") && !kept.contains("Lee"), "{kept}");
    }
    let all = fence.run(["cat", "/shop/*.pyi"]).success().stdout;
    let parse = "import ast, sys; ast.parse(sys.stdin.read())";
    let mut python = std::process::Command::new("python3");
    let parsed = crate::client::finish(python.args(["-c", parse]), &all);
    assert_eq!(parsed.code, Some(0), "{}\n{all}", parsed.stderr);
}

#[test]
fn a_reviewed_tree_has_shapes_only_when_asked() {
    let Some((fence, _)) = shop(&orders(), "") else { return };
    fence.run(["call", "shop", "orders"]).success();
    fence.run(["stubs", "generate", "--out", "plain"]).success();
    fence.run(["stubs", "generate", "--out", "observed", "--observed"]).success();
    let stub = |tree: &str| fs::read_to_string(fence.work().join(tree).join("shop/orders.pyi")).expect("a stub");
    assert!(stub("plain").contains("-> Any:") && !stub("plain").contains("observed"), "{}", stub("plain"));
    assert!(stub("observed").contains("# result observed in 1 answer\n"), "{}", stub("observed"));
    let lock = |tree: &str| fs::read_to_string(fence.work().join(tree).join("stubs.lock")).expect("a lock");
    assert_eq!(lock("plain"), lock("observed"));

    // What is learned later is no drift, and no tool leaves its review.
    fence.write("more.js", "for (let n = 0; n < 4; n++) await shop.orders({}); return 1");
    fence.run(["run", "more.js"]).success();
    for tree in ["plain", "observed"] {
        fence.run(["stubs", "check", tree]).success();
        let config = fs::read_to_string(fence.work().join("forge.toml")).expect("a file");
        fence.write("pinned.toml", &format!("{config}[manifest]\npin = {tree:?}\n"));
        fence.run(["--config", "pinned.toml", "call", "shop", "orders"]).success();
    }
    let path = fence.work().join("observed/observed.json");
    let text = fs::read_to_string(&path).expect("a file");
    fs::write(&path, text.replace("\"note\"", "\"memo\"")).expect("written");
    let drift = fence.run(["stubs", "check", "observed"]);
    assert_eq!(drift.code, Some(1), "{drift:?}");
    fs::write(&path, "{").expect("written");
    let broken = fence.run(["stubs", "check", "observed"]);
    assert_eq!(broken.code, Some(2), "{broken:?}");
    assert!(broken.stderr.contains("observed.json: "), "{}", broken.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_that_is_read_of_a_text_is_told_before_and_after_the_run() {
    let page = |version: u32| text(&format!("version: {version}\nauthor: Ann Lee\n---\nTea: 7"));
    let inside = text(r#"{"result": "{\"n\": 2, \"ok\": true}"}"#);
    let answers = json!({ "page": [page(3), page(4)], "words": [text("all is well")], "state": [inside] });
    let Some((fence, config)) = shop(&answers, "") else { return };
    let session = fence.serve(&config).await;
    session.ready(&["shop"]).await;
    let told = "every answer of shop.page so far was text: `.version` of it is undefined; its line `version: …` is \
                `/^version: (.*)$/m.exec(text)[1]`";
    // Nothing is known before the first run, and the shape before the second.
    for run in ["first", "second"] {
        let code = "const page = await shop.page({});\nreturn `version ${page.version}`";
        let answer = session.call("execute", json!({"language": "javascript", "code": code})).await.text;
        assert_eq!(answer.matches("note: line 2, column 24: ").count(), 1, "{run}: {answer}");
        assert!(answer.starts_with("version undefined\n") && answer.contains(told), "{run}: {answer}");
    }
    let stub = session.call("cat", json!({"path": "/shop/page.pyi"})).await.text;
    assert!(stub.contains("# result observed in 2+ answers: lines, with version: N, then a line `---`\n"), "{stub}");
    for (language, code, part) in [
        (
            "javascript",
            "return (await shop.words({})).count",
            "so far was text: `.count` of it is undefined; use the answer",
        ),
        ("javascript", "return (await shop.page({})).author", "take it from the lines: `text.split(\"\\n\")`"),
        (
            "javascript",
            "const all = await shop.words({});\nreturn String(all[0].count)",
            "note: line 2, column 22: every answer of shop.words so far was text: `[…].count` of it is undefined",
        ),
        ("javascript", "return (await shop.words({}))[\"count\"]", "so far was text: `.count` of it is undefined"),
        (
            "javascript",
            "for (const word of await shop.words({})) console.log(word.count)",
            "so far was text: `[…].count` of it is undefined",
        ),
        (
            "javascript",
            "const r = await shop.state({});\nif (r.error) return 1;\nreturn r.ok ? 'yes' : 'no'",
            "note: line 3, column 10: no answer of shop.state had `ok` so far: the JSON in its text `result` has it; \
             `JSON.parse(answer.result).ok`",
        ),
        (
            "starlark",
            "r = shop.state()\n\"yes\" if r.get(\"ok\") else \"no\"",
            "the JSON in its text `result` has it; `json.decode(answer[\"result\"])[\"ok\"]`",
        ),
        ("starlark", "shop.words()[0][\"count\"]", "every answer of shop.words so far was text: a text has no keys"),
        (
            "starlark",
            "try_call(shop.page)\nshop.page()[\"version\"]",
            "for l in text.splitlines() if l.startswith(\"version: \")][0]`",
        ),
    ] {
        let answer = session.call("execute", json!({ "language": language, "code": code })).await.text;
        assert!(answer.contains(part), "{code}: {answer}");
    }
    for code in [
        "const page = await shop.page({});\nreturn page.version ? page.version.trim() : page",
        "const page = await shop.page({});\nif (Array.isArray(page.rows)) return page.rows.length",
        "return (await shop.page({})).length",
        "return (await shop.page({}))[0].length",
        "return (await shop.page({})).split('\\n').version",
    ] {
        let answer = session.call("execute", json!({"language": "javascript", "code": code})).await.text;
        assert!(!answer.contains("so far was text"), "{code}: {answer}");
    }
    session.close().await;
}

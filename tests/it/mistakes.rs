//! `tests/fixtures/mistakes.txt` and `mistakes_of_answers.txt`: mistakes that models make in their first script, each
//! answered with what makes the second one right.

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::{python, samples};

/// One mistake of the table.
struct Mistake<'t> {
    language: &'t str,
    /// True if the script ends without an error, and is told all the same.
    runs: bool,
    name: &'t str,
    code: String,
    says: Vec<&'t str>,
}

fn table(text: &str) -> Vec<Mistake<'_>> {
    let mut table: Vec<Mistake<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((language, name)) = line.strip_prefix("## ").and_then(|head| head.split_once(": ")) {
            let runs = language.strip_suffix(", which runs");
            let language = runs.unwrap_or(language);
            table.push(Mistake { language, runs: runs.is_some(), name, code: String::new(), says: Vec::new() });
        } else if let Some(mistake) = table.last_mut() {
            match line.strip_prefix("=> ") {
                Some(part) => mistake.says.push(part),
                None if mistake.says.is_empty() => mistake.code.push_str(&format!("{line}\n")),
                None => assert!(
                    line.is_empty() || line.starts_with("# "),
                    "{line:?} after the expectation of {}",
                    mistake.name
                ),
            }
        }
    }
    table
}

#[tokio::test]
async fn every_usual_mistake_is_answered_with_what_to_do() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    all_are_answered(&session, "tests/fixtures/mistakes.txt", 60).await;
}

#[tokio::test]
async fn every_usual_mistake_about_an_answer_is_answered_with_what_to_do() {
    let fence = Fence::new();
    let rows = json!({ "result": json!({ "rows": [{ "at": 1 }] }).to_string() });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let link = json!({ "type": "resource_link", "uri": "x://a", "name": "a" });
    let answers = json!({
        "now": [{ "content": [text(&rows["result"].to_string())], "structuredContent": rows }],
        "zone": [{ "content": [text("Europe/Berlin")] }],
        "links": [{ "content": [text("Two links:"), link, link] }],
        "chart": [{ "content": [{ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }] }],
        "take": [{ "content": [text("taken")] }],
    });
    let takes = json!({ "type": "object", "properties": { "uri": { "type": "string" } }, "required": ["uri"] });
    let files = [("answers.json", answers), ("more.json", json!({ "take": { "inputSchema": takes } }))]
        .map(|(name, content)| fence.write(name, &content.to_string()));
    let files = files.each_ref().map(|file| file.to_string_lossy());
    let answering = |name| python(name, "answers.py", &[&files[0], &files[1]]);
    let offers = python("offers", "offers.py", &["odd"]);
    let (Some(time), Some(fetch), Some(offers)) = (answering("time"), answering("fetch"), offers) else { return };
    let session = fence.serve(&format!("{time}{fetch}{offers}")).await;
    session.ready(&["time", "fetch", "offers"]).await;
    all_are_answered(&session, "tests/fixtures/mistakes_of_answers.txt", 7).await;
}

#[tokio::test]
async fn every_key_that_no_answer_had_is_noted_and_no_other_one() {
    let fence = Fence::new();
    let item = |id: u32, name: &str| json!({ "id": id, "full_name": name, "extra": true });
    let page = json!({
        "items": [item(1, "Ada"), item(2, "Bo")], "counts": { "open": 3 }, "owner": { "login": "ada" },
    });
    let rows = json!({ "rows": [{ "id": 1, "is_active": true }], "counts": { "open": 3 } });
    let answer = |value: &Value| json!([{ "content": [], "structuredContent": value }]);
    let none = answer(&json!({}));
    let answers = json!({
        "page": answer(&page), "rows": answer(&rows), "take": none, "put_note": none, "slow": [],
    });
    let of = |properties: Value| json!({ "type": "object", "properties": properties });
    let text = json!({ "type": "string" });
    let result = of(json!({
        "items": { "type": "array", "items": of(json!({ "id": { "type": "integer" }, "full_name": text, "nick": text })) },
        "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
        "owner": { "anyOf": [of(json!({ "login": text })), { "type": "null" }] },
        "next": text,
    }));
    let takes = json!({ "type": "object", "properties": { "uri": text }, "required": ["uri"] });
    let mut body = of(json!({ "status": text }));
    body["required"] = json!(["status"]);
    let note = json!({
        "inputSchema": of(json!({ "n": { "type": "integer" }, "body": body })),
        "outputSchema": of(json!({ "id": { "type": "integer" }, "lines": { "type": "array" }, "error": text })),
    });
    let more = json!({ "page": { "outputSchema": result }, "take": { "inputSchema": takes }, "put_note": note });
    let files =
        [("answers.json", answers), ("more.json", more)].map(|(name, content)| fence.write(name, &content.to_string()));
    let files = files.each_ref().map(|file| file.to_string_lossy());
    let Some(shop) = python("shop", "answers.py", &[&files[0], &files[1]]) else { return };
    let session = fence.serve(&format!("{shop}[sandbox.limits]\ncalls = 40\n")).await;
    session.ready(&["shop"]).await;
    all_are_answered(&session, "tests/fixtures/mistakes_of_keys.txt", 35).await;
    let code = "const r = await shop.put_note({ n: 1 });\nreturn [r.id.toFixed(), r.error ?? r.lines[0].text];";
    let dry = session.call("execute", json!({ "language": "javascript", "code": code, "dry_run": true })).await;
    let sample = "`r` is a sample, as a dry run does not call shop.put_note: {id: 0, lines: […0]}";
    assert!(dry.text.contains(sample) && dry.text.contains("fix: in a real run the service answers"), "{}", dry.text);
}

async fn all_are_answered(session: &Session, path: &str, least: usize) {
    let text = std::fs::read_to_string(path).expect("the table");
    let table = table(&text);
    assert!(table.len() >= least, "{} mistakes", table.len());
    let mut wrong = Vec::new();
    for Mistake { language, runs, name, code, says } in table {
        assert!(!says.is_empty(), "{name} expects nothing");
        let answer = session.call("execute", json!({ "language": language, "code": code })).await;
        let is_said = |part: &str| match part.strip_prefix("not: ") {
            Some(part) => !answer.text.contains(part),
            None => answer.text.contains(part),
        };
        let missing: Vec<&&str> = says.iter().filter(|part| !is_said(part)).collect();
        if answer.is_error == runs
            || !missing.is_empty()
            || answer.text.len() > 1500
            || answer.text.contains("correct the")
        {
            wrong.push(format!("{language}: {name}: no {missing:?} in:\n{}\n", answer.text));
        }
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

//! Scripts that `forgefs serve` offers as MCP tools of their own, and their edits while it serves.

use std::time::{Duration, Instant};

use serde_json::json;

use super::examples::copied;
use crate::client::{Answer, Era, Fence, Session, value_of};
use crate::faulty::samples;

const TITLE: &str = "/** Returns the title of a ticket. */\nexport default async function ({ id }: { id: number }): \
                     Promise<string> {\n  return (await tickets.get_ticket({ id })).title;\n}\n";
const CONFIG: &str = "[scripts]\npath = \"scripts/\"\n[scripts.tools.title]\nas_tool = true\n";

/// A fence with the script `title`, locked.
fn locked() -> Fence {
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{}\n{CONFIG}", samples()));
    fence.write("scripts/title.ts", TITLE);
    fence.run(["scripts", "lock"]).success();
    fence
}

async fn serving(fence: &Fence, era: Era) -> Session {
    let session = fence.connect(era, fence.forgefs(["serve"])).await;
    session.ready(&["tickets"]).await;
    session
}

/// Waits until a call answers as wanted; the last answer.
async fn until(session: &Session, call: impl AsyncFn() -> Answer, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let started = Instant::now();
    loop {
        let answer = call().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{answer:?}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_script_as_tool_is_listed_beside_the_four_and_answers_a_call() {
    let fence = locked();
    for era in [Era::Modern, Era::Legacy] {
        let session = serving(&fence, era).await;
        let execute = || {
            session.call("execute", json!({"language": "javascript", "code": "return await scripts.title({ id: 2 })"}))
        };
        until(&session, async || execute().await, |answer| !answer.is_error).await;
        let tools = session.tools().await;
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        let tool = tools.iter().find(|tool| tool.name == "title").expect("the script is a tool");
        assert_eq!(tool.description.as_deref(), Some("Returns the title of a ticket."));
        assert_eq!(tool.input_schema["required"], json!(["id"]), "{tool:?}");
        let answer = session.call("title", json!({"id": 2})).await;
        assert!(!answer.is_error && value_of(&answer.text) == "Typo on the pricing page", "{answer:?}");
        let wrong = session.call("title", json!({"id": "two"})).await;
        assert!(wrong.is_error && wrong.text.contains("INVALID_ARGS"), "{wrong:?}");
        session.close().await;
    }
}

#[tokio::test]
async fn a_script_that_is_not_a_tool_of_its_own_is_not_listed() {
    let fence = copied();
    let session = serving(&fence, Era::Modern).await;
    let orphans = json!({"language": "javascript", "code": "return await scripts.triage_orphans({})"});
    until(&session, async || session.call("execute", orphans.clone()).await, |answer| !answer.is_error).await;
    let mut names: Vec<String> = session.tools().await.iter().map(|tool| tool.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["cat", "execute", "ls", "search", "triage_assign"]);
    session.close().await;
}

#[tokio::test]
async fn a_script_that_is_edited_while_it_serves_is_quarantined_until_it_is_locked() {
    let fence = locked();
    let session = serving(&fence, Era::Modern).await;
    let code = json!({"language": "javascript", "code": "return await scripts.title({ id: 2 })"});
    let called = async || session.call("execute", code.clone()).await;
    until(&session, called, |answer| value_of(&answer.text) == "Typo on the pricing page").await;

    fence.write("scripts/title.ts", &TITLE.replace("title;", "title.length;").replace("<string>", "<number>"));
    let held = until(&session, called, |answer| answer.is_error).await;
    assert!(held.text.contains("TOOL_DENIED") && held.text.contains("the text differs from its lock"), "{held:?}");
    let names: Vec<String> = session.tools().await.iter().map(|tool| tool.name.to_string()).collect();
    assert!(!names.iter().any(|name| name == "title"), "{names:?}");

    fence.run(["scripts", "lock"]).success();
    let again = until(&session, called, |answer| !answer.is_error).await;
    assert_eq!(value_of(&again.text), json!(24), "{again:?}");
    let own = session.call("title", json!({"id": 2})).await;
    assert_eq!(value_of(&own.text), json!(24), "{own:?}");
    session.close().await;
}

/// Arguments reach a script as the client wrote them.
#[tokio::test]
async fn arguments_of_a_script_as_tool_keep_every_digit_name_and_character() {
    let fence = Fence::new();
    let own = "[scripts]\npath = \"scripts/\"\n[scripts.tools.same]\nas_tool = true\n";
    fence.write("forge.toml", &format!("{}\n{own}", samples()));
    fence.write("scripts/same.star", "def main(value: dict) -> dict:\n    \"\"\"Returns it.\"\"\"\n    return value\n");
    fence.run(["scripts", "lock"]).success();
    let session = serving(&fence, Era::Modern).await;
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    for value in [
        json!({"large": 12_345_678_901_234_567_890_u64, "small": -9_007_199_254_740_993_i64, "real": 0.1}),
        json!({"__proto__": {"a": 1}, "constructor": null, "None": true, "no name": false}),
        json!({"text": "\"\\ \n\t\r\u{0}\u{7f}\u{2028}\u{1F600} ${x} \\u0041 {{}} %s 'q'"}),
        json!({"deep": deep, "empty": [[], {}], "": ""}),
    ] {
        let arguments = json!({ "value": value });
        let called = async || session.call("same", arguments.clone()).await;
        let answer = until(&session, called, |answer| !answer.text.contains("there is no tool")).await;
        assert!(!answer.is_error && value_of(&answer.text) == value, "{value}: {answer:?}");
    }
    let answer = session.call("same", json!({"value": {"text": "x".repeat(100_000)}})).await;
    let says = "INVALID_ARGS: same: the arguments have 100";
    assert!(answer.is_error && answer.text.contains(says) && answer.text.contains("sandbox.limits.code"), "{answer:?}");
    session.close().await;
}

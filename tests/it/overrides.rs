//! Overrides of tools: stub, documentation, search, pin, policy and call agree, and one that does not fit says so.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::{has_python, python};

/// A tool that answers with its name and its arguments.
fn create(labels: Value) -> Value {
    json!({
        "name": "gh_issue_create", "description": "Opens a ticket.", "_meta": { "echo": true },
        "inputSchema": {
            "type": "object", "required": ["owner", "repo", "title"],
            "properties": {
                "owner": { "type": "string", "description": "Whose it is" }, "repo": { "type": "string" },
                "title": { "type": "string" }, "labels": labels,
            },
        },
        "outputSchema": {
            "type": "object", "required": ["got"],
            "properties": { "got": { "$ref": "#/$defs/got" } },
            "$defs": { "got": { "type": "object", "properties": {
                "tool": { "type": "string" }, "arguments": { "type": "object", "properties": { "title": { "type": "string" } } },
            } } },
        },
        "annotations": { "destructiveHint": true, "openWorldHint": true },
    })
}

const OVERRIDE: &str = r#"
[servers.git.tools.gh_issue_create]
name = "create_issue"
description = "Files a defect of the product."
annotations = { destructive = false, idempotent = true }
hide = ["labels"]
fixed = { owner = "${COMPANY:-acme}" }
default = { repo = "main" }
result = "got.arguments"
"#;

/// The server, its configuration, and its log.
fn served(fence: &Fence, tools: &Value) -> Option<String> {
    let file = fence.write("tools.json", &tools.to_string());
    let log = fence.work().join("log");
    python("git", "shifting.py", &[&file.display().to_string(), &log.display().to_string(), "--tells"])
}

fn labels() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

async fn call(session: &Session, code: &str) -> String {
    session.call("execute", json!({ "language": "javascript", "code": format!("return await {code}") })).await.text
}

#[tokio::test]
async fn everything_agrees_on_an_overridden_tool() {
    let Some(fence) = has_python("a server") else { return };
    let Some(server) = served(
        &fence,
        &json!([create(labels()), { "name": "other", "inputSchema": {}, "_meta": { "forgefs/override": {} } }]),
    ) else {
        return;
    };
    let session = fence.serve(&format!("{server}{OVERRIDE}")).await;
    session.ready(&["git"]).await;
    let mut shown = String::new();
    for file in ["pyi", "d.ts", "md", "json"] {
        shown += &session.call("cat", json!({ "path": format!("/git/create_issue.{file}") })).await.text;
    }
    shown += &session.call("search", json!({ "query": "file a defect" })).await.text;
    shown += &session.call("ls", json!({ "path": "/git" })).await.text;
    for word in ["owner", "labels", "gh_issue_create", "acme", "Opens a ticket", "Whose it is"] {
        assert!(!shown.contains(word), "{word}:\n{shown}");
    }
    for text in [
        "def create_issue(*, title: str, repo: str = \"main\")",
        "Files a defect of the product.",
        "Overridden: the operator has changed",
        "\"idempotentHint\": true",
        "\"openWorldHint\": true",
    ] {
        assert!(shown.contains(text), "{text}:\n{shown}");
    }
    let sent: Value = serde_json::from_str(&call(&session, "git.create_issue({title: 'a'})").await).expect("JSON");
    assert_eq!(sent, json!({ "title": "a", "owner": "acme", "repo": "main" }));
    let sent: Value =
        serde_json::from_str(&call(&session, "git.create_issue({title: 'a', repo: 'b'})").await).expect("JSON");
    assert_eq!(sent, json!({ "title": "a", "owner": "acme", "repo": "b" }));
    let count = || fs::read_to_string(fence.work().join("log")).expect("a log").matches("call gh_issue_create").count();
    assert_eq!(count(), 2);
    for (code, says) in [
        ("git.create_issue({title: 'a', owner: 'me'})", "owner"),
        ("git.create_issue({title: 'a', labels: []})", "labels"),
        ("git.create_issue({})", "title"),
        ("forge.callTool('git', 'gh_issue_create', {title: 'a', owner: 'b', repo: 'c'})", "gh_issue_create"),
    ] {
        let code = format!("return await {code}");
        let answer = session.call("execute", json!({ "language": "javascript", "code": code })).await;
        assert!(answer.is_error && answer.text.contains(says), "{code}: {}", answer.text);
    }
    assert_eq!(count(), 2, "nothing else was sent");
    assert!(call(&session, "git.other({})").await.contains("other done"));
    let other = session.call("cat", json!({ "path": "/git/other.md" })).await.text;
    assert!(!other.contains("Overridden"), "only the operator overrides: {other}");
}

/// Changes of a server's tool, or of the override, after the review; each is another tool.
#[tokio::test]
async fn a_pin_covers_the_definition_and_the_override() {
    let Some(fence) = has_python("a server") else { return };
    let Some(server) = served(&fence, &json!([create(labels())])) else { return };
    let config = fence.write("forge.toml", &format!("{server}{OVERRIDE}"));
    fence
        .run([
            Path::new("--config"),
            &config,
            Path::new("stubs"),
            Path::new("generate"),
            Path::new("--out"),
            Path::new("stubs"),
        ])
        .success();
    let pinned = |more: &str| format!("[manifest]\npin = \"stubs\"\n{server}{more}");
    let hidden_part = create(json!({ "type": "array", "description": "another" }));
    for (case, tool, by, is_same) in [
        ("as reviewed", create(labels()), OVERRIDE.to_owned(), true),
        ("a hidden part of the definition", hidden_part, OVERRIDE.to_owned(), false),
        ("a fixed value", create(labels()), OVERRIDE.replace(":-acme", ":-evil"), false),
    ] {
        fence.write("tools.json", &json!([tool]).to_string());
        let session = fence.serve(&pinned(&by)).await;
        session.ready(&["git"]).await;
        let answer = call(&session, "git.create_issue({title: 'a'})").await;
        assert_eq!(answer.contains("acme"), is_same, "{case}: {answer}");
        // At the first call, or once the server has listed its tools.
        assert_eq!(answer.contains("TOOL_DENIED: git.create_issue"), !is_same, "{case}: {answer}");
        session.close().await;
    }
}

/// Changes of the server after which an override does not fit, and the reason.
#[tokio::test]
async fn an_override_that_does_not_fit_holds_the_tool_and_says_why() {
    let Some(fence) = has_python("a server") else { return };
    let plain = create(labels());
    let changed = |pointer: &str, value: Value| {
        let mut tool = plain.clone();
        *tool.pointer_mut(pointer).expect("it is there") = value;
        tool
    };
    let cases = [
        (changed("/inputSchema/properties/labels", json!("nothing")), "labels", true),
        (changed("/inputSchema/properties", json!({ "title": {} })), "it has no argument `labels`", false),
        (changed("/inputSchema/required", json!(["labels"])), "it requires `labels`, which is hidden", false),
        (changed("/inputSchema/properties/owner", json!({ "type": "integer" })), "`fixed.owner` is not a value", false),
        (changed("/inputSchema/properties/repo", json!({ "enum": ["a"] })), "`default.repo` is not a value", false),
        (changed("/inputSchema/type", json!("object")), "", true),
        (
            changed("/outputSchema", json!({ "properties": { "a": {} }, "additionalProperties": false })),
            "its result has no `got`",
            false,
        ),
    ];
    let mut tools: Vec<Value> = Vec::new();
    let mut by = String::new();
    for (number, (tool, ..)) in cases.iter().enumerate() {
        let mut tool = tool.clone();
        tool["name"] = format!("t{number}").into();
        tools.push(tool);
        by +=
            &OVERRIDE.replace("gh_issue_create", &format!("t{number}")).replace("create_issue", &format!("n{number}"));
    }
    let mut any = create(labels());
    any["name"] = "any".into();
    any["inputSchema"]["anyOf"] = json!([{ "required": ["labels"] }, {}]);
    tools.push(any);
    tools.push(json!({ "name": "taken", "inputSchema": {} }));
    tools.push(json!({ "name": "wants", "inputSchema": {} }));
    by += "[servers.git.tools.any]\nhide = [\"labels\"]\n[servers.git.tools.wants]\nname = \"taken\"\n\
           [servers.git.tools.gone]\nname = \"g\"\n";
    let Some(server) = served(&fence, &tools.into()) else { return };
    let session = fence.serve(&format!("{server}{by}")).await;
    session.ready(&["git"]).await;
    for (number, (_, says, is_fit)) in cases.iter().enumerate() {
        let answer = call(&session, &format!("git.n{number}({{title: 'a'}})")).await;
        let held = format!("quarantined: the override of `t{number}` does not fit it: ");
        assert_eq!(answer.contains(&held), !is_fit, "{number}: {answer}");
        assert!(*is_fit || answer.contains(says), "{number}: {answer}");
    }
    for (tool, says) in [("any", "in `anyOf`, which cannot be hidden"), ("wants", "a tool `taken` of its own")] {
        let answer = call(&session, &format!("git.{tool}({{}})")).await;
        assert!(answer.contains(says), "{answer}");
    }
    assert!(call(&session, "git.taken({})").await.contains("taken done"));
    let listing = session.call("cat", json!({ "path": "/git/README.md" })).await.text;
    assert!(listing.contains("the override of `gone` is for no tool"), "{listing}");
    session.close().await;
    let doctor = fence.run(["--config", "forge.toml", "doctor"]);
    assert_eq!(doctor.code, Some(1));
    for line in
        ["tool     git.any: QUARANTINED, not callable: the override of `any`", "note     git: the override of `gone`"]
    {
        assert!(doctor.stdout.contains(line), "{}", doctor.stdout);
    }
}

/// Reloads of the server and of the configuration keep the override in force.
#[tokio::test]
async fn an_override_stays_through_reloads() {
    let Some(fence) = has_python("a server") else { return };
    let Some(server) = served(&fence, &json!([create(labels())])) else { return };
    let session = fence.serve(&format!("{server}{OVERRIDE}")).await;
    session.ready(&["git"]).await;
    fence.write(
        "tools.json",
        &json!([create(json!({ "type": "string" })), { "name": "more", "inputSchema": {} }]).to_string(),
    );
    // `fault` is no argument of the overridden tool: the other one makes the server read its file again.
    let code = "git.create_issue({title: 'a'})";
    assert!(call(&session, code).await.contains("acme"));
    fence.write("forge.toml", &format!("{server}{}", OVERRIDE.replace("[\"labels\"]", "[\"labels\", \"title\"]")));
    let stub = async || session.call("cat", json!({ "path": "/git/create_issue.pyi" })).await.text;
    for _ in 0..200 {
        if stub().await.contains("QUARANTINED") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // It hides what the tool requires: taken at once, since it widens nothing.
    assert!(stub().await.contains("it requires `title`"), "{}", stub().await);
    fence.write("forge.toml", &format!("{server}{}", OVERRIDE.replace(":-acme", ":-other")));
    for _ in 0..40 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(stub().await.contains("it requires `title`"), "another value waits for the operator: {}", stub().await);
    }
}

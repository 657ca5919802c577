//! Suggestions for near misses, in both languages and on the command line.

use serde_json::json;

use crate::client::Fence;
use crate::faulty::python;

/// The mistake in JavaScript and in Starlark, its code, and the suggestion.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "a server", "await ofers.tool({})", "call_tool(\"ofers\", \"tool\")", "SERVER_NOT_FOUND",
        "did you mean `offers`?",
    ),
    (
        "a server's name",
        "await forge.callTool('ofers', 'tool', {})",
        "call_tool(\"ofers\", \"tool\")",
        "SERVER_NOT_FOUND",
        "did you mean `offers`?",
    ),
    (
        "a tool",
        "await forge.callTool('faulty', 'create_isue', {title: 'x'})",
        "call_tool(\"faulty\", \"create_isue\", title=\"x\")",
        "TOOL_NOT_FOUND",
        "did you mean `create_issue`",
    ),
    (
        "a parameter",
        "await faulty.create_issue({title: 'x', stat: 'open'})",
        "faulty.create_issue(title=\"x\", stat=\"open\")",
        "INVALID_ARGS",
        "did you mean `state`",
    ),
    (
        "a value of an enum",
        "await faulty.create_issue({title: 'x', state: 'opened'})",
        "faulty.create_issue(title=\"x\", state=\"opened\")",
        "INVALID_ARGS",
        "did you mean `open`",
    ),
    (
        "a prompt",
        "await forge.prompt('offers', 'a b/d', {})",
        "prompt(\"offers\", \"a b/d\")",
        "INVALID_ARGS",
        "did you mean `a b/c`",
    ),
    (
        "a resource",
        "await forge.readResource('offers', 'x://no-nmae')",
        "read_resource(\"offers\", \"x://no-nmae\")",
        "UPSTREAM_ERROR",
        "did you mean `x://no-name`",
    ),
];

#[tokio::test]
async fn what_is_nearly_right_is_suggested() {
    let fence = Fence::new();
    let (Some(faulty), Some(offers)) = (python("faulty", "faulty.py", &[]), python("offers", "offers.py", &["odd"]))
    else {
        return;
    };
    let session = fence.serve(&format!("{faulty}{offers}")).await;
    session.ready(&["faulty", "offers"]).await;
    for (what, javascript, starlark, code, suggestion) in CASES {
        for (language, script) in [("javascript", javascript), ("starlark", starlark)] {
            let answer = session.call("execute", json!({"language": language, "code": script})).await;
            let undefined = *what == "a server" && language == "javascript";
            let code = if undefined { "SCRIPT_ERROR" } else { code };
            let first = answer.text.lines().next().unwrap_or_default();
            assert!(answer.is_error && first.starts_with(&format!("{code}: ")), "{what}, {language}: {}", answer.text);
            let fix = answer.text.lines().find(|line| line.starts_with("fix: ")).unwrap_or_default();
            assert!(fix.contains(suggestion), "{what}, {language}: {}", answer.text);
        }
    }
    let called = fence.run(["call", "faulty", "create_isue", "{}"]);
    assert!(called.code == Some(1) && called.stderr.contains("did you mean `create_issue`"), "{called:?}");
}

/// Words of a tool's error, true if the tool takes a version, and true if a write is told to read again.
const REFUSED: &[(&str, bool, bool)] = &[
    ("conflict: version is 3, not 2; read it again", true, true),
    ("Version conflict, current version [3] is different than the one provided [2]", false, true),
    ("HTTP 409 Conflict", true, true),
    ("412 Precondition Failed", false, true),
    ("The file has been modified since it was read", false, true),
    ("Operation cannot be fulfilled: the object has been modified; apply your changes to the latest one", false, true),
    ("the given hash does not match", true, true),
    ("Stale ETag", false, true),
    ("HTTP 409 Conflict: a page of this name already exists", true, false),
    ("HTTP 409 Conflict", false, false),
    ("409 Conflict: package.json does not match 3f2a9c", true, true),
    ("no page with id 409", false, false),
    ("release 1409 is not found, request 8412a0", true, false),
    ("deploy failed: it requires Node 18 or newer", true, false),
    ("checksum mismatch of the download", true, false),
    ("no issue has been modified since 2026-01-01", false, false),
    ("the title is too long", true, false),
];

#[tokio::test]
async fn a_write_that_is_refused_for_its_version_is_told_to_read_again() {
    let fence = Fence::new();
    let said = |text: &str| json!([{"isError": true, "content": [{"type": "text", "text": text}]}]);
    let takes = json!({"inputSchema": {"type": "object", "properties": {"if-version": {"type": "integer"}}}});
    let (mut answers, mut more) = (serde_json::Map::new(), serde_json::Map::new());
    for (number, (text, takes_version, _)) in REFUSED.iter().enumerate() {
        for name in [format!("put_{number}"), format!("get_{number}")] {
            answers.insert(name.clone(), said(text));
            more.extend(takes_version.then(|| (name, takes.clone())));
        }
    }
    let files = [("answers.json", answers), ("more.json", more)]
        .map(|(name, content)| fence.write(name, &serde_json::Value::from(content).to_string()));
    let files = files.each_ref().map(|file| file.to_string_lossy());
    let Some(config) = python("pages", "answers.py", &[&files[0], &files[1]]) else { return };
    let session = fence.serve(&config).await;
    session.ready(&["pages"]).await;
    for (number, (text, _, is_told)) in REFUSED.iter().enumerate() {
        for (tool, is_told) in [(format!("put_{number}"), *is_told), (format!("get_{number}"), false)] {
            let answer =
                session.call("execute", json!({"language": "javascript", "code": format!("await pages.{tool}({{}})")}));
            let answer = answer.await.text;
            let fix = "fix: this call stays refused: in one script, read it again right before the write";
            assert_eq!(answer.contains(fix), is_told, "{tool}: {text}: {answer}");
        }
    }
    session.close().await;
}

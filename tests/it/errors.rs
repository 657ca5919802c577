//! Suggestions for near misses, in both languages and on the command line.

use serde_json::json;

use crate::client::Fence;
use crate::faulty::python;

/// The mistake in JavaScript and in Starlark, its code, and the suggestion.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "a server",
        "await ofers.tool({})",
        "call_tool(\"ofers\", \"tool\")",
        "SERVER_NOT_FOUND",
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

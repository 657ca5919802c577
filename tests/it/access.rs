//! `allow` and `deny`: hidden tools are hidden everywhere, and a call to one reads like one to an unknown tool.

use serde_json::json;

use super::client::Fence;
use super::faulty::samples;

const TOOLS: [&str; 6] = ["find_users", "get_manager", "get_user", "list_on_call", "list_teams", "list_users"];

/// Keys of the server, and the remaining tools.
const CASES: &[(&str, &[&str])] = &[
    ("", &TOOLS),
    ("allow = []", &[]),
    ("allow = [\"list_*\"]", &["list_on_call", "list_teams", "list_users"]),
    ("allow = [\"*_users\", \"get_user\"]", &["find_users", "get_user", "list_users"]),
    ("allow = [\"nothing_like_it\"]", &[]),
    ("deny = [\"*\"]", &[]),
    ("deny = [\"list_*\"]", &["find_users", "get_manager", "get_user"]),
    ("allow = [\"*\"]\ndeny = [\"{list,find}_*\"]", &["get_manager", "get_user"]),
    ("allow = [\"get_user\"]\ndeny = [\"get_user\"]", &[]),
    ("allow = [\"LIST_TEAMS\"]", &[]),
];

fn config(keys: &str) -> String {
    samples().replace("[servers.people]\n", &format!("[servers.people]\n{keys}\n"))
}

#[test]
fn what_is_left_is_what_the_lists_say() {
    for (keys, left) in CASES {
        let fence = Fence::new();
        fence.write("forge.toml", &config(keys));
        let listing = fence.run(["ls", "/people", "--depth", "3"]).success().stdout;
        let found = fence.run(["search", "user manager team call", "--limit", "20"]).success().stdout;
        let every = fence.run(["cat", "/people/__init__.pyi"]).success().stdout;
        for tool in TOOLS {
            let is_left = left.contains(&tool);
            assert_eq!(listing.contains(tool), is_left, "ls with {keys:?}: {listing}");
            assert_eq!(every.contains(tool), is_left, "cat with {keys:?}: {every}");
            assert_eq!(found.contains(&format!("/people/{tool}.pyi")), is_left, "search with {keys:?}: {found}");
        }
    }
}

#[tokio::test]
async fn a_hidden_tool_reads_like_one_that_never_was() {
    let fence = Fence::new();
    let session = fence.serve(&config("deny = [\"get_manager\"]")).await;
    session.ready(&["people"]).await;
    for (language, call) in [
        ("starlark", "call_tool('people', 'TOOL', team='x')"),
        ("starlark", "people.TOOL(team='x')"),
        ("javascript", "return await people.TOOL({team: 'x'})"),
        ("javascript", "return await forge.callTool('people', 'TOOL', {})"),
        ("javascript", "return await manifest.tool('people', 'TOOL')"),
    ] {
        let hidden = session.execute_err(language, &call.replace("TOOL", "get_manager")).await;
        let never = session.execute_err(language, &call.replace("TOOL", "get_manageb")).await;
        // Suggestions name existing tools, and depend on the name.
        let told = |text: String| text.split("\nfix:").next().unwrap_or_default().to_owned();
        assert!(!never.contains("get_manager"), "{never}");
        assert_eq!(
            told(hidden.replace("get_manager", "X")),
            told(never.replace("get_manageb", "X")),
            "{language}: {call}"
        );
    }
    for path in ["/people/get_manager.pyi", "/people/get_manager.json", "/people/get_manager.md", "/get_manager"] {
        let answer = session.call("cat", json!({"path": path})).await;
        assert!(answer.is_error && !answer.text.contains("manager of"), "{path}: {}", answer.text);
    }
    let hits = session.call("search", json!({"query": "manager of a user", "limit": 20})).await.text;
    assert!(hits.contains("get_user") && !hits.contains("get_manager"), "{hits}");
    session.close().await;
}

#[test]
fn an_entry_that_matches_nothing_is_told() {
    let fence = Fence::new();
    fence.write("forge.toml", &config("deny = [\"get_manage\"]"));
    let said = fence.run(["--log", "warn", "ls", "/people"]).success().stderr;
    assert!(said.contains("get_manage") && said.contains("matches no tool"), "{said}");
}

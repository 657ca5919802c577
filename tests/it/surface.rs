//! Fixed cost of every client on every turn, and the instructions.

use forgefs::server::mcp::{definitions, render_instructions};
use serde_json::json;

use crate::client::{Era, Fence};
use crate::faulty::samples;

/// Most tokens (o200k) of definitions and instructions together.
const MAX_TOKENS: usize = 618;

#[test]
fn the_surface_stays_under_its_token_budget() {
    let names: Vec<String> =
        ["github", "playwright", "sentry", "cloudflare", "notion", "linear"].map(str::to_owned).into();
    let list = serde_json::to_string(&json!({ "tools": definitions(&names, true) })).expect("definitions are JSON");
    let tokens = forgefs_measure::count(&list) + forgefs_measure::count(&render_instructions(&names));
    assert!(tokens <= MAX_TOKENS, "{tokens} tokens:\n{list}\n{}", render_instructions(&names));
}

#[test]
fn the_files_of_the_script_api_stay_under_their_budget() {
    for (name, text, most) in [("/forge.d.ts", stubgen::forge_dts(), 800), ("/forge.pyi", stubgen::forge_pyi(), 900)] {
        let tokens = forgefs_measure::count(&text);
        assert!(tokens <= most, "{name} has {tokens} tokens:\n{text}");
    }
}

#[test]
fn the_definitions_are_as_reviewed() {
    let names = ["github".to_owned(), "time".to_owned()];
    let list = serde_json::to_string_pretty(&definitions(&names, true)).expect("definitions are JSON");
    insta::assert_snapshot!("definitions", list);
    insta::assert_snapshot!("instructions", render_instructions(&names));
}

#[tokio::test]
async fn limits_that_are_lower_than_usual_are_told() {
    let limits = "[sandbox.limits]\ncalls = 20\nwall = \"10s\"\nheap = \"16MiB\"\n";
    let told = "Limits of a script here: 20 calls, 10s, 16 MiB of memory.";
    for (config, is_told) in [(format!("{}{limits}", samples()), true), (samples(), false)] {
        let fence = Fence::new();
        let session = fence.serve(&config).await;
        let execute = session.tools().await.into_iter().find(|tool| tool.name == "execute").expect("execute");
        let description = execute.description.unwrap_or_default();
        assert_eq!(description.ends_with(told), is_told, "{description}");
        for path in ["/forge.d.ts", "/forge.pyi"] {
            let text = session.call("cat", json!({ "path": path })).await.text;
            assert_eq!(text.lines().nth(1).is_some_and(|line| line.ends_with(told)), is_told, "{text}");
        }
        session.close().await;
    }
}

#[tokio::test]
async fn initialize_is_answered_before_the_servers_are_up() {
    let fence = Fence::new();
    // A server that never answers, and would block clients that wait for it.
    let config = "[servers.silent]\ncommand = \"sleep\"\nargs = [\"600\"]\n";
    for era in [Era::Legacy, Era::Modern] {
        let session = fence.serve_in(era, config).await;
        let names: Vec<String> = session.tools().await.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["ls", "cat", "search", "execute"], "{era:?}");
        let listing = session.call("ls", json!({})).await;
        assert!(listing.text.contains("silent/  0 tools, connecting"), "{}", listing.text);
        session.close().await;
    }
}

#[tokio::test]
async fn paths_are_forgiving_and_hits_lead_to_stubs() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    let stub = session.call("cat", json!({"path": "/tickets/get_ticket.pyi"})).await;
    assert!(stub.text.contains("def get_ticket(") && stub.text.contains("id: int"), "{}", stub.text);
    for path in [
        "tickets/get_ticket.pyi", "/tickets/get_ticket", "/Tickets/GET_TICKET.pyi", "forge:///tickets/get_ticket.pyi",
        "/tickets/./x/../get_ticket",
    ] {
        assert_eq!(session.call("cat", json!({ "path": path })).await, stub, "{path}");
    }
    for short in ["/tickets/x", "/tickets/é", "/tickets/get", "/tickets/.md"] {
        let refused = session.call("cat", json!({ "path": short })).await.text;
        assert!(refused.contains(&format!("there is no {short}")), "{refused}");
    }
    let several = session.call("cat", json!({"path": ["/tickets/get_ticket.d.ts", "/people/*_user.pyi"]})).await.text;
    assert!(several.starts_with("// tickets.get_ticket ") && several.contains("\n# people.get_user "), "{several}");
    let docs = session.call("cat", json!({"path": ["/tickets/get_ticket.json", "/people/get_user.md"]})).await.text;
    assert!(docs.starts_with("# /tickets/get_ticket.json\n") && docs.contains("\n# /people/get_user.md\n"), "{docs}");
    let hits = session.call("search", json!({"query": ["who is on call", "book a meeting"]})).await.text;
    for line in hits.lines().filter(|line| !line.starts_with('#')) {
        let path = line.split_whitespace().next().expect("a line has words");
        let read = session.call("cat", json!({ "path": path })).await;
        assert!(!read.is_error && read.text.contains("def "), "{path}: {}", read.text);
    }
    assert!(hits.starts_with("#1\n/people/list_on_call.pyi") && hits.contains("\n#2\n/calendar/"), "{hits}");
    let deep = session.call("ls", json!({"depth": 2})).await.text;
    assert!(deep.contains("  get_ticket.pyi"), "{deep}");
}

#[tokio::test]
async fn the_script_api_has_everything_that_its_stubs_name() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["tickets"]).await;
    let dts = session.call("cat", json!({"path": "/forge.d.ts"})).await.text;
    let mut names = Vec::new();
    let mut objects: Vec<String> = Vec::new();
    for line in dts.lines() {
        let word: String = line.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect();
        let rest = &line.trim_start()[word.len()..];
        if let Some(object) = line.strip_prefix("declare const ").and_then(|rest| rest.strip_suffix(": {")) {
            objects = vec![object.to_owned()];
        } else if rest == ": {" && objects.len() == 1 {
            objects.push(word);
        } else if line.trim_start().starts_with("};") {
            objects.pop();
        } else if !objects.is_empty() && line.starts_with("  ") && !word.is_empty() && rest.starts_with(['(', '<']) {
            names.push(format!("{}.{word}", objects.join(".")));
        }
    }
    assert!(names.len() > 12 && names.contains(&"forge.stash.put".to_owned()), "{names:?}\n{dts}");
    let missing = format!(
        "return [{}].filter((name) => typeof name[1] !== 'function').map((name) => name[0])",
        names.iter().map(|name| format!("['{name}', {name}]")).collect::<Vec<_>>().join(", ")
    );
    assert_eq!(session.execute("javascript", &missing).await, json!([]));

    let pyi = session.call("cat", json!({"path": "/forge.pyi"})).await.text;
    let functions: Vec<&str> = pyi.lines().filter_map(|l| l.strip_prefix("def ")?.split('(').next()).collect();
    assert!(functions.len() > 6, "{pyi}");
    let script = format!(
        "[type(f) for f in [{}, stash.put, stash.get, stash.delete, stash.keys, json.encode, json.decode]]",
        functions.join(", ")
    );
    let types = session.execute("starlark", &script).await;
    assert!(
        types.as_array().is_some_and(|types| types.iter().all(|ty| *ty == "function" || *ty == "native_function")),
        "{types}"
    );
}

#[tokio::test]
async fn search_forgives_and_stays_in_its_folder() {
    let fence = Fence::new();
    let session = fence.serve(&samples()).await;
    session.ready(&["calendar", "people", "tickets"]).await;
    let search = async |arguments| session.call("search", arguments).await.text;
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    // The wire name, a part of it, a typo, a synonym.
    for query in ["get_ticket", "get_tick", "getTicket", "tiket by id", "fetch one issue by its id"] {
        let hits = search(json!({ "query": query })).await;
        assert_eq!(first(&hits), "/tickets/get_ticket.pyi", "{query}: {hits}");
    }
    let inside = search(json!({"query": "get", "path": "/people"})).await;
    assert!(!inside.is_empty() && inside.lines().all(|line| line.starts_with("/people/")), "{inside}");
    let limited = search(json!({"query": "list", "limit": 2})).await;
    assert_eq!(limited.lines().count(), 2, "{limited}");
    let nothing = search(json!({"query": "zzqqxx peopel"})).await;
    assert!(nothing.contains("/people/"), "{nothing}");
    let none = search(json!({"query": "xqzw"})).await;
    assert!(none.starts_with("no good match for `xqzw`") && none.contains("look in /calendar/"), "{none}");
    let empty = session.call("search", json!({"query": "  "})).await;
    assert!(empty.is_error && empty.text.contains("create issue"), "{}", empty.text);
    // The same query gives the same bytes.
    let ask = json!({"query": ["open tickets", "who is on call"]});
    assert_eq!(search(ask.clone()).await, search(ask).await);
    session.close().await;
}

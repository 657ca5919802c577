//! What every client pays for on every turn, and what it is told.

use forgefs::server::{definitions, render_instructions};
use serde_json::json;

use crate::client::{Era, Fence};
use crate::faulty::samples;

/// Most tokens (o200k) that the definitions and the instructions may have together.
const MAX_TOKENS: usize = 700;

#[test]
fn the_surface_stays_under_its_token_budget() {
    let names: Vec<String> =
        ["github", "playwright", "sentry", "cloudflare", "notion", "linear"].map(str::to_owned).into();
    let list = serde_json::to_string(&json!({ "tools": definitions() })).expect("definitions are JSON");
    let tokens = bpe_openai::o200k_base().count(&list) + bpe_openai::o200k_base().count(&render_instructions(&names));
    assert!(tokens <= MAX_TOKENS, "{tokens} tokens:\n{list}\n{}", render_instructions(&names));
}

#[test]
fn the_definitions_are_as_reviewed() {
    insta::assert_snapshot!("definitions", serde_json::to_string_pretty(&definitions()).expect("definitions are JSON"));
    insta::assert_snapshot!("instructions", render_instructions(&["github".to_owned(), "time".to_owned()]));
}

#[tokio::test]
async fn initialize_is_answered_before_the_servers_are_up() {
    let fence = Fence::new();
    // A server that never answers, and would hold up whoever waits for it.
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
        "tickets/get_ticket.pyi",
        "/tickets/get_ticket",
        "/Tickets/GET_TICKET.pyi",
        "forge:///tickets/get_ticket.pyi",
        "/tickets/./x/../get_ticket",
    ] {
        assert_eq!(session.call("cat", json!({ "path": path })).await, stub, "{path}");
    }
    let several = session.call("cat", json!({"path": ["/tickets/get_ticket.d.ts", "/people/*_user.pyi"]})).await.text;
    assert!(several.contains("# /tickets/get_ticket.d.ts") && several.contains("# /people/get_user.pyi"), "{several}");
    let hits = session.call("search", json!({"query": ["who is on call", "book a meeting"]})).await.text;
    assert!(hits.contains("\n/people/list_on_call.pyi") || hits.contains("/people/list_on_call.pyi"), "{hits}");
    for line in hits.lines().filter(|line| !line.starts_with('#')) {
        let path = line.split_whitespace().next().expect("a line has words");
        let read = session.call("cat", json!({ "path": path })).await;
        assert!(!read.is_error && read.text.contains("def "), "{path}: {}", read.text);
    }
    let deep = session.call("ls", json!({"depth": 2})).await.text;
    assert!(deep.contains("  get_ticket.pyi"), "{deep}");
}

//! Nothing waits for a server that it does not need: scripts, lists of tools, and tools beside lists that never come.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Fence;
use crate::faulty::python;

/// Never ready within a test.
fn hanging(name: &str) -> Option<String> {
    Some(format!("{}connect_timeout = \"600s\"\n", python(name, "as_told.py", &["hangs"])?))
}

#[test]
fn a_script_waits_for_the_servers_that_it_names_and_for_all_if_it_computes_names() {
    let (Some(hangs), Some(fast)) = (hanging("hangs"), python("fast", "as_told.py", &["stdio"])) else { return };
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{hangs}{fast}"));
    let raw = json!({ "raw": "{\"id\":$ID,\"result\":\"went\"}" });
    for (file, code, waits) in [
        ("path.js", format!("return await fast.act({raw})"), false),
        ("tool.js", format!("return await forge.callTool('fast', 'act', {raw})"), false),
        ("path.star", format!("fast.act(raw = {})", raw["raw"]), false),
        ("none.js", "return 'went'".to_owned(), false),
        (
            "computed.js",
            format!("const name = ['fa', 'st'].join(''); return await forge.callTool(name, 'act', {raw})"),
            true,
        ),
        ("listing.js", "await forge.ls('/'); return 'went'".to_owned(), true),
    ] {
        fence.write(file, &code);
        let ran = fence.run(["run", file]).success();
        assert_eq!(ran.stdout.trim(), "\"went\"", "{file}: {ran:?}");
        assert_eq!(ran.stderr.contains("still starting after"), waits, "{file}: {ran:?}");
    }
    let called = fence.run(["call", "fast", "act", &raw.to_string()]).success();
    assert!(called.stdout.contains("went") && !called.stderr.contains("still starting"), "{called:?}");
}

#[tokio::test]
async fn tools_are_listed_while_a_server_hangs() {
    let (Some(hangs), Some(fast)) = (hanging("hangs"), python("fast", "as_told.py", &["stdio"])) else { return };
    for (expose, four, own) in [("code", true, false), ("direct", false, true), ("auto", true, true)] {
        let fence = Fence::new();
        let profile = format!("[profiles.default]\nexpose = {expose:?}\n");
        let session = fence.serve(&format!("{profile}{hangs}{fast}")).await;
        // At once: as much as is known, and in no form too little to go on.
        let first = session.tools().await;
        let has = |tools: &[rmcp::model::Tool], name: &str| tools.iter().any(|tool| tool.name == name);
        assert_eq!(has(&first, "execute"), four, "{expose}: {first:?}");
        assert_eq!(has(&first, "search"), four, "{expose}: {first:?}");
        let started = Instant::now();
        while own && !has(&session.tools().await, "fast__act") {
            assert!(started.elapsed() < Duration::from_secs(150), "{expose}\n{}", session.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn tools_are_usable_before_lists_that_never_come() {
    let Some(config) = python("silent", "as_told.py", &["silent"]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    let (started, mut was_partial) = (Instant::now(), false);
    loop {
        let tools = session.call("ls", json!({ "path": "/silent" })).await.text;
        let listing = session.call("cat", json!({ "path": "/silent/README.md" })).await.text;
        was_partial |= tools.contains("act.pyi") && tools.contains("look.pyi") && listing.contains("not listed yet");
        if listing.contains("no answer to `resources/list`") {
            break assert!(was_partial, "{listing}");
        }
        assert!(started.elapsed() < Duration::from_secs(150), "{listing}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let code = format!("return await silent.act({})", json!({ "raw": "{\"id\":$ID,\"result\":\"went\"}" }));
    assert_eq!(session.execute("javascript", &code).await, "went");
}

#[tokio::test]
async fn lists_that_come_late_are_there_then_and_are_what_was_listed_first() {
    let Some(config) = python("late", "as_told.py", &["late"]) else { return };
    for more in ["", "[manifest]\npin_first_use = true\n"] {
        let fence = Fence::new();
        let session = fence.serve(&format!("{more}{config}")).await;
        session.ready(&["late"]).await;
        let before = session.call("ls", json!({ "path": "/late" })).await.text;
        assert!(!before.contains("resources/") || before.contains("not listed yet"), "{before}");
        let code = format!("return await late.act({})", json!({ "raw": "{\"id\":$ID,\"result\":\"went\"}" }));
        assert_eq!(session.execute("javascript", &code).await, "went");
        let started = Instant::now();
        loop {
            let listing = session.call("ls", json!({ "path": "/late/resources" })).await;
            if !listing.is_error && listing.text.contains("late") && !listing.text.contains("not listed yet") {
                assert!(!listing.text.contains("held back"), "{}", listing.text);
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(100), "{}\n{}", listing.text, session.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

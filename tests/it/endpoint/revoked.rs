//! A token that is taken back ends at once, with everything that it opened.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{CI, CLIENTS, LAPTOP, Served, call, initialize};
use crate::client::Fence;
use crate::faulty::{faulty, log, samples};

/// A message of 2026-07-28.
pub(super) fn modern(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    message
}

/// Status of an `initialize` with a token.
async fn status(served: &Served, token: Option<&str>) -> StatusCode {
    let request = served.message(None, &initialize("2025-11-25"));
    token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth).send().await.expect("an answer").status()
}

async fn until(served: &Served, token: Option<&str>, wanted: StatusCode) {
    let started = Instant::now();
    while status(served, token).await != wanted {
        assert!(started.elapsed() < Duration::from_secs(20), "{token:?} is not {wanted}: {}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_removed_client_is_refused_whatever_else_waits_and_the_last_one_too() {
    let served = Served::start(Fence::new(), &format!("{}{CLIENTS}", samples())).await;
    let config = served.fence.work().join("forge.toml");
    let clients = |args: &[&str]| {
        let file = config.to_str().expect("a path");
        served.fence.run([&["--config", file, "clients"], args].concat()).success()
    };
    // It waits for `forgefs reload`.
    clients(&["add", "new"]);
    clients(&["remove", "laptop"]);
    assert_eq!(status(&served, LAPTOP).await, StatusCode::UNAUTHORIZED, "in the moment the command returns");
    assert_eq!(status(&served, CI).await, StatusCode::OK);
    clients(&["remove", "new"]);
    let removed = clients(&["remove", "ci"]);
    assert!(removed.stderr.contains("it was the last"), "{}", removed.stderr);
    assert_eq!(status(&served, CI).await, StatusCode::UNAUTHORIZED, "the last one too");
    assert_eq!(status(&served, None).await, StatusCode::UNAUTHORIZED, "not without a token either");
    let file = config.to_str().expect("a path");
    served.fence.run(["--config", file, "reload"]).success();
    until(&served, None, StatusCode::OK).await;
}

#[tokio::test]
async fn runs_and_streams_of_a_removed_client_end() {
    let fence = Fence::new();
    let (logged, setting) = log(&fence);
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(fence, &format!("{config}{setting}{CLIENTS}")).await;
    let slow = json!({"language": "javascript", "code": "await faulty.slow({ms: 60000}); return 'late'"});
    let token = LAPTOP.expect("a token");
    let id = served.session(LAPTOP).await;
    let legacy = served.message(Some(&id), &call(5, "execute", slow.clone())).bearer_auth(token);
    let listen = json!({"jsonrpc": "2.0", "id": 8, "method": "subscriptions/listen",
        "params": {"notifications": {"resourcesListChanged": true}}});
    let modern_headers = |request: reqwest::RequestBuilder, method: &str| {
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        request.bearer_auth(token)
    };
    let run = modern_headers(served.message(None, &modern(call(6, "execute", slow))), "tools/call");
    let run = run.header("mcp-name", "execute");
    let listen = modern_headers(served.message(None, &modern(listen)), "subscriptions/listen");
    let open: Vec<_> = [legacy, run, listen]
        .into_iter()
        .map(|request| tokio::spawn(async move { request.send().await?.text().await }))
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(open.iter().all(|open| !open.is_finished()), "{}", served.log());
    let config = served.fence.work().join("forge.toml");
    served.fence.run(["--config", config.to_str().expect("a path"), "clients", "remove", "laptop"]).success();
    for (number, open) in open.into_iter().enumerate() {
        let ended = tokio::time::timeout(Duration::from_secs(15), open).await;
        let text = ended.unwrap_or_else(|_| panic!("{number} goes on: {}", served.log())).expect("no panic");
        assert!(!text.unwrap_or_default().contains("late"), "{number}");
    }
    let started = Instant::now();
    while logged.count("cancelled") < 2 {
        assert!(started.elapsed() < Duration::from_secs(20), "its calls go on: {}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

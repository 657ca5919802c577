//! Clients with profiles of their own at one endpoint.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use rmcp::ClientHandler;
use rmcp::model::ReadResourceRequestParams;
use rmcp::service::{NotificationContext, RoleClient};
use serde_json::json;

use super::{CI, LAPTOP, Served, answer, run};
use crate::client::{Era, Fence};
use crate::faulty::python;

/// Counts notices of changed lists.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<usize>>);

impl Ear {
    fn heard(&self) -> usize {
        *self.0.lock().expect("not poisoned")
    }
}

impl ClientHandler for Ear {
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        *self.0.lock().expect("not poisoned") += 1;
    }
}

/// `laptop` has everything, and `ci` not the server whose list changes.
async fn served() -> Option<Served> {
    let fence = Fence::new();
    let tools =
        |names: &[&str]| json!(names.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect::<Vec<_>>());
    let file = fence.write("tools.json", &tools(&["one"]).to_string());
    let log = fence.work().join("shifting.log");
    let words = [file.to_str().expect("a path"), log.to_str().expect("a path"), "--tells"];
    let shifting = python("shifting", "shifting.py", &words)?;
    let open = fence.write("open.json", &tools(&["first", "second"]).to_string());
    let words = [open.to_str().expect("a path"), log.to_str().expect("a path")];
    let plain = python("plain", "shifting.py", &words)?;
    let config = format!(
        "{shifting}share = \"all\"\n{plain}share = \"all\"\n[http]\nmetrics = true\n[profiles.narrow]\nservers = [\"plain\"]\ndeny = [\"plain.second\"]\n\
         [clients.laptop]\ntoken = \"{}\"\n[clients.ci]\ntoken = \"{}\"\nprofile = \"narrow\"\n",
        LAPTOP.unwrap_or_default(),
        CI.unwrap_or_default(),
    );
    let served = Served::start(fence, &config).await;
    Some(served)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_nothing_of_what_its_profile_hides() {
    let Some(served) = served().await else { return };
    for era in [Era::Legacy, Era::Modern] {
        let (all, narrow) = (served.client(era, LAPTOP).await, served.client(era, CI).await);
        for (client, servers) in [(&all, json!(["plain", "shifting"])), (&narrow, json!(["plain"]))] {
            let started = Instant::now();
            while run(client, "return (await manifest.servers()).map(({ name }) => name)").await != servers {
                assert!(started.elapsed() < Duration::from_secs(60), "{servers}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        // By names that are put together, since a check before the run refuses others.
        for (server, tool, of_all, of_narrow) in [
            ("shifting", "one", "one done", "SERVER_NOT_FOUND"),
            ("plain", "first", "first done", "first done"),
            ("plain", "second", "second done", "TOOL_NOT_FOUND"),
        ] {
            let call = format!("forge.callTool(['{server}'].join(), ['{tool}'].join(), {{}})");
            let code = format!("try {{ return await {call} }} catch (error) {{ return error.code }}");
            assert_eq!(
                (run(&all, &code).await, run(&narrow, &code).await),
                (json!(of_all), json!(of_narrow)),
                "{code}"
            );
        }
        let uri = "forge:///shifting/one.pyi";
        assert!(all.read_resource(ReadResourceRequestParams::new(uri)).await.is_ok());
        let refused = narrow.read_resource(ReadResourceRequestParams::new(uri)).await.expect_err("hidden").to_string();
        let other = narrow.read_resource(ReadResourceRequestParams::new(uri.replace("shifting", "nowhere"))).await;
        assert_eq!(refused.replace("shifting", "nowhere"), other.expect_err("not there").to_string());
    }
    let (hears, deaf) = (Ear::default(), Ear::default());
    let one = served.client_with(hears.clone(), Era::Legacy, LAPTOP).await;
    let other = served.client_with(deaf.clone(), Era::Legacy, CI).await;
    run(&other, "return 1").await;
    let more = json!([{"name": "one", "inputSchema": {}}, {"name": "two", "inputSchema": {}}]);
    served.fence.write("tools.json", &more.to_string());
    run(&one, "return await shifting.one({ fault: 'reload' })").await;
    let started = Instant::now();
    while hears.heard() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing was announced: {}", served.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The same change of the catalog is announced to all within a quarter of a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(deaf.heard(), 0);
    for (token, status) in [(LAPTOP, StatusCode::OK), (CI, StatusCode::FORBIDDEN)] {
        let request = served.raw(Method::GET, "/metrics").bearer_auth(token.unwrap_or_default());
        let told = request.send().await.expect("an answer");
        assert_eq!(told.status(), status);
        let text = told.text().await.expect("a text");
        if status == StatusCode::OK {
            assert!(text.contains("forgefs_client_calls_total{client=\"ci\",profile=\"narrow\"}"), "{text}");
        }
    }
}

/// Runs of a client are its own; a profile that it gets takes effect in its next request.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_takes_effect_in_open_sessions() {
    let Some(served) = served().await else { return };
    let client = served.client(Era::Legacy, LAPTOP).await;
    assert_eq!(run(&client, "return await shifting.one({})").await, json!("one done"));
    let file = served.fence.work().join("forge.toml");
    let config = std::fs::read_to_string(&file).expect("it is there");
    let narrower = config.replace("[clients.ci]", "profile = \"narrow\"\n[clients.ci]");
    std::fs::write(&file, narrower).expect("written");
    let started = Instant::now();
    while run(&client, "return (await manifest.servers()).length").await != json!(1) {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(run(&client, "return await plain.first({})").await, json!("first done"));
    // The way back widens, and waits for the operator: the notice names nothing that is hidden.
    std::fs::write(&file, config.replace("[profiles.narrow]", "[profiles.narrow]\nscripts = []")).expect("written");
    let started = Instant::now();
    loop {
        let listing = answer(&client, "ls", json!({})).await;
        assert!(!listing.contains("shifting"), "{listing}");
        if listing.contains("waits for the operator") {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{listing}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The form of tools is part of the address.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_asks_for_a_form_behind_the_address() {
    let fence = Fence::new();
    let file = fence.write("tools.json", &json!([{"name": "one", "inputSchema": {}}]).to_string());
    let log = fence.work().join("shifting.log");
    let words = [file.to_str().expect("a path"), log.to_str().expect("a path")];
    let Some(config) = python("plain", "shifting.py", &words) else { return };
    let served =
        Served::start(fence, &format!("{config}[profiles.default]\nexpose = \"auto\"\nauto_tokens = 1\n")).await;
    let ask = async |query: &str, body: &serde_json::Value| {
        let request = served.raw(Method::POST, &format!("/mcp{query}")).body(body.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        request
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", body["method"].as_str().unwrap_or_default())
            .send()
            .await
            .expect("an answer")
    };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    for (query, status, has, lacks) in [
        ("", 200, "\"execute\"", "plain__one"),
        ("?expose=code", 200, "\"execute\"", "plain__one"),
        ("?expose=direct", 200, "plain__one", "\"execute\""),
        ("?expose=direct&expose=direct", 200, "plain__one", "\"execute\""),
        ("?expose=direct&expose=code", 400, "is not within what the profile allows", "plain__one"),
        ("?expose=hybrid", 400, "is not within what the profile allows", "plain__one"),
        ("?expose=all", 400, "is no form: code, direct, hybrid, auto", "plain__one"),
    ] {
        let answer = ask(query, &list).await;
        let seen = answer.status().as_u16();
        let text = answer.text().await.expect("a text");
        assert!(seen == status && text.contains(has) && !text.contains(lacks), "{query}: {seen} {text}");
    }
}

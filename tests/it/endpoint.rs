//! `forgefs serve --http`: what it serves, to whom, and what stays apart.

mod background;
mod browser;
mod callers;
mod enterprise;
mod hostile;
mod issuer;
mod late;
mod load;
mod logins;
mod oauth;
mod official;
mod profiles;
mod replicas;
mod revoked;
mod shared;
mod stored;
mod tls;
mod waiting;

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};

use crate::client::{Era, Fence, value_of};
use crate::faulty::{all_end, faulty, log, samples};
use crate::http::free_port;

/// A gateway on HTTP. Dropping it kills it.
pub(super) struct Served {
    pub(super) fence: Fence,
    child: Child,
    port: u16,
    scheme: &'static str,
}

impl Served {
    /// Starts it on loopback with this `forge.toml`, in which `{port}` is its port, and waits until it is ready.
    pub(super) async fn start(fence: Fence, config: &str) -> Self {
        let port = free_port();
        fence.write("forge.toml", &config.replace("{port}", &port.to_string()));
        let child = Self::spawned(&fence, port);
        let scheme = if config.contains("tls_cert") { "https" } else { "http" };
        let served = Self { fence, child, port, scheme };
        served.ready().await;
        served
    }

    fn spawned(fence: &Fence, port: u16) -> Child {
        let (config, address) = (fence.work().join("forge.toml"), format!("127.0.0.1:{port}"));
        let log = std::fs::File::create(fence.work().join("http.log")).expect("a log");
        let mut command = fence.forgefs(["--config", config.to_str().expect("a path"), "serve", "--http", &address]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("forgefs starts")
    }

    async fn ready(&self) {
        let started = Instant::now();
        loop {
            let ready = self.raw(Method::GET, "/readyz").send().await;
            if ready.is_ok_and(|ready| ready.status() == StatusCode::OK) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(90), "it is not ready: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills it like `kill -9`, and starts it anew.
    async fn restart(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.child = Self::spawned(&self.fence, self.port);
        self.ready().await;
    }

    pub(super) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}/mcp", self.scheme, self.port)
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.fence.work().join("http.log")).unwrap_or_default()
    }

    /// A request at a path.
    fn raw(&self, method: Method, path: &str) -> RequestBuilder {
        http().request(method, format!("{}://127.0.0.1:{}{path}", self.scheme, self.port))
    }

    /// A message of the older revisions, in a session if there is one.
    fn message(&self, session: Option<&str>, message: &Value) -> RequestBuilder {
        let request = self.raw(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").body(message.to_string());
        session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id))
    }

    /// Opens a session, and returns its id.
    async fn session(&self, token: Option<&str>) -> String {
        let request =
            token.into_iter().fold(self.message(None, &initialize("2025-11-25")), RequestBuilder::bearer_auth);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{answer:?}");
        let id = answer.headers()["mcp-session-id"].to_str().expect("a text").to_owned();
        answer.bytes().await.expect("a body");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let request = token.into_iter().fold(self.message(Some(&id), &initialized), RequestBuilder::bearer_auth);
        assert_eq!(request.send().await.expect("an answer").status(), StatusCode::ACCEPTED);
        id
    }

    /// A client of rmcp that answers no questions.
    pub(super) async fn client(&self, era: Era, token: Option<&str>) -> RunningService<RoleClient, ()> {
        self.client_with((), era, token).await
    }

    /// A client of rmcp.
    async fn client_with<H: ClientHandler>(
        &self,
        handler: H,
        era: Era,
        token: Option<&str>,
    ) -> RunningService<RoleClient, H> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url());
        config.auth_header = token.map(str::to_owned);
        let transport = StreamableHttpClientTransport::with_client(http(), config);
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        };
        let connecting = handler.serve_with_lifecycle(transport, lifecycle);
        let connected = tokio::time::timeout(Duration::from_secs(60), connecting).await.expect("an answer in time");
        connected.unwrap_or_else(|error| panic!("{era:?}: {error}\n{}", self.log()))
    }

    /// Asks it to end.
    fn terminate(&self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("an id")), Signal::SIGTERM).expect("it runs");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of HTTP that takes any certificate.
fn http() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().danger_accept_invalid_certs(true).no_proxy().build().expect("a client")
}

fn initialize(revision: &str) -> Value {
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn call(id: u32, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// Answer of a tool, which must not fail.
async fn answer<H: ClientHandler>(
    client: &RunningService<RoleClient, H>,
    tool: &'static str,
    arguments: Value,
) -> String {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
    let result = result.unwrap_or_else(|error| panic!("{tool}: {error}"));
    let text = result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.clone());
    let text = text.collect::<Vec<_>>().join("\n");
    assert!(!result.is_error.unwrap_or(false), "{tool}: {text}");
    text
}

async fn run<H: ClientHandler>(client: &RunningService<RoleClient, H>, code: &str) -> Value {
    value_of(&answer(client, "execute", json!({"language": "javascript", "code": code})).await)
}

#[tokio::test]
async fn both_eras_find_call_and_keep_what_they_stash() {
    let served = Served::start(Fence::new(), &samples()).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = served.client(era, None).await;
        assert_eq!(client.list_all_tools().await.expect("tools").len(), 4, "{era:?}");
        assert!(answer(&client, "ls", json!({})).await.contains("people/"), "{era:?}");
        let found = answer(&client, "search", json!({"query": "list the teams"})).await;
        assert!(found.contains("list_teams"), "{era:?}: {found}");
        let teams = run(&client, "return (await people.list_teams()).teams.length").await;
        assert!(teams.as_u64().is_some_and(|teams| teams > 0), "{era:?}: {teams}");
        run(&client, "await forge.stash.set('mine', {era: 1}); return 1").await;
        assert_eq!(run(&client, "return await forge.stash.get('mine')").await, json!({"era": 1}), "{era:?}");
        let large =
            answer(&client, "execute", json!({"language": "javascript", "code": "return 'x '.repeat(50000)"})).await;
        assert!(large.contains("/results/"), "{era:?}: {}", &large[..200]);
        client.cancel().await.expect("it ends");
    }
    assert!(!served.log().contains("panicked"), "{}", served.log());
}

pub(super) const CLIENTS: &str =
    "[clients.laptop]\ntoken = \"laptop-token-0123456789\"\n[clients.ci]\ntoken = \"ci-token-0123456789\"\n";
pub(super) const LAPTOP: Option<&str> = Some("laptop-token-0123456789");
pub(super) const CI: Option<&str> = Some("ci-token-0123456789");

#[tokio::test]
async fn nothing_of_one_session_is_seen_by_another() {
    let served = Served::start(Fence::new(), &format!("{}{CLIENTS}", samples())).await;
    // A client of 2026-07-28 has no session of its own: the client with its token is one.
    let pairs = [(Era::Legacy, LAPTOP, LAPTOP), (Era::Legacy, LAPTOP, CI), (Era::Modern, LAPTOP, CI)];
    for (era, one, other) in pairs {
        let (one, other) = (served.client(era, one).await, served.client(era, other).await);
        run(&one, "await forge.stash.set('secret', 'mine'); return 1").await;
        assert_eq!(run(&other, "return (await forge.stash.get('secret')) ?? 'none'").await, "none", "{era:?}");
        assert_eq!(run(&other, "return (await forge.stash.keys()).length").await, 0, "{era:?}");
        let large =
            answer(&one, "execute", json!({"language": "javascript", "code": "return 'y '.repeat(50000)"})).await;
        let path = large.split_whitespace().find(|word| word.starts_with("/results/")).expect("a path");
        let path = path.trim_end_matches(['.', ',', ':', ';', ')']).to_owned();
        assert!(answer(&one, "cat", json!({"path": path})).await.contains("y y"));
        let arguments = json!({"path": path});
        let Value::Object(arguments) = arguments else { unreachable!() };
        let read =
            other.call_tool(CallToolRequestParams::new("cat").with_arguments(arguments)).await.expect("an answer");
        assert_eq!(read.is_error, Some(true), "{era:?}: {read:?}");
        drop((one, other));
    }
}

#[tokio::test]
async fn a_run_is_resumed_by_its_client_alone_in_any_of_its_sessions() {
    let served = Served::start(Fence::new(), &format!("{}{CLIENTS}", samples())).await;
    let resumed =
        |run: &str| json!({"resume": run, "language": "javascript", "code": "return await people.list_teams()"});
    for era in [Era::Legacy, Era::Modern] {
        let (one, same, other) =
            (served.client(era, LAPTOP).await, served.client(era, LAPTOP).await, served.client(era, CI).await);
        let code = "await people.list_teams(); throw new Error('end')";
        let failed = told(&one, json!({"language": "javascript", "code": code})).await;
        let run = failed.split("resume=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id").to_owned();
        for (id, why) in [(run.as_str(), "there is no run"), ("last", "this session has no run")] {
            let refused = told(&other, resumed(id)).await;
            assert!(refused.contains(why), "{era:?} {id}: {refused}");
        }
        let answer = told(&same, resumed(&run)).await;
        assert!(answer.contains("teams"), "{era:?}: {answer}");
    }
}

/// Text of an answer of `execute`, which may fail.
pub(super) async fn told<H: ClientHandler>(client: &RunningService<RoleClient, H>, arguments: Value) -> String {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    let result = client.call_tool(CallToolRequestParams::new("execute").with_arguments(arguments)).await;
    let content = result.expect("an answer").content;
    content.iter().filter_map(|block| block.as_text()).map(|block| block.text.clone()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_session_belongs_to_the_client_that_opened_it() {
    let served = Served::start(Fence::new(), &format!("{}{CLIENTS}", samples())).await;
    let id = served.session(LAPTOP).await;
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    for (token, status) in [(LAPTOP, 200), (CI, 404), (Some("a-wrong-token-0123456789"), 401), (None, 401)] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            if method != Method::POST && token == LAPTOP {
                continue;
            }
            let request = match method {
                Method::POST => served.message(Some(&id), &ping),
                _ => served
                    .raw(method.clone(), "/mcp")
                    .header("mcp-session-id", &id)
                    .header("accept", "text/event-stream"),
            };
            let answer = token.into_iter().fold(request, RequestBuilder::bearer_auth).send().await.expect("an answer");
            assert_eq!(answer.status().as_u16(), status, "{method} {token:?}: {answer:?}");
            if status == 401 {
                let challenge = answer.headers()["www-authenticate"].to_str().expect("a text");
                assert!(challenge.starts_with("Bearer"), "{challenge}");
                assert_eq!(challenge.contains("invalid_token"), token.is_some(), "{challenge}");
                assert!(answer.text().await.expect("a body").contains("forgefs clients add"));
            }
        }
    }
    // The session is still there: nobody else ended it.
    let answer =
        served.message(Some(&id), &ping).bearer_auth("laptop-token-0123456789").send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_session_that_is_deleted_ends_its_runs_and_its_stash() {
    let fence = Fence::new();
    let (logged, setting) = log(&fence);
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(fence, &format!("{config}{setting}")).await;
    let id = served.session(None).await;
    let code = "await faulty.slow({ms: 30000}); await faulty.act({nonce: 'after'})";
    let request = served.message(Some(&id), &call(5, "execute", json!({"language": "javascript", "code": code})));
    let running = tokio::spawn(async move { request.send().await?.text().await });
    let started = Instant::now();
    while logged.count("cancelled") == 0 && started.elapsed() < Duration::from_secs(2) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = served.raw(Method::DELETE, "/mcp").header("mcp-session-id", &id).send().await.expect("an answer");
    assert!(ended.status().is_success(), "{ended:?}");
    let text = tokio::time::timeout(Duration::from_secs(10), running).await.expect("it ends").expect("no panic");
    assert!(!text.unwrap_or_default().contains("\"result\""), "no answer follows");
    let started = Instant::now();
    while logged.count("cancelled") == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "the call goes on: {}", served.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let again = served.message(Some(&id), &json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
    assert_eq!(again.send().await.expect("an answer").status(), StatusCode::NOT_FOUND);
    assert_eq!(logged.count("call after"), 0);
}

#[tokio::test]
async fn a_request_is_answered_after_its_stream_broke() {
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(Fence::new(), &config).await;
    let id = served.session(None).await;
    let code = "await faulty.slow({ms: 1500}); return 'made it'";
    let request = served.message(Some(&id), &call(5, "execute", json!({"language": "javascript", "code": code})));
    let mut answer = request.send().await.expect("an answer");
    let first = String::from_utf8_lossy(&answer.chunk().await.expect("a chunk").expect("an event")).into_owned();
    let last = first.lines().find_map(|line| line.strip_prefix("id: ").or(line.strip_prefix("id:"))).expect("an id");
    drop(answer);
    // An empty stream would have a client ask again, for ever.
    for wrong in ["9-9", "0-9", "x", "", "-", "0--1", "0-0-0", "18446744073709551615-18446744073709551615"] {
        let resumed = served.raw(Method::GET, "/mcp").header("mcp-session-id", &id).header("last-event-id", wrong);
        let resumed = resumed.header("accept", "text/event-stream").timeout(Duration::from_secs(20));
        let resumed = resumed.send().await.expect("an answer");
        let status = resumed.status();
        let text = resumed.text().await.expect("a body");
        assert!(status == StatusCode::BAD_REQUEST && text.contains("such an id"), "{wrong}: {status} {text}");
        assert!(text.contains("without Last-Event-ID"), "{text}");
    }
    let other = served.session(None).await;
    for (session, is_answered) in [(&other, false), (&id, true)] {
        let resumed = served.raw(Method::GET, "/mcp").header("mcp-session-id", session).header("last-event-id", last);
        let resumed = resumed.header("accept", "text/event-stream").timeout(Duration::from_secs(20));
        let text = resumed.send().await.expect("an answer").text().await.unwrap_or_default();
        assert_eq!(text.contains("made it"), is_answered, "{text}");
    }
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_it_ends_and_no_process_stays() {
    let fence = Fence::new();
    let (logged, setting) = log(&fence);
    let Some(config) = faulty(&[]) else { return };
    let mut served = Served::start(fence, &format!("{config}{setting}")).await;
    let (legacy, modern) = (served.client(Era::Legacy, None).await, served.client(Era::Modern, None).await);
    let (legacy, modern) = (Arc::new(legacy), Arc::new(modern));
    let running = [Arc::clone(&legacy), Arc::clone(&modern)].map(|client| {
        tokio::spawn(async move { run(&client, "await faulty.slow({ms: 1500}); return 'in time'").await })
    });
    logged.until("slow", 2).await;
    served.terminate();
    for running in running {
        assert_eq!(running.await.expect("an answer"), "in time");
    }
    let refused = served.message(None, &initialize("2025-11-25")).send().await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE));
    let status = tokio::task::spawn_blocking(move || served.child.wait().map(|status| (status, served)));
    let (status, served) = status.await.expect("no panic").expect("it ends");
    assert!(status.success(), "{status}: {}", served.log());
    all_end(&logged.pids(), Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_unused_session_makes_room_and_one_in_use_does_not() {
    let fence = Fence::new();
    let (logged, setting) = log(&fence);
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(fence, &format!("{config}{setting}[http]\nmax_client_sessions = 2\n")).await;
    let (first, second) = (served.session(None).await, served.session(None).await);
    let busy = served.message(
        Some(&first),
        &call(5, "execute", json!({"language": "javascript", "code": "await faulty.slow({ms: 4000}); return 'done'"})),
    );
    let busy = tokio::spawn(async move { busy.send().await.expect("an answer").text().await });
    logged.until("slow", 1).await;
    let third = served.session(None).await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    for (id, status) in [(&second, 404), (&third, 200), (&first, 200)] {
        let answer = served.message(Some(id), &ping).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
    let stream = served.raw(Method::GET, "/mcp").header("mcp-session-id", &third).header("accept", "text/event-stream");
    let stream = stream.send().await.expect("a stream");
    let refused = served.message(None, &initialize("2025-11-25")).send().await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refused.text().await.expect("a body").contains("http.max_client_sessions"));
    drop(stream);
    assert!(busy.await.expect("no panic").expect("a body").contains("done"));
}

#[tokio::test]
async fn tls_serves_and_plain_http_on_its_port_does_not() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let tls = format!("[http]\ntls_cert = {:?}\ntls_key = {:?}\n", folder.join("cert.pem"), folder.join("key.pem"));
    let mut served = Served::start(Fence::new(), &format!("{}{tls}", samples())).await;
    let client = served.client(Era::Modern, None).await;
    assert!(answer(&client, "ls", json!({})).await.contains("people/"));
    served.scheme = "http";
    assert!(served.raw(Method::GET, "/healthz").send().await.is_err());
}

#[test]
fn an_address_that_strangers_could_use_is_refused() {
    let fence = Fence::new();
    let key = fence.write("key.pem", "no key");
    for (settings, address, says) in [
        ("", "0.0.0.0:7399", "without a token"),
        (CLIENTS, "0.0.0.0:7399", "unencrypted"),
        ("", "127.0.0.1:0", "port 0"),
        ("", "localhost", "not an address"),
        ("", "192.0.2.1:80", "without a token"),
        (&format!("{CLIENTS}[http]\ntrusted_proxies = [\"10.0.0.1\"]\n"), "192.0.2.1:7399", "cannot listen"),
        (&format!("[http]\ntls_cert = {key:?}\ntls_key = {key:?}\n"), "127.0.0.1:7399", "no certificate"),
        (&format!("[http]\ntls_cert = {key:?}\n"), "127.0.0.1:7399", "no `tls_key`"),
        ("[clients.x]\ntoken = \"short\"\n", "127.0.0.1:7399", "16 characters"),
        ("[clients.local]\ntoken = \"0123456789abcdef\"\n", "127.0.0.1:7399", "`local` is the client"),
        ("[clients.x]\n", "127.0.0.1:7399", "has no token"),
        ("[http]\nallowed_origins = [\"*\"]\n", "127.0.0.1:7399", "as browsers send it"),
    ] {
        let config = fence.write("forge.toml", settings);
        let output = fence.run(["--config", config.to_str().expect("a path"), "serve", "--http", address]);
        assert_eq!(output.code, Some(2), "{settings} {address}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{settings} {address}: {}", output.stderr);
    }
}

#[tokio::test]
async fn a_token_is_made_once_kept_as_a_digest_and_ends_with_its_client() {
    let fence = Fence::new();
    let config = fence.write("forge.toml", &format!("# mine\n{}", samples()));
    let config = config.to_str().expect("a path").to_owned();
    let added = fence.run(["--config", &config, "clients", "add", "laptop"]).success();
    let token = added.stdout.trim().to_owned();
    assert!(token.starts_with("forgefs_") && token.len() == 72, "{token}");
    let text = std::fs::read_to_string(&config).expect("it");
    assert!(text.starts_with("# mine\n") && !text.contains(&token), "{text}");
    assert_eq!(fence.run(["--config", &config, "clients", "add", "LAPTOP"]).code, Some(2));
    let other = fence.run(["--config", &config, "clients", "add", "other", "--json"]).success();
    let other: Value = other.object();
    let listed = fence.run(["--config", &config, "clients", "list", "--json"]).success();
    assert_eq!(
        listed.object()["clients"],
        json!([{"name": "laptop", "kind": "token", "profile": null}, {"name": "other", "kind": "token", "profile": null}])
    );
    let text = std::fs::read_to_string(&config).expect("it");
    let served = Served::start(fence, &text).await;
    let client = served.client(Era::Legacy, Some(&token)).await;
    assert!(answer(&client, "ls", json!({})).await.contains("people/"));
    let other = served.client(Era::Modern, other["token"].as_str()).await;
    served.fence.run(["--config", &config, "clients", "remove", "laptop"]).success();
    let started = Instant::now();
    while client.list_all_tools().await.is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30), "its token still works");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(answer(&other, "ls", json!({})).await.contains("people/"));
    let missing = served.fence.run(["--config", &config, "clients", "remove", "laptpo"]);
    assert_eq!(missing.code, Some(2));
}

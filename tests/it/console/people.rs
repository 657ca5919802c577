//! People of the console at the endpoint: each has a session, a share of the places and a name on record, and who comes with a
//! wrong token is counted and waits.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::acts::Running;
use super::{http, signed_in};
use crate::client::Fence;
use crate::endpoint::{CLIENTS, Served};
use crate::faulty::{Log, faulty, log, python};

/// A gateway on HTTP with a console.
struct Endpoint {
    served: Served,
    base: String,
    tokens: Vec<String>,
}

impl Endpoint {
    /// Starts it with people of these names; who has an `eye` in theirs may only look.
    async fn start(fence: Fence, config: &str, people: &[&str]) -> Self {
        let file = fence.write("forge.toml", config);
        let add = |name: &&str| {
            let only = if name.contains("eye") { &["--read-only"][..] } else { &[] };
            let added = fence.run([&["console", "add", name, "--json"], only].concat()).success().stdout;
            let added: Value = serde_json::from_str(&added).expect("JSON");
            added["token"].as_str().expect("a token").to_owned()
        };
        let tokens = people.iter().map(add).collect();
        let config = fs::read_to_string(file).expect("readable");
        let served = Served::start(fence, &config).await;
        let base = served.url().trim_end_matches("/mcp").to_owned();
        Self { served, base, tokens }
    }

    async fn session(&self, person: usize) -> String {
        signed_in(&self.base, &self.tokens[person]).await
    }

    fn login(&self, token: &str) -> RequestBuilder {
        http().post(format!("{}/api/login", self.base)).body(json!({ "token": token }).to_string())
    }

    fn get(&self, of: &Client, session: &str, path: &str) -> RequestBuilder {
        of.get(format!("{}/api/{path}", self.base)).bearer_auth(session)
    }

    fn post(&self, of: &Client, session: &str, path: &str, body: &Value) -> RequestBuilder {
        let request = of.post(format!("{}/api/{path}", self.base)).bearer_auth(session);
        request.header("content-type", "application/json").body(body.to_string())
    }

    fn act(&self, of: &Client, session: &str, nonce: &str) -> RequestBuilder {
        self.post(of, session, "call", &json!({"server": "faulty", "tool": "act", "arguments": {"nonce": nonce}}))
    }

    /// Records of the audit log that have a text.
    fn records(&self, text: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.served.fence.audit()).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

async fn told(request: RequestBuilder) -> (StatusCode, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.json().await.expect("JSON"))
}

async fn status(request: RequestBuilder) -> StatusCode {
    request.send().await.expect("an answer").status()
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A gateway with a faulty server, whose log is the second.
async fn with_faulty(people: &[&str]) -> Option<(Endpoint, Log)> {
    let fence = Fence::new();
    let (logged, setting) = log(&fence);
    let config = format!("{}{setting}{CLIENTS}[http]\nmetrics = true\n", faulty(&[])?);
    Some((Endpoint::start(fence, &config, people).await, logged))
}

#[tokio::test]
async fn each_write_names_its_person_and_nothing_of_one_session_is_another_s() {
    let Some((endpoint, _)) = with_faulty(&["ops", "mira"]).await else { return };
    let sessions = [endpoint.session(0).await, endpoint.session(1).await, endpoint.session(1).await];
    let script = |code: String| json!({"language": "javascript", "code": code});
    for (session, (person, nonce)) in sessions.iter().zip([("ops", "one"), ("mira", "two"), ("mira", "three")]) {
        let (_, called) = told(endpoint.act(&http(), session, &format!("{nonce}-called"))).await;
        assert_eq!(called["ok"], json!(true), "{called}");
        let code = format!(
            "await faulty.act({{nonce: '{nonce}-run'}}); const before = await forge.stash.keys(); \
                            await forge.stash.set('{nonce}', 1); return before"
        );
        let (_, ran) = told(endpoint.post(&http(), session, "execute", &script(code))).await;
        assert_eq!((&ran["ok"], &ran["value"]), (&json!(true), &json!([])), "{ran}");
        for how in ["called", "run"] {
            let records = endpoint.records(&format!("{nonce}-{how}"));
            let begun: Vec<&Value> = records.iter().filter(|record| record.get("session").is_some()).collect();
            assert!(!begun.is_empty(), "{nonce}-{how}");
            for record in begun {
                assert_eq!(record["principal"], json!(format!("console/{person}")), "{record:#}");
            }
        }
        // They go on with the runs of this machine's user, as before.
        let listed = told(endpoint.get(&http(), session, &format!("runs?client=console/{person}"))).await.1;
        assert!(listed["matched"].as_u64().is_some_and(|runs| runs >= 2), "{listed:#}");
    }
    let ids: Vec<Value> = endpoint.records("-run").into_iter().map(|record| record["session"].clone()).collect();
    let ids: std::collections::BTreeSet<String> = ids.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
}

#[tokio::test]
async fn a_script_ends_with_its_session_and_a_removed_person_s_in_the_moment_the_command_returns() {
    let Some((endpoint, logged)) = with_faulty(&["ops", "mira"]).await else { return };
    #[expect(clippy::async_yields_async, reason = "the script goes on")]
    let started = async |session: &str, number: usize| {
        let code = format!(
            "await faulty.act({{nonce: 'begun-{number}'}}); await faulty.slow({{ms: 600000}}); \
                            await faulty.act({{nonce: 'after'}})"
        );
        let body = json!({"language": "javascript", "code": code});
        let request = endpoint.post(&http(), session, "execute", &body);
        let running = tokio::spawn(async move { status(request).await });
        until("it begins", async || logged.count(&format!("call begun-{number}")) == 1).await;
        running
    };
    // Signed out.
    let (ops, mira) = (endpoint.session(0).await, endpoint.session(1).await);
    let running = [started(&ops, 1).await, started(&mira, 2).await];
    assert_eq!(status(endpoint.post(&http(), &ops, "logout", &json!({}))).await, StatusCode::OK);
    let [signed_out, goes_on] = running;
    let ended = tokio::time::timeout(Duration::from_secs(60), signed_out).await.expect("it ends").expect("no panic");
    assert_eq!(ended, StatusCode::UNAUTHORIZED);
    assert!(!goes_on.is_finished(), "another's goes on");
    // Removed, with other edits of the file that wait.
    let file = endpoint.served.fence.work().join("forge.toml");
    let more =
        format!("{}\n[clients.new]\ntoken = \"new-token-0123456789\"\n", fs::read_to_string(&file).expect("text"));
    fs::write(&file, more).expect("written");
    let file = file.to_str().expect("a path").to_owned();
    endpoint.served.fence.run(["--config", &file, "console", "remove", "mira"]).success();
    let (refused, _) = told(endpoint.get(&http(), &mira, "about")).await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED, "its session is over");
    assert_eq!(status(endpoint.login(&endpoint.tokens[1])).await, StatusCode::UNAUTHORIZED, "and there is no other");
    let ended = tokio::time::timeout(Duration::from_secs(60), goes_on).await.expect("it ends").expect("no panic");
    assert_eq!(ended, StatusCode::UNAUTHORIZED);
    until("both calls are cancelled", async || logged.count("cancelled") == 2).await;
    assert_eq!(logged.count("call after"), 0);
}

/// A connection of a person that is in use: of its second request only the head was sent.
struct Held {
    stream: TcpStream,
    body: String,
}

impl Held {
    /// `None` if the gateway had no place for it.
    async fn open(endpoint: &Endpoint, session: &str, path: &str, body: &Value) -> Option<Self> {
        let address = endpoint.base.strip_prefix("http://").expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let mut held = Self { stream, body: body.to_string() };
        let head = format!("Host: {address}\r\nAuthorization: Bearer {session}\r\n");
        held.send(&format!("GET /api/about HTTP/1.1\r\n{head}\r\n")).await;
        let answer = held.answer().await;
        if answer.starts_with("HTTP/1.1 429 ") {
            assert!(answer.contains("nothing was done"), "{answer}");
            return None;
        }
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", held.body.len());
        held.send(&format!("POST /api/{path} HTTP/1.1\r\n{head}{more}\r\n")).await;
        Some(held)
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("it is read");
    }

    async fn answer(&mut self) -> String {
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
            let length: Option<usize> =
                text.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            if let (Some((_, body)), Some(length)) = (text.split_once("\r\n\r\n"), length)
                && body.len() >= length
            {
                return String::from_utf8(read).expect("a text");
            }
            let more = self.stream.read_buf(&mut read).await.expect("an answer");
            assert!(more > 0, "it broke off: {text}");
        }
    }

    /// Sends the rest; the answer.
    async fn finish(mut self) -> String {
        let body = self.body.clone();
        self.send(&body).await;
        self.answer().await
    }
}

#[tokio::test]
async fn who_finds_no_place_has_done_nothing_and_one_who_looks_leaves_places_to_those_who_decide() {
    let Some((endpoint, logged)) = with_faulty(&["ops", "eye", "eye2"]).await else { return };
    let sessions = [endpoint.session(0).await, endpoint.session(1).await, endpoint.session(2).await];
    let [ops, eye, eye2] = &sessions;
    // Each request comes on a connection of its own.
    let apart = Client::builder().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
    let called = |nonce: &str| json!({"server": "faulty", "tool": "act", "arguments": {"nonce": nonce}});
    let check = json!({"language": "starlark", "code": "result = 1"});
    let mut held = Vec::new();
    // One has half of the places, those who look have three quarters, and the rest is for those who decide.
    for (session, path, body, places) in
        [(eye, "check", check.clone(), 32), (eye2, "check", check.clone(), 48), (ops, "call", called("second"), 64)]
    {
        if session == ops {
            let first = told(endpoint.act(&apart, ops, "first")).await.1;
            assert_eq!(first["ok"], json!(true), "{first}");
        }
        until("it has its places", async || {
            held.extend(Held::open(&endpoint, session, path, &body).await);
            held.len() == places
        })
        .await;
        assert!(Held::open(&endpoint, session, path, &body).await.is_none(), "over {places}");
    }
    // What finds no place is not done, and a login that finds none ends no session.
    let (refused, why) = told(endpoint.act(&apart, ops, "refused")).await;
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS, "{why}");
    let body = json!({"language": "javascript", "code": "await faulty.act({nonce: 'refused'})"});
    assert_eq!(status(endpoint.post(&apart, ops, "execute", &body)).await, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..20 {
        let login = apart.post(format!("{}/api/login", endpoint.base));
        let login = login.body(json!({"token": endpoint.tokens[0]}).to_string());
        assert_eq!(status(login).await, StatusCode::TOO_MANY_REQUESTS);
    }
    let answer = held.pop().expect("one of those who decide").finish().await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"ok\":true"), "{answer}");
    assert_eq!((logged.count("call second"), logged.count("call refused")), (1, 0));
    drop(held);
    // Pages that are live have a reserve, too.
    let mut live = Vec::new();
    until("no page more is live", async || {
        let answer = endpoint.get(&apart, &sessions[1 + live.len() % 2], "live").send().await.expect("an answer");
        if answer.status() == StatusCode::OK {
            live.push(answer);
            return false;
        }
        // Places of the connections before may take a moment to be free.
        answer.text().await.expect("a body").contains("no place for a further live page")
    })
    .await;
    assert_eq!(live.len(), 24);
    let page = endpoint.get(&apart, ops, "live").send().await.expect("an answer");
    assert_eq!(page.status(), StatusCode::OK, "those who decide see what runs");
}

#[tokio::test]
async fn a_session_that_only_looks_has_no_server_asked() {
    let fence = Fence::new();
    let log = fence.work().join("log");
    let Some(config) = python("notes", "policy.py", &["notes", log.to_str().expect("a path")]) else { return };
    let endpoint = Endpoint::start(fence, &config, &["ops", "eye"]).await;
    let (ops, eye) = (endpoint.session(0).await, endpoint.session(1).await);
    let client = http();
    let cat = async |session: &str, path: &str| told(endpoint.get(&client, session, &format!("cat?path={path}"))).await;
    let asked = || fs::read_to_string(&log).unwrap_or_default();
    until("it is listed", async || cat(&eye, "/notes/look.pyi").await.0 == StatusCode::OK).await;
    let stub = cat(&eye, "/notes/look.pyi").await.1;
    assert!(stub["files"][0]["text"].as_str().is_some_and(|text| text.contains("def look(")), "{stub}");
    // Resources are listed after tools.
    until("they are listed", async || {
        let listed = told(endpoint.get(&client, &eye, "ls?path=/notes/resources")).await.1;
        listed.to_string().contains("notes://data")
    })
    .await;
    for path in ["/notes/resources/notes://data", "/notes/resources/data.txt", "/notes/resources/*"] {
        let (refused, told) = cat(&eye, path).await;
        assert_eq!(refused, StatusCode::FORBIDDEN, "{path}: {told}");
    }
    let paths = [
        "about", "runs", "approvals", "ls", "search?q=data", "tool?server=notes&tool=look", "drift", "logins", "series",
    ];
    for path in paths {
        assert!(status(endpoint.get(&client, &eye, path)).await.is_success(), "{path}");
    }
    assert_eq!(asked(), "", "nothing was sent");
    let (read, told) = cat(&ops, "/notes/resources/notes://data").await;
    assert!(read == StatusCode::OK && told.to_string().contains("data of notes"), "{told}");
    assert!(asked().contains("read_resource"), "{}", asked());
}

#[tokio::test]
async fn wrong_tokens_leave_a_trace_and_wait_and_keep_no_one_out() {
    let Some((endpoint, _)) = with_faulty(&["ops"]).await else { return };
    // One connection each, so that requests take no time of their own.
    let client = http();
    let mcp = |token: &str| client.request(Method::POST, endpoint.served.url()).bearer_auth(token).body("{}");
    let login =
        |token: &str| client.post(format!("{}/api/login", endpoint.base)).body(json!({"token": token}).to_string());
    let began = Instant::now();
    // Nobody answers the last of them before this time, however fast the machine is.
    let (wrong, at_once, pause) = (45_u32, 60, Duration::from_millis(100));
    for number in 0..wrong {
        assert_eq!(status(login(&format!("wrong-{number}"))).await, StatusCode::UNAUTHORIZED);
        assert_eq!(status(mcp(&format!("wrong-{number}"))).await, StatusCode::UNAUTHORIZED);
    }
    assert!(began.elapsed() >= pause * (2 * wrong - at_once), "{:?}", began.elapsed());
    // While many more wait, a right token is let in.
    let storm: Vec<_> =
        (0..40).map(|number| tokio::spawn(status(endpoint.login(&format!("storm-{number}"))))).collect();
    let session = endpoint.session(0).await;
    let about = status(endpoint.get(&http(), &session, "about")).await;
    assert_eq!(about, StatusCode::OK);
    for one in storm {
        assert_eq!(one.await.expect("no panic"), StatusCode::UNAUTHORIZED);
    }
    // A request without a token is none with a wrong one.
    assert_eq!(status(http().get(endpoint.served.url())).await, StatusCode::UNAUTHORIZED);
    let metrics = http().get(format!("{}/metrics", endpoint.base)).bearer_auth("laptop-token-0123456789");
    let metrics = metrics.send().await.expect("an answer").text().await.expect("a body");
    for counted in [("console", wrong + 40), ("endpoint", wrong)] {
        let line = format!("forgefs_wrong_tokens_total{{place=\"{}\"}} {}\n", counted.0, counted.1);
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let log = endpoint.served.log();
    let told = log.matches("wrong tokens were refused").count();
    let most = began.elapsed().as_secs() / 10 + 1;
    assert!(log.contains("127.0.0.1") && told >= 1 && told as u64 <= most, "{told}: {log}");
    assert!(!log.contains("wrong-1") && !log.contains("storm-1"), "{log}");
}

#[tokio::test]
async fn people_of_the_endpoint_see_what_runs_in_its_configuration_alone() {
    let Some((endpoint, _)) = with_faulty(&["ops"]).await else { return };
    let fence = &endpoint.served.fence;
    fence.write("other.toml", &faulty(&[]).expect("python"));
    fence.write("slow.star", "faulty.slow(ms=120000)");
    let run = |config: &str| {
        let mut command = fence.forgefs(["--config", config, "run", "slow.star"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("forgefs starts")
    };
    let configs = ["forge.toml", "other.toml"];
    let mut running = Running(configs.map(run).into());
    let runs = |config: &&str| {
        let listed = fence.run(["--config", config, "runs", "list", "--json"]).success().stdout;
        listed.contains("\"running\"")
    };
    until("both run", async || configs.iter().all(runs)).await;
    let session = endpoint.session(0).await;
    let mut live = endpoint.get(&http(), &session, "live").send().await.expect("a stream");
    let mut text = String::new();
    while !text.contains("\n\n") {
        text.push_str(&String::from_utf8_lossy(&live.chunk().await.expect("a chunk").expect("the stream goes on")));
    }
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("a state");
    // A program runs with the gateway's rights, which a token of the page has not.
    let words = json!({"name": "more", "target": "/bin/cat"});
    let (refused, told) = told(endpoint.post(&http(), &session, "server/add", &words)).await;
    assert!(refused == StatusCode::FORBIDDEN && told.to_string().contains("on the machine"), "{told}");
    let state: Value = serde_json::from_str(data).expect("JSON");
    let pids: Vec<&Value> = state["elsewhere"].as_array().expect("a list").iter().map(|run| &run["pid"]).collect();
    assert_eq!(pids, [&json!(running.0[0].id())], "{state:#}");
    running.0.iter_mut().for_each(|child| child.kill().expect("it runs"));
}

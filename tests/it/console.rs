//! The console: who is let in, what it shows of runs that the daemon has, and what its buttons do.

mod acts;
mod browser;
mod logins;
mod people;

pub(crate) use browser::chromium;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::client::{Fence, finish};
use crate::endpoint::Served;
use crate::faulty::{faulty, has_python, python, samples};
use crate::journal::Bank;

/// The daemon has what the console shows.
const DAEMON: &str = "[daemon]\nstart = \"auto\"\nidle_exit = \"20s\"\n";

/// A console that `forgefs console` serves. Dropping it ends the command.
struct Page {
    child: Child,
    /// Address without a path.
    base: String,
    /// Its one-time token.
    token: String,
}

/// A client that takes answers as they are.
fn http() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().expect("a client")
}

impl Page {
    /// Opens it for the configuration of a fence.
    fn open(fence: &Fence, args: &[&str]) -> Self {
        let log = fs::File::create(fence.work().join("console.log")).expect("a log");
        let mut command = fence.forgefs([&["console", "--no-open"], args].concat());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("forgefs starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let log = fs::read_to_string(fence.work().join("console.log")).unwrap_or_default();
        let (base, token) = line.trim().split_once("/console/#").unwrap_or_else(|| panic!("no link: {line}{log}"));
        Self { child, base: base.to_owned(), token: token.to_owned() }
    }

    fn url(&self) -> String {
        format!("{}/console/#{}", self.base, self.token)
    }

    /// A request without a session.
    fn raw(&self, method: Method, path: &str) -> RequestBuilder {
        http().request(method, format!("{}{path}", self.base))
    }

    /// Signs in with the one-time token.
    async fn signed_in(self) -> SignedIn {
        let session = signed_in(&self.base, &self.token).await;
        SignedIn { page: self, session }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Session of a login.
async fn signed_in(base: &str, token: &str) -> String {
    let login = http().post(format!("{base}/api/login")).body(json!({ "token": token }).to_string());
    let answer = login.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK, "{answer:?}");
    let answer: Value = answer.json().await.expect("JSON");
    answer["session"].as_str().expect("a session").to_owned()
}

struct SignedIn {
    page: Page,
    session: String,
}

impl SignedIn {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.page.raw(method, &format!("/api/{path}")).bearer_auth(&self.session)
    }

    async fn told(&self, request: RequestBuilder) -> (StatusCode, Value) {
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.json().await.expect("JSON"))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, object) = self.told(self.request(Method::GET, path)).await;
        assert_eq!(status, StatusCode::OK, "{path}: {object}");
        object
    }

    async fn try_post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        self.told(request.body(body.to_string())).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, object) = self.try_post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {object}");
        object
    }

    /// Waits until every server is ready.
    async fn ready(&self) {
        let is_ready = |server: &Value| server["state"] == "ready";
        self.state(|state| state["servers"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_ready)))
            .await;
    }

    /// The first state of the stream that fits.
    async fn state(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut answer = self.request(Method::GET, "live").send().await.expect("a stream");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let (started, mut text) = (Instant::now(), String::new());
        loop {
            let waiting = tokio::time::timeout(Duration::from_secs(60), answer.chunk()).await;
            let chunk = waiting.unwrap_or_else(|_| panic!("no state that fits: {text}")).expect("a chunk");
            text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or("null");
                let state: Value = serde_json::from_str(data).expect("JSON");
                text = rest.to_owned();
                if fits(&state) {
                    return state;
                }
            }
            assert!(started.elapsed() < Duration::from_secs(60), "no state that fits");
        }
    }
}

#[tokio::test]
async fn strangers_get_nothing_and_a_session_that_looks_changes_nothing() {
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{DAEMON}{}", samples()));
    let page = Page::open(&fence, &["--read-only"]);
    let pages = ["/console/", "/console/style.css", "/console/vendor/preact.js"];
    let paths = [
        "about", "live", "runs", "runs/x", "approvals", "ls", "cat", "search", "tool", "drift", "logins", "series", "x",
    ];
    for path in pages {
        let answer = page.raw(Method::GET, path).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let policy = answer.headers()["content-security-policy"].to_str().expect("a text");
        assert!(policy.contains("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && answer.headers()["x-frame-options"] == "DENY");
        assert!(answer.headers().get("set-cookie").is_none() && answer.headers()["cache-control"] == "no-store");
        let text = answer.text().await.expect("a text");
        assert!(!text.contains(&page.token), "{path}: a file tells nothing");
    }
    let moved = page.raw(Method::GET, "/console").send().await.expect("an answer");
    assert_eq!(
        (moved.status(), &moved.headers()["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"/console/".parse().expect("a value"))
    );
    for path in paths {
        for method in [Method::GET, Method::POST] {
            for auth in [
                None,
                Some("Bearer x".to_owned()),
                Some(format!("Bearer {}", page.token)),
                Some(format!("Basic {}", page.token)),
            ] {
                let request = page.raw(method.clone(), &format!("/api/{path}?session={0}&token={0}", page.token));
                let request = auth.iter().fold(request, |request, auth| request.header("authorization", auth));
                let answer = request.body("{}").send().await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{method} {path} {auth:?}");
            }
        }
    }
    // A page of another name, or of another port, reaches nothing: not even the login.
    let login = json!({ "token": page.token }).to_string();
    for (header, value) in
        [("host", "evil.example"), ("host", "evil.example:80"), ("origin", "http://evil.example"), ("origin", "null")]
    {
        let answer = page
            .raw(Method::POST, "/api/login")
            .header(header, value)
            .body(login.clone())
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{header}: {value}");
    }
    let wide = page.raw(Method::POST, "/api/login").body("x".repeat(8 << 10)).send().await.expect("an answer");
    assert_eq!(wide.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let (url, base) = (page.url(), page.base.clone());
    let looking = page.signed_in().await;
    let again = http().post(format!("{base}/api/login")).body(login).send().await.expect("an answer");
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED, "{url}: a token lets in once");
    assert_eq!(looking.get("about").await["can_act"], json!(false));
    for (path, body) in [
        ("execute", json!({"language": "starlark", "code": "result = 1"})),
        ("call", json!({"server": "people", "tool": "list_teams"})),
        ("live/x/stop", json!({})),
        ("approvals/x", json!({"allow": true})),
        ("drift/accept", json!({"server": "people", "kind": "tool", "name": "x", "digest": "x"})),
        ("logins/end", json!({"client": "x"})),
        ("runs/x/save", json!({"name": "x"})),
        ("runs/x/replay", json!({})),
    ] {
        assert_eq!(looking.try_post(path, &body).await.0, StatusCode::FORBIDDEN, "{path}");
    }
    let checked = looking.post("check", &json!({"language": "javascript", "code": "await people.lst_teams({})"})).await;
    assert_eq!(checked["mistakes"][0]["code"], json!("TOOL_NOT_FOUND"), "{checked}");
    // What a form of another page can send is not taken.
    let form = looking.request(Method::POST, "check").header("content-type", "text/plain").body("{}");
    assert_eq!(looking.told(form).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let put = looking.request(Method::PUT, "check").body("{}");
    assert_eq!(looking.told(put).await.0, StatusCode::METHOD_NOT_ALLOWED);
    looking.post("logout", &json!({})).await;
    assert_eq!(looking.told(looking.request(Method::GET, "about")).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn strangers_keep_no_one_out() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{DAEMON}{}", samples()));
    let page = Page::open(&fence, &[]);
    let address = page.base.strip_prefix("http://").expect("an address").to_owned();
    let mut strangers = Vec::new();
    for number in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
        let path = ["/console/", "/console/nothing", "/api/about", "/nowhere"][number % 4];
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        // Those that made room for others are closed.
        if stream.write_all(request.as_bytes()).await.is_ok() {
            let _ = stream.read(&mut [0; 64]).await;
        }
        strangers.push(stream);
    }
    let console = page.signed_in().await;
    assert_eq!(console.get("about").await["can_act"], json!(true));
    drop(strangers);
}

#[test]
fn an_address_that_others_reach_and_another_client_are_refused() {
    let fence = Fence::new();
    fence.write("forge.toml", "");
    for (args, why) in [
        (vec!["--listen", "0.0.0.0:0"], "other machines could reach the console"),
        (vec!["--listen", "nowhere"], "--listen: "),
        (vec!["--as", "ci"], "--as"),
    ] {
        let refused = fence.run([vec!["console", "--no-open"], args].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{refused:?}");
    }
}

#[tokio::test]
async fn a_running_script_is_seen_and_stopped_and_its_run_is_shown_whole() {
    let Some(slow) = faulty(&[]) else { return };
    let fence = Fence::new();
    let secret = "s3cr3t-0123456789abcdef";
    fence.write("forge.toml", &format!("{DAEMON}{}\n{slow}env = {{ TOKEN = \"{secret}\" }}\n", samples()));
    let console = Page::open(&fence, &[]).signed_in().await;
    let code = format!("people.list_teams()\nfaulty.act(nonce=\"{secret}\")\nfaulty.slow(ms=60000)");
    let file = fence.write("slow.star", &code);
    let mut running = fence.forgefs(["run", "--json"]);
    let running = running.arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = running.expect("forgefs starts");
    let is_slow = |call: &Value| call["tool"] == "slow" && call["outcome"] == "running";
    let calls = |run: &Value| run["recent"].as_array().cloned().unwrap_or_default();
    let state = console
        .state(|state| {
            state["runs"].as_array().is_some_and(|runs| runs.iter().any(|run| calls(run).iter().any(is_slow)))
        })
        .await;
    let run = &state["runs"][0];
    assert_eq!(
        (&run["calls"], &run["language"], &run["client"]),
        (&json!(3), &json!("starlark"), &json!("local")),
        "{run:#}"
    );
    assert!(!state.to_string().contains(secret) && state.to_string().contains("[redacted"), "{state:#}");
    let server = |state: &Value| {
        state["servers"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "faulty").cloned())
    };
    assert_eq!(server(&state).expect("the server")["in_flight"], json!(1), "{state:#}");
    let id = run["id"].as_str().expect("an id").to_owned();
    console.post(&format!("live/{id}/stop"), &json!({})).await;
    let output = running.wait_with_output().expect("an end");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["error"]["code"], json!("CANCELLED"), "{answer}");
    assert!(
        answer["error"]["message"].as_str().is_some_and(|text| text.contains("an operator stopped it")),
        "{answer}"
    );
    assert_eq!(answer["resume"], json!(id), "what it did need not be done again");
    let (status, gone) = console.try_post(&format!("live/{id}/stop"), &json!({})).await;
    assert!(status == StatusCode::BAD_REQUEST && gone.to_string().contains("is not under way"), "{gone}");
    let listed =
        console.get("runs?outcome=CANCELLED&server=faulty&tool=slow&client=local&label=people&text=LIST_TEAMS").await;
    assert_eq!((&listed["matched"], &listed["runs"][0]["id"]), (&json!(1), &json!(id)), "{listed:#}");
    for none in [
        "client=x", "outcome=ok", "server=x", "tool=x", "label=x", "text=nowhere", "from_ms=99999999999999",
        "outcome=refused",
    ] {
        assert_eq!(console.get(&format!("runs?{none}")).await["matched"], json!(0), "{none}");
    }
    let whole = console.get(&format!("runs/{id}")).await;
    assert!(!whole.to_string().contains(secret), "{whole:#}");
    for path in [format!("ls?path=/{secret}"), format!("tool?server={secret}&tool=x"), secret.to_owned()] {
        let (status, refused) = console.told(console.request(Method::GET, &path)).await;
        assert!(status.is_client_error() && !refused.to_string().contains(secret), "{path}: {refused}");
    }
    let labels: Vec<&str> =
        whole["operations"].as_array().expect("a list").iter().filter_map(|one| one["label"].as_str()).collect();
    assert_eq!(labels, ["people.list_teams", "faulty.act", "faulty.slow"], "{whole:#}");
    assert_eq!(
        (&whole["operations"][2]["unknown"], &whole["resume_cli"]),
        (&json!(true), &json!(format!("forgefs run --resume {id}"))),
        "{whole:#}"
    );
    let places: Vec<(u64, &str)> = whole["marks"]
        .as_array()
        .expect("marks")
        .iter()
        .filter(|mark| mark["kind"] == "call")
        .map(|mark| (mark["line"].as_u64().unwrap_or(0), mark["text"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(places, [(1, "people.list_teams"), (2, "faulty.act"), (3, "faulty.slow")]);
    let sums = console.get("series?hours=1&by=tool").await;
    assert_eq!(sums["errors"]["CANCELLED"], json!(1), "{sums}");
    let counted = console.state(|state| server(state).is_some_and(|server| server["calls"] == 2)).await;
    assert_eq!(server(&counted).expect("the server")["in_flight"], json!(0));
}

#[tokio::test]
async fn scripts_and_tools_are_tried_replayed_and_saved() {
    let fence = Fence::new();
    fs::create_dir(fence.work().join("scripts")).expect("a folder");
    fence.write("forge.toml", &format!("[scripts]\npath = \"scripts\"\n{DAEMON}{}", samples()));
    let console = Page::open(&fence, &[]).signed_in().await;
    console.ready().await;
    let code = "found = tickets.list_tickets(status=\"open\")\nresult = len(found[\"tickets\"])";
    let planned = console
        .post(
            "execute",
            &json!({"language": "starlark", "code": "tickets.create_ticket(title=\"Broken\")", "dry_run": true}),
        )
        .await;
    assert_eq!((&planned["calls"][0]["outcome"], &planned["ok"]), (&json!("planned"), &json!(true)), "{planned}");
    let ran = console.post("execute", &json!({"language": "starlark", "code": code})).await;
    let id = ran["run"].as_str().expect("an id").to_owned();
    let replayed = console.post(&format!("runs/{id}/replay"), &json!({})).await;
    assert_eq!((&replayed["same"], &replayed["value"]), (&json!(true), &ran["value"]), "{replayed}");
    let saved = console.post(&format!("runs/{id}/save"), &json!({"name": "open/count"})).await;
    let file = fence.work().join("scripts/open/count.star");
    assert!(saved["file"].as_str().is_some_and(|path| path.ends_with("open/count.star")) && file.is_file(), "{saved}");
    for (name, why) in
        [("open/count", "is there already"), ("../out", "no name of a script"), ("a b", "no name of a script")]
    {
        let (status, refused) = console.try_post(&format!("runs/{id}/save"), &json!({"name": name})).await;
        assert!(status == StatusCode::BAD_REQUEST && refused.to_string().contains(why), "{name}: {refused}");
    }
    let called = console.post("call", &json!({"server": "people", "tool": "list_teams", "arguments": {}})).await;
    assert_eq!((&called["ok"], &called["value"]["teams"][0]["name"]), (&json!(true), &json!("payments")), "{called}");
    let wrong =
        console.post("call", &json!({"server": "tickets", "tool": "get_ticket", "arguments": {"id": "x"}})).await;
    assert_eq!((&wrong["ok"], &wrong["error"]["code"]), (&json!(false), &json!("INVALID_ARGS")), "{wrong}");
    // Text is found behind what the log has of a script, too.
    let long = format!("# {}\n# Giraffe\nresult = 1", "word ".repeat(400));
    let ran = console.post("execute", &json!({"language": "starlark", "code": long})).await;
    let found = console.get("runs?text=giraffe").await;
    assert_eq!((&found["matched"], &found["runs"][0]["id"]), (&json!(1), &ran["run"]), "{found:#}");
    assert_eq!(console.get("runs?text=giraffe&outcome=failed").await["matched"], json!(0));
    // The agent's searches and files, and why a hit ranks where it does.
    let found = console.get("search?q=create%20a%20ticket").await;
    assert_eq!(found["hits"][0]["name"], json!("create_ticket"), "{found:#}");
    assert!(
        found["hits"][0]["why"]
            .as_array()
            .is_some_and(|why| why.iter().any(|word| word["as"] == "creat" && word["fields"] == json!(["name"]))),
        "{found:#}"
    );
    let tool = console.get("tool?server=tickets&tool=create_ticket").await;
    assert!(tool["stubs"]["pyi"].as_str().is_some_and(|stub| stub.contains("def create_ticket(")), "{tool:#}");
    assert!(tool["stubs"]["dts"].as_str().is_some_and(|stub| stub.contains("create_ticket(args")), "{tool:#}");
    let printed = fence.run(["ls", "/tickets", "--json"]).success().stdout;
    let mut printed: Value = serde_json::from_str(&printed).expect("JSON");
    printed.as_object_mut().expect("an object").remove("ok");
    assert_eq!(console.get("ls?path=/tickets").await, printed);
    let read = console.get("cat?path=/tickets/create_ticket.pyi").await;
    assert!(read["files"][0]["text"].as_str().is_some_and(|text| text.contains("def create_ticket(")), "{read}");
    for (path, why) in [
        ("cat?path=/nowhere", "nowhere"),
        ("tool?server=x&tool=y", "no server"),
        ("runs/0123456789ab", "no run"),
        ("runs/%22", "no id of a run"),
        ("runs/e", "no id of a run"),
        ("series?by=x", "`by`"),
        ("runs?cursor=x", "`cursor`"),
        ("runs?limit=x", "`limit`"),
    ] {
        let (status, refused) = console.told(console.request(Method::GET, path)).await;
        assert!(
            status == StatusCode::BAD_REQUEST
                && refused["error"]["message"].as_str().is_some_and(|text| text.contains(why)),
            "{path}: {status} {refused}"
        );
        assert!(refused["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{path}: {refused}");
    }
}

#[tokio::test]
async fn what_waits_is_allowed_once_for_the_run_or_for_the_plan_and_denied_with_a_reason() {
    let Some(bank) = Bank::new(
        "approval = \"writes\"\n[approvals]\nwait = \"1h\"\n[daemon]\nstart = \"auto\"\nidle_exit = \"20s\"\n",
    ) else {
        return;
    };
    let console = Page::open(&bank.fence, &[]).signed_in().await;
    console.ready().await;
    let pays =
        |numbers: &[u64]| numbers.iter().map(|n| format!("await bank.pay({{n: {n}}});")).collect::<Vec<_>>().join("\n");
    let parked = |args: &[&str], code: &str| {
        let answer = bank.json(args, code);
        assert_eq!(answer["error"]["code"], json!("APPROVAL_WAITS"), "{answer:#}");
        answer["resume"].as_str().expect("a run").to_owned()
    };
    let waiting = async || console.get("approvals").await["waiting"].as_array().expect("a list").clone();
    // Denied, with a reason that the agent reads.
    let run = parked(&[], &pays(&[1]));
    let inbox = waiting().await;
    let [one] = inbox.as_slice() else { panic!("{inbox:#?}") };
    assert_eq!(
        (&one["run"], &one["call"], &one["arguments"]),
        (&json!(run), &json!("bank.pay"), &json!({"n": 1})),
        "{one:#}"
    );
    assert_eq!(one["plan"][0]["tool"], json!("pay"), "{one:#}");
    let id = |approval: &Value| approval["id"].as_str().expect("an id").to_owned();
    let denied = console
        .post(&format!("approvals/{}", id(one)), &json!({"allow": false, "reason": "pay by \u{202e}invoice"}))
        .await;
    assert_eq!((&denied["state"], &denied["decision"]["allowed"]), (&json!("denied"), &json!(false)), "{denied:#}");
    let answer = bank.json(&["--resume", &run], &pays(&[1]));
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("in the console") && message.contains("pay by") && message.contains("invoice"),
        "{message}"
    );
    assert!(!message.contains('\u{202e}'), "{message}");
    // For the run: all of its payments, and those of no other.
    let run = parked(&[], &pays(&[2]));
    let first = waiting().await;
    console.post(&format!("approvals/{}", id(&first[0])), &json!({"allow": true, "scope": "run"})).await;
    let answer = bank.json(&["--resume", &run], &pays(&[2, 3, 4]));
    assert_eq!((&answer["ok"], bank.paid()), (&json!(true), vec![2, 3, 4]), "{answer:#}");
    // For the plan: as often as the text shows, for this script, as it was shown, once.
    let run = parked(&[], &pays(&[5, 6]));
    let first = waiting().await;
    let decide = format!("approvals/{}", id(&first[0]));
    let plan = |digest: &Value| json!({"allow": true, "scope": "plan", "plan": digest});
    for digest in [json!("0123"), Value::Null] {
        let (status, other) = console.try_post(&decide, &plan(&digest)).await;
        assert!(
            status == StatusCode::BAD_REQUEST && other.to_string().contains("not the one that was shown"),
            "{other}"
        );
    }
    console.post(&decide, &plan(&first[0]["plan_digest"])).await;
    let (status, again) = console.try_post(&decide, &plan(&first[0]["plan_digest"])).await;
    assert!(status == StatusCode::BAD_REQUEST && again.to_string().contains("does not wait any more"), "{again}");
    parked(&["--resume", &run], &pays(&[15, 16]));
    assert_eq!(bank.paid(), [2, 3, 4], "another script asks anew");
    let rest = waiting().await;
    console.post(&format!("approvals/{}", id(&rest[0])), &json!({"allow": false})).await;
    let run = parked(&[], &pays(&[5, 6]));
    let first = waiting().await;
    console.post(&format!("approvals/{}", id(&first[0])), &plan(&first[0]["plan_digest"])).await;
    let answer = bank.json(&["--resume", &run], &pays(&[5, 6]));
    assert_eq!((&answer["ok"], bank.paid()), (&json!(true), vec![2, 3, 4, 5, 6]), "{answer:#}");
    let run = parked(&[], &pays(&[7]));
    let rest = waiting().await;
    assert_eq!((rest.len(), &rest[0]["arguments"]), (1, &json!({"n": 7})), "{rest:#?}");
    console.post(&format!("approvals/{}", id(&rest[0])), &json!({"allow": true, "scope": "once"})).await;
    let answer = bank.json(&["--resume", &run], &pays(&[7]));
    assert_eq!((&answer["ok"], bank.paid()), (&json!(true), vec![2, 3, 4, 5, 6, 7]), "{answer:#}");
    let (status, over) = console.try_post(&format!("approvals/{}", id(&rest[0])), &json!({"allow": false})).await;
    assert!(status == StatusCode::BAD_REQUEST && over.to_string().contains("is used up"), "{over}");
    // The command line has the same: a run, and a reason.
    parked(&[], &pays(&[8]));
    let left = waiting().await;
    let allowed = bank.fence.run(["approvals", "allow", &id(&left[0]), "--run", "--json"]).success().stdout;
    assert!(allowed.contains("\"scope\":\"run\""), "{allowed}");
}

#[tokio::test]
async fn what_a_server_lists_otherwise_is_shown_and_accepted_as_it_was_shown() {
    let Some(fence) = has_python("tests/servers/shifting.py") else { return };
    let tool = |words: &str| json!({"name": "send", "description": words, "inputSchema": {"type": "object"}});
    let list = fence
        .write("list.json", &json!([tool("Sends."), {"name": "look", "inputSchema": {"type": "object"}}]).to_string());
    let log = fence.work().join("log");
    let shifting = python("mail", "shifting.py", &[list.to_str().expect("a path"), log.to_str().expect("a path")])
        .expect("python");
    let config = format!("[manifest]\npin_first_use = true\n{DAEMON}{shifting}");
    fence.write("forge.toml", &config);
    fence.run(["ls", "/mail"]).success();
    fence.write(
        "list.json",
        &json!([tool("Sends to anyone."), {"name": "look", "inputSchema": {"type": "object"}}]).to_string(),
    );
    let console = Page::open(&fence, &[]).signed_in().await;
    let started = Instant::now();
    let drift = loop {
        let drift = console.get("drift").await;
        if drift["items"].as_array().is_some_and(|items| !items.is_empty()) {
            break drift;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{drift}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let item = &drift["items"][0];
    assert_eq!(
        (&item["server"], &item["name"], &item["accept"]),
        (&json!("mail"), &json!("send"), &json!(true)),
        "{drift:#}"
    );
    assert!(item["now"].as_str().is_some_and(|now| now.contains("Sends to anyone.")), "{drift:#}");
    let accept = |digest: &Value| json!({"server": "mail", "kind": "tool", "name": "send", "digest": digest});
    let (status, other) = console.try_post("drift/accept", &accept(&json!("0123"))).await;
    assert!(status == StatusCode::BAD_REQUEST && other.to_string().contains("not as it was shown"), "{other}");
    console.post("drift/accept", &accept(&item["digest"])).await;
    let started = Instant::now();
    while !console.get("drift").await["items"].as_array().is_some_and(Vec::is_empty) {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", console.get("drift").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let called = console.post("call", &json!({"server": "mail", "tool": "send"})).await;
    assert_eq!(called["ok"], json!(true), "{called}");
}

#[tokio::test]
async fn the_endpoint_has_a_console_for_people_with_tokens_alone() {
    let fence = Fence::new();
    let config = fence.write("forge.toml", &samples());
    let added = fence.run(["console", "add", "ops", "--json"]).success().stdout;
    let looks = fence.run(["console", "add", "looks", "--read-only", "--json"]).success().stdout;
    let taken = fence.run(["console", "add", "OPS"]);
    assert!(taken.code == Some(2) && taken.stderr.contains("has a token already"), "{taken:?}");
    let token = |printed: &str| {
        let object: Value = serde_json::from_str(printed).expect("JSON");
        object["token"].as_str().expect("a token").to_owned()
    };
    let (ops, looks) = (token(&added), token(&looks));
    let with = fs::read_to_string(&config).expect("readable");
    assert!(!with.contains(&ops) && with.contains("[console.looks]") && with.contains("read_only = true"), "{with}");
    let served = Served::start(fence, &samples()).await;
    let base = served.url().trim_end_matches("/mcp").to_owned();
    let off = http().get(format!("{base}/console/")).send().await.expect("an answer");
    assert_eq!(off.status(), StatusCode::NOT_FOUND, "without people there is none");
    fs::write(&config, &with).expect("written");
    finish(&mut served.fence.forgefs(["reload"]), "").success();
    let started = Instant::now();
    while http().get(format!("{base}/console/")).send().await.expect("an answer").status() != StatusCode::OK {
        assert!(started.elapsed() < Duration::from_secs(60), "it is served after a reload: {}", served.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let sessions = [signed_in(&base, &ops).await, signed_in(&base, &looks).await];
    let about = async |session: &str| {
        let answer = http().get(format!("{base}/api/about")).bearer_auth(session).send().await.expect("an answer");
        (answer.status(), answer.json::<Value>().await.expect("JSON"))
    };
    for (session, can_act) in sessions.iter().zip([true, false]) {
        let (status, object) = about(session).await;
        assert_eq!((status, &object["can_act"]), (StatusCode::OK, &json!(can_act)), "{object}");
    }
    finish(&mut served.fence.forgefs(["console", "remove", "ops"]), "").success();
    finish(&mut served.fence.forgefs(["reload"]), "").success();
    let started = Instant::now();
    while about(&sessions[0]).await.0 != StatusCode::UNAUTHORIZED {
        assert!(started.elapsed() < Duration::from_secs(60), "its session ends with its token");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(about(&sessions[1]).await.0, StatusCode::OK, "others stay");
    // Nobody ends the sessions of others, however often they sign in.
    let added = served.fence.run(["console", "add", "boss", "--json"]).success().stdout;
    finish(&mut served.fence.forgefs(["reload"]), "").success();
    let boss = token(&added);
    let started = Instant::now();
    let login = json!({ "token": boss }).to_string();
    while http().post(format!("{base}/api/login")).body(login.clone()).send().await.expect("an answer").status()
        != StatusCode::OK
    {
        assert!(started.elapsed() < Duration::from_secs(60), "the token is taken up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let session = signed_in(&base, &boss).await;
    for _ in 0..40 {
        signed_in(&base, &looks).await;
    }
    assert_eq!(about(&session).await.0, StatusCode::OK);
    assert_eq!(about(&sessions[1]).await.0, StatusCode::UNAUTHORIZED, "its own oldest ends");
}

#[tokio::test]
async fn without_a_daemon_the_command_has_a_gateway_of_its_own_and_ctrl_c_ends_it() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    fence.write("one.star", "result = people.list_teams()");
    fence.run(["run", "one.star"]).success();
    let mut console = Page::open(&fence, &[]).signed_in().await;
    let listed = console.get("runs").await;
    assert_eq!((&listed["matched"], &listed["runs"][0]["servers"]), (&json!(1), &json!(["people"])), "{listed}");
    kill(Pid::from_raw(i32::try_from(console.page.child.id()).expect("an id")), Signal::SIGINT).expect("it runs");
    let status = console.page.child.wait().expect("an end");
    assert!(status.success(), "{status:?}");
}

//! Limits of one client: unanswered questions, requests, streams of changes. Those over a limit are refused or
//! abandoned with an explanation, and all others continue.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::{Value, json};

use crate::client::{Era, Fence};
use crate::faulty::{has_python, python};
use crate::policy::{User, config, connected, execute};

const QUESTION: &str = "await chat.send({text: 'x'}); return 'sent'";

fn script(code: &str) -> CallToolRequestParams {
    let arguments = json!({"language": "javascript", "code": code});
    CallToolRequestParams::new("execute").with_arguments(arguments.as_object().cloned().expect("an object"))
}

#[tokio::test]
async fn questions_without_an_answer_keep_nobody_from_running() {
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let keys = "servers.chat.approval = \"writes\"\nsandbox.limits = { runs = 2, queue = 2, wall = \"20s\" }";
    let (fence, user) = (Fence::new(), User::new(Some("allow once")));
    let service = connected(&fence, Era::Modern, keys, &user).await;
    let mut states = Vec::new();
    for n in 0..20 {
        let ask = script(&format!("/* {n} */ {QUESTION}"));
        let CallToolResponse::InputRequired(asked) = service.call_tool_once(ask.clone()).await.expect("asked") else {
            panic!("question {n} is not asked")
        };
        let key = asked.input_requests.expect("a question").keys().next().expect("a question").clone();
        states.push((ask, key, asked.request_state.expect("a state")));
        // With two slots for runs, and a question in each, there was none left.
        let started = Instant::now();
        assert_eq!(execute(&service, "javascript", "return 1").await.as_deref(), Ok("1"), "after {n} questions");
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
    let mut said = Vec::new();
    for (mut ask, key, state) in states {
        ask.request_state = Some(state);
        let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
        ask.input_responses = Some([(key, yes)].into());
        let CallToolResponse::Complete(done) = service.call_tool_once(ask).await.expect("done") else {
            panic!("the answer ends it")
        };
        said.push(
            serde_json::to_value(&done.content).expect("JSON")[0]["text"].as_str().unwrap_or_default().to_owned(),
        );
    }
    // Sixteen wait; earlier ones learn why they do not.
    for (n, said) in said.iter().enumerate() {
        match n {
            0..4 => assert!(
                said.contains("APPROVAL_DENIED: ") && said.contains("16 later requests of this client"),
                "{n}: {said}"
            ),
            _ => assert_eq!(said, "sent", "{n}"),
        }
    }
    // Another gateway with the same configuration is independent.
    let file = fence.write("one.js", "return 1");
    let config = fence.work().join("forge.toml");
    fence.run([Path::new("--config"), &config, Path::new("run"), &file]).success();
    service.cancel().await.expect("the session ends");
}

/// A client that writes and reads lines, and answers nothing.
pub(crate) struct Wire {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    modern: bool,
}

impl Wire {
    pub(crate) fn new(fence: &Fence, config: &str, modern: bool) -> Self {
        let file = fence.write("forge.toml", config);
        let mut command = fence.forgefs([Path::new("--config"), &file, Path::new("serve")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("forgefs starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = line.send(serde_json::from_str(&text).expect("JSON"));
            }
        });
        let mut wire = Self { child, stdin, lines, modern };
        if !modern {
            let info = json!({"name": "test", "version": "1"});
            let params =
                json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info});
            wire.send(json!({"id": 0, "method": "initialize", "params": params}));
            wire.answer(0);
            wire.send(json!({"method": "notifications/initialized"}));
        }
        wire.until_up();
        wire
    }

    pub(crate) fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        if self.modern {
            message["params"]["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            });
        }
        writeln!(self.stdin, "{message}").expect("it reads");
    }

    /// Writes raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stdin.write_all(bytes).expect("it reads");
    }

    pub(crate) fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.send(json!({"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}));
    }

    /// The next line that matches `is`.
    pub(crate) fn next(&self, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).expect("an answer within a minute");
            if is(&line) {
                return line;
            }
        }
    }

    pub(crate) fn answer(&self, id: u64) -> Value {
        self.next(|line| line["id"] == id && line.get("method").is_none())
    }

    fn until_up(&mut self) {
        for n in 1_000_000.. {
            self.call(n, "ls", json!({}));
            let listing = self.answer(n).to_string();
            if !listing.contains("starting") && !listing.contains(" 0 tools") {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Resident memory of the gateway in KiB.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Its peak.
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
    }

    /// Asserts that it still answers, at once.
    pub(crate) fn is_well(&mut self, id: u64) {
        let started = Instant::now();
        self.call(id, "ls", json!({}));
        assert!(self.answer(id)["result"].is_object());
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_of_the_older_revisions_that_answers_nothing_can_go_on_too() {
    let fence = Fence::new();
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let keys = "servers.chat.approval = \"writes\"\nsandbox.limits = { runs = 2, queue = 2, wall = \"20s\" }";
    let mut wire = Wire::new(&fence, &config(&fence, keys), false);
    for n in 1..=20 {
        wire.call(n, "execute", json!({"language": "javascript", "code": QUESTION}));
        if n <= 16 {
            wire.next(|line| line["method"] == "elicitation/create");
        } else {
            // One more than may wait: the first is abandoned, and says so.
            let answer = wire.answer(n - 16).to_string();
            assert!(answer.contains("16 later requests of this client wait for an answer too"), "{answer}");
        }
    }
    wire.call(100, "execute", json!({"language": "javascript", "code": "return 6 * 7"}));
    assert!(wire.answer(100).to_string().contains("42"));
}

#[test]
fn streams_of_changes_are_bounded_and_what_is_over_is_told() {
    let Some(config) = python("hostile", "hostile_words.py", &["\"x\""]) else { return };
    let fence = Fence::new();
    let mut wire = Wire::new(&fence, &config, true);
    let listen = |id: u64, uris: Vec<String>| {
        json!({"id": id, "method": "subscriptions/listen", "params": {"notifications":
            {"resourcesListChanged": true, "resourceSubscriptions": uris}}})
    };
    let before = wire.memory();
    for id in 1..=3000 {
        wire.send(listen(id, vec!["forge:///hostile/say.pyi".to_owned()]));
    }
    let mut refused = 0;
    while refused < 3000 - 64 {
        let answer = wire.next(|line| line.get("error").is_some());
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        assert!(
            answer["error"]["message"].as_str().is_some_and(|m| m.contains("65 items, over the limit of 64 items")),
            "{answer}"
        );
        refused += 1;
    }
    wire.is_well(5000);
    let grown = wire.memory().saturating_sub(before);
    assert!(grown < 60 << 10, "3,000 streams take {grown} KiB");
    // A cancelled stream frees its slot.
    wire.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1}}));
    for (id, uris, why) in [
        (6001, vec!["x".repeat(9000)], "over the limit of 8192 bytes"),
        // With those of the streams that there are.
        (6002, (0..938).map(|n| format!("forge:///{n}")).collect(), "1001 items, over the limit of 1000 items"),
    ] {
        wire.send(listen(id, uris));
        let answer = wire.answer(id);
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains(why)), "{answer}");
    }
    wire.send(listen(6003, Vec::new()));
    wire.next(|line| line["method"] == "notifications/subscriptions/acknowledged" && line.to_string().contains("6003"));
    wire.send(listen(6004, Vec::new()));
    assert!(wire.answer(6004)["error"]["message"].as_str().is_some_and(|message| message.contains("64 items")));
    wire.is_well(7000);
}

#[test]
fn requests_under_way_are_bounded_and_what_is_over_is_told() {
    let Some(config) = python("hostile", "hostile_words.py", &["\"x\""]) else { return };
    for modern in [false, true] {
        let fence = Fence::new();
        let mut wire = Wire::new(&fence, &config, modern);
        let read = |id: u64| json!({"id": id, "method": "resources/read", "params": {"uri": format!("forge:///hostile/resources/slow://{id}")}});
        for id in 1..=1200 {
            wire.send(read(id));
        }
        for _ in 0..(1200 - 1024) {
            let answer = wire.next(|line| line.get("error").is_some());
            assert_eq!(answer["error"]["code"], -32000, "{answer}");
            assert_eq!(answer["error"]["data"]["code"], "BUSY", "{answer}");
            let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert_eq!(message, "requests under way: 1025 items, over the limit of 1024 items");
        }
        // Cancellations of existing requests and of some that never existed.
        for id in 1..=20_000 {
            wire.send(json!({"method": "notifications/cancelled", "params": {"requestId": id}}));
        }
        wire.is_well(200_000);
        wire.send(json!({"id": 200_001, "method": "tools/list", "params": {}}));
        assert!(wire.answer(200_001)["result"]["tools"].is_array());
    }
}

#[test]
fn resource_subscriptions_of_the_older_revisions_and_log_levels_are_bounded() {
    let Some(config) = python("hostile", "hostile_words.py", &["\"x\""]) else { return };
    let fence = Fence::new();
    let mut wire = Wire::new(&fence, &config, false);
    let subscribe = |id: u64, uri: String| json!({"id": id, "method": "resources/subscribe", "params": {"uri": uri}});
    for id in 1..=1001 {
        wire.send(subscribe(id, format!("forge:///{id}")));
        let answer = wire.answer(id);
        assert_eq!(answer.get("error").is_some(), id == 1001, "{answer}");
    }
    wire.send(subscribe(2000, "x".repeat(9000)));
    assert!(wire.answer(2000).to_string().contains("over the limit of 8192 bytes"));
    for id in 3000..13_000 {
        wire.send(json!({"id": id, "method": "logging/setLevel", "params": {"level": "debug"}}));
    }
    wire.answer(12_999);
    wire.is_well(20_000);
}

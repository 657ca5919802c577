//! State that outlives a request is bounded for any reads, questions, consents and calls, as counted by the gateway
//! itself in entries, bytes and tasks.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use regex::Regex;
use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};

use crate::asking::run;
use crate::client::{Era, Fence, up};
use crate::faulty::{has_python, python};
use crate::http::free_port;
use crate::policy::{User, connected};
use crate::telemetry::metrics;

/// Tools of the large server: more than half of the reads that a session remembers.
const TOOLS: usize = 5_200;
/// Tools that need approval, and calls of one script.
const ASKED: usize = 100;

async fn call<C: ClientHandler>(
    service: &RunningService<RoleClient, C>,
    tool: &'static str,
    arguments: Value,
) -> String {
    let arguments = arguments.as_object().cloned().expect("an object");
    let answer = service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
    let answer = serde_json::to_value(answer.expect("the protocol works")).expect("JSON");
    assert_ne!(answer["isError"], true, "{tool}: {answer}");
    answer["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Usage by kind: entries and bytes; and the number of tasks.
async fn kept(port: u16) -> (HashMap<String, (usize, usize)>, usize) {
    let text = metrics(port).await;
    let line = Regex::new(r#"(?m)^forgefs_kept_(entries|bytes)\{what="([a-z_]+)"\} (\d+)$"#).expect("valid");
    let mut kinds: HashMap<String, (usize, usize)> = HashMap::new();
    for found in line.captures_iter(&text) {
        let number = found[3].parse().expect("a number");
        let kind = kinds.entry(found[2].to_owned()).or_default();
        if &found[1] == "entries" { kind.0 = number } else { kind.1 = number }
    }
    let tasks = text.lines().find_map(|line| line.strip_prefix("forgefs_tasks ")).expect("a line");
    (kinds, tasks.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_reads_queries_consents_and_calls_leave_what_is_bounded() {
    let Some(many) = python("many", "many.py", &[&TOOLS.to_string()]) else { return };
    let asked = python("asked", "many.py", &[&ASKED.to_string()]).expect("there is Python");
    let (fence, user, port) = (Fence::new(), User::new(Some("allow for this session")), free_port());
    let config = fence.write(
        "forge.toml",
        &format!(
            "{many}{asked}approval = \"always\"\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n[memory]\nresults = \"2MiB\"\n\
             [sandbox.limits]\ncalls = {ASKED}\nconcurrency = 16\nwall = \"10m\"\n"
        ),
    );
    let command = fence.forgefs(["--config".as_ref(), config.as_path(), "serve".as_ref()]);
    let (service, _) = fence.attach(Era::Legacy, command, user.clone()).await;
    for server in ["many", "asked"] {
        let is_up = Regex::new(&up(server)).expect("names are plain");
        while !is_up.is_match(&call(&service, "ls", json!({})).await) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    run(&service, "return 1").await.expect("it runs");
    let (_, tasks) = kept(port).await;

    // Reads: all stubs of the large server, and queries.
    for first in (0..TOOLS).step_by(50) {
        let paths: Vec<String> = (first..first + 50).map(|n| format!("/many/tool{n:05}.pyi")).collect();
        assert!(call(&service, "cat", json!({"path": paths})).await.contains(&format!("tool{:05}(", first + 49)));
        if first % 500 == 0 {
            call(&service, "search", json!({"query": format!("way {first}")})).await;
        }
    }
    let (kinds, _) = kept(port).await;
    assert_eq!(kinds["reads"].0, TOOLS, "{kinds:?}");
    // A request without calls has a record only if its reads would be too many without one.
    assert!(kinds["unrecorded_reads"].0 < TOOLS - 5000, "{kinds:?}");
    let records = fs::read_to_string(fence.audit()).expect("an audit file");
    assert_eq!(records.lines().filter(|line| line.contains("\"request\":\"cat\"")).count(), 1);
    // Patterns: a call of every twentieth tool, each with a pattern of its own; and results over the budget.
    for part in 0..5 {
        let code = format!(
            "let all = [];
             for (let n = {part}; n < {TOOLS}; n += 100) {{
                 const tool = 'tool' + String(n).padStart(5, '0');
                 all.push(await forge.callTool('many', tool, {{text: 'a', times: 1000}}));
             }}
             return all"
        );
        run(&service, &code).await.expect("it runs");
    }
    // Consents: every tool of the other server, twice.
    let code = format!(
        "const call = (n) => forge.callTool('asked', 'tool' + String(n).padStart(5, '0'), {{text: 'a'}});
         await Promise.all(Array.from({{length: {ASKED}}}, (_, n) => call(n))); return 1"
    );
    run(&service, &code).await.expect("allowed");
    let questions = user.asked().len();
    assert_eq!(questions, ASKED, "each was asked about");
    run(&service, &code).await.expect("allowed before");
    assert_eq!(user.asked().len(), 0);
    let (kinds, after) = kept(port).await;
    let held = |what: &str| kinds[what];
    assert_eq!(held("consents").0, ASKED, "{kinds:?}");
    assert!(held("consents").1 <= 1 << 20, "{kinds:?}");
    // Of 260; these are large, so the byte limit decides.
    assert!((50..=128).contains(&held("patterns").0) && held("patterns").1 <= 32 << 20, "{kinds:?}");
    assert!(held("reads").0 == TOOLS && held("reads").1 <= 16 << 20, "{kinds:?}");
    assert_eq!(held("unrecorded_reads"), (0, 0), "{kinds:?}");
    assert!(held("results").1 <= 2 << 20, "{kinds:?}");
    assert!(after <= tasks + 20, "tasks are left behind: {tasks} → {after}");
    service.cancel().await.expect("the session ends");
}

/// For each question the client comes back with an answer; the timeout task must not stay behind.
#[tokio::test]
async fn questions_that_were_answered_leave_no_task_behind() {
    const QUESTIONS: usize = 60;
    if has_python("tests/servers/policy.py").is_none() {
        return;
    }
    let (port, user) = (free_port(), User::new(Some("allow once")));
    let keys = format!("servers.chat.approval = \"always\"\nmetrics.listen = \"127.0.0.1:{port}\"");
    let fence = Fence::new();
    let service = connected(&fence, Era::Modern, &keys, &user).await;
    run(&service, "return 1").await.expect("it runs");
    let (_, before) = kept(port).await;
    for _ in 0..QUESTIONS {
        run(&service, "await chat.send({text: 'x'}); return 1").await.expect("allowed");
    }
    assert_eq!(user.asked().len(), QUESTIONS);
    let (_, after) = kept(port).await;
    assert!(after < before + QUESTIONS / 2, "tasks are left behind: {before} → {after}");
    service.cancel().await.expect("the session ends");
}

/// A client that reads nothing, and cancels answered requests so that they are not in flight.
#[test]
fn a_client_that_does_not_read_is_not_read_from_until_it_does() {
    const BATCH: u64 = 500;
    let fence = Fence::new();
    let config = fence.write("forge.toml", "");
    let mut command = fence.forgefs(["--config".as_ref(), config.as_path(), "serve".as_ref()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("forgefs starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut send = |mut message: Value| {
            message["jsonrpc"] = json!("2.0");
            writeln!(stdin, "{message}").is_ok()
        };
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        send(json!({"id": 0, "method": "initialize", "params": params}));
        send(json!({"method": "notifications/initialized"}));
        for batch in 0.. {
            let ids = batch * BATCH + 1..=(batch + 1) * BATCH;
            let asked = ids.clone().all(|id| send(json!({"id": id, "method": "tools/list", "params": {}})));
            // On any machine the answers are made meanwhile, and wait to be written.
            std::thread::sleep(Duration::from_millis(500 * (batch + 1)));
            let cancel = |id| json!({"method": "notifications/cancelled", "params": {"requestId": id}});
            if !(asked && ids.map(cancel).all(&mut send) && tell.send(()).is_ok()) {
                return;
            }
        }
    });
    let stalls = (0..20).any(|_| told.recv_timeout(Duration::from_secs(25)).is_err());
    assert!(stalls, "it goes on reading from a client that reads no answer");
    std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).for_each(drop));
    for _ in 0..2 {
        told.recv_timeout(Duration::from_secs(120)).expect("it goes on");
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A client that asks for more than it may leave unread, and reads late.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_begin_once_their_client_reads_and_none_of_their_answers_is_lost() {
    const ASKED: u64 = 80;
    let (fence, port) = (Fence::new(), free_port());
    let limits = "[sandbox.limits]\nruns = 2\nresult_tokens = 1000000\n";
    let config = fence.write("forge.toml", &format!("{limits}[metrics]\nlisten = \"127.0.0.1:{port}\"\n"));
    let mut command = fence.forgefs(["--config".as_ref(), config.as_path(), "serve".as_ref()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("forgefs starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut send = |mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        writeln!(stdin, "{message}").expect("it reads");
    };
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    send(json!({"id": 0, "method": "initialize", "params": params}));
    send(json!({"method": "notifications/initialized"}));
    let mut lines = BufReader::new(stdout).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("a text")).expect("JSON") };
    assert_eq!(next()["id"], 0);
    let script = json!({"language": "starlark", "code": "'x' * 3500000"});
    for id in 1..=ASKED {
        send(json!({"id": id, "method": "tools/call", "params": {"name": "execute", "arguments": script}}));
    }
    let sum = |text: &str, name: &str| -> u64 {
        let of = text
            .lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        of.sum::<u64>()
    };
    let mut before = 0;
    let ran = loop {
        let text = metrics(port).await;
        let open = sum(&text, "forgefs_workers_busy ") + sum(&text, "forgefs_scripts_waiting ");
        let ran = sum(&text, "forgefs_executions_total{");
        if ran > 10 && ran == before && open == 0 {
            break ran;
        }
        before = ran;
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    assert!((19..30).contains(&ran), "64 MiB may be unread, and {ran} scripts with 3.5 MB each ran");
    for _ in 0..ASKED {
        let answer = next();
        assert_eq!(answer["result"]["isError"], json!(false), "{}", base::text::brief(&answer.to_string()));
    }
    let _ = child.kill();
    let _ = child.wait();
}

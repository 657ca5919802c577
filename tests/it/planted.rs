//! One secret for every way into the gateway, searched on every way out. The printed table says for each pair whether
//! the text got there (`redacted`: the word beside the secret is there) or not (`-`).
#![expect(clippy::print_stdout, reason = "the table is for whoever reads the output")]
#![expect(deprecated, reason = "servers go on to use logging, which 2026-07-28 deprecates")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, LoggingMessageNotificationParam, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use serde_json::{Value, json};

use crate::client::{Era, Fence, up};
use crate::faulty::python;
use crate::http::free_port;
use crate::telemetry::{Collector, metrics};

/// Ways in: what the configuration holds, what servers say, and what the agent writes.
const WAYS: [&str; 18] = [
    "env", "file", "command", "dotenv", "header", "header-file", "header-command", "result", "tool-error",
    "protocol-error", "response-header", "resource", "prompt", "progress", "log", "stderr", "description", "script",
];

/// Where the text of a way must turn up, without its secret: else the test would look in the wrong places.
const REACHED: [(&str, &str); 29] = [
    ("env", "answer"),
    ("file", "answer"),
    ("command", "answer"),
    ("command", "error"),
    ("command", "notifications"),
    ("command", "stderr file"),
    ("dotenv", "answer"),
    ("header", "answer"),
    ("header-file", "answer"),
    ("header-command", "answer"),
    ("result", "answer"),
    ("result", "result file"),
    ("result", "stash"),
    ("result", "captured output"),
    ("tool-error", "error"),
    ("protocol-error", "error"),
    ("protocol-error", "protocol error"),
    ("resource", "answer"),
    ("prompt", "answer"),
    ("progress", "notifications"),
    ("log", "notifications"),
    ("stderr", "stderr file"),
    ("stderr", "error"),
    ("description", "stubs"),
    ("description", "kept stubs"),
    ("script", "answer"),
    ("script", "captured output"),
    ("script", "error"),
    ("script", "audit"),
];

/// Ways of the configuration.
const CONFIGURED: [&str; 7] = ["env", "file", "command", "dotenv", "header", "header-file", "header-command"];

/// A configured secret is recognised by its value, the others by their form.
fn secret(way: &str) -> String {
    let number = WAYS.iter().position(|known| *known == way).expect("a way");
    match way {
        _ if CONFIGURED.contains(&way) => format!("plain-words-of-the-{way}"),
        _ => format!("ghp_{}{}", "a1B2c3D4e5F6".repeat(2), format!("x{number:02}Y").repeat(3)),
    }
}

/// A client that records messages.
#[derive(Clone, Default)]
struct Client(Arc<Mutex<String>>);

impl Client {
    fn hear(&self, said: String) {
        self.0.lock().expect("not poisoned").push_str(&said);
    }
}

impl ClientHandler for Client {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(format!("{params:?}\n"));
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(format!("{params:?}\n"));
    }
}

/// Text on the ways out, by name.
#[derive(Default)]
struct Found(BTreeMap<&'static str, String>);

impl Found {
    fn add(&mut self, place: &'static str, text: &str) {
        let found = self.0.entry(place).or_default();
        found.push_str(text);
        found.push('\n');
    }

    /// The table, in Markdown, and the pairs that leak.
    fn table(&self) -> (String, Vec<String>) {
        let places: Vec<&str> = self.0.keys().copied().collect();
        let mut table = format!("| planted in | {} |\n|---|{}\n", places.join(" | "), "---|".repeat(places.len()));
        let mut leaks = Vec::new();
        for way in WAYS {
            let cell = |place: &&str| {
                let text = &self.0[*place];
                match (text.contains(&secret(way)), text.contains(&format!("canary-{way}"))) {
                    (true, _) => "LEAK",
                    (false, true) => "redacted",
                    (false, false) => "-",
                }
            };
            let cells: Vec<&str> = places.iter().map(cell).collect();
            let _ = writeln!(table, "| {way} | {} |", cells.join(" | "));
            let leaking = places.iter().zip(cells).filter(|(_, cell)| *cell == "LEAK");
            leaks.extend(leaking.map(|(place, _)| format!("{way} in {place}")));
        }
        (table, leaks)
    }
}

type Service = RunningService<RoleClient, Client>;

async fn call(service: &Service, tool: &'static str, arguments: Value) -> (bool, String) {
    let arguments = arguments.as_object().expect("an object").clone();
    let result = service.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.expect("answered");
    let texts: Vec<String> =
        result.content.iter().map(|content| serde_json::to_string(content).expect("JSON")).collect();
    (result.is_error.unwrap_or(false), texts.join("\n"))
}

async fn run(service: &Service, found: &mut Found, place: &'static str, language: &str, code: &str) {
    let (is_error, text) = call(service, "execute", json!({"language": language, "code": code})).await;
    found.add(if is_error { "error" } else { place }, &text);
}

/// All operations of scripts on servers' texts.
async fn scripts(service: &Service, found: &mut Found) {
    for server in ["near", "far"] {
        for tool in ["own", "result", "large", "fail", "refuse", "grumble"] {
            run(service, found, "answer", "javascript", &format!("return await {server}.{tool}()")).await;
            run(service, found, "answer", "starlark", &format!("{server}.{tool}()")).await;
            let caught = format!("try {{ return await {server}.{tool}() }} catch (e) {{ return [e.message, e.data] }}");
            run(service, found, "answer", "javascript", &caught).await;
            let printed = format!("console.log(JSON.stringify(await {server}.{tool}())); return 1");
            run(service, found, "captured output", "javascript", &printed).await;
            let thrown = format!("throw new Error(JSON.stringify(await {server}.{tool}()))");
            run(service, found, "error", "javascript", &thrown).await;
        }
        run(service, found, "answer", "javascript", &format!("return await forge.readResource('{server}', 'x://all')"))
            .await;
        run(service, found, "answer", "javascript", &format!("return await forge.prompt('{server}', 'greet', {{}})"))
            .await;
        let kept = format!("const v = await {server}.result(); await forge.stash.put(v.text, v); return 1");
        run(service, found, "stash", "javascript", &kept).await;
    }
    run(
        service,
        found,
        "stash",
        "javascript",
        "const k = await forge.stash.keys(); return [k, await forge.stash.get(k[0])]",
    )
    .await;
    run(service, found, "answer", "javascript", "return await near.progress()").await;
    let written = format!("canary-script {}", secret("script"));
    run(service, found, "answer", "javascript", &format!("return {written:?}")).await;
    run(service, found, "answer", "starlark", &format!("{written:?}")).await;
    run(service, found, "captured output", "javascript", &format!("console.log({written:?}); return 1")).await;
    run(service, found, "error", "javascript", &format!("throw new Error({written:?})")).await;
    run(service, found, "error", "starlark", &format!("fail({written:?})")).await;
    // The line of an error is shown, and arguments are on record.
    run(service, found, "error", "javascript", &format!("const text = {written:?}; text.no()")).await;
    run(service, found, "error", "javascript", &format!("return await near.none({{ text: {written:?} }})")).await;
    run(service, found, "answer", "javascript", &format!("return await near.result({{ text: {written:?} }})")).await;
    // A script does not get what an error's data has either.
    let seen = "try { await near.refuse() } catch (e) { return [...e.data.seen].reverse().join('') }";
    let (_, seen) = call(service, "execute", json!({"language": "javascript", "code": seen})).await;
    let seen: String = seen.chars().rev().collect();
    assert!(seen.contains("canary-protocol-error [redacted:") && !seen.contains(&secret("protocol-error")), "{seen}");
    // Workers that die with secrets in hand.
    for code in [
        "const v = await near.result(); const all = []; for (;;) all.push(v.text.repeat(1000) + all.length)",
        "const v = await near.result(); for (;;) {}",
        "const v = await near.result(); const f = () => f(v) + 1; return f()",
    ] {
        let (is_error, text) = call(service, "execute", json!({"language": "javascript", "code": code})).await;
        assert!(is_error, "{text}");
        found.add("worker crash", &text);
    }
    run(service, found, "error", "starlark", "near.crash()").await;
}

async fn files(service: &Service, found: &mut Found) {
    for server in ["near", "far"] {
        for path in [format!("/{server}/**"), format!("/{server}/result.md"), format!("/{server}/result.json")] {
            found.add("stubs", &call(service, "cat", json!({"path": path})).await.1);
        }
        found.add("stubs", &call(service, "ls", json!({"path": format!("/{server}"), "depth": 3})).await.1);
        found.add("answer", &call(service, "cat", json!({"path": format!("/{server}/resources/x://all")})).await.1);
    }
    found.add("stubs", &call(service, "search", json!({"query": "says canary description"})).await.1);
    found.add("stderr file", &call(service, "cat", json!({"path": "/near/stderr"})).await.1);
    let stored = call(service, "ls", json!({"path": "/results"})).await.1;
    let path = stored.split(['"', ' ', '\n']).find(|word| word.starts_with("/results/") && word.ends_with(".txt"));
    let path = path.unwrap_or_else(|| panic!("a large result is stored: {stored}"));
    found.add("result file", &call(service, "cat", json!({"path": path})).await.1);
}

/// What `ps` shows of every process, and the environments that this user can read.
fn command_lines() -> String {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_ours = line.contains("forgefs\0worker");
        let environment = std::fs::read(process.path().join("environ")).ok().filter(|_| is_ours).unwrap_or_default();
        Some(format!("{line} {}", String::from_utf8_lossy(&environment)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads every file below a folder.
fn at_rest(folder: &Path, read: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => at_rest(&path, read),
            Ok(kind) if kind.is_file() => {
                read(&path, &String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()));
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_secret_from_anywhere_gets_nowhere() {
    let fence = Fence::new();
    let secrets: BTreeMap<&str, String> = WAYS.into_iter().map(|way| (way, secret(way))).collect();
    let planted = fence.write("planted.json", &json!(secrets).to_string());
    let planted = planted.to_str().expect("a path is text");
    let Some(near) = python("near", "planted.py", &[planted]) else { return };
    let (port, scrape) = (free_port(), free_port());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/planted.py");
    let mut server = Command::new("python3");
    server.args([script, planted, &port.to_string()]).stdin(Stdio::null());
    let mut server = tokio::process::Command::from(server).kill_on_drop(true).spawn().expect("python3 starts");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut collector = Collector::start().await;
    let config = format!(
        "env_files = [\".env\"]\n{near}[servers.near.env]\nOWN_ENV = \"${{OWN_VARIABLE}}\"\nOWN_DOTENV = \"${{FROM_FILE}}\"\n\
         OWN_FILE = {{ file = \"near.txt\" }}\nOWN_COMMAND = {{ command = [\"sh\", \"near.sh\"] }}\n\
         [servers.far]\nurl = \"http://127.0.0.1:{port}/mcp\"\n[servers.far.headers]\n\
         Authorization = \"Bearer {}\"\nX-Own-File = {{ file = \"far.txt\" }}\n\
         X-Own-Command = {{ command = [\"cat\", {:?}], prefix = \"Key \" }}\n\
         [metrics]\nlisten = \"127.0.0.1:{scrape}\"\n[telemetry]\nendpoint = \"http://127.0.0.1:{}\"\n\
         headers = {{ X-Api-Key = \"key-of-the-collector\" }}\n[sandbox.limits]\ncpu = \"1s\"\nresult_tokens = 400\n",
        secret("header"),
        fence.write("far-command.txt", &secret("header-command")),
        collector.port
    );
    for (file, way) in [("near.txt", "file"), ("far.txt", "header-file")] {
        fence.write(file, &secret(way));
    }
    fence.write(".env", &format!("FROM_FILE={}\n", secret("dotenv")));
    fence.write("near.sh", &format!("# Says more than it should.\nset -x\necho {}\n", secret("command")));
    let path = fence.write("forge.toml", &config);
    let mut command =
        fence.forgefs(["--config", path.to_str().expect("text"), "--log", "forgefs=debug,rmcp=debug", "serve"]);
    command.env("OWN_VARIABLE", secret("env"));
    let client = Client::default();
    let (service, _) = fence.attach(Era::Legacy, command, client.clone()).await;
    let ready = regex::RegexSet::new([up("near"), up("far")]).expect("valid");
    while !ready.matches(&call(&service, "ls", json!({})).await.1.replace("\\n", "\n")).matched_all() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut found = Found::default();
    found.add("command lines", &command_lines());
    scripts(&service, &mut found).await;
    files(&service, &mut found).await;
    let refused = service.get_prompt(GetPromptRequestParams::new("near.refuse")).await.expect_err("it refuses");
    found.add("protocol error", &format!("{refused:?}"));
    found.add("notifications", &client.0.lock().expect("not poisoned"));
    found.add("metrics", &metrics(scrape).await);
    service.cancel().await.expect("the session ends");
    found.add("traces", &String::from_utf8_lossy(&collector.everything().await));
    found.add("log", &fence.stderr());
    found.add("audit", &std::fs::read_to_string(fence.audit()).expect("an audit file"));
    for kept in std::fs::read_dir(fence.audit().with_extension("objects")).expect("stubs that were read are kept") {
        found.add("kept stubs", &std::fs::read_to_string(kept.expect("a file").path()).expect("a text"));
    }
    at_rest(&fence.work().join("../home"), &mut |path, text| {
        for way in CONFIGURED {
            assert!(!text.contains(&secret(way)), "{way} is written to {}", path.display());
        }
    });
    assert!(found.0["traces"].contains("tools/call near.result"), "spans come");
    let (table, leaks) = found.table();
    println!("{table}");
    assert!(leaks.is_empty(), "{leaks:?}\n{table}");
    for (way, place) in REACHED {
        assert!(found.0[place].contains(&format!("canary-{way}")), "{way} does not get to {place}\n{table}");
    }
    let _ = server.kill().await;
}

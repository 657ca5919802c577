//! Identity of a tool: a call goes only to the definition listed on its own connection, however the server changes. The
//! server is tests/servers/shifting.py, which lists the contents of a file at its start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::has_python;
use crate::policy::{User, execute};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/shifting.py");

/// A server that lists the contents of its file.
struct Shifting {
    name: String,
    file: PathBuf,
    log: PathBuf,
}

impl Shifting {
    fn new(fence: &Fence, name: &str, tools: &Value) -> Self {
        let file = fence.write(format!("{name}.tools"), &tools.to_string());
        Self { name: name.to_owned(), log: file.with_extension("log"), file }
    }

    fn lists(&self, tools: &Value) {
        fs::write(&self.file, tools.to_string()).expect("written");
    }

    /// Delays its lists by `seconds`.
    fn delays(&self, seconds: &str) {
        fs::write(self.file.with_extension("tools.delay"), seconds).expect("written");
    }

    fn config(&self, flags: &[&str], keys: &str) -> String {
        let mut args = vec![SCRIPT.to_owned(), self.file.display().to_string(), self.log.display().to_string()];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        format!("[servers.{}]\ncommand = \"python3\"\nargs = {args:?}\n{keys}\n", self.name)
    }

    /// Starts it on HTTP until the value is dropped; returns its port too.
    fn http(&self, mode: &str, flags: &[&str]) -> (Running, String) {
        let port = self.file.with_extension("port");
        let mut command = Command::new("python3");
        command.arg(SCRIPT).arg(&self.file).arg(&self.log).args(flags).args(["--http", mode]).arg(&port);
        let child = command.stdin(Stdio::piped()).spawn().expect("python starts");
        let started = Instant::now();
        while !port.exists() {
            assert!(started.elapsed() < Duration::from_secs(30), "no port");
            std::thread::sleep(Duration::from_millis(20));
        }
        (Running(child), fs::read_to_string(port).expect("a port"))
    }

    /// Number of times a line was logged.
    fn count(&self, line: &str) -> usize {
        fs::read_to_string(&self.log).unwrap_or_default().lines().filter(|logged| *logged == line).count()
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tool(description: &str) -> Value {
    json!({"name": "send", "description": description, "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}})
}

/// `send` with this description, beside tools with effects.
fn tools(description: &str) -> Value {
    let fault = |name: &str, idempotent: bool| {
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"fault": {"type": "string"}}},
            "annotations": {"idempotentHint": idempotent}})
    };
    json!([tool(description), fault("act", false), fault("safe", true)])
}

/// Calls a tool; returns its answer, or the error code.
async fn called(session: &Session, server: &str, tool: &str, arguments: Value) -> String {
    let code = format!(
        "try {{ return await forge.callTool({server:?}, {tool:?}, {arguments}) }} catch (error) {{ return error.code }}"
    );
    session.execute("javascript", &code).await.as_str().expect("text").to_owned()
}

/// Waits until the root shows `what` of a server.
async fn shows(session: &Session, what: &str) {
    let started = Instant::now();
    loop {
        let listing = session.call("ls", json!({"path": "/", "depth": 2})).await.text;
        if listing.contains(what) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "no {what} in {listing}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls until the catalog has caught up.
async fn followed(session: &Session, server: &str, expected: &str) {
    let started = Instant::now();
    loop {
        let answer = called(session, server, "send", json!({})).await;
        if answer == expected {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{answer}, not {expected}\n{}", session.stderr());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Changes of `send`: name, new list, and expected result of a call.
fn mutations() -> Vec<(&'static str, Value, &'static str)> {
    let with = |key: &str, value: Value| {
        let mut tool = tool("Sends mail.");
        tool[key] = value;
        json!([tool])
    };
    let schema = |schema: Value| with("inputSchema", schema);
    let other = tool("Sends mail to everyone.");
    let same = tool("Sends mail.");
    let named = |name: &str| json!([{"name": name, "description": "Sends mail.", "inputSchema": same["inputSchema"]}]);
    let sorted = r#"[{"inputSchema": {"properties": {"to": {"type": "string"}}, "type": "object"}, "name": "send", "description": "Sends mail."}]"#;
    let (good, bad) = ("send done", "TOOL_CHANGED");
    vec![
        ("nothing", json!([same]), good),
        ("keys in another order", serde_json::from_str(sorted).expect("JSON"), good),
        ("one more tool", json!([{"name": "aaa"}, same]), good),
        ("a second of its name, after it", json!([same, other]), good),
        ("a nameless entry", json!([{"description": "x"}, same]), good),
        ("one word", json!([tool("Sends spam.")]), bad),
        ("a line end", json!([tool("Sends mail.\n")]), bad),
        ("an invisible character", json!([tool("Sends\u{200b} mail.")]), bad),
        ("a letter that looks alike", json!([tool("S\u{435}nds mail.")]), bad),
        ("a title", with("title", json!("Send")), bad),
        ("an annotation", with("annotations", json!({"readOnlyHint": true})), bad),
        ("its metadata", with("_meta", json!({"x": 1})), bad),
        ("a shape of its result", with("outputSchema", json!({"type": "object"})), bad),
        (
            "one more parameter",
            schema(json!({"type": "object", "properties": {"to": {"type": "string"}, "bcc": {"type": "string"}}})),
            bad,
        ),
        ("a parameter's type", schema(json!({"type": "object", "properties": {"to": {"type": "number"}}})), bad),
        (
            "a required parameter",
            schema(json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]})),
            bad,
        ),
        ("no schema", schema(json!({})), bad),
        ("a second of its name, before it", json!([other, same]), bad),
        ("another name", named("sent"), bad),
        ("its name in another case", named("Send"), bad),
        ("its name with a space", named("send "), bad),
        ("no tool at all", json!([]), bad),
    ]
}

/// Each server is a changed one when the first call starts it, with the list of its last start in the cache.
#[tokio::test]
async fn a_lazy_start_is_compared_with_the_list_that_callers_know() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let cases = mutations();
    let servers: Vec<Shifting> =
        (0..cases.len()).map(|n| Shifting::new(&fence, &format!("m{n}"), &json!([tool("Sends mail.")]))).collect();
    // All are started at once, for the first list.
    let keys = "start = \"lazy\"\nconnect_timeout = \"120s\"";
    let config: String = servers.iter().map(|server| server.config(&[], keys)).collect();
    let session = fence.serve(&config).await;
    session.ready(&servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>()).await;
    session.close().await;
    for (server, (_, list, _)) in servers.iter().zip(&cases) {
        server.lists(list);
    }
    let session = fence.serve(&config).await;
    session.ready(&servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>()).await;
    let mut faults = Vec::new();
    for (server, (what, _, expected)) in servers.iter().zip(&cases) {
        let answer = called(&session, &server.name, "send", json!({"to": "x"})).await;
        let (sent, lists) = (server.count("call send"), server.count("list"));
        // The entry takes the list read for the call: one list per start.
        if answer != *expected || sent != usize::from(*expected == "send done") || lists != 2 {
            faults.push(format!("{what}: {answer}, sent {sent} times, {lists} lists"));
        }
    }
    session.close().await;
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Every way in which a connection over stdio can become another one.
#[tokio::test]
async fn a_process_that_is_another_one_is_not_called_as_the_first() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let before = || tools("Sends mail.");
    for (what, keys) in
        [("crash", ""), ("killed", ""), ("rested", "idle_stop = \"1s\""), ("repeated", ""), ("told", "")]
    {
        let name = what.replace(' ', "_");
        let server = Shifting::new(&fence, &name, &before());
        let flags: &[&str] = if what == "told" { &["--tells"] } else { &[] };
        let session = fence.serve(&server.config(flags, keys)).await;
        session.ready(&[&name]).await;
        if what != "rested" {
            assert_eq!(called(&session, &name, "send", json!({})).await, "send done", "{what}");
        }
        let sent = server.count("call send");
        server.lists(&tools("Sends spam."));
        match what {
            "crash" => {
                assert_eq!(called(&session, &name, "act", json!({"fault": "crash"})).await, "TRANSPORT_DEAD");
            }
            "killed" => {
                let log = fs::read_to_string(&server.log).expect("a log");
                let pid = log.lines().rev().find_map(|line| line.strip_prefix("pid ")).expect("a process");
                assert!(Command::new("kill").args(["-9", pid]).status().expect("kill").success());
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            "rested" => shows(&session, "resting").await,
            "repeated" => {
                // It may be retried, but `safe` only has the same name: nothing is known of the new process.
                let mut tools = tools("Sends spam.");
                tools[2]["description"] = json!("Safe no more.");
                server.lists(&tools);
                assert_eq!(called(&session, &name, "safe", json!({"fault": "crash"})).await, "TOOL_CHANGED");
                assert_eq!(server.count("call safe"), 1, "it was not repeated");
                session.close().await;
                continue;
            }
            _ => {
                assert_eq!(called(&session, &name, "act", json!({"fault": "reload"})).await, "act done");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let code = format!(
            "try {{ return await {name}.send({{to: 'x'}}) }} catch (error) {{ return `${{error.code}} ${{error.message}}` }}"
        );
        let refused = session.execute("javascript", &code).await.to_string();
        // If the catalog has caught up already, the call is one of the current tool.
        if what != "told" || refused != "\"send done\"" {
            assert!(refused.contains(&format!("TOOL_CHANGED {name}.send: not called")), "{what}: {refused}");
            assert_eq!(server.count("call send"), sent, "{what}");
        }
        followed(&session, &name, "send done").await;
        session.close().await;
    }
}

/// Within one script, whose catalog does not change, a changed tool is not called as the old one.
#[tokio::test]
async fn a_change_that_is_told_holds_for_the_next_call_of_the_same_script() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let server = Shifting::new(&fence, "shifting", &tools("Sends mail."));
    let session = fence.serve(&server.config(&["--tells"], "")).await;
    session.ready(&["shifting"]).await;
    let read = async || assert!(!session.call("cat", json!({"path": "/shifting/send.pyi"})).await.is_error);
    read().await;
    server.lists(&tools("Sends spam."));
    let code = "await shifting.send(); await shifting.act({fault: 'reload'});
        for (let n = 0; n < 50; n++) { try { await shifting.send() } catch (error) { return [n < 50, error.code] } }
        return 'never refused'";
    assert_eq!(session.execute("javascript", code).await, json!([true, "TOOL_CHANGED"]));
    // Later scripts call the new one, and say so until its stub is read.
    followed(&session, "shifting", "send done").await;
    for is_noted in [true, false] {
        let arguments = json!({"language": "javascript", "code": "return await shifting.send()"});
        let answer = session.call("execute", arguments).await.text;
        let note = "note: /shifting/send.pyi has changed since it was read; `cat` it again";
        assert_eq!(answer.contains(note), is_noted, "{answer}");
        read().await;
    }
    session.close().await;
}

/// A server shown from its cached list is called only once it has listed.
#[tokio::test]
async fn an_eager_server_is_not_called_before_it_has_listed() {
    let Some(fence) = has_python(SCRIPT) else { return };
    for (list, expected) in [("Sends mail.", "send done"), ("Sends spam.", "TOOL_CHANGED")] {
        let server = Shifting::new(&fence, "eager", &tools("Sends mail."));
        let _ = fs::remove_file(server.file.with_extension("tools.delay"));
        let session = fence.serve(&server.config(&[], "")).await;
        session.ready(&["eager"]).await;
        session.close().await;
        server.lists(&tools(list));
        server.delays("2");
        let (lists, sent) = (server.count("list"), server.count("call send"));
        let session = fence.serve(&server.config(&[], "")).await;
        session.ready(&["eager"]).await;
        assert_eq!(server.count("list"), lists, "it is known before it has listed");
        assert_eq!(called(&session, "eager", "send", json!({})).await, expected);
        assert_eq!(server.count("list"), lists + 1, "one list serves the call and the entry");
        assert_eq!(server.count("call send") - sent, usize::from(expected == "send done"));
        session.close().await;
    }
}

/// An approved call that is not made, since its tool has changed, keeps its approval, and costs nothing.
#[tokio::test]
async fn an_approved_call_of_a_changed_tool_uses_nothing_up() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let server = Shifting::new(&fence, "mail", &tools("Sends mail."));
    let config = server.config(&[], "approval = \"writes\"\n[approvals]\nwait = \"1h\"");
    let session = fence.serve(&config).await;
    session.ready(&["mail"]).await;
    let waits = session.execute_err("javascript", "return await mail.send({to: 'x'})").await;
    assert!(waits.contains("APPROVAL_WAITS"), "{waits}");
    let approvals = |args: &[&str]| fence.run([&["approvals"], args, &["--json"]].concat()).object();
    let listed = approvals(&["list"])["approvals"][0].clone();
    let (id, run) = (listed["id"].as_str().expect("an id"), listed["run"].clone());
    approvals(&["allow", id]);
    session.close().await;
    server.lists(&tools("Sends spam."));
    server.delays("2");
    let session = fence.serve(&config).await;
    session.ready(&["mail"]).await;
    let denied = session.call("execute", json!({ "resume": run })).await.text;
    assert!(denied.contains("TOOL_DENIED: mail.send: not called"), "{denied}");
    assert_eq!((&approvals(&["show", id])["approval"]["state"], server.count("call send")), (&json!("allowed"), 0));
    session.close().await;
}

/// Event, mode and flags of the server, keys of its configuration, seconds until the list expires, and whether the
/// change is noticed.
type OverHttp = (&'static str, &'static str, &'static [&'static str], &'static str, u64, bool);

/// The same over HTTP: a lost session, no session, and a stream that ends.
#[tokio::test]
async fn connections_over_http_are_compared_too() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let cases: [OverHttp; 8] = [
        ("a lost session", "session", &[], "", 0, true),
        ("a stream that ends", "sse", &[], "transport = \"sse\"", 0, true),
        ("no session, for no time", "stateless", &["--modern"], "", 0, true),
        ("no session, after its time", "stateless", &["--modern", "--ttl", "1000"], "", 2, true),
        ("no session, within its time", "stateless", &["--modern", "--ttl", "600000"], "", 0, false),
        ("no session of an older revision", "stateless", &["--ttl", "1000"], "", 2, true),
        ("no session of an older revision, without a time", "stateless", &[], "", 0, false),
        ("no session, after the configured time", "stateless", &["--modern", "--ttl", "600000"], "", 2, true),
    ];
    for (what, mode, flags, keys, seconds, is_seen) in cases {
        let server = Shifting::new(&fence, &what.replace([' ', ','], "_"), &tools("Sends mail."));
        let (_running, port) = server.http(mode, flags);
        let name = &server.name;
        let refresh = if what.contains("configured") { "[manifest]\nrefresh = \"1s\"\n" } else { "" };
        let config = format!("[servers.{name}]\nurl = \"http://127.0.0.1:{port}/sse\"\n{keys}\n{refresh}");
        let session = fence.serve(&config).await;
        session.ready(&[name]).await;
        assert_eq!(called(&session, name, "send", json!({})).await, "send done", "{what}");
        server.lists(&tools("Sends spam."));
        let sent = server.count("call send");
        // An ended stream is noticed before the next call.
        tokio::time::sleep(Duration::from_millis(500 + 1000 * seconds)).await;
        let answer = called(&session, name, "send", json!({})).await;
        match is_seen {
            // With `refresh`, the entry may have caught up before the call.
            true if answer == "send done" => assert!(what.contains("configured"), "{what}: it was called"),
            true => {
                assert_eq!((answer.as_str(), server.count("call send")), ("TOOL_CHANGED", sent), "{what}");
                followed(&session, name, "send done").await;
            }
            false => assert_eq!(answer, "send done", "{what}"),
        }
        session.close().await;
    }
}

/// Without sessions each request may reach another server, so the second round of a call is checked like another call.
#[tokio::test]
async fn a_later_round_of_a_call_is_compared_too() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let mut changed = tools("Sends mail.");
    changed[1]["description"] = json!("Acts otherwise.");
    let cases: [(&str, &[&str], Value, &str, usize); 3] = [
        ("same", &["--modern"], tools("Sends mail."), "act done", 2),
        ("changed", &["--modern"], changed.clone(), "TOOL_CHANGED", 1),
        ("within_its_time", &["--modern", "--ttl", "600000"], changed, "act done", 2),
    ];
    for (name, flags, next, expected, sent) in cases {
        let server = Shifting::new(&fence, name, &tools("Sends mail."));
        fs::write(server.file.with_extension("tools.next"), next.to_string()).expect("written");
        let (_running, port) = server.http("stateless", flags);
        let session = fence.serve(&format!("[servers.{name}]\nurl = \"http://127.0.0.1:{port}/\"\n")).await;
        session.ready(&[name]).await;
        let answer = called(&session, name, "act", json!({"fault": "rounds"})).await;
        assert_eq!((answer.as_str(), server.count("call act")), (expected, sent), "{name}");
        session.close().await;
    }
}

/// A prompt and a resource with these descriptions.
fn offers(prompt: &str, resource: &str) -> Value {
    json!({"tools": tools("Sends mail."), "prompts": [{"name": "greet", "description": prompt}],
        "resources": [{"uri": "x://a", "name": "a", "description": resource, "size": resource.len()}]})
}

/// Prompts and resources belong to the connection that serves them, like tools.
#[tokio::test]
async fn a_prompt_or_resource_of_another_process_is_not_had_as_that_of_the_first() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let sized = |size: usize| {
        let mut lists = offers("Greets.", "A file.");
        lists["resources"][0]["size"] = json!(size);
        lists
    };
    let gone = json!({"tools": tools("Sends mail.")});
    // List after the crash, and whether prompt and resource are then available.
    let cases = [
        ("same", offers("Greets.", "A file."), true, true),
        ("longer", sized(1_000_000), true, true),
        ("prompt", offers("Insults.", "A file."), false, true),
        ("resource", offers("Greets.", "A trap."), true, false),
        ("gone", gone, false, false),
    ];
    for (name, lists, is_prompt, is_resource) in cases {
        for keys in ["", "start = \"lazy\""] {
            let name = &format!("{name}_{}", if keys.is_empty() { "eager" } else { "lazy" });
            let server = Shifting::new(&fence, name, &offers("Greets.", "A file."));
            let session = fence.serve(&server.config(&[], keys)).await;
            session.ready(&[name]).await;
            let had = async |call: &str| {
                let code = format!("try {{ await {call}; return 'had' }} catch (error) {{ return error.code }}");
                session.execute("javascript", &code).await.as_str().expect("text").to_owned()
            };
            let prompt = format!("forge.prompt('{name}', 'greet')");
            let resource = format!("forge.readResource('{name}', 'x://a')");
            assert_eq!((had(&prompt).await.as_str(), had(&resource).await.as_str()), ("had", "had"), "{name}");
            // Both calls of one script, whose catalog does not change.
            server.lists(&lists);
            let code = format!(
                "const had = async (call) => {{ try {{ await call(); return true }} catch (error) {{ return error.code }} }};
                await had(() => {name}.act({{fault: 'crash'}}));
                return [await had(() => {prompt}), await had(() => {resource})]"
            );
            let expected = [is_prompt, is_resource].map(|had| if had { json!(true) } else { json!("TOOL_CHANGED") });
            assert_eq!(session.execute("javascript", &code).await, json!(expected), "{name} {keys}");
            let counts = (server.count("get greet"), server.count("read x://a"));
            assert_eq!(counts, (1 + usize::from(is_prompt), 1 + usize::from(is_resource)), "{name} {keys}");
            // The catalog catches up, so the current list is available.
            if name.starts_with("prompt") {
                let started = Instant::now();
                while had(&prompt).await != "had" {
                    assert!(started.elapsed() < Duration::from_secs(60), "{name}: {}", session.stderr());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            session.close().await;
        }
    }
}

/// With pinned tools, a changed one is denied from the first call on, and its text is not shown.
#[tokio::test]
async fn a_reviewed_tool_that_comes_back_as_another_is_denied() {
    let Some(fence) = has_python(SCRIPT) else { return };
    for keys in ["", "start = \"lazy\"", "idle_stop = \"1s\""] {
        let server = Shifting::new(&fence, "pinned", &tools("Sends mail."));
        let _ = fs::remove_file(server.log.with_extension("log.crashed"));
        let _ = fs::remove_dir_all(fence.work().join("stubs"));
        let config = server.config(&[], keys);
        fence.write("forge.toml", &config);
        fence.run(["stubs", "generate", "--out", "stubs"]).success();
        let session = fence.serve(&format!("{config}[manifest]\npin = \"stubs\"\n")).await;
        session.ready(&["pinned"]).await;
        assert_eq!(called(&session, "pinned", "send", json!({})).await, "send done");
        let sent = server.count("call send");
        server.lists(&tools("Sends spam."));
        match keys {
            "idle_stop = \"1s\"" => shows(&session, "resting").await,
            _ => drop(called(&session, "pinned", "act", json!({"fault": "crash"})).await),
        }
        for _ in 0..3 {
            assert_eq!(called(&session, "pinned", "send", json!({})).await, "TOOL_DENIED", "{keys}");
        }
        assert_eq!(server.count("call send"), sent, "{keys}");
        shows(&session, "QUARANTINED").await;
        let shown = session.call("cat", json!({"path": "/pinned/*"})).await.text;
        assert!(shown.contains("Sends mail.") && !shown.contains("spam"), "{shown}");
        // Another of its tools is unchanged.
        assert_eq!(called(&session, "pinned", "safe", json!({})).await, "safe done");
        session.close().await;
    }
}

/// Two definitions whose digests begin alike, which some 100,000 attempts find.
fn alike() -> [Value; 2] {
    let pair = ["84037", "131286"].map(tool);
    let [one, other] = [&pair[0], &pair[1]].map(|tool| stubgen::digest(stubgen::canonical_json(tool)));
    assert!(one[..8] == other[..8] && one != other, "{one} {other}");
    pair
}

#[tokio::test]
async fn a_consent_is_of_one_definition_and_one_program() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let [first, second] = alike();
    let act = tools("")[1].clone();
    let server = Shifting::new(&fence, "asks", &json!([first, act]));
    let config = |keys: &str, env: &str| {
        format!("{}approval = \"always\"\nenv = {{ SHIFTING = {env:?} }}\n", server.config(&[], keys))
    };
    let user = User::new(Some("allow for this session"));
    let file = fence.write("forge.toml", &config("", "one"));
    let command = fence.forgefs([Path::new("--config"), &file, Path::new("serve")]);
    let (service, pid) = fence.attach(Era::Modern, command, user.clone()).await;
    let send = "return await asks.send()";
    let until = async |expected: &str| {
        let started = Instant::now();
        loop {
            match execute(&service, "javascript", send).await {
                Ok(answer) if answer.contains(expected) => return,
                Err(error) if error.contains(expected) => return,
                other => assert!(started.elapsed() < Duration::from_secs(60), "{other:?}, not {expected}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    until("send done").await;
    assert_eq!(user.asked().len(), 1);
    until("send done").await;
    assert_eq!(user.asked().len(), 0, "it is remembered");
    // Other settings of the server do not make it another one.
    let reloads = |keys: &str, env: &str| {
        let starts = server.count("start");
        fs::write(&file, config(keys, env)).expect("written");
        let hangup = Command::new("kill").args(["-HUP", &pid.to_string()]).status();
        assert!(hangup.expect("kill").success());
        let started = Instant::now();
        while server.count("start") == starts {
            assert!(started.elapsed() < Duration::from_secs(60), "not restarted: {}", fence.stderr());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    reloads("timeout = \"50s\"", "one");
    until("send done").await;
    assert_eq!(user.asked().len(), 0, "it is the same program");
    reloads("timeout = \"50s\"", "two");
    until("send done").await;
    assert_eq!(user.asked().len(), 1, "it is another program");
    // Another definition whose digest begins alike.
    server.lists(&json!([second, act]));
    let _ = execute(&service, "javascript", "return await asks.act({fault: 'crash'})").await;
    user.asked();
    let sent = server.count("call send");
    let error = execute(&service, "javascript", send).await.expect_err("it is another tool");
    assert!(error.starts_with("TOOL_DENIED"), "{error}");
    assert_eq!((user.asked().len(), server.count("call send")), (0, sent));
    until("send done").await;
    assert_eq!(user.asked().len(), 1, "it is another tool");
    service.cancel().await.expect("the session ends");
}

/// A server that replaces another under its name is not called by scripts that know the old one.
#[tokio::test]
async fn a_call_does_not_reach_the_successor_of_its_server() {
    let Some(fence) = has_python(SCRIPT) else { return };
    let (one, other) =
        (Shifting::new(&fence, "one", &tools("Sends mail.")), Shifting::new(&fence, "two", &tools("Sends mail.")));
    let as_one =
        |server: &Shifting| server.config(&[], "").replace(&format!("[servers.{}]", server.name), "[servers.one]");
    let session = fence.serve(&as_one(&one)).await;
    session.ready(&["one"]).await;
    // It lists late, so for two seconds the catalog has nothing of it.
    other.delays("2");
    fence.write("forge.toml", &as_one(&other));
    // Another program waits for the operator.
    session.hang_up();
    let started = Instant::now();
    let mut answers = std::collections::BTreeSet::new();
    while other.count("call send") == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "{answers:?}\n{}", session.stderr());
        answers.insert(called(&session, "one", "send", json!({})).await);
    }
    let log = fs::read_to_string(&other.log).expect("a log");
    let first = |line: &str| log.lines().position(|logged| logged == line);
    assert!(first("list") < first("call send") && first("list").is_some(), "it was called before it had listed: {log}");
    answers.remove("send done");
    assert!(answers.iter().all(|code| code == "TRANSPORT_DEAD"), "{answers:?}");
    session.close().await;
}

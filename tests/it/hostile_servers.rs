//! Worst-case messages of servers and scripts: the gateway survives, its peak memory is within the formula of
//! docs/operations.md, and another request is answered meanwhile.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::{has_python, python};
use crate::http::free_port;

/// Configuration of every gateway here, so that the formula gives little.
const MEMORY: &str = "[memory]\nanswers = \"160MiB\"\nresults = \"32MiB\"\nlists = \"8MiB\"\nlist = \"2MiB\"\n\
                      [sandbox.limits]\nruns = 2\nconcurrency = 4\n";

/// The formula of docs/operations.md for it, in MiB.
fn formula(servers: usize) -> usize {
    let (answers, results, lists, runs, concurrency) = (160, 32, 8, 2, 4);
    // Clients are honest here, and no script waits for its user.
    100 + answers * 3 / 2 + results + lists * 24 + servers * 144 + runs * (224 + concurrency * 16)
}

/// Peak memory of the gateway since the last call, in MiB.
fn peak(session: &Session) -> usize {
    let process = format!("/proc/{}", session.pid);
    let status = fs::read_to_string(format!("{process}/status")).expect("the gateway runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    // Resets the peak.
    fs::write(format!("{process}/clear_refs"), "5").expect("the process is ours");
    line.and_then(|kib| kib.parse::<usize>().ok()).expect("a number") >> 10
}

/// Waits for `attack` while `ls` runs; returns its result, and the slowest `ls`.
async fn beside<T>(session: &Session, attack: impl Future<Output = T>) -> (T, Duration) {
    let mut attack = std::pin::pin!(attack);
    let mut longest = Duration::ZERO;
    loop {
        let started = Instant::now();
        let ls = session.call("ls", json!({}));
        tokio::pin!(ls);
        tokio::select! {
            biased;
            done = &mut attack => {
                let answer = ls.await;
                assert!(!answer.is_error, "{}", answer.text);
                return (done, longest.max(started.elapsed()));
            }
            answer = &mut ls => assert!(!answer.is_error, "{}", answer.text),
        }
        longest = longest.max(started.elapsed());
        tokio::select! {
            done = &mut attack => return (done, longest),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
}

/// A value without the data of errors.
async fn called(session: &Session, server: &str, kind: &str, over: &str) -> Value {
    let code = format!(
        "try {{ const value = await {server}.attack({{kind: '{kind}', any: '{over}'}});
           return {{type: typeof value, size: JSON.stringify(value).length}} }}
         catch (error) {{ return {{code: error.code, message: String(error.message).slice(0, 300)}} }}"
    );
    session.execute("javascript", &code).await
}

const FINE: &str = "\"type\"";
const MUCH: &str = "BUDGET_EXCEEDED";

/// A kind of answer, and the expected part of its outcome as JSON.
const ANSWERS: &[(&str, &[&str])] = &[
    ("plain", &[FINE]),
    ("zeros", &[MUCH, "values take"]),
    ("zeros of 4 MiB", &[MUCH, "memory.answers"]),
    ("zeros in text", &[MUCH, "answers"]),
    ("nested zeros", &[MUCH, "values take"]),
    ("lists of one", &[MUCH, "values take"]),
    ("objects of one", &[MUCH, "values take"]),
    ("empty objects", &[MUCH, "values take"]),
    ("empty texts", &[MUCH, "values take"]),
    ("chains", &[MUCH, "values take"]),
    ("keys", &[MUCH, "values take"]),
    ("one key a million times", &[MUCH, "values take"]),
    ("a long text", &[MUCH, "over the limit of 10485760"]),
    ("a long text inside", &[MUCH, "over the limit of 10485760"]),
    ("a long key", &[MUCH, "over the limit of 10485760"]),
    ("a long number", &[MUCH, "over the limit of 10485760"]),
    // The room of each is free again for the next.
    ("rows", &[FINE]),
    ("rows", &[FINE]),
    ("rows", &[FINE]),
    ("rows", &[FINE]),
    ("rows", &[FINE]),
    ("rows", &[FINE]),
    ("long numbers", &[FINE]),
    ("deep", &[MUCH, "values take"]),
    ("deep in text", &[FINE, "string"]),
    ("blocks", &[MUCH, "values take"]),
    ("links", &[MUCH]),
    ("images", &[FINE]),
    ("a large image", &[MUCH, "an image"]),
    ("errors", &[MUCH]),
    ("a long error", &["TOOL_ERROR"]),
    ("an error with zeros", &[MUCH]),
    ("escapes", &[FINE]),
    ("braces", &[FINE, "string"]),
    ("raw value", &["reserved"]),
    ("number", &["reserved"]),
    ("escaped raw value", &["reserved"]),
    ("second key", &["reserved"]),
    ("deep raw value", &["reserved"]),
    ("number in meta", &["reserved"]),
    ("raw value in text", &[FINE, "string"]),
    ("number in words", &[FINE, "string"]),
    ("raw value as a large result", &["reserved"]),
    ("no result", &["code"]),
    ("a text as result", &["string"]),
    ("17 MiB", &[MUCH, "larger than 16 MiB"]),
    ("large notifications", &[FINE]),
    ("large unknown notifications", &[FINE]),
    ("large progress", &[FINE]),
    ("answers to nobody", &[FINE]),
    ("errors to nobody", &[FINE]),
    ("answers without number", &[FINE]),
    ("large questions", &[FINE]),
    ("large batches", &[FINE]),
    ("large junk", &[FINE]),
    ("a flood of questions", &[FINE]),
    ("a flood of notes", &[FINE]),
    ("a flood of changes", &[FINE]),
    ("a line without end", &[]),
    ("an error with zeros in its data", &["UPSTREAM_ERROR", "no"]),
    ("an error with a private key", &["reserved"]),
    ("the same answer often", &[FINE]),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_in_answers_are_bounded() {
    answers(&ANSWERS[..17]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_and_keys_in_answers_are_bounded() {
    answers(&ANSWERS[17..40]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_beside_answers_is_bounded() {
    answers(&ANSWERS[40..46]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_and_large_errors_are_bounded() {
    answers(&ANSWERS[46..]).await;
}

/// Sends the answers one after the other.
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn answers(kinds: &[(&str, &[&str])]) {
    let Some(config) = python("hostile", "hostile.py", &["answers"]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&format!("{MEMORY}{config}timeout = \"60s\"\n")).await;
    session.ready(&["hostile"]).await;
    let mut wrong = Vec::new();
    for (kind, says) in kinds {
        peak(&session);
        let started = Instant::now();
        let (outcome, waited) = beside(&session, called(&session, "hostile", kind, "")).await;
        let (taken, took) = (peak(&session), started.elapsed());
        println!("{kind}: {taken} MiB, {took:.1?}, ls {waited:.1?}: {outcome}");
        let text = outcome.to_string();
        if !says.iter().all(|part| text.contains(part)) {
            wrong.push(format!("{kind}: no {says:?} in {text}"));
        }
        if taken > formula(1) || waited > Duration::from_secs(10) {
            wrong.push(format!("{kind}: {taken} MiB of {}, {waited:?}", formula(1)));
        }
        // No restart is needed.
        let mut after = called(&session, "hostile", "plain", "").await;
        let deadline = Instant::now() + Duration::from_secs(30);
        while after["type"] != "string" && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(300)).await;
            after = called(&session, "hostile", "plain", "").await;
        }
        assert_eq!(after["type"], "string", "{kind}: {after}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    session.close().await;
}

/// A server over HTTP; it ends with this value.
struct Web(Child, u16);

impl Web {
    fn start() -> Self {
        let port = free_port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/hostile.py");
        let mut command = Command::new("python3");
        command.args([script, "http", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("it starts"), port)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const OVER_HTTP: &[(&str, &[&str])] = &[
    ("plain", &[FINE]),
    ("zeros", &[MUCH, "values take"]),
    ("zeros in text", &[MUCH, "answers"]),
    ("objects of one", &[MUCH, "values take"]),
    ("a long text inside", &[MUCH, "over the limit of 10485760"]),
    ("long numbers", &[FINE]),
    ("deep", &[MUCH, "values take"]),
    ("raw value", &["reserved"]),
    ("escaped raw value", &["reserved"]),
    ("raw value as a large result", &["reserved"]),
    ("raw value in text", &[FINE, "string"]),
    ("17 MiB", &[MUCH, "larger than 16 MiB"]),
    ("70 MiB", &[MUCH, "larger than 16 MiB"]),
    ("beside 17 MiB", &[FINE]),
];

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn answers_over_http_are_bounded_as_well() {
    if has_python("tests/servers/hostile.py").is_none() {
        return;
    }
    let web = Web::start();
    let fence = Fence::new();
    let url = format!("[servers.web]\nurl = \"http://127.0.0.1:{}/mcp\"\ntimeout = \"60s\"\n", web.1);
    let session = fence.serve(&format!("{MEMORY}{url}")).await;
    session.ready(&["web"]).await;
    let mut wrong = Vec::new();
    for over in ["body", "event"] {
        for (kind, says) in OVER_HTTP {
            peak(&session);
            let (outcome, waited) = beside(&session, called(&session, "web", kind, over)).await;
            let (taken, text) = (peak(&session), outcome.to_string());
            println!("{kind} ({over}): {taken} MiB, ls {waited:.1?}: {text}");
            if !says.iter().all(|part| text.contains(part)) {
                wrong.push(format!("{kind} ({over}): no {says:?} in {text}"));
            }
            if taken > formula(1) || waited > Duration::from_secs(10) {
                wrong.push(format!("{kind} ({over}): {taken} MiB of {}, {waited:?}", formula(1)));
            }
            assert_eq!(called(&session, "web", "plain", over).await["type"], "string", "{kind} ({over})");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    session.close().await;
}

/// A kind of hostile list, and the expected text of the server's line in `ls /`.
const LISTS: &[(&str, &str)] = &[
    ("pages", "over the limit|more than 2097152 bytes, the limit for one server"),
    ("endless", "more than 1000 pages"),
    ("empty pages", "more than 1000 pages"),
    ("circle", "lead in a circle"),
    ("tiny", "values take"),
    ("many", "more than 2097152 bytes"),
    ("zeros", "values take"),
    ("nested", "values take"),
    ("cursor", "cursor: 8192 bytes, over the limit of 4096"),
    ("private", "reserved"),
    ("no list", "without a list of tools"),
    ("others", "1 tool"),
];

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn lists_of_hostile_servers_are_bounded() {
    for (mode, says) in LISTS {
        let Some(config) = python("hostile", "hostile.py", &["lists", mode]) else { return };
        let fence = Fence::new();
        let session = fence.serve(&format!("{MEMORY}{config}timeout = \"60s\"\n")).await;
        let deadline = Instant::now() + Duration::from_secs(30);
        let told = loop {
            let listing = session.call("ls", json!({})).await.text;
            let line = listing.lines().find(|line| line.starts_with("hostile/")).unwrap_or_default().to_owned();
            if says.split('|').any(|part| line.contains(part)) {
                break line;
            }
            assert!(Instant::now() < deadline, "{mode}: no {says:?} in {listing}\n{}", session.stderr());
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let taken = peak(&session);
        println!("{mode}: {taken} MiB: {told}");
        assert!(taken <= formula(1), "{mode}: {taken} MiB of {}", formula(1));
        session.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_over_the_limit_leaves_the_last_good_one() {
    let Some(config) = python("hostile", "hostile.py", &["lists", "later"]) else { return };
    let fence = Fence::new();
    let mark = fence.work().join("mark");
    let setting = format!("env = {{ HOSTILE_MARK = {mark:?} }}\n");
    let session = fence.serve(&format!("{MEMORY}{config}{setting}")).await;
    session.ready(&["hostile"]).await;
    let call = "return await hostile.good({kind: 'now'})";
    assert_eq!(session.execute("javascript", call).await, "fine");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listing = session.call("ls", json!({})).await.text;
        if listing.contains("the limit for one server") || listing.contains("over the limit") {
            break;
        }
        assert!(Instant::now() < deadline, "{listing}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(session.call("cat", json!({"path": "/hostile/good.pyi"})).await.text.contains("def good"));
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_lists_together_are_bounded() {
    let Some(config) = python("hostile", "hostile.py", &["answers"]) else { return };
    // Each is within its own limit.
    let named = |number: usize| {
        let config = config.replace("[servers.hostile]", &format!("[servers.h{number}]"));
        config.replace("\"answers\"]", "\"lists\", \"others\"]")
    };
    let fence = Fence::new();
    let servers: String = (0..8).map(named).collect();
    let memory = MEMORY.replace("lists = \"8MiB\"", "lists = \"1MiB\"").replace("list = \"2MiB\"", "list = \"1MiB\"");
    let session = fence.serve(&format!("{memory}{servers}")).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listing = session.call("ls", json!({})).await.text;
        if listing.contains("definitions of all servers") {
            break;
        }
        assert!(Instant::now() < deadline, "{listing}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(peak(&session) <= formula(8));
    session.close().await;
}

/// A script in each language, and part of its answer. `PRIVATE` stands for a reserved key.
const SCRIPTS: &[(&str, &str, &str)] = &[
    ("javascript", "return {'PRIVATENumber': '1'}", "reserved"),
    ("javascript", "return [{a: {'PRIVATERawValue': '[1]'}}]", "reserved"),
    ("starlark", "{'PRIVATENumber': '1'}", "reserved"),
    ("starlark", "[{'a': 1, 'PRIVATERawValue': '[1]'}]", "reserved"),
    ("javascript", "await forge.stash.put('k', {'PRIVATERawValue': '1'})", "reserved"),
    ("starlark", "stash.put('k', {'PRIVATENumber': '1'})", "reserved"),
    ("javascript", "return await hostile.attack({kind: 'plain', any: {'PRIVATENumber': '1'}})", "reserved"),
    ("starlark", "hostile.attack(kind='plain', any={'PRIVATERawValue': '[]'})", "reserved"),
    ("starlark", "json.decode('{\"PRIVATENumber\": \"1\"}')", "reserved"),
    ("javascript", "return JSON.parse('{\"PRIVATENumber\": \"1\"}')", "reserved"),
    (
        "javascript",
        "return await hostile.attack({kind: 'plain', any: new Array(500000).fill(0)})",
        "values, which take",
    ),
    ("starlark", "hostile.attack(kind='plain', any=[0] * 500000)", "values, which take"),
    (
        "javascript",
        "return await hostile.attack({kind: 'plain', any: 'x'.repeat(8000000)})",
        "over the limit of 1048576",
    ),
    ("javascript", "return '[' + '0,'.repeat(1500000) + '0]'", "too large for an answer, stored as"),
    ("javascript", "const a = new Array(1500000).fill(0); a.push('\\n'); return a", "over the limit of 160 MiB"),
    (
        "javascript",
        "let a = new Array(300000).fill(0); for (let n = 0; n < 119; n++) a = [a]; return a",
        "stored as /results/",
    ),
    (
        "starlark",
        "def f():\n    a = [0] * 300000\n    for _ in range(100):\n        a = [a]\n    return a\nf()",
        "stored as /results/",
    ),
    ("javascript", "return await forge.results.get('/results/1/1.txt').catch((e) => e.message)", ""),
    (
        "javascript",
        "const all = []; for (let n = 0; n < 60; n++) all.push(forge.stash.put('k' + n, 'x'.repeat(1000000))); await Promise.all(all)",
        "the stash is full",
    ),
];

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn scripts_cannot_fill_the_gateway_either() {
    let Some(config) = python("hostile", "hostile.py", &["answers"]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&format!("{MEMORY}heap = \"256MiB\"\ncpu = \"60s\"\n{config}")).await;
    session.ready(&["hostile"]).await;
    let mut wrong = Vec::new();
    for (language, code, says) in SCRIPTS {
        let code = code.replace("PRIVATE", "$serde_json::private::");
        peak(&session);
        let run = session.call("execute", json!({"language": language, "code": code}));
        let (answer, waited) = beside(&session, run).await;
        let taken = peak(&session);
        let head: String = answer.text.chars().take(200).collect();
        println!("{language}: {code}: {taken} MiB, ls {waited:.1?}: {head}");
        if !answer.text.contains(says) {
            wrong.push(format!("{language} {code}: no {says:?} in {head}"));
        }
        if taken > formula(1) || waited > Duration::from_secs(10) {
            wrong.push(format!("{language} {code}: {taken} MiB of {}, {waited:?}", formula(1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_results_stay_within_their_room() {
    let fence = Fence::new();
    let room = format!("{MEMORY}stash_value = \"16MiB\"\n");
    let session = fence.serve(&room).await;
    for number in 0..40 {
        let code = format!("return '{number}' + 'line of a text\\n'.repeat(200000)");
        let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
        assert!(answer.text.contains("stored as"), "{}", answer.text);
    }
    let kept = session.call("ls", json!({"path": "/results"})).await.text;
    assert!(kept.lines().count() <= 11, "{kept}");
    assert!(peak(&session) <= formula(0));
    let code = "return 'x'.repeat(8000000) + await forge.stash.put('k', 'y'.repeat(15000000))";
    let answer = session.call("execute", json!({"language": "javascript", "code": code})).await;
    assert!(answer.is_error && answer.text.contains("memory.results"), "{}", answer.text);
    session.close().await;
}

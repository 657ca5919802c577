//! Servers and proxies as they are: kinds of oddness × transports × revisions, each a call through the gateway.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::has_python;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/odd.py");
const NEWEST: &str = "2026-07-28";

/// The servers over HTTP; they end with this value.
struct Web(Child, u16, std::path::PathBuf);

impl Web {
    fn start(fence: &Fence) -> Self {
        let log = fence.write("odd.log", "");
        let mut command = Command::new("python3");
        command.args([SCRIPT, "http"]).arg(&log).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let mut port = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut port).expect("it prints its port");
        Self(child, port.trim().parse().expect("a port"), log)
    }

    /// Lines of the log that begin so.
    fn logged(&self, beginning: &str) -> Vec<String> {
        let log = std::fs::read_to_string(&self.2).expect("the log");
        log.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server: transport (`stdio`, `http`, `sse`, or `found` for one of HTTP+SSE that is not configured as such, and `named` if
/// its address ends in `/sse`), revision, and its oddity.
#[derive(Clone, Copy)]
struct Odd(&'static str, &'static str, &'static str);

impl Odd {
    fn label(self) -> String {
        format!("{} over {} in {}", self.2, self.0, self.1)
    }

    fn entry(self, number: usize, web: &Web) -> String {
        let Self(transport, era, kind) = self;
        let path = kind.replace(' ', "_");
        let how = match transport {
            "stdio" => format!("command = \"python3\"\nargs = [{SCRIPT:?}, \"stdio\", {era:?}, {kind:?}]"),
            "found" => format!("url = \"http://127.0.0.1:{}/sse/{era}/{path}\"", web.1),
            "named" => format!("url = \"http://127.0.0.1:{}/sse/{era}/{path}/sse\"", web.1),
            "sse" => format!("transport = \"sse\"\nurl = \"http://127.0.0.1:{}/sse/{era}/{path}\"", web.1),
            _ => format!("url = \"http://127.0.0.1:{}/{era}/{path}\"", web.1),
        };
        format!("[servers.s{number}]\n{how}\n")
    }
}

fn config(all: &[Odd], web: &Web) -> String {
    all.iter().enumerate().map(|(number, odd)| odd.entry(number, web)).collect()
}

/// Calls `tool` once: its answer, or the error as `CODE: message`, whether it may be retried.
async fn call(session: &Session, number: usize, tool: &str, n: u32) -> Value {
    let code = format!(
        "try {{ return await forge.callTool('s{number}', '{tool}', {{ n: {n} }}) }} \
         catch (e) {{ return {{ error: `${{e.code}}: ${{e.message}}`, retryable: e.retryable, fix: e.suggestedFix }} }}"
    );
    loop {
        let answer = session.execute("javascript", &code).await;
        if !answer["error"].as_str().is_some_and(|error| error.contains("still being started")) {
            return answer;
        }
    }
}

/// Every one of them is called as if nothing were odd.
async fn all_answer(session: &Session, all: &[Odd]) {
    let mut wrong = Vec::new();
    for (number, odd) in all.iter().enumerate() {
        for n in [1, 2] {
            let answer = call(session, number, "hello", n).await;
            if answer != json!(format!("hello {n}")) {
                wrong.push(format!("{}: {answer}", odd.label()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn across(transports: &[(&'static str, &'static str)], kinds: &[&'static str]) -> Vec<Odd> {
    kinds.iter().flat_map(|kind| transports.iter().map(|(transport, era)| Odd(transport, era, kind))).collect()
}

/// Transports and revisions of Streamable HTTP.
const STREAMABLE: &[(&str, &str)] =
    &[("http", "2025-03-26"), ("http", "2025-06-18+session"), ("http", "2025-11-25+session"), ("http", NEWEST)];
const OLD_SSE: (&str, &str) = ("sse", "2024-11-05");

const PASSED_OVER: &[&str] = &[
    "ping event", "ping event with text", "keepalive event", "another event", "an answer in another event",
    "heartbeat object", "heartbeat text", "empty object", "list", "number", "broken JSON", "empty data", "priming",
    "comments", "another notification", "unknown fields", "malformed fields",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_in_a_stream_is_passed_over_and_can_be_read() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let mut all = across(&[STREAMABLE, &[OLD_SSE]].concat(), PASSED_OVER);
    all.extend(across(STREAMABLE, &["many"]));
    let session = fence.serve(&config(&all, &web)).await;
    all_answer(&session, &all).await;
    let at = |kind: &str, transport: &str| {
        all.iter().position(|odd| odd.2 == kind && odd.0 == transport).expect("it is in the table")
    };
    for transport in ["http", "sse"] {
        for (kind, kept) in [
            ("ping event with text", "2026-01-01T00:00:00"),
            ("heartbeat object", "{\"type\":\"heartbeat\"}"),
            ("broken JSON", "{%%%"),
        ] {
            let path = format!("/s{}/stderr", at(kind, transport));
            let text = session.call("cat", json!({ "path": path })).await.text;
            assert!(text.contains("(stream, not MCP)") && text.contains(kept), "{kind} over {transport}: {text}");
        }
    }
    let quiet = format!("/s{}/stderr", at("comments", "http"));
    assert!(session.call("cat", json!({ "path": quiet })).await.is_error, "nothing was passed over");
    let many = format!("/s{}/stderr", at("many", "http"));
    let text = session.call("cat", json!({ "path": many })).await.text;
    assert!(text.lines().count() < 500, "it is bounded: {} lines", text.lines().count());
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_bodies_are_read_in_every_form() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let mut all = across(&[STREAMABLE, &[OLD_SSE]].concat(), &["CRLF", "CR", "several lines", "no space"]);
    all.extend(across(STREAMABLE, &["mark of byte order", "another encoding"]));
    all.extend(across(&[("http", "2025-03-26"), OLD_SSE], &["batch"]));
    let bodies = [
        "json batch", "json with 202", "json in capitals", "json without type", "json as text", "json as a page",
        "json of a vendor", "json as bytes",
    ];
    all.extend(across(STREAMABLE, &bodies));
    let notices =
        ["200 text", "200 page", "200 empty", "200 object", "200 null", "200 broken", "200 event", "204", "202 text"];
    let refused = ["no notices, 400", "no notices, 404", "no notices, 405", "no notices, 500"];
    let old = [("http", "2025-03-26"), ("http", "2025-11-25+session"), OLD_SSE];
    all.extend(across(&old, &[&notices[..], &refused[..]].concat()));
    let session = fence.serve(&config(&all, &web)).await;
    all_answer(&session, &all).await;
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_ends_early_is_resumed_or_told() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let all = across(STREAMABLE, &["cut"]);
    let ends = across(STREAMABLE, &["ends"]);
    let session = fence.serve(&config(&[&*all, &ends].concat(), &web)).await;
    all_answer(&session, &all).await;
    for (number, odd) in ends.iter().enumerate() {
        let answer = call(&session, all.len() + number, "hello", 5).await;
        let error = answer["error"].as_str().unwrap_or_default();
        let parts = ["TRANSPORT_DEAD", "ended during the call", "event ping"];
        assert!(parts.iter().all(|part| error.contains(part)), "{}: {answer}", odd.label());
        assert_eq!(answer["retryable"], false, "{}: {answer}", odd.label());
    }
    assert_eq!(web.logged("ends hello 5").len(), ends.len(), "it may have been done, and is not repeated");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_session_is_begun_again_once_and_no_call_is_made_twice() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let kinds = [
        "404 text", "404 empty", "404 object", "404 answer", "400 without id", "400 text", "400 page", "401 text",
        "401 object", "410 text", "200 answer", "200 event", "400 not initialized", "200 not initialized",
        "200 terminated", "422 object",
    ];
    let all = across(&[("http", "2025-06-18+session")], &kinds);
    let session = fence.serve(&config(&all, &web)).await;
    for (number, odd) in all.iter().enumerate() {
        for n in [1, 2, 3] {
            assert_eq!(call(&session, number, "hello", n).await, json!(format!("hello {n}")), "{}", odd.label());
            let done = format!("{} hello {n}", odd.2);
            assert_eq!(web.logged(&done).len(), 1, "{done}");
        }
        assert_eq!(web.logged(&format!("{} initialize", odd.2)).len(), 3, "{}", odd.label());
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_lost_with_a_failure_fails_one_call_and_is_begun_again() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let all = across(&[("http", "2025-06-18+session")], &["500 answer", "500 of another"]);
    let session = fence.serve(&config(&all, &web)).await;
    for (number, odd) in all.iter().enumerate() {
        for (n, is_done) in [(1, true), (2, false), (3, true)] {
            let answer = call(&session, number, "hello", n).await;
            assert_eq!(answer == json!(format!("hello {n}")), is_done, "{}: {answer}", odd.label());
        }
    }
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_breaks_off_has_its_first_pages_and_a_note() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let session = fence.serve(&config(&across(&[("http", NEWEST)], &["page refused"]), &web)).await;
    session.ready(&["s0"]).await;
    let about = session.call("cat", json!({ "path": "/s0/README.md" })).await.text;
    let note = "its `tools/list` breaks off after page 1: `tools/list` failed: s0: Invalid cursor";
    assert!(about.contains(note), "{about}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_with_its_status_and_words_and_never_more() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    // Kind; code; words; sent for a tool that reads, and for one that does not say so; may be retried.
    let table: &[(&'static str, &str, &[&str], usize, bool)] = &[
        ("401", "AUTH_REQUIRED", &["HTTP 401 Unauthorized", "the key is out of date"], 1, false),
        ("403", "UPSTREAM_ERROR", &["HTTP 403 Forbidden", "your plan has no such tool"], 1, false),
        ("409", "UPSTREAM_ERROR", &["HTTP 409 Conflict", "another call runs"], 1, false),
        ("429", "RATE_LIMIT", &["HTTP 429 Too Many Requests", "ten calls a day"], 1, true),
        ("500", "UPSTREAM_ERROR", &["HTTP 500 Internal Server Error", "the disk is full"], 2, true),
        ("502", "UPSTREAM_ERROR", &["HTTP 502 Bad Gateway"], 2, true),
        ("503", "UPSTREAM_ERROR", &["HTTP 503 Service Unavailable", "in maintenance"], 2, true),
        ("501", "UPSTREAM_ERROR", &["HTTP 501 Not Implemented", "no such thing"], 1, false),
        ("long", "UPSTREAM_ERROR", &["HTTP 500 Internal Server Error", "xxx…"], 2, true),
        ("302", "UPSTREAM_ERROR", &["HTTP 302 Found: to https://login.example/start?…"], 1, false),
        ("301 within", "UPSTREAM_ERROR", &["HTTP 301 Moved Permanently: to http://", "/elsewhere"], 1, false),
    ];
    let kinds: Vec<&str> = table.iter().map(|(kind, ..)| *kind).collect();
    for &(transport, era) in &[("http", "2025-06-18+session"), ("http", NEWEST)] {
        let all = across(&[(transport, era)], &kinds);
        let session = fence.serve(&config(&all, &web)).await;
        for (number, (kind, code, words, sent, retryable)) in table.iter().enumerate() {
            for (tool, sent, retryable) in [("peek", *sent, *retryable), ("hello", 1, *retryable && *kind == "429")] {
                let before = web.logged(&format!("{kind} {tool} refused")).len();
                let answer = call(&session, number, tool, 1).await;
                let error = answer["error"].as_str().unwrap_or_default();
                let label = format!("{kind} of {tool} in {era}");
                assert!(error.starts_with(code) && words.iter().all(|part| error.contains(part)), "{label}: {answer}");
                assert!(
                    error.len() < 500 && !error.contains("pass-word-1") && !error.contains("abc"),
                    "{label}: {error}"
                );
                assert_eq!(answer["retryable"], retryable, "{label}: {answer}");
                let now = web.logged(&format!("{kind} {tool} refused")).len();
                assert_eq!(now - before, sent, "{label}: it is repeated only where that is safe");
            }
        }
        // The connection goes on.
        let listed = session.call("ls", json!({ "path": "/s4" })).await.text;
        assert!(listed.contains("hello"), "{listed}");
        session.close().await;
    }
}

const HANDSHAKES: &[&str] = &[
    "old revision", "future revision", "odd revision", "revision is null", "revision is a number", "no revision",
    "no serverInfo", "serverInfo is null", "serverInfo is a text", "no version in serverInfo", "version is a number",
    "no capabilities", "capabilities are null", "capabilities are a list", "capabilities are empty", "tools are true",
    "listChanged is a text", "experimental is a list", "instructions are a list", "an empty result",
    "only 2025-06-18, listed", "only 2025-06-18, expected", "only 2025-03-26, in words", "only 2024-11-05, -32600",
    "only 2024-11-05, -32601", "only 2024-10-07, named", "capabilities of 2024", "elicitation without forms",
    "cursor is a number", "cursor is empty", "cursor is always empty", "cursor is empty at the end",
    "empty cursor is refused", "page refused",
];

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_go_on_with_what_is_there() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let mut all = across(&[("stdio", "2025-06-18"), ("http", "2025-06-18+session"), OLD_SSE], HANDSHAKES);
    let headers = ["header 2025-06-18", "header 2025-03-26", "header 2024-11-05"];
    all.extend(across(&[("http", "2025-06-18"), ("http", "2025-06-18+session")], &headers));
    all.extend(across(&[("stdio", "2025-06-18")], &["questions first", "many questions first"]));
    all.extend(across(&[OLD_SSE], &["refusal refused"]));
    let strays = [
        "notices answered, error", "notices answered, error without id", "notices answered, result",
        "notices answered, null", "notices answered, result without id",
    ];
    all.extend(across(&[("stdio", "2025-06-18"), OLD_SSE], &strays));
    let deaths = ["dies of capabilities of 2024", "dies in words of capabilities of 2024"];
    all.extend(across(&[("stdio", "2025-06-18")], &deaths));
    all.extend(across(&[("http", "2025-06-18")], &["HTTP 400 to capabilities of 2024", "session comes late"]));
    all.extend(across(&[("http", "2025-06-18+session")], &["session changes"]));
    all.extend(across(&[("found", "2024-11-05")], &["posts 404", "posts 406", "posts 422", "posts 501"]));
    all.extend(across(&[("named", "2024-11-05")], &["posts 200", "posts 400", "posts 403", "posts 500"]));
    all.extend(across(&[("http", "2025-06-18")], &["answers on a stream", "asks before the handshake"]));
    all.extend(across(&[("http", "2025-06-18+session")], &["silent discovery", "endless discovery"]));
    all.extend(across(&[("stdio", "2025-06-18"), ("http", NEWEST), OLD_SSE], &["half a character"]));
    let newest = [
        "no capabilities", "capabilities are null", "capabilities are empty", "tools are true", "no ttlMs",
        "supportedVersions is a text",
    ];
    all.extend(across(&[("stdio", NEWEST), ("http", NEWEST)], &newest));
    let session = fence.serve(&config(&all, &web)).await;
    all_answer(&session, &all).await;
    session.close().await;
}

#[test]
fn the_revision_that_a_server_accepts_is_kept_and_offered_first() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let kinds = ["only 2024-11-05, -32600", "header 2025-03-26", "plain"];
    fence.write("forge.toml", &config(&across(&[("http", "2025-06-18+session")], &kinds), &web));
    let offers = |kind: &str| {
        web.logged(&format!("{kind} initialize"))
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    fence.run(["list", "--check"]).success();
    assert_eq!(offers(kinds[0]), ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    assert_eq!(offers(kinds[1]), ["2025-11-25", "2025-03-26"]);
    assert_eq!(offers(kinds[2]), ["2025-11-25"]);
    fence.run(["list", "--check"]).success();
    assert_eq!(offers(kinds[0])[4..], ["2024-11-05"], "the kept one is offered first");
    assert_eq!(offers(kinds[1])[2..], ["2025-03-26"]);
    assert_eq!(offers(kinds[2])[1..], ["2025-11-25"], "a server that refused nothing is offered the newest");
}

#[test]
fn fewer_capabilities_and_silence_are_kept() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let kinds = ["capabilities of 2024", "silent discovery"];
    fence.write("forge.toml", &config(&across(&[("http", "2025-06-18+session")], &kinds), &web));
    let asked = |kind: &str, what: &str| web.logged(&format!("{kind} {what}")).len();
    fence.run(["list", "--check"]).success();
    assert_eq!(asked(kinds[0], "initialize"), 3, "all, those of 2025-06-18, none");
    assert_eq!(asked(kinds[1], "discover"), 1);
    fence.run(["list", "--check"]).success();
    assert_eq!(asked(kinds[0], "initialize"), 4, "what it accepted is offered first");
    assert_eq!((asked(kinds[1], "discover"), asked(kinds[1], "initialize")), (1, 2), "it is not asked again");
}

#[test]
fn a_stream_that_names_no_address_leaves_the_refusal_of_the_post() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    fence.write(
        "forge.toml",
        &config(&across(&[("found", "2024-11-05")], &["posts 404 silent", "posts 422 silent"]), &web),
    );
    for (server, refusal) in [("s0", "HTTP 404 Not Found: no"), ("s1", "HTTP 422 Unprocessable Entity: no")] {
        let listed = fence.run(["ls", server]).stdout;
        assert!(listed.contains(refusal), "{listed}");
    }
}

#[test]
fn a_server_without_tools_says_why_and_no_error_has_a_librarys_words() {
    let Some(fence) = has_python("tests/servers/odd.py") else { return };
    let web = Web::start(&fence);
    let all = [
        Odd("http", "2025-06-18+session", "no tools"),
        Odd("stdio", "2025-06-18", "no tools"),
        Odd("stdio", "2025-06-18", "none at all"),
        Odd("http", "2025-06-18", "none at all"),
    ];
    fence.write("forge.toml", &config(&all, &web));
    let listed = fence.run(["ls"]);
    for line in ["s0/  0 tools, ready, no tools: its list is empty", "s1/  0 tools, ready, no tools: its list is empty"]
    {
        assert!(listed.stdout.contains(line), "no {line} in {}", listed.stdout);
    }
    for server in ["s2/", "s3/"] {
        let line = listed.stdout.lines().find(|line| line.contains(server)).expect("it is listed");
        assert!(line.contains("refused the handshake: no version will do"), "{line}");
    }
    for word in ["Some(", "CustomResult", "JsonRpc", "invalid type"] {
        assert!(!listed.stdout.contains(word), "{word} in {}", listed.stdout);
    }
    let doctor = fence.run(["doctor"]);
    assert!(doctor.stdout.contains("s0: no tools: its list is empty"), "{}", doctor.stdout);
    let url = format!("http://127.0.0.1:{}/2025-06-18/no_tools", web.1);
    let added = fence.run(["add", "--yes", "another", &url]).success();
    assert!(added.stdout.contains("note: no tools: its list is empty"), "{}", added.stdout);
}

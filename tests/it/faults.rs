//! One row per fault of a server: the script's error, the line in `ls /`, the number of executions, and the next call,
//! which must work without intervention.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::fault_proxy::{self as proxy, FaultProxy};
use crate::faulty::{Log, faulty, log};
use crate::http::{HttpServer, free_port};
use crate::real::Real;

/// One fault of one call.
struct Fault {
    name: &'static str,
    /// Code and part of the message for the script; `None` if the call works all the same.
    error: Option<(&'static str, &'static str)>,
    /// True if a tool annotated as idempotent is retried and then answers.
    repeated: bool,
    /// State in `ls /` afterwards.
    state: &'static str,
    /// Cancellations that the server gets for the call.
    cancelled: usize,
    /// True if later calls fail too, until the server proves dead and is replaced.
    is_stuck: bool,
}

const fn fault(name: &'static str, code: &'static str, says: &'static str) -> Fault {
    Fault {
        name,
        error: Some((code, says)),
        repeated: false,
        state: "failing, its last call failed",
        cancelled: 0,
        is_stuck: false,
    }
}

const fn dead(name: &'static str, says: &'static str) -> Fault {
    Fault { repeated: true, ..fault(name, "TRANSPORT_DEAD", says) }
}

const fn answered(name: &'static str, code: &'static str, says: &'static str) -> Fault {
    Fault { state: "ready", ..fault(name, code, says) }
}

const fn late(name: &'static str) -> Fault {
    Fault { cancelled: 1, ..fault(name, "TIMEOUT", "did not answer within 3s") }
}

const fn harmless(name: &'static str) -> Fault {
    Fault { name, error: None, repeated: false, state: "ready", cancelled: 0, is_stuck: false }
}

const OF_PROCESSES: &[Fault] = &[
    dead("crash", "ended during the call"),
    dead("cut", "ended during the call"),
    dead("close", "ended during the call"),
    answered("garbage", "UPSTREAM_ERROR", "its answer is not MCP"),
    late("hang"),
    late("late"),
    late("wrong_id"),
    answered("oversized", "BUDGET_EXCEEDED", "larger than 16 MiB"),
    answered("oversized_id_last", "BUDGET_EXCEEDED", "larger than 16 MiB"),
    answered("refused", "UPSTREAM_ERROR", "no database"),
    answered("bad_arguments", "INVALID_ARGS", "nonce is too odd"),
    harmless("oversized_notice"),
    harmless("noise"),
    harmless("duplicate"),
    // The last one: the whole server is busy with its drip, and may get the cancellation at any time.
    Fault { is_stuck: true, ..late("drip") },
];

#[tokio::test]
async fn every_fault_of_a_process_is_told_and_survived() {
    let Some(config) = faulty(&[]) else { return };
    // A large answer takes its time on a busy machine: only what never comes meets a short timeout.
    for (timeout, ends) in [("60s", false), ("3s", true)] {
        let fence = Fence::new();
        let (log, setting) = log(&fence);
        let session = fence.serve(&format!("{config}{setting}timeout = \"{timeout}\"\n")).await;
        session.ready(&["faulty"]).await;
        for fault in OF_PROCESSES.iter().filter(|fault| is_timeout(fault.error) == ends) {
            for (tool, repeated) in [("act", false), ("act_safely", fault.repeated)] {
                survives(&session, &log, fault, tool, repeated).await;
            }
        }
    }
}

fn is_timeout(error: Option<(&str, &str)>) -> bool {
    error.is_some_and(|(code, _)| code == "TIMEOUT")
}

#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn survives(session: &Session, log: &Log, fault: &Fault, tool: &str, repeated: bool) {
    let name = format!("{tool} {}", fault.name);
    let cancelled = log.count("cancelled");
    let outcome = act(session, tool, &name, fault.name).await;
    let state = state(session, "faulty").await;
    match fault.error {
        Some((code, says)) if !repeated => {
            assert_eq!(outcome["code"], code, "{name}: {outcome}");
            assert!(outcome["message"].as_str().is_some_and(|m| m.contains(says)), "{name}: {outcome}");
            let warns = outcome["fix"].as_str().is_some_and(|fix| fix.contains("may have been carried out"));
            // Arguments are found to be wrong before the work; any other error may come from behind it.
            assert_eq!(warns, tool == "act" && code != "INVALID_ARGS", "{name}: {outcome}");
            assert!(state.contains(fault.state), "{name}: {state}");
        }
        _ => {
            assert_eq!(outcome, json!(name), "{name}");
            assert!(state.contains("ready"), "{name}: {state}");
        }
    }
    let executions = log.count(&format!("call {name}"));
    assert_eq!(executions, if repeated { 2 } else { 1 }, "{name} was carried out");
    // The next call works, and gets its own answer.
    let next = format!("after {name}");
    let mut after = act(session, "act", &next, "none").await;
    let deadline = Instant::now() + if fault.is_stuck { Duration::from_secs(30) } else { Duration::ZERO };
    while after != json!(next) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(300)).await;
        after = act(session, "act", &next, "none").await;
    }
    assert_eq!(after, json!(next), "{name}");
    assert!(self::state(session, "faulty").await.contains("ready"), "{name}");
    if !fault.is_stuck {
        assert_eq!(log.count("cancelled") - cancelled, fault.cancelled, "{name}: cancellations");
    }
    println!("{name}: {} | {state} | {executions}", outcome["code"].as_str().unwrap_or("ok"));
}

/// Faults of the network and of HTTP servers, between the gateway and a real server.
struct HttpFault {
    name: &'static str,
    fault: proxy::Fault,
    error: Option<(&'static str, &'static str)>,
    repeated: bool,
    state: &'static str,
    /// Number of executions of a tool without annotations.
    executions: usize,
}

const LOST: &str =
    "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session ID provided\"}}";

const fn over_http(name: &'static str, fault: proxy::Fault, code: &'static str, says: &'static str) -> HttpFault {
    let state = "failing, its last call failed";
    HttpFault { name, fault, error: Some((code, says)), repeated: false, state, executions: 1 }
}

const fn dead_over_http(name: &'static str, fault: proxy::Fault, says: &'static str) -> HttpFault {
    HttpFault { repeated: true, ..over_http(name, fault, "TRANSPORT_DEAD", says) }
}

const fn failing_over_http(name: &'static str, fault: proxy::Fault, says: &'static str) -> HttpFault {
    HttpFault { repeated: true, executions: 0, ..over_http(name, fault, "UPSTREAM_ERROR", says) }
}

const fn answered_over_http(
    name: &'static str,
    fault: proxy::Fault,
    code: &'static str,
    says: &'static str,
    executions: usize,
) -> HttpFault {
    HttpFault { state: "ready", executions, ..over_http(name, fault, code, says) }
}

const fn harmless_over_http(name: &'static str, fault: proxy::Fault) -> HttpFault {
    HttpFault { name, fault, error: None, repeated: false, state: "ready", executions: 1 }
}

const OVER_HTTP: &[HttpFault] = &[
    HttpFault { executions: 0, ..dead_over_http("reset before", proxy::Fault::ResetBefore, "could not send") },
    harmless_over_http("reset in the middle", proxy::Fault::ResetMiddle),
    harmless_over_http("closed in the middle", proxy::Fault::CloseMiddle),
    over_http("hang", proxy::Fault::Hang, "TIMEOUT", "did not answer within 4s"),
    over_http("drip", proxy::Fault::Drip, "TIMEOUT", "did not answer within 4s"),
    over_http("late", proxy::Fault::Late, "TIMEOUT", "did not answer within 4s"),
    harmless_over_http("duplicate", proxy::Fault::Duplicate),
    answered_over_http("garbage", proxy::Fault::Instead(200, proxy::JSON, "%%%"), "UPSTREAM_ERROR", "is not MCP", 1),
    answered_over_http(
        "garbage event",
        proxy::Fault::Instead(200, proxy::EVENTS, "data: {%%%\n\n"),
        "UPSTREAM_ERROR",
        "is not MCP",
        1,
    ),
    dead_over_http("no answer", proxy::Fault::Instead(200, proxy::EVENTS, ": nothing\n\n"), "ended during the call"),
    dead_over_http("a page", proxy::Fault::Instead(200, "Content-Type: text/html\r\n", "<p>Hi"), "text/html"),
    answered_over_http("oversized", proxy::Fault::Oversized(17, false), "BUDGET_EXCEEDED", "larger than 16 MiB", 1),
    answered_over_http(
        "oversized event",
        proxy::Fault::Oversized(17, true),
        "BUDGET_EXCEEDED",
        "larger than 16 MiB",
        1,
    ),
    answered_over_http("wrong id", proxy::Fault::WrongId(false), "UPSTREAM_ERROR", "number of another request", 1),
    dead_over_http("wrong id in an event", proxy::Fault::WrongId(true), "ended during the call"),
    failing_over_http("500", proxy::Fault::Refused(500, "", "oops"), "HTTP 500 Internal Server Error: oops"),
    failing_over_http("503", proxy::Fault::Refused(503, "", ""), "HTTP 503"),
    answered_over_http("401", proxy::Fault::Refused(401, "", ""), "AUTH_REQUIRED", "login", 0),
    answered_over_http("403", proxy::Fault::Refused(403, "", ""), "UPSTREAM_ERROR", "HTTP 403", 0),
    answered_over_http("redirect", proxy::Fault::Refused(302, "Location: /x\r\n", ""), "UPSTREAM_ERROR", "redirect", 0),
    harmless_over_http("redirect within the origin", proxy::Fault::Refused(307, "Location: /mcp\r\n", "")),
    answered_over_http(
        "redirect to another origin",
        proxy::Fault::Refused(307, "Location: http://127.0.0.1:9/mcp\r\n", ""),
        "UPSTREAM_ERROR",
        "redirect",
        0,
    ),
    harmless_over_http("429 with a short wait", proxy::Fault::Refused(429, "Retry-After: 1\r\n", "")),
    answered_over_http(
        "429 with a long wait",
        proxy::Fault::Refused(429, "Retry-After: 3600\r\n", ""),
        "RATE_LIMIT",
        "HTTP 429",
        0,
    ),
    harmless_over_http("404, the session is lost", proxy::Fault::Refused(404, "", "")),
    harmless_over_http("400, the session is lost", proxy::Fault::Refused(400, proxy::JSON, LOST)),
];

#[tokio::test]
async fn every_fault_over_http_is_told_and_survived() {
    let Some(real) = Real::find() else { return };
    let server = HttpServer::start(&real, "streamableHttp", free_port());
    let plain = FaultProxy::start(server.port, true).await;
    let safe = FaultProxy::start(server.port, false).await;
    for (timeout, ends) in [("60s", false), ("4s", true)] {
        let fence = Fence::new();
        let entry = |name: &str, proxy: &FaultProxy| {
            format!("[servers.{name}]\nurl = \"http://127.0.0.1:{}/mcp\"\ntimeout = \"{timeout}\"\n", proxy.port())
        };
        let session = fence.serve(&format!("{}{}", entry("plain", &plain), entry("safe", &safe))).await;
        session.ready(&["plain", "safe"]).await;
        for fault in OVER_HTTP.iter().filter(|fault| is_timeout(fault.error) == ends) {
            for (server, proxy, repeated) in [("plain", &plain, false), ("safe", &safe, fault.repeated)] {
                survives_over_http(&session, fault, server, proxy, repeated).await;
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn survives_over_http(session: &Session, fault: &HttpFault, server: &str, proxy: &FaultProxy, repeated: bool) {
    let nonce = format!("{server} {}", fault.name);
    proxy.arm(&nonce, fault.fault);
    let outcome = echo(session, server, &nonce).await;
    let state = state(session, server).await;
    match fault.error {
        Some((code, says)) if !repeated => {
            assert_eq!(outcome["code"], code, "{nonce}: {outcome}");
            assert!(outcome["message"].as_str().is_some_and(|m| m.contains(says)), "{nonce}: {outcome}");
            assert!(state.contains(fault.state), "{nonce}: {state}");
        }
        _ => {
            assert!(outcome.get("code").is_none(), "{nonce}: {outcome}");
            assert!(state.contains("ready"), "{nonce}: {state}");
        }
    }
    let executions = proxy.calls(&nonce);
    let expected = fault.executions + usize::from(repeated);
    assert_eq!(executions, expected, "{nonce} was carried out");
    let next = format!("after {nonce}");
    let after = echo(session, server, &next).await;
    assert_eq!(after, json!(format!("Echo: {next}")), "{nonce}");
    assert_eq!(proxy.calls(&next), 1, "{nonce}");
    println!("{nonce}: {} | {state} | {executions}", outcome["code"].as_str().unwrap_or("ok"));
}

/// Calls `echo` of server-everything: its answer, or the error's code and message.
async fn echo(session: &Session, server: &str, message: &str) -> Value {
    let call = format!("{server}.echo({{message: '{message}'}})");
    let code = format!("try {{ return await {call} }} catch (e) {{ return {{code: e.code, message: e.message}} }}");
    session.execute("javascript", &code).await
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_for_a_while_is_found_again() {
    let Some(real) = Real::find() else { return };
    let server = HttpServer::start(&real, "streamableHttp", free_port());
    let mut proxy = FaultProxy::start(server.port, false).await;
    let fence = Fence::new();
    let url = format!("http://127.0.0.1:{}/mcp", proxy.port());
    let session = fence.serve(&format!("[servers.web]\nurl = \"{url}\"\ntimeout = \"5s\"\n")).await;
    session.ready(&["web"]).await;
    proxy.close().await;
    for number in 0..3 {
        let outcome = echo(&session, "web", &format!("refused {number}")).await;
        assert_eq!(outcome["code"], "TRANSPORT_DEAD", "{outcome}");
        assert!(outcome["message"].as_str().is_some_and(|m| m.contains("refused")), "{outcome}");
    }
    let state = state(&session, "web").await;
    assert!(state.contains("failing") && state.contains("refused"), "{state}");
    proxy.open().await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while echo(&session, "web", "again").await != "Echo: again" {
        assert!(Instant::now() < deadline, "{}", self::state(&session, "web").await);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(proxy.calls("again"), 1);
}

#[tokio::test]
async fn five_dead_servers_of_twenty_harm_nobody() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let named = |name: &str| config.replace("[servers.faulty]", &format!("[servers.{name}]"));
    let good = (0..15).map(|number| named(&format!("good{number}"))).collect::<String>();
    let with = |name: &str, mode: &str| named(name).replace(".py\"]", &format!(".py\", {mode:?}]"));
    let session = fence
        .serve(&format!(
            "{good}{}{}connect_timeout = \"20s\"\n{}\n[servers.absent]\ncommand = \"no-such-program\"\n\n\
             [servers.refused]\nurl = \"http://127.0.0.1:9/mcp\"\n[servers.silent]\ncommand = \"sleep\"\nargs = [\"600\"]\n",
            with("dies", "die"),
            with("never", "never"),
            "",
        ))
        .await;
    let names: Vec<String> = (0..15).map(|number| format!("good{number}")).collect();
    session.ready(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let calls: Vec<String> = names.iter().map(|name| format!("() => {name}.act({{nonce: '{name}'}})")).collect();
    let code = format!("return (await forge.parallel([{}], {{concurrency: 8}})).results", calls.join(", "));
    let started = Instant::now();
    assert_eq!(session.execute("javascript", &code).await, json!(names));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    let hits = session.call("search", json!({"query": "create issue"})).await.text;
    assert!(hits.contains("/good0/create_issue.pyi"), "{hits}");
    for dead in ["dies", "never", "absent", "refused", "silent"] {
        let error = session.execute_err("javascript", &format!("await {dead}.act({{nonce: 'x'}})")).await;
        assert!(error.contains("TRANSPORT_DEAD"), "{dead}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_reads_nothing_for_long_is_started_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let starts = folder.path().join("starts");
    // Longer than `server/discover` is waited for: the server answers it after `initialize` was sent.
    let Some(config) = faulty(&[&format!("slow={}", starts.display())]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&config).await;
    session.ready(&["faulty"]).await;
    assert_eq!(act(&session, "act", "x", "").await, json!("x"));
    assert_eq!(std::fs::read_to_string(&starts).expect("it was started"), "started\n");
}

/// Calls a misbehaving tool: its answer, or the error's code, message and suggested fix.
async fn act(session: &Session, tool: &str, nonce: &str, fault: &str) -> Value {
    let code = format!(
        "try {{ return await faulty.{tool}({{nonce: '{nonce}', fault: '{fault}'}}) }}\n\
         catch (e) {{ return {{code: e.code, message: e.message, fix: e.suggested_fix}} }}"
    );
    session.execute("javascript", &code).await
}

/// Line of a server in `ls /`.
async fn state(session: &Session, server: &str) -> String {
    let listing = session.call("ls", json!({})).await.text;
    let line = listing.lines().find(|line| line.starts_with(&format!("{server}/"))).unwrap_or_default();
    line.to_owned()
}

#[tokio::test]
async fn progress_keeps_a_long_call_alive() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let session = fence.serve(&format!("{config}timeout = \"1s\"\nmax_timeout = \"4s\"\n")).await;
    session.ready(&["faulty"]).await;
    assert_eq!(session.execute("starlark", "faulty.progress(steps=6, ms=400)").await, "done");
    let error = session.execute_err("starlark", "faulty.progress(steps=99, ms=400)").await;
    assert!(error.contains("TIMEOUT") && error.contains("still at work after 4s"), "{error}");
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_left_alone_and_found_again() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (log, setting) = log(&fence);
    // Longer than the third crash, its restart and the two checks below take on any machine.
    let breaker = "breaker = { faults = 3, pause = \"15s\" }\n";
    let session = fence.serve(&format!("{config}{setting}{breaker}")).await;
    session.ready(&["faulty"]).await;
    for number in 1..=3 {
        assert_eq!(act(&session, "act", &number.to_string(), "crash").await["code"], "TRANSPORT_DEAD");
    }
    let refused = act(&session, "act", "4", "none").await;
    assert_eq!(refused["code"], "CIRCUIT_OPEN", "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("failed 3 times") && message.contains("tried again in"), "{message}");
    let state = state(&session, "faulty").await;
    assert!(state.contains("failing, circuit breaker open for") && state.contains("TRANSPORT_DEAD"), "{state}");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(act(&session, "act", "5", "none").await, "5");
    assert_eq!((log.count("call 4"), log.count("call 5")), (0, 1));
}

#[tokio::test]
async fn a_server_that_was_never_listed_is_started_by_calls_until_its_breaker_opens() {
    let fence = Fence::new();
    let starts = fence.work().join("starts");
    let script = format!("echo start >> {}; exit 1", starts.display());
    let count = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let config = format!(
        "[servers.down]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n\
         breaker = {{ faults = 3, pause = \"100s\" }}\n"
    );
    let session = fence.serve(&config).await;
    while !state(&session, "down").await.contains("failed") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = count();
    // The pause after the first failed attempt is over; the gateway's own next one comes after five seconds.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let code = "try { return await down.act() } catch (e) { return e.code }";
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(session.execute("javascript", code).await);
    }
    assert_eq!(codes, ["TRANSPORT_DEAD", "TRANSPORT_DEAD", "TRANSPORT_DEAD", "CIRCUIT_OPEN"]);
    assert!(count() > before, "no call started it");
}

#[tokio::test]
async fn a_call_starts_a_server_that_works_again() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let marker = fence.work().join("works");
    let start = format!("[ -e {} ] && exec python3 \"$0\"", marker.display());
    let config = config
        .replace("command = \"python3\"", "command = \"sh\"")
        .replace("args = [", &format!("args = [\"-c\", {start:?}, "));
    let session = fence.serve(&config).await;
    while !state(&session, "faulty").await.contains("failed") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(&marker, "").expect("writable");
    tokio::time::sleep(Duration::from_millis(700)).await;
    let error = session.execute_err("javascript", "await faulty.act({nonce: 'x'})").await;
    assert!(error.contains("faulty is up now; its tools are there from the next script on"), "{error}");
    session.ready(&["faulty"]).await;
    assert_eq!(session.execute("javascript", "return await faulty.act({nonce: 'x'})").await, "x");
}

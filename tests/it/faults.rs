//! Every fault that a server can have, one row each: what the script sees, what `ls /` shows, how often the call was
//! carried out, and that the next call works without anybody's help.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::{faulty, log};

/// One fault of one call.
struct Fault {
    name: &'static str,
    /// The code and a part of the message that the script sees; nothing if the call works all the same.
    error: Option<(&'static str, &'static str)>,
    /// Whether a tool that is annotated as idempotent is called again and then answers.
    repeated: bool,
    /// What `ls /` shows afterwards.
    state: &'static str,
    /// Notices of cancellation that the server gets for the call.
    cancelled: usize,
    /// Whether calls fail after it too, until the server is found to answer nothing at all and is replaced.
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
    Fault { cancelled: 1, ..fault(name, "TIMEOUT", "did not answer within 1s") }
}

const fn harmless(name: &'static str) -> Fault {
    Fault { name, error: None, repeated: false, state: "ready", cancelled: 0, is_stuck: false }
}

const OF_PROCESSES: &[Fault] = &[
    dead("crash", "ended during the call"),
    dead("cut", "ended during the call"),
    dead("close", "ended during the call"),
    dead("garbage", "its answer is not MCP"),
    dead("shape", "something else than it was asked"),
    late("hang"),
    late("late"),
    late("wrong_id"),
    // The whole server is busy with its drip: nobody knows when it hears of the cancellation.
    Fault { is_stuck: true, ..late("drip") },
    answered("oversized", "BUDGET_EXCEEDED", "larger than 16 MiB"),
    answered("oversized_id_last", "BUDGET_EXCEEDED", "larger than 16 MiB"),
    answered("refused", "UPSTREAM_ERROR", "no database"),
    answered("bad_arguments", "INVALID_ARGS", "nonce is too odd"),
    harmless("noise"),
    harmless("duplicate"),
];

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the table belongs into the test's log")]
async fn every_fault_of_a_process_is_told_and_survived() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (log, setting) = log(&fence);
    let session = fence.serve(&format!("{config}{setting}timeout = \"1s\"\n")).await;
    session.ready(&["faulty"]).await;
    for fault in OF_PROCESSES {
        for (tool, repeated) in [("act", false), ("act_safely", fault.repeated)] {
            let name = format!("{tool} {}", fault.name);
            let cancelled = log.count("cancelled");
            let outcome = act(&session, tool, &name, fault.name).await;
            let state = state(&session, "faulty").await;
            match fault.error {
                Some((code, says)) if !repeated => {
                    assert_eq!(outcome["code"], code, "{name}: {outcome}");
                    assert!(outcome["message"].as_str().is_some_and(|m| m.contains(says)), "{name}: {outcome}");
                    let warns = outcome["fix"].as_str().is_some_and(|fix| fix.contains("may have been carried out"));
                    assert_eq!(warns, tool == "act" && fault.state != "ready", "{name}: {outcome}");
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
            let mut after = act(&session, "act", &next, "none").await;
            let deadline = Instant::now() + if fault.is_stuck { Duration::from_secs(30) } else { Duration::ZERO };
            while after != json!(next) && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(300)).await;
                after = act(&session, "act", &next, "none").await;
            }
            assert_eq!(after, json!(next), "{name}");
            assert!(self::state(&session, "faulty").await.contains("ready"), "{name}");
            if !fault.is_stuck {
                assert_eq!(log.count("cancelled") - cancelled, fault.cancelled, "{name}: cancellations");
            }
            println!("{name}: {} | {state} | {executions}", outcome["code"].as_str().unwrap_or("ok"));
        }
    }
}

/// Calls a tool that misbehaves: its answer, or the error's code, message and suggested fix.
async fn act(session: &Session, tool: &str, nonce: &str, fault: &str) -> Value {
    let code = format!(
        "try {{ return await faulty.{tool}({{nonce: '{nonce}', fault: '{fault}'}}) }}\n\
         catch (e) {{ return {{code: e.code, message: e.message, fix: e.suggested_fix}} }}"
    );
    session.execute("javascript", &code).await
}

/// What `ls /` says of a server.
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
    let breaker = "breaker = { faults = 3, pause = \"2s\" }\n";
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
    assert!(state.contains("failing, left alone for") && state.contains("TRANSPORT_DEAD"), "{state}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(act(&session, "act", "5", "none").await, "5");
    assert_eq!((log.count("call 4"), log.count("call 5")), (0, 1));
}

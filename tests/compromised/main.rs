//! The gateway against a compromised worker.
//!
//! The sandbox is a layer behind the engines: code in the worker process can only write frames. Here a process of ours
//! ([`rogue`]) is that worker, confined like a real one, and writes arbitrary frames. The gateway is the real one; it
//! must survive, make no call out of order, keep its limits on memory and time, and serve the next script. This
//! executable is the rogue too, which is why it is a test binary of its own.

mod checker;
mod leaks;
mod rogue;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use forgefs::base::error::ErrorCode;
use forgefs::config::Config;
use forgefs::run::execution::{Execution, Request};
use forgefs::run::session::Session;
use forgefs::server::gateway::{Gateway, Options};
use libtest_mimic::{Arguments, Failed, Trial};
use wire::Language;

/// Limits of the rogue. No machine meets its CPU limit, except for behaviours that it must end.
const CONFIG: &str = r#"
[sandbox.limits]
wall = "60s"
cpu = "60s"
output = "64KiB"
args = "1MiB"
calls = 20
"#;

/// Two known, unreachable tools.
const TOOLS: &str = r#"{"tools": [
    {"name": "echo", "description": "Answers.", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "erase", "description": "Erases.", "inputSchema": {"type": "object"}}
]}"#;

/// Most peak memory of the gateway, in bytes.
const MEMORY: u64 = 700 << 20;

/// Expected reaction of the gateway.
#[derive(Clone, Copy)]
enum Verdict {
    /// The run has this value, as JSON.
    Value(&'static str),
    /// It fails with this code, and this text in its message.
    Fails(ErrorCode, &'static str),
    /// It has a value or fails: the gateway must work as before.
    Survives,
}
use Verdict::{Fails, Survives, Value};

/// Starlark goes to the worker as it is; JavaScript is for checkers.
const STARLARK: Language = Language::Starlark;
/// What is said of a run that meets the limit of CPU time.
const BURNT: &str = "10ms of CPU time";

const BROKE: ErrorCode = ErrorCode::Internal;
const CRASHED: ErrorCode = ErrorCode::LimitExceeded;

#[rustfmt::skip]
const BEHAVIOURS: &[(&str, Verdict)] = &[
    ("call_of_another_run", Fails(BROKE, "a frame of another run")),
    ("call_of_run_zero", Fails(BROKE, "a frame of another run")),
    ("replayed_call", Fails(BROKE, "call 1 after call 1")),
    ("skipped_number", Fails(BROKE, "call 2 after call 0")),
    ("largest_number", Fails(BROKE, "after call 0")),
    ("zeroth_number", Fails(BROKE, "call 0 after call 0")),
    ("output_of_another_run", Fails(BROKE, "a frame of another run")),
    ("done_of_another_run", Fails(BROKE, "a frame of another run")),
    ("ready_again", Fails(BROKE, "Ready in the middle")),
    ("pong_without_ping", Fails(BROKE, "Pong in the middle")),
    ("done_twice", Value("\"first\"")),
    ("done_for_the_next_run", Value("\"mine\"")),
    ("talks_after_done", Value("\"quiet\"")),
    ("not_json", Fails(BROKE, "not a message")),
    ("empty_frame", Fails(BROKE, "not a message")),
    ("gigabyte_frame", Fails(BROKE, "1073741824 bytes is over the limit")),
    ("largest_prefix", Fails(BROKE, "4294967295 bytes is over the limit")),
    ("unknown_message", Fails(BROKE, "not a message")),
    ("unknown_op", Fails(BROKE, "not a message")),
    ("wrong_types", Fails(BROKE, "not a message")),
    ("two_messages_in_one", Fails(BROKE, "not a message")),
    ("not_unicode", Fails(BROKE, "not a message")),
    ("deep_json", Survives),
    ("half_a_frame", Fails(ErrorCode::Timeout, "stopped after 6s")),
    ("half_a_frame_and_death", Fails(CRASHED, "sandbox process down")),
    ("drip", Fails(BROKE, "not a message")),
    ("output_flood", Fails(BROKE, "more lines of output than the limits of the run allow")),
    ("empty_output_flood", Fails(BROKE, "more lines of output than the limits of the run allow")),
    ("large_output", Value("\"said\"")),
    ("call_flood", Fails(BROKE, "")),
    ("tool_flood", Value("980")),
    ("sleep_flood", Fails(BROKE, "more timers than the limits of the run allow")),
    ("ends_asleep", Value("true")),
    ("heavy_call_flood", Survives),
    ("deaf", Fails(ErrorCode::Timeout, "stopped after 6s")),
    ("stash_flood", Value("true")),
    ("never_answers", Fails(ErrorCode::Timeout, "stopped after 6s")),
    ("burns_cpu", Fails(ErrorCode::LimitExceeded, BURNT)),
    ("closes_stdout", Fails(CRASHED, "sandbox process down")),
    ("dies", Fails(CRASHED, "exit status: 7")),
    ("aborts", Fails(CRASHED, "signal: 6")),
    ("complains_and_dies", Fails(CRASHED, "exit status: 7; its last words: xxx")),
    ("forged_statistics", Value("\"cheap\"")),
    ("forged_error", Fails(ErrorCode::ToolError, "more bytes)")),
    ("forged_image", Value(r#"{"image":"blob:1","other":"blob:99999999999999999999"}"#)),
    ("largest_result", Survives),
    ("escape_in_output", Value("\"said\"")),
    ("wander", Value(r#"{"leaked":[],"control":true}"#)),
    ("open", Value("false")),
    ("create", Value("false")),
    ("list", Value("false")),
    ("environment", Value("false")),
    ("inherited_files", Value("false")),
    ("thread", Value("false")),
    ("kill_parent", Value("false")),
    ("connect", Fails(CRASHED, "signal: 31")),
    ("datagram", Fails(CRASHED, "signal: 31")),
    ("exec", Value("false")),
    ("fork", Value("false")),
    ("trace_parent", Fails(CRASHED, "signal: 31")),
];

/// Behaviour of a worker before its first script, and the expected message.
const HABITS: &[(&str, &str)] = &[
    ("begins_with_noise", "not a message"),
    ("begins_with_a_gigabyte", "over the limit"),
    ("begins_with_done", "began with something else than Ready"),
    ("ends_at_once", "ended before it was ready"),
    ("complains_and_ends", "ended before it was ready: xxx"),
    ("another_version", "speaks protocol"),
    ("unconfined", "`seccomp` is required and does not hold: the kernel has none"),
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("rogue") {
        let habit = args.next().unwrap_or_default();
        return if args.next().as_deref() == Some("--check") { checker::live() } else { rogue::live(&habit) };
    }
    let mut trials = leaks::trials();
    trials.extend(checker::trials());
    trials.extend(BEHAVIOURS.iter().map(|(name, verdict)| {
        Trial::test(format!("behaviour::{name}"), move || in_runtime(misbehaves(STARLARK, name, *verdict)))
    }));
    trials.extend(
        HABITS
            .iter()
            .map(|(name, reason)| Trial::test(format!("habit::{name}"), move || in_runtime(is_not_used(name, reason)))),
    );
    trials.push(Trial::test("habit::honest_start", || in_runtime(misbehaves(STARLARK, "honest", Value("\"honest\"")))));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn in_runtime(test: impl Future<Output = Result<(), Failed>>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

/// A gateway with `worker` as its workers, and the tools above.
fn gateway(config: &str, worker: PathBuf, args: &[&str]) -> Result<(Gateway, Arc<Session>), Failed> {
    let folder = tempfile::tempdir()?;
    let catalog = folder.path().join("demo.json");
    std::fs::write(&catalog, TOOLS)?;
    let config = Config::parse(config, Path::new("forge.toml"), &|_| None)?;
    let worker_args = args.iter().map(Into::into).collect();
    let gateway = Gateway::start(Options { config, catalogs: vec![catalog], worker, worker_args })?;
    Ok((gateway, Arc::default()))
}

/// Runs what only a deadline ends for six seconds, everything else for as long as a busy machine may need.
async fn run(gateway: &Gateway, session: &Arc<Session>, language: Language, code: &str, verdict: Verdict) -> Execution {
    let hangs = matches!(verdict, Survives | Fails(ErrorCode::Timeout, _));
    let timeout = hangs.then_some(Duration::from_secs(6));
    gateway
        .execute(
            session,
            Request { language, code: code.to_owned(), timeout, dry_run: false, past: None, save_as: None },
        )
        .await
}

async fn misbehaves(language: Language, behaviour: &str, verdict: Verdict) -> Result<(), Failed> {
    let config = match verdict {
        Fails(_, BURNT) => CONFIG.replace("cpu = \"60s\"", "cpu = \"10ms\""),
        _ => CONFIG.to_owned(),
    };
    let (gateway, session) = gateway(&config, std::env::current_exe()?, &["rogue", "honest_start"])?;
    let execution = run(&gateway, &session, language, behaviour, verdict).await;
    is_taken_as(&execution, verdict)?;
    // No call was made that was answered after the budget was spent, or that came after the end.
    let made = execution.calls.iter().filter(|call| call.verdict == forgefs::state::audit::Verdict::Allowed).count();
    if made > 20 || execution.calls.len() > 121 || execution.calls.iter().any(|call| call.tool == "erase") {
        return Err(format!("{made} calls of {}: {:?}", execution.calls.len(), execution.calls.last()).into());
    }
    let shown = execution.answer(&session, 2000).await;
    if shown.len() > 100_000 || shown.contains('\u{1b}') || shown.contains('\u{202e}') {
        return Err(format!("{} bytes reach the agent, beginning with {:?}", shown.len(), shown.get(..300)).into());
    }
    let next = run(&gateway, &session, language, "honest", Value("\"honest\"")).await;
    is_taken_as(&next, Value("\"honest\""))
        .map_err(|error| format!("the next script: {}", error.message().unwrap_or_default()))?;
    let peak = peak_memory();
    if peak > MEMORY {
        return Err(format!("the gateway took {} MiB", peak >> 20).into());
    }
    Ok(())
}

fn is_taken_as(execution: &Execution, verdict: Verdict) -> Result<(), Failed> {
    let value = execution.value.as_ref().map(|value| value.get());
    let error = execution.error.as_ref().map(|failed| (failed.code, failed.message.as_str()));
    let as_expected = match verdict {
        Survives => true,
        Value(expected) => value == Some(expected),
        Fails(code, part) => error.is_some_and(|(got, message)| got == code && message.contains(part)),
    };
    let short = |text: &str| text.chars().take(300).collect::<String>();
    let shown = || (value.map(short), error.map(|(code, message)| (code, short(message))));
    if as_expected { Ok(()) } else { Err(format!("it was taken as {:?}", shown()).into()) }
}

async fn is_not_used(habit: &str, reason: &'static str) -> Result<(), Failed> {
    let config = format!("[sandbox]\nrequire = [\"all\"]\n{CONFIG}");
    let (gateway, session) = gateway(&config, std::env::current_exe()?, &["rogue", habit])?;
    let verdict = Fails(ErrorCode::Internal, reason);
    is_taken_as(&run(&gateway, &session, STARLARK, "honest", verdict).await, verdict)
}

/// Peak memory of this process, in bytes; 0 if unknown.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// Waits until `holds`, at most `limit`.
async fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = tokio::time::Instant::now() + limit;
    while !holds() {
        if tokio::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

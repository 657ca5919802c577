//! Leak tests: nothing is left after ten thousand scripts, and after a gateway was killed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use libtest_mimic::{Failed, Trial};
use wire::Language;

use super::{Gateway, Request, Session, eventually, gateway, in_runtime};

/// Number of scripts.
const RUNS: usize = 10_000;
/// Concurrent scripts.
const AT_ONCE: usize = 4;

pub(crate) fn trials() -> Vec<Trial> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    vec![
        Trial::test("leaks::ten_thousand_runs", || in_runtime(ten_thousand_runs())),
        Trial::test("leaks::killed_gateway", || in_runtime(killed_gateway())),
    ]
}

/// Most scripts end on their own; some meet their deadline, some are cancelled, some die.
async fn ten_thousand_runs() -> Result<(), Failed> {
    let config = "[sandbox.limits]\nwall = \"60s\"\nruns = 4";
    let (gateway, session) = gateway(config, env!("CARGO_BIN_EXE_forgefs").into(), &["worker"])?;
    let before = descriptors();
    let outcomes = futures::stream::iter(0..RUNS).map(|number| one(&gateway, &session, number));
    let wrong: Vec<String> =
        outcomes.buffer_unordered(AT_ONCE).filter_map(|outcome| async { outcome.err() }).collect().await;
    if !wrong.is_empty() {
        return Err(format!("{} went wrong, the first: {}", wrong.len(), wrong[0]).into());
    }
    let metrics = gateway.pool().metrics();
    let idle = || {
        let metrics = gateway.pool().metrics();
        usize::try_from(metrics.idle + metrics.idle_checkers).unwrap_or_default()
    };
    // A worker is a process and three pipes here; the runtime has descriptors of its own for child processes.
    if !eventually(Duration::from_secs(20), || children(std::process::id()).len() == idle()).await {
        return Err(format!("{} processes for {} idle workers", children(std::process::id()).len(), idle()).into());
    }
    if !eventually(Duration::from_secs(5), || descriptors() <= before + 8 + idle() * 4).await {
        return Err(format!("{before} descriptors before, {} after", descriptors()).into());
    }
    if metrics.recycled == 0 || metrics.killed == 0 || metrics.cancelled == 0 {
        return Err(format!("not every kind of end was met: {metrics:?}").into());
    }
    drop(gateway);
    match eventually(Duration::from_secs(20), || children(std::process::id()).is_empty()).await {
        true => Ok(()),
        false => Err(format!("left over: {:?}", children(std::process::id())).into()),
    }
}

async fn one(gateway: &Gateway, session: &Arc<Session>, number: usize) -> Result<(), String> {
    let (language, code, timeout) = match number {
        n if n % 2000 == 1000 => (Language::Starlark, "endless", Some(Duration::from_millis(50))),
        n if n % 2000 == 0 => (Language::Starlark, "endless", None),
        n if n % 20 == 7 => (Language::Javascript, "return 20 + 22", None),
        _ => (Language::Starlark, "20 + 22", None),
    };
    let endless = code == "endless";
    let code = match endless {
        true => "def f():\n    for _ in range(8000000):\n        for _ in range(8000000):\n            pass\nf()",
        false => code,
    };
    let running = gateway.execute(
        session,
        Request { language, code: code.to_owned(), timeout, dry_run: false, past: None, save_as: None },
    );
    if endless && timeout.is_none() {
        // The caller cancels, once its worker is sure to run.
        return match tokio::time::timeout(Duration::from_secs(1), running).await {
            Ok(execution) => Err(format!("{number} ended by itself: {:?}", execution.error)),
            Err(_) => Ok(()),
        };
    }
    let execution = running.await;
    match (endless, &execution.value, &execution.error) {
        (false, Some(value), _) if value.get() == "42" => Ok(()),
        (true, _, Some(failed)) if failed.message.contains("stopped after 50ms") => Ok(()),
        (_, value, error) => Err(format!("{number}: {value:?} {error:?}")),
    }
}

/// Workers end with a killed gateway, also in the middle of a script.
async fn killed_gateway() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("forge.toml");
    std::fs::write(&config, "")?;
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_forgefs"))
        .args(["--config".as_ref(), config.as_os_str(), "serve".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut stdin), Some(stdout)) = (gateway.stdin.take(), gateway.stdout.take()) else {
        return Err("no pipes".into());
    };
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let script = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute","arguments":{"language":"starlark","code":"def f():\n    for _ in range(8000000):\n        for _ in range(8000000):\n            pass\nf()"}}}"#;
    writeln!(stdin, "{hello}")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    writeln!(stdin, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)?;
    writeln!(stdin, "{script}")?;
    let id = gateway.id();
    if !eventually(Duration::from_secs(30), || children(id).len() >= 2).await {
        return Err(format!("{} workers", children(id).len()).into());
    }
    let workers = children(id);
    gateway.kill()?;
    gateway.wait()?;
    match eventually(Duration::from_secs(10), || workers.iter().all(|id| !is_running(*id))).await {
        true => Ok(()),
        false => Err("a worker outlived its gateway".into()),
    }
}

/// The processes that a process has started and that are still there, also as zombies.
pub(crate) fn children(of: u32) -> BTreeSet<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// True if the process exists and is not a zombie.
fn is_running(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map(|entries| entries.count()).unwrap_or_default()
}

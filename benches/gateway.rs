//! What the gateway costs, measured on the real executable over stdio: `cargo bench --bench gateway`.
//!
//! Everything is measured in one run, so that figures can be compared with each other on a noisy machine: the direct
//! rmcp call beside the same call from a script, each engine beside the others. Times are medians and 99th
//! percentiles of wall clock. With `--features v8` both JavaScript engines are measured.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_forgefs");
/// Process starts that are measured.
const STARTS: usize = 20;
/// Executions that are measured, a kind.
const RUNS: usize = 200;
/// Calls in the script that measures an inner call.
const CALLS: usize = 40;

struct Client;
impl ClientHandler for Client {}
type Session = RunningService<RoleClient, Client>;

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(folder.path());
    println!("{:<52} {:>10} {:>10}", "", "median", "p99");

    let mut to_initialize = Vec::new();
    let mut to_first_ls = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let session = serve(&config, &[]).await;
        to_initialize.push(started.elapsed());
        call(&session, "ls", json!({})).await;
        to_first_ls.push(started.elapsed());
        session.cancel().await.unwrap();
    }
    report("process start to `initialize` answered", to_initialize);
    report("process start to first `ls`, 3 servers up", to_first_ls);

    let direct = TokioChildProcess::new(command(&["demo-server".into(), "people".into()])).unwrap();
    let direct = Client.serve(direct).await.unwrap();
    let times = repeat(RUNS, || async { drop(call(&direct, "list_teams", json!({})).await) }).await;
    let direct_call = report("one call, rmcp directly to the server", times);

    for (engine, language, empty, calls) in engines() {
        let session = serve(&config, &engine_flag(engine)).await;
        call(&session, "ls", json!({})).await;
        let empty = json!({"language": language, "code": empty});
        let calls = json!({"language": language, "code": calls});
        // Not measured: the first runs warm up the pool.
        repeat(20, || async { drop(call(&session, "execute", empty.clone()).await) }).await;
        let times = repeat(RUNS, || async { drop(call(&session, "execute", empty.clone()).await) }).await;
        let empty_run = report(&format!("execute, empty script, {engine}"), times);
        let times = repeat(RUNS / 10, || async { drop(call(&session, "execute", calls.clone()).await) }).await;
        let with_calls = report(&format!("execute, {CALLS} calls one after the other, {engine}"), times);
        let inner = with_calls.saturating_sub(empty_run) / u32::try_from(CALLS).unwrap();
        println!("{:<52} {:>10} ({:.2} × direct)", "  so one inner call costs", show(inner), ratio(inner, direct_call));
        session.cancel().await.unwrap();
    }
}

/// Engine, language, an empty script, and one with [`CALLS`] calls.
fn engines() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let js = format!("for (let i = 0; i < {CALLS}; i++) await people.list_teams(); return 1");
    let starlark = format!("[people.list_teams() for _ in range({CALLS})]\nresult = 1");
    let mut engines = vec![("starlark", "starlark", "1", starlark)];
    if cfg!(feature = "quickjs") {
        engines.push(("quickjs", "javascript", "return 1", js.clone()));
    }
    if cfg!(feature = "v8") {
        engines.push(("v8", "javascript", "return 1", js));
    }
    engines
}

fn engine_flag(engine: &str) -> Vec<String> {
    if engine == "starlark" { Vec::new() } else { vec!["--engine".to_owned(), engine.to_owned()] }
}

fn write_config(folder: &Path) -> PathBuf {
    let entry = |role| format!("[servers.{role}]\ncommand = {EXE:?}\nargs = [\"demo-server\", \"{role}\"]\n");
    let path = folder.join("forge.toml");
    std::fs::write(&path, ["calendar", "people", "tickets"].map(entry).join("\n")).unwrap();
    path
}

fn command(args: &[String]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(EXE);
    command.args(args);
    command
}

async fn serve(config: &Path, flags: &[String]) -> Session {
    let mut args = vec!["--log".to_owned(), "off".to_owned(), "--config".to_owned(), config.display().to_string()];
    args.extend_from_slice(flags);
    args.push("serve".to_owned());
    Client.serve(TokioChildProcess::new(command(&args)).unwrap()).await.unwrap()
}

async fn call(session: &Session, tool: &'static str, arguments: Value) -> String {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    let result = session.call_tool(request).await.unwrap();
    let text: String =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.clone()).collect();
    assert!(!result.is_error.unwrap_or(false), "{tool}: {text}");
    text
}

async fn repeat<F: Future<Output = ()>>(count: usize, mut work: impl FnMut() -> F) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        work().await;
        times.push(started.elapsed());
    }
    times
}

fn report(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let median = times[times.len() / 2];
    let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
    println!("{what:<52} {:>10} {:>10}", show(median), show(p99));
    median
}

fn show(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

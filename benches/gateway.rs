//! What the gateway costs, measured on the real executable over stdio: `cargo bench --workspace --bench gateway`,
//! `-- --write docs/benchmarks.md` to keep the table. With `--features v8` both JavaScript engines are measured.
//!
//! Everything is measured in one run, so that figures can be compared with each other on a noisy machine: the direct
//! rmcp call beside the same call from a script, each engine beside the others. Times are medians and 99th
//! percentiles of wall clock, as the client sees them.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::join_all;
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
/// Executions that are not: they warm up the pool.
const WARM_UP: usize = 20;
/// How long the throughput is measured, a number of clients.
const LOAD: Duration = Duration::from_secs(3);

struct Client;
impl ClientHandler for Client {}
type Service = RunningService<RoleClient, Client>;

/// A gateway and its client.
struct Session {
    service: Service,
    pid: u32,
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table(Vec::new());
    table.line("| | median | p99 |");
    table.line("|---|---:|---:|");
    starts(folder.path(), &mut table).await;
    let config = write_config(&folder.path().join("three"), 1);
    let direct =
        Client.serve(TokioChildProcess::new(command(&["demo-server", "people"], None)).unwrap()).await.unwrap();
    let times = repeat(RUNS * 5, || async { drop(call(&direct, "list_teams", json!({})).await) }).await;
    let direct = table.times("one call, by rmcp directly to the server", times);
    for engine in engines() {
        runs(&config, engine, direct, &mut table).await;
    }
    let mut args = std::env::args().skip_while(|arg| arg != "--write");
    if let Some(file) = args.nth(1) {
        table.write(Path::new(&file));
    }
}

/// From the start of the process to its first answers, and what it takes of memory then.
async fn starts(folder: &Path, table: &mut Table) {
    for (name, copies) in [("three", 1), ("twenty-one", 7)] {
        let config = write_config(&folder.join(name), copies);
        let servers = 3 * copies;
        // Not measured: the tool lists are kept from here on.
        let session = serve(&config, &[]).await;
        call(&session.service, "ls", json!({})).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        session.service.cancel().await.unwrap();
        let (mut to_initialize, mut to_ls, mut to_execute) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let started = Instant::now();
            let session = serve(&config, &[]).await;
            to_initialize.push(started.elapsed());
            call(&session.service, "ls", json!({})).await;
            to_ls.push(started.elapsed());
            call(&session.service, "execute", json!({"language": "starlark", "code": "1"})).await;
            to_execute.push(started.elapsed());
            session.service.cancel().await.unwrap();
        }
        table.times(
            &format!("process start to `initialize` answered, {servers} servers known from the last start"),
            to_initialize,
        );
        table.times(&format!("… to the first `ls`, {servers} servers"), to_ls);
        table.times(&format!("… to the first `execute`, {servers} servers"), to_execute);
        let session = serve(&config, &[]).await;
        call(&session.service, "ls", json!({})).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (gateway, workers) = resident(session.pid);
        table.line(&format!("| memory at rest, {servers} servers: the gateway | {gateway:.1} MiB | |"));
        table.line(&format!("| … its 2 workers together | {workers:.1} MiB | |"));
        session.service.cancel().await.unwrap();
    }
}

/// What scripts cost on an engine. `direct` is what one call costs without any.
async fn runs(config: &Path, engine: Engine, direct: Duration, table: &mut Table) {
    let Engine { name, language, flags, .. } = engine;
    let session = serve(config, flags).await;
    call(&session.service, "ls", json!({})).await;
    let times = async |count: usize, code: String| {
        let script = json!({"language": language, "code": code});
        repeat(WARM_UP, || async { drop(call(&session.service, "execute", script.clone()).await) }).await;
        repeat(count, || async { drop(call(&session.service, "execute", script.clone()).await) }).await
    };
    let empty = table.times(&format!("{name}: an empty script"), times(RUNS, engine.empty.to_owned()).await);
    for calls in [1, 10, 50] {
        let took = table.times(
            &format!("{name}: {calls} calls, one after the other"),
            times(RUNS / 4, (engine.calls)(calls)).await,
        );
        if calls == 50 {
            let inner = took.saturating_sub(empty) / calls;
            let more = inner.as_secs_f64() / direct.as_secs_f64();
            table.line(&format!("| … so one of them costs, {more:.2} × direct | {} | |", show(inner)));
        }
    }
    table.times(&format!("{name}: 50 calls, 8 at once"), times(RUNS / 4, (engine.parallel)(50)).await);
    for clients in [1, 2, 8] {
        let script = json!({"language": language, "code": engine.empty});
        let started = Instant::now();
        let work = (0..clients).map(|_| async {
            let mut runs = 0;
            while started.elapsed() < LOAD {
                call(&session.service, "execute", script.clone()).await;
                runs += 1;
            }
            runs
        });
        let runs: u32 = join_all(work).await.into_iter().sum();
        let rate = f64::from(runs) / started.elapsed().as_secs_f64();
        table.line(&format!("| {name}: empty scripts a second, {clients} at once | {rate:.0} | |"));
    }
    session.service.cancel().await.unwrap();
}

/// An engine, and scripts for it.
#[derive(Clone, Copy)]
struct Engine {
    name: &'static str,
    language: &'static str,
    flags: &'static [&'static str],
    empty: &'static str,
    calls: fn(u32) -> String,
    parallel: fn(u32) -> String,
}

fn engines() -> Vec<Engine> {
    let starlark = Engine {
        name: "Starlark",
        language: "starlark",
        flags: &[],
        empty: "1",
        calls: |n| format!("[people.list_teams() for _ in range({n})]\nresult = 1"),
        parallel: |n| format!("parallel([defer(people.list_teams) for _ in range({n})])\nresult = 1"),
    };
    let quickjs = Engine {
        name: "QuickJS",
        language: "javascript",
        flags: &["--engine", "quickjs"],
        empty: "return 1",
        calls: |n| format!("for (let i = 0; i < {n}; i++) await people.list_teams(); return 1"),
        parallel: |n| format!("await forge.parallel(Array({n}).fill(() => people.list_teams())); return 1"),
    };
    let v8 = Engine { name: "V8", flags: &["--engine", "v8"], ..quickjs };
    let mut engines = vec![starlark];
    engines.extend(cfg!(feature = "quickjs").then_some(quickjs));
    engines.extend(cfg!(feature = "v8").then_some(v8));
    engines
}

/// A configuration with each of the sample servers this many times, which keeps what it keeps in its own folder.
fn write_config(folder: &Path, copies: usize) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let mut text = "[manifest]\ncache = \"cache\"\n[audit]\npath = \"audit.jsonl\"\n".to_owned();
    for copy in 0..copies {
        for role in ["calendar", "people", "tickets"] {
            let name = if copy == 0 { role.to_owned() } else { format!("{role}{copy}") };
            text += &format!("[servers.{name}]\ncommand = {EXE:?}\nargs = [\"demo-server\", \"{role}\"]\n");
        }
    }
    let path = folder.join("forge.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn command(args: &[&str], config: Option<&Path>) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(EXE);
    if let Some(config) = config {
        command.args(["--log", "off", "--config"]).arg(config);
    }
    command.args(args);
    command
}

async fn serve(config: &Path, flags: &[&str]) -> Session {
    let process = TokioChildProcess::new(command(&[flags, &["serve"]].concat(), Some(config))).unwrap();
    let pid = process.id().unwrap();
    Session { service: Client.serve(process).await.unwrap(), pid }
}

async fn call(session: &Service, tool: &'static str, arguments: Value) -> String {
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

/// Resident memory in MiB: of the gateway, and of the workers that it started.
fn resident(pid: u32) -> (f64, f64) {
    let field = |pid: &str, name: &str| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    let mib = |kib: u64| kib as f64 / 1024.0;
    let own = field(&pid.to_string(), "VmRSS:").unwrap_or_default();
    let mut workers = 0;
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name().to_string_lossy().into_owned();
        let line = std::fs::read_to_string(format!("/proc/{name}/cmdline")).unwrap_or_default();
        if field(&name, "PPid:") == Some(u64::from(pid)) && line.split('\0').any(|arg| arg == "worker") {
            workers += field(&name, "VmRSS:").unwrap_or_default();
        }
    }
    (mib(own), mib(workers))
}

/// The lines of the table, printed as they come.
struct Table(Vec<String>);

impl Table {
    fn line(&mut self, line: &str) {
        println!("{line}");
        self.0.push(line.to_owned());
    }

    fn times(&mut self, what: &str, mut times: Vec<Duration>) -> Duration {
        times.sort_unstable();
        let median = times[times.len() / 2];
        let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
        self.line(&format!("| {what} | {} | {} |", show(median), show(p99)));
        median
    }

    /// Replaces what stands between `<!-- gateway -->` and `<!-- /gateway -->`.
    fn write(&self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap();
        let (before, rest) = text.split_once("<!-- gateway -->").unwrap();
        let (_, after) = rest.split_once("<!-- /gateway -->").unwrap();
        let table = self.0.join("\n");
        std::fs::write(file, format!("{before}<!-- gateway -->\n\n{table}\n\n<!-- /gateway -->{after}")).unwrap();
    }
}

fn show(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

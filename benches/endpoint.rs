//! One gateway for many clients: latency over stdio, the daemon's socket and HTTP beside each other, memory and latency
//! with a thousand sessions, and a client beside another's storm. `cargo bench --workspace --bench endpoint`, `--
//! --write docs/benchmarks.md` to keep the table.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forgefs_measure::report::Report;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_forgefs");
/// Requests of each kind, in alternating rounds.
const ROUNDS: usize = 300;
/// Sessions in steps.
const SESSIONS: [usize; 3] = [1, 100, 1000];
/// Scripts of a storm at once.
const STORM: usize = 64;
/// Time for memory to settle.
const REST: Duration = Duration::from_secs(3);

type Session = RunningService<RoleClient, ()>;

#[derive(Clone, Copy)]
enum Era {
    Legacy,
    Modern,
}

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }
}

/// A process that ends with the benchmark.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = vec![["", "median", "p99"].map(str::to_owned).to_vec()];
    transports(folder.path(), &mut table).await;
    sessions(folder.path(), &mut table).await;
    storm(folder.path(), &mut table).await;
    Report::of_bench("endpoint", &table).keep().unwrap();
}

/// The same requests over each transport, in turn.
async fn transports(folder: &Path, table: &mut Vec<Vec<String>>) {
    let plain = write(folder, "plain.toml", "");
    let attached = write(folder, "attached.toml", "[daemon]\nstart = \"auto\"\n");
    let (_http, url) = serve_http(&plain).await;
    let clients = [
        ("stdio", stdio(folder, &plain).await),
        ("stdio, attached to the daemon", stdio(folder, &attached).await),
        ("HTTP, 2025-11-25", connect(&url, Era::Legacy, None).await),
        ("HTTP, 2026-07-28", connect(&url, Era::Modern, None).await),
    ];
    let kinds = [
        ("`ls`", "ls", json!({})),
        ("an empty script", "execute", json!({"language": "starlark", "code": "1"})),
        (
            "a script of 10 calls",
            "execute",
            json!({"language": "starlark", "code": "[people.list_teams() for _ in range(10)][0] and 1"}),
        ),
    ];
    for (kind, tool, arguments) in kinds {
        let mut times = vec![Vec::new(); clients.len()];
        for round in 0..ROUNDS + 20 {
            for (times, (_, client)) in times.iter_mut().zip(&clients) {
                let took = timed(client, tool, &arguments).await;
                if round >= 20 {
                    times.push(took);
                }
            }
        }
        for (times, (name, _)) in times.into_iter().zip(&clients) {
            table.push(row(&format!("{kind} over {name}"), times));
        }
    }
    drop(clients);
    let _ = forgefs(folder, &attached).args(["daemon", "stop"]).output();
}

/// Memory of one gateway and latency in it, with more and more sessions that each ran a script and hold a stream.
async fn sessions(folder: &Path, table: &mut Vec<Vec<String>>) {
    let most = SESSIONS[SESSIONS.len() - 1] + 1;
    let settings = format!("[http]\nmax_sessions = {most}\nmax_client_sessions = {most}\nmax_connections = 5000\n");
    let (served, url) = serve_http(&write(folder, "many.toml", &settings)).await;
    let mut open = Vec::new();
    for count in SESSIONS {
        while open.len() < count {
            let session = connect(&url, Era::Legacy, None).await;
            timed(&session, "execute", &json!({"language": "starlark", "code": "1"})).await;
            open.push(session);
        }
        tokio::time::sleep(REST).await;
        let pss = pss(served.0.id());
        table.push(vec![
            format!("memory (PSS) of the gateway with {count} sessions"),
            format!("{pss:.1} MiB"),
            String::new(),
        ]);
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            times.push(timed(&open[round * 7 % open.len()], "ls", &json!({})).await);
        }
        table.push(row("… `ls` of one of them", times));
    }
}

/// One client beside another whose scripts take all that they are given.
async fn storm(folder: &Path, table: &mut Vec<Vec<String>>) {
    let clients =
        "[clients.storm]\ntoken = \"storm-token-0123456789\"\n[clients.other]\ntoken = \"other-token-0123456789\"\n";
    let (_served, url) = serve_http(&write(folder, "storm.toml", clients)).await;
    let other = connect(&url, Era::Legacy, Some("other-token-0123456789")).await;
    let storm = Arc::new(connect(&url, Era::Legacy, Some("storm-token-0123456789")).await);
    let empty = json!({"language": "starlark", "code": "1"});
    let ends = Arc::new(AtomicBool::new(false));
    for is_storm in [false, true] {
        let storms: Vec<_> = (0..if is_storm { STORM } else { 0 })
            .map(|_| {
                let (storm, ends) = (Arc::clone(&storm), Arc::clone(&ends));
                tokio::spawn(async move {
                    let code = "def f():\n    n = 0\n    for i in range(2000000):\n        n += i\n    return n\nf()";
                    while !ends.load(Ordering::Relaxed) {
                        // Refused, or ended by its limit: either is a storm.
                        let _ =
                            storm.call_tool(request("execute", &json!({"language": "starlark", "code": code}))).await;
                    }
                })
            })
            .collect();
        tokio::time::sleep(REST).await;
        let mut times = Vec::new();
        for _ in 0..ROUNDS / 10 {
            times.push(timed(&other, "execute", &empty).await);
        }
        let beside = if is_storm { format!("beside {STORM} scripts of another client") } else { "alone".to_owned() };
        table.push(row(&format!("an empty script of one client, {beside}"), times));
        ends.store(true, Ordering::Relaxed);
        futures::future::join_all(storms).await;
    }
}

fn write(folder: &Path, name: &str, settings: &str) -> std::path::PathBuf {
    let server = |role| format!("[servers.{role}]\ncommand = {EXE:?}\nargs = [\"demo-server\", \"{role}\"]\n");
    let path = folder.join(name);
    std::fs::write(&path, format!("{}{settings}", ["calendar", "people", "tickets"].map(server).join(""))).unwrap();
    path
}

/// The executable, with its files in a folder of the benchmark.
fn forgefs(folder: &Path, config: &Path) -> Command {
    let mut command = Command::new(EXE);
    command.env("XDG_STATE_HOME", folder).env("XDG_CACHE_HOME", folder).args(["--log", "off", "--config"]).arg(config);
    command
}

async fn serve_http(config: &Path) -> (Served, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = forgefs(config.parent().unwrap(), config);
    command.args(["serve", "--http", &format!("127.0.0.1:{port}")]).stdin(Stdio::null()).stderr(Stdio::null());
    let served = Served(command.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (served, format!("http://127.0.0.1:{port}/mcp"))
}

async fn stdio(folder: &Path, config: &Path) -> Session {
    let mut command = forgefs(folder, config);
    command.arg("serve");
    ().serve_with_lifecycle(
        TokioChildProcess::new(tokio::process::Command::from(command)).unwrap(),
        Era::Legacy.lifecycle(),
    )
    .await
    .unwrap()
}

async fn connect(url: &str, era: Era, token: Option<&str>) -> Session {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    config.auth_header = token.map(str::to_owned);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    ().serve_with_lifecycle(StreamableHttpClientTransport::with_client(client, config), era.lifecycle()).await.unwrap()
}

fn request(tool: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone())
}

/// Time of a request that succeeds.
async fn timed(session: &Session, tool: &'static str, arguments: &Value) -> Duration {
    let started = Instant::now();
    let result = session.call_tool(request(tool, arguments)).await.unwrap();
    assert!(!result.is_error.unwrap_or(false), "{tool}: {result:?}");
    started.elapsed()
}

fn row(what: &str, mut times: Vec<Duration>) -> Vec<String> {
    times.sort_unstable();
    let show = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    let row =
        vec![what.to_owned(), show(times[times.len() / 2]), show(times[(times.len() * 99 / 100).min(times.len() - 1)])];
    println!("{}", row.join("  "));
    row
}

/// Proportional set size of a process in MiB.
fn pss(pid: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

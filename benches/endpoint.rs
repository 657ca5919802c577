//! One gateway for many clients: latency over stdio, the daemon's socket and HTTP beside each other, memory and latency
//! with a thousand sessions, a client beside another's storm, goodput under overload, and memory of answers that are not
//! read; calls with one login for all beside those with a login of each client. `cargo bench --workspace --bench endpoint`,
//! `-- --write docs/benchmarks.md` to keep the table; `-- --only overload` for one part: transports, sessions, storm,
//! overload, unread, people. The last one needs the Python of `cargo xtask real` in FORGEFS_REAL_VENV.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forgefs_measure::pss;
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
/// Scripts in closed loops at once: the places for them, ten times as many, and many sessions.
const CALLERS: [usize; 3] = [8, 80, 200];
/// Time for which they run.
const SPAN: Duration = Duration::from_secs(10);
/// Requests whose answers are not read, and characters of each answer.
const UNREAD: (usize, usize) = (80, 3_500_000);
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
    let only = std::env::args().skip_while(|arg| arg != "--only").nth(1);
    let is_wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if is_wanted("transports") {
        transports(folder.path(), &mut table).await;
    }
    if is_wanted("sessions") {
        sessions(folder.path(), &mut table).await;
    }
    if is_wanted("storm") {
        storm(folder.path(), &mut table).await;
    }
    if is_wanted("overload") {
        overload(folder.path(), &mut table).await;
    }
    if is_wanted("unread") {
        unread(folder.path(), &mut table).await;
    }
    if is_wanted("people") {
        people(folder.path(), &mut table).await;
    }
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

/// Scripts that succeed, with more and more callers that retry at once, and `ls` of another client beside them.
async fn overload(folder: &Path, table: &mut Vec<Vec<String>>) {
    let attached = write(folder, "attached.toml", "[daemon]\nstart = \"auto\"\n");
    let most = CALLERS[CALLERS.len() - 1] + 1;
    let http = format!(
        "[http]\nmax_sessions = {most}\nmax_client_sessions = {most}\nmax_connections = 5000\n[clients.storm]\ntoken = \
         \"storm-token-0123456789\"\n[clients.other]\ntoken = \"other-token-0123456789\"\n"
    );
    let (_served, url) = serve_http(&write(folder, "overload.toml", &http)).await;
    for name in ["stdio", "stdio, attached to the daemon", "HTTP"] {
        let mut callers: Vec<Arc<Session>> = Vec::new();
        let other = match name {
            "HTTP" => Arc::new(connect(&url, Era::Legacy, Some("other-token-0123456789")).await),
            "stdio" => Arc::new(stdio(folder, &write(folder, "plain.toml", "")).await),
            _ => Arc::new(stdio(folder, &attached).await),
        };
        for count in CALLERS {
            while callers.len() < count {
                callers.push(match (name, callers.first()) {
                    ("HTTP", _) => Arc::new(connect(&url, Era::Legacy, Some("storm-token-0123456789")).await),
                    // In lines it is one connection.
                    ("stdio", _) => Arc::clone(&other),
                    (_, Some(first)) => Arc::clone(first),
                    (_, None) => Arc::new(stdio(folder, &attached).await),
                });
            }
            let (done, refused, times) = loops(&callers, &other).await;
            let rate = done as f64 / SPAN.as_secs_f64();
            let what = format!("{count} callers over {name}: {rate:.0} scripts/s, {refused} refused; `ls` beside them");
            table.push(row(&what, times));
        }
    }
    let _ = forgefs(folder, &attached).args(["daemon", "stop"]).output();
}

/// Scripts that succeeded and failed in closed loops, and times of another client's `ls`.
async fn loops(callers: &[Arc<Session>], other: &Session) -> (usize, usize, Vec<Duration>) {
    let (done, refused, ends) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let loops: Vec<_> = callers
        .iter()
        .map(|caller| {
            let (caller, done, refused, ends) =
                (Arc::clone(caller), Arc::clone(&done), Arc::clone(&refused), Arc::clone(&ends));
            tokio::spawn(async move {
                let empty = json!({"language": "starlark", "code": "1"});
                while !ends.load(Ordering::Relaxed) {
                    let answer = caller.call_tool(request("execute", &empty)).await;
                    let is_done = answer.is_ok_and(|answer| !answer.is_error.unwrap_or(false));
                    let counter = if is_done { &done } else { &refused };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let (started, mut times) = (Instant::now(), Vec::new());
    while started.elapsed() < SPAN {
        times.push(timed(other, "ls", &json!({})).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = (done.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    ends.store(true, Ordering::Relaxed);
    futures::future::join_all(loops).await;
    (counts.0, counts.1, times)
}

/// Most memory of a gateway whose client asks for large answers and reads none.
async fn unread(folder: &Path, table: &mut Vec<Vec<String>>) {
    let config = write(folder, "unread.toml", "[sandbox.limits]\nresult_tokens = 1000000\n");
    let message = |id: usize, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let info =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
    let script = json!({"language": "starlark", "code": format!("\"x\" * {}", UNREAD.1)});
    let ask = |id: usize| message(id, "tools/call", json!({"name": "execute", "arguments": script}));
    let mut peak = |name: &str, pid: u32| {
        let row = vec![
            format!("most memory (RSS) of {} unread answers over {name}", UNREAD.0),
            format!("{:.0} MiB", high_water(pid)),
            String::new(),
        ];
        println!("{}", row.join("  "));
        table.push(row);
    };

    let mut command = forgefs(folder, &config);
    let mut served = Served(command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut stdin = served.0.stdin.take().unwrap();
    writeln!(stdin, "{}", message(0, "initialize", info.clone())).unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    (1..=UNREAD.0).for_each(|id| writeln!(stdin, "{}", ask(id)).unwrap());
    tokio::time::sleep(SPAN).await;
    peak("stdio", served.0.id());

    let (served, url) = serve_http(&config).await;
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let post = |session: &str, body: String| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, \
             text/event-stream\r\n{session}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream
    };
    let mut begin = [0; 4096];
    let read = post("", message(0, "initialize", info)).read(&mut begin).unwrap();
    let begin = String::from_utf8_lossy(&begin[..read]).into_owned();
    let id = begin.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let session = format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n");
    let _ =
        post(&session, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).read(&mut [0; 99]);
    let streams: Vec<_> = (1..=UNREAD.0).map(|id| post(&session, ask(id))).collect();
    tokio::time::sleep(SPAN).await;
    peak("HTTP", served.0.id());
    drop(streams);
}

/// Calls of a server with OAuth: with the gateway's login, and with the client's own.
async fn people(folder: &Path, table: &mut Vec<Vec<String>>) {
    let Some(venv) = std::env::var_os("FORGEFS_REAL_VENV") else {
        println!("SKIPPED people: FORGEFS_REAL_VENV is not set; `cargo xtask real` installs it");
        return;
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new(Path::new(&venv).join("bin/python"));
    server.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/oauth.py")).arg(port.to_string());
    let _server = Served(server.stdout(Stdio::null()).spawn().unwrap());
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let client = "[clients.own]\ntoken = \"own-token-0123456789\"\n";
    let (mut served, mut sessions) = (Vec::new(), Vec::new());
    for login in ["gateway", "user"] {
        let server =
            format!("[servers.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\n[servers.web.auth]\nlogin = {login:?}\n");
        let config = write(folder, &format!("{login}.toml"), &(server + client));
        log_in(folder, &config, &[]);
        if login == "user" {
            log_in(folder, &config, &["--client", "own"]);
        }
        let (gateway, url) = serve_http(&config).await;
        served.push(gateway);
        sessions.push((login, connect(&url, Era::Legacy, Some("own-token-0123456789")).await));
    }
    let script = json!({"language": "starlark", "code": "[web.echo(message = 'x') for _ in range(10)][0] and 1"});
    let mut times = vec![Vec::new(); sessions.len()];
    for round in 0..ROUNDS / 3 + 5 {
        for (times, (_, session)) in times.iter_mut().zip(&sessions) {
            let took = timed(session, "execute", &script).await;
            if round >= 5 {
                times.push(took);
            }
        }
    }
    for (times, (login, _)) in times.into_iter().zip(&sessions) {
        table.push(row(&format!("10 calls of a server with OAuth, `login = {login:?}`"), times));
    }
}

/// Logs in, with a browser that agrees at once.
fn log_in(folder: &Path, config: &Path, args: &[&str]) {
    let mut command = forgefs(folder, config);
    command.args(["auth", "login", "web", "--no-browser"]).args(args);
    let mut login = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(login.stderr.take().unwrap()).lines().map_while(Result::ok);
    let page = told.find_map(|line| line.trim().strip_prefix("http://").map(str::to_owned)).unwrap();
    let (host, path) = page.split_once('/').unwrap();
    let mut browser = TcpStream::connect(host).unwrap();
    write!(browser, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    let back = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    writeln!(login.stdin.as_mut().unwrap(), "{back}").unwrap();
    told.for_each(drop);
    assert!(login.wait().unwrap().success());
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
    for kind in ["STATE", "CACHE", "DATA"] {
        command.env(format!("XDG_{kind}_HOME"), folder);
    }
    command.args(["--log", "off", "--config"]).arg(config);
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

/// Most resident memory of a process so far, in MiB.
fn high_water(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

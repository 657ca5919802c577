//! Replicas that share a store: scripts a second at 1 to 1,000 sessions without a store, with one replica and with three,
//! the processor time that each part takes of it, what a simulation of these times says, and what the store costs a call.
//! `cargo bench --workspace --bench replicas`, `-- --write docs/benchmarks.md` to keep the table. Needs redis-server or
//! valkey-server.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

mod model;

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forgefs_measure::report::Report;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::json;

use model::Model;

const EXE: &str = env!("CARGO_BIN_EXE_forgefs");
/// Sessions in steps.
const SESSIONS: [usize; 4] = [1, 8, 64, 1000];
/// Time that each step is measured.
const MEASURED: Duration = Duration::from_secs(6);
/// Time between the first scripts of two sessions.
const ENTRY: Duration = Duration::from_millis(5);
/// A script with one call that a budget counts.
const SCRIPT: &str = "people.list_teams() and 1";
/// Setting whose figures at 64 sessions are those of the simulated deployments.
const BASE: &str = "a store, 1 replica";
/// Scripts at once in a gateway: the default of `sandbox.limits.runs`.
const PLACES: usize = 8;
/// Calls of the script that shows the cost of one, and its runs in alternating rounds.
const CALLS: usize = 20;
const ROUNDS: usize = 100;

type Session = RunningService<RoleClient, ()>;

/// A process that ends with the benchmark.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gateways of one kind, and their store.
struct Setting {
    name: &'static str,
    replicas: Vec<(Served, String)>,
    store: Option<(u32, u16)>,
}

/// Measured throughput and cost of scripts.
struct Measured {
    /// Scripts a second.
    scripts: f64,
    /// Seconds of a processor that a script takes in gateways, their workers and servers, the store and clients.
    gateway: f64,
    workers: f64,
    store: f64,
    client: f64,
    /// Scripts of the store that one takes.
    trips: f64,
}

impl Measured {
    /// The model with these times, on this machine.
    fn model(&self, replicas: usize, sessions: usize) -> Model {
        let &Self { client, gateway, workers, store, trips, .. } = self;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = processors.div_ceil(2);
        let trips = (0..100).find(|count| f64::from(*count) >= trips - 0.5).unwrap_or(100) as usize;
        Model {
            replicas,
            sessions,
            places: PLACES,
            processors,
            one_machine: true,
            threads,
            client,
            gateway,
            workers,
            store,
            trips,
        }
    }
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let Some(store) = store(folder.path(), port) else {
        println!("SKIPPED: no redis-server or valkey-server");
        return;
    };
    let shared = |prefix: &str| format!("[state]\nurl = \"redis://127.0.0.1:{port}\"\nprefix = {prefix:?}\n");
    let (mut settings, mut base) = (Vec::new(), None);
    for (name, count, state) in
        [("no store", 1, String::new()), (BASE, 1, shared("one")), ("a store, 3 replicas", 3, shared("three"))]
    {
        let mut replicas = Vec::new();
        for number in 0..count {
            replicas.push(serve(folder.path(), &format!("{name} {number}"), &state).await);
        }
        settings.push(Setting { name, replicas, store: (!state.is_empty()).then(|| (store.0.id(), port)) });
    }
    let head = [
        "", "sessions", "scripts a second", "simulated", "gateways, ms of a processor a script", "workers and servers",
        "store", "clients",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for count in SESSIONS {
        for setting in &settings {
            let measured = throughput(setting, count).await;
            let simulated = measured.model(setting.replicas.len(), count).throughput();
            let ms = |seconds: f64| format!("{:.2}", seconds * 1000.0);
            let Measured { scripts, gateway, workers, store, client, .. } = measured;
            keep(
                &mut table,
                [
                    setting.name.to_owned(),
                    count.to_string(),
                    format!("{scripts:.0}"),
                    format!("{simulated:.0}"),
                    ms(gateway),
                    ms(workers),
                    ms(store),
                    ms(client),
                ],
            );
            if setting.name == BASE && count == 64 {
                base = Some(measured);
            }
        }
    }
    for replicas in [1, 3, 10, 30] {
        let Some(base) = &base else { continue };
        let sessions = 64 * replicas;
        let model = Model { one_machine: false, ..base.model(replicas, sessions) };
        let name = format!("{replicas} with {} processors each, a store of its own", model.processors);
        let simulated = format!("{:.0}", model.throughput());
        let none = String::new;
        keep(&mut table, [name, sessions.to_string(), none(), simulated, none(), none(), none(), none()]);
    }
    cost_of_a_call(&settings, &mut table).await;
    Report::of_bench("replicas", &table).keep().unwrap();
}

/// Scripts a second of `count` sessions, each of which sends its next script when the last one is answered.
async fn throughput(setting: &Setting, count: usize) -> Measured {
    let urls = setting.replicas.iter().map(|(_, url)| url.as_str());
    let urls: Vec<&str> = urls.cycle().take(count).collect();
    let mut sessions = Vec::new();
    for some in urls.chunks(50) {
        sessions.extend(futures::future::join_all(some.iter().map(|url| connect(url))).await);
    }
    futures::future::join_all(sessions.iter().take(64).map(|session| run(session, SCRIPT))).await;
    let of_all = || setting.replicas.iter().map(|(served, _)| processor(served.0.id())).sum::<f64>();
    let of_gateways = || setting.replicas.iter().map(|(served, _)| processor_alone(served.0.id())).sum::<f64>();
    let of_store = || setting.store.map_or(0.0, |(pid, _)| processor_alone(pid));
    let trips = async || match setting.store {
        Some((_, port)) => scripts_of_the_store(port).await,
        None => 0.0,
    };
    let before = (of_gateways(), of_store(), processor_alone(std::process::id()), trips().await, of_all());
    let started = Instant::now();
    let measured = MEASURED.max(ENTRY * u32::try_from(4 * count).unwrap());
    let each = sessions.iter().zip(0_u32..).map(async |(session, number)| {
        // So many strangers at once would be kept out.
        tokio::time::sleep(ENTRY * number).await;
        let mut done = 0_u32;
        while started.elapsed() < measured {
            run(session, SCRIPT).await;
            done += 1;
        }
        done
    });
    let done = f64::from(futures::future::join_all(each).await.iter().sum::<u32>());
    let gateway = (of_gateways() - before.0) / done;
    Measured {
        scripts: done / started.elapsed().as_secs_f64(),
        gateway,
        workers: (of_all() - before.4) / done - gateway,
        store: (of_store() - before.1) / done,
        client: (processor_alone(std::process::id()) - before.2) / done,
        trips: (trips().await - before.3) / done,
    }
}

/// Scripts that the store has run.
async fn scripts_of_the_store(port: u16) -> f64 {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let told: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let calls = told.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    calls.map_or(0.0, |calls| calls.parse().unwrap())
}

/// Shows a row and keeps it.
fn keep(table: &mut Vec<Vec<String>>, row: [String; 8]) {
    println!("{}", row.join("  "));
    table.push(row.to_vec());
}

/// Latency of a call in a long script, without a store and with one, in alternating rounds.
async fn cost_of_a_call(settings: &[Setting], table: &mut Vec<Vec<String>>) {
    let code = format!("[people.list_teams() for _ in range({CALLS})][0] and 1");
    let mut times = Vec::new();
    let mut sessions = Vec::new();
    for setting in &settings[..2] {
        sessions.push(connect(&setting.replicas[0].1).await);
        times.push(Vec::new());
    }
    for _ in 0..ROUNDS {
        for (session, times) in sessions.iter().zip(&mut times) {
            let started = Instant::now();
            run(session, &code).await;
            times.push(started.elapsed());
        }
    }
    for (setting, mut times) in settings.iter().zip(times) {
        times.sort_unstable();
        let call = times[times.len() / 2].as_secs_f64() * 1000.0 / f64::from(u32::try_from(CALLS).unwrap());
        let name = format!("a call in a script of {CALLS}, {}", setting.name);
        let none = String::new;
        keep(table, [name, "1".to_owned(), format!("{call:.2} ms a call"), none(), none(), none(), none(), none()]);
    }
}

async fn run(session: &Session, code: &str) {
    let arguments = json!({"language": "starlark", "code": code});
    let request = CallToolRequestParams::new("execute").with_arguments(arguments.as_object().unwrap().clone());
    let result = session.call_tool(request).await.unwrap();
    assert!(!result.is_error.unwrap_or(false), "{result:?}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A store that keeps what it has on disk, as the documentation asks for.
fn store(folder: &Path, port: u16) -> Option<Served> {
    let program = ["redis-server", "valkey-server"].into_iter().find(|program| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })?;
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--appendonly", "yes", "--save", "", "--dir"]);
    let child = command.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(Served(child))
}

async fn serve(folder: &Path, name: &str, state: &str) -> (Served, String) {
    let (home, port) = (folder.join(name), free_port());
    std::fs::create_dir(&home).unwrap();
    let most = SESSIONS[SESSIONS.len() - 1] + 10;
    let http = format!("[http]\nmax_sessions = {most}\nmax_client_sessions = {most}\nmax_connections = 5000\n");
    // Scripts that wait for a place wait, however many sessions there are.
    let rest = format!("[sandbox.limits]\nqueue = {most}\n[budgets]\nday = 100000000\n");
    let server = format!("[servers.people]\ncommand = {EXE:?}\nargs = [\"demo-server\", \"people\"]\n");
    let config = home.join("forge.toml");
    std::fs::write(&config, format!("{state}{http}{rest}{server}")).unwrap();
    let mut command = Command::new(EXE);
    command.env("XDG_STATE_HOME", &home).env("XDG_CACHE_HOME", &home).args(["--log", "off", "--config"]).arg(&config);
    command.args(["serve", "--http", &format!("127.0.0.1:{port}")]).stdin(Stdio::null()).stderr(Stdio::null());
    let served = Served(command.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (served, format!("http://127.0.0.1:{port}/mcp"))
}

async fn connect(url: &str) -> Session {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let transport = StreamableHttpClientTransport::with_client(client, config);
    ().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await.unwrap()
}

/// Fields of `/proc/PID/stat` after the name: the parent first, then as `man 5 proc` counts from 5.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = text.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some(fields.map(|field| field.parse().unwrap_or_default()).collect())
}

/// Seconds that a process took of processors.
fn processor_alone(pid: u32) -> f64 {
    // utime and stime, in ticks of 10 ms.
    stat(pid).map_or(0.0, |fields| f64::from(u32::try_from(fields[10] + fields[11]).unwrap()) / 100.0)
}

/// The same, with all that it started: workers and servers.
fn processor(root: u32) -> f64 {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parents: HashMap<u32, u32> =
        pids.filter_map(|pid: u32| Some((pid, u32::try_from(stat(pid)?[0]).ok()?))).collect();
    let is_below = |mut pid: u32| loop {
        match parents.get(&pid) {
            _ if pid == root => return true,
            Some(parent) if *parent != 0 => pid = *parent,
            _ => return false,
        }
    };
    parents.keys().copied().filter(|pid| is_below(*pid)).map(processor_alone).sum()
}

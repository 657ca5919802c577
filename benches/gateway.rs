//! Cost of the gateway, measured on the real executable over stdio: `cargo bench --workspace --bench gateway`, `--
//! --write docs/benchmarks.md` to keep the table. With `--features v8` both JavaScript engines are measured.
//!
//! One run measures everything, so that figures are comparable on a noisy machine: the direct rmcp call beside the same
//! call from a script, each engine beside the others. Times are medians and 99th percentiles of wall clock at the
//! client; the processor time of a call is that of the gateway's own process.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use forgefs_measure::report::Report;
use forgefs_measure::{count, made_up};
use futures::future::join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_forgefs");
/// Measured process starts.
const STARTS: usize = 20;
/// Time until servers have listed their tools and all work is done.
const REST: Duration = Duration::from_secs(4);
/// Tools of the larger configuration.
const MADE_UP: usize = 1000;
/// Measured executions of each kind.
const RUNS: usize = 200;
/// Warm-up executions.
const WARM_UP: usize = 20;
/// Calls of a script whose processor time is measured: the most that a run may make.
const CALLS: u32 = 1000;
/// Measured scripts with so many calls.
const LONG_RUNS: usize = 7;
/// Duration of a throughput measurement for each number of clients.
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
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|first| first == "echo") {
        return echo();
    }
    if let Some(("made-up", server)) = args.get(1).zip(args.get(2)).map(|(first, second)| (&**first, second)) {
        return serve_made_up(server).await;
    }
    if let Some(("listed", file)) = args.get(1).zip(args.get(2)).map(|(first, second)| (&**first, second)) {
        return serve_listed(Path::new(file)).await;
    }
    if args.get(1).is_some_and(|first| first == "hang") {
        return drop(std::io::stdin().read_to_end(&mut Vec::new()));
    }
    if args.get(1).is_some_and(|first| first == "slow") {
        let schema = json!({ "type": "object", "properties": {} }).as_object().unwrap().clone();
        let wait = MadeUp(vec![Tool::new("wait", "Waits for 100 ms", std::sync::Arc::new(schema))]);
        return drop(wait.serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table(Vec::new());
    table.row(["", "median", "p99"].map(str::to_owned));
    let sample = write_config(&folder.path().join("sample"), sample_servers(), "");
    starts(&sample, "3 servers, 20 tools", &mut table).await;
    let made_up = write_config(&folder.path().join("made-up"), made_up_servers(), "");
    starts(&made_up, "20 servers, 1,000 tools", &mut table).await;
    match real_servers() {
        servers if servers.is_empty() => println!("SKIPPED: real tool lists: FORGEFS_SHARED names no folder"),
        servers => {
            let size = format!("{} servers with real lists", servers.len());
            starts(&write_config(&folder.path().join("real"), servers, ""), &size, &mut table).await;
        }
    }
    let hangs = [sample_servers(), vec![["hangs".to_owned(), own_exe(), "hang".to_owned(), String::new()]]].concat();
    beside(&write_config(&folder.path().join("hangs"), hangs, ""), &mut table).await;
    let direct =
        Client.serve(TokioChildProcess::new(command(&["demo-server", "people"], None)).unwrap()).await.unwrap();
    let times = repeat(RUNS * 5, || async { drop(call(&direct, "list_teams", json!({})).await) }).await;
    let direct = table.times("one call, by rmcp directly to the server", times);
    table.times("a byte to another process and back, over pipes: two wake-ups", round_trips());
    let slow = [sample_servers(), vec![["slow".to_owned(), own_exe(), "slow".to_owned(), String::new()]]].concat();
    let many = write_config(&folder.path().join("many"), slow, "[sandbox.limits]\nconcurrency = 64\n");
    for engine in engines() {
        let session = serve(&sample, engine.flags).await;
        call(&session.service, "ls", json!({})).await;
        runs(&session, engine, direct, &mut table).await;
        session.service.cancel().await.unwrap();
        let session = serve(&many, engine.flags).await;
        call(&session.service, "ls", json!({})).await;
        at_once(&session.service, engine, &mut table).await;
        session.service.cancel().await.unwrap();
    }
    fastmcp(direct, &mut table).await;
    forgemax(folder.path(), direct, &mut table).await;
    Report::of_bench("gateway", &table.0).keep().unwrap();
}

/// Time from the start of the process to its first answers, and its memory then. The tool lists are cached.
async fn starts(config: &Path, size: &str, table: &mut Table) {
    // Not measured: fills the cache of tool lists.
    let session = serve(config, &[]).await;
    call(&session.service, "ls", json!({})).await;
    tokio::time::sleep(REST).await;
    session.service.cancel().await.unwrap();
    let (mut to_initialize, mut to_ls, mut to_execute) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let started = Instant::now();
        let session = serve(config, &[]).await;
        to_initialize.push(started.elapsed());
        call(&session.service, "ls", json!({})).await;
        to_ls.push(started.elapsed());
        call(&session.service, "execute", json!({"language": "starlark", "code": "1"})).await;
        to_execute.push(started.elapsed());
        session.service.cancel().await.unwrap();
    }
    table.times(&format!("{size}: process start to `initialize` answered"), to_initialize);
    table.times("… to the first `ls`", to_ls);
    table.times("… to the first `execute`", to_execute);
    let session = serve(config, &[]).await;
    call(&session.service, "ls", json!({})).await;
    tokio::time::sleep(REST).await;
    let (gateway, workers) = resident(session.pid);
    table.figure("… memory at rest: the gateway".to_owned(), gateway.to_string());
    table.figure("… its 2 workers and its checker together".to_owned(), workers.to_string());
    call(&session.service, "search", json!({"query": "create an issue"})).await;
    tokio::time::sleep(REST).await;
    table.figure("… the gateway after a search".to_owned(), resident(session.pid).0.to_string());
    session.service.cancel().await.unwrap();
    let list = || async {
        let listed = command(&["ls"], Some(config)).output().await.unwrap();
        assert!(listed.status.success(), "{listed:?}");
    };
    table.times("… `forgefs ls` without a daemon", repeat(STARTS, list).await);
}

/// Time until a gateway with a server that never answers lists tools, and until a script over another server has its value.
async fn beside(config: &Path, table: &mut Table) {
    let (mut to_tools, mut to_run) = (Vec::new(), Vec::new());
    let script = config.with_file_name("script.star");
    std::fs::write(&script, "people.list_teams()").unwrap();
    for _ in 0..STARTS {
        let session = serve(config, &[]).await;
        let started = Instant::now();
        session.service.list_all_tools().await.unwrap();
        to_tools.push(started.elapsed());
        session.service.cancel().await.unwrap();
        let started = Instant::now();
        let ran = command(&["run", &script.to_string_lossy()], Some(config)).output().await.unwrap();
        assert!(ran.status.success(), "{ran:?}");
        to_run.push(started.elapsed());
    }
    table.times("beside a server that hangs: `tools/list` after `initialize`", to_tools);
    table.times("… `forgefs run` of a script over another server", to_run);
}

/// Cost of scripts on an engine. `direct` is the latency of a call without any.
async fn runs(session: &Session, engine: Engine, direct: Duration, table: &mut Table) {
    let (Engine { name, script, .. }, Session { service, pid }) = (engine, session);
    let execute = async |script: Value| drop(call(service, "execute", script).await);
    let times = async |count: usize, code: String| {
        repeat(WARM_UP, || execute(script(&code))).await;
        repeat(count, || execute(script(&code))).await
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
            table.figure(format!("… so one of them costs, {more:.2} × direct"), show(inner));
        }
    }
    let most = engine.most;
    let budget = budget(*pid, most, async || execute(script(&(engine.calls)(most))).await).await;
    table.figure(format!("{name}: one of {most} calls, and processor time for it"), budget);
    if let Some(parallel) = engine.parallel {
        table.times(&format!("{name}: 50 calls, 8 at once"), times(RUNS / 4, parallel("people.list_teams", 50)).await);
    }
    for clients in [1, 2, 8] {
        let started = Instant::now();
        let work = (0..clients).map(|_| async {
            let mut runs = 0;
            while started.elapsed() < LOAD {
                execute(script(engine.empty)).await;
                runs += 1;
            }
            runs
        });
        let runs: u32 = join_all(work).await.into_iter().sum();
        let rate = f64::from(runs) / started.elapsed().as_secs_f64();
        table.figure(format!("{name}: empty scripts a second, {clients} at once"), format!("{rate:.0}"));
    }
}

/// Scripts with many calls at once, where 64 may be.
async fn at_once(service: &Service, engine: Engine, table: &mut Table) {
    let Some(parallel) = engine.parallel else { return };
    for (what, code, runs) in [
        ("8 calls of 100 ms, 8 at once", parallel("slow.wait", 8), RUNS / 10),
        ("1,000 calls, 64 at once", parallel("people.list_teams", CALLS), LONG_RUNS),
    ] {
        let run = || async { drop(call(service, "execute", (engine.script)(&code)).await) };
        repeat(2, run).await;
        table.times(&format!("{}: {what}", engine.name), repeat(runs, run).await);
    }
}

/// Time of each of the calls of a script, and what it takes of processors in each process.
async fn budget(gateway: u32, calls: u32, run: impl AsyncFn()) -> String {
    let parts = || {
        let (mut workers, mut servers) = (Duration::ZERO, Duration::ZERO);
        for (pid, line) in children(gateway) {
            match line.split('\0').any(|arg| arg.ends_with("worker")) {
                true => workers += processor_time(pid),
                false => servers += processor_time(pid),
            }
        }
        [processor_time(gateway), workers, servers]
    };
    let mut runs = Vec::with_capacity(LONG_RUNS);
    for _ in 0..LONG_RUNS {
        let (before, started) = (parts(), Instant::now());
        run().await;
        let took = started.elapsed() / calls;
        let after = parts();
        let [gateway, workers, servers] = [0, 1, 2].map(|part| after[part].saturating_sub(before[part]) / calls);
        runs.push([gateway, workers, servers, took]);
    }
    runs.sort_unstable_by_key(|run| run[3]);
    let [gateway, workers, servers, took] = runs[LONG_RUNS / 2].map(|time| time.as_micros());
    format!("{took} µs: gateway {gateway}, worker {workers}, server {servers}")
}

/// Round trips of one byte to another process and back.
fn round_trips() -> Vec<Duration> {
    let exe = std::env::current_exe().unwrap();
    let mut other =
        std::process::Command::new(exe).arg("echo").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (other.stdin.take().unwrap(), other.stdout.take().unwrap());
    let times = (0..RUNS * 10).map(|_| {
        let started = Instant::now();
        to.write_all(b".").unwrap();
        from.read_exact(&mut [0]).unwrap();
        started.elapsed()
    });
    let times = times.collect();
    drop(to);
    other.wait().unwrap();
    times
}

fn echo() {
    let (mut from, mut to, mut byte) = (std::io::stdin(), std::io::stdout(), [0]);
    while from.read_exact(&mut byte).is_ok() {
        to.write_all(&byte).and_then(|()| to.flush()).unwrap();
    }
}

/// An engine, and its scripts.
#[derive(Clone, Copy)]
struct Engine {
    name: &'static str,
    flags: &'static [&'static str],
    /// Arguments of `execute`.
    script: fn(&str) -> Value,
    empty: &'static str,
    calls: fn(u32) -> String,
    /// Calls of a tool at once.
    parallel: Option<fn(&str, u32) -> String>,
    /// Most calls of a script.
    most: u32,
}

fn engines() -> Vec<Engine> {
    let starlark = Engine {
        name: "Starlark",
        flags: &[],
        script: |code| json!({"language": "starlark", "code": code}),
        empty: "1",
        calls: |n| format!("[people.list_teams() for _ in range({n})]\nresult = 1"),
        parallel: Some(|tool, n| format!("parallel([defer({tool}) for _ in range({n})])\nresult = 1")),
        most: CALLS,
    };
    let quickjs = Engine {
        name: "QuickJS",
        flags: &["--engine", "quickjs"],
        script: |code| json!({"language": "javascript", "code": code}),
        empty: "return 1",
        calls: |n| format!("for (let i = 0; i < {n}; i++) await people.list_teams(); return 1"),
        parallel: Some(|tool, n| format!("await forge.parallel(Array({n}).fill(() => {tool}())); return 1")),
        most: CALLS,
    };
    let v8 = Engine { name: "V8", flags: &["--engine", "v8"], ..quickjs };
    let mut engines = vec![starlark];
    engines.extend(cfg!(feature = "quickjs").then_some(quickjs));
    engines.extend(cfg!(feature = "v8").then_some(v8));
    engines
}

/// CodeMode of FastMCP in front of the same server, in the same run, if `FORGEFS_PEER` names a Python with it.
async fn fastmcp(direct: Duration, table: &mut Table) {
    let Some(python) = std::env::var_os("FORGEFS_PEER") else {
        println!("SKIPPED: FastMCP: FORGEFS_PEER names no Python with fastmcp[code-mode]");
        return;
    };
    let engine = Engine {
        name: "FastMCP CodeMode",
        flags: &[],
        script: |code| json!({"code": code}),
        empty: "return 1",
        calls: |n| format!("for i in range({n}):\n    await call_tool('list_teams', {{}})\nreturn 1"),
        parallel: None,
        most: 50,
    };
    let mut command = tokio::process::Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer.py")).arg(EXE);
    peer(command, engine, direct, table).await;
}

/// Forgemax in front of the same server, if `FORGEFS_FORGEMAX` names its executable. Scripts run in its own process: the
/// package has no worker.
async fn forgemax(folder: &Path, direct: Duration, table: &mut Table) {
    let Some(exe) = std::env::var_os("FORGEFS_FORGEMAX") else {
        println!("SKIPPED: Forgemax: FORGEFS_FORGEMAX names no executable of it");
        return;
    };
    let engine = Engine {
        name: "Forgemax",
        flags: &[],
        script: |code| json!({"code": code}),
        empty: "async () => 1",
        calls: |n| {
            let call = "await forge.callTool('people', 'list_teams', {})";
            format!("async () => {{ for (let i = 0; i < {n}; i++) {call}; return 1 }}")
        },
        parallel: None,
        most: 50,
    };
    let config = folder.join("forgemax.toml");
    let server = format!("command = {EXE:?}\nargs = [\"demo-server\", \"people\"]\ntransport = \"stdio\"\n");
    let sandbox = "[sandbox]\nexecution_mode = \"in_process\"\n";
    std::fs::write(&config, format!("[servers.people]\n{server}{sandbox}")).unwrap();
    let mut command = tokio::process::Command::new(exe);
    command.arg("--config").arg(config).env("RUST_LOG", "off");
    peer(command, engine, direct, table).await;
}

/// The rows of another gateway.
async fn peer(command: tokio::process::Command, engine: Engine, direct: Duration, table: &mut Table) {
    let session = connect(command).await;
    let service = &session.service;
    let version =
        service.peer_info().and_then(|info| Some(info.server_info.as_ref()?.version.clone())).unwrap_or_default();
    table.figure(format!("{} {version}: its definitions", engine.name), surface(service).await);
    runs(&session, engine, direct, table).await;
    session.service.cancel().await.unwrap();
}

/// Tokens of the definitions and instructions for a model.
async fn surface(service: &Service) -> String {
    let tools = service.list_all_tools().await.unwrap();
    let shown = tools.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}).to_string()
    });
    let info = service.peer_info();
    let instructions = info.and_then(|info| info.instructions.clone()).unwrap_or_default();
    let tokens: usize = shown.chain([instructions]).map(|text| count(&text)).sum();
    format!("{tokens} tokens")
}

/// The sample servers of `forgefs demo`: name, program, arguments.
fn sample_servers() -> Vec<[String; 4]> {
    let server = |role: &str| [role, EXE, "demo-server", role].map(str::to_owned);
    ["calendar", "people", "tickets"].map(server).into()
}

fn own_exe() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

/// Servers of synthetic tools, which this program serves itself.
fn made_up_servers() -> Vec<[String; 4]> {
    let server = |name: String| [name.clone(), own_exe(), "made-up".to_owned(), name];
    made_up::tools(MADE_UP).into_keys().map(server).collect()
}

/// Servers with the tool lists of real ones, which this program serves itself; none without the folder that FORGEFS_SHARED
/// names.
fn real_servers() -> Vec<[String; 4]> {
    let folder = std::env::var_os("FORGEFS_SHARED").map(|folder| PathBuf::from(folder).join("catalogs"));
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    let lists =
        files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.extension() == Some("json".as_ref()));
    let server = |path: PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        [name, own_exe(), "listed".to_owned(), path.display().to_string()]
    };
    lists.map(server).collect()
}

/// A configuration that keeps its state in its own folder.
fn write_config(folder: &Path, servers: Vec<[String; 4]>, more: &str) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let mut text = format!("[manifest]\ncache = \"cache\"\n[audit]\npath = \"audit.jsonl\"\n{more}");
    for [name, program, first, second] in servers {
        text += &format!("[servers.{name}]\ncommand = {program:?}\nargs = [{first:?}, {second:?}]\n");
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
    connect(command(&[flags, &["serve"]].concat(), Some(config))).await
}

async fn connect(command: tokio::process::Command) -> Session {
    let process = TokioChildProcess::new(command).unwrap();
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

/// Resident memory of processes.
#[derive(Default)]
struct Memory {
    kib: u64,
    /// Private part of it: pages of the executable are shared with its other processes.
    own: u64,
}

impl Memory {
    fn add(&mut self, status: &str) {
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        self.kib += field("VmRSS:");
        self.own += field("RssAnon:");
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB, {:.1} of it its own", self.kib as f64 / 1024.0, self.own as f64 / 1024.0)
    }
}

/// Processor time of all threads of a process so far.
fn processor_time(pid: u32) -> Duration {
    let of_thread = |task: std::fs::DirEntry| -> u64 {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default()
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    Duration::from_nanos(threads.map(of_thread).sum())
}

/// Processes that a process has started, with their command lines.
fn children(pid: u32) -> Vec<(u32, String)> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|process| process.file_name().to_string_lossy().parse().ok());
    let is_child = |pid_of: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid_of}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{pid}"))
    };
    let line = |pid: u32| (pid, std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    pids.filter(is_child).map(line).collect()
}

/// Memory of the gateway, and of its workers.
fn resident(pid: u32) -> (Memory, Memory) {
    let read = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let (mut gateway, mut workers) = (Memory::default(), Memory::default());
    gateway.add(&read(pid));
    for (child, line) in children(pid) {
        if line.split('\0').any(|arg| arg == "worker") {
            workers.add(&read(child));
        }
    }
    (gateway, workers)
}

/// A server of synthetic tools, each of which takes 100 ms.
struct MadeUp(Vec<Tool>);

impl ServerHandler for MadeUp {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.clone()))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(CallToolResult::success(vec![ContentBlock::text("waited")]).into())
    }
}

/// Serves the tools of one of the servers of [`made_up::tools`].
async fn serve_made_up(server: &str) {
    let tools = made_up::tools(MADE_UP).remove(server).unwrap();
    let tools = tools.into_iter().map(|tool| serde_json::from_value(tool).unwrap()).collect();
    MadeUp(tools).serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap();
}

/// Serves the tools of a file.
async fn serve_listed(file: &Path) {
    let list: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let tools = list["tools"].as_array().unwrap().iter();
    let tools = tools.map(|tool| serde_json::from_value(tool.clone()).unwrap()).collect();
    MadeUp(tools).serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap();
}

/// Rows of the table, printed as they come.
struct Table(Vec<Vec<String>>);

impl Table {
    fn row(&mut self, cells: [String; 3]) {
        println!("{}", cells.join(" | "));
        self.0.push(cells.to_vec());
    }

    /// A figure other than a time, or a derived one.
    fn figure(&mut self, what: String, figure: String) {
        self.row([what, figure, String::new()]);
    }

    fn times(&mut self, what: &str, mut times: Vec<Duration>) -> Duration {
        times.sort_unstable();
        let median = times[times.len() / 2];
        let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
        self.row([what.to_owned(), show(median), show(p99)]);
        median
    }
}

fn show(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

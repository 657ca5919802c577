//! Cost by size: `cargo bench --workspace --bench growth`, `-- --write docs/benchmarks.md` to keep the table. Tools in a
//! catalog, sessions of a gateway, bytes of an answer, calls of a script; the exponent says how the cost grows with the
//! size in the last step: 1 is in proportion, 0 not at all.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgefs::base::meter::Meter;
use forgefs::catalog::manifest::{ServerEntry, ServerState};
use forgefs::catalog::{Catalog, Signals};
use forgefs::upstream::Listing;
use forgefs_measure::report::Report;
use forgefs_measure::{made_up, pss};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_forgefs");
const TOOLS: [usize; 4] = [100, 1_000, 10_000, 100_000];
const SESSIONS: [usize; 4] = [1, 10, 100, 1_000];
const ANSWERS: [usize; 4] = [1 << 10, 32 << 10, 1 << 20, 10 << 20];
const CALLS: [usize; 4] = [1, 10, 100, 1_000];
/// Measured requests of each kind and size, and those of the largest answers and scripts.
const REQUESTS: usize = 100;
const LONG_REQUESTS: usize = 11;
/// Time for memory to settle.
const REST: Duration = Duration::from_secs(3);

type Session = RunningService<RoleClient, ()>;

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).is_some_and(|first| first == "answers") {
        return drop(Answers.serve(rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap());
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table(vec![["cost", "", "", "", "", "exponent"].map(str::to_owned).to_vec()]);
    tools(&mut table);
    sessions(folder.path(), &mut table).await;
    let session = stdio(&write(folder.path())).await;
    answers(&session, &mut table).await;
    calls(&session, &mut table).await;
    session.cancel().await.unwrap();
    Report::of_bench("growth", &table.0).keep().unwrap();
}

fn search(catalog: &Catalog, query: &str) {
    let found = catalog.search(query, 8, "/", &Signals::default(), &Meter::new(u64::MAX));
    assert!(black_box(found).is_ok(), "{query}");
}

/// Catalogs of synthetic tools.
fn tools(table: &mut Table) {
    let queries = made_up::queries();
    let mut costs: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for count in TOOLS {
        let lists = made_up::tools(count);
        let started = Instant::now();
        let servers: Vec<Arc<ServerEntry>> = lists.into_iter().map(|(name, tools)| entry(&name, tools)).collect();
        let catalog = Catalog::build(servers.clone());
        search(&catalog, "list");
        let mut add = |what, took: Duration| costs.entry(what).or_default().push((count, millis(took)));
        add("tools: stubs and index", started.elapsed());
        let started = Instant::now();
        let (name, changed) = made_up::tools(50).pop_first().unwrap();
        let changed = [vec![entry(&name, changed)], servers[1..].to_vec()].concat();
        drop(black_box(catalog.rebuild(changed, Arc::default()).unwrap()));
        add("tools: one server anew", started.elapsed());
        let query = |n: usize| search(&catalog, &queries[n % queries.len()]);
        add("tools: a search", median((0..4 * REQUESTS).map(|n| time(|| query(n))).collect()));
        let list = || drop(black_box(catalog.ls("/", 1).unwrap()));
        add("tools: `ls /`", median((0..REQUESTS).map(|_| time(list)).collect()));
    }
    for (what, costs) in costs {
        table.row(what, &costs, "ms", |count| count.to_string());
    }
}

/// Sessions over HTTP, each of which ran a script.
async fn sessions(folder: &Path, table: &mut Table) {
    let config = write(folder);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = forgefs(&config);
    command.args(["serve", "--http", &format!("127.0.0.1:{port}")]).kill_on_drop(true).stdin(Stdio::null());
    let served = command.spawn().unwrap();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut open, mut memory, mut latency) = (Vec::new(), Vec::new(), Vec::new());
    for count in SESSIONS {
        while open.len() < count {
            let config = StreamableHttpClientTransportConfig::with_uri(format!("http://127.0.0.1:{port}/mcp"));
            let session = ().serve(StreamableHttpClientTransport::with_client(client.clone(), config)).await.unwrap();
            execute(&session, "1").await;
            open.push(session);
        }
        tokio::time::sleep(REST).await;
        memory.push((count, pss(served.id().unwrap())));
        let mut times = Vec::new();
        for round in 0..REQUESTS {
            times.push(execute(&open[round * 7 % open.len()], "1").await);
        }
        latency.push((count, millis(median(times))));
    }
    table.row("sessions: memory of the gateway (PSS)", &memory, "MiB", |count| count.to_string());
    table.row("sessions: an empty script of one of them", &latency, "ms", |count| count.to_string());
}

/// Answers of a tool that a script takes whole, as one text and as rows of 100 bytes.
async fn answers(session: &Session, table: &mut Table) {
    let size =
        |bytes: usize| if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
    for tool in ["text", "rows"] {
        let mut costs = Vec::new();
        for bytes in ANSWERS {
            let code = format!("len(answers.{tool}(bytes = {bytes}))");
            costs.push((bytes, repeat(session, &code, bytes >= 1 << 20).await));
        }
        table.row(&format!("bytes of an answer, as {tool}: a script with one call"), &costs, "ms", size);
    }
}

/// Calls of a script, one after the other and 64 at once.
async fn calls(session: &Session, table: &mut Table) {
    type Code = fn(usize) -> String;
    let kinds: [(&str, Code); 2] = [
        ("calls of a script, one after the other", |n| {
            format!("[answers.text(bytes = 1) for _ in range({n})]\nresult = 1")
        }),
        ("calls of a script, 64 at once", |n| {
            format!("parallel([defer(answers.text, bytes = 1) for _ in range({n})])\nresult = 1")
        }),
    ];
    for (what, code) in kinds {
        let mut costs = Vec::new();
        for count in CALLS {
            costs.push((count, repeat(session, &code(count), count >= 1_000).await));
        }
        table.row(what, &costs, "ms", |count| count.to_string());
    }
}

/// Median of a script, in milliseconds.
async fn repeat(session: &Session, code: &str, is_long: bool) -> f64 {
    let mut times = Vec::new();
    execute(session, code).await;
    for _ in 0..if is_long { LONG_REQUESTS } else { REQUESTS } {
        times.push(execute(session, code).await);
    }
    millis(median(times))
}

async fn execute(session: &Session, code: &str) -> Duration {
    let arguments = json!({"language": "starlark", "code": code});
    let request = CallToolRequestParams::new("execute").with_arguments(arguments.as_object().unwrap().clone());
    let started = Instant::now();
    let result = session.call_tool(request).await.unwrap();
    assert!(!result.is_error.unwrap_or(false), "{code}: {result:?}");
    started.elapsed()
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn entry(name: &str, tools: Vec<Value>) -> Arc<ServerEntry> {
    let listing = Listing { tools, ..Listing::default() };
    Arc::new(ServerEntry::listed(name, name, None, listing, ServerState::Offline))
}

/// A configuration with the server of this program, and room for all that is measured.
fn write(folder: &Path) -> PathBuf {
    let most = SESSIONS[SESSIONS.len() - 1] + 1;
    let own = std::env::current_exe().unwrap();
    let mut text = format!("[http]\nmax_sessions = {most}\nmax_client_sessions = {most}\nmax_connections = 5000\n");
    let limits = "[sandbox.limits]\nanswer = \"16MiB\"\nheap = \"512MiB\"\nconcurrency = 64\n";
    write!(text, "{limits}[servers.answers]\ncommand = {:?}\nargs = [\"answers\"]\n", own.display().to_string())
        .unwrap();
    let path = folder.join("forge.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// The executable, with its files in the folder of its configuration.
fn forgefs(config: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(EXE);
    for kind in ["STATE", "CACHE", "DATA"] {
        command.env(format!("XDG_{kind}_HOME"), config.parent().unwrap());
    }
    command.args(["--log", "off", "--config"]).arg(config);
    command
}

async fn stdio(config: &Path) -> Session {
    let mut command = forgefs(config);
    command.arg("serve");
    ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap()
}

/// A server whose answers have the size that is asked for.
struct Answers;

impl ServerHandler for Answers {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]});
        let schema = Arc::new(schema.as_object().unwrap().clone());
        let tools = ["text", "rows"].map(|name| Tool::new(name, "Answers with so many bytes", Arc::clone(&schema)));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let bytes = request.arguments.and_then(|arguments| arguments.get("bytes")?.as_u64()).unwrap_or(1);
        let bytes = usize::try_from(bytes).unwrap();
        if request.name == "text" {
            let text = "lorem ipsum ".repeat(bytes / 12 + 1)[..bytes].to_owned();
            return Ok(CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]).into());
        }
        let row = |n| json!({"id": n, "name": format!("row {n}"), "state": "open", "note": "lorem ipsum dolor sit", "count": n % 7});
        let mut rows = CallToolResult::structured(json!({"rows": (0..bytes / 90).map(row).collect::<Vec<_>>()}));
        // The same as text is left out.
        rows.content.clear();
        Ok(rows.into())
    }
}

/// Rows of the table, printed as they come.
struct Table(Vec<Vec<String>>);

impl Table {
    fn row(&mut self, what: &str, costs: &[(usize, f64)], unit: &str, size: impl Fn(usize) -> String) {
        let figure = |cost: f64| if cost < 1.0 { format!("{cost:.3}") } else { format!("{cost:.1}") };
        let cells = costs.iter().map(|(at, cost)| format!("{}: {} {unit}", size(*at), figure(*cost)));
        let mut row: Vec<String> = std::iter::once(what.to_owned()).chain(cells).collect();
        if let [.., (less, cheaper), (more, dearer)] = costs {
            #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
            let step = *more as f64 / *less as f64;
            row.push(format!("{:.2}", (dearer / cheaper).ln() / step.ln()));
        }
        println!("{}", row.join(" | "));
        self.0.push(row);
    }
}

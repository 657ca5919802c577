//! Cost of attacks for the gateway, and for a second client: `cargo bench --workspace --bench hostile`, `-- --write
//! docs/benchmarks.md` to keep the table.
//!
//! Each attack runs on a gateway of its own, over stdio, while `ls` and an empty script repeat on the same connection:
//! their latency is what other clients notice. `FORGEFS_EXE` names another executable, to compare two versions in one
//! run; it is limited to 8 GiB of address space, since old ones take all there is.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and stops where it cannot go on")]

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forgefs_measure::report::Report;
use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams};
use rmcp::service::{Peer, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value, json};

/// Address space of the gateway, in KiB.
const SPACE: usize = 8 << 20;
/// After this an attack has succeeded.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two requests of the second client.
const BEAT: Duration = Duration::from_millis(5);

struct Client;
impl ClientHandler for Client {}
type Service = RunningService<RoleClient, Client>;

/// A request to the gateway.
enum Attack {
    /// A call of one of its tools.
    Tool(&'static str, Value),
    /// Scripts in JavaScript, one after the other.
    Scripts(&'static [&'static str]),
    /// `resources/read`.
    Read(String),
    /// None: the server behind it is the attack. Observed for this time.
    Wait(Duration),
}

fn javascript(code: &str) -> Attack {
    Attack::Tool("execute", json!({"language": "javascript", "code": code}))
}

fn starlark(code: &str) -> Attack {
    Attack::Tool("execute", json!({"language": "starlark", "code": code}))
}

/// The attacks: name, server behind the gateway, request.
fn attacks() -> Vec<(&'static str, &'static str, Attack)> {
    let braces = format!("/{}a{}", "{a,".repeat(15_000), "}".repeat(15_000));
    let doubling: String = (1..24).map(|n| format!("A{n} = A{0} + A{0}, ", n - 1)).collect();
    let tree = "{ let t = { v: 'x' }; for (let i = 0; i < 20; i++) t = { v: 'x', l: t, r: 1 }; return await hostile.tree({ t }); }";
    vec![
        ("an empty script", "tools", starlark("1")),
        ("braces in a glob, by a client", "tools", Attack::Tool("cat", json!({"path": braces}))),
        ("braces in a glob, by a script", "tools", starlark("cat('/' + '{a,' * 15000 + 'a' + '}' * 15000)")),
        ("braces in a URI", "tools", Attack::Read(format!("forge:///{braces}"))),
        (
            "a glob of many alternatives",
            "tools",
            Attack::Tool("cat", json!({"path": format!("/{}*", "{a,b,c}".repeat(9))})),
        ),
        (
            "100,000 wrong items",
            "tools",
            javascript("return await hostile.typed({ ids: Array.from({ length: 100000 }, (_, i) => 'x' + i) })"),
        ),
        (
            "an enum that doubles 24 times",
            "tools",
            javascript(&format!("enum E {{ A0 = \"xy\", {doubling} }}\nreturn E.A23.length")),
        ),
        ("a search for one word of 1.5 MB", "tools", Attack::Tool("search", json!({"query": "x".repeat(1_500_000)}))),
        ("a schema of doubling references", "tools", starlark("hostile.chain(value = {'a': 1})")),
        ("20 levels for a schema of trees", "tools", javascript(tree)),
        ("a tool's name of 1 MB", "tools", starlark("call_tool('hostile', 'x' * 1000000)")),
        ("a result of 8 MB nested 100 deep", "tools", javascript("return await hostile.deep({})")),
        ("8 MB of zeros", "tools", javascript("return await hostile.zeros({})")),
        (
            "a sample of a wide schema",
            "tools",
            Attack::Tool("execute", json!({"language": "starlark", "code": "hostile.wide()", "dry_run": true})),
        ),
        ("120,000 lines of output", "tools", javascript("for (let i = 0; i < 120000; i++) console.log('x'); return 1")),
        (
            "2,000 calls at once",
            "tools",
            javascript("return (await Promise.all(Array.from({ length: 2000 }, () => hostile.echo({})))).length"),
        ),
        (
            "9,900 placeholders and an answer of 5 MB",
            "tools",
            Attack::Scripts(&["return await hostile.people({})", "return await hostile.text({})"]),
        ),
        ("2,000 pages of tools of 1 MiB", "pages", Attack::Wait(Duration::from_secs(20))),
        ("a list that never ends", "cursor", Attack::Wait(Duration::from_secs(10))),
        ("a tool with 20,000 parameters", "parameters", Attack::Wait(Duration::from_secs(10))),
    ]
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(("hostile", role)) = args.get(1).zip(args.get(2)).map(|(first, second)| (&**first, &**second)) {
        return serve_hostile(role);
    }
    let exe = std::env::var("FORGEFS_EXE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_forgefs").to_owned());
    let folder = tempfile::tempdir().unwrap();
    let heading = ["", "ended", "after", "gateway, peak", "`ls` p50", "p99", "script p50", "p99"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    println!("{}", rows[0].join(" | "));
    for (name, role, attack) in attacks() {
        let row = measure(&exe, folder.path(), name, role, attack).await;
        println!("{}", row.join(" | "));
        rows.push(row);
    }
    Report::of_bench("hostile", &rows).keep().unwrap();
}

async fn measure(exe: &str, folder: &Path, name: &str, role: &str, attack: Attack) -> Vec<String> {
    let (service, pid) = serve(exe, folder, role).await;
    ready(service.peer(), role).await;
    let running = Arc::new(AtomicBool::new(true));
    let looks = tokio::spawn(beside(service.peer().clone(), Arc::clone(&running), "ls", json!({})));
    let script = json!({"language": "starlark", "code": "1"});
    let scripts = tokio::spawn(beside(service.peer().clone(), Arc::clone(&running), "execute", script));
    let started = Instant::now();
    let ended = match tokio::time::timeout(PATIENCE, make(service.peer(), attack)).await {
        Ok(ended) => ended,
        Err(_) => "not at all".to_owned(),
    };
    let took = started.elapsed();
    running.store(false, Ordering::Relaxed);
    let (looks, scripts) = (looks.await.unwrap(), scripts.await.unwrap());
    let alive = tokio::time::timeout(PATIENCE / 6, call(service.peer(), "ls", json!({}))).await;
    let ended = match alive {
        Ok(Ok(_)) => ended,
        _ => format!("{ended}; the gateway is gone"),
    };
    let peak = peak(pid).map_or_else(|| "–".to_owned(), |kib| format!("{} MiB", kib >> 10));
    drop(service);
    let [ls_p50, ls_p99] = quantiles(looks);
    let [script_p50, script_p99] = quantiles(scripts);
    vec![name.to_owned(), ended, format!("{:.2} s", took.as_secs_f64()), peak, ls_p50, ls_p99, script_p50, script_p99]
}

/// Makes the attack; returns its end.
async fn make(peer: &Peer<RoleClient>, attack: Attack) -> String {
    match attack {
        Attack::Tool(tool, arguments) => match call(peer, tool, arguments).await {
            Ok(text) => text,
            Err(error) => error,
        },
        Attack::Scripts(scripts) => {
            let mut ended = String::new();
            for code in scripts {
                let script = json!({"language": "javascript", "code": code});
                ended = call(peer, "execute", script).await.unwrap_or_else(|error| error);
            }
            ended
        }
        Attack::Read(uri) => match peer.read_resource(ReadResourceRequestParams::new(uri)).await {
            Ok(_) => "read".to_owned(),
            Err(_) => "refused".to_owned(),
        },
        Attack::Wait(time) => {
            tokio::time::sleep(time).await;
            "–".to_owned()
        }
    }
}

/// Repeats requests until the attack is over; returns their latencies, endless for unanswered ones.
async fn beside(
    peer: Peer<RoleClient>,
    running: Arc<AtomicBool>,
    tool: &'static str,
    arguments: Value,
) -> Vec<Duration> {
    let mut times = Vec::new();
    while running.load(Ordering::Relaxed) || times.len() < 20 {
        let started = Instant::now();
        let answered = tokio::time::timeout(PATIENCE, call(&peer, tool, arguments.clone())).await;
        times.push(started.elapsed());
        if !matches!(answered, Ok(Ok(_))) {
            times.push(Duration::MAX);
            break;
        }
        tokio::time::sleep(BEAT).await;
    }
    times
}

fn quantiles(mut times: Vec<Duration>) -> [String; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| match times[(times.len() * percent / 100).min(times.len() - 1)] {
        Duration::MAX => "no answer".to_owned(),
        time => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
    })
}

/// First word of the answer: a code, or that there is a value.
async fn call(peer: &Peer<RoleClient>, tool: &'static str, arguments: Value) -> Result<String, String> {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    let result = peer.call_tool(request).await.map_err(|_| "the connection is gone".to_owned())?;
    let text: String =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.clone()).collect();
    let code = text.split([':', ' ', '\n']).next().unwrap_or_default().to_owned();
    Ok(if result.is_error.unwrap_or(false) { code } else { "answered".to_owned() })
}

async fn ready(peer: &Peer<RoleClient>, role: &str) {
    let path = json!({"path": "/hostile"});
    for _ in 0..if role == "tools" { 300 } else { 1 } {
        if call(peer, "ls", path.clone()).await.is_ok_and(|ended| ended == "answered") {
            // Twice, so that the workers are warm.
            let script = json!({"language": "starlark", "code": "hostile.echo()"});
            if role != "tools" || call(peer, "execute", script).await.is_ok_and(|ended| ended == "answered") {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn serve(exe: &str, folder: &Path, role: &str) -> (Service, u32) {
    let own = std::env::current_exe().unwrap().display().to_string();
    let config = folder.join("forge.toml");
    let text = format!(
        "[servers.hostile]\ncommand = {own:?}\nargs = [\"hostile\", {role:?}]\n[redaction]\nresults = \"secrets+pii\"\n\
         placeholders = true\n[sandbox.limits]\ncalls = 3000\ncpu = \"30s\"\n[audit]\npath = \"audit.jsonl\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = tokio::process::Command::new("sh");
    let limit = if cfg!(feature = "v8") { String::new() } else { format!("ulimit -v {SPACE}; ") };
    command.arg("-c").arg(format!("{limit}exec \"$0\" --log off --config \"$1\" serve")).arg(exe).arg(&config);
    command.env("XDG_STATE_HOME", folder).env("XDG_CACHE_HOME", folder);
    let process = TokioChildProcess::new(command).unwrap();
    let pid = process.id().unwrap();
    (Client.serve(process).await.unwrap(), pid)
}

/// Peak memory of the process, in KiB.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

/// The server behind the gateway: JSON-RPC by hand, since no library would send this.
fn serve_hostile(role: &str) {
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    for line in stdin.lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line.unwrap_or_default()) else { return };
        let Some(id) = request.get("id") else { continue };
        let answer = match request["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            })
            .to_string()),
            "tools/list" => Ok(list(role, request.pointer("/params/cursor").and_then(Value::as_str))),
            "tools/call" => Ok(answer(request["params"]["name"].as_str().unwrap_or_default())),
            _ => Err(json!({"code": -32601, "message": "no such method"})),
        };
        let sent = match answer {
            Ok(result) => writeln!(stdout, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
            Err(error) => writeln!(stdout, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"),
        };
        if sent.and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}

fn list(role: &str, cursor: Option<&str>) -> String {
    let tool = |name: &str, schema: Value| json!({"name": name, "description": "A tool.", "inputSchema": schema});
    let any = || json!({"type": "object"});
    let page: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    match role {
        "pages" => {
            let tools = (0..64).map(
                |n| json!({"name": format!("t{page}_{n}"), "description": "x".repeat(16 << 10), "inputSchema": any()}),
            );
            let more = if page < 2000 { json!((page + 1).to_string()) } else { Value::Null };
            json!({"tools": tools.collect::<Vec<_>>(), "nextCursor": more}).to_string()
        }
        "cursor" => json!({"tools": [], "nextCursor": (page + 1).to_string()}).to_string(),
        "parameters" => {
            let properties: serde_json::Map<String, Value> = (0..20_000)
                .map(|n| (format!("p{n}"), json!({"anyOf": [{"type": "string"}, {"type": "null"}]})))
                .collect();
            json!({"tools": [tool("wide", json!({"type": "object", "properties": properties}))]}).to_string()
        }
        _ => {
            let mut definitions = json!({"d0": {"type": "object"}});
            for n in 1..40 {
                let below = json!({"$ref": format!("#/$defs/d{}", n - 1)});
                definitions[format!("d{n}")] = json!({"allOf": [below.clone(), below]});
            }
            let chain = json!({
                "type": "object", "$defs": definitions,
                "properties": {"value": {"$ref": "#/$defs/d39"}},
            });
            let leaf = json!({"$ref": "#/$defs/t"});
            let tree = json!({
                "type": "object",
                "$defs": {"t": {"anyOf": [
                    {"type": "object", "properties": {"l": leaf, "r": {"type": "string"}}},
                    {"type": "object", "properties": {"l": leaf, "r": {"type": "boolean"}}},
                    {"type": "object", "properties": {"l": leaf, "r": {"type": "array"}}},
                ]}},
                "properties": {"t": leaf},
            });
            let object = |inner: Value| {
                let properties: serde_json::Map<String, Value> =
                    (0..2000).map(|n| (format!("w{n}"), inner.clone())).collect();
                json!({"type": "object", "required": properties.keys().collect::<Vec<_>>(), "properties": properties})
            };
            let mut sample = tool("wide", any());
            sample["outputSchema"] = object(json!({"$ref": "#/$defs/w"}));
            sample["outputSchema"]["$defs"] = json!({"w": object(json!({"type": "string"}))});
            let ids = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}});
            let names = ["deep", "zeros", "echo", "people", "text"].map(|name| tool(name, any()));
            let mut tools = vec![tool("typed", ids), tool("chain", chain), tool("tree", tree), sample];
            tools.extend(names);
            json!({"tools": tools}).to_string()
        }
    }
}

fn answer(tool: &str) -> String {
    let text = match tool {
        "deep" => {
            let leaf = format!("[{}1]", "1,".repeat(120_000));
            format!("{}{}{}", "[".repeat(100), [leaf.as_str(); 34].join(","), "]".repeat(100))
        }
        "zeros" => format!("[{}0]", "0,".repeat(4 << 20)),
        "people" => (0..9_900).map(|n| format!("person{n}@example.com ")).collect(),
        "text" => "person1@example.com and what else there is to say about it; ".repeat(85_000),
        _ => "\"done\"".to_owned(),
    };
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

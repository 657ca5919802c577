//! Metrics for Prometheus, and spans for a collector: over real HTTP, without any text of an agent or a server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use regex::Regex;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject};
use rmcp::service::PeerRequestOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::client::{Fence, Session};
use crate::executable::engine;
use crate::faulty::{faulty, log, samples};
use crate::http::free_port;

/// A connection, as soon as it listens: a client is answered before that.
async fn connected(port: u16) -> TcpStream {
    let started = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => return stream,
            Err(err) => assert!(started.elapsed() < Duration::from_secs(30), "it does not listen: {err}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One request over a connection of its own; returns status and body.
async fn get(port: u16, request: &str) -> (u16, String) {
    let mut stream = connected(port).await;
    stream.write_all(request.as_bytes()).await.expect("a request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
}

pub(crate) async fn metrics(port: u16) -> String {
    let (status, text) = get(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(status, 200, "{text}");
    text
}

/// Value of a line, by its beginning.
fn value(metrics: &str, line: &str) -> Option<f64> {
    let found = metrics.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '))?;
    found.parse().ok()
}

#[tokio::test]
async fn metrics_count_what_happened_and_hold_no_text_from_outside() {
    let fence = Fence::new();
    let port = free_port();
    let settings = format!(
        "[servers.people.tools.list_teams]\nrate = {{ calls = 2, per = \"1h\" }}\n[budgets]\nday = 100\n\
         [metrics]\nlisten = \"127.0.0.1:{port}\"\n"
    );
    let session = fence.serve(&format!("{}\n{settings}", samples())).await;
    session.ready(&["people", "tickets"]).await;
    session.execute("starlark", "people.list_teams()[\"teams\"][0]").await;
    session.execute_err("starlark", "people.get_user(name=\"planted-name\")").await;
    session.execute_err("javascript", "await people.list_teams(); await people.list_teams()").await;
    session.execute_err("javascript", "await forge.callTool('planted\"} 1\\nserver', 'planted-tool', {})").await;
    session.execute_err("javascript", "throw new Error('planted-error')").await;
    session.call("search", json!({"query": "planted-query"})).await;
    let text = metrics(port).await;
    for (line, expected) in [
        ("forgefs_executions_total{language=\"starlark\",engine=\"starlark\",outcome=\"ok\"}", 1.0),
        ("forgefs_executions_total{language=\"javascript\",engine=\"ENGINE\",outcome=\"RATE_LIMIT\"}", 1.0),
        ("forgefs_executions_total{language=\"javascript\",engine=\"ENGINE\",outcome=\"SCRIPT_ERROR\"}", 1.0),
        ("forgefs_execution_seconds_count{language=\"javascript\"}", 3.0),
        ("forgefs_calls_total{server=\"people\",outcome=\"ok\"}", 2.0),
        ("forgefs_calls_total{server=\"people\",outcome=\"TOOL_ERROR\"}", 1.0),
        ("forgefs_calls_total{server=\"people\",outcome=\"RATE_LIMIT\"}", 1.0),
        ("forgefs_calls_total{server=\"unknown\",outcome=\"SERVER_NOT_FOUND\"}", 1.0),
        ("forgefs_call_seconds_count{server=\"people\"}", 3.0),
        ("forgefs_refused_total{rule=\"RATE_LIMIT\"}", 1.0),
        ("forgefs_cost_total{server=\"people\"}", 3.0),
        ("forgefs_budget_day_spent", 3.0),
        ("forgefs_budget_day_limit", 100.0),
        ("forgefs_server_state{server=\"tickets\",state=\"ready\"}", 1.0),
        ("forgefs_server_breaker{server=\"people\",state=\"closed\"}", 1.0),
    ] {
        let line = line.replace("ENGINE", &engine());
        assert_eq!(value(&text, &line), Some(expected), "{line}\n{text}");
    }
    assert!(value(&text, "forgefs_catalog_tools{server=\"people\"}").is_some_and(|tools| tools > 0.0), "{text}");
    assert!(value(&text, "forgefs_workers_started_total").is_some_and(|started| started > 0.0), "{text}");
    assert_eq!(value(&text, "forgefs_panics_total"), Some(0.0), "{text}");
    assert!(!text.contains("planted"), "{text}");
    // Every line is valid for a scraper.
    let line =
        Regex::new(r#"^(# (HELP|TYPE|UNIT|EOF).*|[a-z_]+(\{([a-z_]+="[^"\\]*",?)*\})? [0-9.e+-]+)$"#).expect("valid");
    assert!(text.lines().all(|found| line.is_match(found)) && text.ends_with("# EOF\n"), "{text}");
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        ("\r\nnonsense\r\n\r\n", 400),
    ] {
        assert_eq!(get(port, request).await.0, status, "{request}");
    }
    for beyond in ["x: ".to_owned() + &"y".repeat(9000), "a: b\r\n".repeat(65) + "\r\n"] {
        let endless = format!("GET /metrics HTTP/1.1\r\n{beyond}");
        let mut stream = connected(port).await;
        let _ = stream.write_all(endless.as_bytes()).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 431", "{}", beyond.len());
    }
}

#[tokio::test]
async fn a_taken_port_is_told_and_stops_nothing() {
    let fence = Fence::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let session = fence.serve_logged(&format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n")).await;
    assert_eq!(session.execute("starlark", "1").await, json!(1));
    let said = session.stderr();
    assert!(
        said.contains("no metrics are served at metrics.listen: it is taken, perhaps by another gateway"),
        "{said}"
    );
    // A new address takes effect on the operator's command.
    let port = free_port();
    fence.write("forge.toml", &format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n"));
    fence.run(["reload"]).success();
    assert_eq!(value(&metrics(port).await, "forgefs_execution_seconds_count{language=\"starlark\"}"), Some(1.0));
}

/// A collector, with the requests it got.
pub(crate) struct Collector {
    pub(crate) port: u16,
    requests: mpsc::UnboundedReceiver<(String, Vec<u8>)>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let _ = collect(stream, tell).await;
                });
            }
        });
        Self { port, requests }
    }

    /// All requests, once no more arrive.
    pub(crate) async fn everything(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(Some((_, body))) = tokio::time::timeout(Duration::from_secs(2), self.requests.recv()).await {
            bytes.extend(body);
        }
        bytes
    }

    /// Waits for `count` spans; returns the spans by name, and all bytes.
    pub(crate) async fn spans(&mut self, count: usize) -> (HashMap<String, Span>, Vec<u8>) {
        let (mut spans, mut bytes) = (HashMap::new(), Vec::new());
        while spans.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(20), self.requests.recv()).await;
            let (head, body) = next.expect("spans come").expect("the collector runs");
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            assert!(head.to_lowercase().contains("x-api-key: key-of-the-collector"), "{head}");
            bytes.extend_from_slice(&body);
            let request = ExportTraceServiceRequest::decode(body.as_slice()).expect("OTLP");
            for resource in request.resource_spans {
                let attributes = resource.resource.expect("a resource").attributes;
                assert!(attributes.iter().any(|attribute| attribute.key == "service.name"), "{attributes:?}");
                for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    spans.insert(span.name.clone(), span);
                }
            }
        }
        (spans, bytes)
    }
}

async fn collect(mut stream: TcpStream, tell: mpsc::UnboundedSender<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let length: usize = length.expect("a length");
        while buffer.len() < end + length {
            stream.read_buf(&mut buffer).await?;
        }
        let body = buffer[end..end + length].to_vec();
        buffer.drain(..end + length);
        let _ = tell.send((head, body));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await?;
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

/// Runs a script as part of a trace.
async fn execute_traced(session: &Session, code: &str, parent: &str) -> bool {
    let arguments = json!({"language": "javascript", "code": code});
    let params =
        CallToolRequestParams::new("execute").with_arguments(arguments.as_object().expect("an object").clone());
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(parent);
    meta.set_tracestate("vendor=1");
    let options = PeerRequestOptions::no_options().with_meta(meta);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = session.peer().send_request_with_option(request, options).await.expect("sent");
    sent.await_response().await.is_ok()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Attribute::StringValue(text) => text.clone(),
        Attribute::IntValue(number) => number.to_string(),
        Attribute::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn spans_reach_the_collector_and_the_trace_goes_on_to_servers() {
    let fence = Fence::new();
    let mut collector = Collector::start().await;
    let (log, setting) = log(&fence);
    let Some(faulty) = faulty(&[]) else { return };
    let telemetry = format!(
        "[telemetry]\nendpoint = \"http://127.0.0.1:{}\"\nheaders = {{ X-Api-Key = \"key-of-the-collector\" }}\n",
        collector.port
    );
    let session = fence.serve(&format!("{faulty}{setting}{telemetry}")).await;
    session.ready(&["faulty"]).await;
    let code = "await faulty.act({ nonce: 'planted-argument' });\n\
                await faulty.fail({ message: 'planted-answer' }).catch(() => {});\n\
                await faulty.nothing({}).catch(() => {});\n\
                return 'planted-value'";
    assert!(execute_traced(&session, code, &format!("00-{TRACE}-{PARENT}-01")).await);
    session.execute_err("starlark", "fail(\"planted-error\")").await;
    let (spans, bytes) = collector.spans(4).await;
    let [script, act, fail, alone] =
        ["execute javascript", "tools/call faulty.act", "tools/call faulty.fail", "execute starlark"]
            .map(|name| spans.get(name).unwrap_or_else(|| panic!("{name} is not in {:?}", spans.keys())));
    assert_eq!((hex(&script.trace_id), hex(&script.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    for call in [act, fail] {
        assert_eq!((hex(&call.trace_id), &call.parent_span_id), (TRACE.to_owned(), &script.span_id));
        assert!(call.start_time_unix_nano >= script.start_time_unix_nano);
        assert!(call.end_time_unix_nano <= script.end_time_unix_nano + 1_000_000);
        assert_eq!(attribute(call, "mcp.method.name").as_deref(), Some("tools/call"));
    }
    assert_eq!(attribute(act, "gen_ai.tool.name").as_deref(), Some("act"));
    assert_eq!(attribute(act, "error.type"), None);
    assert_eq!(attribute(fail, "error.type").as_deref(), Some("TOOL_ERROR"));
    assert_eq!(attribute(alone, "error.type").as_deref(), Some("SCRIPT_ERROR"));
    assert_eq!(attribute(script, "forgefs.engine").as_deref(), Some(engine().as_str()));
    assert_eq!(attribute(script, "forgefs.calls").as_deref(), Some("3"));
    assert!(alone.parent_span_id.is_empty() && hex(&alone.trace_id) != TRACE);
    assert!(!String::from_utf8_lossy(&bytes).contains("planted"), "{}", String::from_utf8_lossy(&bytes));
    // The server got the span of its own call.
    assert_eq!(log.count(&format!("trace 00-{TRACE}-{}-01 vendor=1", hex(&act.span_id))), 1, "{:?}", log.lines());
    let records = std::fs::read_to_string(fence.audit()).expect("an audit file");
    assert!(records.lines().next().is_some_and(|line| line.contains(&format!("\"trace\":\"{TRACE}\""))), "{records}");
    // Work in flight when the client leaves is still sent.
    session.execute("starlark", "1 + 1").await;
    session.close().await;
    assert!(collector.spans(1).await.0.contains_key("execute starlark"));
}

#[tokio::test]
async fn without_a_collector_a_trace_is_passed_on_and_nonsense_is_not() {
    let fence = Fence::new();
    let (log, setting) = log(&fence);
    let Some(faulty) = faulty(&[]) else { return };
    let session = fence.serve(&format!("{faulty}{setting}")).await;
    session.ready(&["faulty"]).await;
    assert!(execute_traced(&session, "return await faulty.last()", &format!("00-{TRACE}-{PARENT}-00")).await);
    assert!(execute_traced(&session, "return await faulty.last()", "nonsense\r\nx: y").await);
    session.execute("javascript", "return await faulty.last()").await;
    let told: Vec<String> = log.lines().into_iter().filter(|line| line.starts_with("trace ")).collect();
    assert_eq!(told, [format!("trace 00-{TRACE}-{PARENT}-00 vendor=1")]);
}

/// Silent connections, and half a request.
#[tokio::test]
async fn a_worn_worker_is_replaced() {
    // Scripts of one worker, scripts that run, workers that are replaced.
    for (uses, scripts, replaced) in [(1, 3, 3.0), (50, 5, 0.0)] {
        let fence = Fence::new();
        let port = free_port();
        let settings = format!(
            "[sandbox]\nworkers = 1\nworker_scripts = {uses}\n[sandbox.limits]\nruns = 1\n\
             [metrics]\nlisten = \"127.0.0.1:{port}\"\n"
        );
        let session = fence.serve(&settings).await;
        for number in 0..scripts {
            assert_eq!(session.execute("starlark", "1 + 1").await, 2, "script {number}");
        }
        assert_eq!(value(&metrics(port).await, "forgefs_workers_recycled_total"), Some(replaced), "{uses} {scripts}");
        session.close().await;
    }
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_metrics() {
    let fence = Fence::new();
    let port = free_port();
    let session = fence.serve(&format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n")).await;
    session.execute("starlark", "0").await;
    for part in ["", "GET /metrics HT", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut idle = Vec::new();
        for _ in 0..200 {
            let mut stream = connected(port).await;
            stream.write_all(part.as_bytes()).await.expect("a part of a request");
            idle.push(stream);
        }
        let begun = Instant::now();
        assert!(metrics(port).await.contains("forgefs_executions_total"));
        assert!(begun.elapsed() < Duration::from_secs(9), "{part:?}: {:?}", begun.elapsed());
    }
    session.close().await;
}

/// A collector that is down, and one that accepts connections and stays silent.
#[tokio::test]
async fn a_dead_collector_holds_nothing_up() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    for port in [free_port(), silent.local_addr().expect("an address").port()] {
        let fence = Fence::new();
        let session = fence.serve(&format!("[telemetry]\nendpoint = \"http://127.0.0.1:{port}\"\n")).await;
        session.execute("starlark", "0").await;
        let started = Instant::now();
        for number in 0..50 {
            assert_eq!(session.execute("starlark", &number.to_string()).await, json!(number));
        }
        assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
        let ending = Instant::now();
        session.close().await;
        assert!(ending.elapsed() < Duration::from_secs(30), "{:?}", ending.elapsed());
    }
}

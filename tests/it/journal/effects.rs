//! What became of a call, by what came back: each answer of a server × kind of server, through a run and the run that
//! resumes it. The server does its work first and answers then, so that what is taken for undone wrongly is done twice.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};

/// What may come back for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// As it should be.
    Fine,
    /// A response: status, headers, body, in which `ID` stands for the id of the request.
    Response(u16, &'static str, &'static str),
    /// The connection ends before a response, or in the middle of one.
    Nothing,
    Half,
}

use Reply::{Fine, Half, Nothing, Response};

const JSON: &str = "Content-Type: application/json\r\n";

/// A server of MCP and of an API that does what it is asked, and answers as it is told.
struct Server {
    port: u16,
    told: Arc<Mutex<(Reply, usize)>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let told = Arc::new(Mutex::new((Fine, 0)));
        let shared = Arc::clone(&told);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { port, told }
    }

    /// Answers calls like this from now on, and counts from 0.
    fn tell(&self, reply: Reply) {
        *self.told.lock().expect("no panic") = (reply, 0);
    }

    /// Calls since then.
    fn done(&self) -> usize {
        self.told.lock().expect("no panic").1
    }
}

/// Answers one request, and closes the connection.
fn serve(mut stream: TcpStream, told: &Mutex<(Reply, usize)>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().to_lowercase() {
            end if end.is_empty() => break,
            header => length = header.strip_prefix("content-length: ").map_or(length, |n| n.parse().expect("a length")),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (method, path) = first.split_once(' ').unwrap_or_default();
    let is_call = path.starts_with("/api") || message["method"] == "tools/call";
    let reply = match is_call {
        true => {
            let mut told = told.lock().expect("no panic");
            told.1 += 1;
            told.0
        }
        false => Fine,
    };
    let ok = |result: Value| (200, JSON, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
    let (status, headers, body) = match (reply, message["method"].as_str()) {
        (Nothing, _) => return None,
        (Half, _) => {
            let head = format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: 500\r\n\r\n{{\"js");
            return stream.write_all(head.as_bytes()).ok();
        }
        (Response(status, headers, body), _) => (status, headers, body.replace("\"ID\"", &message["id"].to_string())),
        (Fine, _) if path.starts_with("/api") => (200, JSON, "{\"ok\":1}".to_owned()),
        (Fine, _) if method != "POST" => (405, "", String::new()),
        (Fine, Some("initialize")) => {
            let (status, _, body) = ok(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}
            }));
            (status, "Content-Type: application/json\r\nMcp-Session-Id: s1\r\n", body)
        }
        (Fine, Some("tools/list")) => ok(json!({"tools": [
            {"name": "pay", "inputSchema": {"type": "object"}},
            {"name": "put", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}}
        ]})),
        (Fine, Some("tools/call")) => ok(json!({"content": [{"type": "text", "text": "{\"ok\":1}"}]})),
        (Fine, _) if message.get("id").is_none() => (202, "", String::new()),
        (Fine, _) => (
            200,
            JSON,
            json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}).to_string(),
        ),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).ok()
}

fn api() -> String {
    let answer = json!({"200": {"description": "x", "content": {"application/json": {"schema": {}}}}});
    let operation = |id: &str| {
        let body = json!({"content": {"application/json": {"schema": {"type": "object"}}}});
        json!({"operationId": id, "requestBody": body, "responses": answer})
    };
    let paths = json!({"/pay": {"post": operation("pay"), "put": operation("put")}});
    json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}).to_string()
}

/// A gateway in front of the server, both its kinds ready.
async fn gateway(fence: &Fence, server: &Server) -> Session {
    fence.write("d.json", &api());
    let port = server.port;
    let config = format!(
        "[servers.mcp]\nurl = \"http://127.0.0.1:{port}/mcp\"\ntimeout = \"20s\"\n[servers.api]\nopenapi = \"d.json\"\n\
         base_url = \"http://127.0.0.1:{port}/api\"\ntimeout = \"20s\"\n[sandbox.limits]\nanswer = \"64KiB\"\n"
    );
    let session = fence.serve_in(Era::Legacy, &config).await;
    session.ready(&["mcp", "api"]).await;
    session
}

/// The run that an answer names to be resumed.
fn resumable(text: &str) -> &str {
    text.split("execute(resume=\"").nth(1).and_then(|rest| rest.get(..12)).unwrap_or_default()
}

/// Makes a call that gets this reply, then resumes its run when all is well again.
async fn resumed(session: &Session, server: &Server, call: &str, reply: Reply, is_nothing: bool) {
    let what = format!("{call} {reply:?}");
    // What was before does not count for the circuit breaker.
    server.tell(Fine);
    session.execute("javascript", &format!("return await {call}({{body: {{n: 0}}}})")).await;
    server.tell(reply);
    let code = format!("return await {call}({{body: {{n: 1}}}})");
    let failed = session.execute_err("javascript", &code).await;
    let done = server.done();
    let warns = failed.contains("it may have been carried out all the same");
    assert_eq!(warns, !is_nothing && !call.ends_with("put"), "{what}: {failed}");
    let run = resumable(&failed).to_owned();
    assert_eq!(run.len(), 12, "{what}: {failed}");
    server.tell(Fine);
    let again = session.call("execute", json!({"resume": run})).await;
    if is_nothing || call.ends_with("put") {
        assert!(!again.is_error && server.done() == 1, "{what}: {}", again.text);
        return;
    }
    assert_eq!((done, server.done()), (1, 0), "{what} was sent again: {}", again.text);
    assert!(again.is_error && again.text.contains("MAYBE_DONE"), "{what}: {}", again.text);
    // The resumed run names its own, whose script may decide.
    let next = resumable(&again.text);
    assert!(next.len() == 12 && next != run, "{what}: {}", again.text);
    let decided = format!("try {{ await {call}({{body: {{n: 1}}}}) }} catch (e) {{ return [e.code, e.retryable] }}");
    let answer = session.call("execute", json!({"resume": next, "language": "javascript", "code": decided})).await;
    assert!(answer.text.contains("[\"MAYBE_DONE\",false]"), "{what}: {}", answer.text);
}

/// Statuses of a server that has refused the request before its work; any other one may come after it.
const REFUSALS: &[u16] =
    &[307, 308, 400, 401, 403, 404, 405, 410, 411, 412, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431];

/// Registered statuses, and some that proxies invented.
const OTHERS: &[u16] = &[
    300, 301, 302, 303, 304, 305, 306, 402, 406, 407, 408, 409, 416, 418, 423, 424, 444, 451, 460, 499, 500, 501, 502,
    503, 504, 505, 506, 507, 508, 510, 511, 520, 521, 522, 523, 524, 525, 530, 598, 599,
];

#[tokio::test]
async fn a_status_of_an_api_proves_that_nothing_was_done_or_leaves_it_unknown() {
    let (fence, server) = (Fence::new(), Server::start());
    let session = gateway(&fence, &server).await;
    for (statuses, is_nothing) in [(REFUSALS, true), (OTHERS, false)] {
        for status in statuses {
            let reply = Response(*status, "Location: http://127.0.0.1:9/\r\n", "oops");
            resumed(&session, &server, "api.pay", reply, is_nothing).await;
        }
    }
    // No argument is wrong then.
    server.tell(Response(500, "", "oops"));
    let failed = session.execute_err("javascript", "return await api.pay({body: {n: 2}})").await;
    assert!(failed.contains("; the service failed: try again later, or catch the error\n"), "{failed}");
    // A method that is idempotent is repeated, whatever became of it.
    for status in [500, 502, 408, 303] {
        resumed(&session, &server, "api.put", Response(status, "", "oops"), false).await;
    }
    session.close().await;
}

#[tokio::test]
async fn a_status_of_mcp_proves_that_nothing_was_done_or_leaves_it_unknown() {
    let (fence, server) = (Fence::new(), Server::start());
    let session = gateway(&fence, &server).await;
    // A session that is not known is opened again, and the call is made in it.
    for (statuses, is_nothing) in [(REFUSALS, true), (OTHERS, false)] {
        for status in statuses {
            let reply = Response(*status, "Location: http://127.0.0.1:9/\r\n", "oops");
            resumed(&session, &server, "mcp.pay", reply, is_nothing).await;
        }
    }
    session.close().await;
}

/// Replies of MCP other than by status, and whether they prove that nothing was done.
const OF_MCP: &[(Reply, bool)] = &[
    (Nothing, false),
    (Half, false),
    (Response(200, JSON, "{%%%"), false),
    (Response(200, "Content-Type: text/html\r\n", "<p>Hi"), false),
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"n is missing"}}"#), true),
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"no such tool"}}"#), true),
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32603,"message":"oops"}}"#), false),
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32000,"message":"oops"}}"#), false),
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32700,"message":"oops"}}"#), false),
    // The SDK of TypeScript checks the result of a tool after its work.
    (
        Response(
            200,
            JSON,
            r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"Tool pay has an output schema but no structured content was provided"}}"#,
        ),
        false,
    ),
    (Response(400, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"n is missing"}}"#), true),
    // A server that failed proves nothing by what it says.
    (Response(500, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32602,"message":"n is missing"}}"#), false),
    (Response(408, JSON, r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"late"}}"#), false),
    // Words about a session prove that ours is lost only where the status says that the request was refused.
    (Response(200, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"session lost"}}"#), false),
    (Response(500, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"session lost"}}"#), false),
    (Response(400, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#), true),
    (
        Response(
            200,
            JSON,
            r#"{"jsonrpc":"2.0","id":"ID","result":{"isError":true,"content":[{"type":"text","text":"later"}]}}"#,
        ),
        true,
    ),
    // The SDK of Python, and newer ones of TypeScript, likewise.
    (
        Response(
            200,
            JSON,
            r#"{"jsonrpc":"2.0","id":"ID","result":{"isError":true,"content":[{"type":"text","text":"Output validation error: 'x' is a required property"}]}}"#,
        ),
        false,
    ),
];

#[tokio::test]
async fn an_error_of_mcp_proves_that_nothing_was_done_or_leaves_it_unknown() {
    let (fence, server) = (Fence::new(), Server::start());
    let session = gateway(&fence, &server).await;
    for (reply, is_nothing) in OF_MCP {
        resumed(&session, &server, "mcp.pay", *reply, *is_nothing).await;
    }
    for reply in [Nothing, Half] {
        resumed(&session, &server, "api.pay", reply, false).await;
    }
    session.close().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_passed_on_is_told_as_done() {
    let (fence, server) = (Fence::new(), Server::start());
    let session = gateway(&fence, &server).await;
    let long: &'static str = format!("\"{}\"", "x".repeat(100 << 10)).leak();
    server.tell(Response(200, JSON, long));
    let failed = session.execute_err("javascript", "return await api.pay({body: {n: 1}})").await;
    assert!(failed.contains("BUDGET_EXCEEDED") && failed.contains("do not call again for its answer"), "{failed}");
    let again = session.call("execute", json!({"resume": resumable(&failed)})).await;
    assert!(again.text.contains("MAYBE_DONE") && again.text.contains("its answer is not in the journal"), "{again:?}");
    assert_eq!(server.done(), 1);
    session.close().await;
}

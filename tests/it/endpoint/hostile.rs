//! Hostile requests over HTTP: each is refused as the specification says, and nothing of it stays.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::revoked::modern;
use super::{Served, call, initialize};
use crate::client::Fence;
use crate::faulty::{faulty, samples};

const JSON: (&str, &str) = ("content-type", "application/json");
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

#[tokio::test]
async fn a_request_in_a_session_that_rmcp_answers_without_it_is_in_flight_no_longer() {
    let served = Served::start(Fence::new(), &samples()).await;
    let id = served.session(None).await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let mut listed = modern(json!({"jsonrpc": "2.0", "id": revision, "method": "tools/list", "params": {}}));
        listed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision);
        let asked = async || {
            let request = served.message(Some(&id), &listed).header("mcp-protocol-version", revision);
            let answer = request.header("mcp-method", "tools/list").send().await.expect("an answer");
            (answer.status(), answer.text().await.expect("a body"))
        };
        let first = asked().await;
        assert!(!first.1.contains("is under way"), "{revision}: {first:?}");
        // The gateway may drop the body of the answer after its last byte was read.
        let started = Instant::now();
        while asked().await.1.contains("is under way") {
            assert!(started.elapsed() < Duration::from_secs(20), "{revision}: it is in flight for ever: {first:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn whoever_asks_while_a_session_is_deleted_gets_an_answer_or_404() {
    let served = Served::start(Fence::new(), &samples()).await;
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let client = super::http();
    let of = |id: &str, method: Method, body: &Value| {
        let request = client.request(method, served.url()).header("mcp-session-id", id);
        request.header(BOTH.0, BOTH.1).header(JSON.0, JSON.1).body(body.to_string())
    };
    let mut met = std::collections::BTreeMap::<u16, usize>::new();
    for round in 0..60_u32 {
        let id = served.session(None).await;
        let asked = (0..12_u32).map(|number| {
            let mut request = match number % 3 {
                0 => of(&id, Method::POST, &notice),
                1 if round % 2 == 0 => of(&id, Method::GET, &Value::Null),
                _ => of(&id, Method::POST, &json!({"jsonrpc": "2.0", "id": number, "method": "ping"})),
            };
            if number == round % 12 {
                request = of(&id, Method::DELETE, &Value::Null);
            }
            async move { request.send().await.expect("an answer").status().as_u16() }
        });
        for status in futures::future::join_all(asked).await {
            *met.entry(status).or_default() += 1;
        }
        let after = of(&id, Method::POST, &ping).send().await.expect("an answer").status();
        assert_eq!(after, StatusCode::NOT_FOUND);
    }
    assert!(met.keys().all(|status| [200, 202, 204, 404].contains(status)), "{met:?}");
    assert!(met.contains_key(&404) && met[&204] == 60, "{met:?}");
}

#[tokio::test]
async fn every_bad_request_is_refused_with_its_reason() {
    let served = Served::start(Fence::new(), &samples()).await;
    let id = served.session(None).await;
    let session = ("mcp-session-id", id.as_str());
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{}1{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let listed = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let again = initialize("2025-11-25").to_string();
    let mut large = initialize("2025-11-25");
    large["params"]["clientInfo"]["title"] = Value::String("x".repeat(100_000));
    let large = large.to_string();
    let long = json!({"jsonrpc": "2.0", "id": "i".repeat(2000), "method": "ping"}).to_string();
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str);
    let cases: &[Case<'_>] = &[
        ("POST", "/mcp", &[JSON, BOTH], "", 400, "not a JSON-RPC"),
        ("POST", "/mcp", &[JSON, BOTH, session], "{", 400, ""),
        ("POST", "/mcp", &[JSON, BOTH, session], "[]", 400, "batches"),
        ("POST", "/mcp", &[JSON, BOTH, session], &deep, 400, ""),
        ("POST", "/mcp", &[JSON, BOTH, session], &again, 400, "initialized already"),
        ("POST", "/mcp", &[JSON, BOTH], &large, 413, "`initialize`"),
        ("POST", "/mcp", &[JSON, BOTH, session], &long, 400, "id or progress token"),
        ("DELETE", "/mcp", &[("mcp-session-id", "nobody")], "", 404, ""),
        ("POST", "/mcp", &[JSON, BOTH, ("mcp-session-id", "nobody")], &ping, 404, ""),
        ("POST", "/mcp", &[JSON, BOTH], &ping, 400, "Session ID"),
        ("POST", "/mcp", &[JSON, session], &ping, 406, ""),
        ("POST", "/mcp", &[BOTH, session, ("content-type", "text/plain")], &ping, 415, ""),
        ("POST", "/mcp", &[JSON, BOTH, session, ("mcp-protocol-version", "1999-01-01")], &ping, 400, ""),
        ("POST", "/mcp", &[JSON, BOTH], &listed, 400, ""),
        (
            "POST",
            "/mcp",
            &[JSON, BOTH, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")],
            &listed,
            400,
            "",
        ),
        ("POST", "/mcp", &[JSON, BOTH, session, ("host", "evil.example")], &ping, 403, "allowed_hosts"),
        ("POST", "/mcp", &[JSON, BOTH, session, ("origin", "https://evil.example")], &ping, 403, "allowed_origins"),
        ("POST", "/mcp", &[JSON, BOTH, session, ("x-forwarded-for", "203.0.113.9")], &ping, 403, "[clients]"),
        ("OPTIONS", "/mcp", &[("origin", "https://evil.example")], "", 403, "allowed_origins"),
        ("GET", "/mcp", &[("accept", "text/event-stream")], "", 400, "Session ID"),
        ("GET", "/mcp", &[("accept", "text/html"), session], "", 406, ""),
        ("PUT", "/mcp", &[], "", 405, ""),
        ("GET", "/metrics", &[], "", 404, ""),
        ("GET", "/../etc/passwd", &[], "", 404, ""),
        ("GET", "/healthz", &[("host", "evil.example")], "", 403, ""),
    ];
    let mut wrong = Vec::new();
    for (method, path, headers, body, status, says) in cases {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = served.raw(method.clone(), path).body((*body).to_owned());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = request.timeout(Duration::from_secs(20)).send().await.expect("an answer");
        let (found, head) = (answer.status().as_u16(), body.chars().take(60).collect::<String>());
        let text = answer.text().await.expect("a body");
        if found != *status || !text.contains(says) {
            wrong.push(format!("{method} {path} {headers:?} {head}: {found} {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let answer = served.message(Some(&id), &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).send().await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::OK, "the session goes on");
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_free_again_after_its_answer() {
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(Fence::new(), &config).await;
    let id = served.session(None).await;
    let slow = json!({"language": "javascript", "code": "await faulty.slow({ms: 1500}); return 'slow'"});
    let first = served.message(Some(&id), &call(5, "execute", slow)).send().await.expect("a stream");
    let ls = call(5, "ls", json!({}));
    let twice = served.message(Some(&id), &ls).send().await.expect("an answer");
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    assert!(twice.text().await.expect("a body").contains("the id 5 is under way"));
    assert!(first.text().await.expect("a body").contains("slow"));
    let after = served.message(Some(&id), &ls).send().await.expect("an answer").text().await.expect("a body");
    assert!(after.contains("faulty/"), "{after}");
}

/// rmcp serves it apart from the session, whatever the header says.
#[tokio::test]
async fn a_request_of_2026_07_28_in_a_session_leaves_nothing_in_it() {
    let served = Served::start(Fence::new(), &samples()).await;
    let id = served.session(None).await;
    for _ in 0..3 {
        let request = served.message(Some(&id), &modern(call(77, "ls", json!({}))));
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
        let answer = request.header("mcp-name", "ls").send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(status == StatusCode::OK && text.contains("people/"), "{status} {text}");
    }
    let answer = served.message(Some(&id), &call(77, "ls", json!({}))).send().await.expect("an answer");
    assert!(answer.text().await.expect("a body").contains("people/"));
}

#[tokio::test]
async fn one_client_leaves_connections_to_others_and_to_probes() {
    let served = Served::start(Fence::new(), &format!("{}[http]\nmax_connections = 20\n", samples())).await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, \
                text/event-stream\r\ncontent-length: 50000\r\n\r\n{";
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..19 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        stream.write_all(head.as_bytes()).await.expect("taken");
        let mut answer = [0; 64];
        let read = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut answer)).await;
        refused += usize::from(read.is_ok_and(|read| read.is_ok_and(|n| answer[..n].starts_with(b"HTTP/1.1 429"))));
        held.push(stream);
    }
    assert!(refused >= 4, "{refused}");
    let probe = served.raw(Method::GET, "/healthz").send().await.expect("an answer");
    assert_eq!(probe.status(), StatusCode::OK);
}

#[tokio::test]
async fn what_is_too_large_is_not_read() {
    let served = Served::start(Fence::new(), &samples()).await;
    let id = served.session(None).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, \
         text/event-stream\r\nmcp-session-id: {id}\r\n"
    );
    // A body over the limit, with its length told and without.
    for framing in ["content-length: 99999999\r\n\r\n", "transfer-encoding: chunked\r\n\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        stream.write_all(format!("{head}{framing}").as_bytes()).await.expect("taken");
        let chunk = if framing.contains("chunked") {
            format!("100000\r\n{}\r\n", "x".repeat(1 << 20))
        } else {
            "x".repeat(1 << 20)
        };
        let mut sent = 0;
        // It answers, or closes the connection, before it has all.
        while sent < 60 && stream.write_all(chunk.as_bytes()).await.is_ok() {
            sent += 1;
        }
        assert!(sent < 40, "{sent} MiB were taken: {framing}");
    }
    // A head over the limit.
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
    let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200 << 10));
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = String::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn strangers_that_say_nothing_keep_no_client_out() {
    let served = Served::start(Fence::new(), &format!("{}[http]\nmax_connections = 300\n", samples())).await;
    let client = served.client(crate::client::Era::Legacy, None).await;
    let mut silent = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        // Half of them begin a request, and never end it.
        if number % 2 == 0 {
            let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n").await;
        }
        silent.push(stream);
    }
    let started = Instant::now();
    assert!(super::answer(&client, "ls", json!({})).await.contains("people/"));
    let other = served.client(crate::client::Era::Modern, None).await;
    assert!(super::answer(&other, "ls", json!({})).await.contains("people/"));
    assert!(started.elapsed() < Duration::from_secs(30));
    // Those that are left are closed once their head took too long.
    let mut byte = [0; 1];
    let last = silent.last_mut().expect("one");
    let closed = tokio::time::timeout(Duration::from_secs(40), last.read(&mut byte)).await;
    assert!(closed.is_ok_and(|read| !matches!(read, Ok(1..)) || byte[0] == b'H'), "a silent connection stays open");
}

#[tokio::test]
async fn streams_and_requests_of_a_session_are_bounded() {
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(Fence::new(), &config).await;
    let id = served.session(None).await;
    let mut streams = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let stream =
            served.raw(Method::GET, "/mcp").header("mcp-session-id", &id).header("accept", "text/event-stream");
        let stream = stream.send().await.expect("an answer");
        match stream.status() {
            StatusCode::OK => streams.push(stream),
            StatusCode::TOO_MANY_REQUESTS => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((streams.len(), refused), (8, 4));
    drop(streams);
    let started = Instant::now();
    loop {
        let stream =
            served.raw(Method::GET, "/mcp").header("mcp-session-id", &id).header("accept", "text/event-stream");
        if stream.send().await.expect("an answer").status() == StatusCode::OK {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "closed streams count on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_disconnect_cancels_a_request_of_2026_07_28() {
    let fence = Fence::new();
    let (logged, setting) = crate::faulty::log(&fence);
    let Some(config) = faulty(&[]) else { return };
    let served = Served::start(fence, &format!("{config}{setting}")).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    // A long body takes another way through the gateway.
    for padding in [0, 300_000] {
        let code = format!("/*{}*/ await faulty.slow({{ms: 60000}})", "x".repeat(if padding > 0 { 40_000 } else { 0 }));
        let mut message = call(1, "execute", json!({"language": "javascript", "code": code}));
        message["params"]["_meta"] = meta.clone();
        message["params"]["_meta"]["x"] = Value::String("y".repeat(padding));
        let request = served.message(None, &message).header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", "tools/call").header("mcp-name", "execute");
        let before = logged.count("cancelled");
        let _ = tokio::time::timeout(Duration::from_secs(3), async { request.send().await?.text().await }).await;
        let started = Instant::now();
        while logged.count("cancelled") == before {
            assert!(started.elapsed() < Duration::from_secs(20), "{padding}: it goes on: {}", served.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn sessions_that_begin_at_once_are_no_more_than_a_client_may_have() {
    let served = Served::start(Fence::new(), &format!("{}[http]\nmax_client_sessions = 3\n", samples())).await;
    let opening = (0..40).map(|_| served.message(None, &initialize("2025-11-25")).send());
    let mut ids = Vec::new();
    for answer in futures::future::join_all(opening).await {
        let answer = answer.expect("an answer");
        match answer.status() {
            StatusCode::OK => ids.push(answer.headers()["mcp-session-id"].to_str().expect("a text").to_owned()),
            StatusCode::TOO_MANY_REQUESTS => {
                assert!(answer.text().await.expect("a body").contains("http.max_client_sessions"));
            }
            other => panic!("{other}: {:?}", answer.text().await),
        }
    }
    let mut open = 0;
    for id in &ids {
        let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
        let answer = served.message(Some(id), &ping).send().await.expect("an answer");
        open += usize::from(answer.status() == StatusCode::OK);
    }
    assert!((1..=3).contains(&open), "{open} of {} are open", ids.len());
}

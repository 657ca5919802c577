//! A fault-injecting proxy between the gateway and a real HTTP server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is reset before the server gets the call.
    ResetBefore,
    /// The connection is reset in the middle of the answer.
    ResetMiddle,
    /// The connection is closed in the middle of the answer.
    CloseMiddle,
    /// The answer never comes.
    Hang,
    /// One byte at a time.
    Drip,
    /// After six seconds.
    Late,
    /// Twice.
    Duplicate,
    /// The server does the work, and this response comes back: status, headers, body.
    Instead(u16, &'static str, &'static str),
    /// Likewise with a body of this many MiB of JSON; as events if `true`.
    Oversized(usize, bool),
    /// With the id of another request; as events if `true`.
    WrongId(bool),
    /// The server does not get the call; this response comes back.
    Refused(u16, &'static str, &'static str),
}

/// The proxy. Dropping it closes everything.
pub(crate) struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    serving: JoinSet<()>,
}

struct Shared {
    upstream: u16,
    /// True if the proxy hides annotations of tools.
    hides_hints: bool,
    /// Fault of the call with this text in its arguments, the first time.
    armed: Mutex<Option<(String, Fault)>>,
    /// Calls that reached the server, by body.
    calls: Mutex<HashMap<String, usize>>,
    connections: Mutex<JoinSet<()>>,
}

impl FaultProxy {
    /// A proxy on a port of its own to the server on `upstream`; `hides_hints` removes annotations of tools.
    pub(crate) async fn start(upstream: u16, hides_hints: bool) -> Self {
        let shared = Shared {
            upstream,
            hides_hints,
            armed: Mutex::default(),
            calls: Mutex::default(),
            connections: Mutex::default(),
        };
        let mut proxy = Self { port: 0, shared: Arc::new(shared), serving: JoinSet::new() };
        proxy.open().await;
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Listens, on the same port as before.
    pub(crate) async fn open(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.expect("the port is free");
        self.port = listener.local_addr().expect("it has an address").port();
        let shared = Arc::clone(&self.shared);
        self.serving.spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("connections are accepted");
                let served = serve(client, Arc::clone(&shared));
                shared.connections.lock().expect("not poisoned").spawn(async move { drop(served.await) });
            }
        });
    }

    /// Closes the port and every connection: new ones are refused.
    pub(crate) async fn close(&mut self) {
        self.serving.shutdown().await;
        let mut connections = std::mem::take(&mut *self.shared.connections.lock().expect("not poisoned"));
        connections.shutdown().await;
    }

    /// Injects a fault into the call with `mark` in its arguments, the first time.
    pub(crate) fn arm(&self, mark: &str, fault: Fault) {
        *self.shared.armed.lock().expect("not poisoned") = Some((mark.to_owned(), fault));
    }

    /// Number of times a call with `mark` in its arguments reached the server.
    pub(crate) fn calls(&self, mark: &str) -> usize {
        let calls = self.shared.calls.lock().expect("not poisoned");
        calls.iter().filter(|(body, _)| body.contains(mark)).map(|(_, count)| count).sum()
    }

    /// Number of times each call reached the server, by its parameters.
    pub(crate) fn executions(&self) -> HashMap<String, usize> {
        let mut executions = HashMap::new();
        for (body, count) in &*self.shared.calls.lock().expect("not poisoned") {
            let call: Value = serde_json::from_str(body).unwrap_or_default();
            *executions.entry(call["params"]["arguments"].to_string()).or_default() += count;
        }
        executions
    }
}

async fn serve(mut client: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let (head, body) = read_request(&mut client).await?;
    let is_call = body.contains("\"method\":\"tools/call\"");
    let fault = {
        let mut armed = shared.armed.lock().expect("not poisoned");
        let hit = is_call && armed.as_ref().is_some_and(|(mark, _)| body.contains(mark.as_str()));
        if hit { armed.take().map(|(_, fault)| fault) } else { None }
    };
    match fault {
        Some(Fault::ResetBefore) => return client.set_zero_linger(),
        Some(Fault::Refused(status, headers, body)) => return respond(&mut client, status, headers, body).await,
        _ => {}
    }
    if is_call {
        *shared.calls.lock().expect("not poisoned").entry(body.clone()).or_default() += 1;
    }
    let mut server = TcpStream::connect(("127.0.0.1", shared.upstream)).await?;
    server.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await?;
    // Both sides close after one answer, so that each request is inspected.
    let (head, rest) = read_head(&mut server).await?;
    let mut answer = [format!("{head}Connection: close\r\n\r\n").as_bytes(), &rest].concat();
    if shared.hides_hints && body.contains("\"method\":\"tools/list\"") {
        read_answer(&mut server, &mut answer).await?;
        // Of the same length, because the answer states its lengths.
        let answer = String::from_utf8_lossy(&answer).replace("Hint\":true", "Hint\":null");
        return client.write_all(answer.as_bytes()).await;
    }
    let Some(fault) = fault else {
        client.write_all(&answer).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    };
    read_answer(&mut server, &mut answer).await?;
    let half = answer.len() - answer.len() / 4;
    let id = serde_json::from_str::<Value>(&body).map(|call| call["id"].clone()).unwrap_or_default();
    match fault {
        Fault::ResetMiddle => {
            client.write_all(&answer[..half]).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            client.set_zero_linger()?;
        }
        Fault::CloseMiddle => client.write_all(&answer[..half]).await?,
        Fault::Hang => std::future::pending().await,
        Fault::Drip => {
            for byte in answer {
                client.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Fault::Late => {
            tokio::time::sleep(Duration::from_secs(6)).await;
            client.write_all(&answer).await?;
        }
        Fault::Duplicate => {
            let good = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "first"}]}});
            let bad = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "second"}]}});
            respond(&mut client, 200, EVENTS, &format!("data: {good}\n\ndata: {good}\n\ndata: {bad}\n\n")).await?;
        }
        Fault::Instead(status, headers, body) => respond(&mut client, status, headers, body).await?,
        Fault::Oversized(size, as_events) => {
            let text = "x".repeat(size << 20);
            let content = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}");
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{content}}}");
            respond_json(&mut client, &answer, as_events).await?;
        }
        Fault::WrongId(as_events) => {
            let answer = json!({"jsonrpc": "2.0", "id": 987_654, "result": {"content": []}});
            respond_json(&mut client, &answer.to_string(), as_events).await?;
        }
        Fault::ResetBefore | Fault::Refused(..) => {}
    }
    Ok(())
}

pub(crate) const EVENTS: &str = "Content-Type: text/event-stream\r\n";
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

async fn respond_json(client: &mut TcpStream, answer: &str, as_events: bool) -> std::io::Result<()> {
    match as_events {
        true => respond(client, 200, EVENTS, &format!("event: message\ndata: {answer}\n\n")).await,
        false => respond(client, 200, JSON, answer).await,
    }
}

async fn respond(client: &mut TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}

/// The head without its end and connection headers, and the body.
async fn read_request(client: &mut TcpStream) -> std::io::Result<(String, String)> {
    let (head, mut body) = read_head(client).await?;
    let length = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"));
    let length = length.and_then(|line| line.split_once(':')?.1.trim().parse().ok()).unwrap_or(0);
    while body.len() < length {
        if client.read_buf(&mut body).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}

/// Reads to the end of an answer, not of the connection: servers keep it open although asked to close it.
async fn read_answer(server: &mut TcpStream, answer: &mut Vec<u8>) -> std::io::Result<()> {
    let head = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let head = head.split("\r\n\r\n").next().unwrap_or_default();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let end = length.map(|length| head.len() + 4 + length);
    while end.map_or_else(|| !answer.ends_with(b"0\r\n\r\n"), |end| answer.len() < end) {
        if server.read_buf(answer).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Like [`read_request`], with the bytes of the body read so far.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let about_connection = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("connection:") || line.starts_with("keep-alive:")
    };
    let kept = head.lines().filter(|line| !line.is_empty() && !about_connection(line));
    Ok((kept.map(|line| format!("{line}\r\n")).collect(), bytes.split_off(end)))
}

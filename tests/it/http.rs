//! A real server over Streamable HTTP.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Fence, finish};
use crate::real::Real;

/// `server-everything` on a port of its own; killed on drop.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) port: u16,
}

impl HttpServer {
    /// Over `streamableHttp` or `sse`.
    pub(crate) fn start(real: &Real, transport: &str, port: u16) -> Self {
        let mut command = Command::new(real.npm("everything"));
        command.arg(transport).env("PORT", port.to_string());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("node starts");
        let server = Self { child, port };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nothing listens on, below those that Linux gives to outgoing connections: none of them takes it before
/// the process that it is for.
pub(crate) fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut some = std::iter::repeat_with(|| 15_000 + (RandomState::new().hash_one(()) % 17_000) as u16);
    some.find(free).expect("a port is free")
}

#[tokio::test]
async fn a_server_over_streamable_http_is_listed_called_and_found_again_after_a_restart() {
    let Some(real) = Real::find() else { return };
    let server = HttpServer::start(&real, "streamableHttp", free_port());
    let port = server.port;
    let fence = Fence::new();
    let config = format!(
        "[servers.web]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ X-Token = \"abcdefgh\" }}\ntimeout = \"10s\"\n"
    );
    let session = fence.serve(&config).await;
    session.ready(&["web"]).await;
    assert_eq!(session.execute("javascript", "return await web.echo({message: 'hi'})").await, "Echo: hi");
    let parallel = "parallel([defer(web.get_sum, a=i, b=1) for i in range(8)])[7].value";
    assert!(session.execute("starlark", parallel).await.to_string().contains('8'));

    drop(server);
    let error = session.execute_err("starlark", "web.echo(message='nobody')").await;
    assert!(error.contains("TRANSPORT_DEAD") || error.contains("UPSTREAM_ERROR"), "{error}");
    let _server = HttpServer::start(&real, "streamableHttp", port);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let code = "web.echo(message='again')";
        let answer = session.call("execute", json!({"language": "starlark", "code": code})).await;
        if !answer.is_error {
            assert_eq!(answer.text, "Echo: again");
            return;
        }
        assert!(Instant::now() < deadline, "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn a_server_over_http_sse_is_listed_called_and_found_again_after_a_restart() {
    let Some(real) = Real::find() else { return };
    // Configured, and auto-detected.
    for (transport, path) in [("transport = \"sse\"\n", "sse"), ("", "sse")] {
        let server = HttpServer::start(&real, "sse", free_port());
        let port = server.port;
        let fence = Fence::new();
        let config = format!("[servers.old]\n{transport}url = \"http://127.0.0.1:{port}/{path}\"\ntimeout = \"10s\"\n");
        let session = fence.serve(&config).await;
        session.ready(&["old"]).await;
        assert_eq!(session.execute("javascript", "return await old.echo({message: 'hi'})").await, "Echo: hi");
        let parallel = "[r.value for r in parallel([defer(old.echo, message=str(i)) for i in range(8)])]";
        let answers = (0..8).map(|i| format!("Echo: {i}")).collect::<Vec<_>>();
        assert_eq!(session.execute("starlark", parallel).await, json!(answers));
        drop(server);
        let error = session.execute_err("starlark", "old.echo(message='nobody')").await;
        assert!(error.contains("TRANSPORT_DEAD"), "{error}");
        let _server = HttpServer::start(&real, "sse", port);
        let deadline = Instant::now() + Duration::from_secs(30);
        while session
            .call("execute", json!({"language": "starlark", "code": "old.echo(message='again')"}))
            .await
            .is_error
        {
            assert!(Instant::now() < deadline, "{}", session.call("ls", json!({})).await.text);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

/// `mcp-grafana` without a Grafana, over an HTTP transport; killed on drop.
struct Grafana(Child);

impl Grafana {
    fn command(real: &Real) -> Command {
        let mut command = Command::new(real.venv.join("bin/mcp-grafana"));
        command.env("GRAFANA_URL", "http://127.0.0.1:9").env("DO_NOT_TRACK", "1");
        command
    }

    fn start(real: &Real, transport: &str) -> (Self, u16) {
        let port = free_port();
        let mut command = Self::command(real);
        command.args(["-t", transport, "--address", &format!("127.0.0.1:{port}")]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let server = Self(child);
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        (server, port)
    }
}

impl Drop for Grafana {
    fn drop(&mut self) {
        // The launcher in front of the program reacts only to Ctrl-C.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id().cast_signed()), nix::sys::signal::SIGINT);
        let ended = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && ended.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn one_server_answers_alike_over_every_transport_and_in_both_eras() {
    let Some(real) = Real::find() else { return };
    let ((_sse, old), (_http, new)) = (Grafana::start(&real, "sse"), Grafana::start(&real, "streamable-http"));
    let program = Grafana::command(&real);
    let fence = Fence::new();
    let config = format!(
        "[servers.std]\ncommand = {:?}\nenv = {{ GRAFANA_URL = \"http://127.0.0.1:9\", DO_NOT_TRACK = \"1\" }}\n\
         [servers.sse]\nurl = \"http://127.0.0.1:{old}/sse\"\n[servers.web]\nurl = \"http://127.0.0.1:{new}/mcp\"\n",
        program.get_program()
    );
    fence.write("forge.toml", &config);
    let script = "def link(server):\n    return server.generate_deeplink(resourceType=\"dashboard\", dashboardUid=\"d1\")\n\
                  [link(std), link(sse), link(web)]\n";
    fence.write("link.star", script);
    let output = fence.run(["--log", "forgefs=info", "run", "link.star"]).success();
    let links: Vec<serde_json::Value> = serde_json::from_str(output.stdout.trim()).expect("three links");
    assert!(links[0].to_string().contains("http://127.0.0.1:9/d/d1"), "{links:?}");
    assert!(links[1] == links[0] && links[2] == links[0], "{links:?}");
    for (server, protocol) in [("std", "2026-07-28"), ("sse", "2025-11-25"), ("web", "2026-07-28")] {
        let listed = |line: &&str| line.contains(&format!("server=\"{server}\"")) && line.contains("tools=79");
        let line = output.stderr.lines().find(listed).unwrap_or_else(|| panic!("{server}: {}", output.stderr));
        assert!(line.contains(&format!("protocol=\"{protocol}\"")), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_on_another_origin_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.expect("a connection");
            let events = "event: endpoint\ndata: http://127.0.0.1:1/elsewhere\n\n";
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            let mut request = [0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut client, &mut request).await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut client, format!("{head}{events}").as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let fence = Fence::new();
    let url = format!("http://127.0.0.1:{port}/sse");
    fence.write("forge.toml", &format!("[servers.old]\ntransport = \"sse\"\nurl = \"{url}\"\n"));
    let listing = fence.run(["ls", "old"]).stdout;
    assert!(listing.contains("an address on another origin, http://127.0.0.1:1"), "{listing}");
}

/// A server that answers every request with `head`, and then `part` until the client stops reading; returns its URL.
fn endless(head: String, part: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, head) = (client.expect("a connection"), head.clone());
            std::thread::spawn(move || {
                let _ = std::io::Read::read(&mut client, &mut [0; 4096]);
                let mut sent = client.write_all(head.as_bytes());
                // More than any client should read: 1 GiB.
                for _ in 0..(1 << 30) / part.len().max(1) {
                    if sent.is_err() || part.is_empty() {
                        break;
                    }
                    sent = client.write_all(part);
                }
            });
        }
    });
    format!("http://127.0.0.1:{port}/mcp")
}

#[test]
fn a_long_address_is_refused() {
    let events = format!("event: endpoint\ndata: /{}\n\n", "x".repeat(9 << 10));
    let url = endless(format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{events}"), b"");
    let fence = Fence::new();
    fence.write("forge.toml", &format!("[servers.old]\ntransport = \"sse\"\nurl = \"{url}\"\n"));
    let listing = fence.run(["ls", "old"]).stdout;
    assert!(listing.contains("an address of 9217 bytes, over the limit of 8192"), "{listing}");
}

#[test]
fn endless_heads_and_bodies_of_http_are_given_up() {
    static PART: [u8; 64 << 10] = [b'x'; 64 << 10];
    let ok = |kind: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n");
    let fence = Fence::new();
    for (name, head) in [
        ("status", "HTTP/1.1 200 ".to_owned()),
        ("header", format!("{}X: ", ok("application/json"))),
        ("headers", (0..200).fold(ok("application/json"), |head, n| format!("{head}X-{n}: 1\r\n")) + "\r\n{}"),
        ("body", ok("application/json") + "\r\n\""),
        ("length", ok("application/json") + "Content-Length: 99999999999\r\n\r\n\""),
        ("chunk", ok("application/json") + "Transfer-Encoding: chunked\r\n\r\n5;"),
        ("event", ok("text/event-stream") + "\r\ndata: "),
        ("refusal", "HTTP/1.1 400 Bad\r\nContent-Type: text/plain\r\n\r\n".to_owned()),
    ] {
        for transport in ["http", "sse"] {
            let part: &[u8] = if name == "headers" { b"" } else { &PART };
            let url = endless(head.clone(), part);
            fence.write("forge.toml", &format!("[servers.s]\ntransport = \"{transport}\"\nurl = \"{url}\"\n"));
            let output = fence.run(["ls", "s"]);
            assert!(output.stdout.contains("failed"), "{name} over {transport}: {output:?}");
            let longest = output.stdout.lines().map(str::len).max().unwrap_or_default();
            assert!(longest < 2_000, "{name} over {transport}: a line of {longest} bytes");
        }
    }
}

/// A proxy that refuses everything, and the request lines it got.
fn refusing_proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut line = String::new();
            let _ = BufReader::new(&client).read_line(&mut line);
            seen.lock().expect("not poisoned").push(line.trim_end().to_owned());
            let _ = client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (port, asked)
}

#[test]
fn proxies_of_the_environment_are_used_but_never_for_this_machine() {
    let (proxy, asked) = refusing_proxy();
    let (local, asked_locally) = refusing_proxy();
    let fence = Fence::new();
    let config = format!(
        "[servers.far]\nurl = \"http://mcp.example.invalid/mcp\"\n[servers.safe]\nurl = \"https://mcp.example.invalid/mcp\"\n\
         [servers.exempt]\nurl = \"http://exempt.invalid/mcp\"\n[servers.near]\nurl = \"http://127.0.0.1:{local}/mcp\"\n"
    );
    fence.write("forge.toml", &config);
    let mut command = fence.forgefs(["ls"]);
    for variable in ["HTTP_PROXY", "HTTPS_PROXY"] {
        command.env(variable, format!("http://127.0.0.1:{proxy}"));
    }
    let listing = finish(command.env("NO_PROXY", "exempt.invalid"), "").stdout;
    assert!(!listing.contains("ready"), "{listing}");
    let asked = asked.lock().expect("not poisoned").join("\n");
    assert!(asked.contains("POST http://mcp.example.invalid/mcp"), "{asked}");
    assert!(asked.contains("CONNECT mcp.example.invalid:443"), "{asked}");
    assert!(!asked.contains("127.0.0.1") && !asked.contains("exempt"), "{asked}");
    let asked = asked_locally.lock().expect("not poisoned").join("\n");
    assert!(asked.contains("POST /mcp HTTP/1.1"), "{asked}");
}

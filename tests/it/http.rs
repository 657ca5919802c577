//! A real server over Streamable HTTP.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Fence;
use crate::real::Real;

/// `server-everything` on a port of its own; killed when dropped.
struct HttpServer {
    child: Child,
    port: u16,
}

impl HttpServer {
    fn start(real: &Real, port: u16) -> Self {
        let mut command = Command::new(real.npm("everything"));
        command.arg("streamableHttp").env("PORT", port.to_string());
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

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

#[tokio::test]
async fn a_server_over_streamable_http_is_listed_called_and_found_again_after_a_restart() {
    let Some(real) = Real::find() else { return };
    let server = HttpServer::start(&real, free_port());
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
    let _server = HttpServer::start(&real, port);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let code = "web.echo(message='again')";
        let answer = session.call("execute", json!({"language": "starlark", "code": code})).await;
        if !answer.is_error {
            assert_eq!(answer.text, "\"Echo: again\"");
            return;
        }
        assert!(Instant::now() < deadline, "{}", answer.text);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

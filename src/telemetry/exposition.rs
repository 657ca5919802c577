//! Serves metrics over HTTP: one small request per connection, a few connections at once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::config;
use crate::limits;
use crate::task::Newest;

/// Most bytes of a request's head.
const HEAD: usize = limits::METRICS_HEAD.max;
/// Most headers of a request.
const HEADERS: usize = limits::METRICS_HEADERS.max;
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most connections; one more ends the oldest.
const AT_ONCE: usize = limits::METRICS_CONNECTIONS.max;
/// Delay before a retry when the address is in use.
const AGAIN: Duration = Duration::from_secs(30);

/// Renders the current metrics.
pub type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves the metrics of `text` at the configured address, and follows changes of the configuration.
pub async fn serve(mut wanted: watch::Receiver<Option<config::Metrics>>, text: Text) {
    loop {
        let listen = wanted.borrow_and_update().as_ref().map(|metrics| metrics.listen);
        tokio::select! {
            () = async {
                match listen {
                    Some(address) => listen_at(address, &text).await,
                    None => std::future::pending().await,
                }
            } => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

async fn listen_at(address: SocketAddr, text: &Text) {
    let mut told = false;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                if !told {
                    let taken = error.kind() == std::io::ErrorKind::AddrInUse;
                    let why = if taken { "it is taken, perhaps by another gateway" } else { "it cannot be used" };
                    tracing::error!(%address, %error, "no metrics are served at metrics.listen: {why}; tried again");
                    told = true;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    tracing::info!(%address, "metrics are served");
    let mut requests = Newest::new(AT_ONCE);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let text = Arc::clone(text);
                requests.spawn(async move {
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, address.ip(), &text)).await;
                });
            }
            // Out of descriptors, or similar: temporary.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, own: IpAddr, text: &Text) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    let (status, body) = loop {
        let read = (&mut stream).take((HEAD - head.len()) as u64).read_buf(&mut head).await?;
        match answer_to(&head, own) {
            Some((200, _)) => break (200, text()),
            Some((status, said)) => break (status, said.to_owned()),
            None if read == 0 => break (400, "not a request, or one that is too large\n".to_owned()),
            None => {}
        }
    };
    let phrase = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let kind = match status {
        200 => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let shown = if head.starts_with(b"HEAD ") { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{shown}",
        phrase.unwrap_or_default(),
        body.len(),
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Status of the answer and, unless it is 200, its text; `None` while the head is incomplete.
fn answer_to(head: &[u8], own: IpAddr) -> Option<(u16, &'static str)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some((400, "not a request\n")),
    }
    let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    let host = host.map(|header| String::from_utf8_lossy(header.value).into_owned());
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    Some(match request.method {
        // DNS rebinding: a web page whose name resolves to this machine must not read the metrics.
        _ if own.is_loopback() && !host.as_deref().is_none_or(is_own_name) => (403, "not by this name\n"),
        Some("GET" | "HEAD") if path == "/metrics" => (200, ""),
        Some("GET" | "HEAD") => (404, "metrics are at /metrics\n"),
        _ => (405, "GET only\n"),
    })
}

/// True if a `Host` names this machine as local.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_and_by_the_right_name() {
        let at = |head: &str| answer_to(head.as_bytes(), IpAddr::from([127, 0, 0, 1])).map(|(status, _)| status);
        for (head, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n", Some(200)),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some(200)),
            ("HEAD /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r\n", Some(200)),
            ("GET /metrics HTTP/1.1\r\nHost: [::1]:9464\r\n\r\n", Some(200)),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n", Some(403)),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(404)),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", Some(405)),
            ("GET /metrics HTTP/1.1\r\nHost: loc", None),
            ("\u{1}\u{2}\u{3}\r\n\r\n", Some(400)),
        ] {
            assert_eq!(at(head), status, "{head:?}");
        }
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
        assert_eq!(at(&many), Some(400));
    }
}

//! TLS handshakes of strangers, and headers by which one pretends to be another.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{CLIENTS, LAPTOP, Served, answer, initialize};
use crate::client::{Era, Fence};
use crate::faulty::samples;

/// Settings of a gateway with a certificate.
fn encrypted() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    format!("{}[http]\ntls_cert = {cert:?}\ntls_key = {key:?}\n", samples())
}

/// First message of a client that offers these protocols above TLS.
fn hello(protocols: &[&str]) -> Vec<u8> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let name = "someone-else.example".try_into().expect("a name");
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), name).expect("a client").write_tls(&mut bytes).expect("bytes");
    bytes
}

fn descriptors(served: &Served) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).map_or(0, Iterator::count)
}

#[tokio::test]
async fn handshakes_of_strangers_end_keep_no_client_out_and_leave_nothing() {
    let served = Served::start(Fence::new(), &encrypted()).await;
    let (log, before) = (served.log(), descriptors(&served));
    let record = |kind: u8, body: &[u8]| [&[kind, 3, 1, 0, u8::try_from(body.len()).expect("short")], body].concat();
    for (name, bytes) in [
        ("plain HTTP", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()),
        ("zeros", vec![0; 5000]),
        ("a record of 64 KiB", [&[0x16, 3, 1, 0xff, 0xff][..], &[b'x'; 5000]].concat()),
        ("a hello of 16 MiB", record(0x16, &[1, 0xff, 0xff, 0xff]).repeat(100)),
        ("empty records", record(0x16, b"").repeat(1000)),
        ("data before a handshake", record(0x17, b"x")),
        ("alerts", record(0x15, &[1, 0]).repeat(1000)),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        // It may be closed before all is written.
        let _ = stream.write_all(&bytes).await;
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok() && rest.len() < 20, "{name}: {rest:?}");
    }
    let hello = hello(&[]);
    let mut open = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        // Half of them never read what the gateway answers, half never end their first message.
        let end = if number % 2 == 0 { hello.len() } else { hello.len() - 1 };
        let _ = stream.write_all(&hello[..end]).await;
        open.push(stream);
    }
    // Those that make room are closed a moment later.
    let started = Instant::now();
    while descriptors(&served) >= before + 300 {
        assert!(started.elapsed() < Duration::from_secs(5), "{} descriptors", descriptors(&served));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = served.client(Era::Modern, None).await;
    assert!(answer(&client, "ls", json!({})).await.contains("people/"));
    let started = Instant::now();
    while descriptors(&served) > before + 10 {
        assert!(started.elapsed() < Duration::from_secs(30), "{} descriptors stay", descriptors(&served));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(served.log(), log, "strangers write no log");
}

#[tokio::test]
async fn tls_is_for_http_1_1_alone() {
    let served = Served::start(Fence::new(), &encrypted()).await;
    for (protocols, is_served) in [
        (&[][..], true),
        (&["http/1.1"], true),
        (&["h2", "http/1.1"], true),
        (&["h2"], false),
        (&["acme-tls/1"], false),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
        stream.write_all(&hello(protocols)).await.expect("taken");
        // Else it waits for the client's part of the handshake.
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(3), stream.read_to_end(&mut answer)).await;
        assert_eq!(closed.is_err(), is_served, "{protocols:?}: {answer:?}");
    }
}

#[tokio::test]
async fn no_header_makes_a_request_come_from_somewhere_else() {
    let own = "127.0.0.1";
    let headers = [
        ("x-forwarded-for", own),
        ("x-forwarded-for", "127.0.0.1, 127.0.0.1"),
        ("x-forwarded-host", "localhost"),
        ("forwarded", "for=127.0.0.1;host=localhost;proto=https"),
        ("forwarded", "for=\"[::1]\", for=127.0.0.1"),
        ("x-real-ip", own),
        ("via", "1.1 localhost"),
        ("true-client-ip", own),
    ];
    // Without tokens nothing of a proxy is served, and nothing from the address of one.
    for (settings, header, status) in [
        ("", None, 200),
        ("[http]\ntrusted_proxies = [\"192.0.2.1\"]\n", None, 200),
        ("[http]\ntrusted_proxies = [\"127.0.0.0/8\"]\n", None, 403),
    ]
    .into_iter()
    .chain(headers.map(|header| ("[http]\ntrusted_proxies = [\"192.0.2.1\"]\n", Some(header), 403)))
    {
        let served = Served::start(Fence::new(), &format!("{}{settings}", samples())).await;
        let request = served.message(None, &initialize("2025-11-25"));
        let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{settings} {header:?}");
    }
    // With tokens only a token counts, and the name is that of `Host`.
    let settings = format!("{}{CLIENTS}[http]\ntrusted_proxies = [\"127.0.0.1\"]\n", samples());
    let served = Served::start(Fence::new(), &settings).await;
    for header in headers {
        for (token, host, status) in
            [(LAPTOP, "localhost", 200), (None, "localhost", 401), (LAPTOP, "evil.example", 403)]
        {
            let request = served.message(None, &initialize("2025-11-25")).header(header.0, header.1);
            let request = token.into_iter().fold(request, RequestBuilder::bearer_auth).header("host", host);
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status().as_u16(), status, "{header:?} {token:?} {host}");
        }
    }
    let probe = served.raw(Method::GET, "/healthz").send().await.expect("an answer");
    assert_eq!(probe.status(), 200);
}

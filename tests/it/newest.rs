//! `doctor --online`: tells of a newer release if asked, whatever the registry answers.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::client::Fence;

const NEWEST: &str = "release  this is the newest\n";

/// A registry on this machine that gives every request the same answer.
struct Registry {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    /// Waits before it answers.
    fn answers(answer: String, wait: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let url = format!("http://{}/fo/rg/forgefs", listener.local_addr().expect("an address"));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                let (mut connection, answer) = (connection, answer.clone());
                thread::spawn(move || {
                    let _ = connection.read(&mut [0; 4096]);
                    thread::sleep(wait);
                    // The client may have closed the connection.
                    let _ = connection.write_all(answer.as_bytes());
                });
            }
        });
        Self { url, asked }
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn release(version: &str, yanked: bool) -> String {
    format!("{{\"name\":\"forgefs\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"0\",\"yanked\":{yanked}}}\n")
}

#[test]
fn doctor_tells_of_a_newer_release_whatever_the_registry_answers() {
    let this = release(env!("CARGO_PKG_VERSION"), false);
    let newer = release("99.1.0", false) + &release("100.0.0", true) + &release("101.0.0-rc.1", false) + &this;
    let deep = format!("{{\"vers\":\"99.0.0\",\"deps\":{}{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let elsewhere = Registry::answers(ok(&release("99.0.0", false)), Duration::ZERO);
    let redirect =
        format!("HTTP/1.1 302 Found\r\nlocation: {}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", elsewhere.url);
    let mut cases = vec![
        (ok(&this), 0, NEWEST),
        (ok(&release("0.0.1", false)), 0, NEWEST),
        (ok(&newer), 0, "release  99.1.0 is newer: https://github.com/forgefs/forgefs/releases\n"),
        (ok(&format!("<html>\n{deep}{{}}\n\u{0}\n{this}")), 0, NEWEST),
        (ok(&release("99.0.0\\u001b[2J", false)), 3, "is no list of releases; see https://github.com/forgefs"),
        (ok(&release("9".repeat(400).as_str(), false)), 3, "is no list of releases"),
        (ok(""), 3, "is no list of releases"),
        (ok(&this.repeat(120_000)), 3, "is longer than 8388608 bytes"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(), 3, "answered 404 Not Found"),
        (redirect, 3, "answered 302 Found"),
        ("not HTTP at all\r\n\r\n".to_owned(), 3, "release  the check failed: "),
        (ok(&newer)[..200].to_owned(), 3, "release  the check failed: "),
    ]
    .into_iter()
    .map(|(answer, code, says)| (Registry::answers(answer, Duration::ZERO).url, code, says))
    .collect::<Vec<_>>();
    cases.extend([
        (Registry::answers(ok(&newer), Duration::from_secs(30)).url, 3, "did not answer within 10 s"),
        ("http://example.com/releases".to_owned(), 3, "http://example.com/releases is not https"),
        ("https://169.254.169.254/latest/meta-data".to_owned(), 3, "address not allowed: https://169.254.169.254"),
        ("nonsense".to_owned(), 3, "nonsense is no URL"),
    ]);
    for (url, code, says) in cases {
        let output = Fence::new().run(["doctor", "--online", "--index", &url]);
        assert_eq!(output.code, Some(code), "{url}: {output:?}");
        assert!(output.stdout.contains(says), "no {says:?} in {output:?}");
        assert!(!output.stdout.contains('\u{1b}'), "{output:?}");
    }
    assert_eq!(elsewhere.asked.load(Ordering::Relaxed), 0, "a redirect is not followed");
}

#[test]
fn doctor_asks_no_registry_unless_told_to() {
    let registry = Registry::answers(ok(""), Duration::ZERO);
    let output = Fence::new().run(["doctor", "--index", &registry.url]).success();
    assert!(!output.stdout.contains("release  "), "{output:?}");
    assert_eq!(registry.asked.load(Ordering::Relaxed), 0);
}

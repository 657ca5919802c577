//! One client's load, and what it leaves to others: unread answers, connections, lists, subscriptions, refused scripts.
//! Answers, files and refusals are counted; no time is.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::issuer::{Issuer, Key};
use super::revoked::modern;
use super::{Served, call, http};
use crate::client::Fence;
use crate::faulty::{faulty, python, samples};
use crate::http::free_port;
use crate::telemetry::metrics;

/// Tokens of the clients.
const TOKENS: [&str; 3] = ["token-of-client-a-0000", "token-of-client-b-0000", "token-of-client-c-0000"];
/// Forms in which a client may ask for its tools.
const FORMS: [&str; 3] = ["", "?expose=code", "?expose=direct"];

/// Clients `a`, `b` and `c`, with these keys.
fn clients(keys: &str) -> String {
    let client = |(name, token)| format!("[clients.{name}]\ntoken = \"{token}\"\n{keys}\n");
    ["a", "b", "c"].into_iter().zip(TOKENS).map(client).collect()
}

/// A request of 2026-07-28.
fn asks(client: &Client, served: &Served, token: &str, form: &str, message: &Value) -> RequestBuilder {
    let request =
        client.post(format!("{}{form}", served.url())).bearer_auth(token).body(modern(message.clone()).to_string());
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", message["method"].as_str().expect("a method")),
    ];
    let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    message["params"]["name"].as_str().into_iter().fold(request, |request, name| request.header("mcp-name", name))
}

/// Status and text of the answer to a request.
async fn told(request: RequestBuilder) -> (StatusCode, String) {
    let answer = request.send().await.expect("an answer");
    (answer.status(), answer.text().await.expect("a body"))
}

/// Sends a request on a connection of its own, of which only the beginning of the answer is read.
async fn unread(served: &Served, token: &str, message: &Value) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(8 << 10).expect("a size");
    let mut stream = socket.connect(([127, 0, 0, 1], served.port).into()).await.expect("it listens");
    let body = modern(message.clone()).to_string();
    let name = message["params"]["name"].as_str().expect("a name");
    let head = format!(
        "POST /mcp?expose=direct HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: \
         application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: {name}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("taken");
    let mut begin = vec![0; 1000];
    let read = stream.read(&mut begin).await.expect("an answer");
    (stream, String::from_utf8_lossy(&begin[..read]).into_owned())
}

async fn until<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Value of a metric.
async fn metric(port: u16, line: &str) -> usize {
    let text = metrics(port).await;
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {line} in {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_leaves_unread_bounds_what_it_may_ask_in_every_form_and_session() {
    let Some(server) = faulty(&[]) else { return };
    let port = free_port();
    let config = format!("{server}{}[metrics]\nlisten = \"127.0.0.1:{port}\"\n", clients("expose = \"auto\""));
    let served = Served::start(Fence::new(), &config).await;
    let [a, b, _] = TOKENS;
    let session = served.session(Some(a)).await;
    let big = call(1, "faulty__big", json!({"bytes": 10_000_000}));
    let mut held = Vec::new();
    // Some of each answer is in buffers of the system.
    let refused = loop {
        let (stream, begin) = unread(&served, a, &big).await;
        match begin.starts_with("HTTP/1.1 200") {
            true => held.push(stream),
            false => break begin,
        }
        assert!(held.len() < 30, "30 answers of 10 MB are kept");
    };
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("unread answers: "), "{refused}");
    assert!(held.len() >= 6, "64 MiB are allowed, and {} answers of 10 MB were too many", held.len());
    // Refused before any work.
    assert_eq!(metric(port, "forgefs_calls_total{server=\"faulty\",outcome=\"ok\"}").await, held.len());
    let (ls, client) = (call(2, "ls", json!({})), http());
    for form in FORMS {
        let (status, text) = told(asks(&client, &served, a, form, &ls)).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{form}: {text}");
        assert!(text.contains("unread answers: ") && text.contains("over the limit of 67108864 bytes"), "{text}");
    }
    let in_session = served.message(Some(&session), &ls).bearer_auth(a);
    assert_eq!(told(in_session).await.0, StatusCode::TOO_MANY_REQUESTS);
    let stream = served.raw(Method::GET, "/mcp").bearer_auth(a).header("accept", "text/event-stream");
    assert_eq!(told(stream.header("mcp-session-id", &session)).await.0, StatusCode::TOO_MANY_REQUESTS);
    let (status, text) = told(asks(&client, &served, b, "?expose=code", &ls)).await;
    assert!(status == StatusCode::OK && text.contains("faulty/"), "another client: {status} {text}");
    // What nobody can read any more is free.
    drop(held);
    until("a closed connection counts no more", async || {
        let (status, _) = told(asks(&client, &served, a, "?expose=code", &ls)).await;
        (status == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_number_of_clients_takes_the_connections_of_probes_and_of_the_next() {
    let served =
        Served::start(Fence::new(), &format!("{}{}[http]\nmax_connections = 40\n", samples(), clients(""))).await;
    let mut held = Vec::new();
    let mut counts = Vec::new();
    for token in &TOKENS[..2] {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: 50000\r\nexpect: 100-continue\r\n\r\n"
        );
        let before = held.len();
        loop {
            let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.expect("it listens");
            stream.write_all(head.as_bytes()).await.expect("taken");
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.expect("it is read, or refused");
            match &answer {
                b"HTTP/1.1 100" => held.push(stream),
                other => {
                    assert_eq!(other, b"HTTP/1.1 429");
                    break;
                }
            }
        }
        counts.push(held.len() - before);
    }
    // Of 40 an eighth is for probes; then three quarters, and half of what is left.
    assert_eq!(counts, [26, 4]);
    let (status, text) = told(asks(&http(), &served, TOKENS[2], "", &call(1, "ls", json!({})))).await;
    assert!(status == StatusCode::OK && text.contains("people/"), "{status} {text}");
    assert_eq!(served.raw(Method::GET, "/healthz").send().await.expect("an answer").status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_one_client_are_made_once_and_let_another_client_pass() {
    const FLOOD: usize = 150;
    let Some(server) = python("many", "many.py", &["1500"]) else { return };
    let port = free_port();
    let config = format!("{server}{}[metrics]\nlisten = \"127.0.0.1:{port}\"\n", clients("expose = \"auto\""));
    let served = Arc::new(Served::start(Fence::new(), &config).await);
    let (done, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let (_, first) = told(asks(&http(), &served, TOKENS[0], "?expose=direct", &list)).await;
    assert!(first.contains("many__tool00000") && first.contains("nextCursor"), "{}", &first[..200]);
    let flood: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (served, done, ended, list) =
                (Arc::clone(&served), Arc::clone(&done), Arc::clone(&ended), list.clone());
            let client = http();
            tokio::spawn(async move {
                while !ended.load(Ordering::Acquire) {
                    let (status, text) = told(asks(&client, &served, TOKENS[0], "?expose=direct", &list)).await;
                    assert!(status == StatusCode::TOO_MANY_REQUESTS || text.contains("many__tool00199"), "{status}");
                    done.fetch_add(1, Ordering::AcqRel);
                }
            })
        })
        .collect();
    // All of them are under way.
    until("each has had an answer", async || (done.load(Ordering::Acquire) > 2 * FLOOD).then_some(())).await;
    let (client, ls) = (http(), call(2, "ls", json!({})));
    let mut waited = Vec::new();
    for _ in 0..5 {
        let before = done.load(Ordering::Acquire);
        let (status, text) = told(asks(&client, &served, TOKENS[1], "?expose=code", &ls)).await;
        assert!(status == StatusCode::OK && text.contains("many/"), "{status} {text}");
        waited.push(done.load(Ordering::Acquire) - before);
    }
    ended.store(true, Ordering::Release);
    for one in flood {
        one.await.expect("its answers are as they should be");
    }
    waited.sort_unstable();
    // In the order in which they came, each would wait for all that are under way.
    assert!(waited[2] < FLOOD / 2, "lists that were served before one `ls`: {waited:?}");
    assert_eq!(metric(port, "forgefs_kept_entries{what=\"pages\"}").await, 1, "one page was made, and served to all");
}

#[tokio::test]
async fn subscriptions_count_for_their_client_in_every_form_and_session() {
    let config = format!("{}{}", samples(), clients("expose = \"auto\""));
    let served = Served::start(Fence::new(), &config).await;
    let client = http();
    let listen = |uris: usize| {
        let uris: Vec<String> = (0..uris).map(|number| format!("forge:///people/{number}")).collect();
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": {"notifications": {"resourceSubscriptions": uris}}})
    };
    let mut streams = Vec::new();
    for (form, uris) in [("?expose=code", 600), ("?expose=direct", 399)] {
        let stream = asks(&client, &served, TOKENS[0], form, &listen(uris)).send().await.expect("an answer");
        assert_eq!(stream.status(), StatusCode::OK, "{form}");
        streams.push(stream);
    }
    let (status, text) = told(asks(&client, &served, TOKENS[0], "", &listen(2))).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{text}");
    assert!(text.contains("resource subscriptions: 1001 items, over the limit of 1000 items"), "{text}");
    let subscribe = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe",
            "params": {"uri": format!("forge:///people/x{id}")}})
    };
    let sessions = [served.session(Some(TOKENS[0])).await, served.session(Some(TOKENS[0])).await];
    for (number, (session, fits)) in (5..).zip(sessions.iter().zip([true, false])) {
        let (_, text) = told(served.message(Some(session), &subscribe(number)).bearer_auth(TOKENS[0])).await;
        assert_eq!(!text.contains("1001 items"), fits, "{text}");
    }
    let other = asks(&client, &served, TOKENS[1], "", &listen(1000)).send().await.expect("an answer");
    assert_eq!(other.status(), StatusCode::OK, "another client has its own");
    drop(streams);
    until("a closed stream counts no more", async || {
        let stream = asks(&client, &served, TOKENS[0], "", &listen(999)).send().await.expect("an answer");
        (stream.status() == StatusCode::OK).then_some(())
    })
    .await;
}

/// Journals below a folder.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => found.extend(journals(&path)),
            false
                if path.extension().is_some_and(|end| end == "jsonl")
                    && path.to_string_lossy().contains("journals-") =>
            {
                found.push(path);
            }
            false => {}
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_script_leaves_no_journal_and_small_ones_count_with_what_they_take_on_disk() {
    let Some(server) = faulty(&[]) else { return };
    let limits = "[sandbox.limits]\nruns = 1\nqueue = 2\n[journal]\nmax_size = \"1MiB\"\n";
    let served = Served::start(Fence::new(), &format!("{server}{}{limits}", clients(""))).await;
    let (client, root) = (http(), served.fence.work().parent().expect("a folder").to_owned());
    let execute = |id: u32, background: bool| {
        let code = format!("await faulty.slow({{ms: 300}}); return {id}");
        call(id, "execute", json!({"language": "javascript", "code": code, "background": background}))
    };
    let all = (0..30).map(|id| told(asks(&client, &served, TOKENS[0], "", &execute(id, id % 3 == 0))));
    let answers = futures::future::join_all(all).await;
    let refused = answers.iter().filter(|(_, text)| text.contains("BUSY")).count();
    assert!(refused >= 20, "{refused} of 30 were refused: {answers:?}");
    assert_eq!(journals(&root).len(), 30 - refused, "{answers:?}");
    // A line or two take a block of the disk.
    let quick = async |id: u32| {
        let message = call(id, "execute", json!({"language": "javascript", "code": "return 1"}));
        let (_, text) = told(asks(&client, &served, TOKENS[1], "", &message)).await;
        assert!(!text.contains("BUSY"), "{text}");
    };
    quick(0).await;
    let own = || journals(&root).into_iter().filter(|path| path.to_string_lossy().contains("/b/")).collect::<Vec<_>>();
    let first = own().pop().expect("a journal");
    for number in 0..400 {
        std::fs::copy(&first, first.with_file_name(format!("{number:012x}.jsonl"))).expect("a copy");
    }
    until("the journals of a client take no more than they may", async || {
        quick(1).await;
        let taken: u64 = own().iter().filter_map(|path| Some(path.metadata().ok()?.blocks() * 512)).sum();
        // Old ones go when an eighth more was written.
        (taken <= (1 << 20) * 9 / 8).then_some(())
    })
    .await;
    assert!(own().len() > 100, "and no fewer");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_wait_in_turn_and_none_is_refused_within_its_time() {
    let Some(server) = faulty(&[]) else { return };
    let port = free_port();
    let limits = format!("[sandbox.limits]\nruns = 1\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    let served = Arc::new(Served::start(Fence::new(), &format!("{server}{}{limits}", clients(""))).await);
    let done = Arc::new(AtomicUsize::new(0));
    let run = |token: &'static str, code: &str| {
        let message = call(1, "execute", json!({"language": "javascript", "code": code, "timeout_secs": 60}));
        let (served, done) = (Arc::clone(&served), Arc::clone(&done));
        tokio::spawn(async move {
            let (_, text) = told(asks(&http(), &served, token, "", &message)).await;
            (text, done.fetch_add(1, Ordering::AcqRel))
        })
    };
    let wait = async |count: usize| {
        let is_so = async || (metric(port, "forgefs_scripts_waiting").await == count).then_some(());
        until("that many wait", is_so).await;
    };
    let [a, b, c] = TOKENS;
    let first = run(a, "await faulty.hang({}); return 0");
    until("it runs", async || (metric(port, "forgefs_workers_busy").await == 1).then_some(())).await;
    let mut waiting: Vec<_> = (0..100).map(|_| run(a, "return 'done'")).collect();
    wait(100).await;
    let other = run(b, "return 'done'");
    wait(101).await;
    // A client that is gone waits no longer.
    waiting.drain(80..).for_each(|gone| gone.abort());
    wait(81).await;
    let short = call(1, "execute", json!({"language": "javascript", "code": "return 1", "timeout_secs": 0.2}));
    let (_, text) = told(asks(&http(), &served, c, "", &short)).await;
    assert!(text.contains("BUSY: no place for a script became free within"), "{text}");
    first.abort();
    let (text, before) = other.await.expect("it ends");
    assert!(text.contains("done") && before < 40, "{before} scripts were before it, one at a time by turn: {text}");
    for one in waiting {
        let (text, _) = one.await.expect("it ends");
        assert!(text.contains("done"), "{text}");
    }
    assert_eq!(metric(port, "forgefs_pool_refused_total").await, 1, "the one whose time was over");
}

#[tokio::test]
async fn a_verified_token_counts_with_the_memory_of_its_claims() {
    let key = Key::ec();
    let issuer = Issuer::start(json!({"keys": [key.jwk("ec")]}));
    let port = free_port();
    let map = "map = [{ claim = \"groups\", value = \"platform\" }]";
    let config = format!("{}[metrics]\nlisten = \"127.0.0.1:{port}\"\n", issuer.config(map));
    let served = Served::start(Fence::new(), &config).await;
    let head = json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"});
    let lists = vec![json!([0]); 1000];
    for subject in 0..4 {
        let token = key.signed(&head, &issuer.claims(json!({"sub": format!("s{subject}"), "lists": lists})));
        let (status, text) = told(asks(&http(), &served, &token, "", &call(1, "ls", json!({})))).await;
        assert_eq!(status, StatusCode::OK, "{text}");
    }
    // An array with one number takes over a hundred bytes, whatever its text.
    assert!(metric(port, "forgefs_kept_bytes{what=\"verified_tokens\"}").await > 4 * 1000 * 100);
}

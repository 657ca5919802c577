//! Servers and workers die at random under load. Every call carries a nonce that must come back, nothing is carried out
//! twice, and nothing is left behind.
//!
//! `FORGEFS_SOAK_MINUTES=10 cargo nextest run --workspace --run-ignored only -E 'test(soak)' --no-capture`

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::fault_proxy::FaultProxy;
use crate::faulty::{Log, all_end, faulty, log_in, runs};
use crate::http::{HttpServer, free_port};
use crate::real::Real;

/// Concurrent scripts.
const CLIENTS: usize = 6;
/// Calls per script.
const CALLS: usize = 6;
/// Child servers; the last one behind a launcher.
const PROCESSES: usize = 4;
/// All servers.
const NAMES: [&str; 6] = ["p0", "p1", "p2", "p3", "web", "old"];
/// Allowed errors of calls while servers die.
const ALLOWED: [&str; 3] = ["TRANSPORT_DEAD", "TIMEOUT", "CIRCUIT_OPEN"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for minutes; the file says how"]
#[expect(clippy::print_stdout, reason = "the figures belong into the test's log")]
async fn soak() {
    let minutes = std::env::var("FORGEFS_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let Some(real) = Real::find() else { return };
    let fence = Fence::new();
    let mut config = "[sandbox.limits]\nruns = 8\n".to_owned();
    let mut logs = Vec::new();
    for number in 0..PROCESSES {
        let Some(entry) = faulty(if number + 1 == PROCESSES { &["launch"] } else { &[] }) else { return };
        let (log, setting) = log_in(&fence, &format!("p{number}.log"));
        config += &entry.replace("[servers.faulty]", &format!("[servers.p{number}]"));
        config += &format!("{setting}timeout = \"10s\"\nbreaker = {{ pause = \"1s\" }}\n");
        logs.push(log);
    }
    let streamable = HttpServer::start(&real, "streamableHttp", free_port());
    let sse = HttpServer::start(&real, "sse", free_port());
    let mut proxies = Vec::new();
    for (name, path, port) in [("web", "mcp", streamable.port), ("old", "sse", sse.port)] {
        let proxy = FaultProxy::start(port, true).await;
        config += &format!("[servers.{name}]\nurl = \"http://127.0.0.1:{}/{path}\"\n", proxy.port());
        config += "timeout = \"10s\"\nbreaker = { pause = \"1s\" }\n";
        proxies.push(proxy);
    }
    let session = fence.serve(&config).await;
    session.ready(&NAMES).await;
    let soak = Soak::new(session, logs);
    soak.load(Duration::from_secs(5)).await;
    let before = soak.footprint();

    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let ((), proxies) = tokio::join!(soak.load_until(end), soak.chaos(end, proxies));
    // Everything recovers on its own.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !soak.all_answer().await {
        assert!(Instant::now() < deadline, "{}", soak.session.call("ls", json!({})).await.text);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    soak.load(Duration::from_secs(5)).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let after = soak.footprint();
    println!("{}\nbefore: {before:?}\nafter:  {after:?}", soak.summary(minutes));
    soak.check_executions(&proxies);
    assert!(after.descriptors <= before.descriptors + 10, "descriptors leak: {before:?} → {after:?}");
    assert!(after.processes <= before.processes + 2, "processes leak: {before:?} → {after:?}");
    let lost = soak.lost_runs.load(Relaxed);
    assert!(lost <= soak.worker_kills.load(Relaxed), "{lost} runs were lost: {:?}", soak.outcomes);
    let pids: Vec<u32> = soak.logs.iter().flat_map(Log::pids).collect();
    soak.session.close().await;
    all_end(&pids, Duration::from_secs(10)).await;
}

struct Soak {
    session: Session,
    logs: Vec<Log>,
    nonces: AtomicU64,
    /// Answers and errors by code.
    outcomes: Mutex<BTreeMap<String, u64>>,
    runs: AtomicUsize,
    /// Runs lost with their worker.
    lost_runs: AtomicUsize,
    worker_kills: AtomicUsize,
    server_kills: AtomicUsize,
    cuts: AtomicUsize,
}

/// Resources of the gateway.
#[derive(Debug)]
#[expect(dead_code, reason = "the memory is printed, not judged")]
struct Footprint {
    descriptors: usize,
    processes: usize,
    resident_kib: usize,
}

impl Soak {
    fn new(session: Session, logs: Vec<Log>) -> Self {
        Self {
            session,
            logs,
            nonces: AtomicU64::new(0),
            outcomes: Mutex::default(),
            runs: AtomicUsize::new(0),
            lost_runs: AtomicUsize::new(0),
            worker_kills: AtomicUsize::new(0),
            server_kills: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
        }
    }

    async fn load(&self, time: Duration) {
        self.load_until(Instant::now() + time).await;
    }

    /// Several clients running scripts.
    async fn load_until(&self, end: Instant) {
        let client = || async {
            while Instant::now() < end {
                let servers: Vec<_> = (0..CALLS).map(|_| NAMES[fastrand::usize(..NAMES.len())]).collect();
                self.run(&servers).await;
            }
        };
        futures::future::join_all((0..CLIENTS).map(|_| client())).await;
    }

    /// One script with a call to each of `servers`; true if all answered.
    async fn run(&self, servers: &[&str]) -> bool {
        let mut calls: Vec<Call<'_>> = Vec::new();
        for server in servers {
            let number = self.nonces.fetch_add(1, Relaxed);
            let tool = if !server.starts_with('p') { "echo" } else { ["act", "act_safely"][fastrand::usize(..2)] };
            calls.push((server, tool, format!("{tool} {server} {number}")));
        }
        let (language, code) = if fastrand::bool() { javascript(&calls) } else { starlark(&calls) };
        let answer = self.session.call("execute", json!({"language": language, "code": code})).await;
        self.runs.fetch_add(1, Relaxed);
        if answer.is_error {
            // Killed in the middle of the script, or at its start.
            let killed = ["sandbox process", "sandbox worker"].iter().any(|words| answer.text.contains(words));
            assert!(killed, "{language}: {}", answer.text);
            self.lost_runs.fetch_add(1, Relaxed);
            self.note("(the worker was killed)");
            return false;
        }
        let line = answer.text.lines().next().unwrap_or_default();
        let outcomes: Vec<Value> = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {}", answer.text));
        assert_eq!(outcomes.len(), calls.len(), "an answer is lost: {}", answer.text);
        let mut all = true;
        for (outcome, (_, tool, nonce)) in outcomes.iter().zip(&calls) {
            let code = outcome.get("code").and_then(Value::as_str);
            let expected = if *tool == "echo" { format!("Echo: {nonce}") } else { nonce.clone() };
            match code {
                Some(code) => assert!(ALLOWED.contains(&code), "{nonce}: {outcome}"),
                None => assert_eq!(outcome, &json!(expected), "answers are crossed"),
            }
            all &= code.is_none();
            self.note(code.unwrap_or("ok"));
        }
        all
    }

    fn note(&self, outcome: &str) {
        *self.outcomes.lock().expect("not poisoned").entry(outcome.to_owned()).or_default() += 1;
    }

    async fn all_answer(&self) -> bool {
        self.run(&NAMES).await
    }

    /// Kills servers and workers, and cuts the network.
    async fn chaos(&self, end: Instant, mut proxies: Vec<FaultProxy>) -> Vec<FaultProxy> {
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(300..1500))).await;
            let children = descendants(self.session.pid);
            match fastrand::u32(..10) {
                0..5 => {
                    let pids = self.logs[fastrand::usize(..self.logs.len())].pids();
                    let recent: Vec<_> = pids.iter().rev().take(2).filter(|pid| children.contains(pid)).collect();
                    if let Some(pid) = fastrand::choice(recent) {
                        end_now(*pid);
                        self.server_kills.fetch_add(1, Relaxed);
                    }
                }
                5..7 => {
                    let workers: Vec<_> = children.iter().filter(|pid| is_worker(**pid)).collect();
                    if let Some(pid) = fastrand::choice(workers) {
                        end_now(*pid);
                        self.worker_kills.fetch_add(1, Relaxed);
                    }
                }
                7..9 => {
                    let proxy = fastrand::usize(..proxies.len());
                    proxies[proxy].close().await;
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(100..1500))).await;
                    proxies[proxy].open().await;
                    self.cuts.fetch_add(1, Relaxed);
                }
                _ => {}
            }
        }
        proxies
    }

    /// Nothing was carried out twice, unless annotated as idempotent.
    fn check_executions(&self, proxies: &[FaultProxy]) {
        for log in &self.logs {
            let mut counts = BTreeMap::<_, u32>::new();
            for line in log.lines().into_iter().filter(|line| line.starts_with("call ")) {
                *counts.entry(line).or_default() += 1;
            }
            for (call, count) in counts {
                let most = if call.starts_with("call act_safely") { 2 } else { 1 };
                assert!(count <= most, "{call}: {count} times");
            }
        }
        for proxy in proxies {
            for (call, count) in proxy.executions() {
                assert!(count <= 1, "{call}: {count} times");
            }
        }
    }

    fn footprint(&self) -> Footprint {
        let gateway = format!("/proc/{}", self.session.pid);
        let status = fs::read_to_string(format!("{gateway}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Footprint {
            descriptors: fs::read_dir(format!("{gateway}/fd")).map_or(0, Iterator::count),
            processes: descendants(self.session.pid).len(),
            resident_kib: resident.and_then(|kib| kib.parse().ok()).unwrap_or(0),
        }
    }

    fn summary(&self, minutes: f64) -> String {
        let outcomes = self.outcomes.lock().expect("not poisoned");
        let counts = outcomes.iter().map(|(outcome, count)| format!("{outcome} {count}")).collect::<Vec<_>>();
        format!(
            "{minutes} minutes: {} runs, calls: {}; killed {} servers and {} workers, cut the network {} times",
            self.runs.load(Relaxed),
            counts.join(", "),
            self.server_kills.load(Relaxed),
            self.worker_kills.load(Relaxed),
            self.cuts.load(Relaxed),
        )
    }
}

type Call<'a> = (&'a str, &'static str, String);

/// All calls in parallel.
fn javascript(calls: &[Call<'_>]) -> (&'static str, String) {
    let call = |(server, tool, nonce): &Call<'_>| {
        let key = if *tool == "echo" { "message" } else { "nonce" };
        format!("{server}.{tool}({{{key}: '{nonce}'}}).catch((e) => ({{code: e.code}}))")
    };
    let calls: Vec<_> = calls.iter().map(call).collect();
    ("javascript", format!("return await Promise.all([{}])", calls.join(", ")))
}

/// All calls in parallel.
fn starlark(calls: &[Call<'_>]) -> (&'static str, String) {
    let call = |(server, tool, nonce): &Call<'_>| {
        let key = if *tool == "echo" { "message" } else { "nonce" };
        format!("defer({server}.{tool}, {key}='{nonce}')")
    };
    let calls: Vec<_> = calls.iter().map(call).collect();
    let answers = format!("parallel([{}])", calls.join(", "));
    ("starlark", format!("result = [a.value if a.ok else {{'code': a.error.code}} for a in {answers}]"))
}

fn end_now(pid: u32) {
    // It may have ended on its own.
    let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a process number")), Signal::SIGKILL);
}

fn is_worker(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"worker")
}

/// Running descendants of a process.
fn descendants(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("there is /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter(|pid| runs(*pid)).collect()
}

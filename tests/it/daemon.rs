//! The daemon: one gateway for all clients of a configuration, its commands, and clients that outlive it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::admission::Wire;
use crate::client::{Era, Fence, Output, Session};
use crate::faulty::{all_end, faulty, log, python, runs, samples};
use crate::json_shapes::{examples, shape};
use crate::real::skipped;

/// Clients share a daemon. It ends soon, even where a test does not end it.
const AUTO: &str = "[daemon]\nstart = \"auto\"\nidle_exit = \"20s\"\n";

/// Fence with a configuration, whose daemon ends with it.
struct Place {
    fence: Fence,
}

impl Place {
    fn new(config: &str) -> Self {
        let fence = Fence::new();
        fence.write("forge.toml", config);
        Self { fence }
    }

    fn daemon(&self, words: &[&str]) -> Output {
        self.fence.run([&["daemon"][..], words].concat())
    }

    /// What `daemon status --json` prints.
    fn status(&self) -> Value {
        self.daemon(&["status", "--json"]).object()
    }

    /// Process id of the daemon, which runs.
    fn pid(&self) -> u32 {
        let status = self.status();
        let pid = status["pid"].as_u64().unwrap_or_else(|| panic!("no daemon runs: {status}"));
        u32::try_from(pid).expect("a process id")
    }

    /// Waits until the daemon has so many clients.
    fn has_clients(&self, count: usize) -> Value {
        eventually(|| {
            let status = self.status();
            let clients = status["clients"].as_array().map_or(0, Vec::len);
            (clients == count).then_some(status)
        })
    }

    fn folder(&self) -> PathBuf {
        self.fence.work().join("../home/.local/state/forgefs/daemon")
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(self.status()["socket"].as_str().expect("a path"))
    }

    /// A client of `forgefs serve` by itself.
    async fn client(&self, era: Era) -> Session {
        self.fence.connect(era, self.fence.forgefs(["serve"])).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(pid) = self.status()["pid"].as_u64() {
            signal(u32::try_from(pid).unwrap_or_default(), Signal::SIGKILL);
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a process id");
    assert!(pid > 1);
    let _ = kill(Pid::from_raw(pid), signal);
}

/// The first value that there is, within half a minute.
fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match look() {
            Some(value) => return value,
            None => assert!(Instant::now() < deadline, "it does not come"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Every process whose command line has this text.
fn processes(of: &str) -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").contains(of)
    };
    pids.filter(|pid| has_it(pid) && runs(*pid)).collect()
}

#[tokio::test]
async fn many_starts_at_once_are_one_daemon_that_stop_ends_with_its_servers() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (servers, setting) = log(&fence);
    fence.write("forge.toml", &format!("{config}{setting}"));
    let place = Place { fence };
    let none = place.daemon(&["status"]);
    assert_eq!((none.code, none.stdout.contains("no daemon runs for ")), (Some(1), true), "{none:?}");
    assert_eq!(place.daemon(&["stop"]).code, Some(1));

    let start = |_| {
        let mut command = place.fence.forgefs(["daemon", "start"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let started: Vec<Child> = (0..8).map(start).collect();
    let outputs: Vec<_> = started.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect();
    let texts: Vec<_> = outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert_eq!(texts.iter().filter(|text| text.starts_with("started: ")).count(), 1, "{texts:?}");
    let pid = place.pid();
    assert!(texts.iter().all(|text| text.contains(&format!(": process {pid}, forgefs "))), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains(".local/state/forgefs/daemon/")), "{texts:?}");

    let status = place.daemon(&["status"]).success().stdout;
    for part in [&format!("process {pid}, forgefs "), "forge.toml", "ends after 10m without clients", "clients: 0"] {
        assert!(status.contains(part), "no {part:?} in {status}");
    }
    for (path, mode) in [(place.folder(), 0o700), (place.socket(), 0o600)] {
        let found = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    eventually(|| (servers.pids().len() == 1).then_some(()));
    let stopped = place.daemon(&["stop"]).success();
    assert_eq!(stopped.stdout, format!("stopped: process {pid}\n"));
    // Its lock is free a moment before the kernel is done with it.
    all_end(&[pid], Duration::from_secs(1)).await;
    all_end(&servers.pids(), Duration::from_secs(6)).await;
    assert_eq!(place.status()["running"], false);
    let logged = place.daemon(&["logs"]).success().stdout;
    assert!(logged.contains("the daemon listens") && logged.contains("the daemon ends"), "{logged}");
}

#[test]
fn lines_of_a_log_are_followed_beyond_its_rotation() {
    let place = Place::new(&samples());
    // It makes the folder.
    place.daemon(&["stop"]);
    let log = PathBuf::from(place.status()["log"].as_str().expect("a path"));
    fs::write(&log, "one\n").expect("it can be written");
    let mut command = place.fence.forgefs(["daemon", "logs", "--follow"]);
    let mut following = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert_eq!(lines.next().as_deref(), Some("one"));
    // Each time at once, faster than it looks; the new file is the longer one.
    for (last, first) in
        [("two", "three, which is long"), ("four", "five, which is much longer than all the others are")]
    {
        fs::write(log.with_extension("more"), format!("{first}\n")).expect("it can be written");
        let mut old = fs::OpenOptions::new().append(true).open(&log).expect("it is there");
        writeln!(old, "{last}").expect("it can be written");
        fs::rename(&log, log.with_extension("log.1")).expect("it can be moved");
        fs::rename(log.with_extension("more"), &log).expect("it can be moved");
        let mut next = || lines.find(|line| !line.is_empty());
        assert_eq!([next().as_deref(), next().as_deref()], [Some(last), Some(first)]);
    }
    // It ends with its reader, with nothing to write.
    drop(lines);
    assert_eq!(following.wait().expect("an end").code(), Some(0));
}

#[tokio::test]
async fn clients_share_servers_and_keep_sessions_apart() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (servers, setting) = log(&fence);
    fence.write("forge.toml", &format!("{AUTO}{config}{setting}"));
    let place = Place { fence };
    let (one, two) = tokio::join!(place.client(Era::Modern), place.client(Era::Legacy));
    let three = place.client(Era::Legacy).await;
    for session in [&one, &two, &three] {
        session.ready(&["faulty"]).await;
        assert_eq!(session.execute("starlark", "faulty.slow(ms=1)").await, "done");
    }
    assert_eq!(servers.pids().len(), 1, "one server for three clients");

    let status = place.has_clients(3);
    let clients = status["clients"].as_array().expect("a list");
    let of = |key: &str| -> BTreeSet<String> { clients.iter().map(|client| client[key].to_string()).collect() };
    assert_eq!(of("session").len(), 3, "{status}");
    let pids: BTreeSet<String> = [&one, &two, &three].iter().map(|session| session.pid.to_string()).collect();
    assert_eq!(of("pid"), pids);
    let (_, shown) = examples().into_iter().find(|(words, _)| words == &["daemon", "status"]).expect("documented");
    assert_eq!(shape(&status), shape(&shown), "{status:#}");

    one.execute("starlark", "stash.put('mine', 1)").await;
    assert_eq!(one.execute("starlark", "stash.get('mine')").await, 1);
    one.call("execute", json!({"language": "starlark", "code": "'line\\n' * 5000"})).await;
    for (session, results) in [(&one, 1), (&two, 0), (&three, 0)] {
        let found = session.execute("starlark", "[len(stash.keys()), len(results.list())]").await;
        assert_eq!(found, json!([results, results]));
    }
    // A client that is killed leaves the others and the daemon as they are.
    one.kill();
    let status = place.has_clients(2);
    assert_eq!(two.execute("starlark", "faulty.slow(ms=1)").await, "done");
    two.close().await;
    three.close().await;
    assert_eq!(place.has_clients(0)["pid"], status["pid"]);
    assert_eq!(servers.pids().len(), 1);
}

#[tokio::test]
async fn status_counts_the_instances_of_sessions_beside_the_first() {
    let Some(config) = python("kept", "keeping.py", &[]) else { return };
    let fence = Fence::new();
    fence.write("forge.toml", &format!("{AUTO}{config}share = \"session\"\n"));
    let place = Place { fence };
    let one = place.client(Era::Modern).await;
    let two = place.client(Era::Legacy).await;
    for (session, instances) in [(&one, 1), (&two, 2)] {
        session.ready(&["kept"]).await;
        session.execute("starlark", "kept.count()").await;
        assert_eq!(place.status()["servers"][0]["instances"], instances);
    }
    let shown = place.daemon(&["status"]).success().stdout;
    assert!(shown.contains(", ready, 2 more for clients and sessions of their own"), "{shown}");
    one.close().await;
    eventually(|| (place.status()["servers"][0]["instances"] == 1).then_some(()));
    two.close().await;
}

/// Calls `act` with a new nonce each time, until told to stop; returns the nonces with their answers.
fn load(wire: &mut Wire, name: &str, stop: &AtomicBool) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for id in 10.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let nonce = format!("{name}-{id}");
        wire.call(id, "execute", json!({"language": "starlark", "code": format!("faulty.act(nonce='{nonce}')")}));
        answers.push((nonce, wire.answer(id)));
    }
    answers
}

#[tokio::test]
async fn kill_9_under_load_is_a_reconnect_and_no_call_is_made_twice() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (servers, setting) = log(&fence);
    let config = format!("{AUTO}{config}{setting}");
    fence.write("forge.toml", &config);
    let place = Place { fence };
    let mut wires: Vec<Wire> = [true, false, false].map(|modern| Wire::new(&place.fence, &config, modern)).into();
    let (stop, mut daemons) = (AtomicBool::new(false), Vec::new());
    let answers: Vec<(String, Value)> = std::thread::scope(|scope| {
        let threads: Vec<_> = wires
            .iter_mut()
            .enumerate()
            .map(|(number, wire)| {
                let stop = &stop;
                scope.spawn(move || load(wire, &format!("client{number}"), stop))
            })
            .collect();
        for (round, pause) in [50, 400, 0, 150].into_iter().enumerate() {
            // Each daemon has a server of its own.
            eventually(|| (servers.pids().len() > round).then_some(()));
            std::thread::sleep(Duration::from_millis(pause));
            daemons.push(u32::try_from(place.has_clients(3)["pid"].as_u64().expect("a pid")).expect("a pid"));
            signal(daemons[daemons.len() - 1], Signal::SIGKILL);
        }
        eventually(|| (servers.pids().len() > 4).then_some(()));
        place.has_clients(3);
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().expect("every request is answered")).collect()
    });

    assert_eq!(daemons.iter().collect::<BTreeSet<_>>().len(), 4, "each kill met another daemon: {daemons:?}");
    let (mut lost, mut made) = (0, 0);
    for (nonce, answer) in &answers {
        let calls = servers.count(&format!("call {nonce}"));
        assert!(calls <= 1, "{nonce} was called {calls} times");
        match answer.get("error") {
            Some(error) => {
                lost += 1;
                let is_told =
                    error["message"].as_str().is_some_and(|text| text.contains("it is not known which calls"));
                assert!(is_told && error["data"]["code"] == "TRANSPORT_DEAD", "{answer}");
                assert!(error["data"]["suggestedFix"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
            }
            None => {
                made += 1;
                assert_eq!((calls, &answer["result"]["isError"]), (1, &json!(false)), "{nonce}: {answer}");
            }
        }
    }
    assert!(lost >= 4 && made >= 10, "{lost} lost, {made} made");
    // Sessions go on in both eras, lists included, and a line that was too long is refused here as well.
    for (number, wire) in wires.iter_mut().enumerate() {
        wire.send(json!({"id": 5, "method": "tools/list"}));
        assert_eq!(wire.answer(5)["result"]["tools"].as_array().map(Vec::len), Some(4), "{number}");
        wire.raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"{}\"}}\n", "x".repeat(17 << 20)).as_bytes());
        assert!(wire.answer(6)["error"]["message"].as_str().is_some_and(|text| text.contains("over the limit")));
    }
    let started = servers.pids();
    assert!(started.len() >= 5, "{started:?}");
    all_end(&started[..started.len() - 1], Duration::from_secs(6)).await;
    drop(wires);
    place.daemon(&["stop"]).success();
    all_end(&started, Duration::from_secs(6)).await;
    let config = place.fence.work().join("forge.toml");
    assert_eq!(processes(&config.to_string_lossy()), BTreeSet::new(), "no process is left");
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_its_proxy_small_and_gets_one_answer_a_request() {
    const REQUESTS: u64 = 600;
    let place = Place::new(&format!("{AUTO}{}", samples()));
    let mut command = place.fence.forgefs(["serve"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let writing = std::thread::spawn(move || {
        let info = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info});
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        write!(stdin, "{initialize}\n{initialized}\n").expect("it reads");
        for id in 1..=REQUESTS {
            let call = json!({"name": "cat", "arguments": {"path": "/forge.d.ts"}});
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
            writeln!(stdin, "{request}").expect("it reads");
        }
        stdin
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(resident < 100 << 10, "{resident} KiB");
    signal(place.pid(), Signal::SIGKILL);
    let (mut answered, mut lost) = (BTreeSet::new(), 0);
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line.expect("text")).expect("whole lines");
        if let Some(id) = message["id"].as_u64() {
            assert!(answered.insert(id), "{id} twice");
            lost += u64::from(message.get("error").is_some());
        }
        if answered.len() as u64 == REQUESTS + 1 {
            break;
        }
    }
    assert!(lost > 0 && lost < REQUESTS, "{lost} of {REQUESTS} were under way");
    drop(writing.join().expect("it wrote"));
    assert!(child.wait().expect("it ends with its input").success());
}

#[test]
fn a_daemon_that_is_stopped_is_started_again_by_the_next_request_and_not_before() {
    let config = format!("{AUTO}{}", samples());
    let place = Place::new(&config);
    let mut wire = Wire::new(&place.fence, &config, false);
    let before = place.pid();
    wire.send(json!({"id": 7, "method": "resources/subscribe", "params": {"uri": "forge:///tickets/get_ticket.pyi"}}));
    wire.answer(7);
    place.daemon(&["stop"]).success();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(place.status()["running"], false, "its client waits");
    wire.call(8, "execute", json!({"language": "starlark", "code": "tickets.get_ticket(id=1)['id']"}));
    assert_eq!(wire.answer(8)["result"]["content"][0]["text"], "1");
    assert_ne!(place.pid(), before);
}

#[test]
fn a_call_that_is_under_way_is_answered_before_the_daemon_ends() {
    let Some(faulty) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (calls, setting) = log(&fence);
    let config = format!("{AUTO}{faulty}{setting}");
    fence.write("forge.toml", &config);
    let place = Place { fence };
    let mut wire = Wire::new(&place.fence, &config, true);
    wire.call(1, "execute", json!({"language": "starlark", "code": "faulty.slow(ms=1500)"}));
    eventually(|| (calls.count("slow") == 1).then_some(()));
    place.daemon(&["stop"]).success();
    assert_eq!(wire.answer(1)["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn an_idle_daemon_ends_with_its_servers_and_not_while_a_client_is_attached() {
    let config = format!("[daemon]\nstart = \"auto\"\nidle_exit = \"1s\"\n{}", samples());
    let place = Place::new(&config);
    let session = place.client(Era::Modern).await;
    session.ready(&["tickets"]).await;
    let (pid, socket) = (place.pid(), place.socket());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(place.pid(), pid, "a client is attached");
    let children: Vec<u32> = processes("demo-server").into_iter().filter(|child| parent(*child) == Some(pid)).collect();
    assert_eq!(children.len(), 3);
    session.close().await;
    all_end(&[&[pid][..], &children].concat(), Duration::from_secs(10)).await;
    assert!(!socket.exists());
}

/// Parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test]
async fn signals_end_the_daemon_and_a_client_each_alone() {
    let config = format!("{AUTO}{}", samples());
    let place = Place::new(&config);
    let session = place.client(Era::Modern).await;
    session.ready(&["tickets"]).await;
    let daemon = place.pid();
    assert_ne!(parent(daemon), Some(session.pid), "clients end their own children");
    signal(session.pid, Signal::SIGTERM);
    all_end(&[session.pid], Duration::from_secs(5)).await;
    assert_eq!(place.has_clients(0)["pid"], daemon);
    let children: Vec<u32> = processes("demo-server").into_iter().filter(|pid| parent(*pid) == Some(daemon)).collect();
    assert_eq!(children.len(), 3);
    signal(daemon, Signal::SIGTERM);
    all_end(&[&[daemon][..], &children].concat(), Duration::from_secs(6)).await;
    assert_eq!(place.status()["running"], false);
}

#[test]
fn commands_use_a_running_daemon_with_the_same_output_and_never_start_one() {
    let place = Place::new(&format!("{AUTO}{}", samples()));
    place.fence.write("sum.star", "print('noted')\nlen(tickets.list_tickets()['tickets'])");
    place.fence.write("wrong.star", "tickets.get_ticket(number=1)");
    let commands: [&[&str]; 15] = [
        &["ls"],
        &["ls", "/tickets", "--json"],
        &["ls", "/nowhere"],
        &["ls", "/nowhere", "--json"],
        &["cat", "/tickets/get_ticket.pyi"],
        &["cat", "/tickets/get_ticket.pyi", "--json"],
        &["search", "create ticket", "--limit", "2"],
        &["search", "create ticket", "--json"],
        &["call", "tickets", "get_ticket", "{\"id\": 1}"],
        &["call", "tickets", "get_ticket", "{\"number\": 1}"],
        &["call", "nothing", "get_ticket"],
        &["call", "tickets", "get_ticket", "{\"id\": 1}", "--json"],
        &["run", "sum.star"],
        &["run", "wrong.star"],
        &["run", "sum.star", "--dry-run"],
    ];
    let run = || commands.map(|words| place.fence.run(words));
    // Observed shapes are learned from answers, and shown by the next command.
    let _ = run();
    let alone = run();
    assert_eq!(place.status()["running"], false, "no command starts a daemon");
    place.daemon(&["start"]).success();
    let pid = place.pid();
    let servers = processes("demo-server").into_iter().filter(|child| parent(*child) == Some(pid)).count();
    for ((words, alone), shared) in commands.iter().zip(alone).zip(run()) {
        let of = |output: &Output| (output.code, output.stdout.clone(), output.stderr.clone());
        let (code, stdout, mut stderr) = of(&alone);
        // A command of its own starts the servers alone that it names, and says so.
        if let Some((note, rest)) = stderr.split_once("; `forgefs list --check` lists them again\n") {
            assert!(note.starts_with("note: 3 servers as listed ") && !note.contains('\n'), "{words:?}: {note}");
            stderr = rest.to_owned();
        }
        let [stdout, stderr] = [stdout, stderr].map(|text| text.replace("resting, starts at the next call", "ready"));
        assert_eq!((code, stdout, stderr), of(&shared), "{words:?}");
    }
    let executed = place.fence.run(["run", "sum.star", "--json"]).success().object();
    assert_eq!((&executed["ok"], &executed["output"]), (&json!(true), &json!("noted\n")), "{executed}");
    assert_eq!(place.pid(), pid);
    assert!(servers <= 3 && processes("demo-server").iter().filter(|child| parent(**child) == Some(pid)).count() == 3);
    // One with options of its own has a gateway of its own.
    place.fence.run(["--engine", "quickjs", "run", "sum.star"]).success();
}

#[tokio::test]
async fn an_interrupted_command_cancels_its_call_in_the_daemon() {
    let Some(config) = faulty(&[]) else { return };
    let fence = Fence::new();
    let (servers, setting) = log(&fence);
    fence.write("forge.toml", &format!("{config}{setting}"));
    let place = Place { fence };
    place.daemon(&["start"]).success();
    let mut command = place.fence.forgefs(["call", "faulty", "hang"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    eventually(|| (servers.count("hang") == 1).then_some(()));
    signal(child.id(), Signal::SIGINT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    eventually(|| (servers.count("cancelled") == 1).then_some(()));
}

/// Sends a line to the socket, and returns the answer.
fn say(socket: &Path, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut answer = String::new();
    let _ = stream.write_all(line);
    let _ = BufReader::new(&stream).read_line(&mut answer);
    answer
}

#[test]
fn a_handshake_that_is_wrong_late_or_too_long_is_refused_and_others_are_served() {
    let place = Place::new(&samples());
    place.daemon(&["start"]).success();
    let socket = place.socket();
    let long = format!("{{\"forgefs\":1,\"version\":\"{}\"}}\n", "x".repeat(3 << 20));
    let deep = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let hello = |revision: u8, purpose: &str| {
        let line = json!({"forgefs": revision, "version": "9.9.9", "pid": 1, "purpose": purpose, "speaker": {"environment": {}}});
        format!("{line}\n")
    };
    for (line, says) in [
        (long.as_str(), "bytes, over the limit of 2097152 bytes"),
        (&deep, "the first line is no handshake"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", "the first line is no handshake"),
        (&hello(2, "conquer"), "the first line is no handshake"),
        (&hello(1, "attach"), "forgefs 9.9.9 speaks revision 1 of the daemon's handshake, and this daemon"),
        ("", "no complete line within 10 s"),
        (
            "{\"forgefs\":1,\"version\":\"9.9.9\",\"pid\":1,\"purpose\":\"attach\",\"environment\":{}}\n",
            "speaks revision 1",
        ),
        (&hello(2, "status"), "\"error\":null"),
    ] {
        let answer = say(&socket, line.as_bytes());
        assert!(answer.contains(says), "{}: no {says:?} in {answer:?}", &line[..line.len().min(60)]);
    }
    // Many that say nothing keep nobody out.
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    assert_eq!(place.status()["running"], true);
    drop(silent);
    // A client of another version is served, and told in the log.
    say(&socket, hello(2, "attach").as_bytes());
    let logged = place.daemon(&["logs"]).success().stdout;
    assert!(logged.contains("process 1 is forgefs 9.9.9, this daemon is "), "{logged}");
}

#[test]
fn another_user_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let place = Place::new(&samples());
    place.daemon(&["start"]).success();
    let socket = place.socket();
    // Every wall but the last is taken down.
    for folder in socket.ancestors().skip(1).take_while(|folder| *folder != Path::new("/tmp")) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({:?})\n\
         s.sendall(b'{{\"forgefs\":2,\"version\":\"1\",\"pid\":1,\"purpose\":\"status\"}}\\n')\n\
         print('answer', s.recv(100))",
        socket.display().to_string()
    );
    let ask = |uid: u32| {
        let mut command = std::process::Command::new("python3");
        std::os::unix::process::CommandExt::uid(&mut command, uid);
        crate::client::finish(command.args(["-c", &script]), "")
    };
    let (ours, theirs) = (ask(0), ask(65_534));
    assert!(ours.stdout.contains("answer b'{\"forgefs\":2"), "{ours:?}");
    assert!(!theirs.stdout.contains("forgefs"), "{theirs:?}");
    let logged = place.daemon(&["logs"]).success().stdout;
    assert!(logged.contains("belongs to another user (uid 65534, this is uid 0)"), "{logged}");
}

#[tokio::test]
async fn a_socket_that_a_dead_daemon_left_is_replaced() {
    let place = Place::new(&samples());
    place.daemon(&["start"]).success();
    let (pid, socket) = (place.pid(), place.socket());
    signal(pid, Signal::SIGKILL);
    all_end(&[pid], Duration::from_secs(5)).await;
    assert!(socket.exists(), "it is left");
    assert!(place.fence.run(["ls"]).success().stdout.contains("tickets/"), "a gateway of its own");
    assert_eq!(place.status()["running"], false);
    place.daemon(&["start"]).success();
    assert_ne!(place.pid(), pid);
}

#[tokio::test]
async fn without_a_place_for_the_daemon_each_client_serves_by_itself_and_says_why() {
    let place = Place::new(&format!("{AUTO}{}", samples()));
    let folder = place.folder();
    fs::create_dir_all(folder.parent().expect("the state folder")).expect("it can be made");
    fs::write(&folder, "no folder").expect("it can be written");
    let session = place.client(Era::Modern).await;
    session.ready(&["tickets"]).await;
    let said = session.stderr();
    assert!(said.contains("serving without the daemon: "), "{said}");
    let failed = place.daemon(&["start"]);
    assert!(failed.code != Some(0) && failed.stderr.contains("daemon"), "{failed:?}");
    session.close().await;
    fs::remove_file(&folder).expect("it can be removed");
}

#[tokio::test]
async fn a_daemon_has_a_place_below_a_folder_with_a_long_path() {
    let place = Place::new(&samples());
    let long = place.fence.work().join("long".repeat(20)).join("path".repeat(20));
    fs::create_dir_all(&long).expect("it can be made");
    let run = |words: &[&str]| {
        let mut command = place.fence.forgefs(words);
        crate::client::finish(command.env("XDG_STATE_HOME", &long), "")
    };
    run(&["daemon", "start"]).success();
    let status = run(&["daemon", "status", "--json"]).success().object();
    assert!(status["socket"].as_str().is_some_and(|path| path.len() > 150), "{status}");
    assert!(run(&["ls"]).success().stdout.contains("tickets/"));
    run(&["daemon", "stop"]).success();
}

#[tokio::test]
async fn reload_reaches_the_daemon() {
    let config = format!(
        "{AUTO}[servers.one]\ncommand = {:?}\nargs = [\"demo-server\", \"people\"]\n",
        env!("CARGO_BIN_EXE_forgefs")
    );
    let place = Place::new(&config);
    let session = place.client(Era::Modern).await;
    session.ready(&["one"]).await;
    place.fence.write("forge.toml", &config.replace("servers.one", "servers.two"));
    let reloaded = place.fence.run(["reload"]).success();
    assert!(reloaded.stdout.contains(&format!("signalled gateway {}", place.pid())), "{reloaded:?}");
    session.ready(&["two"]).await;
    session.close().await;
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    let place = Place::new("[servers.a]\ncomand = \"x\"\n");
    let failed = place.daemon(&["start"]);
    assert!(failed.code == Some(2) && failed.stderr.contains("servers.a.comand"), "{failed:?}");
    let empty = Fence::new();
    assert_eq!(empty.run(["daemon", "start"]).code, Some(2));
    let failed = empty.run(["--catalog", "x.json", "daemon", "start"]);
    assert!(failed.code == Some(2) && failed.stderr.contains("--catalog: a daemon serves a configuration file"));
}

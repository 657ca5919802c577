//! Child servers: none is left behind after any end of the gateway, and their stderr is readable.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::client::{Era, Fence, Session};
use crate::faulty::{Log, all_end, faulty, log, runs, samples};

/// A gateway with one faulty server that was called once.
async fn started(fence: &Fence, args: &[&str]) -> Option<(Session, Log)> {
    let config = faulty(args)?;
    let (log, setting) = log(fence);
    let session = fence.serve(&format!("{config}{setting}")).await;
    session.ready(&["faulty"]).await;
    assert_eq!(session.execute("starlark", "faulty.slow(ms=1)").await, "done");
    Some((session, log))
}

#[tokio::test]
async fn no_process_survives_the_end_of_a_session() {
    for args in [&[][..], &["launch"], &["stubborn"], &["launch", "stubborn"]] {
        let fence = Fence::new();
        let Some((session, log)) = started(&fence, args).await else { return };
        let pids = log.pids();
        assert!(!pids.is_empty() && runs(*pids.last().expect("one was started")), "{args:?}: {pids:?}");
        session.close().await;
        all_end(&pids, Duration::from_secs(6)).await;
    }
}

#[tokio::test]
async fn no_process_survives_when_the_gateway_is_killed() {
    for args in [&[][..], &["stubborn"], &["launch"]] {
        let fence = Fence::new();
        let Some((session, log)) = started(&fence, args).await else { return };
        session.kill();
        // A launcher's own children see the end of their stdin, which ends all but stubborn ones.
        all_end(&log.pids(), Duration::from_secs(6)).await;
    }
}

#[tokio::test]
async fn a_process_that_was_replaced_is_gone_with_all_that_it_started() {
    let fence = Fence::new();
    let Some((session, log)) = started(&fence, &["launch"]).await else { return };
    let first = log.pids();
    assert_eq!(first.len(), 2, "a launcher and a server");
    let config = std::fs::read_to_string(fence.work().join("forge.toml")).expect("a configuration");
    fence.write("forge.toml", &config.replace("env = { ", "env = { OTHER = \"1\", "));
    session.hang_up();
    all_end(&first, Duration::from_secs(60)).await;
    session.ready(&["faulty"]).await;
    assert_eq!(session.execute("starlark", "faulty.slow(ms=1)").await, "done");
    assert!(log.pids()[2..].iter().all(|pid| runs(*pid)));
}

#[tokio::test]
async fn what_a_server_says_on_stderr_can_be_read() {
    let fence = Fence::new();
    let Some((session, log)) = started(&fence, &["junk"]).await else { return };
    session.execute_err("starlark", "faulty.crash()").await;
    session.execute("starlark", "faulty.slow(ms=1)").await;
    let stderr = session.call("cat", json!({"path": "/faulty/stderr"})).await;
    let [first, second] = log.pids()[..] else { panic!("{:?}", log.pids()) };
    for words in [
        &format!("[forgefs: started as process {first}]"),
        "(stdout, not MCP) Welcome to faulty!",
        "about to crash",
        "[forgefs: ended: exit status: 7]",
        &format!("[forgefs: started as process {second}]"),
    ] {
        assert!(stderr.text.contains(words), "no {words:?} in {}", stderr.text);
    }
    let listing = session.call("ls", json!({"path": "/faulty"})).await.text;
    assert!(listing.contains("stderr: what it said"), "{listing}");
    let web = fence.write("web.json", "[{\"name\": \"x\", \"inputSchema\": {}}]");
    let missing = fence.run(["--catalog", &web.to_string_lossy(), "cat", "/web/stderr"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("there is no /web/stderr"), "{missing:?}");
}

#[tokio::test]
async fn a_script_that_is_stopped_cancels_its_calls() {
    let fence = Fence::new();
    let Some((session, log)) = started(&fence, &[]).await else { return };
    let code = "await faulty.hang()";
    let answer = session.call("execute", json!({"language": "javascript", "code": code, "timeout_secs": 0.5})).await;
    assert!(answer.is_error && answer.text.contains("TIMEOUT"), "{}", answer.text);
    let code = "faulty.hang().catch(() => {}); await faulty.slow({ms: 100}); return 1";
    assert_eq!(session.execute("javascript", code).await, 1);
    for _ in 0..40 {
        if log.count("cancelled") == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", log.lines());
}

/// A client that does not close what it has open must not hand it to servers and workers.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn descriptors_that_a_client_left_open_reach_neither_servers_nor_workers() {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    let fence = Fence::new();
    let path = fence.write("left-open", "of the client");
    let left_open = fs::File::open(&path).expect("the file is there");
    fcntl(&left_open, FcntlArg::F_SETFD(FdFlag::empty())).expect("it can be inherited");
    fence.write("forge.toml", &samples());
    let session = fence.connect(Era::Modern, fence.forgefs(["serve"])).await;
    session.ready(&["tickets"]).await;
    assert_eq!(session.execute("starlark", "tickets.get_ticket(id=1)['id']").await, 1);
    let has_it = |pid: u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        Some(descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path)))
    };
    assert_eq!(has_it(session.pid), Some(true), "the gateway got it");
    let started = || {
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            parent == Some(&session.pid.to_string())
        })
    };
    // A worker cannot be looked into by ordinary users.
    let looked_into: Vec<_> = started().filter_map(|pid| Some((pid, has_it(pid)?))).collect();
    assert!(looked_into.len() >= 3, "three servers at least: {looked_into:?}");
    assert!(looked_into.iter().all(|(_, has_it)| !has_it), "{looked_into:?}");
}

#[test]
fn a_signal_right_behind_the_first_answer_ends_the_gateway_cleanly() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
    for round in 0..10 {
        let mut command = fence.forgefs(["serve"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{hello}").expect("it reads");
        let mut answer = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut answer).expect("it answers");
        kill(Pid::from_raw(child.id().try_into().expect("a process number")), Signal::SIGTERM).expect("it runs");
        let ended = child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(0), "round {round}: {ended}, after {answer}");
    }
}

#[test]
fn a_gateway_whose_answers_are_not_read_any_more_ends_though_its_input_is_open() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    let client = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let ask =
        |id: u8, method: &str, params: &Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let mut command = fence.forgefs(["serve"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{}", ask(1, "initialize", &hello)).expect("it reads");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new()).expect("it answers");
    drop(output);
    writeln!(stdin, "{}", ask(2, "ping", &json!({}))).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    drop(stdin);
}

/// The reader of its answers is gone before the first one, or the disk that they go to is full.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_told_unless_its_reader_left() {
    let fence = Fence::new();
    fence.write("forge.toml", &samples());
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    for (answers, code, told) in [("", 0, ""), ("/dev/full", 4, "No space left")] {
        let output = match answers {
            "" => Stdio::piped(),
            path => fs::OpenOptions::new().write(true).open(path).expect("a device").into(),
        };
        let mut child = fence.forgefs(["serve"]);
        let child = child.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped());
        let mut child = child.spawn().expect("started");
        drop(child.stdout.take());
        writeln!(child.stdin.as_mut().expect("a pipe"), "{hello}").expect("it reads");
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{answers}: {said}");
        assert!(said.contains(told) && (code != 0 || !said.contains("error:")), "{answers}: {said}");
    }
    for words in ["list", "doctor --json", "help run", "--version"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let ended = fence.forgefs(words.split(' ')).stdout(full).stderr(Stdio::piped()).output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), said.matches("No space left").count()), (Some(4), 1), "{words}: {said}");
    }
}

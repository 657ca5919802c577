//! The compromised worker: it speaks the frame protocol, and the script selects its attack on the gateway.
//!
//! A worker after an engine escape is such a process, confined like a real one: it can still write frames. The "script"
//! is the name of a behaviour, so that one process can behave and misbehave in turn.

use std::fs::File;
use std::io::{Read as _, Write as _, stderr, stdin, stdout};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, ExitCode};
use std::time::Duration;

use confine::worker::{after_threads, before_threads};
use serde_json::{Value, json};
use wire::{
    CallError, Done, EngineInfo, EngineName, ErrorCode, FromWorker, Json, Language, Layer, LayerName, Op, Output,
    Ready, ScriptError, ScriptErrorKind, Stats, Stream, ToWorker, encode, read_frame,
};

/// Confines this process as a worker or a checker does.
pub(crate) fn confine() -> Vec<Layer> {
    let mut layers = before_threads();
    layers.extend(after_threads());
    layers
}

/// Entry of the process; `habit` is its behaviour before the first script.
pub(crate) fn live(habit: &str) -> ExitCode {
    let layers = confine();
    let mut ready = Ready {
        protocol: wire::PROTOCOL,
        engines: vec![EngineInfo {
            language: Language::Starlark,
            engine: EngineName::Starlark,
            version: "1".to_owned(),
        }],
        confinement: layers,
    };
    match habit {
        "honest_start" => {}
        "begins_with_noise" => write(b"\x05\0\0\0hello"),
        "begins_with_a_gigabyte" => write(&(1_u32 << 30).to_le_bytes()),
        "begins_with_done" => done(1, json!(1)),
        "ends_at_once" => return ExitCode::from(9),
        "complains_and_ends" => {
            for _ in 0..100_000 {
                let _ = stderr().write_all(&[b'x'; 1000]);
            }
            return ExitCode::from(9);
        }
        "another_version" => ready.protocol += 1,
        "unconfined" => ready.confinement.iter_mut().for_each(|layer| {
            layer.active &= layer.name != LayerName::Seccomp;
            layer.detail = "the kernel has none".to_owned();
        }),
        other => panic!("no habit {other}"),
    }
    send(&FromWorker::Ready(ready));
    loop {
        let message = read_frame::<ToWorker>(&mut stdin().lock());
        match message {
            Ok(Some(ToWorker::Run(run))) => misbehave(script(&run.code), run.run),
            Ok(Some(ToWorker::Ping(number))) => send(&FromWorker::Pong(number)),
            Ok(Some(ToWorker::Reply(_) | ToWorker::Check(_))) => {}
            _ => return ExitCode::SUCCESS,
        }
    }
}

/// The script in the module that the gateway made of it.
fn script(code: &str) -> &str {
    code.strip_prefix("export default async () => {\n").map_or(code, |rest| rest.trim_end_matches("\n}\n"))
}

fn misbehave(behaviour: &str, run: u64) {
    match behaviour {
        // The last two are behaviours of checkers.
        "honest" | "forgets_itself" | "talks_on" => done(run, json!("honest")),
        // Lies about numbers.
        "call_of_another_run" => call(run + 1, 1, &Op::Servers),
        "call_of_run_zero" => call(0, 1, &Op::Servers),
        "replayed_call" => {
            call(run, 1, &Op::Servers);
            let _ = reply();
            call(run, 1, &Op::Servers);
            hang();
        }
        "skipped_number" => call(run, 2, &Op::Servers),
        "largest_number" => call(run, u64::MAX, &Op::Servers),
        "zeroth_number" => call(run, 0, &Op::Servers),
        "output_of_another_run" => output(run + 1, "x"),
        "done_of_another_run" => done(run + 1, json!(1)),
        "ready_again" => {
            send(&FromWorker::Ready(Ready { protocol: wire::PROTOCOL, engines: Vec::new(), confinement: Vec::new() }))
        }
        "pong_without_ping" => send(&FromWorker::Pong(1)),
        "done_twice" => {
            done(run, json!("first"));
            done(run, json!("second"));
        }
        "done_for_the_next_run" => {
            done(run, json!("mine"));
            (1..1000).for_each(|ahead| done(run + ahead, json!("forged")));
        }
        "talks_after_done" => {
            done(run, json!("quiet"));
            for number in 1..=3 {
                call(run + 1, number, &tool("demo", "erase", "{}"));
            }
        }
        // Invalid frames.
        "not_json" => write(b"\x05\0\0\0hello"),
        "empty_frame" => write(&[0; 4]),
        "gigabyte_frame" => write(&(1_u32 << 30).to_le_bytes()),
        "largest_prefix" => write(&u32::MAX.to_le_bytes()),
        "unknown_message" => frame(br#"{"Open":{"path":"/etc/passwd"}}"#),
        "unknown_op" => frame(format!(r#"{{"Call":{{"run":{run},"call":1,"op":{{"Exec":"id"}}}}}}"#).as_bytes()),
        "wrong_types" => frame(br#"{"Call":{"run":"one","call":[],"op":null}}"#),
        "two_messages_in_one" => frame(format!(r#"{{"Pong":1}}{{"Done":{{"run":{run}}}}}"#).as_bytes()),
        "not_unicode" => frame(b"{\"Pong\":\"\xff\xfe\"}"),
        "deep_json" => {
            let nested = format!("{}{}", "[".repeat(4 << 20), "]".repeat(4 << 20));
            frame(format!(r#"{{"Done":{{"run":{run},"result":{{"Ok":{nested}}},"stats":{STATS}}}}}"#).as_bytes());
        }
        "half_a_frame" => {
            write(b"\xff\0\0\0{\"Done\"");
            hang();
        }
        "half_a_frame_and_death" => {
            write(b"\xff\0\0\0{\"Done\"");
            exit(0);
        }
        "drip" => loop {
            write(b"\0");
            write(b"");
            std::thread::sleep(Duration::from_millis(50));
        },
        // Floods.
        "output_flood" => (0..1_000_000).for_each(|_| output(run, "x")),
        "empty_output_flood" => (0..1_000_000).for_each(|_| output(run, "")),
        "large_output" => {
            output(run, &"x".repeat(30 << 20));
            done(run, json!("said"));
        }
        "call_flood" => (1..=100_000).for_each(|number| call(run, number, &Op::Servers)),
        "tool_flood" => {
            (1..=1000).for_each(|number| call(run, number, &tool("demo", "echo", "{}")));
            let answers = (1..=1000).map(|_| reply()).filter(|answer| answer.contains("BUDGET_EXCEEDED")).count();
            done(run, json!(answers));
        }
        "sleep_flood" => {
            (1..=1001).for_each(|number| call(run, number, &Op::Sleep { ms: u32::MAX }));
            hang();
        }
        "ends_asleep" => {
            (1..=1000).for_each(|number| call(run, number, &Op::Sleep { ms: u32::MAX }));
            call(run, 1001, &Op::Servers);
            let answer = reply();
            done(run, json!(answer.contains("1001")));
        }
        "heavy_call_flood" => {
            let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(20 << 20));
            (1..=100).for_each(|number| call(run, number, &tool("demo", "echo", &text)));
            hang();
        }
        "deaf" => {
            let everything = Op::Cat { paths: vec!["/demo/*".to_owned()], lines: None };
            (1..=400).for_each(|number| call(run, number, &everything));
            hang();
        }
        "stash_flood" => {
            let value = raw(&format!("\"{}\"", "x".repeat(1 << 20)));
            for number in 1..=40 {
                call(run, number, &Op::StashPut { key: number.to_string(), value: value.clone(), ttl_secs: None });
            }
            let refused = (1..=40).map(|_| reply()).filter(|answer| answer.contains("\"Err\"")).count();
            done(run, json!(refused > 20));
        }
        // Silence, noise and death.
        "never_answers" => hang(),
        "burns_cpu" => loop {
            std::hint::spin_loop();
        },
        "closes_stdout" => {
            let _ = nix::unistd::close(1);
            hang();
        }
        "dies" => exit(7),
        "aborts" => std::process::abort(),
        "complains_and_dies" => {
            for _ in 0..100_000 {
                let _ = stderr().write_all(&[b'x'; 1000]);
            }
            exit(7);
        }
        // Forged results.
        "forged_statistics" => {
            let stats = Stats { cpu_us: u64::MAX, heap_bytes: u64::MAX };
            let result = Ok(raw("\"cheap\""));
            send(&FromWorker::Done(Box::new(Done { run, result, stats })));
        }
        "forged_error" => forged_error(run),
        "forged_image" => done(run, json!({"image": "blob:1", "other": "blob:99999999999999999999"})),
        "largest_result" => done(run, json!("x".repeat(30 << 20))),
        "escape_in_output" => {
            output(run, "\u{1b}]0;owned\u{7}\u{202e}");
            done(run, json!("said"));
        }
        // Requests that the broker and the file tree must refuse.
        "wander" => wander(run),
        // Attempts that the kernel must refuse.
        attempt => done(run, json!(got_out(attempt))),
    }
}

/// Requests paths outside the tree and the session, in every spelling; answers everything that came back.
fn wander(run: u64) {
    let mut ops = Vec::new();
    for path in [
        "/etc/passwd", "../../../../etc/passwd", "/results/../../etc/passwd", "/results/../../../proc/self/environ",
        "/demo/../../etc/passwd", "//etc/passwd", "file:///etc/passwd", "/results/%2e%2e/%2e%2e/etc/passwd",
        "/results/..\\..\\etc\\passwd", "/demo/echo.pyi/../../../etc/passwd", "/results/1.json\0/../../etc/passwd",
        "/{etc,demo}/passwd", "/**/passwd", "/proc/self/environ", "~/.ssh/id_rsa", "/demo/stderr/../../etc/passwd",
    ] {
        ops.push(Op::Cat { paths: vec![path.to_owned()], lines: None });
        ops.push(Op::Ls { path: path.to_owned(), depth: Some(u32::MAX) });
        ops.push(Op::StashGet { key: path.to_owned() });
        ops.push(Op::ReadResource { server: "demo".to_owned(), uri: path.to_owned() });
        ops.push(Op::Search { queries: vec![path.to_owned()], limit: Some(u32::MAX), path: Some(path.to_owned()) });
        ops.push(tool(path, "echo", "{}"));
        ops.push(tool("demo", path, "{}"));
    }
    ops.push(tool("demo", "echo", "[]"));
    ops.push(tool("demo", "echo", "null"));
    ops.push(Op::Cat {
        paths: vec!["/demo/echo.pyi".to_owned(); 100_000],
        lines: Some("0-18446744073709551616".into()),
    });
    ops.push(Op::StashPut { key: "k".repeat(1 << 20), value: raw("1"), ttl_secs: Some(u64::MAX) });
    for (op, number) in ops.iter().zip(1..) {
        call(run, number, op);
    }
    let answers: Vec<String> = ops.iter().map(|_| reply()).collect();
    // The control: readable paths were read.
    let honest = (1..).nth(ops.len()).unwrap_or_default();
    call(run, honest, &Op::Cat { paths: vec!["/demo/echo.pyi".to_owned()], lines: None });
    let control = reply().contains("def echo");
    let leaked = |answer: &&String| ["root:", "PATH=", "SECRET"].iter().any(|sign| answer.contains(sign));
    done(run, json!({"leaked": answers.iter().filter(leaked).collect::<Vec<_>>(), "control": control}));
}

/// An error with every field too large, blamed on a call that was never made.
fn forged_error(run: u64) {
    let error = CallError {
        code: ErrorCode::ToolError,
        message: "m".repeat(5 << 20),
        retryable: true,
        suggested_fix: Some("f".repeat(5 << 20)),
        data: Some(raw(&format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)))),
    };
    let error = ScriptError {
        kind: ScriptErrorKind::Call,
        message: "m".repeat(5 << 20),
        line: u32::MAX,
        column: u32::MAX,
        trace: vec!["t".repeat(100_000); 100],
        call: Some(u64::MAX),
        error: Some(error),
        fix: None,
    };
    send(&FromWorker::Done(Box::new(Done { run, result: Err(error), stats: Stats::default() })));
}

/// True if the process reached anything outside.
fn got_out(attempt: &str) -> bool {
    match attempt {
        "open" => File::open("/etc/passwd").is_ok(),
        "create" => File::create("/tmp/forgefs-got-out").is_ok(),
        "list" => std::fs::read_dir("/").is_ok(),
        "environment" => std::env::vars_os().next().is_some(),
        "inherited_files" => (3..64).any(|fd| nix::fcntl::fcntl(fd_of(fd), nix::fcntl::FcntlArg::F_GETFD).is_ok()),
        "connect" => TcpStream::connect("127.0.0.1:9").is_ok(),
        "datagram" => UdpSocket::bind("127.0.0.1:0").is_ok(),
        "exec" => Command::new("/bin/true").status().is_ok(),
        "thread" => std::thread::Builder::new().spawn(|| {}).is_ok(),
        "kill_parent" => nix::sys::signal::kill(nix::unistd::getppid(), None).is_ok(),
        "fork" => forked(),
        "trace_parent" => traced(),
        other => panic!("no behaviour {other}"),
    }
}

#[expect(unsafe_code, reason = "the number is only asked whether it is open")]
fn fd_of(fd: i32) -> std::os::fd::BorrowedFd<'static> {
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}

#[expect(unsafe_code, reason = "a child, should there be one, only exits")]
fn forked() -> bool {
    match unsafe { nix::libc::fork() } {
        0 => exit(0),
        child => child > 0,
    }
}

#[expect(unsafe_code, reason = "the call is refused, or the test fails")]
fn traced() -> bool {
    let none = std::ptr::null_mut::<nix::libc::c_void>();
    unsafe { nix::libc::ptrace(nix::libc::PTRACE_ATTACH, nix::unistd::getppid().as_raw(), none, none) == 0 }
}

/// Statistics of a run, as text.
const STATS: &str = r#"{"cpu_us":0,"heap_bytes":0}"#;

fn tool(server: &str, tool: &str, args: &str) -> Op {
    Op::Tool { server: server.to_owned(), tool: tool.to_owned(), args: raw(args) }
}

fn raw(json: &str) -> Json {
    serde_json::value::RawValue::from_string(json.to_owned()).unwrap_or_else(|_| Json::default())
}

fn call(run: u64, number: u64, op: &Op) {
    let op = serde_json::to_value(op).unwrap_or(Value::Null);
    frame(json!({"Call": {"run": run, "call": number, "op": op}}).to_string().as_bytes());
}

fn output(run: u64, text: &str) {
    send(&FromWorker::Output(Output { run, stream: Stream::Out, text: text.to_owned() }));
}

pub(crate) fn done(run: u64, value: Value) {
    send(&FromWorker::Done(Box::new(Done { run, result: Ok(raw(&value.to_string())), stats: Stats::default() })));
}

/// The next reply, as text.
fn reply() -> String {
    let mut prefix = [0; 4];
    let mut stdin = stdin().lock();
    if stdin.read_exact(&mut prefix).is_err() {
        exit(0);
    }
    let mut body = vec![0; u32::from_le_bytes(prefix) as usize];
    if stdin.read_exact(&mut body).is_err() {
        exit(0);
    }
    String::from_utf8_lossy(&body).into_owned()
}

pub(crate) fn send(message: &FromWorker) {
    match encode(message) {
        Ok(bytes) => write(&bytes),
        Err(_) => exit(8),
    }
}

pub(crate) fn frame(body: &[u8]) {
    write(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    write(body);
}

pub(crate) fn write(bytes: &[u8]) {
    let mut stdout = stdout().lock();
    // A gateway that gave up has closed the pipe.
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        exit(0);
    }
}

pub(crate) fn hang() {
    std::thread::sleep(Duration::from_secs(3600));
}

#[expect(clippy::exit, reason = "a worker that ends in the middle of a run is one of the behaviours")]
pub(crate) fn exit(code: i32) -> ! {
    std::process::exit(code)
}

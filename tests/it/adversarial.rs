//! Randomised requests that search for slow, large and panicking cases, beside a second stream of requests.
//!
//! `FORGEFS_ADVERSARIAL_SECONDS` sets the duration (`cargo xtask ci`: one minute), `FORGEFS_ADVERSARIAL_SEED`
//! repeats a run: a failure names its seed, the request, and the command. Scripts, patterns and queries are generated
//! here, tool lists and answers by tests/servers/hostile.py from the same seed. Each finding becomes a case in the test
//! of its topic.

use std::time::{Duration, Instant};

use fastrand::Rng;
use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::{Value, json};

use crate::client::{Fence, Session};
use crate::faulty::python;

/// Default duration.
const SECONDS: u64 = 15;
/// Longest request on any machine: an unbounded one takes forever.
const LONGEST: Duration = Duration::from_secs(90);
/// Longest concurrent request of another client, in an unoptimised build beside other tests.
const LONGEST_BESIDE: Duration = Duration::from_secs(20);
/// Most peak memory of the gateway, in MiB: the formula of docs/operations.md for this configuration.
const MEMORY: usize = 1500;

/// One request.
#[derive(Debug)]
enum Request {
    Tool(&'static str, Value),
    Read(String),
    Prompt(String),
}

/// Fragments that may trouble a parser or matcher.
const PATHS: &[&str] = &[
    "/", "{", "}", ",", "*", "**", "?", "[", "]", "[!", "a-", "\\", "..", "~", "%2e", "hostile", "results", "1/1.json",
    "attack", ".pyi", ".md", "__init__", "forge:///", "resources/", "é", "\u{202e}", "\u{0}", "😀", " ", "{a,b}",
    "[a-z]", ":",
];
const WORDS: &[&str] = &[
    "create", "issue", "hostile", "atack", "x", "xxxxxxxxxxxxxxxx", "é", "語", "-", "_", ".", "\"", "OR", "^2", "~",
    "*", "(", ")", ":", "1e400", "createIssueAndMore", "\u{200b}", " ",
];
const KINDS: &[&str] = &[
    "plain", "zeros", "nested zeros", "keys", "a long text", "deep", "blocks", "errors", "escapes", "braces",
    "raw value", "large notifications", "large junk", "a flood of notes", "a flood of changes", "images",
    "long numbers",
];
const JAVASCRIPT: &[&str] = &[
    "for (let i = 0; i < N; i++) console.log('x'.repeat(i % 100));",
    "const a = []; for (let i = 0; i < N; i++) a.push(hostile.attack({ kind: 'plain' }).catch(() => 0)); await Promise.all(a);",
    "await hostile.attack({ kind: 'KIND' }).catch(() => 0);",
    "await hostile.attack({ kind: 'plain', any: new Array(N).fill('x') }).catch(() => 0);",
    "let v = 0; for (let i = 0; i < N % 4000; i++) v = [v]; await hostile.attack({ kind: 'plain', any: v }).catch(() => 0);",
    "await forge.stash.put('k'.repeat(N), 'x'.repeat(N)).catch(() => 0);",
    "await forge.cat('{'.repeat(N)).catch(() => 0);",
    "await forge.search('x'.repeat(N)).catch(() => 0);",
    "await forge.callTool('chance', 'attack', { kind: 'ANSWER' }).catch(() => 0);",
    "const a = await forge.callTool('chance', 'attack', { kind: 'ANSWER' }).catch(() => 0); return a;",
    "console.log(await forge.callTool('chance', 'attack', { kind: 'ANSWER' }).catch(e => e.message));",
    "await forge.callTool('chance', 'TOOL', ARGUMENTS).catch(() => 0);",
    "await forge.callTool('hostile', 'a'.repeat(N), {}).catch(() => 0);",
    "await forge.callTool('h'.repeat(N), 'a', {}).catch(() => 0);",
    "await hostile.attack({ ['x'.repeat(N)]: 1 }).catch(() => 0);",
    "await forge.readResource('hostile', 'x:' + '/../'.repeat(N)).catch(() => 0);",
    "await forge.parallel(Array.from({ length: N % 500 }, () => () => forge.ls('/hostile')));",
    "throw new Error('x'.repeat(N));",
    "return 'x'.repeat(N);",
    "return Array.from({ length: N }, (_, i) => ({ i, email: `a${i}@example.com` }));",
    "enum E { A = 'xy', B = A + A, C = B + B, D = C + C }\n",
    "type T = { a: Array<Record<string, number>> };\n",
];
/// Arguments valid as JSON, JavaScript and Starlark.
const ARGUMENTS: &[&str] = &[
    "{}",
    "{'a': {'a': {'a': {'b': {'b': {'a': []}}}}}}",
    "{'a': [[[[[[[[[[[[1]]]]]]]]]]]], 'b': ['aaaaaaaaaaaaaaaaaaaaaaaaaaaa!', {'a': 1e300}, -0.0]}",
    "{'b': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', 'a': 'x@y', 'zz': 1}",
    "{'a': [1, 2, 3, 'a', 'b', {'r0': 1, 'r1': 2}, {'r0': 1}], 'b': {'': {'': {'': 0}}}}",
];
const STARLARK: &[&str] = &[
    "[print('x' * (i % 100)) for i in range(N)]",
    "try_call(hostile.attack, kind='KIND')",
    "try_call(hostile.attack, kind='plain', any=['x'] * N)",
    "try_call(hostile.attack, **{'x' * N: 1})",
    "try_call(call_tool, 'chance', 'attack', {'kind': 'ANSWER'})",
    "result = try_call(call_tool, 'chance', 'attack', {'kind': 'ANSWER'})",
    "try_call(call_tool, 'chance', 'TOOL', ARGUMENTS)",
    "try_call(call_tool, 'hostile', 'a' * N)",
    "parallel([defer(hostile.attack, kind='plain') for _ in range(N % 200)])",
    "stash.put('k', 'x' * N)",
    "search('x ' * N)",
    "cat('/hostile/' + '{a,' * (N % 1000) + '}' * (N % 1000))",
    "ls('/' * N)",
    "result = {'a': ['x' * N]}",
    "result = [[i] for i in range(N)]",
    "fail('x' * N)",
];

/// Number of repetitions: mostly small, sometimes excessive.
fn size(rng: &mut Rng) -> usize {
    let most = [10, 300, 5_000, 40_000, 400_000][rng.usize(..5)];
    rng.usize(1..most)
}

fn text(rng: &mut Rng, pieces: &[&str]) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(1..8) {
        let piece = pieces[rng.usize(..pieces.len())];
        let times = if rng.u8(..3) == 0 { size(rng).min((1 << 20) / piece.len()) } else { 1 };
        text.push_str(&piece.repeat(times));
    }
    text
}

fn texts(rng: &mut Rng, pieces: &[&str]) -> Value {
    match rng.u8(..4) {
        0 => (0..rng.usize(1..200)).map(|_| text(rng, pieces)).take_while(|text| text.len() < 10_000).collect(),
        _ => text(rng, pieces).into(),
    }
}

fn script(rng: &mut Rng, lines: &[&str]) -> String {
    let lines = (0..rng.usize(1..4)).map(|_| {
        let kind = KINDS[rng.usize(..KINDS.len())];
        let (tool, answer) = (format!("t{}", rng.u8(..9)), rng.u32(..).to_string());
        let line = lines[rng.usize(..lines.len())].replace("KIND", kind).replace("TOOL", &tool);
        let line = line.replace("ANSWER", &answer).replace("ARGUMENTS", ARGUMENTS[rng.usize(..ARGUMENTS.len())]);
        line.replace('N', &size(rng).to_string())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn request(rng: &mut Rng) -> Request {
    match rng.u8(..16) {
        0 | 1 => Request::Tool("cat", json!({"path": texts(rng, PATHS), "lines": text(rng, &["1", "-", "9", "0"])})),
        2 => Request::Tool("ls", json!({"path": text(rng, PATHS), "depth": rng.u32(..)})),
        3 | 4 => Request::Tool("search", json!({"query": texts(rng, WORDS), "limit": rng.u32(..)})),
        5 => Request::Tool("search", json!({"query": "x", "path": text(rng, PATHS)})),
        6 => Request::Read(text(rng, PATHS)),
        7 => Request::Prompt(text(rng, WORDS)),
        8 => Request::Tool("execute", json!({"language": "starlark", "code": text(rng, STARLARK), "dry_run": true})),
        9..=11 => Request::Tool("execute", json!({"language": "javascript", "code": script(rng, JAVASCRIPT)})),
        12 => {
            let renew = "try_call(call_tool, 'chance', 'renew', {})";
            Request::Tool("execute", json!({ "language": "starlark", "code": renew }))
        }
        13 => {
            let path = ["/chance/**", "/chance/*.pyi", "/chance/resources/*"][rng.usize(..3)];
            Request::Tool("cat", json!({ "path": path }))
        }
        _ => Request::Tool("execute", json!({"language": "starlark", "code": script(rng, STARLARK)})),
    }
}

async fn make(session: &Session, request: &Request) {
    // Any result is fine; it must only end.
    match request {
        Request::Tool(tool, arguments) => drop(session.call(tool, arguments.clone()).await),
        Request::Read(uri) => drop(session.peer().read_resource(ReadResourceRequestParams::new(uri.clone())).await),
        Request::Prompt(name) => drop(session.peer().get_prompt(GetPromptRequestParams::new(name.clone())).await),
    }
}

fn peak(session: &Session) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", session.pid)).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    line.and_then(|kib| kib.parse::<usize>().ok()).map_or(0, |kib| kib >> 10)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Command that repeats a run.
fn again(seed: u64, seconds: u64) -> String {
    format!(
        "again: FORGEFS_ADVERSARIAL_SEED={seed} FORGEFS_ADVERSARIAL_SECONDS={seconds} \
         cargo nextest run --workspace -E 'test(adversarial::)'"
    )
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "a run by chance says how it can be repeated")]
async fn nothing_made_up_by_chance_stops_the_gateway() {
    let seed = number("FORGEFS_ADVERSARIAL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let Some(hostile) = python("hostile", "hostile.py", &["answers"]) else { return };
    let Some(chance) = python("chance", "hostile.py", &["chance", &seed.to_string()]) else { return };
    let (mut rng, seconds) = (Rng::with_seed(seed), number("FORGEFS_ADVERSARIAL_SECONDS").unwrap_or(SECONDS));
    let fence = Fence::new();
    let session = fence.serve(&format!("[sandbox.limits]\ncalls = 500\nwall = \"20s\"\n{hostile}{chance}")).await;
    session.ready(&["hostile"]).await;
    let (started, mut made, mut longest) = (Instant::now(), 0, (Duration::ZERO, String::new()));
    while started.elapsed() < Duration::from_secs(seconds) {
        let request = request(&mut rng);
        let shown: String = format!("{request:?}").chars().take(300).collect();
        let told = || format!("seed {seed}, request {made}: {shown}\n{}\n{}", again(seed, seconds), session.stderr());
        let begun = Instant::now();
        let beside = async {
            loop {
                let asked = Instant::now();
                let listing = session.call("ls", json!({})).await;
                let took = asked.elapsed();
                assert!(!listing.is_error && took < LONGEST_BESIDE, "`ls` took {took:?} beside {}", told());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = beside => {}
            done = tokio::time::timeout(LONGEST, make(&session, &request)) => {
                assert!(done.is_ok(), "no end after {LONGEST:?}: {}", told());
            }
        }
        let took = begun.elapsed();
        if took > longest.0 {
            longest = (took, shown.clone());
        }
        let peak = peak(&session);
        assert!(peak > 0 && peak < MEMORY, "{peak} MiB: {}", told());
        made += 1;
    }
    let log = session.stderr();
    assert!(!log.contains("panicked"), "seed {seed}: {}\n{log}", again(seed, seconds));
    println!("seed {seed}: {made} requests, {} MiB; the longest took {:.1?}: {}", peak(&session), longest.0, longest.1);
    session.close().await;
}

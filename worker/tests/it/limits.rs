//! Scripts that run into a limit of the sandbox, on every engine: what the run says, and whether the worker goes on.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use wire::{Language, Limits, ScriptErrorKind, ToWorker};

use crate::gateway::{Engine, LIMITS, Transcript, Worker, engines};

/// A script that must end in `kind`.
struct Case {
    name: &'static str,
    language: Language,
    script: &'static str,
    limits: Limits,
    kind: ScriptErrorKind,
}

const SMALL_HEAP: Limits = Limits { heap_bytes: 32 << 20, ..LIMITS };
const SHORT: Limits = Limits { cpu_ms: 300, ..LIMITS };

const fn js(name: &'static str, script: &'static str, limits: Limits, kind: ScriptErrorKind) -> Case {
    Case { name, language: Language::Javascript, script, limits, kind }
}

const fn star(name: &'static str, script: &'static str, limits: Limits, kind: ScriptErrorKind) -> Case {
    Case { name, language: Language::Starlark, script, limits, kind }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    js("loop", "for (;;) {}", SHORT, ScriptErrorKind::Cpu),
    js("loop_that_catches", "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }", SHORT, ScriptErrorKind::Cpu),
    js("promise_storm", "const f = () => { Promise.resolve().then(f); }; f(); await new Promise(() => {});", SHORT, ScriptErrorKind::Cpu),
    js("microtask_storm", "const f = () => queueMicrotask(f); f(); await new Promise(() => {});", SHORT, ScriptErrorKind::Cpu),
    js("regex_bomb", "return /^(a+)+$/.test('a'.repeat(40) + 'b');", SHORT, ScriptErrorKind::Cpu),
    js("getter_of_result", "return { get a() { for (;;) {} } };", SHORT, ScriptErrorKind::Cpu),
    js("to_json_of_argument", "await github.echo({ toJSON() { for (;;) {} } });", SHORT, ScriptErrorKind::Cpu),
    js("loop_in_timer", "setTimeout(() => { for (;;) {} }, 1); await new Promise(() => {});", SHORT, ScriptErrorKind::Cpu),
    js("loop_after_call", "await github.echo({}); for (;;) {}", SHORT, ScriptErrorKind::Cpu),
    js("sort_with_loop", "[3, 1, 2].sort(() => { for (;;) {} });", SHORT, ScriptErrorKind::Cpu),
    js("proxy_loop", "const p = new Proxy({}, { get(t, k, r) { return r[k]; } }); p.x;", LIMITS, ScriptErrorKind::Stack),
    js("array_growth", "const a = []; for (;;) a.push({ n: a.length, s: 'x' + a.length });", SMALL_HEAP, ScriptErrorKind::Heap),
    js("array_growth_that_catches",
       "const a = []; for (;;) { try { for (;;) a.push([a.length]); } catch { a.push(1); } }", SMALL_HEAP, ScriptErrorKind::Heap),
    js("string_doubling", "let s = 'ab'; for (let i = 0; i < 29; i++) s += s; return s.length;", LIMITS, ScriptErrorKind::Script),
    js("array_buffer", "return new ArrayBuffer(200 * 1024 * 1024).byteLength;", SMALL_HEAP, ScriptErrorKind::Heap),
    js("many_array_buffers", "const a = []; for (;;) a.push(new Uint8Array(1024 * 1024));", SMALL_HEAP, ScriptErrorKind::Heap),
    js("map_growth", "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });", SMALL_HEAP, ScriptErrorKind::Heap),
    js("closure_growth", "let f = () => 0; const all = []; for (;;) { const g = f; f = () => g; all.push(f, [1, 2, 3]); }", SMALL_HEAP, ScriptErrorKind::Heap),
    js("recursion", "const f = (n) => f(n + 1) + 1; return f(0);", LIMITS, ScriptErrorKind::Stack),
    js("recursion_through_json", "const f = () => JSON.stringify({ toJSON: f }); return f();", LIMITS, ScriptErrorKind::Stack),
    js("stalled", "await new Promise(() => {});", LIMITS, ScriptErrorKind::Stalled),
    js("call_flood", "for (;;) await github.echo({});", LIMITS, ScriptErrorKind::Calls),
    js("discovery_flood", "for (;;) await forge.ls();", LIMITS, ScriptErrorKind::Calls),
    js("big_result", "return 'x'.repeat(2_000_000);", LIMITS, ScriptErrorKind::Result),
    js("bigint_result", "return { a: 10n };", LIMITS, ScriptErrorKind::Result),
    js("nan_result", "return [1, NaN];", LIMITS, ScriptErrorKind::Result),
    js("circular_result", "const a = {}; a.a = a; return a;", LIMITS, ScriptErrorKind::Result),
    js("promise_in_result", "return { issue: github.echo({}) };", LIMITS, ScriptErrorKind::Result),
    js("function_result", "return github.echo;", LIMITS, ScriptErrorKind::Result),

    star("loop", "def f():\n    for i in range(4000000):\n        for j in range(4000000):\n            pass\nf()", SHORT, ScriptErrorKind::Cpu),
    star("top_level_loop", "for i in range(4000000):\n    for j in range(4000000):\n        pass", SHORT, ScriptErrorKind::Cpu),
    star("loop_in_sort", "sorted([3, 1, 2], key = lambda x: [1 for i in range(4000000) for j in range(4000000)])", SHORT, ScriptErrorKind::Cpu),
    star("loop_in_try", "def f():\n    for i in range(4000000):\n        for j in range(4000000):\n            pass\ntry_call(f)\n1", SHORT, ScriptErrorKind::Cpu),
    star("list_growth", "def f():\n    a = []\n    for i in range(4000000):\n        a.append([i, str(i)])\nf()", SMALL_HEAP, ScriptErrorKind::Heap),
    star("string_doubling", "s = 'ab'\nfor i in range(60):\n    s = s + s", SMALL_HEAP, ScriptErrorKind::Heap),
    star("string_doubling_in_place", "s = 'ab'\nfor i in range(60):\n    s += s", SMALL_HEAP, ScriptErrorKind::Heap),
    star("list_doubling", "s = [1]\nfor i in range(60):\n    s = s + s", SMALL_HEAP, ScriptErrorKind::Heap),
    star("string_times", "s = 'a' * 2000000000", SMALL_HEAP, ScriptErrorKind::Script),
    star("list_times", "s = [0] * 2000000000", SMALL_HEAP, ScriptErrorKind::Script),
    star("times_string", "s = 2000000000 * 'a'", SMALL_HEAP, ScriptErrorKind::Script),
    star("long_range", "list(range(2000000000))", SMALL_HEAP, ScriptErrorKind::Script),
    star("recursion", "def f(n):\n    return f(n + 1) + 1\nf(0)", LIMITS, ScriptErrorKind::Stack),
    star("call_flood", "for i in range(1000):\n    github.echo()", LIMITS, ScriptErrorKind::Calls),
    star("discovery_flood", "for i in range(100000):\n    ls()", LIMITS, ScriptErrorKind::Calls),
    star("big_result", "'x' * 2000000", LIMITS, ScriptErrorKind::Result),
    star("shared_result", "a = [1]\nfor i in range(60):\n    a = [a, a]\na", LIMITS, ScriptErrorKind::Result),
    star("circular_result", "a = []\na.append(a)\na", LIMITS, ScriptErrorKind::Result),
    star("function_result", "def f():\n    pass\nf", LIMITS, ScriptErrorKind::Result),
    star("infinite_result", "[1.0, float('inf')]", LIMITS, ScriptErrorKind::Result),
    star("huge_json_number", "json.decode('1e400')", LIMITS, ScriptErrorKind::Script),
    star("deep_json", "json.decode('[' * 100000)", LIMITS, ScriptErrorKind::Script),
];

/// Scripts whose one step needs more memory or time than there is, in a native that cannot be stopped. The run says so;
/// the process may end with it.
#[rustfmt::skip]
const FATAL: &[Case] = &[
    js("split", "return 'ab'.repeat(2 ** 24).split('').length;", SMALL_HEAP, ScriptErrorKind::Heap),
    js("repeat", "return 'ab'.repeat(2 ** 26).replaceAll('a', 'bcd').length;", SMALL_HEAP, ScriptErrorKind::Heap),
    js("array_fill", "return new Array(2 ** 27).fill(1).map((x) => [x]).length;", SMALL_HEAP, ScriptErrorKind::Heap),
    js("array_join", "return new Array(2 ** 25).fill('abcdefgh').join('xxxxxxxx').length;", SMALL_HEAP, ScriptErrorKind::Heap),
    js("native_loop", "return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);", SHORT, ScriptErrorKind::Cpu),
    js("native_sparse_loop", "return new Array(2 ** 32 - 1).lastIndexOf(1);", SHORT, ScriptErrorKind::Cpu),
    star("native_hash", "t = (1,)\nfor i in range(60):\n    t = (t, t)\nd = {t: 1}", SHORT, ScriptErrorKind::Cpu),
    star("native_equals", "t = [1]\nu = [1]\nfor i in range(60):\n    t = [t, t]\n    u = [u, u]\nt == u", SHORT, ScriptErrorKind::Cpu),
    star("replace", "s = 'a' * 20000000\nt = s.replace('a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' * 1000)", SMALL_HEAP, ScriptErrorKind::Heap),
    star("join", "s = 'a' * 10000000\nt = s.join(['x'] * 1000000)", SMALL_HEAP, ScriptErrorKind::Heap),
    star("format", "s = 'a' * 10000000\nt = ('{0}' * 10000).format(s)", SMALL_HEAP, ScriptErrorKind::Heap),
    star("times_in_place", "s = 'a'\ns *= 2000000000", SMALL_HEAP, ScriptErrorKind::Heap),
    star("shared_str", "a = [1]\nfor i in range(60):\n    a = [a, a]\nstr(a)", SMALL_HEAP, ScriptErrorKind::Heap),
    star("dict_growth", "def f():\n    d = {}\n    for i in range(4000000):\n        d[i] = i\nf()", SMALL_HEAP, ScriptErrorKind::Heap),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines() {
        for case in CASES.iter().filter(|case| case.language == engine.language) {
            trials.push(Trial::test(format!("limit::{}::{}", case.name, engine.name), move || survives(engine, case)));
        }
        for case in FATAL.iter().filter(|case| case.language == engine.language) {
            trials.push(Trial::test(format!("limit::fatal_{}::{}", case.name, engine.name), move || {
                is_told(engine, case)
            }));
        }
        trials.push(Trial::test(format!("limit::output::{}", engine.name), move || output(engine)));
    }
    for (name, bytes) in
        [("not_json", &b"\x03\0\0\0abc"[..]), ("too_long", b"\xff\xff\xff\xff"), ("wrong_type", b"\x02\0\0\0{}")]
    {
        trials.push(Trial::test(format!("frame::{name}"), move || refuses(bytes)));
    }
    trials.push(Trial::test("frame::end_of_stdin", || exits(Worker::start(engines()[0]).close().code(), 0)));
    trials.push(Trial::test("frame::reply_to_no_call", reply_to_no_call));
    for engine in engines() {
        trials.push(Trial::test(format!("frame::end_of_stdin_in_a_loop::{}", engine.name), move || {
            ends_in_a_loop(engine)
        }));
        trials.push(Trial::test(format!("limit::largest_answer::{}", engine.name), move || largest_answer(engine)));
    }
    trials
}

fn survives(engine: Engine, case: &Case) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    is_kind(&worker.run(case.script, case.limits), case)?;
    works(&mut worker)
}

fn is_told(engine: Engine, case: &Case) -> Result<(), Failed> {
    let transcript = Worker::start(engine).run(case.script, case.limits);
    match &transcript.done.result {
        // On a slow machine time can run out before memory does.
        Err(error) if error.kind == ScriptErrorKind::Cpu => Ok(()),
        _ => is_kind(&transcript, case),
    }
}

fn is_kind(transcript: &Transcript, case: &Case) -> Result<(), Failed> {
    match &transcript.done.result {
        Err(error) if error.kind == case.kind && !error.message.is_empty() => Ok(()),
        other => Err(format!("expected {:?}, got {other:?} in {:?}", case.kind, transcript.took).into()),
    }
}

fn works(worker: &mut Worker) -> Result<(), Failed> {
    let script =
        if worker.language() == Language::Starlark { "github.echo(a = 1)" } else { "return github.echo({ a: 1 })" };
    match worker.run(script, LIMITS).done.result {
        Ok(value) if value.get() == r#"{"a":1}"# => Ok(()),
        other => Err(format!("the next run: {other:?}").into()),
    }
}

fn output(engine: Engine) -> Result<(), Failed> {
    let script = match engine.language {
        Language::Javascript => "for (let i = 0; i < 10000; i++) console.log('x'.repeat(100));",
        Language::Starlark => "for i in range(10000):\n    print('x' * 100)",
    };
    let transcript = Worker::start(engine).run(script, LIMITS);
    let bytes: usize = transcript.output.iter().map(|(_, text)| text.len()).sum();
    let said: Vec<_> = transcript.output.iter().filter(|(_, text)| text.contains("over the limit")).collect();
    if transcript.done.result.is_ok() && bytes < 66 << 10 && bytes > 60 << 10 && said.len() == 1 {
        return Ok(());
    }
    Err(format!("{bytes} bytes, said {said:?}, {:?}", transcript.done).into())
}

/// A gateway that is gone takes its workers with it, whatever they are doing.
fn ends_in_a_loop(engine: Engine) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    worker.start_code(match engine.language {
        Language::Javascript => "export default async () => { for (;;); }".to_owned(),
        Language::Starlark => {
            "def f():\n    for i in range(8000000):\n        for j in range(8000000):\n            pass\nf()".to_owned()
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    exits(worker.close().code(), 0)
}

/// What the gateway lets through at most as text, and many small values, which take an engine ten times their text.
fn largest_answer(engine: Engine) -> Result<(), Failed> {
    let (text, rows) = match engine.language {
        Language::Javascript => (
            "return (await github.big({ bytes: 10 * 1024 * 1024 })).length",
            "return (await github.rows({ count: 50000 })).filter((row) => row.id > 49998)[0].name",
        ),
        Language::Starlark => (
            "len(github.big(bytes = 10 * 1024 * 1024))",
            "[row for row in github.rows(count = 50000) if row[\"id\"] > 49998][0][\"name\"]",
        ),
    };
    let mut worker = Worker::start(engine);
    let answers = [worker.run(text, LIMITS).done.result, worker.run(rows, LIMITS).done.result];
    match &answers {
        [Ok(length), Ok(name)] if length.get() == "10485760" && name.get() == "\"row 49999\"" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn refuses(bytes: &[u8]) -> Result<(), Failed> {
    exits(Worker::start(engines()[0]).send_raw(bytes).code(), 3)
}

fn reply_to_no_call() -> Result<(), Failed> {
    let mut worker = Worker::start(engines()[0]);
    let reply = r#"{"Reply":{"run":1,"call":7,"outcome":{"Ok":1}}}"#;
    let frame: ToWorker = serde_json::from_str(reply)?;
    // Before the run such a reply is late; within the run it is a lie.
    worker.send(&frame);
    works(&mut worker)?;
    let code = match engines()[0].language {
        Language::Javascript => "export default async () => { await new Promise((done) => setTimeout(done, 5000)); }",
        Language::Starlark => "1",
    };
    worker.start_code(code.to_owned());
    let frame: ToWorker = serde_json::from_str(&reply.replace("\"run\":1", "\"run\":2"))?;
    worker.send(&frame);
    exits(worker.wait().code(), 3)
}

fn exits(code: Option<i32>, expected: i32) -> Result<(), Failed> {
    if code == Some(expected) { Ok(()) } else { Err(format!("exit code {code:?}").into()) }
}

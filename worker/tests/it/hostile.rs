//! Code of hostile shapes, ordinary code, and leftovers of runs.

use libtest_mimic::{Failed, Trial};
use wire::Language;

use crate::gateway::{Engine, LIMITS, Worker, engines};

/// Deeply nested code: refused or run, but never the end of the worker.
#[rustfmt::skip]
fn shapes(language: Language) -> Vec<(&'static str, String)> {
    let around = |open: &str, middle: &str, close: &str, n: usize| format!("{}{middle}{}", open.repeat(n), close.repeat(n));
    let mut shapes = vec![
        ("parentheses", around("(", "1", ")", 30_000)),
        ("brackets", around("[", "", "]", 30_000)),
        ("brackets_unclosed", "[".repeat(60_000)),
        ("calls", around("f(", "1", ")", 20_000)),
        ("braces", around("{1:", "1", "}", 15_000)),
        ("additions", format!("1{}", "+1".repeat(30_000))),
        ("attributes", format!("x{}", ".y".repeat(30_000))),
        ("indexing", format!("x{}", "[0]".repeat(20_000))),
        ("minuses", format!("{}1", "- ".repeat(30_000))),
        ("call_chain", format!("x{}", "()".repeat(30_000))),
        ("nul", "1\0 + 2".to_owned()),
        ("bidi", "1 \u{202e}+ 2".to_owned()),
        ("long_line", format!("\"{}\"", "x".repeat(64_000))),
    ];
    match language {
        Language::Javascript => shapes.extend([
            ("templates", around("`${", "1", "}`", 15_000)),
            ("arrows", format!("{}1", "()=>".repeat(15_000))),
            ("awaits", format!("{}1", "await ".repeat(10_000))),
            ("optional_chain", format!("x{}", "?.y".repeat(20_000))),
            ("ternaries", format!("{}0", "1?1:".repeat(15_000))),
            ("exponents", format!("1{}", "**1".repeat(20_000))),
            ("blocks", around("{", "", "}", 30_000)),
            ("functions", around("function f(){", "", "}", 4_000)),
            ("classes", around("(class{a(){", "", "}})", 5_000)),
            ("destructuring", format!("let {} = 1", around("[", "a", "]", 20_000))),
            ("regex", format!("/{}/", around("(", "a", ")", 30_000))),
            ("regex_classes", format!("/{}/v", around("[", "a", "]", 30_000))),
        ]),
        Language::Starlark => shapes.extend([
            ("nots", format!("{}True", "not ".repeat(15_000))),
            ("lambdas", format!("{}1", "lambda:".repeat(9_000))),
            ("ternaries", format!("{}0", "1 if True else ".repeat(4_000))),
            ("ifs", (0..300).map(|n| format!("{}if True:\n", " ".repeat(n))).collect::<String>() + &" ".repeat(300) + "pass"),
            ("comprehension", format!("[1 {}]", "for x in [1] ".repeat(4_000))),
            ("elifs", format!("if False:\n  pass\n{}", "elif False:\n  pass\n".repeat(3_000))),
            ("comparisons", format!("1{}", " == 1".repeat(12_000))),
            ("ors", format!("1{}", " or 1".repeat(12_000))),
            ("f_string", format!("f'{{{}1{}}}'", "(".repeat(20_000), ")".repeat(20_000))),
            ("strings", format!("f\"{}\"", "{x}".repeat(20_000))),
        ]),
    }
    shapes
}

/// Ordinary code that frozen intrinsics must not break.
#[rustfmt::skip]
const JAVASCRIPT: &[(&str, &str)] = &[
    ("error_class", "class E extends Error { constructor(m) { super(m); this.name = 'E'; this.message = m + '!'; } } const e = new E('x'); return e.name === 'E' && e.message === 'x!' && e instanceof Error;"),
    ("word_count", "const c = {}; for (const w of ['constructor', 'toString', 'constructor']) c[w] = (Object.hasOwn(c, w) ? c[w] : 0) + 1; return c.constructor === 2 && c.toString === 1;"),
    ("own_to_string", "const o = {}; o.toString = () => 'mine'; o.valueOf = () => 1; return `${o}` === 'mine' && o + 0 === 1;"),
    ("class_to_string", "class A { toString() { return 'a'; } } return `${new A()}` === 'a';"),
    ("prototype_style", "function A() {} A.prototype.constructor = A; A.prototype.toString = function () { return 'p'; }; return String(new A()) === 'p';"),
    ("new_global", "globalThis.mine = 1; return mine === 1;"),
    ("array_class", "class L extends Array { last() { return this[this.length - 1]; } } return L.from([1, 2]).last() === 2;"),
    ("dates", "return new Date(0).toISOString() === '1970-01-01T00:00:00.000Z' && new Date(2020, 0, 1).getTimezoneOffset() === 0;"),
    ("generators", "function* g() { yield* [1, 2]; } return [...g()].length === 2;"),
    ("async_iteration", "async function* g() { yield 1; yield 2; } let s = 0; for await (const x of g()) s += x; return s === 3;"),
    ("promises", "const r = await Promise.allSettled([github.echo({ a: 1 }), github.fail({})]); return r[0].value.a === 1 && r[1].reason.code === 'TOOL_ERROR';"),
    ("promise_all", "const r = await Promise.all([1, 2].map((n) => github.echo({ n }))); return r[1].n === 2;"),
    ("timers", "let t = 0; const id = setTimeout(() => { t += 10; }, 1); clearTimeout(id); setTimeout((n) => { t += n; }, 1, 5); await new Promise((r) => setTimeout(r, 20)); return t === 5;"),
    ("microtask", "let t = 0; queueMicrotask(() => { t = 1; }); await null; await null; return t === 1;"),
    ("regex", "return 'a1b22'.match(/\\d+/g).join() === '1,22' && /(?<y>\\d{4})/.exec('in 2024').groups.y === '2024';"),
    ("new_methods", "return Object.groupBy([1, 2, 3], (n) => n % 2 ? 'odd' : 'even').odd.length === 2 && [3, 1].toSorted()[0] === 1 && [1].at(-1) === 1;"),
    ("big_int", "return 2n ** 64n === 18446744073709551616n;"),
    ("structured", "return new Map([[1, { a: new Set([1]) }]]).get(1).a.has(1);"),
    ("label_and_switch", "outer: for (const a of [1, 2]) { switch (a) { case 2: break outer; default: continue; } } return true;"),
    ("manifest", "const a = await manifest.servers(); const b = await manifest.servers; return a[0].name === 'github' && b[0].name === 'github';"),
    ("search_as_data", "return (await manifest.search('x'))[0].tool === 'x' && (await manifest.tool('github', 'echo')).name === 'echo';"),
    ("await_namespace", "const g = await github; return typeof g.echo === 'function';"),
    ("namespace_as_text", "return `${github.issues}` === '[forge github.issues]' && JSON.stringify({ github }) !== undefined;"),
    ("forge_error_of_script", "try { throw new ForgeError('MINE', 'm', { retryable: true }); } catch (e) { return e.code === 'MINE' && e.retryable && e.name === 'ForgeError'; }"),
    ("error_as_json", "const e = await github.fail({}).catch((e) => e); return JSON.parse(JSON.stringify({ e })).e.code === 'TOOL_ERROR';"),
    ("undefined_fields", "return JSON.stringify(await github.echo({ a: undefined, b: null })) === '{\"b\":null}';"),
    ("lone_surrogate", "const r = await github.echo({ t: 'a\\ud800b' }); console.log('\\ud800'); return r.t === 'a\\ufffdb';"),
    ("fail_fast", "const r = await forge.parallel([() => github.fail({}), () => github.sleep({ ms: 20 }), () => github.echo({})], { concurrency: 1, failFast: true }); return r.aborted && r.results[2] === null && r.errors.length === 1;"),
    ("getter_argument", "return (await github.echo({ get a() { return 1; } })).a === 1;"),
    ("date_argument", "return (await github.echo({ at: new Date(0) })).at === '1970-01-01T00:00:00.000Z';"),
];

/// Ordinary Starlark.
#[rustfmt::skip]
const STARLARK: &[(&str, &str, &str)] = &[
    ("result_wins", "result = 1\ndef main():\n    return 2\n3", "1"),
    ("main_is_called", "def main():\n    return 2\nx = 1", "2"),
    ("main_is_called_once", "def main():\n    print('once')\n    return 2\nmain()", "2"),
    ("main_called_inside", "def main():\n    return 2\nx = main()\nx + 1", "3"),
    ("last_expression", "x = 1\nx + 1", "2"),
    ("f_string", "x = 5\nf'{x} and {x}'", "\"5 and 5\""),
    ("big_int", "json.decode('123456789012345678901234567890') + 1", "123456789012345678901234567891"),
    ("big_int_from_tool", "github.raw(json = '[9007199254740993]')[0]", "9007199254740993"),
    ("floats", "[1.5, 2.0, 1e21, 10 / 4]", "[1.5,2.0,1e+21,2.5]"),
    ("int_keys", "{1: 'a', True: 'b', None: 'c'}", "{\"1\":\"a\",\"true\":\"b\",\"null\":\"c\"}"),
    ("struct_result", "struct(a = 1, b = [set([1])])", "{\"a\":1,\"b\":[[1]]}"),
    ("multiplication", "[2 * 3, 2.5 * 2, 'ab' * 2, 2 * 'ab', [1] * 2, (1,) * 2, -1 * 'x']", "[6,5.0,\"abab\",\"abab\",[1,1],[1,1],\"\"]"),
    ("ranges", "[list(range(3)), list(range(1, 3)), list(range(5, 0, -2)), list(range(-3))]", "[[0,1,2],[1,2],[5,3,1],[]]"),
    ("json_module", "[json.decode(json.encode({'a': [1, None, True]})), json.loads('{}'), json.dumps([1.0])]", "[{\"a\":[1,null,true]},{},\"[1.0]\"]"),
    ("types_are_not_enforced", "def f(x: int, y: str = 'a') -> str:\n    return x\nf('not an int')", "\"not an int\""),
    ("keyword_only", "def f(a, *, b = 2):\n    return a + b\nf(1, b = 3)", "4"),
    ("none_is_passed", "github.echo(a = None, from_ = 1)", "{\"a\":null,\"from_\":1}"),
    ("defer_of_function", "def f(n):\n    return github.echo(n = n)['n'] + github.echo(n = 1)['n']\n[r.value for r in parallel([defer(f, 1), defer(f, n = 2)])]", "[2,3]"),
    ("parallel_of_tools", "[r.value for r in parallel([github.echo, my_server.echo])]", "[{},{}]"),
    ("parallel_in_parallel", "[[r.value for r in r.value] for r in parallel([defer(parallel, [defer(github.echo, a = 1)])])]", "[[{\"a\":1}]]"),
    ("map_in_parallel", "[r.value for r in parallel([defer(map, lambda n: github.echo(n = n)[\"n\"], [1, 2])])]", "[[1,2]]"),
    ("try_in_parallel", "[r.value.ok for r in parallel([defer(try_call, github.fail), defer(try_call, github.echo)])]", "[false,true]"),
    ("defer_of_lambda", "[r.value for r in parallel([lambda: 1, defer(lambda x: x, x = 2)])]", "[1,2]"),
    ("defer_of_partial", "[r.value for r in parallel([defer(partial(github.echo, a = 1), b = 2)])]", "[{\"a\":1,\"b\":2}]"),
    ("try_of_fail", "r = try_call(lambda: fail('no'))\n[r.ok, r.value, r.error.code, r.error.message]", "[false,null,\"SCRIPT_ERROR\",\"fail: no\"]"),
    ("fail_of_float", "try_call(fail, 'total', 1234567.891, ['a']).error.message", "\"fail: total 1234567.891 [\\\"a\\\"]\""),
    ("fail_of_nothing", "try_call(fail).error.message", "\"fail:\""),
    ("try_of_success", "r = try_call(github.echo, a = 1)\n[r.ok, r.value, r.error]", "[true,{\"a\":1},null]"),
    ("try_keeps_data", "try_call(github.fail).error.data['detail']", "[1,2]"),
    ("shadowed_range", "def f():\n    range = 1\n    return range\nf()", "1"),
    ("server_name_reused", "github = 5\ngithub", "5"),
    ("existing_name_kept", "def f():\n    print('x')\n    return type(json)\nf()", "\"namespace\""),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines() {
        for (name, body) in shapes(engine.language) {
            trials.push(Trial::test(format!("shape::{name}::{}", engine.name), move || survives(engine, &body)));
        }
        trials.push(Trial::test(format!("cost::parallel::{}", engine.name), move || parallel(engine)));
        trials.push(Trial::test(format!("state::is_stable::{}", engine.name), move || is_stable(engine)));
        trials.push(Trial::test(format!("state::is_not_shared::{}", engine.name), move || shares_nothing(engine)));
        if engine.language == Language::Starlark {
            // Every call is waited for: there is no late reply.
            for (name, script, value) in STARLARK {
                trials.push(Trial::test(format!("ordinary::{name}::starlark"), move || answers(engine, script, value)));
            }
        } else {
            trials.push(Trial::test(format!("state::late_reply::{}", engine.name), move || late_reply(engine)));
            for (name, script) in JAVASCRIPT {
                let name = format!("ordinary::{name}::{}", engine.name);
                trials.push(Trial::test(name, move || answers(engine, script, "true")));
            }
        }
    }
    trials
}

fn two(engine: Engine) -> &'static str {
    if engine.language == Language::Starlark { "1 + 1" } else { "return 1 + 1" }
}

fn survives(engine: Engine, body: &str) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    let _ = worker.run(body, LIMITS);
    match worker.run(two(engine), LIMITS).done.result {
        Ok(value) if value.get() == "2" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn answers(engine: Engine, script: &str, expected: &str) -> Result<(), Failed> {
    let transcript = Worker::start(engine).run(script, LIMITS);
    match transcript.done.result {
        Ok(value) if value.get() == expected && transcript.output.len() < 2 => Ok(()),
        other => Err(format!("{other:?}, output {:?}", transcript.output).into()),
    }
}

/// Eight calls, all without an answer at once.
fn parallel(engine: Engine) -> Result<(), Failed> {
    let script = match engine.language {
        Language::Javascript => {
            "return (await forge.parallel(Array.from({ length: 8 }, () => () => github.sleep({ ms: 1000 })))).results.length"
        }
        Language::Starlark => "len(parallel([defer(github.sleep, ms = 1000) for i in range(8)]))",
    };
    let transcript = Worker::start(engine).run(script, LIMITS);
    match transcript.done.result {
        Ok(value) if value.get() == "8" && transcript.most_open == 8 => Ok(()),
        other => Err(format!("{other:?}, {} open at once", transcript.most_open).into()),
    }
}

fn shares_nothing(engine: Engine) -> Result<(), Failed> {
    let (first, second, left) = match engine.language {
        Language::Javascript => (
            "globalThis.left = 1; try { Object.prototype.constructor.left = 1 } catch {} github.sleep({ ms: 50 }); return 1",
            "return [typeof left, Object.left === undefined]",
            r#"["undefined",true]"#,
        ),
        Language::Starlark => ("left = 1\nleft", "left", "Variable `left` not found"),
    };
    let mut worker = Worker::start(engine);
    match worker.run(first, LIMITS).done.result {
        Ok(value) if value.get() == "1" => {}
        other => return Err(format!("the first run: {other:?}").into()),
    }
    match worker.run(second, LIMITS).done.result {
        Ok(value) if value.get() == left => Ok(()),
        Err(error) if engine.language == Language::Starlark && error.message.contains(left) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// The reply to a call that was not awaited arrives during the next run.
fn late_reply(engine: Engine) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    let transcript = worker.run("github.sleep({ ms: 30 }); github.sleep({ ms: 30 }); return 1", LIMITS);
    if transcript.output.len() != 1 || !transcript.output[0].1.contains("2 calls were not awaited") {
        return Err(format!("{transcript:?}").into());
    }
    match worker
        .run("await new Promise((r) => setTimeout(r, 60)); return (await github.echo({ a: 1 })).a", LIMITS)
        .done
        .result
    {
        Ok(value) if value.get() == "1" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Two thousand runs of all kinds in one process leave nothing behind.
#[expect(clippy::print_stderr, reason = "figures that a reader wants")]
fn is_stable(engine: Engine) -> Result<(), Failed> {
    let scripts = match engine.language {
        Language::Javascript => [
            "return 1",
            "return await github.echo({ a: 'x'.repeat(1000) })",
            "throw new Error('x')",
            "console.log('x'); github.sleep({ ms: 0 }); setTimeout(() => {}, 1000); return new Array(10000).fill('x').length",
            "const a = []; for (let i = 0; i < 1000; i++) a.push(() => a); new ArrayBuffer(1 << 20); Promise.reject(a)",
        ],
        Language::Starlark => [
            "1",
            "github.echo(a = 'x' * 1000)",
            "fail('x')",
            "print('x')\nlen(['x'] * 10000)",
            "a = []\n[a.append(lambda: a) for i in range(1000)]\nparallel([github.echo, github.fail])",
        ],
    };
    let mut worker = Worker::start(engine);
    let mut run = |times: usize| {
        for script in scripts.iter().cycle().take(times) {
            worker.run(script, LIMITS);
        }
        (worker.resident_bytes().unwrap_or(0), worker.descriptors())
    };
    let (early, late) = (run(500), run(1500));
    eprintln!("{}: bytes and descriptors after 500 runs {early:?}, after 2000 {late:?}", engine.name);
    if late.0 < early.0 + (8 << 20) && late.1 == early.1 {
        return Ok(());
    }
    Err(format!("after 500 runs {early:?}, after 2000 {late:?}").into())
}

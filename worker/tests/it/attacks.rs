//! Scripts that try to get out of JavaScript's realm or at what the prelude holds. Each answers what it got hold of;
//! the run passes only if that is nothing.

use libtest_mimic::{Failed, Trial};
use wire::Language;

use crate::gateway::{Engine, LIMITS, Worker, engines};

/// A script answers `true`, or fails in any way, if the attack worked out for it as stated: `true` means "got it".
#[rustfmt::skip]
const ATTACKS: &[(&str, &str)] = &[
    // Code from strings.
    ("eval", "return eval('1 + 1') === 2;"),
    ("indirect_eval", "return (0, globalThis['ev' + 'al'])('1 + 1') === 2;"),
    ("function", "return new Function('return 1')() === 1;"),
    ("function_by_constructor", "return (() => {}).constructor('return 1')() === 1;"),
    ("async_function", "return await (async () => {}).constructor('return 1')() === 1;"),
    ("generator_function", "return (function* () {}).constructor('yield 1')().next().value === 1;"),
    ("async_generator_function", "return (await (async function* () {}).constructor('yield 1')().next()).value === 1;"),
    ("constructor_of_class", "return (class {}).constructor('return 1')() === 1;"),
    ("constructor_of_method", "return ({ m() {} }).m.constructor('return 1')() === 1;"),
    ("constructor_of_native", "return [].map.constructor('return 1')() === 1;"),
    ("constructor_of_api", "return forge.callTool.constructor('return 1')() === 1;"),
    ("constructor_of_console", "return console.log.constructor('return 1')() === 1;"),
    ("reflect_construct", "return Reflect.construct(Function, ['return 1'])() === 1;"),
    ("reflect_apply", "return Reflect.apply(Function, null, ['return 1'])() === 1;"),
    ("bound_function_constructor", "return Function.bind(null, 'return 1')()() === 1;"),
    ("timer_with_text", "setTimeout('globalThis.got = 1', 0); await new Promise((r) => setTimeout(r, 5)); return globalThis.got === 1;"),
    ("tagged_template_constructor", "const t = (s) => s.constructor.constructor; return t`x`('return 1')() === 1;"),
    ("symbol_species", "class E extends Array { static get [Symbol.species]() { return Function; } } return typeof E.from(['return 1']).map((x) => x) === 'function';"),
    ("proxy_of_function", "return new Proxy(Function, {})('return 1')() === 1;"),
    ("replace_with_function", "return 'return 1'.replace(/.*/s, Function)() === 1;"),
    ("array_from_function", "return typeof Array.from.call(Function, ['return 1']) === 'function' && Array.from.call(Function, [])() === 1;"),
    ("json_reviver_constructor", "return JSON.parse('1', function () { return this.constructor.constructor('return 1')(); }) === 1;"),
    ("dynamic_import", "return !!(await import('data:text/javascript,export default 1'));"),
    ("dynamic_import_of_prelude", "return !!(await import('forge:prelude'));"),
    ("dynamic_import_of_itself", "return !!(await import('script.js'));"),
    // Ways out that other hosts have.
    ("deno", "return typeof Deno !== 'undefined' || '__bootstrap' in globalThis;"),
    ("node", "return typeof process !== 'undefined' || typeof require !== 'undefined' || typeof module !== 'undefined';"),
    ("quickjs_std", "return typeof std !== 'undefined' || typeof os !== 'undefined' || typeof scriptArgs !== 'undefined';"),
    ("shell", "return ['load', 'read', 'print', 'quit', 'version', 'gc', 'arguments'].some((k) => k in globalThis);"),
    ("webassembly", "return typeof WebAssembly !== 'undefined';"),
    ("shared_memory", "return typeof SharedArrayBuffer !== 'undefined' || typeof Atomics !== 'undefined';"),
    ("worker_thread", "return typeof Worker !== 'undefined';"),
    ("network", "return ['fetch', 'XMLHttpRequest', 'WebSocket'].some((k) => k in globalThis);"),
    ("intrinsics", "try { return %GetOptimizationStatus(() => {}) !== undefined } catch { return false }"),
    ("garbage_collection", "return typeof WeakRef !== 'undefined' || typeof FinalizationRegistry !== 'undefined';"),
    // The prelude's closures.
    ("caller", "return forge.callTool.caller !== null && forge.callTool.caller !== undefined;"),
    ("arguments_callee", "return (function () { return arguments.callee; })() !== undefined;"),
    ("prepare_stack_trace", "Error.prepareStackTrace = (e, sites) => sites; return Array.isArray(new Error('x').stack);"),
    ("stack_sites", "try { await github.fail({}); } catch (e) { return /forge:prelude/.test(e.stack); }"),
    ("host_paths_in_errors", "try { null.x; } catch (e) { return /\\.rs|\\/home|\\/usr|\\/work|file:/.test(e.stack + e.message); }"),
    ("prelude_source", "return String(forge.callTool).includes('host.send') || String(forge.parallel).includes('pending');"),
    ("then_of_promise", "let got = 0; try { Promise.prototype.then = function () { got++; }; } catch {} await github.echo({}); return got > 0;"),
    ("resolve_of_promise", "let got = 0; try { Promise.resolve = () => { got++; }; } catch {} await forge.parallel([() => 1]); return got > 0;"),
    ("json_stringify", "let got; try { JSON.stringify = (v) => { got = v; return '{}'; }; } catch {} await github.echo({ a: 1 }); return got !== undefined;"),
    ("json_parse", "let got; try { JSON.parse = (v) => { got = v; return {}; }; } catch {} await github.echo({ a: 1 }); return got !== undefined;"),
    ("to_json_of_object", "try { Object.prototype.toJSON = () => ({ forged: 1 }); } catch {} return 'forged' in await github.echo({});"),
    ("to_json_of_string", "try { String.prototype.toJSON = () => 'forged'; } catch {} return (await github.echo({ a: 'x' })).a === 'forged';"),
    ("map_get", "let got = 0; try { Map.prototype.get = () => { got++; }; } catch {} await github.echo({}); return got > 0;"),
    ("weak_map_get", "let got = 0; try { WeakMap.prototype.get = () => { got++; }; } catch {} await github.fail({}).catch(() => {}); return got > 0;"),
    ("array_iterator", "let got = 0; try { Array.prototype[Symbol.iterator] = function* () { got++; }; } catch {} await github.echo({}); return got > 0;"),
    ("array_push", "let got = 0; try { Array.prototype.push = () => { got++; }; } catch {} console.log(1); return got > 0;"),
    ("function_call", "let got = 0; try { Function.prototype.call = () => { got++; }; Function.prototype.apply = () => { got++; }; } catch {} await github.echo({}); return got > 0;"),
    ("setter_of_object_prototype", "let got; try { Object.defineProperty(Object.prototype, 'resolve', { set(v) { got = v; } }); } catch {} await github.echo({}); return got !== undefined;"),
    ("index_setter", "let got; try { Object.defineProperty(Array.prototype, '0', { set(v) { got = v; } }); } catch {} console.log('x'); await github.echo({}); return got !== undefined;"),
    ("instance_of", "try { Object.defineProperty(Promise, Symbol.hasInstance, { value: () => true }); } catch {} await github.echo({ a: {} }); return Object.hasOwn(Promise, Symbol.hasInstance);"),
    ("proto_of_result", "const r = await github.raw({ json: '{\"__proto__\": {\"polluted\": 1}}' }); return ({}).polluted === 1 || r.polluted === 1;"),
    ("constructor_of_result", "const r = await github.raw({ json: '{\"constructor\": {\"prototype\": {\"polluted\": 1}}}' }); Object.assign({}, r); return ({}).polluted === 1;"),
    ("deliver", "return ['deliver', 'run', 'fire', 'expose', 'describe', 'lock', 'host', 'settle', 'send'].some((k) => k in globalThis);"),
    ("forged_settle", "globalThis.settle?.(true, '\"forged\"'); globalThis.host?.settle(true, '1'); return false;"),
    // What the script was given cannot be changed for others.
    ("replace_forge", "try { globalThis.forge = 1; } catch {} return forge === 1;"),
    ("redefine_forge", "try { Object.defineProperty(globalThis, 'forge', { value: 1 }); } catch {} return forge === 1;"),
    ("delete_forge", "try { delete globalThis.forge; } catch {} return typeof forge === 'undefined';"),
    ("change_forge", "try { forge.callTool = 1; } catch {} return forge.callTool === 1;"),
    ("change_stash", "try { forge.stash.put = 1; } catch {} return forge.stash.put === 1;"),
    ("change_console", "try { console.log = 1; } catch {} return console.log === 1;"),
    ("change_error_class", "try { ForgeError.prototype.toJSON = 1; } catch {} return ForgeError.prototype.toJSON === 1;"),
    ("change_namespace", "try { github.echo = 1; } catch {} return github.echo === 1;"),
    ("define_on_namespace", "try { Object.defineProperty(github, 'echo', { value: 1 }); } catch {} return github.echo === 1;"),
    ("proto_of_namespace", "return Object.getPrototypeOf(github) !== null || Reflect.ownKeys(github).length > 0;"),
    ("set_proto_of_namespace", "try { Object.setPrototypeOf(github, { evil: 1 }); } catch {} return github.evil === 1;"),
    ("server_over_global", "return typeof console.log !== 'function';"),
    ("freeze_is_deep", "return !Object.isFrozen(Object.prototype) || !Object.isFrozen(Array.prototype) || !Object.isFrozen(Promise) || !Object.isFrozen(Function.prototype) || !Object.isFrozen(Object.getPrototypeOf(async () => {})) || !Object.isFrozen(Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()))) || !Object.isFrozen(Object.getPrototypeOf(Int8Array));"),
    ("frozen_globals", "try { globalThis.Promise = 1; } catch {} return Promise === 1;"),
    // Language modes.
    ("sloppy_mode", "return (function () { return this; })() !== undefined;"),
    ("assignment_to_nowhere", "try { undeclared = 1; } catch { return false; } return true;"),
    ("octal_or_with", "return false;"),
];

/// What is not a script in strict module code.
#[rustfmt::skip]
const NO_SYNTAX: &[(&str, &str)] = &[
    ("html_comment", "return 1;\n<!-- comment"),
    ("html_close_comment", "return 1;\n--> comment"),
    ("with", "with ({}) {}"),
    ("octal", "return 010;"),
    ("delete_name", "let x; delete x;"),
    ("static_import", "}\nimport x from 'y';\nexport const z = () => {"),
    ("native_syntax", "return %DebugPrint(1);"),
];

/// Ordinary code that frozen intrinsics must not break.
#[rustfmt::skip]
const ORDINARY: &[(&str, &str)] = &[
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

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in engines().into_iter().filter(|engine| engine.language == Language::Javascript) {
        for (name, script) in ATTACKS {
            trials.push(Trial::test(format!("attack::{name}::{}", engine.name), move || fails(engine, script)));
        }
        for (name, script) in NO_SYNTAX {
            trials.push(Trial::test(format!("no_syntax::{name}::{}", engine.name), move || is_refused(engine, script)));
        }
        for (name, script) in ORDINARY {
            trials.push(Trial::test(format!("ordinary::{name}::{}", engine.name), move || works(engine, script)));
        }
    }
    trials
}

fn fails(engine: Engine, script: &str) -> Result<(), Failed> {
    match Worker::start(engine).run(script, LIMITS).done.result {
        Ok(value) if value.get() == "false" || value.get() == "null" => Ok(()),
        Ok(value) => Err(format!("got {value}").into()),
        Err(_) => Ok(()),
    }
}

fn is_refused(engine: Engine, script: &str) -> Result<(), Failed> {
    match Worker::start(engine).run(script, LIMITS).done.result {
        Err(error) if error.kind == wire::ScriptErrorKind::Syntax => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn works(engine: Engine, script: &str) -> Result<(), Failed> {
    match Worker::start(engine).run(script, LIMITS).done.result {
        Ok(value) if value.get() == "true" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

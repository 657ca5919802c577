// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# loop: CPU without end
//= cpu
//@ short
for (;;) {}
//# loop_that_catches: CPU without end, in spite of the interruption
//= cpu
//@ short
for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }
//# loop_in_finally_of_generator: CPU without end, while a generator is closed
//= cpu
//@ short
function* g() { try { yield 1; } finally { for (;;) {} } }
for (const x of g()) break;
//# loop_in_getter: CPU without end, while the result is read
//= cpu
//@ short
return { get a() { for (;;) {} } };
//# loop_in_to_json: CPU without end, while an argument is read
//= cpu
//@ short
await github.echo({ toJSON() { for (;;) {} } });
//# loop_in_proxy: CPU without end, in a trap that the prelude meets
//= cpu
//@ short
throw new Proxy(new Error('x'), { get() { for (;;) {} }, getPrototypeOf() { for (;;) {} } });
//# loop_in_timer: CPU without end, in a timer
//= cpu
//@ short
setTimeout(() => { for (;;) {} }, 1); await new Promise(() => {});
//# loop_in_microtask: CPU without end, in a microtask
//= cpu
//@ short
queueMicrotask(() => { for (;;) {} }); await null; await null; await new Promise(() => {});
//# loop_in_then: CPU without end, in what awaits a result
//= cpu
//@ short
return { then() { for (;;) {} } };
//# loop_after_call: CPU without end, after waiting
//= cpu
//@ short
await github.echo({}); for (;;) {}
//# loop_in_catch: CPU without end, in what handles an error of a call
//= cpu
//@ short
await github.fail({}).catch(() => { for (;;) {} });
//# loop_in_sort: CPU without end, in a callback of a native
//= cpu
//@ short
[3, 1, 2].sort(() => { for (;;) {} });
//# loop_in_replace: CPU without end, in a callback of a regular expression
//= cpu
//@ short
'aaa'.replace(/a/g, () => { for (;;) {} });
//# loop_in_reviver: CPU without end, in a callback of JSON
//= cpu
//@ short
JSON.parse('[1]', () => { for (;;) {} });
//# loop_in_iterator: CPU without end, in an iterator that a native reads
//= cpu
//@ short
Array.from({ [Symbol.iterator]: () => ({ next: () => ({ done: false, get value() { for (;;) {} } }) }) });
//# loop_in_parallel: CPU without end, in a task
//= cpu
//@ short
await forge.parallel([() => { for (;;) {} }]);
//# loop_in_top_level: CPU without end, while the module is evaluated
//= cpu
//@ short module
for (;;) {}
export default async () => 1;
//# loop_of_timers: CPU without end, by timers that set each other
//= throws RangeError: setTimeout: more than
const f = () => setTimeout(f, 0); f(); await new Promise(() => {});
//# promise_storm: CPU without end, in promises
//= cpu
//@ short
const f = () => { Promise.resolve().then(f); }; f(); await new Promise(() => {});
//# promise_tree: promises that double
//= cpu or heap
//@ short small_heap
const f = () => { Promise.resolve().then(f); Promise.resolve().then(f); }; f(); await new Promise(() => {});
//# microtask_storm: CPU without end, in microtasks
//= cpu
//@ short
const f = () => queueMicrotask(f); f(); await new Promise(() => {});
//# async_recursion: calls in one another that wait
//= heap or cpu or stack
//@ small_heap
const f = async (n) => { await null; return f(n + 1); }; await f(0);
//# async_generator_storm: CPU without end, in an async generator
//= cpu
//@ short
async function* g() { for (;;) yield 1; }
for await (const x of g()) ;
//# rejection_storm: rejections that nobody handles
//= cpu or heap
//@ short small_heap
const f = () => { Promise.reject(new Error('x')); queueMicrotask(f); }; f(); await new Promise(() => {});
//# thenable_chain: a thenable that answers a thenable, without end
//= cpu or heap
//@ short small_heap
const t = () => ({ then(resolve) { resolve(t()); } });
await t();
//# promise_never: waiting for nothing
//= stalled
await new Promise(() => {});
//# promise_all_never: waiting for nothing, among others
//= stalled
await Promise.race([new Promise(() => {}), new Promise(() => {})]);
//# lock_by_two: two that wait for each other
//= stalled
let a, b; a = new Promise(async (r) => { await null; await b; r(); }); b = new Promise(async (r) => { await a; r(); });
await a;

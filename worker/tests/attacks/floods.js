// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# long_timer: a timer over the deadline of the gateway
//= throws RangeError: setTimeout: a delay of
await new Promise((r) => setTimeout(r, 1e9));
//# endless_timer: a delay that is no number of milliseconds
//= throws RangeError: setTimeout: a delay of
await new Promise((r) => setTimeout(r, Infinity));
//# timer_of_not_a_number: a delay that is no number
//= value 1
await new Promise((r) => setTimeout(r, NaN)); await new Promise((r) => setTimeout(r, -1e300));
return 1;
//# timer_flood: timers without end
//= throws RangeError: setTimeout: more than
for (;;) setTimeout(() => {}, 1000);
//# timer_flood_that_clears: timers without end that are cleared at once
//= throws RangeError: setTimeout: more than
for (;;) clearTimeout(setTimeout(() => {}, 1000));
//# call_flood: more calls than a run may make
//= calls
for (let i = 0; i < 1000; i++) await github.echo({});
//# call_flood_at_once: more calls than a run may make, at once
//= calls
await Promise.all(Array.from({ length: 1000 }, () => github.echo({})));
//# call_flood_without_awaiting: more calls than a run may make, that nobody awaits
//= calls
for (let i = 0; i < 1000; i++) github.echo({});
//# call_flood_that_catches: more calls than a run may make, in spite of the error
//= calls
let made = 0; for (let i = 0; i < 1000; i++) { try { await github.echo({}); made++; } catch {} } return made;
//# call_flood_rejects: the call over the limit fails another way than calls do
//= calls
let last; for (let i = 0; i < 60; i++) { last = github.echo({}); last.catch(() => {}); }
return [typeof last.then === 'function' ? 'object' : 'none', await last.catch((e) => e.code)];
//# call_flood_of_kinds: more calls than a run may make, of three kinds together
//= calls
for (let i = 0; i < 20; i++) { await github.echo({}); await forge.readResource('github', 'x'); await forge.prompt('github', 'x'); }
//# call_flood_that_fails: more calls than a run may make, by calls that fail
//= calls
for (let i = 0; i < 1000; i++) await github.fail({}).catch((e) => { if (e.code === 'LIMIT_EXCEEDED') throw e; });
//# discovery_flood: more requests than a run may make
//= calls
for (let i = 0; i < 100000; i++) await forge.ls();
//# stash_flood: more requests than a run may make
//= calls
for (let i = 0; i < 100000; i++) await forge.stash.put(`k${i}`, i);
//# parallel_flood: more calls than a run may make, in parallel
//= calls
return await forge.parallel(Array.from({ length: 500 }, () => () => github.echo({})), { concurrency: 500 });
//# parallel_without_end: a list of tasks without end
//= cpu or heap or throws
//@ short small_heap
const tasks = [() => 1]; tasks[Symbol.iterator] = function* () { for (;;) yield () => 1; };
return await forge.parallel(tasks);
//# parallel_concurrency: more tasks at once than there are numbers
//= value [1]
return (await forge.parallel([() => 1], { concurrency: Number.MAX_SAFE_INTEGER })).results;
//# output_flood: more output than is kept
//= value 1
for (let i = 0; i < 20000; i++) console.log('x'.repeat(100)); return 1;
//# output_flood_of_nothing: more lines than are kept, all empty
//= value 1
for (let i = 0; i < 100000; i++) console.log(''); return 1;
//# output_at_once: more output than is kept, in one piece
//= value 1
console.log('x'.repeat(2e7)); return 1;
//# output_of_many_parts: more output than is kept, of many parts
//= value 1 or heap
console.log(...new Array(50000).fill('x'.repeat(1000))); return 1;
//# output_after_end: output after the run has ended
//= value 1
setTimeout(() => console.log('late'), 1); return 1;
//# output_loop: output without end
//= cpu
//@ short
for (;;) console.log('x'.repeat(1000));
//# big_result: a result over its limit
//= result
return 'x'.repeat(2000000);
//# huge_result: a result over what a frame holds
//= result or heap
return ['x'.repeat(2e7), 'y'.repeat(1e7)];
//# function_result: a result that is a function
//= throws the result cannot be returned
return github.echo;

// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# recursion: calls in one another without end
//= stack
const f = (n) => f(n + 1) + 1; return f(0);
//# recursion_in_getter: calls in one another through a getter
//= stack
const o = { get a() { return this.a + 1; } }; return o.a;
//# recursion_in_proxy: calls in one another through a trap
//= stack
const p = new Proxy({}, { get(t, k, r) { return r[k]; } }); return p.x;
//# recursion_in_to_string: calls in one another through a conversion
//= stack
const o = { toString() { return `${o}`; } }; return `${o}`;
//# recursion_in_sort: calls in one another through a native
//= stack
const f = () => [1, 2].sort(f); return f();
//# recursion_in_json: calls in one another through JSON
//= stack
const f = () => JSON.stringify({ toJSON: f }); return f();
//# recursion_in_replace: calls in one another through a regular expression
//= stack
const f = () => 'a'.replace(/a/, f); return f();
//# recursion_in_reflect: calls in one another through reflection
//= stack
const f = () => Reflect.apply(f, null, []); return f();
//# recursion_in_constructor: calls in one another through a class
//= stack
class A { x = new A(); } return new A();
//# recursion_in_spread: calls in one another with many arguments
//= stack or heap or throws RangeError
const f = (...a) => f(...a, ...a); return f(1);
//# proxy_chain: proxies in one another
//= stack
let p = {}; for (let i = 0; i < 200000; i++) p = new Proxy(p, {}); return p.x;
//# prototype_chain: prototypes in one another
//= value "undefined"
let p = {}; for (let i = 0; i < 100000; i++) p = Object.create(p); return typeof p.x;
//# bound_chain: bound functions in one another
//= stack or heap or value 1
let f = () => 1; for (let i = 0; i < 100000; i++) f = f.bind(null); return f();
//# deep_result: a result in which values nest without end
//= stack or result or throws
let a = []; for (let i = 0; i < 500000; i++) a = [a]; return a;
//# deep_argument: an argument in which values nest without end
//= stack or throws
let a = []; for (let i = 0; i < 500000; i++) a = [a]; return await github.echo({ a });
//# deep_json_text: JSON in which values nest without end
//= stack or throws
return JSON.parse('['.repeat(1000000)).length;
//# deep_garbage: a deep value that is only left behind
//= value 1
let a = []; for (let i = 0; i < 500000; i++) a = [a]; a = null; return 1;
//# deep_closures: functions that hold each other without end
//= value 1
let f = () => 0; for (let i = 0; i < 200000; i++) { const g = f; f = () => g; } return 1;
//# join_self: a list that holds itself many times
//= heap or cpu or throws RangeError
//@ small_heap short fatal
let a = ['x']; for (let i = 0; i < 60; i++) a = [a, a]; return a.join().length;
//# flat_self: a list that holds itself many times, made flat
//= heap or cpu or throws RangeError
//@ small_heap short fatal
let a = ['x']; for (let i = 0; i < 60; i++) a = [a, a]; return a.flat(Infinity).length;
//# apply_of_many: more arguments than the stack holds
//= stack or heap or throws RangeError
//@ small_heap fatal
return Math.max.apply(null, { length: 2 ** 26 });
//# from_char_code: more arguments than the stack holds
//= stack or heap or throws RangeError
return String.fromCharCode.apply(null, new Array(3000000)).length;
//# shared_result: a result that is small in memory and endless as JSON
//= cpu or heap or result or throws RangeError
//@ short fatal
let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; return a;
//# shared_argument: an argument that is small in memory and endless as JSON
//= cpu or heap or throws RangeError
//@ short fatal
let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; return await github.echo({ a });
//# shared_console: a print that is small in memory and endless as text
//= cpu or heap or value 1
//@ short fatal
let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; console.log(a); return 1;
//# shared_console_in_map: a print that is small in memory and endless as text, in a map
//= cpu or heap or value 1
//@ short fatal
let a = new Map([[1, 1]]); for (let i = 0; i < 60; i++) a = new Map([[1, a], [2, a]]); console.log(a); return 1;
//# to_json_without_end: a result that makes itself anew, at every level
//= stack
const level = () => ({ get a() { return level(); } }); return level();
//# circular_result: a result that holds itself
//= throws the result cannot be returned
const a = []; a.push(a); return a;

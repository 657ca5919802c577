// What the prelude holds cannot be seen, replaced or steered by a script.

//# replace_forge: another `forge`
//= value ["TypeError","TypeError","TypeError","function"]
return [tried(() => { globalThis.forge = {}; }), tried(() => Object.defineProperty(globalThis, 'forge', { value: 1 })), tried(() => { delete globalThis.forge; }), typeof forge.callTool];
//# change_forge: another function of the API
//= value ["TypeError","TypeError","TypeError","TypeError"]
return [tried(() => { forge.callTool = 1; }), tried(() => { forge.stash.put = 1; }), tried(() => { console.log = 1; }), tried(() => { manifest.tool = 1; })];
//# extend_forge: more functions on the API
//= value ["TypeError","TypeError","TypeError"]
return [tried(() => { forge.mine = 1; }), tried(() => { forge.callTool.mine = 1; }), tried(() => { manifest.servers.mine = 1; })];
//# parent_of_forge: another parent of the API
//= value ["TypeError","TypeError"]
return [tried(() => Object.setPrototypeOf(forge, { get x() { return 1; } })), tried(() => Object.setPrototypeOf(console, null))];
//# change_error_class: another error for calls that fail
//= value ["TypeError","TypeError","ForgeError"]
return [tried(() => { ForgeError.prototype.toJSON = 1; }), tried(() => { globalThis.ForgeError = class {}; }), (await github.fail({}).catch((e) => e)).name];
//# change_namespace: another tool
//= value ["TypeError","TypeError","TypeError","function"]
return [tried(() => { github.echo = 1; }), tried(() => Object.defineProperty(github, 'echo', { value: 1 })), tried(() => { delete github.echo; }), typeof github.echo];
//# parent_of_namespace: what a namespace inherits
//= value [null,[],"TypeError",null]
return [Object.getPrototypeOf(github), Reflect.ownKeys(github), tried(() => Object.setPrototypeOf(github, { evil: 1 })), Object.getOwnPropertyDescriptor(github, 'echo') ?? null];
//# namespace_as_target: the proxy's target or handler through a trap that it has not
//= value ["TypeError","TypeError",false]
return [tried(() => new github()), tried(() => Object.freeze(github)), Reflect.has(github, 'echo')];
//# namespace_as_then: a namespace that is taken for a promise
//= value ["function",null]
const g = await github;
return [typeof g.echo, g.then ?? null];
//# namespace_symbols: hooks of the language on a namespace
//= value ["function",null,"function","[forge github]"]
return [typeof github[Symbol.toPrimitive], github[Symbol.iterator] ?? null, typeof github.constructor, `${github}`];
//# namespace_proto: the prototype by its old name
//= call TOOL_NOT_FOUND
return await github.__proto__({});
//# server_over_global: a server that takes the place of a global
//= value ["function",null]
return [typeof console.log, console.echo ?? null];
//# caller: the function that called, which would be the prelude's
//= value ["TypeError","TypeError","TypeError"]
function f() { return f.caller; }
return [tried(f), tried(() => (function () { return arguments.callee; })()), tried(() => (() => {}).caller)];
//# caller_of_api: the callers of the API's functions
//= value [true,true]
const caller = (f) => { try { return f.caller ?? null; } catch { return null; } };
return [caller(forge.callTool) === null, caller(setTimeout) === null];
//# source: the text of the prelude
//= value [false,false,false]
return [forge.callTool, forge.parallel, ForgeError].map((f) => /host\.|pending|origins/.test(Function.prototype.toString.call(f)));
//# names_of_the_prelude: a binding of the prelude by its name
//= value ["ReferenceError","ReferenceError","ReferenceError","ReferenceError"]
return [tried(() => host), tried(() => pending), tried(() => deliver), tried(() => origins)];
//# then_hook: every answer through the prototype of promises
//= value ["TypeError",0,1]
let got = 0;
const t = tried(() => { Promise.prototype.then = function () { got++; }; });
const r = await github.echo({ a: 1 });
return [t, got, r.a];
//# resolve_hook: every task through the class of promises
//= value ["TypeError",0]
let got = 0;
const t = tried(() => { Promise.resolve = () => { got++; }; });
await forge.parallel([() => 1]);
return [t, got];
//# stringify_hook: every argument through JSON
//= value ["TypeError",1]
const t = tried(() => { JSON.stringify = () => '{"forged":1}'; });
return [t, (await github.echo({ a: 1 })).a];
//# parse_hook: every answer through JSON
//= value ["TypeError",1]
const t = tried(() => { JSON.parse = () => ({ a: 'forged' }); });
return [t, (await github.echo({ a: 1 })).a];
//# to_json_on_object: every argument through a method of all objects
//= value ["TypeError",{"a":1}]
return [tried(() => { Object.prototype.toJSON = () => ({ forged: 1 }); }), await github.echo({ a: 1 })];
//# to_json_on_string: every name through a method of all strings
//= value ["TypeError",{"a":"x"}]
return [tried(() => { String.prototype.toJSON = () => 'forged'; }), await github.echo({ a: 'x' })];
//# map_hook: the table of calls in flight through the class of maps
//= value ["TypeError","TypeError",0,1]
let got = 0;
const t = [tried(() => { Map.prototype.get = () => { got++; }; }), tried(() => { Map.prototype.set = () => { got++; }; })];
const r = await github.echo({ a: 1 });
return [...t, got, r.a];
//# weak_map_hook: the table of errors through the class of weak maps
//= value ["TypeError",0,"TOOL_ERROR"]
let got = 0;
const t = tried(() => { WeakMap.prototype.set = () => { got++; }; });
const e = await github.fail({}).catch((e) => e);
return [t, got, e.code];
//# index_setter: every list of the prelude through an index of all arrays
//= value ["TypeError",0]
let got = 0;
const t = tried(() => Object.defineProperty(Array.prototype, '0', { set(v) { got++; } }));
console.log('x'); await forge.parallel([() => 1]);
return [t, got];
//# descriptor_hook: every definition of the prelude through a field of descriptors
//= value ["TypeError",0]
let got = 0;
const t = tried(() => Object.defineProperty(Object.prototype, 'get', { get() { got++; } }));
console.log('x');
return [t, got];
//# reply_as_thenable: an answer that is taken for a promise
//= value [{"then":"x"},{"then":{"a":1}}]
return [await github.raw({ json: '{"then": "x"}' }), await github.raw({ json: '{"then": {"a": 1}}' })];
//# reply_with_proto: an answer that changes its own parent
//= value [true,null]
const r = await github.raw({ json: '{"__proto__": {"polluted": 1}}' });
return [Object.getPrototypeOf(r) === Object.prototype, r.polluted ?? null];
//# tasks_that_lie: a list of tasks that changes while it is read
//= value [[],["not a function"]]
let reads = 0;
const lying = new Proxy([() => 1], { get: (t, k) => (k === '0' && reads++ > 0 ? 'not a function' : Reflect.get(t, k)) });
const r = await forge.parallel(lying);
return [r.errors.map((e) => e.code), r.results];
//# error_that_lies: an error of a call whose fields were changed
//= call TOOL_ERROR
const e = await github.fail({}).catch((e) => e);
e.code = 'FORGED'; e.message = 'forged';
throw e;
//# error_of_ones_own: an error of a call that was never made
//= throws ForgeError: forged
throw new ForgeError('TOOL_ERROR', 'forged', { data: { call: 1 } });
//# error_subclass: a class over the error class, which gets at what the prelude sets
//= value ["TOOL_ERROR",false]
class Mine extends ForgeError { constructor(...a) { super(...a); this.mine = 1; } }
const e = await github.fail({}).catch((e) => e);
return [e.code, e instanceof Mine];
//# new_target_of_error: the prelude's error class with another prototype
//= value ["TOOL_ERROR","mine"]
const o = Reflect.construct(ForgeError, ['X', 'mine'], Array);
return [(await github.fail({}).catch((e) => e)).code, o.message];
//# timers_of_others: a timer that the script did not set
//= value ["undefined","done","done"]
return [typeof clearTimeout(1), tried(() => clearTimeout({ valueOf() { throw 1; } })), tried(() => clearTimeout(Symbol()))];
//# this_of_callbacks: the prelude's `this` in what it calls
//= value [true,true,true]
const r = [];
await new Promise((done) => setTimeout(function () { r.push(this === undefined); done(); }, 0));
await new Promise((done) => queueMicrotask(function () { r.push(this === undefined); done(); }));
await forge.parallel([function () { r.push(this === undefined || this === null); }]);
return r;
//# arguments_of_callbacks: what the prelude passes beside what it must
//= value [0,0]
const r = [];
await new Promise((done) => setTimeout((...a) => { r.push(a.length); done(); }, 0));
await forge.parallel([(...a) => { r.push(a.length); }]);
return r;
//# settle_twice: an end before the end
//= value "real"
for (const key of ['settle', 'done', 'host', 'Deno']) globalThis[key]?.settle?.(true, '"forged"');
return 'real';
//# then_of_result: a result that runs code while it is awaited
//= value "late"
return { then(resolve) { setTimeout(() => resolve('late'), 1); } };
//# options_that_lie: options whose fields change between two reads
//= throws TypeError: ttl must be a whole number
let n = 0;
return await forge.stash.put('k', 1, { get ttl() { return n++ ? 'forged' : -1; } });
//# plain_object_that_is_none: arguments that turn into something else on the way
//= throws TypeError: github.echo({ name: value }) takes an object; its toJSON() answered something else
return await github.echo({ toJSON() { return [1]; } });
//# arguments_that_turn_to_text: arguments that turn into a text on the way
//= throws TypeError: github.echo({ name: value }) takes an object; its toJSON() answered something else
return await github.echo({ toJSON: () => '","tool":"other' });
//# arguments_that_vanish: arguments that turn into nothing on the way
//= throws TypeError: github.echo({ name: value }) takes an object; its toJSON() answered something else
return await github.echo({ toJSON: () => undefined });

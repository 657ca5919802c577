// Intrinsics are frozen: what a script does to them is refused, so that nothing else in the realm can be steered by them.

//# every_intrinsic: any object of the language that can be changed
//= value []
const seen = new Set([globalThis]), queue = [], open = [];
const visit = (value, path) => {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
  seen.add(value); queue.push([value, path]);
};
const overflow = () => { const f = () => f() + 1; try { f(); } catch (e) { return e; } };
const error = (f) => { try { f(); } catch (e) { return e; } };
const own = [
  async () => {}, function* () {}, async function* () {}, [].values(), Object.getPrototypeOf(function* () {}.prototype),
  new Map().entries(), new Set().values(), ''[Symbol.iterator](), 'x'.matchAll(/x/g), (function () { return arguments; })(),
  (function () { 'use strict'; return arguments; })(), Iterator.from({ next() {} }), [].values().map((x) => x), [].values().drop(0),
  Iterator.from({ next() {}, __proto__: null }), overflow(), error(() => null.x), error(() => missing), error(() => decodeURI('%')),
  error(() => new RegExp('[')), error(() => [].reduce(() => {})), error(() => 1n / 0n), error(() => new Array(-1)), new AggregateError([]),
  Promise.resolve(), Symbol.iterator, 1n, /x/, new Date(), new Proxy({}, {}), await github.fail({}).catch((e) => e),
  typeof Intl === 'object' ? new Intl.NumberFormat('en') : 0, typeof Intl === 'object' && Intl.Segmenter ? new Intl.Segmenter('en').segment('a')[Symbol.iterator]() : 0,
];
// What the script makes is its own; what that inherits from is not.
for (const value of own) if (value) { seen.add(value); visit(Object.getPrototypeOf(value), `prototype of ${Object.prototype.toString.call(value)}`); }
for (const key of Reflect.ownKeys(globalThis)) visit(globalThis[key], String(key));
for (const [object, path] of queue) {
  if (object === github || object === my_server) continue; // proxies that refuse every change
  if (!Object.isFrozen(object)) open.push(path);
  for (const key of Reflect.ownKeys(object)) {
    const d = Object.getOwnPropertyDescriptor(object, key);
    if (!d) continue;
    visit(d.value, `${path}.${String(key)}`); visit(d.get, `${path}.${String(key)}`); visit(d.set, `${path}.${String(key)}`);
  }
  visit(Object.getPrototypeOf(object), `prototype of ${path}`);
}
return [...new Set(open)];
//# every_global: any global that can be replaced
//= value []
return Reflect.ownKeys(globalThis).filter((key) => {
  const d = Object.getOwnPropertyDescriptor(globalThis, key);
  return d.configurable || d.writable;
}).map(String);
//# control_own_objects: what a script makes can be changed
//= value ["done","done"]
return [tried(() => { ({}).x = 1; }), tried(() => { globalThis.mine = 1; globalThis.mine = 2; })];
//# object_prototype: a property that every object inherits
//= value ["TypeError",null]
return [tried(() => { Object.prototype.polluted = 1; }), ({}).polluted ?? null];
//# object_prototype_defined: a property that every object inherits, by definition
//= value ["TypeError",null]
return [tried(() => Object.defineProperty(Object.prototype, 'polluted', { value: 1 })), ({}).polluted ?? null];
//# object_prototype_by_proto: the prototype by its old name
//= value ["TypeError",null]
return [tried(() => { ({}).__proto__.polluted = 1; }), ({}).polluted ?? null];
//# object_prototype_by_chain: the prototype by a constructor chain
//= value ["TypeError",null]
return [tried(() => { [].constructor.prototype.__proto__.polluted = 1; }), ({}).polluted ?? null];
//# object_prototype_by_reflect: the prototype by reflection, which does not throw
//= value [false,null]
return [Reflect.set(Object.prototype, 'polluted', 1), ({}).polluted ?? null];
//# object_prototype_by_merge: the prototype by a merge of JSON as scripts write it
//= value ["TypeError",null]
const merge = (to, from) => { for (const k in from) { if (typeof from[k] === 'object') merge(to[k] ??= {}, from[k]); else to[k] = from[k]; } };
const evil = await github.raw({ json: '{"__proto__": {"polluted": 1}}' });
return [tried(() => merge({}, evil)), ({}).polluted ?? null];
//# object_prototype_by_constructor: the prototype by a merge of JSON over the constructor
//= value ["TypeError",null]
const evil = await github.raw({ json: '{"constructor": {"prototype": {"polluted": 1}}}' });
const merge = (to, from) => { for (const k in from) { if (typeof from[k] === 'object') merge(to[k], from[k]); else to[k] = from[k]; } };
return [tried(() => merge({}, evil)), ({}).polluted ?? null];
//# object_prototype_setter: a setter under every object
//= value ["TypeError","TypeError"]
return [tried(() => Object.prototype.__defineSetter__('a', () => {})), tried(() => Object.prototype.__defineGetter__('a', () => 1))];
//# object_prototype_parent: a parent for the root of all objects
//= value ["TypeError","TypeError",false]
return [tried(() => Object.setPrototypeOf(Object.prototype, { a: 1 })), tried(() => { Object.prototype.__proto__ = { a: 1 }; }), Reflect.setPrototypeOf(Object.prototype, {})];
//# overridable_property: a built-in method through the setters that let own objects override it
//= value ["TypeError","[object Object]"]
return [tried(() => { Object.prototype.toString = () => 'mine'; }), String({})];
//# overridable_setter_itself: the setter that lets own objects override, turned on the prototype
//= value ["TypeError","[object Object]"]
const { set } = Object.getOwnPropertyDescriptor(Object.prototype, 'toString');
return [tried(() => set.call(Object.prototype, () => 'mine')), String({})];
//# overridable_setter_on_array: the setter that lets own objects override, turned on another prototype
//= value ["TypeError","1"]
const { set } = Object.getOwnPropertyDescriptor(Object.prototype, 'toString');
return [tried(() => set.call(Array.prototype, () => 'mine')), String([1])];
//# overridable_by_receiver: the setter with another receiver
//= value [false,"1"]
return [tried(() => Reflect.set(Object.prototype, 'toString', () => 'mine', Array.prototype)) === 'done', String([1])];
//# global_object_parent: another parent for the global object's parent
//= value [true,"TypeError",null]
const parent = Object.getPrototypeOf(globalThis);
return [Object.isFrozen(parent), tried(() => { parent.polluted = 1; }), globalThis.polluted ?? null];
//# replace_promise: another class for the engine's promises
//= value ["TypeError","TypeError"]
return [tried(() => { globalThis.Promise = class {}; }), tried(() => { Promise.prototype.constructor = class {}; })];
//# replace_json: another reader of JSON
//= value ["TypeError","TypeError","TypeError"]
return [tried(() => { globalThis.JSON = {}; }), tried(() => { JSON.parse = () => 1; }), tried(() => { JSON.stringify = () => '{}'; })];
//# replace_object: another set of object functions
//= value ["TypeError","TypeError"]
return [tried(() => { Object.defineProperty = () => {}; }), tried(() => { Object.freeze = (x) => x; })];
//# delete_global: a global that is gone
//= value ["TypeError","TypeError","function"]
return [tried(() => { delete globalThis.Promise; }), tried(() => { delete globalThis.forge; }), typeof Promise];
//# symbol_registry: a well-known symbol of one's own
//= value ["TypeError",true]
return [tried(() => { Symbol.iterator = Symbol('mine'); }), Symbol.iterator === Object.getOwnPropertySymbols(Array.prototype).find((s) => s === Symbol.iterator)];
//# regex_exec: a hook under every use of a regular expression
//= value ["TypeError","TypeError",true]
return [tried(() => { RegExp.prototype.exec = () => null; }), tried(() => { RegExp.prototype[Symbol.replace] = () => ''; }), /x/.test('x')];
//# array_iterator: a hook under every loop
//= value ["TypeError","TypeError",2]
return [tried(() => { Array.prototype[Symbol.iterator] = function* () {}; }), tried(() => { Object.getPrototypeOf([].values()).next = () => ({ done: true }); }), [...[1, 2]].length];
//# generator_prototype: a hook under every generator
//= value ["TypeError","TypeError"]
const G = Object.getPrototypeOf(function* () {}), A = Object.getPrototypeOf(async function* () {});
return [tried(() => { G.prototype.next = () => 1; }), tried(() => { A.prototype.next = () => 1; })];
//# error_prototype: a hook under every error
//= value ["TypeError","TypeError","Error: x"]
return [tried(() => { Error.prototype.toString = () => 'mine'; }), tried(() => { Error.prototype.name = 'Mine'; }), String(new Error('x'))];
//# prepare_stack_trace: the functions on the stack, as objects
//= value ["TypeError","string"]
return [tried(() => { Error.prepareStackTrace = (e, sites) => sites; }), typeof new Error('x').stack];
//# stack_trace_limit: a stack of any length
//= value ["TypeError","string"]
return [tried(() => { Error.stackTraceLimit = Infinity; }), typeof new Error('x').stack];
//# function_prototype: a hook under every call
//= value ["TypeError","TypeError","TypeError"]
return ['call', 'apply', 'bind'].map((key) => tried(() => { Function.prototype[key] = () => {}; }));
//# has_instance: another answer to `instanceof`
//= value ["TypeError","TypeError",false]
return [tried(() => Object.defineProperty(Promise, Symbol.hasInstance, { value: () => true })), tried(() => { Function.prototype[Symbol.hasInstance] = () => true; }), ({}) instanceof Promise];
//# species: another class for what natives make
//= value ["TypeError","TypeError"]
return [tried(() => Object.defineProperty(Array, Symbol.species, { value: Function })), tried(() => Object.defineProperty(Promise, Symbol.species, { value: Function }))];
//# typed_array_prototype: a hook under every typed array
//= value ["TypeError","TypeError"]
return [tried(() => { Object.getPrototypeOf(Int8Array).prototype.set = () => {}; }), tried(() => { Uint8Array.prototype.x = 1; })];
//# unfreeze_by_proxy: an intrinsic through a proxy
//= value ["TypeError",null]
const p = new Proxy(Object.prototype, {});
return [tried(() => { p.polluted = 1; }), ({}).polluted ?? null];
//# proxy_as_prototype: a trap under every lookup
//= value ["TypeError","TypeError"]
return [tried(() => Object.setPrototypeOf(Array.prototype, new Proxy({}, {}))), tried(() => Object.setPrototypeOf(Function.prototype, new Proxy({}, {})))];
//# async_from_sync: a hook under `for await`
//= value ["TypeError",1]
const It = Object.getPrototypeOf(Object.getPrototypeOf(Object.getPrototypeOf((async function* () {})())));
let n = 0; for await (const x of [1]) n += x;
return [tried(() => { It[Symbol.asyncIterator] = () => {}; }), n];

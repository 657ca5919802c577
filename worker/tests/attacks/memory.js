// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# array_growth: memory without end
//= heap
//@ small_heap fatal
const a = []; for (;;) a.push({ n: a.length, s: 'x' + a.length });
//# array_growth_that_catches: memory without end, in spite of the error
//= heap
//@ small_heap
const a = []; for (;;) { try { for (;;) a.push([a.length]); } catch { a.push(1); } }
//# array_growth_in_finally: memory without end, in spite of the error
//= heap
//@ small_heap
const a = []; try { for (;;) a.push([a.length]); } finally { for (;;) a.push([1]); }
//# string_doubling: a text that doubles
//= heap or throws RangeError
//@ small_heap
let s = 'ab'; const kept = []; for (;;) { s += s; kept.push(s.slice(1), s.split('').length); }
//# string_repeat: a text of any length
//= heap or throws RangeError
//@ small_heap fatal
return [...'x'.repeat(2 ** 28)].length;
//# string_pad: a text of any length
//= heap or throws RangeError
//@ small_heap
return 'x'.padEnd(2 ** 29, 'abc').split('a').length;
//# template_growth: a text that doubles, by a template
//= heap or throws RangeError
//@ small_heap
let s = 'ab'; for (;;) { s = `${s}${s}`; if (/zz$/.test(s)) return 1; }
//# array_buffer: memory beside the heap
//= heap
//@ small_heap
const a = []; for (;;) a.push(new ArrayBuffer(1 << 20));
//# array_buffer_at_once: memory beside the heap, in one piece
//= heap
//@ small_heap fatal
return new ArrayBuffer(2 ** 30).byteLength;
//# resizable_buffer: memory beside the heap, by a buffer that grows
//= heap or throws RangeError or throws TypeError
//@ small_heap
const b = new ArrayBuffer(8, { maxByteLength: 2 ** 28 }); b.resize(100 << 20); new Uint8Array(b).fill(1); return b.byteLength;
//# resizable_buffer_at_once: memory beside the heap, by a buffer that could grow
//= heap or throws RangeError or throws TypeError
//@ small_heap
const b = new ArrayBuffer(100 << 20, { maxByteLength: 2 ** 28 }); new Uint8Array(b).fill(1); return b.byteLength;
//# resizable_buffers: memory beside the heap, by many buffers that grow
//= heap or throws RangeError or throws TypeError
//@ small_heap
const all = []; for (let i = 0; i < 200; i++) { const b = new ArrayBuffer(0, { maxByteLength: 1 << 20 }); b.resize(1 << 20); new Uint8Array(b).fill(1); all.push(b); } return all.length;
//# transferred_buffer: memory beside the heap, by passing a buffer on
//= heap or throws RangeError or throws TypeError
//@ small_heap
return new ArrayBuffer(8).transfer(100 << 20).byteLength;
//# transferred_resizable_buffer: memory beside the heap, by passing on a buffer that grows
//= heap or throws RangeError or throws TypeError
//@ small_heap
return new ArrayBuffer(8, { maxByteLength: 2 ** 28 }).transfer(100 << 20).byteLength;
//# typed_array: memory beside the heap, by a typed array
//= heap
//@ small_heap
return new Float64Array(2 ** 27).length;
//# typed_array_from: memory beside the heap, by a copy of something that says how long it is
//= heap or cpu or throws RangeError
//@ small_heap short fatal
return Uint8Array.from({ length: 2 ** 30 }).length;
//# sparse_array: a long array without elements, filled
//= heap or cpu
//@ small_heap fatal
return new Array(2 ** 27).fill(1).map((x) => [x]).length;
//# array_of_any_length: an array that no memory holds
//= throws RangeError
return new Array(2 ** 33).length;
//# map_growth: memory in a map
//= heap
//@ small_heap fatal
const m = new Map(); for (let i = 0; ; i++) m.set(i, [i]);
//# set_growth: memory in a set
//= heap
//@ small_heap fatal
const m = new Set(); for (let i = 0; ; i++) m.add(`k${i}`);
//# property_growth: memory in the properties of an object
//= heap
//@ small_heap fatal
const o = {}; for (let i = 0; ; i++) o[`k${i}`] = i;
//# symbol_growth: memory in symbols
//= heap
//@ small_heap
const a = []; for (let i = 0; ; i++) a.push(Symbol(`k${i}`));
//# symbol_registry_growth: memory in the registry of symbols
//= heap or cpu
//@ small_heap
for (let i = 0; ; i++) Symbol.for(`key ${i} ${'x'.repeat(100)}`);
//# closure_growth: memory in closures
//= heap
//@ small_heap
const a = []; for (let i = 0; ; i++) { const big = new Array(100).fill(i); a.push(() => big); }
//# error_growth: memory in stacks
//= heap
//@ small_heap
const a = []; for (;;) a.push(new Error('x'.repeat(100)));
//# regex_growth: memory in compiled patterns
//= heap or cpu
//@ small_heap
const a = []; for (let i = 0; ; i++) { const r = new RegExp(`(a|b)*${i}`.repeat(20)); r.test('abc'); a.push(r); }
//# generator_growth: memory in suspended generators
//= heap
//@ small_heap
const a = []; for (;;) { const g = (function* () { const x = new Array(50).fill(1); yield x; })(); g.next(); a.push(g); }
//# promise_growth: memory in promises that nobody settles
//= heap
//@ small_heap
const a = []; for (;;) a.push(new Promise(() => {}).then(() => 1));
//# weak_growth: memory in a weak map whose keys are kept
//= heap
//@ small_heap
const w = new WeakMap(), k = []; for (;;) { const o = {}; k.push(o); w.set(o, new Array(50).fill(1)); }
//# namespace_growth: memory in a namespace of a namespace
//= heap or cpu
//@ small_heap
let n = github; for (;;) n = n['x'.repeat(1000)];
//# proxy_growth: memory in servers that do not exist
//= heap
//@ small_heap
const a = []; for (let i = 0; ; i++) a.push(forge.server('x'.repeat(100) + i));
//# big_int_growth: a number that doubles its length
//= heap or cpu or throws RangeError
//@ small_heap short fatal
let x = 7n; for (;;) x *= x;
//# spread_of_many: more arguments than the stack holds
//= stack or heap or throws RangeError
return Math.max(...new Array(5000000).fill(1));
//# intl_numbers: objects of ICU, which the heap does not count
//= v8 heap
//= quickjs throws ReferenceError
//@ fatal
const a = []; for (;;) a.push(new Intl.NumberFormat('de', { minimumFractionDigits: a.length % 10 }));
//# intl_dates: objects of ICU, which the heap does not count
//= v8 heap
//= quickjs throws ReferenceError
//@ small_heap fatal
const a = []; for (;;) a.push(new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long' }));
//# intl_collators: objects of ICU, which the heap does not count
//= v8 heap
//= quickjs throws ReferenceError
//@ small_heap fatal
const a = []; for (;;) a.push(new Intl.Collator('sv', { numeric: true, sensitivity: 'base' }));
//# intl_segments: objects of ICU, which the heap does not count
//= v8 heap
//= quickjs throws ReferenceError
//@ small_heap fatal
const a = []; for (;;) a.push(new Intl.Segmenter('en', { granularity: 'word' }).segment('a b c')[Symbol.iterator]());
//# intl_that_catches: objects of ICU, in spite of the error
//= v8 heap
//= quickjs cpu
//@ small_heap fatal short
const a = []; for (;;) { try { for (;;) a.push(new Intl.PluralRules('ar')); } catch { a.push(1); } }

// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# big_int_power: a number of any length
//= heap or cpu or throws RangeError
//@ small_heap short fatal
return String(7n ** 400000000n).length;
//# big_int_shift: a number of any length
//= heap or throws RangeError
//@ small_heap
const a = []; for (;;) a.push(1n << 8000000n);
//# big_int_to_text: a number whose text takes quadratic time
//= cpu or value true or throws RangeError
//@ short fatal
return String((1n << 8000000n) - 1n).length > 1000;
//# big_int_parse: a text whose number takes quadratic time
//= cpu or heap or value true or throws RangeError
//@ short fatal
return BigInt('9'.repeat(3000000)) > 1n;
//# split: a list of all letters
//= heap
//@ small_heap fatal
return 'ab'.repeat(2 ** 24).split('').length;
//# replace_all: a text that grows by what replaces
//= heap or throws RangeError
//@ small_heap fatal
return 'ab'.repeat(2 ** 26).replaceAll('a', 'bcd').split('').length;
//# replace_reference: a text that grows by what it refers to
//= heap or throws RangeError
//@ small_heap fatal
return 'a'.repeat(2 ** 20).replace(/a/g, "$`$'").split('').length;
//# join: a text of a long list
//= heap or throws RangeError
//@ small_heap fatal
return new Array(2 ** 25).fill('abcdefgh').join('xxxxxxxx').length;
//# concat_spreadable: something that says how long it is
//= cpu or heap or throws
//= v8 value 0
//@ small_heap short fatal
return [].concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }).length;
//# proxy_keys_without_end: a result with any number of keys
//= heap or cpu or result or throws
//@ small_heap short fatal
return new Proxy({}, { ownKeys: () => Array.from({ length: 4000000 }, (_, i) => `k${i}`), getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }) });
//# native_loop: a native that loops for ever
//= cpu
//@ short fatal
return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);
//# native_sparse_loop: a native that loops for long over nothing
//= cpu
//@ short fatal
return new Array(2 ** 32 - 1).lastIndexOf(1);
//# native_copy_within: a native that loops for long over nothing
//= cpu
//@ short fatal
return Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1);
//# native_reverse: a native that loops for long over nothing
//= cpu
//@ short fatal
return Array.prototype.reverse.call({ length: 2 ** 53 - 1 });
//# native_every: a native that loops for long over nothing
//= cpu
//@ short fatal
return Array.prototype.every.call({ length: 2 ** 53 - 1 }, () => true);
//# native_includes_text: a search that takes quadratic time
//= cpu or value -1
//@ short fatal
return ('a'.repeat(5000000)).indexOf('a'.repeat(2500000) + 'b');
//# native_sort: a sort of a long list
//= cpu or heap
//@ short fatal
return Array.from({ length: 4000000 }, (_, i) => (i * 7919) % 1000003).sort().length;
//# native_normalize: a long text, normalised
//= cpu or heap or value true
//@ short small_heap fatal
return '\u1e9b\u0323'.repeat(3000000).normalize('NFKD').length > 1;
//# native_case: a long text that grows by its case
//= cpu or heap or value true or throws RangeError
//@ short small_heap fatal
return '\u0390'.repeat(8000000).toUpperCase().length > 1;
//# native_uri: a long text that grows by its escapes
//= cpu or heap or value true or throws RangeError
//@ short small_heap fatal
return encodeURIComponent('\u{1F600}'.repeat(3000000)).length > 1;
//# native_locale_compare: a sort by the host's language
//= cpu or heap or value true
//@ short fatal
return Array.from({ length: 300000 }, (_, i) => `ä${i}`).sort((a, b) => a.localeCompare(b)).length > 1;
//# native_date_parse: a long text that is no date
//= cpu or heap or value true
//@ short fatal
return Number.isNaN(Date.parse('1'.repeat(10000000)));
//# native_number_parse: a long text that is a number
//= cpu or heap or value true
//@ short fatal
return Number('1'.repeat(10000000)) === Infinity;
//# native_to_fixed: a number with many digits
//= throws RangeError
return (1e21).toString(36).length + (0.1).toFixed(101);
//# atob_of_16_mb: a text over the limit of natives
//= value "RangeError"
return tried(() => atob('A'.repeat(16 << 20)));
//# btoa_within_the_limit: the largest text, there and back
//= value 8388608
return atob(btoa('a'.repeat(6 << 20))).length + (2 << 20);
//# clone_of_depth: a value nested without end
//= stack
let deep = [];
for (let i = 0; i < 1e5; i++) deep = [deep];
return structuredClone(deep);
//# clone_of_a_cycle: a value that contains itself
//= value [true,true,"TypeError","TypeError"]
const a = { list: [] };
a.list.push(a);
const copy = structuredClone(a);
return [copy !== a, copy.list[0] === copy, tried(() => structuredClone({ f() {} })), tried(() => structuredClone(Promise.resolve()))];
//# clone_of_proto: a key that would change a prototype
//= value ["own",true]
const made = structuredClone(JSON.parse('{"__proto__": {"polluted": 1}}'));
return [Object.hasOwn(made, '__proto__') ? 'own' : 'lost', ({}).polluted === undefined];
//# encoder_of_much: bytes over the heap
//= heap
const kept = [];
for (;;) kept.push(new TextEncoder().encode('é'.repeat(4 << 20)));
//# url_of_1_mb: an address over the limit
//= value ["TypeError","TypeError","TypeError"]
const big = 'http://a/' + 'x'.repeat(1 << 20);
const u = new URL('http://a/');
return [tried(() => new URL(big)), tried(() => new URL('/', big)), tried(() => { u.pathname = big; })];
//# url_that_grows: parts that are set without end
//= value "TypeError"
const url = new URL('http://a/');
return tried(() => { for (;;) url.searchParams.append('k', 'x'.repeat(1000)); });
//# digest_in_a_loop: natives without end
//= cpu
const bytes = new Uint8Array(1 << 20);
for (;;) await crypto.subtle.digest('SHA-512', bytes);
//# natives_by_name: a method that is not for scripts
//= value ["undefined","undefined","undefined"]
return [typeof URL.change, typeof URL.part, typeof URLSearchParams.of];
//# natives_are_frozen: other scripts' functions cannot be replaced
//= value ["TypeError","TypeError","TypeError"]
return [tried(() => { 'use strict'; URL.prototype.toString = 1; }), tried(() => { crypto.subtle.digest = 1; }), tried(() => { TextEncoder.prototype.encode = 1; })];
//# control_natives: natives work
//= value ["YQ==","é",[97,195,169],"http://x/b?q=1+2&r=%26","1 2","2cf24dba",true]
const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode('hello')));
const at = new URL('../b?q=1+2', 'http://X:80/a/c');
at.searchParams.set('r', '&');
return [btoa('a'), new TextDecoder().decode(new Uint8Array([195, 169])), [...new TextEncoder().encode('aé')], at.href,
  at.searchParams.get('q'), [...hash.slice(0, 4)].map((b) => b.toString(16).padStart(2, '0')).join(''), URL.canParse('http://a') && !URL.canParse('a')];

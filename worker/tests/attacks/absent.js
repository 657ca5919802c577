// What other hosts offer is not here. The list of what is here is complete, so that an engine that grows is noticed.

//# globals: anything in the global scope that nobody decided to offer
//= value []
const known = `AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean DataView Date
  DisposableStack Error EvalError Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array Intl
  Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String SuppressedError
  Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakSet
  decodeURI decodeURIComponent encodeURI encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt undefined
  unescape ForgeError TextDecoder TextEncoder URL URLSearchParams atob btoa crypto structuredClone clearTimeout console forge manifest queueMicrotask setTimeout github my_server
  Symbol(Symbol.toStringTag)`.split(/\s+/);
return Reflect.ownKeys(globalThis).map(String).filter((key) => !known.includes(key));
//# inherited_globals: something that the global object inherits
//= value [true,[]]
const proto = Object.getPrototypeOf(globalThis);
const plain = proto === Object.prototype || Object.getPrototypeOf(proto) === Object.prototype;
return [plain, proto === Object.prototype ? [] : Reflect.ownKeys(proto).map(String).filter((k) => !['constructor', 'Symbol(Symbol.toStringTag)'].includes(k))];
//# other_hosts: what Deno, Node, browsers, shells and QuickJS offer
//= value []
return `Deno __bootstrap process require module exports global window self document location std os scriptArgs load read
  print quit gc version arguments Worker fetch XMLHttpRequest WebSocket EventSource navigator localStorage indexedDB caches
  importScripts postMessage BroadcastChannel MessageChannel setInterval setImmediate requestAnimationFrame alert prompt
  performance Temporal ShadowRealm Realm Compartment loadScript readFile writeFile system exec spawn d8 testRunner drainJobQueue
  __loadScript bjson navigator DOMException CallSite InternalError`.split(/\s+/).filter((key) => key in globalThis);
//# webassembly: code from bytes
//= value ["undefined","ReferenceError"]
return [typeof globalThis.WebAssembly, tried(() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])))];
//# shared_memory: memory that another thread could see, and a clock made of it
//= value ["undefined","undefined","ReferenceError"]
return [typeof globalThis.SharedArrayBuffer, typeof globalThis.Atomics, tried(() => new SharedArrayBuffer(8))];
//# shared_memory_by_buffer: shared memory through what is left of buffers
//= value ["ArrayBuffer","ArrayBuffer"]
const buffer = new Uint8Array(8).buffer;
return [buffer.constructor.name, Object.prototype.toString.call(buffer).slice(8, -1)];
//# garbage_collection: watching the collector
//= value ["undefined","undefined"]
return [typeof globalThis.WeakRef, typeof globalThis.FinalizationRegistry];
//# high_resolution_clock: a clock finer than a millisecond
//= value [true,"undefined"]
return [Number.isInteger(Date.now()), typeof globalThis.performance];
//# natives_syntax: a function of the engine
//= syntax
return %GetOptimizationStatus(() => {});
//# debug_print: a function of the engine
//= syntax
%DebugPrint(1);
//# environment: the zone and language of the host
//= value [0,"1970-01-01T00:00:00.000Z"]
return [new Date(2020, 0, 1).getTimezoneOffset(), new Date(0).toISOString()];
//# host_functions: the prelude's functions for the host, as globals
//= value []
return ['deliver', 'run', 'fire', 'expose', 'describe', 'lock', 'host', 'settle', 'send', 'output', 'timer', 'pending',
  'origins', 'install'].filter((key) => key in globalThis);
//# control_membership: the probe finds what is there
//= value ["forge","Promise"]
return ['forge', 'Promise', 'nothing'].filter((key) => key in globalThis);

// Errors, stacks and values say nothing of the host, and what ends a script cannot be made to lie beyond its message.
// Probes answer what they found; `value []` is nothing.

//# stack_of_error: paths of the host in a stack
//= value []
try { null.x; } catch (e) { return (e.stack + e.message).match(/\.rs|\/home|\/usr|\/root|file:|target\/|cargo/g) ?? []; }
//# stack_of_call: paths of the host in the stack of a failed call
//= value []
const e = await github.fail({}).catch((e) => e);
return (e.stack + JSON.stringify(e)).match(/\.rs|\/home|\/usr|\/root|file:|target\/|forge:prelude|native/g) ?? [];
//# stack_of_api_error: paths of the host in the stack of a refused call
//= value []
try { github.echo(1); } catch (e) { return (e.stack + e.message).match(/\.rs|\/home|\/usr|\/root|file:|target\//g) ?? []; }
//# stack_of_import: paths of the host in the error of an import
//= value []
let e; try { await import('/x'); } catch (error) { e = error; }
return (e.stack + e.message).match(/\.rs|\/home|\/usr|\/root|target\//g) ?? [];
//# own_fields_of_error: fields beside those that are meant to be there
//= v8 value ["code","data","message","retryable","stack","suggested_fix"]
//= quickjs value ["code","data","message","retryable","stack","suggested_fix"]
const e = await github.fail({}).catch((e) => e);
return Reflect.ownKeys(e).map(String).sort();
//# console_of_secrets: what printing shows of the API
//= value 1
console.log(forge, github, manifest, ForgeError, globalThis.host);
return 1;
//# capture_stack_trace: the functions on the stack, as text or as objects
//= value []
if (!Error.captureStackTrace) return [];
const o = {}; Error.captureStackTrace(o);
return typeof o.stack === 'string' ? (o.stack.match(/\.rs|\/home|\/root/g) ?? []) : ['objects'];
//# cause_that_throws: an error that cannot be described
//= throws Error: outer
const cause = new Proxy({}, { getPrototypeOf() { throw new Error('trap'); } });
throw new Error('outer', { cause });
//# message_that_throws: an error that cannot be described
//= throws Error
const e = new Error(); Object.defineProperty(e, 'message', { get() { throw 1; } });
throw e;
//# name_that_throws: an error that cannot be described
//= throws Error: x
const e = new Error('x'); Object.defineProperty(e, 'name', { get() { throw 1; } });
throw e;
//# stack_that_throws: an error that cannot be described
//= throws Error: x
const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1; } });
throw e;
//# stack_that_is_an_object: a stack that is made while it is read
//= throws Error: x
const e = new Error('x'); Object.defineProperty(e, 'stack', { value: { toString() { return 'at a (script.js:99:99)'; } } });
throw e;
//# throw_proxy: something thrown that answers nothing
//= throws it threw a value that is not an Error
const trap = () => { throw new Error('trap'); };
throw new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap, getOwnPropertyDescriptor: trap });
//# throw_revoked_proxy: something thrown that is gone
//= throws it threw a value that is not an Error
const { proxy, revoke } = Proxy.revocable({}, {}); revoke();
throw proxy;
//# throw_revoked_function: something thrown that is gone, and callable
//= throws it threw a value that is not an Error
const { proxy, revoke } = Proxy.revocable(() => {}, {}); revoke();
throw proxy;
//# throw_null: nothing, thrown
//= throws it threw a value that is not an Error: null
throw null;
//# throw_symbol: a symbol, thrown
//= throws it threw a value that is not an Error: Symbol(x)
throw Symbol('x');
//# throw_namespace: a namespace, thrown
//= throws it threw a value that is not an Error
throw github;
//# reject_with_proxy: a promise that nobody awaits, rejected with something that answers nothing
//= throws it threw a value that is not an Error
const trap = () => { throw new Error('trap'); };
Promise.reject(new Proxy({}, { get: trap, getPrototypeOf: trap }));
return 1;
//# message_of_any_length: a message that floods the gateway
//= throws Error: xxxx
throw new Error('x'.repeat(2e7));
//# name_of_any_length: a name that floods the gateway
//= throws xxxx
const e = new Error(''); e.name = 'x'.repeat(2e7);
throw e;
//# stack_of_any_length: a stack that floods the gateway
//= throws Error: x
const e = new Error('x');
Object.defineProperty(e, 'stack', { value: ('    at ' + 'f'.repeat(5e5) + ' (script.js:1:1)\n').repeat(10) });
throw e;
//# function_name_of_any_length: a stack that floods the gateway, by the name of a function
//= throws Error: x
const f = { ['f'.repeat(3e6)]() { throw new Error('x'); } };
Object.values(f)[0]();
//# inspect_getter: code that runs while a value is printed
//= value 1
console.log({ get a() { throw new Error('x'); } }, { toJSON() { throw 1; } }, new Proxy({}, { get() { throw 1; } }));
return 1;
//# result_proxy: a result that answers nothing
//= throws Error: trap
return new Proxy({}, { get(t, k) { if (k === 'then') return undefined; throw new Error('trap'); } });
//# result_getter: a result that ends the run in another way
//= throws Error: late
return { get a() { throw new Error('late'); } };
//# result_to_json: a result that is another one
//= value {"forged":true}
return { toJSON() { return { forged: true }; } };
//# result_hidden_prototype: a result whose class lies about itself
//= value {"a":1}
return Object.setPrototypeOf({ a: 1 }, new Proxy({}, { get: () => undefined, getPrototypeOf: () => null }));

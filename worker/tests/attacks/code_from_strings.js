// No string becomes code, by whatever road the constructor of functions is reached.
//= v8 throws EvalError: Code generation from strings disallowed
//= quickjs throws TypeError: eval is not supported

//# function: code by the constructor of functions
return new Function('return 1')();
//# function_without_body: code by the constructor, of nothing
return new Function()();
//# function_called: code by the constructor as a function
return Function('a', 'b', 'return a + b')(1, 2);
//# constructor_of_arrow: code by a constructor chain
return (() => {}).constructor('return 1')();
//# constructor_of_method: code by a constructor chain
return ({ m() {} }).m.constructor('return 1')();
//# constructor_of_class: code by a constructor chain
return (class {}).constructor('return 1')();
//# constructor_of_getter: code by a constructor chain
return Object.getOwnPropertyDescriptor({ get a() { return 1; } }, 'a').get.constructor('return 1')();
//# constructor_of_native: code by a constructor chain
return [].map.constructor('return 1')();
//# constructor_of_constructor: code by a constructor chain
return ''.constructor.constructor('return 1')();
//# constructor_of_number: code by a constructor chain
return (0)['con' + 'structor']['con' + 'structor']('return 1')();
//# constructor_of_symbol: code by a constructor chain
return Symbol.iterator.constructor.constructor('return 1')();
//# constructor_of_big_int: code by a constructor chain
return 1n.constructor.constructor('return 1')();
//# constructor_of_regex: code by a constructor chain
return /x/.constructor.constructor('return 1')();
//# constructor_of_error: code by a constructor chain
try { null.x; } catch (e) { return e.constructor.constructor('return 1')(); }
//# constructor_of_stack_overflow: code by the constructor of an error of the engine
const f = () => f() + 1;
try { f(); } catch (e) { return e.constructor.constructor('return 1')(); }
//# constructor_of_promise: code by a constructor chain
return Promise.resolve().constructor.constructor('return 1')();
//# constructor_of_tool_promise: code by the constructor of what a call answers
const call = github.echo({});
await call;
return call.constructor.constructor('return 1')();
//# constructor_of_answer: code by the constructor of a tool's answer
return (await github.echo({ a: {} })).a.constructor.constructor('return 1')();
//# constructor_of_tool_error: code by the constructor of a tool's error
try { await github.fail({}); } catch (e) { return e.constructor.constructor('return 1')(); }
//# constructor_of_error_data: code by the constructor of what an error carries
try { await github.fail({}); } catch (e) { return e.data.detail.constructor.constructor('return 1')(); }
//# constructor_of_api: code by a constructor chain on the script API
return forge.callTool.constructor('return 1')();
//# constructor_of_console: code by a constructor chain on the script API
return console.log.constructor('return 1')();
//# constructor_of_stash: code by a constructor chain on the script API
return forge.stash.put.constructor('return 1')();
//# constructor_of_error_class: code by a constructor chain on the script API
return ForgeError.constructor('return 1')();
//# constructor_of_namespace_text: code by a function that a namespace hands out
return github[Symbol.toPrimitive].constructor('return 1')();
//# constructor_of_timer: code by a constructor chain on the script API
return setTimeout.constructor('return 1')();
//# constructor_of_manifest: code by a constructor chain on the script API
return manifest.servers.constructor('return 1')();
//# prototype_of_function: code by the prototype's constructor
return Object.getPrototypeOf(() => {}).constructor('return 1')();
//# own_descriptor: code by a descriptor of the constructor
return Object.getOwnPropertyDescriptor(Function.prototype, 'constructor').value('return 1')();
//# reflect_get: code by reflection
return Reflect.get(() => {}, 'constructor')('return 1')();
//# reflect_construct: code by reflection
return Reflect.construct(Function, ['return 1'])();
//# reflect_construct_new_target: code by reflection, as another class
return Reflect.construct(Function, ['return 1'], class {})();
//# reflect_apply: code by reflection
return Reflect.apply(Function, null, ['return 1'])();
//# bound: code by a bound constructor
return Function.bind(null, 'return 1')()();
//# proxied: code by a proxy of the constructor
return new Proxy(Function, {})('return 1')();
//# subclass: code by a class on top of the constructor
class F extends Function {}
return new F('return 1')();
//# callback_of_replace: code by a native that calls the constructor
return 'return 1'.replace(/.*/s, Function);
//# callback_of_map: code by a native that calls the constructor
return ['return 1'].map(Function)[0]();
//# callback_of_then: code by a promise that calls the constructor
return (await Promise.resolve('return 1').then(Function))();
//# callback_of_array_from: code by a native that constructs what it is told to
return Array.from.call(Function, []);
//# callback_of_sort: code by a native that calls the constructor
return ['a', 'return 1'].sort(Function);
//# tag: code by a template's tag
return Function`return 1`();
//# tag_by_chain: code by a tag that is reached from the template
return ((s) => s.constructor.constructor)`x``return 1`();
//# default_parameter: code by a default value
return ((x = (() => {}).constructor('return 1')) => x())();
//# destructuring: code by a pattern
const { constructor: { constructor: F } } = {};
return F('return 1')();
//# computed_getter: code by a getter with a computed name
return ({ get ['constructor']() { return (() => {}).constructor; } }).constructor('return 1')();
//# escaped_name: code by a name with an escape in it
return (() => {}).\u0063onstructor('return 1')();
//# escaped_global: code by a global's name with an escape in it
return Funct\u{69}on('return 1')();
//# coerced_text: code by a text that is made while it is read
return new Function({ toString() { return 'return 1'; } })();
//# symbol_to_primitive: code by a text that is made while it is read
return new Function({ [Symbol.toPrimitive]: () => 'return 1' })();
//# species: code by a class that says it is the constructor
class E extends Array { static get [Symbol.species]() { return Function; } }
return E.from(['return 1']).map((x) => x);
//# json_reviver: code by the holder that a reviver sees
return JSON.parse('1', function () { return this.constructor.constructor('return 1')(); });
//# async_function: code by the constructor of async functions
return await (async () => {}).constructor('return 1')();
//# generator_function: code by the constructor of generators
return (function* () {}).constructor('yield 1')().next().value;
//# async_generator_function: code by the constructor of async generators
return (await (async function* () {}).constructor('yield 1')().next()).value;
//# async_generator_instance: code by the constructor behind a running generator
async function* g() { yield 1; }
return Object.getPrototypeOf(Object.getPrototypeOf(g())).constructor.constructor('return 1');
//# generator_in_default: code by a generator in a default value
return ((x = [...(function* () { yield (function* () {}).constructor('yield 1'); })()]) => x)();

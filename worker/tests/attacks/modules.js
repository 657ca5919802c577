// Nothing is loaded: no file, no data, not even the modules that are loaded already.

//# dynamic_data: code from a data URL
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('data:text/javascript,export default 1');
//# dynamic_file: a file of the host
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('file:///etc/passwd');
//# dynamic_prelude: the module that holds the host functions
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('forge:prelude');
//# dynamic_self: the script's own module
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('script.js');
//# dynamic_node: a module of another host
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('node:fs');
//# dynamic_std: a module of QuickJS' own host
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('qjs:std');
//# dynamic_json: data with a type
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import('/etc/passwd', { with: { type: 'text' } });
//# dynamic_object: a specifier that is made while it is read
//= v8 throws SyntaxError: a script cannot import modules
//= quickjs throws ReferenceError:
await import({ toString() { return 'forge:prelude'; } });
//# static_import: a module of the host
//@ module
//= v8 syntax a script cannot import modules
//= quickjs syntax
import x from 'forge:prelude';
export default async () => x;
//# static_export_from: a module of the host, passed on
//@ module
//= v8 syntax a script cannot import modules
//= quickjs syntax
export * from 'forge:prelude';
export default async () => 1;
//# static_import_by_breakout: a module by closing the wrapper's function
//= v8 syntax a script cannot import modules
//= quickjs syntax
}
import x from 'forge:prelude';
export const y = () => {
//# meta: the place of the script
return JSON.stringify(import.meta) + Object.keys(import.meta).length;
//= v8 value "{}0"
//= quickjs value "{}0"
//# second_default: another function than the wrapper's
//@ module
//= syntax
export default async () => 1;
export default async () => 2;
//# no_default: a module without a function
//@ module
//= throws TypeError
export const x = 1;
//# default_is_thenable: a default export that pretends to be a promise
//@ module
//= throws TypeError
export default { then(resolve) { resolve(1); } };
//# evaluation_before_run: code at the top level of the module, before `run`, with the full API
//@ module
//= value ["function","undefined"]
const seen = [typeof forge.callTool, typeof globalThis.eval];
export default async () => seen;
//# top_level_await_forever: a module that never finishes evaluating
//@ module
//= throws ReferenceError: default is not initialized
//= v8 throws ReferenceError
await new Promise(() => {});
export default async () => 1;
//# top_level_throw: an error of the module's own evaluation
//@ module
//= throws Error: mine
throw new Error('mine');
export default async () => 1;
//# breakout_and_back: code outside of the wrapper's function, with more rights than inside
//= value null
}; export const y = [typeof globalThis.eval, forge.callTool('github', 'echo', {}).catch(() => {})]; {

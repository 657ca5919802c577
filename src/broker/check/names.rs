//! Names that a script uses and does not declare.

use wire::Language;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, did_you_mean, nearest};

/// Globals of every script besides the servers.
const API: &[&str] = &[
    "forge",
    "manifest",
    "console",
    "setTimeout",
    "call_tool",
    "try_call",
    "parallel",
    "defer",
    "read_resource",
    "prompt",
    "stash",
    "results",
    "ls",
    "cat",
    "search",
    "json",
    "print",
    "struct",
];

/// Globals of JavaScript. A name that an engine lacks ends the script when it is used.
#[rustfmt::skip]
const JAVASCRIPT: &[&str] = &[
    "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack", "AsyncIterator", "BigInt", "BigInt64Array",
    "BigUint64Array", "Boolean", "Buffer", "DOMException", "DataView", "Date", "DisposableStack", "Error", "EvalError",
    "Float16Array", "Float32Array", "Float64Array", "ForgeError", "Function", "Infinity", "Int16Array", "Int32Array",
    "Int8Array", "Intl", "Iterator", "JSON", "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy", "RangeError",
    "ReferenceError", "Reflect", "RegExp", "Set", "String", "SuppressedError", "Symbol", "SyntaxError", "Temporal",
    "TextDecoder", "TextEncoder", "TypeError", "URIError", "URL", "URLSearchParams", "Uint16Array", "Uint32Array",
    "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakSet", "WeakRef", "FinalizationRegistry", "arguments", "atob",
    "btoa", "clearInterval", "clearTimeout", "console", "crypto", "decodeURI", "decodeURIComponent", "encodeURI",
    "encodeURIComponent", "escape", "eval", "forge", "globalThis", "isFinite", "isNaN", "manifest", "parseFloat",
    "parseInt", "queueMicrotask", "setInterval", "setTimeout", "structuredClone", "undefined", "unescape",
];

/// Names of servers and of the script API that are spelt alike.
#[must_use]
pub fn similar(name: &str, catalog: &Catalog) -> Vec<String> {
    nearest(name, catalog.servers().iter().map(|server| server.ident.as_str()).chain(API.iter().copied()))
}

/// The error of a name that nothing has. A checker leaves out the globals of Starlark itself.
pub(super) fn undefined(name: &str, language: Language, catalog: &Catalog) -> Option<Error> {
    let is_global = language == Language::Javascript && JAVASCRIPT.contains(&name);
    if is_global || catalog.servers().iter().any(|server| server.ident == name) {
        return None;
    }
    let fix = did_you_mean(&similar(name, catalog))
        .unwrap_or_else(|| "declare it, or look at `ls /` for the servers and `cat /forge.*` for the rest".to_owned());
    Some(Error::new(ErrorCode::ScriptError, format!("`{name}` is not defined")).hint(fix))
}

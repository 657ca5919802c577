//! Functions of the script API, and bounded replacements of built-in ones.

use std::num::NonZeroI32;

use num_bigint::BigInt;
use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_module;
use starlark::values::list::{ListRef, UnpackList};
use starlark::values::none::{NoneOr, NoneType};
use starlark::values::range::Range;
use starlark::values::{Heap, UnpackValue, Value};
use wire::{Op, Stream};

use super::builtins::python;
use super::convert::{styled, to_json};
use super::format::percent as percent_of;
use super::namespace::keywords;
use super::parallel::{Deferred, Outcomes, called, invoke, outcome, parallel as run_parallel};
use super::session::{Session, argument};

/// Function that `*` in scripts compiles to: no script can write the name.
pub(super) const MULTIPLY: &str = "*";
/// The same for `%`.
pub(super) const PERCENT: &str = "%";

/// Longest product of integers, in bits: multiplication takes more than linear time and cannot be interrupted.
const MAX_BITS: u64 = 1 << 20;
/// Bytes of a list or tuple per element.
const SLOT: usize = size_of::<usize>();

/// Globals of a script.
pub(super) fn globals() -> Globals {
    use LibraryExtension::{Filter, Map, Partial, SetType, StructType};
    GlobalsBuilder::extended_by(&[StructType, Map, Filter, Partial, SetType])
        .with(bounded)
        .with(python)
        .with(|builder| {
            let operators = GlobalsBuilder::new().with(operators).build();
            builder.frozen_heap().add_reference(operators.heap());
            for (name, operator) in operators.iter() {
                builder.set(if name == "percent" { PERCENT } else { MULTIPLY }, operator);
            }
        })
        .with(calls)
        .with(discovery)
        .with_namespace("forge", |builder| {
            forge(builder);
            calls(builder);
            discovery(builder);
            builder.namespace("runs", runs);
        })
        .with_namespace("stash", stash)
        .with_namespace("results", results)
        .with_namespace("json", json)
        .build()
}

#[starlark_module]
fn bounded(builder: &mut GlobalsBuilder) {
    /// `range`, at most as long as a list that fits the heap.
    fn range<'v>(
        #[starlark(require = pos)] a1: i32,
        #[starlark(require = pos)] a2: Option<i32>,
        #[starlark(require = pos, default = 1)] step: i32,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Range> {
        let (start, stop) = a2.map_or((0, a1), |stop| (a1, stop));
        let Some(step) = NonZeroI32::new(step) else { anyhow::bail!("the step of a range cannot be zero") };
        let distance = i64::from(stop) - i64::from(start);
        let length = usize::try_from(distance / i64::from(step.get())).unwrap_or(0);
        let limit = Session::of(eval)?.heap_bytes() / SLOT;
        if length > limit {
            anyhow::bail!("a range of {length} elements is over the limit of {limit}: use a shorter one");
        }
        Ok(Range::new(start, stop, step))
    }
}

/// `a * b`, refused before a result over the heap is allocated, and `a % b` with the formats of Python.
#[starlark_module]
fn operators(builder: &mut GlobalsBuilder) {
    fn multiply<'v>(
        #[starlark(require = pos)] a: Value<'v>,
        #[starlark(require = pos)] b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let (times, repeated) = if a.get_type() == "int" { (a, b) } else { (b, a) };
        if let (Some(times), "string" | "bytes" | "list" | "tuple") = (times.unpack_i32(), repeated.get_type()) {
            let unit = if matches!(repeated.get_type(), "list" | "tuple") { SLOT } else { 1 };
            let length = usize::try_from(repeated.length()?).unwrap_or(0);
            let bytes = length.saturating_mul(unit).saturating_mul(usize::try_from(times).unwrap_or(0));
            let limit = Session::of(eval)?.heap_bytes();
            if bytes > limit {
                return Err(starlark::Error::new_native(anyhow::anyhow!(
                    "a {} of {bytes} bytes is over the heap limit of {limit} bytes",
                    repeated.get_type()
                )));
            }
        }
        let bits = integer_bits(a).saturating_add(integer_bits(b));
        if bits > MAX_BITS {
            return Err(starlark::Error::new_native(anyhow::anyhow!(
                "an integer of {bits} bits is over the limit of {MAX_BITS} bits"
            )));
        }
        a.mul(b, eval.heap())
    }

    fn percent<'v>(
        #[starlark(require = pos)] a: Value<'v>,
        #[starlark(require = pos)] b: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        percent_of(a, b, eval.heap(), Session::of(eval)?.heap_bytes() / 2)
    }
}

/// Bits of a large integer; 0 for other values.
fn integer_bits(value: Value<'_>) -> u64 {
    if value.get_type() != "int" || value.unpack_i32().is_some() {
        return 0;
    }
    BigInt::unpack_value(value).ok().flatten().map_or(0, |number| number.bits())
}

#[starlark_module]
fn calls(builder: &mut GlobalsBuilder) {
    /// Calls a tool by the names of its server and itself.
    fn call_tool<'v>(args: &Arguments<'v, '_>, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let (server, tool, args) = two_names("call_tool(server, tool, name = value)", args, heap)?;
        Session::of(eval)?.ask(Op::Tool { server, tool, args }, heap)
    }

    /// Gets a prompt of a server.
    fn prompt<'v>(args: &Arguments<'v, '_>, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let (server, name, args) = two_names("prompt(server, name, argument = value)", args, heap)?;
        Session::of(eval)?.ask(Op::Prompt { server, name, args }, heap)
    }

    /// Reads a resource of a server.
    fn read_resource<'v>(server: String, uri: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::ReadResource { server, uri }, eval.heap())
    }

    /// Calls a function and returns `struct(ok, value, error)` instead of failing.
    fn try_call<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] args: Value<'v>,
        #[starlark(kwargs)] kwargs: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        called(function, "try_call takes a function and its arguments, as in try_call(server.tool, name = value)")?;
        let result = invoke(function, args, kwargs, eval);
        outcome(result, Session::of(eval)?, eval.heap())
    }

    /// A deferred call for `parallel`.
    fn defer<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] args: Value<'v>,
        #[starlark(kwargs)] kwargs: Value<'v>,
    ) -> anyhow::Result<Deferred<'v>> {
        Ok(Deferred::new(function, args, kwargs))
    }

    /// Makes deferred calls concurrently; the outcome of each is a `struct(ok, value, error)`.
    fn parallel<'v>(
        #[starlark(require = pos)] tasks: UnpackList<Value<'v>>,
        #[starlark(require = named, default = 8)] concurrency: i32,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Outcomes<'v>> {
        let Some(concurrency) = usize::try_from(concurrency).ok().filter(|concurrency| *concurrency > 0) else {
            return Err(starlark::Error::new_native(anyhow::anyhow!("concurrency must be a number from 1 up")));
        };
        run_parallel(&tasks.items, concurrency, eval)
    }
}

/// The two positional names of a call, and its keyword arguments.
fn two_names<'v>(
    form: &str,
    args: &Arguments<'v, '_>,
    heap: Heap<'v>,
) -> starlark::Result<(String, String, wire::Json)> {
    let names: Vec<_> = args.positions(heap)?.collect();
    let texts: Vec<_> = names.iter().filter_map(|name| name.unpack_str()).collect();
    match texts[..] {
        [server, name] if names.len() == 2 => Ok((server.to_owned(), name.to_owned(), keywords(args, heap)?)),
        _ => Err(starlark::Error::new_native(anyhow::anyhow!("{form} takes two strings and keyword arguments"))),
    }
}

/// The script API under the name that it has in JavaScript.
#[starlark_module]
fn forge(builder: &mut GlobalsBuilder) {
    /// Calls of tools, resources and prompts that the run may still make.
    fn calls_left<'v>(eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<u32> {
        Ok(Session::of(eval)?.calls_left())
    }

    /// The value of a Python literal; a value that is no text is itself, since an empty list is JSON too.
    fn literal<'v>(text: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        let Some(source) = text.unpack_str() else { return Ok(text) };
        let json = wire::python::as_json(source).ok_or_else(|| anyhow::Error::msg(wire::python::unfit(source)))?;
        Session::of(eval)?.read_json(&json, eval.heap())
    }

    /// Reports progress to the client.
    fn progress<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<NoneType> {
        Session::of(eval)?.output(Stream::Progress, text);
        Ok(NoneType)
    }
}

#[starlark_module]
fn discovery(builder: &mut GlobalsBuilder) {
    /// Lists a folder of the stubs.
    fn ls<'v>(
        #[starlark(default = "/")] path: &str,
        #[starlark(default = NoneOr::None)] depth: NoneOr<u32>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let op = Op::Ls { path: path.to_owned(), depth: depth.into_option() };
        Session::of(eval)?.ask(op, eval.heap())
    }

    /// Reads stubs.
    fn cat<'v>(
        paths: Value<'v>,
        #[starlark(default = NoneOr::None)] lines: NoneOr<String>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let op = Op::Cat { paths: texts(paths, "path")?, lines: lines.into_option() };
        Session::of(eval)?.ask(op, eval.heap())
    }

    /// Searches the stubs.
    fn search<'v>(
        queries: Value<'v>,
        #[starlark(default = NoneOr::None)] limit: NoneOr<u32>,
        #[starlark(default = NoneOr::None)] path: NoneOr<String>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let op = Op::Search { queries: texts(queries, "query")?, limit: limit.into_option(), path: path.into_option() };
        Session::of(eval)?.ask(op, eval.heap())
    }
}

fn keep<'v>(
    key: String,
    value: Value<'v>,
    ttl: NoneOr<u64>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<NoneType> {
    let value = argument(value, eval.heap())?;
    Session::of(eval)?.ask(Op::StashPut { key, value, ttl_secs: ttl.into_option() }, eval.heap())?;
    Ok(NoneType)
}

#[starlark_module]
fn stash(builder: &mut GlobalsBuilder) {
    /// Stores a value for later runs of the session.
    fn put<'v>(
        key: String,
        value: Value<'v>,
        #[starlark(default = NoneOr::None)] ttl: NoneOr<u64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        keep(key, value, ttl, eval)
    }

    /// The same, by the name that maps and storages have for it.
    fn set<'v>(
        key: String,
        value: Value<'v>,
        #[starlark(default = NoneOr::None)] ttl: NoneOr<u64>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<NoneType> {
        keep(key, value, ttl, eval)
    }

    /// Reads a stored value.
    fn get<'v>(key: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::StashGet { key }, eval.heap())
    }

    /// Deletes a stored value.
    fn delete<'v>(key: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::StashDelete { key }, eval.heap())
    }

    /// The stored keys.
    fn keys<'v>(eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::StashKeys, eval.heap())
    }
}

#[starlark_module]
fn results(builder: &mut GlobalsBuilder) {
    /// Results of earlier runs that were too large to answer with.
    fn list<'v>(eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::ResultsList, eval.heap())
    }

    /// Reads one of them.
    fn get<'v>(path: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::ResultsGet { path }, eval.heap())
    }
}

#[starlark_module]
fn runs(builder: &mut GlobalsBuilder) {
    /// Runs of the client, oldest first.
    fn list<'v>(eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::RunsList, eval.heap())
    }

    /// Reads one of them.
    fn get<'v>(run: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::RunsGet { run }, eval.heap())
    }

    /// Ends one that goes on in the background.
    fn cancel<'v>(run: String, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
        Session::of(eval)?.ask(Op::RunsCancel { run }, eval.heap())
    }
}

#[starlark_module]
fn json(builder: &mut GlobalsBuilder) {
    /// A value as JSON.
    fn encode<'v>(value: Value<'v>, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<String> {
        to_json(value, eval.heap(), Session::of(eval)?.heap_bytes() / 2)
    }

    /// `encode` under its Python name.
    fn dumps<'v>(
        value: Value<'v>,
        #[starlark(require = named, default = NoneOr::None)] indent: NoneOr<u32>,
        #[starlark(require = named, default = false)] sort_keys: bool,
        #[starlark(require = named)] ensure_ascii: Option<bool>,
        #[starlark(require = named)] separators: Option<Value<'v>>,
        #[starlark(require = named)] default: Option<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        // Other spellings of the same value, and a way for values that have none here either.
        let _ = (ensure_ascii, separators, default);
        let json = to_json(value, eval.heap(), Session::of(eval)?.heap_bytes() / 2)?;
        let indent = indent.into_option();
        if indent.is_some() || sort_keys { styled(&json, indent, sort_keys) } else { Ok(json) }
    }

    /// Parses a JSON text.
    fn decode<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        Session::of(eval)?.read_json(text, eval.heap())
    }

    /// `decode` under its Python name.
    fn loads<'v>(text: &str, eval: &mut Evaluator<'v, '_, '_>) -> anyhow::Result<Value<'v>> {
        Session::of(eval)?.read_json(text, eval.heap())
    }
}

/// One string or several.
fn texts(value: Value<'_>, what: &str) -> anyhow::Result<Vec<String>> {
    let items = match ListRef::from_value(value) {
        Some(list) => list.content(),
        None => &[value][..],
    };
    let text = |item: &Value<'_>| match item.unpack_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(anyhow::anyhow!("a {what} must be a string, not {}", item.get_type())),
    };
    items.iter().map(text).collect()
}

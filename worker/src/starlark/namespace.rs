//! `github`, `github.issues`, `github.create_issue`: one kind of value. It accepts any attribute, because the gateway
//! resolves names at the call, with suggestions.

use std::fmt;

use allocative::Allocative;
use starlark::eval::{Arguments, Evaluator};
use starlark::starlark_simple_value;
use starlark::values::dict::AllocDict;
use starlark::values::{Heap, NoSerialize, ProvidesStaticType, StarlarkPagable, StarlarkValue, Value, starlark_value};
use wire::{Json, Op};

use super::session::{Session, argument};

/// Longest name in a script, with its categories, in bytes: the heap does not count its memory.
const MAX_NAME: usize = 1024;

/// A server, or one of its tools.
#[derive(Debug, Clone, ProvidesStaticType, NoSerialize, StarlarkPagable, Allocative)]
pub(super) struct Namespace {
    server: String,
    /// Text of the script, for messages.
    pub(super) shown: String,
    /// The tool, with its category if given; empty for the server itself.
    tool: String,
}

starlark_simple_value!(Namespace);

impl Namespace {
    pub(super) fn server(ident: &str, name: &str) -> Self {
        Self { server: name.to_owned(), shown: ident.to_owned(), tool: String::new() }
    }

    /// The call with these arguments.
    fn op<'v>(&self, args: &Arguments<'v, '_>, heap: Heap<'v>) -> starlark::Result<Op> {
        if self.tool.is_empty() {
            let message = format!("{0} is a server, not a tool: call {0}.<tool>(name = value)", self.shown);
            return Err(starlark::Error::new_native(anyhow::Error::msg(message)));
        }
        let positional = args.positions(heap)?.count();
        if positional > 0 {
            return Err(starlark::Error::new_native(anyhow::anyhow!(
                "{0} takes keyword arguments only, as in {0}(name = value); got {positional} without a name",
                self.shown
            )));
        }
        let args = keywords(args, heap)?;
        Ok(Op::Tool { server: self.server.clone(), tool: self.tool.clone(), args })
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<forge {}>", self.shown)
    }
}

#[starlark_value(type = "forge_tool")]
impl<'v> StarlarkValue<'v> for Namespace {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        if !self.has_attr(attribute, heap) {
            return None;
        }
        let tool = if self.tool.is_empty() { attribute.to_owned() } else { format!("{}.{attribute}", self.tool) };
        let shown = format!("{}.{attribute}", self.shown);
        Some(heap.alloc(Self { server: self.server.clone(), shown, tool }))
    }

    fn has_attr(&self, attribute: &str, _heap: Heap<'v>) -> bool {
        self.tool.len() + attribute.len() < MAX_NAME
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        args: &Arguments<'v, '_>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let op = self.op(args, eval.heap())?;
        let value = Session::of(eval)?.ask(op, eval.heap())?;
        Session::of(eval)?.answered(&self.shown, value);
        Ok(value)
    }
}

/// Keyword arguments as a JSON object.
pub(super) fn keywords<'v>(args: &Arguments<'v, '_>, heap: Heap<'v>) -> starlark::Result<Json> {
    Ok(argument(heap.alloc(AllocDict(args.names_map()?)), heap)?)
}

//! Literal defaults of parameters.

use oxc_ast::ast::Expression;
use serde_json::Value;
use starlark::syntax::ast::AstExpr;

use super::super::literal::{Seen, constant, of_javascript, of_starlark};
use super::object::simple;

/// Deepest nesting of a default.
const MAX_LEVELS: usize = 8;

/// The value of an expression that is written out.
pub(super) fn in_javascript(expression: &Expression<'_>) -> Option<Value> {
    of_javascript(expression, MAX_LEVELS, &|_, _| Seen::Nothing).value()
}

/// The same in Starlark.
pub(super) fn in_starlark(expression: &AstExpr) -> Option<Value> {
    of_starlark(expression, MAX_LEVELS, &|name, _| constant(name))
}

/// The type that a default shows, where none is written.
pub(super) fn type_of(default: &Value, is_integer: bool) -> Option<Value> {
    match default {
        Value::String(_) => Some(simple("string")),
        Value::Bool(_) => Some(simple("boolean")),
        Value::Number(_) => Some(simple(if is_integer { "integer" } else { "number" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

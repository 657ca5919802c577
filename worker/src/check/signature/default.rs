//! Literal defaults of parameters.

use oxc_ast::ast::{ArrayExpressionElement, Expression, ObjectPropertyKind, PropertyKind};
use serde_json::{Map, Value};

use super::super::numbers;
use super::object::simple;

/// Deepest nesting of a default.
const MAX_LEVELS: usize = 8;

/// The value of an expression that is written out.
pub(super) fn literal(expression: &Expression<'_>) -> Option<Value> {
    literal_within(expression, MAX_LEVELS)
}

fn literal_within(expression: &Expression<'_>, levels: usize) -> Option<Value> {
    let levels = levels.checked_sub(1)?;
    match expression.get_inner_expression() {
        Expression::StringLiteral(text) => Some(Value::from(text.value.as_str())),
        Expression::TemplateLiteral(text) => text.single_quasi().map(|text| Value::from(text.as_str())),
        Expression::BooleanLiteral(flag) => Some(Value::Bool(flag.value)),
        Expression::NullLiteral(_) => Some(Value::Null),
        Expression::ArrayExpression(array) => {
            let item = |item: &ArrayExpressionElement<'_>| literal_within(item.as_expression()?, levels);
            array.elements.iter().map(item).collect::<Option<_>>().map(Value::Array)
        }
        Expression::ObjectExpression(object) => {
            let property = |property: &ObjectPropertyKind<'_>| match property {
                ObjectPropertyKind::ObjectProperty(it)
                    if it.kind == PropertyKind::Init && !it.method && !it.computed =>
                {
                    let name = it.key.static_name().filter(|name| name != "__proto__")?;
                    Some((name.into_owned(), literal_within(&it.value, levels)?))
                }
                _ => None,
            };
            object.properties.iter().map(property).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        other => numbers::value(other),
    }
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

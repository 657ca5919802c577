//! Values that the text of a script writes out.

use oxc_ast::ast::{
    ArrayExpressionElement, BinaryOperator, Expression, IdentifierReference, ObjectPropertyKind, PropertyKind,
};
use serde_json::{Map, Number, Value};
use starlark::syntax::ast::{AstExpr, AstLiteral, Expr};
use wire::JsonType;

use super::numbers;

/// Longest integer of Starlark whose value counts, in digits.
const MAX_DIGITS: usize = 30;

/// A value, as far as it is known.
pub(super) enum Seen {
    Value(Value),
    Type(JsonType),
    /// `undefined`, which JSON leaves out.
    Absent,
    Nothing,
}

impl Seen {
    pub(super) fn value(self) -> Option<Value> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

/// The value of an expression of JavaScript, up to `levels` deep; `named` has those of names.
pub(super) fn of_javascript<'a>(
    expression: &Expression<'a>,
    levels: usize,
    named: &dyn Fn(&IdentifierReference<'a>, usize) -> Seen,
) -> Seen {
    let Some(levels) = levels.checked_sub(1) else { return Seen::Nothing };
    let value = |expression: &Expression<'a>| of_javascript(expression, levels, named).value();
    match expression.get_inner_expression() {
        Expression::StringLiteral(text) => Seen::Value(text.value.as_str().into()),
        Expression::BooleanLiteral(literal) => Seen::Value(literal.value.into()),
        Expression::NullLiteral(_) => Seen::Value(Value::Null),
        Expression::TemplateLiteral(template) => match template.single_quasi() {
            Some(text) => Seen::Value(text.as_str().into()),
            None => Seen::Type(JsonType::String),
        },
        Expression::BinaryExpression(binary) if binary.operator == BinaryOperator::Addition => {
            let is_text = |side: &Expression<'a>| {
                matches!(side.get_inner_expression(), Expression::StringLiteral(_) | Expression::TemplateLiteral(_))
            };
            if is_text(&binary.left) || is_text(&binary.right) { Seen::Type(JsonType::String) } else { Seen::Nothing }
        }
        Expression::ArrayExpression(array) => {
            // A hole is no value, as `undefined` is none.
            let item = |item: &ArrayExpressionElement<'a>| value(item.as_expression()?);
            let items: Option<Vec<Value>> = array.elements.iter().map(item).collect();
            items.map_or(Seen::Type(JsonType::Array), |items| Seen::Value(Value::Array(items)))
        }
        Expression::ObjectExpression(object) => {
            let field = |property: &ObjectPropertyKind<'a>| match property {
                ObjectPropertyKind::ObjectProperty(it) if it.kind == PropertyKind::Init && !it.method => {
                    let name = it.key.static_name().filter(|name| name != "__proto__")?;
                    Some((name.into_owned(), value(&it.value)?))
                }
                _ => None,
            };
            let fields: Option<Map<String, Value>> = object.properties.iter().map(field).collect();
            fields.map_or(Seen::Type(JsonType::Object), |fields| Seen::Value(Value::Object(fields)))
        }
        Expression::Identifier(name) => named(name, levels),
        other => numbers::value(other).map_or(Seen::Nothing, Seen::Value),
    }
}

/// The value of an expression of Starlark, up to `levels` deep; `named` has those of names.
pub(super) fn of_starlark(
    expression: &AstExpr,
    levels: usize,
    named: &dyn Fn(&str, usize) -> Option<Value>,
) -> Option<Value> {
    let levels = levels.checked_sub(1)?;
    let value = |expression: &AstExpr| of_starlark(expression, levels, named);
    match &expression.node {
        Expr::Literal(AstLiteral::String(text)) => Some(Value::from(text.node.as_str())),
        Expr::Literal(AstLiteral::Int(number)) => {
            let digits = number.node.to_string();
            if digits.len() <= MAX_DIGITS { numbers::whole(&digits) } else { None }
        }
        Expr::Literal(AstLiteral::Float(number)) => Number::from_f64(number.node).map(Value::Number),
        Expr::Minus(inner) => numbers::negated(value(inner)?),
        Expr::Identifier(name) => named(&name.node.ident, levels),
        Expr::List(items) | Expr::Tuple(items) => items.iter().map(value).collect::<Option<_>>().map(Value::Array),
        Expr::Dict(entries) => {
            let entry = |(key, item): &(AstExpr, AstExpr)| match value(key)? {
                Value::String(key) => Some((key, value(item)?)),
                _ => None,
            };
            entries.iter().map(entry).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}

/// The values of names that every script in Starlark has.
pub(super) fn constant(name: &str) -> Option<Value> {
    match name {
        "True" => Some(Value::Bool(true)),
        "False" => Some(Value::Bool(false)),
        "None" => Some(Value::Null),
        _ => None,
    }
}

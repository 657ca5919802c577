//! Numbers in the text of scripts: the values of literals, and which of them a double does not hold.

use oxc_ast::ast::{BigIntLiteral, Expression, NumberBase, NumericLiteral, Program, UnaryExpression, UnaryOperator};
use oxc_ast_visit::Visit;
use serde_json::{Number, Value};
use starlark::syntax::ast::{AstExpr, AstLiteral, Expr};
use wire::json::is_held;

use crate::starlark::{EXACT, Places, Script};

/// Places of the literals that a double does not hold, as byte offsets.
pub(super) fn of_javascript(program: &Program<'_>) -> Vec<(u32, u32)> {
    struct Reader(Vec<(u32, u32)>);
    impl<'a> Visit<'a> for Reader {
        fn visit_numeric_literal(&mut self, it: &NumericLiteral<'a>) {
            let is_held = match it.base {
                NumberBase::Float => is_held(&it.raw_str().replace('_', "")),
                _ => it.value < EXACT,
            };
            if !is_held {
                self.0.push((it.span.start, it.span.end));
            }
        }
    }
    let mut reader = Reader(Vec::new());
    reader.visit_program(program);
    reader.0.sort_unstable();
    reader.0
}

/// The same of Starlark, whose integers have any length.
pub(super) fn of_starlark(script: &Script, code: &str) -> Vec<(u32, u32)> {
    fn visit(expression: &AstExpr, places: &Places, code: &str, found: &mut Vec<(u32, u32)>) {
        if let Expr::Literal(AstLiteral::Float(number)) = &expression.node {
            let (start, end) = places.range(number.span);
            let is_held = code.get(start as usize..end as usize).is_none_or(is_held);
            found.extend((!is_held).then_some((start, end)));
        }
        expression.visit_expr(|inner| visit(inner, places, code, found));
    }
    let mut found = Vec::new();
    script.ast.statement().visit_expr(|expression| visit(expression, &script.places, code, &mut found));
    found.sort_unstable();
    found
}

/// The value of a literal, with its sign.
pub(super) fn value(expression: &Expression<'_>) -> Option<Value> {
    match expression {
        Expression::NumericLiteral(it) => number(it),
        Expression::BigIntLiteral(it) => big(it),
        Expression::UnaryExpression(it) => negative(it),
        _ => None,
    }
}

/// A number as `JSON.stringify` writes it; JSON has no infinity. A decimal integer that a double does not hold has its
/// digits.
pub(super) fn number(literal: &NumericLiteral<'_>) -> Option<Value> {
    match literal.base {
        _ if literal.value < EXACT && literal.value.fract() == 0.0 => Some(Value::from(literal.value as i64)),
        NumberBase::Float => Number::from_f64(literal.value).map(Value::Number),
        _ => whole(&literal.raw_str().replace('_', "")),
    }
}

pub(super) fn big(literal: &BigIntLiteral<'_>) -> Option<Value> {
    whole(&literal.value)
}

/// The value behind a minus.
pub(super) fn negative(unary: &UnaryExpression<'_>) -> Option<Value> {
    if unary.operator != UnaryOperator::UnaryNegation {
        return None;
    }
    let size = match unary.argument.get_inner_expression() {
        Expression::NumericLiteral(it) => number(it)?,
        Expression::BigIntLiteral(it) => big(it)?,
        _ => return None,
    };
    negated(size)
}

/// The number with the other sign; zero has none.
pub(super) fn negated(number: Value) -> Option<Value> {
    match number {
        Value::Number(_) if number == 0 => Some(number),
        Value::Number(number) => whole(&format!("-{number}").replace("--", "")),
        _ => None,
    }
}

pub(super) fn whole(digits: &str) -> Option<Value> {
    serde_json::from_str(digits).ok().map(Value::Number)
}

//! Names followed to the calls and answers that they stand for.

use oxc_ast::ast::{ArrayExpressionElement, BindingPattern, CallExpression, Expression, IdentifierReference};
use oxc_semantic::{IsGlobalReference as _, SymbolId};
use oxc_span::{GetSpan as _, Span};
use wire::How;

use super::super::{MAX_ALL, MAX_LEVELS, Origin};
use super::Reader;
use super::api::hides;

impl<'a> Reader<'a, '_> {
    pub(super) fn symbol(&self, name: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.semantic.scoping().get_reference(name.reference_id()).symbol_id()
    }

    /// True for a name that has one value: it is declared once, and assigned to nowhere else.
    pub(super) fn is_fixed(&self, symbol: SymbolId) -> bool {
        let scoping = self.semantic.scoping();
        !scoping.symbol_is_mutated(symbol) && scoping.symbol_redeclarations(symbol).is_empty()
    }

    pub(super) fn origin(&self, expression: &Expression<'a>) -> Option<Origin> {
        self.origin_within(expression, MAX_LEVELS)
    }

    pub(super) fn origin_within(&self, expression: &Expression<'a>, levels: usize) -> Option<Origin> {
        let levels = levels.checked_sub(1)?;
        match expression.get_inner_expression() {
            Expression::Identifier(name) => match self.symbol(name) {
                Some(symbol) => self.origins.get(&symbol).cloned(),
                None => Some(Origin::Names(vec![name.name.as_str().to_owned()], false)),
            },
            Expression::StaticMemberExpression(member) => {
                let object = self.origin_within(&member.object, levels)?;
                let is_followed = !member.optional || object.is_answer();
                object.part(&member.property.name).filter(|_| is_followed)
            }
            // `answer.items ?? []`
            Expression::LogicalExpression(either) if is_empty(&either.right) => {
                self.origin_within(&either.left, levels).filter(Origin::is_answer)
            }
            Expression::ComputedMemberExpression(member) if !member.optional => {
                let object = self.origin_within(&member.object, levels)?;
                match (&member.expression, object) {
                    (Expression::NumericLiteral(index), all @ Origin::All(..)) => all.part(&index.value.to_string()),
                    (Expression::NumericLiteral(_), object) => object.item(),
                    (_, object) => object.part(&member.static_property_name()?),
                }
            }
            Expression::AwaitExpression(awaited) => Some(self.origin_within(&awaited.argument, levels)?.awaited()),
            Expression::CallExpression(call) => self.origin_of_call(call, levels),
            _ => None,
        }
    }

    pub(super) fn origin_of_call(&self, call: &CallExpression<'a>, levels: usize) -> Option<Origin> {
        if let Some(number) = self.calls.get(&call.span) {
            return Some(Origin::Answer { call: *number, path: Vec::new(), is_promise: true });
        }
        let (root, method) = self.api(&call.callee)?;
        let first = call.arguments.first()?.as_expression()?;
        match (root, method, first.get_inner_expression()) {
            ("forge", "server", _) => Some(Origin::Names(vec![self.text(first)?], true)),
            ("Promise", "all", Expression::ArrayExpression(array)) => {
                let mut room = MAX_ALL;
                let item = |item: &ArrayExpressionElement<'a>| {
                    let origin = self.origin_within(item.as_expression().filter(|_| room > 0)?, levels)?;
                    let left = room.checked_sub(origin.size());
                    room = left.unwrap_or(0);
                    left.map(|_| origin)
                };
                Some(Origin::All(array.elements.iter().take(MAX_ALL).map(item).collect(), true))
            }
            _ => None,
        }
    }

    /// A method of a global object, as `forge.server`.
    pub(super) fn api<'e>(&self, callee: &'e Expression<'a>) -> Option<(&'e str, &'e str)> {
        let Expression::StaticMemberExpression(member) = callee.get_inner_expression() else { return None };
        let Expression::Identifier(object) = member.object.get_inner_expression() else { return None };
        let is_global = object.is_global_reference(self.semantic.scoping());
        is_global.then(|| (object.name.as_str(), member.property.name.as_str()))
    }

    pub(super) fn bind(&mut self, pattern: &BindingPattern<'a>, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                let symbol = name.symbol_id();
                if self.is_fixed(symbol) {
                    // Code above that runs later has called by this name what was not known there.
                    self.draft.outline.is_partial |= self.early.contains(&symbol) && hides(&origin);
                    self.origins.insert(symbol, origin);
                }
            }
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let Some(key) = property.key.static_name().filter(|_| !property.computed) else { continue };
                    let has_default = matches!(property.value, BindingPattern::AssignmentPattern(_));
                    let outer = self.draft.is_guarded;
                    self.draft.is_guarded |= has_default;
                    self.note_read(&origin, &key, property.key.span());
                    self.draft.is_guarded = outer;
                    let part = self.part(&origin, &key);
                    self.bind(&property.value, part);
                }
            }
            BindingPattern::ArrayPattern(array) => {
                for (index, element) in array.elements.iter().enumerate() {
                    let part = match &origin {
                        Origin::All(..) => origin.clone().part(&index.to_string()),
                        _ => origin.clone().item(),
                    };
                    if let Some(element) = element {
                        self.bind(element, part);
                    }
                }
            }
            BindingPattern::AssignmentPattern(with_default) => self.bind(&with_default.left, Some(origin)),
        }
    }

    pub(super) fn note_read(&mut self, origin: &Origin, key: &str, span: Span) {
        self.draft.read(origin, key, How::Key, || self.lines.place(span.start));
    }

    pub(super) fn note_change(&mut self, object: &Expression<'a>) {
        if let Some(Origin::Answer { call, .. }) = self.origin(object) {
            self.draft.changed.push(call);
        }
    }
}

fn is_empty(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::ArrayExpression(array) => array.elements.is_empty(),
        Expression::ObjectExpression(object) => object.properties.is_empty(),
        _ => false,
    }
}

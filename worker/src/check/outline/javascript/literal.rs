//! Values that the text of JavaScript shows.

use std::collections::HashMap;

use oxc_ast::AstKind;
use oxc_ast::ast::{Argument, BindingPattern, Expression, IdentifierReference, ObjectPropertyKind, PropertyKind};
use oxc_semantic::IsGlobalReference as _;
use serde_json::Value;
use wire::{Args, JsonType, Known};

use super::super::super::literal::{Seen, of_javascript};
use super::super::MAX_LEVELS;
use super::Reader;

impl<'a> Reader<'a, '_> {
    /// The arguments of a tool.
    pub(super) fn arguments(&mut self, arguments: &[Argument<'a>]) -> Args {
        let spread = arguments.iter().any(Argument::is_spread);
        match arguments {
            [] => Args::Named(Vec::new(), false),
            _ if spread => Args::Unknown,
            [only] => only.as_expression().map_or(Args::Unknown, |only| self.named(only)),
            several => Args::Positional(several.len()),
        }
    }

    fn named(&mut self, argument: &Expression<'a>) -> Args {
        let Expression::ObjectExpression(object) = argument.get_inner_expression() else {
            return match self.seen(argument, MAX_LEVELS) {
                Seen::Absent => Args::Named(Vec::new(), false),
                Seen::Value(_) | Seen::Type(JsonType::String | JsonType::Array) => Args::Positional(1),
                Seen::Type(JsonType::Object) | Seen::Nothing => Args::Unknown,
            };
        };
        // By the place of each name: the last value of one counts.
        let (mut fields, mut places, mut is_open) = (Vec::new(), HashMap::new(), false);
        for property in &object.properties {
            let named = match property {
                ObjectPropertyKind::ObjectProperty(it) => it.key.static_name().map(|name| (it, name)),
                ObjectPropertyKind::SpreadProperty(_) => None,
            };
            // A spread or a computed key may replace what came before it.
            let Some((property, name)) = named else {
                (fields, places, is_open) = (Vec::new(), HashMap::new(), true);
                continue;
            };
            if name == "__proto__" {
                is_open = true;
                continue;
            }
            let value = match property.kind {
                PropertyKind::Init if !property.method => self.seen(&property.value, MAX_LEVELS),
                _ => Seen::Nothing,
            };
            let known = match value {
                Seen::Value(value) => Some(self.draft.known(&value)),
                Seen::Type(of) => Some(Known::Type(of)),
                Seen::Nothing => Some(Known::Nothing),
                Seen::Absent => None,
            };
            let place = *places.entry(name.clone()).or_insert(fields.len());
            match fields.get_mut(place) {
                Some((_, before)) => *before = known,
                None => fields.push((name.into_owned(), known)),
            }
        }
        Args::Named(fields.into_iter().filter_map(|(name, known)| Some((name, known?))).collect(), is_open)
    }

    /// A text that is written as one.
    pub(super) fn text(&self, expression: &Expression<'a>) -> Option<String> {
        match self.seen(expression, MAX_LEVELS).value()? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    fn seen(&self, expression: &Expression<'a>, levels: usize) -> Seen {
        of_javascript(expression, levels, &|name, levels| self.constant(name, levels))
    }

    /// The text, number or boolean that a name was given once. Objects and arrays may change behind their name.
    fn constant(&self, name: &IdentifierReference<'a>, levels: usize) -> Seen {
        if name.is_global_reference(self.semantic.scoping()) {
            return if name.name == "undefined" { Seen::Absent } else { Seen::Nothing };
        }
        let Some(symbol) = self.symbol(name).filter(|symbol| self.is_fixed(*symbol)) else { return Seen::Nothing };
        let AstKind::VariableDeclarator(declared) = self.semantic.symbol_declaration(symbol).kind() else {
            return Seen::Nothing;
        };
        let (BindingPattern::BindingIdentifier(_), Some(init)) = (&declared.id, &declared.init) else {
            return Seen::Nothing;
        };
        match init.get_inner_expression() {
            Expression::ObjectExpression(_) => Seen::Type(JsonType::Object),
            Expression::ArrayExpression(_) => Seen::Type(JsonType::Array),
            init => self.seen(init, levels),
        }
    }
}

//! Parts of the script API that a script uses.

use oxc_ast::ast::{BindingPattern, Expression, IdentifierReference};
use oxc_semantic::IsGlobalReference as _;
use wire::{Language, Used};

use super::super::Origin;
use super::Reader;
use crate::explain::of_name;

/// The object that has all of it.
const FORGE: &str = "forge";

impl<'a> Reader<'a, '_> {
    /// Notes a global name that the script does not declare.
    pub(super) fn note_name(&mut self, it: &IdentifierReference<'a>) {
        if self.is_guarded || !it.is_global_reference(self.semantic.scoping()) {
            return;
        }
        let (at, is_certain) = (self.lines.place(it.span.start), self.is_certain());
        let line = self.lines.line(it.span.start);
        self.draft.name(&it.name, at, is_certain, || of_name(Language::Javascript, &it.name, line));
    }

    /// Notes a name that stands alone. `forge` alone may be passed on, and any part of it used.
    pub(super) fn note_api(&mut self, it: &IdentifierReference<'a>) {
        if !it.is_global_reference(self.semantic.scoping()) {
            return;
        }
        match it.name.as_str() {
            FORGE => self.draft.outline.is_partial = true,
            "manifest" => self.draft.used(Some(Used::Discovery)),
            _ => {}
        }
    }

    /// Visits the object of a member expression, and notes the part of `forge` that is taken.
    pub(super) fn visit_object(&mut self, object: &Expression<'a>, key: Option<&str>) {
        let Expression::Identifier(name) = object.get_inner_expression() else {
            return oxc_ast_visit::Visit::visit_expression(self, object);
        };
        match self.origin(object) {
            Some(Origin::Names(names, _)) if names.as_slice() == [FORGE] => {
                self.note_part(key);
                self.note_name(name);
            }
            _ => oxc_ast_visit::Visit::visit_expression(self, object),
        }
    }

    /// Notes the parts that a declaration takes of `forge`; false if it takes nothing of it.
    pub(super) fn note_alias(&mut self, pattern: &BindingPattern<'a>, init: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = init.get_inner_expression() else { return false };
        if !matches!(self.origin(init), Some(Origin::Names(names, _)) if names.as_slice() == [FORGE]) {
            return false;
        }
        match pattern {
            // Followed as what it stands for.
            BindingPattern::BindingIdentifier(name) if !self.semantic.scoping().symbol_is_mutated(name.symbol_id()) => {
            }
            BindingPattern::ObjectPattern(object) if object.rest.is_none() => {
                for property in &object.properties {
                    self.note_part(property.key.static_name().filter(|_| !property.computed).as_deref());
                }
            }
            _ => return false,
        }
        self.note_name(name);
        true
    }

    fn note_part(&mut self, key: Option<&str>) {
        match key {
            Some(key) => self.draft.used(Used::of(key)),
            None => self.draft.outline.is_partial = true,
        }
    }
}

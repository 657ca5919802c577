//! Parts of the script API that a script uses, and servers and functions that it passes on.

use oxc_ast::ast::{BindingPattern, Expression, IdentifierReference};
use oxc_semantic::IsGlobalReference as _;
use oxc_span::{GetSpan as _, Span};
use wire::{JAVASCRIPT_GLOBALS, Language, Used};

use super::super::{FORGE, Origin};
use super::Reader;
use crate::explain::of_name;

/// Functions of it that take the name of a server.
pub(super) const NAMING: [&str; 4] = ["callTool", "prompt", "readResource", "server"];

/// True for what hides which tool is called where it is passed on.
pub(super) fn hides(origin: &Origin) -> bool {
    origin.hides(&NAMING, |name| JAVASCRIPT_GLOBALS.contains(&name))
}

impl<'a> Reader<'a, '_> {
    /// Notes a global name that the script does not declare.
    pub(super) fn note_name(&mut self, it: &IdentifierReference<'a>) {
        if self.draft.is_guarded || !it.is_global_reference(self.semantic.scoping()) {
            return;
        }
        let (at, lines, is_certain) = (it.span.start, &self.lines, self.draft.is_certain());
        let fix = || of_name(Language::Javascript, &it.name, lines.line(at));
        self.draft.name(&it.name, || lines.place(at), is_certain, fix);
    }

    /// Follows an expression to what it stands for. A chain, whose last part has the same place, may stand for nothing.
    pub(super) fn follow(&mut self, expression: &Expression<'a>) {
        let inner = expression.get_inner_expression();
        if !matches!(inner, Expression::ChainExpression(_)) {
            self.followed.insert(inner.span());
        }
    }

    /// True for a pattern whose names are followed, all of them.
    pub(super) fn takes_all(&self, pattern: &BindingPattern<'a>) -> bool {
        match pattern {
            BindingPattern::BindingIdentifier(name) => self.is_fixed(name.symbol_id()),
            BindingPattern::ObjectPattern(object) => {
                let mut properties = object.properties.iter();
                object.rest.is_none() && properties.all(|it| !it.computed && self.takes_all(&it.value))
            }
            BindingPattern::AssignmentPattern(with_default) => self.takes_all(&with_default.left),
            BindingPattern::ArrayPattern(_) => false,
        }
    }

    /// Part of what an expression stands for. One whose name is too long to follow may be a tool.
    pub(super) fn part(&mut self, origin: &Origin, key: &str) -> Option<Origin> {
        let part = origin.clone().part(key);
        self.draft.outline.is_partial |= part.is_none() && hides(origin);
        part
    }

    /// Notes an expression that is not followed, by what it stands for.
    pub(super) fn note_passed(&mut self, span: Span, origin: Option<Origin>) {
        self.draft.outline.is_partial |= !self.followed.contains(&span) && origin.as_ref().is_some_and(hides);
    }

    /// Notes a name that stands alone. `forge` alone may be passed on, and any part of it used; `globalThis` has all
    /// servers.
    pub(super) fn note_api(&mut self, it: &IdentifierReference<'a>) {
        if !it.is_global_reference(self.semantic.scoping()) {
            return;
        }
        match it.name.as_str() {
            FORGE | "globalThis" => self.draft.outline.is_partial = true,
            "manifest" => self.draft.used(Some(Used::Discovery)),
            _ => {}
        }
    }

    fn is_forge(&self, expression: &Expression<'a>) -> bool {
        matches!(self.origin(expression), Some(Origin::Names(names, _)) if names == [FORGE])
    }

    /// Visits the object of a member expression, and notes the part of `forge` that is taken; `None` for one that is not
    /// followed.
    pub(super) fn visit_object(&mut self, object: &Expression<'a>, key: Option<&str>) {
        if key.is_some() {
            self.follow(object);
        }
        match object.get_inner_expression() {
            Expression::Identifier(name) if self.is_forge(object) => {
                self.note_part(key);
                self.note_name(name);
            }
            _ => oxc_ast_visit::Visit::visit_expression(self, object),
        }
    }

    /// Notes the parts that a declaration takes of `forge`; false if it takes nothing of it.
    pub(super) fn note_alias(&mut self, pattern: &BindingPattern<'a>, init: &Expression<'a>) -> bool {
        let Expression::Identifier(name) = init.get_inner_expression() else { return false };
        if !self.is_forge(init) || !self.takes_all(pattern) {
            return false;
        }
        // A name is followed as what it stands for.
        if let BindingPattern::ObjectPattern(object) = pattern {
            object.properties.iter().for_each(|property| self.note_part(property.key.static_name().as_deref()));
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

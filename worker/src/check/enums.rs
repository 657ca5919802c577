//! Bounds the size of a script's folded enums. The transformer folds enum members, and a member can refer to others: 28
//! lines that double each other are 32 GB of text. So the size is added up before anything is folded.

use std::collections::HashMap;

use oxc_ast::ast::{
    ComputedMemberExpression, Expression, IdentifierReference, NumericLiteral, Program, StaticMemberExpression,
    StringLiteral, TSEnumDeclaration, TSEnumMember, TemplateElement,
};
use oxc_ast_visit::{Visit, walk};

/// Most bytes of a number as text.
const NUMBER: usize = 24;

/// Byte offset of the enum member at which all members together exceed `limit` bytes; `None` when they do not.
pub(super) fn too_large(program: &Program<'_>, limit: usize) -> Option<u32> {
    let mut folded = Folded { limit, sizes: HashMap::new(), total: 0, part: 0, over: None };
    folded.visit_program(program);
    folded.over
}

/// Upper bound of the folded members' size.
struct Folded<'a> {
    limit: usize,
    /// Largest member of each name, in any enum.
    sizes: HashMap<&'a str, usize>,
    total: usize,
    /// Size of the current member.
    part: usize,
    over: Option<u32>,
}

impl Folded<'_> {
    fn add(&mut self, bytes: usize) {
        self.part = self.part.saturating_add(bytes);
    }

    fn add_member(&mut self, name: &str) {
        self.add(self.sizes.get(name).copied().unwrap_or(NUMBER));
    }
}

impl<'a> Visit<'a> for Folded<'a> {
    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        if self.over.is_none() {
            walk::walk_ts_enum_declaration(self, declaration);
        }
    }

    fn visit_ts_enum_member(&mut self, member: &TSEnumMember<'a>) {
        let outer = std::mem::replace(&mut self.part, NUMBER);
        if let Some(initializer) = &member.initializer {
            self.visit_expression(initializer);
        }
        let size = std::mem::replace(&mut self.part, outer);
        let known = self.sizes.entry(member.id.static_name().as_str()).or_default();
        *known = size.max(*known);
        self.total = self.total.saturating_add(size);
        if self.total > self.limit && self.over.is_none() {
            self.over = Some(member.span.start);
        }
    }

    fn visit_string_literal(&mut self, literal: &StringLiteral<'a>) {
        self.add(literal.value.len());
    }

    fn visit_template_element(&mut self, element: &TemplateElement<'a>) {
        self.add(element.value.raw.len());
    }

    fn visit_numeric_literal(&mut self, _literal: &NumericLiteral<'a>) {
        self.add(NUMBER);
    }

    fn visit_identifier_reference(&mut self, reference: &IdentifierReference<'a>) {
        self.add_member(&reference.name);
    }

    fn visit_static_member_expression(&mut self, expression: &StaticMemberExpression<'a>) {
        self.add_member(&expression.property.name);
        walk::walk_static_member_expression(self, expression);
    }

    fn visit_computed_member_expression(&mut self, expression: &ComputedMemberExpression<'a>) {
        if let Expression::StringLiteral(name) = &expression.expression {
            self.add_member(&name.value);
        }
        walk::walk_computed_member_expression(self, expression);
    }
}

//! How deeply a syntax tree nests.

use oxc_ast::AstKind;
use oxc_ast::ast::{Expression, Program, Statement, TSType};
use oxc_ast_visit::{Visit, walk};
use oxc_span::GetSpan as _;

/// The place, as an offset in bytes, of the first node that is more than `limit` levels deep.
pub(super) fn beyond(program: &Program<'_>, limit: usize) -> Option<u32> {
    let mut levels = Levels { limit, now: 0, beyond: None };
    levels.visit_program(program);
    levels.beyond
}

struct Levels {
    limit: usize,
    now: usize,
    beyond: Option<u32>,
}

/// Does not go on below the node that is found: the visitor recurses too.
impl<'a> Visit<'a> for Levels {
    fn enter_node(&mut self, node: AstKind<'a>) {
        self.now += 1;
        if self.now > self.limit && self.beyond.is_none() {
            self.beyond = Some(node.span().start);
        }
    }

    fn leave_node(&mut self, _: AstKind<'a>) {
        self.now -= 1;
    }

    fn visit_statement(&mut self, statement: &Statement<'a>) {
        if self.beyond.is_none() {
            walk::walk_statement(self, statement);
        }
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        if self.beyond.is_none() {
            walk::walk_expression(self, expression);
        }
    }

    fn visit_ts_type(&mut self, kind: &TSType<'a>) {
        if self.beyond.is_none() {
            walk::walk_ts_type(self, kind);
        }
    }
}

//! A parser's view of worker code, for the fuzz target to compare.

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast_visit::Visit;
use oxc_parser::Parser;
use oxc_span::SourceType;

use super::{is_one_function, nesting};

/// The view.
#[derive(Debug)]
pub(in crate::sandbox) struct Tree {
    /// Nothing is outside the wrapper.
    pub(in crate::sandbox) is_one_function: bool,
    /// Depth of the deepest node.
    pub(in crate::sandbox) depth: usize,
    /// Bound of the scanner for the text.
    pub(in crate::sandbox) bound: usize,
}

impl Tree {
    pub(in crate::sandbox) fn of(code: &str) -> Self {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, code, SourceType::mjs()).parse();
        assert!(!parsed.panicked && parsed.diagnostics.errors().next().is_none(), "{code}");
        let mut depth = Depth::default();
        depth.visit_program(&parsed.program);
        Self { is_one_function: is_one_function(&parsed.program), depth: depth.deepest, bound: nesting::depth(code) }
    }
}

#[derive(Default)]
struct Depth {
    now: usize,
    deepest: usize,
}

impl<'a> Visit<'a> for Depth {
    fn enter_node(&mut self, _: AstKind<'a>) {
        self.now += 1;
        self.deepest = self.deepest.max(self.now);
    }

    fn leave_node(&mut self, _: AstKind<'a>) {
        self.now -= 1;
    }
}

//! The calls of JavaScript.

mod api;
mod calls;
mod literal;
mod names;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use oxc_ast::ast::{
    Argument, ArrowFunctionExpression, AssignmentExpression, AssignmentPattern, AssignmentTarget, AwaitExpression,
    BinaryExpression, BinaryOperator, BindingPattern, BreakStatement, CallExpression, ChainExpression,
    ComputedMemberExpression, ConditionalExpression, DoWhileStatement, ExportDefaultDeclarationKind, Expression,
    ForInStatement, ForOfStatement, ForStatement, ForStatementLeft, FormalParameters, Function, IdentifierReference,
    IfStatement, LogicalExpression, Program, PropertyDefinition, ReturnStatement, SimpleAssignmentTarget, Statement,
    StaticMemberExpression, SwitchStatement, ThrowStatement, TryStatement, UnaryExpression, VariableDeclarator,
    WhileStatement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{ScopeFlags, Semantic, SymbolId};
use oxc_span::{GetSpan as _, Span};
use wire::{JAVASCRIPT_GLOBALS, Outline};

use self::api::hides;
use super::super::function::FunctionOf;
use super::{Draft, Drafting, FORGE, ITEM, MAX_LEVELS, Origin};
use crate::lines::Lines;

/// Methods of arrays that call a function with items, and which of its parameters have one.
#[rustfmt::skip]
const EACH: &[(&str, Range<usize>)] = &[
    ("map", 0..1), ("forEach", 0..1), ("filter", 0..1), ("find", 0..1), ("findIndex", 0..1), ("flatMap", 0..1),
    ("some", 0..1), ("every", 0..1), ("reduce", 1..2), ("sort", 0..2), ("toSorted", 0..2),
];

/// Methods of arrays that add items, which need not be those of the tool.
const ADDING: &[&str] = &["push", "splice", "unshift"];

/// Reads the calls of the module that a script becomes.
pub(in crate::check) fn outline<'a>(program: &'a Program<'a>, semantic: &Semantic<'a>, code: &str) -> Outline {
    let mut reader = Reader {
        semantic,
        lines: Lines::new(code, char::len_utf16),
        draft: Draft::new(code),
        origins: HashMap::new(),
        early: HashSet::new(),
        waited: HashSet::new(),
        followed: HashSet::new(),
        calls: HashMap::new(),
        later: Vec::new(),
        entered: HashSet::new(),
    };
    if let [Statement::ExportDefaultDeclaration(wrapper)] = program.body.as_slice()
        && let ExportDefaultDeclarationKind::ArrowFunctionExpression(script) = &wrapper.declaration
    {
        reader.visit_arrow_function_body(&script.body);
    }
    reader.finish_functions();
    reader.draft.finish()
}

struct Reader<'a, 's> {
    semantic: &'s Semantic<'a>,
    lines: Lines,
    draft: Draft,
    origins: HashMap<SymbolId, Origin>,
    /// Names that were read while nothing was known of them.
    early: HashSet<SymbolId>,
    /// Calls whose failure fails the script: it waits for them, or returns them, and nothing catches it.
    waited: HashSet<Span>,
    /// Expressions that are called, read from or named: what they stand for is followed.
    followed: HashSet<Span>,
    /// Numbers of calls by their place in the code.
    calls: HashMap<Span, usize>,
    /// Named functions that were passed, and are read where they are called first.
    later: Vec<SymbolId>,
    entered: HashSet<SymbolId>,
}

impl<'a> Reader<'a, '_> {
    fn guarded(&mut self, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.draft.is_guarded, true);
        read(self);
        self.draft.is_guarded = outer;
    }

    /// Visits an expression of which only the truth counts: a server or tool is not passed on by it.
    fn visit_test(&mut self, test: &Expression<'a>) {
        self.follow(test);
        self.guarded(|reader| reader.visit_expression(test));
    }
}

impl Drafting for Reader<'_, '_> {
    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl<'a> Visit<'a> for Reader<'a, '_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        self.note_api(it);
        self.note_name(it);
        let is_passed = match self.symbol(it) {
            Some(symbol) => match self.origins.get(&symbol) {
                Some(origin) => hides(origin),
                None => {
                    self.early.insert(symbol);
                    false
                }
            },
            None => !JAVASCRIPT_GLOBALS.contains(&it.name.as_str()),
        };
        self.draft.outline.is_partial |= is_passed && !self.followed.contains(&it.span);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        self.follow(&it.callee);
        // The callee itself is no read of an answer.
        match it.callee.get_inner_expression() {
            callee if FunctionOf::of(callee).is_some() => {}
            _ => self.visit_expression(&it.callee),
        }
        let flow = if it.optional { self.draft.flow.branch() } else { self.draft.flow };
        self.under(flow, |reader| {
            reader.visit_arguments(it);
            let changed = match (reader.api(&it.callee), it.callee.get_inner_expression()) {
                (Some(("Object", "assign" | "defineProperty") | ("Reflect", "set")), _) => {
                    it.arguments.first().and_then(Argument::as_expression)
                }
                (_, Expression::StaticMemberExpression(it)) if ADDING.contains(&it.property.name.as_str()) => {
                    Some(&it.object)
                }
                _ => None,
            };
            changed.into_iter().for_each(|object| reader.note_change(object));
            if !reader.enter_called(it) {
                reader.call(it);
            }
        });
        if self.api(&it.callee) == Some((FORGE, "server")) {
            self.note_passed(it.span, self.origin_of_call(it, MAX_LEVELS));
        }
    }

    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        self.note_waited(&it.argument);
        self.visit_expression(&it.argument);
        if let Some(origin) = self.origin(&it.argument).filter(|_| self.draft.is_certain()) {
            self.draft.wait(&origin);
        }
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        let key = it.property.name.as_str();
        self.visit_object(&it.object, (!it.optional).then_some(key));
        if let Some(origin) = self.origin(&it.object) {
            self.note_read(&origin, key, it.property.span);
            if !it.optional {
                let part = self.part(&origin, key);
                self.note_passed(it.span, part);
            }
        }
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        let key = it.static_property_name().filter(|_| !it.optional);
        self.visit_object(&it.object, key.as_deref());
        self.visit_expression(&it.expression);
        if let (Some(origin), Some(key)) = (self.origin(&it.object), key) {
            self.note_read(&origin, &key, it.expression.span());
            let part = self.part(&origin, &key);
            self.note_passed(it.span, part);
        }
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let BindingPattern::BindingIdentifier(name) = &it.id
            && it.init.as_ref().and_then(FunctionOf::of).is_some()
            && self.is_fixed(name.symbol_id())
        {
            self.later.push(name.symbol_id());
            return;
        }
        if let Some(init) = &it.init {
            if self.takes_all(&it.id) {
                self.follow(init);
            }
            if !self.note_alias(&it.id, init) {
                self.visit_expression(init);
            }
            self.bind(&it.id, self.origin(init));
        }
        self.visit_binding_pattern(&it.id);
    }

    fn visit_function(&mut self, it: &Function<'a>, _: ScopeFlags) {
        match &it.id {
            Some(name) if it.is_declaration() && self.is_fixed(name.symbol_id()) => self.later.push(name.symbol_id()),
            _ => self.enter(self.draft.flow.repeated(), FunctionOf::Function(it)),
        }
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.enter(self.draft.flow.repeated(), FunctionOf::Arrow(it));
    }

    /// The value of a field is made at each `new`, that of a static one once.
    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        self.visit_property_key(&it.key);
        let flow = if it.r#static { self.draft.flow } else { self.draft.flow.repeated() };
        self.under(flow, |reader| it.value.iter().for_each(|value| reader.visit_expression(value)));
    }

    fn visit_formal_parameters(&mut self, it: &FormalParameters<'a>) {
        self.under(self.draft.flow.branch(), |reader| walk::walk_formal_parameters(reader, it));
    }

    fn visit_assignment_pattern(&mut self, it: &AssignmentPattern<'a>) {
        self.visit_binding_pattern(&it.left);
        self.under(self.draft.flow.branch(), |reader| reader.visit_expression(&it.right));
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        let flow = if it.operator.is_logical() { self.draft.flow.branch() } else { self.draft.flow };
        match &it.left {
            AssignmentTarget::AssignmentTargetIdentifier(name) => self.visit_identifier_reference(name),
            // A key that is assigned to is not read.
            target => self.guarded(|reader| reader.visit_assignment_target(target)),
        }
        self.under(flow, |reader| reader.visit_expression(&it.right));
    }

    fn visit_simple_assignment_target(&mut self, it: &SimpleAssignmentTarget<'a>) {
        if let Some(member) = it.as_member_expression() {
            self.note_change(member.object());
        }
        walk::walk_simple_assignment_target(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        use oxc_ast::ast::UnaryOperator::{Delete, LogicalNot, Typeof};
        if it.operator == Typeof {
            self.follow(&it.argument);
        }
        match it.operator {
            LogicalNot => self.visit_test(&it.argument),
            Delete | Typeof => self.guarded(|reader| walk::walk_unary_expression(reader, it)),
            _ => walk::walk_unary_expression(self, it),
        }
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        // What is compared is not passed on.
        if it.operator.is_equality() {
            self.follow(&it.left);
            self.follow(&it.right);
        } else if it.operator == BinaryOperator::In {
            self.follow(&it.right);
            if let (Expression::StringLiteral(key), Some(origin)) = (&it.left, self.origin(&it.right)) {
                self.guarded(|reader| reader.note_read(&origin, &key.value, key.span));
            }
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_chain_expression(&mut self, it: &ChainExpression<'a>) {
        self.guarded(|reader| {
            let flow = reader.draft.flow.branch();
            reader.under(flow, |reader| walk::walk_chain_expression(reader, it));
        });
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        let (from, is_choice) = (self.draft.asked.len(), !it.operator.is_and());
        let outer = if is_choice { self.draft.choose() } else { self.draft.choice };
        self.guarded(|reader| reader.visit_expression(&it.left));
        if is_choice {
            self.draft.unask(from, self.origin(&it.right));
        }
        self.under(self.draft.flow.branch(), |reader| reader.visit_expression(&it.right));
        self.draft.choice = outer;
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        let from = self.draft.asked.len();
        let is_choice = !matches!(&it.test, Expression::LogicalExpression(test) if test.operator.is_and());
        let first = |reader: &mut Self| reader.visit_expression(&it.consequent);
        self.ways(
            is_choice,
            |reader| reader.visit_test(&it.test),
            first,
            |reader| reader.visit_expression(&it.alternate),
        );
        self.draft.unask(from, self.origin(&it.alternate));
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        let is_choice = matches!(it.alternate, Some(Statement::IfStatement(_)));
        let first = |reader: &mut Self| reader.visit_statement(&it.consequent);
        self.ways(
            is_choice,
            |reader| reader.visit_test(&it.test),
            first,
            |reader| {
                it.alternate.iter().for_each(|alternate| reader.visit_statement(alternate));
            },
        );
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.visit_expression(&it.discriminant);
        self.under(self.draft.flow.branch(), |reader| it.cases.iter().for_each(|case| reader.visit_switch_case(case)));
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        if let Some(init) = &it.init {
            self.visit_for_statement_init(init);
        }
        self.under(self.draft.flow.repeated(), |reader| {
            it.test.iter().chain(&it.update).for_each(|part| reader.visit_expression(part));
            reader.visit_statement(&it.body);
        });
    }

    fn visit_for_in_statement(&mut self, it: &ForInStatement<'a>) {
        self.visit_expression(&it.right);
        self.under(self.draft.flow.repeated(), |reader| {
            reader.guarded(|reader| reader.visit_for_statement_left(&it.left));
            reader.visit_statement(&it.body);
        });
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.visit_expression(&it.right);
        let origin = self.origin(&it.right);
        if let (Some(origin @ Origin::Answer { is_promise: true, .. }), false) = (&origin, it.r#await) {
            self.note_read(origin, ITEM, it.right.span());
        }
        self.under(self.draft.flow.repeated(), |reader| {
            if let ForStatementLeft::VariableDeclaration(declared) = &it.left
                && let [declared] = declared.declarations.as_slice()
            {
                reader.bind(&declared.id, origin.and_then(Origin::item));
            }
            reader.guarded(|reader| reader.visit_for_statement_left(&it.left));
            reader.visit_statement(&it.body);
        });
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.under(self.draft.flow.repeated(), |reader| walk::walk_while_statement(reader, it));
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.under(self.draft.flow.repeated(), |reader| walk::walk_do_while_statement(reader, it));
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        let flow = if it.handler.is_some() { self.draft.flow.branch() } else { self.draft.flow };
        self.under(flow, |reader| reader.visit_block_statement(&it.block));
        self.under(self.draft.flow.branch(), |reader| {
            it.handler.iter().for_each(|handler| reader.visit_catch_clause(handler));
            it.finalizer.iter().for_each(|last| reader.visit_block_statement(last));
        });
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        it.argument.iter().for_each(|value| self.note_waited(value));
        walk::walk_return_statement(self, it);
        self.draft.has_left = true;
    }

    /// Out of a block with a label, behind which it is not known any more what runs.
    fn visit_break_statement(&mut self, it: &BreakStatement<'a>) {
        self.draft.has_left |= it.label.is_some();
    }

    fn visit_throw_statement(&mut self, it: &ThrowStatement<'a>) {
        walk::walk_throw_statement(self, it);
        self.draft.has_left = true;
    }
}

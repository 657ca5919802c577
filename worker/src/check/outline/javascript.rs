//! The calls of JavaScript.

use std::collections::{HashMap, HashSet};

use oxc_ast::AstKind;
use oxc_ast::ast::{
    Argument, ArrayExpressionElement, ArrowFunctionExpression, AssignmentExpression, AssignmentTarget, AwaitExpression,
    BindingPattern, CallExpression, CatchClause, ChainExpression, ComputedMemberExpression, ConditionalExpression,
    DoWhileStatement, ExportDefaultDeclarationKind, Expression, ForInStatement, ForOfStatement, ForStatement,
    ForStatementLeft, FormalParameters, Function, IdentifierReference, IfStatement, LogicalExpression, Program,
    ReturnStatement, SimpleAssignmentTarget, Statement, StaticMemberExpression, SwitchStatement, ThrowStatement,
    TryStatement, UnaryExpression, UpdateExpression, VariableDeclarator, WhileStatement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{IsGlobalReference as _, ScopeFlags, Semantic, SymbolId};
use oxc_span::{GetSpan as _, Span};
use wire::{Args, How, Outline, Read, Site, Target};

use super::literal::Literals;
use super::{Draft, Flow, ITEM, Lines, MAX_LEVELS, Origin};

/// Methods of arrays that call a function with each item first.
const EACH: &[&str] = &["map", "forEach", "filter", "find", "findIndex", "flatMap", "some", "every"];
/// Properties of promises.
const OF_PROMISES: &[&str] = &["then", "catch", "finally", "constructor", "toString"];

/// Reads the calls of the module that a script becomes.
pub(in crate::check) fn outline<'a>(program: &'a Program<'a>, semantic: &Semantic<'a>, code: &str) -> Outline {
    let mut reader = Reader {
        semantic,
        literals: Literals::new(semantic, code),
        lines: Lines::new(code),
        draft: Draft::new(code),
        origins: HashMap::new(),
        calls: HashMap::new(),
        later: Vec::new(),
        entered: HashSet::new(),
        flow: Flow::STRAIGHT,
        has_left: false,
        is_guarded: false,
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
    literals: Literals<'a, 's>,
    lines: Lines<'s>,
    draft: Draft,
    origins: HashMap<SymbolId, Origin>,
    /// Numbers of calls by their place in the code.
    calls: HashMap<Span, usize>,
    /// Named functions that were passed, and are read where they are called first.
    later: Vec<SymbolId>,
    entered: HashSet<SymbolId>,
    flow: Flow,
    /// True behind a `return` or `throw`, which may be conditional.
    has_left: bool,
    /// True where a script asks for what may not be there.
    is_guarded: bool,
}

impl<'a> Reader<'a, '_> {
    fn is_certain(&self) -> bool {
        self.flow.is_certain && !self.has_left
    }

    fn under(&mut self, flow: Flow, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.flow, flow);
        read(self);
        self.flow = outer;
    }

    fn guarded(&mut self, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.is_guarded, true);
        read(self);
        self.is_guarded = outer;
    }

    // ---- names ----

    fn symbol(&self, name: &IdentifierReference<'a>) -> Option<SymbolId> {
        self.semantic.scoping().get_reference(name.reference_id()).symbol_id()
    }

    fn origin(&self, expression: &Expression<'a>) -> Option<Origin> {
        self.origin_within(expression, MAX_LEVELS)
    }

    fn origin_within(&self, expression: &Expression<'a>, levels: usize) -> Option<Origin> {
        let levels = levels.checked_sub(1)?;
        match expression.get_inner_expression() {
            Expression::Identifier(name) => match self.symbol(name) {
                Some(symbol) => self.origins.get(&symbol).cloned(),
                None => Some(Origin::Names(vec![name.name.as_str().to_owned()], false)),
            },
            Expression::StaticMemberExpression(member) if !member.optional => {
                self.origin_within(&member.object, levels)?.part(&member.property.name)
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

    fn origin_of_call(&self, call: &CallExpression<'a>, levels: usize) -> Option<Origin> {
        if let Some(number) = self.calls.get(&call.span) {
            return Some(Origin::Answer { call: *number, path: Vec::new(), is_promise: true });
        }
        let (root, method) = self.api(&call.callee)?;
        let first = call.arguments.first()?.as_expression()?;
        match (root, method, first.get_inner_expression()) {
            ("forge", "server", _) => Some(Origin::Names(vec![self.literals.text(first)?], true)),
            ("Promise", "all", Expression::ArrayExpression(array)) => {
                let item = |item: &ArrayExpressionElement<'a>| self.origin_within(item.as_expression()?, levels);
                Some(Origin::All(array.elements.iter().take(100).map(item).collect(), true))
            }
            _ => None,
        }
    }

    /// A method of a global object, as `forge.server`.
    fn api<'e>(&self, callee: &'e Expression<'a>) -> Option<(&'e str, &'e str)> {
        let Expression::StaticMemberExpression(member) = callee.get_inner_expression() else { return None };
        let Expression::Identifier(object) = member.object.get_inner_expression() else { return None };
        let is_global = object.is_global_reference(self.semantic.scoping());
        is_global.then(|| (object.name.as_str(), member.property.name.as_str()))
    }

    fn bind(&mut self, pattern: &BindingPattern<'a>, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        match pattern {
            BindingPattern::BindingIdentifier(name) => {
                let symbol = name.symbol_id();
                if !self.semantic.scoping().symbol_is_mutated(symbol) {
                    self.origins.insert(symbol, origin);
                }
            }
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let Some(key) = property.key.static_name().filter(|_| !property.computed) else { continue };
                    let has_default = matches!(property.value, BindingPattern::AssignmentPattern(_));
                    if !has_default {
                        self.note_read(&origin, &key, property.key.span());
                    }
                    self.bind(&property.value, origin.clone().part(&key));
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

    fn note_read(&mut self, origin: &Origin, key: &str, span: Span) {
        let Origin::Answer { call, path, is_promise } = origin else { return };
        let how = if *is_promise { How::OfPromise } else { How::Key };
        if (*is_promise && OF_PROMISES.contains(&key)) || self.is_guarded || path.len() >= wire::MAX_PATH {
            return;
        }
        let path = path.iter().map(String::as_str).chain([key]).map(str::to_owned).collect();
        let (at, is_certain) = (self.lines.place(span.start), self.is_certain());
        self.draft.read(*call, Read { at, path, how, is_certain });
    }

    fn note_change(&mut self, object: &Expression<'a>) {
        if let Some(Origin::Answer { call, .. }) = self.origin(object) {
            self.draft.changed.push(call);
        }
    }

    fn note_target(&mut self, target: &SimpleAssignmentTarget<'a>) {
        match target {
            SimpleAssignmentTarget::StaticMemberExpression(member) => self.note_change(&member.object),
            SimpleAssignmentTarget::ComputedMemberExpression(member) => self.note_change(&member.object),
            _ => {}
        }
    }

    // ---- calls ----

    fn target(&self, call: &CallExpression<'a>) -> Option<(Target, usize)> {
        let text = |at: usize| self.literals.text(call.arguments.get(at)?.as_expression()?);
        match self.origin(&call.callee)? {
            Origin::Names(names, true) => {
                let (server, tool) = names.split_first()?;
                Some((Target::Tool(server.clone(), tool.join(".")), 0))
            }
            Origin::Names(names, false) => {
                let all: Vec<&str> = names.iter().map(String::as_str).collect();
                match all.as_slice() {
                    ["forge", "callTool"] => Some((Target::Tool(text(0)?, text(1)?), 2)),
                    ["forge", "readResource" | "prompt"] => Some((Target::Other(text(0)?), usize::MAX)),
                    ["forge" | "manifest" | "console", ..] | [.., "toString"] => None,
                    // What stands alone is a function of the language, or a name that nothing has.
                    [_] => None,
                    _ => Some((Target::Path(names), 0)),
                }
            }
            Origin::Answer { .. } | Origin::All(..) => None,
        }
    }

    fn call(&mut self, call: &CallExpression<'a>) {
        let Some((target, first)) = self.target(call) else {
            self.draft.outline.is_partial |= self.is_hidden_call(call);
            return;
        };
        let args = call.arguments.get(first..).map_or(Args::Unknown, |arguments| self.literals.arguments(arguments));
        let site = Site {
            at: self.lines.place(call.span.start),
            target,
            args,
            is_certain: self.is_certain(),
            repeats: self.flow.repeats,
            answered: None,
            reads: Vec::new(),
        };
        if let Some(number) = self.draft.add(site) {
            self.calls.insert(call.span, number);
        }
    }

    /// True for `github[name](…)` and `forge.callTool(name, …)`: calls whose tool the text does not show.
    fn is_hidden_call(&self, call: &CallExpression<'a>) -> bool {
        match call.callee.get_inner_expression() {
            Expression::ComputedMemberExpression(member) => {
                matches!(self.origin(&member.object), Some(Origin::Names(..)))
            }
            callee => matches!(self.api(callee), Some(("forge", "callTool" | "readResource" | "prompt"))),
        }
    }

    /// Reads a function where it is called: `main()`, or a function expression.
    fn enter_called(&mut self, call: &CallExpression<'a>) -> bool {
        match call.callee.get_inner_expression() {
            Expression::FunctionExpression(function) => self.enter(self.flow, |it| it.walk_function(function)),
            Expression::ArrowFunctionExpression(function) => self.enter(self.flow, |it| it.walk_arrow(function)),
            Expression::Identifier(name) => match self.symbol(name) {
                Some(symbol) if self.later.contains(&symbol) => self.enter_named(symbol, self.flow),
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    fn enter_named(&mut self, symbol: SymbolId, flow: Flow) {
        if !self.entered.insert(symbol) {
            return;
        }
        let often = self.semantic.scoping().get_resolved_reference_ids(symbol).len() > 1;
        let flow = Flow { repeats: flow.repeats || often, ..flow };
        match self.semantic.symbol_declaration(symbol).kind() {
            AstKind::Function(function) => self.enter(flow, |it| it.walk_function(function)),
            AstKind::VariableDeclarator(declared) => match declared.init.as_ref().map(Expression::get_inner_expression)
            {
                Some(Expression::FunctionExpression(function)) => self.enter(flow, |it| it.walk_function(function)),
                Some(Expression::ArrowFunctionExpression(function)) => self.enter(flow, |it| it.walk_arrow(function)),
                _ => {}
            },
            _ => {}
        }
    }

    /// Reads the body of a function. A `return` ends only it.
    fn enter(&mut self, flow: Flow, read: impl FnOnce(&mut Self)) {
        let flow = Flow { is_certain: flow.is_certain && !self.has_left, ..flow };
        let (outer_left, outer_guard) = (std::mem::take(&mut self.has_left), std::mem::take(&mut self.is_guarded));
        self.under(flow, read);
        (self.has_left, self.is_guarded) = (outer_left, outer_guard);
    }

    fn walk_function(&mut self, function: &Function<'a>) {
        self.visit_formal_parameters(&function.params);
        if let Some(body) = &function.body {
            self.visit_function_body(body);
        }
    }

    fn walk_arrow(&mut self, function: &ArrowFunctionExpression<'a>) {
        self.visit_formal_parameters(&function.params);
        self.visit_arrow_function_body(&function.body);
    }

    fn finish_functions(&mut self) {
        let mut at = 0;
        while let Some(symbol) = self.later.get(at).copied() {
            self.enter_named(symbol, Flow::STRAIGHT.repeated());
            at += 1;
        }
    }

    /// Reads the arguments of a call. Functions among them run some other time, and each task of `forge.parallel` once.
    fn visit_arguments(&mut self, call: &CallExpression<'a>) {
        let is_parallel = self.api(&call.callee) == Some(("forge", "parallel"));
        let each = match call.callee.get_inner_expression() {
            Expression::StaticMemberExpression(member) if EACH.contains(&member.property.name.as_str()) => {
                self.origin(&member.object).and_then(Origin::item)
            }
            _ => None,
        };
        for argument in &call.arguments {
            match argument {
                Argument::ArrayExpression(tasks) if is_parallel => {
                    for task in &tasks.elements {
                        match task {
                            ArrayExpressionElement::ArrowFunctionExpression(task) => {
                                self.enter(self.flow.branch(), |it| it.walk_arrow(task));
                            }
                            other => self.visit_array_expression_element(other),
                        }
                    }
                }
                Argument::ArrowFunctionExpression(function) => {
                    if let Some(item) = function.params.items.first() {
                        self.bind(&item.pattern, each.clone());
                    }
                    self.visit_arrow_function_expression(function);
                }
                other => self.visit_argument(other),
            }
        }
    }

    fn is_function(expression: Option<&Expression<'a>>) -> bool {
        matches!(
            expression.map(Expression::get_inner_expression),
            Some(Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_))
        )
    }
}

impl<'a> Visit<'a> for Reader<'a, '_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if self.is_guarded || !it.is_global_reference(self.semantic.scoping()) {
            return;
        }
        let (at, is_certain) = (self.lines.place(it.span.start), self.is_certain());
        self.draft.name(&it.name, at, is_certain);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        // The callee itself is no read of an answer.
        match it.callee.get_inner_expression() {
            callee if Self::is_function(Some(callee)) => {}
            _ => self.visit_expression(&it.callee),
        }
        let flow = if it.optional { self.flow.branch() } else { self.flow };
        self.under(flow, |reader| {
            reader.visit_arguments(it);
            if reader.api(&it.callee) == Some(("Object", "assign"))
                && let Some(object) = it.arguments.first().and_then(Argument::as_expression)
            {
                reader.note_change(object);
            }
            if !reader.enter_called(it) {
                reader.call(it);
            }
        });
    }

    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        self.visit_expression(&it.argument);
        if let Some(origin) = self.origin(&it.argument).filter(|_| self.is_certain()) {
            self.draft.wait(&origin);
        }
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        self.visit_expression(&it.object);
        if let Some(origin) = self.origin(&it.object).filter(|_| !it.optional) {
            self.note_read(&origin, &it.property.name, it.property.span);
        }
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        walk::walk_computed_member_expression(self, it);
        if let (Some(origin), Some(key)) = (self.origin(&it.object), it.static_property_name())
            && !it.optional
        {
            self.note_read(&origin, &key, it.expression.span());
        }
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::BindingIdentifier(name), true) = (&it.id, Self::is_function(it.init.as_ref()))
            && !self.semantic.scoping().symbol_is_mutated(name.symbol_id())
        {
            self.later.push(name.symbol_id());
            return;
        }
        if let Some(init) = &it.init {
            self.visit_expression(init);
            self.bind(&it.id, self.origin(init));
        }
        self.visit_binding_pattern(&it.id);
    }

    fn visit_function(&mut self, it: &Function<'a>, _: ScopeFlags) {
        match &it.id {
            Some(name) if it.is_declaration() => self.later.push(name.symbol_id()),
            _ => self.enter(self.flow.repeated(), |reader| reader.walk_function(it)),
        }
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.enter(self.flow.repeated(), |reader| reader.walk_arrow(it));
    }

    fn visit_formal_parameters(&mut self, it: &FormalParameters<'a>) {
        self.under(self.flow.branch(), |reader| walk::walk_formal_parameters(reader, it));
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if let Some(target) = it.left.as_simple_assignment_target() {
            self.note_target(target);
        }
        let flow = if it.operator.is_logical() { self.flow.branch() } else { self.flow };
        // A key that is assigned to is not read.
        self.guarded(|reader| reader.visit_assignment_target(&it.left));
        self.under(flow, |reader| reader.visit_expression(&it.right));
    }

    fn visit_update_expression(&mut self, it: &UpdateExpression<'a>) {
        self.note_target(&it.argument);
        walk::walk_update_expression(self, it);
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        use oxc_ast::ast::UnaryOperator::{Delete, LogicalNot, Typeof};
        match it.operator {
            Delete | Typeof | LogicalNot => self.guarded(|reader| walk::walk_unary_expression(reader, it)),
            _ => walk::walk_unary_expression(self, it),
        }
    }

    fn visit_chain_expression(&mut self, it: &ChainExpression<'a>) {
        self.guarded(|reader| {
            let flow = reader.flow.branch();
            reader.under(flow, |reader| walk::walk_chain_expression(reader, it));
        });
    }

    fn visit_logical_expression(&mut self, it: &LogicalExpression<'a>) {
        self.guarded(|reader| reader.visit_expression(&it.left));
        self.under(self.flow.branch(), |reader| reader.visit_expression(&it.right));
    }

    fn visit_conditional_expression(&mut self, it: &ConditionalExpression<'a>) {
        self.guarded(|reader| reader.visit_expression(&it.test));
        self.under(self.flow.branch(), |reader| {
            reader.visit_expression(&it.consequent);
            reader.visit_expression(&it.alternate);
        });
    }

    fn visit_if_statement(&mut self, it: &IfStatement<'a>) {
        self.guarded(|reader| reader.visit_expression(&it.test));
        self.under(self.flow.branch(), |reader| {
            reader.visit_statement(&it.consequent);
            if let Some(alternate) = &it.alternate {
                reader.visit_statement(alternate);
            }
        });
    }

    fn visit_switch_statement(&mut self, it: &SwitchStatement<'a>) {
        self.visit_expression(&it.discriminant);
        self.under(self.flow.branch(), |reader| it.cases.iter().for_each(|case| reader.visit_switch_case(case)));
    }

    fn visit_for_statement(&mut self, it: &ForStatement<'a>) {
        if let Some(init) = &it.init {
            self.visit_for_statement_init(init);
        }
        self.under(self.flow.repeated(), |reader| {
            it.test.iter().chain(&it.update).for_each(|part| reader.visit_expression(part));
            reader.visit_statement(&it.body);
        });
    }

    fn visit_for_in_statement(&mut self, it: &ForInStatement<'a>) {
        self.visit_expression(&it.right);
        self.under(self.flow.repeated(), |reader| reader.visit_statement(&it.body));
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        self.visit_expression(&it.right);
        let origin = self.origin(&it.right);
        if let (Some(origin @ Origin::Answer { is_promise: true, .. }), false) = (&origin, it.r#await) {
            self.note_read(origin, ITEM, it.right.span());
        }
        self.under(self.flow.repeated(), |reader| {
            if let ForStatementLeft::VariableDeclaration(declared) = &it.left
                && let [declared] = declared.declarations.as_slice()
            {
                reader.bind(&declared.id, origin.and_then(Origin::item));
            }
            reader.visit_statement(&it.body);
        });
    }

    fn visit_while_statement(&mut self, it: &WhileStatement<'a>) {
        self.under(self.flow.repeated(), |reader| walk::walk_while_statement(reader, it));
    }

    fn visit_do_while_statement(&mut self, it: &DoWhileStatement<'a>) {
        self.under(self.flow.repeated(), |reader| walk::walk_do_while_statement(reader, it));
    }

    fn visit_try_statement(&mut self, it: &TryStatement<'a>) {
        let flow = if it.handler.is_some() { self.flow.branch() } else { self.flow };
        self.under(flow, |reader| reader.visit_block_statement(&it.block));
        self.under(self.flow.branch(), |reader| {
            it.handler.iter().for_each(|handler| reader.visit_catch_clause(handler));
            it.finalizer.iter().for_each(|last| reader.visit_block_statement(last));
        });
    }

    fn visit_catch_clause(&mut self, it: &CatchClause<'a>) {
        self.visit_block_statement(&it.body);
    }

    fn visit_return_statement(&mut self, it: &ReturnStatement<'a>) {
        walk::walk_return_statement(self, it);
        self.has_left = true;
    }

    fn visit_throw_statement(&mut self, it: &ThrowStatement<'a>) {
        walk::walk_throw_statement(self, it);
        self.has_left = true;
    }

    fn visit_assignment_target(&mut self, it: &AssignmentTarget<'a>) {
        walk::walk_assignment_target(self, it);
    }
}

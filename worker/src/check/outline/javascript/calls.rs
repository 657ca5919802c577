//! Calls of tools, and functions that are read where they are called.

use oxc_ast::AstKind;
use oxc_ast::ast::{Argument, ArrayExpressionElement, CallExpression, Expression};
use oxc_ast_visit::Visit as _;
use oxc_semantic::SymbolId;
use wire::{Args, JAVASCRIPT_GLOBALS, Target, Used};

use super::super::super::function::FunctionOf;
use super::super::{Drafting as _, FORGE, Flow, Origin};
use super::api::NAMING;
use super::{EACH, Reader};

impl<'a> Reader<'a, '_> {
    pub(super) fn target(&self, call: &CallExpression<'a>) -> Option<(Target, usize)> {
        let text = |at: usize| self.text(call.arguments.get(at)?.as_expression()?);
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
                    [root, ..] if JAVASCRIPT_GLOBALS.contains(root) => None,
                    // A name alone is one that nothing has.
                    [_] => None,
                    _ => Some((Target::Path(names), 0)),
                }
            }
            Origin::Answer { .. } | Origin::All(..) => None,
        }
    }

    pub(super) fn call(&mut self, call: &CallExpression<'a>) {
        let Some((target, first)) = self.target(call) else {
            self.draft.outline.is_partial |= self.is_hidden_call(call);
            return;
        };
        let Some(Origin::Names(names, _)) = self.origin(&call.callee) else { return };
        let name = names.last().map_or("", String::as_str);
        if let Target::Other(server) = &target {
            let used = if name == "prompt" { Used::Prompts } else { Used::Resources };
            self.draft.used(Some(used(server.clone())));
        }
        // By such arguments it is the language's own, which gives the script a server or tool.
        self.draft.outline.is_partial |= matches!(name, "then" | "toJSON") && !call.arguments.is_empty();
        let args = call.arguments.get(first..).map_or(Args::Unknown, |arguments| self.arguments(arguments));
        let (at, is_awaited) = (self.lines.place(call.span.start), self.waited.contains(&call.span));
        if let Some(number) = self.draft.add(at, target, args, is_awaited) {
            self.calls.insert(call.span, number);
        }
    }

    /// True for `forge.callTool(name, …)`, `forge.callTool.call(…)` and `forge.server(name)`: calls whose tool the text does
    /// not show.
    pub(super) fn is_hidden_call(&self, call: &CallExpression<'a>) -> bool {
        let Some(Origin::Names(names, false)) = self.origin(&call.callee) else { return false };
        let [forge, function, ..] = names.as_slice() else { return false };
        // Under its own name alone it is followed to the server.
        let named = || self.text(call.arguments.first()?.as_expression()?);
        let is_followed = || self.api(&call.callee) == Some((FORGE, "server")) && named().is_some();
        forge == FORGE && NAMING.contains(&function.as_str()) && !is_followed()
    }

    /// Notes a call that the script waits for, and those in its `Promise.all([…])`.
    pub(super) fn note_waited(&mut self, expression: &Expression<'a>) {
        let Expression::CallExpression(call) = expression.get_inner_expression() else { return };
        self.waited.insert(call.span);
        if let (Some(("Promise", "all")), Some(Argument::ArrayExpression(array))) =
            (self.api(&call.callee), call.arguments.first())
        {
            for element in &array.elements {
                if let Some(Expression::CallExpression(call)) =
                    element.as_expression().map(Expression::get_inner_expression)
                {
                    self.waited.insert(call.span);
                }
            }
        }
    }

    /// Reads a function where it is called: `main()`, or a function expression.
    pub(super) fn enter_called(&mut self, call: &CallExpression<'a>) -> bool {
        let flow = if self.waited.contains(&call.span) { self.draft.flow } else { self.draft.flow.branch() };
        if let Some(function) = FunctionOf::of(&call.callee) {
            self.enter(flow, function);
            return true;
        }
        let Expression::Identifier(name) = call.callee.get_inner_expression() else { return false };
        let named = self.symbol(name).filter(|symbol| self.later.contains(symbol));
        named.inspect(|symbol| self.enter_named(*symbol, flow)).is_some()
    }

    pub(super) fn enter_named(&mut self, symbol: SymbolId, flow: Flow) {
        if !self.entered.insert(symbol) {
            return;
        }
        let often = self.semantic.scoping().get_resolved_reference_ids(symbol).len() > 1;
        let flow = Flow { repeats: flow.repeats || often, ..flow };
        let function = match self.semantic.symbol_declaration(symbol).kind() {
            AstKind::Function(function) => Some(FunctionOf::Function(function)),
            AstKind::VariableDeclarator(declared) => declared.init.as_ref().and_then(FunctionOf::of),
            _ => None,
        };
        if let Some(function) = function {
            self.enter(flow, function);
        }
    }

    /// Reads the body of a function. A `return` ends only it.
    pub(super) fn enter(&mut self, flow: Flow, function: FunctionOf<'_, 'a>) {
        let (own, is_generator) = match function {
            FunctionOf::Function(it) => (it.id.as_ref().filter(|_| !it.is_declaration()), it.generator),
            FunctionOf::Arrow(_) => (None, false),
        };
        let scoping = self.semantic.scoping();
        let calls_itself = own.is_some_and(|name| !scoping.symbol_is_unused(name.symbol_id()));
        let flow = Flow {
            // A generator runs as far as it is read.
            is_certain: flow.is_certain && !self.draft.has_left && !is_generator,
            repeats: flow.repeats || calls_itself,
        };
        let (outer_left, outer_guard) =
            (std::mem::take(&mut self.draft.has_left), std::mem::take(&mut self.draft.is_guarded));
        self.under(flow, |reader| {
            reader.visit_formal_parameters(function.params());
            match function {
                FunctionOf::Function(it) => it.body.iter().for_each(|body| reader.visit_function_body(body)),
                FunctionOf::Arrow(it) => reader.visit_arrow_function_body(&it.body),
            }
        });
        (self.draft.has_left, self.draft.is_guarded) = (outer_left, outer_guard);
    }

    pub(super) fn finish_functions(&mut self) {
        let mut at = 0;
        while let Some(symbol) = self.later.get(at).copied() {
            self.enter_named(symbol, Flow::STRAIGHT.repeated());
            at += 1;
        }
    }

    /// Reads the arguments of a call. Functions among them run some other time, and each task of `forge.parallel` once.
    pub(super) fn visit_arguments(&mut self, call: &CallExpression<'a>) {
        let is_parallel = self.api(&call.callee) == Some(("forge", "parallel"));
        let (each, items) = match call.callee.get_inner_expression() {
            Expression::StaticMemberExpression(member) => {
                let items = EACH.iter().find(|(name, _)| *name == member.property.name).map(|(_, items)| items.clone());
                (self.origin(&member.object).and_then(Origin::item), items.unwrap_or_default())
            }
            _ => (None, 0..0),
        };
        for argument in &call.arguments {
            match argument {
                Argument::ArrayExpression(tasks) if is_parallel => {
                    for task in &tasks.elements {
                        match task {
                            ArrayExpressionElement::ArrowFunctionExpression(task) => {
                                self.enter(self.draft.flow.branch(), FunctionOf::Arrow(task));
                            }
                            other => self.visit_array_expression_element(other),
                        }
                    }
                }
                Argument::ArrowFunctionExpression(function) => {
                    for item in function.params.items.get(items.clone()).unwrap_or_default() {
                        self.bind(&item.pattern, each.clone());
                    }
                    self.visit_arrow_function_expression(function);
                }
                other => self.visit_argument(other),
            }
        }
    }
}

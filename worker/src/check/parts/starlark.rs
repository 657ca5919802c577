//! Parts of Starlark.

use std::collections::BTreeSet;

use serde_json::Value;
use starlark::syntax::ast::{
    Argument, AssignTarget, AstExpr, AstLiteral, AstNoPayload, AstStmt, BinOp, Clause, DefP, Expr, ForClause, Stmt,
};
use wire::{Form, Parts};

use super::super::literal::{constant, of_starlark};
use super::{Draft, blanked, list};
use crate::starlark::{FORMAT, Places, Script, TEXT, calls_main, is_global, parse};

/// Levels of a literal: a number, and its sign.
const LEVELS: usize = 2;
/// Functions that get the name of a tool, prompt or resource as text.
const NAMING: [&str; 4] = ["call_tool", "getattr", "prompt", "read_resource"];

/// The parts of a script.
pub(in crate::check) fn parts(script: &Script, code: &str) -> Parts {
    let mut reader = Reader {
        code,
        places: &script.places,
        draft: Draft::default(),
        names_tools: false,
        templates: BTreeSet::new(),
    };
    let top = script.ast.statement();
    reader.statement(top);
    reader.constants(statements(top));
    let form = form(top, &reader);
    let mut parts = reader.draft.finish(false, form);
    let blanked = blanked(code, &parts).and_then(|code| parse(&code).ok());
    parts.outline = blanked.map(|script| script.ast.statement().to_string()).unwrap_or_default();
    parts
}

/// Statements of the top level.
fn statements(top: &AstStmt) -> &[AstStmt] {
    if let Stmt::Statements(all) = &top.node { all } else { std::slice::from_ref(top) }
}

fn form(top: &AstStmt, reader: &Reader<'_>) -> Form {
    let all = statements(top);
    if all.iter().any(assigns_result) {
        let is_certain =
            |statement: &AstStmt| matches!(&statement.node, Stmt::Assign(assign) if is_result(&assign.lhs.node));
        return Form::Result { is_perhaps: !all.iter().any(is_certain) };
    }
    let main = all.iter().find_map(|statement| match &statement.node {
        Stmt::Def(def) if def.name.node.ident == "main" => Some(def),
        _ => None,
    });
    match (main, all.last()) {
        (Some(main), _) if !calls_main(top) => main_form(main, reader),
        (_, Some(last)) if matches!(last.node, Stmt::Expression(_)) => Form::Last(reader.places.range(last.span).0),
        _ => Form::Statements,
    }
}

fn main_form(main: &DefP<AstNoPayload>, reader: &Reader<'_>) -> Form {
    let Reader { code, places, .. } = *reader;
    let name = places.range(main.name.span).1 as usize;
    let rest = code.get(name..).unwrap_or_default();
    let inner = rest.trim_start().strip_prefix('(').map(str::trim_start).and_then(|rest| rest.strip_prefix(')'));
    let (Some(behind), true) = (inner, main.params.is_empty()) else { return Form::Taken };
    let close = code.len() - behind.len();
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Form::Main {
        params: offset(close.saturating_sub(1)),
        returns: main.return_type.is_none().then(|| offset(close)),
        body: places.range(main.body.span),
    }
}

/// True for a statement that gives the script's value, also somewhere within.
fn assigns_result(statement: &AstStmt) -> bool {
    match &statement.node {
        Stmt::Assign(assign) => is_result(&assign.lhs.node),
        Stmt::Def(_) => false,
        _ => {
            let mut found = false;
            statement.visit_stmt(|inner| found |= assigns_result(inner));
            found
        }
    }
}

fn is_result(target: &AssignTarget) -> bool {
    match target {
        AssignTarget::Identifier(name) => name.node.ident == "result",
        AssignTarget::Tuple(all) => all.iter().any(|target| is_result(&target.node)),
        AssignTarget::Index(_) | AssignTarget::Dot(..) => false,
    }
}

struct Reader<'c> {
    code: &'c str,
    places: &'c Places,
    draft: Draft,
    /// True if a text of the script may name a tool.
    names_tools: bool,
    /// Names of texts that values are put into, by `.format(…)` or `%`.
    templates: BTreeSet<String>,
}

impl Reader<'_> {
    /// Statements such as `factor = 2` at the top, before the first call: each on a line of its own, of a name that is
    /// bound once. A text stays where a text may name a tool or where it is a template, and so does the value of the script.
    fn constants(&mut self, all: &[AstStmt]) {
        for statement in all.iter().take_while(|statement| !calls(statement)) {
            let Stmt::Assign(assign) = &statement.node else { continue };
            let AssignTarget::Identifier(name) = &assign.lhs.node else { continue };
            let (name, at) = (name.node.ident.as_str(), self.places.range(assign.rhs.span));
            let whole = (self.places.range(assign.lhs.span).0, at.1);
            let is_its = |value: &Value| !self.names_tools || value.is_number() || value.is_boolean();
            if let Some(value) = literal(&assign.rhs).or_else(|| items(&assign.rhs)).filter(is_its)
                && name != "result"
                && !(value.is_string() && self.templates.contains(name))
                && !self.draft.twice.contains(name)
                && self.is_line(whole)
            {
                self.draft.constant(name, at, whole, &value);
            }
        }
    }

    /// True if nothing else stands on the lines of a statement.
    fn is_line(&self, (begin, end): (u32, u32)) -> bool {
        let (before, behind) = (self.code.get(..begin as usize), self.code.get(end as usize..));
        let rest = behind.and_then(|behind| behind.lines().next()).unwrap_or_default().trim_start();
        before.is_some_and(|before| before.is_empty() || before.ends_with('\n'))
            && (rest.is_empty() || rest.starts_with('#'))
    }

    fn statement(&mut self, statement: &AstStmt) {
        match &statement.node {
            Stmt::Assign(assign) => self.bind(&assign.lhs.node),
            Stmt::AssignModify(target, ..) => self.bind(&target.node),
            Stmt::For(loops) => self.bind(&loops.var.node),
            Stmt::Def(def) => {
                self.draft.name(&def.name.node.ident, true);
                for name in def.params.iter().filter_map(|parameter| parameter.node.ident()) {
                    self.draft.name(&name.node.ident, true);
                }
            }
            _ => {}
        }
        // Expressions of this statement and of those in it; names that those assign come with their statements.
        if matches!(statement.node, Stmt::Statements(_) | Stmt::If(..) | Stmt::IfElse(..) | Stmt::For(_) | Stmt::Def(_))
        {
            statement.visit_stmt(|inner| self.statement(inner));
        }
        self.own(statement);
    }

    /// Reads the expressions of a statement, but not those of the statements in it.
    fn own(&mut self, statement: &AstStmt) {
        match &statement.node {
            Stmt::Statements(_) => {}
            Stmt::If(test, _) | Stmt::IfElse(test, _) => self.expression(test),
            Stmt::For(loops) => self.expression(&loops.over),
            Stmt::Def(def) => {
                for parameter in &def.params {
                    parameter.node.visit_expr(|expression| self.expression(expression));
                }
            }
            _ => statement.visit_expr(|expression| self.expression(expression)),
        }
    }

    fn bind(&mut self, target: &AssignTarget) {
        match target {
            AssignTarget::Identifier(name) => self.draft.name(&name.node.ident, true),
            AssignTarget::Tuple(all) => all.iter().for_each(|target| self.bind(&target.node)),
            AssignTarget::Index(_) | AssignTarget::Dot(..) => {}
        }
    }

    fn clauses(&mut self, first: &ForClause, more: &[Clause]) {
        self.bind(&first.var.node);
        for clause in more {
            if let Clause::For(clause) = clause {
                self.bind(&clause.var.node);
            }
        }
    }

    fn expression(&mut self, expression: &AstExpr) {
        self.draft.other(self.places.range(expression.span), literal(expression));
        match &expression.node {
            Expr::Dict(fields) => {
                self.draft.keys.extend(fields.iter().map(|(key, _)| self.places.range(key.span).0));
            }
            Expr::Identifier(name) => {
                self.names_tools |= NAMING.contains(&name.node.ident.as_str());
                self.draft.name(&name.node.ident, false);
            }
            Expr::Dot(_, name) => self.names_tools |= NAMING.contains(&name.node.as_str()),
            Expr::Literal(AstLiteral::String(_)) | Expr::FString(_) => {
                self.draft.verbatim(self.code, self.places.range(expression.span))
            }
            Expr::Lambda(lambda) => {
                for name in lambda.params.iter().filter_map(|parameter| parameter.node.ident()) {
                    self.draft.name(&name.node.ident, true);
                }
            }
            Expr::ListComprehension(_, first, more) | Expr::DictComprehension(_, first, more) => {
                self.clauses(first, more);
            }
            Expr::Op(left, BinOp::Percent, _) => self.template(left),
            Expr::Call(callee, arguments) => {
                let arguments: Vec<&Argument> = arguments.args.iter().map(|argument| &argument.node).collect();
                if let Some(object) = formatted(callee, &arguments) {
                    self.template(object);
                }
                if let Some(root) = target(callee, &arguments) {
                    for argument in arguments {
                        if let Argument::Named(key, value) = argument {
                            self.value(&root, &key.node, value);
                        }
                    }
                }
            }
            _ => {}
        }
        expression.visit_expr(|inner| self.expression(inner));
    }

    fn template(&mut self, text: &AstExpr) {
        if let Expr::Identifier(name) = &text.node {
            self.templates.insert(name.node.ident.clone());
        }
    }

    fn value(&mut self, root: &str, key: &str, expression: &AstExpr) {
        if let Some(value) = literal(expression) {
            return self.draft.literal(root, key, self.places.range(expression.span), None, &value);
        }
        match &expression.node {
            Expr::List(inner) => match items(expression) {
                Some(value) => self.draft.literal(root, key, self.places.range(expression.span), None, &value),
                None => inner.iter().filter(|item| matches!(item.node, Expr::Dict(_))).for_each(|item| {
                    self.value(root, key, item);
                }),
            },
            Expr::Dict(fields) => {
                for (key, value) in fields {
                    if let Expr::Literal(AstLiteral::String(key)) = &key.node {
                        self.value(root, &key.node, value);
                    }
                }
            }
            _ => {}
        }
    }
}

/// True for a statement that calls anything when it runs.
fn calls(statement: &AstStmt) -> bool {
    fn has_call(expression: &AstExpr) -> bool {
        let is_text = |callee: &AstExpr| matches!(&callee.node, Expr::Identifier(name) if name.node.ident == TEXT);
        let mut found = matches!(&expression.node, Expr::Call(callee, _) if !is_text(callee));
        expression.visit_expr(|inner| found |= has_call(inner));
        found
    }
    let mut found = false;
    if !matches!(statement.node, Stmt::Def(_)) {
        statement.visit_expr(|expression| found |= has_call(expression));
    }
    found
}

/// The object of a call of its `format`, also as Python's is rewritten.
fn formatted<'e>(callee: &'e AstExpr, arguments: &[&'e Argument]) -> Option<&'e AstExpr> {
    match (&callee.node, arguments.first().copied()) {
        (Expr::Dot(object, name), _) if name.node == "format" => Some(&**object),
        (Expr::Identifier(name), Some(Argument::Positional(object))) if name.node.ident == FORMAT => Some(object),
        _ => None,
    }
}

/// The namespace of a call of a tool.
fn target(callee: &AstExpr, arguments: &[&Argument]) -> Option<String> {
    match &callee.node {
        Expr::Identifier(name) => match (name.node.ident.as_str(), arguments.first()) {
            ("try_call" | "defer", Some(Argument::Positional(task))) => target(task, &[]),
            ("call_tool", _) => Some("call_tool".to_owned()),
            (FORMAT, Some(Argument::Positional(object))) => {
                root(object).filter(|root| !is_global(root)).map(str::to_owned)
            }
            _ => None,
        },
        Expr::Dot(object, _) => root(object).filter(|root| !is_global(root)).map(str::to_owned),
        _ => None,
    }
}

fn root(expression: &AstExpr) -> Option<&str> {
    match &expression.node {
        Expr::Identifier(name) => Some(&name.node.ident),
        Expr::Dot(object, _) => root(object),
        _ => None,
    }
}

/// Value of a list of these.
fn items(expression: &AstExpr) -> Option<Value> {
    let Expr::List(items) = &expression.node else { return None };
    list(items.iter().map(literal).collect::<Option<_>>()?)
}

/// Value of a text, a number or a boolean.
fn literal(expression: &AstExpr) -> Option<Value> {
    of_starlark(expression, LEVELS, &|name, _| constant(name)).filter(|value| match value {
        Value::Number(number) => number.is_i64() || number.is_f64(),
        value => value.is_string() || value.is_boolean(),
    })
}

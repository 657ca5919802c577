//! The calls of Starlark.

mod calls;
mod names;

use std::collections::{HashMap, HashSet};

use starlark::syntax::ast::{
    Argument, AssignTarget, AstExpr, AstLiteral, AstNoPayload, AstParameter, AstStmt, BinOp, Clause, DefP, Expr,
    ForClause, Parameter, Stmt,
};
use wire::{How, Outline, Used};

use self::names::got;
use super::{Draft, Drafting, FORGE, Flow, Origin};

use crate::starlark::{Places, Script, is_global};

type Def = DefP<AstNoPayload>;

/// Functions that call what they are given, or give it by a name: passed on, they hide which tool is called.
const HIDING: [&str; 6] = ["call_tool", "defer", "getattr", "prompt", "read_resource", "try_call"];

/// Reads the calls of a script.
pub(in crate::check) fn outline(script: &Script, code: &str) -> Outline {
    let mut reader = Reader {
        places: &script.places,
        draft: Draft::new(code),
        calls: HashMap::new(),
        scopes: vec![Scope::default()],
        functions: HashMap::new(),
        entered: HashSet::new(),
        is_followed: false,
    };
    let top = script.ast.statement();
    reader.declare(top);
    reader.statement(top);
    // The engine calls `main` where the script does not.
    let calls_main = crate::starlark::calls_main(top);
    if !calls_main {
        reader.draft.has_left = false;
        reader.enter_named("main", Flow::STRAIGHT);
    }
    let mut names: Vec<&str> = reader.functions.keys().copied().collect();
    names.sort_unstable();
    for name in names {
        reader.enter_named(name, Flow::STRAIGHT.repeated());
    }
    reader.note_own(top);
    reader.draft.finish()
}

/// Names of one function, or of the script.
#[derive(Default)]
struct Scope<'c> {
    /// Names that are assigned in it, and how often.
    assigned: HashMap<&'c str, usize>,
    /// Those that were read, and where first in the text.
    read: HashMap<&'c str, u32>,
    origins: HashMap<&'c str, Origin>,
    literals: HashMap<&'c str, &'c AstExpr>,
}

struct Reader<'c> {
    places: &'c Places,
    draft: Draft,
    /// Numbers of calls by their place in the code.
    calls: HashMap<(u32, u32), usize>,
    /// The script's own names, and those of the function that is read.
    scopes: Vec<Scope<'c>>,
    /// Functions of the top level, and how often each is named.
    functions: HashMap<&'c str, &'c Def>,
    entered: HashSet<&'c str>,
    /// True for the next expression if it is followed to what it stands for.
    is_followed: bool,
}

impl Drafting for Reader<'_> {
    fn draft(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl<'c> Reader<'c> {
    fn statement(&mut self, statement: &'c AstStmt) {
        match &statement.node {
            Stmt::Statements(all) => all.iter().for_each(|statement| self.statement(statement)),
            Stmt::Expression(expression) => self.expression(expression),
            Stmt::Assign(assign) => {
                match &assign.lhs.node {
                    AssignTarget::Identifier(name) if self.has_one_value(&name.node.ident) => {
                        self.followed(&assign.rhs)
                    }
                    _ => self.expression(&assign.rhs),
                }
                let literal = matches!(assign.rhs.node, Expr::Literal(_)).then_some(&assign.rhs);
                self.bind(&assign.lhs, self.origin(&assign.rhs), literal);
                self.target_of_assignment(&assign.lhs);
            }
            Stmt::AssignModify(target, _, value) => {
                self.expression(value);
                self.target_of_assignment(target);
            }
            Stmt::Return(value) => {
                value.iter().for_each(|value| self.expression(value));
                self.draft.has_left = true;
            }
            Stmt::If(test, body) => {
                self.expression(test);
                self.under(self.draft.flow.branch(), |reader| reader.statement(body));
            }
            Stmt::IfElse(test, branches) => {
                let (first, second) = &**branches;
                let is_choice = matches!(second.node, Stmt::If(..) | Stmt::IfElse(..));
                self.ways(
                    is_choice,
                    |reader| reader.expression(test),
                    |reader| reader.statement(first),
                    |reader| reader.statement(second),
                );
            }
            Stmt::For(loops) => {
                self.expression(&loops.over);
                self.under(self.draft.flow.repeated(), |reader| {
                    reader.bind(&loops.var, reader.origin(&loops.over).and_then(Origin::item), None);
                    reader.target_of_assignment(&loops.var);
                    reader.statement(&loops.body);
                });
            }
            // Read where it is called. One within a function, or of a name with several values, is rare and not followed.
            Stmt::Def(def) if self.scopes.len() > 1 || !self.has_one_value(&def.name.node.ident) => {
                self.body(def, self.draft.flow.repeated());
            }
            Stmt::Def(_) | Stmt::Break | Stmt::Continue | Stmt::Pass | Stmt::Load(_) => {}
        }
    }

    /// `answer["key"] = value`: its keys are no longer those of the tool.
    fn target_of_assignment(&mut self, target: &'c AssignTarget) {
        match target {
            AssignTarget::Index(both) => {
                self.note_change(&both.0);
                self.expression(&both.0);
                self.expression(&both.1);
            }
            AssignTarget::Tuple(all) => all.iter().for_each(|target| self.target_of_assignment(target)),
            AssignTarget::Dot(object, _) => self.expression(object),
            AssignTarget::Identifier(_) => {}
        }
    }

    /// A function of the top level that is the only value of its name.
    fn function(&self, name: &str) -> Option<&'c Def> {
        let is_single = |_: &&&Def| self.scopes.first().is_some_and(|scope| scope.assigned.get(name) == Some(&1));
        self.functions.get(name).filter(is_single).copied()
    }

    fn enter_named(&mut self, name: &str, flow: Flow) {
        if let Some(def) = self.function(name)
            && self.entered.insert(&def.name.node.ident)
        {
            self.enter(def, flow);
        }
    }

    /// Reads a function of the top level, which sees its own names and those of the script.
    fn enter(&mut self, def: &'c Def, flow: Flow) {
        let outer = self.scopes.split_off(1);
        self.body(def, flow);
        self.scopes.extend(outer);
    }

    /// Reads the body of a function, which sees the names around it. A `return` ends only it.
    fn body(&mut self, def: &'c Def, flow: Flow) {
        let flow = Flow { is_certain: flow.is_certain && !self.draft.has_left, ..flow };
        let outer_left = std::mem::take(&mut self.draft.has_left);
        self.enter_scope(&def.params, flow);
        self.declare(&def.body);
        self.under(flow, |reader| reader.statement(&def.body));
        self.scopes.pop();
        self.draft.has_left = outer_left;
    }

    /// Reads the defaults of parameters, which see the names around the function, and begins its own names.
    fn enter_scope(&mut self, parameters: &'c [AstParameter], flow: Flow) {
        let mut scope = Scope::default();
        for parameter in parameters {
            if let Parameter::Normal(_, _, Some(default)) = &parameter.node {
                self.under(flow.branch(), |reader| reader.expression(default));
            }
            scope.assigned.extend(parameter.node.ident().map(|name| (name.node.ident.as_str(), 1)));
        }
        self.scopes.push(scope);
    }

    fn expression(&mut self, expression: &'c AstExpr) {
        let is_followed = std::mem::take(&mut self.is_followed);
        match &expression.node {
            Expr::Call(callee, arguments) => {
                let arguments: Vec<&Argument> = arguments.args.iter().map(|argument| &argument.node).collect();
                let got = got(callee, arguments.first().copied());
                // A default is another way.
                let is_choice = got.is_some() && arguments.len() > 1;
                let outer = if is_choice { self.draft.choose() } else { self.draft.choice };
                self.call_expression(expression, callee, &arguments);
                got.into_iter().for_each(|(object, key)| self.note_asked(object, expression, key));
                self.draft.choice = outer;
            }
            Expr::If(parts) => {
                let (test, first, second) = &**parts;
                self.ways(
                    true,
                    |reader| reader.expression(test),
                    |reader| reader.expression(first),
                    |reader| reader.expression(second),
                );
            }
            Expr::Op(left, operator @ (BinOp::And | BinOp::Or), right) => {
                let outer = if *operator == BinOp::Or { self.draft.choose() } else { self.draft.choice };
                let from = self.draft.asked.len();
                self.expression(left);
                self.draft.unask(from, self.origin(right).filter(|_| *operator == BinOp::Or));
                self.under(self.draft.flow.branch(), |reader| reader.expression(right));
                self.draft.choice = outer;
            }
            Expr::Op(key, BinOp::In, object) => {
                self.expression(key);
                self.expression(object);
                if let Expr::Literal(AstLiteral::String(key)) = &key.node {
                    self.note_asked(object, expression, &key.node);
                }
            }
            Expr::Lambda(lambda) => {
                self.enter_scope(&lambda.params, self.draft.flow);
                // A `fail` in it ends no more than its call.
                let outer_left = self.draft.has_left;
                self.under(self.draft.flow.repeated(), |reader| reader.expression(&lambda.body));
                self.draft.has_left = outer_left;
                self.scopes.pop();
            }
            Expr::ListComprehension(body, first, rest) => self.comprehension(&[body], first, rest),
            Expr::DictComprehension(body, first, rest) => self.comprehension(&[&body.0, &body.1], first, rest),
            Expr::Index(both) => {
                self.expression(&both.0);
                self.expression(&both.1);
                if let Expr::Literal(AstLiteral::String(key)) = &both.1.node {
                    self.note_read(&both.0, &both.1, &key.node, How::Key);
                }
            }
            Expr::Dot(object, name) => {
                match self.is_forge(object) {
                    true => self.draft.used(Used::of(&name.node)),
                    false => self.followed(object),
                }
                // One whose name is too long to follow may be a tool.
                self.draft.outline.is_partial |= match self.origin(expression) {
                    Some(origin) => !is_followed && is_hiding(&origin),
                    None => self.origin(object).as_ref().is_some_and(is_hiding),
                };
                self.note_read(object, expression, &name.node, How::Attribute);
            }
            Expr::Identifier(name) => self.name(expression, &name.node.ident, is_followed),
            _ => expression.node.visit_expr(|part| self.expression(part)),
        }
    }

    /// Reads what is called, read from or named: what it stands for is followed.
    fn followed(&mut self, expression: &'c AstExpr) {
        self.is_followed = true;
        self.expression(expression);
    }

    /// True for a name of the script, or of the function that is read, that has one value.
    fn has_one_value(&self, name: &str) -> bool {
        self.scopes.last().is_some_and(|scope| scope.assigned.get(name) == Some(&1))
    }

    /// True for the object that has all of the script API.
    fn is_forge(&self, expression: &AstExpr) -> bool {
        matches!(&expression.node, Expr::Identifier(name) if name.node.ident == FORGE) && self.scope(FORGE).is_none()
    }

    fn comprehension(&mut self, body: &[&'c AstExpr], first: &'c ForClause, rest: &'c [Clause]) {
        self.expression(&first.over);
        self.scopes.push(Scope::default());
        self.under(self.draft.flow.repeated(), |reader| {
            reader.assign(&first.var.node);
            reader.bind(&first.var, reader.origin(&first.over).and_then(Origin::item), None);
            reader.target_of_assignment(&first.var);
            for clause in rest {
                match clause {
                    Clause::For(clause) => {
                        reader.expression(&clause.over);
                        reader.assign(&clause.var.node);
                        reader.bind(&clause.var, reader.origin(&clause.over).and_then(Origin::item), None);
                        reader.target_of_assignment(&clause.var);
                    }
                    Clause::If(test) => reader.expression(test),
                }
            }
            body.iter().for_each(|part| reader.expression(part));
        });
        self.scopes.pop();
    }
}

/// True for what hides which tool is called where it is passed on, by any of its names.
fn is_hiding(origin: &Origin) -> bool {
    origin.hides(&HIDING, is_global)
}

fn key(expression: &AstExpr) -> (u32, u32) {
    (expression.span.begin().get(), expression.span.end().get())
}

//! Names followed to the calls and answers that they stand for.

use starlark::syntax::ast::{Argument, AssignTarget, AstExpr, AstLiteral, AstStmt, BinOp, Expr, Stmt};
use wire::{How, Language, Used};

use super::super::{FORGE, MAX_LEVELS, Origin};
use super::{Reader, Scope, is_hiding, key};
use crate::explain::of_name;
use crate::starlark::is_global;

impl<'c> Reader<'c> {
    /// Counts the assignments of a block, without those of functions in it.
    pub(super) fn declare(&mut self, statement: &'c AstStmt) {
        match &statement.node {
            Stmt::Statements(all) => all.iter().for_each(|statement| self.declare(statement)),
            Stmt::If(_, body) => self.declare(body),
            Stmt::IfElse(_, branches) => {
                self.declare(&branches.0);
                self.declare(&branches.1);
            }
            Stmt::For(loops) => {
                self.assign(&loops.var);
                self.declare(&loops.body);
            }
            Stmt::Assign(assign) => self.assign(&assign.lhs),
            Stmt::AssignModify(target, ..) => {
                self.assign(target);
                self.assign(target);
            }
            Stmt::Def(def) => {
                self.count(&def.name.node.ident);
                if self.scopes.len() == 1 {
                    self.functions.insert(&def.name.node.ident, def);
                }
            }
            _ => {}
        }
    }

    /// Notes names of the top level that may be read before they have a value: until then they are servers, if these have
    /// such names.
    pub(super) fn note_own(&mut self, top: &'c AstStmt) {
        let mut read = self.scopes.first_mut().map(|scope| std::mem::take(&mut scope.read)).unwrap_or_default();
        let all = if let Stmt::Statements(all) = &top.node { all.as_slice() } else { &[] };
        for statement in all {
            let name = match &statement.node {
                Stmt::Assign(assign) => match &assign.lhs.node {
                    AssignTarget::Identifier(name) => name.node.ident.as_str(),
                    _ => continue,
                },
                Stmt::Def(def) => def.name.node.ident.as_str(),
                _ => continue,
            };
            // It has a value in all that stands below.
            if read.get(name).is_some_and(|first| *first >= statement.span.end().get()) {
                read.remove(name);
            }
        }
        for name in read.into_keys() {
            if self.draft.has_room(name.len()) {
                self.draft.outline.own.insert(name.to_owned());
            } else {
                self.draft.outline.is_partial = true;
            }
        }
    }

    pub(super) fn assign(&mut self, target: &'c AssignTarget) {
        match target {
            AssignTarget::Tuple(all) => all.iter().for_each(|target| self.assign(target)),
            AssignTarget::Identifier(name) => self.count(&name.node.ident),
            AssignTarget::Index(_) | AssignTarget::Dot(..) => {}
        }
    }

    pub(super) fn count(&mut self, name: &'c str) {
        if let Some(scope) = self.scopes.last_mut() {
            *scope.assigned.entry(name).or_default() += 1;
        }
    }

    /// The scope that a name belongs to; `None` for a name that the script does not give.
    pub(super) fn scope(&self, name: &str) -> Option<&Scope<'c>> {
        self.scopes.iter().rev().find(|scope| scope.assigned.contains_key(name))
    }

    pub(super) fn bind(&mut self, target: &'c AssignTarget, origin: Option<Origin>, literal: Option<&'c AstExpr>) {
        let AssignTarget::Identifier(name) = target else { return };
        let name = name.node.ident.as_str();
        let Some(scope) = self.scopes.last_mut() else { return };
        if scope.assigned.get(name) != Some(&1) {
            return;
        }
        if let Some(origin) = origin {
            // A function above has called by this name what was not known there.
            self.draft.outline.is_partial |= scope.read.contains_key(name) && is_hiding(&origin);
            scope.origins.insert(name, origin);
        }
        if let Some(literal) = literal {
            scope.literals.insert(name, literal);
        }
    }

    pub(super) fn origin(&self, expression: &AstExpr) -> Option<Origin> {
        self.origin_within(expression, MAX_LEVELS)
    }

    pub(super) fn origin_within(&self, expression: &AstExpr, levels: usize) -> Option<Origin> {
        let levels = levels.checked_sub(1)?;
        match &expression.node {
            Expr::Identifier(name) => match self.scope(&name.node.ident) {
                Some(scope) => scope.origins.get(name.node.ident.as_str()).cloned(),
                None => Some(Origin::Names(vec![name.node.ident.clone()], false)),
            },
            Expr::Dot(object, name) => match self.origin_within(object, levels)? {
                names @ Origin::Names(..) => names.part(&name.node),
                _ => None,
            },
            Expr::Index(both) => {
                let (object, index) = &**both;
                match (self.origin_within(object, levels)?, &index.node) {
                    (Origin::Names(..), _) => None,
                    (object, Expr::Literal(AstLiteral::String(key))) => object.part(&key.node),
                    (object, Expr::Literal(AstLiteral::Int(_))) => object.item(),
                    _ => None,
                }
            }
            Expr::Call(callee, arguments) => match self.calls.get(&key(expression)) {
                Some(call) => Some(Origin::Answer { call: *call, path: Vec::new(), is_promise: false }),
                None => {
                    let (object, key) = got(callee, arguments.args.first().map(|argument| &argument.node))?;
                    self.origin_within(object, levels).filter(Origin::is_answer)?.part(key)
                }
            },
            // `answer.get("items") or []`
            Expr::Op(either, BinOp::Or, empty) if matches!(&empty.node, Expr::List(items) if items.is_empty()) => {
                self.origin_within(either, levels).filter(Origin::is_answer)
            }
            _ => None,
        }
    }

    /// Notes the use of a name.
    pub(super) fn name(&mut self, expression: &'c AstExpr, name: &'c str, is_followed: bool) {
        self.draft.outline.is_partial |= !is_followed && self.origin(expression).as_ref().is_some_and(is_hiding);
        if let Some(scope) = self.scopes.iter_mut().rev().find(|scope| scope.assigned.contains_key(name)) {
            let at = expression.span.begin().get();
            scope.read.entry(name).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
        if self.scope(name).is_none() {
            self.draft.used(Used::of(name));
            // Alone it may be passed on, and any part of it used.
            self.draft.outline.is_partial |= name == FORGE;
        }
        if self.scope(name).is_none() && !is_global(name) {
            // Names are resolved before anything runs.
            let at = || self.places.place(expression.span);
            self.draft.name(name, at, true, || of_name(Language::Starlark, name, ""));
        }
    }

    pub(super) fn note_change(&mut self, object: &AstExpr) {
        if let Some(Origin::Answer { call, .. }) = self.origin(object) {
            self.draft.changed.push(call);
        }
    }

    /// Notes a key that the script asks for.
    pub(super) fn note_asked(&mut self, object: &AstExpr, at: &AstExpr, name: &str) {
        self.draft.is_guarded = true;
        self.note_read(object, at, name, How::Key);
        self.draft.is_guarded = false;
    }

    pub(super) fn note_read(&mut self, object: &AstExpr, at: &AstExpr, name: &str, how: How) {
        if let Some(origin) = self.origin(object) {
            self.draft.read(&origin, name, how, || self.places.place(at.span));
        }
    }
}

/// The object and key of `object.get("key")`.
pub(super) fn got<'e>(callee: &'e AstExpr, first: Option<&'e Argument>) -> Option<(&'e AstExpr, &'e str)> {
    match (&callee.node, first?) {
        (Expr::Dot(object, name), Argument::Positional(key)) if name.node == "get" => match &key.node {
            Expr::Literal(AstLiteral::String(key)) => Some((object, &key.node)),
            _ => None,
        },
        _ => None,
    }
}

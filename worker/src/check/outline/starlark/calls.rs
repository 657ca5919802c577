//! Calls of tools, and what the text shows of their arguments.

use serde_json::Value;
use starlark::syntax::ast::{Argument, AstExpr, AstLiteral, BinOp, Expr};
use wire::{Args, JsonType, Known, Target, Used};

use super::super::super::literal::{constant, of_starlark};
use super::super::{Flow, MAX_LEVELS, Origin};
use super::{Reader, key};
use crate::starlark::{FORMAT, is_global};

/// Functions that call nothing of what they are given, and do not give it on.
const LOOKING: [&str; 5] = ["bool", "hasattr", "repr", "str", "type"];
/// Methods of lists and dicts that add to them what need not be the tool's.
const ADDING: [&str; 5] = ["append", "extend", "insert", "setdefault", "update"];

impl<'c> Reader<'c> {
    /// True for `try_call` and `defer`, whose first argument is called with the others.
    pub(super) fn is_task(&self, callee: &AstExpr) -> bool {
        let Some(Origin::Names(names, _)) = self.origin(callee) else { return false };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        matches!(names.as_slice(), ["try_call" | "defer"] | ["forge", "try_call" | "defer"])
    }

    /// Reads what is called and what it is given, then the call.
    pub(super) fn call_expression(&mut self, expression: &'c AstExpr, callee: &'c AstExpr, arguments: &[&'c Argument]) {
        self.followed(callee);
        if let Expr::Dot(object, name) = &callee.node
            && ADDING.contains(&name.node.as_str())
        {
            self.note_change(object);
        }
        let is_later = self.is_task(callee);
        let is_followed = match &callee.node {
            Expr::Identifier(name) if self.scope(&name.node.ident).is_none() => {
                name.node.ident == FORMAT || LOOKING.contains(&name.node.ident.as_str())
            }
            _ => false,
        };
        for (number, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::Positional(first) if number == 0 && (is_later || is_followed) => self.followed(first),
                _ => self.expression(argument.expr()),
            }
        }
        self.call(expression, callee, arguments, is_later);
    }

    fn call(&mut self, expression: &'c AstExpr, callee: &'c AstExpr, arguments: &[&'c Argument], is_later: bool) {
        let (callee, arguments, flow) = match arguments {
            [Argument::Positional(task), rest @ ..] if is_later => (task, rest, self.draft.flow.branch()),
            _ => (callee, arguments, self.draft.flow),
        };
        if let Expr::Identifier(name) = &callee.node
            && self.function(&name.node.ident).is_some()
            && self.scopes.iter().skip(1).all(|scope| !scope.assigned.contains_key(name.node.ident.as_str()))
        {
            // Called again, it is read no second time: it may repeat.
            self.enter_named(&name.node.ident, Flow { repeats: true, ..flow });
            return;
        }
        let (origin, arguments) = match (&callee.node, arguments) {
            (Expr::Identifier(name), [Argument::Positional(object), rest @ ..]) if name.node.ident == FORMAT => {
                let names = self.origin(object).filter(|origin| matches!(origin, Origin::Names(..)));
                (names.and_then(|names| names.part("format")), rest)
            }
            _ => (self.origin(callee), arguments),
        };
        let Some(Origin::Names(names, _)) = origin else { return };
        let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
        if let ["forge", _, ..] = all.as_slice() {
            all.remove(0);
        }
        let (target, first) = match all.as_slice() {
            ["call_tool"] => match (self.text(arguments.first()), self.text(arguments.get(1))) {
                (Some(server), Some(tool)) => (Target::Tool(server, tool), 2),
                _ => return self.draft.outline.is_partial = true,
            },
            [what @ ("read_resource" | "prompt")] => match self.text(arguments.first()) {
                Some(server) => {
                    let used = if *what == "prompt" { Used::Prompts } else { Used::Resources };
                    self.draft.used(Some(used(server.clone())));
                    (Target::Other(server), usize::MAX)
                }
                None => return self.draft.outline.is_partial = true,
            },
            ["fail"] => return self.draft.has_left = true,
            [_] => return,
            [root, ..] if is_global(root) => return,
            _ => (Target::Path(names), 0),
        };
        let args = arguments.get(first..).map_or(Args::Unknown, |arguments| self.arguments(arguments));
        let at = self.places.place(expression.span);
        if let Some(number) = self.draft.add(at, target, args, !is_later)
            && !is_later
        {
            self.calls.insert(key(expression), number);
            if self.draft.is_certain() {
                self.draft.wait(&Origin::Answer { call: number, path: Vec::new(), is_promise: false });
            }
        }
    }

    pub(super) fn text(&self, argument: Option<&&'c Argument>) -> Option<String> {
        let Argument::Positional(value) = argument? else { return None };
        match self.value(value, MAX_LEVELS)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn arguments(&mut self, arguments: &[&'c Argument]) -> Args {
        let (mut fields, mut is_open, mut positional) = (Vec::new(), false, 0);
        for argument in arguments {
            match argument {
                Argument::Named(name, value) => {
                    let known = self.known(value);
                    fields.push((name.node.clone(), known));
                }
                Argument::KwArgs(_) => is_open = true,
                Argument::Positional(_) => positional += 1,
                Argument::Args(_) => return Args::Unknown,
            }
        }
        if positional > 0 { Args::Positional(positional) } else { Args::Named(fields, is_open) }
    }

    pub(super) fn known(&mut self, value: &'c AstExpr) -> Known {
        if let Some(value) = self.value(value, MAX_LEVELS) {
            return self.draft.known(&value);
        }
        match &value.node {
            Expr::FString(_) => Known::Type(JsonType::String),
            Expr::Op(left, BinOp::Add | BinOp::Percent, _)
                if matches!(left.node, Expr::Literal(AstLiteral::String(_))) =>
            {
                Known::Type(JsonType::String)
            }
            Expr::List(_) | Expr::ListComprehension(..) | Expr::Tuple(_) => Known::Type(JsonType::Array),
            Expr::Dict(_) | Expr::DictComprehension(..) => Known::Type(JsonType::Object),
            _ => Known::Nothing,
        }
    }

    pub(super) fn value(&self, expression: &AstExpr, levels: usize) -> Option<Value> {
        of_starlark(expression, levels, &|name, levels| match self.scope(name) {
            Some(scope) => self.value(scope.literals.get(name)?, levels),
            None => constant(name),
        })
    }
}

//! The calls of Starlark.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use starlark::syntax::AstModule;
use starlark::syntax::ast::{
    Argument, AssignTarget, AstExpr, AstLiteral, AstNoPayload, AstStmt, BinOp, Clause, DefP, Expr, ForClause,
    Parameter, Stmt,
};
use wire::{Args, How, JsonType, Known, Outline, Place, Read, Site, Target};

use super::{Draft, Flow, MAX_LEVELS, Origin};

type Def = DefP<AstNoPayload>;

/// Names with their own meaning: what hangs on them is no tool.
const OURS: &[&str] = &["stash", "results", "json", "struct"];

/// Reads the calls of a script.
pub(in crate::check) fn outline(ast: &AstModule, code: &str) -> Outline {
    let mut reader = Reader {
        ast,
        draft: Draft::new(code),
        calls: HashMap::new(),
        scopes: vec![Scope::default()],
        functions: HashMap::new(),
        entered: HashSet::new(),
        flow: Flow::STRAIGHT,
        has_left: false,
        room: code.len() * 2,
    };
    let top = ast.statement();
    reader.declare(top);
    reader.statement(top);
    // The engine calls `main` where the script does not.
    let calls_main = crate::starlark::calls_main(top);
    if !calls_main {
        reader.has_left = false;
        reader.enter_named("main", Flow::STRAIGHT);
    }
    let mut names: Vec<&str> = reader.functions.keys().copied().collect();
    names.sort_unstable();
    for name in names {
        reader.enter_named(name, Flow::STRAIGHT.repeated());
    }
    reader.draft.finish()
}

/// Names of one function, or of the script.
#[derive(Default)]
struct Scope<'c> {
    /// Names that are assigned in it, and how often.
    assigned: HashMap<&'c str, usize>,
    origins: HashMap<&'c str, Origin>,
    literals: HashMap<&'c str, &'c AstExpr>,
}

struct Reader<'c> {
    ast: &'c AstModule,
    draft: Draft,
    /// Numbers of calls by their place in the code.
    calls: HashMap<(u32, u32), usize>,
    /// The script's own names, and those of the function that is read.
    scopes: Vec<Scope<'c>>,
    /// Functions of the top level, and how often each is named.
    functions: HashMap<&'c str, &'c Def>,
    entered: HashSet<&'c str>,
    flow: Flow,
    has_left: bool,
    /// Bytes left for literals, of which a long one may be named often.
    room: usize,
}

impl<'c> Reader<'c> {
    fn is_certain(&self) -> bool {
        self.flow.is_certain && !self.has_left
    }

    fn under(&mut self, flow: Flow, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.flow, flow);
        read(self);
        self.flow = outer;
    }

    fn place(&self, expression: &AstExpr) -> Place {
        let begin = self.ast.file_span(expression.span).resolve_span().begin;
        let from_one = |zero_based: usize| u32::try_from(zero_based + 1).unwrap_or(u32::MAX);
        (from_one(begin.line), from_one(begin.column))
    }

    // ---- names ----

    /// Counts the assignments of a block, without those of functions in it.
    fn declare(&mut self, statement: &'c AstStmt) {
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

    fn assign(&mut self, target: &'c AssignTarget) {
        match target {
            AssignTarget::Tuple(all) => all.iter().for_each(|target| self.assign(target)),
            AssignTarget::Identifier(name) => self.count(&name.node.ident),
            AssignTarget::Index(_) | AssignTarget::Dot(..) => {}
        }
    }

    fn count(&mut self, name: &'c str) {
        if let Some(scope) = self.scopes.last_mut() {
            *scope.assigned.entry(name).or_default() += 1;
        }
    }

    /// The scope that a name belongs to; `None` for a name that the script does not give.
    fn scope(&self, name: &str) -> Option<&Scope<'c>> {
        self.scopes.iter().rev().find(|scope| scope.assigned.contains_key(name))
    }

    fn bind(&mut self, target: &'c AssignTarget, origin: Option<Origin>, literal: Option<&'c AstExpr>) {
        let AssignTarget::Identifier(name) = target else { return };
        let name = name.node.ident.as_str();
        let Some(scope) = self.scopes.last_mut() else { return };
        if scope.assigned.get(name) != Some(&1) {
            return;
        }
        if let Some(origin) = origin {
            scope.origins.insert(name, origin);
        }
        if let Some(literal) = literal {
            scope.literals.insert(name, literal);
        }
    }

    fn origin(&self, expression: &AstExpr) -> Option<Origin> {
        self.origin_within(expression, MAX_LEVELS)
    }

    fn origin_within(&self, expression: &AstExpr, levels: usize) -> Option<Origin> {
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
            Expr::Call(..) => {
                let call = *self.calls.get(&key(expression))?;
                Some(Origin::Answer { call, path: Vec::new(), is_promise: false })
            }
            _ => None,
        }
    }

    fn note_read(&mut self, object: &AstExpr, at: &AstExpr, name: &str, how: How) {
        let Some(Origin::Answer { call, path, .. }) = self.origin(object) else { return };
        if path.len() < wire::MAX_PATH {
            let path = path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
            let (at, is_certain) = (self.place(at), self.is_certain());
            self.draft.read(call, Read { at, path, how, is_certain });
        }
    }

    // ---- statements ----

    fn statement(&mut self, statement: &'c AstStmt) {
        match &statement.node {
            Stmt::Statements(all) => all.iter().for_each(|statement| self.statement(statement)),
            Stmt::Expression(expression) => self.expression(expression),
            Stmt::Assign(assign) => {
                self.expression(&assign.rhs);
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
                self.has_left = true;
            }
            Stmt::If(test, body) => {
                self.expression(test);
                self.under(self.flow.branch(), |reader| reader.statement(body));
            }
            Stmt::IfElse(test, branches) => {
                self.expression(test);
                self.under(self.flow.branch(), |reader| {
                    reader.statement(&branches.0);
                    reader.statement(&branches.1);
                });
            }
            Stmt::For(loops) => {
                self.expression(&loops.over);
                self.under(self.flow.repeated(), |reader| {
                    reader.bind(&loops.var, reader.origin(&loops.over).and_then(Origin::item), None);
                    reader.statement(&loops.body);
                });
            }
            // Read where it is called. One within a function is rare, and not followed.
            Stmt::Def(def) if self.scopes.len() > 1 => self.enter(def, self.flow.repeated()),
            Stmt::Def(_) | Stmt::Break | Stmt::Continue | Stmt::Pass | Stmt::Load(_) => {}
        }
    }

    /// `answer["key"] = value`: its keys are no longer those of the tool.
    fn target_of_assignment(&mut self, target: &'c AssignTarget) {
        match target {
            AssignTarget::Index(both) => {
                if let Some(Origin::Answer { call, .. }) = self.origin(&both.0) {
                    self.draft.changed.push(call);
                }
                self.expression(&both.0);
                self.expression(&both.1);
            }
            AssignTarget::Tuple(all) => all.iter().for_each(|target| self.target_of_assignment(target)),
            AssignTarget::Dot(object, _) => self.expression(object),
            AssignTarget::Identifier(_) => {}
        }
    }

    fn enter_named(&mut self, name: &str, flow: Flow) {
        if let Some((name, def)) = self.functions.get_key_value(name).map(|(name, def)| (*name, *def))
            && self.entered.insert(name)
        {
            self.enter(def, flow);
        }
    }

    /// Reads the body of a function. A `return` ends only it.
    fn enter(&mut self, def: &'c Def, flow: Flow) {
        let flow = Flow { is_certain: flow.is_certain && !self.has_left, ..flow };
        let outer_left = std::mem::take(&mut self.has_left);
        let mut scope = Scope::default();
        for parameter in &def.params {
            if let Some(name) = parameter.node.ident() {
                scope.assigned.insert(&name.node.ident, 1);
            }
        }
        // A function sees its own names and those of the script.
        let outer = self.scopes.split_off(1);
        self.scopes.push(scope);
        self.declare(&def.body);
        self.under(flow, |reader| {
            for parameter in &def.params {
                if let Parameter::Normal(_, _, Some(default)) = &parameter.node {
                    reader.under(flow.branch(), |reader| reader.expression(default.as_ref()));
                }
            }
            reader.statement(&def.body);
        });
        self.scopes.truncate(1);
        self.scopes.extend(outer);
        self.has_left = outer_left;
    }

    // ---- expressions ----

    fn expression(&mut self, expression: &'c AstExpr) {
        match &expression.node {
            Expr::Call(callee, arguments) => {
                self.expression(callee);
                let is_later = self.is_task(callee);
                for argument in &arguments.args {
                    self.expression(argument.expr());
                }
                let arguments: Vec<&Argument> = arguments.args.iter().map(|argument| &argument.node).collect();
                self.call(expression, callee, &arguments, is_later);
            }
            Expr::If(parts) => {
                self.expression(&parts.0);
                self.under(self.flow.branch(), |reader| {
                    reader.expression(&parts.1);
                    reader.expression(&parts.2);
                });
            }
            Expr::Op(left, BinOp::And | BinOp::Or, right) => {
                self.expression(left);
                self.under(self.flow.branch(), |reader| reader.expression(right));
            }
            Expr::Lambda(lambda) => {
                let mut scope = Scope::default();
                let names = lambda.params.iter().filter_map(|parameter| parameter.node.ident());
                scope.assigned.extend(names.map(|name| (name.node.ident.as_str(), 1)));
                self.scopes.push(scope);
                self.under(self.flow.repeated(), |reader| reader.expression(&lambda.body));
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
                self.expression(object);
                self.note_read(object, expression, &name.node, How::Attribute);
            }
            // `visit_expr` takes a shorter borrow than the tree has.
            Expr::Tuple(all) | Expr::List(all) => all.iter().for_each(|item| self.expression(item)),
            Expr::Dict(entries) => entries.iter().for_each(|(key, value)| {
                self.expression(key);
                self.expression(value);
            }),
            Expr::Not(one) | Expr::Minus(one) | Expr::Plus(one) | Expr::BitNot(one) => self.expression(one),
            Expr::Op(left, _, right) => {
                self.expression(left);
                self.expression(right);
            }
            Expr::Index2(three) => [&three.0, &three.1, &three.2].into_iter().for_each(|part| self.expression(part)),
            Expr::Slice(object, start, stop, step) => {
                self.expression(object);
                [start, stop, step].into_iter().flatten().for_each(|part| self.expression(part));
            }
            Expr::FString(text) => text.node.expressions.iter().for_each(|part| self.expression(part)),
            Expr::Identifier(name) => {
                let name = name.node.ident.as_str();
                if self.scope(name).is_none() && !crate::starlark::is_global(name) {
                    // Names are resolved before anything runs.
                    let at = self.place(expression);
                    self.draft.name(name, at, true);
                }
            }
            Expr::Literal(_) => {}
        }
    }

    fn comprehension(&mut self, body: &[&'c AstExpr], first: &'c ForClause, rest: &'c [Clause]) {
        self.expression(&first.over);
        self.scopes.push(Scope::default());
        self.under(self.flow.repeated(), |reader| {
            reader.assign(&first.var.node);
            reader.bind(&first.var, reader.origin(&first.over).and_then(Origin::item), None);
            for clause in rest {
                match clause {
                    Clause::For(clause) => {
                        reader.expression(&clause.over);
                        reader.assign(&clause.var.node);
                        reader.bind(&clause.var, reader.origin(&clause.over).and_then(Origin::item), None);
                    }
                    Clause::If(test) => reader.expression(test),
                }
            }
            body.iter().for_each(|part| reader.expression(part));
        });
        self.scopes.pop();
    }

    // ---- calls ----

    /// True for `try_call` and `defer`, whose first argument is called with the others.
    fn is_task(&self, callee: &AstExpr) -> bool {
        matches!(self.origin(callee), Some(Origin::Names(names, _)) if matches!(names.as_slice(), [name] if matches!(name.as_str(), "try_call" | "defer")))
    }

    fn call(&mut self, expression: &'c AstExpr, callee: &'c AstExpr, arguments: &[&'c Argument], is_later: bool) {
        let (callee, arguments, flow) = match arguments {
            [Argument::Positional(task), rest @ ..] if is_later => (task, rest, self.flow.branch()),
            _ => (callee, arguments, self.flow),
        };
        if let Expr::Identifier(name) = &callee.node
            && self.functions.contains_key(name.node.ident.as_str())
            && self.scopes.iter().skip(1).all(|scope| !scope.assigned.contains_key(name.node.ident.as_str()))
        {
            // Called again, it is read no second time: it may repeat.
            self.enter_named(&name.node.ident, Flow { repeats: true, ..flow });
            return;
        }
        let Some(Origin::Names(names, _)) = self.origin(callee) else { return };
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let (target, first) = match all.as_slice() {
            ["call_tool"] => match (self.text(arguments.first()), self.text(arguments.get(1))) {
                (Some(server), Some(tool)) => (Target::Tool(server, tool), 2),
                _ => return self.draft.outline.is_partial = true,
            },
            ["read_resource" | "prompt"] => match self.text(arguments.first()) {
                Some(server) => (Target::Other(server), usize::MAX),
                None => return self.draft.outline.is_partial = true,
            },
            ["fail"] => return self.has_left = true,
            [_] => return,
            [root, ..] if OURS.contains(root) => return,
            _ => (Target::Path(names), 0),
        };
        let args = arguments.get(first..).map_or(Args::Unknown, |arguments| self.arguments(arguments));
        let is_certain = flow.is_certain && !self.has_left;
        let at = self.place(expression);
        let site = Site { at, target, args, is_certain, repeats: flow.repeats, answered: None, reads: Vec::new() };
        if let Some(number) = self.draft.add(site)
            && !is_later
        {
            self.calls.insert(key(expression), number);
            if is_certain {
                self.draft.wait(&Origin::Answer { call: number, path: Vec::new(), is_promise: false });
            }
        }
    }

    fn text(&self, argument: Option<&&'c Argument>) -> Option<String> {
        let Argument::Positional(value) = argument? else { return None };
        match self.value(value, MAX_LEVELS)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    fn arguments(&mut self, arguments: &[&'c Argument]) -> Args {
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

    fn known(&mut self, value: &'c AstExpr) -> Known {
        if let Some(value) = self.value(value, MAX_LEVELS) {
            let text = value.to_string();
            return match self.room.checked_sub(text.len()) {
                Some(left) => {
                    self.room = left;
                    Known::Json(text)
                }
                None => Known::Nothing,
            };
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

    fn value(&self, expression: &AstExpr, levels: usize) -> Option<Value> {
        let levels = levels.checked_sub(1)?;
        match &expression.node {
            Expr::Literal(AstLiteral::String(text)) => Some(Value::String(text.node.clone())),
            Expr::Literal(AstLiteral::Int(number)) => number.node.to_string().parse::<i64>().ok().map(Value::from),
            Expr::Literal(AstLiteral::Float(number)) => serde_json::Number::from_f64(number.node).map(Value::Number),
            Expr::Minus(number) => match self.value(number, levels)? {
                Value::Number(number) => match number.as_i64() {
                    Some(number) => number.checked_neg().map(Value::from),
                    None => serde_json::Number::from_f64(-number.as_f64()?).map(Value::Number),
                },
                _ => None,
            },
            Expr::Identifier(name) => match (self.scope(&name.node.ident), name.node.ident.as_str()) {
                (None, "True") => Some(Value::Bool(true)),
                (None, "False") => Some(Value::Bool(false)),
                (None, "None") => Some(Value::Null),
                (Some(scope), name) => self.value(scope.literals.get(name)?, levels),
                (None, _) => None,
            },
            Expr::List(items) | Expr::Tuple(items) => {
                items.iter().map(|item| self.value(item, levels)).collect::<Option<_>>().map(Value::Array)
            }
            Expr::Dict(entries) => {
                let entries = entries.iter().map(|(key, value)| match self.value(key, levels)? {
                    Value::String(key) => Some((key, self.value(value, levels)?)),
                    _ => None,
                });
                entries.collect::<Option<Map<_, _>>>().map(Value::Object)
            }
            _ => None,
        }
    }
}

fn key(expression: &AstExpr) -> (u32, u32) {
    (expression.span.begin().get(), expression.span.end().get())
}

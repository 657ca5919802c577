//! Finds syntax and globals that cannot work in the sandbox, before the script runs.

use oxc_ast::ast::{
    Argument, BinaryExpression, BindingPattern, CallExpression, ComputedMemberExpression, Decorator, Expression,
    IdentifierReference, ImportExpression, ImportMeta, Program, PropertyKey, Statement, StaticMemberExpression,
    UnaryExpression, UnaryOperator, VariableDeclarator, WithStatement,
};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{IsGlobalReference as _, Scoping};
use oxc_span::{GetSpan as _, Span};

use super::function::FunctionScript;
use crate::explain::ABSENT;

/// Names that compile code from strings or share memory, on any path to them.
const FORBIDDEN: &[(&str, &str)] = &[
    ("eval", "code from strings cannot run here; write it out"),
    ("Function", "code from strings cannot run here; write a function instead"),
    ("WebAssembly", "there is no WebAssembly here; write the computation in the script"),
    ("SharedArrayBuffer", "there is no shared memory here; use an ArrayBuffer"),
    ("Atomics", "there is no shared memory here, and nothing to wait for but calls"),
];

/// Position, and alternative.
type Finding = (usize, String);

/// Finds `import` and `export` at the top level, other than the export of the function that the script ends with.
pub(super) fn check_modules(body: &[Statement<'_>]) -> Result<(), Finding> {
    let body = &body[..body.len() - usize::from(FunctionScript::is_exported(body))];
    match body.iter().find(|statement| statement.is_module_declaration()) {
        Some(found) => {
            let message = "scripts have no `import` or `export`: tools are globals, called as `server.tool({…})`, and \
                           `return` gives the value";
            Err((found.span().start as usize, message.to_owned()))
        }
        None => Ok(()),
    }
}

/// Finds the first banned syntax or global.
pub(super) fn check(program: &Program<'_>, scoping: &Scoping) -> Result<(), Finding> {
    let mut finder = Finder { scoping, found: Vec::new() };
    // Skips the wrapper's own `export`.
    if let [Statement::ExportDefaultDeclaration(wrapper)] = program.body.as_slice() {
        finder.visit_export_default_declaration_kind(&wrapper.declaration);
    }
    finder.found.into_iter().min_by_key(|(at, _)| *at).map_or(Ok(()), Err)
}

struct Finder<'s> {
    scoping: &'s Scoping,
    found: Vec<Finding>,
}

impl Finder<'_> {
    fn find(&mut self, span: Span, message: impl Into<String>) {
        self.found.push((span.start as usize, message.into()));
    }

    fn find_name(&mut self, span: Span, (name, why): &(&str, &str)) {
        self.find(span, format!("`{name}` is not available: {why}"));
    }

    /// True for a global: a name that the script does not declare.
    fn is_global(&self, name: &IdentifierReference<'_>) -> bool {
        name.is_global_reference(self.scoping)
    }

    /// True for `globalThis`, which has every global as a property.
    fn is_global_object(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::Identifier(name) => name.name == "globalThis" && self.is_global(name),
            Expression::StaticMemberExpression(member) => {
                member.property.name == "globalThis" && self.is_global_object(&member.object)
            }
            _ => false,
        }
    }

    fn check_member(&mut self, object: &Expression<'_>, property: &str, span: Span) {
        if self.is_global_object(object) {
            if let Some(forbidden) = entry(FORBIDDEN, property) {
                self.find_name(span, forbidden);
            }
        } else if property == "constructor" && is_function_or_constructor(object) {
            self.find(
                span,
                "the constructor of a function makes code from strings, which cannot run here; write a function instead",
            );
        }
    }

    /// True if an expression only inspects this global.
    fn is_question(&self, expression: &Expression<'_>) -> bool {
        match expression.get_inner_expression() {
            Expression::Identifier(_) => true,
            Expression::StaticMemberExpression(member) => self.is_global_object(&member.object),
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.find(it.span, "`import()` cannot load anything here: tools are globals");
    }

    fn visit_import_meta(&mut self, it: &ImportMeta) {
        self.find(it.span, "there is no `import.meta` here: a script is no file and has no address");
    }

    fn visit_with_statement(&mut self, it: &WithStatement<'a>) {
        self.find(it.span, "`with` is not available: name the object, or take it apart with `const { a, b } = object`");
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.find(it.span, "decorators are not available: call the function on the class or the method yourself");
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let known = entry(FORBIDDEN, &it.name).or_else(|| entry(ABSENT, &it.name));
        if let Some(known) = known.filter(|_| self.is_global(it)) {
            self.find_name(it.span, known);
        }
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        // `Function.prototype.call` and the like compile no code. An absent name may be that of a server, which the gateway
        // knows: `fetch.fetch({…})`. `process` is Node's.
        if let Expression::Identifier(name) = it.object.get_inner_expression()
            && (name.name == "Function" && it.property.name == "prototype"
                || name.name != "process" && entry(ABSENT, &name.name).is_some())
        {
            return;
        }
        let reaches_constructor = matches!(it.object.get_inner_expression(),
            Expression::StaticMemberExpression(inner) if inner.property.name == "prototype"
                && matches!(inner.object.get_inner_expression(), Expression::Identifier(name) if name.name == "Function"));
        if reaches_constructor && it.property.name == "constructor" {
            self.find_name(it.span, &FORBIDDEN[1]);
        }
        self.check_member(&it.object, &it.property.name, it.span);
        walk::walk_static_member_expression(self, it);
    }

    fn visit_computed_member_expression(&mut self, it: &ComputedMemberExpression<'a>) {
        if let Some(property) = it.static_property_name() {
            self.check_member(&it.object, &property, it.span);
        }
        walk::walk_computed_member_expression(self, it);
    }

    /// `const { eval: run } = globalThis`.
    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (BindingPattern::ObjectPattern(pattern), Some(init)) = (&it.id, &it.init)
            && self.is_global_object(init)
        {
            for property in &pattern.properties {
                if let PropertyKey::StaticIdentifier(key) = &property.key
                    && let Some(forbidden) = entry(FORBIDDEN, &key.name)
                {
                    self.find_name(property.span, forbidden);
                }
            }
        }
        walk::walk_variable_declarator(self, it);
    }

    /// `Reflect.get(globalThis, "eval")`.
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let [first, Argument::StringLiteral(property), ..] = it.arguments.as_slice()
            && let Some(object) = first.as_expression()
            && it.callee.is_specific_member_access("Reflect", "get")
        {
            self.check_member(object, &property.value, it.span);
        }
        walk::walk_call_expression(self, it);
    }

    /// `typeof fetch` only tests for existence.
    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        if it.operator != UnaryOperator::Typeof || !self.is_question(&it.argument) {
            walk::walk_unary_expression(self, it);
        }
    }

    /// So are `x instanceof Function` and `x.constructor === Function`.
    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        let compares = it.operator.is_equality() || it.operator.is_instance_of();
        for side in [&it.left, &it.right] {
            if !(compares && self.is_question(side)) {
                self.visit_expression(side);
            }
        }
    }
}

fn entry(table: &'static [(&'static str, &'static str)], name: &str) -> Option<&'static (&'static str, &'static str)> {
    table.iter().find(|(known, _)| *known == name)
}

/// True if `.constructor` of this is `Function` or a relative, as far as the text shows.
fn is_function_or_constructor(expression: &Expression<'_>) -> bool {
    match expression.get_inner_expression() {
        Expression::FunctionExpression(_) | Expression::ArrowFunctionExpression(_) | Expression::ClassExpression(_) => {
            true
        }
        Expression::StaticMemberExpression(member) => member.property.name == "constructor",
        Expression::ComputedMemberExpression(member) => {
            member.static_property_name().is_some_and(|name| name == "constructor")
        }
        // `Object.getPrototypeOf(async () => {}).constructor`
        Expression::CallExpression(call) => {
            let asks =
                ["Object", "Reflect"].iter().any(|of| call.callee.is_specific_member_access(of, "getPrototypeOf"));
            asks && matches!(call.arguments.as_slice(), [only]
                if only.as_expression().is_some_and(is_function_or_constructor))
        }
        _ => false,
    }
}

//! Parts of JavaScript and TypeScript.

use std::collections::BTreeSet;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ArrayExpression, ArrayExpressionElement, BindingIdentifier, CallExpression, ComputedMemberExpression, Expression,
    FunctionBody, IdentifierReference, ObjectExpression, ObjectPropertyKind, Program, PropertyKey, PropertyKind,
    Statement, StringLiteral, TemplateLiteral,
};
use oxc_ast_visit::{Visit, walk};
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType, Span};
use serde_json::Value;
use wire::{Check, Form, JAVASCRIPT_GLOBALS, Parts, ScriptError};

use super::super::function::{FunctionOf, FunctionScript};
use super::super::{numbers, parse, typescript, value_start};
use super::{Draft, blanked, list};
use crate::starlark::EXACT;

/// The parts of a script that parses as TypeScript, or as JavaScript.
pub(in crate::check) fn parts(check: &Check, typed: bool) -> Result<Parts, ScriptError> {
    let kind = if typed { SourceType::ts() } else { SourceType::mjs() };
    let allocator = Allocator::default();
    let program = parse(&allocator, &check.code, kind, check.max_levels)?;
    let mut reader = Reader { code: &check.code, draft: Draft::default(), naming: BTreeSet::new() };
    reader.visit_program(&program);
    reader.constants(&program);
    let mut parts = reader.draft.finish(typed, form(&program));
    // Parsed once more, it takes no more memory than to check it.
    drop(allocator);
    parts.outline = outline(check, &parts).unwrap_or_default();
    Ok(parts)
}

/// The script as all with the same outline read.
fn outline(check: &Check, parts: &Parts) -> Option<String> {
    let blanked =
        Check { code: blanked(&check.code, parts)?, signature: false, max_bytes: usize::MAX, ..check.clone() };
    let allocator = Allocator::default();
    let code = match parts.typed {
        true => typescript::strip(&allocator, &blanked).ok()?.stripped.code,
        false => blanked.code,
    };
    let program = parse(&allocator, &code, SourceType::mjs(), check.max_levels).ok()?;
    let mut scoping = SemanticBuilder::new().build(&program).semantic.into_scoping();
    for (number, symbol) in scoping.symbol_ids().collect::<Vec<_>>().into_iter().enumerate() {
        // No script can write such a name.
        scoping.set_symbol_name(symbol, format!("#{number}").as_str().into());
    }
    Some(Codegen::new().with_options(CodegenOptions::minify()).with_scoping(Some(scoping)).build(&program).code)
}

fn form(program: &Program<'_>) -> Form {
    let Some(script) = FunctionScript::of(&program.body) else {
        return value_start(&program.body, program.directives.last()).map_or(Form::Statements, Form::Last);
    };
    let params = script.function.params();
    if !params.items.is_empty() || params.rest.is_some() || script.function.unfit().is_some() {
        return Form::Taken;
    }
    let within = |body: &FunctionBody<'_>| (body.span.start + 1, body.span.end.saturating_sub(1));
    let (body, is_expression, name) = match script.function {
        FunctionOf::Function(it) => {
            let name = it.id.as_ref().map(|name| name.name.to_string()).unwrap_or_default();
            (it.body.as_ref().map_or((0, 0), |body| within(body)), false, name)
        }
        FunctionOf::Arrow(it) => {
            let Span { start, end, .. } = it.body.span();
            match it.body.is_function_body() {
                true => ((start + 1, end.saturating_sub(1)), false, String::new()),
                false => ((start, end), true, String::new()),
            }
        }
    };
    Form::Function { before: script.statement, body, is_expression, name }
}

struct Reader<'c> {
    code: &'c str,
    draft: Draft,
    /// Names whose values name tools or servers.
    naming: BTreeSet<String>,
}

impl Reader<'_> {
    /// Statements such as `const factor = 2` that stand alone at the top, but none that names a tool or server.
    fn constants(&mut self, program: &Program<'_>) {
        // With parameters, a function can have no directive.
        for statement in program.body.iter().filter(|_| program.directives.is_empty()) {
            if let Statement::VariableDeclaration(declared) = statement
                && let [one] = declared.declarations.as_slice()
                && let (true, Some(name), Some(init)) =
                    (declared.kind.is_const(), one.id.get_identifier_name(), &one.init)
                && let Some(value) = plain(init).filter(|_| !self.naming.contains(&*name))
            {
                let (at, whole) = (init.span(), declared.span);
                self.draft.constant(&name, (at.start, at.end), (whole.start, whole.end), &value);
            }
        }
    }

    fn object(&mut self, root: &str, object: &ObjectExpression<'_>) {
        for property in &object.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            if property.computed || property.method || property.shorthand || property.kind != PropertyKind::Init {
                continue;
            }
            let Some(key) = property.key.static_name() else { continue };
            let begin = matches!(property.key, PropertyKey::StaticIdentifier(_)).then_some(property.span.start);
            self.value(root, &key, &property.value, begin);
        }
    }

    fn value(&mut self, root: &str, key: &str, expression: &Expression<'_>, property: Option<u32>) {
        let span = expression.span();
        if let Some(value) = literal(expression) {
            return self.draft.literal(root, key, (span.start, span.end), property, &value);
        }
        match expression {
            Expression::ObjectExpression(object) => self.object(root, object),
            Expression::ArrayExpression(array) => {
                if let Some(value) = items(array) {
                    return self.draft.literal(root, key, (span.start, span.end), property, &value);
                }
                for element in &array.elements {
                    if let ArrayExpressionElement::ObjectExpression(object) = element {
                        self.object(root, object);
                    }
                }
            }
            _ => {}
        }
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        if let Some((root, first)) = target(call)
            && let [argument] = call.arguments.get(first..).unwrap_or_default()
            && let Some(Expression::ObjectExpression(object)) = argument.as_expression()
        {
            let root = root.to_owned();
            self.object(&root, object);
        }
        if call
            .callee
            .get_member_expr()
            .is_some_and(|it| matches!(it.static_property_name(), Some("callTool" | "server" | "tool")))
        {
            let names =
                call.arguments.iter().filter_map(|argument| argument.as_expression()?.get_identifier_reference());
            self.naming.extend(names.map(|name| name.name.to_string()));
        }
        walk::walk_call_expression(self, call);
    }

    fn visit_computed_member_expression(&mut self, member: &ComputedMemberExpression<'a>) {
        self.naming.extend(member.expression.get_identifier_reference().map(|name| name.name.to_string()));
        walk::walk_computed_member_expression(self, member);
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        let Span { start, end, .. } = expression.span();
        self.draft.other((start, end), plain(expression));
        walk::walk_expression(self, expression);
    }

    fn visit_property_key(&mut self, key: &PropertyKey<'a>) {
        self.draft.keys.insert(key.span().start);
        walk::walk_property_key(self, key);
        self.draft.key = key.static_name().unwrap_or_default().into_owned();
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.draft.name(&name.name, false);
    }

    fn visit_binding_identifier(&mut self, name: &BindingIdentifier<'a>) {
        self.draft.name(&name.name, true);
    }

    fn visit_template_literal(&mut self, template: &TemplateLiteral<'a>) {
        self.draft.verbatim(self.code, (template.span.start, template.span.end));
        walk::walk_template_literal(self, template);
    }

    fn visit_string_literal(&mut self, text: &StringLiteral<'a>) {
        self.draft.verbatim(self.code, (text.span.start, text.span.end));
    }
}

/// The namespace of a call of a tool, and the number of its first argument.
fn target<'e>(call: &'e CallExpression<'_>) -> Option<(&'e str, usize)> {
    let Expression::StaticMemberExpression(member) = &call.callee else { return None };
    let is_call_tool = member.property.name == "callTool";
    let mut object = &member.object;
    loop {
        match object {
            Expression::StaticMemberExpression(member) => object = &member.object,
            // forge.server("name").tool({…})
            Expression::CallExpression(call) => object = &call.callee,
            Expression::Identifier(root) if root.name == "forge" => {
                let is_server = matches!(&member.object, Expression::CallExpression(_));
                return match (is_call_tool, is_server) {
                    (true, false) => Some(("forge", 2)),
                    (_, true) => Some(("forge", 0)),
                    _ => None,
                };
            }
            Expression::Identifier(root) => {
                let root = root.name.as_str();
                return (!JAVASCRIPT_GLOBALS.contains(&root)).then_some((root, 0));
            }
            _ => return None,
        }
    }
}

/// Value of a text, a number or a boolean.
fn literal(expression: &Expression<'_>) -> Option<Value> {
    match expression {
        Expression::StringLiteral(text) if !text.lone_surrogates => Some(text.value.as_str().into()),
        Expression::BooleanLiteral(literal) => Some(literal.value.into()),
        Expression::TemplateLiteral(template) => template.single_quasi().map(|text| text.as_str().into()),
        other => numbers::value(other),
    }
}

/// The same for a value that a script has as it stands: other numbers than these are objects, or lose digits.
fn plain(expression: &Expression<'_>) -> Option<Value> {
    let is_big = match expression {
        Expression::UnaryExpression(unary) => matches!(unary.argument, Expression::BigIntLiteral(_)),
        other => matches!(other, Expression::BigIntLiteral(_)),
    };
    let is_exact = |value: &Value| value.as_f64().is_none_or(|number| number.abs() < EXACT);
    literal(expression).filter(|value| !is_big && is_exact(value))
}

fn items(array: &ArrayExpression<'_>) -> Option<Value> {
    let items = array.elements.iter().map(|item| literal(item.as_expression()?));
    list(items.collect::<Option<Vec<Value>>>()?)
}

//! Scripts before they run: parsed with the goal that the engine uses, banned syntax named early, types stripped, and
//! parsed again as the module that the worker runs.
//!
//! All of it sees hostile code, in a process of its own that never runs any ([`serve`]): a parser that runs out of stack,
//! memory or time costs that process, and the gateway explains it. This layer is for good errors. What it lets through, the
//! engine and the process contain by themselves.

mod banned;
mod depth;
mod enums;
mod function;
mod literal;
mod numbers;
mod outline;
mod parts;
mod serve;
mod signature;
mod typescript;
mod uncalled;

use std::borrow::Cow;

use oxc_allocator::Allocator;
use oxc_ast::ast::{Directive, ExportDefaultDeclarationKind, FormalParameter, FormalParameters, Program, Statement};
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;
use wire::{
    Check, Facts, Language, Module, Outline, ScriptError, ScriptErrorKind, Stripped, TOO_DEEP, ValueOf, position,
};

use self::function::FunctionScript;
use self::uncalled::{exported_name, uncalled};
use crate::explain::of_syntax;
use crate::starlark;

pub(crate) use serve::{STACK, serve};

/// Facts of a script, or its first error.
///
/// # Errors
/// A `Syntax` error with a place in the script as written.
pub(crate) fn check(check: &Check) -> Result<Facts, ScriptError> {
    let script = check.code.as_str();
    if check.language == Language::Starlark {
        let parsed = starlark::parse(script)?;
        let signature = check.signature.then(|| signature::of_starlark(&parsed)).transpose()?;
        let parts = check.parts.then(|| Box::new(parts::of_starlark(&parsed, script)));
        let (outline, numbers) = (outline::of_starlark(&parsed, script), numbers::of_starlark(&parsed, script));
        return Ok(Facts { outline, numbers, signature, parts, ..Facts::default() });
    }
    let mut facts =
        javascript(check).and_then(|facts| widened(check, facts)).map_err(|error| of_syntax(script, error))?;
    if check.parts {
        facts.parts = Some(Box::new(parts::of_javascript(check, facts.stripped.is_some())?));
    }
    Ok(facts)
}

/// The facts of the script with its integers beyond 2^53 as BigInt, if it has any.
fn widened(check: &Check, facts: Facts) -> Result<Facts, ScriptError> {
    let numbers = facts.numbers.clone();
    let internal = |why| ScriptError::new(ScriptErrorKind::Internal, why);
    let Cow::Owned(code) = wire::numbers::widened(&check.code, &numbers).map_err(internal)?.0 else { return Ok(facts) };
    match javascript(&Check { code, ..check.clone() }) {
        Ok(facts) => Ok(Facts { numbers, ..facts }),
        Err(error) => Err(relocated(&module(&check.code, Facts { numbers, ..Facts::default() })?, 1, error)),
    }
}

fn javascript(check: &Check) -> Result<Facts, ScriptError> {
    let script = check.code.as_str();
    if script.trim_start().starts_with("```") {
        // To JavaScript it is a tagged template.
        return Err(syntax_at(script, 0, "the script begins with the fence of a Markdown block"));
    }
    if let Some(at) = script.find('\0') {
        return Err(syntax_at(script, at, "the script contains a NUL character: write `\\0` in a string"));
    }
    let allocator = Allocator::default();
    let plain_error = match parse(&allocator, script, SourceType::mjs(), check.max_levels) {
        Ok(program) => {
            let facts = facts(check, script, None, &program)?;
            let signature = check.signature.then(|| signature::of_javascript(&allocator, &program, script));
            return Ok(Facts { signature: signature.transpose()?, numbers: numbers::of_javascript(&program), ..facts });
        }
        Err(error) => error,
    };
    // Not JavaScript: perhaps TypeScript. If neither, the parse that got further tells more.
    let further = |typed_error: ScriptError| {
        let is_further = (typed_error.line, typed_error.column) > (plain_error.line, plain_error.column);
        if is_further { typed_error } else { plain_error }
    };
    let (stripped, signature, numbers) = match typescript::strip(&allocator, check) {
        Ok(typed) => (typed.stripped, typed.signature, typed.numbers),
        Err(error) => return Err(further(error)),
    };
    let allocator = Allocator::default();
    match parse(&allocator, &stripped.code, SourceType::mjs(), check.max_levels) {
        Ok(program) => {
            let facts = facts(check, &stripped.code, Some(&stripped), &program)?;
            Ok(Facts { signature: signature.transpose()?, numbers, ..facts })
        }
        Err(error) => {
            let module = module(script, Facts { stripped: Some(stripped.clone()), ..Facts::default() })?;
            Err(further(relocated(&module, 1, error)))
        }
    }
}

/// Parses an ES module in which `return` is allowed at the top: the body of the function it becomes.
fn parse<'a>(
    allocator: &'a Allocator,
    code: &'a str,
    kind: SourceType,
    max_levels: usize,
) -> Result<Program<'a>, ScriptError> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let program = parse_with(allocator, code, kind, options)?;
    // Transformers and the compilers of engines recurse as well.
    match depth::beyond(&program, max_levels) {
        Some(offset) => Err(syntax_at(code, offset as usize, TOO_DEEP)),
        None => Ok(program),
    }
}

fn parse_with<'a>(
    allocator: &'a Allocator,
    code: &'a str,
    kind: SourceType,
    options: ParseOptions,
) -> Result<Program<'a>, ScriptError> {
    let parsed = Parser::new(allocator, code, kind).with_options(options).parse();
    match parsed.diagnostics.errors().next() {
        Some(error) => Err(diagnostic(code, error)),
        None if parsed.panicked => Err(syntax_at(code, 0, "the script does not parse")),
        None => Ok(parsed.program),
    }
}

/// The code to run: the script itself, or the script without types.
fn facts(check: &Check, code: &str, stripped: Option<&Stripped>, program: &Program<'_>) -> Result<Facts, ScriptError> {
    let (script, body) = (check.code.as_str(), &program.body);
    let mut facts = Facts { stripped: stripped.cloned(), ..Facts::default() };
    facts.value = match (FunctionScript::of(body), exported_name(body)) {
        (Some(script), _) => script.value(),
        (None, Some(name)) => ValueOf::Function(name.start, name.end),
        (None, None) => value_start(body, program.directives.last()).map_or(ValueOf::Return, ValueOf::Last),
    };
    // A script that is a tool has to be a function, which its signature says.
    if facts.value == ValueOf::Return && !check.signature {
        match uncalled(program, code) {
            Ok(Some(name)) => facts.value = ValueOf::Named(name.start, name.end),
            Ok(None) => {}
            Err(error) => return Err(relocated(&module(script, facts)?, 1, error)),
        }
    }
    let module = module(script, facts.clone())?;
    if let Err((offset, message)) = banned::check_modules(&program.body) {
        return Err(relocated(&module, 1, syntax_at(code, offset, message)));
    }
    Ok(Facts { outline: check_module(&module)?, ..facts })
}

fn module(script: &str, facts: Facts) -> Result<Module, ScriptError> {
    Module::new(script, facts).map_err(|why| ScriptError::new(ScriptErrorKind::Internal, why))
}

/// The error with its place in the script, from one in code that begins `lines` below the module's first line.
fn relocated(module: &Module, lines: u32, error: ScriptError) -> ScriptError {
    let (line, column) = module.original(error.line + lines, error.column);
    ScriptError { line, column, ..error }
}

/// Where the value of the script begins: its last statement, if that is an expression.
fn value_start(body: &[Statement<'_>], directive: Option<&Directive<'_>>) -> Option<u32> {
    match (body, directive) {
        ([.., Statement::ExpressionStatement(last)], _) => Some(last.span.start),
        // A string alone is a directive to the parser and a value to its author.
        ([], Some(directive)) => Some(directive.span.start),
        _ => None,
    }
}

/// Parses what the worker is going to get as its engine is going to, a module of one function and nothing else, and reads
/// its calls.
fn check_module(module: &Module) -> Result<Outline, ScriptError> {
    let allocator = Allocator::default();
    let original = |error| relocated(module, 0, error);
    let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
    let program = parse_with(&allocator, &module.code, SourceType::mjs(), options).map_err(original)?;
    if !is_one_function(&program) {
        let message = "unbalanced `}` closes the script's wrapper";
        return Err(ScriptError { line: 1, column: 1, ..ScriptError::new(ScriptErrorKind::Syntax, message) });
    }
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_build_nodes(true).build(&program);
    banned::check(&program, semantic.semantic.scoping())
        .map_err(|(offset, message)| original(syntax_at(&module.code, offset, message)))?;
    match semantic.diagnostics.errors().next() {
        Some(error) => Err(original(diagnostic(&module.code, error))),
        None => Ok(outline::of_javascript(&program, &semantic.semantic, &module.code)),
    }
}

/// Whether code parses, and is the wrapper alone.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn is_wrapped(code: &str) -> bool {
    let allocator = Allocator::default();
    let parsed = parse_with(&allocator, code, SourceType::mjs(), ParseOptions::default());
    parsed.is_ok_and(|program| is_one_function(&program))
}

/// Whether a module is the wrapper alone, so that no code of the script has got out of it.
fn is_one_function(program: &Program<'_>) -> bool {
    let [Statement::ExportDefaultDeclaration(export)] = program.body.as_slice() else { return false };
    let ExportDefaultDeclarationKind::ArrowFunctionExpression(function) = &export.declaration else { return false };
    program.directives.is_empty() && function.r#async && is_plain(&function.params) && function.body.is_function_body()
}

/// Whether parameters are those of the wrapper: none, or one name.
fn is_plain(params: &FormalParameters<'_>) -> bool {
    let is_name = |item: &FormalParameter<'_>| item.pattern.is_binding_identifier() && item.initializer.is_none();
    params.rest.is_none() && params.items.len() <= 1 && params.items.iter().all(is_name)
}

fn diagnostic(code: &str, error: &OxcDiagnostic) -> ScriptError {
    let offset = error.labels.first().map_or(0, |label| label.offset());
    let message = match &error.help {
        Some(help) => format!("{} ({help})", error.message),
        None => error.message.to_string(),
    };
    syntax_at(code, offset as usize, message)
}

/// An error at a byte offset of `code`.
fn syntax_at(code: &str, offset: usize, message: impl Into<String>) -> ScriptError {
    let (line, column) = position(code, offset);
    ScriptError { line, column, ..ScriptError::new(ScriptErrorKind::Syntax, message) }
}

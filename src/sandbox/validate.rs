//! Prepares scripts for a worker: parses them as the engine does, names banned syntax early, strips types, and wraps
//! them into the worker's module.
//!
//! This layer serves good errors. Engine and process contain what it misses.

mod banned;
mod enums;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod nesting;
mod typescript;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use oxc_allocator::Allocator;
use oxc_ast::ast::{Directive, ExportDefaultDeclarationKind, Expression, Program, Statement};
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan as _, SourceType};
use wire::{Language, ScriptError, ScriptErrorKind};

/// Opens the module's function; the script's first line is the module's second.
const OPEN: &str = "export default async () => {\n";
/// Closes the function, whatever comment the script ends with.
const CLOSE: &str = "\n}\n";
/// Makes the last expression the value.
const RETURN: &str = "return ";
/// Calls the function that a script consists of; the second part follows the script.
const CALL: (&str, &str) = ("return await (", "\n)()");
/// Parser stack per byte of code: `nesting` bounds the depth, but if it were fooled, every byte could open a level, and
/// a parser without stack takes the process with it. Only touched pages cost memory.
const STACK_PER_BYTE: usize = 16 << 10;
/// Least parser stack.
const STACK_BASE: usize = 4 << 20;

/// A prepared script.
#[derive(Debug)]
pub struct Script {
    /// Its language.
    pub language: Language,
    /// Code for the worker.
    pub code: String,
    positions: Positions,
}

/// Maps positions in the worker's code to the script.
#[derive(Debug, Default)]
struct Positions {
    /// Lines before the script's first.
    lines: u32,
    /// Inserted text: line of the script from 1, column from 1, length.
    inserted: Option<(u32, u32, u32)>,
    /// Map from stripped code to the script as written.
    types: Option<typescript::Map>,
    /// Lengths of the script's lines, to clamp positions.
    script: Option<Vec<u32>>,
}

impl Positions {
    fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let line = line.saturating_sub(self.lines);
        if line == 0 {
            return (0, 0);
        }
        let column = match self.inserted {
            Some((l, c, length)) if l == line && column > c => column.saturating_sub(length).max(c),
            _ => column,
        };
        let (line, column) = self.types.as_ref().map_or((line, column), |map| map.original(line, column));
        let Some(lengths) = &self.script else { return (line, column) };
        match lengths.get(line as usize - 1) {
            Some(length) => (line, column.min(length + 1)),
            // The end of the wrapper maps to the end of the script.
            None => (u32::try_from(lengths.len()).unwrap_or(0), lengths.last().map_or(0, |length| length + 1)),
        }
    }
}

impl Script {
    /// Maps a position of the worker to line and column of the script as written, from 1; zeros stay zero.
    #[must_use]
    pub fn original(&self, line: u32, column: u32) -> (u32, u32) {
        self.positions.original(line, column)
    }
}

/// Checks and wraps a script.
///
/// # Errors
/// A `Syntax` error with position, or a `Syntax` error without one when the script is too long.
pub fn prepare(language: Language, code: &str, max_bytes: usize) -> Result<Script, Box<ScriptError>> {
    if code.len() > max_bytes {
        let message = format!("the script has {} bytes, over the limit of {max_bytes}", code.len());
        return Err(syntax(message, 0, 0));
    }
    if code.trim().is_empty() {
        return Err(syntax("the script is empty".to_owned(), 0, 0));
    }
    match language {
        Language::Starlark => Ok(Script { language, code: code.to_owned(), positions: Positions::default() }),
        Language::Javascript => with_stack(code.len(), || javascript(code, max_bytes)),
    }
}

/// Runs `work` on a stack that nesting in `bytes` of code cannot exhaust.
fn with_stack(
    bytes: usize,
    work: impl FnOnce() -> Result<Script, Box<ScriptError>>,
) -> Result<Script, Box<ScriptError>> {
    let stack = STACK_BASE + bytes * STACK_PER_BYTE;
    // A panic is a bug of the parser, or means that there is no memory for the stack.
    let worked = catch_unwind(AssertUnwindSafe(|| stacker::grow(stack, work)));
    worked.unwrap_or_else(|_| Err(syntax("the script could not be parsed: the parser failed".to_owned(), 0, 0)))
}

fn javascript(script: &str, max_bytes: usize) -> Result<Script, Box<ScriptError>> {
    if let Some(line) = nesting::too_deep(script) {
        let message = "the code is nested too deeply: give inner parts names with `const`, or make functions of them";
        return Err(syntax(message.to_owned(), line, 1));
    }
    if let Some(at) = script.find('\0') {
        let (line, column) = position(script, at);
        return Err(syntax("the script contains a NUL character: write `\\0` in a string".to_owned(), line, column));
    }
    let code = without_marks(script);
    let allocator = Allocator::default();
    let mut positions = Positions { lines: 1, script: Some(line_lengths(&code)), ..Positions::default() };
    let plain_error = match parse(&allocator, &code, SourceType::mjs()) {
        Ok(program) => return check(wrap(&code, &program, positions)?),
        Err(error) => error,
    };
    // Not JavaScript, perhaps TypeScript. If neither, the error of the parse that got further is better.
    let further = |typed_error: Box<ScriptError>| {
        let is_further = (typed_error.line, typed_error.column) > (plain_error.line, plain_error.column);
        if is_further { typed_error } else { plain_error }
    };
    let (stripped, map) = match typescript::strip(&allocator, &code, max_bytes) {
        Ok(stripped) => stripped,
        Err(error) => return Err(further(error)),
    };
    positions.types = Some(map);
    let allocator = Allocator::default();
    match parse(&allocator, &stripped, SourceType::mjs()) {
        Ok(program) => check(wrap(&stripped, &program, positions)?),
        Err(mut error) => {
            (error.line, error.column) = positions.original(error.line + positions.lines, error.column);
            Err(further(error))
        }
    }
}

/// Drops the byte order mark and turns the `#!` line into a comment: in the wrapper neither would come first.
fn without_marks(script: &str) -> Cow<'_, str> {
    let script = script.strip_prefix('\u{feff}').unwrap_or(script);
    script.strip_prefix("#!").map_or(Cow::Borrowed(script), |rest| Cow::Owned(format!("//{rest}")))
}

/// Parses an ES module in which `return` is allowed at the top: the body of the function it becomes.
fn parse<'a>(allocator: &'a Allocator, code: &'a str, kind: SourceType) -> Result<Program<'a>, Box<ScriptError>> {
    parse_with(allocator, code, kind, ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() })
}

fn parse_with<'a>(
    allocator: &'a Allocator,
    code: &'a str,
    kind: SourceType,
    options: ParseOptions,
) -> Result<Program<'a>, Box<ScriptError>> {
    let parsed = Parser::new(allocator, code, kind).with_options(options).parse();
    match parsed.diagnostics.errors().next() {
        Some(error) => Err(diagnostic(code, error)),
        None if parsed.panicked => Err(syntax("the script does not parse".to_owned(), 1, 1)),
        None => Ok(parsed.program),
    }
}

/// Turns a script into the module's function.
fn wrap(code: &str, program: &Program<'_>, mut positions: Positions) -> Result<Script, Box<ScriptError>> {
    banned::check_modules(program).map_err(|(offset, message)| {
        let (line, column) = position(code, offset);
        let (line, column) = positions.original(line + positions.lines, column);
        syntax(message, line, column)
    })?;
    let mut insert = |at: u32, text: &str| {
        let (line, column) = position(code, at as usize);
        positions.inserted = Some((line, column, text.len() as u32));
        code.split_at(at as usize)
    };
    let wrapped = match (program.body.as_slice(), program.directives.last()) {
        ([Statement::ExpressionStatement(only)], _) if is_function(&only.expression) => {
            let (before, _) = insert(only.span.start, CALL.0);
            let function = &code[only.span.start as usize..only.expression.span().end as usize];
            format!("{OPEN}{before}{}{function}{}{CLOSE}", CALL.0, CALL.1)
        }
        (body, directive) => match value_start(body, directive) {
            Some(start) => {
                let (before, last) = insert(start, RETURN);
                format!("{OPEN}{before}{RETURN}{last}{CLOSE}")
            }
            None => format!("{OPEN}{code}{CLOSE}"),
        },
    };
    Ok(Script { language: Language::Javascript, code: wrapped, positions })
}

/// Start of the script's value: its last statement, if that is an expression.
fn value_start(body: &[Statement<'_>], directive: Option<&Directive<'_>>) -> Option<u32> {
    match (body, directive) {
        ([.., Statement::ExpressionStatement(last)], _) => Some(last.span.start),
        // A lone string is a directive to the parser and a value to its author.
        ([], Some(directive)) => Some(directive.span.start),
        _ => None,
    }
}

/// Parses the worker's code as its engine will: it must be a module of one function and nothing else.
fn check(script: Script) -> Result<Script, Box<ScriptError>> {
    let allocator = Allocator::default();
    let original = |mut error: Box<ScriptError>| {
        (error.line, error.column) = script.original(error.line, error.column);
        error
    };
    let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
    let program = parse_with(&allocator, &script.code, SourceType::mjs(), options).map_err(original)?;
    if !is_one_function(&program) {
        return Err(syntax("the script ends its own function: a `}` is too many".to_owned(), 1, 1));
    }
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).build(&program);
    banned::check(&program, semantic.semantic.scoping())
        .map_err(|(offset, message)| {
            let (line, column) = position(&script.code, offset);
            syntax(message, line, column)
        })
        .map_err(original)?;
    match semantic.diagnostics.errors().next() {
        Some(error) => Err(original(diagnostic(&script.code, error))),
        None => Ok(script),
    }
}

/// True if a module is only the wrapper: no code of the script has escaped from it.
fn is_one_function(program: &Program<'_>) -> bool {
    let [Statement::ExportDefaultDeclaration(export)] = program.body.as_slice() else { return false };
    let ExportDefaultDeclarationKind::ArrowFunctionExpression(function) = &export.declaration else { return false };
    program.directives.is_empty() && function.r#async && function.params.is_empty() && function.body.is_function_body()
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.get_inner_expression(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

fn diagnostic(code: &str, error: &OxcDiagnostic) -> Box<ScriptError> {
    let offset = error.labels.first().map_or(0, |label| label.offset());
    let (line, column) = position(code, offset as usize);
    let message = match &error.help {
        Some(help) => format!("{} ({help})", error.message),
        None => error.message.to_string(),
    };
    syntax(message, line, column)
}

/// Lengths of the lines in UTF-16 units.
fn line_lengths(code: &str) -> Vec<u32> {
    code.split('\n').map(|line| u32::try_from(line.encode_utf16().count()).unwrap_or(u32::MAX)).collect()
}

/// Line and column, from 1, of a byte offset; columns count UTF-16 units as engines do.
fn position(code: &str, offset: usize) -> (u32, u32) {
    let before = crate::text::head(code, offset);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].encode_utf16().count() + 1;
    (u32::try_from(line).unwrap_or(0), u32::try_from(column).unwrap_or(0))
}

/// Error of a script whose preparation failed in the gateway.
pub(crate) fn unprepared(why: &str) -> Box<ScriptError> {
    let mut error = syntax(why.to_owned(), 0, 0);
    error.kind = ScriptErrorKind::Internal;
    error
}

fn syntax(message: String, line: u32, column: u32) -> Box<ScriptError> {
    Box::new(ScriptError {
        kind: ScriptErrorKind::Syntax,
        message,
        line,
        column,
        trace: Vec::new(),
        call: None,
        error: None,
    })
}

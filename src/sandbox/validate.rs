//! Scripts before they reach a worker: parsed with the goal that the engine uses, banned syntax named early,
//! types stripped, wrapped into the module that the worker runs.
//!
//! This layer is for good errors. What it lets through, the engine and the process contain by themselves.

mod banned;
mod typescript;

use oxc_allocator::Allocator;
use oxc_ast::ast::{Expression, Program, Statement};
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan as _, SourceType};
use wire::{Language, ScriptError, ScriptErrorKind};

/// Opens the module's function; the script's first line is the module's second.
const OPEN: &str = "export default async () => {\n";
/// The same for a script that is one function.
const OPEN_FUNCTION: &str = "export default async () => { return await (\n";
/// Makes the last expression the value.
const RETURN: &str = "return ";
/// Stack for parsing, per byte of code: every byte could open a level of nesting, and a parser that runs out of
/// stack takes the process with it. Only touched pages cost memory.
const STACK_PER_BYTE: usize = 16 << 10;
/// Stack for parsing anything at all.
const STACK_BASE: usize = 4 << 20;

/// A script that is ready for a worker.
#[derive(Debug)]
pub struct Script {
    /// Its language.
    pub language: Language,
    /// What the worker gets.
    pub code: String,
    positions: Positions,
}

/// How positions in the worker's code lead back to the script.
#[derive(Debug, Default)]
struct Positions {
    /// Lines before the script's first.
    lines: u32,
    /// Where `return ` was inserted: line of the script from 1, column from 1.
    inserted: Option<(u32, u32)>,
    /// From stripped code to the script as written.
    types: Option<typescript::Map>,
}

impl Script {
    /// Line and column of the script as written, from 1, for a position that the worker reported; zeros stay zero.
    #[must_use]
    pub fn original(&self, line: u32, column: u32) -> (u32, u32) {
        let line = line.saturating_sub(self.positions.lines);
        let column = match self.positions.inserted {
            Some((l, c)) if l == line && column >= c + RETURN.len() as u32 => column - RETURN.len() as u32,
            _ => column,
        };
        match &self.positions.types {
            Some(map) if line > 0 => map.original(line, column),
            _ => (line, column),
        }
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
        Language::Javascript => with_stack(code.len(), || javascript(code)),
    }
}

/// Runs `work` on a stack that nesting in `bytes` of code cannot exhaust.
fn with_stack(
    bytes: usize,
    work: impl FnOnce() -> Result<Script, Box<ScriptError>> + Send,
) -> Result<Script, Box<ScriptError>> {
    let stack = STACK_BASE + bytes * STACK_PER_BYTE;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("parse".to_owned()).stack_size(stack).spawn_scoped(scope, work);
        let joined =
            thread.map_err(|error| error.to_string()).and_then(|t| t.join().map_err(|_| "it panicked".to_owned()));
        joined.unwrap_or_else(|error| Err(syntax(format!("the script could not be parsed: {error}"), 0, 0)))
    })
}

fn javascript(code: &str) -> Result<Script, Box<ScriptError>> {
    let allocator = Allocator::default();
    let plain = parse(&allocator, code, SourceType::mjs());
    let Err(plain_error) = plain else { return wrap(code, &plain?, None) };
    // Not JavaScript: perhaps TypeScript. If neither, the parse that got further tells more.
    match typescript::strip(&allocator, code) {
        Ok((stripped, map)) => {
            let allocator = Allocator::default();
            let program = parse(&allocator, &stripped, SourceType::mjs())?;
            wrap(&stripped, &program, Some(map))
        }
        Err(typed_error) => {
            let further = (typed_error.line, typed_error.column) > (plain_error.line, plain_error.column);
            Err(if further { typed_error } else { plain_error })
        }
    }
}

/// Parses an ES module in which `return` is allowed at the top: the body of the function it becomes.
fn parse<'a>(allocator: &'a Allocator, code: &'a str, kind: SourceType) -> Result<Program<'a>, Box<ScriptError>> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(allocator, code, kind).with_options(options).parse();
    match parsed.diagnostics.errors().next() {
        Some(error) => Err(diagnostic(code, error)),
        None if parsed.panicked => Err(syntax("the script does not parse".to_owned(), 0, 0)),
        None => Ok(parsed.program),
    }
}

fn wrap(code: &str, program: &Program<'_>, types: Option<typescript::Map>) -> Result<Script, Box<ScriptError>> {
    banned::check(code, program, types.as_ref())?;
    let mut positions = Positions { lines: 1, inserted: None, types };
    let wrapped = match program.body.as_slice() {
        [Statement::ExpressionStatement(only)] if is_function(&only.expression) => {
            let end = only.expression.span().end as usize;
            format!("{OPEN_FUNCTION}{}\n)()\n}}\n", &code[..end])
        }
        [.., Statement::ExpressionStatement(last)] => {
            let start = last.span.start as usize;
            let (line, column) = position(code, start);
            positions.inserted = Some((line, column));
            format!("{OPEN}{}{RETURN}{}\n}}\n", &code[..start], &code[start..])
        }
        _ => format!("{OPEN}{code}\n}}\n"),
    };
    Ok(Script { language: Language::Javascript, code: wrapped, positions })
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.get_inner_expression(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

fn diagnostic(code: &str, error: &OxcDiagnostic) -> Box<ScriptError> {
    let offset = error.labels.first().map(|label| label.offset());
    let (line, column) = offset.map_or((0, 0), |offset| position(code, offset as usize));
    let message = match &error.help {
        Some(help) => format!("{} ({help})", error.message),
        None => error.message.to_string(),
    };
    syntax(message, line, column)
}

/// Line and column, from 1, of a byte offset; columns count UTF-16 units as engines do.
fn position(code: &str, offset: usize) -> (u32, u32) {
    let before = crate::discovery::head(code, offset);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before[start..].encode_utf16().count() + 1;
    (u32::try_from(line).unwrap_or(0), u32::try_from(column).unwrap_or(0))
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

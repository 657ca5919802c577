//! Starlark: the language of starlark-rust with the script API, in a fresh module for every run.

mod builtins;
mod convert;
mod errors;
mod format;
mod namespace;
mod natives;
mod nesting;
mod number;
mod parallel;
mod python;
mod session;
mod shape;
mod text;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use starlark::codemap::FileSpanRef;
use starlark::environment::{Globals, Module};
use starlark::eval::{BeforeStmtFunc, BeforeStmtFuncDyn, Evaluator};
use starlark::syntax::{AstModule, Dialect, DialectTypes, ast};
use starlark::values::Value;
use starlark::values::dict::DictRef;
use wire::{EngineInfo, EngineName, Json, Language, Run, ScriptError, ScriptErrorKind};

use self::namespace::Namespace;
pub(crate) use self::python::{FORMAT, Places, TEXT};
use self::python::{Part, rewrite};
use self::session::Session;
use crate::engine::{Engine, SharedHost, no_json_error, result_json};
use crate::explain::{FailedScript, explain};
use crate::watchdog::Interrupt;

/// Version of the dependency, which has no function for it.
const VERSION: &str = "0.14";
/// Integers below it are their doubles.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;
/// Most nested calls of Starlark functions.
const CALL_DEPTH: usize = 200;

/// The parser's words about an annotation, and what to write instead.
const OF_TYPES: &str = "not allowed in type expression";
const TYPES: &str =
    "write a type without quotes or calls: `str`, `list[str]`, `dict[str, int]`, `str | None`, `typing.Any`";

const DIALECT: Dialect = Dialect {
    enable_load: false,
    enable_load_reexport: false,
    enable_keyword_only_arguments: true,
    enable_positional_only_arguments: true,
    enable_types: DialectTypes::ParseOnly,
    enable_top_level_stmt: true,
    enable_f_strings: true,
    ..Dialect::Standard
};

/// The Starlark engine.
pub(crate) struct Starlark {
    interrupt: Arc<Interrupt>,
    globals: Globals,
    /// Compiles `*` and `%` to functions that refuse results over the heap.
    operators: HashMap<String, String>,
    heap_bytes: usize,
}

impl Starlark {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> Self {
        let operators =
            [natives::MULTIPLY, natives::PERCENT].map(|operator| (operator.to_owned(), operator.to_owned()));
        let operators = HashMap::from(operators);
        Self { interrupt, globals: natives::globals(), operators, heap_bytes: 0 }
    }
}

impl Engine for Starlark {
    fn info(&self) -> EngineInfo {
        EngineInfo { language: Language::Starlark, engine: EngineName::Starlark, version: VERSION.to_owned() }
    }

    fn prepare(&mut self) {
        // A module takes microseconds.
    }

    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
        let session = Session::new(host, &self.interrupt, run);
        let result = self.run_in(&session, run);
        let answers = session.shapes();
        let script = FailedScript { code: &run.code, is_javascript: false, servers: &run.servers, answers: &answers };
        result.map_err(|error| explain(&script, error))
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes as u64
    }
}

impl Starlark {
    fn run_in(&mut self, session: &Session, run: &Run) -> Result<Json, ScriptError> {
        let Script { mut ast, places } = parse(&run.code)?;
        ast.replace_binary_operators(&self.operators);
        Module::with_temp_heap(|module| {
            for server in &run.servers {
                if !self.globals.names().any(|name| name.as_str() == server.ident) {
                    module.set(&server.ident, module.heap().alloc(Namespace::server(&server.ident, &server.name)));
                }
            }
            let result = evaluate(run, (ast, &places), &module, &self.globals, session);
            session.tell_unseen(&run.code);
            self.heap_bytes = module.heap().peak_allocated_bytes();
            result
        })
    }
}

/// True for a name that every script has.
pub(crate) fn is_global(name: &str) -> bool {
    static GLOBALS: OnceLock<Globals> = OnceLock::new();
    GLOBALS.get_or_init(natives::globals).names().any(|global| global.as_str() == name)
}

/// The tree of a script, and the way from its places to those of the script.
pub(crate) struct Script {
    pub(crate) ast: AstModule,
    pub(crate) places: Places,
}

/// Parses a script, or else what it is as Starlark.
///
/// # Errors
/// A `Syntax` error with its place.
pub(crate) fn parse(code: &str) -> Result<Script, ScriptError> {
    let parsed = parse_text(code, code, Vec::new());
    // A format with a colon parses, and would fail when it runs; a field of an f-string would round a float.
    if parsed.is_ok() && ![".format(", "f\"", "f'"].iter().any(|form| code.contains(form)) {
        return parsed;
    }
    // A text that nests too deeply is not looked at again.
    let rewritten = if nesting::too_deep(code).is_none() { rewrite(code) } else { None };
    let again = rewritten.map(|(text, parts)| parse_text(code, &text, parts));
    again.filter(|again| again.is_ok() || parsed.is_err()).unwrap_or(parsed)
}

/// Parses `text`, which has these parts of `code`.
fn parse_text(code: &str, text: &str, parts: Vec<Part>) -> Result<Script, ScriptError> {
    if let Some(line) = nesting::too_deep(text) {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        return Err(ScriptError { line, ..ScriptError::new(ScriptErrorKind::Syntax, "the code is nested too deeply") });
    }
    let script = FailedScript { code, is_javascript: false, servers: &[], answers: &[] };
    let places = Places::new(code, parts);
    let parsed = AstModule::parse(errors::SCRIPT_NAME, text.to_owned(), &DIALECT);
    let parsed = parsed.map_err(|error| {
        let error = explain(&script, errors::script_error(&error, &places));
        let is_of_types = error.message.contains(OF_TYPES);
        let fix = error.fix.or_else(|| is_of_types.then(|| TYPES.to_owned()));
        // Some of what the parser refuses has another kind.
        ScriptError { kind: ScriptErrorKind::Syntax, fix, ..error }
    });
    Ok(Script { ast: parsed?, places })
}

fn evaluate<'v>(
    run: &Run,
    (ast, places): (AstModule, &Places),
    module: &Module<'v>,
    globals: &Globals,
    session: &Session,
) -> Result<Json, ScriptError> {
    let calls_main = calls_main(ast.statement());
    let mut has_guard = false;
    ast.statement().visit_stmt(|statement| {
        has_guard |= matches!(&statement.node, ast::StmtP::If(test, body) if is_guard(test, body));
    });
    if has_guard {
        module.set("__name__", Value::new_none());
    }
    let mut eval = Evaluator::new(module);
    eval.extra = Some(session);
    eval.set_check_cancelled(Box::new(|| session.is_over(module.heap())));
    eval.before_stmt_for_dap(BeforeStmtFunc::from_dyn(Box::new(CheckLimits)));
    let value = eval
        .set_max_callstack_size(CALL_DEPTH)
        .map_err(starlark::Error::from)
        .and_then(|()| eval.eval_module(ast, globals))
        .and_then(|last| match &run.args {
            Some(args) => value_of_main(args, session, &mut eval),
            None => result_value(last, calls_main, &mut eval),
        });
    let value = value.map_err(|error| errors::run_error(run, &error, places, session, module.heap()))?;
    let max_bytes = usize::try_from(run.limits.result_bytes).unwrap_or(usize::MAX);
    let json = convert::to_json(value, module.heap(), max_bytes).map_err(|error| {
        let message = format!("the result cannot be returned: {error}");
        match error.is::<convert::TooLarge>() {
            true => ScriptError::new(ScriptErrorKind::Result, message),
            false => no_json_error(message),
        }
    })?;
    result_json(run, json)
}

/// The global `result`, else the value of `main`, else that of the last expression.
fn result_value<'v>(
    last: Value<'v>,
    calls_main: bool,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    if let Some(result) = eval.module().get("result") {
        return Ok(result);
    }
    match eval.module().get("main") {
        // A script that calls `main` itself must not run it twice.
        Some(main) if !calls_main && main.parameters_spec().is_some() => eval.eval_function(main, &[], &[]),
        _ => Ok(last),
    }
}

/// The value of `main`, called with the arguments of the run.
fn value_of_main<'v>(args: &Json, session: &Session, eval: &mut Evaluator<'v, '_, '_>) -> starlark::Result<Value<'v>> {
    let main = eval.module().get("main").filter(|main| main.parameters_spec().is_some());
    let main = main.ok_or_else(|| {
        starlark::Error::new_native(anyhow::anyhow!("the script has no function `main` that takes the arguments"))
    })?;
    let args = session.read_json(args.get(), eval.heap())?;
    let named = DictRef::from_value(args).ok_or_else(|| anyhow::anyhow!("the arguments are not an object"))?;
    let named: Vec<_> = named.iter().filter_map(|(name, value)| Some((name.unpack_str()?, value))).collect();
    eval.eval_function(main, &[], &named)
}

/// True if the script's top level, outside functions, names `main`.
pub(crate) fn calls_main(statement: &ast::AstStmt) -> bool {
    match &statement.node {
        ast::StmtP::Def(_) => false,
        ast::StmtP::If(test, body) if is_guard(test, body) => false,
        ast::StmtP::Statements(statements) => statements.iter().any(calls_main),
        _ => {
            let mut found = false;
            statement.visit_expr(|expression| found |= names_main(expression));
            found
        }
    }
}

/// True for `if __name__ == "__main__":` with a call of `main` alone, as in `asyncio.run(main())`: the engine makes it.
fn is_guard(test: &ast::AstExpr, body: &ast::AstStmt) -> bool {
    let body = match &body.node {
        ast::StmtP::Statements(statements) if statements.len() == 1 => &statements[0],
        _ => body,
    };
    let is_name = |name: &ast::AstExpr| matches!(&name.node, ast::ExprP::Identifier(it) if it.node.ident == "__name__");
    matches!(&test.node, ast::ExprP::Op(left, ast::BinOp::Equal, _) if is_name(left))
        && matches!(&body.node, ast::StmtP::Expression(call) if names_main(call))
}

fn names_main(expression: &ast::AstExpr) -> bool {
    if let ast::ExprP::Identifier(name) = &expression.node {
        return name.node.ident == "main";
    }
    let mut found = false;
    expression.visit_expr(|child| found |= names_main(child));
    found
}

/// Checks the limits before every statement. The evaluator itself checks every thousand calls and loop iterations,
/// which is too late for statements that double a value.
struct CheckLimits;

impl<'e> BeforeStmtFuncDyn<'e> for CheckLimits {
    fn call<'v>(
        &mut self,
        _span: FileSpanRef<'_>,
        _continued: bool,
        eval: &mut Evaluator<'v, '_, 'e>,
    ) -> starlark::Result<()> {
        Session::of(eval)?.check(eval.heap()).map_err(starlark::Error::new_native)
    }
}

//! Compiles text to bytecode, and creates the runtimes for both.

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::context::intrinsic::{Eval, RegExpCompiler};
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Error, Module, Runtime, WriteOptions};
use wire::{ScriptError, ScriptErrorKind};

use super::super::report;
use super::memory::{Counted, Heap};
use crate::watchdog::Interrupt;

/// Native stack of a script.
const STACK: usize = 2 << 20;
/// Memory for compiling a script. Scripts are 64 KiB of text at most.
const COMPILER_HEAP: usize = 64 << 20;

/// Bytecode of a module. Constants stay in it when it is loaded, so it must outlive the realm.
pub(super) type Bytecode = Rc<[u8]>;

/// Compiles text to bytecode.
pub(super) struct Compiler {
    context: Context,
    heap: Rc<Heap>,
}

impl Compiler {
    pub(super) fn new(interrupt: &Arc<Interrupt>) -> rquickjs::Result<Self> {
        let heap = Heap::with_limit(COMPILER_HEAP).ok_or(Error::Allocation)?;
        let runtime = new_runtime(interrupt, &heap)?;
        let compiler = Self { context: Context::custom::<(Eval, RegExpCompiler)>(&runtime)?, heap };
        compiler.heap.save();
        Ok(compiler)
    }

    /// Makes it as new again.
    pub(super) fn restore(&mut self) {
        #[expect(unsafe_code, reason = "no call is active, and all that is left of its work is a copy of bytecode")]
        unsafe {
            self.heap.restore();
        }
        self.heap.set_limit(COMPILER_HEAP);
    }

    pub(super) fn compile(&self, name: &str, source: &str) -> Result<Bytecode, ScriptError> {
        self.context.with(|ctx| {
            let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
            let compiled = Module::declare(ctx.clone(), name, source).and_then(|module| module.write(options));
            compiled.catch(&ctx).map(Bytecode::from).map_err(|error| syntax_error(&error))
        })
    }
}

/// A runtime with an interrupt and a heap limit.
pub(super) fn new_runtime(interrupt: &Arc<Interrupt>, heap: &Rc<Heap>) -> rquickjs::Result<Runtime> {
    let runtime = Runtime::new_with_alloc(Counted(Rc::clone(heap)))?;
    runtime.set_max_stack_size(STACK);
    runtime.set_loader(NoImports, NoImports);
    let (interrupt, heap) = (Arc::clone(interrupt), Rc::clone(heap));
    runtime.set_interrupt_handler(Some(Box::new(move || interrupt.is_raised() || heap.is_used_up())));
    Ok(runtime)
}

/// Refuses every import; without it QuickJS resolves those of modules loaded already.
struct NoImports;

impl Resolver for NoImports {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        Err(Error::new_resolving_message(base, name, "a script cannot import modules"))
    }
}

impl Loader for NoImports {
    fn load<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Err(Error::new_loading_message(name, "a script cannot import modules"))
    }
}

fn syntax_error(error: &CaughtError<'_>) -> ScriptError {
    let (message, stack) = match error {
        CaughtError::Exception(exception) => {
            (exception.message().unwrap_or_default(), exception.stack().unwrap_or_default())
        }
        other => (other.to_string(), String::new()),
    };
    let (line, column, _) = report::position(&stack);
    ScriptError { line, column, ..ScriptError::new(ScriptErrorKind::Syntax, format!("SyntaxError: {message}")) }
}

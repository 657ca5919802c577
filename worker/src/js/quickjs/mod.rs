//! JavaScript on QuickJS.
//!
//! A realm has no Eval intrinsic: code is compiled to bytecode in another runtime and loaded, so that nothing in the
//! script's reach can make code from a string.

mod memory;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use rquickjs::context::intrinsic::{
    Date, Eval, Json as JsonIntrinsic, MapSet, Promise, Proxy, RegExp, RegExpCompiler, TypedArrays, WeakRef,
};
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Error, Function, IntoJs, Module, Object, Persistent, Runtime, Value,
    WriteOptions,
};
use wire::{EngineInfo, Json, Language, Run, ScriptError, ScriptErrorKind};

use self::memory::{Counted, Heap};
use super::port::Port;
use super::{PRELUDE, PRELUDE_NAME, Realm, SCRIPT_NAME, drive, report};
use crate::engine::{Engine, SharedHost, cpu_error, heap_error, script_error};
use crate::watchdog::Interrupt;

/// Native stack that a script may use.
const STACK: usize = 2 << 20;
/// Rejections kept for the report; a storm of them needs no more.
const MAX_REJECTIONS: usize = 100;
/// Memory to compile a script in. Scripts are 64 KiB of text at most.
const COMPILER_HEAP: usize = 64 << 20;

/// The QuickJS engine.
pub(crate) struct QuickJs {
    interrupt: Arc<Interrupt>,
    prelude: Bytecode,
    ready: Option<Scope>,
    heap_bytes: u64,
}

impl QuickJs {
    pub(crate) fn new(interrupt: Arc<Interrupt>) -> anyhow::Result<Self> {
        let compiler = Compiler::new(&interrupt).context("QuickJS compiler")?;
        let prelude = compiler.compile(PRELUDE_NAME, PRELUDE).map_err(|error| anyhow::anyhow!("prelude: {error:?}"))?;
        Ok(Self { interrupt, prelude, ready: None, heap_bytes: 0 })
    }

    fn scope(&mut self) -> Result<Scope, ScriptError> {
        let made = match self.ready.take() {
            Some(scope) => Ok(scope),
            None => Scope::new(&self.interrupt, &self.prelude),
        };
        made.map_err(|error| script_error(ScriptErrorKind::Internal, format!("QuickJS does not start: {error:#}")))
    }
}

impl Engine for QuickJs {
    fn info(&self) -> EngineInfo {
        #[expect(unsafe_code, reason = "answers a static string")]
        let version = unsafe { std::ffi::CStr::from_ptr(rquickjs::qjs::JS_GetVersion()) };
        let version = version.to_string_lossy().into_owned();
        EngineInfo { language: Language::Javascript, engine: "quickjs".to_owned(), version }
    }

    fn prepare(&mut self) {
        if self.ready.is_none() {
            // An error shows again, and is reported, when the run makes its own.
            self.ready = Scope::new(&self.interrupt, &self.prelude).ok();
        }
    }

    fn run(&mut self, run: &Run, host: &SharedHost) -> Result<Json, ScriptError> {
        let mut scope = self.scope()?;
        scope.heap.set_limit(usize::try_from(run.limits.heap_bytes).unwrap_or(usize::MAX));
        scope.port.connect(host);
        let result = scope.start(run).and_then(|()| {
            let port = Rc::clone(&scope.port);
            drive(&mut Turn { scope: &mut scope, run }, &port, run, host)
        });
        self.heap_bytes = scope.heap.peak() as u64;
        result
    }

    fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }
}

/// Bytecode of a module. Constants stay in it when it is loaded, so it must outlive the realm.
type Bytecode = Rc<[u8]>;

/// Where text becomes bytecode.
struct Compiler {
    context: Context,
}

impl Compiler {
    fn new(interrupt: &Arc<Interrupt>) -> rquickjs::Result<Self> {
        let runtime = new_runtime(interrupt, &Heap::with_limit(COMPILER_HEAP))?;
        Ok(Self { context: Context::custom::<(Eval, RegExpCompiler)>(&runtime)? })
    }

    fn compile(&self, name: &str, source: &str) -> Result<Bytecode, ScriptError> {
        self.context.with(|ctx| {
            let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
            let compiled = Module::declare(ctx.clone(), name, source).and_then(|module| module.write(options));
            compiled.catch(&ctx).map(Bytecode::from).map_err(|error| syntax_error(&error))
        })
    }
}

fn new_runtime(interrupt: &Arc<Interrupt>, heap: &Rc<Heap>) -> rquickjs::Result<Runtime> {
    let runtime = Runtime::new_with_alloc(Counted(Rc::clone(heap)))?;
    runtime.set_max_stack_size(STACK);
    runtime.set_loader(NoImports, NoImports);
    let (interrupt, heap) = (Arc::clone(interrupt), Rc::clone(heap));
    runtime.set_interrupt_handler(Some(Box::new(move || interrupt.is_raised() || heap.is_used_up())));
    Ok(runtime)
}

/// Refuses every import; without it QuickJS answers those of modules that are loaded already.
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
    ScriptError { line, column, ..script_error(ScriptErrorKind::Syntax, format!("SyntaxError: {message}")) }
}

/// A fresh global scope. Fields are dropped in order: values before the context, the context before the runtime.
struct Scope {
    bridge: Bridge,
    rejections: Rejections,
    port: Rc<Port>,
    compiler: Compiler,
    context: Context,
    runtime: Runtime,
    heap: Rc<Heap>,
    interrupt: Arc<Interrupt>,
    /// Read in place by the realm.
    code: Vec<Bytecode>,
}

/// Promises that were rejected while nothing handled them, with their reasons.
type Rejections = Rc<RefCell<Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>>>;

/// The prelude's functions for the host.
struct Bridge {
    run: Persistent<Function<'static>>,
    deliver: Persistent<Function<'static>>,
    fire: Persistent<Function<'static>>,
    expose: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        // The runtime holds the other half of this list.
        self.rejections.borrow_mut().clear();
    }
}

impl Scope {
    fn new(interrupt: &Arc<Interrupt>, prelude: &Bytecode) -> anyhow::Result<Self> {
        type Intrinsics = (Date, RegExpCompiler, RegExp, JsonIntrinsic, Proxy, MapSet, TypedArrays, Promise, WeakRef);
        let heap = Heap::with_limit(usize::MAX);
        let runtime = new_runtime(interrupt, &heap)?;
        let context = Context::custom::<Intrinsics>(&runtime)?;
        let port = Rc::new(Port::default());
        let rejections = Rejections::default();
        track_rejections(&runtime, &rejections);
        let bridge = context.with(|ctx| {
            let made = load(&ctx, prelude).and_then(|install| {
                let install = Function::from_value(install)?;
                let api: Object<'_> = install.call((host_object(&ctx, &port)?,))?;
                api.get::<_, Function<'_>>("lock")?.call::<_, ()>(())?;
                Bridge::new(&ctx, &api)
            });
            made.catch(&ctx).map_err(|error| anyhow::anyhow!("{error}"))
        })?;
        let compiler = Compiler::new(interrupt)?;
        Ok(Self {
            bridge,
            rejections,
            port,
            compiler,
            context,
            runtime,
            heap,
            interrupt: Arc::clone(interrupt),
            code: vec![Rc::clone(prelude)],
        })
    }

    /// Compiles and loads the script, and calls its function.
    fn start(&mut self, run: &Run) -> Result<(), ScriptError> {
        let code = self.compiler.compile(SCRIPT_NAME, &run.code)?;
        self.code.push(Rc::clone(&code));
        let servers = serde_json::to_string(&run.servers).unwrap_or_else(|_| "[]".to_owned());
        self.enter(run, |ctx, bridge| {
            bridge.expose.clone().restore(ctx)?.call::<_, ()>((servers,))?;
            let main = load(ctx, &code)?;
            bridge.run.clone().restore(ctx)?.call::<_, Value<'_>>((main,)).map(drop)
        })
    }

    /// Calls into the realm; an error that comes out is a limit, or a defect.
    fn enter<R>(
        &self,
        run: &Run,
        call: impl for<'js> FnOnce(&Ctx<'js>, &Bridge) -> rquickjs::Result<R>,
    ) -> Result<R, ScriptError> {
        self.context.with(|ctx| call(&ctx, &self.bridge).catch(&ctx).map_err(|error| self.escaped(run, &ctx, &error)))
    }

    fn escaped<'js>(&self, run: &Run, ctx: &Ctx<'js>, error: &CaughtError<'js>) -> ScriptError {
        if let Some(stopped) = self.stopped(run) {
            return stopped;
        }
        let text = error.to_string();
        let described = match error {
            CaughtError::Exception(exception) => self.describe(ctx, exception.as_object().as_value().clone()),
            CaughtError::Value(value) => self.describe(ctx, value.clone()),
            CaughtError::Error(_) => None,
        };
        match described {
            Some(report) => report::script_error(run, &report),
            None => script_error(ScriptErrorKind::Script, text),
        }
    }

    /// Why execution was stopped, if it was.
    fn stopped(&self, run: &Run) -> Option<ScriptError> {
        if self.heap.is_used_up() {
            Some(heap_error(run))
        } else if self.interrupt.is_raised() {
            Some(cpu_error(run))
        } else {
            None
        }
    }

    fn describe<'js>(&self, ctx: &Ctx<'js>, error: Value<'js>) -> Option<String> {
        self.bridge.describe.clone().restore(ctx).and_then(|describe| describe.call((error,))).ok()
    }
}

impl Bridge {
    fn new<'js>(ctx: &Ctx<'js>, api: &Object<'js>) -> rquickjs::Result<Self> {
        let function = |name: &str| Ok::<_, Error>(Persistent::save(ctx, api.get::<_, Function<'js>>(name)?));
        Ok(Self {
            run: function("run")?,
            deliver: function("deliver")?,
            fire: function("fire")?,
            expose: function("expose")?,
            describe: function("describe")?,
        })
    }
}

/// Loads a module from bytecode, evaluates it and answers its default export.
fn load<'js>(ctx: &Ctx<'js>, code: &Bytecode) -> rquickjs::Result<Value<'js>> {
    #[expect(unsafe_code, reason = "the bytes were written by this process' own compiler and outlive the realm")]
    let module = unsafe { Module::load(ctx.clone(), code) }?;
    let (module, evaluated) = module.eval()?;
    // An error of the evaluation is in the promise; one that is pending waits for a top-level `await`.
    if let Some(result) = evaluated.result::<Value<'js>>() {
        result?;
    }
    module.get("default")
}

fn host_object<'js>(ctx: &Ctx<'js>, port: &Rc<Port>) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    let own = Rc::clone(port);
    let send = move |ctx: Ctx<'js>, op: String| -> rquickjs::Result<Value<'js>> {
        match own.send(&op) {
            Ok(call) => call.into_js(&ctx),
            Err(error) => error.into_js(&ctx),
        }
    };
    host.set("send", Function::new(ctx.clone(), send)?)?;
    let own = Rc::clone(port);
    host.set("output", Function::new(ctx.clone(), move |is_error: bool, text: String| own.output(is_error, &text))?)?;
    let own = Rc::clone(port);
    host.set("timer", Function::new(ctx.clone(), move |id: u32, ms: f64| own.timer(id, ms))?)?;
    let own = Rc::clone(port);
    host.set("settle", Function::new(ctx.clone(), move |ok: bool, text: String| own.settle(ok, text))?)?;
    Ok(host)
}

fn track_rejections(runtime: &Runtime, rejections: &Rejections) {
    let rejections = Rc::clone(rejections);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
        let promise = Persistent::save(&ctx, promise);
        let mut list = rejections.borrow_mut();
        if handled {
            list.retain(|(rejected, _)| *rejected != promise);
        } else if list.len() < MAX_REJECTIONS {
            list.push((promise, Persistent::save(&ctx, reason)));
        }
    })));
}

/// A scope whose script is running.
struct Turn<'a> {
    scope: &'a mut Scope,
    run: &'a Run,
}

impl Realm for Turn<'_> {
    fn drain(&mut self) -> Result<(), ScriptError> {
        loop {
            let ran = self.scope.runtime.execute_pending_job();
            if let Some(stopped) = self.scope.stopped(self.run) {
                return Err(stopped);
            }
            match ran {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failed) => {
                    return Err(failed.0.with(|ctx| {
                        let error = CaughtError::from_error(&ctx, Error::Exception);
                        self.scope.escaped(self.run, &ctx, &error)
                    }));
                }
            }
        }
    }

    fn deliver(&mut self, call: u64, ok: bool, json: &str) -> Result<(), ScriptError> {
        self.scope.enter(self.run, |ctx, bridge| bridge.deliver.clone().restore(ctx)?.call((call, ok, json)))
    }

    fn fire(&mut self, timer: u32) -> Result<(), ScriptError> {
        self.scope.enter(self.run, |ctx, bridge| bridge.fire.clone().restore(ctx)?.call((timer,)))
    }

    fn unhandled(&mut self) -> Option<String> {
        let (_, reason) = self.scope.rejections.borrow().first().cloned()?;
        self.scope.context.with(|ctx| reason.restore(&ctx).ok().and_then(|reason| self.scope.describe(&ctx, reason)))
    }
}
